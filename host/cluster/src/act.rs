//! Act: the only writer of objects and the only one that starts commands. It fences every write and never waits for a command.
//!
//! A command starts in this order: observe once more, live; hold the same checks against it; write the record, with the resource version
//! that was read; start. A process that lost a race in between fails at its write, and no command has started.
//!
//! **Fences.** A write may be late by hours: the process was frozen, and another one led meanwhile. So each write names the state that it was
//! decided on, and fails when that state has changed; the next round observes anew.
//!
//! | write | names |
//! | --- | --- |
//! | status with the record | the group's version |
//! | apply to an existing object | its version |
//! | the ConfigMap of the cluster state | its version, or creation by apply; one of somebody else is never written |
//! | creation of a pod or a claim of a member | no object of that name may exist; the member's number is in the record |
//! | another owner of a pod, and the end of a `StatefulSet` to which none belongs | UID and version of the pod, or of the set |
//! | creation by apply | no different object may exist: this apply takes no field from another manager |
//! | label and readiness that lead clients to a pod | UID and version of the pod; of the active member of an active/passive group those of the second look |
//! | label and readiness that lead them away | the UID: a late one costs a moment of availability, and it must not be held up |
//! | memory, or a start, on a claim; a larger request of a claim | UID and version of the claim |
//! | deletion of a pod or a claim, fewer members | UID and version in the second look |
//! | a former template that is kept or deleted | its version, or that there is none; UID and version |
mod deletions;
mod error;
mod reading;
mod revisions;
mod second_look;
mod state;
#[cfg(test)]
mod tests;
mod upkeep;
mod writes;

pub use error::Error;

use crate::context::Context;
use crate::count::Went;
use crate::crash;
use crate::member::{self, Looks};
use crate::observe;
use crate::observe::Observed;
use crate::report;
use crate::slots::Slot;
use second_look::{asks_in_place, look_before_run};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_core::checked::{Deletion, Discard, Scaling, Start, Turn};
use tanist_core::contract::MemberName;
use tanist_core::freshness::Moment;
use tanist_core::memory;
use tanist_core::order::{self, Missing, Need};
use tanist_core::plan::{Action, DeletionCause, Plan};
use tanist_core::record::{Intent, Verb};
use tanist_core::snapshot::Snapshot;
use tracing::{Instrument, info, warn};
use writes::{Shown, delete_claim, mark_claim, route, scale};

/// Deadline of each write.
pub const WRITE_SECONDS: u64 = 20;

/// The result of carrying out a plan.
pub struct Outcome {
    /// The group as it is now, with the resource version of the last write of its status.
    pub object: Arc<ReplicaGroup>,
    /// Whether the record of the plan is written.
    pub recorded: bool,
    /// The actions that were done, or begun.
    pub done: Vec<Action>,
    /// Why actions were not done. Actions that depend on them were not tried.
    pub errors: Vec<Error>,
}

/// How long a command waits for a slot. The second look comes after that wait.
const SLOT: Duration = Duration::from_millis(250);

/// How old the second look may be when the record is written. Anything older is taken once more.
const LOOKED: Duration = Duration::from_secs(1);

/// How long a start waits for its note on a claim.
const NOTE: Duration = Duration::from_secs(2);

/// Carries out a plan. An action that fails stops what depends on it ([`order`]) and nothing else.
pub async fn act(ctx: &Arc<Context>, observed: &Observed, plan: &Plan, report: &report::Derived) -> Outcome {
    let outcome = Outcome { object: observed.object.clone(), recorded: false, done: Vec::new(), errors: Vec::new() };
    let mut acting = Acting { ctx, observed, plan, report, outcome, missing: Missing::default(), updated: false };
    acting.carry_out_plan().await;
    let unread =
        observed.unreadable.iter().map(|error| Error::Read("former templates (ControllerRevisions)", error.clone()));
    acting.outcome.errors.extend(unread);
    acting.outcome.errors.extend(observed.unfit.iter().map(|error| Error::Unfit(error.reason(), error.to_string())));
    // Last, and beside the round.
    acting.outcome.errors.extend(revisions::keep(ctx, observed).err());
    ctx.hints.with_group(&observed.snapshot.group.uid, |h| h.commands.withdraw());
    acting.outcome
}

