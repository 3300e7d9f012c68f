//! What this program brings for authors: its engine, its interpreter of scripts, its built-in policies.
use crate::policies;
use anyhow::Context;
use tanist_author::tools::Tools;
use tanist_engine::{Engine, Interpreter, Limits, LoadError};

/// The tools of this program.
///
/// # Errors
/// This machine cannot run the engine.
pub fn tools() -> anyhow::Result<Tools> {
    let engine = Engine::new(Limits::default()).context("this machine cannot run policies")?;
    Ok(Tools::new(engine, Box::new(interpreter), Box::new(policies::builtin)))
}

/// The variable that names the interpreter's file in builds for tests.
const INTERPRETER: &str = "TANIST_INTERPRETER";

/// The interpreter of scripts. This build has none in it; one for tests loads the file that a variable names, which takes seconds.
fn interpreter() -> Result<Interpreter, LoadError> {
    let missing = || LoadError::Compile("this build of the program has no interpreter of scripts".to_owned());
    let file = std::env::var_os(INTERPRETER).filter(|_| cfg!(debug_assertions)).ok_or_else(missing)?;
    Interpreter::load(Limits::default(), &std::fs::read(file).map_err(|_| missing())?)
}
