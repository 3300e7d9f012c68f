//! What users change of a group, its objects and its volumes.
use super::{edit, group_of, least, write_pod};
use crate::app::App;
use crate::controllers::{claim_of, delete, present_revision};
use crate::faults::Fault;
use crate::kubelet::lacks_its_image;
use crate::oracles::{routes, treats};
use crate::server::{GUARDED, MEMORY};
use crate::shared::Shared;
use crate::world::{Machine, State};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};
use tanist_api::spec::{Batch, MembersKind, Primaries, Zone};
use tanist_api::{LABEL_GROUP, LABEL_ZONE, ReplicaGroup};
use tanist_core::contract::Role;

/// The most primaries that a user asks for by number; beyond it all members are to be.
const PRIMARIES: u32 = 3;

/// The zones that there are.
pub const TWO_ZONES: &[(&str, Option<u32>)] = &[("zone-a", None), ("zone-b", None)];

/// What users say about zones: some want a number of members in one.
const ZONES: [&[(&str, Option<u32>)]; 7] = [
    &[],
    TWO_ZONES,
    &[("zone-b", None)],
    &[("zone-a", None)],
    &[("zone-b", None), ("zone-a", Some(1))],
    &[("zone-a", Some(0)), ("zone-b", None)],
    &[("zone-b", None), (NOWHERE, None)],
];

/// A zone that no node has.
pub const NOWHERE: &str = "zone-c";

/// Whoever named a zone that no node has corrects that. Where the list is empty by now, who has no place for it gets another pod: where users replace pods themselves, they delete the one that waits.
pub fn correct_zones(state: &mut State) {
    let is_wrong = |group: &&Shared<ReplicaGroup>| group.spec.zones.list.iter().any(|zone| zone.name == NOWHERE);
    let wrong: Vec<String> = state.groups.values().filter(is_wrong).map(ResourceExt::name_any).collect();
    for group in wrong {
        edit(state, &group, "its zones are those that there are", |group| divide(group, TWO_ZONES));
    }
    let is_theirs =
        |group: &Shared<ReplicaGroup>| group.spec.zones.list.is_empty() && group.spec.update.batch == Batch::None;
    let has_none = |name: &str| state.groups.get(name).is_some_and(is_theirs);
    let waits = |pod: &&Shared<Pod>| {
        let label = |key: &str| pod.labels().get(key).map(String::as_str);
        label(LABEL_ZONE) == Some(NOWHERE) && label(LABEL_GROUP).is_some_and(has_none)
    };
    let waiting: Vec<String> = state.pods.values().filter(waits).map(ResourceExt::name_any).collect();
    waiting.iter().for_each(|pod| delete(state, pod));
}

/// The members of a group are divided among these zones.
pub fn divide(group: &mut ReplicaGroup, zones: &[(&str, Option<u32>)]) {
    let zone = |(name, replicas): &(&str, Option<u32>)| Zone { name: (*name).to_owned(), replicas: *replicas };
    group.spec.zones.list = zones.iter().map(zone).collect();
}

/// An image that no registry has.
pub const WRONG_IMAGE: &str = "db:none";

/// The image that works: that of the version that the group names.
fn right_image(group: &ReplicaGroup) -> String {
    format!("db:{}", group.spec.version.as_deref().unwrap_or("1"))
}

/// A user gives a group an image that does not exist; or one that does, where it has none.
pub fn change_image(state: &mut State, name: &str) {
    let Some(group) = state.groups.get(name) else { return };
    let image = if has_wrong_image(group) { right_image(group) } else { WRONG_IMAGE.to_owned() };
    edit(state, name, &format!("its image is {image}"), |group| set_image(group, image.clone()));
}

fn set_image(group: &mut ReplicaGroup, image: String) {
    let spec = group.spec.template.0.get_mut("spec");
    if let Some(own) = spec.and_then(|spec| spec.pointer_mut("/containers/0/image")) {
        *own = image.into();
    }
}

