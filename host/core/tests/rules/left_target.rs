//! The target of the latest seed or takeover, which nobody confirmed and which is no member now: its volume may have what nobody else has (docs/rules.md, "Order of data"; docs/safety.md, S15, S18).
use super::super::support::app::Data;
use super::super::support::policies::Natural;
use super::super::support::world::World;
use super::super::support::{db, sequence};
use super::checks::{against, stopped};
use tanist_core::check::{FailoverOrder, Rule, can_leave_set, shrink_group};
use tanist_core::contract::{Position, Role};
use tanist_core::examples::Scene;
use tanist_core::plan::Reason;
use tanist_core::record::{Seeded, Started, Verb};
use tanist_core::snapshot::{Override, Snapshot};

fn begun(term: u64, target: bool) -> Option<Started> {
    Some(Started { term, target, before: Position::Empty, followed: false, peer_stopped: false })
}

// D27, S15 (simulator, seed 135406442): db-1 was to be the first primary, its container ended, and nobody knows that it led. Then the group went to 0 members and back to one.
#[test]
fn nobody_is_the_first_primary_while_the_one_that_was_to_be_is_no_member() {
    let group = |replicas: u32| {
        let mut world = World::new(replicas, 1);
        world.record.term = 2;
        world.record.ever_seeded = Some(Seeded { member: db(1), confirmed: false });
        world.record.member_mut(&db(1)).started = begun(2, true);
        world
    };
    let mut world = group(1);
    let (_, plan) = world.play(&Natural, 60);
    assert_eq!(world.started, [""; 0]);
    let wait = plan.waits.iter().find(|wait| wait.reason == Reason::UnrecordedClaims).unwrap();
    assert_eq!(wait.member, Some(db(1)));
    assert!(wait.message.contains("raise spec.replicas"), "{}", wait.message);
    // It is a member again, and has what it wrote.
    let mut world = group(2);
    world.volumes.get_mut(&1).unwrap().data = Data::Known(sequence("30"));
    world.play(&Natural, 60);
    let seeds: Vec<_> = world.started.iter().filter(|command| command.starts_with("primary")).collect();
    assert_eq!(seeds, ["primary db-1"]);
}

/// The rule that does not hold for a seed of db-0, after db-3 began so.
fn seeds(change: impl FnOnce(&mut Snapshot)) -> Option<Rule> {
    let mut s = stopped().observe();
    change(&mut s);
    against(&s, Verb::Seed, 0)
}

#[test]
fn a_seed_waits_for_the_latest_target_only() {
    let left =
        |term: u64, target: bool| move |s: &mut Snapshot| s.record.member_mut(&db(3)).started = begun(term, target);
    assert_eq!(seeds(left(2, true)), Some(Rule::UnrecordedClaims));
    assert_eq!(seeds(left(2, false)), None, "it was told to follow");
    assert_eq!(seeds(left(1, true)), None, "members are confirmed in its term: so was it");
    let one_later = |s: &mut Snapshot| {
        left(2, true)(s);
        s.record.member_mut(&db(4)).term = Some(3);
    };
    assert_eq!(seeds(one_later), None, "a later one was decided with that in view");
    let chosen = |s: &mut Snapshot| {
        left(2, true)(s);
        let position = Position::Known(sequence("5"));
        s.group.requested_override = Some(Override { member: db(0), position, term: s.record.term, raw: "o".into() });
    };
    assert_eq!(seeds(chosen), None, "an administrator decides");
}

// A StatefulSet would give a member its number again; where the operator makes the pods no number is used twice.
#[test]
fn a_group_keeps_its_stateful_set_meanwhile() {
    let mut s = World::settled(10_000).observe();
    assert_eq!(can_leave_set(&s), Ok(()));
    s.record.member_mut(&db(3)).started = begun(9, true);
    assert!(can_leave_set(&s).unwrap_err().contains("raise spec.replicas"));
    let known = s.record.member_mut(&db(3));
    (known.started, known.term, known.primary_term) = (None, Some(9), Some(9));
    assert!(can_leave_set(&s).unwrap_err().contains("raise spec.replicas"), "it led last");
}

// S15, S26: db-1 was started as one of two primaries, and nobody knows whether it became one. When db-0 ended it may have gone on alone. So what it has is known before its pod goes, and
// nobody leads without it.
#[test]
fn on_the_way_to_zero_a_primary_that_nobody_saw_counts() {
    let joined = |command: &str| {
        let mut world = World::new(2, 2);
        (0..2).for_each(|ordinal| world.remember(ordinal, 1, "5"));
        world.volumes.get_mut(&1).unwrap().data = Data::Known(sequence("9"));
        let known = world.record.member_mut(&db(1));
        (known.started, known.last_command) = (begun(1, false), Some(command.into()));
        world.group.replicas = 0;
        world.round(&Natural);
        world
    };
    let shrinks = |s: &Snapshot| shrink_group(s, 0).err().map(|v| v.rule);
    let mut world = joined("primary");
    let mut s = world.observe();
    assert_eq!(shrinks(&s), None);
    s.members[1].position = Position::Unknown("exited 3".into());
    assert_eq!(shrinks(&s), Some(Rule::PositionUnknown));
    let mut followed = joined("secondary").observe();
    followed.members[1].position = Position::Unknown("exited 3".into());
    assert_eq!(shrinks(&followed), None, "it was told to follow");

    let (_, _) = world.play(&Natural, 60);
    let mark = world.record.high_water.clone().unwrap();
    assert_eq!((mark.term, mark.sequence), (1, sequence("9")));
    let mut back = World::new(1, 2);
    back.volumes.get_mut(&0).unwrap().data = Data::Known(sequence("5"));
    back.record = world.record;
    let (_, plan) = back.play(&Natural, 60);
    let waits: String = plan.waits.iter().map(|wait| wait.message.clone()).collect();
    assert!(waits.contains("db-1 has it, and is not a desired member"), "{waits}");
    assert!(back.started.iter().all(|command| !command.starts_with("primary")), "{:?}", back.started);
}

// A group was made anew for fewer members: the one that led is none of them, and its claim says that it led.
#[test]
fn a_takeover_waits_for_the_last_leader() {
    let scene = Scene::new(3).in_term(3).with_data(&["100", "95", "100"]);
    let roles = [Role::Stopped, Role::Secondary, Role::Secondary];
    let mut s = scene.with_roles(&roles).led(0).gone(0).observed().clone();
    let gone = s.record.member_mut(&db(3));
    (gone.term, gone.primary_term) = (Some(4), Some(4));
    let rule = |s: &Snapshot| FailoverOrder::of(s).group().err().map(|v| v.rule);
    assert_eq!(rule(&s), Some(Rule::UnrecordedClaims));
    s.record.member_mut(&db(3)).primary_term = Some(2);
    assert_eq!(rule(&s), None, "it followed another one since");
}

#[test]
fn a_takeover_waits_for_it_too() {
    let scene = Scene::new(3).in_term(3).with_data(&["100", "95", "100"]);
    let roles = [Role::Stopped, Role::Secondary, Role::Secondary];
    let mut s = scene.with_roles(&roles).led(0).gone(0).observed().clone();
    let rule = |s: &Snapshot| FailoverOrder::of(s).group().err().map(|v| v.rule);
    assert_eq!(rule(&s), None);
    s.record.member_mut(&db(3)).started = begun(4, true);
    assert_eq!(rule(&s), Some(Rule::UnrecordedClaims));
    let plan = tanist_core::decide::decide(&s, &Natural);
    assert!(plan.waits.iter().any(|wait| wait.reason == Reason::UnrecordedClaims), "{:?}", plan.waits);
}
