//! When a policy may have a secondary stopped and started again, and which one (docs/rules.md, "Rebalance").
//!
//! Nothing here lets data be lost: everybody else is in its role, the volume stays, and a failover waits for a member whose position is not known (S10).
//! All of it is held twice, when it is decided and on live reads just before the pod is deleted.
use super::membership::is_formed;
use super::{Held, Rule, Violation, broken, broken_by, can_take_command, has_its_volumes, lead_cause, retry_allowed};
use crate::contract::{MemberName, Role, Timestamp};
use crate::limits;
use crate::over::role_word;
use crate::record::Event;
use crate::snapshot::{Member, Snapshot};

/// Whether a policy may have any secondary moved: no administrator decides otherwise, no command is open, the lead stays where it is, as many primaries
/// serve as desired and nobody else may be primary, every member is there, in its role, Ready and up to date, and nothing happened for a while.
///
/// # Errors
/// The first rule that does not hold; with the time at which the last of them will hold.
pub fn rebalance_group(s: &Snapshot) -> Held {
    if s.group.paused || s.active_override().is_some() {
        return Err(broken(Rule::AdministratorDecides, "the group is paused, or an override is set"));
    }
    if let Some(intent) = s.record.intents.first() {
        let message = format!("{} on {} is not settled", intent.command, intent.member);
        return Err(broken_by(Rule::MemberBusy, &intent.member, message));
    }
    if lead_cause(s).is_some() || s.record.switchover.as_ref().is_some_and(|last| last.led.is_none()) {
        return Err(broken(Rule::NotAtRest, "the lead is about to move"));
    }
    primaries_serve(s)?;
    members_are_there(s)?;
    s.members.iter().try_for_each(|member| is_in_its_place(s, member))?;
    nothing_happened(s)?;
    s.members.iter().try_for_each(|member| has_been_ready(s, member, limits::REBALANCE_REST_SECONDS))
}

/// Nothing was noted in the group's history for a while: no command, no takeover, no pod that this operator deleted.
fn nothing_happened(s: &Snapshot) -> Held {
    let Some(last) = s.record.history.iter().max_by_key(|past| past.at) else { return Ok(()) };
    let until = last.at.saturating_add(limits::REBALANCE_REST_SECONDS);
    if s.now >= until {
        return Ok(());
    }
    let message = format!("less than {} s ago the group changed: {}", limits::REBALANCE_REST_SECONDS, last.what);
    Err(Violation { until: Some(until), ..broken(Rule::ChangedRecently, message) })
}

/// As many primaries serve as desired, or more where the members elect, and nobody else may be primary: then a failover is not about to begin.
pub(super) fn primaries_serve(s: &Snapshot) -> Held {
    let serving = s.serving().into_iter().filter(|m| !s.is_extra(m)).count();
    let desired = s.group.desired_primaries();
    // Where the members elect, nobody is stopped because more say that they lead.
    if serving < desired || serving > desired && !is_formed(s) || s.group.is_stopped() {
        return Err(broken(Rule::NobodyServes, format!("{serving} of {desired} desired primaries serve")));
    }
    let serves = |name: &MemberName| s.member(name).is_some_and(|member| s.serves(member));
    match s.may_be_primary().into_iter().find(|(name, _)| !serves(name)) {
        Some((name, why)) => Err(broken_by(Rule::MayBePrimary, &name, format!("{name} may be primary too: {why}"))),
        None => Ok(()),
    }
}

/// The members are exactly the desired ones, and the `StatefulSet` neither grows nor gets smaller.
pub(super) fn members_are_there(s: &Snapshot) -> Held {
    let desired = s.roster().desired();
    let there = u32::try_from(s.members.len()).unwrap_or(u32::MAX);
    if s.set.as_ref().is_some_and(|set| set.unseen) {
        return Err(broken(Rule::NotAtRest, "the StatefulSet was changed, and its controller has not seen it yet"));
    }
    match there == desired && s.roster().provided() == desired {
        true => Ok(()),
        false => Err(broken(Rule::NotAtRest, format!("{there} members are there, and {desired} are desired"))),
    }
}

/// The member's pod runs, is Ready and of the present template, and the member is confirmed as primary or secondary.
pub(super) fn is_in_its_place(s: &Snapshot, member: &Member) -> Held {
    let name = &member.name;
    let unsettled = |why: String| Err(broken_by(Rule::NotAtRest, name, format!("{name} {why}")));
    let Some(pod) = member.pod.as_ref().filter(|_| s.reachable(member)) else {
        return unsettled("has no pod that runs".into());
    };
    if !s.confirmed(member, Role::Primary) && !s.confirmed(member, Role::Secondary) {
        return unsettled(format!("is {}, and not confirmed in its role", role_word(s.role(member).0)));
    }
    if !pod.ready || pod.stray.is_some() {
        return unsettled("is not Ready".into());
    }
    if pod.outdated || pod.older_template {
        return unsettled("has a pod of an older template".into());
    }
    Ok(())
}

/// Whether a policy may choose the secondary: commands reach it, it does not rest after a failure, it has the volumes that it had when its role was last
/// confirmed, and it was not moved a short time ago.
///
/// # Errors
/// The first rule that does not hold.
pub fn rebalance_candidate(s: &Snapshot, member: &Member) -> Held {
    let name = &member.name;
    if s.serves(member) {
        return Err(broken_by(Rule::WrongRole, name, "it leads"));
    }
    can_take_command(s, member)?;
    retry_allowed(s, member)?;
    if !s.confirmed(member, Role::Secondary) {
        let why = format!("it is {} and has to follow the primary first", role_word(s.role(member).0));
        return Err(broken_by(Rule::WrongRole, name, why));
    }
    has_its_volumes(s, member)?;
    // Its pod may be evicted at any moment, and the group would lack two members at a time.
    if let Some(other) = s.members.iter().find(|other| other.name != *name && s.is_cordoned(other)) {
        return Err(broken_by(Rule::NotAtRest, name, format!("the node of {} is to be drained", other.name)));
    }
    super::quorum_without(s, name)?;
    has_been_ready(s, member, limits::MOVE_SECONDS)
}

/// Both of them: what has to hold just before the pod of the chosen member is deleted.
///
/// # Errors
/// The first rule that does not hold.
pub fn rebalance_member(s: &Snapshot, member: &Member) -> Held {
    rebalance_group(s)?;
    rebalance_candidate(s, member)
}

pub(super) fn has_been_ready(s: &Snapshot, member: &Member, seconds: i64) -> Held {
    let until = ready_since(s, member).saturating_add(seconds);
    if s.now >= until {
        return Ok(());
    }
    let message = format!("{} became Ready less than {seconds} s ago", member.name);
    Err(Violation { until: Some(until), ..broken_by(Rule::ChangedRecently, &member.name, message) })
}

/// When the member's pod became Ready, or when a pod of it was last deleted by this operator if that was later: the clock of a node may be behind, and
/// the limit has to hold all the same (S28).
fn ready_since(s: &Snapshot, member: &Member) -> Timestamp {
    let pod = member.pod.as_ref().map_or(s.now, |pod| pod.phase_since);
    let deleted =
        s.record.history.iter().filter(|t| Event::PodDeleted.is(&t.what) && t.member.as_ref() == Some(&member.name));
    deleted.map(|t| t.at).chain([pod]).max().unwrap_or(pod)
}
