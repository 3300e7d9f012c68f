//! What the members' claims say against a start: another volume than the member had, or memory of a later term than the record's.
use super::{Held, Rule, broken_by};
use crate::memory;
use crate::memory::Ahead;
use crate::snapshot::{Member, Snapshot};

/// The member's own volume is the one it was confirmed with: another one, or a restored one, never leads by itself (S16).
pub(super) fn own_claims(s: &Snapshot, member: &Member) -> Held {
    if memory::claim_uids(&member.claims) == s.record.member(&member.name).claim_uid {
        return Ok(());
    }
    let message = "its volume is another one than when its role was last confirmed";
    Err(broken_by(Rule::ClaimChanged, &member.name, message))
}

/// No claim remembers a later term than the record. While nobody runs, such a claim may hold the freshest data, wherever it came from.
pub(super) fn none_ahead(s: &Snapshot) -> Held {
    memory::ahead(s).next().map_or(Ok(()), |ahead| Err(refused(&ahead)))
}

/// The record is not older than what happened. A claim from elsewhere says nothing about that, while members run that the record knows.
///
/// # Errors
/// [`Rule::ClaimChanged`].
pub(super) fn record_is_current(s: &Snapshot) -> Held {
    memory::ahead(s).find(|ahead| !ahead.foreign).map_or(Ok(()), |ahead| Err(refused(&ahead)))
}

/// The member's own claims remember no later term than the record: what they hold is not overwritten, and leads nobody, before that is explained.
pub(super) fn explained(s: &Snapshot, member: &Member) -> Held {
    memory::ahead(s).find(|ahead| *ahead.member == member.name).map_or(Ok(()), |ahead| Err(refused(&ahead)))
}

fn refused(ahead: &Ahead<'_>) -> super::Violation {
    broken_by(Rule::ClaimChanged, ahead.member, ahead.to_string())
}
