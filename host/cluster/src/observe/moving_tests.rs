//! Groups that go from one kind of members to the other, round by round, against an API server in memory (D23).
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
use crate::context::Context;
use crate::observe::observe;
use crate::stub::{GROUP, SET, Stub, pod};
use serde_json::{Value, json};
use std::sync::Arc;
use tanist_api::ReplicaGroup;
use tanist_core::decide::decide;
use tanist_core::freshness::Ask;
use tanist_core::plan::Reason;
use tanist_core::snapshot::Snapshot;

const SERVICE: &str = "/api/v1/namespaces/ns/services/db";

async fn look(stub: &Stub, ctx: &Arc<Context>) -> Snapshot {
    let seen: ReplicaGroup = serde_json::from_value(stub.get(GROUP).unwrap()).unwrap();
    observe(ctx, &seen, Ask::Recent, None).await.unwrap().snapshot
}

/// A group whose StatefulSet is as desired, and whose pods are of its template.
async fn settled(ctx: &Arc<Context>, stub: &Stub) {
    for _ in 0..4 {
        stub.round(ctx).await;
        control(stub);
    }
    for ordinal in 0..2 {
        stub.change(&pod(ordinal), |pod| pod["metadata"]["labels"]["controller-revision-hash"] = "db-1".into());
    }
    assert_eq!(stub.round(ctx).await.iter().filter(|done| done.starts_with("PATCH")).count(), 0, "all is as desired");
}

/// What the set's controller does: it says which revision its template is.
fn control(stub: &Stub) {
    if let Some(set) = stub.get(SET) {
        let image = set.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str);
        let revision = image.unwrap_or("none").replace(':', "-");
        if set["status"]["updateRevision"] != json!(revision) {
            stub.change(SET, |set| set["status"] = json!({"replicas": 2, "updateRevision": revision}));
        }
    }
}

fn wants(stub: &Stub, kind: &str) {
    stub.change(GROUP, |group| {
        group["spec"]["members"] = json!({"kind": kind});
        let generation = group["metadata"]["generation"].as_u64().unwrap_or(1);
        group["metadata"]["generation"] = (generation + 1).into();
    });
}

/// The controller of each pod, by its kind.
fn owners(stub: &Stub) -> Vec<String> {
    let of = |pod: &Value| {
        let owners = pod["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let kinds = owners.iter().filter(|o| o["controller"] == json!(true)).map(|o| o["kind"].as_str().unwrap_or("?"));
        format!("{} {}", pod["metadata"]["uid"].as_str().unwrap_or("?"), kinds.collect::<Vec<_>>().join("+"))
    };
    stub.below("/api/v1/namespaces/ns/pods").iter().map(of).collect()
}

/// Rounds, more than a move needs. In each of them every pod has one owner.
async fn rounds(stub: &Stub, ctx: &Arc<Context>) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..12 {
        all.extend(stub.round(ctx).await);
        control(stub);
        for owner in owners(stub) {
            assert!(owner.ends_with(" StatefulSet") || owner.ends_with(" ReplicaGroup"), "{owner} after {all:?}");
        }
    }
    all
}

fn waits(s: &Snapshot) -> Vec<String> {
    let plan = decide(s, &crate::stub::Silent);
    let moves = plan.waits.into_iter().filter(|wait| wait.reason == Reason::MovePending);
    moves.map(|wait| wait.message).collect()
}

fn is_of_the_present_template(s: &Snapshot) -> bool {
    s.members
        .iter()
        .filter_map(|m| m.pod.as_ref())
        .all(|pod| !pod.outdated && !pod.older_template && pod.stray.is_none())
}

