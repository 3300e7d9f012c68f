//! Remember: what this round's observations say for later ones. Nothing here starts anything.
use crate::contract::{Position, Role};
use crate::memory;
use crate::over;
use crate::plan::Plan;
use crate::policy::Policies;
use crate::record::{LastPrimary, Mark, Seeded};
use crate::snapshot::{Member, Snapshot};
use crate::steps::begin::push_last_primary;

/// See the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    clear_backoff(s, plan);
    adopt(s, plan);
    for member in &s.members {
        unchanged(s, plan, member);
        serving(s, plan, member);
        position(plan, member);
    }
    last_primaries(s, plan);
    replicas(s, plan);
}

/// A new generation or a new value of `tanist.dev/retry` clears every back-off.
fn clear_backoff(s: &Snapshot, plan: &mut Plan) {
    let record = &mut plan.record;
    if record.cleared_generation == s.group.generation && record.cleared_retry == s.group.retry {
        return;
    }
    record.cleared_generation = s.group.generation;
    record.cleared_retry.clone_from(&s.group.retry);
    record.clear_backoff();
}

/// Memory is lost and the application runs: what serves is taken as it is, if that is certain (rows A32, A49).
fn adopt(s: &Snapshot, plan: &mut Plan) {
    if !s.record.is_blank() || !s.record.intents.is_empty() {
        return;
    }
    let of = |role| s.members.iter().filter(move |m| s.reachable(m) && s.role(m).0 == role);
    let primaries: Vec<_> = of(Role::Primary).collect();
    let certain = [Role::Unknown, Role::Failed, Role::Starting].into_iter().all(|r| of(r).next().is_none());
    let wanted = usize::try_from(s.group.primaries).unwrap_or(usize::MAX);
    let Some(first) = primaries.first().filter(|_| certain && primaries.len() <= wanted) else { return };
    plan.record.term = 1;
    plan.record.ever_seeded = Some(Seeded { member: first.name.clone(), confirmed: true });
    for member in primaries.iter().copied().chain(of(Role::Secondary)) {
        let known = plan.record.member_mut(&member.name);
        known.term = Some(1);
        known.claim_uid = member.claims.first().map(|c| c.uid.clone());
    }
    plan.record.note(s.now, "adopted", None, Some(format!("{} primaries ran and nothing was remembered", primaries.len())));
}

/// A start that failed and changed nothing no longer counts: stopped is read and the sequence is what it was (design 4, "Term").
fn unchanged(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let known = s.record.member(&member.name);
    let Some(started) = &known.started else { return };
    let over = s.record.intent_of(&member.name).is_none() && s.reachable(member) && s.role(member).0 == Role::Stopped;
    if over && member.position == started.before && matches!(member.position, Position::Known(_) | Position::Empty) {
        plan.record.member_mut(&member.name).started = None;
    }
}

fn serving(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let (Some(pod), true) = (&member.pod, s.serves(member)) else { return };
    let name = &s.group.commands.status.container;
    let Some(container_id) = pod.containers.get(name).and_then(|c| c.id.clone()) else { return };
    let known = plan.record.member_mut(&member.name);
    if known.primary_term != Some(s.record.term) {
        known.primary_term = Some(s.record.term);
        known.last_primary = Some(s.now);
    }
    let entry = LastPrimary {
        member: member.name.clone(),
        pod_uid: pod.uid.clone(),
        container: name.clone(),
        container_id,
        node: pod.node.clone(),
        grace: pod.grace,
        gone: None,
    };
    push_last_primary(plan, entry);
}

fn position(plan: &mut Plan, member: &Member) {
    let Position::Known(sequence) = &member.position else { return };
    let known = plan.record.member_mut(&member.name);
    let Some(term) = known.counts_as() else { return };
    known.sequence = Some(sequence.clone());
    memory::raise(&mut plan.record, Mark { term, sequence: sequence.clone() });
}

/// Notes since when a pod is gone, and drops what is proven over.
fn last_primaries(s: &Snapshot, plan: &mut Plan) {
    // A target whose command was settled a moment ago is judged with the memory of this round.
    let now = Snapshot { record: plan.record.clone(), ..s.clone() };
    plan.record.last_primaries.retain(|last| over::over(&now, last).is_err());
    for last in &mut plan.record.last_primaries {
        if last.gone.is_none() && s.pod(&last.pod_uid).is_none() {
            last.gone = Some(s.now);
        }
    }
}

/// The set only grows here; an orderly shrink is a step of its own.
fn replicas(s: &Snapshot, plan: &mut Plan) {
    if let Some(set) = &s.set {
        plan.record.last_replicas = plan.record.last_replicas.max(set.replicas);
    }
}
