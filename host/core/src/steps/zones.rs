//! Zones: members that are in a wrong one move (`spec.zones`, E14). One after the other, or as many at a time as the user allows, new members are called in their place; what comes then is that of every member in whose
//! place a new one comes (`seats::settle`).
use crate::check;
use crate::plan::{Action, Plan, Reason};
use crate::policy::Policies;
use crate::snapshot::{Member, Snapshot};
use crate::steps::update;

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    if !s.group.makes_pods || s.group.zones.is_empty() || s.group.is_stopped() {
        return;
    }
    let moves = |m: &&Member| check::is_being_replaced(s, m) && check::is_misplaced(s, m);
    let mut waits: Vec<String> = s.members.iter().filter(moves).map(|m| update::arrival(s, m)).collect();
    let mut about = s.members.iter().find(moves);
    if let Some(next) = check::next_to_move(s) {
        waits.push(advance(s, plan, next));
        about = about.or(Some(next));
    }
    if let Some(about) = about {
        plan.wait(Reason::ZonesPending, Some(&about.name), waits.join("; "));
    }
}

/// Calls a new member, or says why none is called.
fn advance(s: &Snapshot, plan: &mut Plan, next: &Member) -> String {
    let zone = s.record.seats.as_ref().and_then(|seats| seats.zone(next.ordinal)).unwrap_or_default();
    let why = format!("it is in zone {zone}, which has more members than spec.zones asks for");
    // Whose pod is deleted in this round is in no role in the next one, and whoever is called for an update in this round counts, too.
    let is_busy = plan.actions.iter().any(|action| matches!(action, Action::DeletePod { .. } | Action::Run { .. }));
    let called = |of: Option<&crate::record::Seats>| of.map(|seats| seats.replaced.len());
    if is_busy || called(plan.record.seats.as_ref()) != called(s.record.seats.as_ref()) {
        return format!("{} moves later: {why}", next.name);
    }
    match check::move_member(s, next) {
        Ok(()) => format!("{} ({why})", update::call_new(s, plan, next, &why)),
        Err(violation) => format!("{} is next to move ({why}): {violation}", next.name),
    }
}
