//! Who may be the active member of an active/passive group, and who stays it (docs/rules.md, "Active/passive").
//!
//! No data is at stake: every member runs all the time, and who is active is only a label. So there are two rules: at most one pod has the label, and a member that is well keeps it.
use super::{Held, Rule, awaits_update, broken, broken_by};
use crate::contract::Role;
use crate::over::role_word;
use crate::snapshot::{Member, Snapshot};

/// Whether the member stays the active one: it is well, or its `status` could not be read for a moment (E24).
#[must_use]
pub fn stays_active(s: &Snapshot, member: &Member) -> bool {
    s.is_active(member) && !s.group.is_stopped() && matches!(s.role(member).0, Role::Primary | Role::Unknown)
}

/// Whether the member can become the active one: it is well. One that leaves, whose node is to be drained, or that gets a new pod next is taken only when there is no other.
///
/// # Errors
/// The first rule that does not hold.
pub fn becomes_active(s: &Snapshot, member: &Member) -> Held {
    let name = &member.name;
    is_well(s, member)?;
    // The present one, too: it does not give way to one that would have to give way.
    let works = |other: &Member| matches!(s.role(other).0, Role::Primary | Role::Secondary);
    let others = || s.members.iter().filter(|other| other.name != *name && works(other));
    if s.leaves(member) && others().any(|other| !s.leaves(other)) {
        return Err(broken_by(Rule::NoSuccessor, name, "it is beyond spec.replicas"));
    }
    let stay = || others().filter(|other| !s.leaves(other));
    if s.is_cordoned(member) && stay().any(|other| !s.is_cordoned(other)) {
        return Err(broken_by(Rule::NoSuccessor, name, "its node is to be drained"));
    }
    if awaits_update(s, member) && stay().any(|other| !awaits_update(s, other) && !s.is_cordoned(other)) {
        return Err(broken_by(Rule::NoSuccessor, name, "it has an older template and gets a new pod"));
    }
    Ok(())
}

fn is_well(s: &Snapshot, member: &Member) -> Held {
    match s.role(member) {
        (Role::Secondary, _) => Ok(()),
        (Role::Primary, _) => Err(broken_by(Rule::WrongRole, &member.name, "it is the active member")),
        (role, why) => {
            let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
            Err(broken_by(Rule::WrongRole, &member.name, format!("it is {}{why}", role_word(role))))
        }
    }
}

/// Whether the member gets the label of the active one (E24): the record has its name, no other pod has the label, and none can get it by a write that was decided in an earlier turn, for the pods of who
/// was active have lost every label since their turns ended. One without any label gets the other one first: so whatever ends its turn changes its pod, and a write that is late finds another version.
///
/// # Errors
/// The first rule that does not hold.
pub fn gets_label(s: &Snapshot, member: &Member) -> Held {
    let name = &member.name;
    let is_labelled = |member: &Member| member.pod.as_ref().is_some_and(|pod| pod.routed.is_some());
    if s.role(member).0 != Role::Primary {
        return Err(broken_by(Rule::WrongRole, name, "it is not the active member"));
    }
    if s.gave_way(member) || !is_labelled(member) {
        return Err(broken_by(Rule::WrongRole, name, "its pod has no label of a role yet"));
    }
    let others = || s.members.iter().filter(|other| other.name != *name);
    if let Some(other) = others().find(|other| other.leads_clients()) {
        let message = format!("the pod of {} still has the label of the active member", other.name);
        return Err(broken_by(Rule::PrimaryLimit, &other.name, message));
    }
    if let Some(stranger) = s.strangers.first() {
        let message = format!("the pod {stranger} of another object still has the label of the active member");
        return Err(broken(Rule::PrimaryLimit, message));
    }
    if let Some(other) = others().find(|other| s.gave_way(other) && is_labelled(other)) {
        let message = format!("the pod of {} has not lost its label since it was active", other.name);
        return Err(broken_by(Rule::PrimaryLimit, &other.name, message));
    }
    Ok(())
}
