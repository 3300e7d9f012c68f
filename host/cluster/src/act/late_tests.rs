//! Writes that come late: the process stood still after its decision, and meanwhile another one wrote. What is done in the background and what a second look allows
//! names the object as it was seen, and changes no other one (docs/safety.md, S5).
use super::writes::delete_claim;
use super::*;
use std::collections::BTreeSet;
use tanist_core::checked::recheck_discard;
use tanist_core::membership::{Entry, Heard, List, Vote};
use tanist_core::snapshot::{Claim, LeftClaim, MemberCommands};

const CLAIM: &str = "/api/v1/namespaces/ns/persistentvolumeclaims/data-db-1";

/// One kind of write, decided on what was observed.
struct Late {
    /// The path of what is written.
    path: String,
    action: Action,
}

/// The group with a claim of db-1, and what changes it by a write in the background.
fn background(s: &Snapshot, stub: &Stub) -> Vec<Late> {
    let claim = s.members[1].claims[0].clone();
    let (uid, version) = (claim.uid.clone(), claim.version.clone());
    let mark = ClaimMark {
        group: "db".into(),
        term: 6,
        sequence: None,
        primaries: Vec::new(),
        ran: Vec::new(),
        membership: None,
        version: None,
    };
    let change = json!({"metadata": {"labels": {"owned": "by the group"}}});
    let (set, object) = (s.set.as_ref().unwrap(), desired_object("new", Some(stub.version(SERVICE))));
    let grow = Action::GrowClaim {
        member: "db-1".into(),
        claim: claim.name.clone(),
        uid: uid.clone(),
        version: version.clone(),
        size: "9Gi".into(),
    };
    let seen = s.members[1].pod.as_ref().unwrap();
    let adopt = Action::Adopt {
        member: "db-1".into(),
        pod_uid: seen.uid.clone(),
        version: seen.version.clone(),
        change: change.into(),
    };
    vec![
        Late { path: CLAIM.into(), action: grow },
        Late { path: CLAIM.into(), action: Action::MarkClaim { claim: claim.name, uid, version, mark } },
        Late { path: pod(1), action: adopt },
        Late { path: SET.into(), action: Action::DropSet { uid: set.uid.clone(), version: set.version.clone() } },
        Late { path: SERVICE.into(), action: Action::Apply(object) },
    ]
}

const SERVICE: &str = "/api/v1/namespaces/ns/services/db-rw";

/// A group whose second member has a claim, beside a Service.
fn with_claim() -> Stub {
    let stub = Stub::new();
    let metadata = json!({"namespace": "ns", "uid": "claim", "labels": {"tanist.dev/group": "db"}});
    stub.set_object(CLAIM, json!({"metadata": metadata, "status": {"phase": "Bound"}}));
    let labels = json!({"tanist.dev/group": "db"});
    stub.set_object(
        SERVICE,
        json!({"kind": "Service", "metadata": {"namespace": "ns", "uid": "service", "labels": labels}}),
    );
    stub
}

