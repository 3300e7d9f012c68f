//! Writes that come late: the operator is delayed just before one, the world moves on meanwhile, and the write is refused.
use crate::takeover::led;
use anyhow::{Result, ensure};
use serde_json::json;
use tanist_e2e::{Group, Outcome, kubectl, play};

/// What another writer does to an object: nothing but a new version.
fn touch(namespace: &str, object: &str) -> Result<()> {
    kubectl(&["annotate", "-n", namespace, object, "--overwrite", "example.org/touched=yes"]).map(drop)
}

async fn uids(group: &Group) -> Result<Vec<String>> {
    let members = group.members(3);
    futures::future::try_join_all(members.iter().map(|m| m.uid())).await
}

// S5, S25: the operator decided to shrink the set and was delayed before it wrote. Meanwhile `replicas` is 3 again and somebody wrote the set: the
// late write is refused, no pod goes.
#[test]
fn a_late_shrink_removes_nobody() -> Outcome {
    play("lateshrink").with("TANIST_PAUSE", "write:scale:register=30").run(async |stage| {
        let group = stage.register(led()).await?;
        group.ready(60).await?;
        let before = uids(&group).await?;
        group.change(json!({"replicas": 2})).await?;
        stage.operator.said("write:scale:register=30", 60).await?;
        group.change(json!({"replicas": 3})).await?;
        touch(&stage.namespace, "statefulset/register")?;
        stage.operator.rounds(2.0, 90).await?;
        group.ready(60).await?;
        ensure!(uids(&group).await? == before, "a pod went: {before:?} and now {:?}", uids(&group).await?);
        let scaled =
            kubectl(&["get", "statefulset", "register", "-n", &stage.namespace, "-o", "jsonpath={.spec.replicas}"])?;
        ensure!(scaled == "3", "the set has {scaled} replicas");
        Ok(())
    })
}

// S5, S9: the operator decided to delete the pod of a member that could not be stopped, and was delayed. Meanwhile the group was paused and somebody
// wrote the pod: the late deletion is refused, and no other one follows.
#[test]
fn a_late_deletion_spares_a_pod_that_changed() -> Outcome {
    play("latedelete").with("TANIST_PAUSE", "write:delete:register-1=30").run(async |stage| {
        let env = json!([
            {"name": "REGISTER_FAULT_primary", "value": "register-1:fail x1"},
            {"name": "REGISTER_FAULT_stop", "value": "register-1:fail x1"}
        ]);
        let group = stage.register(json!({"container_": {"env": env}})).await?;
        stage.operator.said("write:delete:register-1=30", 90).await?;
        let old = group.member(1).uid().await?;
        // The administrator takes over: nothing may be done to the group any more.
        group.change(json!({"paused": true})).await?;
        touch(&stage.namespace, "pod/register-1")?;
        stage.operator.rounds(2.0, 90).await?;
        ensure!(group.member(1).uid().await? == old, "a late deletion reached a pod that had changed");
        group.change(json!({"paused": false})).await?;
        group.ready(90).await.map(drop)
    })
}
