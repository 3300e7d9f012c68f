//! Whole rounds against an API server that refuses one thing: a failover happens nevertheless.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
use super::*;
use crate::mock::{self, Asked, refusal};
use serde_json::{Value, json};
use std::sync::Mutex;
use tanist_core::contract::{Phase, Position, Role, Sequence};
use tanist_core::examples;
use tanist_core::freshness::{Ask, PositionHint, StatusAnswer};

const UID: &str = "00000000-0000-0000-0000-000000000001";

fn group() -> Value {
    let members = json!({
        "db-0": {"term": 1, "primaryTerm": 1, "failures": 0, "treated": 0},
        "db-1": {"term": 1, "failures": 0, "treated": 0},
    });
    json!({
        "apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup",
        "metadata": {"name": "db", "namespace": "shop", "uid": UID, "resourceVersion": "7", "generation": 1},
        "spec": {
            "replicas": 2, "primaries": 1,
            "template": {"spec": {"containers": [{"name": "db", "image": "example.org/db:1"}]}},
            "commands": {
                "status": {"exec": ["/db/status"]}, "sequence": {"exec": ["/db/sequence"]}, "stop": {"exec": ["/db/stop"]},
                "primary": {"exec": ["/db/start"]}, "secondary": {"exec": ["/db/follow"]}
            }
        },
        "status": {"record": {"term": 1, "everSeeded": {"member": "db-0", "confirmed": true}, "lastReplicas": 2, "members": members}}
    })
}

fn pod(ordinal: u32, routed: Option<&str>) -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set", "controller": true});
    let mut labels = json!({"tanist.dev/group": "db"});
    if let Some(role) = routed {
        labels["tanist.dev/role"] = role.into();
    }
    json!({
        "metadata": {
            "name": format!("db-{ordinal}"), "namespace": "shop", "uid": format!("pod-{ordinal}"), "ownerReferences": [owner],
            "labels": labels
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "db"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "tanist.dev/member", "status": "True"}],
            "containerStatuses": [{
                "name": "db", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "containerID": format!("c{ordinal}"),
                "state": {"running": {}}
            }]
        }
    })
}

fn list(items: &[Value]) -> (u16, Value) {
    (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items}))
}

/// An empty list, for kinds of which the group has no object.
const LISTS: [&str; 5] =
    ["/services", "/poddisruptionbudgets", "/persistentvolumeclaims", "/events", "/controllerrevisions"];

