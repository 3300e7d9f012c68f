//! What happens to what runs: applications and nodes die, users delete and change things. And how all of it heals. [`nodes`] has what happens to nodes, [`users`]
//! what users change.
pub mod nodes;
pub mod users;

use crate::agree;
use crate::app::App;
use crate::clients;
use crate::controllers::{claim_of, delete};
use crate::faults::Fault;
use crate::oracles;
use crate::shared::Shared;
use crate::world::{Machine, State, World};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use std::time::Duration;
use tanist_api::spec::Primaries;
use tanist_api::{ANNOTATION_RETRY, LABEL_GROUP, LABEL_ROLE, ReplicaGroup};
use tanist_core::contract::Role;

/// How often something may happen.
const EVERY: Duration = Duration::from_secs(4);

/// The most members that a user asks for.
const ALL: u32 = 4;

/// The same of a group whose members agree.
const ALL_AGREE: u32 = 5;

/// Harms what runs, for ever.
pub async fn run(world: World) {
    loop {
        tokio::time::sleep(EVERY).await;
        strike(&mut world.lock());
    }
}

fn strike(state: &mut State) {
    users::create_again(state);
    let groups: Vec<String> = state.groups.keys().cloned().collect();
    groups.iter().for_each(|group| strike_group(state, group));
    if state.happens(Fault::ApiDown, 20) {
        let until = state.now.saturating_add(i64::try_from(5 + state.roll(Fault::ApiDown, 35)).unwrap_or(5));
        // A longer time that has begun already goes on.
        let since = state.faults.away.filter(|(_, until)| state.now < *until).map_or(state.now, |(since, _)| since);
        state.faults.away = Some((since, until));
        state.say("the API server answers nobody");
    }
    nodes::strike(state);
    strike_pod(state);
}

fn strike_pod(state: &mut State) {
    let pods: Vec<String> = state.pods.keys().cloned().collect();
    let Some(pod) = pods.get(usize::try_from(state.dice(pods.len() as u64)).unwrap_or(0)).cloned() else { return };
    if state.happens(Fault::AppDies, 4) {
        die(state, &pod);
    }
    if state.happens(Fault::ContainerRestarts, 6) {
        restart(state, &pod);
    }
    if state.happens(Fault::LabelLost, 12) {
        label(state, &pod, false);
    }
    if state.happens(Fault::PodDeleted, 6) {
        delete(state, &pod);
    }
    if state.happens(Fault::PodForced, 8) {
        forget(state, &pod);
    }
    if state.happens(Fault::PodTouched, 4) {
        write_pod(state, &pod, |_| {});
    }
    if state.happens(Fault::RoleForged, 12) {
        state.say(format!("{pod} is labelled as a primary"));
        write_pod(state, &pod, |pod| drop(pod.labels_mut().insert(LABEL_ROLE.to_owned(), "primary".to_owned())));
        oracles::routes::forges(state, &pod);
    }
    if state.happens(Fault::ClaimUnmarked, 12) {
        unmark(state, &claim_of(&pod));
    }
    if may_lose_its_volume(state, &pod) && state.happens(Fault::VolumeLost, 8) {
        lose_volume(state, &pod);
    }
    if state.happens(Fault::VolumeDamaged, 8) {
        damage(state, &pod);
    }
    if users::may_start_by_hand(state, &pod) && state.happens(Fault::PrimaryByHand, 3) {
        users::start_by_hand(state, &pod);
    }
    if state.happens(Fault::LabelChanged, 12) {
        users::mislabel(state, &pod);
    }
    if state.happens(Fault::MemberFrozen, 8) {
        let time = 5 + state.roll(Fault::MemberFrozen, 40);
        freeze(state, &pod, time);
    }
    if state.faults.kinds.contains(&Fault::VolumeRestored) {
        users::copy_volume(state, &pod);
    }
    if state.copies.contains_key(&claim_of(&pod))
        && may_lose_its_volume(state, &pod)
        && state.happens(Fault::VolumeRestored, 4)
    {
        let keeps_notes = state.roll(Fault::VolumeRestored, 2) == 0;
        users::restore_volume(state, &pod, keeps_notes);
    }
}