/// A plan that is being carried out.
struct Acting<'a> {
    ctx: &'a Arc<Context>,
    observed: &'a Observed,
    plan: &'a Plan,
    report: &'a report::Derived,
    outcome: Outcome,
    missing: Missing,
    /// Whether the pods of an update were deleted, or refused: all of them at the turn of the first.
    updated: bool,
}

/// A command whose slot was taken and whose second look was made at that time.
struct Ready {
    at: Moment,
    found: Result<(Slot, Start), Error>,
}

/// The second looks that were taken before the commands' turns, by token.
type SecondLooks = BTreeMap<String, Ready>;

/// Whether the action only asks a member something that changes nothing.
fn is_reading(action: &Action) -> bool {
    matches!(action, Action::Read { .. } | Action::List { .. } | Action::Ask { .. })
}

fn is_move(action: &Action) -> bool {
    // A pod that has ended, or whose member left, may be gone by then.
    matches!(action, Action::DeletePod { cause, .. } if *cause != DeletionCause::Failure)
}

/// Whether the primary that this command stops goes on with its clients when the second look refuses the command: it is only stopped so that another one takes
/// over (a switchover), or so that a member that stays becomes one (S25). One of an older term, or one too many, loses its clients in any case.
fn goes_on_if_refused(s: &Snapshot, intent: &Intent) -> bool {
    match intent.verb {
        Verb::Switchover => true,
        // One that serves is stopped for a conversion only while that holds.
        Verb::Halt => s.serving().iter().any(|m| m.name == intent.member),
        Verb::Demote => {
            let serving = s.serving();
            serving.len() <= s.group.desired_primaries() && serving.iter().any(|m| m.name == intent.member)
        }
        _ => false,
    }
}

/// The command that the action starts.
fn command(action: &Action) -> Option<&Intent> {
    if let Action::Run { intent, .. } = action { Some(intent) } else { None }
}

/// Why the second look refused to stop a primary that goes on, if it did. The action is left out, for its member is not routed, and the error is reported all
/// the same.
fn refused_stop(s: &Snapshot, action: &Action, ready: &mut SecondLooks) -> Option<Error> {
    let Action::Run { intent, .. } = action else { return None };
    let is_refused = ready.get(&intent.token).is_some_and(|seen| seen.found.is_err()) && goes_on_if_refused(s, intent);
    // What was not refused stays: the command uses that look.
    if is_refused { ready.remove(&intent.token)?.found.err() } else { None }
}

/// What an action needs that only a check can make.
enum Prepared {
    Nothing,
    Start(Slot, Box<Start>),
    Deletion(Deletion),
    Discard(Discard),
    Scaling(Scaling),
    Turn(Turn),
}

impl<'a> Acting<'a> {
    async fn carry_out_plan(&mut self) {
        // Readings only begin here, and later decisions wait for their results: they go first.
        let plan = self.plan;
        let (readings, others): (Vec<_>, Vec<_>) = plan.actions.iter().partition(|a| is_reading(a));
        for action in readings {
            self.carry_out_action(action, &mut SecondLooks::new()).await;
        }
        // After a write, lists wait up to 100 ms for the API server's caches. So the second look for the first command is taken before any write.
        let mut ready = SecondLooks::new();
        if let Some(intent) = plan.actions.iter().find_map(command) {
            self.look_ahead(intent, &mut ready).await;
        }
        for action in others {
            if let Some(intent) = self.stop_after(action) {
                self.look_ahead(intent, &mut ready).await;
            }
            self.carry_out_action(action, &mut ready).await;
        }
    }

    /// Takes the second look for a command before its turn.
    async fn look_ahead(&mut self, intent: &Intent, ready: &mut SecondLooks) {
        if self.ctx.is_closing() || ready.contains_key(&intent.token) {
            return;
        }
        let found = self.make_ready(intent).await;
        // A primary that goes on is not led out of its Service.
        if found.is_err() && goes_on_if_refused(&self.observed.snapshot, intent) {
            self.missing.add(Some(Need::Routing(intent.member.clone())));
        }
        ready.insert(intent.token.clone(), Ready { at: self.ctx.clock.moment(), found });
    }

