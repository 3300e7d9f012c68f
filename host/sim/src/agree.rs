//! An application whose members agree on who they are, as those of etcd do. It counts its members itself; a member serves only while a majority of the voters runs and is reached, and one that
//! was removed ends. Here is the truth: what a member says of it by `memberList` may be late when it is read.
mod commands;

pub use commands::perform;

use crate::app::{App, Disk, Register};
use crate::controllers::{self, claim_of};
use crate::faults::Fault;
use crate::oracles::{members, routes};
use crate::world::{Machine, NAMESPACE, State};
use kube::ResourceExt;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use tanist_api::ReplicaGroup;
use tanist_core::contract::Role;
use tanist_core::membership::quorum;

/// Seconds for which it is remembered how the members were. No decision rests on anything older.
const REMEMBERED: i64 = 400;

/// Seconds that an election takes at most.
const ELECTION: u64 = 12;

/// What the members of a group have agreed on, in truth.
#[derive(Debug, Clone, Default)]
pub struct Agreement {
    /// The identity of the cluster. `None`: it was never formed.
    pub cluster: Option<String>,
    /// The members, by identity.
    pub members: BTreeMap<String, Listed>,
    /// Whether who is added gets a vote only by `memberPromote`.
    pub learners: bool,
    /// Whether clients have to reach the leader: the others are secondaries.
    pub one_leads: bool,
    /// The identity that leads.
    pub leader: Option<String>,
    /// Until when nobody leads, because the others elect.
    pub vacant_until: Option<i64>,
    /// The volume on which each identity was started first, by UID of the claim.
    pub homes: BTreeMap<String, String>,
    /// How the members were, the latest one last.
    pub past: Vec<Past>,
}

/// A member in truth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The member of the group that it is.
    pub name: String,
    /// Whether it was ever started under its identity.
    pub started: bool,
    /// Whether it has a vote.
    pub voter: bool,
}

/// How the members were for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// Since when, in seconds since 1970.
    pub since: i64,
    /// Those with a vote, by identity.
    pub voters: BTreeSet<String>,
    /// Those that ran, with a vote or without, and were reached.
    pub well: BTreeSet<String>,
}

impl Past {
    /// How many voters were well, but for that one.
    #[must_use]
    pub fn well_without(&self, identity: Option<&str>) -> usize {
        self.voters.intersection(&self.well).filter(|id| Some(id.as_str()) != identity).count()
    }
}

impl Agreement {
    /// Of the members of a new group. `None`: its members do not agree on who they are.
    #[must_use]
    pub fn of(group: &ReplicaGroup) -> Option<Agreement> {
        let commands = &group.spec.commands;
        let (learners, one_leads) = (commands.member_promote.is_some(), commands.secondary.is_some());
        commands.member_list.as_ref().map(|_| Agreement { learners, one_leads, ..Agreement::default() })
    }

    /// The identity of that member, and what is said of it.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<(&String, &Listed)> {
        self.members.iter().find(|(_, listed)| listed.name == name)
    }

    /// Those with a vote, by identity.
    #[must_use]
    pub fn voters(&self) -> BTreeSet<String> {
        self.members.iter().filter(|(_, listed)| listed.voter).map(|(id, _)| id.clone()).collect()
    }
}

/// A group whose members agree. `learners`: who is added has no vote at first. `one_leads`: only the member that they elect is a primary.
#[must_use]
pub fn group(name: &str, replicas: u64, learners: bool, one_leads: bool) -> ReplicaGroup {
    let command = |words: &[&str]| json!({"exec": words, "timeoutSeconds": 10});
    let mut commands = json!({
        "status": command(&["status"]), "sequence": command(&["sequence"]), "stop": command(&["stop"]),
        "seed": command(&["seed"]), "primary": command(&["primary", "$(PEERS)"]), "memberList": command(&["memberList"]),
        "memberAdd": command(&["memberAdd", "$(NAME)", "$(ADDRESS)"]), "memberRemove": command(&["memberRemove", "$(ID)"]),
        "wipe": command(&["wipe"])
    });
    if let Some(commands) = commands.as_object_mut().filter(|_| learners) {
        commands.insert("memberPromote".to_owned(), command(&["memberPromote", "$(ID)"]));
    }
    if let Some(commands) = commands.as_object_mut().filter(|_| one_leads) {
        commands.insert("secondary".to_owned(), command(&["primary", "$(PEERS)"]));
    }
    let primaries = if one_leads { json!(1) } else { json!("All") };
    let group = json!({
        "apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "primaries": primaries, "startDeadlineSeconds": 86_400, "commands": commands,
            "template": {"spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "db", "image": "db:1"}]}}
        }
    });
    serde_json::from_value(group).unwrap_or_else(|error| unreachable!("the text above is a group: {error}"))
}

