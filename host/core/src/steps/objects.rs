//! Objects: what the group needs in Kubernetes is there as wished.
use crate::plan::{Action, Plan, Reason};
use crate::policy::Policies;
use crate::snapshot::Snapshot;

/// See the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    for object in s.objects.iter().filter(|o| !o.current) {
        plan.wait(Reason::CreatingObjects, None, format!("{} {} is being applied", object.kind, object.name));
        plan.actions.push(Action::Apply(object.clone()));
    }
}
