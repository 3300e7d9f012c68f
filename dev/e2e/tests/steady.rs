//! Nothing is left to do.
use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::json;
use std::collections::BTreeMap;
use tanist_e2e::{Outcome, Stage, play, until};

const KINDS: [(&str, &str, &str); 9] = [
    ("tanist.dev", "v1alpha1", "ReplicaGroup"),
    ("apps", "v1", "StatefulSet"),
    ("", "v1", "Pod"),
    ("", "v1", "Service"),
    ("", "v1", "PersistentVolumeClaim"),
    ("", "v1", "ConfigMap"),
    ("policy", "v1", "PodDisruptionBudget"),
    ("discovery.k8s.io", "v1", "EndpointSlice"),
    ("events.k8s.io", "v1", "Event"),
];

/// Every object of the namespace with its resource version. Of events only Tanist's: kubelet and scheduler hold theirs back when there are
/// many, and write them at any time.
async fn versions(stage: &Stage) -> Result<BTreeMap<String, Option<String>>> {
    let mut found = BTreeMap::new();
    for (group, version, kind) in KINDS {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::namespaced_with(stage.client.clone(), &stage.namespace, &resource);
        for object in api.list(&ListParams::default()).await? {
            if kind == "Event" && object.data["reportingController"] != "tanist" {
                continue;
            }
            found.insert(format!("{kind} {}", object.name_any()), object.resource_version());
        }
    }
    Ok(found)
}

// A4, S44, promise 4: ten rounds without a write and without a command but `status`.
#[test]
fn a_settled_group_is_left_alone() -> Outcome {
    play("steady").run(async |stage| {
        let group = stage.register(json!({"resyncIntervalSeconds": 1})).await?;
        group.ready(60).await?;
        // What Kubernetes itself writes after a start comes to rest first.
        let mut before = versions(stage).await?;
        until("rest", 30, async || {
            stage.operator.rounds(2.0, 20).await?;
            let earlier = std::mem::replace(&mut before, versions(stage).await?);
            Ok(earlier == before)
        })
        .await?;
        let (executed, polls) = (group.journal().await?, polls(stage).await?);
        stage.operator.rounds(10.0, 40).await?;
        let after = versions(stage).await?;
        let changed: Vec<_> = after.iter().filter(|(name, version)| before.get(*name) != Some(version)).collect();
        ensure!(changed.is_empty() && after.len() == before.len(), "written without need: {changed:?}");
        ensure!(group.journal().await? == executed, "executed without need: {:?}", group.journal().await?);
        ensure!(self::polls(stage).await? > polls, "status is not asked any more");
        Ok(())
    })
}

async fn polls(stage: &Stage) -> Result<u32> {
    let asked = stage.group("register").member(0).exec(&["grep", "-c", " begin ", "/data/log.status"]).await?;
    asked.text.parse().context("no number")
}