/// A user names the next version of the application, with the image that has its programs.
pub fn raise_version(state: &mut State, name: &str) {
    let spec = state.groups.get(name).map(|group| &group.spec);
    let known = spec.filter(|spec| spec.commands.upgrade.is_some()).and_then(|spec| spec.version.as_deref());
    let Some(next) = known.and_then(|version| version.parse::<u64>().ok()).map(|version| version.saturating_add(1))
    else {
        return;
    };
    // In one of four cases what is not converted yet is called off.
    let is_called_off = state.roll(Fault::VersionRaised, 4) == 0;
    let data = state.groups.get(name).and_then(|group| group.status.as_ref()?.version.as_ref()?.parse::<u64>().ok());
    // Not if a command whose end nobody heard of has converted it.
    let claims = state.machines.values().filter(|m| m.group == name).map(|m| &m.claim);
    let highest = claims.filter_map(|claim| state.disks.get(claim)).map(|disk| disk.version).max();
    let next = data.filter(|data| is_called_off && highest <= Some(*data)).unwrap_or(next);
    edit(state, name, &format!("its version is {next}"), |group| {
        group.spec.version = Some(next.to_string());
        if !has_wrong_image_in(group) {
            set_image(group, right_image(group));
        }
    });
}

fn has_wrong_image(group: &Shared<ReplicaGroup>) -> bool {
    has_wrong_image_in(group)
}

fn has_wrong_image_in(group: &ReplicaGroup) -> bool {
    let spec = group.spec.template.0.get("spec");
    spec.and_then(|spec| spec.pointer("/containers/0/image")?.as_str()) == Some(WRONG_IMAGE)
}

/// Whoever named an image that does not exist corrects that.
pub fn correct_images(state: &mut State) {
    let groups = state.groups.iter().filter(|(_, group)| has_wrong_image(group));
    let wrong: Vec<String> = groups.map(|(name, _)| name.clone()).collect();
    wrong.iter().for_each(|group| change_image(state, group));
}

/// Whoever named an earlier version than that of the data corrects that (docs/runbook.md, `VersionTooLow`).
pub fn correct_versions(state: &mut State) {
    let is_low = |group: &ReplicaGroup| {
        let mut waits = group.status.iter().flat_map(|status| &status.awaiting);
        waits.any(|wait| wait.reason == "VersionTooLow")
    };
    let version_of = |group: &Shared<ReplicaGroup>| group.status.as_ref()?.version.clone();
    let low = state.groups.iter().filter(|(_, group)| is_low(group));
    let low: Vec<_> = low.filter_map(|(name, group)| Some((name.clone(), version_of(group)?))).collect();
    for (name, version) in low {
        edit(state, &name, &format!("its version is {version} again"), |group| {
            group.spec.version = Some(version.clone());
            set_image(group, right_image(group));
        });
    }
}

