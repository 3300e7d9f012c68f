//! The ConfigMap of the cluster state (`spec.clusterState`, D6) as it is. It is read live in each round, so that it is known before anybody is started what it says.
use super::convert;
use crate::cluster::Kind;
use crate::context::Context;
use kube::ResourceExt;
use kube::core::DynamicObject;
use std::time::Duration;
use tanist_api::ANNOTATION_STATE_KEYS;
use tanist_core::snapshot::Group;
use tanist_core::state::{Data, Stored};

/// How long a round waits for it. What runs needs nothing of it, so a silent API server holds up no more.
const READ: Duration = Duration::from_secs(2);

/// Reads it, if the group wants one.
pub(super) async fn read(ctx: &Context, group: &Group) -> Stored {
    let Some(template) = &group.cluster_state else { return Stored::Absent };
    if ctx.hints.with_group(&group.uid, |hints| hints.is_writing("ConfigMap", &template.name)) {
        return Stored::Writing;
    }
    let reading = ctx.cluster.get_plain(Kind::ConfigMap, &group.namespace, &template.name);
    match tokio::time::timeout(READ, reading).await {
        Err(_) => Stored::Unknown(format!("no answer within {} s", READ.as_secs())),
        Ok(Err(error)) => Stored::Unknown(error.words()),
        Ok(Ok(None)) => Stored::Absent,
        Ok(Ok(Some(found))) => stored(&found, &group.uid),
    }
}

/// What an object of that name is to the group. An immutable one of the group is the copy of a policy.
fn stored(found: &DynamicObject, group: &str) -> Stored {
    let is_immutable = found.data.get("immutable").and_then(serde_json::Value::as_bool) == Some(true);
    if is_immutable || !convert::owned_by(&found.metadata, group) {
        return Stored::Foreign;
    }
    let data: Data =
        found.data.get("data").and_then(|data| serde_json::from_value(data.clone()).ok()).unwrap_or_default();
    let keys = found.annotations().get(ANNOTATION_STATE_KEYS).cloned().unwrap_or_default();
    Stored::Own { version: found.resource_version().unwrap_or_default(), keys, data }
}
