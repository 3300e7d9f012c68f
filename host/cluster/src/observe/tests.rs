//! Objects that the lists by label do not show, and settles that get no answer.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
use crate::context::Context;
use crate::member::{Looks, Target};
use crate::observe::{Error, observe};
use crate::slots::Slot;
use crate::stub::{Answer, GROUP, SET, Stub, member, pod};
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_core::contract::{MemberName, Phase, Position, Role};
use tanist_core::freshness::Ask;
use tanist_core::record::{Intent, Verb};
use tanist_core::snapshot::{Evidence, Snapshot};

/// The snapshot, and the pods that were read by name for it.
async fn look(stub: &Stub) -> (Result<Snapshot, Error>, Vec<String>) {
    let ctx = stub.context();
    let seen: ReplicaGroup = serde_json::from_value(stub.get(GROUP).unwrap()).unwrap();
    let observed = observe(&ctx, &seen, Ask::Recent, None).await.map(|o| o.snapshot);
    let by_name = stub.seen().into_iter().filter(|s| s.path.contains("/pods/") && !s.path.ends_with("/exec"));
    (observed, by_name.map(|s| s.path).collect())
}

fn unlabel(pod: &mut Value) {
    pod["metadata"]["labels"] = json!({});
}

fn orphan(pod: &mut Value) {
    pod["metadata"]["ownerReferences"] = json!([]);
}

// A pod without its label still exists; the normal path reads nothing by name.
#[tokio::test]
async fn a_pod_that_lost_its_label_is_still_there() {
    let stub = Stub::new();
    let (seen, by_name) = look(&stub).await;
    assert!(by_name.is_empty() && seen.unwrap().members.iter().all(|m| m.pod.as_ref().unwrap().stray.is_none()));
    type Change = fn(&mut Value);
    let both: Change = |pod| {
        unlabel(pod);
        orphan(pod);
    };
    for (change, reads, word) in
        [(unlabel as Change, 1, "label pod db-0"), (orphan, 0, "no owner"), (both, 1, "label pod db-0")]
    {
        let stub = Stub::new();
        stub.change(&pod(0), change);
        let (seen, by_name) = look(&stub).await;
        let s = seen.unwrap();
        assert_eq!(by_name.len(), reads, "{by_name:?}");
        let there = s.members[0].pod.as_ref().unwrap();
        assert!(there.uid == "pod-0" && there.stray.as_ref().unwrap().contains(word), "{:?}", there.stray);
        assert!(s.may_be_primary().contains_key(&MemberName::from("db-0")));
    }
}

// The StatefulSet is gone, and its pods still run.
#[tokio::test]
async fn pods_outlive_their_set() {
    let stub = Stub::new();
    stub.remove(SET);
    stub.change(&pod(0), orphan);
    let s = look(&stub).await.0.unwrap();
    assert_eq!(s.members[0].pod.as_ref().map(|p| p.uid.as_str()), Some("pod-0"));
}

// A pod is gone when a GET by name finds nothing, or another UID. A pod that cannot be read is not gone.
#[tokio::test]
async fn only_a_read_by_name_says_that_a_pod_is_gone() {
    let stub = Stub::new();
    stub.remove(&pod(0));
    let (seen, by_name) = look(&stub).await;
    assert_eq!((seen.unwrap().members[0].pod.clone(), by_name), (None, vec![pod(0)]));
    let mut stranger = member(0);
    stranger["metadata"]["uid"] = "another".into();
    unlabel(&mut stranger);
    orphan(&mut stranger);
    stub.set_object(&pod(0), stranger);
    assert_eq!(look(&stub).await.0.unwrap().members[0].pod, None, "a pod of that name with another owner");
    for code in [403, 500, 503] {
        let stub = Stub::new();
        stub.change(&pod(0), unlabel);
        stub.answer(Method::GET, "/pods/db-0", Answer::Fail(code, "No"));
        assert!(matches!(look(&stub).await.0, Err(Error::Read("pods", _))), "{code}");
    }
}

