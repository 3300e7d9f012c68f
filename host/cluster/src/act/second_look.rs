//! The second look: the group is observed again just before something dangerous is done.
use super::Error;
use crate::context::Context;
use crate::crash;
use crate::observe::{self, Observed};
use kube::ResourceExt;
use std::sync::Arc;
use tanist_api::ReplicaGroup;
use tanist_core::checked::{Start, recheck};
use tanist_core::freshness::Ask;
use tanist_core::record::Intent;
use tanist_core::snapshot::Snapshot;

/// Observes again before a command starts, and holds its checks against that.
///
/// # Errors
/// The check that does not hold, or why nothing could be observed.
pub(super) async fn look_before_run(
    ctx: &Arc<Context>,
    observed: &Observed,
    written: &ReplicaGroup,
    intent: &Intent,
) -> Result<Start, Error> {
    crash::point(crash::DECIDED, intent).await;
    // A command that opens a term needs the present role of every member. Any other command needs only that its own member has not changed;
    // a runner that can read the role itself checks it at the moment of the start.
    // A change of the members needs that of every voter, and the update of some members that of all others.
    let ask = match intent.verb.opens_term() || intent.verb.changes_no_role() {
        true => Ask::Everyone,
        false if asks_in_place(&observed.snapshot, intent) => Ask::Recent,
        false => Ask::Only(&intent.member),
    };
    let live = look_again(ctx, observed, written, ask).await?;
    let start = recheck(&observed.snapshot, &live, intent)
        .map_err(|v| Error::Recheck(format!("start {} on {}", intent.command, intent.member), v))?;
    crash::point(crash::LOOKED, intent).await;
    Ok(start)
}

/// Observes once more, so that the checks run against the present state (docs/rules.md, "Checks"; docs/safety.md, S6, S8, S9).
pub(super) async fn look_again(
    ctx: &Arc<Context>,
    observed: &Observed,
    written: &ReplicaGroup,
    ask: Ask<'_>,
) -> Result<Snapshot, Error> {
    let live =
        observe::observe(ctx, &observed.object, ask, Some(&observed.snapshot)).await.map_err(Error::LookAgain)?;
    match live.object.resource_version() == written.resource_version() {
        true => Ok(live.snapshot),
        false => Err(Error::Outdated),
    }
}

/// Whether the runner that starts the command can read the role itself.
pub(super) fn asks_in_place(s: &Snapshot, intent: &Intent) -> bool {
    s.group.runner && intent.container == s.group.commands.status.container
}
