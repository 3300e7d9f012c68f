//! Members that agree: etcd counts its members itself, decides by a majority, and elects its leader. It grows, shrinks and is repaired under a client that checks each
//! write.
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::time::Instant;
use tanist_e2e::{EtcdClient, Group, Outcome, condition, counts, kubectl, listed, play, text, until, waits};

fn delete(group: &Group, kind: &str, name: &str) -> Result<()> {
    kubectl(&["delete", "-n", &group.namespace, kind, name, "--wait=false"]).map(drop)
}

/// The claims of a group's members.
fn claims(group: &Group) -> Result<Vec<String>> {
    let names = kubectl(&["get", "pvc", "-n", &group.namespace, "-o", "jsonpath={.items[*].metadata.name}"])?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

// D1, D7, D16, D20, D25: 1 -> 3 -> 5 -> 3 -> 1 under a client, by the spec and by `kubectl scale`. A member that was removed keeps its volume, and does not
// come back with it: that is shown, until somebody deletes its claim.
#[test]
fn etcd_grows_and_shrinks_under_a_client() -> Outcome {
    play("grow").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 1})).await?;
        let first = counts(&group, 1).await?;
        let client = EtcdClient::begin(stage, None).await?;
        for members in [3_usize, 5, 3, 1] {
            let began = Instant::now();
            match members {
                5 => kubectl(&["scale", "-n", &group.namespace, "rg/etcd", "--replicas", "5"]).map(drop)?,
                _ => group.change(json!({"replicas": members})).await?,
            }
            counts(&group, members).await?;
            println!("etcd has {members} members after {:.1} s", began.elapsed().as_secs_f64());
            client.goes_on().await?;
        }
        let last = counts(&group, 1).await?;
        ensure!(last.get("etcd-0") == first.get("etcd-0"), "{first:?} {last:?}");
        client.lost_nothing().await?;

        group.change(json!({"replicas": 2, "scaling": {"deadlineSeconds": 10}})).await?;
        let is_said = |seen: &Value| waits(seen).contains("KeptData") && waits(seen).contains("ResizeOverdue");
        let seen = group.until("the kept volume to be reported", 60, is_said).await?;
        ensure!(waits(&seen).contains("delete its claim"), "{}", waits(&seen));
        ensure!(listed(&group, 0).await?.len() == 1, "{:?}", listed(&group, 0).await?);
        delete(&group, "pvc", "data-etcd-1")?;
        delete(&group, "pod", "etcd-1")?;
        counts(&group, 2).await?;
        client.lost_nothing().await
    })
}

// D20: 3 -> 1 -> 3 with `scaling.volumes: Delete`. Without the right to delete claims the group says what is missing; with it the claims of removed members go, and those of the others stay
// also on the way to 0 and back.
#[test]
fn volumes_of_removed_members_are_deleted() -> Outcome {
    play("volumes").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 3, "scaling": {"volumes": "Delete"}})).await?;
        counts(&group, 3).await?;
        let client = EtcdClient::begin(stage, None).await?;
        group.change(json!({"replicas": 1})).await?;
        group.until("the missing right to be reported", 120, |seen| seen.to_string().contains("delete claim")).await?;
        ensure!(claims(&group)?.len() == 3, "{:?}", claims(&group)?);
        stage.operator.grant("deploy/rbac/volumes").await?;
        until("the claims to go", 120, async || Ok(claims(&group)? == ["data-etcd-0"])).await?;
        group.change(json!({"replicas": 3})).await?;
        let back = counts(&group, 3).await?;
        client.lost_nothing().await?;
        group.change(json!({"replicas": 0})).await?;
        group.until("nobody to run", 90, |seen| condition(seen, "Ready").starts_with("True Stopped")).await?;
        ensure!(claims(&group)?.len() == 3, "{:?}", claims(&group)?);
        group.change(json!({"replicas": 3})).await?;
        ensure!(counts(&group, 3).await? == back, "{back:?} {:?}", listed(&group, 0).await?);
        client.lost_nothing().await
    })
}

