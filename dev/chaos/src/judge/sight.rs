//! Whether the judge could see: what it cannot see it cannot judge.
use super::micros;
use crate::journal::{Entry, Operation, Outcome};

/// The longest time in which nobody may have looked at a member, in milliseconds.
const BLIND: u64 = 8000;

/// A client that was to look at the member of a node, and did not for long. The node has power all that time.
pub fn unseen(journal: &[Entry], from: u64, until: u64, client: &str) -> Vec<String> {
    let (mut last, mut gap) = (from, 0);
    for entry in journal.iter().filter(|entry| entry.client == client && entry.operation == Operation::Look) {
        let at = entry.end / 1000;
        if at > from && at <= until {
            gap = gap.max(at.saturating_sub(last));
            last = at;
        }
    }
    gap = gap.max(until.saturating_sub(last));
    if gap > BLIND { vec![format!("{client} looked at nobody for {gap} ms")] } else { Vec::new() }
}

/// A client inside the partition that tried to write there less than three times; through -rw, or beside the old primary.
pub fn silent_inside(journal: &[Entry], from: u64, until: u64, client: &str) -> Vec<String> {
    let tries = journal.iter().filter(|entry| {
        entry.client == client
            && entry.outcome != Outcome::Begun
            && (entry.writes() || entry.value == "none")
            && entry.begin > micros(from)
            && entry.begin <= micros(until)
    });
    match tries.count() {
        few @ 0..3 => vec![format!("{client} tried to write only {few} times while the node was cut off")],
        _ => Vec::new(),
    }
}

/// A standby that was cut off lacks nothing that the primary had 1.5 s before that moment: no row would be lost if it led.
pub fn no_difference(journal: &[Entry], at: u64, primary: &str, laggard: &str) -> Vec<String> {
    /// As old as a look may be, in milliseconds.
    const OLD: u64 = 1500;
    let position = |member: &str, until: u64| {
        let looks = journal.iter().filter(|entry| entry.operation == Operation::Look && entry.who() == member);
        looks.filter(|entry| entry.end <= micros(until)).filter_map(|entry| entry.key.parse::<u64>().ok()).next_back()
    };
    match (position(primary, at.saturating_sub(OLD)), position(laggard, at)) {
        (Some(most), Some(own)) if own < most => Vec::new(),
        (Some(_), Some(_)) => vec![format!("{laggard} has all that {primary} had 1.5 s before the loss")],
        _ => vec![format!("{laggard} or {primary} was not looked at before the loss")],
    }
}
