//! Failover: secondaries run and no primary serves. This build proves nothing yet and promotes nobody: it waits and says so.
use crate::contract::Role;
use crate::plan::{Plan, Reason};
use crate::policy::Policies;
use crate::snapshot::Snapshot;

/// See the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    if s.group.replicas == 0 || !s.serving().is_empty() || s.primary_command().is_some() {
        return;
    }
    let secondary = s.members.iter().find(|m| s.reachable(m) && s.role(m).0 == Role::Secondary);
    if let Some(member) = secondary {
        let message =
            format!("{} is secondary and no primary serves; this version does not promote by itself", member.name);
        plan.wait(Reason::FailoverPending, Some(&member.name), message);
    }
}
