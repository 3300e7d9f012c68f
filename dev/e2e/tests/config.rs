//! The configuration that belongs to a template: a change of its data reaches the members, and nothing else does.
use crate::identity::image_stays;
use crate::takeover::led;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Group, Outcome, Stage, condition, kubectl, merge, play, until, waits};

fn of(stage: &Stage, arguments: &[&str]) -> Result<String> {
    kubectl(&[&["-n", &stage.namespace], arguments].concat())
}

/// Makes a ConfigMap or a Secret with that value.
fn write(stage: &Stage, kind: &str, value: &str) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "settings", "namespace": stage.namespace},
        (if kind == "Secret" { "stringData" } else { "data" }): {"SETTING": value}});
    tanist_e2e::kubectl_given(&object.to_string(), &["apply", "-f", "-"]).map(drop)
}

/// The example with `envFrom` that ConfigMap or Secret, and with that update.
fn following(source: &str, update: Value) -> Value {
    let mut changes = led();
    let container = json!({"envFrom": [{source: {"name": "settings"}}]});
    merge(&mut changes, json!({"container_": container, "update": update, "resyncIntervalSeconds": 2}));
    changes
}

async fn uids(group: &Group) -> Result<Vec<String>> {
    let members = group.members(3);
    futures::future::try_join_all(members.iter().map(|member| member.uid())).await
}

/// The values that the containers were started with.
fn values(stage: &Stage) -> Result<Vec<String>> {
    let one = |ordinal: u32| of(stage, &["exec", &format!("register-{ordinal}"), "--", "sh", "-c", "echo $SETTING"]);
    (0..3).map(|ordinal| Ok(one(ordinal)?.trim().to_owned())).collect()
}

fn is_done(seen: &Value) -> bool {
    let updated = seen.pointer("/status/updatedReplicas") == Some(&json!(3));
    updated && condition(seen, "Ready").starts_with("True") && condition(seen, "UpdatePending").is_empty()
}

// E2, E10: a burst of edits of a ConfigMap gives each member one new pod, the primary last, with the last data. A label of it gives none, and neither does its deletion, which is said. Every row is there.
#[test]
fn a_changed_config_map_reaches_every_member() -> Outcome {
    play("config").run(async |stage| {
        write(stage, "ConfigMap", "1")?;
        let group = stage.register(following("configMapRef", json!({"onConfigChange": true}))).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let first = uids(&group).await?;

        for edit in 2..=9 {
            write(stage, "ConfigMap", &edit.to_string())?;
        }
        let all = ["9"; 3];
        until("every member to have the last edit", 240, async || Ok(values(stage).is_ok_and(|found| found == all)))
            .await?;
        let seen = group.until("the update to be done", 60, is_done).await?;
        let history = seen.pointer("/status/record/history").map(Value::to_string).unwrap_or_default();
        ensure!(
            history.matches("it has an older template than the group").count() == 3,
            "one new pod for each: {history}"
        );
        let second = uids(&group).await?;
        ensure!(first.iter().all(|uid| !second.contains(uid)), "{first:?} and {second:?}");
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await?;

        of(stage, &["label", "configmap", "settings", "example.org/other=label"])?;
        of(stage, &["delete", "configmap", "settings"])?;
        group.until("its absence is said", 60, |seen| waits(seen).contains("there is no ConfigMap settings")).await?;
        // Longer than a change takes to count.
        stage.operator.rounds(14.0, 60).await?;
        write(stage, "ConfigMap", "9")?;
        let seen = group
            .until("it is there again", 60, |seen| !waits(seen).contains("ConfigUnknown") && is_done(seen))
            .await?;
        ensure!(uids(&group).await? == second, "a pod was made anew: {seen}");

        // In the middle of an update: no pod of the new template could start without it, so the last good state goes on.
        of(stage, &["delete", "configmap", "settings"])?;
        group.until("its absence is said", 60, |seen| waits(seen).contains("there is no ConfigMap settings")).await?;
        group.change(image_stays("without")).await?;
        let is_held = |seen: &Value| waits(seen).contains("is next: a ConfigMap or Secret is not there");
        group.until("why nobody is updated", 60, is_held).await?;
        stage.operator.rounds(4.0, 60).await?;
        ensure!(uids(&group).await? == second, "a pod was made anew, and cannot start");
        group.rows(3).await?;
        write(stage, "ConfigMap", "9")?;
        group.until("the update to be done", 240, |seen| !waits(seen).contains("Updating") && is_done(seen)).await?;
        let second = uids(&group).await?;

        // E11: whoever wants it no more gets no new pods for that, and none for later edits.
        group.change(json!({"update": {"onConfigChange": false}})).await?;
        write(stage, "ConfigMap", "10")?;
        stage.operator.rounds(14.0, 60).await?;
        let seen = group.ready(60).await?;
        ensure!(is_done(&seen) && uids(&group).await? == second, "a pod was made anew: {seen}");
        group.rows(3).await
    })
}

// E10, E11: without the right to read Secrets the group says so and goes on; with it a change reaches the members, and nothing that anybody may read has the value.
#[test]
fn a_changed_secret_reaches_every_member_with_a_right_of_its_own() -> Outcome {
    play("secret").run(async |stage| {
        write(stage, "Secret", "hunter2")?;
        let group = stage.register(following("secretRef", json!({"onSecretChange": true}))).await?;
        group.ready(60).await?;
        group.until("the missing right is said", 60, |seen| waits(seen).contains("deploy/rbac/secrets")).await?;
        stage.operator.grant("deploy/rbac/secrets").await?;
        let is_known = |seen: &Value| !waits(seen).contains("ConfigUnknown") && is_done(seen);
        group.until("the Secret counts", 240, is_known).await?;
        let before = uids(&group).await?;
        write(stage, "Secret", "hunter3")?;
        let all = ["hunter3"; 3];
        until("every member to have it", 240, async || Ok(values(stage).is_ok_and(|found| found == all))).await?;
        let seen = group.until("the update to be done", 60, is_done).await?;
        let after = uids(&group).await?;
        ensure!(before.iter().all(|uid| !after.contains(uid)), "{before:?} and {after:?}");
        let shown = of(stage, &["get", "pods,statefulsets,controllerrevisions,events", "-o", "yaml"])?;
        ensure!(!format!("{seen}{shown}").contains("hunter"), "the value is shown");
        ensure!(!stage.operator.log().await.contains("hunter"), "the value is in the log");
        Ok(())
    })
}
