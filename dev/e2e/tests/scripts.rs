//! Policies that are scripts, from `ConfigMap`s, swapped while a group runs.
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Group, Outcome, Source, Stage, condition, kubectl, play, starts, text};

use crate::takeover::{KILL, led, led_by_another};

/// The example: one member leads whenever its data is the most recent.
const PREFER: &str = include_str!("../../../examples/policies/prefer.star");

/// The `ConfigMap` `rules` with that script, as an author writes it.
async fn store(stage: &Stage, script: &str) -> Result<()> {
    stage.store("rules", [("mine.star", Source::Script(script.to_owned()))]).await
}

fn mine(parameters: Value) -> Value {
    json!({"policies": [{"configMap": {"name": "rules", "key": "mine.star"}, "parameters": parameters}]})
}

fn is_active(seen: &Value) -> bool {
    text(seen, "/status/policies/0/name") == "mine" && condition(seen, "PolicyActive").starts_with("True")
}

/// Ends all members at once and returns who was seeded then.
async fn outage(group: &Group) -> Result<String> {
    let old = group.delete_pods(None).await?;
    group.recovered(&old, 60).await?;
    let seeds: Vec<_> = starts(&group.executions().await?).into_iter().filter(|s| s.starts_with("seed")).collect();
    seeds.last().cloned().context("nobody was seeded")
}

// S33, P28, P32, P37: a script in a ConfigMap decides the next outage of a running group, and an edit of it the one after. A typo is said with its place before it decides
// anything; the last good script goes on, also in a new process that never saw it. Nothing is restarted for any of it.
#[test]
fn a_script_decides_for_a_live_group_and_a_typo_changes_nothing() -> Outcome {
    play("scripts").run(async |stage| {
        let group = stage.register(json!({})).await?;
        group.ready(120).await?;
        store(stage, PREFER).await?;
        group.change(mine(json!({"member": "register-1"}))).await?;
        group.until("the script", 90, is_active).await?;
        ensure!(outage(&group).await? == "seed 1", "the script did not decide");
        let events = kubectl(&["get", "events", "-n", &stage.namespace, "-o", "jsonpath={.items[*].message}"])?;
        ensure!(events.contains("preferred, and none is more recent"), "{events}");

        store(stage, &PREFER.replace("choose(", "chose(")).await?;
        let says = |seen: &Value| {
            let active = condition(seen, "PolicyActive");
            active.starts_with("False LastGoodDecides")
                && active.contains("chose")
                && active.contains("mine.star:13:16")
        };
        let seen = group.until("the place of the typo", 90, says).await?;
        ensure!(condition(&seen, "Ready").starts_with("True"), "{}", condition(&seen, "Ready"));
        ensure!(stage.operator.restarts().await? == 0, "the operator was restarted");
        stage.operator.kill(&stage.operator.pod().await?).await?;
        ensure!(outage(&group).await? == "seed 1", "the last good script did not decide");
        let name = |seen: &Value| text(seen, "/status/policies/0/name") == "mine";
        group.until("the name of the last good script", 90, name).await?;

        // The opposite order, as a script of a few lines. The exam finds that, and lets it pass when it is declared.
        let reversed = "def seed(s):\n    return choose(reversed(s.eligible()), 'the last one first')\n";
        store(stage, reversed).await?;
        let refused = |seen: &Value| {
            let active = condition(seen, "PolicyActive");
            active.starts_with("False LastGoodDecides") && active.contains("its exam failed: ")
        };
        group.until("what the exam found", 90, refused).await?;
        let declares =
            "def describe():\n    return {'declares': ['prefers-high-ordinals', 'chooses-lower-sequence']}\n\n";
        store(stage, &format!("{declares}{reversed}")).await?;
        group.change(mine(Value::Null)).await?;
        let seen = group.until("the other script", 90, is_active).await?;
        let exam = text(&seen, "/status/policies/0/exam");
        ensure!(exam.starts_with("passed: ") && exam.contains("as declared: "), "{exam}");
        ensure!(outage(&group).await? == "seed 2", "the other script did not decide");
        Ok(())
    })
}

// P26: a built-in script takes over where a group names it: the secondary with the higher failover priority, and never who is tagged nofailover.
#[test]
fn built_in_patroni_chooses_by_priority() -> Outcome {
    play("patroni").run(async |stage| {
        let mut changes = led();
        changes["policies"] = json!([{"builtin": "patroni"}]);
        let group = stage.register(changes).await?;
        group.ready(120).await?;
        let tag = |member: u32, tag: &str| {
            kubectl(&["annotate", "pod", "-n", &stage.namespace, &group.member(member).name, tag, "--overwrite"])
        };
        tag(2, "policy.tanist.dev/failover-priority=9")?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        group.member(0).exec(&KILL).await?;
        ensure!(led_by_another(&group, 0, 60).await? == 2, "the priority did not decide");
        group.rows(3).await?;
        let seen = group.get().await?;
        let exam = text(&seen, "/status/policies/0/exam");
        ensure!(
            text(&seen, "/status/policies/0/source") == "builtin/patroni" && exam.starts_with("passed: "),
            "{exam}"
        );
        // Stopped, it would lead again: its data is as recent, and its priority higher.
        tag(0, "policy.tanist.dev/nofailover=true")?;
        tag(2, "policy.tanist.dev/nofailover=true")?;
        group.copied(3).await?;
        group.member(2).exec(&KILL).await?;
        ensure!(led_by_another(&group, 2, 60).await? == 1, "who is tagged nofailover leads");
        group.rows(3).await
    })
}