// A member that was never primary is known by its row in the status.
#[tokio::test]
async fn a_secondary_that_lost_label_and_owner_is_known_by_its_uid() {
    let stub = Stub::new();
    let change = |pod: &mut Value| {
        unlabel(pod);
        orphan(pod);
    };
    stub.change(&pod(1), change);
    assert_eq!(look(&stub).await.0.unwrap().members[1].pod, None, "its UID is not known");
    let row = json!([{"name": "db-1", "ordinal": 1, "phase": "running", "role": "secondary", "podUID": "pod-1", "ready": true, "routed": true}]);
    stub.change(GROUP, |group| group["status"]["members"] = row);
    assert!(look(&stub).await.0.unwrap().members[1].pod.is_some());
}

// S20: the node controller says of each pod on a lost node that it is not ready, before the pod has another phase.
#[tokio::test]
async fn a_pod_whose_node_is_lost_is_not_reached() {
    for (status, reason, phase) in [
        ("True", None, Phase::Running),
        ("False", Some("ContainersNotReady"), Phase::Running),
        ("False", Some("NodeNotReady"), Phase::Unreachable),
        ("Unknown", None, Phase::Unreachable),
    ] {
        let stub = Stub::new();
        let condition = json!({"type": "Ready", "status": status, "reason": reason});
        stub.change(&pod(0), |pod| pod["status"]["conditions"] = json!([condition]));
        let s = look(&stub).await.0.unwrap();
        assert_eq!(s.members[0].pod.as_ref().unwrap().phase, phase, "{condition}");
    }
}

// S20: nobody on a node that does not report is asked how a command ended, for each round would wait for the deadline of that request.
#[tokio::test]
async fn nobody_on_a_silent_node_is_asked_how_a_command_ended() {
    for (ready, asked) in [("True", true), ("Unknown", false)] {
        let stub = Stub::new();
        stub.change(GROUP, |group| group["status"]["record"]["intents"] = serde_json::to_value([intent()]).unwrap());
        stub.change("/api/v1/nodes/n0", |node| node["status"]["conditions"][0]["status"] = ready.into());
        let ctx = stub.context();
        let seen: ReplicaGroup = serde_json::from_value(stub.get(GROUP).unwrap()).unwrap();
        let s = observe(&ctx, &seen, Ask::Recent, None).await.unwrap().snapshot;
        let executed = stub.seen().iter().any(|s| s.path == format!("{}/exec", pod(0)));
        assert_eq!((executed, s.evidence.contains_key("t")), (asked, asked), "the node is ready: {ready}");
    }
}

