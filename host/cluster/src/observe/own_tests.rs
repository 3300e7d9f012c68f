//! Groups whose pods the operator makes itself, against an API server in memory (D23).
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
use crate::context::Context;
use crate::observe::convert::{CLAIM_GROUP, CLAIM_TERM};
use crate::observe::{Error, Observed, observe};
use crate::stub::{Answer, GROUP, SET, Stub, pod};
use http::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use tanist_api::ReplicaGroup;
use tanist_core::freshness::Ask;
use tanist_core::snapshot::{Former, Snapshot};

const SERVICE: &str = "/api/v1/namespaces/ns/services/db";

/// The test group with pods of its own.
fn stub() -> Stub {
    let stub = Stub::new();
    stub.remove(SET);
    let claims = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]);
    stub.change(GROUP, |group| {
        group["spec"]["members"] = json!({"kind": "Pods"});
        group["spec"]["volumeClaimTemplates"] = claims;
    });
    for ordinal in 0..2 {
        stub.change(&pod(ordinal), |pod| {
            pod["metadata"]["labels"]["controller-revision-hash"] = "a".into();
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "name": "db", "uid": "group", "controller": true
            }]);
        });
        stub.set_object(
            &format!("/api/v1/namespaces/ns/persistentvolumeclaims/data-db-{ordinal}"),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"namespace": "ns", "uid": format!("claim-{ordinal}"), "labels": {"tanist.dev/group": "db"}}}),
        );
    }
    stub
}

async fn try_look(stub: &Stub, ctx: &Arc<Context>) -> Result<Observed, Error> {
    let seen: ReplicaGroup = serde_json::from_value(stub.get(GROUP).unwrap()).unwrap();
    observe(ctx, &seen, Ask::Recent, None).await
}

async fn look(stub: &Stub) -> Snapshot {
    try_look(stub, &stub.context()).await.unwrap().snapshot
}

/// The Service as it would be after it was applied.
fn apply_service(stub: &Stub, s: &Snapshot) {
    let service = s.objects.iter().find(|o| o.kind == "Service" && o.name == "db").unwrap();
    stub.set_object(SERVICE, Value::clone(&service.manifest));
}

fn lacking(s: &Snapshot) -> Vec<String> {
    let all = s.set.as_ref().unwrap().lacking.values().flatten();
    all.map(|object| format!("{} {}", object.kind, object.name)).collect()
}

// A group belongs to the installation that managed it first, whoever makes its pods. The Service stands for the group where there is no StatefulSet.
#[tokio::test]
async fn a_group_of_another_installation_is_left_alone() {
    let by = |path: &str, installation: &str| {
        let stub = if path == SET { Stub::new() } else { stub() };
        if path == SERVICE {
            let manifest = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db", "namespace": "ns", "labels": {"tanist.dev/group": "db"}, "ownerReferences": [{
                "apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "name": "db", "uid": "group", "controller": true
            }]}});
            stub.set_object(SERVICE, manifest);
        }
        stub.change(path, |object| {
            object["metadata"]["annotations"] = json!({"tanist.dev/installation": installation})
        });
        stub
    };
    for (path, kind) in [(SET, "StatefulSet"), (SERVICE, "Service")] {
        let stub = by(path, "another");
        let error = try_look(&stub, &stub.context()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "installation \"another\" manages this group; remove the annotation tanist.dev/installation from its {kind} to take it over"
            )
        );
        stub.change(path, |object| object["metadata"]["annotations"] = json!({}));
        assert!(try_look(&stub, &stub.context()).await.is_ok(), "taken over");
        let own = stub.context().settings.installation.clone();
        let stub = by(path, &own);
        assert!(try_look(&stub, &stub.context()).await.is_ok());
    }
    // One of the same name that belongs to somebody else says nothing of this group.
    let stub = by(SERVICE, "another");
    stub.change(SERVICE, |service| service["metadata"]["ownerReferences"][0]["uid"] = "another group".into());
    assert!(try_look(&stub, &stub.context()).await.is_ok());
}

