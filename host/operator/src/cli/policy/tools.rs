//! What this program brings for authors: its engine, its interpreter of scripts, its built-in policies.
use crate::policies::builtin;
use anyhow::Context;
use tanist_author::tools::{Builtin, Tools};
use tanist_engine::{Engine, Limits};

/// The tools of this program.
///
/// # Errors
/// This machine cannot run the engine.
pub fn tools() -> anyhow::Result<Tools> {
    // Fuel is what a policy is judged by; on a laptop nobody waits for the answer.
    let limits = Limits::default().unhurried();
    let engine = Engine::new(limits).context("this machine cannot run policies")?;
    Ok(Tools::new(engine, Box::new(move || builtin::interpreter(limits)), Box::new(policy)))
}

fn policy(engine: &Engine, name: &str) -> Option<Builtin> {
    if let Some(script) = builtin::script(name) {
        return Some(Builtin::Script { file: script.file, text: script.text });
    }
    let found = builtin::POLICIES.iter().find(|each| each.name == name)?;
    Some(Builtin::Component(builtin::policy(engine, found)))
}
