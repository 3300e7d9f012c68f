//! Where clients are led: only to members that are in that role, and never to more primaries than the group may have (S22, S23, S31).
use super::{passive, seats};
use crate::clients;
use crate::world::State;
use kube::ResourceExt;
use tanist_api::{GATE_MEMBER, LABEL_GROUP, LABEL_ROLE};
use tanist_core::contract::Role;

/// Seconds for which what was seen of a member may be late: a round, its second look and its writes, each of which may be slow. What changes in a pod that
/// reports ends them earlier, for the pod has another version then.
const LATE: i64 = 120;

/// Notes the roles that members have in truth.
pub fn see_roles(state: &mut State) {
    let now = state.now;
    let State { machines, oracles, .. } = state;
    for (uid, machine) in machines.iter() {
        if let Some(role) = word(machine.app.role).filter(|_| !machine.app.by_hand) {
            oracles.seen.insert((uid.clone(), role), now);
        }
        // Whichever works may be the active one.
        if machine.is_passive && machine.app.role == Role::Secondary {
            oracles.seen.insert((uid.clone(), "primary"), now);
        }
    }
}

fn word(role: Role) -> Option<&'static str> {
    match role {
        Role::Primary => Some("primary"),
        Role::Secondary => Some("secondary"),
        _ => None,
    }
}

/// A pod as clients are led to it.
struct Shown {
    uid: String,
    group: String,
    role: String,
}

/// How clients are led to a pod. `None`: they are not. `needs_to_be_ready`: whether its application has to be ready, too.
fn shown(state: &State, name: &str, needs_to_be_ready: bool) -> Option<Shown> {
    let pod = state.pods.get(name).filter(|pod| pod.metadata.deletion_timestamp.is_none())?;
    let holds = |kind: &str| {
        let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.any(|c| c.type_ == kind && c.status == "True")
    };
    let leads = holds(GATE_MEMBER) && (!needs_to_be_ready || holds("Ready"));
    let labels = pod.labels();
    let (group, role) = (labels.get(LABEL_GROUP)?.clone(), labels.get(LABEL_ROLE)?.clone());
    leads.then(|| Shown { uid: pod.uid().unwrap_or_default(), group, role })
}

/// Whether the operator leads clients to that pod as to a primary.
#[must_use]
pub fn leads_clients(state: &State, pod: &str) -> bool {
    shown(state, pod, false).is_some_and(|s| s.role == "primary" && !state.oracles.forged.contains(&s.uid))
}

/// A user gives a pod the label of a role.
pub fn forges(state: &mut State, pod: &str) {
    let uid = state.pods.get(pod).and_then(ResourceExt::uid);
    state.oracles.forged.extend(uid);
}

/// A process led clients to a pod, or away from it. `is_label`: by its label.
pub fn routes(state: &mut State, pod: &str, is_label: bool) {
    let uid = state.pods.get(pod).and_then(ResourceExt::uid).unwrap_or_default();
    if is_label {
        state.oracles.forged.remove(&uid);
        passive::is_alone(state, pod);
    }
    let Some(shown) = shown(state, pod, false).filter(|shown| !state.oracles.forged.contains(&shown.uid)) else {
        return;
    };
    if is_label && shown.role == "secondary" {
        seats::shows(state, &shown.group, pod);
    }
    clients::accept_by_hand(state, &shown.group);
    see_roles(state);
    let mut seen = state.oracles.seen.iter();
    let seen = seen.find(|((uid, role), _)| *uid == shown.uid && *role == shown.role).map(|(_, at)| *at);
    match seen.map(|at| state.now.saturating_sub(at)) {
        None => state.breaks("S22 S23 S31", format!("clients are led to {pod} as {}, which it never was", shown.role)),
        Some(ago) if ago > LATE => {
            let role = &shown.role;
            state.breaks("S22 S23 S31", format!("clients are led to {pod} as {role}, which it was {ago} s ago"));
        }
        Some(_) => {}
    }
    if shown.role == "primary" {
        counts(state, &shown.group);
    }
}

/// Clients are led to no more primaries than the group may have. Those on nodes that do not report are not reached.
fn counts(state: &mut State, group: &str) {
    let is_led = |name: &&String| {
        let is_up = state.machine(name).is_some_and(|machine| machine.group == group && state.is_up(&machine.node));
        let shown = shown(state, name, true);
        let is_real = |s: &Shown| s.group == group && s.role == "primary" && !state.oracles.forged.contains(&s.uid);
        is_up && shown.as_ref().is_some_and(is_real)
    };
    let led: Vec<String> = state.pods.keys().filter(is_led).cloned().collect();
    if led.len() > clients::limit(state, group) {
        state.breaks("S22 S23", format!("clients are led to {} primaries: {}", led.len(), led.join(", ")));
    }
}