/// The answers of a server in which the primary is stopped and a secondary with the same data runs.
fn found(stored: &Mutex<Value>, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let set = json!({
        "metadata": {"name": "db", "namespace": "shop", "uid": "set", "ownerReferences": [{
            "apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "name": "db", "uid": UID, "controller": true
        }]},
        "spec": {"replicas": 2, "selector": {}, "serviceName": "db", "template": {}}
    });
    let node = json!({"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    match (method, path.split('?').next().unwrap()) {
        ("PUT", path) if path.ends_with("/replicagroups/db/status") => {
            let mut written = body.clone();
            written["metadata"]["resourceVersion"] = "8".into();
            *stored.lock().unwrap() = written.clone();
            (200, written)
        }
        ("GET", path) if path.ends_with("/replicagroups/db") => (200, stored.lock().unwrap().clone()),
        ("GET", path) if path.ends_with("/statefulsets/db") => (200, set),
        ("GET", path) if path.ends_with("/nodes/n1") => (200, node),
        ("GET", path) if path.ends_with("/pods") => list(&[pod(0, None), pod(1, Some("secondary"))]),
        ("GET", path) if path.ends_with("/exec") => refusal(500, "InternalError", "no exec here").unwrap(),
        ("GET", path) if LISTS.iter().any(|kind| path.ends_with(kind)) => list(&[]),
        ("GET", _) => refusal(404, "NotFound", "it is not there").unwrap(),
        ("PATCH", path) if path.contains("/pods/") => (200, pod(1, None)),
        _ => {
            let mut object = body.clone();
            object["metadata"]["uid"] = "x".into();
            (200, object)
        }
    }
}

/// One round of that group against a server that answers `otherwise` where it says something.
async fn play(otherwise: impl Fn(&str, &str) -> Option<mock::Said> + Send + 'static) -> (Arc<Context>, Asked, Value) {
    play_with(false, otherwise).await
}

/// The same. If `busy`, other commands of the group hold all of its slots.
async fn play_with(
    busy: bool,
    otherwise: impl Fn(&str, &str) -> Option<mock::Said> + Send + 'static,
) -> (Arc<Context>, Asked, Value) {
    let stored = Arc::new(Mutex::new(group()));
    let kept = stored.clone();
    let (client, asked) = mock::server(move |method, path, body| {
        otherwise(method, path).unwrap_or_else(|| Some(found(&kept, method, path, body)))
    });
    let (ctx, _outbox) = mock::context(client, &["--commands", "4"]);
    remember(&ctx);
    let _held = if busy { Some(ctx.rounds.commands.take(UID, Duration::ZERO).await.unwrap()) } else { None };
    let object: ReplicaGroup = serde_json::from_value(group()).unwrap();
    let _ = round(Arc::new(object), ctx.clone()).await;
    // Lets the background writes run.
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let stored = stored.lock().unwrap().clone();
    (ctx, asked, stored)
}

/// Remembers fresh answers of both members, so that no member has to be asked.
fn remember(ctx: &Context) {
    // The same question as before, so that known positions stay valid; and they were asked for after data could have moved last. Answers from the future stay
    // fresh for as long as the test takes.
    let (now, later) = (ctx.rounds.clock.moment(), ctx.rounds.clock.moment() + Duration::from_secs(60));
    ctx.rounds.hints.with_group(UID, |h| {
        h.readings.moves((1, None), false, now);
        for (ordinal, role) in [(0, Role::Stopped), (1, Role::Secondary)] {
            let (uid, id) = (format!("pod-{ordinal}"), format!("c{ordinal}"));
            let mut seen = examples::pod(&id, true, Phase::Running);
            seen.uid = uid.clone();
            let said = StatusAnswer { processes: Some(1), ..StatusAnswer::of(role) };
            h.readings.remember_status(&seen, "db", (later, later), said);
            let position = Position::Known(Sequence { history: None, number: 5 });
            let (at, ready) = (ctx.rounds.clock.now(), true);
            let (asked, answered) = (later, later);
            let hint = PositionHint { container_id: id, position, at, asked, answered, role, ready, led: false };
            h.readings.remember_position(&uid, hint);
        }
    });
}

fn has(asked: &Asked, method: &str, part: &str) -> bool {
    asked.lock().unwrap().iter().any(|(m, path, _)| m == method && path.contains(part))
}

fn condition(stored: &Value, kind: &str) -> (String, String) {
    let all = stored["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|c| c["type"] == kind).unwrap_or_default();
    (found["reason"].as_str().unwrap_or_default().into(), found["message"].as_str().unwrap_or_default().into())
}

/// The record is written, and then the command starts in the member that takes over.
fn takes_over(asked: &Asked) {
    let asked = asked.lock().unwrap();
    let at = |method: &str, part: &str| asked.iter().position(|(m, path, _)| m == method && path.contains(part));
    let (put, exec) = (at("PUT", "/replicagroups/db/status"), at("GET", "/exec"));
    let paths: Vec<_> = asked.iter().map(|(m, path, _)| format!("{m} {path}")).collect();
    assert!(put.is_some() && put < exec, "{paths:#?}");
    let record = &asked[put.unwrap()].2["status"]["record"];
    assert_eq!(record["intents"][0]["verb"], "failover", "{record}");
}

#[tokio::test]
async fn a_failover_writes_its_record_and_then_starts() {
    let (_, asked, _) = play(|_, _| None).await;
    takes_over(&asked);
    assert!(has(&asked, "PATCH", "/statefulsets/db") && has(&asked, "PATCH", "/poddisruptionbudgets/"));
}

const NO_BUDGETS: &str = "poddisruptionbudgets.policy \"db\" is forbidden: User \"tanist\" cannot patch resource";

fn no_budgets(method: &str, path: &str) -> Option<mock::Said> {
    (method == "PATCH" && path.contains("/poddisruptionbudgets/")).then(|| refusal(403, "Forbidden", NO_BUDGETS))
}

// One right that is missing, a template that is refused, a webhook that is down: nothing of it holds up a takeover.
#[tokio::test]
async fn an_object_that_is_refused_stops_no_failover() {
    takes_over(&play(no_budgets).await.1);
    for kind in ["/statefulsets/", "/services/"] {
        let webhook = move |method: &str, path: &str| {
            let said = || refusal(500, "InternalError", "failed calling webhook \"w\": connection refused");
            (method == "PATCH" && path.contains(kind)).then(said)
        };
        takes_over(&play(webhook).await.1);
        let silent = move |method: &str, path: &str| (method == "PATCH" && path.contains(kind)).then_some(None);
        takes_over(&play(silent).await.1);
    }
    let invalid = |method: &str, path: &str| {
        let said = || refusal(422, "Invalid", "spec.template.spec.containers[0].image: Required value");
        (method == "PATCH" && path.contains("/statefulsets/")).then(said)
    };
    takes_over(&play(invalid).await.1);
}

// The next round reports a refused write in words.
#[tokio::test]
async fn a_refused_write_is_reported_in_the_next_round() {
    let (ctx, _, _) = play(no_budgets).await;
    let reported = ctx
        .rounds
        .hints
        .with_group(UID, |h| h.unwritten.values().map(|u| (u.reason.as_str(), u.why.clone())).collect::<Vec<_>>());
    let expected = format!("the API server refused to apply PodDisruptionBudget db: forbidden (403): {NO_BUDGETS}");
    assert_eq!(reported, [("Forbidden", expected)]);
}

// Without its record no command starts; actions that need no record go on.
#[tokio::test]
async fn without_its_record_no_command_starts() {
    let (_, asked, _) = play(|method, path| {
        (method == "PUT" && path.contains("/status")).then(|| refusal(500, "InternalError", "etcd is away"))
    })
    .await;
    assert!(!has(&asked, "GET", "/exec") && has(&asked, "PATCH", "/poddisruptionbudgets/"));
}

// S48: a status that cannot be written cannot say why. One event says it, however often the round is repeated.
#[tokio::test]
async fn a_status_that_is_refused_is_told_by_an_event() {
    let stored = Arc::new(Mutex::new(group()));
    let (client, asked) =
        mock::server(move |method, path, body| match (method, path.contains("/replicagroups/db/status")) {
            ("PUT", true) => refusal(500, "InternalError", "failed calling webhook \"w\": connection refused"),
            _ => Some(found(&stored, method, path, body)),
        });
    let (ctx, mut outbox) = mock::context(client, &[]);
    remember(&ctx);
    let object: Arc<ReplicaGroup> = Arc::new(serde_json::from_value(group()).unwrap());
    for _ in 0..2 {
        assert!(round(object.clone(), ctx.clone()).await.is_err());
    }
    assert!(!has(&asked, "GET", "/exec"), "a command started without its record");
    let mut told = Vec::new();
    while let Ok((event, _)) = outbox.try_recv() {
        told.push((event.reason, event.action, event.note.unwrap_or_default()));
    }
    let expected = "failed to write the status: internal error (500): failed calling webhook \"w\": connection refused; repair that webhook, or \
                    remove its configuration";
    // Kubernetes merges events that differ only in their text: so the action says what was not done.
    assert_eq!(told, [("ApiUnwritable".to_owned(), "write the status".to_owned(), expected.to_owned())]);
}

// A secondary that takes over is removed from its Service first. If that fails, its command does not start.
#[tokio::test]
async fn a_member_that_cannot_be_unrouted_gets_no_command() {
    let (_, asked, stored) = play(|method, path| {
        (method == "PATCH" && path.contains("/pods/db-1?"))
            .then(|| refusal(500, "InternalError", "failed calling webhook"))
    })
    .await;
    assert!(!has(&asked, "GET", "/exec"));
    assert!(stored["status"]["record"].get("intents").is_none(), "{stored}");
    let (reason, message) = condition(&stored, "Progressing");
    assert_eq!(reason, "ApiUnwritable");
    assert!(message.contains("failed to label pod db-1: internal error (500): failed calling webhook"), "{message}");
}

// A command without a slot is not started and leaves no intent, and `status` still runs in members.
#[tokio::test]
async fn without_a_slot_no_command_starts() {
    let (ctx, asked, stored) = play_with(true, |_, _| None).await;
    assert!(!has(&asked, "GET", "/exec"));
    assert!(stored["status"]["record"].get("intents").is_none(), "{stored}");
    let (reason, message) = condition(&stored, "Progressing");
    assert_eq!(reason, "NoSlot");
    assert!(message.contains("at most 1 at a time in one group, 4 in all; it is tried again"), "{message}");
    assert!(ctx.rounds.questions.take(UID, Duration::ZERO).await.is_ok());
    assert!(ctx.metrics.text().unwrap().contains("tanist_exec_slots_missed_total{kind=\"command\"} 1"));
}

// A member whose `status` hangs delays no round, and `status` is not started a second time meanwhile.
#[tokio::test]
async fn a_status_that_hangs_delays_no_round() {
    let stored = Arc::new(Mutex::new(group()));
    let (client, asked) = mock::server(move |method, path, body| match path.contains("/exec") {
        true => None,
        false => Some(found(&stored, method, path, body)),
    });
    let (ctx, _outbox) = mock::context(client, &[]);
    remember(&ctx);
    ctx.rounds.hints.with_group(UID, |h| h.readings.touch("pod-0", ctx.rounds.clock.moment()));
    let mut object = group();
    object["spec"]["commands"]["status"]["timeoutSeconds"] = json!(3600);
    let object: ReplicaGroup = serde_json::from_value(object).unwrap();
    for _ in 0..2 {
        // A round that waits for the command waits for an hour; on a busy machine seconds say nothing.
        let look = observe::observe(&ctx.rounds, &object, Ask::Recent, None);
        let seen =
            tokio::time::timeout(Duration::from_secs(600), look).await.expect("the round waits for status").unwrap();
        let role = |ordinal: usize| seen.snapshot.members[ordinal].reading.role;
        assert_eq!((role(0), role(1)), (Role::Unknown, Role::Secondary));
    }
    let seen = observe::observe(&ctx.rounds, &object, Ask::Recent, None).await.unwrap();
    let detail = seen.snapshot.members[0].reading.detail.as_deref().unwrap();
    let seconds = detail
        .strip_prefix("status could not be read: status has been running for ")
        .and_then(|d| d.strip_suffix(" s"));
    assert!(seconds.and_then(|s| s.parse::<u64>().ok()) >= Some(2), "{detail}");
    assert_eq!(asked.lock().unwrap().iter().filter(|(_, path, _)| path.contains("/exec")).count(), 1);
    assert!(
        ctx.rounds.hints.with_group(UID, |h| h.asking.values().all(|asking| asking.late)),
        "its end starts a round"
    );
}

// The group shows why the API server refuses to create a pod. Without the right to list events, the round goes on without the cause.
#[tokio::test]
async fn a_pod_that_is_refused_is_reported_with_its_cause() {
    for may_ask in [true, false] {
        let stored = Arc::new(Mutex::new(group()));
        let (client, _) = mock::server(move |method, path, body| {
            let now = jiff::Timestamp::now().to_string();
            let message = "create Pod db-1 in StatefulSet db failed error: exceeded quota: small";
            let event = json!({"metadata": {}, "involvedObject": {}, "message": message, "lastTimestamp": now});
            match path.split('?').next().unwrap() {
                "/api/v1/namespaces/shop/events" if may_ask => Some(list(&[event])),
                "/api/v1/namespaces/shop/events" => refusal(403, "Forbidden", "events is forbidden"),
                "/api/v1/namespaces/shop/pods" => Some(list(&[pod(0, None)])),
                _ => Some(found(&stored, method, path, body)),
            }
        });
        let (ctx, _outbox) = mock::context(client, &[]);
        remember(&ctx);
        ctx.rounds.hints.with_group(UID, |h| h.missing.insert("db-1".into(), ctx.rounds.clock.now() - 5));
        let object: ReplicaGroup = serde_json::from_value(group()).unwrap();
        let seen = observe::observe(&ctx.rounds, &object, Ask::Recent, None).await.unwrap();
        let missing = &seen.snapshot.set.unwrap().missing["db-1"];
        assert_eq!(missing.refused.as_deref(), may_ask.then_some("exceeded quota: small"));
    }
}
