//! The rules that no policy can break: one named variant and one function each.
//!
//! They run on every answer, and [`start`] runs again on live reads just before each act. A broken rule drops the whole answer.
use crate::contract::{Delay, MemberName, Phase, Position, Ranking, Remedy, Role, Sequence, Treatment};
use crate::data;
use crate::limits;
use crate::over::word;
use crate::policy::Question;
use crate::record::{Intent, Verb};
use crate::snapshot::{Member, Snapshot};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Which rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// An answer names a member that the snapshot does not have (H10).
    UnknownMember,
    /// An answer chooses a member that was barred (H10, H12).
    BarredMember,
    /// An answer names a member twice (H10).
    DuplicateMember,
    /// An answer chooses nobody (H11).
    EmptyAnswer,
    /// A reason is longer than 256 bytes (H9).
    ReasonTooLong,
    /// An answer asks for a data source, which this group cannot provide.
    SourceNotPossible,
    /// A delay does not end later than now.
    DelayNotLater,
    /// A remedy that the group does not allow.
    RemedyNotPossible,
    /// Pod or container are not those of the plan (S8, S9).
    TargetReplaced,
    /// The pod does not run, or is being deleted (invariant 1 of requirements/decisions.md).
    TargetUnreachable,
    /// A command is unsettled on this member.
    MemberBusy,
    /// A command that makes a primary is unsettled in this group (A10).
    SecondPrimaryCommand,
    /// Fewer or more pods run than the set has (A1).
    Gate,
    /// Somebody may be primary (promise 1).
    MayBePrimary,
    /// Somebody is not stopped.
    NotAllStopped,
    /// A position is unknown that may be the freshest (A6, S10).
    PositionUnknown,
    /// Two histories inside the highest term (S14).
    HistoriesDiffer,
    /// The volume of a last primary is another one (S16).
    ClaimChanged,
    /// Claims beyond `replicas` that no orderly shrink recorded (S18).
    UnrecordedClaims,
    /// Data without memory.
    NeedsAdoption,
    /// A member without data, after the group was seeded (S17).
    EmptyMember,
    /// A member of a proven older term.
    OlderTerm,
    /// A member below the highest known data (A20, S13).
    BelowHighest,
    /// A member below what was ever seen (S15).
    BelowHighWater,
    /// A start of this term is not confirmed on it: it can block, not win.
    Unconfirmed,
    /// A command failed on it and nothing put it right (A21).
    MemberFailed,
    /// It failed a moment ago.
    BackOff,
    /// It has not the role that this needs.
    WrongRole,
    /// As many may be primary as are wanted (promise 1).
    PrimaryLimit,
    /// No primary serves.
    NobodyServes,
    /// Not more primaries serve than wanted.
    NotSurplus,
    /// The group has no command for it.
    NoCommand,
}

/// A rule that would be, or was, broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// By or on whom.
    pub member: Option<MemberName>,
    /// One sentence for people.
    pub message: String,
    /// When time alone will lift it.
    pub until: Option<i64>,
}

/// The outcome of a rule.
pub type Held = Result<(), Violation>;

/// A violation about the whole group.
pub fn broken(rule: Rule, message: impl Into<String>) -> Violation {
    Violation { rule, member: None, message: message.into(), until: None }
}

/// A violation about one member.
pub fn broken_by(rule: Rule, member: &MemberName, message: impl Into<String>) -> Violation {
    Violation { rule, member: Some(member.clone()), message: message.into(), until: None }
}

/// Holds a ranking against its question (contract.wit, "What is done with an answer").
///
/// # Errors
/// The first rule it breaks.
pub fn ranking(question: &Question, ranking: &Ranking) -> Held {
    if ranking.candidates.is_empty() {
        return Err(broken(Rule::EmptyAnswer, "the policy chose nobody; an answer without candidates has to be wait or refuse"));
    }
    let mut seen = BTreeSet::new();
    for candidate in &ranking.candidates {
        chosen(question, &candidate.member)?;
        if !seen.insert(&candidate.member) {
            return Err(broken_by(Rule::DuplicateMember, &candidate.member, format!("the policy chose {} twice", candidate.member)));
        }
        reason(&candidate.reason)?;
        if candidate.source.is_some() {
            let message = format!("the policy wants {} brought up to another member's data first; this group cannot do that", candidate.member);
            return Err(broken_by(Rule::SourceNotPossible, &candidate.member, message));
        }
    }
    for remark in &ranking.passed_over {
        known(question, &remark.member)?;
        reason(&remark.reason)?;
    }
    Ok(())
}

