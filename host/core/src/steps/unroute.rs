//! Unroute: members that clients must not reach leave the Services before anything else happens.
use crate::check;
use crate::contract::{Phase, Role};
use crate::plan::{Action, Plan, route_word};
use crate::policy::Policies;
use crate::snapshot::Snapshot;

/// Runs this step; see the documentation of the module. A role that cannot be read for a moment changes nothing, so that one slow probe does not take a healthy
/// primary out of service (S19).
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    let elected = check::is_formed(s)
        && s.group.commands.secondary.is_some()
        && s.group.desired_primaries() < s.members.len()
        && s.leading().len() >= s.group.desired_primaries();
    for member in &s.members {
        let Some(pod) = member.pod.as_ref() else { continue };
        let Some(shown) = pod.routed.as_deref() else { continue };
        let (role, _) = s.role(member);
        let leaving = matches!(pod.phase, Phase::Terminating | Phase::Ended);
        let other = role != Role::Unknown && route_word(role) != Some(shown);
        let stale = role != Role::Unknown && s.record.member(&member.name).term < Some(s.record.term);
        // The members elected another one.
        let deposed = role == Role::Unknown && shown == "primary" && elected;
        if leaving || other || stale || deposed {
            plan.actions.push(Action::Route {
                member: member.name.clone(),
                pod_uid: pod.uid.clone(),
                role: None,
                ready: false,
                version: None,
            });
        }
    }
}