#[tokio::test]
async fn what_members_lack_is_found_once_the_service_says_of_which_template_pods_are() {
    let stub = stub();
    let first = look(&stub).await;
    assert!(first.set.as_ref().unwrap().unseen);
    let service = first.objects.iter().find(|o| o.kind == "Service" && o.name == "db").unwrap();
    let trial = service.trial.as_ref().unwrap();
    assert_eq!(trial["metadata"]["name"], "db-2", "a name that no member has");
    apply_service(&stub, &first);
    let second = look(&stub).await;
    assert!(!second.set.as_ref().unwrap().unseen);
    assert_eq!(lacking(&second), [""; 0]);
    assert_eq!(second.record.seats.as_ref().map(|seats| seats.next), Some(2), "pods and claims say who there is");
    stub.remove(&pod(1));
    assert_eq!(lacking(&look(&stub).await), ["Pod db-1"]);
    stub.remove("/api/v1/namespaces/ns/persistentvolumeclaims/data-db-1");
    assert_eq!(lacking(&look(&stub).await), ["PersistentVolumeClaim data-db-1", "Pod db-1"]);
    stub.change(GROUP, |group| group["spec"]["template"]["spec"]["containers"][0]["image"] = "db:2".into());
    let changed = look(&stub).await;
    assert!(changed.set.as_ref().unwrap().unseen);
    assert!(changed.members[0].pod.as_ref().unwrap().older_template);
}

// Of a large group not everything is made at once: a template may be large. Those whose creation was refused do not keep the others from their turn.
#[tokio::test]
async fn members_are_made_in_turns() {
    let stub = stub();
    apply_service(&stub, &look(&stub).await);
    stub.change(GROUP, |group| group["spec"]["replicas"] = 40.into());
    let ctx = stub.context();
    let mut s = try_look(&stub, &ctx).await.unwrap().snapshot;
    let turn = |s: &Snapshot| {
        let all = &s.set.as_ref().unwrap().lacking;
        let made: Vec<_> =
            all.iter().filter(|(_, objects)| !objects.is_empty()).map(|(name, _)| name.to_string()).collect();
        (all.len(), made)
    };
    let (all, first) = turn(&s);
    assert_eq!(
        (all, first.len(), first.contains(&"db-2".to_owned()), first.contains(&"db-18".to_owned())),
        (38, 16, true, false)
    );
    let (reason, again) = (tanist_core::status::Failed::Forbidden, ctx.clock.moment());
    ctx.hints.with_group("group", |hints| {
        for name in &first {
            let (desired_hash, action, why) = (String::new(), "create".to_owned(), "no".to_owned());
            let pause = std::time::Duration::from_secs(1);
            let before = crate::hints::Unwritten { desired_hash, again, pause, action, reason, why };
            hints.unwritten.insert(format!("create/{name}"), before);
        }
    });
    s = try_look(&stub, &ctx).await.unwrap().snapshot;
    let (all, second) = turn(&s);
    assert_eq!((all, second.len(), second.iter().any(|name| first.contains(name))), (38, 16, false));
    // Those that leave may need nothing any more, and must not take all turns.
    stub.change(GROUP, |group| {
        group["spec"]["replicas"] = 20.into();
        let leaving: Vec<u32> = (0..20).collect();
        group["status"]["record"]["seats"] =
            json!({"numbers": (20..40).collect::<Vec<u32>>(), "leaving": leaving, "next": 40});
    });
    let s = look(&stub).await;
    let (_, third) = turn(&s);
    let stay = third.iter().filter(|name| name.trim_start_matches("db-").parse::<u32>().unwrap() >= 20).count();
    assert_eq!((third.len(), stay), (16, 16), "{third:?}");
}

/// The first pod is of the newest revision, the other one of an older one; of which template they are was not known when they changed their owner.
fn revise(stub: &Stub) {
    let revision = stub.get(SERVICE).unwrap()["metadata"]["annotations"]["tanist.dev/pod-revision"].clone();
    for (ordinal, label) in [(0, revision), (1, "b".into())] {
        stub.change(&pod(ordinal), |pod| {
            pod["metadata"]["labels"]["controller-revision-hash"] = label;
            pod["metadata"]["annotations"] = json!({"tanist.dev/template": ""});
        });
    }
}

// What is not outdated is of no older template, whatever stands on it: it would be replaced by the same, or waited for for ever.
#[tokio::test]
async fn a_pod_of_the_newest_revision_is_of_the_present_template() {
    let stub = stub();
    let first = look(&stub).await;
    apply_service(&stub, &first);
    revise(&stub);
    let s = look(&stub).await;
    let of = |at: usize| s.members[at].pod.as_ref().map(|pod| (pod.older_template, pod.outdated));
    assert_eq!((of(0), of(1)), (Some((false, false)), Some((true, true))));
}

// B7: what the template asks for now matters only to pods that were made from another one.
#[tokio::test]
async fn only_pods_of_an_older_template_call_for_new_members() {
    let stub = stub();
    stub.change(GROUP, |group| group["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"}));
    apply_service(&stub, &look(&stub).await);
    revise(&stub);
    let s = look(&stub).await;
    let needs = |at: usize| s.members[at].pod.as_ref().map(|pod| pod.needs_new_member);
    assert_eq!((needs(0), needs(1)), (Some(false), Some(true)));
}

