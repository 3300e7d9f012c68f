//! A policy that wants secondaries elsewhere: not while they are new; an hour later one at a time.
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Group, Outcome, Source, Stage, condition, kubectl, merge, play, tanist, term, text, waits};

use crate::takeover::led;

/// Wants every secondary elsewhere, all the time.
const SCRIPT: &str = r#"
def rebalance(s):
    return choose(s.eligible(), "it would better be elsewhere")
"#;

/// One primary and two secondaries, of which the script wants each elsewhere.
async fn wanted(stage: &Stage) -> Result<Group> {
    stage.store("rules", [("away.star", Source::Script(SCRIPT.into()))]).await?;
    let policies = json!([{"configMap": {"name": "rules", "key": "away.star"}}]);
    let mut spec = led();
    merge(&mut spec, json!({"resyncIntervalSeconds": 1, "policies": policies}));
    let group = stage.register(spec).await?;
    let seen = group.ready(60).await?;
    ensure!(text(&seen, "/status/policies/0/points/0") == "rebalance", "the script does not have the question");
    Ok(group)
}

async fn uids(group: &Group) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for member in group.members(3) {
        all.push(member.uid().await?);
    }
    Ok(all)
}

// P50; docs/rules.md, "Rebalance": a pod that became Ready a short time ago stays where it is, whatever a policy wants; nothing is wrong with the
// group then, and nobody is told. `policy try` says what the policy would do later.
#[test]
fn a_policy_moves_no_secondary_that_is_new() -> Outcome {
    play("rebalance").run(async |stage| {
        let group = wanted(stage).await?;
        let before = uids(&group).await?;

        stage.operator.rounds(20.0, 120).await?;
        ensure!(uids(&group).await? == before, "a pod was replaced");
        let is_well = |seen: &Value| {
            let holds = |which, text| condition(seen, which).starts_with(text);
            holds("Ready", "True AllMembers") && holds("Degraded", "False") && waits(seen).is_empty()
        };
        group.until("nothing to be said of it", 60, is_well).await?;
        let events = kubectl(&["get", "events", "-n", &stage.namespace, "-o", "jsonpath={.items[*].reason}"])?;
        ensure!(!events.contains("PodDeleted") && !events.contains("AnswerRejected"), "{events}");

        let script = std::env::temp_dir().join(format!("{}-away.star", stage.namespace));
        std::fs::write(&script, SCRIPT).context("failed to write a file")?;
        let path = script.display().to_string();
        let tried = tanist(&stage.namespace, &["policy", "try", "register", &path, "--question", "rebalance"]);
        // What is left is in the temporary folder of the machine.
        let _ = std::fs::remove_file(&script);
        let tried = tried?;
        ensure!(tried.contains("choose register-1") && tried.contains("Ready for an hour"), "{tried}");
        Ok(())
    })
}

// P50: by a clock that is two hours ahead all of them have been Ready for long. The first that the policy names is stopped in order, starts again and follows; nobody
// else moves so soon after it, no lead changes and no row is lost.
#[test]
fn two_hours_later_one_secondary_moves() -> Outcome {
    play("moved").run(async |stage| {
        let group = wanted(stage).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let (before, stops) = (uids(&group).await?, group.executions_of("stop", 1).await?);
        let led = term(&group.get().await?);
        stage.operator.set("TANIST_CLOCK_AHEAD", "7200")?;
        group.member(1).replaced(before.get(1).context("no member")?, 120).await?;
        let seen = group.ready(90).await?;
        let history = seen.pointer("/status/record/history").map(serde_json::Value::to_string).unwrap_or_default();
        ensure!(history.contains("moves register-1: it would better be elsewhere"), "{history}");
        ensure!(group.executions_of("stop", 1).await? > stops, "it was not stopped in order");

        let now = uids(&group).await?;
        let moved: Vec<_> = before.iter().zip(&now).map(|(before, now)| before != now).collect();
        ensure!(moved == [false, true, false], "{moved:?}");
        stage.operator.rounds(20.0, 120).await?;
        ensure!(uids(&group).await? == now, "another one moved, or the same again");
        ensure!(term(&group.get().await?) == led, "the lead changed");
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}
