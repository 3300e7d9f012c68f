//! Walks the steps of a round. Pure: the same snapshot and the same answers give the same plan.
use crate::check;
use crate::limits;
use crate::plan::{Action, Plan, Reason};
use crate::policy::Policies;
use crate::record::{Record, Verb};
use crate::snapshot::Snapshot;
use crate::steps;

/// One step: it passes, waits or adds actions to the plan; it asks a policy only when its question arises.
type Step = fn(&Snapshot, &dyn Policies, &mut Plan);

/// When a step is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// In every round.
    Always,
    /// Not for an active/passive group: nothing starts or stops its members.
    Commanded,
    /// The same, and not while a member is being recovered: the other members are given up, so none of them is started, changed or stopped for anything else. Nor while all are stopped for a
    /// conversion of the data.
    Unrecovered,
    /// Not while a member is being recovered: while members stop for a conversion, whoever runs with the former template takes over from a primary that is lost, and the others follow it.
    Running,
    /// The same, and only as long as somebody leads: members that are not desired any more leave before others stop.
    Leading,
}

/// The steps in order, without the last ones, `canary`, `rollback`, `update`, `hooks`, `zones`, `failing`, `rebalance`, `moves`, `grow`, `state` and `seats::settle`; each is a file in `steps/` and a heading of host/README.md.
const STEPS: [(Step, When); 25] = [
    (steps::admit::step, When::Always),
    (steps::seats::step, When::Always),
    (steps::settle::step, When::Commanded),
    (steps::remember::step, When::Commanded),
    (steps::objects::step, When::Always),
    (steps::active::step, When::Always),
    (steps::unroute::step, When::Commanded),
    (steps::treat::step, When::Commanded),
    (steps::recover::step, When::Commanded),
    (steps::upgrade::step, When::Commanded),
    (steps::demote::step, When::Running),
    (steps::switchover::step, When::Unrecovered),
    (steps::seed::step, When::Unrecovered),
    (steps::failover::step, When::Running),
    (steps::rejoin::step, When::Unrecovered),
    (steps::update::idle, When::Always),
    (steps::join::step, When::Unrecovered),
    (steps::place::step, When::Unrecovered),
    (steps::follow::step, When::Running),
    (steps::route::step, When::Commanded),
    (steps::lists::step, When::Commanded),
    (steps::resize::step, When::Unrecovered),
    (steps::shrink::step, When::Leading),
    (steps::discard::step, When::Unrecovered),
    (steps::overdue::step, When::Unrecovered),
];

/// Decides what is done this round.
#[must_use]
pub fn decide(snapshot: &Snapshot, policies: &dyn Policies) -> Plan {
    let mut plan = Plan::new(snapshot.record.clone());
    if snapshot.group.paused {
        plan.wait(Reason::Paused, None, "spec.paused is set; nothing is started, stopped or changed until it is false");
        // Commands that were begun before are settled all the same: that changes only the record (S40).
        steps::settle::step(snapshot, policies, &mut plan);
        // Nobody looks meanwhile: an open watch begins anew after it.
        plan.record.canary.take_if(|canary| canary.verdict.is_none());
        return plan;
    }
    let mut now = snapshot.clone();
    now.members.sort_by(|a, b| (a.ordinal, &a.name).cmp(&(b.ordinal, &b.name)));
    for (step, when) in STEPS {
        let is_left_out = match when {
            When::Always => false,
            When::Commanded => now.group.active_passive,
            When::Unrecovered => now.group.active_passive || is_held(snapshot, &now),
            When::Running => now.group.active_passive || check::is_recovering(&now) || is_stopping_all(snapshot, &now),
            When::Leading => {
                let is_stopping =
                    is_stopping_all(snapshot, &now) || now.leading().is_empty() && check::is_converting(&now);
                now.group.active_passive || check::is_recovering(&now) || is_stopping
            }
        };
        if is_left_out {
            continue;
        }
        step(&now, policies, &mut plan);
        // A step's changes to the record hold for the next one: a command that was just begun makes its member busy.
        now.record.clone_from(&plan.record);
    }
    let mut gave_up = false;
    if !is_held(snapshot, &now) {
        steps::canary::step(&now, policies, &mut plan);
        now.record.clone_from(&plan.record);
        steps::rollback::step(&now, policies, &mut plan);
        // What was observed is about the template that was just given up.
        let update = &now.group.update;
        gave_up = plan.record.fallback(update).is_some() && now.record.fallback(update).is_none();
        // The second look has the record from before this round, in which the first member was still watched.
        let is_judged = |record: &Record| record.canary_of(update).is_some_and(|canary| canary.verdict.is_some());
        let judged = is_judged(&plan.record) && !is_judged(&snapshot.record);
        // Nor does it know a member that gets its number in this round.
        let numbers = |record: &Record| record.seats.as_ref().map(|seats| seats.numbers.clone());
        let arrives = numbers(&plan.record) != numbers(&snapshot.record);
        // Nor who is active from now on.
        let moves = plan.record.active != snapshot.record.active;
        now.record.clone_from(&plan.record);
        if !gave_up && !judged && !arrives && !moves {
            steps::update::step(&now, policies, &mut plan);
            now.record.clone_from(&plan.record);
            // Nor does it know a batch that begins or ends in this round.
            if now.record.batch == snapshot.record.batch {
                steps::hooks::step(&now, policies, &mut plan);
                now.record.clone_from(&plan.record);
            }
        }
        steps::zones::step(&now, policies, &mut plan);
        steps::failing::step(&now, policies, &mut plan);
        // Asked last of all. The second look has the record from before this round: what a switchover changed in it counts in the next one.
        if now.record.switchover == snapshot.record.switchover && !moves {
            steps::rebalance::step(&now, policies, &mut plan);
        }
    }
    // Nobody waits for these, so nothing is held up by them.
    steps::moves::step(&now, policies, &mut plan);
    now.record.clone_from(&plan.record);
    steps::grow::step(&now, policies, &mut plan);
    steps::state::step(&now, policies, &mut plan);
    let leaves = check::is_converting(&now) && !now.leading().is_empty() && !is_stopping_all(snapshot, &now);
    if (!is_held(snapshot, &now) || leaves) && !gave_up {
        steps::seats::settle(&now, policies, &mut plan);
    }
    limit_waiting(snapshot, &mut plan);
    // Whoever is adopted is in the record first: a claim that alone said it would be taken for the memory of a group, and nobody else would be adopted (A49).
    if steps::remember::knows_nobody(&snapshot.record) {
        plan.actions.retain(|action| !matches!(action, Action::MarkClaim { .. }));
    }
    plan.sort();
    plan
}

/// Whether all members are stopped for something that only one of them does, or were until this round: the second look does not know yet that the data is of another version.
fn is_held(before: &Snapshot, s: &Snapshot) -> bool {
    check::is_recovering(s) || check::is_converting(s) || before.record.version != s.record.version
}

/// Whether a member is being stopped for a conversion: then the next ones follow, and nobody takes over meanwhile.
fn is_stopping_all(before: &Snapshot, s: &Snapshot) -> bool {
    before.record.version != s.record.version
        || check::is_converting(s)
            && s.record.intents.iter().any(|intent| intent.verb == Verb::Halt && s.is_under_way(intent))
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
