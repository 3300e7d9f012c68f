//! What a write does to the world, if the world is as the write says.
use crate::app::Disk;
use crate::controllers::delete;
use crate::oracles;
use crate::shared::Shared;
use crate::strikes::group_of;
use crate::world::{NAMESPACE, State};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimStatus, Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use kube::core::{DynamicObject, ObjectMeta};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tanist_api::{ANNOTATION_APPLIED, ANNOTATION_NUDGE, GATE_MEMBER, LABEL_ROLE, ReplicaGroup};
use tanist_cluster::cluster::{Error, Fence, Kind, Object, Write};
use tanist_cluster::observe::convert::CLAIM_START;

fn refused(code: u16, reason: &str, message: &str) -> Error {
    Error::Answered { code, reason: reason.to_owned(), message: message.to_owned() }
}

fn conflict() -> Error {
    refused(409, "Conflict", "the object was changed")
}

fn not_found() -> Error {
    refused(404, "NotFound", "there is no such object")
}

/// The object has the UID and the version that are named, as far as they are.
fn held(meta: &ObjectMeta, uid: Option<&str>, version: Option<&str>) -> Result<(), Error> {
    let same_uid = uid.is_none_or(|uid| meta.uid.as_deref() == Some(uid));
    let same_version = version.is_none_or(|version| meta.resource_version.as_deref() == Some(version));
    if same_uid && same_version { Ok(()) } else { Err(conflict()) }
}

/// Takes an object out of the world if it is the one that is meant; who changes it puts it back.
fn fenced<K: Clone + ResourceExt>(objects: &BTreeMap<String, K>, fence: &Fence) -> Result<K, Error> {
    let object = objects.get(&fence.name).ok_or_else(not_found)?;
    held(object.meta(), Some(&fence.uid), fence.version.as_deref())?;
    Ok(object.clone())
}

/// The write as users would call it.
pub fn word(write: &Write) -> &'static str {
    match write {
        Write::Status(_) => "a status is written",
        Write::Apply { .. } => "an object is applied",
        Write::Create { dry_run: true, .. } => "a pod is tried",
        Write::Create { kind: Kind::Pod, .. } => "a pod is made",
        Write::Create { .. } => "a claim is made",
        Write::Label { .. } => "a role is written",
        Write::Gate { .. } => "readiness is written",
        Write::Mark { notes, .. } if notes.contains_key(CLAIM_START) => "a start is noted",
        Write::Mark { .. } => "memory is written",
        Write::Grow { .. } => "a claim asks for more",
        Write::Adopt { .. } => "a pod changes its owner",
        Write::DropSet { .. } => "a set is deleted",
        Write::Nudge { .. } => "a set is touched",
        Write::Scale { .. } => "a set shrinks",
        Write::Delete { .. } => "a pod is deleted",
        Write::Discard { .. } => "a claim is deleted",
        Write::Forget { .. } => "a former template is deleted",
    }
}

/// The memory in the annotations of a claim.
pub const MEMORY: &str = "memory is written";

/// The kinds of writes of which a webhook may refuse one.
pub const GUARDED: [&str; 7] = [
    "a status is written",
    "an object is applied",
    "a role is written",
    "readiness is written",
    MEMORY,
    "a set shrinks",
    "a pod is deleted",
];

/// Which of [`GUARDED`] a write is, if any: a webhook cannot tell the writes of claims apart.
fn what_is_guarded(write: &Write) -> &'static str {
    if matches!(write, Write::Mark { .. }) { MEMORY } else { word(write) }
}

/// Carries out a write, and judges it.
pub fn carry_out(state: &mut State, write: Write) -> Result<Option<Object>, Error> {
    if state.guarded.is_some_and(|guarded| guarded == what_is_guarded(&write)) {
        let message = "admission webhook \"guard.example.com\" denied the request";
        return Err(refused(403, "Forbidden", message));
    }
    let (what, meant, unfenced) = (word(&write), oracles::meant(&write), oracles::unfenced(state, &write));
    let scales = if let Write::Scale { set, to, .. } = &write { Some((set.clone(), to.replicas())) } else { None };
    let taken = oracles::taken(state, &write);
    let routed = match &write {
        // A label that the pod has already stays whoever's it was.
        Write::Label { pod, role } => {
            let shown = state.pods.get(&pod.name).and_then(|pod| pod.labels().get(LABEL_ROLE));
            Some((pod.name.clone(), shown.map(String::as_str) != *role))
        }
        Write::Gate { pod, .. } => Some((pod.name.clone(), false)),
        _ => None,
    };
    let written = change(state, write);
    state.note(&(what, meant.as_ref().map(|(_, name, uid)| (name, uid)), written.is_ok(), state.now));
    let written = written?;
    if let Some(unfenced) = unfenced {
        state.breaks("S6 S30", unfenced);
    }
    if let Some((kind, name, uid)) = meant {
        oracles::touches(state, kind, &name, &uid);
    }
    if let Some(taken) = taken {
        state.breaks("S7", taken);
    }
    if let Some((pod, is_label)) = routed {
        oracles::routes::routes(state, &pod, is_label);
    }
    if let Some((group, to)) = scales {
        oracles::shrinks(state, &group, to);
    }
    Ok(written)
}

