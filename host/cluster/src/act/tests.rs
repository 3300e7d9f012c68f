//! `act` against an API server in memory: the order of its steps, and the preconditions of each write.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
use super::writes::{apply, delete_pod};
use super::*;
use crate::stub::{Answer, GROUP, LOADED, SET, Seen, Silent, Stub, pod, remember_roles};
use http::Method;
use serde_json::{Value, json};
use tanist_core::checked::recheck_deletion;
use tanist_core::contract::Role::{self, Primary, Secondary, Stopped};
use tanist_core::contract::{Answer as Said, Candidate, Ranking};
use tanist_core::decide::decide;
use tanist_core::freshness::Ask;
use tanist_core::policy::{Answered, Point, Policies, PolicyName, Question, Reply, Unanswered};
use tanist_core::record::{Started, Verb};
use tanist_core::snapshot::{ClaimMark, Evidence, Object};

#[path = "ending_tests.rs"]
mod ending;
#[path = "late_tests.rs"]
mod late;
#[path = "state_tests.rs"]
mod state;
#[path = "update_tests.rs"]
mod update;

/// A plan that places db-1, with the intent in its record.
fn place(s: &Snapshot) -> Plan {
    runs(s, Verb::Place, "secondary", "pod-1")
}

/// A plan that executes a command in a pod, with the intent in its record.
fn runs(s: &Snapshot, verb: Verb, command: &str, uid: &str) -> Plan {
    let mut plan = Plan::new(s.record.clone());
    let (member, pod) = s.members.iter().find_map(|m| Some((m, m.pod.as_ref().filter(|p| p.uid == uid)?))).unwrap();
    let intent = Intent {
        token: "place-1".into(),
        verb,
        command: command.into(),
        member: member.name.clone(),
        target: None,
        pod_uid: pod.uid.clone(),
        container: "db".into(),
        container_id: pod.containers.get("db").and_then(|c| c.id.clone()).unwrap_or_default(),
        generation: 1,
        started: s.now,
        timeout: 60,
        term: 1,
        again: false,
        exited: None,
        version: None,
        had_role: false,
    };
    plan.record.intents.push(intent.clone());
    plan.actions.push(Action::Run { intent, argv: vec![command.into()], env: Vec::new(), needs_state: false });
    plan
}

/// Carries out a plan with fresh answers of the members.
async fn carry_out(ctx: &Arc<Context>, observed: &Observed, plan: &Plan, roles: &[Role]) -> Outcome {
    let report = report::derive(&observed.snapshot, plan, LOADED, &[]);
    remember_roles(ctx, observed, roles);
    act(ctx, observed, plan, &report).await
}

