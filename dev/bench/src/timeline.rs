//! What the operator did and when, from its log, and how much of that time it waited for something else.

use std::collections::BTreeMap;

use serde_json::Value;

/// A time that something took. Milliseconds since 1970.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    pub phase: Phase,
    pub from: f64,
    pub to: f64,
}

/// What the time is spent on. A moment with several phases counts for the first of them in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The commands themselves, according to the members' log: `sequence`, `seed`, `primary`.
    Commands,
    /// The way of commands through API server, kubelet, runtime and runner.
    ExecWay,
    /// The same way for `sequence`.
    SequenceWay,
    /// Asking for roles before deciding.
    Status,
    /// Asking for roles once more before a command.
    StatusAgain,
    /// Reading the API server before deciding.
    Read,
    /// Reading the API server once more before a command.
    ReadAgain,
    /// Writing the record before a command.
    Record,
    /// Everything else: deciding, routing, other writes, waiting for the next round.
    Rest,
}

impl Phase {
    pub const ALL: [Self; 9] = [
        Self::Commands,
        Self::ExecWay,
        Self::SequenceWay,
        Self::Status,
        Self::StatusAgain,
        Self::Read,
        Self::ReadAgain,
        Self::Record,
        Self::Rest,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Commands => "the commands",
            Self::ExecWay => "their exec",
            Self::SequenceWay => "exec of sequence",
            Self::Status => "status",
            Self::StatusAgain => "second look: status",
            Self::Read => "reading the API",
            Self::ReadAgain => "second look: API",
            Self::Record => "record write",
            Self::Rest => "rest",
        }
    }
}

/// The spans that the operator's log has.
pub fn of_log(log: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut starts: BTreeMap<String, f64> = BTreeMap::new();
    let mut looked_again = None;
    for line in log.lines() {
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        let text = |key: &str| entry.pointer(&format!("/fields/{key}")).and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str| entry.pointer(&format!("/fields/{key}")).and_then(Value::as_f64).unwrap_or_default();
        let Some(at) = entry.get("timestamp").and_then(Value::as_str).and_then(|at| at.parse::<jiff::Timestamp>().ok())
        else {
            continue;
        };
        let at = at.as_microsecond() as f64 / 1000.0;
        match text("message") {
            "observed" => {
                let (said, read) = (number("members_ms"), number("objects_ms"));
                let again = !text("ask").starts_with("Changed");
                let (status, reading) =
                    if again { (Phase::StatusAgain, Phase::ReadAgain) } else { (Phase::Status, Phase::Read) };
                spans.push(Span { phase: status, from: at - said, to: at });
                spans.push(Span { phase: reading, from: at - said - read, to: at - said });
                looked_again = again.then_some(at);
            }
            "executed" if text("argv").contains("--token sequence-") => {
                spans.push(Span { phase: Phase::SequenceWay, from: at - number("ms"), to: at });
            }
            "command starts" => {
                if let Some(from) = looked_again.take() {
                    spans.push(Span { phase: Phase::Record, from, to: at });
                }
                starts.insert(text("token").to_owned(), at);
            }
            "command ended well" | "command ended" => {
                if let Some(from) = starts.remove(text("token")) {
                    spans.push(Span { phase: Phase::ExecWay, from, to: at });
                }
            }
            _ => {}
        }
    }
    spans
}

/// How a time is spent: each moment counts once, for the first phase that is going on.
pub fn spent(spans: &[Span], from: f64, to: f64) -> BTreeMap<Phase, f64> {
    let inside: Vec<Span> = spans
        .iter()
        .map(|span| Span { phase: span.phase, from: span.from.max(from), to: span.to.min(to) })
        .filter(|span| span.from < span.to)
        .collect();
    let mut edges: Vec<f64> = inside.iter().flat_map(|span| [span.from, span.to]).chain([from, to]).collect();
    edges.sort_by(f64::total_cmp);
    let mut spent: BTreeMap<Phase, f64> = Phase::ALL.into_iter().map(|phase| (phase, 0.0)).collect();
    for (begin, end) in edges.iter().zip(edges.iter().skip(1)) {
        let going_on = inside.iter().filter(|span| span.from <= *begin && *end <= span.to).map(|span| span.phase).min();
        *spent.entry(going_on.unwrap_or(Phase::Rest)).or_default() += end - begin;
    }
    spent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_moment_counts_once() {
        let span = |phase, from, to| Span { phase, from, to };
        let spans =
            [span(Phase::ExecWay, 10.0, 20.0), span(Phase::Commands, 12.0, 18.0), span(Phase::Status, 15.0, 30.0)];
        let spent = spent(&spans, 0.0, 25.0);
        let of = |phase| spent.get(&phase).copied();
        assert_eq!(of(Phase::Commands), Some(6.0));
        assert_eq!(of(Phase::ExecWay), Some(4.0));
        assert_eq!(of(Phase::Status), Some(5.0));
        assert_eq!(of(Phase::Rest), Some(10.0));
        assert_eq!(spent.values().sum::<f64>(), 25.0);
    }
}
