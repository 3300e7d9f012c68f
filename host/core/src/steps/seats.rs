//! Seats: where this operator makes the pods itself, the numbers of the members are given out and remembered before any pod is made. A number is never used twice.
use crate::plan::Plan;
use crate::policy::Policies;
use crate::snapshot::Snapshot;

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    if s.group.makes_pods {
        plan.record.seats = Some(s.roster().own());
    }
}
