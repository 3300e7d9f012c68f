//! An active/passive group of a plain program: its members run by themselves, and exactly one of them gets clients.
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tanist_e2e::{Group, Outcome, Stage, WEB, batches, condition, kubectl, merge, play, text, until, waits};
use tokio::sync::Mutex;

/// The group, with web-0 active: at first that is whoever was well first.
async fn create(stage: &Stage, changes: Value) -> Result<Group> {
    let group = Group { example: WEB, ..stage.group("web") };
    // On a busy machine a server that is well may answer late. A missing file, a dead server and a pod that is gone show at once all the same.
    let status = ["timeout", "10", "wget", "-q", "-O", "/dev/null", "http://127.0.0.1:8080/healthy"];
    let mut spec = json!({
        "commands": {"status": {"exec": status, "timeoutSeconds": 15}},
        "container_": {"readinessProbe": {"timeoutSeconds": 10}}
    });
    merge(&mut spec, changes);
    group.create(spec).await?;
    group.ready(60).await?;
    group.change(json!({"preferredPrimary": "web-0"})).await?;
    leads(&group, "web-0", 45).await?;
    group.change(json!({"preferredPrimary": null})).await?;
    group.ready(45).await?;
    Ok(group)
}

/// The pods that have the label of the active member.
async fn labelled(group: &Group) -> Result<Vec<String>> {
    let pods: Api<Pod> = Api::namespaced(group.client.clone(), &group.namespace);
    let found = pods.list(&ListParams::default().labels("tanist.dev/group=web,tanist.dev/role=primary")).await?;
    Ok(found.items.into_iter().filter_map(|pod| pod.metadata.name).collect())
}

/// Who answers the clients that one member sees.
async fn answers(group: &Group, client: u32) -> Result<String> {
    let said = group.member(client).exec(&["timeout", "2", "wget", "-q", "-O", "-", "http://web-rw:8080/"]).await;
    Ok(said.map(|said| said.text.trim().to_owned()).unwrap_or_default())
}

async fn leads(group: &Group, name: &str, seconds: u64) -> Result<Value> {
    group.until(name, seconds, |seen| text(seen, "/status/columns/primaries") == name).await
}

// E22, E24, E25: the active member is lost, its probe fails, and its container ends: each time another one is active, and the Service leads to it.
#[test]
fn another_member_is_active_when_the_active_one_is_lost() -> Outcome {
    play("active").run(async |stage| {
        let group = create(stage, json!({})).await?;
        ensure!(labelled(&group).await? == ["web-0"], "one label");
        until("clients of web-0", 60, async || Ok(answers(&group, 2).await? == "web-0")).await?;
        let pod = group.member(0).pod().await?;
        let container = pod.spec.and_then(|spec| spec.containers.into_iter().next());
        let command = container.and_then(|container| container.command).unwrap_or_default();
        ensure!(command == ["sh", "-c"], "nothing is put around the program: {command:?}");

        group.member(0).delete(Some(0)).await?;
        leads(&group, "web-1", 45).await?;
        let seen = group.ready(60).await?;
        ensure!(text(&seen, "/status/columns/primaries") == "web-1", "who is well stays active");
        until("clients of web-1", 60, async || Ok(answers(&group, 2).await? == "web-1")).await?;

        group.member(1).exec(&["rm", "/www/healthy"]).await?;
        let seen = leads(&group, "web-0", 60).await?;
        ensure!(waits(&seen).contains("web-1 is not well: status exited 1"), "{}", waits(&seen));
        ensure!(labelled(&group).await? == ["web-0"], "one label");
        group.member(1).exec(&["touch", "/www/healthy"]).await?;
        group.ready(60).await?;

        // The kubelet says at once that it ended.
        group.member(0).exec(&["kill", "1"]).await?;
        leads(&group, "web-1", 45).await?;
        group.ready(60).await.map(drop)
    })
}

