//! What must hold in truth, by row of docs/safety.md. Each oracle judges what really happened in the cluster, whatever the operator believes; what breaks is said
//! with its rows. `tests.rs` shows of each that it can fail.
//!
//! | rows | what must hold | oracle |
//! | --- | --- | --- |
//! | S1, S5, S50 | the program of a token starts once | [`starts`] |
//! | S1, S3, S4 | a command that starts has an intent in a record that was written before, and that intent is not closed | [`starts`] |
//! | S1, S2, S13 | a term is opened by one command; while a seed starts, nobody else of the group runs or is about to lead | [`starts`] |
//! | S5, S20, S21, S22 | while a member takes over, nobody else leads or is about to | [`starts`] |
//! | S8, S9 | a command starts in the pod of its intent, and in its container; in the next one only while its intent is open | [`starts`] |
//! | S5, S7, S8 | a write changes the object with the UID that it names | [`touches`] |
//! | S7 | no object of a group that is there is applied for another one, which had its name before | [`taken`] |
//! | S6, S30 | a write that is dangerous when it is late names the version that it was decided on | [`unfenced`] |
//! | S15, S16, S17, S24, S26 | who leads has every acknowledged write | [`crate::clients::leads`] |
//! | S19 | no pod is deleted whose application serves, and in which no command failed | [`deletes`] |
//! | S19 | a member is stopped as failed only when a command failed in it; from the third time on a pause precedes | [`treats`] |
//! | S22, S23, S31 | clients are led to members in their role, and to no more primaries than there may be | [`routes`] |
//! | S23 | of two primaries the one is stopped that a user started by hand | [`demotes`] |
//! | S20, S21, S22, S23 | no more members are primary than the group asks for | [`crate::clients::count_primaries`] |
//! | S25, S27 | a member that stays has every acknowledged write when the group gets smaller | [`shrinks`] |
//! | S28 | no command and no deletion is asked for while the API server is away | [`asks`] |
//! | S5, S32 | the term and the number of commands rise only, unless the status was removed | [`records`] |
//! | S1, S10, S40 | a member has one open command at most, and a group has one that makes a primary | [`records`] |
//! | S41 | no command of a paused group begins | [`records`] |
//! | limits | record and status stay within [`tanist_core::limits`] and 64 KiB | [`records`] |
//! | S29, S31, S32, S43, S44 | every group is well within three resync intervals after everything has healed | [`crate::life::unwell`] |
//! | S43, S44 | a group that says that it is Ready has in truth what it asks for: members, roles, whom they follow, labels, Services | [`whole::lacks`] |
//! | S20, S44 | while a node stays away each other member is used | [`whole::waits_in_vain`] |
//! | S44 | a group that is well is left alone: nothing is written, and only `status` and `memberList` are executed | [`stirs`] |
//! | D8, D14 | members are changed, and voters stopped, only while a majority of the voters is healthy then, too | [`members`] |
//! | D12, D15 | one change of the members is open in a group, and nobody is added twice | [`members`] |
//! | D10, D19 | nobody is started who is not listed, and nobody stopped who is | [`members`] |
//! | D14, D16 | nobody is removed who is desired and well | [`members`] |
//! | D20 | an identity runs once, on the volume on which it was started first, and a volume has one identity | [`members`] |
//! | D20 | an administrator is asked to empty no volume whose identity counts | [`members::empties`] |
//! | D27 | a cluster is formed once | [`members::forms`] |
//! | D6 | whoever is started is named in the ConfigMap of the cluster state before | [`starts`] |
//! | S15 | where members agree, a majority that serves has every acknowledged write | [`crate::agree::write`] |
//! | D12 | in the end the members are those that are desired | [`whole::lacks`] |
//! | E5, E32, B10 | whose pod may be replaced for another template | [`deletes`] |
//! | E24 | of an active/passive group one pod at most has the label of the active member | [`passive::is_alone`] |
//! | E26, E32 | in the end one member that works is active; its pod is replaced after it gave way | [`passive::lacks`], [`updates`] |
//! | B11 | a member that works is announced before its pod is replaced, and nobody else before that update has ended | [`updates::encloses`] |
//! | C73 | a member that works has said that it is prepared before its pod is replaced | [`updates`] |
//!
//! The rows D are those of docs/requirements.md: of groups whose members agree.
//!
//! The policies, what commands print, names, fields, rights, limits of a module and upgrades do not vary here: S11, S12, S14, S18, S33 to S39, S42, S45 to S49
//! have the tests that docs/safety.md names.
pub mod members;
pub mod passive;
pub mod routes;
pub mod seats;
pub mod terms;
#[cfg(test)]
mod tests;
pub mod treats;
pub mod updates;
pub mod versions;
pub mod whole;

