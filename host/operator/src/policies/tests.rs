use super::*;
use crate::mock::{self, Reply};
use futures::{FutureExt, StreamExt};
use http::Response;
use kube::client::Body;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tanist_engine::Limits;

/// An API server that stores ConfigMaps in memory.
fn api_server() -> Client {
    let stored = Mutex::new(BTreeMap::<String, Value>::new());
    mock::client("shop", move |request| {
        let path = request.uri().path().to_owned();
        let creates = request.method() == http::Method::POST;
        // The bodies of these requests are in memory.
        let body = request.into_body().collect_bytes().now_or_never().unwrap().unwrap();
        let mut stored = stored.lock().unwrap();
        let found = if creates {
            let object: Value = serde_json::from_slice(&body).unwrap();
            stored.insert(object["metadata"]["name"].as_str().unwrap().to_owned(), object.clone());
            Some(object)
        } else {
            stored.get(path.rsplit('/').next().unwrap()).cloned()
        };
        let (code, answer) = match found {
            Some(object) => (200, object),
            None => {
                (404, json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": ""}))
            }
        };
        let body = Body::from(serde_json::to_vec(&answer).unwrap());
        Reply::Response(Box::new(Response::builder().status(code).body(body).unwrap()))
    })
}

fn sources(client: &Client, directory: &Path) -> Sources {
    Sources::new(Engine::new(Limits::default()).unwrap(), client.clone(), Some(directory.to_owned()))
}

/// A group whose policy is the file `mine.wasm`.
fn group(status: Value) -> ReplicaGroup {
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
            "policies": [{"file": "mine.wasm"}]
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

fn folder() -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("tanist-policies-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn first(active: &Active) -> (&str, &str) {
    (active.status[0].name.as_deref().unwrap_or("-"), &active.status[0].state)
}

// S33: a file is replaced without a restart. A broken one changes only what is reported. After a restart the copy is found.
#[tokio::test]
async fn a_file_is_swapped_and_a_broken_one_leaves_the_last_good_one() {
    let (client, folder) = (api_server(), folder());
    let policies = sources(&client, &folder);
    let missing = policies.active(&group(Value::Null)).await;
    assert_eq!(first(&missing), ("-", "NotLoaded"));
    assert!(missing.status[0].message.as_ref().unwrap().contains("mine.wasm"));
    assert!(matches!(&missing.health, PolicyHealth::Missing(why) if why.contains("mine.wasm")), "{:?}", missing.health);

    let (_watcher, mut changes) = directory::watch(&folder).unwrap();
    std::fs::write(folder.join("mine.wasm"), component("sequence")).unwrap();
    tokio::time::timeout(Duration::from_secs(10), changes.next()).await.expect("the change is noticed").unwrap();
    let active = policies.active(&group(Value::Null)).await;
    assert_eq!(first(&active), ("sequence", "Active"));
    while changes.next().now_or_never().is_some() {}

    std::fs::write(folder.join("mine.wasm"), component("reversed")).unwrap();
    tokio::time::timeout(Duration::from_secs(10), changes.next()).await.expect("the edit is noticed").unwrap();
    let good = policies.active(&group(Value::Null)).await;
    assert_eq!(first(&good), ("reversed", "Active"));

    std::fs::write(folder.join("mine.wasm"), b"no component").unwrap();
    let stale = policies.active(&group(Value::Null)).await;
    assert_eq!(first(&stale), ("reversed", "LastGoodDecides"));
    assert!(stale.status[0].message.is_some() && good.status[0].message.is_none());
    assert!(
        matches!(&stale.health, PolicyHealth::Stale(why) if why.contains("goes on deciding")),
        "{:?}",
        stale.health
    );

    // A new process has only the status and the copy.
    let status = json!({"policies": serde_json::to_value(&good.status).unwrap()});
    let other = sources(&client, &folder).active(&group(status)).await;
    assert_eq!(first(&other).0, "reversed");
    assert!(other.stack.is_some());
    std::fs::remove_dir_all(&folder).unwrap();
}
