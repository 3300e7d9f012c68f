//! What the scheduler, and then the kubelet of its node, do with a pod, one step at a time.
use crate::app::App;
use crate::controllers::claim_of;
use crate::oracles::versions;
use crate::runner::Tokens;
use crate::shared::Shared;
use crate::strikes;
use crate::strikes::users::WRONG_IMAGE;
use crate::world::{Machine, State};
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateWaiting, ContainerStatus, Pod, PodCondition, PodStatus,
};
use kube::ResourceExt;
use std::collections::BTreeMap;
use tanist_api::GATE_MEMBER;
use tanist_core::contract::Role;

/// Seconds from a pod's creation until its container runs.
const STARTS: i64 = 2;

/// Seconds from SIGTERM until the container has ended, if the application stops in time.
pub const ENDS: i64 = 2;

/// Every so many seconds the container of an active/passive member whose application died is started anew.
const REVIVES: i64 = 16;

/// What the scheduler, and then the kubelet of its node, do with a pod.
pub fn step(state: &mut State, name: &str) {
    let Some(pod) = state.pods.get(name) else { return };
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    if pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Failed")) {
        if pod.metadata.deletion_timestamp.is_some() {
            finish(state, name, &uid);
        }
        return;
    }
    let Some(machine) = state.machines.get(&uid) else { return start(state, name) };
    if !state.has_kubelet(&machine.node) {
        return;
    }
    if pod.metadata.deletion_timestamp.is_none() {
        // The liveness probe of the user fails for some time.
        if machine.is_passive && machine.app.role == Role::Stopped && state.now % REVIVES == 0 {
            return strikes::restart(state, name);
        }
        if !is_shown(pod, machine) {
            let (pod, machine) = (pod.clone(), machine.clone());
            report(state, name, pod, &machine);
        }
        return;
    }
    match machine.ending {
        None => {
            if let Some(machine) = state.machines.get_mut(&uid) {
                machine.ending = Some(state.now);
                (machine.app, machine.busy, machine.expects_running) = (App::default(), None, false);
            }
        }
        Some(since) if state.now >= since.saturating_add(ENDS) => finish(state, name, &uid),
        Some(_) => {}
    }
}

/// The containers have ended: the last status says so, then the object goes.
fn finish(state: &mut State, name: &str, uid: &str) {
    state.machines.remove(uid);
    let Some(mut pod) = state.pods.remove(name) else { return };
    if let Some(status) = &mut pod.status {
        status.phase = Some("Succeeded".into());
        status.container_statuses = None;
    }
    state.stamp(&mut pod.metadata);
    let now = state.now;
    state.ended.push((now, pod));
    state.tell();
    state.say(format!("{name} is gone"));
}

/// The first node that is up and has no other member, else any that is up; of those on which the pod may run.
fn schedule(state: &State, name: &str) -> Option<String> {
    let allowed = |node: &&String| state.pods.get(name).is_some_and(|pod| may_run_on(state, pod, node));
    let taken: Vec<&str> = state.pods.values().filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref()).collect();
    let up = || state.nodes.keys().filter(|node| state.is_up(node) && !state.is_cordoned(node)).filter(allowed);
    let own = name.rsplit_once('-').map(|(_, ordinal)| format!("n{ordinal}"));
    let free = |node: &&String| !taken.contains(&node.as_str());
    up().find(|node| Some(*node) == own.as_ref() && free(node))
        .or_else(|| up().find(free))
        .or_else(|| up().next())
        .cloned()
}

/// Whether the node has the labels that the pod requires.
fn may_run_on(state: &State, pod: &Pod, node: &str) -> bool {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()?.node_affinity.as_ref());
    let required = affinity.and_then(|own| own.required_during_scheduling_ignored_during_execution.as_ref());
    let Some(required) = required else { return true };
    let labels = state.nodes.get(node).map(|node| node.labels().clone()).unwrap_or_default();
    required.node_selector_terms.iter().any(|term| {
        let mut wanted = term.match_expressions.iter().flatten();
        wanted.all(|want| labels.get(&want.key).is_some_and(|is| want.values.iter().flatten().any(|one| one == is)))
    })
}

