//! Zones are labels of nodes, so policies that go by them are tried where there are several nodes: `make e2e-nodes`.
use crate::{node_of, spread};
use anyhow::{Result, ensure};
use serde_json::json;
use tanist_e2e::{KILL, Outcome, batches, condition, kubectl, led_by_another, play, text};

/// A node that is said to be in another zone, until this value is dropped.
struct Moved {
    node: String,
    from: String,
}

impl Moved {
    fn new(node: String, zone: &str) -> Result<Self> {
        let path = "jsonpath={.metadata.labels.topology\\.kubernetes\\.io/zone}";
        let from = kubectl(&["get", "node", &node, "-o", path])?.trim().to_owned();
        label(&node, zone)?;
        Ok(Moved { node, from })
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        let _ = label(&self.node, &self.from);
    }
}

fn label(node: &str, zone: &str) -> Result<()> {
    kubectl(&["label", "node", node, &format!("topology.kubernetes.io/zone={zone}"), "--overwrite"]).map(drop)
}

// P27, `zones`: all members have the same data. The primary's zone goes before the lower ordinal; with another parameter, which the running group takes over, the other
// zone does, and the lower ordinal would again have been another one.
#[test]
fn the_zone_of_the_last_primary_decides_among_equals() -> Outcome {
    play("zones").on("node4").run(async |stage| {
        let group = spread(stage).await?;
        let mut moved = Vec::new();
        for (ordinal, zone) in [(0, "a"), (1, "b"), (2, "a")] {
            moved.push(Moved::new(node_of(&group, ordinal).await?, zone)?);
        }
        group.change(json!({"policies": [{"builtin": "zones", "parameters": {"failover": "same"}}]})).await?;
        group.ready(60).await?;
        group.member(0).exec(&KILL).await?;
        ensure!(led_by_another(&group, 0, 60).await? == 2, "not the member in the zone of the last primary");
        group.rows(3).await?;

        group.member(2).write(2).await?;
        group.copied(5).await?;
        group.change(json!({"policies": [{"builtin": "zones", "parameters": {"failover": "other"}}]})).await?;
        group.ready(60).await?;
        group.member(2).exec(&KILL).await?;
        ensure!(led_by_another(&group, 2, 60).await? == 1, "not the member in the other zone");
        group.rows(5).await?;
        group.had_one_primary_at_a_time().await
    })
}

// B27, B28: with batch Zone the secondaries of one zone get new pods together, and never some of two zones.
#[test]
fn a_zone_is_updated_at_a_time() -> Outcome {
    play("zone-batch").on("node4").run(async |stage| {
        let group = spread(stage).await?;
        let mut moved = Vec::new();
        for (ordinal, zone) in [(0, "a"), (1, "b"), (2, "b")] {
            moved.push(Moved::new(node_of(&group, ordinal).await?, zone)?);
        }
        let labels = json!({"metadata": {"labels": {"example.org/edition": "2"}}});
        group.change(json!({"update": {"batch": "Zone"}, "template": labels})).await?;
        let is_done = |seen: &serde_json::Value| {
            let is_counted = seen.pointer("/status/updatedReplicas") == Some(&json!(3));
            // What the status says may be from before the change.
            is_counted && batches(seen).concat().len() == 3 && condition(seen, "Ready").starts_with("True")
        };
        let seen = group.until("every pod to have the template", 240, is_done).await?;
        let batches = batches(&seen);
        let pair = vec!["register-2".to_owned(), "register-1".to_owned()];
        ensure!(batches == [pair, vec!["register-0".to_owned()]], "{batches:?}");
        ensure!(text(&seen, "/status/columns/primaries") != "register-0", "the primary gave up the lead");
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}