use crate::controllers::{claim_of, goes_with_its_group, is_desired};
use crate::faults::Fault;
use crate::shared::Shared;
use crate::world::{Machine, State};
use crate::{agree, clients};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use tanist_api::ReplicaGroup;
use tanist_cluster::cluster::{Kind, Write};
use tanist_core::contract::Role;
use tanist_core::limits;
use tanist_core::record::Verb;

/// Bytes of a status: an object of etcd may have 1.5 MB, and this is written again and again.
const STATUS: usize = 64 << 10;

/// Entries of last primaries: each member may leave some pods that are not proven over.
const LAST_PRIMARIES: usize = 16;

/// Seconds after which whoever asks the API server has to have noticed that it is away. The clock of the world has whole seconds.
const NOTICED: i64 = 2;

/// What the oracles remember.
#[derive(Debug, Default)]
pub struct Oracles {
    /// Every intent that was ever in a record, by token.
    noted: BTreeMap<String, Noted>,
    /// When each was decided: it may be written late, and its command start even later.
    decided: BTreeMap<String, i64>,
    /// Tokens of intents that went with a status that somebody removed: nobody closed them.
    forgotten: BTreeSet<String>,
    /// Tokens whose programs started, and when.
    started: BTreeMap<String, i64>,
    /// The token that opened a term of a group.
    opened: BTreeMap<(String, u64), String>,
    /// Containers in which the last command failed.
    failed: BTreeSet<String>,
    /// When each pod had each role last, in truth.
    seen: BTreeMap<(String, &'static str), i64>,
    /// Pods whose label of a role a user wrote.
    forged: BTreeSet<String>,
    /// When each member was treated, since it may be treated at once.
    treated: BTreeMap<String, Vec<i64>>,
    /// The highest `next` number that was ever in the record of each group: its status may be removed while the pod of a new member is on its way.
    numbered: BTreeMap<String, u64>,
    /// What happened although nothing was to, by kind. Absent: much may happen.
    stirred: Option<BTreeMap<String, u64>>,
}

/// An intent as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Noted {
    group: String,
    verb: String,
    member: String,
    pod_uid: String,
    container: String,
    term: u64,
    /// The member that a change of the members is about.
    target: String,
    generation: i64,
}

impl Oracles {
    /// From now on everything that happens is counted.
    pub fn rest(&mut self) {
        self.stirred = Some(BTreeMap::new());
    }

    /// What happened since [`Oracles::rest`], by kind; none if that was never said.
    pub fn stirred(&mut self) -> BTreeMap<String, u64> {
        self.stirred.take().unwrap_or_default()
    }
}

fn number(value: &Value, field: &str) -> u64 {
    value.get(field).and_then(Value::as_u64).unwrap_or(0)
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn list<'a>(record: &'a Value, field: &str) -> &'a [Value] {
    record.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn makes_primary(token: &str) -> bool {
    Verb::token_makes_primary(token)
}

