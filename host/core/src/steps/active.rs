//! Active: the members of an active/passive group run by themselves; which one of them is active? The only step that is taken for such a group and for no other (E22 to E26).
//!
//! Who is active is in the record first and on the pod afterwards, and no pod gets the label while another one has it. So there are never two, whenever the operator ends; what is
//! left is in docs/rules.md. If the record is lost, the label says who was active.
use crate::check;
use crate::contract::{MemberName, Phase, Role};
use crate::plan::{Action, Plan, Reason, route_word};
use crate::policy::{Point, Policies};
use crate::record::{Active, Event, cut};
use crate::snapshot::{Member, Pod, Snapshot};
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
    let mut now = s.clone();
    now.record.clone_from(&plan.record);
    for member in &now.members {
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

fn may_get_label(before: &Snapshot, s: &Snapshot, member: &Member, pod: &Pod) -> bool {
    before.is_active(member) && pod.routed.is_some() && check::is_alone(s, member).is_ok()
}

/// Writes what a pod lacks of label and readiness. `before`: with the record as it is stored; `s`: with that of this round.
fn route(before: &Snapshot, s: &Snapshot, plan: &mut Plan, member: &Member) {
    let Some(pod) = &member.pod else { return };
    let (role, _) = s.role(member);
    let shown = match role {
        _ if s.group.is_stopped() || pod.phase != Phase::Running => None,
        // A probe that could not be asked for a moment changes nothing.
        Role::Unknown if s.is_active(member) && member.leads_clients() => route_word(Role::Primary),
        Role::Unknown => pod.routed.is_some().then_some(route_word(Role::Secondary)).flatten(),
        // Until that is stored, and until no other pod has the label. Who has it already is the active one of a record that was lost. One without any label gets the other one first: so whatever
        // ends its turn changes its pod, and an operator that was frozen before it gave the label finds another version.
        Role::Primary if !member.leads_clients() && !may_get_label(before, s, member, pod) => {
            route_word(Role::Secondary)
        }
        role => route_word(role),
    };
    let ready = shown.is_some();
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
