//! Memory that outlives the group's object: the annotations of claims are joined with the record in the status.
//!
//! Without a record the claims' highest term counts, with the primaries of that term and where they ran. With a record a claim adds to it only
//! while both agree: a claim with a later term is [`Ahead`], and an administrator has to explain it.
use crate::contract::MemberName;
use crate::limits;
use crate::record::{Intent, LastPrimary, Mark, Membership, Record, Recovery, Seeded, Verb};
use crate::snapshot::{Claim, ClaimMark, LeftClaim, Member, Snapshot, StartNote};
use crate::version;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// One claim of the group, with its member and its annotations.
type Marked<'a> = (&'a MemberName, &'a Claim, &'a ClaimMark);

/// Joins the record of the status with the annotations of the claims (docs/rules.md, "Memory"; docs/safety.md, S7, S32). The result is never less
/// careful than the record alone.
#[must_use]
pub fn recall<'a>(
    mut record: Record,
    group: &str,
    claims: impl IntoIterator<Item = (&'a MemberName, &'a Claim)>,
) -> Record {
    let of_group = |(member, claim): (&'a MemberName, &'a Claim)| {
        claim.mark.as_ref().filter(|m| m.group == group).map(|mark| (member, claim, mark))
    };
    let claims: Vec<_> = claims.into_iter().collect();
    let marks: Vec<Marked<'_>> = claims.iter().copied().filter_map(of_group).collect();
    let blank = record.is_blank();
    let known = record.clone();
    let mut believed: BTreeMap<&MemberName, Vec<Claim>> = BTreeMap::new();
    let mut latest: Option<(u64, &str)> = None;
    for (member, claim, mark) in &marks {
        // Claims are annotated when a role is confirmed, so an annotation shows that the first seed was confirmed.
        let first = record.ever_seeded.as_ref().map_or_else(|| (*member).clone(), |e| e.member.clone());
        record.ever_seeded = Some(Seeded { member: first, confirmed: true });
        if blank || (mark.term <= known.term && !is_foreign(&known, member, claim)) {
            believed.entry(*member).or_default().push((*claim).clone());
            apply_mark(&mut record, member, mark);
            latest = later_version(latest, (mark.term, mark.version.as_deref()));
        }
    }
    // A start that was never confirmed is on no claim in another way.
    for (member, claim) in &claims {
        let is_own = |note: &&StartNote| note.group == group && !is_foreign(&known, member, claim);
        let note = claim.start.as_ref().filter(is_own);
        latest = note.map_or(latest, |note| later_version(latest, (note.intent.term, note.version.as_deref())));
    }
    if let (None, Some((_, version))) = (&record.version, latest) {
        record.version = Some(version.to_owned());
    }
    for (member, mut claims) in believed {
        claims.sort_by(|a, b| a.name.cmp(&b.name));
        let known = record.member_mut(member);
        if known.claim_uid.is_none() {
            known.claim_uid = claim_uids(&claims);
        }
    }
    recall_primaries(&mut record, &known, &marks);
    recall_start(&mut record, &known, group, &claims);
    recall_membership(&mut record, &known, &marks);
    recall_places(&mut record, &known, group, &claims);
    forget_removed(&mut record);
    record
}

/// Where members agree, several may have been started at a time when the record was lost, and none of these starts is opened again. So each member counts as running where its last start was noted
/// until that is proven over: an identity must not run twice (seed 500004092).
fn recall_places(record: &mut Record, known: &Record, group: &str, claims: &[(&MemberName, &Claim)]) {
    if !known.is_blank() || record.membership.is_none() {
        return;
    }
    for (member, claim) in claims {
        let is_own = |note: &&StartNote| note.group == group && note.intent.member == **member;
        if let Some(note) = claim.start.as_ref().filter(is_own) {
            record.member_mut(member).ran.get_or_insert_with(|| note.target.clone());
        }
    }
}

/// Where members agree, a claim still names a primary that was removed since, and not where it ran, because it was proven over. Who is not listed serves nobody, so such a name is
/// no reason to wait (seed 252408332).
fn forget_removed(record: &mut Record) {
    let Some(list) = &record.membership else { return };
    record.last_primaries.retain(|last| !last.is_by_name() || list.of(&last.member).is_some());
}

