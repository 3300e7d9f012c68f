//! What is built in: policies, and the interpreter of scripts. Each is embedded as what was compiled of it for all machines of the target's kind when the
//! operator was built, so nothing is compiled at the start.
use super::compile::{self, ChildLimits, CompileError};
use tanist_engine::{Engine, Interpreter, Limits, LoadError, Policy};
use tracing::warn;

/// A policy that is embedded, a component like any other.
pub struct Builtin {
    /// Its name in `spec.policies[].builtin`.
    pub name: &'static str,
    /// WebAssembly, as `make policies` built it.
    component: &'static [u8],
    /// What was compiled of it.
    compiled: &'static [u8],
}

/// The built-in policies.
pub const POLICIES: [Builtin; 1] = [Builtin {
    name: "sequence",
    component: include_bytes!(env!("TANIST_POLICY_SEQUENCE")),
    compiled: include_bytes!(env!("TANIST_POLICY_SEQUENCE_COMPILED")),
}];

/// A policy that is embedded as a script. It is loaded like the script of a `ConfigMap` when the first group names it, with the interpreter, so that
/// installations that use none need no memory for it.
pub struct Script {
    /// Its name in `spec.policies[].builtin`.
    pub name: &'static str,
    /// Its file, as errors call it.
    pub file: &'static str,
    /// The source text of the script, in Starlark.
    pub text: &'static str,
}

macro_rules! script {
    ($name:literal) => {
        Script {
            name: $name,
            file: concat!($name, ".star"),
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies/", $name, "/", $name, ".star")),
        }
    };
}

/// The built-in scripts; each has a folder in `policies/` with its cases.
pub static SCRIPTS: [Script; 4] = [script!("patroni"), script!("quorum"), script!("sentinel"), script!("zones")];

/// The built-in script of that name.
#[must_use]
pub fn script(name: &str) -> Option<&'static Script> {
    SCRIPTS.iter().find(|script| script.name == name)
}

/// The names of all that is built in, in the order in which a user may look for one.
#[must_use]
pub fn names() -> String {
    let policies = POLICIES.iter().map(|each| each.name);
    policies.chain(SCRIPTS.iter().map(|each| each.name)).collect::<Vec<_>>().join(", ")
}

/// What was compiled of the interpreter of scripts.
const INTERPRETER: &[u8] = include_bytes!(env!("TANIST_INTERPRETER_COMPILED"));

/// Why something that is built in cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine refuses it.
    #[error("{0}")]
    Load(#[from] LoadError),
    /// It was compiled by another version of the engine, and could not be compiled anew.
    #[error("it had to be compiled anew, and that failed: {0}")]
    Compile(#[from] CompileError),
    /// The task that loaded it did not finish.
    #[error("loading it was interrupted")]
    Interrupted,
}

/// A built-in policy, as it was compiled when the operator was built. It blocks for milliseconds.
///
/// # Errors
/// [`LoadError::Compiled`] when another version of the engine compiled it.
pub fn policy(engine: &Engine, builtin: &Builtin) -> Result<Policy, LoadError> {
    load(engine, builtin, builtin.compiled)
}

/// The same, compiled anew in a process of its own where another version of the engine compiled it.
///
/// # Errors
/// When it cannot be loaded: this machine cannot run any policy.
pub async fn policy_in_any_case(engine: &Engine, builtin: &'static Builtin) -> Result<Policy, Error> {
    policy_by(engine, builtin, |component| compile::in_child(component.into(), ChildLimits::here(1))).await
}

async fn policy_by<C: Future<Output = Result<Vec<u8>, CompileError>>>(
    engine: &Engine,
    builtin: &'static Builtin,
    compile: impl FnOnce(&'static [u8]) -> C,
) -> Result<Policy, Error> {
    let at_once = engine.clone();
    let loading = tokio::task::spawn_blocking(move || policy(&at_once, builtin));
    match loading.await.map_err(|_| Error::Interrupted)? {
        Err(LoadError::Compiled(why)) => {
            let name = builtin.name;
            warn!(name, why, "what was compiled when the operator was built cannot be used; it is compiled anew");
        }
        done => return Ok(done?),
    }
    let compiled = compile(builtin.component).await?;
    let engine = engine.clone();
    let loading = tokio::task::spawn_blocking(move || load(&engine, builtin, &compiled));
    Ok(loading.await.map_err(|_| Error::Interrupted)??)
}

fn load(engine: &Engine, builtin: &Builtin, compiled: &[u8]) -> Result<Policy, LoadError> {
    Policy::from_compiled(engine, &format!("builtin/{}", builtin.name), builtin.component, compiled)
}

/// The interpreter of scripts. It takes some 50 MiB of memory and blocks for some tens of milliseconds. It is not compiled anew here in any case: that takes
/// 360 MiB, which is more than the operator's pod has to spare.
///
/// # Errors
/// When another version of the engine compiled it, which is an error of the build.
pub fn interpreter(limits: Limits) -> Result<Interpreter, LoadError> {
    Interpreter::from_compiled(limits, INTERPRETER)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;

    // P5: what was compiled when the operator was built is what this version of the engine takes: nothing is compiled at the start of a process.
    #[test]
    fn what_is_built_in_fits_this_engine() {
        let engine = Engine::new(Limits::default().unhurried()).unwrap();
        for each in &POLICIES {
            assert_eq!(policy(&engine, each).unwrap().name().source, format!("builtin/{}", each.name));
        }
        assert_eq!(engine.compilations(), 0);
        assert!(
            Policy::script(&interpreter(Limits::default().unhurried()).unwrap(), "a.star", "def seed(s): pass\n")
                .is_ok()
        );
    }

    // What a user names is a policy that behaves: it passes the exam that every script of a ConfigMap takes.
    #[test]
    fn each_built_in_script_passes_the_exam() {
        let interpreter = interpreter(Limits::default().unhurried()).unwrap();
        for each in &SCRIPTS {
            let policy = Policy::script(&interpreter, each.file, each.text).unwrap();
            assert_eq!((policy.name().name.as_str(), script(each.name).unwrap().file), (each.name, each.file));
            let exam = tanist_engine::exam(&policy, None, &tanist_engine::ExamLimits::UNHURRIED);
            assert!(exam.passed(), "{}: {exam}", each.name);
        }
        assert_eq!(names(), "sequence, patroni, quorum, sentinel, zones");
    }

    // P5: the interpreter's engine has another configuration, so what was compiled for it stands for another version.
    #[tokio::test]
    async fn what_another_engine_compiled_is_compiled_anew() {
        static OTHER: Builtin = Builtin { name: "other", component: POLICIES[0].component, compiled: INTERPRETER };
        let engine = Engine::new(Limits::default().unhurried()).unwrap();
        assert!(matches!(policy(&engine, &OTHER), Err(LoadError::Compiled(_))));
        let anew = policy_by(&engine, &OTHER, async |component| Ok(tanist_engine::compile(component).unwrap())).await;
        assert_eq!(anew.unwrap().name().source, "builtin/other");
        let not = policy_by(&engine, &POLICIES[0], async |_| Err(CompileError::Run("it is not needed".into()))).await;
        assert_eq!(not.unwrap().name().source, "builtin/sequence");
    }
}
