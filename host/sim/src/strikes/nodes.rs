//! What happens to nodes: they do not report, leave the cluster, are cordoned. What runs on a node that does not report goes on.
use super::forget;
use crate::faults::Fault;
use crate::shared::Shared;
use crate::world::State;
use k8s_openapi::api::core::v1::{Pod, Taint};
use kube::ResourceExt;

/// The nodes of every life.
const NODES: [&str; 4] = ["n0", "n1", "n2", "n3"];

/// By which an administrator says that nothing runs on a node any more.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Something happens to nodes.
pub fn strike(state: &mut State) {
    for node in NODES {
        strike_node(state, node);
    }
}

fn strike_node(state: &mut State, node: &str) {
    if state.away.contains_key(node) {
        return;
    }
    if !state.nodes.contains_key(node) {
        if state.dice(8) == 0 {
            state.add_node(node);
        } else if state.dice(3) == 0 {
            collect(state, node);
        }
        return;
    }
    let is_up = state.is_up(node);
    if state.happens(Fault::NodeGone, 48) {
        state.nodes.remove(node);
        state.tell();
        // Its machine is gone, or only the object: then its kubelet goes on. Whoever deletes a node that is cut off says that nothing runs there.
        if !is_up || state.roll(Fault::NodeGone, 2) == 0 {
            state.machines.retain(|_, machine| machine.node != node);
            state.say(format!("node {node} and its machine are gone"));
            collect(state, node);
        } else {
            let hears = state.now.saturating_add(i64::try_from(state.roll(Fault::NodeGone, 25)).unwrap_or(0));
            state.deleted_nodes.insert(node.to_owned(), hears);
            state.say(format!("node {node} is deleted; its kubelet goes on"));
        }
        return;
    }
    // One at a time: a group of which most nodes are away has nothing to do.
    if is_up && state.away.is_empty() && state.happens(Fault::NodeAway, 24) {
        let comes_back = state.roll(Fault::NodeAway, 2) == 0;
        state.away.insert(node.to_owned(), comes_back);
        state.set_node(node, false);
        return;
    }
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

/// Pods on a node that was deleted are deleted at once, as the garbage collector does after a while.
fn collect(state: &mut State, node: &str) {
    let is_on = |pod: &&Shared<Pod>| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node);
    let pods: Vec<String> = state.pods.values().filter(is_on).map(ResourceExt::name_any).collect();
    pods.iter().for_each(|pod| forget(state, pod));
}

/// Nodes come back, but for those that stay away.
pub fn heal(state: &mut State) {
    for node in NODES {
        if state.away.contains_key(node) {
            continue;
        }
        if !state.nodes.contains_key(node) {
            state.add_node(node);
        }
        if !state.is_up(node) {
            state.set_node(node, true);
        }
        if state.is_cordoned(node) {
            state.cordon(node, false);
        }
    }
}

/// The nodes that stayed away come back, or an administrator, who knows that nothing runs there any more, takes them out of service.
pub fn return_all(state: &mut State) {
    for (node, comes_back) in std::mem::take(&mut state.away) {
        if comes_back {
            state.set_node(&node, true);
        } else {
            take_out_of_service(state, &node);
        }
        if state.is_cordoned(&node) {
            state.cordon(&node, false);
        }
    }
}

/// Nothing runs on a node any more, and an administrator says so. Then its pods are deleted at once.
fn take_out_of_service(state: &mut State, name: &str) {
    state.machines.retain(|_, machine| machine.node != name);
    let Some(mut node) = state.nodes.get(name).cloned() else { return };
    let taint = Taint { key: OUT_OF_SERVICE.into(), effect: "NoExecute".into(), ..Taint::default() };
    node.spec.get_or_insert_default().taints.get_or_insert_default().push(taint);
    state.stamp(&mut node.metadata);
    state.nodes.insert(name.to_owned(), node);
    state.tell();
    state.say(format!("node {name} is out of service"));
    collect(state, name);
}