/// Opens the last start again that makes a primary, if the record does not know it: its request may still be on its way, and settling it makes sure that its command
/// does not start beside another primary. Before it, every other such start was settled (A10). One whose member was confirmed as primary since is over.
///
/// Beside a record this is done only while no claim is ahead of it: otherwise an administrator has to compare them.
fn recall_start(record: &mut Record, known: &Record, group: &str, claims: &[(&MemberName, &Claim)]) {
    let of_group = |(member, claim): &(&MemberName, &Claim)| {
        let note = claim.start.clone().filter(|note| note.group == group && note.intent.member == **member);
        let note = note.filter(|note| note.intent.verb.makes_primary());
        note.filter(|_| !is_foreign(known, member, claim))
    };
    let notes = || claims.iter().filter_map(of_group);
    let Some(last) = notes().max_by_key(|note| (note.intent.term, note.counter)) else { return };
    let intent = &last.intent;
    let marks = || claims.iter().filter_map(|(_, claim)| claim.mark.as_ref()).filter(|mark| mark.group == group);
    // Nobody but the recovered member leads in the term of a recovery, as long as that is not over.
    let led = |mark: &ClaimMark| match intent.verb {
        Verb::Recover => !mark.primaries.is_empty(),
        // Who converted its data leads only later.
        Verb::Convert => mark.version == intent.version,
        _ => mark.primaries.contains(&intent.member),
    };
    let is_confirmed = marks().any(|mark| mark.term >= intent.term && led(mark));
    let is_known = match known.is_blank() {
        true => intent.term < record.term,
        false => intent.term <= known.term || marks().any(|mark| mark.term > known.term),
    };
    if is_confirmed || is_known {
        return;
    }
    record.term = record.term.max(intent.term);
    record.counter = record.counter.max(notes().map(|note| note.counter).max().unwrap_or_default());
    if record.ever_seeded.is_none() {
        record.ever_seeded = Some(Seeded { member: intent.member.clone(), confirmed: false });
    }
    let member = record.member_mut(&intent.member);
    member.last_command = Some(intent.command.clone());
    member.started = Some(last.started.clone());
    record.push_last_primary(last.target.clone());
    if intent.verb == Verb::Recover && !record.recovery.as_ref().is_some_and(Recovery::is_begun) {
        record.recovery = Some(Recovery::recalled(&intent.member));
    }
    record.intents.push(intent.clone());
}

/// The note of a command that makes a primary, or where members agree of every start, for the claims of its member. `None`: it is no such command. `record`: the one that has its intent.
#[must_use]
pub fn start_note(s: &Snapshot, record: &Record, intent: &Intent) -> Option<StartNote> {
    let agrees = s.group.commands.membership.is_some();
    let is_noted = intent.verb.makes_primary() || agrees && intent.verb.leaves_running();
    let (_, pod) = s.pod(&intent.pod_uid).filter(|_| is_noted)?;
    let started = record.member(&intent.member).started.clone()?;
    let (group, target) = (s.group.name.clone(), LastPrimary::of(intent, pod));
    let (counter, version) = (record.counter, record.version.clone());
    Some(StartNote { group, counter, intent: intent.clone(), target, started, version })
}

/// Takes the latest list that a claim has: what the claims remember of who the members are is never older than what was confirmed. A list of an older term than another one was given up
/// when a member was recovered.
///
/// Without a record it may be older than what happened since: then whoever is listed may have been started, and starts only on a volume with data.
fn recall_membership(record: &mut Record, known: &Record, marks: &[Marked<'_>]) {
    let list = |(member, claim, mark): &Marked<'_>| {
        let list = mark.membership.clone().filter(|_| !is_foreign(known, member, claim));
        list.map(|list| (mark.term, list))
    };
    let lists: Vec<_> = marks.iter().filter_map(list).collect();
    let latest = lists.iter().map(|(term, _)| *term).max().max(known.membership.as_ref().map(|_| known.term));
    record.membership.take_if(|_| latest > Some(known.term));
    for (_, list) in lists.iter().filter(|(term, _)| Some(*term) >= latest) {
        record.membership = Membership::later(record.membership.take(), list);
    }
    if known.is_blank() {
        record.membership.iter_mut().flat_map(|list| &mut list.members).for_each(|listed| listed.started = true);
    }
}

/// The version of the data of the higher term; within one term the later one, which a conversion on a primary made.
fn later_version<'a>(known: Option<(u64, &'a str)>, (term, version): (u64, Option<&'a str>)) -> Option<(u64, &'a str)> {
    let Some(version) = version else { return known };
    let own = (term, version);
    let is_later = |(term, version): (u64, &str)| {
        own.0 > term || own.0 == term && version::compare(own.1, version) == Some(Ordering::Greater)
    };
    if known.is_none_or(is_later) { Some(own) } else { known }
}