/// A process writes the status of a group: what it will be. The world has the one of before; none after it was removed.
pub fn records(state: &mut State, group: &ReplicaGroup) {
    let name = group.name_any();
    let Some(record) = group.status.as_ref().and_then(|status| status.record.as_ref()) else { return };
    let known = state.groups.get(&name).and_then(|group| group.status.as_ref()?.record.as_ref());
    if known.is_none() {
        treats::forgives(state, &name);
        // Somebody removed the status. A term in which nobody was confirmed is on no claim either, and is opened again (S32).
        state.oracles.opened.retain(|(group, _), _| *group != name);
        let of_it = state.oracles.noted.iter().filter(|(_, noted)| noted.group == name);
        let tokens: Vec<_> = of_it.map(|(token, _)| token.clone()).collect();
        state.oracles.forgotten.extend(tokens);
    }
    for field in ["term", "counter"] {
        let before = state.groups.get(&name).and_then(|group| group.status.as_ref()?.record.as_ref());
        let (was, is) = (before.map_or(0, |before| number(before, field)), number(record, field));
        if is < was {
            state.breaks("S5 S32", format!("the {field} of {name} goes from {was} to {is}"));
        }
    }
    let before = state.groups.get(&name).and_then(|group| group.status.as_ref()?.record.clone());
    seats::written(state, group, before.as_ref(), record);
    let intents = list(record, "intents");
    for intent in intents {
        let token = text(intent, "token");
        let noted = Noted {
            group: name.clone(),
            verb: text(intent, "verb"),
            member: text(intent, "member"),
            pod_uid: text(intent, "podUid"),
            container: text(intent, "containerId"),
            term: number(intent, "term"),
            target: text(intent, "target"),
            generation: intent.get("generation").and_then(Value::as_i64).unwrap_or(0),
        };
        let known = state.oracles.noted.get(&token).cloned();
        match known {
            None if group.spec.paused => state.breaks("S41", format!("{token} begins while {name} is paused")),
            Some(known) if known != noted => state.breaks("S50", format!("the intent {token} has another target now")),
            _ => {}
        }
        let decided = intent.get("started").and_then(Value::as_i64).unwrap_or(state.now).min(state.now);
        state.oracles.decided.entry(token.clone()).or_insert(decided);
        state.oracles.noted.insert(token, noted);
    }
    let members: BTreeSet<_> = intents.iter().map(|intent| text(intent, "member")).collect();
    if members.len() < intents.len() {
        state.breaks("S1 S40", format!("a member of {name} has two open commands"));
    }
    if intents.iter().filter(|intent| makes_primary(&text(intent, "token"))).count() > 1 {
        state.breaks("S1 S10", format!("two open commands of {name} make primaries"));
    }
    let lists = [("history", limits::HISTORY), ("lastPrimaries", LAST_PRIMARIES)];
    for (field, most) in lists {
        let length = list(record, field).len();
        if length > most {
            state.breaks("limits", format!("the {field} of {name} has {length} entries"));
        }
    }
    members::records(state, &name, intents);
    state.note(record);
    // It grows slowly, and to write it as JSON takes long.
    if number(record, "counter").is_multiple_of(8) {
        let size = size(group);
        if size >= STATUS {
            state.breaks("limits", format!("the status of {name} has {size} bytes"));
        }
    }
}

/// How many bytes the status has as JSON.
fn size(group: &ReplicaGroup) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // What cannot be written as JSON could not have been read either.
    serde_json::to_writer(&mut count, &group.status).map_or(usize::MAX, |()| count.0)
}

/// Whether the command with that token only reads.
pub fn is_question(token: &str) -> bool {
    ["sequence-", "list-", "prepared-"].iter().any(|kind| token.starts_with(kind))
}

