//! An API server in memory, for tests of `observe` and `act`: it has versions, UIDs and field managers, and notes every request. It refuses
//! executions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
use crate::clock::Clock;
use crate::cluster::kube::Kube;
use crate::context::Context;
use crate::hints::Hints;
use crate::objects::Settings;
use crate::observe::{Observed, observe};
use crate::report::Policies;
use crate::round::{Decider, round};
use crate::slots::Slots;
use futures::FutureExt;
use http::{Method, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_core::contract::Role;
use tanist_core::decide::decide;
use tanist_core::freshness::{Ask, StatusAnswer};
use tanist_core::plan::Plan;
use tanist_core::policy::{Answered, NOT_LOADED, PolicyName, Question, Unanswered};
use tanist_core::status::PolicyHealth;
use tanist_mock::{self as mock, Reply};

/// The path of the test group: `db` in `ns`, two members, one primary.
pub const GROUP: &str = "/apis/tanist.dev/v1alpha1/namespaces/ns/replicagroups/db";
/// The path of its `StatefulSet`.
pub const SET: &str = "/apis/apps/v1/namespaces/ns/statefulsets/db";

/// The path of a pod.
pub fn pod(ordinal: u32) -> String {
    format!("/api/v1/namespaces/ns/pods/db-{ordinal}")
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub body: Value,
}

/// An answer that replaces the normal one.
#[derive(Debug, Clone)]
pub enum Answer {
    /// That code, with that reason in a `Status`; the request has no effect.
    Fail(u16, &'static str),
    /// That code, in plain text; the request has no effect.
    Plain(u16),
    /// The request takes effect, and the connection breaks before the answer.
    Break,
    /// A read gets this object: it was there before the one that is stored.
    Before(Value),
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    seen: Vec<Seen>,
    answers: Vec<(Method, String, Answer)>,
    refusal: Option<Answer>,
    version: u64,
}

/// The API server.
#[derive(Clone, Default)]
pub struct Stub(Arc<Mutex<State>>);

impl Stub {
    /// A server with the test group, whose first member is primary.
    pub fn new() -> Self {
        let stub = Stub::default();
        stub.set_object(GROUP, group());
        stub.set_object(SET, set());
        for ordinal in 0..2 {
            stub.set_object(&pod(ordinal), member(ordinal));
            let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
            stub.set_object(&format!("/api/v1/nodes/n{ordinal}"), ready);
        }
        stub
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Stores an object under a new version; `metadata.name` is that of the path.
    pub fn set_object(&self, path: &str, mut object: Value) {
        let mut state = self.lock();
        state.version += 1;
        if object.get("metadata").is_none() {
            object["metadata"] = json!({});
        }
        object["metadata"]["name"] = path.rsplit('/').next().unwrap().into();
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        state.objects.insert(path.to_owned(), object);
    }

    /// Changes an object, as another client would.
    pub fn change(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(path).unwrap();
        change(&mut object);
        self.set_object(path, object);
    }

    /// Puts another object of the same version under that path, which no API server does.
    pub fn replace(&self, path: &str, uid: &str) {
        let mut state = self.lock();
        let object = state.objects.get_mut(path).unwrap();
        object["metadata"]["uid"] = uid.into();
    }

    pub fn get(&self, path: &str) -> Option<Value> {
        self.lock().objects.get(path).cloned()
    }

    /// The objects below a path.
    pub fn below(&self, path: &str) -> Vec<Value> {
        self.lock().below(path).cloned().collect()
    }

    pub fn remove(&self, path: &str) {
        self.lock().objects.remove(path).unwrap();
    }

    /// The version of an object.
    pub fn version(&self, path: &str) -> String {
        self.get(path).unwrap()["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    }

    /// The next such request gets this answer.
    pub fn answer(&self, method: Method, path: &str, answer: Answer) {
        self.lock().answers.push((method, path.to_owned(), answer));
    }

    /// Every execution gets this answer from now on.
    pub fn refuse(&self, answer: Answer) {
        self.lock().refusal = Some(answer);
    }

    /// The requests since the last call.
    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.lock().seen)
    }

    /// The writes since the last call: method, last two parts of the path, body.
    pub fn written(&self) -> Vec<(Method, String, Value)> {
        let short = |path: &str| {
            path.rsplitn(3, '/').take(2).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("/")
        };
        let writes = self.seen().into_iter().filter(|s| s.method != Method::GET && s.method != Method::POST);
        writes.map(|s| (s.method, short(&s.path), s.body)).collect()
    }

    /// A context whose client is this API server.
    pub fn context(&self) -> Arc<Context> {
        let thrown = AtomicU64::new(1);
        Arc::new(Context {
            cluster: Arc::new(Kube::new(self.client(), self.client())),
            clock: Arc::new(steady()),
            settings: Settings { runner_image: "runner:1".into(), installation: "tanist".into() },
            cluster_domain: "cluster.local".into(),
            hints: Hints::default(),
            questions: Slots::new(16),
            commands: Slots::new(16),
            configurations: tokio::sync::Semaphore::new(crate::observe::config::AT_ONCE),
            count: Arc::new(()),
            dice: Box::new(move || thrown.fetch_add(1, Ordering::Relaxed)),
            wake: Box::new(|_, _| {}),
            closing: AtomicBool::new(false),
        })
    }

    /// One round, and the end of what it began: each write, and then each error, as a line.
    pub async fn round(&self, ctx: &Arc<Context>) -> Vec<String> {
        let seen: ReplicaGroup = serde_json::from_value(self.get(GROUP).unwrap()).unwrap();
        self.seen();
        let done = round(ctx, &seen, &Alone).await;
        for _ in 0..200 {
            if ctx.hints.with_group("group", |h| h.writing.is_empty()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let written = self.seen().into_iter().filter(|s| s.method != Method::GET);
        let told = written.map(|s| {
            let name = s.path.rsplit('/').next().unwrap_or_default().to_owned();
            let dry = if s.query.contains("dryRun=All") { " dry" } else { "" };
            format!("{} {name} {}{dry}", s.method, s.body["metadata"]["name"].as_str().unwrap_or_default())
        });
        let errors = match done {
            Ok(done) => done.outcome.errors.iter().map(ToString::to_string).collect(),
            Err(error) => vec![error.to_string()],
        };
        told.chain(errors).collect()
    }

    /// Observes with fresh answers of the members, which have these roles.
    pub async fn observe(&self, ctx: &Arc<Context>, roles: &[Role]) -> Observed {
        let seen: ReplicaGroup = serde_json::from_value(self.get(GROUP).unwrap()).unwrap();
        let first = observe(ctx, &seen, Ask::Recent, None).await.unwrap();
        remember_roles(ctx, &first, roles);
        let observed = observe(ctx, &seen, Ask::Recent, None).await.unwrap();
        self.seen();
        observed
    }

    fn client(&self) -> Client {
        let stub = self.clone();
        mock::client("ns", move |request| {
            let (head, body) = request.into_parts();
            // The bodies of these requests are in memory.
            let body = body.collect_bytes().now_or_never().unwrap().unwrap();
            let seen = Seen {
                method: head.method,
                path: head.uri.path().to_owned(),
                query: head.uri.query().unwrap_or_default().replace("%2F", "/").replace("%3D", "="),
                body: serde_json::from_slice(&body).unwrap_or(Value::Null),
            };
            match stub.serve(seen) {
                Some((code, body)) => {
                    Reply::Response(Box::new(Response::builder().status(code).body(Body::from(body)).unwrap()))
                }
                None => Reply::Broken,
            }
        })
    }

    fn serve(&self, seen: Seen) -> Option<(u16, Vec<u8>)> {
        let mut state = self.lock();
        state.seen.push(seen.clone());
        let scripted = state.answers.iter().position(|(m, p, _)| *m == seen.method && seen.path.ends_with(p.as_str()));
        let mut answer = scripted.map(|at| state.answers.remove(at).2);
        if seen.path.ends_with("/exec") {
            answer = Some(state.refusal.clone().unwrap_or(Answer::Fail(403, "Forbidden")));
        }
        match answer {
            Some(Answer::Fail(code, reason)) => Some(failure(code, reason)),
            Some(Answer::Plain(code)) => Some((code, b"container not found".to_vec())),
            Some(Answer::Before(object)) => Some((200, object.to_string().into_bytes())),
            broken => {
                let (code, body) = match state.carry_out(&seen) {
                    Ok(object) => (200, object.to_string().into_bytes()),
                    Err((code, reason)) => failure(code, reason),
                };
                broken.is_none().then_some((code, body))
            }
        }
    }
}

fn failure(code: u16, reason: &str) -> (u16, Vec<u8>) {
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "no"});
    (code, status.to_string().into_bytes())
}

type Refused = (u16, &'static str);

impl State {
    fn carry_out(&mut self, seen: &Seen) -> Result<Value, Refused> {
        let path = seen.path.strip_suffix("/status").unwrap_or(&seen.path).to_owned();
        let found = self.objects.get(&path).cloned();
        match (&seen.method, found) {
            (&Method::GET, Some(object)) => Ok(object),
            (&Method::GET, None)
                if ["pods", "services", "poddisruptionbudgets", "persistentvolumeclaims", "controllerrevisions"]
                    .iter()
                    .any(|c| path.ends_with(c)) =>
            {
                Ok(self.list(&path, &seen.query))
            }
            (&Method::POST, None) if seen.body.get("kind").is_some() => {
                let name = seen.body["metadata"]["name"].as_str().unwrap_or_default();
                let path = format!("{path}/{name}");
                match self.objects.contains_key(&path) {
                    true => Err((409, "AlreadyExists")),
                    false if seen.query.contains("dryRun=All") => Ok(seen.body.clone()),
                    false => {
                        let mut object = seen.body.clone();
                        object["metadata"]["uid"] = format!("uid-of-{name}").into();
                        Ok(self.store(&path, object))
                    }
                }
            }
            (&Method::PUT, Some(object)) => {
                held(&object["metadata"], &seen.body["metadata"])?;
                Ok(self.store(&path, seen.body.clone()))
            }
            (&Method::PATCH, Some(object))
                if seen.query.contains("fieldManager=tanist") && seen.body.get("kind").is_some() =>
            {
                self.apply(&path, object, seen)
            }
            (&Method::PATCH, None) if seen.body.get("kind").is_some() => self.apply(&path, Value::Null, seen),
            (&Method::PATCH, Some(mut object)) => {
                held(&object["metadata"], &seen.body["metadata"])?;
                merge(&mut object, &seen.body);
                Ok(self.store(&path, object))
            }
            (&Method::DELETE, Some(object)) => {
                held(&object["metadata"], &seen.body["preconditions"])?;
                self.objects.remove(&path);
                Ok(object)
            }
            _ => Err((404, "NotFound")),
        }
    }

    fn list(&self, path: &str, query: &str) -> Value {
        let selector = query.split('&').find_map(|q| q.strip_prefix("labelSelector=")).and_then(|s| s.split_once('='));
        let labelled = |o: &&Value| selector.is_none_or(|(key, value)| o["metadata"]["labels"][key] == value);
        let items: Vec<_> = self.below(path).filter(labelled).collect();
        json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items})
    }

    fn below(&self, path: &str) -> impl Iterator<Item = &Value> {
        let below = move |p: &str| p.rsplit_once('/').is_some_and(|(head, _)| head == path);
        self.objects.iter().filter(move |(p, _)| below(p)).map(|(_, object)| object)
    }

    /// Server-side apply, as far as tests need it: versions, and which managers own fields. A manager without fields is removed.
    fn apply(&mut self, path: &str, before: Value, seen: &Seen) -> Result<Value, Refused> {
        let manager = seen.query.split('&').find_map(|q| q.strip_prefix("fieldManager=")).unwrap();
        let forced = seen.query.contains("force=true");
        let hash = "/metadata/annotations/tanist.dev~1applied";
        let mut object = before.clone();
        if before.is_null() {
            if seen.body["metadata"].get("resourceVersion").is_some() {
                return Err((409, "Conflict"));
            }
            object = json!({"metadata": {"uid": "new"}});
        } else {
            held(&before["metadata"], &seen.body["metadata"])?;
            let differs = has_fields(&seen.body) && before.pointer(hash) != seen.body.pointer(hash);
            if differs && !forced {
                return Err((409, "Conflict"));
            }
        }
        merge(&mut object, &seen.body);
        let mut managers = before["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        managers.retain(|m| m["manager"] != manager);
        if has_fields(&seen.body) {
            managers.push(json!({"manager": manager, "operation": "Apply"}));
        }
        object["metadata"]["managedFields"] = managers.into();
        Ok(self.store(path, object))
    }

    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(path.to_owned(), object.clone());
        object
    }
}

/// Whether an apply names more than the object; `ControllerRevision` and `ConfigMap` have their fields in `data`.
fn has_fields(manifest: &Value) -> bool {
    manifest.get("spec").or_else(|| manifest.get("data")).is_some()
}

/// Refuses a request whose UID or version differs from the stored object's.
fn held(there: &Value, named: &Value) -> Result<(), Refused> {
    let holds = |key| named.get(key).is_none_or(|n: &Value| n.is_null() || *n == there[key]);
    if holds("uid") && holds("resourceVersion") { Ok(()) } else { Err((409, "Conflict")) }
}

/// A merge patch; lists are replaced.
fn merge(into: &mut Value, patch: &Value) {
    let (Some(object), Some(patch)) = (into.as_object_mut(), patch.as_object()) else {
        *into = patch.clone();
        return;
    };
    for (key, value) in patch {
        match value {
            Value::Null => drop(object.remove(key)),
            Value::Object(_) => merge(object.entry(key.clone()).or_insert(json!({})), value),
            other => drop(object.insert(key.clone(), other.clone())),
        }
    }
}

/// Remembers fresh answers of `status` with these roles, in the order of the members.
pub fn remember_roles(ctx: &Context, observed: &Observed, roles: &[Role]) {
    let s = &observed.snapshot;
    for (member, role) in s.members.iter().zip(roles) {
        let Some(pod) = &member.pod else { continue };
        let now = ctx.clock.moment();
        let container = &s.group.commands.status.container;
        ctx.hints.with_group(&s.group.uid, |h| {
            h.readings.remember_status(pod, container, (now, now), StatusAnswer::of(*role));
        });
    }
}

/// A clock that goes on by a microsecond each time that it is read, so that what members said stays fresh however slow the machine is.
fn steady() -> Clock {
    let read = AtomicU64::new(0);
    Clock::new(jiff::Timestamp::now().as_second(), move || Duration::from_micros(read.fetch_add(1, Ordering::Relaxed)))
}

fn group() -> Value {
    let command = |word: &str| json!({"exec": [word], "timeoutSeconds": 60});
    json!({
        "apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup",
        "metadata": {"name": "db", "namespace": "ns", "uid": "group", "generation": 1},
        "spec": {
            "replicas": 2, "primaries": 1,
            "template": {"spec": {"containers": [{"name": "db", "image": "db:1"}]}},
            "commands": {
                "status": command("status"), "sequence": command("sequence"), "stop": command("stop"),
                "primary": command("primary"), "secondary": command("secondary")
            }
        },
        "status": {"record": {
            "term": 1, "everSeeded": {"member": "db-0", "confirmed": true}, "lastReplicas": 2, "clearedGeneration": 1,
            "members": {"db-0": {"term": 1, "primaryTerm": 1}, "db-1": {"term": 1}},
            "lastPrimaries": [{
                "member": "db-0", "podUid": "pod-0", "container": "db", "containerId": "c0", "node": "n0", "grace": 30
            }]
        }}
    })
}

fn set() -> Value {
    let owner = json!([{"apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "name": "db", "uid": "group", "controller": true}]);
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"namespace": "ns", "uid": "set", "ownerReferences": owner},
        "spec": {"replicas": 2, "serviceName": "db", "selector": {}, "template": {}}
    })
}

/// A pod of the group as its set makes it.
pub fn member(ordinal: u32) -> Value {
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set", "controller": true}]);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "ns", "uid": format!("pod-{ordinal}"), "ownerReferences": owner, "labels": {"tanist.dev/group": "db"}
        },
        "spec": {"nodeName": format!("n{ordinal}"), "containers": [{"name": "db"}], "terminationGracePeriodSeconds": 30},
        "status": {"phase": "Running", "containerStatuses": [{
            "name": "db", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "containerID": format!("c{ordinal}"),
            "state": {"running": {}}
        }]}
    })
}

/// The policies of a group in which all is well.
pub const LOADED: Policies<'static> = Policies { health: &PolicyHealth::Active(String::new()), status: &[] };

/// No policy answers.
pub struct Silent;

impl tanist_core::policy::Policies for Silent {
    fn ask(&self, _: &Question) -> Result<Answered, Unanswered> {
        Err(Unanswered { policy: PolicyName::none(), kind: NOT_LOADED, message: String::new(), notes: Vec::new() })
    }
}

/// Decides without policies.
struct Alone;

impl Decider for Alone {
    type Error = std::convert::Infallible;

    fn policies(&self) -> Policies<'_> {
        LOADED
    }

    async fn decide(&self, observed: Observed) -> Result<(Observed, Plan), Self::Error> {
        let plan = decide(&observed.snapshot, &Silent);
        Ok((observed, plan))
    }
}
