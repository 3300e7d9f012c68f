//! When the lead moves on purpose, to whom, and when a policy may move it (docs/rules.md, "Switchover").
//!
//! Nothing here lets data be lost: the primary is stopped only once its successor has all its data, and who leads then is for the failover's checks.
use super::beside::comes_later;
use super::claims::{claims_not_ahead, volume_unchanged};
use super::elect::elects_nobody;
use super::leave::others_first;
use super::membership::{is_formed, quorum_without};
use super::{
    Held, Rule, Violation, batch_has_begun, broken, broken_by, can_take_command, gives_up_lead, is_successor,
    primary_may_stop, retry_allowed,
};
use crate::contract::{MemberName, Timestamp};
use crate::limits;
use crate::over::role_word;
use crate::record::Switchover;
use crate::snapshot::{Member, Snapshot};

/// Why the host would move the lead by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// As policies see it, in the fact `switchover` (docs/facts.md).
    pub word: &'static str,
    /// The present primary, which gives up the lead.
    pub from: MemberName,
    /// The member that has to lead. Absent: any other.
    pub to: Option<MemberName>,
    /// The reason that users see.
    pub why: String,
}

/// The primary of a group that has one and desires one. With several there are no switchovers: a surplus one is demoted.
#[must_use]
pub fn sole_primary(s: &Snapshot) -> Option<&Member> {
    let serving = s.serving();
    let [primary] = serving.as_slice() else { return None };
    (s.group.desired_primaries() == 1 && !s.group.is_stopped()).then_some(primary)
}

/// Why the host would move the lead: first because the primary is leaving (S25), then because its node is to be drained, then because its
/// pod is to be replaced, then because another one is preferred. `None`: it would not.
#[must_use]
pub fn lead_cause(s: &Snapshot) -> Option<Cause> {
    let primary = sole_primary(s)?;
    let from = &primary.name;
    let cause = |word, to: Option<MemberName>, why| Some(Cause { word, from: from.clone(), to, why });
    // Where the lead cannot be given up without losing the majority, the application moves it when the member is removed.
    if s.leaves(primary) && quorum_without(s, from).is_ok() && others_first(s, primary).is_ok() {
        return cause("leaving", None, format!("{from} is leaving and gives up the lead first"));
    }
    if s.is_cordoned(primary) && s.members.iter().any(|m| is_successor(s, m) && !s.is_cordoned(m)) {
        return cause("drain", None, format!("the node of {from} is to be drained"));
    }
    let may_go = batch_has_begun(s, primary).is_ok() && primary_may_stop(s, primary).is_ok();
    if let Some(cause) = update_cause(s, primary).filter(|_| may_go) {
        return Some(cause);
    }
    // Nobody but the members can choose where they elect.
    let preferred = s.group.preferred_primary.as_ref().filter(|to| *to != from && !is_formed(s))?;
    cause("preferred", Some(preferred.clone()), format!("{preferred} is to lead in place of {from}"))
}

/// The primary gives up the lead because its pod is to be replaced. `None`: it need not, or may not yet.
#[must_use]
pub fn update_cause(s: &Snapshot, primary: &Member) -> Option<Cause> {
    gives_up_lead(s, primary).ok()?;
    let from = primary.name.clone();
    let why = why_it_moves(&from);
    Some(Cause { word: "update", from, to: None, why })
}

/// Why the lead moves for an update of its primary.
pub(super) fn why_it_moves(from: &MemberName) -> String {
    format!("{from} gets the present template and gives up the lead first")
}

/// Whether a policy may choose the member as the next primary: it follows and takes commands, would pass the checks of a takeover as far as they can be
/// known now, stays, and is not in the way of an administrator's request.
///
/// # Errors
/// The first rule that does not hold.
pub fn lead_candidate(s: &Snapshot, member: &Member) -> Held {
    may_follow(s, member)?;
    let preferred = s.group.preferred_primary.as_ref().filter(|name| **name != member.name && !is_formed(s));
    match preferred.and_then(|name| s.member(name)).filter(|member| may_follow(s, member).is_ok()) {
        Some(other) => {
            let why = format!("{} is spec.preferredPrimary, and can lead", other.name);
            Err(broken_by(Rule::AdministratorDecides, &member.name, why))
        }
        None => Ok(()),
    }
}

