//! The store at work: files, a real engine, an API server with copies.
use super::examined::Examined;
use super::scripts::Scripts;
use super::*;
use crate::mock::{self, Reply};
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::{Method, Response};
use kube::client::Body;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use tanist_api::status::PolicyStatus;
use tanist_core::policy::{LOADING, NOT_LOADED, Point, Policies, Question};
use tanist_core::status::PolicyHealth;
use tanist_engine::Policy;

/// A page of a list, as the API server cuts it.
fn page(maps: &BTreeMap<String, Value>, query: &str) -> Value {
    let number = |key: &str| {
        query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('=')).map(|text| text.parse().unwrap())
    };
    let (from, limit): (usize, usize) = (number("continue").unwrap_or(0), number("limit").unwrap_or(usize::MAX));
    let all = maps.values().skip(from).take(limit);
    let items: Vec<_> = all.map(|map| json!({"metadata": map["metadata"]})).collect();
    let end = from.saturating_add(items.len());
    let token = if end < maps.len() { end.to_string() } else { String::new() };
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"continue": token}, "items": items})
}

/// An API server that stores ConfigMaps in memory, and what it stores.
fn api_server() -> (Client, Arc<Mutex<BTreeMap<String, Value>>>) {
    let stored = Arc::new(Mutex::new(BTreeMap::<String, Value>::new()));
    let maps = stored.clone();
    let client = mock::client("shop", move |request| {
        let path = request.uri().path().to_owned();
        let last = path.rsplit('/').next().unwrap().to_owned();
        let (method, query) = (request.method().clone(), request.uri().query().unwrap_or_default().to_owned());
        // The bodies of these requests are in memory.
        let body = request.into_body().collect_bytes().now_or_never().unwrap().unwrap();
        let mut maps = maps.lock().unwrap();
        let found = match method {
            Method::POST => {
                let object: Value = serde_json::from_slice(&body).unwrap();
                maps.insert(object["metadata"]["name"].as_str().unwrap().to_owned(), object.clone());
                Some(object)
            }
            Method::DELETE => maps.remove(&last),
            _ if last == "configmaps" => Some(page(&maps, &query)),
            _ => maps.get(&last).cloned(),
        };
        let missing = json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": ""});
        let (code, answer) = found.map_or((404, missing), |object| (200, object));
        let body = Body::from(serde_json::to_vec(&answer).unwrap());
        Reply::Response(Box::new(Response::builder().status(code).body(body).unwrap()))
    });
    (client, stored)
}

/// Compiles components in a thread of this process: the executable of these tests is not the operator's, so it cannot be started to compile.
struct InThread(Engine, Scripts);

impl Compiler for InThread {
    fn compile(&self, content: source::Content) -> BoxFuture<'static, Result<Examined, store::queue::Failure>> {
        if content.kind == source::Kind::Script {
            let scripts = self.1.clone();
            return async move { Examined::examine(scripts.policy(content).await?).await }.boxed();
        }
        let engine = self.0.clone();
        async move {
            let loading = tokio::task::spawn_blocking(move || Policy::load(&engine, "", &content.bytes));
            Examined::examine(in_child::adopted(loading.await)?).await
        }
        .boxed()
    }
}

/// A process that loads policies, until it is dropped.
struct Process {
    policies: Arc<Sources>,
    woken: UnboundedReceiver<ObjectRef<ReplicaGroup>>,
    runs: tokio::task::JoinHandle<()>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.runs.abort();
    }
}

impl Process {
    fn start(client: &Client, directory: &Path) -> Self {
        let (wake, woken) = unbounded();
        let (engine, directory) = (mock::engine(), Some(directory.to_owned()));
        let compiler = Arc::new(InThread(engine.clone(), Scripts::default()));
        Self::of(Sources::compiled_by(compiler, engine, client.clone(), wake, directory), woken)
    }

    fn of(policies: Sources, woken: UnboundedReceiver<ObjectRef<ReplicaGroup>>) -> Self {
        let policies = Arc::new(policies);
        policies.have_builtins();
        let loader = policies.clone();
        let runs = tokio::spawn(async move { loader.run().await });
        Process { policies, woken, runs }
    }

