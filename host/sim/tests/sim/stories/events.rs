//! What happens in stories.
use tanist_core::contract::Role;
use tanist_sim::strikes::{edit, lose_volume};
use tanist_sim::world::State;

/// A user wants that many members.
pub fn resize(state: &mut State, replicas: u32) {
    edit(state, "db", "another number of members is asked for", |group| group.spec.replicas = replicas);
}

/// A user wants that member to lead.
pub fn prefer(state: &mut State, member: &str) {
    edit(state, "db", "another member is to lead", |group| group.spec.preferred_primary = Some(member.to_owned()));
}

/// A user pauses the group, or ends that.
pub fn pause(state: &mut State, is_paused: bool) {
    edit(state, "db", "it is paused, or goes on", |group| group.spec.paused = is_paused);
}

/// What happens to a pod, in truth, whatever it is then.
pub fn each(state: &mut State, what: fn(&mut State, &str)) {
    let pods: Vec<String> = state.pods.keys().cloned().collect();
    pods.iter().for_each(|pod| what(state, pod));
}

/// The pod of a primary, in truth.
fn primary(state: &State) -> String {
    let leads = state.machines.values().filter(|machine| machine.app.role == Role::Primary);
    leads.map(|machine| machine.pod.clone()).max().unwrap_or_default()
}

/// The node of the primary does not report any more; or every node does again.
pub fn node(state: &mut State, is_up: bool) {
    match is_up {
        true => ["n0", "n1", "n2", "n3"].iter().for_each(|node| state.set_node(node, true)),
        false => {
            let pod = primary(state);
            let node = state.machine(&pod).map(|machine| machine.node.clone()).unwrap_or_default();
            state.set_node(&node, false);
        }
    }
}

/// The node of the primary is cordoned.
pub fn drain(state: &mut State) {
    let pod = primary(state);
    let node = state.machine(&pod).map(|machine| machine.node.clone()).unwrap_or_default();
    state.cordon(&node, true);
}

/// What happens to the pod of a primary, in truth.
pub fn on_primary(state: &mut State, what: fn(&mut State, &str)) {
    let pod = primary(state);
    what(state, &pod);
}

/// The volume of a primary is lost, if another one has what was acknowledged: of the only copy nothing could come back.
pub fn lose_a_copy(state: &mut State) {
    let pod = primary(state);
    let promised = state.clients.get("db").map(|clients| clients.promised.clone()).unwrap_or_default();
    let lost = state.machine(&pod).map(|machine| machine.claim.clone()).unwrap_or_default();
    if state
        .disks
        .iter()
        .any(|(claim, disk)| *claim != lost && promised.lacking_in(&disk.holds) == 0 && disk.data.is_some())
    {
        lose_volume(state, &pod);
    }
}

/// A user wants nobody in particular to lead, and one member only.
pub fn leave_one(state: &mut State) {
    edit(state, "db", "nobody is preferred", |group| group.spec.preferred_primary = None);
    resize(state, 1);
}

/// A user removes the status, and with it the memory.
pub fn remove_status(state: &mut State) {
    edit(state, "db", "its status is removed", |group| group.status = None);
}

/// A user wants that member to go, and another one in its place.
pub fn remove(state: &mut State, member: &str) {
    let member = member.to_owned();
    edit(state, "db", &format!("{member} is to go"), |group| group.spec.members.remove.push(member.clone()));
}