fn may_follow(s: &Snapshot, member: &Member) -> Held {
    let name = &member.name;
    if s.serves(member) {
        return Err(broken_by(Rule::WrongRole, name, "it leads"));
    }
    can_take_command(s, member)?;
    retry_allowed(s, member)?;
    if s.leaves(member) {
        return Err(broken_by(Rule::NoSuccessor, name, "it is beyond spec.replicas"));
    }
    if comes_later(s, member) {
        let why = "it is of the new version, and a member of the former one could lead";
        return Err(broken_by(Rule::NoSuccessor, name, why));
    }
    if !is_successor(s, member) {
        let (role, why) = s.role(member);
        let why = why.map(|w| format!(" ({w})")).unwrap_or_default();
        let why = format!("it is {}{why} and has to follow the primary first", role_word(role));
        return Err(broken_by(Rule::NoSuccessor, name, why));
    }
    // A move from one node that is drained to another one would have to be repeated. A primary that leaves has no time for that.
    if s.is_cordoned(member) && sole_primary(s).is_some_and(|primary| !s.leaves(primary)) {
        return Err(broken_by(Rule::NoSuccessor, name, "its node is to be drained"));
    }
    has_its_volumes(s, member)
}

/// Whether the member has the volumes that it had when its role was last confirmed, so that a takeover would not refuse it for them.
///
/// # Errors
/// The rule that does not hold.
pub fn has_its_volumes(s: &Snapshot, member: &Member) -> Held {
    if s.group.active_passive {
        // Nothing is remembered of their volumes, because nobody copies what is on them.
        return Ok(());
    }
    claims_not_ahead(s, member)?;
    volume_unchanged(s, member)
}

/// Whether a policy may move the lead although the host would leave it: nothing else is going on, no administrator says who leads, the last
/// switchover did not fail, and the lead did not move a short time ago.
///
/// # Errors
/// The first rule that does not hold; with the time at which the last of them will hold.
pub fn policy_may_move_lead(s: &Snapshot) -> Held {
    let Some(primary) = sole_primary(s) else {
        return Err(broken(Rule::NobodyServes, "not exactly one primary serves of one that is desired"));
    };
    elects_nobody(s)?;
    if let Some(intent) = s.record.intents.first() {
        let message = format!("{} on {} is not settled", intent.command, intent.member);
        return Err(broken_by(Rule::MemberBusy, &intent.member, message));
    }
    if s.group.preferred_primary.is_some() || s.active_override().is_some() {
        return Err(broken(Rule::AdministratorDecides, "an administrator says who leads"));
    }
    if let Some((name, why)) = s.may_be_primary().into_iter().find(|(name, _)| *name != primary.name) {
        return Err(broken_by(Rule::MayBePrimary, &name, format!("{name} may be primary too: {why}")));
    }
    if let Some(failed) = failed_switchover(s) {
        let message = format!("a switchover from {} failed and is not repeated by itself", failed.from);
        return Err(broken_by(Rule::SwitchoverFailed, &failed.from, message));
    }
    match lead_moved(s).map(|at| at.saturating_add(limits::LEAD_SECONDS)) {
        Some(until) if s.now < until => {
            let message = format!("the lead moved less than {} s ago", limits::LEAD_SECONDS);
            Err(Violation { until: Some(until), ..broken_by(Rule::LeadMovedRecently, &primary.name, message) })
        }
        _ => Ok(()),
    }
}

/// The last switchover to a named member, if it ended with another one, and that one leads still. It is not repeated by itself.
#[must_use]
pub fn failed_switchover(s: &Snapshot) -> Option<&Switchover> {
    let leads = sole_primary(s)?;
    let last = s.record.switchover.as_ref().filter(|last| last.led.as_ref() == Some(&leads.name))?;
    last.to.as_ref().is_some_and(|to| *to != leads.name).then_some(last)
}

/// When the lead last moved, or was to move. `None`: this is not known, so it was long ago.
fn lead_moved(s: &Snapshot) -> Option<Timestamp> {
    let led = s.record.members.values().filter_map(|m| m.last_primary);
    led.chain(s.record.switchover.as_ref().and_then(|last| last.begun)).max()
}