// Somebody took the labels away: what is there is not made a second time.
// E14, E21: where the record does not say in which zones members are, their pods do; a pod that is lost comes back in its zone.
#[tokio::test]
async fn a_lost_pod_comes_back_in_its_zone() {
    let stub = stub();
    stub.change(GROUP, |group| group["spec"]["zones"] = json!({"list": [{"name": "a"}, {"name": "b"}]}));
    for (ordinal, zone) in [(0, "a"), (1, "b")] {
        stub.change(&pod(ordinal), |pod| pod["metadata"]["labels"]["tanist.dev/zone"] = zone.into());
    }
    let first = look(&stub).await;
    apply_service(&stub, &first);
    let seats = serde_json::to_value(&first.record.seats).unwrap();
    assert_eq!(seats["zones"], json!({"a": [0], "b": [1]}));
    stub.change(GROUP, |group| group["status"]["record"]["seats"] = seats);
    stub.remove(&pod(1));
    let s = look(&stub).await;
    let made: Vec<_> = s.set.iter().flat_map(|set| set.lacking.values().flatten()).collect();
    assert_eq!((made.len(), &made[0].manifest["metadata"]["labels"]["tanist.dev/zone"]), (1, &json!("b")));
}

// E14: the zone of a node is what the label says that the user names.
#[tokio::test]
async fn another_label_says_the_zone_of_a_node() {
    let stub = stub();
    let labels = json!({"example.org/rack": "r1", "topology.kubernetes.io/zone": "z"});
    stub.change("/api/v1/nodes/n1", |node| node["metadata"]["labels"] = labels);
    let zone = async || look(&stub).await.nodes.unwrap()["n1"].zone.clone();
    assert_eq!(zone().await.as_deref(), Some("z"));
    stub.change(GROUP, |group| group["spec"]["zones"] = json!({"nodeLabel": "example.org/rack"}));
    assert_eq!(zone().await.as_deref(), Some("r1"));
}

// E14: a pod that waits for a node in a zone which nobody names any more was made for what the user wanted then. One that runs there stays.
#[tokio::test]
async fn a_pod_that_waits_for_a_former_zone_gets_a_new_one() {
    let stub = stub();
    apply_service(&stub, &look(&stub).await);
    let older = async |zones: Value, is_placed: bool| {
        stub.change(GROUP, |group| group["spec"]["zones"] = json!({"list": zones}));
        stub.change(&pod(1), |pod| {
            pod["metadata"]["labels"]["tanist.dev/zone"] = "c".into();
            pod["spec"]["nodeName"] = if is_placed { "n1".into() } else { Value::Null };
        });
        let s = look(&stub).await;
        let pods = s.members.iter().map(|m| m.pod.as_ref().unwrap());
        pods.map(|pod| pod.older_template && pod.outdated).collect::<Vec<_>>()
    };
    assert_eq!(older(json!([]), false).await, [false, true]);
    assert_eq!(older(json!([]), true).await, [false, false]);
    assert_eq!(older(json!([{"name": "c"}]), false).await, [false, false]);
}

#[tokio::test]
async fn pods_and_claims_without_their_labels_are_not_missing() {
    let stub = stub();
    apply_service(&stub, &look(&stub).await);
    for path in [pod(1), "/api/v1/namespaces/ns/persistentvolumeclaims/data-db-1".to_owned()] {
        stub.change(&path, |object| object["metadata"]["labels"] = json!({}));
    }
    let s = look(&stub).await;
    assert_eq!(lacking(&s), [""; 0]);
    let member = &s.members[1];
    assert_eq!(member.claims.len(), 1);
    assert!(member.pod.as_ref().unwrap().stray.as_ref().is_some_and(|why| why.contains("lost its label")));
}

// A StatefulSet of that name would make pods of the same names. A group that has members goes on beside one.
#[tokio::test]
async fn a_new_group_is_not_made_beside_a_stateful_set_of_that_name() {
    let stub = stub();
    stub.set_object(SET, json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"uid": "set"}}));
    assert!(try_look(&stub, &stub.context()).await.is_ok());
    for ordinal in 0..2 {
        stub.remove(&pod(ordinal));
        stub.remove(&format!("/api/v1/namespaces/ns/persistentvolumeclaims/data-db-{ordinal}"));
    }
    assert!(matches!(try_look(&stub, &stub.context()).await, Err(Error::NotOurs("StatefulSet", _))));
}

