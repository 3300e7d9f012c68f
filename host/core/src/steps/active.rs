//! Active: the members of an active/passive group run by themselves; which one of them is active? The only step that is taken for such a group and for no other (E22 to E26).
//!
//! Who is active is in the record first and on the pod afterwards, and no pod gets the label while another one has it, or could get it by a write that comes late: whose turn has ended loses every label
//! once that is stored, and gets the other one when the next active member has its own. So there are never two, whenever an operator ends or stands still, and beside another one; what is left is in
//! docs/rules.md. If the record is lost, the label says who was active.
use crate::check;
use crate::contract::{MemberName, Phase, Role};
use crate::plan::{Action, Plan, Reason, route_word};
use crate::policy::{Point, Policies};
use crate::record::{Active, Event, cut};
use crate::snapshot::{Member, Snapshot};
use crate::steps::{ask, remember, shrink, update};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    if !s.group.active_passive {
        return;
    }
    ask::report_unusable_override(s, plan);
    remember::record_replicas(s, plan);
    for member in &s.members {
        note(s, plan, member);
    }
    let active = s.members.iter().find(|member| check::stays_active(s, member)).or_else(|| labelled(s));
    plan.record.active = active.and_then(place);
    match active {
        _ if s.group.is_stopped() => {}
        Some(member) => give_up(s, policies, plan, member),
        None => take_over(s, policies, plan),
    }
    end_turns(s, plan);
    let mut now = s.clone();
    now.record.clone_from(&plan.record);
    // The active member last: its second look holds up nobody who loses a label.
    let (active, others): (Vec<_>, Vec<_>) = now.members.iter().partition(|member| now.is_active(member));
    for member in others.into_iter().chain(active) {
        route(s, &now, plan, member);
    }
    // The second look of what follows has the record from before this round.
    if now.record.active == s.record.active {
        shrink::leave(&now, plan);
    }
}

/// The member whose pod alone has the label, if it is well: the record may have been lost, or an older one.
fn labelled(s: &Snapshot) -> Option<&Member> {
    let mut all = s.members.iter().filter(|member| member.leads_clients());
    let only = all.next().filter(|_| all.next().is_none())?;
    (s.role(only).0 == Role::Secondary && !s.group.is_stopped()).then_some(only)
}

fn place(member: &Member) -> Option<Active> {
    let pod_uid = member.pod.as_ref()?.uid.clone();
    Some(Active { member: member.name.clone(), pod_uid })
}

/// Notes what policies and users see of a member: that it worked once, and that it failed.
fn note(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let (role, why) = s.role(member);
    match role {
        Role::Primary | Role::Secondary => {
            let term = plan.record.term;
            plan.record.member_mut(&member.name).term.get_or_insert(term);
        }
        // Of a pod that does not run something else is said.
        Role::Failed if s.reachable(member) => {
            let why = why.unwrap_or_default();
            plan.wait(Reason::MemberFailed, Some(&member.name), format!("{} is not well: {}", member.name, cut(&why)));
        }
        Role::Unknown | Role::Stopped | Role::Starting | Role::Failed => {}
    }
}

/// The active member gives way where it leaves, its node is to be drained, its pod is to be replaced, or another one is preferred.
fn give_up(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan, active: &Member) {
    let Some(cause) = check::lead_cause(s) else { return };
    // The pod of the active member is the next one to be replaced: policies say when.
    if cause.word == "update" && !update::lets_lead_move(s, policies, plan, &cause) {
        return;
    }
    let bars = ask::bars(s, |member| {
        check::becomes_active(s, member)?;
        if s.leaves(member) {
            return Err(check::broken_by(check::Rule::NoSuccessor, &member.name, "it is beyond spec.replicas"));
        }
        match cause.to.as_ref().filter(|to| **to != member.name) {
            Some(to) => {
                Err(check::broken_by(check::Rule::AdministratorDecides, &member.name, format!("{to} is to lead")))
            }
            None => Ok(()),
        }
    });
    if bars.len() == s.members.len() {
        let texts: Vec<_> =
            bars.values().filter(|v| v.member.as_ref() != Some(&active.name)).map(ToString::to_string).collect();
        let message = format!("{}, and nobody can be active in its place: {}", cause.why, texts.join("; "));
        return plan.wait(Reason::SwitchoverPending, cause.to.as_ref(), cut(&message));
    }
    if let Some(name) = ask::choose_member(s, policies, plan, Point::Failover, &bars) {
        activate(s, plan, &name, &cause.why);
    }
}

