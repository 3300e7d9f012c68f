//! Walks the steps of a round. Pure: the same snapshot and the same answers give the same plan.
use crate::check;
use crate::contract::MemberName;
use crate::limits;
use crate::plan::{Action, Plan, Reason};
use crate::policy::{Answered, Policies, PolicyName, Question, Unanswered};
use crate::record::Intent;
use crate::snapshot::Snapshot;
use crate::steps;

/// One step: it passes, waits or adds actions to the plan; it asks a policy only when its question arises.
type Step = fn(&Snapshot, &dyn Policies, &mut Plan);

/// The steps in order; each is a file in `steps/` and a heading of host/README.md.
const STEPS: [Step; 14] = [
    steps::settle::step,
    steps::remember::step,
    steps::objects::step,
    steps::unroute::step,
    steps::treat::step,
    steps::demote::step,
    steps::handover::step,
    steps::seed::step,
    steps::failover::step,
    steps::join::step,
    steps::place::step,
    steps::follow::step,
    steps::route::step,
    steps::shrink::step,
];

/// Decides what is done this round.
#[must_use]
pub fn decide(snapshot: &Snapshot, policies: &dyn Policies) -> Plan {
    let mut plan = Plan::new(snapshot.record.clone());
    if snapshot.group.paused {
        plan.wait(Reason::Paused, None, "spec.paused is set; nothing is started, stopped or changed until it is false");
        // What was begun before is settled by its evidence all the same: that touches nothing but memory (S40).
        steps::settle::step(snapshot, policies, &mut plan);
        return plan;
    }
    let mut now = snapshot.clone();
    now.members.sort_by(|a, b| (a.ordinal, &a.name).cmp(&(b.ordinal, &b.name)));
    for step in STEPS {
        step(&now, policies, &mut plan);
        // What a step remembered holds for the next one: a command just begun makes its member busy.
        now.record.clone_from(&plan.record);
    }
    patience(snapshot, &mut plan);
    plan
}

/// A policy that only ever waits is told to people after a while; nothing is done in its stead (safety S36).
fn patience(s: &Snapshot, plan: &mut Plan) {
    let Some(wait) = plan.waits.iter_mut().find(|w| w.reason == Reason::PolicyWaits) else {
        // While positions are read nobody is asked: that is no answer.
        if plan.waits.iter().all(|w| w.reason != Reason::ReadingPositions) {
            plan.record.waiting_since = None;
        }
        return;
    };
    let since = *plan.record.waiting_since.get_or_insert(s.now);
    let until = since.saturating_add(limits::PATIENCE_SECONDS);
    if s.now < until {
        wait.until = Some(wait.until.map_or(until, |own| own.min(until)));
    } else {
        plan.stalled = Some(format!("for {} s: {}", s.now.saturating_sub(since), wait.message));
    }
}

/// Holds the checks once more, just before a command starts: what was decided against what is there now (safety S6, S8, S9).
///
/// The memory is that of the decision, before this intent: what was settled in the very same round is not written yet.
///
/// # Errors
/// The first rule that does not hold any more.
pub fn recheck(decided: &Snapshot, live: &Snapshot, intent: &Intent) -> check::Held {
    let (again, _) = look_again(decided, live);
    check::start(&again, intent)
}

/// The same, just before a pod is deleted: its member failed still, or its command has no known end still.
///
/// # Errors
/// Why the pod is to be left alone.
pub fn recheck_deletion(decided: &Snapshot, live: &Snapshot, name: &MemberName, pod_uid: &str) -> check::Held {
    let (again, settled) = look_again(decided, live);
    let last_resort =
        settled.actions.iter().any(|a| matches!(a, Action::DeletePod { pod_uid: uid, .. } if uid == pod_uid));
    match again.member(name).filter(|m| m.pod.as_ref().is_some_and(|p| p.uid == pod_uid)) {
        Some(_) if last_resort => Ok(()),
        Some(member) => check::failed_member(&again, member),
        None => {
            Err(check::broken_by(check::Rule::TargetReplaced, name, format!("the pod of {name} is another one now")))
        }
    }
}

/// What is there now, with the memory and the evidence of the decision, settled and remembered as it was.
fn look_again(decided: &Snapshot, live: &Snapshot) -> (Snapshot, Plan) {
    let mut again = live.clone();
    again.record.clone_from(&decided.record);
    again.evidence.clone_from(&decided.evidence);
    let mut plan = Plan::new(again.record.clone());
    steps::settle::step(&again, &Nobody, &mut plan);
    again.record.clone_from(&plan.record);
    steps::remember::step(&again, &Nobody, &mut plan);
    again.record.clone_from(&plan.record);
    (again, plan)
}

/// Settling and remembering ask nobody.
struct Nobody;

impl Policies for Nobody {
    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        let policy =
            PolicyName { name: "nobody".into(), version: String::new(), source: String::new(), digest: String::new() };
        Err(Unanswered { policy, kind: "not-asked", message: format!("{} is not asked here", question.point) })
    }
}