// A group that was deleted and created anew: what runs in the pods of the one before is waited for, whatever its number.
#[tokio::test]
async fn pods_of_a_group_of_before_have_seats() {
    let stub = stub();
    let mut former = stub.get(&pod(1)).unwrap();
    former["metadata"]["ownerReferences"][0]["uid"] = "former".into();
    former["metadata"]["uid"] = "pod-5".into();
    stub.set_object(&pod(5), former);
    let s = look(&stub).await;
    let seats = s.record.seats.as_ref().unwrap();
    assert_eq!((seats.numbers.contains(&5), seats.next), (true, 6));
    assert!(s.members.iter().any(|m| m.ordinal == 5 && m.pod.is_none()), "{:?}", s.members);
    // S22, S23: clients may be led to them for a while.
    let mut nobodys = stub.get(&pod(5)).unwrap();
    nobodys["metadata"]["ownerReferences"] = json!([]);
    nobodys["metadata"]["uid"] = "pod-6".into();
    stub.set_object(&pod(6), nobodys);
    let ready = |is: &str| {
        for number in [1, 5, 6] {
            let conditions = json!([{"type": "Ready", "status": is}]);
            stub.change(&pod(number), |object| object["status"]["conditions"] = conditions);
        }
    };
    ready("True");
    for number in [1, 5, 6] {
        stub.change(&pod(number), |object| object["metadata"]["labels"]["tanist.dev/role"] = "secondary".into());
    }
    assert!(look(&stub).await.strangers.is_empty(), "no clients are led to them as to a primary");
    for number in [1, 5, 6] {
        stub.change(&pod(number), |object| object["metadata"]["labels"]["tanist.dev/role"] = "primary".into());
    }
    assert_eq!(look(&stub).await.strangers, ["db-5".to_owned()].into(), "db-1 is its own, and it adopts db-6");
    ready("False");
    assert!(look(&stub).await.strangers.is_empty(), "nobody reaches it");
}

// While the API server refuses the present template, a pod that is lost is made from the one that was noted, as by a StatefulSet.
#[tokio::test]
async fn a_lost_pod_is_made_from_the_noted_template() {
    let stub = stub();
    let first = look(&stub).await;
    apply_service(&stub, &first);
    let group: ReplicaGroup = serde_json::from_value(stub.get(GROUP).unwrap()).unwrap();
    let hash = crate::objects::template_hash(&group);
    let kept =
        format!("/apis/apps/v1/namespaces/ns/controllerrevisions/{}", crate::objects::revision_name("db", &hash));
    let owner = json!([{"apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "name": "db", "uid": "group", "controller": true}]);
    stub.set_object(
        &kept,
        json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"ownerReferences": owner},
        "data": {"spec": {"template": group.spec.template}}, "revision": 1}),
    );
    stub.change(GROUP, |group| group["spec"]["template"]["spec"]["containers"][0]["image"] = "db:2".into());
    stub.remove(&pod(1));
    let image = |s: &Snapshot| {
        let made = s.set.as_ref().unwrap().lacking.values().flatten().next();
        made.map(|pod| pod.manifest["spec"]["containers"][0]["image"].clone())
    };
    assert_eq!(image(&look(&stub).await), Some(json!("db:1")));
    stub.remove(&kept);
    assert_eq!(image(&look(&stub).await), None, "nobody knows it any more");
}

// Why a pod is not there is said, and a roll-back can rest on it.
#[tokio::test]
async fn a_pod_that_kubernetes_refuses_is_missing_for_that_reason() {
    let stub = stub();
    apply_service(&stub, &look(&stub).await);
    stub.remove(&pod(1));
    stub.answer(Method::POST, "pods", Answer::Fail(403, "Forbidden"));
    let ctx = stub.context();
    stub.round(&ctx).await;
    let s = try_look(&stub, &ctx).await.unwrap().snapshot;
    let missing = s.set.as_ref().unwrap().missing.get("db-1").cloned().unwrap();
    let why = missing.refused.unwrap_or_default();
    assert!(why.contains("create Pod db-1"), "{why}");
}

