//! The cluster behind an API server, through kube.
#![expect(clippy::disallowed_methods, reason = "`answered` is the deadline of each request here")]
use super::{Cluster, Error, Exec, Fence, Found, Kind, Object, Read, Which, Write};
use crate::exec::exec;
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, NamespaceResourceScope, PartialObjectMeta};
use kube::{Api, Client, Config, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tanist_api::{self as api, ReplicaGroup};
use tanist_core::checked::{Deletion, Discard, Scaling};
use tanist_core::contract::Timestamp;
use tanist_core::evidence::Ended;

/// How long a request may take at most, whatever its caller awaits: longer than any deadline of a round.
const LIMIT: Duration = Duration::from_secs(30);

/// The most events that are read. Kubernetes merges repeated events into one.
const EVENTS: u32 = 200;

/// The reason of events about objects that could not be created.
const FAILED_CREATE: &str = "FailedCreate";

/// A cluster that kube reaches.
#[derive(Clone)]
pub struct Kube {
    /// For single requests.
    client: Client,
    /// For executions: it never retries.
    exec_client: Client,
}

impl fmt::Debug for Kube {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kube")
    }
}

impl Cluster for Kube {
    fn read(&self, read: Read) -> BoxFuture<'_, Result<Found, Error>> {
        answered(async move { self.find(&read).await }).boxed()
    }

    fn write(&self, write: Write) -> BoxFuture<'_, Result<Option<Object>, Error>> {
        answered(self.send(write)).boxed()
    }

    fn exec(&self, asked: Exec) -> BoxFuture<'_, Ended> {
        async move {
            let pods: Api<Pod> = Api::namespaced(self.exec_client.clone(), &asked.namespace);
            exec(&pods, &asked.pod, &asked.container, &asked.argv, asked.deadline).await
        }
        .boxed()
    }
}

impl Kube {
    /// The same cluster through two clients: `exec_client` never retries a request.
    #[must_use]
    pub fn new(client: Client, exec_client: Client) -> Self {
        Kube { client, exec_client }
    }

    /// A client for executions: nothing below it repeats a request, because a command must not run twice.
    ///
    /// # Errors
    /// When the configuration cannot be used, for instance its certificates.
    pub fn exec_client(mut config: Config) -> kube::Result<Client> {
        config.default_retry = false;
        Client::try_from(config)
    }

