//! The rest between two members that leave (`spec.scaling.waitBetweenRemovalsSeconds`, B29).
use super::super::support::db;
use super::super::support::policies::Natural;
use super::super::support::world::World;
use super::checks::intent;
use super::membership::agreeing;
use super::resize::relist;
use tanist_core::check::{Rule, demote_member, removals_rest, remove_member, start};
use tanist_core::contract::{Phase, Position, Role};
use tanist_core::examples::Scene;
use tanist_core::limits;
use tanist_core::record::{Event, Record, Verb};
use tanist_core::snapshot::Snapshot;

/// db-2 of three members leaves, and `who` was noted to have left, or stopped, so many seconds ago.
fn after(mut s: Snapshot, event: Event, who: u32, seconds: i64) -> Snapshot {
    (s.group.replicas, s.group.removal_rest) = (2, 60);
    s.group.primaries = s.group.primaries.min(2);
    s.record.note(s.now - seconds, event, Some(&db(who)), None);
    s
}

// B29: 59 s are not 60. What counts is that somebody left: a member that stays may have stopped for many reasons.
#[test]
fn whoever_leaves_waits_after_the_one_before() {
    let rested = |who: u32, seconds: i64, replicas: u32| {
        let mut s = after(World::settled(10_000).observe(), Event::Stopped, who, seconds);
        s.group.replicas = replicas;
        (removals_rest(&s, &db(2)).map_err(|why| why.until), remove_member(&s, &s.members[2]).map_err(|why| why.rule))
    };
    let now = World::settled(10_000).now;
    assert_eq!(rested(3, 60, 2), (Ok(()), Ok(())));
    assert_eq!(rested(3, 59, 2), (Err(Some(now + 1)), Err(Rule::ChangedRecently)));
    assert_eq!(rested(1, 59, 2), (Ok(()), Ok(())), "db-1 stays");
    assert_eq!(rested(3, 59, 0), (Ok(()), Ok(())), "all leave");
    assert_eq!(rested(2, 59, 2), (Ok(()), Ok(())), "it started again by itself");
}

// B29: the rest may last a day, and much may happen in it.
#[test]
fn the_rest_outlives_a_full_history() {
    for end in [Event::Stopped, Event::MemberRemoved] {
        let mut s = after(World::settled(10_000).observe(), end, 3, 50);
        if end == Event::MemberRemoved {
            s.group.commands.membership = agreeing(3).observe().group.commands.membership;
        }
        for ago in (0..49).rev().flat_map(|ago| [ago; 4]) {
            s.record.note(s.now - ago, Event::Stopped, Some(&db(1)), None);
            s.record.note(s.now - ago, Event::CommandFailed, Some(&db(1)), None);
        }
        assert_eq!(s.record.history.len(), limits::HISTORY);
        assert_eq!(removals_rest(&s, &db(2)).map_err(|why| why.until), Err(Some(s.now + 10)), "{end}");
    }
}

// Of the ends only the last few stay: the history goes on.
#[test]
fn ends_do_not_fill_the_history() {
    let mut record = Record::default();
    (0..70).for_each(|at| record.note(i64::from(at), Event::Stopped, Some(&db(at)), None));
    (70..170).for_each(|at| record.note(at, Event::CommandFailed, Some(&db(0)), None));
    let kept: Vec<i64> =
        record.history.iter().filter(|past| Event::Stopped.is(&past.what)).map(|past| past.at).collect();
    assert_eq!((record.history.len(), kept), (limits::HISTORY, (62..70).collect()));
}

// S23: a primary that clients do not reach, or of an older term, is stopped at once: it is primary beside those that serve.
#[test]
fn a_primary_too_many_waits_for_nobody() {
    let demoted = |change: &dyn Fn(&mut Snapshot)| {
        let mut world = World::new(3, 3);
        (0..3).for_each(|ordinal| {
            world.remember(ordinal, 1, "9");
            world.serve(ordinal, Role::Primary);
            world.record.member_mut(&db(ordinal)).primary_term = Some(1);
        });
        world.play(&Natural, 0);
        let mut s = after(world.observe(), Event::Stopped, 3, 1);
        change(&mut s);
        demote_member(&s, &s.serving(), &s.members[2]).map_err(|why| why.rule)
    };
    assert_eq!(demoted(&|_| ()), Err(Rule::ChangedRecently));
    assert_eq!(demoted(&|s| s.record.member_mut(&db(2)).term = Some(0)), Ok(()), "it is of an older term");
    assert_eq!(demoted(&|s| s.members[2].pod.as_mut().unwrap().routed = None), Ok(()), "clients do not reach it");
}

