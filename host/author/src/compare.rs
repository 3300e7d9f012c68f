//! Compares what came of a case with what it expects.
//!
//! The answer is written in the words and with the detail of the expectation ([`as_expected`]). It is as expected if nothing differs then; what differs is
//! shown as a diff of those words, and is what `--update` writes.

use similar::{ChangeTag, TextDiff};

use crate::{
    ask::{Named, Verdict},
    case::Expect,
};

/// The answer as an expectation of the same detail. `None`: nothing is expected yet; then it is the whole answer.
#[must_use]
pub fn as_expected(verdict: &Verdict, like: Option<&Expect>) -> Expect {
    match verdict {
        Verdict::Choose { ranking, .. } => chosen(ranking, like),
        Verdict::Treat { treatments } => {
            let wanted = match like {
                Some(Expect::Treat { reason, .. }) => reason.as_deref(),
                _ => None,
            };
            let first = treatments.first().map_or("", |each| &each.reason);
            Expect::Treat {
                remedies: treatments.iter().map(|each| (each.member.clone(), each.remedy)).collect(),
                reason: wanted.map(|wanted| part(first, wanted)),
            }
        }
        Verdict::Wait { reason, until } => {
            let (wanted, at) = match like {
                Some(Expect::Wait { reason, until }) => (reason.as_deref(), until.is_some()),
                _ => (None, false),
            };
            Expect::Wait { reason: wanted.map(|wanted| part(reason, wanted)), until: until.filter(|_| at) }
        }
        Verdict::Refuse { reason } => {
            let wanted = match like {
                Some(Expect::Refuse { reason }) => reason.as_deref(),
                _ => None,
            };
            Expect::Refuse { reason: wanted.map(|wanted| part(reason, wanted)) }
        }
        Verdict::Abstain => Expect::Abstain,
        Verdict::Fail { reason, .. } => {
            // What fails without being expected to fail is shown with its message.
            let wanted = match like {
                Some(Expect::Fail { reason: None }) => None,
                Some(Expect::Fail { reason: Some(wanted) }) => Some(wanted.as_str()),
                _ => Some(reason.as_str()),
            };
            Expect::Fail { reason: wanted.map(|wanted| part(reason, wanted)) }
        }
        Verdict::Nobody { .. } => Expect::Nobody,
    }
}

fn chosen(ranking: &[Named], like: Option<&Expect>) -> Expect {
    let wanted = match like {
        Some(Expect::First { reason, .. } | Expect::Ranking { reason, .. }) => reason.as_deref(),
        _ => None,
    };
    let first = ranking.first();
    let reason = wanted.map(|wanted| part(first.map_or("", |first| &first.reason), wanted));
    match (like, ranking) {
        (Some(Expect::First { .. }), [first, ..]) | (None, [first]) => {
            Expect::First { member: first.member.clone(), reason }
        }
        _ => Expect::Ranking { members: ranking.iter().map(|each| each.member.clone()).collect(), reason },
    }
}

/// The part of a reason that is expected, or the whole reason where it is not there.
fn part(reason: &str, wanted: &str) -> String {
    if reason.contains(wanted) { wanted.to_owned() } else { reason.to_owned() }
}

/// Whether the answer is as expected.
#[must_use]
pub fn matches(verdict: &Verdict, expect: &Expect) -> bool {
    as_expected(verdict, Some(expect)) == *expect
}

/// One line of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// `-` expected, `+` answered, or a blank.
    pub sign: char,
    /// The text of the line, without its sign and its end.
    pub text: String,
}

/// What differs between expectation and answer, line by line.
#[must_use]
pub fn difference(verdict: &Verdict, expect: Option<&Expect>) -> Vec<Change> {
    let lines = |expect: &Expect| expect.lines().into_iter().map(|line| format!("{line}\n")).collect::<String>();
    let expected = expect.map(lines).unwrap_or_default();
    let answered = lines(&as_expected(verdict, expect));
    let diff = TextDiff::from_lines(&expected, &answered);
    let change = |change: similar::Change<&str>| Change {
        sign: match change.tag() {
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
            ChangeTag::Equal => ' ',
        },
        text: change.value().trim_end_matches('\n').to_owned(),
    };
    diff.iter_all_changes().map(change).collect()
}