    /// Rounds of the group, each when it is woken, until its first policy is like that.
    async fn until(&mut self, group: &ReplicaGroup, name: &str, state: &str) -> Active {
        loop {
            let active = self.policies.active(group);
            if (active.status[0].name.as_deref().unwrap_or("-"), active.status[0].state.as_str()) == (name, state) {
                return active;
            }
            let woken = tokio::time::timeout(Duration::from_secs(300), self.woken.next()).await;
            woken.unwrap_or_else(|_| panic!("{name} {state} is not reached: {:?}", active.status));
        }
    }
}

/// Waits until that many copies are stored. They are written beside the rounds.
async fn stored(maps: &Mutex<BTreeMap<String, Value>>, copies: usize) {
    let there = async {
        while maps.lock().unwrap().len() != copies {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), there).await.expect("the copies are written");
}

/// A group whose policy is the file `mine.wasm`.
fn group(policies: Value, status: Value) -> ReplicaGroup {
    serde_json::from_value(json!({
        "apiVersion": "tanist.dev/v1alpha1",
        "kind": "ReplicaGroup",
        "metadata": {"name": "db", "namespace": "shop", "uid": "00000000-0000-0000-0000-000000000001"},
        "spec": {
            "replicas": 1,
            "primaries": 1,
            "template": {"spec": {"containers": [{"name": "db", "image": "example.org/db:1"}]}},
            "commands": {
                "status": {"exec": ["/db/status"]},
                "sequence": {"exec": ["/db/sequence"]},
                "stop": {"exec": ["/db/stop"]},
                "primary": {"exec": ["/db/start"]}
            },
            "policies": policies
        },
        "status": status
    }))
    .unwrap()
}

/// A policy of this repository, built beside the embedded one.
fn component(name: &str) -> Vec<u8> {
    let path = Path::new(env!("TANIST_POLICY_SEQUENCE")).with_file_name(format!("{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `make policies`", path.display()))
}

