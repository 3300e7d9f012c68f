//! Which volumes may be deleted: those of members that the application removed (docs/requirements.md, D20). No policy is asked about this.
use super::{Held, Rule, broken_by, membership};
use crate::snapshot::{LeftClaim, Snapshot};

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
    let given_up = |term: u64| left.claim.mark.as_ref().is_none_or(|mark| mark.term < term);
    if s.record.recovered_term.is_some_and(given_up) {
        let why = "it is from before a member was recovered, and may be all that is left of what was given up; delete the claim yourself when its data is not needed any more";
        return Err(broken_by(Rule::OnlyCopy, name, why));
    }
    // As for a change of the members: none is open, and a healthy majority said the list a moment ago.
    let agreed = membership::change_group(s)?;
    match agreed.list.entry(&s.group.name, name) {
        None => Ok(()),
        Some(_) => Err(broken_by(Rule::StillListed, name, "the application lists it still")),
    }
}
