//! What the objects of a group tell, and what a case that is recorded of it tells.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
use crate::cli::example;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use serde_json::{Value, json};
use tanist_author::case::Cases;
use tanist_author::recorded::{About, record};
use tanist_author::{arise, world};
use tanist_cluster::observe::told::{Objects, Told, told};
use tanist_core::contract::{Phase, Position, Role, Timestamp};
use tanist_core::policy::Point;

const NOW: Timestamp = 1_795_000_000;

fn pod(ordinal: u32, uid: &str, changes: &Value) -> Pod {
    let state = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    let container = json!({"name": "db", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "containerID": format!("c{ordinal}"), "state": state});
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:30Z"});
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set", "controller": true});
    let mut pod = json!({
        "metadata": {
            "name": format!("db-{ordinal}"), "namespace": "shop", "uid": uid, "ownerReferences": [owner],
            "labels": {"tanist.dev/group": "db", "policy.tanist.dev/rank": ordinal.to_string()}
        },
        "spec": {"nodeName": format!("node-{ordinal}"), "containers": [{"name": "db"}]},
        "status": {"phase": "Running", "conditions": [ready], "containerStatuses": [container]}
    });
    for (pointer, value) in changes.as_object().into_iter().flatten() {
        *pod.pointer_mut(pointer).unwrap() = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

fn node(name: &str, zone: &str, cordoned: bool) -> Node {
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let node = json!({
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "spec": {"unschedulable": cordoned}, "status": {"conditions": [ready]}
    });
    serde_json::from_value(node).unwrap()
}

fn claim(ordinal: u32, uid: &str) -> PersistentVolumeClaim {
    let name = format!("data-db-{ordinal}");
    serde_json::from_value(json!({"metadata": {"name": name, "uid": uid, "labels": {"tanist.dev/group": "db"}}}))
        .unwrap()
}

/// `db` of three members in term 4, in which db-1 leads, as the operator has written it.
fn record_of(members: Value) -> Value {
    json!({
        "term": 4, "everSeeded": {"member": "db-1", "confirmed": true}, "lastReplicas": 3, "clearedGeneration": 2,
        "highWater": {"term": 4, "sequence": {"history": "a", "number": "20"}}, "members": members
    })
}

fn confirmed(claim: &str) -> Value {
    json!({"term": 4, "sequence": {"history": "a", "number": "20"}, "claimUid": claim, "failures": 0, "treated": 0})
}

/// The group with those rows and that record, all three pods running.
fn objects(rows: Value, record: Value) -> Objects {
    let group = example(&json!({
        "spec": {"replicas": 3, "commands": {"secondary": {"exec": ["x"]}}},
        "status": {"primaries": null, "members": rows, "record": record}
    }));
    let set = json!({"metadata": {"name": "db", "uid": "set"}, "spec": {"replicas": 3, "serviceName": "", "selector": {}, "template": {}}});
    Objects {
        group,
        set: Some(serde_json::from_value(set).unwrap()),
        pods: (0..3).map(|ordinal| pod(ordinal, &format!("u{ordinal}"), &json!({}))).collect(),
        claims: (0..3).map(|ordinal| claim(ordinal, &format!("claim-{ordinal}"))).collect(),
        nodes: Some(
            (0..3).map(|ordinal| node(&format!("node-{ordinal}"), &format!("zone-{ordinal}"), false)).collect(),
        ),
    }
}

fn row(ordinal: u32, role: &str, uid: &str) -> Value {
    json!({"name": format!("db-{ordinal}"), "ordinal": ordinal, "phase": "Running", "role": role, "podUID": uid})
}

fn all_stopped() -> Objects {
    let record =
        record_of(json!({"db-0": confirmed("claim-0"), "db-1": confirmed("claim-1"), "db-2": confirmed("claim-2")}));
    objects(json!([row(0, "Stopped", "u0"), row(1, "Stopped", "u1"), row(2, "Stopped", "u2")]), record)
}

// What a group's objects tell is what a round would see: pods, claims, nodes and labels by the same code, roles by the status.
#[test]
fn a_group_is_told_by_its_objects() {
    let mut objects = all_stopped();
    objects.pods[2] = pod(2, "u2", &json!({"/status/phase": "Failed", "/status/containerStatuses": []}));
    objects.nodes.as_mut().unwrap()[0] = node("node-0", "zone-0", true);
    let Told { snapshot, guessed } = told(objects, NOW).unwrap();
    let roles: Vec<_> = snapshot.members.iter().map(|m| snapshot.role(m).0).collect();
    assert_eq!(roles, [Role::Stopped, Role::Stopped, Role::Unknown]);
    let phases: Vec<_> = snapshot.members.iter().map(|m| m.pod.as_ref().unwrap().phase).collect();
    assert_eq!(phases, [Phase::Running, Phase::Running, Phase::Ended]);
    assert!(snapshot.is_cordoned(&snapshot.members[0]) && !snapshot.is_cordoned(&snapshot.members[1]));
    assert_eq!(snapshot.nodes.as_ref().unwrap()["node-1"].zone.as_deref(), Some("zone-1"));
    assert_eq!(snapshot.members[1].pod.as_ref().unwrap().labels, [("rank".to_owned(), "1".to_owned())]);
    assert_eq!((snapshot.record.term, guessed.len()), (4, 0));
}

// A row of the status is about one pod. A new pod of that name proves nothing (S8).
#[test]
fn a_role_of_another_pod_says_nothing() {
    let mut objects = all_stopped();
    objects.pods[1] = pod(1, "new", &json!({}));
    let Told { snapshot, .. } = told(objects, NOW).unwrap();
    assert_eq!(snapshot.role(&snapshot.members[1]).0, Role::Unknown);
    assert_eq!(snapshot.role(&snapshot.members[0]).0, Role::Stopped);
}

// Data that was never read is guessed, and the guess is named, so that it can be said.
#[test]
fn data_that_was_never_read_is_a_guess() {
    let never = |more: Value| {
        let mut known = json!({"term": 4, "claimUid": "claim-0", "failures": 0, "treated": 0});
        known.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        known
    };
    let started = json!({"term": null, "started": {"term": 4, "target": false, "before": "empty"}});
    let record = record_of(json!({"db-0": never(json!({})), "db-1": never(started)}));
    let rows = json!([row(0, "Secondary", "u0"), row(1, "Stopped", "u1"), row(2, "Stopped", "u2")]);
    let Told { snapshot, guessed } = told(objects(rows, record), NOW).unwrap();
    let names: Vec<_> = guessed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["db-0", "db-1", "db-2"]);
    let data: Vec<_> = snapshot.members.iter().map(|m| tanist_core::data::show_position(&m.position)).collect();
    assert_eq!((data[0].as_str(), &snapshot.members[2].position), ("a:20", &Position::Empty), "{data:?}");
    assert!(matches!(snapshot.members[1].position, Position::Unknown(_)), "{data:?}");
}

// P45: the group, the case that is recorded of it, and what the core asks about either: the same bars.
#[test]
fn a_live_group_and_its_recorded_case_have_the_same_bars() {
    let replaced =
        record_of(json!({"db-0": confirmed("another"), "db-1": confirmed("claim-1"), "db-2": confirmed("claim-2")}));
    let waits = json!({"term": 4, "sequence": {"history": "a", "number": "20"}, "claimUid": "claim-2", "failures": 4, "treated": 0, "retryAt": NOW + 60});
    let resting = record_of(json!({"db-0": confirmed("claim-0"), "db-1": confirmed("claim-1"), "db-2": waits}));
    let rows = || json!([row(0, "Stopped", "u0"), row(1, "Stopped", "u1"), row(2, "Stopped", "u2")]);
    for (objects, words) in
        [(objects(rows(), replaced), "its volume was replaced"), (objects(rows(), resting), "next try in 60 s")]
    {
        let Told { snapshot, .. } = told(objects, NOW).unwrap();
        let group = arise::arises(&snapshot, Point::Seed).unwrap();
        let recording = record(&snapshot, Some(Point::Seed), &About::default()).unwrap();
        let cases = Cases::parse("recorded.yaml", recording.text.clone()).unwrap();
        let case = arise::arises(&world::snapshot(&cases.content.cases[0].value), Point::Seed).unwrap();
        assert_eq!(case.question().snapshot, group.question().snapshot, "{}", recording.text);
        let bars: Vec<_> = group.question().snapshot.members.iter().filter_map(|m| m.barred.clone()).collect();
        assert!(bars.len() == 1 && bars[0].contains(words), "{bars:?}");
        assert_eq!(recording.cases[0].differs, Vec::<String>::new());
    }
}
