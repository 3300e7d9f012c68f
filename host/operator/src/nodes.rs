//! Watches nodes. A node that is lost, comes back, is drained or is declared out of service starts rounds of the groups with members there.
use crate::context::Context;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::Store;
use kube::runtime::watcher::{self, Error, Event, watcher};
use kube::{Api, ResourceExt};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_cluster::observe::convert;
use tanist_core::snapshot;
use tracing::{info, warn};

/// The first and the longest pause after a refused watch: the right to watch nodes is optional. The first pause is short, because the right may
/// be granted while the operator starts.
const FORBIDDEN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(300)];

/// Watches nodes for as long as the process runs.
pub async fn watch(ctx: &Arc<Context>, groups: &[Store<ReplicaGroup>]) {
    let [mut pause, longest] = FORBIDDEN;
    loop {
        until_forbidden(ctx, groups).await;
        let seconds = pause.as_secs();
        info!(
            seconds,
            "the operator may not watch nodes: changes of nodes are seen at the next round; the watch is tried again after these seconds"
        );
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

async fn until_forbidden(ctx: &Arc<Context>, groups: &[Store<ReplicaGroup>]) {
    let nodes: Api<Node> = Api::all(ctx.exec_client.clone());
    let mut events = std::pin::pin!(watcher(nodes, watcher::Config::default()).default_backoff());
    let mut known = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                if let Some(name) = changed(&mut known, &event) {
                    let concerned = groups.iter().flat_map(Store::state).filter(|g| concerns(g, &name));
                    concerned.for_each(|g| ctx.rounds.wake(&g));
                }
            }
            Err(
                Error::InitialListFailed(kube::Error::Api(status)) | Error::WatchStartFailed(kube::Error::Api(status)),
            ) if status.code == 403 => {
                return;
            }
            Err(error) => warn!(%error, "the watch of nodes failed; it is started again"),
        }
    }
}

/// The name of a node that changed in what matters. The first list counts as no change: every group begins with a round anyway.
fn changed(known: &mut BTreeMap<String, snapshot::Node>, event: &Event<Node>) -> Option<String> {
    match event {
        Event::Init | Event::InitDone => None,
        Event::Apply(node) | Event::InitApply(node) => {
            let (name, now) = (node.name_any(), convert::node(node));
            let before = known.insert(name.clone(), now.clone());
            before.is_some_and(|before| before != now).then_some(name)
        }
        Event::Delete(node) => {
            known.remove(&node.name_any());
            Some(node.name_any())
        }
    }
}

/// Whether a member of the group is on that node, or was there and may still be primary.
fn concerns(group: &ReplicaGroup, node: &str) -> bool {
    let Some(status) = &group.status else { return false };
    let last = status.record.as_ref().and_then(|r| r.get("lastPrimaries")?.as_array());
    let led = last.into_iter().flatten().any(|l| l.get("node").is_some_and(|n| n == node));
    led || status.members.iter().any(|m| m.node.as_deref() == Some(node))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may")]
    use super::*;
    use serde_json::{Value, json};

    fn node(unschedulable: bool, ready: &str) -> Node {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        serde_json::from_value(json!({
            "metadata": {"name": "n1"}, "spec": {"unschedulable": unschedulable}, "status": {"conditions": conditions}
        }))
        .unwrap()
    }

    // A change of a node is noticed by an event and not by the resync interval.
    #[test]
    fn a_node_is_news_when_it_is_not_what_it_was() {
        let mut known = BTreeMap::new();
        assert_eq!(changed(&mut known, &Event::InitApply(node(false, "True"))), None);
        assert_eq!(changed(&mut known, &Event::Apply(node(false, "True"))), None, "a heartbeat");
        assert_eq!(changed(&mut known, &Event::Apply(node(true, "True"))), Some("n1".into()), "cordoned");
        assert_eq!(changed(&mut known, &Event::InitApply(node(true, "Unknown"))), Some("n1".into()), "lost");
        assert_eq!(changed(&mut known, &Event::Delete(node(true, "Unknown"))), Some("n1".into()));
    }

    #[test]
    fn only_groups_with_members_there_look() {
        let group = |status: Value| -> ReplicaGroup {
            serde_json::from_value(json!({
                "apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "metadata": {"name": "db"},
                "spec": {"replicas": 1, "primaries": 1, "template": {}, "commands": {
                    "status": {"exec": ["s"]}, "sequence": {"exec": ["q"]}, "stop": {"exec": ["t"]}, "primary": {"exec": ["p"]}
                }},
                "status": status
            }))
            .unwrap()
        };
        let remembered = group(json!({"record": {"lastPrimaries": [{"member": "db-0", "node": "n1"}]}}));
        assert!(concerns(&remembered, "n1") && !concerns(&remembered, "n2"));
        assert!(!concerns(&group(json!({})), "n1"));
    }
}