fn start(state: &mut State, name: &str) {
    let Some(pod) = state.pods.get(name) else { return };
    let created = pod.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
    if pod.metadata.deletion_timestamp.is_some() {
        // Nothing of it ever ran.
        state.pods.remove(name);
        return;
    }
    if state.now < created.saturating_add(STARTS) {
        return;
    }
    if !state.claims.contains_key(&claim_of(name)) {
        // It waits for its volume.
        return;
    }
    let bound = state.pods.get(name).and_then(|pod| pod.spec.as_ref()?.node_name.clone());
    let Some(node) = bound.or_else(|| schedule(state, name)) else { return };
    let Some(mut pod) = state.pods.get(name).cloned() else { return };
    if lacks_its_image(&pod) {
        return wait_for_image(state, name, pod, node);
    }
    // A set has the name of its group.
    let group = pod.owner_references().first().map(|owner| owner.name.clone()).unwrap_or_default();
    let is_passive = state.passive.contains(&group);
    let mut machine = Machine {
        group,
        pod: name.to_owned(),
        node: node.clone(),
        claim: state.claims.get(&claim_of(name)).and_then(ResourceExt::uid).unwrap_or_default(),
        container: state.birth("container"),
        tokens: Tokens::default(),
        busy: None,
        expects_running: false,
        app: App::default(),
        ending: None,
        is_passive,
        programs: versions::programs(&pod),
    };
    machine.begin();
    if let Some(spec) = &mut pod.spec {
        spec.node_name = Some(node);
    }
    state.machines.insert(pod.uid().unwrap_or_default(), machine.clone());
    state.pods.insert(name.to_owned(), pod.clone());
    report(state, name, pod, &machine);
}

/// Whether the image of a pod does not exist.
pub fn lacks_its_image(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.into_iter().any(|container| container.image.as_deref() == Some(WRONG_IMAGE))
}

/// The kubelet has the pod, and its container waits for ever.
fn wait_for_image(state: &mut State, name: &str, mut pod: Shared<Pod>, node: String) {
    if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) {
        return;
    }
    let why = ContainerStateWaiting {
        reason: Some("ImagePullBackOff".to_owned()),
        message: Some(format!("the image {WRONG_IMAGE} was not found")),
    };
    let container = ContainerStatus {
        name: container_of(&pod),
        state: Some(ContainerState { waiting: Some(why), ..ContainerState::default() }),
        ..ContainerStatus::default()
    };
    pod.status.get_or_insert_default().container_statuses = Some(vec![container]);
    if let Some(spec) = &mut pod.spec {
        spec.node_name = Some(node);
    }
    state.stamp(&mut pod.metadata);
    state.pods.insert(name.to_owned(), pod);
    state.say(format!("{name} waits for its image"));
    state.tell();
}

fn is_ready(machine: &Machine) -> bool {
    machine.expects_running && matches!(machine.app.role, Role::Primary | Role::Secondary)
}

/// Whether the status of a pod shows what runs: then it need not be written.
fn is_shown(pod: &Pod, machine: &Machine) -> bool {
    let Some(status) = &pod.status else { return false };
    let container = status.container_statuses.iter().flatten().next();
    let holds = |kind: &str| status.conditions.iter().flatten().find(|c| c.type_ == kind).map(|c| c.status == "True");
    let (ready, gate) = (is_ready(machine), holds(GATE_MEMBER) == Some(true));
    status.phase.as_deref() == Some("Running")
        && container.is_some_and(|c| c.ready == ready && c.container_id.as_ref() == Some(&machine.container))
        && holds("ContainersReady") == Some(ready)
        && holds("Ready") == Some(ready && gate)
}

/// Writes the status of a pod that runs, if it changed.
fn report(state: &mut State, name: &str, mut pod: Shared<Pod>, machine: &Machine) {
    let ready = is_ready(machine);
    let before = pod.status.clone().unwrap_or_default();
    let container = ContainerStatus {
        name: container_of(&pod),
        container_id: Some(machine.container.clone()),
        ready,
        state: Some(ContainerState {
            running: Some(ContainerStateRunning { started_at: None }),
            ..ContainerState::default()
        }),
        ..ContainerStatus::default()
    };
    let mut conditions: BTreeMap<String, PodCondition> =
        before.conditions.iter().flatten().map(|c| (c.type_.clone(), c.clone())).collect();
    let gate = conditions.get(GATE_MEMBER).is_some_and(|c| c.status == "True");
    let now = state.time();
    for (kind, holds) in [("ContainersReady", ready), ("Ready", ready && gate)] {
        let word = if holds { "True" } else { "False" };
        let condition = conditions
            .entry(kind.to_owned())
            .or_insert_with(|| PodCondition { type_: kind.to_owned(), ..PodCondition::default() });
        if condition.status != word {
            (condition.status, condition.last_transition_time) = (word.to_owned(), Some(now.clone()));
        }
    }
    let after = PodStatus {
        phase: Some("Running".into()),
        container_statuses: Some(vec![container]),
        conditions: Some(conditions.into_values().collect()),
        ..before.clone()
    };
    if after != before {
        pod.status = Some(after);
        state.stamp(&mut pod.metadata);
        state.pods.insert(name.to_owned(), pod);
    }
}

fn container_of(pod: &Pod) -> String {
    let first = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    first.map(|container| container.name.clone()).unwrap_or_default()
}
