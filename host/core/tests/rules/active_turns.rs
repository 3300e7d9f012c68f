//! Turns of active members: a write that was decided in an earlier turn and comes late gives no label (docs/rules.md, "Active/passive"; E24).
use super::super::support::db;
use super::active::{Group, labels};
use tanist_core::check::Rule;
use tanist_core::checked::recheck_turn;
use tanist_core::contract::Role;
use tanist_core::plan::Action;
use tanist_core::record::Record;
use tanist_core::snapshot::Snapshot;

/// Whose turns are remembered.
fn gave_way(group: &Group) -> Vec<&str> {
    group.now.record.gave_way.keys().map(|name| name.as_str()).collect()
}

fn prefer(group: &mut Group, ordinal: u32) {
    group.now.group.preferred_primary = Some(db(ordinal));
}

/// The labels that a round writes.
fn round(group: &mut Group) -> Vec<(String, Option<&'static str>)> {
    labels(&group.round())
}

const OTHER: Option<&str> = Some("secondary");
const ACTIVE: Option<&str> = Some("primary");

// Whose turn ends keeps the label until that is stored, then loses every label, and gets the other one when the next active member has its own. It is ready all the time.
#[test]
fn whose_turn_has_ended_loses_every_label_before_the_next_one_gets_its_own() {
    let mut group = Group::settled();
    prefer(&mut group, 1);
    assert_eq!(round(&mut group), []);
    assert_eq!((gave_way(&group), group.active()), (vec!["db-0"], vec!["db-0"]));
    let plan = group.round();
    assert_eq!(labels(&plan), [("db-0".into(), None)]);
    assert!(matches!(&plan.actions[..], [Action::Route { ready: true, .. }]), "{:?}", plan.actions);
    assert_eq!(round(&mut group), [("db-1".into(), ACTIVE)]);
    assert_eq!(gave_way(&group), ["db-0"], "not before the label of db-1 was seen");
    assert_eq!(round(&mut group), [("db-0".into(), OTHER)]);
    assert_eq!(gave_way(&group), [""; 0]);
    group.play(1);
}

// S19: a probe that could not be asked for a moment takes nobody out of service who gives way.
#[test]
fn a_silent_probe_costs_no_readiness_when_a_turn_ends() {
    let mut group = Group::settled();
    prefer(&mut group, 1);
    group.round();
    group.say(0, Role::Unknown);
    for _ in 0..2 {
        group.round();
        assert_eq!(group.pod(0).gate, Some(true));
    }
    group.say(0, Role::Secondary);
    (0..4).for_each(|_| drop(group.round()));
    assert_eq!(group.active(), ["db-1"]);
    assert_eq!(group.pod(0).routed.as_deref(), OTHER);
}

// A member that failed loses its label at once. That was before the end of its turn was stored, so what it got since goes, too.
#[test]
fn what_a_failed_member_gets_before_that_is_stored_goes_again() {
    let mut group = Group::settled();
    group.say(0, Role::Failed);
    assert_eq!(round(&mut group), [("db-0".into(), None)]);
    // It is well again, and another operator that has an older record gave it the other label, as the first of two steps.
    group.say(0, Role::Secondary);
    group.pod(0).routed = OTHER.map(str::to_owned);
    assert_eq!(round(&mut group), [("db-0".into(), None)]);
    assert_eq!(round(&mut group), [("db-1".into(), ACTIVE)]);
    assert_eq!(round(&mut group), [("db-0".into(), OTHER)]);
    group.play(1);
}

// One that was named and never got the label may still get it by a write that was decided then.
#[test]
fn a_turn_without_a_label_ends_as_any_other() {
    let mut group = Group::new();
    (0..3).for_each(|at| group.say(at, Role::Secondary));
    group.round();
    assert_eq!((group.active(), group.now.record.active.is_some()), (vec![""; 0], true), "db-0 is about to get it");
    group.say(0, Role::Failed);
    assert_eq!((round(&mut group), gave_way(&group)), (vec![("db-0".into(), None)], vec!["db-0"]));
    assert_eq!(round(&mut group), [("db-1".into(), ACTIVE)]);
}

