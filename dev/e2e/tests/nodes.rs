//! What happens to nodes: cut off, without power, declared dead, back; and to the API server. One test at a time, on a cluster of four nodes of its
//! own: `make e2e-nodes`. The operator is on node4, which nothing happens to.
mod away;
mod quorum;
mod zones;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tanist_e2e::{
    Group, Outcome, Restored, Stage, apart, condition, kubectl, machines, node_of, play, starts, text, until,
};

/// One primary, two secondaries, each on a node of its own, with three rows.
async fn spread(stage: &Stage) -> Result<Group> {
    spread_as(stage, "register").await
}

/// The same group by another name.
async fn spread_as(stage: &Stage, name: &str) -> Result<Group> {
    let command = |verb: &str| json!({"exec": ["register", verb], "timeoutSeconds": 60});
    let commands =
        json!({"secondary": command("secondary"), "promote": command("promote"), "follow": command("follow")});
    let template = json!({"spec": {"affinity": apart(name)}});
    let group = stage.group(name);
    group
        .create(json!({"primaries": 1, "commands": commands, "template": template, "resyncIntervalSeconds": 10}))
        .await?;
    group.ready(90).await?;
    group.member(0).write(3).await?;
    group.copied(3).await?;
    Ok(group)
}

fn waits_for(seen: &Value, reason: &str) -> bool {
    let waits = seen.pointer("/status/awaiting").and_then(Value::as_array);
    waits.is_some_and(|w| w.iter().any(|w| text(w, "/reason") == reason))
}

/// Waits until no primary is known, then checks that no member is promoted for some rounds, and that the reason is reported.
async fn no_takeover(stage: &Stage, group: &Group) -> Result<()> {
    let silent = |seen: &Value| text(seen, "/status/columns/primaries").is_empty() && waits_for(seen, "MayBePrimary");
    let seen = group.until("the silence", 60, silent).await?;
    let why = condition(&seen, "Degraded");
    ensure!(why.starts_with("True NoPrimary"), "{why}");
    stage.operator.rounds(5.0, 180).await?;
    for ordinal in [1, 2] {
        let promoted = group.executions_of("promote", ordinal).await?;
        ensure!(promoted == 0, "register-{ordinal} was promoted while the old primary may live");
    }
    Ok(())
}

// S20, S22: the link of the primary's node is cut while its processes live on: no member takes over, and the reason is reported; when the
// link is back, the same primary goes on serving in the same term.
#[test]
fn a_primary_that_is_cut_off_is_waited_for() -> Outcome {
    play("partition").on("node4").run(async |stage| {
        let group = spread(stage).await?;
        let node = node_of(&group, 0).await?;
        let term = group.get().await?.pointer("/status/record/term").cloned();
        let restored = Restored::Link(node.clone());
        machines(&["partition", &node])?;
        no_takeover(stage, &group).await?;
        drop(restored);
        let back = |seen: &Value| {
            text(seen, "/status/columns/primaries") == "register-0" && condition(seen, "Ready").starts_with("True")
        };
        let seen = group.until("the same primary", 90, back).await?;
        ensure!(seen.pointer("/status/record/term").cloned() == term, "another term: {seen}");
        let all = starts(&group.executions().await?);
        ensure!(all == ["seed 0", "secondary 1", "secondary 2"], "{all:?}");
        group.rows(3).await
    })
}

// S20, S21: the link of the primary's node is cut, and somebody deletes its pod by force: Kubernetes has no such pod any more, and the application lives on. Nobody takes over until the node is
// back and the end of the application is proven; every row is there, and no two led at the same time.
#[test]
fn a_pod_that_is_deleted_by_force_on_a_silent_node_is_not_over() -> Outcome {
    play("forced").on("node4").run(async |stage| {
        let group = spread(stage).await?;
        let (node, old) = (node_of(&group, 0).await?, group.member(0).uid().await?);
        let inside = group.member(0).inside().await?;
        let restored = Restored::Link(node.clone());
        machines(&["partition", &node])?;
        kubectl(&["wait", "--for=condition=Ready=Unknown", "--timeout=90s", &format!("node/{node}")])?;
        group.member(0).delete(Some(0)).await?;
        until("its pod to be gone", 60, async || Ok(group.member(0).uid().await.ok().is_none_or(|uid| uid != old)))
            .await?;
        no_takeover(stage, &group).await?;
        let role = inside.run("register status; echo $?")?;
        ensure!(role.ends_with('8'), "it leads no more, so this shows nothing: {role}");
        drop(restored);
        group.ready(300).await?;
        group.copied(3).await?;
        group.had_one_primary_at_a_time().await
    })
}

