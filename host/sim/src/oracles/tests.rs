//! Each oracle can fail, and does not when all is as it has to be.
mod members;
mod passive;
mod seats;
mod shown;
mod updates;

use super::*;
use crate::app::{Disk, group};
use crate::clients::tests::{machine, world};
use crate::world::World;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use serde_json::json;
use tanist_cluster::cluster::Fence;

/// The members db-0 and db-1 with these roles, and the group's record.
fn two(roles: [Role; 2], record: Value) -> World {
    let world = world(&[machine("db-0", roles[0], None), machine("db-1", roles[1], None)]);
    world.create(group("db", 2, 1));
    {
        let mut state = world.lock();
        for pod in ["db-0", "db-1"] {
            let meta =
                |name: String, uid: String| ObjectMeta { name: Some(name), uid: Some(uid), ..Default::default() };
            let object = Pod { metadata: meta(pod.into(), format!("uid of {pod}")), ..Pod::default() };
            state.pods.insert(pod.into(), object.into());
            let metadata = meta(claim_of(pod), format!("claim of {pod}"));
            let claim = PersistentVolumeClaim { metadata, ..Default::default() };
            state.claims.insert(claim_of(pod), claim.into());
        }
    }
    write(&world, record);
    world
}

/// A process writes the record.
fn write(world: &World, record: Value) {
    let mut state = world.lock();
    let mut group = state.groups["db"].clone();
    group.status.get_or_insert_default().record = Some(record);
    records(&mut state, &group);
    state.groups.insert("db".into(), group);
}

/// An intent for a member, of that term.
fn intent(token: &str, member: &str, term: u64) -> Value {
    let verb = token.split('-').next();
    json!({"token": token, "verb": verb, "member": member, "podUid": format!("uid of {member}"), "containerId": "c", "term": term})
}

fn record(term: u64, intents: &[Value]) -> Value {
    json!({"term": term, "counter": term, "intents": intents})
}

/// What broke, and nothing else did.
fn broken(world: &World) -> Vec<String> {
    std::mem::take(&mut world.lock().broken)
}

const STOPPED: [Role; 2] = [Role::Stopped, Role::Stopped];

#[tokio::test]
async fn a_program_that_starts_twice_is_seen() {
    let world = two(STOPPED, record(1, &[intent("seed-1-a", "db-0", 1)]));
    starts(&mut world.lock(), "uid of db-0", "seed-1-a");
    assert_eq!(broken(&world), [""; 0]);
    starts(&mut world.lock(), "uid of db-0", "seed-1-a");
    assert_eq!(broken(&world)[0], "S1 S5 S50: the program of seed-1-a starts twice");
}

#[tokio::test]
async fn a_command_without_an_open_intent_is_seen() {
    let world = two(STOPPED, record(1, &[intent("place-1-a", "db-0", 1)]));
    starts(&mut world.lock(), "uid of db-0", "place-2-b");
    assert_eq!(broken(&world), ["S1: place-2-b starts without an intent"]);
    write(&world, record(1, &[]));
    starts(&mut world.lock(), "uid of db-0", "place-1-a");
    assert_eq!(broken(&world), ["S1 S3 S4: place-1-a starts after its intent was closed"]);
    starts(&mut world.lock(), "uid of db-0", "sequence-0-a");
    assert_eq!(broken(&world), [""; 0], "a reading has no intent");
    let other = two(STOPPED, record(1, &[intent("place-1-a", "db-0", 1)]));
    other.lock().groups.get_mut("db").unwrap().status = None;
    write(&other, record(1, &[]));
    starts(&mut other.lock(), "uid of db-0", "place-1-a");
    assert_eq!(broken(&other), [""; 0], "nobody closed what went with a status that was removed");
}

#[tokio::test]
async fn a_command_in_another_pod_or_container_is_seen() {
    let intents = [intent("place-1-a", "db-0", 1), intent("follow-2-b", "db-1", 1)];
    let world = two(STOPPED, record(1, &intents));
    starts(&mut world.lock(), "uid of db-1", "place-1-a");
    assert_eq!(broken(&world), ["S8: place-1-a starts in uid of db-1, and was meant for uid of db-0"]);
    world.lock().machines.get_mut("uid of db-1").unwrap().container = "the next one".into();
    let other = two(STOPPED, record(1, &intents));
    other.lock().machines.get_mut("uid of db-1").unwrap().container = "the next one".into();
    starts(&mut other.lock(), "uid of db-1", "follow-2-b");
    assert_eq!(broken(&other), [""; 0], "its intent waits for it");
    write(&world, record(1, &[]));
    starts(&mut world.lock(), "uid of db-1", "follow-2-b");
    assert_eq!(broken(&world), ["S9: follow-2-b starts in another container than was meant"]);
}

