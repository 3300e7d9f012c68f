//! The end of a life: a group that says that it is Ready has in truth what it asks for, and while a node stays away the others are used.
use super::passive;
use super::versions;
use crate::agree;
use crate::clients;
use crate::controllers::desired;
use crate::faults::Fault;
use crate::world::{Machine, State};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};
use tanist_api::spec::MembersKind;
use tanist_api::{LABEL_GROUP, LABEL_ROLE, ReplicaGroup};
use tanist_cluster::cluster::Kind;
use tanist_core::contract::Role;

/// What a group lacks in truth, one clause each; none: it is whole (S43, S44).
#[must_use]
pub fn lacks(state: &State, group: &ReplicaGroup) -> Vec<String> {
    let name = group.name_any();
    let members = desired(group);
    if state.passive.contains(&name) {
        return passive::lacks(state, group, &members);
    }
    let leaders = leaders(state, &members);
    let wanted = group.spec.primaries.count(group.spec.replicas) as usize;
    let mut lacks = Vec::new();
    if members.len() != group.spec.replicas as usize {
        lacks.push(format!("{} of {} members are remembered", members.len(), group.spec.replicas));
    }
    if leaders.len() != wanted {
        lacks.push(format!("{} of {wanted} members are primary", leaders.len()));
    }
    for pod in &members {
        lacks.extend(member_lacks(state, group, pod, &leaders).map(|why| format!("{pod} {why}")));
    }
    lacks.extend(others_run(state, &name, &members));
    lacks.extend(services_lack(state, &name));
    lacks.extend(makers_differ(state, group, &members));
    lacks.extend(zones_differ(state, group, &members));
    lacks.extend(still_announced(state, group));
    lacks.extend(agree::differ(state, group));
    lacks.extend(versions::lacks(state, group));
    lacks
}

/// Who runs and is no member, or runs in another pod than its own.
pub(super) fn others_run(state: &State, group: &str, members: &[String]) -> Vec<String> {
    let is_member = |machine: &Machine| members.contains(&machine.pod);
    let others = state.machines.iter().filter(|(uid, machine)| {
        let is_there = state.running(&machine.pod).is_some_and(|(own, _)| own == uid.as_str());
        machine.group == group && !(is_member(machine) && is_there)
    });
    others.map(|(_, machine)| format!("{} still runs on {}", machine.pod, machine.node)).collect()
}

/// Those of the members that are primary.
fn leaders(state: &State, members: &[String]) -> Vec<String> {
    let leads = |pod: &&String| state.machine(pod).is_some_and(|machine| machine.app.role == Role::Primary);
    members.iter().filter(leads).cloned().collect()
}

/// What a desired member lacks. `leaders`: the primaries.
fn member_lacks(state: &State, group: &ReplicaGroup, pod: &str, leaders: &[String]) -> Option<String> {
    let Some((uid, machine)) = state.running(pod) else { return Some("does not run".into()) };
    if machine.ending.is_some() || !state.reaches(uid, machine) {
        return Some("is ending, or is not reached".into());
    }
    let role = machine.app.role;
    let shown = match role {
        Role::Primary => Some("primary"),
        Role::Secondary => Some("secondary"),
        // Without that command the others wait.
        _ if group.spec.commands.secondary.is_none() => None,
        _ => return Some("is stopped".into()),
    };
    let peer = machine.app.follows.as_ref();
    // Members that agree know themselves whom to follow.
    let is_told = !state.agreements.contains_key(&group.name_any());
    if role == Role::Secondary && is_told && !peer.is_some_and(|peer| leaders.contains(peer)) {
        return Some(format!("follows {}, which is no primary", peer.map_or("nobody", String::as_str)));
    }
    let object = state.pods.get(pod)?;
    if object.labels().get(LABEL_GROUP) != Some(&group.name_any()) {
        return Some("has not the label of the group".into());
    }
    if object.labels().get(LABEL_ROLE).map(String::as_str) != shown || !is_ready(object) && shown.is_some() {
        return Some(format!("is {role:?}, and clients are led elsewhere"));
    }
    let lacking = clients::lacking(state, machine);
    (role != Role::Stopped && lacking > 0).then(|| format!("lacks {lacking} acknowledged writes"))
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|c| c.type_ == "Ready" && c.status == "True")
}

