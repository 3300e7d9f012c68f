//! Which volumes may be deleted or emptied: those of members that the application removed (docs/requirements.md, D20). No policy is asked about this.
use super::claims::claims_not_ahead;
use super::{Held, Rule, broken_by, can_take_command, membership, retry_allowed, role_is};
use crate::contract::{MemberName, Position, Role};
use crate::limits;
use crate::membership::Agreed;
use crate::snapshot::{Claim, LeftClaim, Member, Snapshot};

/// A claim that a removed member left behind may be deleted: the user wants it, a healthy majority said a moment ago who the members are, and that one is none of them. So everything that
/// was acknowledged is on the volumes of others, except what was given up in a recovery. On the way to 0 members nobody is removed, and all claims stay.
///
/// # Errors
/// The first rule that does not hold.
pub fn discard_claim(s: &Snapshot, left: &LeftClaim) -> Held {
    let name = &left.member;
    if !s.group.deletes_volumes || s.group.is_stopped() {
        return Err(broken_by(Rule::NotSurplus, name, "claims of removed members stay"));
    }
    if s.member(name).is_some() || !s.record.retired.contains(name) {
        return Err(broken_by(Rule::NotSurplus, name, "it is expected again, or was not removed"));
    }
    if left.is_being_deleted {
        return Err(broken_by(Rule::NotAtRest, name, "its claim is being deleted"));
    }
    let open = s.record.intents.iter().find(|i| i.member == *name || i.target.as_ref() == Some(name));
    if let Some(open) = open {
        return Err(broken_by(Rule::MemberBusy, name, format!("{} is not settled", open.what())));
    }
    was_not_given_up(s, name, &left.claim)?;
    // As for a change of the members: none is open, and a healthy majority said the list a moment ago.
    is_not_listed(s, &membership::change_group(s)?, name)
}

fn is_not_listed(s: &Snapshot, agreed: &Agreed, name: &MemberName) -> Held {
    match agreed.list.entry(&s.group.name, name) {
        None => Ok(()),
        Some(_) => Err(broken_by(Rule::StillListed, name, "the application lists it still")),
    }
}

fn was_not_given_up(s: &Snapshot, name: &MemberName, claim: &Claim) -> Held {
    let given_up = |term: u64| claim.mark.as_ref().is_none_or(|mark| mark.term < term);
    match s.record.recovered_term.is_some_and(given_up) {
        true => {
            let why = "it is from before a member was recovered, and may be all that is left of what was given up; delete the claim yourself when its data is not needed any more";
            Err(broken_by(Rule::OnlyCopy, name, why))
        }
        false => Ok(()),
    }
}

/// Whether the data of a member that leaves has to be removed before it goes (`spec.scaling.volumes: Wipe`). It stays if nothing can run in its pod, if it is not known to be that of a member of this group, if it may be all that
/// is left of what was given up in a recovery, and if the command failed too often: then it is an administrator's. What was read before a command does not count, so an empty position was read after it.
#[must_use]
pub fn has_to_be_wiped(s: &Snapshot, member: &Member) -> bool {
    let known = s.record.member(&member.name);
    let failed = known.last_failure.as_ref().is_some_and(|failure| failure.command == WIPE);
    // One that failed may have left a part of it.
    let is_empty = member.position == Position::Empty && !failed;
    let is_own = |claim: &Claim| {
        let mark = claim.mark.as_ref().filter(|mark| mark.group == s.group.name && mark.term <= s.record.term);
        mark.is_some() && was_not_given_up(s, &member.name, claim).is_ok()
    };
    s.group.wipes_volumes
        && !s.group.is_stopped()
        && s.leaves(member)
        && s.reachable(member)
        && known.term.is_some()
        && !member.claims.is_empty()
        && member.claims.iter().all(is_own)
        && !is_empty
        && !(failed && known.failures >= limits::WIPE_TRIES)
}

/// The name of the command in the spec.
pub const WIPE: &str = "wipe";

/// The data of a member that leaves may be removed: the user wants it, it is stopped, a healthy majority said a moment ago who the members are, and it is none of them. So everything that was acknowledged is on the volumes of
/// others, except what was given up in a recovery.
///
/// # Errors
/// The first rule that does not hold.
pub fn wipe_member(s: &Snapshot, member: &Member) -> Held {
    let name = &member.name;
    if s.group.commands.membership.as_ref().is_none_or(|commands| commands.wipe.is_none()) {
        return Err(broken_by(Rule::NoCommand, name, "there is no command that removes its data"));
    }
    if !has_to_be_wiped(s, member) {
        return Err(broken_by(Rule::NotSurplus, name, "its data stays, or there is none"));
    }
    can_take_command(s, member)?;
    retry_allowed(s, member)?;
    role_is(s, member, &[Role::Stopped])?;
    if let Some(why) = s.why_may_be_primary(name) {
        return Err(broken_by(Rule::MayBePrimary, name, format!("{name} may be primary: {why}")));
    }
    claims_not_ahead(s, member)?;
    is_not_listed(s, &membership::change_group(s)?, name)
}