// The record has the number before the pod is made, and a name that is taken is no trouble: somebody else was faster.
#[tokio::test]
async fn the_record_is_written_before_claim_and_pod_are_made() {
    let stub = stub();
    apply_service(&stub, &look(&stub).await);
    stub.change(GROUP, |group| group["spec"]["replicas"] = 3.into());
    let ctx = stub.context();
    let done = stub.round(&ctx).await;
    let at = |what: &str| done.iter().position(|line| line.starts_with(what)).unwrap_or(usize::MAX);
    let (record, claim, made) = (at("PUT status"), at("POST persistentvolumeclaims data-db-2"), at("POST pods db-2"));
    assert!(record < claim && claim < made && made < usize::MAX, "{done:?}");
    assert_eq!(stub.get(GROUP).unwrap()["status"]["record"]["seats"]["next"], 3);
    assert!(stub.get(&pod(2)).is_some());

    stub.remove(&pod(2));
    stub.answer(Method::POST, "pods", Answer::Fail(409, "AlreadyExists"));
    let done = stub.round(&ctx).await;
    assert!(done.iter().all(|line| !line.contains("AlreadyExists")), "{done:?}");
    // Without its number in the record nobody is made.
    stub.change(GROUP, |group| group["spec"]["replicas"] = 4.into());
    stub.answer(Method::PUT, "status", Answer::Fail(409, "Conflict"));
    let done = stub.round(&ctx).await;
    assert!(done.iter().all(|line| !line.starts_with("POST pods db-3")), "{done:?}");
    assert!(stub.get(&pod(3)).is_none());
}

// A template that the API server finds invalid reaches no pod: the Service stays as it is, and nothing is deleted for an update.
#[tokio::test]
async fn a_template_is_tried_before_pods_are_replaced() {
    let stub = stub();
    apply_service(&stub, &look(&stub).await);
    stub.change(GROUP, |group| group["spec"]["template"]["spec"]["containers"][0]["image"] = "db:2".into());
    let before = stub.version(SERVICE);
    stub.answer(Method::POST, "pods", Answer::Fail(422, "Invalid"));
    let ctx = stub.context();
    let done = stub.round(&ctx).await;
    assert!(done.contains(&"POST pods db-2 dry".to_owned()), "{done:?}");
    assert_eq!(stub.version(SERVICE), before);
    let said = stub.round(&ctx).await;
    assert!(said.iter().any(|line| line.contains("spec.template")), "{said:?}");
    assert!(said.iter().all(|line| !line.starts_with("DELETE")), "{said:?}");
}

// E35: while the former template cannot be read nobody knows of which one the pods are, also where the operator makes them: no pod is replaced, and no member leaves for a new one.
#[tokio::test]
async fn without_the_former_template_pods_are_of_none() {
    let stub = stub();
    let first = look(&stub).await;
    let good = first.group.update.template.clone();
    apply_service(&stub, &first);
    assert!(!look(&stub).await.set.unwrap().unseen);
    stub.change(GROUP, |group| group["spec"]["template"]["spec"]["containers"][0]["image"] = "db:2".into());
    let changed = look(&stub).await;
    apply_service(&stub, &changed);
    let failed = json!({"template": changed.group.update.template, "at": 1, "why": "db-1 is not Ready"});
    stub.change(GROUP, |group| {
        group["spec"]["update"] = json!({"onFailure": "RollBack"});
        group["status"]["record"]["fallback"] = json!({"good": good, "failed": failed});
    });
    let name = crate::objects::revision_name("db", &good);
    let kept = format!("/apis/apps/v1/namespaces/ns/controllerrevisions/{name}");
    stub.answer(Method::GET, &kept, Answer::Fail(403, "Forbidden"));
    let seen = look(&stub).await;
    assert_eq!((seen.group.update.former, seen.objects.len()), (Former::Unknown, 0));
    assert!(seen.set.unwrap().unseen);
}

// D20: a claim that a removed member left behind, before and while Kubernetes deletes it.
#[tokio::test]
async fn a_claim_that_is_being_deleted_is_seen_as_such() {
    let stub = Stub::new();
    let path = "/api/v1/namespaces/ns/persistentvolumeclaims/data-db-7";
    let notes = json!({CLAIM_GROUP: "db", CLAIM_TERM: "0"});
    let metadata =
        json!({"namespace": "ns", "uid": "claim-7", "labels": {"tanist.dev/group": "db"}, "annotations": notes});
    stub.set_object(path, json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}));
    stub.change(GROUP, |group| group["status"]["record"]["retired"] = json!(["db-7"]));
    let left = async || {
        let seen = look(&stub).await.left_claims;
        seen.into_iter().map(|left| (left.claim.name, left.is_being_deleted)).collect::<Vec<_>>()
    };
    assert_eq!(left().await, [("data-db-7".to_owned(), false)]);
    stub.change(path, |claim| claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into());
    assert_eq!(left().await, [("data-db-7".to_owned(), true)]);
}