/// An update that was announced and never ended. Who forgot that it had begun ends none.
fn still_announced(state: &State, group: &ReplicaGroup) -> Option<String> {
    let forgets = [Fault::StatusLost, Fault::GroupRecreated].iter().any(|f| state.faults.happened.contains_key(f));
    let announced = state.announced.get(&group.name_any()).filter(|announced| !announced.is_empty())?;
    let ends = group.spec.commands.after_update.is_some() && !forgets;
    ends.then(|| format!("the update of {announced:?} was announced and has not ended"))
}

/// What makes the pods otherwise than the group asks for: each pod belongs to the StatefulSet or to the group, and what the group cannot have is not there.
pub(super) fn makers_differ(state: &State, group: &ReplicaGroup, members: &[String]) -> Vec<String> {
    let name = group.name_any();
    let record = group.status.as_ref().and_then(|status| status.record.as_ref());
    let has_numbers = record.is_some_and(|record| record.get("seats").is_some_and(Value::is_object));
    let set = state.sets.get(&name);
    let mut wrong = Vec::new();
    let gapless = (0..members.len()).map(|ordinal| format!("{name}-{ordinal}"));
    let wants_numbers = match group.spec.members.kind {
        MembersKind::Pods => true,
        // It cannot have one whose members have other numbers.
        MembersKind::StatefulSet => !gapless.eq(members.iter().cloned()),
    };
    // Who is stopped moves later.
    if has_numbers != wants_numbers && group.spec.replicas > 0 {
        wrong.push(format!("what makes its pods is not what it asks for (numbers: {has_numbers})"));
    }
    if has_numbers && set.is_some() && group.spec.replicas > 0 {
        wrong.push("it has a StatefulSet beside pods of its own".to_owned());
    }
    let maker = if has_numbers { group.uid() } else { set.and_then(ResourceExt::uid) };
    let others = members.iter().filter(|pod| {
        let owners = state.pods.get(*pod).and_then(|pod| pod.metadata.owner_references.as_ref());
        owners.is_some_and(|owners| owners.iter().all(|owner| Some(&owner.uid) != maker.as_ref()))
    });
    wrong.extend(others.map(|pod| format!("{pod} belongs to something else than what makes it")));
    wrong
}

/// How the members are divided among zones otherwise than the group asks for (E14, E15), by the nodes on which they run.
fn zones_differ(state: &State, group: &ReplicaGroup, members: &[String]) -> Vec<String> {
    let zones = &group.spec.zones.list;
    if zones.is_empty() || group.spec.replicas == 0 {
        return Vec::new();
    }
    let label =
        |machine: &Machine| state.nodes.get(&machine.node)?.labels().get("topology.kubernetes.io/zone").cloned();
    let places: Vec<Option<String>> = members.iter().map(|pod| state.machine(pod).and_then(label)).collect();
    let count = |name: &str| places.iter().filter(|place| place.as_deref() == Some(name)).count();
    let mut wrong = Vec::new();
    for zone in zones {
        if let Some(replicas) = zone.replicas.filter(|replicas| *replicas as usize != count(&zone.name)) {
            wrong.push(format!("{} of {replicas} members are in {}", count(&zone.name), zone.name));
        }
    }
    let open: Vec<usize> = zones.iter().filter(|zone| zone.replicas.is_none()).map(|zone| count(&zone.name)).collect();
    let (least, most) = (open.iter().min().copied().unwrap_or(0), open.iter().max().copied().unwrap_or(0));
    let all: usize = zones.iter().map(|zone| count(&zone.name)).sum();
    if most > least + 1 || all != members.len() {
        wrong.push(format!("its members are in {places:?}"));
    }
    wrong
}

