//! Act: the only writer of objects and the only one that starts commands. It fences every write and never waits for a command.
//!
//! A command starts in this order: observe once more, live; hold the same checks against it; write the record, with the resource version
//! that was read; start. Whoever lost in between fails, and nothing has happened.
//!
//! **Fences.** A write may be late by hours: the process was frozen, another one led meanwhile. So each names what it was decided on, and fails
//! when that changed; the next round looks again.
//!
//! | write | names |
//! | --- | --- |
//! | status with the record | the group's version |
//! | apply of what is there | its version |
//! | apply of what is not there | nothing that differs may be there: an apply that takes no field from anybody |
//! | label and readiness that lead clients to a pod | UID and version of the pod |
//! | label and readiness that lead them away | the UID: too late it costs a moment's availability, and it must not wait |
//! | memory on a claim | UID and version of the claim |
//! | deletion of a pod, fewer members | UID and version in the second look |
mod writes;

use crate::api::ReplicaGroup;
use crate::context::Context;
use crate::crash;
use crate::hints::FRESH;
use crate::member::{self, Looks};
use crate::metrics::Metrics;
use crate::observe;
use crate::observe::{Ask, Observed};
use crate::report;
use kube::ResourceExt;
use std::sync::Arc;
use std::time::Instant;
use tanist_core::check;
use tanist_core::checked::{Deletion, Start, recheck, recheck_deletion, recheck_scaling};
use tanist_core::contract::MemberName;
use tanist_core::plan::{Action, Plan};
use tanist_core::record::Intent;
use tanist_core::snapshot::{Evidence, Snapshot};
use tracing::{Instrument, info, warn};
use writes::{Shown, apply, delete_pod, mark_claim, route, scale};

/// Why a plan was not carried out to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused or did not answer.
    #[error("failed to {0}: {1}")]
    Write(String, #[source] kube::Error),
    /// The API server did not answer.
    #[error("failed to {0}: no answer within {WRITE_SECONDS} s")]
    Silent(String),
    /// The API server refuses the template.
    #[error("failed to apply {0}: {1}; change spec.template")]
    RejectTemplate(String, String),
    /// The object was changed since it was read: decide anew.
    #[error("failed to {0}: it was changed since it was read")]
    Overtaken(String),
    /// What was planned does not hold any more.
    #[error("failed to {0}: {1}")]
    Recheck(String, #[source] check::Violation),
    /// The group changed since it was read: decide anew.
    #[error("the group changed since it was read")]
    Outdated,
    /// The second look failed.
    #[error("failed to look again: {0}")]
    LookAgain(#[source] observe::Error),
    /// SIGTERM has come.
    #[error("the operator is ending; nothing new is started")]
    Closing,
}

impl Error {
    /// One word for conditions and metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Write(_, kube::Error::Api(status)) if status.code == 403 => "Forbidden",
            Error::Write(..) | Error::Silent(_) => "ApiUnwritable",
            Error::RejectTemplate(..) => "TemplateRejected",
            Error::Recheck(..) => "SituationChanged",
            Error::Outdated | Error::Overtaken(_) => "Outdated",
            Error::LookAgain(error) => error.reason(),
            Error::Closing => "Closing",
        }
    }
}

/// Deadline of each write.
const WRITE_SECONDS: u64 = 20;

/// What came of a plan.
pub struct Outcome {
    /// The group as it is now, with the resource version of the last write of its status.
    pub object: ReplicaGroup,
    /// Whether the record of the plan is written.
    pub recorded: bool,
    /// What ended the round early.
    pub error: Option<Error>,
}

/// Carries out a plan.
pub async fn act(ctx: &Arc<Context>, observed: &Observed, plan: &Plan, report: &report::Derived) -> Outcome {
    let mut outcome = Outcome { object: observed.object.clone(), recorded: false, error: None };
    outcome.error = all(ctx, observed, plan, report, &mut outcome).await.err();
    // What was promised and not kept was never started, and nobody else can start it: the word that the runner has for that.
    ctx.hints.of(&observed.snapshot.group.uid, |h| {
        while let Some(token) = h.promised.pop_first() {
            h.results.insert(token, Evidence::NotStarted("void".into()));
        }
    });
    outcome
}

