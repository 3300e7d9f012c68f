#![allow(clippy::disallowed_methods, reason = "the answer is made up")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
use super::*;
use crate::hints::Hints;
use kube::client::{Body, ClientBuilder};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use tanist_core::contract::{MemberName, Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::examples::{self, pod};
use tanist_core::over::prove_over;
use tanist_core::plan::Action;
use tanist_core::policy::{Answered, Policies, PolicyName, Question, Unanswered};
use tanist_core::record::{Intent, LastPrimary, Record, Verb};
use tanist_core::snapshot::{Command, Evidence, Group, Member, Node, Reading, Set, Snapshot};
use tanist_mock::{self as mock, Reply};

const HOUR: i64 = 3600;

/// The clocks of a test: the wall clocks of two machines, and a monotonic one.
#[derive(Default)]
struct Clocks {
    server: AtomicI64,
    ours: AtomicI64,
    ticks: AtomicU64,
}

impl Clocks {
    fn pass(&self, seconds: u32) {
        self.ticks.fetch_add(u64::from(seconds), Ordering::SeqCst);
        self.server.fetch_add(i64::from(seconds), Ordering::SeqCst);
        self.ours.fetch_add(i64::from(seconds), Ordering::SeqCst);
    }

    /// A process that starts now.
    fn process(self: &Arc<Self>) -> Clock {
        let ticks = self.clone();
        Clock::new(self.ours.load(Ordering::SeqCst), move || Duration::from_secs(ticks.ticks.load(Ordering::SeqCst)))
    }

    /// An answer of the API server.
    fn answer(&self) -> HeaderMap {
        let time = jiff::Timestamp::from_second(self.server.load(Ordering::SeqCst)).unwrap();
        let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&time).unwrap();
        HeaderMap::from_iter([(DATE, date.parse().unwrap())])
    }
}

fn clocks(server: i64, ours: i64) -> Arc<Clocks> {
    let clocks = Clocks::default();
    clocks.server.store(server, Ordering::SeqCst);
    clocks.ours.store(ours, Ordering::SeqCst);
    Arc::new(clocks)
}

#[test]
fn a_wait_that_proves_something_begins_with_the_next_second() {
    let time = Arc::new(AtomicU64::new(0));
    let passed = time.clone();
    let clock = Clock::new(1000, move || Duration::from_millis(passed.load(Ordering::SeqCst)));
    let both_at = |millis| {
        time.store(millis, Ordering::SeqCst);
        (clock.now(), clock.now_or_next())
    };
    assert_eq!([0, 1, 999, 1000].map(both_at), [(1000, 1000), (1000, 1001), (1000, 1001), (1001, 1001)]);
}

#[test]
fn time_is_the_api_servers_and_goes_on_by_itself() {
    let world = clocks(1_000_000, 2_000_000);
    let clock = world.process();
    assert_eq!(clock.now(), 2_000_000, "the API server has not answered yet");
    clock.take_time(&HeaderMap::new());
    clock.take_time(&HeaderMap::from_iter([(DATE, "yesterday".parse().unwrap())]));
    assert_eq!(clock.now(), 2_000_000, "these headers hold no time");
    world.pass(7);
    clock.take_time(&world.answer());
    assert_eq!(clock.now(), 1_000_007);
    world.pass(5);
    assert_eq!(clock.now(), 1_000_012);
}

// The clock takes the time from the answer to any request, also from an error.
#[tokio::test]
async fn a_client_passes_the_time_to_the_clock() {
    let world = clocks(1_000_000, 2_000_000);
    let clock = Arc::new(world.process());
    let answer = world.answer();
    let service = mock::service(move |_| {
        let mut response = Response::new(Body::empty());
        (*response.status_mut(), *response.headers_mut()) = (http::StatusCode::FORBIDDEN, answer.clone());
        Reply::Response(Box::new(response))
    });
    let client = ClientBuilder::new(service, "ns").with_layer(&listen(clock.clone())).build();
    let request = http::Request::get("/version").body(Vec::new()).unwrap();
    assert!(client.request_text(request).await.is_err());
    assert_eq!(clock.now(), 1_000_000);
}