    /// The stop for which the action leads its primary out of the Service, if that primary goes on when the stop is refused: whether it is refused is known
    /// before.
    fn stop_after(&self, action: &Action) -> Option<&'a Intent> {
        let Action::Route { member, role: None, .. } = action else { return None };
        let mut commands = self.plan.actions.iter().filter_map(command);
        commands.find(|i| i.member == *member && goes_on_if_refused(&self.observed.snapshot, i))
    }

    async fn carry_out_action(&mut self, action: &Action, ready: &mut SecondLooks) {
        // An apply of an older manifest may still be running, and would undo the new size.
        if matches!(action, Action::Scale { .. }) && upkeep::is_applying_set(self.ctx, &self.observed.snapshot) {
            self.missing.add(Some(Need::Set));
        }
        if let Some(error) = refused_stop(&self.observed.snapshot, action, ready) {
            return self.fail(error, Some(Need::Record));
        }
        if matches!(action, Action::DeletePod { cause: DeletionCause::Update, .. }) {
            return self.update_pods(action).await;
        }
        if self.missing.stops(action) {
            return;
        }
        self.missing.add(order::suspends(action));
        let result = match self.prepare(action, ready).await {
            Ok(prepared) => self.perform(action, prepared).await.map_err(|error| (error, order::spoils(action))),
            Err(error) => Err((error, Some(Need::Record))),
        };
        self.note(action, result);
    }

    /// Notes how an action ended, and what is missing after it.
    fn note(&mut self, action: &Action, result: Result<(), (Error, Option<Need>)>) {
        match result {
            Ok(()) => self.outcome.done.push(action.clone()),
            // Somebody waits for an active member: the next round decides at once.
            Err((Error::Recheck(what, why), _)) if matches!(action, Action::Route { .. }) => {
                info!(reason = %why, "not done: {what}");
                self.fail(Error::Outdated, None);
            }
            // Nobody waits for a move, so it is no trouble that something changed meanwhile.
            Err((Error::Recheck(what, why), spoiled)) if is_move(action) => {
                info!(reason = %why, "not done: {what}");
                self.missing.add(spoiled);
            }
            Err((error, spoiled)) => self.fail(error, spoiled),
        }
    }

    /// Notes an error, and what is missing after it.
    fn fail(&mut self, error: Error, spoiled: Option<Need>) {
        let is_over = matches!(error, Error::Outdated | Error::Closing);
        self.missing.add(if is_over { Some(Need::Decision) } else { spoiled });
        self.outcome.errors.push(error);
    }

    /// Before a command, a deletion, a shrink and the label of an active member: observes again, then writes the record, which explains what follows. The record is written only
    /// if the group has not changed since it was read. If that took long, for instance because the API server was slow, all is looked at once more.
    async fn prepare(&mut self, action: &Action, ready: &mut SecondLooks) -> Result<Prepared, Error> {
        if self.ctx.is_closing() {
            return Err(Error::Closing);
        }
        let (looked, prepared) = match action {
            Action::Run { intent, .. } => {
                let (at, (slot, start)) = self.ready(intent, ready).await?;
                (at, Prepared::Start(slot, Box::new(start)))
            }
            // Its number has to be in the record.
            Action::Create { .. } => (self.ctx.clock.moment(), Prepared::Nothing),
            _ => match self.look(action).await? {
                Some(seen) => seen,
                None => return Ok(Prepared::Nothing),
            },
        };
        record(self.ctx, self.plan, self.report, &mut self.outcome).await?;
        if let Action::Run { intent, .. } = action {
            self.note_start(intent).await;
        }
        if self.ctx.clock.moment().since(looked) <= LOOKED {
            return Ok(prepared);
        }
        match (action, prepared) {
            (Action::Run { intent, .. }, Prepared::Start(slot, _)) => {
                let start = look_before_run(self.ctx, self.observed, &self.outcome.object, intent).await?;
                Ok(Prepared::Start(slot, Box::new(start)))
            }
            (_, prepared) => Ok(self.look(action).await?.map_or(prepared, |(_, seen)| seen)),
        }
    }

    /// Notes on a claim of the member that a command which makes it primary is about to start, in case the record is lost while the command is on its way (S2). The
    /// record is written already, so a note that cannot be written does not keep a group without a primary.
    async fn note_start(&self, intent: &Intent) {
        let s = &self.observed.snapshot;
        let note = memory::start_note(s, &self.plan.record, intent);
        let claim = s.member(&intent.member).and_then(|member| member.claims.first());
        let Some((note, claim)) = note.zip(claim) else { return };
        let writing = writes::note_start(self.ctx, &s.group.namespace, claim, &note);
        match tokio::time::timeout(NOTE, writing).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                warn!(member = %intent.member, %error, "failed to note the start on its claim; it goes on")
            }
            Err(_) => {
                warn!(member = %intent.member, claim = claim.name, "no answer to the note of the start on its claim; it goes on")
            }
        }
    }

    async fn perform(&self, action: &Action, prepared: Prepared) -> Result<(), Error> {
        let (ctx, snapshot) = (self.ctx, &self.observed.snapshot);
        let namespace = &snapshot.group.namespace;
        match (action, prepared) {
            (Action::Apply(object), _) => upkeep::apply(ctx, self.observed, object),
            (Action::Nudge { set_uid }, _) => upkeep::nudge(ctx, self.observed, set_uid),
            (Action::Adopt { member, pod_uid, version, change }, _) => {
                upkeep::adopt(ctx, self.observed, (member, pod_uid), version, change)
            }
            (Action::DropSet { uid, version }, _) => upkeep::drop_set(ctx, self.observed, uid, version),
            (Action::Create { member, objects }, _) => upkeep::create(ctx, self.observed, member, objects),
            (Action::Route { member, pod_uid, role, ready, version }, prepared) => {
                let seen = if let Prepared::Turn(turn) = &prepared { Some(turn.version()) } else { None };
                let turns = self.changes_gate(member, *ready).then_some(*ready);
                let (role, version) = (*role, seen.or(version.as_deref()));
                let to = Shown { pod: member.as_str(), uid: pod_uid, version, role, ready: turns, now: snapshot.now };
                route(ctx, namespace, &to).await
            }
            (Action::MarkClaim { claim, uid, version, mark }, _) => {
                mark_claim(ctx, namespace, claim, uid, version, mark).await
            }
            (Action::GrowClaim { claim, uid, version, size, .. }, _) => {
                upkeep::grow(ctx, self.observed, claim, uid, version, size)
            }
            (Action::WriteState { name, data, version, awaited }, _) => {
                state::write(ctx, self.observed, (name, data), version.clone(), *awaited).await
            }
            (Action::DeletePod { reason, cause, .. }, Prepared::Deletion(deletion)) => {
                self.delete_pod(deletion, *cause, reason).await
            }
            (Action::DeleteClaim { member, claim, .. }, Prepared::Discard(discard)) => {
                info!(member = %member, claim, "deleting the claim of a removed member");
                delete_claim(ctx, namespace, discard).await
            }
            (Action::Scale { replicas }, Prepared::Scaling(scaling)) => {
                info!(replicas, "shrinking the StatefulSet");
                scale(ctx, snapshot, scaling).await
            }
            (Action::Read { member, pod_uid }, _) => {
                reading::sequence(ctx, self.observed, member, pod_uid);
                Ok(())
            }
            (Action::List { member, pod_uid }, _) => {
                reading::list(ctx, self.observed, member, pod_uid);
                Ok(())
            }
            (Action::Ask { query, member, pod_uid }, _) => {
                reading::query(ctx, self.observed, *query, member, pod_uid);
                Ok(())
            }
            (Action::Run { argv, env, .. }, Prepared::Start(slot, start)) => {
                let given = Given { argv: argv.clone(), env: env.clone() };
                run(ctx, &self.outcome.object, snapshot, *start, given, slot).await
            }
            // Not reached: `prepare` makes what these actions need, or fails.
            (Action::DeletePod { .. } | Action::DeleteClaim { .. }, _) => Ok(()),
            (Action::Scale { .. } | Action::Run { .. }, _) => Ok(()),
        }
    }

    /// Whether a route changes the member's readiness gate.
    fn changes_gate(&self, member: &MemberName, ready: bool) -> bool {
        let gate = self.observed.snapshot.member(member).and_then(|m| m.pod.as_ref()?.gate);
        let same = |a: &&Action| matches!(a, Action::Route { member: m, .. } if m == member);
        gate != Some(ready) || self.plan.actions.iter().filter(same).count() != 1
    }
}

