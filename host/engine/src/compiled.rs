//! What happens to a component up to and with its compilation; in a process of its own, as far as the operator is concerned.

use crate::{
    contract::Interfaces,
    error::LoadError,
    limits::Limits,
    policy::check_form,
    sandbox,
    structure::{Caps, examine},
    text::{MESSAGE, short},
};

/// Examines a component and compiles it for this machine. What comes out is for [`Policy::from_compiled`](crate::Policy::from_compiled) of the
/// same program.
///
/// No limit of time or memory holds for the compiler itself: call it in a process that has such limits, of which others do not depend.
///
/// # Errors
/// The reason why the bytes are no policy, as far as that can be said without running them.
pub fn compile(bytes: &[u8]) -> Result<Vec<u8>, LoadError> {
    compile_with(&sandbox::config(&Limits::default()), bytes)
}

/// The same for every machine of a kind: with the instructions alone that all its processors have. For policies that a program carries with it. `target`:
/// the kind, as Rust names it.
///
/// # Errors
/// As [`compile`], or the target is unknown.
pub fn compile_for(target: &str, bytes: &[u8]) -> Result<Vec<u8>, LoadError> {
    let mut config = sandbox::config(&Limits::default());
    config.target(target).map_err(|error| refused(&error))?;
    compile_with(&config, bytes)
}

fn compile_with(config: &wasmtime::Config, bytes: &[u8]) -> Result<Vec<u8>, LoadError> {
    check_form(bytes, &Limits::default())?;
    admit(bytes)?;
    precompile(config, bytes)
}

/// What the compiler makes of a component.
pub(crate) fn precompile(config: &wasmtime::Config, bytes: &[u8]) -> Result<Vec<u8>, LoadError> {
    let engine = wasmtime::Engine::new(config).map_err(|error| refused(&error))?;
    engine.precompile_component(bytes).map_err(|error| refused(&error))
}

/// The gates before the compiler: caps, imports, and the names of the interfaces.
pub(crate) fn admit(bytes: &[u8]) -> Result<(), LoadError> {
    let structure = examine(bytes, &Caps::default()).map_err(LoadError::Structure)?;
    Interfaces::of(structure.imports.iter().map(String::as_str))?;
    if let Some(import) = structure.functional_imports.first() {
        return Err(LoadError::Import(short(import, 256)));
    }
    Interfaces::of(structure.exports.iter().map(String::as_str))?.complete()
}

/// What the compiler says.
pub(crate) fn refused(error: &wasmtime::Error) -> LoadError {
    LoadError::Compile(short(&format!("{error:#}"), MESSAGE))
}
