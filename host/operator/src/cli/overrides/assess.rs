//! Assesses an override from what is known of every member: what would be lost, and why the operator would refuse it. Without I/O.
use crate::cli::find::recorded;
use crate::cli::output::printable;
use crate::cli::table::{Cell, Table};
use crate::cli::{color, me};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write;
use tanist_api::ANNOTATION_OVERRIDE;
use tanist_api::ReplicaGroup;
use tanist_api::explain::command;
use tanist_api::view::{View, is};
use tanist_core::contract::{MemberName, Position, Sequence};
use tanist_core::data::{compare, show_position};
use tanist_core::record::{Mark, Record};

/// The positions of members, by name.
pub type Positions = BTreeMap<String, Position>;

/// An override and its consequences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    group: String,
    member: String,
    term: u64,
    rows: Vec<Row>,
    mark: Option<String>,
    /// Why the operator would refuse the override. If there is a reason, nothing is written.
    pub refusals: Vec<String>,
    /// Whether the refusals, or a difference to what was shown, may pass by themselves: the role of a running member is not known at the moment.
    pub may_pass: bool,
    /// What delays it, and other facts for the administrator.
    pub notes: Vec<String>,
    /// The annotation's value, in the form that the operator reads.
    pub annotation: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    member: String,
    role: String,
    term: String,
    sequence: String,
    lost: Lost,
}

/// What the group loses of one member's data.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Lost {
    Nothing,
    Some(String),
    Unknown(String),
}

/// Data of a member: the term that it counts as of, and the position.
type Data<'a> = (Option<u64>, &'a Position);

/// Assesses an override that chooses that member.
///
/// # Errors
/// When nothing can be said at all: no operator has looked at the group, its record cannot be read, or there is no such member.
pub fn assess(group: &ReplicaGroup, name: &str, positions: &Positions, now: Timestamp) -> Result<Assessment, String> {
    let view = View::new(group);
    let record = recorded(&view, name)?;
    let own = (counts_as(&record, name), positions.get(name).unwrap_or(&Position::NotAsked));
    let annotation = json!({"member": name, "sequence": show_position(own.1), "term": record.term}).to_string();
    Ok(Assessment {
        group: view.name(),
        member: name.to_owned(),
        term: record.term,
        rows: rows(&view, &record, name, own, positions),
        mark: record.high_water.as_ref().and_then(|mark| above(mark, name, own)),
        refusals: refusals(&view, &record, name, own.1, &annotation, now),
        may_pass: !group.spec.paused
            && view.members().iter().any(|m| is(&m.phase, "running") && is(&m.role, "unknown")),
        notes: notes(&view, &record, name, &annotation, now),
        annotation,
    })
}

fn counts_as(record: &Record, name: &str) -> Option<u64> {
    record.members.get(name).and_then(|m| m.counts_as())
}

fn rows(view: &View<'_>, record: &Record, chosen: &str, own: Data<'_>, positions: &Positions) -> Vec<Row> {
    let row = |name: &str, role: &str| {
        let term = counts_as(record, name);
        let position = positions.get(name).unwrap_or(&Position::NotAsked);
        let last = record.members.get(name).and_then(|m| m.sequence.as_ref());
        Row {
            member: name.to_owned(),
            role: role.to_owned(),
            term: term.map(|t| t.to_string()).unwrap_or_default(),
            sequence: match position {
                Position::Known(_) | Position::Empty => show_position(position),
                Position::Unknown(_) | Position::NotAsked => "unknown".into(),
            },
            lost: if name == chosen { Lost::Nothing } else { lost(chosen, own, (term, position), last) },
        }
    };
    view.members().iter().map(|m| row(&m.name, &m.role)).collect()
}

