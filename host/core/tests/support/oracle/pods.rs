//! What is done with pods: led out of their Services, deleted, moved.
use super::super::app::Body;
use super::super::world::{World, ordinal};
use super::{ensure, leaders, seems_failed};
use tanist_core::contract::{MemberName, Phase, Role};
use tanist_core::plan::{Action, Plan};
use tanist_core::record::{Intent, Verb};
use tanist_core::snapshot::Snapshot;

/// A routed member is unrouted before a command runs on it (A37). Only a secondary that goes on running may stay Ready meanwhile.
pub(super) fn hidden(w: &World, plan: &Plan, at: usize, intent: &Intent) -> Result<(), String> {
    // A change of the members leaves the one that executes it as it is.
    if intent.verb.changes_no_role() {
        return Ok(());
    }
    let body = &w.pods[&ordinal(&intent.member)];
    let goes_on = matches!(intent.verb, Verb::Failover | Verb::Join | Verb::Follow) && body.app.role == Role::Secondary;
    let shows = |a: &Action| matches!(a, Action::Route { member, role, ready, .. } if *member == intent.member && (role.is_some() || (*ready && !goes_on)));
    ensure(!plan.actions.iter().any(shows), || {
        format!("{} is shown in the round of {}", intent.member, intent.command)
    })?;
    let before = plan.actions.iter().take(at);
    let unrouted = before.filter(|a| matches!(a, Action::Route { member, role: None, .. } if *member == intent.member));
    let shown = body.pod.routed.is_some() || (body.pod.gate == Some(true) && !goes_on);
    ensure(!shown || unrouted.count() == 1, || {
        format!("{} is not hidden once before {}", intent.member, intent.command)
    })
}

/// A pod is deleted only if its member failed or the outcome of its command stays unknown.
pub(super) fn deletion(w: &World, s: &Snapshot, member: &MemberName, pod_uid: &str) -> Result<(), String> {
    let body = w.pods.get(&ordinal(member)).ok_or("there is no pod")?;
    ensure(body.pod.uid == pod_uid && body.pod.phase == Phase::Running, || format!("the pod of {member} is another"))?;
    let expired = |i: &Intent| s.now >= i.started + i64::from(i.timeout) + i64::from(s.group.unknown_grace);
    match s.record.intents.iter().find(|i| &i.member == member) {
        Some(intent) if !seems_failed(w, s, member) => {
            ensure(expired(intent), || format!("the pod of {member} is deleted too early"))
        }
        _ => ensure(seems_failed(w, s, member), || format!("{member} is deleted and is not failed")),
    }
}

/// The pod of a secondary that works is deleted only in a group in which everything else is well: every member runs in its role and is Ready, none of
/// them became so within the last minutes, nothing is open, and nothing else is done in the same round.
pub(super) fn moved(w: &World, s: &Snapshot, plan: &Plan, member: &MemberName, pod_uid: &str) -> Result<(), String> {
    let body = w.pods.get(&ordinal(member)).ok_or("there is no pod")?;
    ensure(body.pod.uid == pod_uid, || format!("the pod of {member} is another"))?;
    ensure(body.app.role == Role::Secondary, || format!("{member} is {:?} and is moved", body.app.role))?;
    ensure(s.now >= body.pod.phase_since + 3600, || format!("{member} is moved again within the hour"))?;
    let deletions = plan.actions.iter().filter(|a| matches!(a, Action::DeletePod { .. })).count();
    let works = plan.actions.iter().any(|a| matches!(a, Action::Run { .. } | Action::Scale { .. } | Action::Apply(_)));
    ensure(deletions == 1 && !works, || "something else is done when a member is moved".into())?;
    let well = |b: &Body| b.runs() && b.pod.phase == Phase::Running && b.pod.ready && b.app.probe.is_none();
    let ill = w.pods.iter().find(|(_, b)| !well(b) || !matches!(b.app.role, Role::Primary | Role::Secondary));
    ensure(ill.is_none(), || format!("{member} is moved, and db-{} is not well", ill.map_or(0, |(o, _)| *o)))?;
    ensure(w.pods.len() == s.group.replicas as usize, || "a member is moved while others are missing".into())?;
    let young = w.pods.iter().find(|(_, b)| s.now < b.pod.phase_since + 300);
    ensure(young.is_none(), || format!("{member} is moved, and db-{} is new", young.map_or(0, |(o, _)| *o)))?;
    let primaries = w.pods.values().filter(|b| b.app.role == Role::Primary).count();
    let quiet = primaries == s.group.primaries as usize && leaders(w) == primaries && plan.record.intents.is_empty();
    ensure(quiet, || format!("{member} is moved, and {primaries} primaries lead"))
}

/// An update replaces a pod in which nothing runs, or one of a member while all the others work; never that of the only primary beside members that could lead.
pub(super) fn updated(w: &World, s: &Snapshot, plan: &Plan, member: &MemberName, pod_uid: &str) -> Result<(), String> {
    let body = w.pods.get(&ordinal(member)).ok_or("there is no pod")?;
    ensure(body.pod.uid == pod_uid, || format!("the pod of {member} is another"))?;
    ensure(body.pod.outdated && body.pod.older_template, || format!("{member} has the present template"))?;
    if body.app.role == Role::Stopped && !w.execs.values().any(|e| e.intent.pod_uid == pod_uid && e.works_at.is_some())
    {
        return Ok(());
    }
    let is_announced = s.group.commands.hooks.before.is_none() || w.announced.contains(member);
    ensure(is_announced, || format!("{member} is updated, and nobody was told"))?;
    let works = |b: &Body| b.runs() && b.pod.phase == Phase::Running && b.pod.ready && b.app.probe.is_none();
    let others = w.pods.iter().filter(|(o, _)| **o != ordinal(member));
    let ill = others.clone().find(|(_, b)| !works(b) || !matches!(b.app.role, Role::Primary | Role::Secondary));
    let alone = s.group.commands.secondary.is_none();
    ensure(alone || ill.is_none(), || {
        format!("{member} is updated, and db-{} is not well", ill.map_or(0, |(o, _)| *o))
    })?;
    let follows = others.clone().any(|(_, b)| b.app.role == Role::Secondary);
    let is_sole = body.app.role == Role::Primary && s.group.primaries == 1;
    ensure(!(is_sole && follows), || format!("{member} leads, and others could"))?;
    ensure(plan.record.intents.is_empty(), || format!("{member} is updated while a command is open"))
}
