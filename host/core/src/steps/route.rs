//! Route: Services lead to members that serve in their role, and these count as Ready; claims get the memory of a confirmed role.
use crate::check;
use crate::contract::{Phase, Role};
use crate::memory;
use crate::plan::{Action, Plan, route_word};
use crate::policy::Policies;
use crate::snapshot::{Claim, Member, Snapshot};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    let none_to_start = has_none_to_start(s);
    let held_back = check::held_back(s);
    for member in &s.members {
        route(s, plan, member, none_to_start, held_back.contains(&member.ordinal));
        mark_claims(s, plan, member);
    }
}

fn route(s: &Snapshot, plan: &mut Plan, member: &Member, none_to_start: bool, is_held_back: bool) {
    let Some(pod) = member.pod.as_ref().filter(|p| p.phase == Phase::Running) else { return };
    let (role, _) = s.role(member);
    // An open command, or a role that cannot be read for a moment, does not change the routing.
    if role == Role::Unknown || plan.touches(&member.name) || s.record.intent_of(&member.name).is_some() {
        return;
    }
    // It is Ready all the same, for that is what the cut-over waits for.
    let follows_unread = is_held_back && s.confirmed(member, Role::Secondary);
    let is_too_many = || s.is_surplus(member) || !member.leads_clients() && !s.strangers.is_empty();
    let shown = if s.confirmed(member, role) && !follows_unread && !(role == Role::Primary && is_too_many()) {
        route_word(role)
    } else {
        None
    };
    let is_well = shown.is_some() || follows_unread || role == Role::Stopped && none_to_start;
    let ready = has_vote(s, member) && is_well;
    let planned = plan.actions.iter().any(|a| matches!(a, Action::Route { member: m, .. } if m == &member.name));
    if shown.is_none() && planned && !ready {
        return; // the unroute step has planned it already
    }
    if pod.routed.as_deref() != shown || pod.gate != Some(ready) {
        let (member, pod_uid) = (member.name.clone(), pod.uid.clone());
        let version = (ready || shown.is_some()).then(|| pod.version.clone());
        plan.actions.push(Action::Route { member, pod_uid, role: shown, ready, version });
    }
}

/// Whether the member counts for the majority. The disruption budget keeps as many members Ready as a majority is, so nobody is Ready who has no vote (docs/requirements.md, D25).
/// Before the first list all count, and on the way to 0 members, too.
fn has_vote(s: &Snapshot, member: &Member) -> bool {
    let known = s.record.membership.as_ref().filter(|_| s.group.commands.membership.is_some() && !s.group.is_stopped());
    known.is_none_or(|known| known.of(&member.name).is_some_and(|listed| listed.voter))
}

/// Whether stopped members are stopped on purpose: enough primaries serve, and no command starts the others (docs/requirements.md, reading 4). A
/// primary whose role cannot be read for a moment counts as serving, so that its idle members stay Ready (S19).
fn has_none_to_start(s: &Snapshot) -> bool {
    let silent = |m: &&Member| s.role(m).0 == Role::Unknown && m.leads_clients();
    let lead = s.serving().len().saturating_add(s.members.iter().filter(silent).count());
    let enough = lead >= s.group.desired_primaries();
    // A member that agrees with others and is stopped has no vote, or does not give it.
    let are_idle = s.group.commands.secondary.is_none() && s.group.commands.membership.is_none();
    s.group.is_stopped() || (enough && are_idle)
}

fn mark_claims(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let in_role = [Role::Primary, Role::Secondary].iter().any(|r| s.confirmed(member, *r));
    let confirmed = in_role || memory::lacks_version(s, member);
    // Who the members are is remembered by all, because a majority may be lost in the moment in which the list changes.
    let lists = memory::keeps_list(s, member);
    if !confirmed && !lists {
        return;
    }
    let Some(mark) = memory::claim_mark(&s.record, &s.group.name, &member.name) else { return };
    // A claim with a later term is not changed: an administrator has to compare it with the record.
    let ahead = |c: &&Claim| c.mark.as_ref().is_some_and(|m| m.group == mark.group && m.term > s.record.term);
    let differs = |c: &&Claim| match confirmed {
        true => c.mark.as_ref() != Some(&mark),
        false => !memory::has_list(s, c),
    };
    for claim in member.claims.iter().filter(|c| differs(c) && !ahead(c)) {
        let (name, uid, version) = (claim.name.clone(), claim.uid.clone(), claim.version.clone());
        plan.actions.push(Action::MarkClaim { claim: name, uid, version, mark: mark.clone() });
    }
}
