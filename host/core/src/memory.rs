//! Memory that outlives the group's object: what claims say is joined with what the status says, and the maximum of both counts.
use crate::contract::MemberName;
use crate::record::{Mark, Record, Seeded};
use crate::snapshot::{Claim, ClaimMark, Set};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Joins the record of the status with the marks on the claims (design 4, "Memory"; safety S7, S32): more memory never means less caution.
#[must_use]
pub fn recall<'a>(
    mut record: Record,
    group: &str,
    claims: impl IntoIterator<Item = (&'a MemberName, &'a Claim)>,
) -> Record {
    let mut marked: BTreeMap<&MemberName, Vec<Claim>> = BTreeMap::new();
    for (member, claim) in claims {
        let Some(mark) = claim.mark.as_ref().filter(|m| m.group == group) else { continue };
        marked.entry(member).or_default().push(claim.clone());
        believe(&mut record, member, mark);
    }
    for (member, mut claims) in marked {
        claims.sort_by(|a, b| a.name.cmp(&b.name));
        let known = record.member_mut(member);
        if known.claim_uid.is_none() {
            known.claim_uid = claim_uids(&claims);
        }
    }
    record
}

fn believe(record: &mut Record, member: &MemberName, mark: &ClaimMark) {
    record.term = record.term.max(mark.term);
    // Claims are marked when a role is confirmed, so whoever finds a mark knows that the first seed was.
    let first = record.ever_seeded.as_ref().map_or_else(|| member.clone(), |e| e.member.clone());
    record.ever_seeded = Some(Seeded { member: first, confirmed: true });
    let known = record.member_mut(member);
    if known.term < Some(mark.term) {
        known.term = Some(mark.term);
        known.sequence.clone_from(&mark.sequence);
    }
    for primary in &mark.primaries {
        let primary = record.member_mut(primary);
        primary.primary_term = primary.primary_term.max(Some(mark.term));
    }
    if let Some(sequence) = &mark.sequence {
        raise(record, Mark { term: mark.term, sequence: sequence.clone() });
    }
}

/// The UIDs of a member's claims as one text, in the order of their names: another text is other data. Absent: it has no claims.
#[must_use]
pub fn claim_uids(claims: &[Claim]) -> Option<String> {
    let uids: Vec<_> = claims.iter().map(|c| c.uid.as_str()).collect();
    (!uids.is_empty()).then(|| uids.join(" "))
}

/// Raises the high-water mark; a point that cannot be compared with it leaves it as it is.
pub fn raise(record: &mut Record, mark: Mark) {
    let higher = match &record.high_water {
        None => true,
        Some(old) => {
            crate::data::compare((mark.term, &mark.sequence), (old.term, &old.sequence)) == Some(Ordering::Greater)
        }
    };
    if higher {
        record.high_water = Some(mark);
    }
}

/// What a claim of the member should say, once a role of it is confirmed. `None`: nothing yet.
#[must_use]
pub fn mark(record: &Record, group: &str, member: &MemberName) -> Option<ClaimMark> {
    let known = record.members.get(member)?;
    let term = known.term?;
    let primaries =
        record.members.iter().filter(|(_, m)| m.primary_term == Some(term)).map(|(n, _)| n.clone()).collect();
    Some(ClaimMark { group: group.to_owned(), term, sequence: known.sequence.clone(), primaries })
}

/// How many members the `StatefulSet` gets: never fewer than it has, for going down is a plan of its own (safety S25, S26), and never fewer
/// than are remembered (safety S18).
#[must_use]
pub fn replicas(wanted: u32, set: Option<&Set>, record: &Record) -> u32 {
    wanted.max(set.map_or(0, |s| s.replicas)).max(record.last_replicas)
}
