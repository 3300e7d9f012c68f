//! What the objects of a group tell of its members, whom nobody asks.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
use super::*;
use crate::stub::{GROUP, SET, Stub, pod};
use serde::de::DeserializeOwned;
use serde_json::json;

const NOW: Timestamp = 1_795_000_000;

fn read<T: DeserializeOwned>(stub: &Stub, path: &str) -> T {
    serde_json::from_value(stub.get(path).unwrap()).unwrap()
}

/// The objects of the test group. Its status says that both members are stopped, each in the pod that it had first.
fn objects(stub: &Stub) -> Objects {
    let row = |ordinal: u32| {
        let (name, uid) = (format!("db-{ordinal}"), format!("pod-{ordinal}"));
        json!({"name": name, "ordinal": ordinal, "phase": "Running", "role": "Stopped", "podUID": uid})
    };
    stub.change(GROUP, |group| group["status"]["members"] = json!([row(0), row(1)]));
    Objects {
        group: read(stub, GROUP),
        set: Some(read(stub, SET)),
        pods: (0..2).map(|ordinal| read(stub, &pod(ordinal))).collect(),
        claims: Vec::new(),
        nodes: Some((0..2).map(|ordinal| read(stub, &format!("/api/v1/nodes/n{ordinal}"))).collect()),
    }
}

// P45, S8: a row of the status is about one pod. Of a new pod of that name it says nothing.
#[test]
fn a_role_of_another_pod_says_nothing() {
    let stub = Stub::new();
    stub.change(&pod(1), |pod| pod["metadata"]["uid"] = "new".into());
    let Told { snapshot, .. } = told(objects(&stub), NOW).unwrap();
    let roles: Vec<_> = snapshot.members.iter().map(|m| snapshot.role(m).0).collect();
    assert_eq!(roles, [Role::Stopped, Role::Unknown]);
}

// P45: a member whose data was never read counts as having what the group had in the term of its role. That is a guess, and is named as one; what was read is none.
#[test]
fn data_that_was_never_read_is_named_as_a_guess() {
    let stub = Stub::new();
    stub.change(GROUP, |group| {
        let record = &mut group["status"]["record"];
        record["highWater"] = json!({"term": 1, "sequence": {"number": "20"}});
        record["members"]["db-1"]["sequence"] = json!({"number": "19"});
    });
    let Told { snapshot, guessed } = told(objects(&stub), NOW).unwrap();
    let known = |number| Position::Known(Sequence { history: None, number });
    assert_eq!(guessed, [("db-0".to_owned(), known(20))]);
    let positions: Vec<_> = snapshot.members.iter().map(|m| m.position.clone()).collect();
    assert_eq!(positions, [known(20), known(19)]);
}

// E14: who looks from outside knows the zones of nodes, too.
#[test]
fn a_story_knows_the_zones() {
    let stub = Stub::new();
    stub.change("/api/v1/nodes/n1", |node| node["metadata"]["labels"] = json!({"example.org/rack": "z"}));
    stub.change(GROUP, |group| group["spec"]["zones"] = json!({"nodeLabel": "example.org/rack"}));
    let Told { snapshot, .. } = told(objects(&stub), NOW).unwrap();
    assert_eq!(snapshot.nodes.unwrap()["n1"].zone.as_deref(), Some("z"));
}

// P53: who looks from outside sees the number of members that policies let in, too.
#[test]
fn what_policies_let_in_counts() {
    let stub = Stub::new();
    stub.change(GROUP, |group| {
        group["spec"]["replicas"] = 4.into();
        group["status"]["record"]["admitted"] = json!({"replicas": 2, "primaries": 1});
    });
    let s = told(objects(&stub), NOW).unwrap().snapshot;
    assert_eq!((s.group.replicas, s.group.requested.replicas, s.members.len()), (2, 4, 2));
}
