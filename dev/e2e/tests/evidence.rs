//! What proves that a command or a member is over, and what does not.
use crate::takeover::led;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;
use tanist_e2e::{Group, Outcome, condition, kubectl, play, term, text, until};
use tokio::time::Instant;

fn has_intent(group: &Value, command: &str) -> bool {
    let intents = group.pointer("/status/record/intents").and_then(Value::as_array);
    intents.is_some_and(|all| all.iter().any(|i| text(i, "/command") == command))
}

// S1, S2, S5: a seed runs, the right to exec is taken away, and another operator takes over. That it may not ask how the seed ended says nothing
// of the seed: the group waits, and once it may ask again the one seed counts.
#[test]
fn who_may_not_ask_how_a_command_ended_knows_nothing() -> Outcome {
    play("unasked").run(async |stage| {
        let slow = json!([{"name": "REGISTER_FAULT_seed", "value": "register-0:slow 45 x1"}]);
        let changes = json!({"resyncIntervalSeconds": 1, "container_": {"env": slow}});
        let group = stage.register(changes).await?;
        group.until("the seed", 60, |seen| has_intent(seen, "seed")).await?;
        until("the seed runs", 60, async || Ok(group.executions_of("seed", 0).await? == 1)).await?;
        let rules = stage.operator.deny("pods/exec", &["get", "create"]).await?;
        let old = stage.operator.pod().await?;
        stage.operator.kill(&old).await?;
        stage.operator.rounds_after(&old, 3.0, 60).await?;
        let seen = group.get().await?;
        ensure!(has_intent(&seen, "seed"), "a seed of unknown outcome was closed: {}", seen["status"]["record"]);
        stage.operator.allow(rules).await?;
        group.ready(120).await?;
        let seeds = group.executions().await?.iter().filter(|e| e.command == "seed").count();
        ensure!(seeds == 1, "{seeds} seeds");
        Ok(())
    })
}

/// Who says that it is primary, asked of each member.
async fn primaries(group: &Group) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for member in group.members(3) {
        if member.exec(&["register", "status"]).await?.code == 8 {
            found.push(member.ordinal);
        }
    }
    Ok(found)
}

// Promise 1, S20: a living primary whose pod lost its label is not gone. Nobody takes over in the time in which a pod that is gone would be proven
// over, the group says what is wrong, and with the label back all is as it was.
#[test]
fn a_primary_that_lost_its_label_is_not_gone() -> Outcome {
    play("unlabelled").run(async |stage| {
        let mut changes = led();
        changes["resyncIntervalSeconds"] = json!(1);
        let group = stage.register(changes).await?;
        let formed = group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let label = |value: &str| kubectl(&["label", "pod", "-n", &stage.namespace, "register-0", value]);
        label("tanist.dev/group-")?;
        // A pod that is gone is over after 90 s in which its node is Ready (docs/rules.md, "Over"), and the example's grace of 5 s.
        let end = Instant::now() + Duration::from_secs(100);
        while Instant::now() < end {
            let leads = primaries(&group).await?;
            ensure!(leads.len() <= 1, "{leads:?} are primary");
        }
        let seen = group.get().await?;
        ensure!(!condition(&seen, "Ready").starts_with("True"), "{}", condition(&seen, "Ready"));
        let said = seen.pointer("/status/awaiting").map(Value::to_string).unwrap_or_default();
        ensure!(said.contains("tanist.dev/group"), "nothing says that the label is missing: {said}");
        label("tanist.dev/group=register")?;
        let healed = group.ready(60).await?;
        ensure!(term(&healed) == term(&formed) && primaries(&group).await? == [0], "a member took over");
        group.rows(3).await
    })
}

