//! The second look: the group is observed again just before something dangerous is done.
use super::{Acting, Error, Prepared, SLOT, SecondLooks, WRITE_SECONDS};
use crate::context::Context;
use crate::count::Execution;
use crate::crash;
use crate::observe::{self, Observed};
use crate::slots::Slot;
use kube::ResourceExt;
use std::sync::Arc;
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_core::checked::{Discard, Scaling, Start, Turn, recheck, recheck_discard, recheck_scaling, recheck_turn};
use tanist_core::contract::MemberName;
use tanist_core::freshness::{Ask, FRESH, Moment};
use tanist_core::plan::Action;
use tanist_core::record::{Intent, Verb};
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
    // So does the removal of a member's data.
    let asks_all = intent.verb.opens_term() || intent.verb.changes_no_role() || intent.verb == Verb::Wipe;
    let ask = match asks_all {
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

/// Whether the action gives a pod the label of the active member of an active/passive group.
pub(super) fn gives_turn(s: &Snapshot, action: &Action) -> bool {
    let Action::Route { member, role: Some("primary"), .. } = action else { return false };
    s.group.active_passive && s.member(member).is_some_and(|member| !member.leads_clients())
}

impl Acting<'_> {
    /// The slot and the second look of a command, and when it was taken: before its turn, or now.
    pub(super) async fn ready(
        &self,
        intent: &Intent,
        ready: &mut SecondLooks,
    ) -> Result<(Moment, (Slot, Start)), Error> {
        match ready.remove(&intent.token) {
            // What was refused is not asked again in the same round: each wait for a slot would hold up the actions that come next.
            Some(seen) if seen.found.is_err() || self.ctx.clock.moment().since(seen.at) < FRESH => {
                Ok((seen.at, seen.found?))
            }
            old => {
                // The slot of an outdated look is freed before the next one is requested.
                drop(old);
                let found = self.make_ready(intent).await?;
                Ok((self.ctx.clock.moment(), found))
            }
        }
    }

    /// The second look of an action that starts no command, and when it was taken. `None`: it needs none.
    pub(super) async fn look(&self, action: &Action) -> Result<Option<(Moment, Prepared)>, Error> {
        let prepared = match action {
            Action::DeletePod { member, pod_uid, cause, .. } => {
                Prepared::Deletion(self.look_before_deletion(member, pod_uid, *cause).await?)
            }
            Action::DeleteClaim { claim, uid, .. } => Prepared::Discard(self.look_before_discard(claim, uid).await?),
            Action::Scale { replicas } => Prepared::Scaling(self.look_before_scaling(*replicas).await?),
            Action::Route { member, pod_uid, .. } if gives_turn(&self.observed.snapshot, action) => {
                Prepared::Turn(self.look_before_turn(member, pod_uid).await?)
            }
            Action::Apply(_) | Action::Nudge { .. } | Action::Route { .. } => return Ok(None),
            Action::Adopt { .. } | Action::DropSet { .. } => return Ok(None),
            Action::Read { .. } | Action::List { .. } | Action::Ask { .. } => return Ok(None),
            Action::MarkClaim { .. } | Action::GrowClaim { .. } | Action::WriteState { .. } => return Ok(None),
            Action::Run { .. } | Action::Create { .. } => return Ok(None),
        };
        Ok(Some((self.ctx.clock.moment(), prepared)))
    }

    /// Waits for a slot, then looks again: no command starts on a look that was taken before the wait.
    pub(super) async fn make_ready(&self, intent: &Intent) -> Result<(Slot, Start), Error> {
        let slot = match self.ctx.commands.take(&self.observed.snapshot.group.uid, SLOT).await {
            Ok(slot) => slot,
            Err(why) => {
                self.ctx.count.no_slot(Execution::Command);
                return Err(Error::NoSlot(format!("{} on {}", intent.command, intent.member), why));
            }
        };
        let start = look_before_run(self.ctx, self.observed, &self.outcome.object, intent).await?;
        Ok((slot, start))
    }

    /// The second look before a claim is deleted.
    pub(super) async fn look_before_discard(&self, claim: &str, uid: &str) -> Result<Discard, Error> {
        let live = look_again(self.ctx, self.observed, &self.outcome.object, Ask::Everyone).await?;
        recheck_discard(&self.observed.snapshot, &live, uid)
            .map_err(|v| Error::Recheck(format!("delete the claim {claim}"), v))
    }

    /// The second look before a pod gets the label of the active member of its group. It is about the labels of the others, so answers of a moment ago count. The record is read once more after the pods: whoever
    /// changes it from now on changes the pod before another one gets the label.
    pub(super) async fn look_before_turn(&self, member: &MemberName, pod_uid: &str) -> Result<Turn, Error> {
        let live = look_again(self.ctx, self.observed, &self.outcome.object, Ask::Recent).await?;
        let turn = recheck_turn(&self.observed.snapshot, &live, member, pod_uid)
            .map_err(|v| Error::Recheck(format!("lead clients to {member}"), v))?;
        let (group, what) = (&self.observed.snapshot.group, || "read the group once more".to_owned());
        let reading = self.ctx.cluster.get::<ReplicaGroup>(&group.namespace, &group.name);
        let read = tokio::time::timeout(Duration::from_secs(WRITE_SECONDS), reading).await;
        let now = read.map_err(|_| Error::Silent(what()))?.map_err(|error| Error::Write(what(), error))?;
        match now.is_some_and(|now| now.resource_version() == self.outcome.object.resource_version()) {
            true => Ok(turn),
            false => Err(Error::Outdated),
        }
    }

    /// The second look before the `StatefulSet` gets smaller.
    pub(super) async fn look_before_scaling(&self, replicas: u32) -> Result<Scaling, Error> {
        let live = look_again(self.ctx, self.observed, &self.outcome.object, Ask::Everyone).await?;
        recheck_scaling(&self.observed.snapshot, &live, replicas)
            .map_err(|v| Error::Recheck(format!("shrink to {replicas} members"), v))
    }
}

/// Whether the runner that starts the command can read the role itself.
pub(super) fn asks_in_place(s: &Snapshot, intent: &Intent) -> bool {
    s.group.runner && intent.container == s.group.commands.status.container
}