/// The requests up to the moment when the command's end is noted, or for a short time if it is not.
async fn until_settled(ctx: &Context, stub: &Stub) -> Vec<Seen> {
    let mut seen = stub.seen();
    for _ in 0..200 {
        if ctx.hints.with_group("group", |h| h.commands.is_idle()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    seen.extend(stub.seen());
    seen
}

fn executes(seen: &Seen, word: &str) -> bool {
    seen.path.ends_with("/exec") && seen.query.contains(&format!("command={word}"))
}

fn evidence(ctx: &Context, token: &str) -> Option<Evidence> {
    ctx.hints.with_group("group", |h| h.commands.known(token))
}

// The order is: second look, record, execution. A refused start is followed by the `settle` that voids its token.
#[tokio::test]
async fn a_command_starts_after_a_second_look_and_a_record() {
    let stub = Stub::new();
    let ctx = stub.context();
    let observed = stub.observe(&ctx, &[Primary, Stopped]).await;
    let outcome = carry_out(&ctx, &observed, &place(&observed.snapshot), &[Primary, Stopped]).await;
    assert!(outcome.errors.is_empty() && outcome.recorded, "{:?}", outcome.errors);
    let seen = until_settled(&ctx, &stub).await;
    assert!(!seen.iter().any(|s| executes(s, "status")), "its role was read just now");
    let at = |what: &dyn Fn(&Seen) -> bool| seen.iter().position(what).unwrap();
    let looked = at(&|s| s.method == Method::GET && s.path.ends_with("/pods"));
    let group = at(&|s| s.method == Method::GET && s.path == GROUP);
    let wrote = at(&|s| s.method == Method::PUT);
    let executed = at(&|s| executes(s, "exec") && s.query.contains("command=place-1"));
    let settled = at(&|s| executes(s, "settle"));
    assert!(group < wrote && looked < wrote && wrote < executed && executed < settled);
    assert_eq!(seen.iter().filter(|s| s.method == Method::PUT).count(), 1);
    // Start and settle were both refused, so the outcome is unknown.
    assert!(matches!(evidence(&ctx, "place-1"), Some(Evidence::Unknown(_))));
}

// S2, S32: a start that makes a primary is noted on the member's claim after the record and before the command. What refuses the note keeps no group without a primary.
#[tokio::test]
async fn a_start_is_noted_before_it_begins() {
    let claim = "/api/v1/namespaces/ns/persistentvolumeclaims/data-db-1";
    for refused in [false, true] {
        let stub = Stub::new();
        stub.change(GROUP, |group| group["spec"]["primaries"] = 2.into());
        stub.set_object(claim, json!({"metadata": {"uid": "claim", "labels": {"tanist.dev/group": "db"}}}));
        if refused {
            stub.answer(Method::PATCH, "data-db-1", Answer::Fail(403, "Forbidden"));
        }
        let ctx = stub.context();
        let observed = stub.observe(&ctx, &[Primary, Stopped]).await;
        let mut plan = runs(&observed.snapshot, Verb::Join, "primary", "pod-1");
        let before = tanist_core::contract::Position::Empty;
        let started = Started { term: 1, target: false, before, followed: false, peer_stopped: false };
        plan.record.member_mut(&"db-1".into()).started = Some(started);
        let outcome = carry_out(&ctx, &observed, &plan, &[Primary, Stopped]).await;
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
        let seen = until_settled(&ctx, &stub).await;
        let at = |what: &dyn Fn(&Seen) -> bool| seen.iter().position(what).unwrap();
        let wrote = at(&|s| s.method == Method::PUT);
        let noted = at(&|s| s.method == Method::PATCH && s.path == claim);
        let executed = at(&|s| executes(s, "exec") && s.query.contains("command=place-1"));
        assert!(wrote < noted && noted < executed, "{wrote} {noted} {executed}");
        let s = stub.observe(&ctx, &[Primary, Stopped]).await.snapshot;
        let note = s.members[1].claims[0].start.as_ref().map(|note| (&note.intent, note.target.pod_uid.as_str()));
        let expected = plan.record.intents.last().map(|intent| (intent, "pod-1"));
        assert_eq!(note, expected.filter(|_| !refused));
    }
}

// A primary that is stopped on purpose leaves its Service first. If the second look refuses the stop, it goes on, and keeps its clients. One that must not lead loses
// them in any case.
#[tokio::test]
async fn a_primary_that_goes_on_keeps_its_clients() {
    for (verb, other, is_led_away) in [
        (Verb::Switchover, Secondary, false),
        // It makes room for a member that stays: as many serve as desired.
        (Verb::Demote, Secondary, false),
        (Verb::Demote, Primary, true),
    ] {
        let stub = Stub::new();
        let ctx = stub.context();
        let observed = stub.observe(&ctx, &[Primary, other]).await;
        let mut plan = runs(&observed.snapshot, verb, "stop", "pod-0");
        let away =
            Action::Route { member: "db-0".into(), pod_uid: "pod-0".into(), role: None, ready: false, version: None };
        plan.actions.insert(0, away);
        // The other member has stopped since: nobody could take over, and no primary is too many any more.
        let outcome = carry_out(&ctx, &observed, &plan, &[Primary, Stopped]).await;
        assert!(matches!(&outcome.errors[..], [Error::Recheck(..)]), "{:?}", outcome.errors);
        let seen = until_settled(&ctx, &stub).await;
        assert!(!seen.iter().any(|s| executes(s, "place-1")), "{seen:?}");
        let routed = seen.iter().any(|s| s.method == Method::PATCH && s.path.contains("/pods/db-0"));
        assert_eq!(routed, is_led_away, "{verb:?} beside {other:?}: {seen:?}");
    }
}

// The same when another command of the plan is started before it.
#[tokio::test]
async fn a_primary_whose_stop_comes_second_keeps_its_clients() {
    let stub = Stub::new();
    let ctx = stub.context();
    let observed = stub.observe(&ctx, &[Primary, Stopped]).await;
    let mut plan = place(&observed.snapshot);
    let away =
        Action::Route { member: "db-0".into(), pod_uid: "pod-0".into(), role: None, ready: false, version: None };
    plan.actions.push(away);
    let mut stop = runs(&observed.snapshot, Verb::Switchover, "stop", "pod-0");
    let Action::Run { intent, .. } = &mut stop.actions[0] else { panic!("no command") };
    intent.token = "switchover-2".into();
    plan.record.intents.push(intent.clone());
    plan.actions.append(&mut stop.actions);
    let outcome = carry_out(&ctx, &observed, &plan, &[Primary, Stopped]).await;
    assert!(matches!(&outcome.errors[..], [Error::Recheck(..)]), "nobody could take over: {:?}", outcome.errors);
    let seen = until_settled(&ctx, &stub).await;
    assert!(seen.iter().any(|s| executes(s, "place-1")), "{seen:?}");
    assert!(!seen.iter().any(|s| s.method == Method::PATCH && s.path.contains("/pods/db-0")), "{seen:?}");
}

// S5: the record that a process wrote itself makes nothing old that its members said: only the member that it acted on is asked again.
#[tokio::test]
async fn a_process_that_wrote_the_record_asks_no_other_member_again() {
    let stub = Stub::new();
    let ctx = stub.context();
    let observed = stub.observe(&ctx, &[Primary, Stopped]).await;
    let outcome = carry_out(&ctx, &observed, &place(&observed.snapshot), &[Primary, Stopped]).await;
    assert!(outcome.recorded, "{:?}", outcome.errors);
    until_settled(&ctx, &stub).await;
    crate::observe::observe(&ctx, &outcome.object, Ask::Recent, None).await.unwrap();
    let asked: Vec<_> = stub.seen().into_iter().filter(|s| executes(s, "status")).map(|s| s.path).collect();
    assert!(!asked.is_empty() && asked.iter().all(|path| path.contains("/db-1/")), "{asked:?}");
}

// S1, S6: the record was written, but the answer was lost. Nothing starts. Only this process could have started the command, so its next round
// closes the intent at once.
#[tokio::test]
async fn a_record_whose_answer_was_lost_starts_nothing_and_loses_no_token() {
    let stub = Stub::new();
    let ctx = stub.context();
    let observed = stub.observe(&ctx, &[Primary, Stopped]).await;
    stub.answer(Method::PUT, "/status", Answer::Break);
    let outcome = carry_out(&ctx, &observed, &place(&observed.snapshot), &[Primary, Stopped]).await;
    assert!(!outcome.errors.is_empty() && !outcome.recorded);
    let seen = until_settled(&ctx, &stub).await;
    assert!(!seen.iter().any(|s| executes(s, "place-1")), "{seen:?}");
    assert_eq!(stub.get(GROUP).unwrap()["status"]["record"]["intents"][0]["token"], "place-1");
    let mut next = stub.observe(&ctx, &[Primary, Stopped]).await.snapshot;
    assert_eq!(next.evidence.get("place-1"), Some(&Evidence::NotStarted(tanist_protocol::why::Word::Void.into())));
    next.now += 10;
    let plan = tanist_core::decide::decide(&next, &Silent);
    assert!(plan.record.intents.iter().all(|i| i.token != "place-1"), "it is closed");
    assert_eq!(plan.record.member(&"db-1".into()).failures, 0, "and nothing failed");
}

// The pod of a member that is not failed at the second look is not deleted, whatever was decided.
#[tokio::test]
async fn a_pod_that_is_not_seen_to_fail_is_not_deleted() {
    let stub = Stub::new();
    let ctx = stub.context();
    let observed = stub.observe(&ctx, &[Primary, Secondary]).await;
    let mut plan = Plan::new(observed.snapshot.record.clone());
    let cause = DeletionCause::Failure;
    plan.actions.push(Action::DeletePod {
        member: "db-1".into(),
        pod_uid: "pod-1".into(),
        cause,
        reason: "it failed".into(),
    });
    let outcome = carry_out(&ctx, &observed, &plan, &[Primary, Secondary]).await;
    assert!(matches!(&outcome.errors[..], [Error::Recheck(..)]), "{:?}", outcome.errors);
    assert!(stub.written().is_empty());
}

// D20: a claim that no removed member left behind is not deleted, whatever was decided.
#[tokio::test]
async fn a_claim_that_nobody_left_behind_is_not_deleted() {
    let stub = Stub::new();
    let ctx = stub.context();
    let observed = stub.observe(&ctx, &[Primary, Secondary]).await;
    let mut plan = Plan::new(observed.snapshot.record.clone());
    plan.actions.push(Action::DeleteClaim { member: "db-1".into(), claim: "data-db-1".into(), uid: "claim-1".into() });
    let outcome = carry_out(&ctx, &observed, &plan, &[Primary, Secondary]).await;
    assert!(matches!(&outcome.errors[..], [Error::Recheck(..)]), "{:?}", outcome.errors);
    assert!(stub.written().is_empty());
}

/// Wants db-1 moved.
struct Mover;

impl Policies for Mover {
    fn has(&self, point: Point) -> bool {
        point == Point::Rebalance || !point.is_optional()
    }

    fn ask(&self, _: &Question) -> Result<Answered, Unanswered> {
        let reason = "there is room elsewhere".to_owned();
        let candidates = vec![Candidate { member: "db-1".into(), reason, source: None }];
        let reply = Reply::Answer(Said::Choose(Ranking { candidates, passed_over: Vec::new() }));
        let policy = PolicyName { name: "mover".to_owned(), ..PolicyName::none() };
        Ok(Answered { policy, reply, fuel: 0, notes: Vec::new() })
    }
}

/// Both members have been Ready in their roles for years.
fn at_rest() -> Stub {
    let stub = Stub::new();
    for (ordinal, role) in [(0, "primary"), (1, "secondary")] {
        stub.change(&pod(ordinal), |pod| {
            let condition =
                |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"});
            pod["status"]["conditions"] = json!([condition("Ready"), condition("tanist.dev/member")]);
            pod["metadata"]["labels"]["tanist.dev/role"] = role.into();
        });
    }
    stub
}

// docs/rules.md, "Rebalance": the pod of a secondary that a policy moves is deleted, with UID and version of the second look, after the record says so.
// What changed since the decision, in any member, keeps it.
#[tokio::test]
async fn a_secondary_moves_only_if_every_member_is_well_at_the_second_look() {
    let stub = at_rest();
    let ctx = stub.context();
    let mut observed = stub.observe(&ctx, &[Primary, Secondary]).await;
    observed.snapshot.objects.clear();
    let plan = decide(&observed.snapshot, &Mover);
    let reason = "policy mover moves db-1: there is room elsewhere";
    let deletes = |a: &Action| matches!(a, Action::DeletePod { reason: why, cause: DeletionCause::Rebalance, .. } if why == reason);
    assert!(plan.actions.len() == 1 && plan.actions.iter().all(deletes), "{:?} {:?}", plan.actions, plan.waits);
    // The primary died in between, or the member did.
    for roles in [[Stopped, Secondary], [Primary, Stopped], [Primary, Role::Failed]] {
        let outcome = carry_out(&ctx, &observed, &plan, &roles).await;
        // Nobody waits for it: it is no trouble, and nothing is said to have been done.
        assert!(outcome.errors.is_empty() && outcome.done.is_empty() && !outcome.recorded, "{:?}", outcome.errors);
        assert!(stub.written().is_empty(), "{roles:?}");
    }
    let outcome = carry_out(&ctx, &observed, &plan, &[Primary, Secondary]).await;
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    let written = stub.written();
    let [(Method::PUT, path, status), (Method::DELETE, gone, deletion)] = &written[..] else { panic!("{written:?}") };
    assert_eq!((path.as_str(), gone.as_str()), ("db/status", "pods/db-1"));
    let noted = &status["status"]["record"]["history"][0];
    assert_eq!(
        (&noted["what"], &noted["member"], &noted["detail"]),
        (&"pod-deleted".into(), &"db-1".into(), &reason.into())
    );
    let version = &observed.snapshot.members[1].pod.as_ref().unwrap().version;
    assert_eq!(deletion["preconditions"], json!({"uid": "pod-1", "resourceVersion": version}));
}

// S25: the StatefulSet does not shrink while a leaving member runs.
#[tokio::test]
async fn a_set_whose_leaving_member_runs_keeps_its_size() {
    let stub = Stub::new();
    stub.change(GROUP, |group| group["spec"]["replicas"] = 1.into());
    let ctx = stub.context();
    let observed = stub.observe(&ctx, &[Primary, Stopped]).await;
    let mut plan = Plan::new(observed.snapshot.record.clone());
    plan.actions.push(Action::Scale { replicas: 1 });
    let outcome = carry_out(&ctx, &observed, &plan, &[Primary, Secondary]).await;
    assert!(matches!(&outcome.errors[..], [Error::Recheck(..)]), "{:?}", outcome.errors);
    assert!(stub.written().is_empty());
    let outcome = carry_out(&ctx, &observed, &plan, &[Primary, Stopped]).await;
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    let shrunk = stub.written().into_iter().find(|(_, path, _)| path == "statefulsets/db").unwrap();
    let fence = json!({"uid": "set", "resourceVersion": observed.snapshot.set.as_ref().unwrap().version});
    assert_eq!(shrunk, (Method::PATCH, "statefulsets/db".into(), json!({"metadata": fence, "spec": {"replicas": 1}})));
}

/// A checked deletion: one member reports that it failed, which the check requires.
fn failing(s: &Snapshot, live: &Snapshot) -> Deletion {
    let fails = |s: &Snapshot| {
        let mut s = s.clone();
        s.members[1].reading.role = Role::Failed;
        s
    };
    recheck_deletion(&fails(s), &fails(live), &"db-1".into(), "pod-1", DeletionCause::Failure).unwrap()
}

// A deletion names UID and version of the pod from the second look.
#[tokio::test]
async fn a_late_deletion_spares_a_pod_that_changed() {
    let stub = Stub::new();
    let ctx = stub.context();
    let s = stub.observe(&ctx, &[Primary, Stopped]).await.snapshot;
    let (version, late, again) = (stub.version(&pod(1)), failing(&s, &s), failing(&s, &s));
    stub.change(&pod(1), |pod| pod["metadata"]["labels"]["changed"] = "yes".into());
    assert!(matches!(delete_pod(&ctx, "ns", late).await, Err(Error::Overtaken(_))));
    let fence = json!({"uid": "pod-1", "resourceVersion": version});
    assert_eq!(stub.written()[0].2["preconditions"], fence);
    assert!(stub.get(&pod(1)).is_some());
    stub.remove(&pod(1));
    assert!(delete_pod(&ctx, "ns", again).await.is_ok(), "it is gone already");
}

fn shown<'a>(version: Option<&'a str>, role: Option<&'static str>, ready: Option<bool>) -> Shown<'a> {
    Shown { pod: "db-0", uid: "pod-0", version, role, ready, now: 0 }
}

fn metadata(writes: &[(Method, String, Value)]) -> Vec<(String, Value)> {
    let of = |(_, path, body): &(Method, String, Value)| (path.clone(), body["metadata"].clone());
    writes.iter().map(of).collect()
}

// Routing clients to a pod names the version that was seen, and the label's patch the version after the gate's. Routing them away names the UID
// alone.
#[tokio::test]
async fn clients_are_led_to_a_pod_as_it_was_seen() {
    let stub = Stub::new();
    let ctx = stub.context();
    let version = stub.version(&pod(0));
    route(&ctx, "ns", &shown(Some(&version), Some("primary"), Some(true))).await.unwrap();
    let between = (version.parse::<u64>().unwrap().max(stub.version(&pod(0)).parse::<u64>().unwrap() - 1)).to_string();
    let labels = |role: Value| json!({"tanist.dev/role": role});
    let expected = [
        ("db-0/status".to_owned(), json!({"uid": "pod-0", "resourceVersion": version})),
        (
            "pods/db-0".to_owned(),
            json!({"uid": "pod-0", "resourceVersion": between, "labels": labels("primary".into())}),
        ),
    ];
    assert_eq!(metadata(&stub.written()), expected);
    // A late write: another process has unrouted the pod meanwhile.
    let version = stub.version(&pod(0));
    route(&ctx, "ns", &shown(None, None, Some(false))).await.unwrap();
    let mut away = metadata(&stub.written());
    away.sort_by(|a, b| a.0.cmp(&b.0));
    let uid = json!({"uid": "pod-0"});
    assert_eq!(
        away,
        [("db-0/status".into(), uid), ("pods/db-0".into(), json!({"uid": "pod-0", "labels": labels(Value::Null)}))]
    );
    for (role, ready) in [(Some("primary"), None), (Some("primary"), Some(true)), (None, Some(true))] {
        let late = route(&ctx, "ns", &shown(Some(&version), role, ready)).await;
        assert!(matches!(late, Err(Error::Overtaken(_))), "{role:?} {ready:?}");
        assert_eq!(stub.get(&pod(0)).unwrap()["metadata"]["labels"].get("tanist.dev/role"), None);
    }
    // A pod that is gone or another one needs no routing.
    stub.change(&pod(0), |pod| pod["metadata"]["uid"] = "another".into());
    assert!(route(&ctx, "ns", &shown(None, None, Some(false))).await.is_ok());
    stub.remove(&pod(0));
    assert!(route(&ctx, "ns", &shown(None, None, Some(false))).await.is_ok());
    assert!(route(&ctx, "ns", &shown(Some(&version), Some("primary"), Some(true))).await.is_ok());
}

// A late mark must not lower the term on a claim.
#[tokio::test]
async fn a_late_mark_is_refused() {
    let (stub, claim) = (Stub::new(), "/api/v1/namespaces/ns/persistentvolumeclaims/data-db-0");
    stub.set_object(claim, json!({"metadata": {"uid": "claim", "annotations": {"tanist.dev/term": "7"}}}));
    let ctx = stub.context();
    let mark = ClaimMark {
        group: "db".into(),
        term: 6,
        sequence: None,
        primaries: Vec::new(),
        ran: Vec::new(),
        membership: None,
        version: None,
    };
    let seen = stub.version(claim);
    stub.change(claim, |_| {});
    let late = mark_claim(&ctx, "ns", "data-db-0", "claim", &seen, &mark).await;
    assert!(matches!(late, Err(Error::Overtaken(_))));
    assert_eq!(stub.get(claim).unwrap()["metadata"]["annotations"]["tanist.dev/term"], "7");
    let now = stub.version(claim);
    mark_claim(&ctx, "ns", "data-db-0", "claim", &now, &mark).await.unwrap();
    assert_eq!(stub.get(claim).unwrap()["metadata"]["annotations"]["tanist.dev/term"], "6");
}

fn desired_object(hash: &str, version: Option<String>) -> Object {
    let metadata = json!({"name": "db-rw", "annotations": {"tanist.dev/applied": hash}});
    let manifest = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"type": hash}});
    let (kind, name) = ("Service".into(), "db-rw".into());
    Object { kind, name, manifest: manifest.into(), current: false, version, trial: None }
}