/// What runs in a pod stands still for that many seconds. Its node reports all the same.
pub fn freeze(state: &mut State, pod: &str, seconds: u64) {
    let Some(uid) = state.pods.get(pod).and_then(|pod| pod.metadata.uid.clone()) else { return };
    let until = state.now.saturating_add(i64::try_from(seconds).unwrap_or(0));
    state.frozen.insert(uid, until);
    state.say(format!("{pod} stands still for {seconds} s"));
}

/// The application in a pod dies.
pub fn die(state: &mut State, pod: &str) {
    change(state, pod, "its application dies", |machine| machine.app = App::default());
}

/// A user deletes a pod at once: its object is gone.
pub fn forget(state: &mut State, pod: &str) {
    state.pods.remove(pod);
    state.tell();
    state.say(format!("{pod} is deleted at once"));
}

/// The kubelet evicts a pod: all of it has ended, and its object stays.
pub fn evict(state: &mut State, name: &str) {
    let Some(mut pod) = state.pods.get(name).cloned() else { return };
    state.machines.remove(&pod.metadata.uid.clone().unwrap_or_default());
    let status = pod.status.get_or_insert_default();
    status.phase = Some("Failed".into());
    status.container_statuses = None;
    status.conditions = None;
    state.stamp(&mut pod.metadata);
    state.pods.insert(name.to_owned(), pod);
    state.tell();
    state.say(format!("{name} is evicted"));
}

/// A user deletes a pod and its claim.
pub fn lose_volume(state: &mut State, pod: &str) {
    state.claims.remove(&claim_of(pod));
    state.say(format!("the claim of {pod} is deleted"));
    delete(state, pod);
}

/// The volume of a pod is damaged: its application dies, and nothing starts on it again until it is repaired.
pub fn damage(state: &mut State, pod: &str) {
    let claim = state.claims.get(&claim_of(pod)).and_then(ResourceExt::uid);
    let Some(disk) = claim.and_then(|uid| state.disks.get_mut(&uid)) else { return };
    disk.is_damaged = true;
    state.say(format!("the volume of {pod} is damaged"));
    die(state, pod);
}

/// Every damaged volume is repaired. The pauses grew meanwhile, up to 5 minutes: whoever repairs it says `tanist retry`.
pub fn repair(state: &mut State) {
    let mut is_repaired = false;
    for disk in state.disks.values_mut() {
        is_repaired |= std::mem::take(&mut disk.is_damaged);
    }
    if is_repaired {
        let groups: Vec<String> = state.groups.keys().cloned().collect();
        groups.iter().for_each(|group| retry(state, group));
    }
}

