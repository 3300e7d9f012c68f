//! Policies that are scripts: an interpreter, itself a policy component, runs their text.
//!
//! A question about a script is a question to the interpreter: a new instance under every limit, `load` with the text, then the point. The interpreter is
//! pre-initialised when it is built, so that an instance begins where the text is parsed (policies/starlark). It ships with the operator; its size is not
//! limited as that of a policy is, everything else about it is.

use std::{fmt, sync::Arc};

use tanist_core::policy::Point;
use wasmtime::{
    Store,
    component::{Component, ComponentExportIndex, Instance, InstancePre},
};

use crate::{
    authoring::Tools,
    bindings::exports::tanist::policy::{interpreter, types as wit},
    compiled::{precompile, refused},
    convert,
    error::{LoadError, RunError, SetupError},
    limits::Limits,
    native,
    policy::{Compiled, Engine, Points, Policy, digest, function},
    sandbox::{self, Sandbox},
    schema::Schema,
    text::{MESSAGE, short},
};

/// The interpreter of scripts, loaded once. Clones share it.
#[derive(Clone)]
pub struct Interpreter(Arc<Loaded>);

struct Loaded {
    engine: Engine,
    pre: InstancePre<Sandbox>,
    points: Points,
    load: ComponentExportIndex,
    notes: Option<ComponentExportIndex>,
    tools: Option<Tools>,
}

impl Interpreter {
    /// Compiles the interpreter for every machine of a kind, with the instructions alone that all its processors have; `None`: for this machine.
    /// What comes out is for [`Interpreter::from_compiled`] of the same version of the engine. It takes seconds.
    ///
    /// # Errors
    /// The bytes are no component, or the target is unknown.
    pub fn compile(target: Option<&str>, bytes: &[u8]) -> Result<Vec<u8>, LoadError> {
        let mut config = sandbox::config_of_interpreter(&Limits::default().of_interpreter());
        if let Some(target) = target {
            config.target(target).map_err(|error| refused(&error))?;
        }
        precompile(&config, bytes)
    }

    /// Loads the interpreter from what [`Interpreter::compile`] returned; this takes milliseconds. `limits` are those of every policy.
    ///
    /// `compiled` is native code, and is run as it is: it must be a part of this program's own file, or come from a process that this one started
    /// itself.
    ///
    /// # Errors
    /// [`LoadError::Compiled`] when another version of the engine compiled it, or it is no such interpreter.
    pub fn from_compiled(limits: Limits, compiled: &[u8]) -> Result<Self, LoadError> {
        let engine = engine(limits).map_err(|error| LoadError::Compile(error.to_string()))?;
        let component = native::adopt(engine.runtime(), compiled)?;
        Self::of(engine, &component)
    }

    /// Compiles and loads the interpreter; this takes seconds. `limits` are those of every policy.
    ///
    /// # Errors
    /// The bytes are no component with the contract's `interpreter`.
    pub fn load(limits: Limits, bytes: &[u8]) -> Result<Self, LoadError> {
        let engine = engine(limits).map_err(|error| LoadError::Compile(error.to_string()))?;
        let component = Component::from_binary(engine.runtime(), bytes).map_err(|error| refused(&error))?;
        Self::of(engine, &component)
    }

    /// The interpreter of a compiled component.
    fn of(engine: Engine, component: &Component) -> Result<Self, LoadError> {
        // Nothing is linked: a component that imports a function fails here.
        let pre = engine.linker().instantiate_pre(component).map_err(|error| refused(&error))?;
        let wrong = |error: wasmtime::Error| LoadError::Type {
            interface: "tanist:policy/interpreter".to_owned(),
            message: short(&format!("{error:#}"), MESSAGE),
        };
        let indices = interpreter::GuestIndices::new(&pre).map_err(wrong)?;
        let _ticking = engine.ticking();
        let mut store =
            sandbox::store(engine.runtime(), engine.limits(), engine.limits().fuel_base, engine.limits().wall);
        let instance =
            pre.instantiate(&mut store).map_err(|error| LoadError::Start(sandbox::explain(&error, &store)))?;
        indices.load(&mut store, &instance).map_err(wrong)?;
        let load = function(component, "interpreter", "load").ok_or(LoadError::LacksPoints)?;
        let notes = function(component, "notes", "take");
        let (points, tools) = (Points::find(component), Tools::find(component));
        Ok(Self(Arc::new(Loaded { engine, points, pre, load, notes, tools })))
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// What it does for authors. `None`: it does not have that.
    pub(crate) fn tools(&self) -> Option<&Tools> {
        self.0.tools.as_ref()
    }

    /// A new instance, as every call gets one.
    pub(crate) fn instantiate(&self, store: &mut Store<Sandbox>) -> wasmtime::Result<Instance> {
        self.0.pre.instantiate(store)
    }
}

impl fmt::Debug for Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interpreter").finish_non_exhaustive()
    }
}