fn apply_mark(record: &mut Record, member: &MemberName, mark: &ClaimMark) {
    record.term = record.term.max(mark.term);
    let known = record.member_mut(member);
    if known.term < Some(mark.term) {
        known.term = Some(mark.term);
        known.sequence.clone_from(&mark.sequence);
        known.version.clone_from(&mark.version);
    }
    for primary in &mark.primaries {
        let primary = record.member_mut(primary);
        primary.primary_term = primary.primary_term.max(Some(mark.term));
    }
    if let Some(sequence) = &mark.sequence {
        raise_high_water(record, Mark { term: mark.term, sequence: sequence.clone() });
    }
}

/// Adds the primaries of the claims' highest term to the record, once. If the record knows that term itself, a primary that it no longer lists was
/// proven over, and a claim that still lists it is older. Primaries of older terms were proven over before a newer term was opened.
fn recall_primaries(record: &mut Record, known: &Record, marks: &[Marked<'_>]) {
    if record.recalled <= Some(record.term) {
        record.recalled = None;
    }
    let from = if known.is_blank() { None } else { known.recalled.max(Some(known.term)) };
    let later = |(member, claim, mark): &&Marked<'_>| Some(mark.term) > from && !is_foreign(known, member, claim);
    let Some(term) = marks.iter().filter(later).map(|(_, _, mark)| mark.term).max() else { return };
    let of_term = || marks.iter().filter(later).map(|(_, _, mark)| *mark).filter(|mark| mark.term == term);
    for entry in of_term().flat_map(|mark| &mark.ran) {
        record.push_last_primary(entry.clone());
    }
    for name in of_term().flat_map(|mark| &mark.primaries) {
        if record.last_primaries.iter().all(|l| &l.member != name) {
            record.last_primaries.push(LastPrimary::by_name(name.clone()));
        }
    }
    if record.term < term {
        record.recalled = Some(term);
    }
}

/// Whether the claim is not one that the member had when its role was last confirmed.
fn is_foreign(record: &Record, member: &MemberName, claim: &Claim) -> bool {
    let uid = record.members.get(member).and_then(|known| known.claim_uid.as_ref());
    uid.is_some_and(|uid| uid.split(' ').all(|known| known != claim.uid))
}

/// A claim with a later term than the record: either the record is outdated, or the claim came from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahead<'a> {
    /// The member whose claim it is.
    pub member: &'a MemberName,
    /// The name of the claim.
    pub claim: &'a str,
    /// The term in its annotation.
    pub term: u64,
    /// The term of the record.
    pub known: u64,
    /// Whether it is not a claim that the member had when its role was last confirmed: then it came from elsewhere. Otherwise the record itself
    /// may be outdated.
    pub foreign: bool,
}

impl std::fmt::Display for Ahead<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ahead { member, claim, term, known, .. } = self;
        write!(f, "the claim {claim} is annotated with term {term}, but the group is in term {known}: ")?;
        match self.foreign {
            true => write!(f, "it is not the claim that {member} had; remove its annotation tanist.dev/term to give up its data")?,
            false => f.write_str(
                "status.record is older than the data, or the annotation was changed; remove tanist.dev/term from the claim if it is wrong",
            )?,
        }
        f.write_str(", or choose who leads with the annotation tanist.dev/override")
    }
}

/// The claims of members with a later term than the record.
pub fn ahead(s: &Snapshot) -> impl Iterator<Item = Ahead<'_>> {
    let known = s.record.term;
    let ahead = move |member| move |claim| ahead_of(s, member, claim, known);
    s.members.iter().flat_map(move |member| member.claims.iter().filter_map(ahead(&member.name)))
}

fn ahead_of<'a>(s: &Snapshot, member: &'a MemberName, claim: &'a Claim, known: u64) -> Option<Ahead<'a>> {
    let mark = claim.mark.as_ref().filter(|mark| mark.group == s.group.name && mark.term > known)?;
    let foreign = is_foreign(&s.record, member, claim);
    Some(Ahead { member, claim: &claim.name, term: mark.term, known, foreign })
}

/// The names of the group's claims that belong to no expected member and that no orderly scale-down left behind. A claim with a later term than the
/// record was not left behind by a scale-down that the record knows.
#[must_use]
pub fn surplus<'a>(
    record: &Record,
    group: &str,
    expected: &[MemberName],
    claims: impl IntoIterator<Item = (&'a MemberName, &'a Claim)>,
) -> Vec<String> {
    let explained = |member: &MemberName, term: u64| {
        expected.contains(member) || (record.retired.contains(member) && term <= record.term)
    };
    let unexplained = |(member, claim): &(&MemberName, &Claim)| {
        claim.mark.as_ref().is_some_and(|mark| mark.group == group && !explained(member, mark.term))
    };
    claims.into_iter().filter(unexplained).map(|(_, claim)| claim.name.clone()).collect()
}

