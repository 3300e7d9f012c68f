//! What the controller of StatefulSets, the scheduler and the kubelets do, one step of all of them at a time.
use crate::agree;
use crate::app::{App, Disk};
use crate::runner::Tokens;
use crate::shared::Shared;
use crate::strikes::users::WRONG_IMAGE;
use crate::world::{Machine, NAMESPACE, State, World};
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateWaiting, ContainerStatus, PersistentVolumeClaim,
    PersistentVolumeClaimStatus, Pod, PodCondition, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tanist_api::spec::MembersKind;
use tanist_api::{ANNOTATION_POD_REVISION, GATE_MEMBER, ReplicaGroup};
use tanist_cluster::cluster::Kind;
use tanist_core::contract::Role;
use tanist_core::record::{Seats, Wanted, Zone};
use tanist_core::roster;

/// How often they look.
const TICK: Duration = Duration::from_millis(200);

/// The same while nothing happens any more.
const SELDOM: Duration = Duration::from_secs(5);

/// Seconds from a pod's creation until its container runs.
const STARTS: i64 = 2;

/// Seconds from SIGTERM until the container has ended, if the application stops in time.
const ENDS: i64 = 2;

/// Runs them for ever.
pub async fn run(world: World) {
    loop {
        let pause = {
            let mut state = world.lock();
            step(&mut state);
            if state.is_at_rest { SELDOM } else { TICK }
        };
        tokio::time::sleep(pause).await;
    }
}

/// One step of all of them.
pub fn step(state: &mut State) {
    let sets: Vec<String> = state.sets.keys().cloned().collect();
    for set in sets {
        manage(state, &set);
    }
    let pods: Vec<String> = state.pods.keys().cloned().collect();
    for pod in pods {
        kubelet(state, &pod);
    }
    bury(state);
    collect(state);
    let agreeing: Vec<String> = state.agreements.keys().cloned().collect();
    agreeing.iter().for_each(|group| agree::refresh(state, group));
}

/// Deletes what belongs to owners that are gone, as the garbage collector does after a while; then what belonged to that.
fn collect(state: &mut State) {
    let now = state.now;
    let due: Vec<String> = state.gone_owners.iter().filter(|(_, at)| now >= **at).map(|(uid, _)| uid.clone()).collect();
    for owner in due {
        state.gone_owners.remove(&owner);
        let owned = |meta: &ObjectMeta| meta.owner_references.iter().flatten().any(|of| of.uid == owner);
        let sets: Vec<String> =
            state.sets.values().filter(|set| owned(&set.metadata)).map(ResourceExt::name_any).collect();
        let pods: Vec<String> =
            state.pods.values().filter(|pod| owned(&pod.metadata)).map(ResourceExt::name_any).collect();
        // What has another owner loses only the reference.
        let groups: BTreeSet<String> = state.groups.values().filter_map(ResourceExt::uid).collect();
        let (shared, pods): (Vec<String>, Vec<String>) = pods.into_iter().partition(|pod| {
            let owners = state.pods.get(pod).into_iter().flat_map(|pod| pod.metadata.owner_references.iter().flatten());
            owners.filter(|of| of.uid != owner).any(|of| groups.contains(&of.uid))
        });
        for name in shared {
            let Some(mut pod) = state.pods.get(&name).cloned() else { continue };
            pod.metadata.owner_references.iter_mut().for_each(|owners| owners.retain(|of| of.uid != owner));
            state.stamp(&mut pod.metadata);
            state.pods.insert(name, pod);
        }
        let is_owned = |(_, object): &(&(Kind, String), &Shared<DynamicObject>)| owned(&object.metadata);
        let plain: Vec<(Kind, String)> = state.plain.iter().filter(is_owned).map(|(key, _)| key.clone()).collect();
        for name in sets {
            state.managers.remove(&(Kind::Set, name.clone()));
            let uid = state.sets.remove(&name).and_then(|set| set.uid()).unwrap_or_default();
            state.gone_owners.insert(uid, now.saturating_add(1));
            state.say(format!("StatefulSet {name} is deleted with its group"));
            state.tell();
        }
        state.templates.retain(|_, kept| !owned(&kept.metadata));
        for key in plain {
            state.plain.remove(&key);
            state.managers.remove(&key);
            state.tell();
        }
        pods.iter().for_each(|pod| delete(state, pod));
    }
}