/// A program starts in the pod of that UID.
pub fn starts(state: &mut State, uid: &str, token: &str) {
    state.note(&(uid, token));
    if state.oracles.started.insert(token.to_owned(), state.now).is_some() {
        state.breaks("S1 S5 S50", format!("the program of {token} starts twice"));
    }
    if is_question(token) {
        return;
    }
    let Some(noted) = state.oracles.noted.get(token).cloned() else {
        return state.breaks("S1", format!("{token} starts without an intent"));
    };
    let container = state.machines.get(uid).map(|machine| machine.container.clone()).unwrap_or_default();
    if noted.pod_uid != uid {
        state.breaks("S8", format!("{token} starts in {uid}, and was meant for {}", noted.pod_uid));
    }
    let status = state.groups.get(&noted.group).and_then(|group| group.status.as_ref());
    let record = status.and_then(|status| status.record.as_ref());
    // A record that was removed says nothing about what is open, and the one after it nothing about what was.
    let is_forgotten = state.oracles.forgotten.contains(token);
    let is_closed = record.is_some_and(|record| {
        !is_forgotten
            && number(record, "term") >= noted.term
            && !list(record, "intents").iter().any(|i| text(i, "token") == token)
    });
    match (noted.container == container, is_closed) {
        (_, false) => {}
        (true, true) => state.breaks("S1 S3 S4", format!("{token} starts after its intent was closed")),
        (false, true) => state.breaks("S9", format!("{token} starts in another container than was meant")),
    }
    terms::leads_alone(state, uid, token, &noted);
    treats::starts(state, uid, token, &noted);
    demotes(state, uid, token, &noted);
    members::starts(state, uid, token, &noted);
    named(state, uid, token, &noted);
}

/// Whoever is started is named before in the ConfigMap that the group asks for (D6).
fn named(state: &mut State, uid: &str, token: &str, noted: &Noted) {
    let wanted = state.groups.get(&noted.group).and_then(|group| group.spec.cluster_state.clone());
    let is_stopped = state.machines.get(uid).is_some_and(|machine| machine.app.role == Role::Stopped);
    let starts = [Verb::Seed, Verb::Failover, Verb::Join, Verb::Place, Verb::Rejoin, Verb::Recover];
    let starts = starts.iter().any(|verb| verb.as_str() == noted.verb);
    // A write of another process, or one whose answer was lost, may land after the start was decided (docs/decisions/0045-cluster-state.md), a user may delete the ConfigMap just before it, and a start that
    // arrives late finds the ConfigMap of later (seed 220546453).
    let others = [
        Fault::OperatorTwice,
        Fault::OperatorFrozen,
        Fault::OperatorKilled,
        Fault::AnswerLost,
        Fault::RequestSlow,
        Fault::ServiceDeleted,
        Fault::ExecLate,
    ];
    let is_alone = others.iter().all(|fault| !state.faults.happened.contains_key(fault));
    let Some(wanted) = wanted.filter(|_| is_stopped && starts && is_alone) else { return };
    let name = wanted.name.unwrap_or_else(|| format!("{}-cluster-state", noted.group));
    let data = state.plain.get(&(Kind::ConfigMap, name)).and_then(|found| found.data.get("data").cloned());
    for key in wanted.data.iter().filter(|key| key.each.as_ref().is_some_and(|each| each.starts_with("$(NAME)"))) {
        let said = data.as_ref().and_then(|data| data.get(&key.name)?.as_str()).unwrap_or_default();
        let names = |one: &str| one.strip_prefix(&noted.member).is_some_and(|rest| !rest.starts_with(char::is_numeric));
        if !said.split(&key.separator).any(names) {
            let said = format!("{token} starts {}, and the ConfigMap names {said:?}", noted.member);
            state.breaks("D6", said);
        }
    }
}

/// Of two primaries the one is stopped that a user started by hand, unless the other one leaves (S23).
fn demotes(state: &mut State, uid: &str, token: &str, noted: &Noted) {
    if noted.verb != Verb::Demote.as_str() || state.machines.get(uid).is_none_or(|machine| machine.app.by_hand) {
        return;
    }
    let stays = state.groups.get(&noted.group).is_some_and(|group| is_desired(group, &noted.member));
    let is_other = |(other, m): &(&String, &Machine)| {
        m.group == noted.group && m.app.by_hand && *other != uid && m.ending.is_none() && state.reaches(other, m)
    };
    let other = state.machines.iter().find(is_other).filter(|_| stays).map(|(_, m)| m.pod.clone());
    if let Some(other) = other {
        let member = &noted.member;
        state.breaks("S23", format!("{token} stops {member}, which leads, and not {other}, which a user started"));
    }
}

