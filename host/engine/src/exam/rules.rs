//! What an answer is held against. Each kind of finding is one function or one row here; docs/exam.md has them for authors.

use tanist_core::{
    check::{self, Rule},
    contract::{Answer, Care, Member, Position, Ranking},
    data,
    policy::{Point, Question, Reply},
};

use crate::{
    error::RunError,
    policy::Outcome,
    text::{MESSAGE, short},
};

/// Unusual behaviour that a policy may declare.
pub(super) const LOWER: &str = "chooses-lower-sequence";
pub(super) const HIGH: &str = "prefers-high-ordinals";
pub(super) const ENDLESS: &str = "waits-without-end";

/// The words that a policy may declare.
pub(super) const DECLARATIONS: [&str; 3] = [LOWER, HIGH, ENDLESS];

/// What stands between a point and the word that is declared for it alone: `place:chooses-lower-sequence`.
const FOR: char = ':';

/// Whether a policy may declare this.
pub(super) fn is_declaration(word: &str) -> bool {
    let is_point = |name: &str| Point::ALL.iter().any(|point| point.as_str() == name);
    match word.split_once(FOR) {
        Some((point, kind)) => is_point(point) && DECLARATIONS.contains(&kind),
        None => DECLARATIONS.contains(&word),
    }
}

/// Whether a policy that declares these words declares that kind at that point. No other kinds than [`DECLARATIONS`] can be declared.
pub(super) fn is_declared(declares: &[String], kind: &str, point: Point) -> bool {
    let lifts = |word: &str| match word.split_once(FOR) {
        Some((at, word)) => at == point.as_str() && word == kind,
        None => word == kind,
    };
    DECLARATIONS.contains(&kind) && declares.iter().any(|word| lifts(word))
}

/// A rule that an answer breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    /// The kind of the finding; for what may be declared, the word of the declaration.
    pub kind: &'static str,
    pub expected: String,
    pub found: String,
    pub advice: &'static str,
}

/// A question with what came of it.
pub(super) struct Asked<'a> {
    pub question: &'a Question,
    pub first: &'a Outcome,
    pub second: &'a Outcome,
    /// The fuel that the question could have used at most.
    pub limit: u64,
    /// Whether the policy has no parameters but its defaults, so that nobody told it to prefer a member.
    pub plain: bool,
}

/// Every rule that the answer breaks.
pub(super) fn judge(asked: &Asked<'_>) -> Vec<Broken> {
    let mut broken = Vec::new();
    broken.extend(differs(asked));
    match &asked.first.reply {
        // It is more than half of the fuel, too, and one finding is enough.
        Err(error) => broken.push(failed(error)),
        Ok(reply) => {
            broken.extend(too_much_fuel(asked));
            let Some(reply) = reply else { return broken };
            match refused(asked.question, reply) {
                // Such an answer is dropped as a whole, so what else it says does not matter.
                Some(refused) => broken.push(refused),
                None => {
                    broken.extend(waits_without_end(reply));
                    broken.extend(lower_data(asked.question, reply));
                    broken.extend(high_ordinal(asked, reply));
                }
            }
        }
    }
    broken
}

/// Equal questions get equal answers, and equal notes (docs/safety.md, S35).
fn differs(asked: &Asked<'_>) -> Option<Broken> {
    let (first, second) = (asked.first, asked.second);
    if first.reply == second.reply && first.notes == second.notes {
        return None;
    }
    let found = match first.reply == second.reply {
        true => "asked twice, it answered the same with other notes".to_owned(),
        false => format!("asked twice, it answered: {}; and then: {}", said(&first.reply), said(&second.reply)),
    };
    Some(Broken {
        kind: "differs",
        expected: "the same answer and the same notes when the same is asked twice".to_owned(),
        found,
        advice: "compute the answer from the snapshot alone",
    })
}

/// A question leaves half of its fuel, so that a group whose members have more to say gets an answer too.
fn too_much_fuel(asked: &Asked<'_>) -> Option<Broken> {
    let (fuel, limit) = (asked.first.fuel, asked.limit);
    (fuel > limit / 2).then(|| Broken {
        kind: "fuel",
        expected: format!("at most half of the fuel of a question, {} units", limit / 2),
        found: format!("it used {fuel} of {limit} units of fuel, {} %", percent(fuel, limit)),
        advice: "do less for each member, above all in loops inside of loops",
    })
}

