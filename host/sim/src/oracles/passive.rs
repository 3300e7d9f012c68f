//! Active/passive groups (E22 to E26): all members run by themselves, and one of them has the label of the active one.
use super::whole;
use crate::faults::Fault;
use crate::strikes::group_of;
use crate::world::{Machine, State};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tanist_api::{LABEL_GROUP, LABEL_ROLE, ReplicaGroup};
use tanist_core::contract::Role;

/// The pods of a group that have the label of the active member. Those of a group that had its name before are not its own.
fn labelled(state: &State, group: &str) -> Vec<String> {
    let makers = [state.groups.get(group).and_then(ResourceExt::uid), state.sets.get(group).and_then(ResourceExt::uid)];
    let belongs = |pod: &Pod| pod.owner_references().iter().any(|owner| makers.contains(&Some(owner.uid.clone())));
    let has_label = |pod: &Pod| pod.labels().get(LABEL_ROLE).is_some_and(|role| role == "primary");
    let pods = state.pods.iter().filter(|(_, pod)| belongs(pod) && has_label(pod));
    pods.map(|(name, _)| name.clone()).collect()
}

/// Whether a user gave the pod the label. The operator takes it away again, or leaves it to whom it is meant for.
fn is_forged(state: &State, pod: &str) -> bool {
    let uid = state.pods.get(pod).and_then(ResourceExt::uid);
    uid.is_some_and(|uid| state.oracles.forged.contains(&uid))
}

/// A process wrote the label of a role: no other pod of the group has that of the active member then (E24).
pub(super) fn is_alone(state: &mut State, pod: &str) {
    let Some(group) = state.pods.get(pod).map(|pod| group_of(pod)).filter(|group| state.passive.contains(group)) else {
        return;
    };
    let mut labelled = labelled(state, &group);
    labelled.retain(|pod| !is_forged(state, pod));
    if labelled.len() > 1 && labelled.iter().any(|name| name == pod) {
        state.breaks("E24", format!("{} have the label of the active member of {group}", labelled.join(" and ")));
    }
}

/// Whether the application of a member works, and is reached.
fn works(state: &State, pod: &str) -> bool {
    let works = |uid: &str| state.machines.get(uid).is_some_and(|machine| machine.app.role == Role::Secondary);
    state
        .running(pod)
        .is_some_and(|(uid, machine)| works(uid) && machine.ending.is_none() && state.reaches(uid, machine))
}

/// What the group lacks in truth, one clause each: all members work, and one of them is active.
pub(super) fn lacks(state: &State, group: &ReplicaGroup, members: &[String]) -> Vec<String> {
    let name = group.name_any();
    let mut lacks = Vec::new();
    if members.len() != group.spec.replicas as usize {
        lacks.push(format!("{} of {} members are remembered", members.len(), group.spec.replicas));
    }
    let active = labelled(state, &name);
    if group.spec.replicas > 0 && (active.len() != 1 || !active.iter().all(|pod| members.contains(pod))) {
        lacks.push(format!("the active members are {active:?}"));
    }
    for member in members {
        let pod = state.pods.get(member).filter(|_| works(state, member));
        let Some(pod) = pod else {
            lacks.push(format!("{member} does not work, or is not reached"));
            continue;
        };
        let label = |key: &str| pod.labels().get(key).map(String::as_str);
        let role = if active.contains(member) { "primary" } else { "secondary" };
        if label(LABEL_GROUP) != Some(&name) || label(LABEL_ROLE) != Some(role) || !whole::is_ready(pod) {
            lacks.push(format!("{member} is not shown as {role}"));
        }
    }
    lacks.extend(whole::others_run(state, &name, members));
    lacks.extend(whole::services_lack(state, &name));
    lacks.extend(whole::makers_differ(state, group, members));
    lacks
}

/// While nodes are away: where a member works and is reached, one that does is active (E24), be it one that leaves.
pub(super) fn waits_in_vain(state: &State, group: &str, members: &[String]) -> Vec<String> {
    let working: Vec<&String> = members.iter().filter(|pod| works(state, pod)).collect();
    let is_active = labelled(state, group).iter().any(|pod| works(state, pod));
    match is_active || working.is_empty() {
        true => Vec::new(),
        false => vec![format!("nobody is active, and {working:?} work")],
    }
}

/// Seconds after which everybody who looks knows that a member works again.
const KNOWN: i64 = 15;

/// Whether a member that works may have been taken for one that does not: it stood still, its `status` failed, or its pod has not the label of the group, so that nobody is led to it.
pub(super) fn may_seem_unwell(state: &State, uid: &str, machine: &Machine) -> bool {
    let stood_still = state.frozen.get(uid).is_some_and(|until| state.now < until.saturating_add(KNOWN));
    let failed = [Fault::StatusFails, Fault::StatusHangs].iter().any(|f| state.faults.happened.contains_key(f));
    let label = state.pods.get(&machine.pod).and_then(|pod| pod.labels().get(LABEL_GROUP));
    machine.is_passive && (stood_still || failed || label != Some(&machine.group))
}