/// Users change that group.
pub fn strike(state: &mut State, name: &str) {
    if state.happens(Fault::ImageWrong, 10) {
        change_image(state, name);
    }
    if state.groups.get(name).is_some_and(|group| group.spec.commands.upgrade.is_some())
        && state.happens(Fault::VersionRaised, 10)
    {
        raise_version(state, name);
    }
    if state.happens(Fault::TemplateChanged, 12) {
        let grace = 5 + state.roll(Fault::TemplateChanged, 20);
        change_template(state, name, grace);
    }
    if state.guarded.is_none() && state.happens(Fault::WriteRefused, 8) {
        let chosen = usize::try_from(state.roll(Fault::WriteRefused, GUARDED.len() as u64)).unwrap_or(0);
        let refused = GUARDED.get(chosen).copied();
        // What went with the group is on its claims alone: one that nobody could write knows only a start that failed, and not the next one, which went well (seed 7321804).
        let forgets = state.faults.kinds.contains(&Fault::GroupRecreated);
        state.guarded = refused.filter(|what| !forgets || *what != MEMORY);
        state.say(format!("a webhook refuses from now on: {}", state.guarded.unwrap_or_default()));
    }
    if state.happens(Fault::ServiceChanged, 8) {
        change_service(state);
    }
    if state.happens(Fault::GroupRecreated, 16) {
        let is_at_once = state.roll(Fault::GroupRecreated, 2) == 0;
        let after = state.roll(Fault::GroupRecreated, 5);
        delete_group(state, name, after);
        if is_at_once {
            create_again(state);
        }
        return;
    }
    let makes_pods = state.groups.get(name).is_some_and(|group| group.spec.members.kind == MembersKind::Pods);
    // The API server refuses zones and several primaries for a group of which one member is active.
    let is_passive = state.passive.contains(name);
    if makes_pods && state.happens(Fault::MemberRemoved, 8) {
        remove_member(state, name);
    }
    if makes_pods && !is_passive && state.happens(Fault::ZonesChanged, 10) {
        let chosen = state.roll(Fault::ZonesChanged, ZONES.len() as u64);
        let zones = ZONES.get(usize::try_from(chosen).unwrap_or(0)).copied().unwrap_or_default();
        edit(state, name, &format!("its zones are {zones:?}"), |group| divide(group, zones));
    }
    if state.happens(Fault::KindChanged, 12) {
        change_kind(state, name);
    }
    // Each member that agrees serves: another number of primaries is not for such an application.
    if !state.agreements.contains_key(name) && !is_passive && state.happens(Fault::PrimariesChanged, 12) {
        let asked = u32::try_from(state.roll(Fault::PrimariesChanged, u64::from(PRIMARIES) + 1)).unwrap_or(1);
        ask_for_primaries(state, name, if asked == 0 { Primaries::All } else { Primaries::Count(asked) });
    }
}

/// A user wants a member to go; or in one case of four all stay that were named before.
fn remove_member(state: &mut State, name: &str) {
    if state.roll(Fault::MemberRemoved, 4) == 0 {
        return edit(state, name, "nobody is to go", |group| group.spec.members.remove.clear());
    }
    let of_group = |pod: &&String| state.pods.get(*pod).is_some_and(|object| group_of(object) == name);
    let pods: Vec<String> = state.pods.keys().filter(of_group).cloned().collect();
    let chosen = usize::try_from(state.roll(Fault::MemberRemoved, pods.len() as u64)).unwrap_or(0);
    let Some(member) = pods.get(chosen).cloned() else { return };
    edit(state, name, &format!("{member} is to go"), |group| {
        if !group.spec.members.remove.contains(&member) {
            group.spec.members.remove.push(member.clone());
        }
    });
}

/// The pods of a group are to be made by a StatefulSet from now on, or by the operator.
pub fn change_kind(state: &mut State, name: &str) {
    edit(state, name, "its members are to be of the other kind", |group| {
        let members = &mut group.spec.members;
        members.kind = match members.kind {
            MembersKind::StatefulSet => MembersKind::Pods,
            MembersKind::Pods => MembersKind::StatefulSet,
        };
        // The API server refuses names of members that are to go, and zones, with a StatefulSet.
        if members.kind == MembersKind::StatefulSet {
            members.remove.clear();
            group.spec.zones.list.clear();
        }
    });
}

/// A user deletes a group. `after`: for how many seconds what belonged to it stays.
pub fn delete_group(state: &mut State, name: &str, after: u64) {
    let Some(group) = state.groups.remove(name) else { return };
    let at = state.now.saturating_add(i64::try_from(after).unwrap_or(0));
    state.gone_owners.insert(group.uid().unwrap_or_default(), at);
    state.say(format!("group {name} is deleted"));
    state.deleted_groups.insert(name.to_owned(), group);
    state.tell();
}

/// Groups that were deleted are created again with the same specs. What is remembered of them is on their claims.
pub fn create_again(state: &mut State) {
    for (name, group) in std::mem::take(&mut state.deleted_groups) {
        state.say(format!("group {name} is created again"));
        state.create(group);
    }
}

