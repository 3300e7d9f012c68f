//! Follow: secondaries of an older term are pointed at the new primary. This build waits and says so.
use crate::contract::Role;
use crate::plan::{Plan, Reason};
use crate::policy::Policies;
use crate::snapshot::Snapshot;

/// See the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    if s.serving().is_empty() {
        return;
    }
    for member in s.members.iter().filter(|m| s.reachable(m) && s.role(m).0 == Role::Secondary) {
        if s.record.member(&member.name).term < Some(s.record.term) && s.record.intent_of(&member.name).is_none() {
            let message = format!(
                "{} is a secondary of an older term; this version does not point it at the new primary",
                member.name
            );
            plan.wait(Reason::FollowPending, Some(&member.name), message);
        }
    }
}