// Turns that end one after the other are all remembered, and one that is active again begins anew.
#[test]
fn every_turn_is_remembered_until_it_is_over() {
    let mut group = Group::settled();
    group.say(0, Role::Failed);
    assert_eq!((round(&mut group), gave_way(&group)), (vec![("db-0".into(), None)], vec!["db-0"]));
    group.say(1, Role::Failed);
    assert_eq!((round(&mut group), gave_way(&group)), (vec![("db-1".into(), None)], vec!["db-0", "db-1"]));
    group.say(0, Role::Secondary);
    group.say(2, Role::Failed);
    let written = vec![("db-2".into(), None), ("db-0".into(), OTHER)];
    assert_eq!((round(&mut group), gave_way(&group)), (written, vec!["db-1", "db-2"]));
    (1..3).for_each(|at| group.say(at, Role::Secondary));
    // They are ready, and have no label yet.
    assert_eq!(round(&mut group), [("db-1".into(), None), ("db-2".into(), None), ("db-0".into(), ACTIVE)]);
    assert_eq!(round(&mut group), [("db-1".into(), OTHER), ("db-2".into(), OTHER)]);
    assert_eq!(gave_way(&group), [""; 0]);
    group.play(1);
}

// A pod that is gone gets no label any more.
#[test]
fn the_turn_of_a_pod_that_is_gone_is_over() {
    let mut group = Group::settled();
    group.say(0, Role::Failed);
    group.round();
    assert_eq!(gave_way(&group), ["db-0"]);
    group.make(0);
    group.round();
    assert_eq!((gave_way(&group), group.active()), (vec![""; 0], vec!["db-1"]));
}

// The second look: the record of the decision, and the pods as they are now.
#[test]
fn the_label_is_given_after_a_second_look() {
    let mut group = Group::settled();
    prefer(&mut group, 1);
    (0..2).for_each(|_| drop(group.round()));
    let decided = group.now.clone();
    let broken = |change: fn(&mut Snapshot)| {
        let mut live = decided.clone();
        change(&mut live);
        recheck_turn(&decided, &live, &db(1), "pod-2").err().map(|violation| violation.rule)
    };
    assert_eq!(broken(|_| {}), None);
    assert_eq!(broken(|s| s.members[1].pod.as_mut().unwrap().uid = "another".into()), Some(Rule::TargetReplaced));
    assert_eq!(broken(|s| s.members[1].reading.role = Role::Failed), Some(Rule::WrongRole));
    assert_eq!(broken(|s| s.members[1].pod.as_mut().unwrap().routed = None), Some(Rule::WrongRole));
    let second = |s: &mut Snapshot| s.members[2].pod.as_mut().unwrap().routed = Some("primary".into());
    assert_eq!(broken(second), Some(Rule::PrimaryLimit));
    let late = |s: &mut Snapshot| s.members[0].pod.as_mut().unwrap().routed = Some("secondary".into());
    assert_eq!(broken(late), Some(Rule::PrimaryLimit), "a label of an earlier turn");
    let stranger = |s: &mut Snapshot| s.strangers = ["db-9".to_owned()].into();
    assert_eq!(broken(stranger), Some(Rule::PrimaryLimit), "of a former group (simulator, seed 32006111)");
    // One that is active again begins anew: what it has of its earlier turn goes first.
    let mut again = decided.clone();
    again.members[0].pod.as_mut().unwrap().routed = Some("secondary".into());
    let active = decided.record.active.clone().map(|mut active| {
        (active.member, active.pod_uid) = (db(0), "pod-1".into());
        active
    });
    again.record = Record { active, ..again.record };
    assert_eq!(recheck_turn(&again, &again, &db(0), "pod-1").err().map(|v| v.rule), Some(Rule::WrongRole));
    again.record.gave_way.clear();
    assert_eq!(recheck_turn(&again, &again, &db(0), "pod-1").err().map(|v| v.rule), None);
}
