//! Who may become the first primary, and when: the order of data, and what memory says against it (docs/rules.md, "Order of data").
use super::claims;
use super::{Held, Rule, Violation, broken, broken_by, free, phase_word, rested, role_is};
use crate::contract::{MemberName, Phase, Position, Role, Sequence};
use crate::data;
use crate::memory;
use crate::over;
use crate::over::word;
use crate::snapshot::{Member, Overrule, Snapshot};
use std::cmp::Ordering;

/// What has to hold for the whole group before anyone is seeded.
///
/// # Errors
/// The first rule that does not hold; an override lifts all but Over.
pub fn seed_group(s: &Snapshot) -> Held {
    let overruled = s.overrule().is_some();
    if !overruled {
        gate(s)?;
    }
    nobody_lives(s)?;
    if overruled {
        return Ok(());
    }
    claims::none_ahead(s)?;
    positions_known(s)?;
    memory_explains(s)?;
    claims_unchanged(s)?;
    top(s).map(|_| ())
}

/// Exactly the members that the set has are running (A1, S18).
fn gate(s: &Snapshot) -> Held {
    let Some(set) = &s.set else { return Err(broken(Rule::Gate, "the StatefulSet does not exist yet")) };
    let expected = set.replicas.max(s.record.last_replicas);
    let running = s.members.iter().filter(|m| s.reachable(m)).count();
    if usize::try_from(expected).ok() == Some(running) && s.members.len() == running {
        return Ok(());
    }
    let missing = s.members.iter().filter(|m| !s.reachable(m)).map(|m| {
        let phase = m.pod.as_ref().map_or(Phase::Missing, |p| p.phase);
        format!("; {} is {}", m.name, phase_word(phase))
    });
    let missing: String = missing.collect();
    let message =
        format!("{running} pods run, {expected} are expected; a first primary waits for exactly those{missing}");
    Err(broken(Rule::Gate, message))
}

/// Nobody runs, nobody may be running, nobody is about to (promise 1). No override lifts this.
fn nobody_lives(s: &Snapshot) -> Held {
    if let Some((name, why)) = s.may_be_primary().into_iter().next() {
        let message = format!("{name} may be primary: {why}");
        return Err(Violation { until: over::proven_at(s), ..broken_by(Rule::MayBePrimary, &name, message) });
    }
    // A start that is not settled may become a running member at any moment, whatever `status` said a moment ago.
    if let Some(intent) = s.record.intents.first() {
        let message = format!("{} on {} is not settled; a first primary waits for it", intent.command, intent.member);
        return Err(broken_by(Rule::NotAllStopped, &intent.member, message));
    }
    // Whoever runs counts, also in a pod that is being deleted.
    for member in s.members.iter().filter(|m| over::alive(s, m)) {
        let (role, why) = s.role(member);
        if role != Role::Stopped {
            let why = why.map(|w| format!(": {w}")).unwrap_or_default();
            let message =
                format!("{} is {}{why}; a first primary waits until every member is stopped", member.name, word(role));
            return Err(broken_by(Rule::NotAllStopped, &member.name, message));
        }
    }
    Ok(())
}

/// The highest term that any member counts as of.
#[must_use]
pub fn highest_term(s: &Snapshot) -> Option<u64> {
    s.members.iter().filter_map(|m| s.record.member(&m.name).counts_as()).max()
}

/// Whether the member's data is proven to be of an older term: it neither wins nor blocks.
#[must_use]
pub fn of_older_term(s: &Snapshot, member: &Member) -> bool {
    matches!((s.record.member(&member.name).counts_as(), highest_term(s)), (Some(own), Some(highest)) if own < highest)
}

/// Unknown is not a number: it blocks, for it may be the freshest (A6, docs/requirements.md, reading 3).
fn positions_known(s: &Snapshot) -> Held {
    for member in s.members.iter().filter(|m| !of_older_term(s, m)) {
        if let Position::Unknown(why) = &member.position {
            let message = format!("the data of {} cannot be read, and it may be the freshest: {why}", member.name);
            return Err(broken_by(Rule::PositionUnknown, &member.name, message));
        }
    }
    Ok(())
}

/// Every position that counts was asked for in this life of its container, and since nobody leads: what was read before says nothing (S8, S9).
pub(super) fn positions_read(s: &Snapshot) -> Held {
    if s.overrule().is_some() {
        return Ok(());
    }
    match s.members.iter().find(|m| !s.position_stands(m) && !of_older_term(s, m)) {
        Some(m) => Err(broken_by(
            Rule::PositionUnknown,
            &m.name,
            format!("the data of {} was not read since nobody leads", m.name),
        )),
        None => Ok(()),
    }
}

/// Data without any memory is a person's decision.
fn memory_explains(s: &Snapshot) -> Held {
    for member in &s.members {
        let unexplained = s.record.member(&member.name).counts_as().is_none();
        if let (Position::Known(sequence), true) = (&member.position, unexplained) {
            let message = format!(
                "{} holds data ({sequence}) that this group has no memory of; choose who leads with the annotation tanist.dev/override",
                member.name
            );
            return Err(broken_by(Rule::NeedsAdoption, &member.name, message));
        }
    }
    if let Some(claim) = s.surplus_claims.first() {
        let message = format!(
            "the claim {claim} belongs to no expected member; raise spec.replicas until it has one, or delete the claim"
        );
        return Err(broken(Rule::UnrecordedClaims, message));
    }
    Ok(())
}