// S7: the group is deleted and created again while its last round reads. That round ends; what it would apply belongs to the new group. What an earlier group left
// behind does not end the rounds of the present one.
#[tokio::test]
async fn a_round_ends_when_the_objects_belong_to_the_next_group_of_that_name() {
    let service = "/api/v1/namespaces/ns/services/db-rw";
    for (path, uid, created_again) in [(service, "earlier", false), (service, "next", true), (SET, "next", true)] {
        let stub = Stub::new();
        let before = stub.get(GROUP).unwrap();
        let owner = json!([{"apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "name": "db", "uid": uid, "controller": true}]);
        stub.set_object(service, json!({"apiVersion": "v1", "kind": "Service", "metadata": {"uid": "s"}, "spec": {}}));
        stub.change(path, |object| object["metadata"]["ownerReferences"] = owner);
        if created_again {
            stub.change(GROUP, |group| group["metadata"]["uid"] = uid.into());
            stub.answer(Method::GET, "replicagroups/db", Answer::Before(before.clone()));
        }
        let seen: ReplicaGroup = serde_json::from_value(before).unwrap();
        let observed = observe(&stub.context(), &seen, Ask::Recent, None).await;
        assert_eq!(matches!(observed, Err(Error::Gone)), created_again, "{path} of {uid}: {:?}", observed.err());
    }
}

// S28, S32: a start that only its claim knows is opened again. Its time is from a process whose clock was ahead, and is not later than now.
#[tokio::test]
async fn a_start_that_only_its_claim_knows_is_opened_again() {
    let stub = Stub::new();
    let start = Intent { started: i64::MAX / 2, ..intent() };
    let target = json!({"member": "db-0", "podUid": "pod-0", "container": "db", "containerId": "c0", "grace": 30});
    let started = json!({"term": 1, "target": false, "before": Position::Empty});
    let note = json!({"group": "db", "counter": 1, "intent": start, "target": target, "started": started});
    let notes = json!({"tanist.dev/start": note.to_string()});
    let metadata = json!({"uid": "claim", "labels": {"tanist.dev/group": "db"}, "annotations": notes});
    stub.set_object("/api/v1/namespaces/ns/persistentvolumeclaims/data-db-0", json!({"metadata": metadata}));
    stub.change(GROUP, |group| group["status"] = json!({}));
    let s = look(&stub).await.0.unwrap();
    let open: Vec<_> = s.record.intents.iter().map(|i| (i.token.as_str(), i.started <= s.now)).collect();
    assert_eq!(open, [("t", true)]);
}

// A Service that lost its label is changed, not created: its version is known.
#[tokio::test]
async fn an_object_that_lost_its_label_is_found_by_name() {
    let stub = Stub::new();
    let service = "/api/v1/namespaces/ns/services/db-rw";
    let owner = json!([{"apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "name": "db", "uid": "group", "controller": true}]);
    let metadata = json!({"uid": "s", "ownerReferences": owner});
    stub.set_object(service, json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {}}));
    let s = look(&stub).await.0.unwrap();
    let found = s.objects.iter().find(|o| o.name == "db-rw").unwrap();
    assert_eq!((found.version.clone(), found.current), (Some(stub.version(service)), false));
}

// After any answer to a settle that is not the runner's, the outcome stays unknown, and the settle is repeated.
#[tokio::test]
async fn a_settle_that_could_not_ask_leaves_the_outcome_unknown() {
    let stub = Stub::new();
    let ctx = stub.context();
    let (namespace, group, env) = ("ns".into(), "group".into(), Vec::new());
    let target = Target { namespace, group, pod: "db-0".into(), uid: "pod-0".into(), runner: true, probed: false, env };
    let bare = Target { runner: false, ..target.clone() };
    let intent = intent();
    for code in 100..600 {
        let reason = match code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            422 => "Invalid",
            _ => "Other",
        };
        for answer in [Answer::Fail(code, reason), Answer::Plain(code)] {
            let plain = matches!(answer, Answer::Plain(_));
            stub.refuse(answer);
            let settled = target.settle(&ctx, "db", "t").await;
            assert!(matches!(settled, Evidence::Unknown(_)), "settle {code}: {settled:?}");
            let (started, _) =
                target.run(slot(&ctx).await, &ctx, &intent, &Looks::default(), &["primary".into()]).await;
            assert!(matches!(started, Evidence::Unknown(_)), "start {code}: {started:?}");
            // Without a runner there is nothing to ask afterwards: only a refusal by the API server itself proves that nothing started.
            let (started, _) = bare.run(slot(&ctx).await, &ctx, &intent, &Looks::default(), &["primary".into()]).await;
            let proven = !plain && reason != "Other";
            assert_eq!(matches!(started, Evidence::NotStarted(_)), proven, "bare start {code}: {started:?}");
        }
    }
}

// An unknown outcome is not remembered as final, and the next round asks again.
#[tokio::test]
async fn an_unknown_end_is_asked_for_again() {
    let stub = Stub::new();
    stub.change(GROUP, |group| group["status"]["record"]["intents"] = serde_json::to_value([intent()]).unwrap());
    let ctx = stub.context();
    for _ in 0..2 {
        let s = stub.observe(&ctx, &[Role::Unknown, Role::Unknown]).await.snapshot;
        assert!(matches!(s.evidence.get("t"), Some(Evidence::Unknown(_))), "{:?}", s.evidence);
        assert_eq!(ctx.hints.with_group("group", |h| h.commands.known("t")), None);
    }
}

// S28: another process began a command by a clock that was far behind.
#[tokio::test]
async fn a_command_of_another_process_has_its_own_time() {
    let stub = Stub::new();
    stub.change(GROUP, |group| group["status"]["record"]["intents"] = serde_json::to_value([intent()]).unwrap());
    let s = stub.observe(&stub.context(), &[Role::Unknown, Role::Unknown]).await.snapshot;
    let open = &s.record.intents[0];
    let last_resort = open.started + i64::from(open.timeout) + i64::from(s.group.unknown_grace);
    assert!((s.now + 58..=s.now + 60).contains(&last_resort), "{} s from now", last_resort - s.now);
}

async fn slot(ctx: &Context) -> Slot {
    ctx.commands.take("group", Duration::ZERO).await.unwrap()
}

fn intent() -> Intent {
    Intent {
        token: "t".into(),
        verb: Verb::Join,
        command: "primary".into(),
        member: "db-0".into(),
        target: None,
        pod_uid: "pod-0".into(),
        container: "db".into(),
        container_id: "c0".into(),
        generation: 1,
        started: 0,
        timeout: 60,
        term: 1,
        again: false,
        exited: None,
        version: None,
        had_role: false,
    }
}

// S5: a process that stood still sees that another one wrote the record. What its members said before is of another time: it asks them again.
#[tokio::test]
async fn what_members_said_before_another_process_wrote_the_record_is_asked_again() {
    let stub = Stub::new();
    let ctx = stub.context();
    let seen: ReplicaGroup = serde_json::from_value(stub.get(GROUP).unwrap()).unwrap();
    let asked =
        || stub.seen().iter().filter(|s| s.path.ends_with("/exec") && s.query.contains("command=status")).count();
    stub.observe(&ctx, &[Role::Primary, Role::Secondary]).await;
    observe(&ctx, &seen, Ask::Recent, None).await.unwrap();
    assert_eq!(asked(), 0, "what was said is recent, and nobody else wrote");
    stub.change(GROUP, |group| group["metadata"]["annotations"] = json!({"note": "of a user"}));
    observe(&ctx, &seen, Ask::Recent, None).await.unwrap();
    assert_eq!(asked(), 0, "a user's change of the group is none of the record");
    stub.change(GROUP, |group| group["status"]["record"]["counter"] = 7.into());
    let observed = observe(&ctx, &seen, Ask::Recent, None).await.unwrap();
    assert_eq!(asked(), 2);
    assert!(observed.snapshot.members.iter().all(|m| m.reading.role == Role::Unknown), "and here they give no answer");
}

// S5: answers that were on their way while the record was read are as old.
#[tokio::test]
async fn answers_that_came_beside_another_processs_record_do_not_count() {
    let stub = Stub::new();
    let ctx = stub.context();
    let seen: ReplicaGroup = serde_json::from_value(stub.get(GROUP).unwrap()).unwrap();
    let before = stub.observe(&ctx, &[Role::Primary, Role::Secondary]).await.snapshot;
    let roles = |s: &Snapshot| s.members.iter().map(|m| m.reading.role).collect::<Vec<_>>();
    let again = observe(&ctx, &seen, Ask::Recent, Some(&before)).await.unwrap().snapshot;
    assert_eq!(roles(&again), [Role::Primary, Role::Secondary]);
    stub.change(GROUP, |group| group["status"]["record"]["counter"] = 7.into());
    let again = observe(&ctx, &seen, Ask::Recent, Some(&before)).await.unwrap().snapshot;
    assert_eq!(roles(&again), [Role::Unknown, Role::Unknown]);
}

// P53: the group goes on with the number of members that policies let in last, in everything that is made of it. A number that nobody could let in counts for nothing, and the group is written as it
// was read.
#[tokio::test]
async fn what_policies_let_in_counts() {
    let stub = Stub::new();
    let ctx = stub.context();
    let size = |replicas: u32, primaries: u32| json!({"replicas": replicas, "primaries": primaries});
    for (admitted, replicas, primaries) in [
        (json!(null), 4, 4),
        (size(2, 2), 2, 2),
        (size(3, 1), 3, 1),
        (size(3, 0), 3, 1),
        (size(4_000_000_000, 1), 4, 4),
    ] {
        stub.change(GROUP, |group| {
            (group["spec"]["replicas"], group["spec"]["primaries"]) = (4.into(), "All".into());
            group["status"]["record"]["admitted"] = admitted.clone();
        });
        let observed = stub.observe(&ctx, &[Role::Primary, Role::Secondary]).await;
        let s = &observed.snapshot;
        assert_eq!((s.group.replicas, s.group.primaries), (replicas, primaries), "{admitted}");
        assert_eq!((s.group.requested.replicas, s.group.requested.primaries), (4, 4));
        assert_eq!((s.members.len(), observed.object.spec.replicas), (usize::try_from(replicas).unwrap(), 4));
        let set = s.objects.iter().find(|object| object.kind == "StatefulSet").unwrap();
        assert_eq!(set.manifest["spec"]["replicas"], replicas);
    }
}