fn strike_group(state: &mut State, name: &str) {
    if state.agreements.contains_key(name) {
        // Where members agree, that is what is most dangerous, and users change their minds while it goes on.
        if state.happens(Fault::Resized, 7) {
            let asked = u32::try_from(state.roll(Fault::Resized, u64::from(ALL_AGREE) + 1)).unwrap_or(1);
            edit(state, name, &format!("{asked} members are asked for"), |group| group.spec.replicas = asked);
        }
    } else if state.happens(Fault::Resized, 12) {
        let asked = u32::try_from(state.roll(Fault::Resized, u64::from(ALL) + 1)).unwrap_or(1);
        edit(state, name, &format!("{asked} members are asked for"), |group| {
            // The API server refuses fewer members than primaries, but for none. After none all come back: the most recent data may be on any volume.
            group.spec.replicas = match (asked, group.spec.replicas) {
                (0, _) => 0,
                (_, 0) => ALL,
                _ => asked.max(least(group)),
            };
        });
    }
    if state.happens(Fault::Paused, 12) {
        edit(state, name, "it is paused, or goes on", |group| group.spec.paused = !group.spec.paused);
    }
    if state.happens(Fault::StatusLost, 30) {
        edit(state, name, "its status is removed", |group| group.status = None);
    }
    // Members that agree choose who of them leads.
    if !state.agreements.contains_key(name) && state.happens(Fault::Preferred, 12) {
        let member = format!("{name}-{}", state.roll(Fault::Preferred, 4));
        edit(state, name, &format!("{member} is to lead, or nobody"), |group| {
            let preferred = &mut group.spec.preferred_primary;
            *preferred = if preferred.is_none() { Some(member.clone()) } else { None };
        });
    }
    if state.happens(Fault::GroupTouched, 4)
        && let Some(mut group) = state.groups.get(name).cloned()
    {
        state.stamp(&mut group.metadata);
        state.groups.insert(name.to_owned(), group);
        state.tell();
    }
    if state.happens(Fault::SetScaled, 16) {
        scale(state, name);
    }
    users::strike(state, name);
    if state.happens(Fault::ServiceDeleted, 12) {
        let names: Vec<_> = state.plain.keys().cloned().collect();
        let chosen = usize::try_from(state.roll(Fault::ServiceDeleted, names.len() as u64)).unwrap_or(0);
        if let Some(key) = names.get(chosen) {
            state.plain.remove(key);
            state.managers.remove(key);
            state.say(format!("{} {} is deleted", key.0.word(), key.1));
            state.tell();
        }
    }
}

/// A user gives a set fewer members.
fn scale(state: &mut State, name: &str) {
    let Some(mut set) = state.sets.get(name).cloned() else { return };
    let spec = set.spec.get_or_insert_default();
    let now = spec.replicas.unwrap_or(1);
    let fewer = i32::try_from(state.roll(Fault::SetScaled, u64::try_from(now).unwrap_or(0))).unwrap_or(0);
    spec.replicas = Some(fewer);
    set.metadata.generation = set.metadata.generation.map(|generation| generation.saturating_add(1));
    state.stamp(&mut set.metadata);
    state.sets.insert(name.to_owned(), set);
    state.tell();
    state.say(format!("StatefulSet {name} gets {fewer} members instead of {now}"));
}

/// Somebody writes a pod.
fn write_pod(state: &mut State, name: &str, change: impl FnOnce(&mut Pod)) {
    let Some(mut pod) = state.pods.get(name).cloned() else { return };
    change(&mut pod);
    state.stamp(&mut pod.metadata);
    state.pods.insert(name.to_owned(), pod);
    state.tell();
}

/// A user takes the annotations from a claim.
fn unmark(state: &mut State, name: &str) {
    let Some(mut claim) = state.claims.get(name).cloned() else { return };
    claim.annotations_mut().clear();
    state.stamp(&mut claim.metadata);
    state.claims.insert(name.to_owned(), claim);
    state.tell();
    state.say(format!("claim {name} loses its annotations"));
}

/// How many members a group has at least, when it has any.
fn least(group: &ReplicaGroup) -> u32 {
    match group.spec.primaries {
        Primaries::Count(count) => count,
        Primaries::All => 1,
    }
}

/// A user changes the group: it gets a new version, and a new generation too.
pub fn edit(state: &mut State, name: &str, what: &str, change: impl FnOnce(&mut ReplicaGroup)) {
    let Some(mut group) = state.groups.get(name).cloned() else { return };
    clients::allow(state, name);
    change(&mut group);
    group.metadata.generation = group.metadata.generation.map(|generation| generation.saturating_add(1));
    state.stamp(&mut group.metadata);
    state.groups.insert(group.name_any(), group);
    state.tell();
    oracles::treats::forgives(state, name);
    state.say(format!("group {name}: {what}"));
}