/// The identity on a volume.
fn identity<'s>(state: &'s State, claim: &str) -> Option<&'s String> {
    state.disks.get(claim)?.identity.as_ref()
}

/// The processes of a group, by UID of the pod.
fn processes<'s>(state: &'s State, group: &'s str) -> impl Iterator<Item = (&'s String, &'s Machine)> {
    state.machines.iter().filter(move |(_, m)| m.group == group && m.app.role != Role::Stopped)
}

/// The members that run and are reached, by identity. An identity that nobody lists any more is none of them.
#[must_use]
pub fn well(state: &State, group: &str) -> BTreeSet<String> {
    let Some(agreement) = state.agreements.get(group) else { return BTreeSet::new() };
    let reached = processes(state, group).filter(|(uid, machine)| state.reaches(uid, machine));
    let all = reached.filter_map(|(_, machine)| identity(state, &machine.claim));
    all.filter(|id| agreement.members.contains_key(*id)).cloned().collect()
}

/// Whether the member may be started while nodes are away. Whom nobody lists is added first, and that waits for a majority of those who agree then; one after the other.
#[must_use]
pub fn may_start(state: &State, group: &str, name: &str) -> bool {
    let Some(agreement) = state.agreements.get(group) else { return true };
    let voters = agreement.voters();
    let is_at_rest = || agreement.members.values().all(|listed| listed.started && listed.voter);
    let is_enough = || well(state, group).intersection(&voters).count() >= quorum(voters.len().saturating_add(1));
    agreement.named(name).is_some() || is_at_rest() && is_enough()
}

/// Whether the members of the group agree, and none of them serves anybody.
#[must_use]
pub fn serves_nobody(state: &State, group: &str) -> bool {
    state.agreements.contains_key(group)
        && processes(state, group).all(|(_, machine)| machine.app.role == Role::Starting)
}

/// Whether a majority of the voters runs and reaches each other.
fn has_quorum(state: &State, group: &str) -> bool {
    let Some(agreement) = state.agreements.get(group) else { return false };
    let voters = agreement.voters();
    well(state, group).intersection(&voters).count() >= quorum(voters.len())
}

/// The role of a process in truth. `has_quorum`: whether a majority runs.
fn role(state: &State, agreement: &Agreement, machine: &Machine, has_quorum: bool) -> Role {
    let is_up = state.is_up(&machine.node);
    let id = identity(state, &machine.claim);
    match id.and_then(|id| agreement.members.get(id)) {
        // The others tell it.
        None if is_up && has_quorum => Role::Stopped,
        // One that is cut off is a majority only if it is the only voter.
        Some(listed) if listed.voter && (if is_up { has_quorum } else { agreement.voters().len() == 1 }) => {
            if agreement.one_leads && agreement.leader.as_ref() != id { Role::Secondary } else { Role::Primary }
        }
        _ => Role::Starting,
    }
}

/// Whether it takes part in what the others agree on.
fn serves(machine: &Machine) -> bool {
    matches!(machine.app.role, Role::Primary | Role::Secondary)
}

/// The voters elect another leader when the one before is gone, or is not reached; that takes some seconds. One that stands still leads on until it notices.
fn elect(state: &mut State, group: &str) {
    let (now, well) = (state.now, well(state, group));
    let is_due = has_quorum(state, group);
    let took = state.agreements.get(group).is_some_and(|a| a.one_leads && a.vacant_until.is_none());
    let takes = if took { i64::try_from(state.dice_of_clients(ELECTION)).unwrap_or(0) } else { 0 };
    let Some(agreement) = state.agreements.get_mut(group).filter(|agreement| agreement.one_leads) else { return };
    let voters = agreement.voters();
    if agreement.leader.as_ref().is_some_and(|id| well.contains(id) && voters.contains(id)) {
        return;
    }
    agreement.leader = None;
    let until = *agreement.vacant_until.get_or_insert(now.saturating_add(takes));
    let Some(next) = well.intersection(&voters).next().filter(|_| is_due && now >= until) else { return };
    (agreement.leader, agreement.vacant_until) = (Some(next.clone()), None);
    let name = agreement.members.get(next).map(|listed| listed.name.clone()).unwrap_or_default();
    state.say(format!("{name} is elected"));
}

