//! Act: the only writer of objects and the only one that starts commands. It fences every write and never waits for a command.
//!
//! A command starts in this order: observe once more, live; hold the same checks against it; write the record, with the resource version
//! that was read; start. Whoever lost in between fails, and nothing has happened.
use crate::api::{self, ReplicaGroup};
use crate::context::Context;
use crate::crash;
use crate::hints::FRESH;
use crate::metrics::Metrics;
use crate::observe;
use crate::observe::{Ask, Observed, resource};
use crate::report;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tanist_core::check;
use tanist_core::decide::recheck;
use tanist_core::plan::{Action, Plan};
use tanist_core::record::Intent;
use tanist_core::snapshot::{ClaimMark, Evidence, Object, Snapshot};
use tracing::{Instrument, info, warn};

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
    /// What was planned does not hold any more.
    #[error("failed to start {0}: {1}")]
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
            Error::Outdated => "Outdated",
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
    // What was promised and not kept was never started, and nobody else can start it.
    ctx.hints.of(&observed.snapshot.group.uid, |h| {
        while let Some(token) = h.promised.pop_first() {
            h.results.insert(token, Evidence::NotStarted("the situation had changed".into()));
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
        one(ctx, observed, plan, report, action, outcome).await?;
    }
    // After a write, lists wait for the API server's caches, up to 100 ms: what can be looked at again before the first write, is.
    let mut looked = match others.iter().find(|a| matches!(a, Action::Run { .. })) {
        Some(run) => {
            let seen = look_before_run(ctx, observed, &outcome.object, run).await;
            Some((Instant::now(), seen))
        }
        None => None,
    };
    for action in others {
        if let Action::Run { .. } = action {
            match looked.take() {
                Some((at, seen)) if at.elapsed() < FRESH => seen?,
                _ => look_before_run(ctx, observed, &outcome.object, action).await?,
            }
        }
        one(ctx, observed, plan, report, action, outcome).await?;
    }
    Ok(())
}

async fn one(
    ctx: &Arc<Context>,
    observed: &Observed,
    plan: &Plan,
    report: &report::Derived,
    action: &Action,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let snapshot = &observed.snapshot;
    let namespace = &snapshot.group.namespace;
    if ctx.is_closing() {
        return Err(Error::Closing);
    }
    match action {
        Action::Apply(object) => apply(ctx, snapshot, object).await,
        Action::Route { member, pod_uid, role, ready } => {
            let gate = snapshot.member(member).and_then(|m| m.pod.as_ref()?.gate);
            let once =
                plan.actions.iter().filter(|a| matches!(a, Action::Route { member: m, .. } if m == member)).count()
                    == 1;
            let turns = (gate != Some(*ready) || !once).then_some(*ready);
            route(ctx, namespace, member.as_str(), pod_uid, *role, turns, snapshot.now).await
        }
        Action::MarkClaim { claim, uid, mark } => mark_claim(ctx, namespace, claim, uid, mark).await,
        Action::DeletePod { member, pod_uid, reason } => {
            look_again(ctx, observed, &outcome.object, action).await?;
            record(ctx, plan, report, outcome).await?;
            info!(member = %member, reason, "deleting the pod");
            delete_pod(ctx, namespace, member.as_str(), pod_uid).await
        }
        Action::Scale { replicas } => {
            // The record that explains the claims comes first; it is written only if nobody changed the group since.
            record(ctx, plan, report, outcome).await?;
            info!(replicas, "members leave");
            scale(ctx, snapshot, *replicas).await
        }
        Action::Read { member, pod_uid } => {
            read(ctx, observed, member, pod_uid);
            Ok(())
        }
        Action::Run { intent, argv } => {
            record(ctx, plan, report, outcome).await?;
            crash::point(crash::RECORDED, intent).await;
            run(ctx, &outcome.object, snapshot, intent.clone(), argv.clone());
            Ok(())
        }
    }
}

async fn look_before_run(
    ctx: &Context,
    observed: &Observed,
    written: &ReplicaGroup,
    action: &Action,
) -> Result<(), Error> {
    let Action::Run { intent, .. } = action else { return Ok(()) };
    crash::point(crash::DECIDED, intent).await;
    look_again(ctx, observed, written, action).await?;
    crash::point(crash::LOOKED, intent).await;
    Ok(())
}

/// Observes once more and holds the checks against it (design 4, "Checks"; safety S6, S8, S9).
async fn look_again(ctx: &Context, observed: &Observed, written: &ReplicaGroup, action: &Action) -> Result<(), Error> {
    let ask = match action {
        // Where all have to be stopped, all have to say so now; a further member only needs to be what it was, and where it can, its runner
        // looks in the moment of the start.
        Action::Run { intent, .. } if asks_in_place(&observed.snapshot, intent) && !intent.verb.opens_term() => {
            Ask::Recent
        }
        Action::Run { intent, .. } if !intent.verb.opens_term() => Ask::Only(&intent.member),
        Action::DeletePod { member, .. } => Ask::Only(member),
        _ => Ask::Everyone,
    };
    let live =
        observe::observe(ctx, &observed.object, ask, Some(&observed.snapshot)).await.map_err(Error::LookAgain)?;
    if live.object.resource_version() != written.resource_version() {
        return Err(Error::Outdated);
    }
    let Action::Run { intent, .. } = action else { return Ok(()) };
    recheck(&observed.snapshot, &live.snapshot, intent)
        .map_err(|v| Error::Recheck(format!("{} on {}", intent.command, intent.member), v))
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
    match report::write(ctx, &outcome.object, plan, report).await {
        Ok(object) => {
            let uid = object.metadata.uid.clone().unwrap_or_default();
            let tokens = plan
                .actions
                .iter()
                .filter_map(|a| if let Action::Run { intent, .. } = a { Some(intent.token.clone()) } else { None });
            ctx.hints.of(&uid, |h| h.promised.extend(tokens));
            (outcome.object, outcome.recorded) = (object, true);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

async fn within<T>(what: String, write: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
    match tokio::time::timeout(Duration::from_secs(WRITE_SECONDS), write).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Error::Write(what, error)),
        Err(_) => Err(Error::Silent(what)),
    }
}

/// Server-side apply. A template that the API server refuses changes nothing, and the group says so.
async fn apply(ctx: &Context, s: &Snapshot, object: &Object) -> Result<(), Error> {
    let version = object.manifest.get("apiVersion").and_then(|v| v.as_str()).unwrap_or("v1");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = resource(group, version, &object.kind);
    let api: Api<DynamicObject> = Api::namespaced_with(ctx.client.clone(), &s.group.namespace, &kind);
    let params = PatchParams::apply(api::FIELD_MANAGER).force();
    let what = format!("apply {} {}", object.kind, object.name);
    let applied = match within(what, api.patch(&object.name, &params, &Patch::Apply(&object.manifest))).await {
        Err(Error::Write(_, kube::Error::Api(status))) if matches!(status.code, 400 | 422) => {
            return Err(Error::RejectTemplate(format!("{} {}", object.kind, object.name), status.message.clone()));
        }
        other => other?,
    };
    let fingerprint = observe::fingerprint(&applied.metadata, &applied.data.get("spec").cloned().unwrap_or_default());
    ctx.hints.of(&s.group.uid, |h| h.applied.insert(format!("{}/{}", object.kind, object.name), fingerprint));
    Ok(())
}

/// Label and, where it turns, readiness gate. The UID in the patch is a precondition: a new pod of that name is another pod.
async fn route(
    ctx: &Context,
    namespace: &str,
    pod: &str,
    uid: &str,
    role: Option<&'static str>,
    ready: Option<bool>,
    now: i64,
) -> Result<(), Error> {
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), namespace);
    let labels = json!({"metadata": {"uid": uid, "labels": {api::LABEL_ROLE: role}}});
    let gate = json!({"metadata": {"uid": uid}, "status": {"conditions": [{
        "type": api::GATE_MEMBER,
        "status": if ready == Some(true) { "True" } else { "False" },
        "reason": if ready == Some(true) { "InItsRole" } else { "NotInItsRole" },
        "lastTransitionTime": jiff::Timestamp::from_second(now).unwrap_or_default().to_string(),
    }]}});
    let params = PatchParams::default();
    let (labels, gate) = (Patch::Merge(&labels), Patch::Strategic(&gate));
    let label =
        async { within(format!("label pod {pod}"), pods.patch(pod, &params, &labels)).await.map(drop).or_else(gone) };
    let gate = async {
        if ready.is_none() {
            return Ok(());
        }
        let set = pods.patch_status(pod, &params, &gate);
        within(format!("set the readiness gate of {pod}"), set).await.map(drop).or_else(gone)
    };
    // Going down, both at once; coming up, the Services come last.
    match role {
        None => tokio::try_join!(label, gate).map(drop)?,
        Some(_) => {
            gate.await?;
            label.await?;
        }
    }
    info!(member = pod, role, ready, "routed");
    Ok(())
}

