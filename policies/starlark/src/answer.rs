//! What a script returned as an answer of the contract.

use starlark::values::Value;

use crate::{
    functions::{Answered, Named},
    snapshot::member,
    world::exports::tanist::policy::{
        recovery::{Care, Remedy, Treatment},
        types::{Answer, Candidate, Delay, Ranking, Remark},
    },
};

/// An answer to one of the questions.
pub trait Reply: Sized {
    /// The answer of a script without an opinion; the next policy of the stack is asked.
    const ABSTAIN: Self;

    /// The answer that the script returned; `None` if it is no answer to this question.
    fn of(answered: &Answered) -> Option<Self>;
}

impl Reply for Answer {
    const ABSTAIN: Self = Self::Abstain;

    fn of(answered: &Answered) -> Option<Self> {
        Some(match answered {
            Answered::Choose { candidates, passed_over } => Self::Choose(Ranking {
                candidates: candidates.iter().map(candidate).collect(),
                passed_over: passed_over.iter().map(remark).collect(),
            }),
            Answered::Wait { reason, until } => Self::Wait(Delay { reason: reason.clone(), until: *until }),
            Answered::Refuse { reason } => Self::Refuse(reason.clone()),
            Answered::Treatment(_) => return None,
        })
    }
}

impl Reply for Care {
    const ABSTAIN: Self = Self::Abstain;

    fn of(answered: &Answered) -> Option<Self> {
        Some(match answered {
            Answered::Choose { candidates, .. } => Self::Treat(candidates.iter().map(treatment).collect()),
            Answered::Wait { reason, until } => Self::Wait(Delay { reason: reason.clone(), until: *until }),
            Answered::Refuse { reason } => Self::Refuse(reason.clone()),
            Answered::Treatment(named) => Self::Treat(vec![treatment(named)]),
        })
    }
}

/// The answer that a value is. `Err`: what the script should have returned.
pub fn reply<R: Reply>(point: &str, value: Value<'_>) -> Result<R, String> {
    if value.is_none() {
        return Ok(R::ABSTAIN);
    }
    Answered::from_value(value).and_then(R::of).ok_or_else(|| {
        let found = value.get_type();
        format!(
            "{point} returned a value of type {found}; return choose([...]), wait(\"why\"), refuse(\"why\") or nothing"
        )
    })
}

fn name(place: u32) -> String {
    member(place).map(|member| member.name.clone()).unwrap_or_default()
}

fn candidate(named: &Named) -> Candidate {
    Candidate { member: name(named.place), reason: named.reason.clone(), source: named.source.map(name) }
}

fn remark(named: &Named) -> Remark {
    Remark { member: name(named.place), reason: named.reason.clone() }
}

fn treatment(named: &Named) -> Treatment {
    // `choose` accepts no member without a remedy at `treat`.
    let remedy = named.remedy.unwrap_or(Remedy::Leave);
    Treatment { member: name(named.place), remedy, reason: named.reason.clone() }
}