fn change(state: &mut State, write: Write) -> Result<Option<Object>, Error> {
    match write {
        Write::Status(group) => status(state, *group),
        Write::Apply { kind, name, manifest, manager, force, .. } => {
            apply(state, kind, &name, &manifest, manager, force)
        }
        Write::Create { dry_run: true, .. } => Ok(None),
        Write::Create { kind, manifest, .. } => create(state, kind, manifest),
        Write::Label { pod: fence, role } => label(state, fence, role),
        Write::Gate { pod: fence, ready, .. } => gate(state, fence, ready),
        Write::Mark { claim: fence, notes } => mark(state, fence, notes),
        Write::Grow { claim: fence, size } => grow(state, fence, size),
        Write::Adopt { pod: fence, change } => adopt(state, fence, &change),
        Write::DropSet { set: fence } => drop_set(state, fence),
        Write::Nudge { set: fence, at } => {
            let mut set = fenced(&state.sets, &fence)?;
            set.annotations_mut().insert(ANNOTATION_NUDGE.to_owned(), at.to_string());
            Ok(Some(changed(state, set)))
        }
        Write::Scale { namespace, set, to } => {
            let (uid, version) = (to.uid().to_owned(), Some(to.version().to_owned()));
            let mut set = fenced(&state.sets, &Fence { namespace, name: set, uid, version })?;
            let generation = set.metadata.generation.unwrap_or(0);
            set.metadata.generation = Some(generation.saturating_add(1));
            set.spec.get_or_insert_default().replicas = i32::try_from(to.replicas()).ok();
            Ok(Some(changed(state, set)))
        }
        Write::Delete { deletion, .. } => {
            let name = deletion.member().as_str();
            let pod = state.pods.get(name).ok_or_else(not_found)?;
            held(&pod.metadata, Some(deletion.uid()), Some(deletion.version()))?;
            oracles::deletes(state, name);
            delete(state, name);
            Ok(None)
        }
        Write::Forget { revision } => {
            state.templates.remove(&revision.name);
            Ok(None)
        }
        // No group of the simulator has `spec.scaling.volumes: Delete`.
        Write::Discard { discard, .. } => {
            state.breaks("D20", format!("the claim {} is deleted", discard.claim()));
            Ok(None)
        }
    }
}

/// Gives a pod the label of its role, or takes it away.
fn label(state: &mut State, fence: Fence, role: Option<&'static str>) -> Result<Option<Object>, Error> {
    let mut pod = fenced(&state.pods, &fence)?;
    match role {
        Some(role) => drop(pod.labels_mut().insert(LABEL_ROLE.to_owned(), role.to_owned())),
        None => drop(pod.labels_mut().remove(LABEL_ROLE)),
    }
    state.stamp(&mut pod.metadata);
    state.pods.insert(fence.name, pod.clone());
    Ok(Some(Object::Pod(pod.as_it_is())))
}

/// Says in a pod whether its member is ready.
fn gate(state: &mut State, fence: Fence, ready: bool) -> Result<Option<Object>, Error> {
    let mut pod = fenced(&state.pods, &fence)?;
    let now = state.time();
    let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
    conditions.retain(|condition| condition.type_ != GATE_MEMBER);
    conditions.push(PodCondition {
        type_: GATE_MEMBER.into(),
        status: if ready { "True" } else { "False" }.into(),
        last_transition_time: Some(now),
        ..PodCondition::default()
    });
    state.stamp(&mut pod.metadata);
    state.pods.insert(fence.name, pod.clone());
    Ok(Some(Object::Pod(pod.as_it_is())))
}

/// Writes what a claim remembers.
fn mark(
    state: &mut State,
    fence: Fence,
    notes: BTreeMap<&'static str, Option<String>>,
) -> Result<Option<Object>, Error> {
    let mut claim = fenced(&state.claims, &fence)?;
    for (key, value) in notes {
        match value {
            Some(value) => drop(claim.annotations_mut().insert(key.to_owned(), value)),
            None => drop(claim.annotations_mut().remove(key)),
        }
    }
    state.stamp(&mut claim.metadata);
    state.claims.insert(fence.name, claim.clone());
    Ok(Some(Object::Claim(claim.as_it_is())))
}