async fn all(
    ctx: &Arc<Context>,
    observed: &Observed,
    plan: &Plan,
    report: &report::Derived,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    // Readings only begin here, and everything else may wait for what they say.
    let (readings, others): (Vec<_>, Vec<_>) = plan.actions.iter().partition(|a| matches!(a, Action::Read { .. }));
    for action in readings {
        one(ctx, observed, plan, report, action, &mut None, outcome).await?;
    }
    // After a write, lists wait for the API server's caches, up to 100 ms: what can be looked at again before the first write, is.
    let first = others.iter().find_map(|a| if let Action::Run { intent, .. } = a { Some(intent) } else { None });
    let mut looked: Looked = match first {
        Some(intent) => {
            let seen = look_before_run(ctx, observed, &outcome.object, intent).await;
            Some((intent.token.clone(), Instant::now(), seen))
        }
        None => None,
    };
    for action in others {
        one(ctx, observed, plan, report, action, &mut looked, outcome).await?;
    }
    Ok(())
}

/// A second look that was taken: for which token, and when.
type Looked = Option<(String, Instant, Result<Start, Error>)>;

async fn one(
    ctx: &Arc<Context>,
    observed: &Observed,
    plan: &Plan,
    report: &report::Derived,
    action: &Action,
    looked: &mut Looked,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let snapshot = &observed.snapshot;
    let namespace = &snapshot.group.namespace;
    if ctx.is_closing() {
        return Err(Error::Closing);
    }
    match action {
        Action::Apply(object) => apply(ctx, snapshot, object).await,
        Action::Route { member, pod_uid, role, ready, version } => {
            let gate = snapshot.member(member).and_then(|m| m.pod.as_ref()?.gate);
            let once =
                plan.actions.iter().filter(|a| matches!(a, Action::Route { member: m, .. } if m == member)).count()
                    == 1;
            let turns = (gate != Some(*ready) || !once).then_some(*ready);
            let (role, version) = (*role, version.as_deref());
            let to = Shown { pod: member.as_str(), uid: pod_uid, version, role, ready: turns, now: snapshot.now };
            route(ctx, namespace, &to).await
        }
        Action::MarkClaim { claim, uid, version, mark } => mark_claim(ctx, namespace, claim, uid, version, mark).await,
        Action::DeletePod { member, pod_uid, reason } => {
            let deletion = look_before_deletion(ctx, observed, &outcome.object, member, pod_uid).await?;
            record(ctx, plan, report, outcome).await?;
            info!(member = %member, reason, "deleting the pod");
            match delete_pod(ctx, namespace, deletion).await {
                // Its status may change often; whether it is to go is seen once more, and it goes or stays.
                Err(Error::Overtaken(_)) => {
                    let deletion = look_before_deletion(ctx, observed, &outcome.object, member, pod_uid).await?;
                    delete_pod(ctx, namespace, deletion).await
                }
                done => done,
            }
        }
        Action::Scale { replicas } => {
            let live = look_again(ctx, observed, &outcome.object, Ask::Everyone).await?;
            let scaling = recheck_scaling(snapshot, &live, *replicas)
                .map_err(|v| Error::Recheck(format!("shrink to {replicas} members"), v))?;
            // The record that explains the claims comes first; it is written only if nobody changed the group since.
            record(ctx, plan, report, outcome).await?;
            info!(replicas, "members leave");
            scale(ctx, snapshot, scaling).await
        }
        Action::Read { member, pod_uid } => {
            read(ctx, observed, member, pod_uid);
            Ok(())
        }
        Action::Run { intent, argv } => {
            let start = match looked.take() {
                Some((token, at, seen)) if token == intent.token && at.elapsed() < FRESH => seen?,
                _ => look_before_run(ctx, observed, &outcome.object, intent).await?,
            };
            record(ctx, plan, report, outcome).await?;
            crash::point(crash::RECORDED, intent).await;
            run(ctx, &outcome.object, snapshot, start, argv.clone());
            Ok(())
        }
    }
}

