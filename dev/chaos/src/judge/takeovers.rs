//! When somebody takes over, and on what proof.
use crate::steps::{Command, Steps};

/// Somebody is told to take over while the server of the old primary still runs.
pub fn too_soon(steps: &Steps) -> Vec<String> {
    let Some(promote) = steps.promote else { return Vec::new() };
    if steps.ended.is_some_and(|ended| ended <= promote) {
        return Vec::new();
    }
    let ended = steps.ended.map_or_else(|| "the end of the round".into(), |ended| ended.to_string());
    vec![format!("the promotion began {promote} ms after the loss, the old server lived until {ended}")]
}

/// Of a pod that was taken away without grace nobody knows anything: its node has to stay Ready for so many seconds. Memory counts whole ones.
pub fn unproven(steps: &Steps, least: i64) -> Vec<String> {
    match steps.prove {
        Some(prove) if prove < (least - 1) * 1000 => vec![format!(
            "the old primary counts as over {prove} ms after its pod was deleted by force, and nothing can prove that before {least} s"
        )],
        _ => Vec::new(),
    }
}

/// A command that makes a primary was started.
pub fn told_to_lead(commands: &[Command]) -> Vec<String> {
    let makes_primaries = commands.iter().filter(|command| command.makes_a_primary());
    let said = |c: &Command| format!("{} was told to lead: {} by {}, token {}", c.member, c.verb, c.command, c.token);
    makes_primaries.map(said).collect()
}
