//! What was acknowledged and is not there; how long nothing was.
use crate::journal::{Entry, Operation, Outcome};
use std::collections::BTreeSet;

/// Rows that were acknowledged and are not there: CLIENT|ID.
pub fn missing(journal: &[Entry], present: &BTreeSet<String>) -> BTreeSet<String> {
    let inserted = journal.iter().filter(|e| e.operation == Operation::Insert && e.outcome == Outcome::Ok);
    inserted.map(|entry| format!("{}|{}", entry.key, entry.value)).filter(|row| !present.contains(row)).collect()
}

/// The longest time without an acknowledgement through -rw from that moment on, in milliseconds; the gap may have begun before. And how many came.
pub fn outage(journal: &[Entry], since: u64) -> (u64, u64) {
    let (mut gap, mut count, mut last) = (0, 0, None);
    for entry in journal.iter().filter(|entry| entry.client == "rw" && entry.acknowledged()) {
        let at = entry.end / 1000;
        if at >= since {
            gap = gap.max(last.map_or(0, |last| at.saturating_sub(last)));
            count += 1;
        }
        last = Some(at);
    }
    (gap, count)
}
