//! etcd changes its members, and the operator ends at each point of that, as if by SIGKILL.
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{EtcdClient, Group, Members, Outcome, Stage, counts, counts_of, kubectl, play, text, until};

/// Removes what the removed members left behind: kept data does not come back under another identity.
async fn clear(group: &Group) -> Result<()> {
    for ordinal in [1, 2] {
        until("the pods of removed members to go", 90, async || Ok(group.member(ordinal).pod().await.is_err())).await?;
        let claim = format!("data-etcd-{ordinal}");
        kubectl(&["delete", "pvc", &claim, "-n", &group.namespace, "--ignore-not-found", "--wait=true"])?;
    }
    Ok(())
}

/// One member is to become three. The operator ends at each of these points, once, and while it is away that is withdrawn: etcd has the one member that it had, under its identity. Then
/// it grows all the same.
fn cancelled_at(name: &'static str, points: [&'static str; 3]) -> Outcome {
    play(name).with("TANIST_CRASH", &points.join(",")).run(async |stage| {
        let group = stage.etcd(json!({"replicas": 1})).await?;
        let before = counts(&group, 1).await?;
        let client = EtcdClient::begin(stage, None).await?;
        for (ends, point) in (1..).zip(points) {
            group.change(json!({"replicas": 3})).await?;
            stage.operator.restarted(ends, 150).await?;
            group.change(json!({"replicas": 1})).await?;
            // Its pods go only when etcd lists it no more.
            clear(&group).await?;
            let after = counts(&group, 1).await?;
            ensure!(after == before, "cancelled at {point}: {before:?} and now {after:?}");
            client.goes_on().await?;
        }
        group.change(json!({"replicas": 3})).await?;
        let grown = counts(&group, 3).await?;
        ensure!(grown.get("etcd-0") == before.get("etcd-0"), "{before:?} and now {grown:?}");
        client.lost_nothing().await
    })
}

// D11, D12, A51: killed around the announcement of a member and before its start.
#[test]
fn a_growth_is_cancelled_while_a_member_is_added() -> Outcome {
    cancelled_at("cancel-add", ["recorded:memberAdd", "ended:memberAdd", "recorded:primary:etcd-1"])
}

// D12, A51: killed after the start of a member, and around its promotion to a voter.
#[test]
fn a_growth_is_cancelled_while_a_member_is_promoted() -> Outcome {
    cancelled_at("cancel-vote", ["ended:primary:etcd-1", "recorded:memberPromote", "ended:memberPromote"])
}

/// A group of etcd whose pods the operator makes itself.
async fn with_pods(stage: &Stage, replicas: u32) -> Result<Group> {
    stage.operator.grant("deploy/rbac/members").await?;
    stage.etcd(json!({"replicas": replicas, "members": {"kind": "Pods"}})).await
}

/// Waits until etcd has that many members beside `etcd-0`, whatever their numbers, and all of them vote. Numbers are not used again.
async fn grown(group: &Group, members: usize) -> Result<Members> {
    let numbers = |seen: &Value| -> Vec<u32> {
        let rows = seen.pointer("/status/members").and_then(Value::as_array).cloned().unwrap_or_default();
        rows.iter().filter_map(|row| text(row, "/name").strip_prefix("etcd-")?.parse().ok()).collect()
    };
    let seen = group.until("the members", 300, |seen| numbers(seen).len() == members).await?;
    counts_of(group, &numbers(&seen)).await
}

// D12, D23, A51: the same with `kind: Pods`: the operator is killed before and after each step of a growth, and while it makes claim and pod of the new member; each time that is withdrawn. Who never was a
// member leaves no identity behind.
#[test]
fn a_growth_by_pods_is_cancelled_at_each_point() -> Outcome {
    let points = ["write:create:etcd-1", "recorded:memberAdd", "ended:memberAdd", "recorded:memberPromote"];
    play("cancel-pods").with("TANIST_CRASH", &points.join(",")).run(async |stage| {
        let group = with_pods(stage, 1).await?;
        let before = counts(&group, 1).await?;
        let client = EtcdClient::begin(stage, None).await?;
        for (ends, point) in (1..).zip(points) {
            group.change(json!({"replicas": 3})).await?;
            stage.operator.restarted(ends, 150).await?;
            group.change(json!({"replicas": 1})).await?;
            let after = counts(&group, 1).await?;
            ensure!(after == before, "cancelled at {point}: {before:?} and now {after:?}");
            client.goes_on().await?;
        }
        group.change(json!({"replicas": 3})).await?;
        let after = grown(&group, 3).await?;
        ensure!(after.get("etcd-0") == before.get("etcd-0"), "{before:?} and now {after:?}");
        client.lost_nothing().await
    })
}

// D15, D19, D23, A51: three become one with `kind: Pods`, and the operator is killed around each removal and before each pod goes.
#[test]
fn killed_at_each_point_of_a_shrink_by_pods() -> Outcome {
    let points = ["recorded:memberRemove", "ended:memberRemove", "write:delete:etcd-2", "write:delete:etcd-1"];
    play("shrink-pods").with("TANIST_CRASH", &points.join(",")).run(async |stage| {
        let group = with_pods(stage, 3).await?;
        let before = counts(&group, 3).await?;
        let client = EtcdClient::begin(stage, None).await?;
        group.change(json!({"replicas": 1})).await?;
        stage.operator.restarted(4, 300).await?;
        let after = counts(&group, 1).await?;
        ensure!(after.get("etcd-0") == before.get("etcd-0"), "{before:?} and now {after:?}");
        for ordinal in [1, 2] {
            until("the pods of removed members to go", 90, async || Ok(group.member(ordinal).pod().await.is_err()))
                .await?;
        }
        client.lost_nothing().await
    })
}

// D15, D19, A51: killed around the removal of a member, after its stop, and before the StatefulSet shrinks: three become one, one after the other, and that one is who it was.
#[test]
fn killed_at_each_point_of_a_shrink() -> Outcome {
    let points = ["recorded:memberRemove", "ended:memberRemove", "write:scale"];
    play("shrink").with("TANIST_CRASH", &points.join(",")).run(async |stage| {
        let group = stage.etcd(json!({"replicas": 3})).await?;
        let before = counts(&group, 3).await?;
        let client = EtcdClient::begin(stage, None).await?;
        group.change(json!({"replicas": 1})).await?;
        stage.operator.restarted(3, 300).await?;
        let after = counts(&group, 1).await?;
        ensure!(after.get("etcd-0") == before.get("etcd-0"), "{before:?} and now {after:?}");
        until("the pods of removed members to go", 90, async || Ok(group.member(1).pod().await.is_err())).await?;
        client.lost_nothing().await
    })
}