/// Members notice who runs: without a majority they serve nobody, and whoever was removed ends. What stands still notices nothing.
pub fn refresh(state: &mut State, group: &str) {
    elect(state, group);
    let Some(agreement) = state.agreements.get(group) else { return };
    let has_quorum = has_quorum(state, group);
    let awake = processes(state, group).filter(|(uid, _)| !state.stands_still(uid));
    let now = awake.map(|(uid, m)| (uid.clone(), role(state, agreement, m, has_quorum)));
    let changed: Vec<(String, Role)> =
        now.filter(|(uid, role)| state.machines.get(uid).is_some_and(|m| m.app.role != *role)).collect();
    for (uid, role) in &changed {
        let Some(machine) = state.machines.get_mut(uid) else { continue };
        machine.app.role = *role;
        let pod = machine.pod.clone();
        if *role == Role::Stopped {
            state.say(format!("{pod} was removed, and ends"));
        }
    }
    if !changed.is_empty() {
        routes::see_roles(state);
    }
    remember(state, group);
}

/// Notes how the members are, if they were otherwise before.
fn remember(state: &mut State, group: &str) {
    let (now, well) = (state.now, well(state, group));
    let Some(agreement) = state.agreements.get_mut(group) else { return };
    let voters = agreement.voters();
    let last = agreement.past.last();
    if last.is_some_and(|last| last.voters == voters && last.well == well) {
        return;
    }
    agreement.past.push(Past { since: now, voters, well });
    // The one before those that are remembered tells how it was when they began.
    let is_old = |past: &Past| past.since < now.saturating_sub(REMEMBERED);
    let old = agreement.past.iter().take_while(|past| is_old(past)).count();
    agreement.past.drain(..old.saturating_sub(1));
}

/// The volumes of the voters that serve, the one with the most recent data first.
fn serving(state: &State, group: &str) -> Vec<String> {
    let serve = processes(state, group).filter(|(uid, m)| serves(m) && !state.stands_still(uid));
    let mut claims: Vec<String> = serve.map(|(_, machine)| machine.claim.clone()).collect();
    let number = |claim: &String| state.disks.get(claim).and_then(|disk| disk.data.as_ref()).map_or(0, |d| d.number);
    claims.sort_by_key(|claim| std::cmp::Reverse(number(claim)));
    claims.dedup();
    claims
}

/// The members that are reached get what the most recent one has: the voters first, so many of them for sure, and each other one in two times of three.
fn spread(state: &mut State, group: &str, surely: usize) {
    let voters = serving(state, group);
    let Some(first) = voters.first().and_then(|claim| state.disks.get(claim)).cloned() else { return };
    let reached = processes(state, group).filter(|(uid, machine)| state.reaches(uid, machine));
    let others = reached.map(|(_, m)| m.claim.clone()).filter(|claim| !voters.contains(claim));
    let others: Vec<String> = others.collect();
    // Not the same ones each time: the rest begins with another one.
    let rest: Vec<String> = voters.iter().skip(1).cloned().collect();
    let from = usize::try_from(state.dice_of_clients(rest.len() as u64)).unwrap_or(0);
    let turned = rest.iter().cycle().skip(from).take(rest.len()).chain(&others);
    for (at, claim) in turned.enumerate() {
        if at.saturating_add(1) >= surely && state.dice_of_clients(3) == 0 {
            continue;
        }
        if let Some(disk) = state.disks.get_mut(claim) {
            (disk.data, disk.holds) = (first.data.clone(), first.holds.clone());
        }
    }
}

/// One client writes. The write is acknowledged, for a majority of the voters has it. Whatever was acknowledged before, one of those that serve has.
pub fn write(state: &mut State, group: &str) {
    refresh(state, group);
    let serving = serving(state, group);
    let voters = state.agreements.get(group).map_or(0, |agreement| agreement.voters().len());
    let Some(first) = serving.first().cloned().filter(|_| serving.len() >= quorum(voters)) else { return };
    let holds = state.disks.get(&first).map(|disk| disk.holds.clone()).unwrap_or_default();
    let clients = state.clients.entry(group.to_owned()).or_default();
    let lost = clients.promised.lacking_in(&holds);
    clients.promised.keep(&holds);
    clients.writes += 1;
    let write = clients.writes;
    clients.promised.insert(write);
    if lost > 0 {
        state.breaks("S15", format!("the majority of {group} lacks {lost} acknowledged writes"));
    }
    if let Some(disk) = state.disks.get_mut(&first) {
        disk.holds.insert(write);
        disk.data.iter_mut().for_each(|register| register.number += 1);
    }
    spread(state, group, quorum(voters));
}

