#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
use super::*;
use crate::cli::example;
use crate::mock;
use std::fs;

const SCRIPT: &str = "def seed(s):\n    return choose([s.eligible()[0]], 'the first')\n";

fn asked(folder: &tempfile::TempDir, file: &str, text: &str) -> Put {
    let path = folder.path().join(file);
    fs::write(&path, text).unwrap();
    let (key, points, timeout) = (None, Vec::new(), Duration::ZERO);
    Put { name: "rules".into(), file: path, key, points, timeout, force_conflicts: false, output: None }
}

/// What the command does with an API server that has these groups and answers the write so.
async fn put_to(
    asked: &Put,
    groups: Value,
    written: mock::Said,
) -> (anyhow::Result<End>, Vec<(String, String, Value)>) {
    let (client, requests) = mock::server(move |method, path, body| match (method, path.contains("/configmaps/")) {
        ("PATCH", true) => written.clone().map(|(code, said)| (code, if code == 200 { body.clone() } else { said })),
        _ => Some((200, groups.clone())),
    });
    let session = Session::over(client, "shop");
    let ended = put(&session, asked).await;
    let requests = requests.lock().unwrap().clone();
    (ended, requests)
}

fn none() -> Value {
    json!({"apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroupList", "metadata": {}, "items": []})
}

fn fine() -> mock::Said {
    Some((200, json!({})))
}

// P45: only the label and this key are applied, by a manager that the key has for itself: with one for all, the keys that were put before would go.
#[tokio::test]
async fn only_the_own_key_is_applied() {
    let folder = tempfile::tempdir().unwrap();
    let (ended, requests) = put_to(&asked(&folder, "mine.star", SCRIPT), none(), fine()).await;
    assert_eq!(ended.unwrap(), End::Well, "no group uses it");
    let writes: Vec<_> = requests.iter().filter(|(method, ..)| method != "GET").collect();
    assert_eq!(writes.len(), 1);
    let (method, path, body) = writes[0];
    assert_eq!(method, "PATCH");
    assert!(path.starts_with("/api/v1/namespaces/shop/configmaps/rules?"), "{path}");
    assert!(path.contains("fieldManager=tanist-put-mine.star") && !path.contains("force=true"), "{path}");
    assert_eq!(
        *body,
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "rules", "labels": {"tanist.dev/policy": "true"}}, "data": {"mine.star": SCRIPT}
        })
    );
    assert_ne!(manager("a.star"), manager("b.star"));
    let long = |end: &str| manager(&format!("{}{end}", "a".repeat(240)));
    assert!(long("1.star").len() <= 128 && long("1.star") != long("2.star"), "a manager has at most 128 characters");
}

// P45: what the gates refuse does not reach the cluster.
#[tokio::test]
async fn a_policy_that_does_not_pass_is_not_put() {
    let folder = tempfile::tempdir().unwrap();
    let reversed = "def seed(s):\n    return choose(reversed(s.eligible()), 'the last')\n";
    for text in ["def seed(s)\n    pass\n", reversed] {
        let (ended, requests) = put_to(&asked(&folder, "mine.star", text), none(), fine()).await;
        assert_eq!(ended.unwrap(), End::Failed, "{text}");
        assert!(requests.is_empty(), "{requests:?}");
    }
}

// P45: what is saved between the check and the write was not checked, so it is not written.
#[tokio::test]
async fn what_is_put_is_what_was_checked() {
    let folder = tempfile::tempdir().unwrap();
    let asked = asked(&folder, "mine.star", SCRIPT);
    let file = asked.file.clone();
    let (client, requests) = mock::server(move |method, _, body| {
        // The groups are listed after the check.
        fs::write(&file, "def seed(s):\n    return choose(reversed(s.eligible()))\n").unwrap();
        Some((200, if method == "PATCH" { body.clone() } else { none() }))
    });
    let session = Session::over(client, "shop");
    assert_eq!(put(&session, &asked).await.unwrap(), End::Well);
    let requests = requests.lock().unwrap().clone();
    let written = requests.iter().find(|(method, ..)| method == "PATCH").unwrap();
    assert_eq!(written.2["data"]["mine.star"], SCRIPT);
}