async fn look_before_run(
    ctx: &Context,
    observed: &Observed,
    written: &ReplicaGroup,
    intent: &Intent,
) -> Result<Start, Error> {
    crash::point(crash::DECIDED, intent).await;
    // Where all have to be stopped, all have to say so now; a further member only needs to be what it was, and where it can, its runner looks
    // in the moment of the start.
    let ask = match intent.verb.opens_term() {
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

async fn look_before_deletion(
    ctx: &Context,
    observed: &Observed,
    written: &ReplicaGroup,
    member: &MemberName,
    pod_uid: &str,
) -> Result<Deletion, Error> {
    let live = look_again(ctx, observed, written, Ask::Only(member)).await?;
    recheck_deletion(&observed.snapshot, &live, member, pod_uid)
        .map_err(|v| Error::Recheck(format!("delete the pod of {member}"), v))
}

/// Observes once more, for the checks to be held against it (design 4, "Checks"; safety S6, S8, S9).
async fn look_again(
    ctx: &Context,
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
fn asks_in_place(s: &Snapshot, intent: &Intent) -> bool {
    s.group.runner && intent.container == s.group.commands.status.container
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
    // Before the write: it may have happened although an error comes back, and then only this process knows that nothing was started.
    ctx.hints.of(&uid, |h| h.promised.extend(tokens));
    let object = report::write(ctx, &outcome.object, plan, report).await?;
    (outcome.object, outcome.recorded) = (object, true);
    Ok(())
}

/// Reads a sequence beside the rounds.
fn read(ctx: &Arc<Context>, observed: &Observed, member: &tanist_core::contract::MemberName, pod_uid: &str) {
    let s = &observed.snapshot;
    let Some(found) = s.member(member) else { return };
    let Some(target) = observe::target(&s.group, found).filter(|t| t.uid == pod_uid) else { return };
    let first = ctx.hints.of(&s.group.uid, |h| h.reading.insert(pod_uid.to_owned()));
    if !first {
        return;
    }
    let (ctx, group, member, object) = (ctx.clone(), s.group.clone(), found.clone(), observed.object.clone());
    let token = format!("sequence-{}-{}", member.ordinal, s.nonce);
    let led = !s.may_be_primary().is_empty();
    tokio::spawn(
        async move {
            observe::read_position(&ctx, &group, &member, target, token, led).await;
            ctx.wake(&object);
        }
        .in_current_span(),
    );
}

/// Starts a command in the background; its end starts the next round.
fn run(ctx: &Arc<Context>, object: &ReplicaGroup, s: &Snapshot, start: Start, argv: Vec<String>) {
    let intent = start.into_intent();
    let Some(member) = s.member(&intent.member) else { return };
    let (Some(target), Some(pod)) = (observe::target(&s.group, member), member.pod.clone()) else { return };
    let uid = s.group.uid.clone();
    // Every start that opens a term follows a look at everyone: if this runner can look at the position itself, it said so then.
    let position = member::rests_on(s.group.runner, &s.group.commands.sequence, &member.position, &intent)
        .filter(|_| ctx.hints.of(&uid, |h| h.can_look(&intent.pod_uid)))
        .map(|(command, position)| (command.clone(), position));
    ctx.hints.of(&uid, |h| {
        h.promised.remove(&intent.token);
        h.running.insert(intent.token.clone());
        h.touch(&intent.pod_uid, Instant::now());
    });
    let with_status = asks_in_place(s, &intent);
    let role = with_status.then(|| s.role(member).0);
    let (ctx, object) = (ctx.clone(), object.clone());
    info!(member = %intent.member, command = intent.command, token = intent.token, "command starts");
    tokio::spawn(async move {
        let started = Instant::now();
        let looks = Looks { role, position: position.as_ref().map(|(command, position)| (command, position.clone())) };
        let (evidence, said) = target.run(&ctx, &intent, &looks, &argv).await;
        crash::point(crash::ENDED, &intent).await;
        let result = Metrics::result(&evidence);
        let seconds = started.elapsed().as_secs_f64();
        match result {
            "ok" => {
                info!(member = %intent.member, command = intent.command, token = intent.token, seconds, "command ended well")
            }
            _ => {
                warn!(member = %intent.member, command = intent.command, token = intent.token, seconds, ?evidence, "command ended")
            }
        }
        ctx.metrics.executed(&intent.command, result, started.elapsed());
        if result == "unknown" {
            ctx.metrics.unknown();
        }
        ctx.hints.of(&uid, |h| {
            h.running.remove(&intent.token);
            match said.filter(|_| with_status) {
                Some(said) => {
                    h.touch(&intent.pod_uid, started + said.after);
                    h.say(&pod, &intent.container, started, said);
                }
                None => h.touch(&intent.pod_uid, Instant::now()),
            }
            h.results.insert(intent.token.clone(), evidence);
        });
        ctx.wake(&object);
    }.in_current_span());
}

#[cfg(test)]
mod tests;
