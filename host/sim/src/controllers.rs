//! What the controller of StatefulSets does, and one step of everything that is not the operator.
use crate::agree;
use crate::app::Disk;
use crate::kubelet::{self, ENDS};
use crate::shared::Shared;
use crate::world::{NAMESPACE, State, World};
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimStatus, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;
use tanist_api::spec::MembersKind;
use tanist_api::{ANNOTATION_POD_REVISION, ReplicaGroup};
use tanist_cluster::cluster::Kind;
use tanist_core::record::{Seats, Wanted, Zone};
use tanist_core::roster;

/// How often they look.
const TICK: Duration = Duration::from_millis(200);

/// The same while nothing happens any more.
const SELDOM: Duration = Duration::from_secs(5);

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
        kubelet::step(state, &pod);
    }
    bury(state);
    collect(state);
    let agreeing: Vec<String> = state.agreements.keys().cloned().collect();
    agreeing.iter().for_each(|group| agree::refresh(state, group));
}

/// Whether the garbage collector is about to delete the pod, because its group was deleted. A deletion that was on its way may come first.
#[must_use]
pub fn goes_with_its_group(state: &State, pod: &str) -> bool {
    let owners = state.pods.get(pod).and_then(|pod| pod.metadata.owner_references.as_ref());
    let lives = |uid: &String| {
        let of_group =
            |set: &StatefulSet| set.metadata.owner_references.iter().flatten().any(|owner| is_group(state, &owner.uid));
        is_group(state, uid) || state.sets.values().any(|set| set.metadata.uid.as_ref() == Some(uid) && of_group(set))
    };
    owners.is_some_and(|owners| owners.iter().all(|owner| !lives(&owner.uid)))
}

fn is_group(state: &State, uid: &str) -> bool {
    state.groups.values().any(|group| group.metadata.uid.as_deref() == Some(uid))
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