// S20, S21: the power of the primary's node fails. No member takes over, because the primary's end is not known. Once an administrator declares the
// node out of service, a secondary takes over with every row; and the node comes back with a member that follows.
#[test]
fn a_node_that_is_declared_dead_is_replaced() -> Outcome {
    play("dead").on("node4").run(async |stage| {
        let group = spread(stage).await?;
        let node = node_of(&group, 0).await?;
        let restored = Restored::Power(node.clone());
        machines(&["node-kill", &node])?;
        no_takeover(stage, &group).await?;
        kubectl(&["taint", "node", &node, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"])?;
        let other = |seen: &Value| matches!(text(seen, "/status/columns/primaries"), "register-1" | "register-2");
        let seen = group.until("another primary", 90, other).await?;
        let leads = text(&seen, "/status/columns/primaries").to_owned();
        let ordinal: u32 = leads.rsplit('-').next().context("no number")?.parse()?;
        ensure!(group.member(ordinal).count().await? == 3);
        group.member(ordinal).write(2).await?;
        drop(restored);
        group.ready(120).await?;
        group.copied(5).await
    })
}

// S21: the node of the primary is deleted, and then its pod by force. The kubelet lives, and the application on it: it goes on until the kubelet hears of the
// deletion and the grace is over. So nobody takes over before 30 s and the grace have passed; then somebody does, with every row.
#[test]
fn a_deleted_node_that_lives_is_given_the_time_to_end_its_pods() -> Outcome {
    play("deleted").on("node4").run(async |stage| {
        let group = spread(stage).await?;
        let node = node_of(&group, 0).await?;
        let grace = group.member(0).pod().await?.spec.and_then(|s| s.termination_grace_period_seconds).unwrap_or(30);
        let restored = Restored::Node(node.clone());
        // Before the deletion: the operator may see it before kubectl ends.
        let since = Instant::now();
        kubectl(&["delete", "node", &node, "--wait=false"])?;
        group.member(0).delete(Some(0)).await?;
        let promoted = async || {
            let both = [group.executions_of("promote", 1).await?, group.executions_of("promote", 2).await?];
            Ok(both.iter().sum::<usize>() > 0)
        };
        until("a takeover", 150, promoted).await?;
        let (waited, least) = (since.elapsed(), Duration::from_secs(30 + u64::try_from(grace)?));
        ensure!(waited >= least, "a member was promoted {waited:?} after the node was deleted, before {least:?}");
        let other = |seen: &Value| matches!(text(seen, "/status/columns/primaries"), "register-1" | "register-2");
        let seen = group.until("another primary", 60, other).await?;
        let leads = text(&seen, "/status/columns/primaries").to_owned();
        let ordinal: u32 = leads.rsplit('-').next().context("no number")?.parse()?;
        ensure!(group.member(ordinal).count().await? == 3);
        drop(restored);
        group.ready(120).await?;
        group.copied(3).await
    })
}

// A power cut that no administrator declares: the node comes back, and with it the proof that the old container ended.
#[test]
fn a_node_that_comes_back_is_the_proof() -> Outcome {
    play("power").on("node4").run(async |stage| {
        let group = spread(stage).await?;
        let node = node_of(&group, 0).await?;
        let restored = Restored::Power(node.clone());
        machines(&["node-kill", &node])?;
        no_takeover(stage, &group).await?;
        drop(restored);
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

// A38, S26: the primary's node is cordoned: the switchover comes at once, before any eviction, not at the next resync. Then the
// drain evicts a secondary; a second drain waits until that one is back; and a drain that does not wait for the switchover loses nothing either.
#[test]
fn a_node_is_drained_and_nothing_is_lost() -> Outcome {
    play("drain").on("node4").run(async |stage| {
        let group = spread(stage).await?;
        group.change(json!({"resyncIntervalSeconds": 600})).await?;
        group.ready(60).await?;
        let nodes = [node_of(&group, 0).await?, node_of(&group, 1).await?, node_of(&group, 2).await?];
        let first = Restored::Cordon(nodes[0].clone());
        kubectl(&["cordon", &nodes[0]])?;
        let switched = |seen: &Value| {
            matches!(text(seen, "/status/columns/primaries"), "register-1" | "register-2")
                && condition(seen, "Ready").starts_with("True")
        };
        let seen = group.until("a switchover", 120, switched).await?;
        let leads: u32 = text(&seen, "/status/columns/primaries").rsplit('-').next().context("no number")?.parse()?;
        group.rows(3).await?;
        group.member(leads).write(2).await?;
        group.copied(5).await?;

        let old = group.member(0).uid().await?;
        drain(&nodes[0], 60)?;
        let led = nodes[usize::try_from(leads)?].clone();
        let second = Restored::Cordon(led.clone());
        let refused = drain(&led, 5).err().map(|e| format!("{e:#}")).unwrap_or_default();
        ensure!(refused.contains("disruption budget") || refused.contains("timeout"), "{refused}");
        drop(second);
        drop(first);
        group.member(0).replaced(&old, 60).await?;
        group.ready(90).await?;
        group.copied(5).await?;

        let third = Restored::Cordon(led.clone());
        let old = group.member(leads).uid().await?;
        drain(&led, 60)?;
        let leader = format!("register-{leads}");
        let other = |seen: &Value| {
            let now = text(seen, "/status/columns/primaries");
            !now.is_empty() && now != leader
        };
        group.until("another primary", 60, other).await?;
        drop(third);
        group.member(leads).replaced(&old, 60).await?;
        group.ready(90).await?;
        until("every row", 60, async || Ok(group.rows(5).await.is_ok())).await
    })
}
