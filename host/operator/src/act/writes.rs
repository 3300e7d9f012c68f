//! Each kind of write, with its fence: the table is in `act.rs`.
use super::{Error, WRITE_SECONDS};
use crate::context::Context;
use crate::crash;
use crate::observe;
use crate::observe::convert;
use crate::observe::resource;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use serde_json::json;
use std::time::Duration;
use tanist_api as api;
use tanist_core::checked::{Deletion, Scaling};
use tanist_core::snapshot::{ClaimMark, Object, Snapshot};
use tracing::info;

/// Awaits a write with a deadline of our own.
pub async fn within<T>(what: String, write: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
    match tokio::time::timeout(Duration::from_secs(WRITE_SECONDS), write).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(Error::Overtaken(what)),
        Ok(Err(error)) => Err(Error::Write(what, error)),
        Err(_) => Err(Error::Silent(what)),
    }
}

/// The field manager of an object between its creation and its first apply.
const CREATOR: &str = "tanist-create";

/// Server-side apply. A template that the API server refuses changes nothing, and the group says so.
///
/// An object that does not exist is created by an apply under a field manager of its own, without force: if a different object was created
/// meanwhile, it fails. An apply has no other way to require that an object does not exist, and a plain creation would own fields that later
/// applies could not remove. Then the object is applied as usual, and the creating manager gives up its fields.
pub async fn apply(ctx: &Context, s: &Snapshot, object: &Object) -> Result<(), Error> {
    let version = object.manifest.get("apiVersion").and_then(|v| v.as_str()).unwrap_or("v1");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = resource(group, version, &object.kind);
    let api: Api<DynamicObject> = Api::namespaced_with(ctx.client.clone(), &s.group.namespace, &kind);
    crash::write("apply", &object.name).await;
    let seen = match &object.version {
        Some(version) => Some(version.clone()),
        None => patched(&api, object, &PatchParams::apply(CREATOR), &object.manifest).await?.resource_version(),
    };
    let manifest = fenced(&object.manifest, seen.as_deref());
    let applied = patched(&api, object, &PatchParams::apply(api::FIELD_MANAGER).force(), &manifest).await?;
    if applied.managed_fields().iter().any(|m| m.manager.as_deref() == Some(CREATOR)) {
        let nothing = json!({"apiVersion": object.manifest.get("apiVersion"), "kind": object.kind, "metadata": {"name": object.name}});
        let nothing = fenced(&nothing, applied.resource_version().as_deref());
        patched(&api, object, &PatchParams::apply(CREATOR), &nothing).await?;
    }
    let fingerprint = observe::fingerprint(&applied.metadata, &applied.data.get("spec").cloned().unwrap_or_default());
    ctx.hints.with_group(&s.group.uid, |h| h.applied.insert(format!("{}/{}", object.kind, object.name), fingerprint));
    Ok(())
}

async fn patched(
    api: &Api<DynamicObject>,
    object: &Object,
    params: &PatchParams,
    manifest: &serde_json::Value,
) -> Result<DynamicObject, Error> {
    let what = format!("apply {} {}", object.kind, object.name);
    match within(what, api.patch(&object.name, params, &Patch::Apply(manifest))).await {
        Err(Error::Write(_, kube::Error::Api(status))) if matches!(status.code, 400 | 422) => {
            Err(Error::RejectTemplate(format!("{} {}", object.kind, object.name), status.message.clone()))
        }
        other => other,
    }
}

/// The patch with a version as its precondition.
fn fenced(patch: &serde_json::Value, version: Option<&str>) -> serde_json::Value {
    let mut patch = patch.clone();
    if let (Some(version), Some(metadata)) = (version, patch.get_mut("metadata").and_then(|m| m.as_object_mut())) {
        metadata.insert("resourceVersion".into(), version.into());
    }
    patch
}

/// How a pod is to be routed: the role label for Services, and the readiness gate.
pub struct Shown<'a> {
    /// The pod's name.
    pub pod: &'a str,
    /// The pod's UID.
    pub uid: &'a str,
    /// The version of the pod when clients are routed to it. Absent: clients are routed away from it.
    pub version: Option<&'a str>,
    /// The role by which Services select it. Absent: no Service selects it.
    pub role: Option<&'static str>,
    /// Whether the readiness gate is True. Absent: the gate stays as it is.
    pub ready: Option<bool>,
    /// The time of the change in seconds since 1970.
    pub now: i64,
}

