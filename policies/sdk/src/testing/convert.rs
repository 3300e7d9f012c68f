//! The types of the contract as policies and as the host have them.

use tanist_core::contract as host;

use crate::{
    Answer, Candidate, Care, Condition, Delay, Failure, Group, Member, Outcome, Phase, Position, Ranking, Remark,
    Remedy, Role, Sequence, Snapshot, Transition, Treatment,
};

/// Words that both have, in both directions.
macro_rules! words {
    ($($type:ident { $($word:ident),+ })+) => {$(
        impl From<$type> for host::$type {
            fn from(word: $type) -> Self {
                match word { $($type::$word => Self::$word),+ }
            }
        }

        impl From<host::$type> for $type {
            fn from(word: host::$type) -> Self {
                match word { $(host::$type::$word => Self::$word),+ }
            }
        }
    )+};
}

words! {
    Phase { Missing, Pending, Running, Terminating, Ended, Unreachable }
    Role { Unknown, Stopped, Starting, Secondary, Primary, Failed }
    Remedy { Leave, Stop, Recreate, Replace }
}

/// The story, for the host.
pub(super) fn story(told: &Snapshot) -> host::Snapshot {
    host::Snapshot {
        now: told.now,
        group: group(&told.group),
        members: told.members.iter().map(member).collect(),
        history: told.history.iter().map(transition).collect(),
        parameters: told.parameters.clone(),
    }
}

/// The question of the host, for the policy. What the host does not change is taken from the story.
pub(super) fn question(told: &Snapshot, asked: host::Snapshot) -> Snapshot {
    let members = asked.members.into_iter().filter_map(|member| {
        let told = told.members.iter().find(|each| each.name == member.name.as_str())?;
        Some(Member {
            phase: member.phase.into(),
            phase_since: member.phase_since,
            ready: member.ready,
            role: member.role.into(),
            role_since: member.role_since,
            role_detail: member.role_detail,
            last_primary: member.last_primary,
            term: member.term,
            position: position_of(member.position),
            node: member.node,
            zone: member.zone,
            failures: member.failures,
            barred: member.barred,
            ..told.clone()
        })
    });
    let high_water = asked.group.high_water.map(sequence_of);
    let group = Group { term: asked.group.term, high_water, ..told.group.clone() };
    Snapshot { members: members.collect(), group, ..told.clone() }
}

pub(super) fn answer(given: &Answer) -> host::Answer {
    match given {
        Answer::Choose(Ranking { candidates, passed_over }) => host::Answer::Choose(host::Ranking {
            candidates: candidates.iter().map(candidate).collect(),
            passed_over: passed_over.iter().map(remark).collect(),
        }),
        Answer::Wait(given) => host::Answer::Wait(delay(given)),
        Answer::Refuse(why) => host::Answer::Refuse(why.clone()),
        Answer::Abstain => host::Answer::Abstain,
    }
}

pub(super) fn care(given: &Care) -> host::Care {
    match given {
        Care::Treat(treatments) => host::Care::Treat(treatments.iter().map(treatment).collect()),
        Care::Wait(given) => host::Care::Wait(delay(given)),
        Care::Refuse(why) => host::Care::Refuse(why.clone()),
        Care::Abstain => host::Care::Abstain,
    }
}

fn candidate(given: &Candidate) -> host::Candidate {
    host::Candidate {
        member: name(&given.member),
        reason: given.reason.clone(),
        source: given.source.as_deref().map(name),
    }
}

fn remark(given: &Remark) -> host::Remark {
    host::Remark { member: name(&given.member), reason: given.reason.clone() }
}

fn treatment(given: &Treatment) -> host::Treatment {
    host::Treatment { member: name(&given.member), remedy: given.remedy.into(), reason: given.reason.clone() }
}

fn delay(given: &Delay) -> host::Delay {
    host::Delay { reason: given.reason.clone(), until: given.until }
}

fn name(name: &str) -> host::MemberName {
    host::MemberName(name.to_owned())
}

fn group(told: &Group) -> host::Group {
    host::Group {
        name: told.name.clone(),
        namespace: told.namespace.clone(),
        replicas: told.replicas,
        primaries: told.primaries,
        has_secondaries: told.has_secondaries,
        term: told.term,
        preferred_primary: told.preferred_primary.as_deref().map(name),
        high_water: told.high_water.as_ref().map(sequence),
        labels: told.labels.clone(),
        facts: told.facts.clone(),
    }
}

fn member(told: &Member) -> host::Member {
    host::Member {
        name: name(&told.name),
        ordinal: told.ordinal,
        phase: told.phase.into(),
        phase_since: told.phase_since,
        ready: told.ready,
        role: told.role.into(),
        role_since: told.role_since,
        role_detail: told.role_detail.clone(),
        last_primary: told.last_primary,
        term: told.term,
        position: position(&told.position),
        node: told.node.clone(),
        zone: told.zone.clone(),
        failures: told.failures,
        last_failure: told.last_failure.as_ref().map(failure),
        marked: told.marked,
        conditions: told.conditions.iter().map(condition).collect(),
        labels: told.labels.clone(),
        facts: told.facts.clone(),
        barred: told.barred.clone(),
    }
}

fn position(told: &Position) -> host::Position {
    match told {
        Position::Known(known) => host::Position::Known(sequence(known)),
        Position::Empty => host::Position::Empty,
        Position::Unknown(why) => host::Position::Unknown(why.clone()),
        Position::NotAsked => host::Position::NotAsked,
    }
}

fn position_of(asked: host::Position) -> Position {
    match asked {
        host::Position::Known(known) => Position::Known(sequence_of(known)),
        host::Position::Empty => Position::Empty,
        host::Position::Unknown(why) => Position::Unknown(why),
        host::Position::NotAsked => Position::NotAsked,
    }
}

fn sequence(told: &Sequence) -> host::Sequence {
    host::Sequence { history: told.history.clone(), number: told.number }
}

fn sequence_of(asked: host::Sequence) -> Sequence {
    Sequence { history: asked.history, number: asked.number }
}

fn failure(told: &Failure) -> host::Failure {
    let outcome = match told.outcome {
        Outcome::Exited(code) => host::Outcome::Exited(code),
        Outcome::NotStarted => host::Outcome::NotStarted,
        Outcome::Unknown => host::Outcome::Unknown,
    };
    host::Failure { command: told.command.clone(), outcome, at: told.at }
}

fn condition(told: &Condition) -> host::Condition {
    host::Condition { name: told.name.clone(), since: told.since, detail: told.detail.clone() }
}

fn transition(told: &Transition) -> host::Transition {
    host::Transition {
        at: told.at,
        what: told.what.clone(),
        member: told.member.as_deref().map(name),
        detail: told.detail.clone(),
    }
}
