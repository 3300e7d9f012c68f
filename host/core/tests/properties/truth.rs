//! The random tests are worth what their world and their oracle are: writes reach whom they would reach, and the oracle objects to what loses them.
use super::super::rules::checks::intent;
use super::super::support::clients::Clients;
use super::super::support::world::World;
use super::super::support::{db, oracle, sequence};
use std::collections::BTreeSet;
use tanist_core::contract::{Phase, Position, Role};
use tanist_core::record::Verb;
use tanist_core::snapshot::{Override, Snapshot};

/// db-0 leads term 1, all have the same data, and clients begin to write.
fn led(members: u32, lag: i64) -> World {
    let mut world = World::new(members, 1);
    for ordinal in 0..members {
        world.remember(ordinal, 1, "5");
    }
    world.record.member_mut(&db(0)).primary_term = Some(1);
    world.respawn = false;
    world.clients = Some(Clients { lag, ..Clients::default() });
    world.serve(0, Role::Primary);
    world
}

fn follows(world: &mut World, ordinal: u32, leaders: &[u32]) {
    world.body(ordinal).app.turn(Role::Secondary, None, leaders.to_vec());
}

fn later(world: &mut World, seconds: i64) {
    world.now += seconds;
    world.work();
}

fn holds(world: &World, ordinal: u32) -> Vec<u64> {
    world.volumes[&ordinal].holds.iter().copied().collect()
}

fn promised(world: &World) -> Vec<u64> {
    world.clients.as_ref().map(|clients| clients.promised.iter().copied().collect()).unwrap_or_default()
}

// S34: a write reaches a secondary later, only while that is reached, and only from the primary that it follows.
#[test]
fn a_write_reaches_who_follows_its_primary_and_is_reached() {
    let mut world = led(4, 5);
    follows(&mut world, 1, &[0]);
    follows(&mut world, 2, &[3]);
    follows(&mut world, 3, &[0]);
    world.body(3).pod.phase = Phase::Unreachable;
    world.serve_clients(1);
    assert_eq!((promised(&world), holds(&world, 0), holds(&world, 1)), (vec![1], vec![1], vec![]), "it takes time");
    later(&mut world, 5);
    let all = |world: &World| [1, 2, 3].map(|ordinal| holds(world, ordinal));
    assert_eq!(all(&world), [vec![1], vec![], vec![]], "db-2 follows another member, db-3 is not reached");

    world.body(1).pod.phase = Phase::Unreachable;
    world.serve_clients(1);
    later(&mut world, 10);
    assert_eq!(holds(&world, 1), [1], "not while it is not reached");
    world.body(1).pod.phase = Phase::Running;
    later(&mut world, 0);
    later(&mut world, 5);
    assert_eq!(holds(&world, 1), [1, 2]);
}

// S20, S34: a primary whose pod was deleted by force goes on acknowledging writes, on its volume alone.
#[test]
fn a_primary_that_the_api_forgot_writes_on() {
    let mut world = led(2, 0);
    follows(&mut world, 1, &[0]);
    world.serve_clients(1);
    assert_eq!(holds(&world, 1), [1]);
    world.forget(0);
    world.serve_clients(1);
    later(&mut world, 1);
    assert_eq!((promised(&world), holds(&world, 0), holds(&world, 1)), (vec![1, 2], vec![1, 2], vec![1]));
    assert_eq!(world.lacks(1), BTreeSet::from([2]));
    // On a new volume nothing of it is left.
    world.new_volume(0);
    world.serve_clients(1);
    assert_eq!((promised(&world), holds(&world, 0)), (vec![1], vec![]));
}