#[tokio::test]
async fn a_seed_beside_somebody_is_seen() {
    for (roles, verb, rows) in [
        ([Role::Stopped, Role::Secondary], "seed", "S1 S2 S13"),
        ([Role::Stopped, Role::Primary], "failover", "S5 S20 S21 S22"),
    ] {
        let world = two(roles, record(1, &[intent(&format!("{verb}-1-a"), "db-0", 1)]));
        starts(&mut world.lock(), "uid of db-0", &format!("{verb}-1-a"));
        assert!(broken(&world)[0].starts_with(rows), "{verb}");
    }
    let world = two([Role::Stopped, Role::Secondary], record(1, &[intent("seed-1-a", "db-0", 1)]));
    world.lock().pods.remove("db-1");
    starts(&mut world.lock(), "uid of db-0", "seed-1-a");
    assert_eq!(broken(&world), [""; 0], "a secondary without a pod leads nobody");
    let world = two(STOPPED, record(1, &[intent("seed-1-a", "db-0", 1)]));
    world.lock().machines.get_mut("uid of db-1").unwrap().busy = Some("seed-0-b".into());
    starts(&mut world.lock(), "uid of db-0", "seed-1-a");
    assert_eq!(broken(&world), ["S1 S2 S13: seed-1-a starts on db-0 while db-1 is Stopped"]);
}

#[tokio::test]
async fn a_second_start_in_a_term_is_seen() {
    let world = two(STOPPED, record(1, &[intent("seed-1-a", "db-0", 1)]));
    starts(&mut world.lock(), "uid of db-0", "seed-1-a");
    write(&world, record(1, &[intent("seed-2-b", "db-1", 1)]));
    starts(&mut world.lock(), "uid of db-1", "seed-2-b");
    assert_eq!(broken(&world), ["S1 S2: seed-2-b opens term 1, as seed-1-a did"]);
    world.lock().groups.get_mut("db").unwrap().status = None;
    write(&world, record(1, &[intent("seed-1-c", "db-0", 1)]));
    starts(&mut world.lock(), "uid of db-0", "seed-1-c");
    assert_eq!(broken(&world), [""; 0], "the status was removed");
}

#[tokio::test]
async fn a_record_that_breaks_its_rules_is_seen() {
    let long: Vec<_> = (0..=limits::HISTORY).map(|at| json!({"at": at})).collect();
    let wide = "x".repeat(STATUS);
    let (a, b) = (intent("seed-1-a", "db-0", 2), intent("failover-2-b", "db-1", 2));
    let moved =
        json!({"token": "seed-1-a", "verb": "seed", "member": "db-1", "podUid": "", "containerId": "", "term": 2});
    for (text, next) in [
        ("S5 S32: the term of db goes from 2 to 1", json!({"term": 1, "counter": 2})),
        ("S5 S32: the counter of db goes from 2 to 1", json!({"term": 2, "counter": 1})),
        ("S1 S10: two open commands of db make primaries", record(2, &[a.clone(), b])),
        (
            "S1 S40: a member of db has two open commands",
            record(2, &[intent("place-2", "db-0", 2), intent("stop-3", "db-0", 2)]),
        ),
        ("S50: the intent seed-1-a has another target now", record(2, &[moved])),
        ("limits: the history of db has 65 entries", json!({"term": 2, "counter": 2, "history": long})),
    ] {
        let world = two(STOPPED, record(2, std::slice::from_ref(&a)));
        assert_eq!(broken(&world), [""; 0]);
        write(&world, next);
        assert_eq!(broken(&world), [text]);
    }
    let world = two(STOPPED, json!({"term": 1, "counter": 8, "usedOverride": wide}));
    assert!(broken(&world)[0].starts_with("limits: the status of db has"));
}