// P38: what it does where no group asks it is no reason against it.
#[tokio::test]
async fn the_exam_counts_at_the_questions_that_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let reversed = "def seed(s):\n    return choose(reversed(s.eligible()))\n\ndef treat(s):\n    return None\n";
    let asked = Put { points: vec![Point::Treat], ..asked(&folder, "mine.star", reversed) };
    assert_eq!(put_to(&asked, none(), fine()).await.0.unwrap(), End::Well);
    let elsewhere = Put { points: vec![Point::Treat, Point::Seed], ..asked };
    assert_eq!(put_to(&elsewhere, none(), fine()).await.0.unwrap(), End::Failed);
}

#[tokio::test]
async fn a_conflict_names_the_other_client_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let message = "Apply failed with 1 conflict: conflict with \"kubectl-create\" using v1: .data.mine.star";
    let written = || mock::refusal(409, "Conflict", message);
    let mut asked = asked(&folder, "mine.star", SCRIPT);
    let (ended, _) = put_to(&asked, none(), written()).await;
    let said = ended.unwrap_err().to_string();
    assert!(said.starts_with("the client kubectl-create wrote the key mine.star of the ConfigMap rules"), "{said}");
    assert!(said.ends_with("--force-conflicts"), "{said}");
    asked.force_conflicts = true;
    let (ended, requests) = put_to(&asked, none(), fine()).await;
    assert_eq!(ended.unwrap(), End::Well);
    assert!(requests.iter().any(|(_, path, _)| path.contains("force=true")), "{requests:?}");
}

// P45: the exit code says that a group does not follow.
#[tokio::test]
async fn a_group_that_does_not_follow_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let uses = json!({"spec": {"policies": [{"configMap": {"name": "rules", "key": "mine.star"}}]}});
    let group = serde_json::to_value(example(&uses)).unwrap();
    let mut list = none();
    list["items"] = json!([group]);
    // The mock answers a GET of the group with the list, which is no group: it is as if the API server were away for a moment.
    let (ended, _) = put_to(&asked(&folder, "mine.star", SCRIPT), list, fine()).await;
    assert_eq!(ended.unwrap(), End::Failed);
}

#[test]
fn keys_tell_scripts_from_components() {
    let folder = tempfile::tempdir().unwrap();
    let keyed = |file: &str, given: Option<&str>| {
        let asked = Put { key: given.map(str::to_owned), ..asked(&folder, file, "") };
        key(&asked).map_err(|error| error.to_string())
    };
    assert_eq!(keyed("mine.star", None).as_deref(), Ok("mine.star"));
    assert_eq!(keyed("mine.wasm", Some("other.wasm")).as_deref(), Ok("other.wasm"));
    assert!(keyed("mine.star", Some("mine")).unwrap_err().contains("ends with .star"));
    assert!(keyed("mine.wasm", Some("mine.star")).unwrap_err().contains("the file is a component"));
    assert!(keyed("mine.star", Some("a/b.star")).unwrap_err().contains("cannot be a key"));
    let component = object("rules", "a.wasm", false, b"\0asm");
    assert_eq!(component["binaryData"], json!({"a.wasm": "AGFzbQ=="}));
    assert_eq!(component["data"], Value::Null);
}

#[test]
fn times_are_read_as_people_write_them() {
    assert_eq!(time("60s"), Ok(Duration::from_secs(60)));
    assert_eq!(time("2m"), Ok(Duration::from_secs(120)));
    assert_eq!(time("5"), Ok(Duration::from_secs(5)));
    assert!(time("soon").is_err() && time("-5s").is_err());
}