/// What is lost of the other member's data when the chosen member becomes primary.
fn lost(chosen: &str, own: Data<'_>, other: Data<'_>, last: Option<&Sequence>) -> Lost {
    match other.1 {
        Position::Empty => Lost::Nothing,
        Position::Known(sequence) => ahead(chosen, own, (other.0, sequence)),
        Position::Unknown(_) | Position::NotAsked => {
            let why = match other.1 {
                Position::Unknown(why) => why.as_str(),
                _ => "it was not asked",
            };
            let known = last.map(|last| match ahead(chosen, own, (other.0, last)) {
                Lost::Nothing => format!("; when it was last read it held {last}, no more than {chosen}"),
                Lost::Some(what) => format!("; when it was last read it held {last}, of which is lost {what}"),
                Lost::Unknown(_) => format!("; when it was last read it held {last}"),
            });
            Lost::Unknown(format!("unknown: {why}{}", known.unwrap_or_default()))
        }
    }
}

/// The data of the other member that the chosen one lacks.
fn ahead(chosen: &str, own: Data<'_>, other: (Option<u64>, &Sequence)) -> Lost {
    let sequence = match own.1 {
        Position::Known(sequence) => sequence,
        Position::Empty => return Lost::Some(format!("all its data ({chosen} holds none)")),
        Position::Unknown(_) | Position::NotAsked => {
            return Lost::Unknown(format!("unknown: it is not known what {chosen} holds"));
        }
    };
    match (own.0, other.0) {
        (Some(own), Some(other)) if own < other => {
            return Lost::Some(format!("what was written in term {other} ({chosen} counts as of term {own})"));
        }
        (Some(own), Some(other)) if own > other => return Lost::Nothing,
        (own, other) if own != other => {
            return Lost::Unknown(format!("unknown: the group remembers only one of it and {chosen}"));
        }
        _ => {}
    }
    match compare((0, sequence), (0, other.1)) {
        Some(Ordering::Less) => {
            let more = other.1.number.saturating_sub(sequence.number);
            Lost::Some(format!("what came after {sequence} ({more} ahead of {chosen})"))
        }
        Some(_) => Lost::Nothing,
        None => Lost::Unknown(format!("unknown: its history and that of {chosen} cannot be compared")),
    }
}

/// Whether the group has once held more data than the chosen member has.
fn above(mark: &Mark, chosen: &str, own: Data<'_>) -> Option<String> {
    let once = format!("The group once held {} of term {}", mark.sequence, mark.term);
    match ahead(chosen, own, (own.0.map(|_| mark.term), &mark.sequence)) {
        Lost::Nothing => None,
        Lost::Some(what) => Some(format!("{once}. Lost is {what}.")),
        Lost::Unknown(_) => Some(format!("{once}. Whether {chosen} has that is not known.")),
    }
}

/// Why the operator would refuse the override, or has nothing to decide.
fn refusals(
    view: &View<'_>,
    record: &Record,
    name: &str,
    own: &Position,
    annotation: &str,
    now: Timestamp,
) -> Vec<String> {
    let mut all = Vec::new();
    let group = view.short_name();
    if let [first, ..] = view.primaries().as_slice() {
        let other = format!("to make {name} primary: {} switchover {group} --to {name}", me());
        all.push(format!("{first} is primary, so there is nothing to decide; {other}"));
    }
    if view.replicas() == 0 {
        all.push("spec.replicas is 0, so no member can become primary".into());
    }
    if let Some(intent) = record.intents.iter().find(|i| i.verb.makes_primary() || i.member.as_str() == name) {
        all.push(format!("{}; wait for its end", command(intent, now)));
    }
    if !view.group.spec.paused {
        all.extend(unfit(view, name));
        if let Some(wait) = view.wait("MayBePrimary") {
            all.push(format!("{}; no override lifts this (docs/runbook.md, MayBePrimary)", wait.message));
        }
    }
    if let Position::Unknown(why) = own {
        all.push(format!(
            "what {name} holds is not known: {why}; if you know it: --sequence EMPTY or [HISTORY:]NUMBER"
        ));
    }
    if *own == Position::NotAsked {
        all.push(format!("what {name} holds is not known; if you know it: --sequence EMPTY or [HISTORY:]NUMBER"));
    }
    if record.used_override.as_deref() == Some(annotation) {
        all.push("this very override was used before, and none is used twice".into());
    }
    all
}

