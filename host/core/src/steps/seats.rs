//! Seats: where this operator makes the pods itself, the numbers of the members are given out and remembered before any pod is made. A number is never used twice.
use crate::plan::Plan;
use crate::policy::Policies;
use crate::snapshot::Snapshot;

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    if !s.group.makes_pods {
        return;
    }
    let mut seats = s.roster().own();
    if s.record.seats.as_ref() != Some(&seats) {
        seats.revision = seats.revision.saturating_add(1);
        plan.record.seats = Some(seats);
    }
}
