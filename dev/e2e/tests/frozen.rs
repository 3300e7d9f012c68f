//! Writes that come late: an operator stands still just before one, another one leads meanwhile, and the write is refused when the first goes on.
use crate::takeover::{behind, led};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;
use tanist_e2e::{Frozen, Group, Outcome, Stage, condition, kubectl, merge, play, starts, text, until};
use tokio::time::Instant;

/// How long an operator waits at the point, in seconds. Until then it has to be frozen, on a busy machine, too.
const PAUSE: u32 = 40;

/// How long it goes on when it finds that it leads no more, in seconds: its late write, and the answer to it, come before its end.
const LOST: u32 = 20;

/// An operator that waits there.
fn pauses(point: &str) -> String {
    format!("{},lost={LOST}", waits_at(point))
}

/// What an operator says when it waits there.
fn waits_at(point: &str) -> String {
    format!("{point}={PAUSE}")
}

async fn uids(group: &Group) -> Result<Vec<String>> {
    let members = group.members(3);
    futures::future::try_join_all(members.iter().map(|m| m.uid())).await
}

/// An object without what changes by itself.
fn without_noise(mut object: Value) -> Value {
    object.as_object_mut().and_then(|fields| fields.remove("status"));
    for field in ["resourceVersion", "managedFields"] {
        object.pointer_mut("/metadata").and_then(|metadata| metadata.as_object_mut()?.remove(field));
    }
    object
}

/// What the group consists of, without what changes by itself.
fn objects(namespace: &str) -> Result<Vec<Value>> {
    let kinds = "statefulset,pod,service,persistentvolumeclaim,poddisruptionbudget,controllerrevision";
    let all: Value = serde_json::from_str(&kubectl(&["get", kinds, "-n", namespace, "-o", "json"])?)?;
    let objects = all.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    Ok(objects.into_iter().map(without_noise).collect())
}

/// An operator that stands still, and since when.
struct Still {
    frozen: Frozen,
    since: Instant,
}

/// Freezes the operator that waits there.
async fn stands_still(stage: &Stage, point: &str) -> Result<Still> {
    let frozen = stage.operator.freeze_at(&waits_at(point), 120).await?;
    Ok(Still { frozen, since: Instant::now() })
}

/// The operator that stood still goes on. It has lost the Lease, so it ends, after its late write. `said`: what shows that the write was refused.
async fn goes_on(stage: &Stage, still: Still, said: &str) -> Result<()> {
    goes_on_with_one_of(stage, still, &[said]).await
}

/// The same; one of these shows that the write was refused.
async fn goes_on_with_one_of(stage: &Stage, Still { frozen, since }: Still, said: &[&str]) -> Result<()> {
    let before = stage.operator.restarts().await?;
    // If it still had to wait at the point, it would end before its write.
    tokio::time::sleep_until(since + Duration::from_secs(PAUSE.into())).await;
    drop(frozen);
    stage.operator.restarted(before + 1, 90).await?;
    let log = stage.operator.log().await;
    ensure!(said.iter().any(|said| log.contains(said)), "nobody said one of {said:?}: {log}");
    Ok(())
}

/// The operator is frozen before a write while the group forms. Another one forms the group and moves the lead to another member. When the first goes on, nothing
/// changes.
fn is_too_late(name: &str, point: &str, said: &str) -> Outcome {
    is_too_late_with(name, &pauses(point), point, &[said])
}

/// The same with these pauses.
fn is_too_late_with(name: &str, pauses: &str, point: &str, said: &[&str]) -> Outcome {
    play(name).with("TANIST_PAUSE", pauses).run(async |stage| {
        stage.operator.pair().await?;
        let group = stage.register(led()).await?;
        let still = stands_still(stage, point).await?;
        group.ready(180).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        group.change(json!({"preferredPrimary": "register-1"})).await?;
        let moved = |seen: &Value| {
            text(seen, "/status/columns/primaries") == "register-1"
                && condition(seen, "Ready").starts_with("True AllMembers")
        };
        group.until("the switchover", 120, moved).await?;
        let (before, ran) = (objects(&stage.namespace)?, starts(&group.executions().await?));
        goes_on_with_one_of(stage, still, said).await?;
        // Whoever leads then has looked at the group.
        group.change(json!({"preferredPrimary": null})).await?;
        group.until("readiness", 120, moved).await?;
        let after = objects(&stage.namespace)?;
        ensure!(after == before, "something changed: {before:#?} and now {after:#?}");
        let now = starts(&group.executions().await?);
        ensure!(now == ran, "commands started: {ran:?} and now {now:?}");
        let leads = async || Ok(behind(stage, "register-rw").await? == "register-1");
        until("clients of register-1", 60, leads).await?;
        group.had_one_primary_at_a_time().await?;
        group.rows(3).await
    })
}

// S1, S2, S5: the token of a command that was never started is void before another one starts.
#[test]
fn a_command_of_a_frozen_operator_does_not_start() -> Outcome {
    is_too_late("latestart", "recorded:seed:register-0", "not started: void")
}