// A late apply of an older manifest does not replace a newer one, whether the object existed at the decision or not.
#[tokio::test]
async fn a_late_apply_changes_nothing() {
    let (stub, service) = (Stub::new(), "/api/v1/namespaces/ns/services/db-rw");
    let ctx = stub.context();
    let s = stub.observe(&ctx, &[Primary, Stopped]).await.snapshot;
    apply(&ctx, &s, &desired_object("old", None)).await.unwrap();
    let there = || stub.get(service).unwrap();
    let owners = || there()["metadata"]["managedFields"].clone();
    assert_eq!(
        (there()["spec"]["type"].clone(), owners()),
        ("old".into(), json!([{"manager": "tanist", "operation": "Apply"}]))
    );
    let seen = stub.version(service);
    apply(&ctx, &s, &desired_object("new", Some(seen.clone()))).await.unwrap();
    assert_eq!(there()["spec"]["type"], "new");
    for late in [desired_object("old", Some(seen)), desired_object("old", None)] {
        assert!(matches!(apply(&ctx, &s, &late).await, Err(Error::Overtaken(_))), "{:?}", late.version);
        assert_eq!(there()["spec"]["type"], "new");
    }
    stub.answer(Method::PATCH, "db-rw", Answer::Fail(422, "Invalid"));
    assert!(matches!(apply(&ctx, &s, &desired_object("bad", None)).await, Err(Error::RejectTemplate(..))));
}

