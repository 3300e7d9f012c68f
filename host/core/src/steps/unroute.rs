//! Unroute: what must not be reached leaves the Services before anything else happens.
use crate::contract::{Phase, Role};
use crate::plan::{Action, Plan, route_word};
use crate::policy::Policies;
use crate::snapshot::Snapshot;

/// See the module. A role that cannot be read for a moment changes nothing: one slow probe never takes a healthy primary away (S19).
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    for member in &s.members {
        let Some(pod) = member.pod.as_ref() else { continue };
        let Some(shown) = pod.routed.as_deref() else { continue };
        let (role, _) = s.role(member);
        let leaving = matches!(pod.phase, Phase::Terminating | Phase::Ended);
        let other = role != Role::Unknown && route_word(role) != Some(shown);
        let stale = role != Role::Unknown && s.record.member(&member.name).term < Some(s.record.term);
        if leaving || other || stale {
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