#[tokio::test]
async fn a_command_of_a_paused_group_is_seen() {
    let world = two(STOPPED, record(1, &[intent("seed-1-a", "db-0", 1)]));
    world.lock().groups.get_mut("db").unwrap().spec.paused = true;
    write(&world, record(1, &[intent("seed-1-a", "db-0", 1), intent("place-2-b", "db-1", 1)]));
    assert_eq!(broken(&world), ["S41: place-2-b begins while db is paused"]);
}

#[tokio::test]
async fn a_write_without_its_version_is_seen() {
    let world = two(STOPPED, record(1, &[]));
    let pod = |version: Option<&str>| Fence {
        namespace: "shop".into(),
        name: "db-0".into(),
        uid: "uid of db-0".into(),
        version: version.map(str::to_owned),
    };
    let state = world.lock();
    let harms = |write: &Write| unfenced(&state, write).is_some();
    assert!(harms(&Write::Label { pod: pod(None), role: Some("primary") }));
    assert!(harms(&Write::Gate { pod: pod(None), ready: true, at: 0 }));
    assert!(harms(&Write::Mark { claim: pod(None), notes: BTreeMap::new() }));
    assert!(harms(&Write::Status(Box::new(group("db", 2, 1)))));
    assert!(!harms(&Write::Label { pod: pod(None), role: None }), "it leads clients away");
    assert!(!harms(&Write::Label { pod: pod(Some("7")), role: Some("primary") }));
}

#[tokio::test]
async fn a_forced_apply_without_its_version_is_seen() {
    let world = two(STOPPED, record(1, &[]));
    world.lock().sets.insert("db".into(), Default::default());
    let apply = |name: &str, manifest| Write::Apply {
        namespace: "shop".into(),
        kind: Kind::Set,
        name: name.into(),
        manifest,
        manager: "tanist",
        force: true,
    };
    let harms = |write: &Write| unfenced(&world.lock(), write).is_some();
    assert!(harms(&apply("db", json!({"metadata": {"name": "db"}}))));
    assert!(!harms(&apply("db", json!({"metadata": {"resourceVersion": "7"}}))));
    assert!(!harms(&apply("new", json!({}))));
}

#[tokio::test]
async fn an_object_that_is_taken_from_another_group_is_seen() {
    let world = two(STOPPED, record(1, &[]));
    let living = world.lock().groups["db"].metadata.uid.clone().unwrap();
    let of = |uid: &str| json!({"metadata": {"name": "db", "ownerReferences": [{"apiVersion": "v1", "kind": "G", "name": "db", "uid": uid}]}});
    let apply = |uid: &str| {
        let (namespace, name, manifest) = ("shop".into(), "db".into(), of(uid));
        Write::Apply { namespace, kind: Kind::Set, name, manifest, manager: "tanist", force: true }
    };
    let mut state = world.lock();
    let owned = |uid: &str| serde_json::from_value::<k8s_openapi::api::apps::v1::StatefulSet>(of(uid)).unwrap().into();
    state.sets.insert("db".into(), owned(&living));
    assert!(taken(&state, &apply(&living)).is_none());
    assert_eq!(taken(&state, &apply("old")), Some(format!("StatefulSet db is taken from the group {living} for old")));
    state.sets.insert("db".into(), owned("older"));
    assert!(taken(&state, &apply("old")).is_none(), "its owner is gone");
}

#[tokio::test]
async fn a_write_to_another_object_is_seen() {
    let world = two(STOPPED, record(1, &[]));
    touches(&mut world.lock(), Kind::Pod, "db-0", "uid of db-0");
    assert_eq!(broken(&world), [""; 0]);
    touches(&mut world.lock(), Kind::Pod, "db-0", "an older one");
    assert_eq!(broken(&world), ["S5 S7 S8: a write that means an older one changes uid of db-0"]);
}

#[tokio::test]
async fn the_deletion_of_what_is_well_is_seen() {
    let world = two([Role::Primary, Role::Stopped], record(1, &[]));
    deletes(&mut world.lock(), "db-1");
    ends(&mut world.lock(), "db-0", "c", "place-1-a", 1);
    deletes(&mut world.lock(), "db-0");
    assert_eq!(broken(&world), [""; 0], "one is stopped, and in the other one a command failed");
    ends(&mut world.lock(), "db-0", "c", "place-2-b", 0);
    deletes(&mut world.lock(), "db-0");
    assert_eq!(broken(&world), ["S19: db-0 is deleted, serves as Primary and is well"]);
}