/// The volume of every last primary is the one it had (S16). That nothing is remembered of it is no proof that it is the same (S32).
fn claims_unchanged(s: &Snapshot) -> Held {
    let Some(highest) = highest_term(s) else { return Ok(()) };
    for member in &s.members {
        let memory = s.record.member(&member.name);
        if memory.primary_term == Some(highest) && memory::claim_uids(&member.claims) != memory.claim_uid {
            let message = format!(
                "{} was primary and its volume is another one now; its data may have been the freshest",
                member.name
            );
            return Err(broken_by(Rule::ClaimChanged, &member.name, message));
        }
    }
    Ok(())
}

/// The highest data of the highest term. `None`: nobody there has any.
///
/// # Errors
/// [`Rule::HistoriesDiffer`]: two histories inside the highest term; a person decides (S14).
pub fn top(s: &Snapshot) -> Result<Option<Sequence>, Violation> {
    highest_among(s.members.iter().filter(|m| !of_older_term(s, m) && s.position_stands(m)))
}

/// The highest data among members of one term.
pub(super) fn highest_among<'a>(members: impl Iterator<Item = &'a Member>) -> Result<Option<Sequence>, Violation> {
    let mut best: Option<(&MemberName, &Sequence)> = None;
    for member in members {
        let Position::Known(sequence) = &member.position else { continue };
        let Some((holder, highest)) = best else {
            best = Some((&member.name, sequence));
            continue;
        };
        match data::compare((0, sequence), (0, highest)) {
            Some(Ordering::Greater) => best = Some((&member.name, sequence)),
            Some(_) => {}
            None => {
                let message = format!(
                    "{holder} holds {highest} and {} holds {sequence}: these histories cannot be compared; choose one with the annotation tanist.dev/override",
                    member.name
                );
                return Err(broken_by(Rule::HistoriesDiffer, &member.name, message));
            }
        }
    }
    Ok(best.map(|(_, sequence)| sequence.clone()))
}

/// What has to hold for the member that is seeded.
///
/// # Errors
/// The first rule that does not hold.
pub fn seed_member(s: &Snapshot, member: &Member) -> Held {
    free(s, member)?;
    role_is(s, member, &[Role::Stopped])?;
    if let Some(overrule) = s.overrule() {
        return overruled(s, member, overrule);
    }
    rested(s, member)?;
    let name = &member.name;
    let memory = s.record.member(name);
    if of_older_term(s, member) {
        let why = "its data is of an older term: it may lack writes of the last one";
        return Err(broken_by(Rule::OlderTerm, name, why));
    }
    let Position::Known(own) = &member.position else { return empty_member(s, member) };
    if memory.started.as_ref().is_some_and(|started| !started.target) {
        return Err(broken_by(
            Rule::Unconfirmed,
            name,
            "a start on it was never confirmed, and its data changed since",
        ));
    }
    let behind = top(s)?.filter(|top| data::compare((0, own), (0, top)) != Some(Ordering::Equal));
    if let Some(top) = behind {
        return Err(broken_by(
            Rule::BelowHighest,
            name,
            format!("its data ({own}) is behind the highest known ({top})"),
        ));
    }
    // Until its role was confirmed once, nothing is remembered of its volume: the target of the very first seed may be seeded again.
    if memory.term.is_some() {
        claims::own_claims(s, member)?;
    }
    above_high_water(s, member, own)
}

fn empty_member(s: &Snapshot, member: &Member) -> Held {
    let name = &member.name;
    if member.position != Position::Empty {
        return Err(broken_by(Rule::PositionUnknown, name, "its data could not be read"));
    }
    // Until the first seed is confirmed nobody has data but its target: that member may be seeded again, or anyone while all are empty.
    let all_empty = s.members.iter().all(|m| m.position == Position::Empty);
    let allowed = match &s.record.ever_seeded {
        None => all_empty,
        Some(seeded) if seeded.confirmed => false,
        Some(seeded) => all_empty || &seeded.member == name,
    };
    match allowed && s.record.high_water.is_none() {
        true => Ok(()),
        false => Err(broken_by(Rule::EmptyMember, name, "it holds no data, and this group has some or had some")),
    }
}

/// No automatic seed below what was ever seen (S15).
pub(super) fn above_high_water(s: &Snapshot, member: &Member, own: &Sequence) -> Held {
    let Some(mark) = &s.record.high_water else { return Ok(()) };
    let term = s.record.member(&member.name).counts_as().unwrap_or_default();
    match data::compare((term, own), (mark.term, &mark.sequence)) {
        Some(Ordering::Equal | Ordering::Greater) => Ok(()),
        _ => {
            let message = format!(
                "its data ({own}) is behind {} of term {}, which this group once had",
                mark.sequence, mark.term
            );
            Err(broken_by(Rule::BelowHighWater, &member.name, message))
        }
    }
}

/// A person decided: the member, and what it has to hold. That the term is the one they saw is asked by [`Snapshot::overrule`].
pub(super) fn overruled(s: &Snapshot, member: &Member, overrule: &Overrule) -> Held {
    let name = &member.name;
    if name != &overrule.member {
        return Err(broken_by(Rule::BarredMember, name, format!("a person chose {}", overrule.member)));
    }
    if !s.position_stands(member) {
        let why = "its data was not read since nobody leads";
        return Err(broken_by(Rule::PositionUnknown, name, why));
    }
    if member.position != overrule.position {
        let found = data::show_position(&member.position);
        let message =
            format!("the override expects {}, the member holds {found}", data::show_position(&overrule.position));
        return Err(broken_by(Rule::BelowHighest, name, message));
    }
    Ok(())
}