/// Nobody is active: the policies choose among the members that are well. Without one nobody is, and Services lead nowhere (E26).
fn take_over(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    let bars = ask::bars(s, |member| check::becomes_active(s, member));
    if bars.len() == s.members.len() {
        // What starts will be well, or will have failed. Of pods that do not run something else is said.
        let comes = |member: &Member| !s.reachable(member) || s.role(member).0 == Role::Starting;
        if !s.members.iter().any(comes) {
            let texts: Vec<_> = bars.iter().map(|(name, why)| format!("{name}: {}", why.message)).collect();
            plan.wait(
                Reason::NoCandidate,
                None,
                cut(&format!("no member is well, so none is active: {}", texts.join("; "))),
            );
        }
        return;
    }
    if let Some(name) = ask::choose_member(s, policies, plan, Point::Failover, &bars) {
        activate(s, plan, &name, "no member was active");
    }
}

/// From the next round on the member is the active one: then that is in the record.
fn activate(s: &Snapshot, plan: &mut Plan, name: &MemberName, why: &str) {
    let Some(active) = s.member(name).and_then(place) else { return };
    plan.record.active = Some(active);
    plan.record.term = plan.record.term.saturating_add(1);
    let term = plan.record.term;
    let known = plan.record.member_mut(name);
    (known.term, known.primary_term, known.last_primary) = (Some(term), Some(term), Some(s.now));
    plan.record.note(s.now, Event::Activated, Some(name), Some(why.to_owned()));
}

/// Notes whose turn has ended. It is forgotten when that was stored, the pod has lost every label since, and the next active member has its own: until then nobody gives the pod a label. Or it is active
/// again, or gone.
fn end_turns(s: &Snapshot, plan: &mut Plan) {
    let active = plan.record.active.clone();
    let has_label =
        |active: &Active| s.members.iter().any(|m| s.is_active(m) && m.leads_clients() && m.name == active.member);
    let is_over = active.as_ref().is_some_and(has_label);
    plan.record.gave_way.retain(|name, uid| {
        let pod = s.member(name).and_then(|member| member.pod.as_ref()).filter(|pod| pod.uid == *uid);
        let is_again = active.as_ref().is_some_and(|active| active.pod_uid == *uid);
        pod.is_some_and(|pod| pod.routed.is_some() || !(is_over || is_again))
    });
    if let Some(before) = s.record.active.as_ref().filter(|before| Some(*before) != active.as_ref()) {
        plan.record.gave_way.insert(before.member.clone(), before.pod_uid.clone());
    }
}

/// Writes what a pod lacks of label and readiness. `before`: with the record as it is stored; `s`: with that of this round.
fn route(before: &Snapshot, s: &Snapshot, plan: &mut Plan, member: &Member) {
    let Some(pod) = &member.pod else { return };
    let (role, _) = s.role(member);
    let runs = !s.group.is_stopped() && pod.phase == Phase::Running;
    // Its turn has just ended, and until that is stored it keeps what it has, if it works.
    if runs && s.gave_way(member) && !before.gave_way(member) && matches!(role, Role::Secondary | Role::Unknown) {
        return;
    }
    let shown = match role {
        _ if !runs || s.gave_way(member) => None,
        // A probe that could not be asked for a moment changes nothing.
        Role::Unknown if s.is_active(member) && member.leads_clients() => route_word(Role::Primary),
        Role::Unknown => pod.routed.is_some().then_some(route_word(Role::Secondary)).flatten(),
        // Until that is stored, and no other pod can have the label. Who has it already is the active one of a record that was lost.
        Role::Primary if !member.leads_clients() && check::gets_label(before, member).is_err() => {
            route_word(Role::Secondary)
        }
        role => route_word(role),
    };
    // Who works and has just lost its label is ready all the same, also while it cannot be asked.
    let stays = role == Role::Unknown && pod.gate == Some(true);
    let ready = shown.is_some() || runs && (stays || matches!(role, Role::Primary | Role::Secondary));
    if pod.routed.as_deref() == shown && pod.gate.unwrap_or(false) == ready {
        return;
    }
    let version = ready.then(|| pod.version.clone());
    plan.actions.push(Action::Route {
        member: member.name.clone(),
        pod_uid: pod.uid.clone(),
        role: shown,
        ready,
        version,
    });
}
