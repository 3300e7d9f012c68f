//! Each kind of write, with its fence: the table is in `act.rs`.
use super::{Error, WRITE_SECONDS};
use crate::cluster::{self, Fence, Kind, Object as Written, Write};
use crate::context::Context;
use crate::crash;
use crate::observe;
use crate::observe::convert;
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tanist_api as api;
use tanist_core::checked::{Deletion, Discard, Scaling};
use tanist_core::snapshot::{Claim, ClaimMark, Object, Snapshot, StartNote};
use tracing::info;

/// Writes with a deadline of our own. `what`: for the error.
pub async fn write(ctx: &Context, what: String, write: Write) -> Result<Option<Written>, Error> {
    match tokio::time::timeout(Duration::from_secs(WRITE_SECONDS), ctx.cluster.write(write)).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) if error.code() == Some(409) => Err(Error::Overtaken(what)),
        Ok(Err(error)) => Err(Error::Write(what, error)),
        Err(_) => Err(Error::Silent(what)),
    }
}

/// The field manager of an object between its creation and its first apply.
const CREATOR: &str = "tanist-create";

/// Server-side apply of an object of the group. A template that the API server refuses changes nothing, and the group says so.
pub async fn apply(ctx: &Context, s: &Snapshot, object: &Object) -> Result<(), Error> {
    let (word, name) = (&object.kind, &object.name);
    if let Some(pod) = &object.trial {
        would_create(ctx, &s.group.namespace, pod).await?;
    }
    let applying = Applying { ctx, namespace: &s.group.namespace, kind: desired(word, name)?, name };
    crash::write("apply", name).await;
    let applied = applying.bring(&object.manifest, object.version.as_deref()).await;
    let applied = applied.map_err(|error| rejected(error, || format!("{word} {name}")))?;
    let fingerprint = observe::fingerprint(&applied.metadata, &applied.data.get("spec").cloned().unwrap_or_default());
    ctx.hints.with_group(&s.group.uid, |h| h.applied.insert(format!("{word}/{name}"), fingerprint));
    Ok(())
}

/// The kind of an object that a group has.
fn desired(word: &str, name: &str) -> Result<Kind, Error> {
    let unknown = || cluster::Error::Unreachable("no group has such objects".to_owned());
    Kind::of_desired(word).ok_or_else(|| Error::Write(format!("write {word} {name}"), unknown()))
}

/// The error of a write that needs a valid template: what the API server finds invalid is what the user wrote.
fn rejected(error: Error, what: impl FnOnce() -> String) -> Error {
    match error {
        Error::Write(_, cluster::Error::Answered { code: 400 | 422, message, .. }) => {
            Error::RejectTemplate(what(), message)
        }
        error => error,
    }
}

/// An object that is being applied.
pub struct Applying<'a> {
    /// Where it is written, and for how long.
    pub ctx: &'a Context,
    /// The object's namespace.
    pub namespace: &'a str,
    /// The object's kind.
    pub kind: Kind,
    /// The object's name.
    pub name: &'a str,
}

impl Applying<'_> {
    /// Applies the manifest to the object of that version, or creates the object.
    ///
    /// An object that does not exist is created by an apply under a field manager of its own, without force: if a different object was created
    /// meanwhile, it fails. An apply has no other way to require that an object does not exist, and a plain creation would own fields that later
    /// applies could not remove. Then the object is applied as usual, and the creating manager gives up its fields.
    ///
    /// # Errors
    /// [`Error::Overtaken`] when the object was changed or created meanwhile; and what the API server answers.
    pub async fn bring(&self, manifest: &serde_json::Value, seen: Option<&str>) -> Result<Arc<DynamicObject>, Error> {
        let seen = match seen {
            Some(version) => Some(version.to_owned()),
            None => self.apply(CREATOR, manifest.clone()).await?.resource_version(),
        };
        let applied = self.apply(api::FIELD_MANAGER, fenced(manifest, seen.as_deref())).await?;
        if applied.managed_fields().iter().any(|m| m.manager.as_deref() == Some(CREATOR)) {
            let nothing = json!({"apiVersion": manifest.get("apiVersion"), "kind": self.kind.word(), "metadata": {"name": self.name}});
            self.apply(CREATOR, fenced(&nothing, applied.resource_version().as_deref())).await?;
        }
        Ok(applied)
    }

    /// One apply. Only the usual manager takes fields from others.
    async fn apply(&self, manager: &'static str, manifest: serde_json::Value) -> Result<Arc<DynamicObject>, Error> {
        let Self { ctx, kind, name, .. } = *self;
        let what = format!("apply {} {name}", kind.word());
        let (namespace, name) = (self.namespace.to_owned(), name.to_owned());
        let apply = Write::Apply { namespace, kind, name, manifest, manager, force: manager == api::FIELD_MANAGER };
        match write(ctx, what.clone(), apply).await? {
            Some(Written::Plain(applied)) => Ok(applied),
            _ => Err(Error::Write(what, cluster::Error::Unreachable("the answer is no such object".to_owned()))),
        }
    }
}