/// Holds treatments against their question.
///
/// # Errors
/// The first rule they break.
pub fn treatments(question: &Question, treatments: &[Treatment]) -> Held {
    let mut seen = BTreeSet::new();
    for treatment in treatments {
        chosen(question, &treatment.member)?;
        if !seen.insert(&treatment.member) {
            return Err(broken_by(Rule::DuplicateMember, &treatment.member, format!("the policy treats {} twice", treatment.member)));
        }
        reason(&treatment.reason)?;
        if treatment.remedy == Remedy::Replace {
            let message = format!("the policy wants {} replaced; that needs a group with spec.repair", treatment.member);
            return Err(broken_by(Rule::RemedyNotPossible, &treatment.member, message));
        }
    }
    Ok(())
}

/// Holds a delay against its question.
///
/// # Errors
/// When it does not end later than now.
pub fn delay(question: &Question, delay: &Delay) -> Held {
    reason(&delay.reason)?;
    match delay.until {
        Some(until) if until <= question.snapshot.now => {
            Err(broken(Rule::DelayNotLater, "the policy wants to be asked again at a time that is not later than now"))
        }
        _ => Ok(()),
    }
}

fn known(question: &Question, name: &MemberName) -> Held {
    match question.snapshot.members.iter().any(|m| &m.name == name) {
        true => Ok(()),
        false => Err(broken_by(Rule::UnknownMember, name, format!("the policy names {name}, which is no member of this group"))),
    }
}

fn chosen(question: &Question, name: &MemberName) -> Held {
    known(question, name)?;
    match question.snapshot.members.iter().find(|m| &m.name == name).and_then(|m| m.barred.as_ref()) {
        Some(why) => Err(broken_by(Rule::BarredMember, name, format!("the policy chose {name}, which is barred: {why}"))),
        None => Ok(()),
    }
}

fn reason(text: &str) -> Held {
    match text.len() <= limits::REASON_BYTES {
        true => Ok(()),
        false => Err(broken(Rule::ReasonTooLong, format!("the policy gave a reason of {} bytes; at most 256 are allowed", text.len()))),
    }
}

/// Everything that has to hold when a command starts: run by `decide`, and again on live reads just before the act.
///
/// # Errors
/// The first rule that does not hold.
pub fn start(s: &Snapshot, intent: &Intent) -> Held {
    let name = &intent.member;
    let Some(member) = s.member(name) else {
        return Err(broken_by(Rule::TargetUnreachable, name, format!("{name} is no member any more")));
    };
    target(s, member, intent)?;
    match intent.verb {
        Verb::Seed => {
            lone(s)?;
            seed_group(s)?;
            seed_member(s, member)
        }
        Verb::Failover => Err(broken(Rule::NoCommand, "this build does not promote by itself")),
        Verb::Join => {
            lone(s)?;
            join_group(s)?;
            join_member(s, member)
        }
        Verb::Place => {
            serving(s)?;
            place_member(s, member)
        }
        Verb::Follow => serving(s),
        Verb::Demote => demote_member(s, member),
        Verb::Treat => failed_member(s, member),
    }
}

/// The pod and container of the plan are still those, and can be reached (S8, S9).
fn target(s: &Snapshot, member: &Member, intent: &Intent) -> Held {
    let name = &member.name;
    let Some(pod) = &member.pod else {
        return Err(broken_by(Rule::TargetReplaced, name, format!("the pod of {name} is gone")));
    };
    let id = pod.containers.get(&intent.container).filter(|c| c.running).and_then(|c| c.id.as_deref());
    if pod.uid != intent.pod_uid || id != Some(intent.container_id.as_str()) {
        return Err(broken_by(Rule::TargetReplaced, name, format!("the pod or container of {name} was replaced since the decision")));
    }
    free(s, member)
}

/// Nothing is under way on the member, and commands reach it.
///
/// # Errors
/// [`Rule::TargetUnreachable`], [`Rule::MemberBusy`].
pub fn free(s: &Snapshot, member: &Member) -> Held {
    let name = &member.name;
    if !s.reachable(member) {
        let phase = member.pod.as_ref().map_or(Phase::Missing, |p| p.phase);
        return Err(broken_by(Rule::TargetUnreachable, name, format!("its pod is {}", phase_word(phase))));
    }
    if member.asked {
        return Err(broken_by(Rule::MemberBusy, name, "its sequence is being read"));
    }
    match s.record.intent_of(name) {
        Some(intent) => Err(broken_by(Rule::MemberBusy, name, format!("its command {} is not settled", intent.command))),
        None => Ok(()),
    }
}

fn phase_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Missing => "missing",
        Phase::Pending => "not running yet",
        Phase::Running => "running",
        Phase::Terminating => "being deleted",
        Phase::Ended => "ended",
        Phase::Unreachable => "on a node that does not report",
    }
}

