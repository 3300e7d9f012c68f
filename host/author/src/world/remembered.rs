//! What the operator remembers of a group and what a policy does not see: unconfirmed starts, back-offs, open commands, last primaries. It bars members.
//!
//! A case has it in the words of `status.record`, under `memory` of the group and of its members, as far as it differs from what the other keys say. So
//! every field that the record gets later is kept by a recorded case, too.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use serde_saphyr::{Location, Spanned};
use tanist_core::{
    contract::Timestamp,
    record::{MemberRecord, Record},
    snapshot::{Member, Node, Snapshot},
};

use crate::case::Case;

/// A record, with what the case says about it.
///
/// # Errors
/// What is wrong, and where.
pub fn joined(case: &Case, mut record: Record) -> Result<Record, (Location, String)> {
    if let Some(told) = &case.group.memory {
        if told.value.contains_key("members") {
            let message = "memory of members stands at each member, not under group".to_owned();
            return Err((told.referenced, message));
        }
        record = changed(&record, told)?;
    }
    for (index, name) in case.names().into_iter().enumerate() {
        let Some(told) = case.members.case(index).memory else { continue };
        let known = record.member_mut(&name.as_str().into());
        *known = changed(known, &told)?;
    }
    Ok(record)
}

fn changed<T: serde::Serialize + serde::de::DeserializeOwned>(
    old: &T,
    told: &Spanned<Map<String, Value>>,
) -> Result<T, (Location, String)> {
    let wrong = |error: serde_json::Error| (told.referenced, format!("this is no memory of the operator: {error}"));
    let mut whole = serde_json::to_value(old).map_err(wrong)?;
    if let Value::Object(fields) = &mut whole {
        for (key, value) in &told.value {
            match value {
                Value::Null => drop(fields.remove(key)),
                value => drop(fields.insert(key.clone(), value.clone())),
            }
        }
    }
    serde_json::from_value(whole).map_err(wrong)
}

/// Adds the nodes of last primaries that no member is on. A case does not tell of them, so nothing is proven there yet: each counts as Ready since `now`.
pub fn add_nodes(record: &Record, now: Timestamp, nodes: &mut BTreeMap<String, Node>) {
    for name in record.last_primaries.iter().filter_map(|last| last.node.clone()) {
        let (ready, cordoned, out_of_service) = (true, false, false);
        nodes.entry(name).or_insert(Node { ready, since: now, seen: now, out_of_service, cordoned, zone: None });
    }
}

/// The fields of the record that no question depends on, and those that a case has keys for.
const ELSEWHERE: [&str; 11] = [
    "members",
    "history",
    "counter",
    "clearedGeneration",
    "clearedRetry",
    "waitingSince",
    "usedOverride",
    "recovery",
    "retired",
    "recalled",
    "seats",
];

/// What a case of a snapshot says about the group's memory. `plain`: the snapshot that it is without.
pub fn of_group(live: &Snapshot, plain: &Snapshot) -> Map<String, Value> {
    let mut record = live.record.clone();
    let leads = |uid: &str| live.pod(uid).is_some_and(|(member, _)| live.serves(member));
    // A serving primary shows by itself what this says.
    record.last_primaries.retain(|last| !leads(&last.pod_uid));
    if let (Some(live), Some(plain)) = (&mut record.ever_seeded, &plain.record.ever_seeded)
        && live.confirmed == plain.confirmed
        && live.confirmed
    {
        // Whose seed it was matters only until it is confirmed.
        live.member.clone_from(&plain.member);
    }
    let mut found = differences(&renamed(live, plain, &record), &fields(&plain.record));
    found.retain(|key, _| !ELSEWHERE.contains(&key.as_str()));
    found
}

/// The same for a member.
pub fn of_member(live: &Snapshot, plain: &Snapshot, member: &Member) -> Map<String, Value> {
    let usual = plain.record.member(&member.name);
    let mut known: MemberRecord = live.record.member(&member.name).clone();
    let volumes = |member: &Member| tanist_core::memory::claim_uids(&member.claims);
    if volumes(member) == known.claim_uid {
        // Its volumes are the ones that it had, or it has none: a case gives each member one.
        known.claim_uid = plain.member(&member.name).and_then(volumes);
    }
    // No question depends on these.
    known.sequence.clone_from(&usual.sequence);
    known.ran.clone_from(&usual.ran);
    if member.reading.role != tanist_core::contract::Role::Starting {
        known.last_command.clone_from(&usual.last_command);
    }
    differences(&renamed(live, plain, &known), &fields(usual))
}

fn fields<T: serde::Serialize>(of: &T) -> Map<String, Value> {
    match serde_json::to_value(of) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// The fields that differ; null: the other has none.
fn differences(own: &Map<String, Value>, usual: &Map<String, Value>) -> Map<String, Value> {
    let changed = own.iter().filter(|(key, value)| usual.get(*key) != Some(value));
    let gone = usual.keys().filter(|key| !own.contains_key(*key));
    let changed = changed.map(|(key, value)| (key.clone(), value.clone()));
    changed.chain(gone.map(|key| (key.clone(), Value::Null))).collect()
}

/// A part of the record in which the UIDs of present pods, containers and claims are those of the case.
fn renamed<T: serde::Serialize>(live: &Snapshot, plain: &Snapshot, part: &T) -> Map<String, Value> {
    let mut names = BTreeMap::new();
    for member in &live.members {
        let Some(own) = plain.member(&member.name) else { continue };
        let claims = |member: &Member| tanist_core::memory::claim_uids(&member.claims);
        names.extend(claims(member).zip(claims(own)));
        let (Some(pod), Some(other)) = (&member.pod, &own.pod) else { continue };
        names.insert(pod.uid.clone(), other.uid.clone());
        let status = &live.group.commands.status.container;
        let id = |pod: &tanist_core::snapshot::Pod, name: &str| pod.containers.get(name).and_then(|c| c.id.clone());
        names.extend(id(pod, status).zip(id(other, &plain.group.commands.status.container)));
        let containers = [(status.clone(), plain.group.commands.status.container.clone())];
        names.extend(containers);
    }
    let mut whole = Value::Object(fields(part));
    rename(&mut whole, &names);
    match whole {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// The keys whose values name pods, containers and claims.
const NAMES: [&str; 4] = ["podUid", "containerId", "container", "claimUid"];

fn rename(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if NAMES.contains(&key.as_str()) => {
                        if let Some(name) = names.get(text) {
                            text.clone_from(name);
                        }
                    }
                    other => rename(other, names),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|each| rename(each, names)),
        _ => {}
    }
}
