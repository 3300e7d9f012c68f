//! Two primaries at a time.
use super::micros;
use crate::journal::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// An operation as two points in time. In the same microsecond nobody can say which was first, so all begins count as earlier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Begins,
    Ends,
}

/// The begins and ends of operations on a timeline, in order.
fn points<'a>(operations: impl Iterator<Item = &'a Entry>) -> Vec<(u64, Edge, u64, &'a Entry)> {
    let on_timelines = operations.filter_map(|entry| Some((entry, entry.timeline?)));
    let mut points: Vec<_> = on_timelines
        .flat_map(|(entry, timeline)| {
            [(entry.begin, Edge::Begins, timeline, entry), (entry.end, Edge::Ends, timeline, entry)]
        })
        .collect();
    points.sort_by_key(|(at, edge, _, _)| (*at, *edge));
    points
}

/// Two members that acknowledge on one timeline; or an acknowledgement of an older timeline whose write began after an acknowledgement of a newer
/// timeline had come.
pub fn two_acknowledge(journal: &[Entry]) -> Vec<String> {
    let mut found = Vec::new();
    let (mut owners, mut told) = (BTreeMap::new(), BTreeSet::new());
    for entry in journal.iter().filter(|entry| entry.acknowledged()) {
        let owner = owners.entry(entry.timeline).or_insert_with(|| entry.who());
        if *owner != entry.who() && told.insert((entry.timeline, entry.who())) {
            let timeline = entry.timeline.unwrap_or_default();
            found.push(format!(
                "timeline {timeline} is acknowledged by {owner} and, at {}, by {}",
                entry.end,
                entry.who()
            ));
        }
    }
    let mut newest: Option<(u64, &str, u64)> = None;
    for (at, edge, timeline, entry) in points(journal.iter().filter(|entry| entry.acknowledged())) {
        match (edge, newest) {
            (Edge::Ends, was) if was.is_none_or(|(known, _, _)| timeline > known) => {
                newest = Some((timeline, entry.who(), at));
            }
            (Edge::Begins, Some((known, who, since))) if timeline < known => found.push(format!(
                "the write {} of {}, begun at {at}, is acknowledged by {} on timeline {timeline}, and {who} had \
                 acknowledged on timeline {known} at {since}",
                entry.value,
                entry.client,
                entry.who()
            )),
            _ => {}
        }
    }
    found
}

/// Two members that are writable at a time, as seen from their own nodes: one that is found writable on an older timeline after another one was on a
/// newer one, or two of them on one timeline. One line for each member and timeline.
pub fn two_writable(journal: &[Entry]) -> Vec<String> {
    let mut found = Vec::new();
    let (mut owners, mut told) = (BTreeMap::new(), BTreeSet::new());
    let mut newest: Option<(u64, &str, u64)> = None;
    for (at, edge, timeline, entry) in points(journal.iter().filter(|entry| entry.found("writable"))) {
        let member = entry.who();
        let owner = *owners.entry(timeline).or_insert(member);
        if owner != member && told.insert((timeline, member)) {
            found.push(format!("{member} is writable on timeline {timeline} at {at}, and so was {owner}"));
        }
        match (edge, newest) {
            (Edge::Ends, was) if was.is_none_or(|(known, _, _)| timeline > known) => {
                newest = Some((timeline, member, at));
            }
            (Edge::Begins, Some((known, who, since)))
                if timeline < known && member != who && told.insert((timeline, member)) =>
            {
                found.push(format!(
                    "{member} is still writable on timeline {timeline} at {at}, and {who} was on timeline {known} at {since}"
                ));
            }
            _ => {}
        }
    }
    found
}

/// Anybody but that member who acknowledged anything that was begun after that moment, or was found writable.
pub fn others_lead(journal: &[Entry], since: u64, member: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut acknowledged, mut writable) = (BTreeSet::new(), BTreeSet::new());
    let others = journal.iter().filter(|entry| entry.begin > micros(since) && entry.member.is_some());
    for entry in others.filter(|entry| entry.who() != member) {
        let who = entry.who();
        if entry.acknowledged() && acknowledged.insert(who) {
            found.push(format!("{who} acknowledged {} of {} at {}", entry.value, entry.client, entry.end));
        }
        if entry.found("writable") && writable.insert(who) {
            found.push(format!("{who} is writable at {}", entry.end));
        }
    }
    found
}