// D21: pod and claim of each member are deleted, and it comes back under another identity. Then all stop and come back, and all pods are killed at once.
#[test]
fn etcd_is_repaired() -> Outcome {
    play("repair").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 3})).await?;
        let mut before = counts(&group, 3).await?;
        let client = EtcdClient::begin(stage, None).await?;
        for ordinal in [2, 1, 0] {
            let name = format!("etcd-{ordinal}");
            let uid = group.member(ordinal).uid().await?;
            delete(&group, "pvc", &format!("data-{name}"))?;
            delete(&group, "pod", &name)?;
            group.recovered(&[uid], 150).await?;
            let after = counts(&group, 3).await?;
            let changed: Vec<_> = after.iter().filter(|(name, now)| before.get(*name) != Some(now)).collect();
            ensure!(changed.iter().all(|(changed, _)| **changed == name), "{before:?} {after:?}");
            ensure!(changed.len() == 1, "{before:?} {after:?}");
            before = after;
        }
        client.lost_nothing().await?;
        group.change(json!({"replicas": 0})).await?;
        group.until("nobody to run", 90, |seen| condition(seen, "Ready").starts_with("True Stopped")).await?;
        group.change(json!({"replicas": 3})).await?;
        ensure!(counts(&group, 3).await? == before, "{before:?} {:?}", listed(&group, 0).await?);
        client.lost_nothing().await?;
        let old = group.delete_pods(Some(0)).await?;
        group.recovered(&old, 150).await?;
        ensure!(counts(&group, 3).await? == before, "{before:?} {:?}", listed(&group, 0).await?);
        client.lost_nothing().await
    })
}

// D12, A51: the operator is killed while a member is half added, and the wish is withdrawn: what was added is removed again.
#[test]
fn a_growth_of_etcd_is_cancelled() -> Outcome {
    play("cancel").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 3})).await?;
        let before = counts(&group, 3).await?;
        let client = EtcdClient::begin(stage, None).await?;
        group.change(json!({"replicas": 5})).await?;
        let half = |seen: &Value| {
            let rows = seen.pointer("/status/members").and_then(Value::as_array).cloned().unwrap_or_default();
            rows.iter().any(|row| matches!(text(row, "/membership"), "Added" | "Learner"))
        };
        group.until("a member that is half added", 90, half).await?;
        stage.operator.kill(&stage.operator.pod().await?).await?;
        group.change(json!({"replicas": 3})).await?;
        ensure!(counts(&group, 3).await? == before, "{before:?} {:?}", listed(&group, 0).await?);
        until("the pods to go", 60, async || Ok(group.member(3).pod().await.is_err())).await?;
        client.lost_nothing().await
    })
}

// D8: pods and claims of two of three members are lost. Nobody is seeded, added or removed: the group says what is missing, and what is left stays as it is.
#[test]
fn a_lost_majority_of_etcd_is_left_to_people() -> Outcome {
    play("majority").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 3, "resyncIntervalSeconds": 5})).await?;
        counts(&group, 3).await?;
        let wrote = group.member(0).exec(&["etcd-member", "ctl", "put", "greeting", "hello"]).await?;
        ensure!(wrote.code == 0, "{wrote:?}");
        for ordinal in [1, 2] {
            delete(&group, "pvc", &format!("data-etcd-{ordinal}"))?;
            delete(&group, "pod", &format!("etcd-{ordinal}"))?;
        }
        let is_said = |seen: &Value| {
            condition(seen, "Ready").starts_with("False")
                && waits(seen).matches("it was started on another volume").count() == 2
        };
        group.until("the lost volumes to be reported", 120, is_said).await?;
        let operator = stage.operator.pod().await?;
        stage.operator.rounds(6.0, 60).await?;
        ensure!(stage.operator.pod().await? == operator, "another operator");
        for ordinal in [1, 2] {
            let position = group.member(ordinal).exec(&["etcd-member", "sequence"]).await?;
            ensure!(position.text == "EMPTY", "etcd-{ordinal} was started: {position:?}");
        }
        let left = ["etcd-member", "ctl", "get", "--consistency=s", "--print-value-only", "greeting"];
        let left = group.member(0).exec(&left).await?;
        ensure!(left.text == "hello", "{left:?}");
        Ok(())
    })
}