/// A question is answered, whatever the answer.
fn failed(error: &RunError) -> Broken {
    let (kind, advice) = match error {
        RunError::Fuel(_) => ("fuel", "do less for each member, above all in loops inside of loops"),
        RunError::Memory(_) => ("memory", "keep less at a time"),
        RunError::Stack => ("stack", "call itself less often, or loop instead"),
        RunError::Output(_) => ("output", "shorten reasons to 256 bytes, and name each member once"),
        RunError::Malformed(_) => {
            ("malformed", "return values of the contract: UTF-8, names without control characters")
        }
        RunError::Trap(_) => {
            ("trap", "look for a panic, an index out of bounds or a division by zero at this question")
        }
        RunError::Fault(_) => ("fault", "answer this question, or abstain where the policy has no opinion"),
        // The exam ends before an answer is judged that the machine's load cut off.
        RunError::Wall => ("cut-off", "try again"),
    };
    Broken {
        kind,
        expected: "an answer within the limits of wit/policy.wit: choose, wait, refuse or abstain".to_owned(),
        found: error.to_string(),
        advice,
    }
}

/// The host accepts the answer: it names members only, none that is barred, none twice, and so on (docs/safety.md, H9 to H12). No declaration lifts this.
fn refused(question: &Question, reply: &Reply) -> Option<Broken> {
    let violation = check::reply(question, reply).err()?;
    let (kind, expected, advice) = match violation.rule {
        Rule::UnknownMember => {
            ("unknown-member", "names of members of the snapshot only", "take every name from the snapshot's members")
        }
        Rule::BarredMember => (
            "barred-member",
            "members that are not barred only",
            "choose among the members without `barred`: snapshot.eligible() in Rust, s.eligible() in Starlark",
        ),
        Rule::DuplicateMember => ("member-twice", "each member at most once", "name each member once"),
        Rule::EmptyAnswer => {
            ("no-candidate", "at least one candidate in a ranking", "wait, refuse or abstain when there is none")
        }
        Rule::ReasonTooLong => ("reason-too-long", "reasons of at most 256 bytes", "shorten the reason"),
        Rule::SourceNotPossible => {
            ("source", "no `source`, which no group can provide yet", "leave `source` out of the answer")
        }
        Rule::DelayNotLater => {
            ("delay-not-later", "a time after the snapshot's `now`", "add some seconds to `now`, or give no time")
        }
        Rule::RemedyNotPossible => {
            ("remedy", "stop, recreate or leave", "leave out `replace`, which no group allows yet")
        }
        _ => ("check", "an answer that the host accepts", "read the message"),
    };
    Some(Broken { kind, expected: expected.to_owned(), found: violation.message, advice })
}

/// A wait ends by itself, because at least one member may be chosen, and perhaps nothing changes (docs/safety.md, S36).
fn waits_without_end(reply: &Reply) -> Option<Broken> {
    let (Reply::Answer(Answer::Wait(delay)) | Reply::Care(Care::Wait(delay))) = reply else { return None };
    delay.until.is_none().then(|| Broken {
        kind: ENDLESS,
        expected: "a wait with a time at which it ends, because a member may be chosen".to_owned(),
        found: format!("it waits without a time: {}", delay.reason),
        advice: "say until when, for instance 30 s after `now`, or abstain",
    })
}

/// The most recent data leads, joins and follows first, and is stopped last. Only the first of a ranking is acted on. Data that cannot be compared is
/// neither. At the optional points the positions are those that were read last, and the choice is not about data: at `switchover` the host waits until
/// the chosen member has all of it.
fn lower_data(question: &Question, reply: &Reply) -> Option<Broken> {
    let first = first(question, reply).filter(|_| !question.point.is_optional())?;
    let stops = question.point == Point::Demote;
    let better = |other: &&Member| if stops { is_behind(other, first) } else { is_behind(first, other) };
    let other = eligible(question).find(better)?;
    let (verb, instead) = if stops { ("stops", "stopped") } else { ("chooses", "chosen") };
    Some(Broken {
        kind: LOWER,
        expected: match stops {
            true => "the member with the least recent data is stopped first".to_owned(),
            false => "a member with the most recent data of those that may be chosen goes first".to_owned(),
        },
        found: format!("it {verb} {}, though {} may be {instead}", described(first), described(other)),
        advice: "compare the term first, then the number, and numbers only inside one history; if it is meant so, the description declares it: \"declares\": [\"chooses-lower-sequence\"]",
    })
}