/// Writes the label and, if it changes, the readiness gate. The UID in the patch is a precondition: a new pod of that name is another pod.
pub async fn route(ctx: &Context, namespace: &str, to: &Shown<'_>) -> Result<(), Error> {
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), namespace);
    crash::write("route", to.pod).await;
    match to.version {
        // Unrouting writes both at once. A pod that was replaced needs no unrouting.
        None => {
            let (label, gate) = tokio::join!(label(&pods, to, None), gate(&pods, to, None));
            for done in [label, gate.map(drop)] {
                done.or_else(|e| if matches!(e, Error::Overtaken(_)) { Ok(()) } else { gone(e) })?;
            }
        }
        // Routing writes the gate first and the Services' label last. If the pod has changed since the decision, the next round decides anew.
        Some(version) => {
            let fence = match gate(&pods, to, Some(version)).await {
                Ok(written) => written.unwrap_or_else(|| version.to_owned()),
                Err(error) => return gone(error),
            };
            label(&pods, to, to.role.is_some().then_some(&*fence)).await.or_else(gone)?;
        }
    }
    info!(member = to.pod, role = to.role, ready = to.ready, "routed");
    Ok(())
}

async fn label(pods: &Api<Pod>, to: &Shown<'_>, version: Option<&str>) -> Result<(), Error> {
    let patch =
        Patch::Merge(fenced(&json!({"metadata": {"uid": to.uid, "labels": {api::LABEL_ROLE: to.role}}}), version));
    within(format!("label pod {}", to.pod), pods.patch(to.pod, &PatchParams::default(), &patch)).await.map(drop)
}

/// Sets the readiness gate and returns the version of the pod afterwards. Absent: the gate stays as it is.
async fn gate(pods: &Api<Pod>, to: &Shown<'_>, version: Option<&str>) -> Result<Option<String>, Error> {
    let Some(ready) = to.ready else { return Ok(None) };
    let patch = json!({"metadata": {"uid": to.uid}, "status": {"conditions": [{
        "type": api::GATE_MEMBER,
        "status": if ready { "True" } else { "False" },
        "reason": if ready { "InItsRole" } else { "NotInItsRole" },
        "lastTransitionTime": jiff::Timestamp::from_second(to.now).unwrap_or_default().to_string(),
    }]}});
    let (patch, params) = (Patch::Strategic(fenced(&patch, version)), PatchParams::default());
    let what = format!("set the readiness gate of {}", to.pod);
    within(what, pods.patch_status(to.pod, &params, &patch)).await.map(|pod| pod.resource_version())
}

/// Treats "not found" as success: a pod that is gone needs no routing and no deletion.
fn gone(error: Error) -> Result<(), Error> {
    match &error {
        Error::Write(_, kube::Error::Api(status)) if status.code == 404 => Ok(()),
        _ => Err(error),
    }
}

pub async fn mark_claim(
    ctx: &Context,
    namespace: &str,
    claim: &str,
    uid: &str,
    version: &str,
    mark: &ClaimMark,
) -> Result<(), Error> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(ctx.client.clone(), namespace);
    crash::write("mark", claim).await;
    let notes = convert::claim_notes(mark);
    let patch = json!({"metadata": {"uid": uid, "resourceVersion": version, "annotations": notes}});
    within(format!("mark claim {claim}"), claims.patch(claim, &PatchParams::default(), &Patch::Merge(&patch)))
        .await
        .map(drop)
}

pub async fn delete_pod(ctx: &Context, namespace: &str, deletion: Deletion) -> Result<(), Error> {
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), namespace);
    let pod = deletion.member().as_str();
    crash::write("delete", pod).await;
    let (uid, version) = (deletion.uid().to_owned(), deletion.version().to_owned());
    let preconditions = Preconditions { uid: Some(uid), resource_version: Some(version) };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    within(format!("delete pod {pod}"), pods.delete(pod, &params)).await.map(drop).or_else(gone)
}

/// Lowers the replicas of the `StatefulSet`, identified by UID and version.
pub async fn scale(ctx: &Context, s: &Snapshot, scaling: Scaling) -> Result<(), Error> {
    let sets: Api<StatefulSet> = Api::namespaced(ctx.client.clone(), &s.group.namespace);
    let (name, replicas) = (&s.group.name, scaling.replicas());
    crash::write("scale", name).await;
    let fence = json!({"uid": scaling.uid(), "resourceVersion": scaling.version()});
    let patch = Patch::Merge(json!({"metadata": fence, "spec": {"replicas": replicas}}));
    let params = PatchParams { field_manager: Some(api::FIELD_MANAGER.into()), ..PatchParams::default() };
    within(format!("shrink {name} to {replicas}"), sets.patch(name, &params, &patch)).await.map(drop)
}
