//! The target of the latest seed or takeover, which nobody confirmed and which is no member now: its volume may have what nobody else has (docs/rules.md, "Order of data"; docs/safety.md, S15, S18).
use super::super::support::app::Data;
use super::super::support::policies::Natural;
use super::super::support::world::World;
use super::super::support::{db, sequence};
use super::checks::{against, stopped};
use tanist_core::check::{FailoverOrder, Rule};
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