/// Among members that are alike the lowest ordinal goes first, and is stopped last, so that a user can tell beforehand. This is held against a policy
/// only where nobody told it to prefer a member.
fn high_ordinal(asked: &Asked<'_>, reply: &Reply) -> Option<Broken> {
    let question = asked.question;
    let first = first(question, reply).filter(|_| asked.plain)?;
    if question.snapshot.group.preferred_primary.as_ref() == Some(&first.name) {
        return None;
    }
    let before = |other: &&Member| match question.point {
        Point::Demote => other.ordinal > first.ordinal,
        _ => other.ordinal < first.ordinal,
    };
    let other = eligible(question).filter(before).find(|other| are_alike(first, other))?;
    Some(Broken {
        kind: HIGH,
        expected: match question.point {
            Point::Demote => "of members that are alike the highest ordinal is stopped first".to_owned(),
            _ => "of members that are alike the lowest ordinal goes first".to_owned(),
        },
        found: format!("it puts {} before {}, and nothing else tells them apart", first.name, other.name),
        advice: "sort by ordinal last, as a number; if it is meant so, the description declares it: \"declares\": [\"prefers-high-ordinals\"]",
    })
}

fn eligible(question: &Question) -> impl Iterator<Item = &Member> {
    question.snapshot.members.iter().filter(|member| member.barred.is_none())
}

/// The member that a ranking chooses, if it may be chosen.
fn first<'a>(question: &'a Question, reply: &Reply) -> Option<&'a Member> {
    let Reply::Answer(Answer::Choose(Ranking { candidates, .. })) = reply else { return None };
    let name = &candidates.first()?.member;
    eligible(question).find(|member| member.name == *name)
}

/// Whether it is certain that the data of a member is less recent than that of another.
fn is_behind(member: &Member, other: &Member) -> bool {
    match (&member.position, &other.position) {
        (Position::Empty, Position::Known(_)) => true,
        (Position::Known(own), Position::Known(others)) => match (member.term, other.term) {
            (Some(term), Some(other)) => data::compare((term, own), (other, others)).is_some_and(|order| order.is_lt()),
            _ => false,
        },
        _ => false,
    }
}

/// Whether all that a policy is told of two members is the same, but for their names and ordinals.
fn are_alike(member: &Member, other: &Member) -> bool {
    let renamed = Member { name: other.name.clone(), ordinal: other.ordinal, ..member.clone() };
    renamed == *other
}

fn described(member: &Member) -> String {
    let data = data::show_position(&member.position);
    match member.term {
        Some(term) => format!("{} with {data} of term {term}", member.name),
        None => format!("{} with {data}", member.name),
    }
}

/// An answer in a few words.
fn said(reply: &Result<Option<Reply>, RunError>) -> String {
    let text = match reply {
        Err(error) => error.to_string(),
        Ok(None) => "it abstains".to_owned(),
        Ok(Some(Reply::Answer(Answer::Choose(ranking)))) => {
            let chosen = ranking.candidates.iter().map(|each| format!("{} ({})", each.member, each.reason));
            format!("choose {}", chosen.collect::<Vec<_>>().join(", "))
        }
        Ok(Some(Reply::Care(Care::Treat(treatments)))) => {
            let treated = treatments.iter().map(|each| format!("{} ({})", each.member, each.reason));
            format!("treat {}", treated.collect::<Vec<_>>().join(", "))
        }
        Ok(Some(Reply::Answer(Answer::Wait(delay)) | Reply::Care(Care::Wait(delay)))) => {
            format!("wait: {}", delay.reason)
        }
        Ok(Some(Reply::Answer(Answer::Refuse(why)) | Reply::Care(Care::Refuse(why)))) => format!("refuse: {why}"),
        Ok(Some(Reply::Answer(Answer::Abstain) | Reply::Care(Care::Abstain))) => "it abstains".to_owned(),
    };
    short(&text, MESSAGE / 4)
}

/// A share in percent, rounded up.
pub(super) fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).div_ceil(whole.max(1))
}
