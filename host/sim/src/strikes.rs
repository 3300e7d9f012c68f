//! What happens to what runs: applications and nodes die, users delete and change things. And how all of it heals.
use crate::app::App;
use crate::controllers::{claim_of, delete};
use crate::faults::Fault;
use crate::world::{Machine, State, World};
use kube::ResourceExt;
use std::time::Duration;
use tanist_api::{LABEL_GROUP, ReplicaGroup};
use tanist_core::contract::Role;

/// How often something may happen.
const EVERY: Duration = Duration::from_secs(4);

/// The most members that a user asks for.
const MEMBERS: u64 = 4;

/// Harms what runs, for ever.
pub async fn run(world: World) {
    loop {
        tokio::time::sleep(EVERY).await;
        strike(&mut world.lock());
    }
}

fn strike(state: &mut State) {
    strike_group(state);
    let nodes: Vec<String> = state.nodes.keys().cloned().collect();
    for node in nodes {
        strike_node(state, &node);
    }
    let pods: Vec<String> = state.pods.keys().cloned().collect();
    let Some(pod) = pods.get(usize::try_from(state.dice(pods.len() as u64)).unwrap_or(0)).cloned() else { return };
    if state.happens(Fault::AppDies, 4) {
        change(state, &pod, "its application dies", |machine| machine.app = App::default());
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
        state.pods.remove(&pod);
        state.tell();
        state.say(format!("{pod} is deleted at once"));
    }
    if may_lose_its_volume(state, &pod) && state.happens(Fault::VolumeLost, 8) {
        state.claims.remove(&claim_of(&pod));
        state.say(format!("the claim of {pod} is deleted"));
        delete(state, &pod);
    }
}

fn strike_group(state: &mut State) {
    if state.happens(Fault::Resized, 12) {
        let members = u32::try_from(state.dice(MEMBERS + 1)).unwrap_or(1);
        edit(state, &format!("{members} members are asked for"), |group| group.spec.replicas = members);
    }
    if state.happens(Fault::Paused, 12) {
        edit(state, "the group is paused, or goes on", |group| group.spec.paused = !group.spec.paused);
    }
    if state.happens(Fault::StatusLost, 30) {
        edit(state, "the status is removed", |group| group.status = None);
    }
}

fn strike_node(state: &mut State, node: &str) {
    let is_up = state.is_up(node);
    if is_up && state.happens(Fault::NodeSilent, 24) {
        state.set_node(node, false);
    } else if !is_up && state.dice(5) == 0 {
        state.set_node(node, true);
    }
    let is_cordoned = state.is_cordoned(node);
    if is_cordoned && state.dice(10) == 0 {
        state.cordon(node, false);
    } else if !is_cordoned && state.happens(Fault::Cordoned, 48) {
        state.cordon(node, true);
    }
}

/// A user changes the group: it gets a new version, and a new generation too.
fn edit(state: &mut State, what: &str, change: impl FnOnce(&mut ReplicaGroup)) {
    let Some(mut group) = state.groups.values().next().cloned() else { return };
    change(&mut group);
    group.metadata.generation = group.metadata.generation.map(|generation| generation.saturating_add(1));
    state.stamp(&mut group.metadata);
    state.groups.insert(group.name_any(), group);
    state.tell();
    state.say(what);
}

/// Whether nothing that was acknowledged is lost with the member's volume: one other member leads and is reached.
fn may_lose_its_volume(state: &State, pod: &str) -> bool {
    let leaders: Vec<&Machine> = state.machines.values().filter(|machine| machine.app.role == Role::Primary).collect();
    let [leader] = leaders.as_slice() else { return false };
    leader.pod != pod && leader.ending.is_none() && state.is_up(&leader.node)
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
fn restart(state: &mut State, pod: &str) {
    let container = state.birth("container");
    change(state, pod, "its container starts anew", |machine| {
        (machine.app, machine.busy, machine.expects_running) = (App::default(), None, false);
        machine.container = container;
    });
}

/// A user takes the group's label from a pod, or puts it back.
fn label(state: &mut State, name: &str, is_there: bool) {
    let Some(group) = state.groups.keys().next().cloned() else { return };
    let Some(mut pod) = state.pods.get(name).cloned() else { return };
    if is_there == pod.labels().contains_key(LABEL_GROUP) {
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

/// Nothing goes wrong any more, and what can come back does.
pub fn heal(state: &mut State) {
    state.faults.kinds.clear();
    let nodes: Vec<String> = state.nodes.keys().cloned().collect();
    for node in nodes {
        if !state.is_up(&node) {
            state.set_node(&node, true);
        }
        if state.is_cordoned(&node) {
            state.cordon(&node, false);
        }
    }
    let pods: Vec<String> = state.pods.keys().cloned().collect();
    pods.iter().for_each(|pod| label(state, pod, true));
    let is_off = |group: &ReplicaGroup| group.spec.paused || group.spec.replicas == 0;
    if state.groups.values().any(is_off) {
        edit(state, "the group goes on", |group| {
            group.spec.paused = false;
            group.spec.replicas = group.spec.replicas.max(1);
        });
    }
    state.say("everything heals");
}