    fn of<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Objects whose spec nobody here takes apart.
    fn plain(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        let group = match kind {
            Kind::Set | Kind::Revision => "apps",
            Kind::Budget => "policy",
            _ => "",
        };
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind.word()));
        Api::namespaced_with(self.client.clone(), namespace, &kind)
    }

    async fn find(&self, read: &Read) -> kube::Result<Found> {
        let namespace = &read.namespace;
        match read.kind {
            Kind::Group => found(self.of::<ReplicaGroup>(namespace), read, |o| Object::Group(Arc::new(o))).await,
            Kind::Set => found(self.of::<StatefulSet>(namespace), read, |o| Object::Set(Arc::new(o))).await,
            Kind::Pod => found(self.of::<Pod>(namespace), read, |o| Object::Pod(Arc::new(o))).await,
            Kind::Claim => {
                found(self.of::<PersistentVolumeClaim>(namespace), read, |o| Object::Claim(Arc::new(o))).await
            }
            Kind::Event => found(self.of::<Event>(namespace), read, |o| Object::Event(Arc::new(o))).await,
            Kind::Node => found(Api::<Node>::all(self.client.clone()), read, |o| Object::Node(Arc::new(o))).await,
            Kind::Service | Kind::Budget | Kind::ConfigMap | Kind::Secret => {
                found(self.plain(read.kind, namespace), read, |o| Object::Plain(Arc::new(o))).await
            }
            // Their data are whole templates, of which at most one is needed.
            Kind::Revision if !matches!(read.which, Which::Named(_)) => {
                metadata(&self.plain(read.kind, namespace), read).await
            }
            Kind::Revision => found(self.plain(read.kind, namespace), read, |o| Object::Plain(Arc::new(o))).await,
        }
    }

    async fn send(&self, write: Write) -> kube::Result<Option<Object>> {
        let plain = PatchParams::default();
        match write {
            Write::Status(group) => self.replace_status(*group).await,
            Write::Apply { namespace, kind, name, manifest, manager, force } => {
                let params = PatchParams { force, ..PatchParams::apply(manager) };
                let applied = self.plain(kind, &namespace).patch(&name, &params, &Patch::Apply(&manifest)).await?;
                Ok(Some(Object::Plain(Arc::new(applied))))
            }
            Write::Create { namespace, kind, manifest, dry_run } => {
                self.create(&namespace, kind, manifest, dry_run).await.map(Some)
            }
            Write::Label { pod, role } => {
                let patch = fenced(&pod, json!({"metadata": {"labels": {api::LABEL_ROLE: role}}}));
                let labelled = self.of::<Pod>(&pod.namespace).patch(&pod.name, &plain, &Patch::Merge(patch)).await?;
                Ok(Some(Object::Pod(Arc::new(labelled))))
            }
            Write::Gate { pod, ready, at } => {
                let patch = Patch::Strategic(fenced(&pod, gate(ready, at)));
                let set = self.of::<Pod>(&pod.namespace).patch_status(&pod.name, &plain, &patch).await?;
                Ok(Some(Object::Pod(Arc::new(set))))
            }
            Write::Mark { claim, notes } => {
                let patch = Patch::Merge(fenced(&claim, json!({"metadata": {"annotations": notes}})));
                let claims: Api<PersistentVolumeClaim> = self.of(&claim.namespace);
                Ok(Some(Object::Claim(Arc::new(claims.patch(&claim.name, &plain, &patch).await?))))
            }
            Write::Grow { claim, size } => {
                let patch = json!({"spec": {"resources": {"requests": {"storage": size}}}});
                let claims: Api<PersistentVolumeClaim> = self.of(&claim.namespace);
                let grown = claims.patch(&claim.name, &plain, &Patch::Merge(fenced(&claim, patch))).await?;
                Ok(Some(Object::Claim(Arc::new(grown))))
            }
            Write::Nudge { set, at } => {
                let note = json!({"metadata": {"annotations": {api::ANNOTATION_NUDGE: at.to_string()}}});
                self.change_set(&set, note).await
            }
            Write::Adopt { pod, change } => {
                let patch = Patch::Merge(fenced(&pod, change));
                let adopted = self.of::<Pod>(&pod.namespace).patch(&pod.name, &plain, &patch).await?;
                Ok(Some(Object::Pod(Arc::new(adopted))))
            }
            Write::DropSet { set } => {
                let preconditions = Some(Preconditions { uid: Some(set.uid), resource_version: set.version });
                let params = DeleteParams { preconditions, ..DeleteParams::background() };
                self.of::<StatefulSet>(&set.namespace).delete(&set.name, &params).await.map(|_| None)
            }
            Write::Scale { namespace, set, to } => self.scale(namespace, set, &to).await,
            Write::Delete { namespace, deletion } => self.delete(&namespace, &deletion).await,
            Write::Discard { namespace, discard } => self.discard(&namespace, &discard).await,
            Write::Forget { revision } => {
                let preconditions = Some(Preconditions { uid: Some(revision.uid), resource_version: revision.version });
                let params = DeleteParams { preconditions, ..DeleteParams::default() };
                self.plain(Kind::Revision, &revision.namespace).delete(&revision.name, &params).await.map(|_| None)
            }
        }
    }

    async fn replace_status(&self, group: ReplicaGroup) -> kube::Result<Option<Object>> {
        let (namespace, name) = (group.namespace().unwrap_or_default(), group.name_any());
        let written = self.of::<ReplicaGroup>(&namespace).replace_status(&name, &PostParams::default(), &group).await?;
        Ok(Some(Object::Group(Arc::new(written))))
    }

    async fn create(&self, namespace: &str, kind: Kind, manifest: Value, dry_run: bool) -> kube::Result<Object> {
        let params = PostParams { field_manager: Some(api::FIELD_MANAGER.into()), dry_run };
        let object: DynamicObject = serde_json::from_value(manifest).map_err(kube::Error::SerdeError)?;
        let created = self.plain(kind, namespace).create(&params, &object).await?;
        Ok(Object::Plain(Arc::new(created)))
    }

    async fn scale(&self, namespace: String, set: String, to: &Scaling) -> kube::Result<Option<Object>> {
        let (uid, version) = (to.uid().to_owned(), Some(to.version().to_owned()));
        self.change_set(&Fence { namespace, name: set, uid, version }, json!({"spec": {"replicas": to.replicas()}}))
            .await
    }

    async fn change_set(&self, set: &Fence, patch: Value) -> kube::Result<Option<Object>> {
        let params = PatchParams { field_manager: Some(api::FIELD_MANAGER.into()), ..PatchParams::default() };
        let sets: Api<StatefulSet> = self.of(&set.namespace);
        let changed = sets.patch(&set.name, &params, &Patch::Merge(fenced(set, patch))).await?;
        Ok(Some(Object::Set(Arc::new(changed))))
    }

    async fn delete(&self, namespace: &str, deletion: &Deletion) -> kube::Result<Option<Object>> {
        let (uid, version) = (Some(deletion.uid().to_owned()), Some(deletion.version().to_owned()));
        let preconditions = Some(Preconditions { uid, resource_version: version });
        let params = DeleteParams { preconditions, ..DeleteParams::default() };
        self.of::<Pod>(namespace).delete(deletion.member().as_str(), &params).await.map(|_| None)
    }

    async fn discard(&self, namespace: &str, discard: &Discard) -> kube::Result<Option<Object>> {
        let (uid, version) = (Some(discard.uid().to_owned()), Some(discard.version().to_owned()));
        let preconditions = Some(Preconditions { uid, resource_version: version });
        let params = DeleteParams { preconditions, ..DeleteParams::default() };
        self.of::<PersistentVolumeClaim>(namespace).delete(discard.claim(), &params).await.map(|_| None)
    }
}

