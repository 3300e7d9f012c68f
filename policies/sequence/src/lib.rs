//! The built-in policy: highest data first, then what the user prefers, then the lowest ordinal.
//!
//! One order decides at every point (see [`Order`]); the points differ in the members that may be chosen. Data is compared by term first, then by
//! number. Unknown data comes after all known data, and members without data come last.
//!
//! | point | candidates | order |
//! | --- | --- | --- |
//! | `seed` | those with the highest data; all when all are empty | preferred, then lowest ordinal |
//! | `failover` | those with the highest data | running, preferred, lowest ordinal |
//! | `join` | all | highest data, preferred, lowest ordinal; then unknown, then empty |
//! | `place` | all | highest data, lowest ordinal; then unknown, then empty |
//! | `demote` | all | the reverse of `join` |
//! | `treat` | all | `stop`; if that failed, `recreate` |

mod order;
mod treat;

use tanist_policy::{
    Answer, Candidate, Care, Description, Fault, Member, Parameters, Policy, Position, Remark, Snapshot, export_policy,
};

use crate::order::Order;

const PARAMETERS: &str = r#"{
    "type": "object",
    "additionalProperties": false,
    "properties": {
        "prefer": {
            "title": "Members preferred as primary among equally recent ones, best first",
            "type": "array", "maxItems": 100, "default": [],
            "items": {"type": "string", "minLength": 1, "maxLength": 256}
        },
        "runningFirst": {
            "title": "At a failover, prefer a running secondary to a stopped member with the same data",
            "type": "boolean", "default": true
        }
    }
}"#;

/// The built-in policy `sequence`.
#[derive(Debug)]
pub struct Sequence;

export_policy!(Sequence);

impl Policy for Sequence {
    fn describe() -> Description {
        let summary = "Highest data first, then what the user prefers, then the lowest ordinal.";
        Description::new("sequence", env!("CARGO_PKG_VERSION"), summary).with_parameters(PARAMETERS)
    }

    fn seed(snapshot: &Snapshot) -> Result<Answer, Fault> {
        Ok(top(snapshot, &Order::preferring(snapshot)))
    }

    fn failover(snapshot: &Snapshot) -> Result<Answer, Fault> {
        let running_first = Parameters::of(snapshot).flag("runningFirst").unwrap_or(true);
        Ok(top(snapshot, &Order { running_first, ..Order::preferring(snapshot) }))
    }

    fn join(snapshot: &Snapshot) -> Result<Answer, Fault> {
        let members = Order::preferring(snapshot).sorted(snapshot);
        Ok(Answer::rank(members.into_iter().map(|member| Candidate::new(member, data_text(member)))))
    }

    fn demote(snapshot: &Snapshot) -> Result<Answer, Fault> {
        let members = Order::preferring(snapshot).sorted(snapshot);
        let lowest_first = members.into_iter().rev();
        Ok(Answer::rank(lowest_first.map(|member| Candidate::new(member, data_text(member)))))
    }

    fn place(snapshot: &Snapshot) -> Result<Answer, Fault> {
        let members = Order::default().sorted(snapshot);
        Ok(Answer::rank(members.into_iter().map(|member| Candidate::new(member, data_text(member)))))
    }

    fn treat(snapshot: &Snapshot) -> Result<Care, Fault> {
        Ok(treat::treat(snapshot))
    }
}

/// Chooses only among members with the highest data, so that a failure never makes a member with older data lead.
fn top(snapshot: &Snapshot, order: &Order) -> Answer {
    let members = order.sorted(snapshot);
    let Some(first) = members.first().copied() else { return Answer::rank([]) };
    match &first.position {
        Position::Known(_) => {
            let (equal, lower): (Vec<_>, Vec<_>) =
                members.into_iter().partition(|member| member.term == first.term && member.position == first.position);
            let reason = |member: &Member| match (member.name == first.name, equal.len()) {
                (true, 1) => format!("{}, more recent than all others", data_text(member)),
                (true, _) => format!("{}, as others have; first by {}", data_text(member), order.why_first(&equal)),
                (false, _) => format!("{}, as {} has, which goes first", data_text(member), first.name),
            };
            Answer::rank_over(
                equal.iter().map(|member| Candidate::new(member, reason(member))),
                lower.iter().map(|member| Remark::new(member, why_behind(member, first))),
            )
        }
        Position::Empty => {
            let why = format!("no member has data; first by {}", order.why_first(&members));
            Answer::rank(members.iter().map(|member| Candidate::new(member, why.clone())))
        }
        Position::Unknown(_) | Position::NotAsked => Answer::wait("no member that may be chosen has known data"),
    }
}

/// The data of a member in words, for instance `data 15 of term 3`.
fn data_text(member: &Member) -> String {
    match (&member.position, member.term) {
        (Position::Known(sequence), Some(term)) => format!("data {} of term {term}", sequence.number),
        (Position::Known(sequence), None) => format!("data {}", sequence.number),
        (Position::Empty, _) => "no data yet".to_owned(),
        (Position::Unknown(why), _) => format!("data not known: {why}"),
        (Position::NotAsked, _) => "data not asked for".to_owned(),
    }
}

/// Why a member's data is not as recent as that of the first, which is known.
fn why_behind(member: &Member, first: &Member) -> String {
    let name = &first.name;
    match (member.number(), first.number()) {
        (Some(_), Some(_)) if member.term < first.term => {
            format!("{} is of an older term than {} of {name}", data_text(member), data_text(first))
        }
        (Some(own), Some(best)) if own < best => format!("{own} is behind {best} of {name}"),
        (Some(own), Some(_)) => format!("{own} is of another history than {name} has"),
        _ => data_text(member),
    }
}