#[tokio::test]
async fn a_command_that_nobody_remembers_is_no_fault_of_who_deletes_at_that_moment() {
    let deleted_after = |seconds, is_lost| {
        let world = two([Role::Primary, Role::Stopped], record(1, &[intent("secondary-1-a", "db-1", 1)]));
        if is_lost {
            world.lock().groups.values_mut().for_each(|group| group.status = None);
            write(&world, record(1, &[]));
        }
        let mut state = world.lock();
        starts(&mut state, "uid of db-1", "secondary-1-a");
        state.machines.get_mut("uid of db-1").into_iter().for_each(|machine| machine.app.role = Role::Secondary);
        state.now += seconds;
        deletes(&mut state, "db-1");
        std::mem::take(&mut state.broken)
    };
    assert_eq!(deleted_after(0, true), [""; 0]);
    let broken = ["S19: db-1 is deleted, serves as Secondary and is well"];
    assert_eq!(deleted_after(2, true), broken, "its role could be read since");
    assert_eq!(deleted_after(0, false), broken, "the record says that the command is open");
}

#[tokio::test]
async fn the_deletion_of_what_goes_with_its_group_is_none() {
    let world = two([Role::Primary, Role::Stopped], record(1, &[]));
    let uid = world.lock().groups["db"].uid().unwrap_or_default();
    let deleted_as_one_of = |owner: &str| {
        let mut state = world.lock();
        let mut pod = Pod::clone(&state.pods["db-0"]);
        pod.metadata.owner_references =
            Some(vec![OwnerReference { uid: owner.to_owned(), ..OwnerReference::default() }]);
        state.pods.insert("db-0".into(), pod.into());
        deletes(&mut state, "db-0");
        std::mem::take(&mut state.broken)
    };
    assert_eq!(deleted_as_one_of("of a former group"), [""; 0]);
    assert_eq!(deleted_as_one_of(&uid), ["S19: db-0 is deleted, serves as Primary and is well"]);
}

#[tokio::test]
async fn a_position_that_cannot_be_read_is_no_failure() {
    let world = two([Role::Primary, Role::Stopped], record(1, &[]));
    ends(&mut world.lock(), "db-0", "c", "sequence-1-a", 1);
    deletes(&mut world.lock(), "db-0");
    assert_eq!(broken(&world), ["S19: db-0 is deleted, serves as Primary and is well"]);
}

#[tokio::test]
async fn a_shrink_that_loses_data_is_seen() {
    let world = two([Role::Primary, Role::Stopped], record(1, &[]));
    let mut state = world.lock();
    state.clients.entry("db".into()).or_default().promised = (1..=3).collect();
    state.disks.insert("claim of db-0".into(), Disk { holds: (1..=2).collect(), ..Disk::default() });
    shrinks(&mut state, "db", 0);
    assert_eq!(state.broken, [""; 0], "all come back");
    shrinks(&mut state, "db", 1);
    assert_eq!(state.broken, ["S25 S27: db shrinks to 1, and who stays lacks 1 acknowledged writes"]);
}

#[tokio::test]
async fn a_command_while_the_api_server_is_away_is_seen() {
    let world = two(STOPPED, record(1, &[]));
    let mut state = world.lock();
    let now = state.now;
    state.faults.away = Some((now - 10, now + 10));
    asks(&mut state, "seed-1-a", true);
    assert_eq!(state.broken, [""; 0], "it stood still");
    asks(&mut state, "seed-1-a", false);
    assert_eq!(state.broken, ["S28: seed-1-a is asked for while the API server is away"]);
}

#[tokio::test]
async fn what_happens_in_a_steady_hour_is_counted() {
    let world = two(STOPPED, record(1, &[]));
    let mut state = world.lock();
    stirs(&mut state, "a role is written");
    state.oracles.rest();
    stirs(&mut state, "a status is written");
    stirs(&mut state, "a status is written");
    assert_eq!(state.oracles.stirred(), BTreeMap::from([("a status is written".to_owned(), 2)]));
}

#[tokio::test]
async fn one_primary_too_many_is_seen_at_once() {
    let world = two([Role::Primary, Role::Primary], record(1, &[]));
    leads(&mut world.lock(), "db");
    assert!(broken(&world)[0].starts_with("S20 S21 S22 S23: 2 primaries"));
}