/// Ends containers whose pods were deleted at once, on nodes that hear of it. On the others they go on.
fn bury(state: &mut State) {
    let there: BTreeSet<String> = state.pods.values().filter_map(ResourceExt::uid).collect();
    let orphans =
        state.machines.iter().filter(|(uid, machine)| !there.contains(*uid) && state.has_kubelet(&machine.node));
    for uid in orphans.map(|(uid, _)| uid.clone()).collect::<Vec<_>>() {
        let now = state.now;
        let Some(machine) = state.machines.get_mut(&uid) else { continue };
        let since = *machine.ending.get_or_insert(now);
        // The application serves until it has ended.
        (machine.busy, machine.expects_running) = (None, false);
        if now >= since.saturating_add(ENDS) {
            state.machines.remove(&uid);
        }
    }
}

/// Brings the pods of a set to its size.
fn manage(state: &mut State, name: &str) {
    let Some(set) = state.sets.get(name) else { return };
    let Some(spec) = &set.spec else { return };
    let wanted = u32::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
    let replicas = i32::try_from(wanted).unwrap_or(i32::MAX);
    let known = set.status.as_ref().map(|status| (status.observed_generation, status.replicas));
    let is_known = known == Some((set.metadata.generation, replicas));
    let missing = (0..wanted).map(|ordinal| format!("{name}-{ordinal}")).filter(|pod| !state.pods.contains_key(pod));
    let missing: Vec<_> = missing.collect();
    // Objects are large, and this is looked at five times a second: they are copied only when something is to be done.
    let set = (!missing.is_empty() || !is_known).then(|| set.clone());
    for (pod, set) in missing.iter().zip(set.iter().cycle()) {
        claim(state, set, pod);
        create(state, set, pod);
    }
    let uid = state.sets.get(name).and_then(ResourceExt::uid).unwrap_or_default();
    let surplus = state.pods.iter().filter_map(|(pod, object)| {
        let ordinal: u32 = pod.strip_prefix(name)?.strip_prefix('-')?.parse().ok()?;
        let mut owners = object.metadata.owner_references.iter().flatten();
        (ordinal >= wanted && owners.any(|owner| owner.uid == uid)).then(|| pod.clone())
    });
    for pod in surplus.collect::<Vec<_>>() {
        delete(state, &pod);
    }
    if let Some(mut set) = set.filter(|_| !is_known) {
        let seen = StatefulSetStatus {
            observed_generation: set.metadata.generation,
            update_revision: Some(revision(&set)),
            replicas,
            ..StatefulSetStatus::default()
        };
        set.status = Some(seen);
        state.stamp(&mut set.metadata);
        state.sets.insert(name.to_owned(), set);
    }
}

/// The members that are desired for good: those of a StatefulSet from 0 up, or of those that the record knows the first that are not to go: a user named them, or new members come in their place.
#[must_use]
pub fn desired(group: &ReplicaGroup) -> Vec<String> {
    let (name, replicas) = (group.name_any(), group.spec.replicas);
    let record = group.status.as_ref().and_then(|status| status.record.as_ref());
    let seats = record.and_then(|record| record.get("seats"));
    let of = |field: &str| seats.and_then(|seats| seats.get(field)?.as_array());
    let (numbers, leaving) = (of("numbers"), of("leaving"));
    let is_replaced =
        |number: &Value| seats.is_some_and(|seats| seats.pointer(&format!("/replaced/{number}")).is_some());
    // A group on its way has what its record says; without numbers it has a StatefulSet.
    if numbers.is_none() && (record.is_some() || group.spec.members.kind == MembersKind::StatefulSet) {
        return (0..replicas).map(|ordinal| format!("{name}-{ordinal}")).collect();
    }
    if let Some(staying) = seats.and_then(|seats| divided(group, seats)) {
        return staying;
    }
    let is_free = |number: &&Value| leaving.is_none_or(|all| !all.contains(number)) && !is_replaced(number);
    let staying = numbers.into_iter().flatten().filter(is_free);
    let members = staying.filter_map(Value::as_u64).map(|number| format!("{name}-{number}"));
    let stays = |member: &String| !group.spec.members.remove.contains(member);
    members.filter(stays).take(usize::try_from(replicas).unwrap_or(usize::MAX)).collect()
}

/// The members that are desired for good of a group that is divided among zones. That each zone has its share in the end is seen by the nodes (`oracles/whole.rs`).
fn divided(group: &ReplicaGroup, seats: &Value) -> Option<Vec<String>> {
    let name = group.name_any();
    let mut seats = seats_in_zones(group, seats)?;
    seats.replaced.clear();
    let stay = wanted(group, |wanted| seats.stay(wanted));
    Some(stay.into_iter().map(|number| format!("{name}-{number}")).collect())
}

