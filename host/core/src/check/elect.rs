//! What the host leaves to members that have formed a cluster: they elect who leads, and nobody whom they removed has a say.
use super::membership::{agrees, counts, is_formed};
use super::{Held, Rule, broken};
use crate::contract::MemberName;
use crate::membership::{self, Said};
use crate::snapshot::Snapshot;

/// Whether the members of the application elect one of them, and the others follow it.
#[must_use]
pub(crate) fn elect(s: &Snapshot) -> bool {
    agrees(s) && s.group.commands.secondary.is_some()
}

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
