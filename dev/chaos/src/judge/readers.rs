//! Whom those meet who only read.
use crate::journal::{Entry, Operation};
use std::collections::BTreeMap;

/// A role that the API server showed of a member's pod, from that moment on. Milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// When it came.
    pub at: u64,
    /// Whose it is.
    pub member: String,
    /// The role; empty: it has none.
    pub role: String,
}

/// A connection through `-ro` that reached a primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visit {
    /// There is no secondary, so the primary may serve.
    Alone,
    /// It was shown as a secondary until within the last second: the proxies follow.
    Late,
    /// Anything else, as a sentence.
    Wrong(String),
}

/// How long proxies may need to follow a label, in microseconds.
const FOLLOW: u64 = 1_000_000;

/// Each connection through `-ro` that reached a member that is not in recovery.
pub fn visits(journal: &[Entry], labels: &[Label]) -> Vec<Visit> {
    let to_primaries = journal
        .iter()
        .filter(|entry| entry.operation == Operation::Meet && entry.client == "ro" && entry.value == "primary");
    to_primaries.map(|entry| visit(entry, labels)).collect()
}

fn visit(entry: &Entry, labels: &[Label]) -> Visit {
    let who = entry.who();
    let mut now: BTreeMap<&str, &str> = BTreeMap::new();
    let mut left = None;
    for label in labels.iter().take_while(|label| super::micros(label.at) <= entry.begin) {
        let was = now.insert(&label.member, &label.role);
        if label.member == who && was == Some("secondary") && label.role != "secondary" {
            left = Some(super::micros(label.at));
        }
    }
    let others = now.iter().filter(|(member, role)| **member != who && **role == "secondary").count();
    let own = now.get(who) == Some(&"secondary");
    if others == 0 && !own {
        Visit::Alone
    } else if !own && left.is_some_and(|left| entry.begin - left < FOLLOW) {
        Visit::Late
    } else {
        let end = entry.end;
        Visit::Wrong(format!("-ro led to {who}, not in recovery, at {end}, while {others} others served"))
    }
}

/// Who only reads meets a member in recovery.
pub fn wrong_ro(journal: &[Entry], labels: &[Label]) -> Vec<String> {
    let wrong = |visit| match visit {
        Visit::Wrong(said) => Some(said),
        Visit::Alone | Visit::Late => None,
    };
    visits(journal, labels).into_iter().filter_map(wrong).collect()
}