/// Whether a user may start a second primary in a pod by hand: no command runs in it, and the only primary of its group is reached.
pub fn may_start_by_hand(state: &State, pod: &str) -> bool {
    let Some((uid, machine)) = state.running(pod) else { return false };
    let has_one = state.groups.get(&machine.group).is_some_and(|group| group.spec.primaries == Primaries::Count(1));
    let leads = |(uid, m): &(&String, &Machine)| {
        m.group == machine.group && m.app.role == Role::Primary && m.ending.is_none() && state.reaches(uid, m)
    };
    // One that begins on an empty volume has a history of its own, which an administrator has to adopt.
    let has_data = state.disks.get(&machine.claim).is_some_and(|disk| disk.data.is_some());
    let is_idle = has_data && machine.app.role != Role::Primary && machine.busy.is_none() && machine.ending.is_none();
    let mut leaders = state.machines.iter().filter(leads);
    // Of two that users started, with no other one, nobody knows which is the group's: the first is left alone until clients are led to it.
    let is_known =
        leaders.next().is_some_and(|(_, m)| routes::leads_clients(state, &m.pod)) && leaders.next().is_none();
    has_one && is_idle && is_known && state.reaches(uid, machine)
}

/// A user starts a second primary by hand, on the data that its volume has.
pub fn start_by_hand(state: &mut State, pod: &str) {
    let Some(uid) = state.running(pod).map(|(uid, _)| uid.to_owned()) else { return };
    let Some(machine) = state.machines.get_mut(&uid) else { return };
    machine.app = App { role: Role::Primary, follows: None, by_hand: true };
    machine.expects_running = true;
    let container = machine.container.clone();
    treats::spoils(state, &container);
    state.say(format!("a user starts {pod} as primary"));
}

/// The pods of a group are to be made otherwise from now on.
pub fn change_template(state: &mut State, name: &str, grace: u64) {
    edit(state, name, &format!("its template has a grace of {grace} s"), |group| {
        if let Some(spec) = group.spec.template.0.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("terminationGracePeriodSeconds".into(), grace.into());
        }
    });
}

/// Of each group that waits for that a user deletes one pod that is not of the present template (docs/runbook.md, `UpdatePending`).
pub fn renew(state: &mut State) {
    let waits = |group: &ReplicaGroup| {
        let mut conditions = group.status.iter().flat_map(|status| &status.conditions);
        conditions.any(|c| c.type_ == "Ready" && c.reason == "UpdatePending")
    };
    let groups: Vec<String> = state.groups.values().filter(|group| waits(group)).map(ResourceExt::name_any).collect();
    for group in groups {
        let present = present_revision(state, &group);
        let is_old = |pod: &String| {
            let object = state.pods.get(pod);
            object.is_some_and(|object| object.labels().get("controller-revision-hash") != present.as_ref())
        };
        let of_group = |pod: &String| state.pods.get(pod).is_some_and(|object| group_of(object) == group);
        let members: Vec<String> = state.pods.keys().filter(|pod| of_group(pod)).cloned().collect();
        if let Some(pod) = members.into_iter().find(is_old) {
            delete(state, &pod);
        }
    }
    renew_unstarted(state);
}

/// Where users replace the pods, they delete those that never start.
fn renew_unstarted(state: &mut State) {
    let is_theirs = |group: &Shared<ReplicaGroup>| group.spec.update.batch == Batch::None && !has_wrong_image(group);
    let lacks = |pod: &&Shared<Pod>| lacks_its_image(pod) && state.groups.get(&group_of(pod)).is_some_and(is_theirs);
    let waiting: Vec<String> = state.pods.values().filter(lacks).map(ResourceExt::name_any).collect();
    waiting.iter().for_each(|pod| delete(state, pod));
}

