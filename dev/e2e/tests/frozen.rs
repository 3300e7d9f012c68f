//! Writes that come late: an operator stands still just before one, another one leads meanwhile, and the write is refused when the first goes on.
use crate::takeover::{behind, led};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Frozen, Group, Outcome, Stage, condition, kubectl, play, starts, text};

/// How long an operator waits at the point, in seconds. Until then it has to be frozen, and it is over when it goes on: another one leads only when the Lease has not been renewed for 15 s.
const PAUSE: u32 = 12;

/// An operator that waits there, and does not end at once when it finds that it leads no more: its late write comes before that.
fn pauses(point: &str) -> String {
    format!("{point}={PAUSE},lost=5")
}

/// What an operator says when it waits there.
fn waits_at(point: &str) -> String {
    format!("{point}={PAUSE}")
}

async fn uids(group: &Group) -> Result<Vec<String>> {
    let members = group.members(3);
    futures::future::try_join_all(members.iter().map(|m| m.uid())).await
}

/// What the group consists of, without what changes by itself.
fn objects(namespace: &str) -> Result<Vec<Value>> {
    let kinds = "statefulset,pod,service,persistentvolumeclaim,poddisruptionbudget,controllerrevision";
    let all: Value = serde_json::from_str(&kubectl(&["get", kinds, "-n", namespace, "-o", "json"])?)?;
    let mut objects = all.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    for object in &mut objects {
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        for field in ["resourceVersion", "managedFields"] {
            object["metadata"].as_object_mut().and_then(|metadata| metadata.remove(field));
        }
    }
    Ok(objects)
}

/// The operator that stood still goes on. It has lost the Lease, so it ends, after its late write. `said`: what shows that the write was refused.
async fn goes_on(stage: &Stage, frozen: Frozen, said: &str) -> Result<()> {
    let before = stage.operator.restarts().await?;
    drop(frozen);
    stage.operator.restarted(before + 1, 90).await?;
    let log = stage.operator.log().await;
    ensure!(log.contains(said), "nobody said {said:?}: {log}");
    Ok(())
}

/// The operator is frozen before a write while the group forms. Another one forms the group and moves the lead to another member. When the first goes on, nothing
/// changes.
fn is_too_late(name: &str, point: &str, said: &str) -> Outcome {
    play(name).with("TANIST_PAUSE", &pauses(point)).run(async |stage| {
        stage.operator.pair().await?;
        let group = stage.register(led()).await?;
        let frozen = stage.operator.freeze_at(&waits_at(point), 90).await?;
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
        goes_on(stage, frozen, said).await?;
        // Whoever leads then has looked at the group.
        group.change(json!({"preferredPrimary": null})).await?;
        group.until("readiness", 120, moved).await?;
        let after = objects(&stage.namespace)?;
        ensure!(after == before, "something changed: {before:#?} and now {after:#?}");
        let now = starts(&group.executions().await?);
        ensure!(now == ran, "commands started: {ran:?} and now {now:?}");
        ensure!(behind(stage, "register-rw").await? == "register-1", "clients are led elsewhere");
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

// S5, S7: an operator that was frozen before it noted a start gives up the note when it goes on, and its start is refused.
#[test]
fn a_start_whose_note_was_late_is_not_executed() -> Outcome {
    is_too_late("latenote", "write:note:data-register-0", "not started: void")
}

// S5, A37: clients are not led to a member that led before.
#[test]
fn clients_are_not_led_to_a_former_primary_late() -> Outcome {
    is_too_late("lateroute", "write:route:register-0", "changed since it was read")
}

// S5: an object that another operator created meanwhile is not created again, and keeps its fields.
#[test]
fn a_late_creation_takes_nothing_over() -> Outcome {
    is_too_late("lateapply", "write:apply:register", "leadership is lost")
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
        let frozen = stage.operator.freeze_at(&waits_at(point), 90).await?;
        group.change(json!({"replicas": 3})).await?;
        group.ready(120).await?;
        goes_on(stage, frozen, "failed to shrink register to 2: it was changed since it was read").await?;
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
        let frozen = stage.operator.freeze_at(&waits_at(point), 120).await?;
        let old = uids(&group).await?;
        group.ready(180).await?;
        let new = uids(&group).await?;
        ensure!(new[1] != old[1], "the other operator did not replace the pod");
        goes_on(stage, frozen, "leadership is lost").await?;
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