/// Writes the record once per plan, with the resource version that was read.
async fn record(ctx: &Context, plan: &Plan, report: &report::Derived, outcome: &mut Outcome) -> Result<(), Error> {
    if outcome.recorded {
        return Ok(());
    }
    let uid = outcome.object.metadata.uid.clone().unwrap_or_default();
    let tokens = plan
        .actions
        .iter()
        .filter_map(|a| if let Action::Run { intent, .. } = a { Some(intent.token.clone()) } else { None });
    ctx.hints.with_group(&uid, |h| h.commands.promise(tokens));
    let object = report::write(ctx, &outcome.object, plan, report).await?;
    (outcome.object, outcome.recorded) = (object, true);
    Ok(())
}

/// What a command is given.
struct Given {
    argv: Vec<String>,
    env: Vec<String>,
}

/// Starts a command in the background; its end starts the next round.
async fn run(
    ctx: &Arc<Context>,
    object: &ReplicaGroup,
    s: &Snapshot,
    start: Start,
    Given { argv, env }: Given,
    slot: Slot,
) -> Result<(), Error> {
    let intent = start.into_intent();
    crash::point(crash::RECORDED, &intent).await;
    let Some(member) = s.member(&intent.member) else { return Ok(()) };
    let (Some(target), Some(pod)) = (observe::target(&s.group, member), member.pod.clone()) else { return Ok(()) };
    let (uid, target) = (s.group.uid.clone(), target.with_env(ctx, env));
    // A start that opens a term follows a look at every member, in which a runner says whether it can read the position itself.
    let position = member::rests_on(s.group.runner, &s.group.commands.sequence, &member.position, &intent)
        .filter(|_| ctx.hints.with_group(&uid, |h| h.readings.can_look(&intent.pod_uid)))
        .map(|(command, position)| (command.clone(), position));
    let begins = ctx.hints.with_group(&uid, |h| {
        h.readings.touch(&intent.pod_uid, ctx.clock.moment());
        if intent.verb.ends_lists() {
            h.readings.change_members(ctx.clock.moment());
        }
        h.commands.begin(&intent.token)
    });
    if !begins {
        return Err(Error::Outdated);
    }
    let with_status = asks_in_place(s, &intent);
    let role = with_status.then(|| s.role(member).0);
    let (ctx, object) = (ctx.clone(), object.clone());
    info!(member = %intent.member, command = intent.command, token = intent.token, "command starts");
    tokio::spawn(async move {
        let started = ctx.clock.moment();
        let looks = Looks { role, position: position.as_ref().map(|(command, position)| (command, position.clone())) };
        let (evidence, said) = target.run(slot, &ctx, &intent, &looks, &argv).await;
        crash::point(crash::ENDED, &intent).await;
        let went = Went::from(&evidence);
        let ended = ctx.clock.moment();
        let seconds = ended.since(started).as_secs_f64();
        match went {
            Went::Well => {
                info!(member = %intent.member, command = intent.command, token = intent.token, seconds, "command ended well")
            }
            _ => {
                warn!(member = %intent.member, command = intent.command, token = intent.token, seconds, %evidence, "command ended")
            }
        }
        ctx.count.executed(&intent.command, went, ended.since(started));
        if went == Went::Unknown {
            ctx.count.unknown();
        }
        ctx.hints.with_group(&uid, |h| {
            match said.filter(|_| with_status) {
                Some(said) => {
                    h.readings.touch(&intent.pod_uid, started + said.after);
                    h.readings.remember_status(&pod, &intent.container, (started, ended), said);
                }
                None => h.readings.touch(&intent.pod_uid, ended),
            }
            if intent.verb.ends_lists() {
                h.readings.change_members(ended);
            }
            h.commands.end(&intent.token, evidence);
        });
        ctx.wake(&object);
    }.in_current_span());
    Ok(())
}