/// The claims that members left behind which an orderly scale-down removed. `present`: the members that are expected or have a pod. A claim of another group, or of a
/// later term than the record, was not left behind by a scale-down that the record knows. One without memory stays: its member never served, and what is on it is not known to be of this group.
#[must_use]
pub fn left<'a>(
    record: &Record,
    group: &str,
    present: &[MemberName],
    claims: impl IntoIterator<Item = (&'a MemberName, &'a Claim)>,
) -> Vec<LeftClaim> {
    let is_left = |(member, claim): &(&MemberName, &Claim)| {
        let known = claim.mark.as_ref().is_some_and(|mark| mark.group == group && mark.term <= record.term);
        known && record.retired.contains(*member) && !present.contains(*member)
    };
    let left = claims.into_iter().filter(is_left);
    left.map(|(member, claim)| LeftClaim { member: member.clone(), claim: claim.clone(), is_being_deleted: false })
        .collect()
}

/// The UIDs of a member's claims as one text, in the order of their names: another text means other volumes. Absent: it has no claims.
#[must_use]
pub fn claim_uids(claims: &[Claim]) -> Option<String> {
    let uids: Vec<_> = claims.iter().map(|c| c.uid.as_str()).collect();
    (!uids.is_empty()).then(|| uids.join(" "))
}

/// Raises the high-water mark. A point of another history in the same term cannot be compared and changes nothing.
pub fn raise_high_water(record: &mut Record, mark: Mark) {
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

/// The annotations that a claim of the member should have once its role is confirmed. `None`: none yet.
#[must_use]
pub fn claim_mark(record: &Record, group: &str, member: &MemberName) -> Option<ClaimMark> {
    let known = record.members.get(member)?;
    let term = known.term?;
    let primaries =
        record.members.iter().filter(|(_, m)| m.primary_term == Some(term)).map(|(n, _)| n.clone()).collect();
    Some(ClaimMark {
        group: group.to_owned(),
        term,
        sequence: known.sequence.clone(),
        primaries,
        ran: primaries_to_mark(record, member),
        membership: record.membership.clone(),
        version: known.version.clone(),
    })
}

/// Whether the member's claims remember who the members are that agree: it was confirmed on these volumes, and no claim is ahead of the record.
#[must_use]
pub fn keeps_list(s: &Snapshot, member: &Member) -> bool {
    let known = s.record.member(&member.name);
    let own = known.term.is_some() && known.claim_uid.is_some() && claim_uids(&member.claims) == known.claim_uid;
    s.group.commands.membership.is_some() && own && ahead(s).all(|ahead| *ahead.member != member.name)
}

/// Whether the claims of a member that converted its data say that it is of the version before: they are those on which it did that.
#[must_use]
pub fn lacks_version(s: &Snapshot, member: &Member) -> bool {
    let known = s.record.member(&member.name);
    let of_group = |claim: &Claim| claim.mark.clone().filter(|mark| mark.group == s.group.name);
    let is_former = |claim: &Claim| of_group(claim).is_some_and(|mark| mark.version != known.version);
    let own = known.claim_uid.is_some() && claim_uids(&member.claims) == known.claim_uid;
    let has_converted = known.version.is_some() && known.term == Some(s.record.term) && known.started.is_none();
    has_converted && own && member.claims.iter().any(is_former) && ahead(s).all(|ahead| *ahead.member != member.name)
}

/// Whether the claim has the list of members that the record has.
#[must_use]
pub fn has_list(s: &Snapshot, claim: &Claim) -> bool {
    let mark = claim.mark.as_ref().filter(|mark| mark.group == s.group.name);
    mark.is_some_and(|mark| mark.membership == s.record.membership)
}

/// The pods and nodes of primaries, and of members that agree, that are not proven over: the member's own first, then the others', up to the limit.
fn primaries_to_mark(record: &Record, own: &MemberName) -> Vec<LastPrimary> {
    // Where members do not agree, one that follows is no primary.
    let agree = record.membership.is_some();
    let led = record.last_primaries.iter().filter(|_| !agree);
    let placed = record.ran().filter(|_| agree).chain(led).filter(|l| !l.is_by_name());
    let mut ran: Vec<_> = placed.map(|l| ((&l.member != own, &l.member, &l.pod_uid, &l.container_id), l)).collect();
    ran.sort_by_key(|(key, _)| *key);
    ran.dedup_by_key(|(key, _)| *key);
    ran.into_iter().take(limits::MARKED_PRIMARIES).map(|(_, l)| LastPrimary { gone: None, ..l.clone() }).collect()
}
