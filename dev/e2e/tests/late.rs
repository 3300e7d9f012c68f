//! Commands of unknown outcome, and pods that are not those of the plan.
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Group, Outcome, play, starts, until, waits};

fn history(group: &Value) -> String {
    group.pointer("/status/record/history").map(Value::to_string).unwrap_or_default()
}

async fn seeds(group: &Group) -> Result<Vec<String>> {
    Ok(starts(&group.executions().await?).into_iter().filter(|s| s.starts_with("seed")).collect())
}

// S2, reading 27: at the deadline the outcome is unknown; no other member is seeded, nothing is stopped, and a late success counts.
#[test]
fn a_seed_that_succeeds_after_its_deadline_stays_the_only_one() -> Outcome {
    play("late").run(async |stage| {
        let env = json!([{"name": "REGISTER_FAULT_seed", "value": "register-0:late 60 x1"}]);
        let commands = json!({"seed": {"timeoutSeconds": 5}});
        let group = stage.register(json!({"commands": commands, "container_": {"env": env}})).await?;
        let unknown = group.until("an unknown outcome", 60, |seen| waits(seen).contains("OutcomeUnknown")).await?;
        ensure!(waits(&unknown).contains("the outcome of seed on register-0 is unknown"), "{}", waits(&unknown));
        group.ready(120).await?;
        ensure!(starts(&group.executions().await?) == ["seed 0", "primary 1", "primary 2"]);
        let journal = group.journal().await?;
        ensure!(journal.iter().any(|e| e.edge == "late" && e.command == "seed"), "it was not late");
        ensure!(!journal.iter().any(|e| e.command == "stop"), "something was stopped");
        Ok(())
    })
}

// S2, reading 27: if it never succeeds, the pod is deleted as the last resort, and only then another member is started.
#[test]
fn a_seed_that_never_ends_costs_its_pod() -> Outcome {
    play("never").run(async |stage| {
        let env = json!([{"name": "REGISTER_FAULT_seed", "value": "register-0:late 600 x1"}]);
        let commands = json!({"seed": {"timeoutSeconds": 10}});
        let changes = json!({"commands": commands, "unknownGraceSeconds": 60, "container_": {"env": env}});
        let group = stage.register(changes).await?;
        // Before the outcome is unknown: from then on the pod lives for 60 s.
        let mut old = String::new();
        until("the pod of register-0", 60, async || {
            old = group.member(0).uid().await?;
            Ok(true)
        })
        .await?;
        group.until("an unknown outcome", 60, |seen| waits(seen).contains("OutcomeUnknown")).await?;
        let seen = group.recovered(&[old], 120).await?;
        ensure!(history(&seen).contains("was still unknown 60 s after its deadline"), "{}", history(&seen));
        ensure!(seeds(&group).await?.len() == 2, "{:?}", seeds(&group).await?);
        Ok(())
    })
}

// A34, S8: the pod is deleted between plan and exec: an error, never a success, and nothing runs in the new pod for the old plan.
#[test]
fn a_pod_deleted_before_the_exec_is_no_success() -> Outcome {
    // The first was never seeded, so the next one of equal data is; the first further primary is register-2 then.
    let pauses = "recorded:seed:register-0=30,decided:primary:register-2=30";
    play("replaced").with("TANIST_PAUSE", pauses).run(async |stage| {
        let group = stage.register(json!({})).await?;
        for (point, ordinal) in [("recorded:seed:register-0", 0), ("decided:primary:register-2", 2)] {
            stage.operator.said(point, 60).await?;
            let member = group.member(ordinal);
            let old = member.uid().await?;
            member.delete(Some(0)).await?;
            member.replaced(&old, 90).await?;
        }
        // The plan of the second was dropped at the second look, before anything was written.
        stage.operator.said("was replaced since the decision", 90).await?;
        let seen = group.ready(120).await?;
        // On a busy machine the kubelet may still be replacing the pod when the exec comes, and then nobody says that nothing was started.
        let ends = ["seed was not started", "the container of register-0 ended while seed ran"];
        ensure!(ends.iter().any(|end| history(&seen).contains(end)), "{}", history(&seen));
        let all = group.executions().await?;
        ensure!(all.iter().all(|e| (e.command.as_str(), e.ordinal) != ("seed", 0)), "{:?}", starts(&all));
        let seeds = seeds(&group).await?;
        ensure!(seeds.len() == 1, "{seeds:?}");
        ensure!(all.iter().filter(|e| e.command == "primary").count() == 2, "{:?}", starts(&all));
        Ok(())
    })
}

// S9: the container restarts in mid-command: the outcome is not guessed, and the group heals.
#[test]
fn a_container_that_restarts_in_a_command_heals() -> Outcome {
    play("restarted").run(async |stage| {
        let env = json!([{"name": "REGISTER_FAULT_seed", "value": "register-0:slow 30 x1"}]);
        let group = stage.register(json!({"container_": {"env": env}})).await?;
        let begun = async || Ok(group.executions_of("seed", 0).await? == 1);
        until("the seed", 60, begun).await?;
        let member = group.member(0);
        let before = container(&group).await?;
        // The runner is PID 1; its end is the container's.
        let _ = member.exec(&["kill", "1"]).await;
        until("another container", 30, async || Ok(container(&group).await? != before)).await?;
        let seen = group.ready(90).await?;
        ensure!(history(&seen).contains("command-failed"), "{}", history(&seen));
        let all = group.executions().await?;
        ensure!(all.iter().filter(|e| e.command == "seed" && e.code == Some(0)).count() == 1, "{all:?}");
        Ok(())
    })
}

async fn container(group: &Group) -> Result<String> {
    let status = group.member(0).pod().await?.status.and_then(|s| s.container_statuses).unwrap_or_default();
    let register =
        status.into_iter().find(|c| c.name == "register" && c.state.as_ref().is_some_and(|s| s.running.is_some()));
    register.and_then(|c| c.container_id).context("no container runs")
}
