//! Shrink: more members than wanted. This build waits and says so; the `StatefulSet` never just gets a smaller number (safety S25).
use crate::plan::{Plan, Reason};
use crate::policy::Policies;
use crate::snapshot::Snapshot;

/// See the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    let present = s.set.as_ref().map_or(0, |set| set.replicas);
    if present > s.group.replicas {
        let message =
            format!("{present} members exist, {} are wanted; this version does not remove members", s.group.replicas);
        plan.wait(Reason::ShrinkPending, None, message);
    }
}
