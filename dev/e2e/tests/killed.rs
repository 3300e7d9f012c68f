//! The operator is killed.
use crate::outage::make_most_recent;
use anyhow::{Result, ensure};
use serde_json::json;
use tanist_e2e::{Group, Outcome, Stage, play, starts, until};

/// Every row is there, and so many seeds were executed, nowhere two at a time.
async fn nothing_lost(group: &Group, rows: u32, seeds: &[&str]) -> Result<()> {
    group.rows(rows).await?;
    let all = group.executions().await?;
    let executed: Vec<_> = starts(&all).into_iter().filter(|s| s.starts_with("seed")).collect();
    ensure!(executed == seeds, "{executed:?}");
    let starts: Vec<_> = all.iter().filter(|e| matches!(e.command.as_str(), "seed" | "primary")).collect();
    for pair in starts.windows(2) {
        let [earlier, later] = pair else { continue };
        ensure!(earlier.ended.is_some_and(|end| end <= later.began), "two starts overlap: {earlier:?} {later:?}");
    }
    Ok(())
}

/// Forms, is made to lose everything, recovers from member 2.
async fn twice(stage: &Stage) -> Result<Group> {
    let group = stage.register(json!({})).await?;
    group.ready(90).await?;
    group.member(0).write(3).await?;
    group.copied(3).await?;
    make_most_recent(&group, 2, 2).await?;
    let old = group.delete_pods(None).await?;
    group.recovered(&old, 120).await?;
    Ok(group)
}

// S1, A32: killed between intent and exec: nothing was started under that token and nothing ever will be; another start follows.
#[test]
fn killed_between_intent_and_exec() -> Outcome {
    let play = play("killed-recorded").with("TANIST_CRASH", "recorded:seed:register-2,recorded:primary:register-1");
    play.run(async |stage| {
        let group = twice(stage).await?;
        stage.operator.restarted(2, 60).await?;
        nothing_lost(&group, 5, &["seed 0", "seed 2"]).await
    })
}

// S1, A32: killed when the command had ended and nothing was written about it: the runner remembers.
#[test]
fn killed_before_the_result_is_stored() -> Outcome {
    let play = play("killed-ended").with("TANIST_CRASH", "ended:seed:register-2,ended:primary:register-1");
    play.run(async |stage| {
        let group = twice(stage).await?;
        stage.operator.restarted(2, 60).await?;
        nothing_lost(&group, 5, &["seed 0", "seed 2"]).await?;
        // Settled by evidence, not by a second try.
        let primaries = starts(&group.executions().await?).into_iter().filter(|s| s == "primary 1").count();
        ensure!(primaries == 2, "{primaries} times primary on register-1, twice it had to join");
        Ok(())
    })
}

// S1, A32: killed while a seed runs, and again while a member joins. Another operator, with another name, takes over.
#[test]
fn killed_while_commands_run() -> Outcome {
    play("killed-running").run(async |stage| {
        let group = stage.register(json!({})).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        make_most_recent(&group, 2, 2).await?;
        group.member(2).fault("seed", "slow 15 x1").await?;
        group.member(0).fault("primary", "slow 15 x1").await?;
        let (seeds, joins) = (group.executions_of("seed", 2).await?, group.executions_of("primary", 0).await?);
        let old = group.delete_pods(None).await?;
        for (command, ordinal, before) in [("seed", 2, seeds), ("primary", 0, joins)] {
            let more = async || Ok(group.executions_of(command, ordinal).await? > before);
            until(&format!("{command} on register-{ordinal}"), 60, more).await?;
            stage.operator.kill(&stage.operator.pod().await?).await?;
        }
        group.recovered(&old, 120).await?;
        nothing_lost(&group, 5, &["seed 0", "seed 2"]).await
    })
}

// S1, A32, S2 without the runner: it cannot be known whether the seed ran, so the pod is deleted before another member is started.
#[test]
fn killed_between_intent_and_exec_without_the_runner() -> Outcome {
    let play = play("killed-none").with("TANIST_CRASH", "recorded:seed:register-0");
    play.run(async |stage| {
        let group = stage
            .register(json!({
                "runner": "None",
                "unknownGraceSeconds": 60,
                "commands": {"seed": {"timeoutSeconds": 5}},
                "container_": {"command": ["sleep", "infinity"]}
            }))
            .await?;
        let mut old = String::new();
        until("the pod of register-0", 60, async || {
            old = group.member(0).uid().await?;
            Ok(true)
        })
        .await?;
        stage.operator.restarted(1, 60).await?;
        group.recovered(&[old], 120).await?;
        ensure!(starts(&group.executions().await?).iter().filter(|s| s.starts_with("seed")).count() == 1);
        Ok(())
    })
}

// A51: SIGTERM while the operator starts. As process 1 it would lose a signal that it does not listen for, lead until the grace of its pod is over (40 s),
// be killed, and leave its Lease behind.
#[test]
fn terminated_while_it_starts() -> Outcome {
    play("terminated").with("TANIST_PAUSE", "start=5").run(async |stage| {
        let operator = &stage.operator;
        let first = operator.pod().await?;
        operator.said("leading", 60).await?;
        operator.kill(&first).await?;
        let other = async || Ok(operator.pod().await.is_ok_and(|pod| pod != first));
        until("another operator", 30, other).await?;
        let second = operator.pod().await?;
        let paused = async || Ok(operator.log_of(&second).await.contains("pauses the operator at this point"));
        until("an operator that starts", 30, paused).await?;
        operator.terminate(&second).await?;
        until("the end of its pod", 35, async || Ok(operator.gone(&second).await?)).await?;
        // Its successor does not have to wait for it: the Lease was never its own.
        operator.said("leading", 60).await
    })
}