#[tokio::test]
async fn pods_stay_while_their_group_moves_there_and_back() {
    let stub = Stub::new();
    let ctx = stub.context();
    settled(&ctx, &stub).await;
    let before = owners(&stub);
    assert_eq!(before, ["pod-0 StatefulSet", "pod-1 StatefulSet"]);

    wants(&stub, "Pods");
    let there = rounds(&stub, &ctx).await;
    assert!(stub.get(SET).is_none(), "{there:?}");
    assert_eq!(owners(&stub), ["pod-0 ReplicaGroup", "pod-1 ReplicaGroup"], "{there:?}");
    let s = look(&stub, &ctx).await;
    assert!(s.group.makes_pods && s.moving.is_none(), "{:?}", s.moving);
    assert!(is_of_the_present_template(&s), "{:?}", s.members);
    assert_eq!(s.record.seats.as_ref().map(|seats| seats.next), Some(2));
    let number = there.iter().position(|line| line.starts_with("PUT status"));
    let adopted = there.iter().position(|line| line.starts_with("PATCH db-"));
    assert!(number < adopted, "the record says first who the members are: {there:?}");

    wants(&stub, "StatefulSet");
    let back = rounds(&stub, &ctx).await;
    assert_eq!(owners(&stub), before, "{back:?}");
    let s = look(&stub, &ctx).await;
    assert!(!s.group.makes_pods && s.moving.is_none() && s.record.seats.is_none(), "{:?}", s.moving);
    assert_eq!(s.record.last_replicas, 2);
    assert!(is_of_the_present_template(&s), "{:?}", s.members);
    let note = |path: &str| stub.get(path).unwrap()["metadata"]["annotations"]["tanist.dev/template"].clone();
    assert!(note(SET).is_string() && waits(&s).is_empty(), "{:?}", waits(&s));
}

// The memory of a group that is on its way is lost: whoever owns the pods says what makes them.
#[tokio::test]
async fn a_group_on_its_way_whose_record_is_lost_goes_on() {
    for lost_after in 1..8 {
        let stub = Stub::new();
        let ctx = stub.context();
        settled(&ctx, &stub).await;
        wants(&stub, "Pods");
        for _ in 0..lost_after {
            stub.round(&ctx).await;
            control(&stub);
        }
        stub.change(GROUP, |group| group["status"]["record"]["seats"] = Value::Null);
        rounds(&stub, &ctx).await;
        assert_eq!(owners(&stub), ["pod-0 ReplicaGroup", "pod-1 ReplicaGroup"], "lost after {lost_after} rounds");
        assert!(stub.get(SET).is_none(), "lost after {lost_after} rounds");
    }
}

// Its record is lost after it came to make its pods itself, and the user wants a StatefulSet by now: the owner of the pods says what makes them.
#[tokio::test]
async fn pods_of_the_group_say_what_makes_them() {
    let stub = Stub::new();
    let ctx = stub.context();
    settled(&ctx, &stub).await;
    wants(&stub, "Pods");
    rounds(&stub, &ctx).await;
    stub.change(GROUP, |group| group["status"]["record"]["seats"] = Value::Null);
    wants(&stub, "StatefulSet");
    let s = look(&stub, &ctx).await;
    assert!(s.group.makes_pods && s.moving.as_ref().is_some_and(|moving| !moving.to_pods), "{:?}", s.moving);
}

// The user changes it back at any time.
#[tokio::test]
async fn a_move_is_cancelled() {
    for after in 1..8 {
        let stub = Stub::new();
        let ctx = stub.context();
        settled(&ctx, &stub).await;
        wants(&stub, "Pods");
        for _ in 0..after {
            stub.round(&ctx).await;
            control(&stub);
        }
        wants(&stub, "StatefulSet");
        rounds(&stub, &ctx).await;
        assert_eq!(owners(&stub), ["pod-0 StatefulSet", "pod-1 StatefulSet"], "cancelled after {after} rounds");
        let s = look(&stub, &ctx).await;
        assert!(!s.group.makes_pods && s.moving.is_none(), "cancelled after {after} rounds: {:?}", s.moving);
    }
}

