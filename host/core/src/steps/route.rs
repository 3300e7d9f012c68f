//! Route: who serves in its role is shown by the Services and counts as Ready; claims get the memory of a confirmed role.
use crate::contract::{Phase, Role};
use crate::memory;
use crate::plan::{Action, Plan, route_word};
use crate::policy::Policies;
use crate::snapshot::{Claim, Member, Snapshot};

/// See the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    for member in &s.members {
        route(s, plan, member);
        mark_claims(s, plan, member);
    }
}

fn route(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let Some(pod) = member.pod.as_ref().filter(|p| p.phase == Phase::Running) else { return };
    let (role, _) = s.role(member);
    // A command or a moment's silence decides nothing about routing.
    if role == Role::Unknown || plan.touches(&member.name) || s.record.intent_of(&member.name).is_some() {
        return;
    }
    let shown = if s.confirmed(member, role) { route_word(role) } else { None };
    let ready = shown.is_some() || idle(s, member);
    let planned = plan.actions.iter().any(|a| matches!(a, Action::Route { member: m, .. } if m == &member.name));
    if shown.is_none() && planned && !ready {
        return; // unroute has said so already
    }
    if pod.routed.as_deref() != shown || pod.gate != Some(ready) {
        let (member, pod_uid) = (member.name.clone(), pod.uid.clone());
        let version = ready.then(|| pod.version.clone());
        plan.actions.push(Action::Route { member, pod_uid, role: shown, ready, version });
    }
}

/// Whether the member is meant to be stopped: enough serve, and nothing starts the rest (docs/requirements.md, reading 4). A primary that cannot be read for a
/// moment is taken to serve on: its silence is no reason to take the idle ones away (S19).
fn idle(s: &Snapshot, member: &Member) -> bool {
    let silent = |m: &&Member| {
        s.role(m).0 == Role::Unknown && m.pod.as_ref().is_some_and(|p| p.routed.as_deref() == Some("primary"))
    };
    let lead = s.serving().len().saturating_add(s.members.iter().filter(silent).count());
    let enough = lead >= s.group.wanted_primaries();
    let nothing_wanted = s.group.replicas == 0 || (enough && s.group.commands.secondary.is_none());
    s.role(member).0 == Role::Stopped && nothing_wanted
}

fn mark_claims(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let confirmed = [Role::Primary, Role::Secondary].iter().any(|r| s.confirmed(member, *r));
    let Some(mark) = memory::mark(&s.record, &s.group.name, &member.name).filter(|_| confirmed) else { return };
    // What remembers a later term is left as it is: an administrator compares it with the record.
    let ahead = |c: &&Claim| c.mark.as_ref().is_some_and(|m| m.group == mark.group && m.term > s.record.term);
    for claim in member.claims.iter().filter(|c| c.mark.as_ref() != Some(&mark) && !ahead(c)) {
        let (name, uid, version) = (claim.name.clone(), claim.uid.clone(), claim.version.clone());
        plan.actions.push(Action::MarkClaim { claim: name, uid, version, mark: mark.clone() });
    }
}