// S24: with preferRunning a write is acknowledged once the follower has it, and alone where nobody follows.
#[test]
fn a_primary_waits_for_who_follows_it() {
    let mut world = led(2, 5);
    world.group.failover.prefer_running = true;
    follows(&mut world, 1, &[0]);
    world.serve_clients(1);
    assert_eq!((promised(&world), holds(&world, 0)), (vec![], vec![1]));
    later(&mut world, 5);
    assert_eq!((promised(&world), holds(&world, 1)), (vec![1], vec![1]));
    world.serve(1, Role::Stopped);
    world.serve_clients(1);
    assert_eq!((promised(&world), holds(&world, 1)), (vec![1, 2], vec![1]));
}

/// db-0 led and its pod ended; db-1 has all that was acknowledged, db-2 lacks the last write.
fn lost() -> World {
    let mut world = led(3, 0);
    follows(&mut world, 1, &[0]);
    follows(&mut world, 2, &[0]);
    world.serve_clients(1);
    world.serve(2, Role::Stopped);
    world.serve_clients(1);
    follows(&mut world, 2, &[]);
    world.delete(0);
    world
}

/// Why the oracle objects to a takeover by that member.
fn objection(world: &mut World, ordinal: u32, change: impl Fn(&mut Snapshot)) -> Option<String> {
    let mut snapshot = world.observe();
    change(&mut snapshot);
    let intent = intent(&snapshot, Verb::Failover, ordinal);
    oracle::objection(world, &snapshot, &intent).err()
}

// S34, promise 2: the oracle knows what a takeover would lose, and what leads already.
#[test]
fn the_oracle_objects_to_a_takeover_that_loses_a_write() {
    let mut world = lost();
    assert_eq!(objection(&mut world, 1, |_| {}), None);
    let lost = objection(&mut world, 2, |_| {}).unwrap();
    assert!(lost.contains("db-1 holds the write 2, db-2 does not"), "{lost}");
    world.serve(2, Role::Primary);
    assert!(objection(&mut world, 1, |_| {}).unwrap().contains("lead or may lead"));
}

// S14: an override allows it on the member that it names, once, in its term and for the data that it names.
#[test]
fn the_oracle_lets_an_override_lose_once_what_it_names() {
    let mut world = lost();
    let request = |member: u32, term, data: &str| Override {
        member: db(member),
        position: Position::Known(sequence(data)),
        term,
        raw: "o".into(),
    };
    let mut with = |request: Override, used: Option<&str>| {
        objection(&mut world, 2, |s| {
            s.group.requested_override = Some(request.clone());
            s.record.used_override = used.map(str::to_owned);
        })
    };
    assert_eq!(with(request(2, 1, "6"), None), None);
    assert_eq!(with(request(2, 1, "6"), Some("another")), None);
    assert!(with(request(2, 1, "6"), Some("o")).is_some(), "it was used");
    assert!(with(request(1, 1, "6"), None).is_some(), "it names another member");
    assert!(with(request(2, 2, "6"), None).is_some(), "it is of another term");
    assert!(with(request(2, 1, "7"), None).is_some(), "it names other data");
}

// S24: with preferRunning the stopped primary of before may have what was never acknowledged, so a secondary that has as much comes first.
#[test]
fn the_oracle_lets_running_members_lead_first() {
    let mut world = led(2, 0);
    world.group.failover.prefer_running = true;
    follows(&mut world, 1, &[0]);
    world.serve_clients(1);
    world.serve(0, Role::Stopped);
    let stopped = objection(&mut world, 0, |_| {}).unwrap();
    assert!(stopped.contains("db-0 was the primary and is stopped, and db-1 runs"), "{stopped}");
    assert_eq!(objection(&mut world, 1, |_| {}), None);
    // It is one that leads no more, nobody runs beside it, or running members do not come first.
    assert_eq!(objection(&mut world, 0, |s| s.record.member_mut(&db(0)).followed_since = true), None);
    assert_eq!(objection(&mut world, 0, |s| s.group.failover.prefer_running = false), None);
    world.serve(1, Role::Stopped);
    assert_eq!(objection(&mut world, 0, |_| {}), None);
}