// S5, S32: what a claim remembers is not overwritten by an older memory.
#[test]
fn a_late_memory_of_a_claim_is_refused() -> Outcome {
    is_too_late("latemark", "write:mark:data-register-0", "changed since it was read")
}

// S5, S7: an operator that was frozen before it noted a start gives up the note when it goes on, looks again because its second look is old, and starts nothing.
// It waits 2 s for a note: on a busy machine it may have given it up before it is frozen. Then it is frozen at the next point, before the start, and the runner
// refuses that.
#[test]
fn a_start_whose_note_was_late_is_not_executed() -> Outcome {
    let (note, start) = ("write:note:data-register-0", "recorded:seed:register-0");
    let pauses = format!("{},{},lost={}", waits_at(note), waits_at(start), PAUSE + LOST);
    let said = ["the group changed since it was read", "not started: void"];
    is_too_late_with("latenote", &pauses, note, &said)
}

// S5, A37: clients are not led to a member that led before.
#[test]
fn clients_are_not_led_to_a_former_primary_late() -> Outcome {
    is_too_late("lateroute", "write:route:register-0", "changed since it was read")
}

// S5: an object that another operator created meanwhile is not created again, and keeps the fields that it has by now.
#[test]
fn a_late_creation_takes_nothing_over() -> Outcome {
    let point = "write:apply:register-rw";
    play("lateapply").with("TANIST_PAUSE", &pauses(point)).run(async |stage| {
        stage.operator.pair().await?;
        let group = stage.register(led()).await?;
        let still = stands_still(stage, point).await?;
        group.ready(180).await?;
        // The frozen operator would write the Service without this.
        group.change(json!({"services": {"primary": {"annotations": {"example.org/level": "one"}}}})).await?;
        let read = |path: &str| kubectl(&["get", "service/register-rw", "-n", &stage.namespace, "-o", path]);
        let level = "jsonpath={.metadata.annotations.example\\.org/level}";
        until("the annotation", 120, async || Ok(read(level)? == "one")).await?;
        goes_on(stage, still, "failed to apply Service register-rw: it was changed since it was read").await?;
        // Whoever leads then has looked at the group.
        group.change(json!({"services": {"secondary": {"annotations": {"example.org/level": "two"}}}})).await?;
        let others = || kubectl(&["get", "service/register-ro", "-n", &stage.namespace, "-o", level]);
        until("the annotation of the other Service", 120, async || Ok(others()? == "two")).await?;
        ensure!(read(level)? == "one", "the Service lost its annotation");
        Ok(())
    })
}

// S5, S25: the operator decided to shrink the set and stood still before it wrote. Meanwhile `replicas` is 3 again and another operator started the member again: the late write is
// refused, no pod goes.
#[test]
fn a_late_shrink_removes_nobody() -> Outcome {
    let point = "write:scale:register";
    play("lateshrink").with("TANIST_PAUSE", &pauses(point)).run(async |stage| {
        stage.operator.pair().await?;
        let group = stage.register(led()).await?;
        group.ready(90).await?;
        let before = uids(&group).await?;
        group.change(json!({"replicas": 2})).await?;
        let still = stands_still(stage, point).await?;
        group.change(json!({"replicas": 3})).await?;
        group.ready(120).await?;
        goes_on(stage, still, "failed to shrink register to 2: it was changed since it was read").await?;
        group.ready(90).await?;
        ensure!(uids(&group).await? == before, "a pod went: {before:?} and now {:?}", uids(&group).await?);
        let path = "jsonpath={.spec.replicas}";
        let scaled = kubectl(&["get", "statefulset", "register", "-n", &stage.namespace, "-o", path])?;
        ensure!(scaled == "3", "the set has {scaled} replicas");
        Ok(())
    })
}

// S5, S9: the operator decided to delete the pod of a member that could not be stopped, and stood still. Meanwhile another one replaced the pod: the new one is spared.
#[test]
fn a_late_deletion_spares_the_new_pod() -> Outcome {
    let point = "write:delete:register-1";
    play("latedelete").with("TANIST_PAUSE", &pauses(point)).run(async |stage| {
        stage.operator.pair().await?;
        let env = json!([
            {"name": "REGISTER_FAULT_primary", "value": "register-1:fail x1"},
            {"name": "REGISTER_FAULT_stop", "value": "register-1:fail x1"}
        ]);
        let group = stage.register(json!({"container_": {"env": env}})).await?;
        let still = stands_still(stage, point).await?;
        let old = uids(&group).await?;
        group.ready(180).await?;
        let new = uids(&group).await?;
        ensure!(new[1] != old[1], "the other operator did not replace the pod");
        goes_on(stage, still, "leadership is lost").await?;
        group.ready(90).await?;
        ensure!(uids(&group).await? == new, "a late deletion reached the pod that came after: {new:?}");
        Ok(())
    })
}