/// Lets a claim ask for more.
fn grow(state: &mut State, fence: Fence, size: String) -> Result<Option<Object>, Error> {
    let mut claim = fenced(&state.claims, &fence)?;
    let resources = claim.spec.get_or_insert_default().resources.get_or_insert_default();
    resources.requests.get_or_insert_default().insert("storage".to_owned(), Quantity(size));
    state.stamp(&mut claim.metadata);
    state.claims.insert(fence.name, claim.clone());
    Ok(Some(Object::Claim(claim.as_it_is())))
}

/// Gives a pod to another owner.
fn adopt(state: &mut State, fence: Fence, change: &Value) -> Result<Option<Object>, Error> {
    let mut pod = fenced(&state.pods, &fence)?;
    let given = change.get("metadata").cloned().unwrap_or_default();
    let invalid = |error: serde_json::Error| refused(422, "Invalid", &error.to_string());
    let given: ObjectMeta = serde_json::from_value(given).map_err(invalid)?;
    pod.metadata.owner_references = given.owner_references;
    // The garbage collector looks at what comes to an owner that is gone.
    let all = pod.metadata.owner_references.iter().flatten().map(|owner| owner.uid.clone());
    for owner in all.collect::<Vec<_>>() {
        let sets = state.sets.values().any(|set| set.metadata.uid.as_ref() == Some(&owner));
        let groups = state.groups.values().any(|group| group.metadata.uid.as_ref() == Some(&owner));
        if !sets && !groups {
            let at = state.now.saturating_add(1);
            state.gone_owners.entry(owner).or_insert(at);
        }
    }
    pod.labels_mut().extend(given.labels.unwrap_or_default());
    pod.annotations_mut().extend(given.annotations.unwrap_or_default());
    state.stamp(&mut pod.metadata);
    state.pods.insert(fence.name, pod.clone());
    Ok(Some(Object::Pod(pod.as_it_is())))
}

/// Deletes a set, and no pod of it.
fn drop_set(state: &mut State, fence: Fence) -> Result<Option<Object>, Error> {
    let set = fenced(&state.sets, &fence)?;
    oracles::seats::dropped(state, &set);
    state.managers.remove(&(Kind::Set, fence.name.clone()));
    state.sets.remove(&fence.name);
    let collected = state.now.saturating_add(1);
    state.gone_owners.insert(fence.uid, collected);
    state.say(format!("StatefulSet {} is deleted", fence.name));
    state.tell();
    Ok(None)
}

fn changed(state: &mut State, mut set: Shared<StatefulSet>) -> Object {
    state.stamp(&mut set.metadata);
    state.sets.insert(set.name_any(), set.clone());
    Object::Set(set.as_it_is())
}

fn status(state: &mut State, group: ReplicaGroup) -> Result<Option<Object>, Error> {
    let name = group.name_any();
    let there = state.groups.get(&name).ok_or_else(not_found)?;
    held(&there.metadata, group.metadata.uid.as_deref(), group.metadata.resource_version.as_deref())?;
    // What was read and is written back has the spec of that version.
    let mut live = ReplicaGroup { metadata: there.metadata.clone(), spec: there.spec.clone(), status: group.status };
    oracles::records(state, &live);
    state.stamp(&mut live.metadata);
    let live = Shared::from(live);
    state.groups.insert(name, live.clone());
    Ok(Some(Object::Group(live.as_it_is())))
}

/// Server-side apply, as far as the operator uses it: fences, conflicts between managers, and managers that give up their fields.
fn apply(
    state: &mut State,
    kind: Kind,
    name: &str,
    manifest: &Value,
    manager: &'static str,
    force: bool,
) -> Result<Option<Object>, Error> {
    let there = match kind {
        Kind::Set => state.sets.get(name).map(|set| set.metadata.clone()),
        _ => state.plain.get(&(kind, name.to_owned())).map(|object| object.metadata.clone()),
    };
    let given: ObjectMeta =
        manifest.get("metadata").and_then(|m| serde_json::from_value(m.clone()).ok()).unwrap_or_default();
    // A ConfigMap has data in its place.
    let part = if kind == Kind::ConfigMap { "data" } else { "spec" };
    let spec = manifest.get(part);
    let applied = |meta: &ObjectMeta| meta.annotations.as_ref().and_then(|a| a.get(ANNOTATION_APPLIED)).cloned();
    match &there {
        Some(meta) => {
            held(meta, None, given.resource_version.as_deref())?;
            if spec.is_some() && !force && applied(meta) != applied(&given) {
                return Err(conflict());
            }
        }
        None if given.resource_version.is_some() => return Err(conflict()),
        None => {}
    }
    let is_new = there.is_none();
    let mut meta = there.unwrap_or_default();
    if is_new {
        meta.uid = Some(state.birth(kind.word()));
        meta.generation = Some(0);
    }
    meta.name = Some(name.to_owned());
    meta.namespace = Some(NAMESPACE.to_owned());
    note_owner(state, &given);
    let owners = state.managers.entry((kind, name.to_owned())).or_default();
    match spec {
        Some(_) => drop(owners.insert(manager)),
        None => drop(owners.remove(manager)),
    }
    meta.managed_fields = Some(
        owners.iter().map(|m| ManagedFieldsEntry { manager: Some((*m).to_owned()), ..Default::default() }).collect(),
    );
    if spec.is_some() {
        meta.labels = given.labels.clone();
        meta.owner_references = given.owner_references.clone();
        let mut annotations = meta.annotations.take().unwrap_or_default();
        annotations.extend(given.annotations.clone().unwrap_or_default());
        meta.annotations = Some(annotations);
    }
    Ok(Some(Object::Plain(Arc::new(store(state, kind, name, meta, (part, spec))?))))
}

