//! What is measured of a life.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
use super::*;
use crate::app::{App, group};
use crate::runner::Tokens;
use serde_json::json;

/// A meter after looks at these states, each for that many tenths of a second.
fn meter(states: &[(u32, bool, bool)]) -> Meter {
    let (mut meter, mut now) = (Meter::default(), Duration::ZERO);
    for (times, wants, serves) in states {
        for _ in 0..*times {
            meter.note(now, *wants, *serves);
            now += LOOK;
        }
    }
    meter.end();
    meter
}

fn outages(meter: &Meter) -> Vec<(u128, u128)> {
    meter.outages.iter().map(|outage| (outage.from.as_millis(), outage.length.as_millis())).collect()
}

#[test]
fn time_without_a_primary_counts_once_one_has_served() {
    let meter = meter(&[(50, true, false), (20, true, true), (7, true, false), (10, true, true), (3, true, false)]);
    assert_eq!(outages(&meter), [(7_000, 700), (8_700, 300)]);
    assert_eq!(meter.wanted, Duration::from_secs(4));
}

#[test]
fn a_group_that_never_gets_a_primary_has_an_outage() {
    let meter = meter(&[(400, true, false)]);
    assert_eq!(outages(&meter), [(30_000, 10_000)]);
    assert_eq!(meter.wanted, Duration::from_secs(10));
}

#[test]
fn a_group_that_wants_no_primary_has_no_outage_and_begins_anew() {
    let meter = meter(&[(10, true, true), (5, true, false), (90, false, false), (60, true, false), (10, true, true)]);
    assert_eq!(outages(&meter), [(1_000, 500)]);
    assert_eq!(meter.wanted, Duration::from_millis(2_500));
}

/// A world in which db-0 leads, and clients reach it.
fn world() -> World {
    let world = World::new(1, 1);
    world.create(group("db", 1, 1));
    let pod = json!({
        "metadata": {"name": "db-0", "uid": "u", "labels": {LABEL_GROUP: "db", LABEL_ROLE: "primary"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}
    });
    let machine = Machine {
        group: "db".into(),
        pod: "db-0".into(),
        node: "n0".into(),
        claim: "claim".into(),
        container: "c".into(),
        tokens: Tokens::default(),
        busy: None,
        expects_running: true,
        app: App { role: Role::Primary, ..App::default() },
        ending: None,
        is_passive: false,
        programs: 1,
    };
    let mut state = world.lock();
    let pod: Pod = serde_json::from_value(pod).unwrap();
    state.pods.insert("db-0".into(), pod.into());
    state.machines.insert("u".into(), machine);
    drop(state);
    world
}

fn pod(state: &mut State) -> &mut Pod {
    state.pods.get_mut("db-0").unwrap()
}

fn machine(state: &mut State) -> &mut Machine {
    state.machines.get_mut("u").unwrap()
}

/// Something that changes, and in which words.
type Case = (&'static str, fn(&mut State));

#[tokio::test]
async fn a_primary_serves_that_clients_reach() {
    assert!(serves(&world().lock(), "db"));
    assert!(!serves(&world().lock(), "queue"), "it is another group's");
    let changes: [Case; 9] = [
        ("it is a secondary", |state| machine(state).app.role = Role::Secondary),
        ("it is ending", |state| machine(state).ending = Some(1)),
        ("its node is not reached", |state| state.set_node("n0", false)),
        ("its pod is gone", |state| state.pods.clear()),
        ("its pod is another one", |state| pod(state).metadata.uid = Some("other".into())),
        ("its pod is being deleted", |state| {
            let now = state.time();
            pod(state).metadata.deletion_timestamp = Some(now);
        }),
        ("no Service leads to it", |state| drop(pod(state).labels_mut().remove(LABEL_ROLE))),
        ("it has no label of the group", |state| drop(pod(state).labels_mut().remove(LABEL_GROUP))),
        ("its pod is not Ready", |state| pod(state).status = None),
    ];
    for (why, change) in changes {
        let world = world();
        change(&mut world.lock());
        assert!(!serves(&world.lock(), "db"), "{why}");
    }
}

#[tokio::test]
async fn a_primary_is_wanted_where_there_can_be_one() {
    assert!(wants(&world().lock(), "db"));
    let changes: [Case; 3] = [
        ("it is paused", |state| state.groups.get_mut("db").unwrap().spec.paused = true),
        ("it has no members", |state| state.groups.get_mut("db").unwrap().spec.replicas = 0),
        ("no node reports", |state| state.set_node("n0", false)),
    ];
    for (why, change) in changes {
        let world = world();
        change(&mut world.lock());
        assert!(!wants(&world.lock(), "db"), "{why}");
    }
}

#[tokio::test]
async fn takeovers_and_switchovers_are_counted_once_each() {
    let (world, mut seen) = (world(), Seen::default());
    let mut write = |version: &str, record: Value| {
        let mut state = world.lock();
        let group = state.groups.get_mut("db").unwrap();
        group.metadata.resource_version = Some(version.into());
        group.status.get_or_insert_default().record = Some(record);
        seen.read(&state, "db");
        (seen.failovers.len(), seen.switchovers.len())
    };
    let takeover = |token: &str| json!({"verb": "failover", "token": token});
    let switched = json!({"at": 7, "what": "switched-over", "member": "db-1"});
    let failed = json!({"at": 9, "what": "switchover-failed", "member": "db-1"});
    assert_eq!(write("1", json!({"intents": [{"verb": "seed", "token": "seed-1"}]})), (0, 0));
    assert_eq!(write("2", json!({"intents": [takeover("failover-2")], "history": [switched]})), (1, 1));
    assert_eq!(write("3", json!({"intents": [takeover("failover-2")], "history": [switched, failed]})), (1, 1));
    assert_eq!(write("4", json!({"intents": [takeover("failover-3")]})), (2, 1));
    assert_eq!(write("4", json!({"intents": [takeover("failover-4")]})), (2, 1), "it is not read twice");
}
