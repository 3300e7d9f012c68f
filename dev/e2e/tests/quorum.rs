//! Nodes are lost under members that agree: a majority goes on, and nobody is added or removed because a node is silent.
use super::{Restored, node_of};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tanist_e2e::{EtcdClient, Group, Members, Outcome, condition, counts, kubectl, listed, machines, play, text};

/// A member other than the first, on a node that is neither that of the operator and the client, nor that of the first.
async fn on_another_node(group: &Group, members: u32) -> Result<(u32, String)> {
    let first = node_of(group, 0).await?;
    for ordinal in 1..members {
        let node = node_of(group, ordinal).await?;
        if node != first && node != "node4" {
            return Ok((ordinal, node));
        }
    }
    anyhow::bail!("all are on two nodes")
}

/// The power of that member's node fails. The client goes on, the group says that a member is missing, and the members stay those that they were.
async fn fail(group: &Group, client: &EtcdClient, ordinal: u32, node: &str) -> Result<Restored> {
    let restored = Restored::Power(node.to_owned());
    machines(&["node-kill", node])?;
    client.goes_on().await?;
    let is_silent = |seen: &Value| {
        let rows = seen.pointer("/status/members").and_then(Value::as_array).cloned().unwrap_or_default();
        let name = format!("etcd-{ordinal}");
        let own = rows.iter().find(|row| text(row, "/name") == name);
        condition(seen, "Ready").starts_with("False") && own.is_some_and(|row| text(row, "/role") != "Primary")
    };
    group.until("the silent member to be reported", 120, is_silent).await?;
    Ok(restored)
}

/// Who the members are, whoever of them is healthy.
async fn identities(group: &Group) -> Result<BTreeMap<String, String>> {
    Ok(listed(group, 0).await?.into_iter().map(|(name, (id, _))| (name, id)).collect())
}

fn differing(before: &Members, after: &Members) -> Vec<String> {
    after.iter().filter(|(name, now)| before.get(*name) != Some(now)).map(|(name, _)| name.clone()).collect()
}

// D21: three members on three nodes. One node loses its power: the others serve, and change nobody. When it is declared out of service and the claim of its member is deleted, the member is
// removed and added anew on another node. Then there are five; a node fails and comes back, and with it the members that it had, under their identities.
#[test]
fn a_node_of_etcd_is_lost() -> Outcome {
    play("quorum").on("node4").run(async |stage| {
        let apart = json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"tanist.dev/group": "etcd"}}}]);
        let spread = json!({"replicas": 3, "resyncIntervalSeconds": 10, "template": {"spec": {"topologySpreadConstraints": apart}}});
        let group = stage.etcd(spread).await?;
        let three = counts(&group, 3).await?;
        let client = EtcdClient::begin(stage, Some("node4")).await?;

        let (lost, node) = on_another_node(&group, 3).await?;
        let before = identities(&group).await?;
        let restored = fail(&group, &client, lost, &node).await?;
        stage.operator.rounds(3.0, 120).await?;
        ensure!(identities(&group).await? == before, "{before:?} {:?}", identities(&group).await?);
        client.goes_on().await?;
        kubectl(&["taint", "node", &node, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"])?;
        let name = format!("etcd-{lost}");
        kubectl(&["delete", "-n", &group.namespace, "pvc", &format!("data-{name}"), "--wait=false"])?;
        kubectl(&["delete", "-n", &group.namespace, "pod", &name, "--wait=false"])?;
        let repaired = counts(&group, 3).await?;
        ensure!(differing(&three, &repaired) == [name.clone()], "{three:?} {repaired:?}");
        ensure!(node_of(&group, lost).await? != node);
        client.lost_nothing().await?;
        drop(restored);

        group.change(json!({"replicas": 5})).await?;
        let five = counts(&group, 5).await?;
        let (lost, node) = on_another_node(&group, 5).await?;
        drop(fail(&group, &client, lost, &node).await?);
        let again = counts(&group, 5).await?;
        ensure!(differing(&five, &again).is_empty(), "{five:?} {again:?}");
        client.lost_nothing().await.context("after the second node")
    })
}