/// Creation, as far as the operator uses it: pods and claims.
fn create(state: &mut State, kind: Kind, manifest: Value) -> Result<Option<Object>, Error> {
    let invalid = |error: serde_json::Error| refused(422, "Invalid", &error.to_string());
    let exists = || refused(409, "AlreadyExists", "it is there already");
    match kind {
        Kind::Pod => {
            let mut pod: Pod = serde_json::from_value(manifest).map_err(invalid)?;
            let name = pod.name_any();
            if state.pods.contains_key(&name) {
                return Err(exists());
            }
            note_owner(state, &pod.metadata);
            pod.metadata.uid = Some(state.birth("pod"));
            pod.metadata.creation_timestamp = Some(state.time());
            pod.status = Some(PodStatus { phase: Some("Pending".into()), ..PodStatus::default() });
            state.stamp(&mut pod.metadata);
            let pod = Shared::from(pod);
            state.pods.insert(name.clone(), pod.clone());
            state.say(format!("{name} is created"));
            oracles::seats::made(state, &group_of(&pod), &name);
            Ok(Some(Object::Pod(pod.as_it_is())))
        }
        Kind::Claim => {
            let mut claim: PersistentVolumeClaim = serde_json::from_value(manifest).map_err(invalid)?;
            let name = claim.name_any();
            if state.claims.contains_key(&name) {
                return Err(exists());
            }
            let uid = state.birth("claim");
            claim.metadata.uid = Some(uid.clone());
            claim.status = Some(PersistentVolumeClaimStatus { phase: Some("Bound".into()), ..Default::default() });
            state.stamp(&mut claim.metadata);
            state.disks.insert(uid, Disk::default());
            let claim = Shared::from(claim);
            state.claims.insert(name, claim.clone());
            Ok(Some(Object::Claim(claim.as_it_is())))
        }
        _ => Err(refused(400, "BadRequest", "only pods and claims are created")),
    }
}

/// What is applied for a group that is gone goes, too.
fn note_owner(state: &mut State, meta: &ObjectMeta) {
    let owner = meta.owner_references.iter().flatten().next().map(|owner| owner.uid.clone());
    let lives = |uid: &String| state.groups.values().any(|group| group.metadata.uid.as_ref() == Some(uid));
    if let Some(owner) = owner.filter(|uid| !lives(uid)) {
        let at = state.now.saturating_add(1);
        state.gone_owners.entry(owner).or_insert(at);
    }
}

/// Stores an object that was applied.
fn store(
    state: &mut State,
    kind: Kind,
    name: &str,
    mut meta: ObjectMeta,
    (part, spec): (&str, Option<&Value>),
) -> Result<DynamicObject, Error> {
    let mut answer = DynamicObject { types: None, metadata: ObjectMeta::default(), data: serde_json::json!({}) };
    if kind == Kind::Set {
        let before = state.sets.get(name).cloned().unwrap_or_default();
        let invalid = |error: serde_json::Error| refused(422, "Invalid", &error.to_string());
        let spec = match spec {
            Some(spec) => Some(serde_json::from_value(spec.clone()).map_err(invalid)?),
            None => before.spec.clone(),
        };
        if spec != before.spec {
            meta.generation = Some(meta.generation.unwrap_or(0).saturating_add(1));
        }
        let set = StatefulSet { metadata: meta, spec, status: before.status.clone() };
        let Object::Set(set) = changed(state, set.into()) else { return Err(not_found()) };
        answer.metadata = set.metadata.clone();
        answer.data = serde_json::json!({"spec": set.spec});
        return Ok(answer);
    }
    let before = state.plain.get(&(kind, name.to_owned())).map(|object| object.data.clone());
    answer.data = spec.map_or_else(|| before.unwrap_or_default(), |spec| serde_json::json!({(part): spec}));
    state.stamp(&mut meta);
    answer.metadata = meta;
    state.plain.insert((kind, name.to_owned()), answer.clone().into());
    Ok(answer)
}
