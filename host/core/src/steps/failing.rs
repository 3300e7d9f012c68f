//! Failing: a member in which one command after the other failed, and which runs nothing, gets a successor (`spec.members.replaceAfterFailures`, D25). A new member is called in its place; what comes then is that of every
//! member in whose place a new one comes (`seats::settle`).
use crate::check;
use crate::plan::{Action, Plan, Reason};
use crate::policy::Policies;
use crate::snapshot::{Member, Snapshot};
use crate::steps::update;

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    if !s.group.makes_pods || s.group.is_stopped() {
        return;
    }
    let fails = |m: &&Member| check::is_replaced_as_failing(s, m);
    let mut waits: Vec<String> = s.members.iter().filter(fails).map(|m| update::arrival(s, m)).collect();
    let mut about = s.members.iter().find(fails);
    if let Some(next) = check::next_failing(s) {
        waits.push(advance(s, plan, next));
        about = about.or(Some(next));
    }
    if let Some(about) = about {
        plan.wait(Reason::ReplacementPending, Some(&about.name), waits.join("; "));
    }
}

/// Calls a new member, or says why none is called.
fn advance(s: &Snapshot, plan: &mut Plan, next: &Member) -> String {
    let failures = s.record.member(&next.name).failures;
    let why = format!("{failures} commands in a row failed in it");
    // Whose pod is deleted in this round is in no role in the next one, and whoever is called for something else in this round counts, too.
    let is_busy = plan.actions.iter().any(|action| matches!(action, Action::DeletePod { .. } | Action::Run { .. }));
    let called = |of: Option<&crate::record::Seats>| of.map(|seats| seats.replaced.len());
    if is_busy || called(plan.record.seats.as_ref()) != called(s.record.seats.as_ref()) {
        return format!("{} is replaced later: {why}", next.name);
    }
    match check::replace_failing(s, next) {
        Ok(()) => {
            let said = update::call_new(s, plan, next, &why);
            if let Some(seats) = &mut plan.record.seats {
                seats.failing.insert(next.ordinal);
            }
            format!("{said} ({why})")
        }
        Err(violation) => format!("{} is to be replaced ({why}): {violation}", next.name),
    }
}
