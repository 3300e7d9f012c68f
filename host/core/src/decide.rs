//! Walks the steps of a round. Pure: the same snapshot and the same answers give the same plan.
use crate::limits;
use crate::plan::{Plan, Reason};
use crate::policy::Policies;
use crate::snapshot::Snapshot;
use crate::steps;

/// One step: it passes, waits or adds actions to the plan; it asks a policy only when its question arises.
type Step = fn(&Snapshot, &dyn Policies, &mut Plan);

/// The steps in order, without the last two, `update` and `rebalance`; each is a file in `steps/` and a heading of host/README.md.
const STEPS: [Step; 20] = [
    steps::settle::step,
    steps::remember::step,
    steps::objects::step,
    steps::unroute::step,
    steps::treat::step,
    steps::demote::step,
    steps::switchover::step,
    steps::seed::step,
    steps::failover::step,
    steps::rejoin::step,
    steps::update::idle,
    steps::join::step,
    steps::place::step,
    steps::follow::step,
    steps::route::step,
    steps::lists::step,
    steps::resize::step,
    steps::shrink::step,
    steps::discard::step,
    steps::overdue::step,
];

/// Decides what is done this round.
#[must_use]
pub fn decide(snapshot: &Snapshot, policies: &dyn Policies) -> Plan {
    let mut plan = Plan::new(snapshot.record.clone());
    if snapshot.group.paused {
        plan.wait(Reason::Paused, None, "spec.paused is set; nothing is started, stopped or changed until it is false");
        // Commands that were begun before are settled all the same: that changes only the record (S40).
        steps::settle::step(snapshot, policies, &mut plan);
        return plan;
    }
    let mut now = snapshot.clone();
    now.members.sort_by(|a, b| (a.ordinal, &a.name).cmp(&(b.ordinal, &b.name)));
    for step in STEPS {
        step(&now, policies, &mut plan);
        // A step's changes to the record hold for the next one: a command that was just begun makes its member busy.
        now.record.clone_from(&plan.record);
    }
    steps::update::step(&now, policies, &mut plan);
    // The last step. The second look has the record from before this round: what a switchover changed in it counts in the next one.
    if now.record.switchover == snapshot.record.switchover {
        steps::rebalance::step(&now, policies, &mut plan);
    }
    limit_waiting(snapshot, &mut plan);
    plan.sort();
    plan
}

/// Reports a policy that has answered nothing but "wait" for a long time. Nothing is done in its place (docs/safety.md, S36).
fn limit_waiting(s: &Snapshot, plan: &mut Plan) {
    let Some(wait) = plan.waits.iter_mut().find(|w| w.reason == Reason::PolicyWaits) else {
        // While positions are being read no policy is asked, so the time goes on.
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
        plan.stalled = Some(format!("no decision for {} s: {}", s.now.saturating_sub(since), wait.message));
    }
}
