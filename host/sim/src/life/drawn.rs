//! What differs between lives: their groups, and the faults that may happen.
use crate::agree;
use crate::app::{group, passive};
use crate::clients::Replication;
use crate::faults::Fault;
use crate::strikes::users;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use tanist_api::spec::{
    Batch, ClaimTemplate, ClusterState, CutOver, MembersKind, OnFailure, Primaries, RemovedVolumes, StateKey, Strategy,
    UpgradeOn,
};
use tanist_api::{Command, ReplicaGroup};

/// The faults of a life.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Drawn {
    /// The kinds that may happen.
    pub kinds: BTreeSet<Fault>,
    /// Single happenings that do not, by kind and number from 1.
    pub spared: BTreeSet<(Fault, u64)>,
}

impl Drawn {
    /// Each life has some kinds of faults and not others: one that hides another one does not hide it always.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut drawn = Drawn::of_registers(seed);
        if agrees(seed) {
            // What its members are asked to be is the point of such a life.
            drawn.kinds.insert(Fault::Resized);
            // On which volume a member was started the status knows, and a claim does not know that it is a copy.
            if drawn.kinds.contains(&Fault::StatusLost) || drawn.kinds.contains(&Fault::GroupRecreated) {
                drawn.kinds.remove(&Fault::VolumeRestored);
            }
        }
        drawn
    }

    /// The same without a group whose members agree.
    #[must_use]
    pub fn of_registers(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed.rotate_left(32));
        let mut kinds: BTreeSet<Fault> = Fault::ALL.into_iter().filter(|_| random.random_range(0..3) == 0).collect();
        kinds.retain(|kind| !Fault::NOT_YET.contains(kind));
        // A group with several primaries that has lost its memory may wait for a member that led before and follows now: this is not solved yet
        // (docs/decisions/0031-simulator.md, "So far").
        if registers(seed).iter().any(|group| group.spec.primaries != Primaries::Count(1)) {
            kinds.remove(&Fault::StatusLost);
            kinds.remove(&Fault::GroupRecreated);
        }
        // What went with the group is on its claims alone: a claim beyond the members without it is taken for one that never had data (S32; seed 9007297).
        if kinds.contains(&Fault::GroupRecreated) {
            kinds.remove(&Fault::ClaimUnmarked);
        }
        let forgets = [Fault::StatusLost, Fault::GroupRecreated].iter().any(|kind| kinds.contains(kind));
        if forgets || replication(seed) == Replication::Asynchronous {
            kinds.remove(&Fault::PrimariesChanged);
        }
        Drawn { kinds, spared: BTreeSet::new() }
    }
}

/// Whether the first group of the life of that seed is one whose members agree: one in five. It divides none of the numbers by which lives differ otherwise.
#[must_use]
pub fn agrees(seed: u64) -> bool {
    seed % 5 == 2
}

/// The groups of the life of that seed.
#[must_use]
pub fn groups(seed: u64) -> Vec<ReplicaGroup> {
    let mut groups = registers(seed);
    if let Some(first) = groups.first_mut().filter(|_| agrees(seed)) {
        let other = seed / 5;
        *first = agree::group("db", 1 + other % 5, (other / 5).is_multiple_of(2), (other / 10).is_multiple_of(3));
    }
    // In one life of six users replace the pods of a changed template; otherwise that is the operator's work, in one life of four in batches.
    let batch = match (seed % 11, seed % 13) {
        (0 | 1, _) => Batch::None,
        (_, 3 | 4) => Batch::Zone,
        (_, 5 | 6) => Batch::All,
        _ => Batch::Member,
    };
    for group in &mut groups {
        group.spec.update.batch = batch;
        // In one life of six the first member with a changed template is watched, and in one of six a ConfigMap names the members.
        group.spec.update.canary_seconds = if seed % 17 < 3 { 20 } else { 0 };
        // In one of three a template that does not work is given up after a short time.
        if seed % 41 < 14 {
            (group.spec.update.on_failure, group.spec.update.timeout_seconds) = (OnFailure::RollBack, 20);
        }
        // In one of three updates are announced, and their ends.
        if seed % 43 < 14 {
            let commands = &mut group.spec.commands;
            (commands.before_update, commands.after_update) = (Some(told("beforeUpdate")), Some(told("afterUpdate")));
        }
        // In one of three nobody's pod goes before all have said that they are prepared.
        group.spec.commands.prepared = (seed % 53 < 18).then(|| told("prepared"));
        group.spec.cluster_state = (seed % 19 < 3).then(names);
        // Where members agree, in one of three the data of those that left is removed.
        if group.spec.commands.wipe.is_some() && seed % 61 < 20 {
            group.spec.scaling.volumes = RemovedVolumes::Wipe;
        }
        group.spec.volume_claim_templates = vec![volume()];
        if makes_pods(seed) {
            pods_by_operator(group);
            replaced(seed, group);
            // Of these in one of three the members are divided among zones from the beginning, in some of them with a name that no node has.
            match seed % 37 {
                0..9 => users::divide(group, users::TWO_ZONES),
                9..12 => users::divide(group, &[("zone-a", None), (users::NOWHERE, None)]),
                _ => {}
            }
        }
    }
    groups.iter_mut().for_each(|group| versioned(seed, group));
    groups.extend(is_passive(seed).then(|| web(seed, batch)));
    groups
}