/// Which Services and which budget of a group do not select what they have to.
pub(super) fn services_lack(state: &State, group: &str) -> Vec<String> {
    let of_role = |role: &str| json!({LABEL_GROUP: group, LABEL_ROLE: role});
    let wanted = [
        (Kind::Service, group.to_owned(), json!({LABEL_GROUP: group})),
        (Kind::Service, format!("{group}-rw"), of_role("primary")),
        (Kind::Service, format!("{group}-ro"), of_role("secondary")),
        (Kind::Budget, group.to_owned(), json!({"matchLabels": {LABEL_GROUP: group}})),
    ];
    let is_right = |kind: &Kind, name: &String, selector: &Value| {
        let object = state.plain.get(&(*kind, name.clone()));
        object.is_some_and(|object| {
            let is_labelled = object.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(LABEL_GROUP));
            is_labelled && object.data.pointer("/spec/selector") == Some(selector)
        })
    };
    let wrong = wanted.iter().filter(|(kind, name, selector)| !is_right(kind, name, selector));
    wrong.map(|(kind, name, _)| format!("{} {name} does not select its members", kind.word())).collect()
}

/// What waits although it could go on while nodes are away and everything else has healed: beside a primary that serves each member that is reached is in its
/// role. A group without such a primary may wait for what is on those nodes, and so may one whose pods cannot be told from those there.
#[must_use]
pub fn waits_in_vain(state: &State, group: &ReplicaGroup) -> Vec<String> {
    let members = desired(group);
    if state.passive.contains(&group.name_any()) {
        return passive::waits_in_vain(state, &group.name_any(), &members);
    }
    let leaders = leaders(state, &members);
    let reached = |pod: &String| state.running(pod).is_some_and(|(uid, machine)| state.reaches(uid, machine));
    let record = group.status.as_ref().and_then(|status| status.record.as_ref());
    // A group that remembers nothing is taken over only once each of its members is known.
    let remembers = record.is_some_and(|record| record.get("everSeeded").is_some_and(Value::is_object));
    if !remembers || !leaders.iter().any(reached) {
        return Vec::new();
    }
    // For a conversion all stop, one after the other, and the last ones only when all can be reached (seed 112000766).
    if record.is_some_and(|record| versions::stop_all(group, record)) {
        return Vec::new();
    }
    // More lead than are desired: the one that clients reach comes first, also on such a node, and nobody follows the other one (seed 33003939).
    let has_clients = |pod: &&String| reached(pod) && super::routes::leads_clients(state, pod);
    let wanted = usize::try_from(group.spec.primaries.count(group.spec.replicas)).unwrap_or(usize::MAX);
    if leaders.len() > wanted && !leaders.iter().any(|pod| has_clients(&pod)) {
        return Vec::new();
    }
    // One that may still run on such a node is not started elsewhere. Nobody can know that it does not.
    let is_remembered = |pod: &String| {
        let uid = state.running(pod).map(|(uid, _)| uid);
        let mut led = record.into_iter().flat_map(|record| super::list(record, "lastPrimaries"));
        led.any(|last| super::text(last, "member") == *pod && Some(&*super::text(last, "podUid")) != uid)
    };
    let is_there = |pod: &String| state.machines.values().any(|m| m.pod == *pod && !state.is_up(&m.node));
    let is_elsewhere = |pod: &String| is_there(pod) || is_remembered(pod);
    // Where all are to be primary, none follows meanwhile.
    let has_room = group.spec.primaries.count(group.spec.replicas) < group.spec.replicas;
    let wants_secondaries = has_room && group.spec.commands.secondary.is_some();
    let is_idle = |pod: &&String| state.machine(pod).is_some_and(|machine| machine.app.role == Role::Stopped);
    let may_start =
        |pod: &&String| reached(pod) && !is_elsewhere(pod) && agree::may_start(state, &group.name_any(), pod);
    let idle = members.iter().filter(may_start).filter(is_idle).filter(|_| wants_secondaries);
    idle.map(|pod| format!("{pod} is stopped beside {}", leaders.join(", "))).collect()
}
