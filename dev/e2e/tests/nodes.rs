//! What happens to nodes: cut off, without power, declared dead, back. One test at a time, on a cluster of four nodes of its own:
//! `make e2e-nodes`. The operator is on node4, which nothing happens to.
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;
use tanist_e2e::{Group, Outcome, Stage, condition, kubectl, machines, play, starts, text, until};

/// One primary, two secondaries, each on a node of its own.
async fn spread(stage: &Stage) -> Result<Group> {
    let command = |name: &str| json!({"exec": ["register", name], "timeoutSeconds": 60});
    let apart = json!({
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"tanist.dev/group": "register"}}}]},
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node4"]}]}]}}
    });
    let commands =
        json!({"secondary": command("secondary"), "promote": command("promote"), "follow": command("follow")});
    let template = json!({"spec": {"affinity": apart}});
    let group = stage
        .register(json!({"primaries": 1, "commands": commands, "template": template, "resyncIntervalSeconds": 10}))
        .await?;
    group.ready(90).await?;
    group.member(0).write(3).await?;
    group.copied(3).await?;
    Ok(group)
}

async fn node_of(group: &Group, ordinal: u32) -> Result<String> {
    let pod = group.member(ordinal).pod().await?;
    pod.spec.and_then(|s| s.node_name).context("no node")
}

fn waits_for(seen: &Value, reason: &str) -> bool {
    let waits = seen.pointer("/status/waiting").and_then(Value::as_array);
    waits.is_some_and(|w| w.iter().any(|w| text(w, "/reason") == reason))
}

/// Waits until nobody leads by what can be known, then holds that nobody is promoted for a while, and that it is said why.
async fn nobody_takes_over(group: &Group) -> Result<()> {
    let silent = |seen: &Value| text(seen, "/status/primary").is_empty() && waits_for(seen, "MayBePrimary");
    let seen = group.until("the silence", 60, silent).await?;
    let why = condition(&seen, "Degraded");
    ensure!(why.starts_with("True NoPrimary"), "{why}");
    tokio::time::sleep(Duration::from_secs(20)).await;
    for ordinal in [1, 2] {
        let promoted = group.executions_of("promote", ordinal).await?;
        ensure!(promoted == 0, "register-{ordinal} was promoted while the old primary may live");
    }
    Ok(())
}

/// Whatever a test took away is there again when it ends, also when it fails.
enum Mended {
    /// Its place among those that take pods.
    Cordon(String),
    /// Its link.
    Link(String),
    /// Its power.
    Power(String),
}

impl Drop for Mended {
    fn drop(&mut self) {
        let (Mended::Cordon(node) | Mended::Link(node) | Mended::Power(node)) = &*self;
        let _ = match &*self {
            Mended::Cordon(node) => kubectl(&["uncordon", node]),
            Mended::Link(node) => machines(&["heal", node]),
            Mended::Power(node) => machines(&["node-start", node]),
        };
        let _ = kubectl(&["wait", "--for=condition=Ready", "--timeout=60s", &format!("node/{node}")]);
        let _ = kubectl(&["taint", "node", node, "node.kubernetes.io/out-of-service-"]);
    }
}

// S20, S22: the link of the primary's node is cut while its processes live on: nobody takes over, and it is said why; when the link
// is back, the same primary serves on in the same term.
#[test]
fn a_primary_that_is_cut_off_is_waited_for() -> Outcome {
    play("partition").on("node4").run(async |stage| {
        let group = spread(stage).await?;
        let node = node_of(&group, 0).await?;
        let term = group.get().await?.pointer("/status/record/term").cloned();
        let mended = Mended::Link(node.clone());
        machines(&["partition", &node])?;
        nobody_takes_over(&group).await?;
        drop(mended);
        let back = |seen: &Value| {
            text(seen, "/status/primary") == "register-0" && condition(seen, "Ready").starts_with("True")
        };
        let seen = group.until("the same primary", 90, back).await?;
        ensure!(seen.pointer("/status/record/term").cloned() == term, "another term: {seen}");
        let all = starts(&group.executions().await?);
        ensure!(all == ["seed 0", "secondary 1", "secondary 2"], "{all:?}");
        group.rows(3).await
    })
}