/// Whether a group of the life of that seed is active/passive: one in six.
fn is_passive(seed: u64) -> bool {
    seed % 47 < 8
}

/// In one life of five the application of a group has versions that differ in the form of their data: of these in one of three a primary converts it while it serves.
fn versioned(seed: u64, group: &mut ReplicaGroup) {
    if seed % 59 >= 12 {
        return;
    }
    group.spec.version = Some("1".into());
    group.spec.commands.upgrade = Some(told("upgrade"));
    let agree = group.spec.commands.member_list.is_some();
    let update = &mut group.spec.update;
    update.on_failure = OnFailure::Wait;
    update.upgrade_on = if agree || seed % 59 < 4 { UpgradeOn::Primary } else { UpgradeOn::StoppedMember };
    update.batch = if update.batch == Batch::None { Batch::Member } else { update.batch };
    if update.upgrade_on == UpgradeOn::StoppedMember {
        update.strategy = Strategy::Recreate;
    }
}

/// The active/passive group of a life.
fn web(seed: u64, batch: Batch) -> ReplicaGroup {
    let mut group = passive("web", 1 + seed % 3);
    let update = &mut group.spec.update;
    (update.batch, update.canary_seconds) = (batch, if seed % 17 < 3 { 20 } else { 0 });
    if seed % 41 < 14 {
        (update.on_failure, update.timeout_seconds) = (OnFailure::RollBack, 20);
    }
    group.spec.volume_claim_templates = vec![volume()];
    if makes_pods(seed) {
        pods_by_operator(&mut group);
    }
    group
}

/// Whether the operator makes the pods of that life itself: in one life of four.
#[must_use]
pub fn makes_pods(seed: u64) -> bool {
    seed % 23 < 6
}

/// Lets the operator make the pods of a group itself.
pub fn pods_by_operator(group: &mut ReplicaGroup) {
    group.spec.members.kind = MembersKind::Pods;
    group.spec.volume_claim_templates = vec![volume()];
}

/// Of the lives in which the operator makes the pods, in one of three a changed template brings new members in the place of all, in one of six in the place of primaries; one at a time, or two. In one of four
/// they come side by side, if the members do not agree.
fn replaced(seed: u64, group: &mut ReplicaGroup) {
    let agree = group.spec.commands.member_list.is_some();
    let update = &mut group.spec.update;
    update.strategy = match seed % 29 {
        0..=9 => Strategy::Replace,
        10..=14 => Strategy::ReplacePrimaries,
        15..=21 if !agree => Strategy::SideBySide,
        _ => Strategy::Recreate,
    };
    update.cut_over = if seed % 7 < 2 { CutOver::One } else { CutOver::All };
    update.max_concurrent_replacements = if seed % 31 < 10 { 2 } else { 1 };
    // With faults two commands in a row fail soon.
    group.spec.members.replace_after_failures = if seed % 67 < 22 { 2 } else { 0 };
}

/// The volume of each member; the simulated StatefulSet makes one of the same name.
fn volume() -> ClaimTemplate {
    let claim = serde_json::json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    serde_json::from_value(claim).unwrap_or_else(|error| unreachable!("the text above is a claim: {error}"))
}

/// A command that is told of members.
fn told(name: &str) -> Command {
    Command { exec: vec![name.to_owned()], container: None, timeout_seconds: Some(10) }
}

/// A ConfigMap that names the members.
fn names() -> ClusterState {
    let key = StateKey { name: "MEMBERS".into(), value: None, each: Some("$(NAME)".into()), separator: ",".into() };
    ClusterState { name: None, data: vec![key] }
}

/// The groups of the life of that seed, all of them registers: one in three has a group with two primaries, and one in four a second group.
#[must_use]
pub fn registers(seed: u64) -> Vec<ReplicaGroup> {
    let primaries = if seed.is_multiple_of(3) { 2 } else { 1 };
    let mut groups = vec![group("db", (1 + seed % 4).max(primaries), primaries)];
    if seed % 7 == 5 {
        groups.iter_mut().for_each(|group| group.spec.failover.prefer_running = true);
    }
    if seed.is_multiple_of(4) {
        groups.push(group("queue", 3, 1));
    }
    groups
}

/// How the application of the first group replicates. Of seven lives with one primary, one has an application that waits for nobody, and one has an application of
/// which the group knows that its running secondaries have every acknowledged write (`spec.failover.preferRunning`).
pub(super) fn replication(seed: u64) -> Replication {
    let is_alone = groups(seed).iter().all(|group| group.spec.primaries == Primaries::Count(1));
    if seed % 7 == 3 && is_alone { Replication::Asynchronous } else { Replication::Synchronous }
}