/// A command ended on a member, in that container. That a position could not be read is no failure.
pub fn ends(state: &mut State, member: &str, container: &str, token: &str, code: u8) {
    // A change of the members that fails is no failure of the member in which it ran.
    if is_question(token) || members::is_change(token) {
        return;
    }
    match code {
        0 => drop(state.oracles.failed.remove(container)),
        _ => drop(state.oracles.failed.insert(container.to_owned())),
    }
    let stops = [Verb::Treat, Verb::Demote, Verb::Switchover, Verb::Remove, Verb::Halt];
    if code == 0 && !stops.iter().any(|verb| token.split('-').next() == Some(verb.as_str())) {
        treats::forgives(state, member);
    }
}

/// Why a write may do harm when it arrives late, if it may.
#[must_use]
pub fn unfenced(state: &State, write: &Write) -> Option<String> {
    let lacks = |what: &str, name: &str| Some(format!("{what} {name} is written without its version"));
    match write {
        Write::Status(group) if group.metadata.resource_version.is_none() => lacks("the status of", &group.name_any()),
        Write::Label { pod, role: Some(_) } if pod.version.is_none() => lacks("the role of", &pod.name),
        Write::Gate { pod, ready: true, .. } if pod.version.is_none() => lacks("the readiness of", &pod.name),
        Write::Mark { claim, .. } if claim.version.is_none() => lacks("the memory of", &claim.name),
        Write::Grow { claim, .. } if claim.version.is_none() => lacks("the size of", &claim.name),
        Write::Adopt { pod, .. } if pod.version.is_none() => lacks("the owner of", &pod.name),
        Write::DropSet { set } if set.version.is_none() => lacks("the end of", &set.name),
        Write::Apply { kind, name, manifest, force: true, .. } => {
            let exists = match kind {
                Kind::Set => state.sets.contains_key(name),
                _ => state.plain.contains_key(&(*kind, name.clone())),
            };
            let named = manifest.pointer("/metadata/resourceVersion").is_some();
            (exists && !named).then(|| format!("{} {name} is applied by force without its version", kind.word()))
        }
        _ => None,
    }
}

/// The kind, the name and the UID of the object that a write means.
#[must_use]
pub fn meant(write: &Write) -> Option<(Kind, String, String)> {
    let of = |kind, name: &str, uid: &str| Some((kind, name.to_owned(), uid.to_owned()));
    match write {
        Write::Label { pod, .. } | Write::Gate { pod, .. } => of(Kind::Pod, &pod.name, &pod.uid),
        Write::Mark { claim, .. } | Write::Grow { claim, .. } => of(Kind::Claim, &claim.name, &claim.uid),
        Write::Adopt { pod, .. } => of(Kind::Pod, &pod.name, &pod.uid),
        Write::Nudge { set, .. } => of(Kind::Set, &set.name, &set.uid),
        Write::Scale { set, to, .. } => of(Kind::Set, set, to.uid()),
        Write::Discard { discard, .. } => of(Kind::Claim, discard.claim(), discard.uid()),
        Write::Delete { deletion, .. } => of(Kind::Pod, deletion.member().as_str(), deletion.uid()),
        Write::Status(group) => of(Kind::Group, &group.name_any(), &group.uid().unwrap_or_default()),
        Write::Apply { .. } | Write::Create { .. } | Write::Forget { .. } => None,
        // It is not there afterwards.
        Write::DropSet { .. } => None,
    }
}

/// The group from which an apply takes an object: the manifest belongs to another group than the object, whose owner is there (S7).
#[must_use]
pub fn taken(state: &State, write: &Write) -> Option<String> {
    let Write::Apply { kind, name, manifest, .. } = write else { return None };
    let given = manifest.pointer("/metadata/ownerReferences/0/uid")?.as_str()?;
    let meta = match kind {
        Kind::Set => state.sets.get(name).map(|set| &set.metadata),
        _ => state.plain.get(&(*kind, name.clone())).map(|object| &object.metadata),
    };
    let owner = meta?.owner_references.as_ref()?.first()?.uid.clone();
    let lives = state.groups.values().any(|group| group.metadata.uid.as_ref() == Some(&owner));
    (owner != given && lives).then(|| format!("{} {name} is taken from the group {owner} for {given}", kind.word()))
}