// S13, S15: what was read of a stopped member holds only while nobody can have touched it. Seeds fail, the group is paused, an administrator starts
// a member by hand, writes, and stops it: after the pause its data is read again, and it leads.
#[test]
fn what_was_read_before_a_pause_does_not_decide_a_seed() -> Outcome {
    play("byhand").run(async |stage| {
        let group = stage.register(json!({"resyncIntervalSeconds": 1})).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        for member in group.members(3) {
            member.fault("seed", "fail").await?;
        }
        let old = group.delete_pods(None).await?;
        let failed = |seen: &Value| {
            let history = seen.pointer("/status/record/history").map(Value::to_string).unwrap_or_default();
            history.matches("command-failed").count() >= 2
        };
        group.until("seeds that fail", 120, failed).await?;
        group.change(json!({"paused": true})).await?;
        group.until("the pause", 60, |seen| condition(seen, "Ready").starts_with("Unknown Paused")).await?;
        let chosen = group.member(2);
        for member in group.members(3) {
            member.fault("seed", "clear").await?;
        }
        chosen.register("seed").await?;
        let rows = chosen.write(4).await?;
        ensure!(rows == 7, "{rows} rows");
        chosen.register("stop").await?;
        group.change(json!({"paused": false})).await?;
        group.annotate("tanist.dev/retry", "1").await?;
        group.recovered(&old, 120).await?;
        group.rows(7).await
    })
}

// S48: one right is missing, that on disruption budgets, and the operator starts anew: a secondary takes over all the same, and the group says
// which write the API server refused, in its words.
#[test]
fn a_write_that_is_refused_holds_up_nothing_else() -> Outcome {
    play("refused").run(async |stage| {
        let mut changes = led();
        changes["resyncIntervalSeconds"] = json!(1);
        let group = stage.register(changes).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let rules = stage.operator.deny("poddisruptionbudgets", &["create", "patch"]).await?;
        // A changed budget has to be written, by an operator that remembers nothing.
        kubectl(&["annotate", "pdb", "-n", &stage.namespace, "--all", "tanist.dev/applied-", "--overwrite"])?;
        let old = stage.operator.pod().await?;
        stage.operator.kill(&old).await?;
        let refused = |seen: &Value| {
            let said = seen.pointer("/status/conditions").map(Value::to_string).unwrap_or_default();
            said.contains("PodDisruptionBudget") && said.contains("Forbidden")
        };
        let seen = group.until("the refused write", 90, refused).await?;
        let said = seen.pointer("/status/conditions").map(Value::to_string).unwrap_or_default();
        ensure!(!said.contains("Status {") && !said.contains("Some("), "a debug dump: {said}");
        group.member(0).exec(&["sh", "-c", "kill -9 $(cut -d' ' -f1 /run/register/server)"]).await?;
        let another = |seen: &Value| matches!(text(seen, "/status/columns/primaries"), "register-1" | "register-2");
        group.until("another primary", 60, another).await?;
        stage.operator.allow(rules).await?;
        group.ready(60).await?;
        group.rows(3).await
    })
}

// S25: Kubernetes refuses to create a pod: the group says why, in Kubernetes' words, and once the cause is gone the pod is back long before the
// StatefulSet controller's own back-off of minutes is over.
#[test]
fn a_pod_that_kubernetes_refuses_to_create_is_explained_and_comes_back() -> Outcome {
    play("quota").run(async |stage| {
        let group = stage.register(json!({"resyncIntervalSeconds": 1})).await?;
        group.ready(60).await?;
        kubectl(&["create", "quota", "none", "-n", &stage.namespace, "--hard=pods=2"])?;
        let old = group.member(2).uid().await?;
        group.member(2).delete(None).await?;
        let said =
            |seen: &Value| seen.pointer("/status/awaiting").is_some_and(|w| w.to_string().contains("exceeded quota"));
        group.until("the reason", 60, said).await?;
        // Long enough for the StatefulSet controller to wait for tens of seconds between two tries.
        stage.operator.rounds(40.0, 120).await?;
        kubectl(&["delete", "quota", "none", "-n", &stage.namespace])?;
        group.member(2).replaced(&old, 30).await?;
        group.recovered(&[old], 60).await.map(drop).context("the group is not whole again")
    })
}