// A round's writes name the versions that the same round observed.
#[tokio::test]
async fn a_round_fences_by_what_it_saw() {
    let stub = Stub::new();
    let ctx = stub.context();
    let observed = stub.observe(&ctx, &[Primary, Secondary]).await;
    let s = &observed.snapshot;
    let version = |kind: &str| s.objects.iter().find(|o| o.kind == kind).unwrap().version.clone();
    assert_eq!((version("StatefulSet"), version("Service")), (Some(stub.version(SET)), None));
    assert_eq!(s.members[0].pod.as_ref().unwrap().version, stub.version(&pod(0)));
    assert_eq!(s.set.as_ref().unwrap().version, stub.version(SET));
    let plan = tanist_core::decide::decide(s, &Silent);
    let routed =
        plan.actions.iter().any(|a| matches!(a, Action::Route { version: Some(v), .. } if *v == stub.version(&pod(0))));
    assert!(routed, "{:?}", plan.actions);
}

// A refusal is told apart from an answer that never came, both in words.
#[test]
fn what_could_not_be_written_is_said_in_words() {
    let forbidden = crate::cluster::Error::Answered {
        code: 403,
        reason: "Forbidden".into(),
        message: "webhook \"guard\": no".into(),
    };
    let silent = crate::cluster::Error::Unreachable("the connection was reset".into());
    let said = |error| Error::Write("apply Service db".into(), error).to_string();
    assert_eq!(said(forbidden), "the API server refused to apply Service db: forbidden (403): webhook \"guard\": no");
    assert_eq!(said(silent), "failed to apply Service db: the connection was reset");
}