/// Of each group whose template failed on its first member, because that was struck while it was watched, or was given up, a user changes the template once more (docs/runbook.md, `CanaryFailed`, `RolledBack`).
pub fn try_again(state: &mut State) {
    let failed = |group: &ReplicaGroup| {
        let mut waits = group.status.iter().flat_map(|status| &status.awaiting);
        waits.any(|wait| ["CanaryFailed", "RolledBack"].contains(&wait.reason.as_str()))
    };
    let groups: Vec<String> = state.groups.values().filter(|group| failed(group)).map(ResourceExt::name_any).collect();
    for group in groups {
        let spec = state.groups.get(&group).and_then(|group| group.spec.template.0.get("spec"));
        let grace = spec.and_then(|spec| spec.get("terminationGracePeriodSeconds")?.as_u64()).unwrap_or(30);
        change_template(state, &group, grace.saturating_add(1));
    }
}

/// A group is to have another number of primaries. The API server refuses fewer members than primaries, but for none.
pub fn ask_for_primaries(state: &mut State, name: &str, primaries: Primaries) {
    edit(state, name, &format!("{} primaries are asked for", json!(primaries)), |group| {
        let before = std::mem::replace(&mut group.spec.primaries, primaries);
        if group.spec.replicas > 0 && group.spec.replicas < least(group) {
            group.spec.primaries = before;
        }
    });
}

/// A Service or a disruption budget selects other pods, or loses its labels.
fn change_service(state: &mut State) {
    let keys: Vec<_> = state.plain.keys().cloned().collect();
    let chosen = usize::try_from(state.roll(Fault::ServiceChanged, keys.len() as u64)).unwrap_or(0);
    let Some(key) = keys.get(chosen).cloned() else { return };
    let Some(mut object) = state.plain.get(&key).cloned() else { return };
    let is_about_labels = state.roll(Fault::ServiceChanged, 2) == 0;
    if is_about_labels {
        object.metadata.labels = None;
    } else if let Some(spec) = object.data.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("selector".into(), json!({"app": "another"}));
    }
    state.stamp(&mut object.metadata);
    let what = if is_about_labels { "loses its labels" } else { "selects other pods" };
    state.say(format!("{} {} {what}", key.0.word(), key.1));
    state.plain.insert(key, object);
    state.tell();
}

/// A user gives a pod the label of another group.
pub fn mislabel(state: &mut State, name: &str) {
    let own = state.pods.get(name).and_then(|pod| pod.owner_references().first().map(|owner| owner.name.clone()));
    let other = state.groups.keys().find(|group| Some(*group) != own.as_ref()).cloned();
    let other = other.unwrap_or_else(|| "another".to_owned());
    state.say(format!("{name} gets the label of the group {other}"));
    write_pod(state, name, |pod| drop(pod.labels_mut().insert(LABEL_GROUP.to_owned(), other)));
}

/// A backup of the volume of a pod is made, with its claim's annotations, if there is none.
pub fn copy_volume(state: &mut State, pod: &str) {
    let name = claim_of(pod);
    let Some(claim) = state.claims.get(&name).filter(|_| !state.copies.contains_key(&name)) else { return };
    let disk = claim.metadata.uid.as_ref().and_then(|uid| state.disks.get(uid)).cloned().unwrap_or_default();
    // A backup of an empty volume would be none.
    if disk.data.is_some() {
        let notes = claim.annotations().clone();
        state.copies.insert(name, (disk, notes));
    }
}

/// A user deletes a pod and its claim, and makes a claim of that name from the backup. `keeps_notes`: with the annotations of then.
pub fn restore_volume(state: &mut State, pod: &str, keeps_notes: bool) {
    let name = claim_of(pod);
    let Some((disk, notes)) = state.copies.get(&name).cloned() else { return };
    let Some(mut claim) = state.claims.get(&name).cloned() else { return };
    let uid = state.birth("claim");
    claim.metadata.uid = Some(uid.clone());
    claim.metadata.annotations = keeps_notes.then_some(notes);
    state.stamp(&mut claim.metadata);
    state.disks.insert(uid, disk);
    state.say(format!("the volume of {pod} is an old copy from now on"));
    state.claims.insert(name, claim);
    state.tell();
    delete(state, pod);
}
