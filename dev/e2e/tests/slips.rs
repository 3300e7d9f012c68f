//! What people do by mistake, or in good faith, and what becomes of the group.
use crate::takeover::led;
use crate::update::uids;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Group, KILL, Outcome, Stage, condition, kubectl, kubectl_given, led_by_another, play, text, until};

/// A primary and two secondaries with three rows.
async fn formed(stage: &Stage) -> Result<Group> {
    let group = stage.register(led()).await?;
    group.ready(90).await?;
    group.member(0).write(3).await?;
    group.copied(3).await?;
    Ok(group)
}

fn says(seen: &Value, what: &str) -> bool {
    seen.pointer("/status/conditions").is_some_and(|conditions| conditions.to_string().contains(what))
}

// Promise 4, L-A: the environment of a container is written as a map, so no object can be made of the template. That is said, and a primary that dies is replaced all the same. The correction heals it.
#[test]
fn a_template_of_which_nothing_can_be_made_holds_up_no_takeover() -> Outcome {
    play("unbuildable").run(async |stage| {
        let group = formed(stage).await?;
        let good = group.get().await?.pointer("/spec/template/spec/containers").context("no containers")?.clone();
        let mut bad = good.clone();
        let first = bad.pointer_mut("/0").and_then(Value::as_object_mut).context("no container")?;
        first.insert("env".into(), json!({"A": "b"}));
        group.change(json!({"template": {"spec": {"containers": bad}}})).await?;
        group.until("what is wrong", 60, |seen| says(seen, "TemplateInvalid")).await?;
        let before = uids(&group).await?;
        group.member(0).exec(&KILL).await?;
        // The group is not Ready: no pod has the template.
        let lead =
            |seen: &Value| text(seen, "/status/columns/primaries").strip_prefix("register-")?.parse::<u32>().ok();
        let seen = group.until("another primary", 60, |seen| lead(seen).is_some_and(|ordinal| ordinal != 0)).await?;
        group.member(lead(&seen).context("no primary")?).write(2).await?;
        ensure!(uids(&group).await? == before, "pods were replaced: {before:?}");
        group.change(json!({"template": {"spec": {"containers": good}}})).await?;
        let seen = group.ready(120).await?;
        ensure!(!says(&seen, "TemplateInvalid"), "{}", condition(&seen, "Progressing"));
        group.copied(5).await?;
        group.had_one_primary_at_a_time().await
    })
}

// S7, S15: the group is deleted without its objects (`--cascade=orphan`) and created again: the same pods go on, in a StatefulSet that belongs to the new group, and a primary that dies is replaced.
#[test]
fn a_group_that_was_deleted_without_its_objects_goes_on() -> Outcome {
    play("orphaned").run(async |stage| {
        let group = formed(stage).await?;
        let before = uids(&group).await?;
        kubectl(&["delete", "rg", "register", "-n", &stage.namespace, "--cascade=orphan"])?;
        let owners = "jsonpath={.metadata.ownerReferences}";
        let owner = || kubectl(&["get", "statefulset", "register", "-n", &stage.namespace, "-o", owners]);
        until("the StatefulSet to belong to nobody", 60, async || Ok(owner()?.is_empty())).await?;
        let group = stage.register(led()).await?;
        group.ready(120).await?;
        ensure!(uids(&group).await? == before, "pods were replaced: {before:?}");
        let uid = text(&group.get().await?, "/metadata/uid").to_owned();
        until("the StatefulSet to belong to the new group", 60, async || Ok(owner()?.contains(&uid))).await?;
        group.rows(3).await?;
        group.member(0).exec(&KILL).await?;
        led_by_another(&group, 0, 60).await?;
        group.ready(60).await?;
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}

// Promise 4: somebody has a Service of the name that the group would use. It stays as it is, the group goes on without its own and says so; once that one is gone the group makes its own.
#[test]
fn a_service_of_somebody_else_is_left_alone() -> Outcome {
    play("taken").run(async |stage| {
        let theirs = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "register-rw"},
            "spec": {"selector": {"app": "shop"}, "ports": [{"port": 80}]}});
        kubectl_given(&theirs.to_string(), &["apply", "-n", &stage.namespace, "-f", "-"])?;
        let group = formed(stage).await?;
        let said = "Service register-rw exists and does not belong to this group";
        group.until("that the name is taken", 60, |seen| says(seen, said)).await?;
        let show = "jsonpath={.spec.selector} {.metadata.ownerReferences}";
        let service = || kubectl(&["get", "service", "register-rw", "-n", &stage.namespace, "-o", show]);
        ensure!(service()?.trim() == r#"{"app":"shop"}"#, "{}", service()?);
        kubectl(&["delete", "service", "register-rw", "-n", &stage.namespace])?;
        until(
            "a Service of the group",
            60,
            async || Ok(service().is_ok_and(|shown| shown.contains("tanist.dev/role"))),
        )
        .await?;
        let seen = group.until("nothing to be said any more", 60, |seen| !says(seen, said)).await?;
        ensure!(condition(&seen, "Ready").starts_with("True"), "{}", condition(&seen, "Ready"));
        group.rows(3).await
    })
}