/// No other command that makes a primary is unsettled (A10).
///
/// # Errors
/// [`Rule::SecondPrimaryCommand`].
pub fn lone(s: &Snapshot) -> Held {
    match s.primary_command() {
        Some(i) => Err(broken_by(Rule::SecondPrimaryCommand, &i.member, format!("{} on {} is not settled", i.command, i.member))),
        None => Ok(()),
    }
}

/// It failed: nothing is started on it before it is treated, and not before its back-off is over (A21).
///
/// # Errors
/// [`Rule::MemberFailed`], [`Rule::BackOff`].
pub fn rested(s: &Snapshot, member: &Member) -> Held {
    let name = &member.name;
    if let (Role::Failed, why) = s.role(member) {
        return Err(broken_by(Rule::MemberFailed, name, format!("it failed and is not treated: {}", why.unwrap_or_default())));
    }
    let memory = s.record.member(name);
    match memory.retry_at {
        Some(at) if at > s.now => {
            let failure = memory.last_failure.map_or_else(String::new, |f| format!(" ({} failed)", f.command));
            let message = format!("it failed {} times{failure}; next try in {} s", memory.failures, at.saturating_sub(s.now));
            Err(Violation { until: Some(at), ..broken_by(Rule::BackOff, name, message) })
        }
        _ => Ok(()),
    }
}

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
    let missing: Vec<_> = s.members.iter().filter(|m| !s.reachable(m)).map(|m| {
        let phase = m.pod.as_ref().map_or(Phase::Missing, |p| p.phase);
        format!("{} is {}", m.name, phase_word(phase))
    }).collect();
    Err(broken(Rule::Gate, format!("{running} of {expected} pods run ({}); a first primary waits for all of them", missing.join(", "))))
}

