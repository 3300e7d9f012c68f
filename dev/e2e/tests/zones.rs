//! Zones are labels of nodes, so policies that go by them are tried where there are several nodes: `make e2e-nodes`.
use crate::spread;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tanist_e2e::{
    Group, KILL, Outcome, Stage, batches, condition, kubectl, led_by_another, node_of, play, text, until, waits,
};

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

/// The zones of the nodes on which the members run, by the members' numbers.
fn places(stage: &Stage) -> Result<BTreeMap<u32, String>> {
    let columns = "jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName}{\"\\n\"}{end}";
    let pods = kubectl(&["get", "pods", "-n", &stage.namespace, "-l", "tanist.dev/group", "-o", columns])?;
    // The node n of the cluster is in the zone n.
    let place = |line: &str| {
        let (pod, node) = line.split_once(' ')?;
        Some((pod.rsplit_once('-')?.1.parse().ok()?, node.replace("node", "zone-")))
    };
    Ok(pods.lines().filter_map(place).collect())
}

fn placed(all: &[(u32, &str)]) -> BTreeMap<u32, String> {
    all.iter().map(|(number, zone)| (*number, (*zone).to_owned())).collect()
}

fn divided(zones: &[&str]) -> Value {
    let list: Vec<_> = zones.iter().map(|zone| json!({"name": zone})).collect();
    json!({"zones": {"list": list}})
}

/// Waits until the members are these, each in its role with that many rows.
async fn settled(stage: &Stage, group: &Group, members: &[(u32, &str)], rows: u32) -> Result<Value> {
    until("the members in their zones", 240, async || Ok(places(stage)? == placed(members))).await?;
    let seen = group.ready(120).await?;
    for (number, _) in members {
        let member = group.member(*number);
        until("every row", 60, async || Ok(member.count().await.is_ok_and(|count| count == rows))).await?;
    }
    Ok(seen)
}

// E14, E15, E17, E19, E20: members are divided among the zones, know theirs, and come back in it. When a zone is renamed its members move, one after the other, joining before the former ones leave; the primary last, with one
// switchover. A zone that no node has is said, and changes nothing else; nobody waits for it any more once the list is empty.
#[test]
fn members_are_divided_among_zones_and_move_with_them() -> Outcome {
    play("divided").on("node4").run(async |stage| {
        stage.operator.grant("deploy/rbac/members").await?;
        let command = |verb: &str| json!({"exec": ["register", verb], "timeoutSeconds": 60});
        let commands =
            json!({"secondary": command("secondary"), "promote": command("promote"), "follow": command("follow")});
        let group = stage.group("register");
        let zones = divided(&["zone-1", "zone-2"])["zones"].clone();
        let spec = json!({"replicas": 3, "primaries": 1, "commands": commands, "members": {"kind": "Pods"}, "zones": zones, "resyncIntervalSeconds": 2});
        group.create(spec).await?;
        settled(stage, &group, &[(0, "zone-1"), (1, "zone-2"), (2, "zone-1")], 0).await?;
        group.member(0).write(3).await?;
        let told = group.member(1).exec(&["sh", "-c", "echo $ZONE_NAME $ZONE_INDEX"]).await?;
        ensure!(told.text.trim() == "zone-2 1", "{told:?}");
        let labels = "jsonpath={.metadata.labels.tanist\\.dev/zone} {.metadata.labels.tanist\\.dev/zone-index}";
        let said = kubectl(&["get", "pod", "-n", &stage.namespace, "register-2", "-o", labels])?;
        ensure!(said == "zone-1 0", "{said}");

        let before = group.member(2).uid().await?;
        group.member(2).delete(None).await?;
        group.member(2).replaced(&before, 60).await?;
        settled(stage, &group, &[(0, "zone-1"), (1, "zone-2"), (2, "zone-1")], 3).await?;

        group.change(divided(&["zone-1", "zone-3"])).await?;
        let seen = settled(stage, &group, &[(0, "zone-1"), (2, "zone-1"), (3, "zone-3")], 3).await?;
        ensure!(text(&seen, "/status/columns/primaries") == "register-0", "the lead moved for nothing");

        // The zone of the primary, too: it moves last.
        group.change(divided(&["zone-2", "zone-3"])).await?;
        let seen = settled(stage, &group, &[(3, "zone-3"), (4, "zone-2"), (5, "zone-2")], 3).await?;
        let hand_overs = seen.pointer("/status/record/term").and_then(Value::as_u64);
        ensure!(hand_overs == Some(2), "the lead moved more than once: term {hand_overs:?}");
        let leader = text(&seen, "/status/columns/primaries").rsplit_once('-').and_then(|(_, n)| n.parse().ok());
        group.member(leader.unwrap_or(99)).write(2).await?;

        group.change(divided(&["zone-2", "zone-9"])).await?;
        let is_said = |seen: &Value| waits(seen).contains("no node takes it");
        group.until("the zone that is not there to be reported", 60, is_said).await?;
        stage.operator.rounds(5.0, 120).await?;
        let there = placed(&[(3, "zone-3"), (4, "zone-2"), (5, "zone-2")]);
        let is_whole = |places: &BTreeMap<u32, String>| there.iter().all(|(number, zone)| places.get(number) == Some(zone));
        ensure!(is_whole(&places(stage)?), "a member left for one that cannot come: {:?}", places(stage)?);
        group.change(divided(&["zone-2", "zone-3"])).await?;
        settled(stage, &group, &[(3, "zone-3"), (4, "zone-2"), (5, "zone-2")], 5).await?;

        // Nobody divides the members any more, so nobody waits for that zone.
        group.change(divided(&["zone-2", "zone-9"])).await?;
        group.until("the new member to wait", 60, is_said).await?;
        group.change(divided(&[])).await?;
        until("nobody to wait for a zone", 240, async || {
            let places = places(stage)?;
            Ok(places.len() == 3 && places.values().all(|zone| zone.starts_with("zone-")))
        })
        .await?;
        group.ready(120).await?;
        group.had_one_primary_among(&[3, 4, 5].map(|number| group.member(number))).await
    })
}