/// Waits until nothing is written in the background any more.
async fn written(ctx: &Context) {
    for _ in 0..500 {
        if ctx.hints.with_group("group", |hints| hints.writing.is_empty()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("a write does not end");
}

/// What is there after the `at`th write of the list, which comes after `meanwhile`, and what was there just before.
async fn after(at: usize, meanwhile: impl FnOnce(&Stub, &str)) -> (Action, Option<Value>, Option<Value>) {
    let stub = with_claim();
    let ctx = stub.context();
    let observed = stub.observe(&ctx, &[Primary, Stopped]).await;
    let late = background(&observed.snapshot, &stub).remove(at);
    meanwhile(&stub, &late.path);
    let before = stub.get(&late.path);
    let mut plan = Plan::new(observed.snapshot.record.clone());
    plan.actions.push(late.action.clone());
    carry_out(&ctx, &observed, &plan, &[Primary, Stopped]).await;
    written(&ctx).await;
    (late.action, before, stub.get(&late.path))
}

// S5, D23: a growth, a memory, another owner, the end of a set and an apply: what somebody changed after the decision, or made anew under the same name, stays as it is.
#[tokio::test]
async fn what_changed_since_is_not_written() {
    let stub = with_claim();
    let all = background(&stub.observe(&stub.context(), &[Primary, Stopped]).await.snapshot, &stub).len();
    for at in 0..all {
        let (action, before, now) = after(at, |_, _| {}).await;
        assert_ne!(before, now, "in time it is done: {action:?}");
        let (action, before, now) = after(at, |stub, path| stub.change(path, |_| {})).await;
        assert_eq!(before, now, "another version: {action:?}");
        let anew = |stub: &Stub, path: &str| stub.change(path, |object| object["metadata"]["uid"] = "another".into());
        let (action, before, now) = after(at, anew).await;
        assert_eq!(before, now, "another object: {action:?}");
    }
}

// S5: another object under the same name and version, which no API server has, is not written either: the UID counts by itself.
#[tokio::test]
async fn what_has_another_uid_is_not_written() {
    for at in 0..4 {
        let anew = |stub: &Stub, path: &str| stub.replace(path, "another");
        let (action, before, now) = after(at, anew).await;
        assert_eq!(before, now, "{action:?}");
    }
}

// S5, D23: what another process created meanwhile under that name is not created again, and not changed.
#[tokio::test]
async fn what_is_there_already_is_not_created() {
    for is_late in [false, true] {
        let stub = with_claim();
        let ctx = stub.context();
        let observed = stub.observe(&ctx, &[Primary, Stopped]).await;
        let path = pod(2);
        let manifest = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-2", "namespace": "ns"}});
        let (kind, name) = ("Pod".into(), "db-2".into());
        let object = Object { kind, name, manifest: manifest.into(), current: false, version: None, trial: None };
        if is_late {
            stub.set_object(&path, json!({"metadata": {"uid": "of another process"}}));
        }
        let mut plan = Plan::new(observed.snapshot.record.clone());
        plan.actions.push(Action::Create { member: "db-2".into(), objects: vec![object] });
        carry_out(&ctx, &observed, &plan, &[Primary, Stopped]).await;
        written(&ctx).await;
        let uid = stub.get(&path).unwrap()["metadata"]["uid"].clone();
        assert_eq!(uid, if is_late { "of another process" } else { "uid-of-db-2" });
    }
}

// S2, S5: a note of a start that comes late overwrites no newer one; the start itself goes on, for its token decides.
#[tokio::test]
async fn a_late_note_of_a_start_is_refused() {
    let stub = with_claim();
    stub.change(GROUP, |group| group["spec"]["primaries"] = 2.into());
    let ctx = stub.context();
    let observed = stub.observe(&ctx, &[Primary, Stopped]).await;
    let mut plan = runs(&observed.snapshot, Verb::Join, "primary", "pod-1");
    let before = tanist_core::contract::Position::Empty;
    plan.record.member_mut(&"db-1".into()).started =
        Some(Started { term: 1, target: false, before, followed: false, peer_stopped: false });
    stub.change(CLAIM, |claim| claim["metadata"]["annotations"] = json!({"tanist.dev/start": "newer"}));
    let newer = stub.get(CLAIM);
    let outcome = carry_out(&ctx, &observed, &plan, &[Primary, Stopped]).await;
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    let seen = until_settled(&ctx, &stub).await;
    assert!(seen.iter().any(|s| s.method == Method::PATCH && s.path == CLAIM), "nobody tried to note it");
    assert!(seen.iter().any(|s| executes(s, "exec")), "the start did not go on");
    assert_eq!(stub.get(CLAIM), newer);
}

/// A claim that a removed member left behind, and that may be deleted: both members say that it is none of theirs.
fn left(s: &Snapshot, version: String) -> Discard {
    let mut s = s.clone();
    let command = s.group.commands.status.clone();
    s.group.deletes_volumes = true;
    s.group.commands.membership = Some(MemberCommands {
        list: command.clone(),
        add: command.clone(),
        remove: command,
        promote: None,
        recover: None,
        wipe: None,
    });
    s.record.retired = BTreeSet::from(["db-2".into()]);
    let name = "data-db-2".into();
    let claim = Claim { name, uid: "left".into(), version, mark: None, start: None, room: None };
    s.left_claims = vec![LeftClaim { member: "db-2".into(), claim, is_being_deleted: false }];
    let entry = |ordinal: u32| Entry {
        name: Some(format!("db-{ordinal}").as_str().into()),
        id: ordinal.to_string(),
        vote: Vote::Voter,
        healthy: true,
        address: format!("db-{ordinal}.db.ns.svc"),
    };
    let list = List { cluster: "c".into(), entries: vec![entry(0), entry(1)] };
    for (member, role) in s.members.iter_mut().zip([Primary, Secondary]) {
        member.reading.role = role;
        s.lists.insert(member.name.clone(), Heard { list: Ok(list.clone()), at: s.now });
    }
    recheck_discard(&s, &s, "left").unwrap()
}

// D20, S5: the deletion of a claim names UID and version of the second look.
#[tokio::test]
async fn a_late_deletion_spares_a_claim_that_changed() {
    let path = "/api/v1/namespaces/ns/persistentvolumeclaims/data-db-2";
    let stub = Stub::new();
    stub.set_object(path, json!({"metadata": {"namespace": "ns", "uid": "left"}}));
    let ctx = stub.context();
    let s = stub.observe(&ctx, &[Primary, Secondary]).await.snapshot;
    let version = stub.version(path);
    // Somebody uses it again.
    stub.change(path, |claim| claim["metadata"]["annotations"] = json!({"used": "again"}));
    let late = delete_claim(&ctx, "ns", left(&s, version.clone())).await;
    assert!(matches!(late, Err(Error::Overtaken(_))), "{late:?}");
    assert_eq!(stub.written()[0].2["preconditions"], json!({"uid": "left", "resourceVersion": version}));
    assert!(stub.get(path).is_some());
    delete_claim(&ctx, "ns", left(&s, stub.version(path))).await.unwrap();
    assert!(stub.get(path).is_none());
}

/// An active/passive group whose first member is named, and has the other label.
fn with_turn() -> Stub {
    let stub = at_rest();
    stub.change(GROUP, |group| {
        let status = group["spec"]["commands"]["status"].clone();
        group["spec"]["commands"] = json!({"status": status});
        group["status"]["record"] =
            json!({"active": {"member": "db-0", "podUid": "pod-0"}, "term": 1, "lastReplicas": 2});
    });
    stub.change(&pod(0), |pod| pod["metadata"]["labels"]["tanist.dev/role"] = "secondary".into());
    stub
}

// E24: the label of the active member is given after a second look, with the version of that, if the record is the same afterwards: a pod that got the label meanwhile keeps it alone.
#[tokio::test]
async fn the_active_member_gets_its_label_after_a_second_look() {
    for (is_late, moves) in [(false, false), (true, false), (false, true)] {
        let stub = with_turn();
        let ctx = stub.context();
        // The status says all that is so: then nothing is written that a change of the group would keep from being written.
        let mut before = stub.observe(&ctx, &[Secondary, Secondary]).await;
        before.snapshot.objects.clear();
        let plan = decide(&before.snapshot, &Silent);
        let said = report::derive(&before.snapshot, &plan, LOADED, &[]);
        report::write(&ctx, &before.object, &plan, &said).await.unwrap();
        stub.seen();
        let mut observed = stub.observe(&ctx, &[Secondary, Secondary]).await;
        observed.snapshot.objects.clear();
        let plan = decide(&observed.snapshot, &Silent);
        let gives =
            |a: &Action| matches!(a, Action::Route { member, role: Some("primary"), .. } if *member == "db-0".into());
        assert!(plan.actions.iter().any(gives), "{:?} {:?}", plan.actions, plan.waits);
        // Somebody else wrote the pod meanwhile; or the other pod has the label by now.
        stub.change(&pod(0), |_| {});
        if is_late {
            stub.change(&pod(1), |pod| pod["metadata"]["labels"]["tanist.dev/role"] = "primary".into());
        }
        // Another process writes the record after the second look has read it, and before that has read the pods.
        if moves {
            let before = stub.get(GROUP).unwrap();
            stub.change(GROUP, |_| {});
            stub.answer(Method::GET, GROUP, Answer::Before(before));
        }
        let outcome = carry_out(&ctx, &observed, &plan, &[Secondary, Secondary]).await;
        let is_outdated = matches!(&outcome.errors[..], [Error::Outdated]);
        assert_eq!(is_outdated, is_late || moves, "{:?}", outcome.errors);
        let label = stub.get(&pod(0)).unwrap()["metadata"]["labels"]["tanist.dev/role"].clone();
        assert_eq!(label, if is_late || moves { "secondary" } else { "primary" });
        let written = stub.written();
        assert_eq!(written.iter().any(|(_, path, _)| path == "pods/db-0"), !is_late && !moves, "{written:?}");
    }
}