/// Asks whether the API server finds a pod valid. Whatever else keeps it from being created, such as a quota, is found when it is created.
async fn would_create(ctx: &Context, namespace: &str, pod: &serde_json::Value) -> Result<(), Error> {
    let (namespace, manifest) = (namespace.to_owned(), pod.clone());
    let trial = Write::Create { namespace, kind: Kind::Pod, manifest, dry_run: true };
    let tried = write(ctx, "try the pod template".into(), trial).await;
    match tried.map_err(|error| rejected(error, || "a pod of spec.template".to_owned())) {
        Err(error @ Error::RejectTemplate(..)) => Err(error),
        _ => Ok(()),
    }
}

/// Creates an object that is not there. A template that the API server refuses changes nothing, and the group says so.
pub async fn create(ctx: &Context, namespace: &str, object: &Object) -> Result<(), Error> {
    let (word, name) = (&object.kind, &object.name);
    let kind = desired(word, name)?;
    crash::write("create", name).await;
    let (namespace, manifest) = (namespace.to_owned(), serde_json::Value::clone(&object.manifest));
    let creation = Write::Create { namespace, kind, manifest, dry_run: false };
    let created = write(ctx, format!("create {word} {name}"), creation).await;
    created.map_err(|error| rejected(error, || format!("{word} {name}")))?;
    info!(kind = word, name, "created");
    Ok(())
}

/// The patch with a version as its precondition.
pub fn fenced(patch: &serde_json::Value, version: Option<&str>) -> serde_json::Value {
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
    crash::write(if to.version.is_some() { "route" } else { "unroute" }, to.pod).await;
    match to.version {
        // Unrouting writes both at once. A pod that was replaced needs no unrouting.
        None => {
            let (label, gate) = tokio::join!(label(ctx, namespace, to, None), gate(ctx, namespace, to, None));
            for done in [label, gate.map(drop)] {
                done.or_else(|e| if matches!(e, Error::Overtaken(_)) { Ok(()) } else { gone(e) })?;
            }
        }
        // Routing writes the gate first and the Services' label last. If the pod has changed since the decision, the next round decides anew.
        Some(version) => {
            let fence = match gate(ctx, namespace, to, Some(version)).await {
                Ok(written) => written.unwrap_or_else(|| version.to_owned()),
                Err(error) => return gone(error),
            };
            label(ctx, namespace, to, to.role.is_some().then_some(&*fence)).await.or_else(gone)?;
        }
    }
    info!(member = to.pod, role = to.role, ready = to.ready, "routed");
    Ok(())
}

impl Shown<'_> {
    fn fence(&self, namespace: &str, version: Option<&str>) -> Fence {
        fence(namespace, self.pod, self.uid, version)
    }
}

pub fn fence(namespace: &str, name: &str, uid: &str, version: Option<&str>) -> Fence {
    let (namespace, name, uid) = (namespace.to_owned(), name.to_owned(), uid.to_owned());
    Fence { namespace, name, uid, version: version.map(str::to_owned) }
}

async fn label(ctx: &Context, namespace: &str, to: &Shown<'_>, version: Option<&str>) -> Result<(), Error> {
    let label = Write::Label { pod: to.fence(namespace, version), role: to.role };
    write(ctx, format!("label pod {}", to.pod), label).await.map(drop)
}

/// Sets the readiness gate and returns the version of the pod afterwards. Absent: the gate stays as it is.
async fn gate(ctx: &Context, namespace: &str, to: &Shown<'_>, version: Option<&str>) -> Result<Option<String>, Error> {
    let Some(ready) = to.ready else { return Ok(None) };
    let gate = Write::Gate { pod: to.fence(namespace, version), ready, at: to.now };
    let written = write(ctx, format!("set the readiness gate of {}", to.pod), gate).await?;
    Ok(if let Some(Written::Pod(pod)) = written { pod.resource_version() } else { None })
}