// B29: where members agree somebody left when the application removed it. Whoever was removed is stopped at once, and a repair waits for nobody.
#[test]
fn where_members_agree_the_removal_waits() {
    let s = agreeing(3).observe();
    let remove = |s: &Snapshot, who: u32| {
        let target = Some(db(who));
        start(s, &tanist_core::record::Intent { target, ..intent(s, Verb::MemberRemove, 0) }).err().map(|why| why.rule)
    };
    assert_eq!(remove(&after(s.clone(), Event::MemberRemoved, 3, 60), 2), None);
    assert_eq!(remove(&after(s.clone(), Event::MemberRemoved, 3, 59), 2), Some(Rule::ChangedRecently));
    assert_eq!(remove(&after(s.clone(), Event::Stopped, 3, 59), 2), None, "it was removed before it stopped");

    // What was half added, or is not well, is in the way of the others.
    let mut half = after(s.clone(), Event::MemberRemoved, 3, 1);
    relist(&mut half, Some(false));
    assert_eq!(remove(&half, 2), None);
    let mut ill = after(s.clone(), Event::MemberRemoved, 3, 1);
    ill.members[2].reading.role = Role::Stopped;
    ill.lists.remove(&db(2));
    assert_eq!(remove(&ill, 2), None);

    // In its role it is well, also if one list calls it unhealthy, or its own cannot be had in time.
    let mut slow = after(s.clone(), Event::MemberRemoved, 3, 1);
    slow.lists.remove(&db(2));
    assert_eq!(remove(&slow, 2), Some(Rule::ChangedRecently));
    let mut called = after(s.clone(), Event::MemberRemoved, 3, 1);
    for heard in called.lists.values_mut() {
        heard.list.as_mut().unwrap().entries[2].healthy = false;
    }
    assert_eq!(remove(&called, 2), Some(Rule::ChangedRecently));

    // db-3 was removed after db-2, as one that was half added is: db-2 has left already, so its stop waits for nobody.
    let removed = after(s.clone(), Event::MemberRemoved, 2, 2);
    let mut gone = after(removed, Event::MemberRemoved, 3, 1);
    gone.group.commands.secondary = Some(super::super::support::world::command("secondary"));
    gone.members[2].reading.role = Role::Secondary;
    relist(&mut gone, None);
    gone.record.membership.as_mut().unwrap().members.retain(|listed| listed.member != Some(db(2)));
    assert_eq!(remove_member(&gone, &gone.members[2]).map_err(|why| why.rule), Ok(()));

    let mut lost = after(s, Event::MemberRemoved, 3, 1);
    lost.group.replicas = 3;
    (lost.members[2].reading.role, lost.members[2].position) = (Role::Stopped, Position::Empty);
    assert_eq!(remove(&lost, 2), None);
}

// S20, S23: one that a user labelled as a primary, and that nobody can ask, does not come before the primary that serves: it was never seen to lead (simulator, seed 53005246).
#[test]
fn a_label_alone_makes_no_primary() {
    let group = |noted: bool| {
        let scene = Scene::new(3).in_term(1).with_roles(&[Role::Primary, Role::Stopped, Role::Unknown]);
        let mut s = scene.observed().clone();
        for (member, routed) in [(0, None), (2, Some("primary"))] {
            s.members[member].pod.iter_mut().for_each(|pod| pod.routed = routed.map(str::to_owned));
        }
        s.members[2].pod.iter_mut().for_each(|pod| pod.phase = Phase::Unreachable);
        if noted {
            let last = serde_json::json!({"member": "db-2", "podUid": "pod-2", "container": "db", "containerId": "container-2", "grace": 10});
            s.record.last_primaries.push(serde_json::from_value(last).unwrap());
        }
        s.is_surplus(&s.members[0])
    };
    assert!(!group(false));
    assert!(group(true), "clients may reach it (S19)");
}
