//! Reasons against a start that volumes give: a replaced one, an annotation with a later term than the record's, or the volume of somebody who is no member now.
use super::{Held, Rule, broken_by};
use crate::memory;
use crate::memory::Ahead;
use crate::record::MemberRecord;
use crate::snapshot::{Member, Snapshot};

/// The member's volume is the one that it had when its role was confirmed: a replaced or restored volume never leads by itself (S16).
pub(super) fn volume_unchanged(s: &Snapshot, member: &Member) -> Held {
    if memory::claim_uids(&member.claims) == s.record.member(&member.name).claim_uid {
        return Ok(());
    }
    let message = "its volume was replaced after its role was last confirmed";
    Err(broken_by(Rule::ClaimChanged, &member.name, message))
}

/// No claim has a later term than the record. While no member runs, such a claim may hold the most recent data, wherever it came from.
pub(super) fn no_claim_ahead(s: &Snapshot) -> Held {
    memory::ahead(s).next().map_or(Ok(()), |ahead| Err(claim_ahead(&ahead)))
}

/// The record is not older than the claims. A claim that came from elsewhere does not count here, because members run that the record knows.
///
/// # Errors
/// [`Rule::ClaimChanged`].
pub(super) fn record_is_current(s: &Snapshot) -> Held {
    memory::ahead(s).find(|ahead| !ahead.foreign).map_or(Ok(()), |ahead| Err(claim_ahead(&ahead)))
}

/// The member's own claims have no later term than the record. Until an administrator has explained such a claim, its data is neither
/// overwritten nor used to lead.
pub(super) fn claims_not_ahead(s: &Snapshot, member: &Member) -> Held {
    memory::ahead(s).find(|ahead| *ahead.member == member.name).map_or(Ok(()), |ahead| Err(claim_ahead(&ahead)))
}

/// The latest seed or takeover was confirmed, or its target is still a member: otherwise the volume that it left may have writes that nobody else has (S15, S18). A later
/// one was decided with that in view, so it ends this.
///
/// # Errors
/// [`Rule::UnrecordedClaims`].
pub(super) fn no_target_left(s: &Snapshot) -> Held {
    none_left(s, |known| Some(known.started.as_ref().filter(|begun| begun.target)?.term))
}

/// The same before a takeover, also for the member that led last: on the way to 0 members its last data is known, but while others run nobody who leads leaves, unless a group was made anew
/// for fewer members than it had.
///
/// # Errors
/// [`Rule::UnrecordedClaims`].
pub(super) fn no_leader_left(s: &Snapshot) -> Held {
    no_target_left(s)?;
    none_left(s, |known| known.primary_term.filter(|term| known.counts_as() == Some(*term)))
}

/// Nobody opened a later term than all others and is no member now. `opened`: the term, if the member opened one.
fn none_left(s: &Snapshot, opened: impl Fn(&MemberRecord) -> Option<u64>) -> Held {
    let gone = s.record.members.iter().filter(|(name, _)| s.member(name).is_none());
    let opened = gone.filter_map(|(name, known)| Some((name, opened(known)?)));
    let Some((name, term)) = opened.max_by_key(|(_, term)| *term) else { return Ok(()) };
    let others = s.record.members.iter().filter(|(other, _)| *other != name);
    if others.filter_map(|(_, known)| known.counts_as()).any(|other| other >= term) {
        return Ok(());
    }
    let message = format!(
        "{name} led in term {term} or was to lead, and nobody else is known to have what it wrote: its data may be the most recent, and it is no member now; raise spec.replicas until it is one again, or choose who leads with the annotation tanist.dev/override"
    );
    Err(broken_by(Rule::UnrecordedClaims, name, message))
}

fn claim_ahead(ahead: &Ahead<'_>) -> super::Violation {
    broken_by(Rule::ClaimChanged, ahead.member, ahead.to_string())
}
