//! Policies decide who gets a changed template next, and whether it works (wit/policy.wit, `rollout`).
use crate::takeover::led;
use crate::update::updated;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Instant;
use tanist_e2e::{
    Group, Outcome, Source, Stage, batches, condition, edition, editions, kubectl, merge, play, text, until, waits,
};

/// Holds an update, or its last step alone, while the group has a label; otherwise the lowest ordinal goes first. Passes the first member early, unless its template has a label.
const SCRIPT: &str = r#"
def update(s):
    if s.group.label("hold") == "yes":
        return wait("the group is on hold")
    if s.group.label("hold") == "primary" and s.eligible()[0].role == "primary":
        return wait("the primary is on hold")
    return choose(sorted(s.eligible(), key = lambda m: m.ordinal), "the lowest ordinal first")

def judge(s):
    for m in s.eligible():
        if m.label("bad") == "yes":
            return refuse("its users complain")
        if m.fact("template") != "present" or s.group.fact("canary") != m.name:
            return refuse("the facts are wrong")
        return choose([(m, "its users are content")])
"#;

/// A primary and two secondaries with three rows, whose updates are up to the script.
async fn create(stage: &Stage, update: Value) -> Result<Group> {
    stage.store("rules", [("rollout.star", Source::Script(SCRIPT.into()))]).await?;
    let mut spec = led();
    merge(
        &mut spec,
        json!({"update": update, "resyncIntervalSeconds": 1, "policies": [{"configMap": {"name": "rules", "key": "rollout.star"}}]}),
    );
    let group = stage.register(spec).await?;
    let seen = group.ready(90).await?;
    ensure!(
        seen.pointer("/status/policies/0/points") == Some(&json!(["update", "judge"])),
        "the script does not have the questions: {seen}"
    );
    group.member(0).write(3).await?;
    group.copied(3).await?;
    Ok(group)
}

// E32, P52: a policy holds an update up, and the group says so; then it says who is next, and the primary is the last all the same. Every row is there.
#[test]
fn a_policy_holds_an_update_and_says_who_is_next() -> Outcome {
    play("rollout").run(async |stage| {
        let group = create(stage, json!({})).await?;
        group.annotate("policy.tanist.dev/hold", "yes").await?;
        group.change(edition(2)).await?;
        group.until("the hold", 60, |seen| waits(seen).contains("the group is on hold")).await?;
        stage.operator.rounds(3.0, 60).await?;
        ensure!(editions(&group, 3).await? == ["-", "-", "-"], "{:?}", editions(&group, 3).await?);

        // The secondaries go on; the lead does not move before the policy lets it.
        group.annotate("policy.tanist.dev/hold", "primary").await?;
        group.until("the primary to be held", 180, |seen| waits(seen).contains("the primary is on hold")).await?;
        until("the secondaries to have the template", 60, async || Ok(editions(&group, 3).await? == ["-", "2", "2"]))
            .await?;
        stage.operator.rounds(3.0, 60).await?;
        let seen = group.get().await?;
        ensure!(text(&seen, "/status/columns/primaries") == "register-0", "the lead moved on hold");

        group.annotate("policy.tanist.dev/hold", "no").await?;
        let seen = updated(&group, 3, 2, 240).await?;
        let order = batches(&seen);
        let expected: Vec<Vec<String>> =
            ["register-1", "register-2", "register-0"].map(|name| vec![name.into()]).into();
        ensure!(order == expected, "{order:?}");
        let history = seen.pointer("/status/record/history").map(Value::to_string).unwrap_or_default();
        ensure!(history.contains("policy rollout chose it: the lowest ordinal first"), "{history}");
        ensure!(text(&seen, "/status/columns/primaries") != "register-0", "the primary gave up the lead");
        let events = kubectl(&["get", "events", "-n", &stage.namespace, "-o", "jsonpath={.items[*].message}"])?;
        ensure!(events.contains("the lowest ordinal first"), "{events}");
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}

// E34, E35, E38, P52: the first member is to be watched for ten minutes. A policy says sooner that the template works; of another one it says that it does not, and pods go back. Every row is there.
#[test]
fn a_policy_judges_a_template() -> Outcome {
    play("judged").run(async |stage| {
        let group = create(stage, json!({"canarySeconds": 600, "onFailure": "RollBack"})).await?;
        let good = |seen: &Value| text(seen, "/status/record/fallback/good").to_owned();
        let seen = group.until("the template that works to be known", 60, |seen| !good(seen).is_empty()).await?;
        let (first, began) = (good(&seen), Instant::now());
        group.change(edition(2)).await?;
        let seen = updated(&group, 3, 2, 240).await?;
        println!("judged and updated after {:.1} s of 600", began.elapsed().as_secs_f64());
        ensure!(began.elapsed().as_secs() < 600, "it was not judged sooner");
        let history = seen.pointer("/status/record/history").map(Value::to_string).unwrap_or_default();
        ensure!(history.contains("policy rollout says that it works: its users are content"), "{history}");

        group.until("the second one to be known, too", 60, |seen| good(seen) != first).await?;
        let primary = text(&seen, "/status/columns/primaries").to_owned();
        let mut bad = edition(3);
        merge(&mut bad, json!({"template": {"metadata": {"labels": {"policy.tanist.dev/bad": "yes"}}}}));
        group.change(bad).await?;
        let is_back = |seen: &Value| condition(seen, "Ready").starts_with("False RolledBack");
        let seen = group.until("pods to go back", 240, is_back).await?;
        until("every pod to have the template before", 240, async || Ok(editions(&group, 3).await? == ["2", "2", "2"]))
            .await
            .context("the former template")?;
        let is_there = |seen: &Value| text(seen, "/status/columns/members") == "3/3";
        group.until("every member to be in its role", 60, is_there).await?;
        let degraded = condition(&seen, "Degraded");
        ensure!(degraded.contains("policy rollout says that it does not work: its users complain"), "{degraded}");
        ensure!(text(&seen, "/status/columns/primaries") == primary, "one member alone had the template");
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}