/// Whether the member with that number is in a wrong zone.
#[must_use]
pub fn is_misplaced(group: &ReplicaGroup, seats: &Value, number: u64) -> bool {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    seats_in_zones(group, seats).is_some_and(|seats| wanted(group, |wanted| seats.is_misplaced(number, wanted)))
}

fn seats_in_zones(group: &ReplicaGroup, seats: &Value) -> Option<Seats> {
    serde_json::from_value(seats.clone()).ok().filter(|_| !group.spec.zones.list.is_empty())
}

fn wanted<T>(group: &ReplicaGroup, what: impl FnOnce(&Wanted<'_>) -> T) -> T {
    let (name, spec) = (group.name_any(), &group.spec);
    let zones: Vec<Zone> =
        spec.zones.list.iter().map(|zone| Zone { name: zone.name.clone(), replicas: zone.replicas }).collect();
    let unwanted = spec.members.remove.iter().filter_map(|member| roster::ordinal(&name, member)).collect();
    what(&Wanted { replicas: spec.replicas, unwanted: &unwanted, zones: &zones })
}

/// Whether that member is desired.
#[must_use]
pub fn is_desired(group: &ReplicaGroup, member: &str) -> bool {
    desired(group).iter().any(|desired| desired == member)
}

/// The revision of the pods that are made now.
#[must_use]
pub fn present_revision(state: &State, group: &str) -> Option<String> {
    let record = state.groups.get(group).and_then(|group| group.status.as_ref()?.record.as_ref());
    let has_numbers = record.is_some_and(|record| record.get("seats").is_some_and(Value::is_object));
    if let Some(set) = state.sets.get(group).filter(|_| !has_numbers) {
        return set.status.as_ref()?.update_revision.clone();
    }
    let service = state.plain.get(&(Kind::Service, group.to_owned()))?;
    service.annotations().get(ANNOTATION_POD_REVISION).cloned()
}

/// A name for the set's template.
fn revision(set: &StatefulSet) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    let template = set.spec.as_ref().map(|spec| &spec.template);
    serde_json::to_string(&template).unwrap_or_default().hash(&mut hasher);
    format!("{:x}", hasher.finish())
}

/// The name of the claim of a pod.
#[must_use]
pub fn claim_of(pod: &str) -> String {
    format!("data-{pod}")
}

fn claim(state: &mut State, set: &StatefulSet, pod: &str) {
    let name = claim_of(pod);
    if state.claims.contains_key(&name) {
        return;
    }
    let uid = state.birth("claim");
    let labels = set.spec.as_ref().and_then(|spec| spec.selector.match_labels.clone());
    let mut claim = PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(NAMESPACE.to_owned()),
            uid: Some(uid.clone()),
            labels,
            ..ObjectMeta::default()
        },
        status: Some(PersistentVolumeClaimStatus { phase: Some("Bound".into()), ..Default::default() }),
        ..PersistentVolumeClaim::default()
    };
    state.stamp(&mut claim.metadata);
    state.disks.insert(uid, Disk::default());
    state.claims.insert(name, claim.into());
}

fn create(state: &mut State, set: &StatefulSet, name: &str) {
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let meta = template.metadata.unwrap_or_default();
    let mut labels = meta.labels.unwrap_or_default();
    labels.insert("controller-revision-hash".into(), revision(set));
    let owner = OwnerReference {
        api_version: "apps/v1".into(),
        kind: "StatefulSet".into(),
        name: set.name_any(),
        uid: set.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let mut pod = Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            uid: Some(state.birth("pod")),
            creation_timestamp: Some(state.time()),
            labels: Some(labels),
            annotations: meta.annotations,
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: Some(PodStatus { phase: Some("Pending".into()), ..PodStatus::default() }),
    };
    state.stamp(&mut pod.metadata);
    state.pods.insert(name.to_owned(), pod.into());
    state.say(format!("{name} is created"));
}

/// Asks for the end of a pod, as the API server does: its kubelet ends it.
pub fn delete(state: &mut State, name: &str) {
    let Some(mut pod) = state.pods.get(name).cloned().filter(|pod| pod.metadata.deletion_timestamp.is_none()) else {
        return;
    };
    pod.metadata.deletion_timestamp = Some(state.time());
    state.stamp(&mut pod.metadata);
    state.pods.insert(name.to_owned(), pod);
    state.say(format!("{name} is being deleted"));
}

/// What the scheduler, and then the kubelet of its node, do with a pod.
fn kubelet(state: &mut State, name: &str) {
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
    let machine = Machine {
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
    };
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