/// Whether a user may delete a member's volume: the others are a majority without it, also of those that are left if a removal that was decided already takes one of them. One whose pod is being deleted is none of
/// them, for its volume may be another one by then (seed 85376127).
#[must_use]
pub fn may_lose_its_volume(state: &State, group: &str, pod: &str) -> bool {
    let Some(agreement) = state.agreements.get(group) else { return false };
    let voters = agreement.voters();
    let own = agreement.named(pod).map(|(id, _)| id);
    let stays = |name: &str| state.pods.get(name).is_some_and(|pod| pod.metadata.deletion_timestamp.is_none());
    let is_other = |id: &String| voters.contains(id) && Some(id) != own;
    let others = well(state, group).into_iter().filter(is_other);
    let others = others.filter(|id| agreement.members.get(id).is_some_and(|listed| stays(&listed.name))).count();
    let seats = state.groups.get(group).map(|group| controllers::desired(group)).unwrap_or_default();
    let leaves = agreement.members.values().any(|listed| !seats.contains(&listed.name));
    let (others, voters) = match leaves {
        true => (others.saturating_sub(1), voters.len().saturating_sub(1)),
        false => (others, voters.len()),
    };
    others >= quorum(voters)
}

/// An administrator does what a group asks for: deletes the claim and the pod of a member whose volume has the data of an identity that is over.
pub fn administer(state: &mut State) {
    let asked =
        state.groups.iter().filter(|(name, _)| state.agreements.contains_key(*name)).flat_map(|(name, group)| {
            let waits = group.status.iter().flat_map(|status| &status.awaiting);
            let members = waits.filter(|wait| wait.reason == "KeptData").filter_map(|wait| wait.member.clone());
            members.map(|member| (name.clone(), member)).collect::<Vec<_>>()
        });
    for (group, member) in asked.collect::<Vec<_>>() {
        members::empties(state, &group, &member);
        state.say(format!("an administrator empties the volume of {member}"));
        crate::strikes::lose_volume(state, &member);
    }
}

/// How the members differ from those that are desired; nothing: they do not (docs/requirements.md, D12).
#[must_use]
pub fn differ(state: &State, group: &ReplicaGroup) -> Vec<String> {
    let name = group.name_any();
    let Some(agreement) = state.agreements.get(&name) else { return Vec::new() };
    let desired = controllers::desired(group);
    let words = |listed: &Listed| match listed {
        listed if !desired.contains(&listed.name) => Some("is a member, and not desired"),
        Listed { started: false, .. } => Some("was added, and never started"),
        Listed { voter: false, .. } => Some("has no vote"),
        _ => None,
    };
    let wrong = agreement.members.values().filter_map(|l| Some(format!("{} {}", l.name, words(l)?)));
    let missing = desired.iter().filter(|name| agreement.named(name).is_none());
    wrong.chain(missing.map(|name| format!("{name} is no member"))).collect()
}

/// Whether those whom the record knows as started, and who have their volumes, are no majority any more: the memory was lost before a claim knew of the last change.
#[must_use]
pub fn memory_is_outdated(state: &State, group: &str) -> bool {
    let Some(agreement) = state.agreements.get(group) else { return false };
    let voters = agreement.voters();
    let is_known = |name: &str| members::known(state, group, name) == Some(true);
    let is_there = |(id, listed): &(&String, &Listed)| {
        voters.contains(*id) && is_known(&listed.name) && identity_of(state, &listed.name) == Some(*id)
    };
    agreement.members.iter().filter(is_there).count() < quorum(voters.len())
}

/// The identity on the volume that a member has now.
#[must_use]
pub fn identity_of<'s>(state: &'s State, pod: &str) -> Option<&'s String> {
    identity(state, &state.claims.get(&claim_of(pod))?.uid()?)
}

#[cfg(test)]
pub(crate) mod tests;