/// A write changed the object of that kind and name; it meant the one with that UID.
pub fn touches(state: &mut State, kind: Kind, name: &str, uid: &str) {
    let there = match kind {
        Kind::Pod => state.pods.get(name).and_then(ResourceExt::uid),
        Kind::Claim => state.claims.get(name).and_then(ResourceExt::uid),
        Kind::Set => state.sets.get(name).and_then(ResourceExt::uid),
        Kind::Group => state.groups.get(name).and_then(ResourceExt::uid),
        _ => None,
    };
    if there.as_deref() != Some(uid) {
        state.breaks("S5 S7 S8", format!("a write that means {uid} changes {}", there.unwrap_or_default()));
    }
}

/// A process deletes a pod.
pub fn deletes(state: &mut State, pod: &str) {
    let is_update = updates::may_replace(state, pod);
    let phase = |pod: &Shared<Pod>| pod.status.as_ref().and_then(|status| status.phase.clone());
    // To replace one that has ended treats nobody.
    let has_ended = state.pods.get(pod).and_then(phase).is_some_and(|phase| phase == "Failed");
    // Nor is the pod of a member that has left treated.
    if !is_update && !has_ended && !seats::has_left(state, pod) {
        treats::treats(state, pod, state.now);
    }
    let Some((uid, machine)) = state.running(pod) else { return };
    // One that waits for a majority serves nobody, unless others serve already.
    let waits = machine.app.role == Role::Starting && agree::serves_nobody(state, &machine.group);
    let serves = !waits && machine.app.role != Role::Stopped && machine.busy.is_none() && machine.ending.is_none();
    // Who works by itself is not stopped before it leaves.
    let leaves = machine.is_passive && state.groups.get(&machine.group).is_some_and(|group| !is_desired(group, pod));
    let seems = passive::may_seem_unwell(state, uid, machine);
    let excused =
        leaves || seems || state.oracles.failed.contains(&machine.container) || treats::just_began(state, uid);
    let is_well = serves && !excused && state.is_up(&machine.node);
    let role = machine.app.role;
    if is_update {
        updates::replaces(state, pod, is_well);
    } else if is_well && !goes_with_its_group(state, pod) {
        state.breaks("S19", format!("{pod} is deleted, serves as {role:?} and is well"));
    }
}

/// A process gives a group fewer members. With none all volumes stay, and all come back.
pub fn shrinks(state: &mut State, group: &str, to: u32) {
    members::shrinks(state, group, to);
    let Some(clients) = state.clients.get(group).filter(|_| to > 0) else { return };
    let claims = (0..to).filter_map(|ordinal| state.claims.get(&claim_of(&format!("{group}-{ordinal}")))?.uid());
    let disks = claims.filter_map(|uid| state.disks.get(&uid));
    let least = disks.map(|disk| clients.promised.lacking_in(&disk.holds)).min();
    if let Some(lacking) = least.filter(|lacking| *lacking > 0) {
        state.breaks("S25 S27", format!("{group} shrinks to {to}, and who stays lacks {lacking} acknowledged writes"));
    }
}

/// A process asks for a command or a deletion. `stood_still`: it was frozen since the API server went away, or waited for an answer of a member (seed 17249742), and cannot know that yet.
pub fn asks(state: &mut State, what: &str, stood_still: bool) {
    let since = state.faults.away.filter(|_| state.is_away()).map(|(since, _)| since);
    if since.is_some_and(|since| state.now > since.saturating_add(NOTICED)) && !stood_still {
        state.breaks("S28", format!("{what} is asked for while the API server is away"));
    }
}

/// Something is written, or executed beside `status`.
pub fn stirs(state: &mut State, what: &str) {
    if let Some(stirred) = &mut state.oracles.stirred {
        *stirred.entry(what.to_owned()).or_default() += 1;
        state.say(format!("{what} in the steady hour"));
    }
}

/// A group's primaries are counted as soon as one more leads.
pub fn leads(state: &mut State, group: &str) {
    let limit = clients::limit(state, group);
    clients::count_primaries(state, group, limit);
}
