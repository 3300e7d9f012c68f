//! Takes over native code: the one place of the workspace where the compiler cannot check what happens.
#![expect(unsafe_code, reason = "wasmtime runs deserialized code as it is; see SAFETY below")]

use wasmtime::component::Component;

use crate::{
    error::LoadError,
    text::{MESSAGE, short},
};

/// Makes a component of what [`compile`](crate::compile) returned in another process.
///
/// # Errors
/// The code is of another version, target or configuration of the engine, or it is no such code.
pub(crate) fn adopt(engine: &wasmtime::Engine, compiled: &[u8]) -> Result<Component, LoadError> {
    // SAFETY: wasmtime requires that the bytes are what `Engine::precompile_component` returned, unchanged. Two callers exist. The operator passes
    // what a process of its own executable wrote into a pipe that nobody else can open, whole and after that process said by its exit code
    // that it succeeded (host/operator/src/policies/compile.rs). And it passes what was compiled when the executable was built, which is a part
    // of it. No source of policies reaches this: `check_form` admits components alone as the bytes of a policy, and no field of a group
    // names compiled code (docs/safety.md, H22). A component that takes over the compiler could still return code of its choice; against that
    // the process has no files, no network, no rights and no secrets, and its input is capped by `structure`. Wasmtime's own check of version,
    // target and settings, which is on by default, refuses what another build compiled.
    let component = unsafe { Component::deserialize(engine, compiled) };
    component.map_err(|error| LoadError::Compiled(short(&format!("{error:#}"), MESSAGE)))
}
