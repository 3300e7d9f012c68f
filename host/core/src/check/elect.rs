//! What the host leaves to members that have formed a cluster: they elect who leads, and nobody whom they removed has a say.
use super::membership::{agreed, counts, is_formed};
use super::{Held, Rule, broken, broken_by};
use crate::contract::MemberName;
use crate::membership::{self, Entry, Said, quorum};
use crate::snapshot::Snapshot;

/// The host decides who leads: the members have not formed a cluster that elects its leader itself. A primary of the host's choice would open a term, and whoever the others elected would
/// count as one of an older term. No override lifts this.
pub(super) fn elects_nobody(s: &Snapshot) -> Held {
    match is_formed(s) {
        false => Ok(()),
        true => Err(broken(Rule::AlreadyFormed, "the members of the application's cluster elect themselves who leads")),
    }
}

/// Whether a majority says that the member, which leaves or has left, is none any more.
#[must_use]
pub(super) fn was_removed(s: &Snapshot, name: &MemberName) -> bool {
    let confirmed = || matches!(membership::said(s), Said::Agreed(agreed) if agreed.is_confirmed(&s.group.name));
    is_formed(s) && s.member(name).is_none_or(|member| s.leaves(member)) && !counts(s, name) && confirmed()
}

/// A member that failed, and is a healthy voter in the eyes of the others, is not stopped while they are no majority without it. It says no list itself. Where nobody says one there is no majority to keep.
pub(super) fn votes_for_others(s: &Snapshot, name: &MemberName) -> Held {
    let Ok(agreed) = agreed(s) else { return Ok(()) };
    let votes = |entry: &Entry| entry.is_voter() && entry.healthy;
    let healthy = agreed.list.entries.iter().filter(|entry| votes(entry)).count();
    let is_one = agreed.list.entry(&s.group.name, name).is_some_and(votes);
    if is_one && healthy == quorum(agreed.list.voters()) {
        let message = format!("{name} says failed, and the others are no majority without it");
        return Err(broken_by(Rule::QuorumAtRisk, name, message));
    }
    Ok(())
}