/// A group whose primary's pod is gone from a node that reports, and whose failed member is being stopped, by a command of unknown end.
pub fn snapshot(now: Timestamp, node: Node) -> Snapshot {
    let command = |name: &str| Command { exec: vec![name.into()], container: "db".into(), timeout: 60 };
    let member = |ordinal: u32| Member {
        name: MemberName::from(format!("db-{ordinal}")),
        ordinal,
        pod: Some(tanist_core::snapshot::Pod { uid: format!("u{ordinal}"), ..pod("c", false, Phase::Running) }),
        claims: Vec::new(),
        reading: Reading {
            role: Role::Starting,
            detail: None,
            since: now,
            unknown_streak: 0,
            processes: None,
            running: None,
            contact: None,
        },
        position: Position::NotAsked,
        position_at: 0,
        position_stale: false,
        asked: false,
        conditions: Vec::new(),
    };
    let group = Group {
        namespace: "ns".into(),
        commands: examples::commands(command),
        start_deadline: 86_400,
        ..examples::group(2)
    };
    Snapshot {
        now,
        began: 0,
        nonce: "n".into(),
        group,
        record: Record::default(),
        objects: Vec::new(),
        set: Some(Set { uid: "set".into(), replicas: 2, ..Set::default() }),
        moving: None,
        members: vec![member(0), member(1)],
        evidence: BTreeMap::from([("t".to_owned(), Evidence::Unknown("the stream broke".into()))]),
        nodes: Some(BTreeMap::from([("n1".to_owned(), node)])),
        ended: BTreeSet::new(),
        nodes_at: now,
        deleted_nodes: BTreeMap::new(),
        gone_pods: BTreeMap::new(),
        lists: BTreeMap::new(),
        answers: Default::default(),
        surplus_claims: Vec::new(),
        left_claims: Vec::new(),
        cluster_state: Default::default(),
        strangers: BTreeSet::new(),
    }
}

/// What is stored while the first process runs: a pod that vanished now, and a command that started now.
fn record(now: Timestamp) -> Record {
    let last = LastPrimary {
        member: "db-9".into(),
        pod_uid: "gone".into(),
        container: "db".into(),
        container_id: "c9".into(),
        node: Some("n1".into()),
        grace: 30,
        gone: Some(now),
    };
    let intent = Intent {
        token: "t".into(),
        verb: Verb::Treat,
        command: "stop".into(),
        member: "db-1".into(),
        target: None,
        pod_uid: "u1".into(),
        container: "db".into(),
        container_id: "c".into(),
        generation: 1,
        started: now,
        timeout: 60,
        term: 1,
        again: false,
        exited: None,
        version: None,
        had_role: false,
    };
    Record { term: 1, last_primaries: vec![last], intents: vec![intent], ..Record::default() }
}

struct NoPolicies;

impl Policies for NoPolicies {
    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        let name =
            PolicyName { name: String::new(), version: String::new(), source: String::new(), digest: String::new() };
        Err(Unanswered { policy: name, kind: "none", message: question.point.to_string(), notes: vec![] })
    }
}

/// Whether a process that began then, with that clock, those hints and that stored record, proves the old primary over, and whether it deletes the pod
/// of the command.
fn judged(clock: &Clock, began: Timestamp, hints: &Hints, stored: &Record) -> (bool, bool) {
    let now = clock.now();
    let node = Node { ready: true, since: 0, seen: 0, out_of_service: false, cordoned: false, zone: None };
    judge(Snapshot { began, ..snapshot(now, hints.node("n1", "boot", node, now)) }, stored)
}

/// The same, when the node of the old primary was deleted.
fn judged_without_node(clock: &Clock, hints: &Hints, stored: &Record) -> bool {
    let now = clock.now();
    let deleted_nodes = BTreeMap::from([("n1".to_owned(), hints.deleted_node("n1", now))]);
    let node = Node { ready: true, since: 0, seen: 0, out_of_service: false, cordoned: false, zone: None };
    let nodes = Some(BTreeMap::new());
    judge(Snapshot { nodes, deleted_nodes, ..snapshot(now, node) }, stored).0
}

fn judge(mut s: Snapshot, stored: &Record) -> (bool, bool) {
    // As `observe` reads it.
    s.record = serde_json::from_value(json!(stored)).unwrap();
    s.record.clamp(s.now, s.began);
    let proven = prove_over(&s, &stored.last_primaries[0]).is_ok();
    let plan = decide(&s, &NoPolicies);
    (proven, plan.actions.iter().any(|a| matches!(a, Action::DeletePod { .. })))
}

// S28: a step of either clock proves nothing early, deletes no pod early, and blocks nothing.
#[test]
fn a_step_of_a_clock_proves_nothing_and_blocks_nothing() {
    for (ours, servers) in [(HOUR, 0), (-HOUR, 0), (0, HOUR), (0, -HOUR), (HOUR, -HOUR), (-HOUR, HOUR)] {
        let world = clocks(1_000_000, 1_000_500);
        let (clock, hints) = (world.process(), Hints::default());
        clock.take_time(&world.answer());
        let began = clock.now();
        let stored = record(began);
        assert_eq!(judged(&clock, began, &hints, &stored), (false, false));
        world.ours.fetch_add(ours, Ordering::SeqCst);
        world.server.fetch_add(servers, Ordering::SeqCst);
        clock.take_time(&world.answer());
        let mut passed = 0;
        let mut at = |seconds: u32| {
            world.pass(seconds - passed);
            passed = seconds;
            judged(&clock, began, &hints, &stored)
        };
        assert_eq!(at(1), (false, false), "{ours} {servers}");
        assert_eq!(at(119), (false, false), "{ours} {servers}");
        assert_eq!(at(120), (true, false), "{ours} {servers}: the node reported for 90 s, and the grace is over");
        assert_eq!(at(959), (true, false), "{ours} {servers}");
        assert_eq!(at(960), (true, true), "{ours} {servers}: 900 s after the deadline");
    }
}

