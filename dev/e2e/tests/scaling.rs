//! Policies decide whether the number of members changes, and who is next (wit/policy.wit, `scaling`).
use crate::takeover::led;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Group, Outcome, Source, Stage, condition, kubectl, merge, play, term, text, until, waits};

/// Refuses more than five members and fewer than two, and holds every change while the group has a label. Of those that leave the lowest ordinal is stopped first.
const SCRIPT: &str = r#"
def admit(s):
    if s.group.replicas > 5 or s.group.replicas < 2:
        return refuse("the group has 2 to 5 members, not %d in place of %s" % (s.group.replicas, s.group.fact("replicas-before")))
    if s.group.label("hold") == "yes":
        return wait("the group is on hold")
    return choose(s.eligible(), "within bounds")

def order(s):
    leaving = [m for m in s.eligible() if m.fact("change") == "stop"]
    if leaving:
        return choose(sorted(leaving, key = lambda m: m.ordinal), "the lowest ordinal first")
"#;

/// A primary and two secondaries with three rows, whose number is up to the script.
async fn create(stage: &Stage) -> Result<Group> {
    stage.store("rules", [("scaling.star", Source::Script(SCRIPT.into()))]).await?;
    let mut spec = led();
    let policies = json!([{"configMap": {"name": "rules", "key": "scaling.star"}}]);
    merge(&mut spec, json!({"resyncIntervalSeconds": 1, "policies": policies}));
    let group = stage.register(spec).await?;
    let seen = group.ready(90).await?;
    let points = seen.pointer("/status/policies/0/points");
    ensure!(points == Some(&json!(["admit", "order"])), "the script does not have the questions: {seen}");
    group.member(0).write(3).await?;
    group.copied(3).await?;
    Ok(group)
}

fn set_size(stage: &Stage) -> Result<String> {
    kubectl(&["get", "statefulset", "register", "-n", &stage.namespace, "-o", "jsonpath={.spec.replicas}"])
}

/// How many pods of the group there are.
fn pods(stage: &Stage) -> Result<usize> {
    let names = kubectl(&["get", "pods", "-n", &stage.namespace, "-o", "name"])?;
    Ok(names.lines().filter(|name| name.contains("register-")).count())
}

async fn is_as_it_was(stage: &Stage, group: &Group) -> Result<()> {
    stage.operator.rounds(3.0, 60).await?;
    let size = set_size(stage)?;
    ensure!(size == "3" && pods(stage)? == 3, "{size}");
    group.rows(3).await
}

// P53, D22: a policy refuses one size and delays another; `kubectl scale` says so. The group goes on with its members, and a takeover needs no leave. Then it grows, then two leave in the policy's order.
#[test]
fn a_policy_decides_how_many_members_there_are() -> Outcome {
    play("scaling").run(async |stage| {
        let group = create(stage).await?;
        for refused in [6, 0] {
            let count = format!("--replicas={refused}");
            kubectl(&["scale", "rg/register", &count, "-n", &stage.namespace])?;
            let why = format!("the group has 2 to 5 members, not {refused} in place of 3");
            group.until("the refusal", 60, |seen| waits(seen).contains(&why)).await?;
            let seen = group
                .until("Ready to say so", 60, |seen| condition(seen, "Ready").starts_with("False NotAdmitted"))
                .await?;
            ensure!(condition(&seen, "Degraded").starts_with("True PolicyRefuses"), "{}", condition(&seen, "Degraded"));
            is_as_it_was(stage, &group).await?;
        }

        // The primary's pod goes while nothing is let in: another member leads.
        group.annotate("policy.tanist.dev/hold", "yes").await?;
        group.change(json!({"replicas": 5})).await?;
        group.until("the hold", 60, |seen| waits(seen).contains("the group is on hold")).await?;
        let before = group.get().await?;
        let primary = text(&before, "/status/columns/primaries").to_owned();
        kubectl(&["delete", "pod", &primary, "-n", &stage.namespace, "--wait=false"])?;
        let leads = |seen: &Value| {
            let now = text(seen, "/status/columns/primaries");
            !now.is_empty() && text(seen, "/status/columns/members") == "3/3" && term(seen) > term(&before)
        };
        group.until("another one to lead", 120, leads).await?;
        is_as_it_was(stage, &group).await?;

        group.annotate("policy.tanist.dev/hold", "no").await?;
        let seen = group.until("five members", 120, |seen| text(seen, "/status/columns/members") == "5/5").await?;
        let history = seen.pointer("/status/record/history").map(Value::to_string).unwrap_or_default();
        ensure!(history.contains("from 3 to 5, by policy scaling: within bounds"), "{history}");
        group.ready(60).await?;

        group.change(json!({"replicas": 3})).await?;
        let has_left = |seen: &Value| {
            seen.pointer("/status/record/history").is_some_and(|history| history.to_string().contains("shrunk"))
        };
        let seen = group.until("two members to have left", 180, has_left).await?;
        until("the pods of those that left to be gone", 60, async || Ok(pods(stage)? == 3)).await?;
        ensure!(stops(&seen).first().is_some_and(|name| name == "register-3"), "{:?}", stops(&seen));
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}

/// Who left, in order.
fn stops(group: &Value) -> Vec<String> {
    let history = group.pointer("/status/record/history").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_removal = |past: &&Value| text(past, "/what") == "stopped" && text(past, "/detail") == "remove";
    history.iter().filter(is_removal).map(|past| text(past, "/member").to_owned()).collect()
}

// D1: `kubectl autoscale`: the autoscaler finds the group by its scale, and there are too few members for it, so it sets their number.
#[test]
fn an_autoscaler_sets_the_number_of_members() -> Outcome {
    play("autoscaled").run(async |stage| {
        let mut spec = led();
        merge(&mut spec, json!({"replicas": 2}));
        let group = stage.register(spec).await?;
        group.ready(90).await?;
        group.member(0).write(3).await?;
        let scaler = |arguments: &[&str]| kubectl(&[arguments, &["-n", &stage.namespace]].concat());
        scaler(&["autoscale", "rg/register", "--min=3", "--max=4", "--cpu-percent=80"])?;
        let size = |seen: &Value| seen.pointer("/spec/replicas").and_then(Value::as_u64);
        group.until("three members to be desired", 120, |seen| size(seen) == Some(3)).await?;
        group.ready(90).await?;
        group.copied(3).await?;
        let reason = "jsonpath={.status.conditions[?(@.type==\"AbleToScale\")].status}";
        until("the autoscaler to find the group", 60, async || {
            Ok(scaler(&["get", "hpa", "register", "-o", reason])? == "True")
        })
        .await?;

        scaler(&["delete", "hpa", "register"])?;
        kubectl(&["scale", "rg/register", "--replicas=2", "-n", &stage.namespace])?;
        group.until("two members", 120, |seen| text(seen, "/status/columns/members") == "2/2").await?;
        group.had_one_primary_at_a_time().await
    })
}