// What is of an older template is so afterwards, too: that it is replaced is another matter.
#[tokio::test]
async fn a_pod_of_an_older_template_moves_as_it_is() {
    let stub = Stub::new();
    let ctx = stub.context();
    settled(&ctx, &stub).await;
    stub.change(GROUP, |group| {
        group["spec"]["update"] = json!({"batch": "None"});
        group["spec"]["template"]["spec"]["containers"][0]["image"] = "db:2".into();
        group["metadata"]["generation"] = 2.into();
    });
    rounds(&stub, &ctx).await;
    // One has it, as if a user had deleted its pod.
    stub.change(&pod(1), |pod| pod["metadata"]["labels"]["controller-revision-hash"] = "db-2".into());
    let older = |s: &Snapshot| -> Vec<bool> {
        s.members.iter().filter_map(|m| m.pod.as_ref()).map(|pod| pod.older_template).collect()
    };
    assert_eq!(older(&look(&stub, &ctx).await), [true, false]);
    for (kind, owner) in [("Pods", "ReplicaGroup"), ("StatefulSet", "StatefulSet"), ("Pods", "ReplicaGroup")] {
        wants(&stub, kind);
        // On the way, too: the set has noted which of its pods are older. Later the group's note is lost for a while.
        for round in 0..if stub.get(SET).is_some() { 6 } else { 0 } {
            let s = look(&stub, &ctx).await;
            assert_eq!(older(&s), [true, false], "to {kind}, round {round}");
            let waits = s.group.makes_pods && owners(&stub).iter().all(|owner| owner.ends_with(" StatefulSet"));
            if let Some(service) = stub.get(SERVICE).filter(|_| waits) {
                stub.remove(SERVICE);
                assert_eq!(
                    older(&look(&stub, &ctx).await),
                    [true, false],
                    "to {kind}, round {round}, without the note"
                );
                stub.set_object(SERVICE, service);
            }
            stub.round(&ctx).await;
            control(&stub);
        }
        let done = rounds(&stub, &ctx).await;
        assert_eq!(owners(&stub), [format!("pod-0 {owner}"), format!("pod-1 {owner}")], "{done:?}");
        let s = look(&stub, &ctx).await;
        assert_eq!(older(&s), [true, false], "to {kind}: {:?}", s.members);
        assert!(s.moving.is_none(), "{:?}", s.moving);
        if kind == "Pods" {
            // The note on it goes with it.
            stub.remove(SERVICE);
        }
    }
}

// Members with other numbers than a StatefulSet would give them stay as they are, and a StatefulSet that is there already goes again.
#[tokio::test]
async fn a_group_whose_numbers_have_a_gap_stays_as_it_is() {
    let stub = Stub::new();
    let ctx = stub.context();
    settled(&ctx, &stub).await;
    wants(&stub, "Pods");
    rounds(&stub, &ctx).await;
    stub.change(GROUP, |group| group["status"]["record"]["seats"] = json!({"numbers": [0, 1, 3], "next": 4}));
    wants(&stub, "StatefulSet");
    let done = rounds(&stub, &ctx).await;
    assert!(stub.get(SET).is_none(), "{done:?}");
    let s = look(&stub, &ctx).await;
    assert!(waits(&s).iter().any(|why| why.contains("the members are db-0, db-1, db-3")), "{:?}", waits(&s));
    assert!(s.group.makes_pods);

    stub.set_object(SET, json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"uid": "set", "ownerReferences": [
        {"apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "name": "db", "uid": "group", "controller": true}]},
        "spec": {"replicas": 2, "serviceName": "db", "selector": {}, "template": {}}}));
    rounds(&stub, &ctx).await;
    assert!(stub.get(SET).is_none());
    assert!(stub.get(SERVICE).is_some());
}

// A change of the owner that arrives when its group has gone back already is taken back.
#[tokio::test]
async fn a_late_change_of_the_owner_is_taken_back() {
    let stub = Stub::new();
    let ctx = stub.context();
    settled(&ctx, &stub).await;
    stub.change(&pod(1), |pod| {
        pod["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "name": "db", "uid": "group", "controller": true}
        ]);
    });
    let s = look(&stub, &ctx).await;
    assert!(!s.group.makes_pods && s.members[1].pod.is_some(), "{:?}", s.members);
    stub.round(&ctx).await;
    assert_eq!(owners(&stub), ["pod-0 StatefulSet", "pod-1 StatefulSet"]);
}