/// The engine of the interpreter: the sandbox of every policy, in the form that suits a large memory that is ready.
fn engine(limits: Limits) -> Result<Engine, SetupError> {
    let limits = limits.of_interpreter();
    Engine::configured(limits, &sandbox::config_of_interpreter(&limits))
}

/// The text of a script, and how the interpreter is given it.
pub(crate) struct Script {
    text: String,
    load: ComponentExportIndex,
    /// The fuel that loading it used.
    pub(crate) fuel: u64,
    pub(crate) tools: Option<Tools>,
}

impl Script {
    /// Gives the text to a new instance of the interpreter. Errors call it `file`.
    pub(crate) fn load(
        &self,
        store: &mut Store<Sandbox>,
        instance: &Instance,
        file: &str,
    ) -> Result<interpreter::Script, RunError> {
        type Returned = (Result<interpreter::Script, wit::Fault>,);
        let load = instance.get_typed_func::<(&str, &str), Returned>(&mut *store, &self.load);
        let loaded = load.and_then(|load| load.call(&mut *store, (file, &self.text)));
        let (loaded,) = loaded.map_err(|error| sandbox::explain(&error, store))?;
        loaded.map_err(|fault| RunError::Fault(convert::fault(fault)))
    }
}

/// What errors call the script of that source: the last part.
pub(crate) fn file_of(source: &str) -> &str {
    source.rsplit('/').next().unwrap_or(source)
}

impl Policy {
    /// Loads a script: a policy whose answers the interpreter computes from its text. Errors call it by the last part of `source`.
    ///
    /// # Guarantees
    /// The text was parsed, its top level was run once under the limits, and its description and schema are acceptable.
    ///
    /// # Errors
    /// What is wrong with it, with file, line and column where there is a place.
    pub fn script(interpreter: &Interpreter, source: &str, text: &str) -> Result<Self, LoadError> {
        let Loaded { engine, pre, points, load, notes, tools } = &*interpreter.0;
        let limits = engine.limits();
        if text.trim().is_empty() {
            return Err(LoadError::Empty);
        }
        if text.len() > limits.script_bytes {
            return Err(LoadError::Size { size: text.len(), limit: limits.script_bytes });
        }
        let mut script = Script { text: text.to_owned(), load: *load, fuel: 0, tools: *tools };

        let _ticking = engine.ticking();
        let mut store = sandbox::store(engine.runtime(), limits, limits.fuel_base, limits.wall);
        let instance =
            pre.instantiate(&mut store).map_err(|error| LoadError::Start(sandbox::explain(&error, &store)))?;
        let loaded = script.load(&mut store, &instance, file_of(source)).map_err(|error| match error {
            RunError::Fault(fault) => LoadError::Script(fault),
            other => LoadError::Start(other),
        })?;
        script.fuel = limits.fuel_base.saturating_sub(store.get_fuel().unwrap_or(0));
        let interpreter::Script { description, points: defined } = loaded;
        let points = points.clone().only(|point| defined.contains(&name(point)));
        if defined.is_empty() {
            return Err(LoadError::NoFunctions);
        }
        let description = convert::description(description).map_err(LoadError::Description)?;
        let schema = description.parameters.as_deref().map(|text| Schema::parse(text, limits));
        let schema = schema.transpose().map_err(LoadError::Schema)?;
        let (pre, notes) = (pre.clone(), *notes);
        let digest = digest(text.as_bytes());
        let compiled =
            Compiled { digest, pre, points, notes, description, schema, later: Vec::new(), script: Some(script) };
        Ok(Self::of(engine, source, Arc::new(compiled)))
    }
}

/// The name of a point in what the interpreter says about a script.
fn name(point: Point) -> String {
    format!("{}/{point}", point.interface())
}