/// Awaits the answer to a request, not longer than [`LIMIT`].
async fn answered<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
    match tokio::time::timeout(LIMIT, request).await {
        Ok(answer) => answer.map_err(|error| Error::from(&error)),
        Err(_) => Err(Error::Unreachable(format!("there was no answer within {} s", LIMIT.as_secs()))),
    }
}

async fn found<K>(api: Api<K>, read: &Read, object: impl Fn(K) -> Object) -> kube::Result<Found>
where
    K: Clone + DeserializeOwned + fmt::Debug,
{
    if let Which::Named(name) = &read.which {
        let found = api.get_opt(name).await?;
        return Ok(Found { objects: found.into_iter().map(object).collect(), version: None });
    }
    let list = api.list(&selection(&read.which)).await?;
    Ok(Found { objects: list.items.into_iter().map(object).collect(), version: list.metadata.resource_version })
}

/// A list of former templates with nothing but their metadata.
async fn metadata(kinds: &Api<DynamicObject>, read: &Read) -> kube::Result<Found> {
    let object = |meta: PartialObjectMeta<DynamicObject>| {
        let (types, metadata) = (meta.types, meta.metadata);
        Object::Plain(Arc::new(DynamicObject { types, metadata, data: Value::Null }))
    };
    let selected = match &read.which {
        Which::OfGroup(group) => ListParams::default().labels(&format!("{}={group}", api::LABEL_TEMPLATE_OF)),
        which => selection(which),
    };
    let list = kinds.list_metadata(&selected).await?;
    Ok(Found { objects: list.items.into_iter().map(object).collect(), version: list.metadata.resource_version })
}

/// What a list selects.
fn selection(which: &Which) -> ListParams {
    match which {
        Which::Named(name) => ListParams::default().fields(&format!("metadata.name={name}")),
        Which::OfGroup(group) => ListParams::default().labels(&format!("{}={group}", api::LABEL_GROUP)),
        Which::FailuresOf(uid) => {
            ListParams::default().fields(&format!("involvedObject.uid={uid},reason={FAILED_CREATE}")).limit(EVENTS)
        }
    }
}

/// The status of the readiness gate, as a strategic merge.
fn gate(ready: bool, at: Timestamp) -> Value {
    json!({"status": {"conditions": [{
        "type": api::GATE_MEMBER,
        "status": if ready { "True" } else { "False" },
        "reason": if ready { "InItsRole" } else { "NotInItsRole" },
        "lastTransitionTime": jiff::Timestamp::from_second(at).unwrap_or_default().to_string(),
    }]}})
}

/// The patch with UID and version as preconditions: the API server refuses a patch that would change either.
fn fenced(fence: &Fence, mut patch: Value) -> Value {
    let metadata = patch.as_object_mut().map(|patch| patch.entry("metadata").or_insert_with(|| json!({})));
    if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
        metadata.insert("uid".into(), fence.uid.clone().into());
        if let Some(version) = &fence.version {
            metadata.insert("resourceVersion".into(), version.clone().into());
        }
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use kube::client::Body;

    // docs/decisions/0012: an API server that accepts requests and never answers holds nobody up for ever, whatever the caller awaits.
    #[tokio::test(start_paused = true)]
    async fn a_request_without_an_answer_ends() {
        let silent =
            tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, std::io::Error>>());
        let client = Client::new(silent, "shop");
        let kube = Kube::new(client.clone(), client);
        let ended = |error: Error| assert_eq!(error, Error::Unreachable("there was no answer within 30 s".into()));
        ended(
            kube.read(Read { kind: Kind::Pod, namespace: "shop".into(), which: Which::Named("db-0".into()) })
                .await
                .unwrap_err(),
        );
        let pod = Fence { namespace: "shop".into(), name: "db-0".into(), uid: "u".into(), version: None };
        ended(kube.write(Write::Label { pod, role: None }).await.unwrap_err());
    }
}
