//! Who may be stopped although nothing is wrong with it: the primary that hands over, and members beyond `replicas` (S25, S26).
use super::claims::record_is_current;
use super::{Held, Rule, broken, broken_by, free, rested, role_is};
use crate::contract::Role;
use crate::over::word;
use crate::snapshot::{Member, Snapshot};

/// Whether the member can lead in the primary's place: it follows in this term, and nothing is under way on it.
#[must_use]
pub fn heir(s: &Snapshot, member: &Member) -> bool {
    s.confirmed(member, Role::Secondary) && free(s, member).is_ok() && !s.group.is_surplus(member)
}

/// The primary is stopped only while somebody is ready to lead.
///
/// # Errors
/// The first rule that does not hold.
pub fn handover_member(s: &Snapshot, member: &Member) -> Held {
    free(s, member)?;
    role_is(s, member, &[Role::Primary])?;
    rested(s, member)?;
    // Nobody could take over from it.
    record_is_current(s)?;
    let wished = s.record.handover.as_ref().and_then(|h| h.to.clone());
    let ready = s.members.iter().any(|m| heir(s, m) && wished.as_ref().is_none_or(|to| *to == m.name));
    match ready && s.serves(member) {
        true => Ok(()),
        false => Err(broken_by(Rule::NoHeir, &member.name, "nobody follows it who could lead now")),
    }
}

/// As many of those who stay serve as are wanted: what leaves holds nothing that they lack.
///
/// # Errors
/// [`Rule::StayersFirst`].
pub fn stayers_serve(s: &Snapshot) -> Held {
    let serving = s.serving().iter().filter(|m| !s.group.is_surplus(m)).count();
    if s.group.replicas == 0 || serving >= s.group.wanted_primaries() {
        return Ok(());
    }
    let wanted = s.group.wanted_primaries();
    let message = format!("{serving} of {wanted} wanted primaries serve among those who stay; nobody leaves before");
    Err(broken(Rule::StayersFirst, message))
}

/// A member beyond `replicas` is stopped. A primary only on the way to 0, and then last; else it hands over or is demoted.
///
/// # Errors
/// The first rule that does not hold.
pub fn remove_member(s: &Snapshot, member: &Member) -> Held {
    free(s, member)?;
    role_is(s, member, &[Role::Primary, Role::Secondary])?;
    rested(s, member)?;
    if !s.group.is_surplus(member) {
        return Err(broken_by(Rule::NotSurplus, &member.name, "it is not beyond spec.replicas"));
    }
    stayers_serve(s)?;
    let follower = s.members.iter().find(|m| s.role(m).0 == Role::Secondary && m.name != member.name);
    if s.role(member).0 == Role::Primary && s.group.replicas > 0 {
        let message = "a primary that leaves hands over, or is one too many";
        return Err(broken_by(Rule::StayersFirst, &member.name, message));
    }
    match (s.role(member).0, follower) {
        (Role::Primary, Some(other)) => {
            let message = format!("the primary leaves last, and {} follows it still", other.name);
            Err(broken_by(Rule::StayersFirst, &member.name, message))
        }
        _ => Ok(()),
    }
}

/// The set may get smaller: those who stay serve, and nobody who leaves runs, may be primary, or has a command under way. Its controller ends
/// the highest ordinals without asking.
///
/// # Errors
/// [`Rule::NotSurplus`], [`Rule::StayersFirst`], [`Rule::MemberBusy`], [`Rule::NotAllStopped`], [`Rule::MayBePrimary`].
pub fn shrink_group(s: &Snapshot, replicas: u32) -> Held {
    if replicas != s.group.replicas || s.set.as_ref().is_none_or(|set| set.replicas < replicas) {
        return Err(broken(Rule::NotSurplus, format!("the group is not to have {replicas} members any more")));
    }
    stayers_serve(s)?;
    let maybe = s.may_be_primary();
    for member in s.members.iter().filter(|m| s.group.is_surplus(m)) {
        if let Some(intent) = s.record.intent_of(&member.name) {
            let message = format!("its command {} is not settled", intent.command);
            return Err(broken_by(Rule::MemberBusy, &member.name, message));
        }
        if member.pod.is_some() && s.role(member).0 != Role::Stopped {
            let message = format!("{} leaves and is {}", member.name, word(s.role(member).0));
            return Err(broken_by(Rule::NotAllStopped, &member.name, message));
        }
        if let Some(why) = maybe.get(&member.name) {
            return Err(broken_by(Rule::MayBePrimary, &member.name, format!("{} leaves: {why}", member.name)));
        }
    }
    Ok(())
}