// E26: nobody is well, so nobody is active, and that is said.
#[test]
fn without_a_member_that_is_well_nobody_is_active() -> Outcome {
    play("unwell").run(async |stage| {
        let group = create(stage, json!({"replicas": 2, "resyncIntervalSeconds": 5})).await?;
        for member in group.members(2) {
            member.exec(&["rm", "/www/healthy"]).await?;
        }
        let nobody = |seen: &Value| condition(seen, "Degraded").starts_with("True NoCandidate: no member is well");
        let seen = group.until("nobody", 60, nobody).await?;
        ensure!(condition(&seen, "Ready").starts_with("False"), "{}", condition(&seen, "Ready"));
        until("no label", 45, async || Ok(labelled(&group).await?.is_empty())).await?;
        group.member(1).exec(&["touch", "/www/healthy"]).await?;
        leads(&group, "web-1", 45).await?;
        // An event and the count of takeovers tell of it, as of one by a command.
        let name =
            format!("tanist_failovers_total{{namespace=\"{}\",group=\"web\",cause=\"process\"}}", stage.namespace);
        let taken = stage.operator.metric(&stage.operator.pod().await?, &name).await?;
        ensure!(taken >= 1.0, "no takeover was counted as {name}");
        until("the event", 60, async || {
            let events = kubectl(&["get", "events", "-n", &stage.namespace, "-o", "jsonpath={.items[*].message}"])?;
            Ok(events.contains("web-1 is the active member: no member was active"))
        })
        .await
    })
}

/// Counts looks at the labels, and notes those that showed two active members.
async fn look(group: Group, seen: Arc<Mutex<(u32, Vec<String>)>>) {
    loop {
        let labels = labelled(&group).await;
        let mut seen = seen.lock().await;
        match labels {
            Ok(labels) if labels.len() < 2 => seen.0 += 1,
            Ok(labels) => seen.1.push(labels.join(" and ")),
            Err(error) => seen.1.push(format!("{error:#}")),
        }
        drop(seen);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

// E22, E32: the operator is killed while a changed template reaches all members, the active one last; then the group shrinks to one member, grows and is stopped. At each look at most one pod has the label.
#[test]
fn a_group_is_updated_scaled_and_stopped_with_one_active_member() -> Outcome {
    play("passive").run(async |stage| {
        let group = create(stage, json!({})).await?;
        let counted = Arc::new(Mutex::new((0_u32, Vec::new())));
        let looks = tokio::spawn(look(group.clone(), counted.clone()));
        group.change(json!({"template": {"metadata": {"labels": {"edition": "2"}}}})).await?;
        group.until("the first new pod", 60, |seen| !batches(seen).is_empty()).await?;
        stage.operator.kill(&stage.operator.pod().await?).await?;
        let updated = |seen: &Value| seen.pointer("/status/updatedReplicas") == Some(&json!(3));
        group.until("the update", 180, updated).await?;
        let seen = group.ready(60).await?;
        let order: Vec<String> = batches(&seen).concat();
        ensure!(order == ["web-2", "web-1", "web-0"], "{order:?}");
        ensure!(text(&seen, "/status/columns/primaries") == "web-1", "web-0 gave way before its pod went");

        group.change(json!({"replicas": 1})).await?;
        leads(&group, "web-0", 60).await?;
        group.until("one member", 60, |seen| seen.pointer("/status/replicas") == Some(&json!(1))).await?;
        group.ready(60).await?;
        group.change(json!({"replicas": 3})).await?;
        let seen = group.ready(90).await?;
        ensure!(text(&seen, "/status/columns/primaries") == "web-0", "who is well stays active");
        group.change(json!({"preferredPrimary": "web-2"})).await?;
        leads(&group, "web-2", 45).await?;
        group.change(json!({"preferredPrimary": null, "replicas": 0})).await?;
        group.until("no member", 90, |seen| condition(seen, "Ready").starts_with("True Stopped")).await?;
        looks.abort();
        let (looks, wrong) = counted.lock().await.clone();
        ensure!(looks > 200, "{looks} looks show nothing");
        ensure!(wrong.is_empty(), "two active members, or no answer: {wrong:?}");
        Ok(())
    })
}
