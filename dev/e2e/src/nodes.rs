//! Nodes that a test takes away.
use crate::cluster::{kubectl, machines};
use crate::group::Group;
use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Where members run whose nodes are taken away: each on a node of its own, and none on node4, on which the operator is.
#[must_use]
pub fn apart(group: &str) -> Value {
    json!({
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"tanist.dev/group": group}}}]},
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node4"]}]}]}}
    })
}

/// The node of a member.
///
/// # Errors
/// When its pod is not there, or has no node.
pub async fn node_of(group: &Group, ordinal: u32) -> Result<String> {
    let pod = group.member(ordinal).pod().await?;
    pod.spec.and_then(|s| s.node_name).context("no node")
}

/// Restores a node when the test ends, also when it fails.
pub enum Restored {
    /// Uncordons the node.
    Cordon(String),
    /// Connects its network link again.
    Link(String),
    /// Starts it again.
    Power(String),
    /// Stops it and starts it: only a kubelet that starts adds its node.
    Node(String),
}

impl Drop for Restored {
    fn drop(&mut self) {
        let (Restored::Cordon(node) | Restored::Link(node) | Restored::Power(node) | Restored::Node(node)) = &*self;
        let _ = match &*self {
            Restored::Cordon(node) => kubectl(&["uncordon", node]),
            Restored::Link(node) => machines(&["heal", node]),
            Restored::Power(node) => machines(&["node-start", node]),
            Restored::Node(node) => machines(&["node-kill", node]).and_then(|_| machines(&["node-start", node])),
        };
        let _ = kubectl(&["wait", "--for=condition=Ready", "--timeout=60s", &format!("node/{node}")]);
        let _ = kubectl(&["taint", "node", node, "node.kubernetes.io/out-of-service-"]);
    }
}