/// A pod that is gone needs no routing; one that was replaced is seen in the next round.
fn gone(error: Error) -> Result<(), Error> {
    match &error {
        Error::Write(_, kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        _ => Err(error),
    }
}

async fn mark_claim(ctx: &Context, namespace: &str, claim: &str, uid: &str, mark: &ClaimMark) -> Result<(), Error> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(ctx.client.clone(), namespace);
    let patch = json!({"metadata": {"uid": uid, "annotations": observe::convert::claim_notes(mark)}});
    within(format!("mark claim {claim}"), claims.patch(claim, &PatchParams::default(), &Patch::Merge(&patch)))
        .await
        .map(drop)
}

async fn delete_pod(ctx: &Context, namespace: &str, pod: &str, uid: &str) -> Result<(), Error> {
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), namespace);
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    within(format!("delete pod {pod}"), pods.delete(pod, &params)).await.map(drop).or_else(gone)
}

/// Gives the very `StatefulSet` fewer members.
async fn scale(ctx: &Context, s: &Snapshot, replicas: u32) -> Result<(), Error> {
    let Some(set) = &s.set else { return Ok(()) };
    let sets: Api<StatefulSet> = Api::namespaced(ctx.client.clone(), &s.group.namespace);
    let patch = Patch::Merge(json!({"metadata": {"uid": set.uid}, "spec": {"replicas": replicas}}));
    let params = PatchParams { field_manager: Some(api::FIELD_MANAGER.into()), ..PatchParams::default() };
    within(format!("shrink {} to {replicas}", s.group.name), sets.patch(&s.group.name, &params, &patch)).await.map(drop)
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
fn run(ctx: &Arc<Context>, object: &ReplicaGroup, s: &Snapshot, intent: Intent, argv: Vec<String>) {
    let Some(member) = s.member(&intent.member) else { return };
    let (Some(target), Some(pod)) = (observe::target(&s.group, member), member.pod.clone()) else { return };
    let uid = s.group.uid.clone();
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
        let (evidence, said) = target.run(&ctx, &intent, role, &argv).await;
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