/// Treats "not found" as success: what is gone needs no routing and no deletion.
pub fn gone(error: Error) -> Result<(), Error> {
    match &error {
        Error::Write(_, error) if error.code() == Some(404) => Ok(()),
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
    crash::write("mark", claim).await;
    let mark = Write::Mark { claim: fence(namespace, claim, uid, Some(version)), notes: convert::claim_notes(mark) };
    write(ctx, format!("mark claim {claim}"), mark).await.map(drop)
}

/// Raises the request of a claim, identified by UID and version.
pub async fn grow_claim(ctx: &Context, claim: Fence, size: String) -> Result<(), Error> {
    crash::write("grow", &claim.name).await;
    let what = format!("grow the claim {} to {size}", claim.name);
    info!(claim = claim.name, size, "growing the claim");
    write(ctx, what, Write::Grow { claim, size }).await.map(drop)
}

/// Notes on a member's claim that a command which makes it primary is about to start.
pub async fn note_start(ctx: &Context, namespace: &str, claim: &Claim, note: &StartNote) -> Result<(), Error> {
    crash::write("note", &claim.name).await;
    let notes = convert::start_notes(note);
    let mark = Write::Mark { claim: fence(namespace, &claim.name, &claim.uid, Some(&claim.version)), notes };
    write(ctx, format!("note the start on claim {}", claim.name), mark).await.map(drop)
}

/// Deletes a pod; its UID and its version in the second look are preconditions.
pub async fn delete_pod(ctx: &Context, namespace: &str, deletion: Deletion) -> Result<(), Error> {
    let what = format!("delete pod {}", deletion.member());
    crash::write("delete", deletion.member().as_str()).await;
    let delete = Write::Delete { namespace: namespace.to_owned(), deletion };
    write(ctx, what, delete).await.map(drop).or_else(gone)
}

/// Deletes a claim; its UID and its version in the second look are preconditions.
pub async fn delete_claim(ctx: &Context, namespace: &str, discard: Discard) -> Result<(), Error> {
    let what = format!("delete claim {}", discard.claim());
    crash::write("discard", discard.claim()).await;
    let discard = Write::Discard { namespace: namespace.to_owned(), discard };
    write(ctx, what, discard).await.map(drop).or_else(gone)
}

/// Lowers the replicas of the `StatefulSet`, identified by UID and version.
pub async fn scale(ctx: &Context, s: &Snapshot, scaling: Scaling) -> Result<(), Error> {
    let (name, replicas) = (&s.group.name, scaling.replicas());
    crash::write("scale", name).await;
    let scale = Write::Scale { namespace: s.group.namespace.clone(), set: name.clone(), to: scaling };
    write(ctx, format!("shrink {name} to {replicas}"), scale).await.map(drop)
}

/// Annotates the `StatefulSet`, identified by UID, so that its controller tries again at once: any change puts it into the controller's queue.
pub async fn nudge(ctx: &Context, s: &Snapshot, set_uid: &str) -> Result<(), Error> {
    let name = &s.group.name;
    let nudge = Write::Nudge { set: fence(&s.group.namespace, name, set_uid, None), at: s.now };
    write(ctx, format!("annotate StatefulSet {name}"), nudge).await.map(drop)
}

/// Lets a pod belong to what makes the pods from now on, identified by UID and version.
pub async fn adopt(ctx: &Context, pod: Fence, change: serde_json::Value) -> Result<(), Error> {
    crash::write("adopt", &pod.name).await;
    let what = format!("change the owner of pod {}", pod.name);
    info!(pod = pod.name, "changing the owner of the pod");
    write(ctx, what, Write::Adopt { pod, change }).await.map(drop).or_else(gone)
}

/// Deletes the `StatefulSet` to which no pod belongs, identified by UID and version.
pub async fn drop_set(ctx: &Context, set: Fence) -> Result<(), Error> {
    crash::write("drop", &set.name).await;
    let what = format!("delete the StatefulSet {}", set.name);
    info!(set = set.name, "no pod belongs to the StatefulSet any more; deleting it");
    write(ctx, what, Write::DropSet { set }).await.map(drop).or_else(gone)
}