// S5, S9: as before, but the pod is still the same: it changed, because the administrator took over, and a late deletion spares it.
#[test]
fn a_late_deletion_spares_a_pod_that_changed() -> Outcome {
    play("sparedpod").with("TANIST_PAUSE", "write:delete:register-1=30").run(async |stage| {
        let env = json!([
            {"name": "REGISTER_FAULT_primary", "value": "register-1:fail x1"},
            {"name": "REGISTER_FAULT_stop", "value": "register-1:fail x1"}
        ]);
        let group = stage.register(json!({"container_": {"env": env}})).await?;
        stage.operator.said("write:delete:register-1=30", 90).await?;
        let old = group.member(1).uid().await?;
        // Nothing may be done to the group any more, and somebody wrote the pod: nothing but a new version.
        group.change(json!({"paused": true})).await?;
        kubectl(&["annotate", "-n", &stage.namespace, "pod/register-1", "--overwrite", "example.org/touched=yes"])?;
        stage.operator.rounds(2.0, 90).await?;
        ensure!(group.member(1).uid().await? == old, "a late deletion reached a pod that had changed");
        group.change(json!({"paused": false})).await?;
        group.ready(90).await.map(drop)
    })
}

fn object(stage: &Stage, named: &str) -> Result<Value> {
    let text = kubectl(&["get", named, "-n", &stage.namespace, "-o", "json"])?;
    Ok(without_noise(serde_json::from_str(&text)?))
}

/// The operator waits at the point of a write in the background. Meanwhile somebody writes the object, and the group is paused: the late write is refused, and the object
/// stays as it is. Then the group goes on. `refused`: what could not be done, in the operator's words.
async fn is_spared(stage: &Stage, group: &Group, point: &str, named: &str, refused: &str) -> Result<()> {
    stage.operator.said(&pauses_for(point), 120).await?;
    group.change(json!({"paused": true})).await?;
    kubectl(&["annotate", "-n", &stage.namespace, named, "--overwrite", "example.org/touched=yes"])?;
    let before = object(stage, named)?;
    stage.operator.said(&format!("failed to {refused}: it was changed since it was read"), 90).await?;
    let now = object(stage, named)?;
    ensure!(now == before, "a late write changed {named}: {before:#?} and now {now:#?}");
    group.change(json!({"paused": false})).await
}

/// An operator that waits there for long enough to pause the group and to change the object.
fn pauses_for(point: &str) -> String {
    format!("write:{point}=20")
}

// S5: a Service that somebody changed is not overwritten by what was decided before.
#[test]
fn a_late_apply_spares_a_service_that_changed() -> Outcome {
    play("lateservice").run(async |stage| {
        let group = stage.register(led()).await?;
        group.ready(90).await?;
        // Not when the Service is created.
        let (point, old) = ("apply:register-rw", stage.operator.pod().await?);
        stage.operator.scale(0).await?;
        until("the end of the operator", 60, async || stage.operator.gone(&old).await).await?;
        stage.operator.set("TANIST_PAUSE", &pauses_for(point))?;
        stage.operator.scale(1).await?;
        group.change(json!({"services": {"primary": {"annotations": {"example.org/level": "one"}}}})).await?;
        is_spared(stage, &group, point, "service/register-rw", "apply Service register-rw").await?;
        let level = "jsonpath={.metadata.annotations.example\\.org/level}";
        let read = || kubectl(&["get", "service/register-rw", "-n", &stage.namespace, "-o", level]);
        until("the apply of the next round", 90, async || Ok(read()? == "one")).await
    })
}

// S5, D23: the way from a StatefulSet to pods of the group's own: a pod that somebody changed does not change its owner late, and a StatefulSet that somebody changed is not deleted late.
#[test]
fn a_late_move_to_pods_spares_what_changed() -> Outcome {
    let (adopt, drop) = ("adopt:register-2", "drop:register");
    let pauses = [adopt, drop].map(pauses_for).join(",");
    play("latemove").with("TANIST_PAUSE", &pauses).run(async |stage| {
        let mut changes = led();
        merge(&mut changes, json!({"resyncIntervalSeconds": 2}));
        let group = stage.register(changes).await?;
        group.ready(90).await?;
        let before = uids(&group).await?;
        stage.operator.grant("deploy/rbac/members").await?;
        group.change(json!({"members": {"kind": "Pods"}})).await?;
        is_spared(stage, &group, adopt, "pod/register-2", "change the owner of pod register-2").await?;
        is_spared(stage, &group, drop, "statefulset/register", "delete the StatefulSet register").await?;
        let sets = || kubectl(&["get", "statefulset", "-n", &stage.namespace, "-o", "name"]);
        until("the end of the move", 120, async || Ok(sets()?.is_empty())).await?;
        group.ready(90).await?;
        ensure!(uids(&group).await? == before, "a pod went: {before:?} and now {:?}", uids(&group).await?);
        Ok(())
    })
}