/// Nobody runs, nobody may be running (promise 1).
fn nobody_lives(s: &Snapshot) -> Held {
    if let Some((name, why)) = s.may_be_primary().into_iter().next() {
        let until = s.record.last_primaries.iter().filter_map(|l| crate::over::over(s, l).err()?.until).max();
        return Err(Violation { until, ..broken_by(Rule::MayBePrimary, &name, format!("{name} may be primary: {why}")) });
    }
    for member in s.members.iter().filter(|m| s.reachable(m)) {
        let (role, why) = s.role(member);
        if role != Role::Stopped {
            let why = why.map(|w| format!(": {w}")).unwrap_or_default();
            let message = format!("{} is {}{why}; a first primary waits until every member is stopped", member.name, word(role));
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

/// Unknown is not a number: it blocks, for it may be the freshest (A6, reading 3).
fn positions_known(s: &Snapshot) -> Held {
    for member in s.members.iter().filter(|m| !of_older_term(s, m)) {
        if let Position::Unknown(why) = &member.position {
            let message = format!("the data of {} cannot be read, and it may be the freshest: {why}", member.name);
            return Err(broken_by(Rule::PositionUnknown, &member.name, message));
        }
    }
    Ok(())
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
        let message = format!("the claim {claim} belongs to no expected member; raise spec.replicas until it has one, or delete the claim");
        return Err(broken(Rule::UnrecordedClaims, message));
    }
    Ok(())
}

/// The volume of every last primary is the one it had (S16).
fn claims_unchanged(s: &Snapshot) -> Held {
    let Some(highest) = highest_term(s) else { return Ok(()) };
    for member in &s.members {
        let memory = s.record.member(&member.name);
        let (Some(uid), true) = (&memory.claim_uid, memory.primary_term == Some(highest)) else { continue };
        if member.claims.first().map(|c| &c.uid) != Some(uid) {
            let message = format!("{} was primary and its volume is another one now; its data may have been the freshest", member.name);
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
    let mut best: Option<(&MemberName, &Sequence)> = None;
    for member in s.members.iter().filter(|m| !of_older_term(s, m)) {
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
    let Position::Known(own) = &member.position else { return empty_member(s, member) };
    if of_older_term(s, member) {
        return Err(broken_by(Rule::OlderTerm, name, "its data is of an older term: it may lack writes of the last one"));
    }
    if memory.started.as_ref().is_some_and(|started| !started.target) {
        return Err(broken_by(Rule::Unconfirmed, name, "a start on it was never confirmed, and its data changed since"));
    }
    let behind = top(s)?.filter(|top| data::compare((0, own), (0, top)) != Some(Ordering::Equal));
    if let Some(top) = behind {
        return Err(broken_by(Rule::BelowHighest, name, format!("its data ({own}) is behind the highest known ({top})")));
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
fn above_high_water(s: &Snapshot, member: &Member, own: &Sequence) -> Held {
    let Some(mark) = &s.record.high_water else { return Ok(()) };
    let term = s.record.member(&member.name).counts_as().unwrap_or_default();
    match data::compare((term, own), (mark.term, &mark.sequence)) {
        Some(Ordering::Equal | Ordering::Greater) => Ok(()),
        _ => {
            let message = format!("its data ({own}) is behind {} of term {}, which this group once had", mark.sequence, mark.term);
            Err(broken_by(Rule::BelowHighWater, &member.name, message))
        }
    }
}

/// A person decided: the member, what it has to hold, and the term they saw.
fn overruled(s: &Snapshot, member: &Member, overrule: &crate::snapshot::Overrule) -> Held {
    let name = &member.name;
    if name != &overrule.member {
        return Err(broken_by(Rule::BarredMember, name, format!("a person chose {}", overrule.member)));
    }
    if overrule.term != s.record.term {
        let message = format!("the override names term {}, the group is in term {}", overrule.term, s.record.term);
        return Err(broken_by(Rule::OlderTerm, name, message));
    }
    if member.position != overrule.position {
        let found = data::show_position(&member.position);
        let message = format!("the override expects {}, the member holds {found}", data::show_position(&overrule.position));
        return Err(broken_by(Rule::BelowHighest, name, message));
    }
    Ok(())
}

fn role_is(s: &Snapshot, member: &Member, wanted: &[Role]) -> Held {
    let (role, why) = s.role(member);
    if wanted.contains(&role) {
        return Ok(());
    }
    let why = why.map(|w| format!(": {w}")).unwrap_or_default();
    Err(broken_by(Rule::WrongRole, &member.name, format!("it is {}{why}", word(role))))
}

fn serving(s: &Snapshot) -> Held {
    match s.serving().is_empty() {
        true => Err(broken(Rule::NobodyServes, "no primary serves")),
        false => Ok(()),
    }
}

/// A primary serves and fewer may be primary than wanted (promise 1).
///
/// # Errors
/// [`Rule::NobodyServes`], [`Rule::PrimaryLimit`].
pub fn join_group(s: &Snapshot) -> Held {
    serving(s)?;
    let maybe = s.may_be_primary();
    let wanted = usize::try_from(s.group.primaries).unwrap_or(usize::MAX);
    if maybe.len() < wanted {
        return Ok(());
    }
    Err(broken(Rule::PrimaryLimit, format!("{} of {wanted} wanted primaries serve or may be primary", maybe.len())))
}

/// What has to hold for a further primary: data that fell behind is fine, it synchronises (A23).
///
/// # Errors
/// The first rule that does not hold.
pub fn join_member(s: &Snapshot, member: &Member) -> Held {
    free(s, member)?;
    if !s.serves(member) {
        rested(s, member)?;
    }
    role_is(s, member, &[Role::Stopped, Role::Secondary])?;
    match s.may_be_primary().get(&member.name) {
        Some(why) => Err(broken_by(Rule::MayBePrimary, &member.name, format!("it may be primary already: {why}"))),
        None => Ok(()),
    }
}

/// What has to hold for a new secondary (A15, A18).
///
/// # Errors
/// The first rule that does not hold.
pub fn place_member(s: &Snapshot, member: &Member) -> Held {
    free(s, member)?;
    rested(s, member)?;
    role_is(s, member, &[Role::Stopped])?;
    match s.group.commands.secondary {
        Some(_) => Ok(()),
        None => Err(broken(Rule::NoCommand, "the group has no secondary command; surplus members stay idle")),
    }
}

/// More primaries serve than wanted, or this one is of an older term (A13, reading 18).
///
/// # Errors
/// The first rule that does not hold.
pub fn demote_member(s: &Snapshot, member: &Member) -> Held {
    free(s, member)?;
    role_is(s, member, &[Role::Primary])?;
    let serving = s.serving();
    let stale = !s.serves(member) && !serving.is_empty();
    match stale || serving.len() > usize::try_from(s.group.primaries).unwrap_or(usize::MAX) {
        true => Ok(()),
        false => Err(broken_by(Rule::NotSurplus, &member.name, "not more primaries serve than are wanted")),
    }
}

/// Only failed members are treated, and not without end (A25, A26).
///
/// # Errors
/// The first rule that does not hold.
pub fn failed_member(s: &Snapshot, member: &Member) -> Held {
    free(s, member)?;
    role_is(s, member, &[Role::Failed])?;
    let memory = s.record.member(&member.name);
    match memory.treat_at {
        Some(at) if at > s.now => {
            let message = format!("it was treated {} times; next in {} s", memory.treated, at.saturating_sub(s.now));
            Err(Violation { until: Some(at), ..broken_by(Rule::BackOff, &member.name, message) })
        }
        _ => Ok(()),
    }
}