// The user changes their mind, the StatefulSet goes, and then a change of a pod's owner arrives that was on its way: the pod belongs to its group all the same, and is not collected.
#[tokio::test]
async fn a_pod_that_comes_to_a_set_belongs_to_its_group_too() {
    let stub = Stub::new();
    let ctx = stub.context();
    settled(&ctx, &stub).await;
    wants(&stub, "Pods");
    rounds(&stub, &ctx).await;
    wants(&stub, "StatefulSet");
    rounds(&stub, &ctx).await;
    let owners = |ordinal| -> Vec<(String, bool)> {
        let pod = stub.get(&pod(ordinal)).unwrap();
        let all = pod["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let of = |owner: &Value| (owner["uid"].as_str().unwrap_or("?").to_owned(), owner["controller"] == json!(true));
        all.iter().map(of).collect()
    };
    assert_eq!(owners(0), [("new".to_owned(), true), ("group".to_owned(), false)]);
    let late = stub.get(&pod(0)).unwrap()["metadata"]["ownerReferences"].clone();
    wants(&stub, "Pods");
    rounds(&stub, &ctx).await;
    assert_eq!(owners(0), [("group".to_owned(), true)], "once");
    stub.change(&pod(0), |pod| pod["metadata"]["ownerReferences"] = late);
    stub.round(&ctx).await;
    assert_eq!(owners(0), [("group".to_owned(), true)], "it is taken back");
}

// A pod of the StatefulSet is of the template that the set has, while its group is on its way.
#[tokio::test]
async fn a_pod_that_has_not_moved_yet_may_be_of_an_older_template() {
    let stub = Stub::new();
    let ctx = stub.context();
    settled(&ctx, &stub).await;
    wants(&stub, "Pods");
    while stub.get(GROUP).unwrap()["status"]["record"]["seats"].is_null() {
        stub.round(&ctx).await;
        control(&stub);
    }
    stub.change(GROUP, |group| {
        group["spec"]["template"]["spec"]["containers"][0]["image"] = "db:2".into();
        group["metadata"]["generation"] = 7.into();
    });
    let s = look(&stub, &ctx).await;
    let first = s.members[0].pod.as_ref().unwrap();
    assert!(s.group.makes_pods && first.is_elsewhere && first.older_template, "{first:?}");
}

// A StatefulSet that somebody deletes takes no pod any more.
#[tokio::test]
async fn no_pod_comes_to_a_set_that_is_being_deleted() {
    let stub = Stub::new();
    let ctx = stub.context();
    settled(&ctx, &stub).await;
    wants(&stub, "Pods");
    while !owners(&stub)[1].ends_with("Group") {
        stub.round(&ctx).await;
    }
    stub.change(SET, |set| set["metadata"]["deletionTimestamp"] = "2026-11-27T00:00:00Z".into());
    wants(&stub, "StatefulSet");
    rounds(&stub, &ctx).await;
    assert_eq!(owners(&stub), ["pod-0 ReplicaGroup", "pod-1 ReplicaGroup"]);
}

// Without a StatefulSet nobody else adopts a pod that lost its owner.
#[tokio::test]
async fn a_pod_without_an_owner_is_adopted() {
    let stub = Stub::new();
    let ctx = stub.context();
    settled(&ctx, &stub).await;
    wants(&stub, "Pods");
    rounds(&stub, &ctx).await;
    stub.change(&pod(1), |pod| pod["metadata"]["ownerReferences"] = json!([]));
    let s = look(&stub, &ctx).await;
    let stray = s.members[1].pod.as_ref().and_then(|pod| pod.stray.clone());
    assert!(stray.is_some_and(|why| why.contains("adopts it")), "{:?}", s.members);
    stub.round(&ctx).await;
    assert_eq!(owners(&stub), ["pod-0 ReplicaGroup", "pod-1 ReplicaGroup"]);
}