fn folder(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("tanist-policies-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// The only policy is that file.
fn mine() -> Value {
    json!([{"file": "mine.wasm"}])
}

// S33, P1, P9: a file is replaced without a restart. A broken one changes only what is reported. After a restart the copy is found.
#[tokio::test]
async fn a_file_is_swapped_and_a_broken_one_leaves_the_last_good_one() {
    let ((client, maps), folder) = (api_server(), folder("swapped"));
    let mut process = Process::start(&client, &folder);
    let group = group(mine(), Value::Null);
    assert!(matches!(process.policies.active(&group).health, PolicyHealth::Loading(_)), "nobody waits for it");
    let missing = process.until(&group, "-", "NotLoaded").await;
    assert!(missing.status[0].message.as_ref().unwrap().contains("mine.wasm"));
    assert!(matches!(&missing.health, PolicyHealth::Missing(why) if why.contains("mine.wasm")), "{:?}", missing.health);

    let (_watcher, mut changes) = directory::watch(&folder).unwrap();
    let watching = process.policies.clone();
    let watched = tokio::spawn(async move {
        while changes.next().await.is_some() {
            watching.directory_changed();
        }
    });
    replace(&folder, &component("sequence"));
    process.until(&group, "sequence", "Active").await;
    replace(&folder, &component("reversed"));
    let good = process.until(&group, "reversed", "Active").await;
    replace(&folder, b"no component");
    let stale = process.until(&group, "reversed", "LastGoodDecides").await;
    assert!(stale.status[0].message.is_some() && good.status[0].message.is_none());
    assert!(
        matches!(&stale.health, PolicyHealth::Stale(why) if why.contains("goes on deciding")),
        "{:?}",
        stale.health
    );
    stored(&maps, 2).await;
    assert!(maps.lock().unwrap().values().all(|copy| copy["immutable"] == json!(true)));

    // A new process has only the file and the copies.
    drop(process);
    watched.abort();
    let mut process = Process::start(&client, &folder);
    assert!(process.until(&group, "reversed", "LastGoodDecides").await.is_complete());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Replaces the file in one step, so that no half of it is read.
fn replace(folder: &Path, bytes: &[u8]) {
    write(folder, "mine.wasm", bytes);
}

fn write(folder: &Path, name: &str, bytes: &[u8]) {
    std::fs::write(folder.join("new"), bytes).unwrap();
    std::fs::rename(folder.join("new"), folder.join(name)).unwrap();
}

/// Rounds of the group until its script is refused with these words, while the last good one decides.
async fn until_it_says(process: &mut Process, group: &ReplicaGroup, words: &str) {
    let mut said = None;
    for _ in 0..50 {
        said = process.until(group, "mine", "LastGoodDecides").await.status[0].message.clone();
        if said.as_ref().is_some_and(|said| said.contains(words)) {
            return;
        }
        let woken = tokio::time::timeout(Duration::from_secs(300), process.woken.next()).await;
        woken.unwrap_or_else(|_| panic!("{words:?} is not in {said:?}"));
    }
    panic!("{words:?} is not in {said:?}");
}

// H19, H21: what the operator itself makes policies with starts a process for each component; where none can be started, nothing is compiled. These tests have
// none to start.
#[tokio::test]
async fn no_component_is_compiled_in_this_process() {
    let ((client, _), folder) = (api_server(), folder("in-child"));
    write(&folder, "mine.wasm", &component("prefer"));
    let (wake, woken) = unbounded();
    let engine = Engine::new(tanist_engine::Limits::default().unhurried()).unwrap();
    let mut process = Process::of(Sources::new(engine.clone(), client, wake, Some(folder.clone())), woken);
    let group = group(json!([{"file": "mine.wasm", "parameters": {"member": "db-0"}}]), Value::Null);
    let failed = process.until(&group, "-", "NotLoaded").await;
    let said = failed.status[0].message.as_deref().unwrap_or_default();
    assert!(said.starts_with("the process that compiles could not be run"), "{said}");
    assert_eq!(engine.compilations(), 0);
    std::fs::remove_dir_all(&folder).unwrap();
}

// S33, P10, P28, P32, P37: a script decides as a component does. An error in it is said with its place, before it decides anything, and the last good one goes on. The same
// text under a name that is no script's is another thing, and fails for itself.
#[tokio::test]
async fn a_script_decides_and_an_error_in_it_is_said_with_its_place() {
    let ((client, maps), folder) = (api_server(), folder("scripts"));
    let good = b"parameters = {\"type\": \"object\"}\n\ndef seed(s):\n    return None\n";
    write(&folder, "mine.wasm", good);
    write(&folder, "mine.star", good);
    let mut process = Process::start(&client, &folder);
    let group_of = |file: &str| group(json!([{"file": file}]), Value::Null);
    let failed = process.until(&group_of("mine.wasm"), "-", "NotLoaded").await;
    assert_eq!(failed.status[0].message.as_deref().unwrap(), "it is not a WebAssembly component");

    let group = group_of("mine.star");
    let active = process.until(&group, "mine", "Active").await;
    assert_eq!(active.status[0].points, [Point::Seed]);
    stored(&maps, 1).await;

    // What breaks a rule that the author did not declare is found by the exam, on example groups.
    write(&folder, "mine.star", b"def seed(s):\n    return choose(reversed(s.eligible()))\n");
    process.policies.directory_changed();
    until_it_says(&mut process, &group, "its exam failed: ").await;
    write(&folder, "mine.star", b"def describe():\n    return {'declares': ['prefers-high-ordinals', 'chooses-lower-sequence']}\n\ndef seed(s):\n    return choose(reversed(s.eligible()))\n");
    process.policies.directory_changed();
    let active = process.until(&group, "mine", "Active").await;
    let exam = active.status[0].exam.clone().unwrap();
    assert!(exam.starts_with("passed: ") && exam.contains("as declared: "), "{exam}");
    // Where the group asks it elsewhere it decides, and the status says which points were examined.
    let limited = b"def seed(s):\n    return choose(reversed(s.eligible()))\n\ndef treat(s):\n    return None\n";
    write(&folder, "mine.star", limited);
    process.policies.directory_changed();
    until_it_says(&mut process, &group, "its exam failed: ").await;
    let treats = self::group(json!([{"file": "mine.star", "points": ["treat"]}]), Value::Null);
    let active = process.until(&treats, "mine", "Active").await;
    let exam = active.status[0].exam.clone().unwrap();
    assert!(exam.starts_with("passed at treat: ") && exam.contains("it fails at seed"), "{exam}");
    write(&folder, "mine.star", good);
    process.policies.directory_changed();
    process.until(&group, "mine", "Active").await;

    // With its causes.
    write(&folder, "mine.star", b"parameters = {'type': 'list'}\ndef seed(s): pass\n");
    process.policies.directory_changed();
    let stale = process.until(&group, "mine", "LastGoodDecides").await;
    let said = stale.status[0].message.clone().unwrap();
    assert!(said.starts_with("the schema of its parameters is not acceptable: "), "{said}");

    write(&folder, "mine.star", b"def seed(s):\n    return choos(s.eligible())\n");
    process.policies.directory_changed();
    until_it_says(&mut process, &group, "mine.star:2:12").await;

    // A new process has only the broken file and the copy.
    drop(process);
    let mut process = Process::start(&client, &folder);
    assert!(process.until(&group, "mine", "LastGoodDecides").await.is_complete());
    write(&folder, "mine.star", b"def seed(s):\n    return '\xff'\n");
    process.policies.directory_changed();
    until_it_says(&mut process, &group, "line 2").await;
    std::fs::remove_dir_all(&folder).unwrap();
}

// P1, P5: a built-in script is loaded when a group names it and passes the exam. It is copied, because the next version of the operator may bring another one.
#[tokio::test]
async fn a_built_in_script_decides_for_the_groups_that_name_it() {
    let ((client, maps), folder) = (api_server(), folder("built-in"));
    let mut process = Process::start(&client, &folder);
    let named = group(json!([{"builtin": "patroni", "parameters": {"synchronous": true}}]), Value::Null);
    let active = process.until(&named, "patroni", "Active").await;
    let said = &active.status[0];
    assert_eq!(
        (said.source.as_str(), said.points.as_slice()),
        ("builtin/patroni", [Point::Seed, Point::Failover].as_slice())
    );
    assert!(said.exam.as_deref().unwrap().starts_with("passed: "), "{said:?}");
    assert!(active.is_complete());
    // What no layer has is not asked; what is not loaded yet may have it.
    assert!(!active.has(Point::Switchover) && active.has(Point::Join));
    stored(&maps, 1).await;
    let none = group(json!([{"builtin": "raft"}]), Value::Null);
    let failed = process.until(&none, "-", "NotLoaded").await;
    let said = "there is no built-in policy raft; built in are: sequence, patroni, quorum, sentinel, zones";
    assert_eq!(failed.status[0].message.as_deref(), Some(said));
    assert!(failed.has(Point::Switchover));
    std::fs::remove_dir_all(&folder).unwrap();
}

// S33: each request about a copy ends by itself, so a silent API server holds up no policy.
#[tokio::test(start_paused = true)]
async fn a_copy_that_nobody_answers_for_is_given_up() {
    let (client, _) = mock::server(|_, _, _| None);
    let group = GroupRef { namespace: "shop".into(), name: "db".into(), uid: "u".into() };
    let began = tokio::time::Instant::now();
    assert_eq!(copies::list(&client, &group).await.unwrap_err(), "no answer within 10 s");
    assert!(copies::read(&client, &group, "db-policy-1").await.unwrap_err().contains("no answer within 10 s"));
    assert!(copies::remove(&client, &group, "db-policy-1").await.unwrap_err().contains("no answer within 10 s"));
    assert_eq!(began.elapsed(), std::time::Duration::from_secs(30));
}

// S33, P9: a list of copies may have several pages, because other ConfigMaps have the group's label, too; copies on a later page are found.
#[tokio::test]
async fn copies_are_found_on_every_page() {
    let (client, maps) = api_server();
    let named = |owner: &str, n: u32| {
        let metadata = json!({"name": format!("{owner}-{n:03}"), "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": owner}]});
        (format!("{owner}-{n:03}"), json!({"metadata": metadata}))
    };
    let group = GroupRef { namespace: "shop".into(), name: "db".into(), uid: "mine".into() };
    maps.lock().unwrap().extend((0..600).map(|n| named("elses", n)).chain((0..3).map(|n| named("mine", n))));
    let found = copies::list(&client, &group).await.unwrap();
    assert_eq!(found.iter().map(|copy| copy.name.as_str()).collect::<Vec<_>>(), ["mine-000", "mine-001", "mine-002"]);
    maps.lock().unwrap().extend((600..5000).map(|n| named("elses", n)));
    let too_many = copies::list(&client, &group).await.unwrap_err();
    assert!(too_many.contains("more than 4096 ConfigMaps have the label"), "{too_many}");
}

// S33, P9: a group that was deleted and created again at once has a UID of its own, and so have its copies.
#[tokio::test]
async fn a_new_group_of_the_same_name_has_copies_of_its_own() {
    let ((client, maps), folder) = (api_server(), folder("again"));
    replace(&folder, &component("reversed"));
    let mut process = Process::start(&client, &folder);
    let old = group(mine(), Value::Null);
    let mut new = old.clone();
    new.metadata.uid = Some("00000000-0000-0000-0000-000000000002".into());
    process.until(&old, "reversed", "Active").await;
    stored(&maps, 1).await;
    process.until(&new, "reversed", "Active").await;
    stored(&maps, 2).await;
    let owners: Vec<_> =
        maps.lock().unwrap().values().map(|copy| copy["metadata"]["ownerReferences"][0]["uid"].clone()).collect();
    assert!(owners.contains(&json!(new.metadata.uid)) && owners.contains(&json!(old.metadata.uid)), "{owners:?}");

    // The new one, which never had a good policy, does not take what the old one's copy has.
    replace(&folder, b"no component");
    maps.lock().unwrap().retain(|_, copy| copy["metadata"]["ownerReferences"][0]["uid"] == json!(old.metadata.uid));
    drop(process);
    let mut process = Process::start(&client, &folder);
    process.until(&new, "-", "NotLoaded").await;
    process.until(&old, "reversed", "LastGoodDecides").await;
    std::fs::remove_dir_all(&folder).unwrap();
}

// P11: a policy that is never asked is reported: here because the built-in one before it answers everything, or because it has none of its points.
#[tokio::test]
async fn a_policy_that_is_never_asked_is_reported() {
    let ((client, _), folder) = (api_server(), folder("never"));
    replace(&folder, &component("reversed"));
    let mut process = Process::start(&client, &folder);
    let cases = [
        (json!([{"builtin": "sequence"}, {"file": "mine.wasm"}]), ["Active", "NeverAsked"]),
        (json!([{"builtin": "sequence", "points": ["seed"]}, {"file": "mine.wasm"}]), ["Active", "Active"]),
        (
            json!([{"builtin": "sequence", "points": ["seed"]}, {"file": "mine.wasm", "points": ["seed"]}]),
            ["Active", "NeverAsked"],
        ),
        (json!([{"file": "mine.wasm"}, {"builtin": "sequence"}]), ["Active", "Active"]),
    ];
    process.until(&group(mine(), Value::Null), "reversed", "Active").await;
    for (policies, states) in cases {
        let group = group(policies.clone(), Value::Null);
        let active = process.policies.active(&group);
        let said: Vec<_> = active.status.iter().take(2).map(|policy: &PolicyStatus| policy.state.as_str()).collect();
        assert_eq!(said, states, "{policies}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

// P10: a question without a policy says whether it is worth waiting: one that is being loaded comes by itself.
#[tokio::test]
async fn a_group_without_its_policy_says_whether_it_comes() {
    let ((client, _), folder) = (api_server(), folder("comes"));
    let mut process = Process::start(&client, &folder);
    let group = group(mine(), Value::Null);
    let snapshot = serde_json::from_value(json!({
        "now": 1, "members": [], "history": [], "parameters": "{}",
        "group": {"name": "db", "namespace": "shop", "replicas": 1, "primaries": 1, "has-secondaries": false, "term": 0, "labels": [], "facts": []}
    }));
    let question = Question { point: Point::Seed, snapshot: snapshot.unwrap() };
    let kind = |active: &Active| active.ask(&question).unwrap_err().kind;
    assert_eq!(kind(&process.policies.active(&group)), LOADING);
    assert_eq!(kind(&process.until(&group, "-", "NotLoaded").await), NOT_LOADED);
    std::fs::remove_dir_all(&folder).unwrap();
}