/// Why the member cannot be started or promoted now. The roles of a paused group are not read, so they say nothing.
fn unfit(view: &View<'_>, name: &str) -> Option<String> {
    let member = view.member(name)?;
    if !is(&member.phase, "running") {
        let phase = member.phase.to_ascii_lowercase();
        return Some(format!("the pod of {name} is {phase}; a member can lead only when its pod runs"));
    }
    let fit = is(&member.role, "stopped") || is(&member.role, "secondary");
    (!fit).then(|| {
        let role = tanist_api::view::role(member);
        format!("the role of {name} is {role}; only a stopped member or a secondary can be chosen")
    })
}

/// What has to happen before the operator uses the override, and other facts for the administrator.
fn notes(view: &View<'_>, record: &Record, name: &str, annotation: &str, now: Timestamp) -> Vec<String> {
    let mut all = Vec::new();
    if view.group.spec.paused {
        all.push(format!("the group is paused: nothing happens until {} resume {}", me(), view.short_name()));
    }
    if let Some(old) = view.group.annotations().get(ANNOTATION_OVERRIDE)
        && old != annotation
        && record.used_override.as_ref() != Some(old)
    {
        all.push(format!("an override that is not used yet is replaced: {old}"));
    }
    if let Some((seen, present)) = view.is_behind() {
        all.push(format!("the operator has seen generation {seen} of the spec, and not yet {present}"));
    }
    for intent in record.intents.iter().filter(|i| !i.verb.makes_primary() && i.member.as_str() != name) {
        all.push(format!("{}; the override may have to wait for its end", command(intent, now)));
    }
    if !view.group.spec.paused {
        for last in record.last_primaries.iter().filter(|l| !is_down(view, &l.member, &l.pod_uid)) {
            let member = &last.member;
            all.push(format!("{member} was primary; the override waits until it is proven that it is so no more"));
        }
    }
    all
}

/// Whether the member still has that pod and was seen not to be primary.
fn is_down(view: &View<'_>, name: &MemberName, uid: &str) -> bool {
    let member = view.member(name.as_str()).filter(|m| m.pod_uid.as_deref() == Some(uid));
    member.is_some_and(|m| is(&m.role, "stopped") || is(&m.role, "secondary"))
}

impl Assessment {
    /// Whether both agree in everything that was shown, except durations.
    pub fn is_same_as(&self, other: &Assessment) -> bool {
        let matters = |a: &Assessment| (a.annotation.clone(), a.rows.clone(), a.mark.clone());
        matters(self) == matters(other) && self.refusals.is_empty() == other.refusals.is_empty()
    }

    /// Whether another member has, or may have, data that would be lost.
    pub fn loses(&self) -> bool {
        self.mark.is_some() || self.rows.iter().any(|r| r.lost != Lost::Nothing)
    }

    /// The text that the administrator reads before confirming.
    pub fn text(&self, colors: bool) -> String {
        let mut out = format!("{}: {} is to lead, after term {}.\n\n", self.group, self.member, self.term);
        let mut table = Table::new(&["MEMBER", "ROLE", "TERM", "SEQUENCE", "WOULD BE LOST"]);
        for row in &self.rows {
            table.add(vec![
                Cell::plain(row.member.as_str()),
                Cell::styled(row.role.as_str(), color::role(&row.role)),
                Cell::plain(row.term.as_str()),
                Cell::plain(row.sequence.as_str()),
                match &row.lost {
                    Lost::Nothing if row.member == self.member => Cell::optional(None),
                    Lost::Nothing => Cell::plain("nothing"),
                    Lost::Some(what) => Cell::styled(what.as_str(), color::bad()),
                    Lost::Unknown(what) => Cell::styled(what.as_str(), color::open()),
                },
            ]);
        }
        let _ = writeln!(out, "{}", table.text(colors));
        for line in self.mark.iter() {
            let _ = writeln!(out, "{line}");
        }
        for note in &self.notes {
            let _ = writeln!(out, "Note: {}.", printable(note));
        }
        let _ = match self.loses() {
            true => writeln!(
                out,
                "The data of the other members may be overwritten with that of {}. Save first what you may need.",
                self.member
            ),
            false => writeln!(out, "Nothing that is known would be lost."),
        };
        out
    }
}

#[cfg(test)]
#[path = "assess_tests.rs"]
mod tests;