/// Whether nothing that was acknowledged is lost with the member's volume: others lead and are reached.
fn may_lose_its_volume(state: &State, pod: &str) -> bool {
    let Some(group) = state.pods.get(pod).map(|pod| group_of(pod)) else { return false };
    if state.agreements.contains_key(&group) {
        return agree::may_lose_its_volume(state, &group, pod);
    }
    let leads = |machine: &&Machine| machine.group == group && machine.app.role == Role::Primary;
    let leaders: Vec<&Machine> = state.machines.values().filter(leads).collect();
    let reached = |leader: &&Machine| leader.pod != pod && leader.ending.is_none() && state.is_up(&leader.node);
    !leaders.is_empty() && leaders.iter().all(reached)
}

fn change(state: &mut State, pod: &str, what: &str, change: impl FnOnce(&mut Machine)) {
    let uid = state.pods.get(pod).and_then(|pod| pod.metadata.uid.clone()).unwrap_or_default();
    let Some(machine) = state.machines.get_mut(&uid).filter(|machine| machine.ending.is_none()) else { return };
    let was = machine.app.role;
    change(machine);
    if was != Role::Stopped || machine.busy.is_none() {
        state.say(format!("{pod}: {what}"));
    }
}

/// A container ends and starts anew: what ran is interrupted, and the application is stopped.
pub fn restart(state: &mut State, pod: &str) {
    let container = state.birth("container");
    change(state, pod, "its container starts anew", |machine| {
        machine.begin();
        machine.container = container;
    });
}

/// The group of a pod: the name of the set that owns it.
pub fn group_of(pod: &Pod) -> String {
    pod.owner_references().first().map(|owner| owner.name.clone()).unwrap_or_default()
}

/// A user takes the group's label from a pod, or puts it back.
pub fn label(state: &mut State, name: &str, is_there: bool) {
    let Some(mut pod) = state.pods.get(name).cloned() else { return };
    let group = group_of(&pod);
    let known = pod.labels().get(LABEL_GROUP);
    if if is_there { known == Some(&group) } else { known.is_none() } {
        return;
    }
    match is_there {
        true => drop(pod.labels_mut().insert(LABEL_GROUP.to_owned(), group)),
        false => drop(pod.labels_mut().remove(LABEL_GROUP)),
    }
    state.stamp(&mut pod.metadata);
    state.pods.insert(name.to_owned(), pod);
    state.tell();
    state.say(format!("{name} {} its label", if is_there { "gets back" } else { "loses" }));
}

/// An administrator clears the back-offs of a group. The annotation gives it a new version, and no new generation.
fn retry(state: &mut State, name: &str) {
    let (Some(mut group), at) = (state.groups.get(name).cloned(), state.now) else { return };
    group.annotations_mut().insert(ANNOTATION_RETRY.to_owned(), at.to_string());
    state.stamp(&mut group.metadata);
    state.groups.insert(name.to_owned(), group);
    state.tell();
    oracles::treats::forgives(state, name);
    state.say(format!("group {name}: what failed is to be tried again"));
}

/// Nothing goes wrong any more, and what can come back does. Nodes that stay away come back later: [`nodes::return_all`].
pub fn heal(state: &mut State) {
    state.faults.kinds.clear();
    state.faults.away = None;
    if state.guarded.take().is_some() {
        // Pauses grew while the webhook refused, up to 5 minutes: whoever repairs it says `tanist retry`.
        let groups: Vec<String> = state.groups.keys().cloned().collect();
        groups.iter().for_each(|group| retry(state, group));
    }
    state.frozen.clear();
    repair(state);
    users::create_again(state);
    nodes::heal(state);
    let pods: Vec<String> = state.pods.keys().cloned().collect();
    pods.iter().for_each(|pod| label(state, pod, true));
    users::correct_zones(state);
    users::correct_images(state);
    let is_off = |group: &&Shared<ReplicaGroup>| group.spec.paused || group.spec.replicas == 0;
    let off: Vec<String> = state.groups.values().filter(is_off).map(ResourceExt::name_any).collect();
    for group in off {
        edit(state, &group, "it goes on", |group| {
            group.spec.paused = false;
            group.spec.replicas = if group.spec.replicas == 0 { ALL } else { group.spec.replicas };
        });
    }
    state.say("everything heals");
}
