//! One group, most often of registers.
use crate::cluster::documents;
use crate::journal::{Entry, Execution, executions, leads, two_at_once};
use crate::member::Member;
use crate::operator::bound;
use anyhow::{Context, Result, bail, ensure};
use futures::future::try_join_all;
use futures::{StreamExt, pin_mut};
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::runtime::watcher::watch_object;
use serde_json::{Value, json};

/// A group in the cluster, as a test creates, changes and watches it.
#[derive(Clone)]
pub struct Group {
    /// The name of the group's object.
    pub name: String,
    /// The namespace of the group's object.
    pub namespace: String,
    /// The client of the cluster's API.
    pub client: Client,
    /// The groups of that namespace.
    pub groups: Api<DynamicObject>,
    /// The example that it is.
    pub example: Example,
}

/// An example whose group a test creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Example {
    /// The name of the container in which the application runs.
    pub container: &'static str,
    /// Its manifest below examples/.
    pub manifest: &'static str,
}

/// The test application.
pub const REGISTER: Example = Example { container: "register", manifest: "register/group.yaml" };

/// Members that agree.
pub const ETCD: Example = Example { container: "etcd", manifest: "etcd/etcd.yaml" };

/// A plain program of which one member is active.
pub const WEB: Example = Example { container: "web", manifest: "web/web.yaml" };

/// The group of an example under another name, with changes to its spec.
fn example(example: Example, name: &str, changes: Value) -> Result<DynamicObject> {
    let file = crate::cluster::manifests_root().join("examples").join(example.manifest);
    let text = std::fs::read_to_string(file)?;
    let is_group = |object: &Value| self::text(object, "/kind") == "ReplicaGroup";
    let mut group = documents(&text)?.into_iter().find(is_group).context("no group in the example")?;
    merge(&mut group, json!({"metadata": {"name": name}, "spec": changes}));
    // What tests change in the container is merged into the only one that there is.
    if let Some(extra) = group.pointer_mut("/spec/container_").map(Value::take) {
        if let Some(container) = group.pointer_mut("/spec/template/spec/containers/0") {
            merge(container, extra);
        }
        group.pointer_mut("/spec").and_then(Value::as_object_mut).map(|spec| spec.remove("container_"));
    }
    serde_json::from_value(group).context("the example is no object")
}

/// Merges two values as a JSON merge patch does.
pub fn merge(into: &mut Value, changes: Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, change) in changes {
                if change.is_null() {
                    into.remove(&key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), change);
                }
            }
        }
        (into, change) => *into = change,
    }
}

/// A condition as `STATUS REASON: MESSAGE`; empty when it is absent.
#[must_use]
pub fn condition(group: &Value, kind: &str) -> String {
    let conditions = group.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions.and_then(|c| c.iter().find(|c| text(c, "/type") == kind));
    found
        .map_or_else(String::new, |c| format!("{} {}: {}", text(c, "/status"), text(c, "/reason"), text(c, "/message")))
}

/// The text at a JSON pointer; empty when it is absent.
#[must_use]
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The group's term by its record; 0: it has none.
#[must_use]
pub fn term(group: &Value) -> u64 {
    group.pointer("/status/record/term").and_then(Value::as_u64).unwrap_or_default()
}

/// Everything that the group waits for, as text; empty when it waits for nothing.
#[must_use]
pub fn waits(group: &Value) -> String {
    group.pointer("/status/awaiting").map(Value::to_string).unwrap_or_default()
}

/// Whose pods were deleted for an update without another command in between, in their order.
#[must_use]
pub fn batches(group: &Value) -> Vec<Vec<String>> {
    let history = group.pointer("/status/record/history").and_then(Value::as_array);
    let mut batches = vec![Vec::new()];
    for past in history.into_iter().flatten() {
        match text(past, "/what") {
            "pod-deleted" => {
                batches.iter_mut().last().into_iter().for_each(|b| b.push(text(past, "/member").to_owned()))
            }
            _ => batches.push(Vec::new()),
        }
    }
    batches.retain(|batch| !batch.is_empty());
    batches
}

