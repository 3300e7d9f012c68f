#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
use super::super::try_::{self, Try};
use super::*;
use crate::cli::example;
use crate::cli::policy::tools::tools;
use crate::mock;
use serde_json::{Value, json};
use std::fs;
use tanist_core::contract::Role;

const PREFER: &str = include_str!("../../../../../examples/policies/prefer.star");

fn pod(ordinal: u32) -> Value {
    let state = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    let container = json!({"name": "db", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "containerID": format!("c{ordinal}"), "state": state});
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set", "controller": true});
    json!({
        "metadata": {"name": format!("db-{ordinal}"), "namespace": "shop", "uid": format!("u{ordinal}"), "ownerReferences": [owner], "labels": {"tanist.dev/group": "db"}},
        "spec": {"nodeName": "node", "containers": [{"name": "db"}]},
        "status": {"phase": "Running", "containerStatuses": [container]}
    })
}

/// `db` of two stopped members with equal data, which asks `mine.star` of `rules` with db-0 preferred.
fn group() -> Value {
    let row = |ordinal: u32| json!({"name": format!("db-{ordinal}"), "ordinal": ordinal, "phase": "Running", "role": "Stopped", "podUID": format!("u{ordinal}")});
    let known = json!({"term": 4, "sequence": {"number": "20"}, "failures": 0, "treated": 0});
    let uses = json!([{"configMap": {"name": "rules", "key": "mine.star"}, "parameters": {"member": "db-0"}}]);
    let record = json!({
        "term": 4, "everSeeded": {"member": "db-0", "confirmed": true}, "lastReplicas": 2, "clearedGeneration": 2,
        "members": {"db-0": known, "db-1": known}
    });
    let status = json!({"primaries": null, "members": [row(0), row(1)], "record": record});
    serde_json::to_value(example(&json!({"spec": {"policies": uses}, "status": status}))).unwrap()
}

fn list(kind: &str, items: &[Value]) -> mock::Said {
    Some((200, json!({"apiVersion": "v1", "kind": kind, "metadata": {}, "items": items})))
}

fn labelled() -> Value {
    json!({"metadata": {"name": "rules", "labels": {"tanist.dev/policy": "true"}}, "data": {"mine.star": PREFER}})
}

/// A session with a cluster that has the group and this `ConfigMap`, and lets the user read what the role `view` reads: no nodes.
fn session(map: Value) -> (Session, mock::Asked) {
    let set = json!({"metadata": {"name": "db", "uid": "set"}, "spec": {"replicas": 2, "serviceName": "", "selector": {}, "template": {}}});
    let (client, asked) = mock::server(move |_, path, _| match path {
        path if path.contains("/replicagroups/db") => Some((200, group())),
        path if path.contains("/pods?") => list("PodList", &[pod(0), pod(1)]),
        path if path.contains("/persistentvolumeclaims?") => list("PersistentVolumeClaimList", &[]),
        path if path.contains("/statefulsets/db") => Some((200, set.clone())),
        path if path.contains("/configmaps/rules") => Some((200, map.clone())),
        path if path.contains("/nodes/") => mock::refusal(403, "Forbidden", "no"),
        _ => mock::refusal(404, "NotFound", "no"),
    });
    (Session::over(client, "shop"), asked)
}

// P45: nothing is written, and what cannot be read is said.
#[tokio::test]
async fn a_group_is_read_with_the_role_view() {
    let (session, asked) = session(labelled());
    let live = read(&session, "db").await.unwrap();
    assert!(live.snapshot.members.iter().all(|m| live.snapshot.role(m).0 == Role::Stopped));
    assert!(live.unsaid.iter().any(|said| said.starts_with("you may not read nodes, so zones")), "{:?}", live.unsaid);
    assert!(live.unsaid[0].starts_with("data is what was last read"), "{:?}", live.unsaid);
    for (method, path, _) in asked.lock().unwrap().iter() {
        assert!(method == "GET" && !path.contains("secrets") && !path.contains("exec"), "{method} {path}");
    }
    let recording = recorded(&live, Some(Point::Seed), live.group.spec.policies.first()).unwrap();
    assert!(recording.text.contains("# Its policies: configmap/rules/mine.star.\n"), "{}", recording.text);
    assert!(recording.text.contains("parameters: {member: db-0}\n"), "{}", recording.text);
    assert_eq!(recording.cases[0].differs, Vec::<String>::new());
}

fn of(name: &str, text: &str, parameters: Option<Value>) -> (tempfile::TempDir, Try) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    fs::write(&file, text).unwrap();
    (folder, Try::of("db", file, parameters.and_then(|value| value.as_object().cloned())))
}

// P45: the policy is tried in its place, beside what decides now; nothing is written.
#[tokio::test]
async fn a_policy_is_tried_beside_the_present_one() {
    let tools = tools().unwrap();
    let (session, asked) = session(labelled());
    let last_one = PREFER.replace("m.name == s.parameters[\"member\"]", "m.ordinal == 1");
    let (_folder, edited) = of("mine.star", &last_one, None);
    let said = try_::trial(&session, &tools, &edited).await.unwrap().text(false);
    for line in ["shop/db: seed, as it arises now", "seed: choose db-1", "now: choose db-0, by mine "] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    // In the place of the one with the same key, so that this one is not asked behind it.
    assert_eq!(said.matches("configmap/rules/mine.star").count(), 1, "{said}");
    let (_folder, other) = of("other.star", PREFER, Some(json!({"member": "db-1"})));
    let said = try_::trial(&session, &tools, &other).await.unwrap().text(false);
    assert!(said.contains("seed: choose db-1") && said.contains("not asked; it would answer: choose db-0"), "{said}");
    assert!(asked.lock().unwrap().iter().all(|(method, ..)| method == "GET"));
    // Without parameters that fit it is an error that says where they are to be given.
    let (_folder, without) = of("other.star", PREFER, None);
    let why = try_::trial(&session, &tools, &without).await.err().unwrap().to_string();
    assert!(why.contains("--parameters") && why.contains("member"), "{why}");
}

#[tokio::test]
async fn a_present_policy_that_cannot_be_asked_is_named() {
    let tools = tools().unwrap();
    let unlabelled = json!({"metadata": {"name": "rules"}, "data": {"mine.star": PREFER}});
    let (session, _) = session(unlabelled);
    let (_folder, other) = of("other.star", PREFER, Some(json!({"member": "db-1"})));
    let trial = try_::trial(&session, &tools, &other).await.unwrap();
    let said = trial.text(false);
    assert!(said.contains("configmap/rules/mine.star: there is no ConfigMap rules with the label"), "{said}");
    assert!(said.contains("now: choose db-0, then db-1, by sequence"), "{said}");
    assert!(trial.is_well());
}

#[tokio::test]
async fn a_policy_that_fails_on_the_group_is_a_failure() {
    let (session, _) = session(labelled());
    let (_folder, fails) = of("mine.star", "def seed(s):\n    fail('no idea')\n", Some(json!({})));
    let trial = try_::trial(&session, &tools().unwrap(), &fails).await.unwrap();
    assert!(!trial.is_well() && trial.text(false).contains("no idea"), "{}", trial.text(false));
}

#[tokio::test]
async fn a_group_that_nobody_looked_at_is_an_error() {
    let (client, _) = mock::server(|_, _, _| {
        let mut group = group();
        group.as_object_mut().unwrap().remove("status");
        Some((200, group))
    });
    let session = Session::over(client, "shop");
    let why = read(&session, "db").await.err().unwrap().to_string();
    assert_eq!(why, "no operator has looked at shop/db yet; does one watch this namespace?");
}