// S28: a process that starts after a step reads times of another clock. If its clock is ahead, it proves no primary over before it has seen the
// node report for 90 s and the grace itself, and deletes no pod before it has waited for the command itself. If its clock is behind, it waits as long as the first
// process would have, and no longer.
#[test]
fn a_step_before_an_operators_start_is_no_proof_and_no_block() {
    let start_after = |step: i64| {
        let world = clocks(1_000_000, 1_000_000);
        let first = world.process();
        first.take_time(&world.answer());
        let stored = record(first.now());
        world.server.fetch_add(step, Ordering::SeqCst);
        world.pass(10);
        let second = world.process();
        second.take_time(&world.answer());
        let began = second.now();
        (world, second, began, Hints::default(), stored)
    };
    let (world, clock, began, hints, stored) = start_after(HOUR);
    assert_eq!(judged(&clock, began, &hints, &stored), (false, false), "it has not seen that node yet");
    world.pass(29);
    assert_eq!(judged(&clock, began, &hints, &stored), (false, false));
    world.pass(90);
    assert_eq!(judged(&clock, began, &hints, &stored), (false, false), "nor for the whole grace");
    world.pass(1);
    assert_eq!(judged(&clock, began, &hints, &stored), (true, false));
    world.pass(839);
    assert_eq!(judged(&clock, began, &hints, &stored), (true, false), "it has not seen the command for 960 s");
    world.pass(1);
    assert_eq!(judged(&clock, began, &hints, &stored), (true, true));
    let (world, clock, began, hints, stored) = start_after(-HOUR);
    // The first round writes the times that it limited to the present.
    let mut written = stored;
    written.clamp(clock.now(), began);
    assert_eq!(judged(&clock, began, &hints, &written), (false, false));
    world.pass(119);
    assert_eq!(judged(&clock, began, &hints, &written), (false, false));
    world.pass(1);
    assert_eq!(judged(&clock, began, &hints, &written), (true, false));
    world.pass(840);
    assert_eq!(judged(&clock, began, &hints, &written), (true, true));
}

// S28: a pod is gone since this process saw that without a break, whatever another one noted.
#[test]
fn a_pod_is_gone_since_this_process_saw_that() {
    let hints = Hints::default();
    let sees = |gone: &[&str], now| {
        hints.with_group("g", |group| {
            group.see_gone(gone.iter().map(ToString::to_string), now).into_iter().collect::<Vec<_>>()
        })
    };
    assert_eq!(sees(&["a"], 10), [("a".to_owned(), 10)]);
    assert_eq!(sees(&["a", "b"], 20), [("a".to_owned(), 10), ("b".to_owned(), 20)]);
    assert_eq!(sees(&["b"], 30), [("b".to_owned(), 20)]);
    assert_eq!(sees(&["a", "b"], 40), [("a".to_owned(), 40), ("b".to_owned(), 20)], "it was there again");
}

// S21, S28: the same for a node that was deleted. No step of a clock, and no time before this process saw that there is no such node, proves anything: until then
// the node may have been cut off.
#[test]
fn a_deleted_node_is_looked_at_for_its_whole_time() {
    for step in [HOUR, 0, -HOUR] {
        let world = clocks(1_000_000, 1_000_000);
        let first = world.process();
        first.take_time(&world.answer());
        let mut stored = record(first.now());
        world.server.fetch_add(step, Ordering::SeqCst);
        world.pass(10);
        let (clock, hints) = (world.process(), Hints::default());
        clock.take_time(&world.answer());
        stored.clamp(clock.now(), clock.now());
        let judged = |seconds| {
            world.pass(seconds);
            judged_without_node(&clock, &hints, &stored)
        };
        assert!(!judged(0) && !judged(59), "{step}: 30 s and the grace are not over");
        assert!(judged(1), "{step}: and no longer");
    }
    let world = clocks(1_000_000, 1_000_000);
    let (clock, hints) = (world.process(), Hints::default());
    let stored = record(clock.now());
    let node = Node { ready: true, since: 0, seen: 0, out_of_service: false, cordoned: false, zone: None };
    world.pass(600);
    assert!(!judged_without_node(&clock, &hints, &stored));
    world.pass(50);
    hints.node("n1", "boot", node, clock.now());
    world.pass(1);
    assert!(!judged_without_node(&clock, &hints, &stored), "it was there again");
    world.pass(59);
    assert!(!judged_without_node(&clock, &hints, &stored));
    world.pass(1);
    assert!(judged_without_node(&clock, &hints, &stored));
}
