//! Which volumes may be deleted: those of members that the application removed (docs/requirements.md, D20). No policy is asked about this.
use super::{Held, Rule, broken, broken_by, membership};
use crate::limits;
use crate::membership::quorum;
use crate::snapshot::{LeftClaim, Snapshot};

/// A claim that a removed member left behind may be deleted: the user wants it, a healthy majority said a moment ago who the members are, and that one is none of them. So everything that
/// was acknowledged is on the volumes of others. On the way to 0 members nobody is removed, and all claims stay.
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
    let open = s.record.intents.iter().find(|i| i.member == *name || i.target.as_ref() == Some(name));
    if let Some(open) = open {
        return Err(broken_by(Rule::MemberBusy, name, format!("{} is not settled", open.what())));
    }
    let agreed = membership::agreed(s)?;
    let group = &s.group.name;
    if !agreed.is_confirmed(group) || agreed.since.saturating_add(limits::LIST_FRESH_SECONDS) < s.now {
        return Err(broken(Rule::ListUnknown, "no majority said a moment ago who the members are"));
    }
    if agreed.list.entry(group, name).is_some() {
        return Err(broken_by(Rule::StillListed, name, "the application lists it still"));
    }
    let (healthy, voters) = (agreed.healthy_voters(group).len(), agreed.list.voters());
    match healthy >= quorum(voters) {
        true => Ok(()),
        false => {
            let message = format!("{healthy} of {voters} voters are healthy, and {} have to agree", quorum(voters));
            Err(broken(Rule::QuorumAtRisk, message))
        }
    }
}