impl Group {
    /// The group of that name; it need not exist.
    #[must_use]
    pub fn named(client: &Client, namespace: &str, name: &str) -> Self {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("tanist.dev", "v1alpha1", "ReplicaGroup"));
        let groups = Api::namespaced_with(client.clone(), namespace, &kind);
        Group { name: name.into(), namespace: namespace.into(), client: client.clone(), groups, example: REGISTER }
    }

    /// Creates it: the example, with changes to its spec. What is under `container_` changes the container.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn create(&self, changes: Value) -> Result<()> {
        let object = example(self.example, &self.name, changes)?;
        self.groups.create(&PostParams::default(), &object).await.map(drop).context("failed to create the group")
    }

    /// Reads it from the API server.
    ///
    /// # Errors
    /// When it does not exist.
    pub async fn get(&self) -> Result<Value> {
        Ok(serde_json::to_value(self.groups.get(&self.name).await?)?)
    }

    /// Changes its spec.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn change(&self, spec: Value) -> Result<()> {
        self.patch(json!({"spec": spec})).await
    }

    /// Sets an annotation.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn annotate(&self, key: &str, value: &str) -> Result<()> {
        self.patch(json!({"metadata": {"annotations": {key: value}}})).await
    }

    async fn patch(&self, patch: Value) -> Result<()> {
        let patched = self.groups.patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.map(drop).context("failed to change the group")
    }

    /// Deletes it; its objects follow, its claims do not.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn delete(&self) -> Result<()> {
        self.groups
            .delete(&self.name, &DeleteParams::background())
            .await
            .map(drop)
            .context("failed to delete the group")
    }

    /// Waits until a condition holds for the group, and returns the group as it was then.
    ///
    /// # Errors
    /// When that does not happen in time.
    pub async fn until(&self, what: &str, seconds: u64, mut holds: impl FnMut(&Value) -> bool) -> Result<Value> {
        let watch = watch_object(self.groups.clone(), &self.name);
        pin_mut!(watch);
        let look = async {
            while let Some(seen) = watch.next().await {
                // A watch that stumbles begins anew by itself.
                let Ok(Some(object)) = seen else { continue };
                let value = serde_json::to_value(object)?;
                if holds(&value) {
                    return Ok(value);
                }
            }
            bail!("the watch of {} ended", self.name)
        };
        let bound = bound(seconds);
        match tokio::time::timeout(bound, look).await {
            Ok(found) => found,
            Err(_) => bail!("waited {} s for {what} of {}", bound.as_secs(), self.name),
        }
    }

    /// Waits until every member serves, according to a status of the present spec.
    ///
    /// # Errors
    /// When that does not happen in time.
    pub async fn ready(&self, seconds: u64) -> Result<Value> {
        self.until("readiness", seconds, is_ready).await
    }

    /// Waits until every member serves in a pod other than these.
    ///
    /// # Errors
    /// When that does not happen in time.
    pub async fn recovered(&self, old: &[String], seconds: u64) -> Result<Value> {
        let replaced = |group: &Value| {
            let members = group.pointer("/status/members").and_then(Value::as_array);
            members.is_some_and(|members| members.iter().all(|m| !old.iter().any(|uid| uid == text(m, "/podUID"))))
        };
        self.until("recovery", seconds, |group| is_ready(group) && replaced(group)).await
    }

    /// The member with this ordinal; whether it exists is not checked.
    #[must_use]
    pub fn member(&self, ordinal: u32) -> Member {
        let member = Member::new(&self.client, &self.namespace, &self.name, ordinal);
        Member { container: self.example.container.into(), ..member }
    }

    /// Its first members.
    #[must_use]
    pub fn members(&self, count: u32) -> Vec<Member> {
        (0..count).map(|ordinal| self.member(ordinal)).collect()
    }

    /// What was executed in its three members, ordered by time.
    ///
    /// # Errors
    /// When a log cannot be read.
    pub async fn journal(&self) -> Result<Vec<Entry>> {
        let members = self.members(3);
        let mut all: Vec<Entry> =
            try_join_all(members.iter().map(Member::journal)).await?.into_iter().flatten().collect();
        all.sort_by_key(|entry| entry.at);
        Ok(all)
    }

    /// The same, as executions.
    ///
    /// # Errors
    /// As [`Group::journal`].
    pub async fn executions(&self) -> Result<Vec<Execution>> {
        Ok(executions(&self.journal().await?))
    }

    /// Checks that no two of its three members were primary at the same time, by every answer that their `status` has given.
    ///
    /// # Errors
    /// When two were, or when the answers cannot be read.
    pub async fn had_one_primary_at_a_time(&self) -> Result<()> {
        self.had_one_primary_among(&self.members(3)).await
    }

    /// The same for these members.
    ///
    /// # Errors
    /// When two were, or when the answers cannot be read.
    pub async fn had_one_primary_among(&self, members: &[Member]) -> Result<()> {
        let polls: Vec<_> = try_join_all(members.iter().map(Member::polls)).await?.concat();
        let leads = leads(&polls);
        ensure!(!leads.is_empty(), "no member of {} was ever primary: this shows nothing", self.name);
        match two_at_once(&leads) {
            Some(both) => bail!("two members of {} were primary at once: {both:?}", self.name),
            None => Ok(()),
        }
    }

    /// How often a command was started in a member.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub async fn executions_of(&self, command: &str, ordinal: u32) -> Result<usize> {
        let journal = self.member(ordinal).journal().await?;
        Ok(journal.iter().filter(|e| e.edge == "begin" && e.command == command).count())
    }

    /// Deletes all three pods at once, and returns their UIDs.
    ///
    /// # Errors
    /// When one does not exist.
    pub async fn delete_pods(&self, grace: Option<u32>) -> Result<Vec<String>> {
        let members = self.members(3);
        let old = try_join_all(members.iter().map(Member::uid)).await?;
        try_join_all(members.iter().map(|m| m.delete(grace))).await?;
        Ok(old)
    }

    /// Checks that every member has this number of rows, and that no row was dropped.
    ///
    /// # Errors
    /// When that is not so.
    pub async fn rows(&self, wanted: u32) -> Result<()> {
        for member in self.members(3) {
            let count = member.count().await?;
            ensure!(count == wanted, "{} holds {count} rows, {wanted} were acknowledged", member.name);
            let dropped = member.exec(&["sh", "-c", "ls /data | grep dropped || true"]).await?.text;
            ensure!(dropped.is_empty(), "{} gave up rows: {dropped}", member.name);
        }
        Ok(())
    }

    /// Waits until every member has this number of rows: they are copied within a second.
    ///
    /// # Errors
    /// When that does not happen in time.
    pub async fn copied(&self, wanted: u32) -> Result<()> {
        let until = tokio::time::Instant::now() + bound(60);
        while self.rows(wanted).await.is_err() {
            ensure!(tokio::time::Instant::now() < until, "the members do not copy {wanted} rows");
        }
        Ok(())
    }
}

fn is_ready(group: &Value) -> bool {
    let generation = group.pointer("/metadata/generation");
    generation == group.pointer("/status/observedGeneration")
        && condition(group, "Ready").starts_with("True AllMembersInRole")
}
