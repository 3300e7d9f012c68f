//! Loads policies as the operator does: through the same gates, into the same engine, with the same limits.

use std::{fs, path::Path, sync::Arc, sync::OnceLock};

use serde_json::{Map, Value};
use tanist_core::policy::Point;
use tanist_engine::{Engine, Interpreter, Layer, LoadError, Policy};

use crate::error::{Error, Place};

/// Gives the interpreter of scripts.
pub type FindInterpreter = Box<dyn Fn() -> Result<Interpreter, LoadError>>;

/// Gives a built-in policy by its name. `None`: there is no such policy.
pub type FindBuiltin = Box<dyn Fn(&Engine, &str) -> Option<Builtin>>;

/// What is built in under a name.
pub enum Builtin {
    /// A component, and what came of loading it.
    Component(Result<Policy, LoadError>),
    /// A script, which is loaded when it is used.
    Script {
        /// Its file, as errors call it.
        file: &'static str,
        /// The source text of the script, in Starlark.
        text: &'static str,
    },
}

/// What the host brings: its engine, its interpreter of scripts, its built-in policies.
pub struct Tools {
    engine: Engine,
    interpreter: FindInterpreter,
    builtin: FindBuiltin,
    /// Asked for once, and only when there is a script.
    found: OnceLock<Interpreter>,
}

impl Tools {
    /// The tools of a host. `interpreter` is called when the first script is loaded.
    #[must_use]
    pub fn new(engine: Engine, interpreter: FindInterpreter, builtin: FindBuiltin) -> Self {
        Self { engine, interpreter, builtin, found: OnceLock::new() }
    }

    /// The engine of components, with the limits of every policy.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Loads a policy file: a script if its name ends with `.star`, a component otherwise.
    ///
    /// # Errors
    /// It cannot be read, or the policy is refused.
    pub fn load(&self, path: &Path) -> Result<Policy, Error> {
        let bytes = read(path)?;
        self.load_bytes(path, &bytes).map_err(|error| Error::Load { file: path.display().to_string(), error })
    }

    /// Loads the bytes of a policy file.
    ///
    /// # Errors
    /// The policy is refused.
    pub fn load_bytes(&self, path: &Path, bytes: &[u8]) -> Result<Policy, LoadError> {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        self.load_from(&format!("file/{name}"), path, bytes)
    }

    /// The same from another source than a file, for instance `configmap/rules/mine.star`.
    ///
    /// # Errors
    /// The policy is refused.
    pub fn load_from(&self, source: &str, path: &Path, bytes: &[u8]) -> Result<Policy, LoadError> {
        if !is_script(path) {
            return Policy::load(&self.engine, source, bytes);
        }
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let text = std::str::from_utf8(bytes).map_err(|error| LoadError::Script(not_text(&name, bytes, error)))?;
        Policy::script(self.interpreter()?, source, text)
    }

    /// The interpreter of scripts.
    ///
    /// # Errors
    /// This program has none, or this machine cannot run it.
    pub fn interpreter(&self) -> Result<&Interpreter, LoadError> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let found = (self.interpreter)()?;
        Ok(self.found.get_or_init(|| found))
    }

    /// A built-in policy.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn builtin(&self, name: &str, place: &Place) -> Result<Policy, Error> {
        let loaded = match (self.builtin)(&self.engine, name) {
            Some(Builtin::Component(loaded)) => loaded,
            Some(Builtin::Script { file, text }) => {
                let script = self.interpreter().and_then(|interpreter| Policy::script(interpreter, file, text));
                script.map(|policy| policy.from_source(&format!("builtin/{name}")))
            }
            None => {
                let message = format!("there is no built-in policy {name}");
                return Err(Error::Wrong { place: place.clone(), message });
            }
        };
        loaded.map_err(|error| Error::Load { file: format!("builtin/{name}"), error })
    }
}

/// Whether a file is a script, by its name.
#[must_use]
pub fn is_script(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "star")
}

/// Reads a file.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

/// A policy with its parameters, as a group would use it.
///
/// # Errors
/// The parameters do not fit its schema.
pub fn layer(
    policy: Arc<Policy>,
    parameters: &Map<String, Value>,
    points: Option<Vec<Point>>,
    place: &Place,
) -> Result<Layer, Error> {
    let parameters = policy.validate(&Value::Object(parameters.clone()).to_string()).map_err(|error| {
        Error::Parameters { place: place.clone(), policy: policy.name().to_string(), message: error.to_string() }
    })?;
    Ok(Layer { policy, points, parameters })
}

/// Where a script is not text.
pub(crate) fn not_text(file: &str, bytes: &[u8], error: std::str::Utf8Error) -> tanist_core::contract::Fault {
    let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
    let line = before.iter().filter(|byte| **byte == b'\n').count().saturating_add(1);
    tanist_core::contract::Fault {
        message: "the script is not UTF-8 here; save it as UTF-8".to_owned(),
        location: Some(tanist_core::contract::Location {
            file: file.to_owned(),
            line: u32::try_from(line).unwrap_or(0),
            column: 0,
        }),
    }
}