// S20, S21: the power of the primary's node fails. Nobody takes over, for nobody knows; once a person says that the node is out of service, a
// secondary does, with every row; and the node comes back with a member that follows.
#[test]
fn a_node_that_is_declared_dead_is_replaced() -> Outcome {
    play("dead").on("node4").run(async |stage| {
        let group = spread(stage).await?;
        let node = node_of(&group, 0).await?;
        let mended = Mended::Power(node.clone());
        machines(&["node-kill", &node])?;
        nobody_takes_over(&group).await?;
        kubectl(&["taint", "node", &node, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"])?;
        let other = |seen: &Value| matches!(text(seen, "/status/primary"), "register-1" | "register-2");
        let seen = group.until("another primary", 90, other).await?;
        let leads = text(&seen, "/status/primary").to_owned();
        let ordinal: u32 = leads.rsplit('-').next().context("no number")?.parse()?;
        ensure!(group.member(ordinal).count().await? == 3);
        group.member(ordinal).write(2).await?;
        drop(mended);
        group.ready(120).await?;
        group.copied(5).await
    })
}

// A power cut without a word from a person: the node comes back, and with it the proof that the old container ended.
#[test]
fn a_node_that_comes_back_is_the_proof() -> Outcome {
    play("power").on("node4").run(async |stage| {
        let group = spread(stage).await?;
        let node = node_of(&group, 0).await?;
        let mended = Mended::Power(node.clone());
        machines(&["node-kill", &node])?;
        nobody_takes_over(&group).await?;
        drop(mended);
        group.ready(120).await?;
        group.copied(3).await?;
        let seeds = group.executions().await?.iter().filter(|e| e.command == "seed").count();
        ensure!(seeds <= 2, "{seeds} seeds");
        Ok(())
    })
}

fn drain(node: &str, seconds: u32) -> Result<String> {
    let timeout = format!("--timeout={seconds}s");
    let ours = "--pod-selector=tanist.dev/group=register";
    kubectl(&["drain", node, "--ignore-daemonsets", "--delete-emptydir-data", ours, &timeout])
}

// A38, S26: the primary's node is cordoned: it hands over before anything is evicted, at once, not at the next resync. Then the
// drain evicts a secondary; a second drain waits until that one is back; and a drain that does not wait for the hand-over loses nothing either.
#[test]
fn a_node_is_drained_and_nothing_is_lost() -> Outcome {
    play("drain").on("node4").run(async |stage| {
        let group = spread(stage).await?;
        group.change(json!({"resyncIntervalSeconds": 600})).await?;
        group.ready(60).await?;
        let nodes = [node_of(&group, 0).await?, node_of(&group, 1).await?, node_of(&group, 2).await?];
        let first = Mended::Cordon(nodes[0].clone());
        kubectl(&["cordon", &nodes[0]])?;
        let handed = |seen: &Value| {
            matches!(text(seen, "/status/primary"), "register-1" | "register-2")
                && condition(seen, "Ready").starts_with("True")
        };
        let seen = group.until("a hand-over", 30, handed).await?;
        let leads: u32 = text(&seen, "/status/primary").rsplit('-').next().context("no number")?.parse()?;
        group.rows(3).await?;
        group.member(leads).write(2).await?;
        group.copied(5).await?;

        let old = group.member(0).uid().await?;
        drain(&nodes[0], 60)?;
        let led = nodes[usize::try_from(leads)?].clone();
        let second = Mended::Cordon(led.clone());
        let refused = drain(&led, 5).err().map(|e| format!("{e:#}")).unwrap_or_default();
        ensure!(refused.contains("disruption budget") || refused.contains("timeout"), "{refused}");
        drop(second);
        drop(first);
        group.member(0).replaced(&old, 60).await?;
        group.ready(90).await?;
        group.copied(5).await?;

        let third = Mended::Cordon(led.clone());
        let old = group.member(leads).uid().await?;
        drain(&led, 60)?;
        let leader = format!("register-{leads}");
        let other = |seen: &Value| {
            let now = text(seen, "/status/primary");
            !now.is_empty() && now != leader
        };
        group.until("another primary", 60, other).await?;
        drop(third);
        group.member(leads).replaced(&old, 60).await?;
        group.ready(90).await?;
        until("every row", 30, async || Ok(group.rows(5).await.is_ok())).await
    })
}
