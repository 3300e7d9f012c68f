//! `spec.failover.maxBehind`: who may take over with less than the most recent known data, and by how much.
use super::super::support::policies::{Natural, Reversed};
use super::super::support::{db, sequence};
use tanist_core::check::{FailoverOrder, Rule};
use tanist_core::contract::{Failure, Outcome, Position, Role};
use tanist_core::decide::decide;
use tanist_core::examples::Scene;
use tanist_core::record::{Event, Mark, Switchover};
use tanist_core::snapshot::Snapshot;

/// The primary db-0 of term 3 is lost with its pod, db-1 has 95 and db-2 has 100, and both follow; 10 may be lost.
fn lost() -> Snapshot {
    let scene = Scene::new(3).in_term(3).with_data(&["100", "95", "100"]);
    let mut s = scene.with_roles(&[Role::Stopped, Role::Secondary, Role::Secondary]).led(0).gone(0).observed().clone();
    s.group.failover.max_behind = Some(10);
    s
}

/// Why db-1 may not take over. `None`: it may.
fn against(s: &Snapshot) -> Option<(Rule, String)> {
    let order = FailoverOrder::of(s);
    order.group().unwrap();
    order.member(&s.members[1]).err().map(|v| (v.rule, v.message))
}

fn change(s: &mut Snapshot, data: &str) {
    s.members[1].position = Position::Known(sequence(data));
}

// P22: without it nobody below the highest leads.
#[test]
fn it_is_opt_in() {
    let mut s = lost();
    assert_eq!(against(&s), None);
    s.group.failover.max_behind = None;
    assert_eq!(against(&s).map(|(rule, _)| rule), Some(Rule::BelowHighest));
}

// P22: one more is too much, and the reason says how much.
#[test]
fn the_limit_is_the_last_distance_that_is_allowed() {
    let mut s = lost();
    change(&mut s, "90");
    assert_eq!(against(&s), None);
    change(&mut s, "89");
    let why = "its data (89) is 11 below the highest known (100), and spec.failover.maxBehind is 10";
    assert_eq!(against(&s), Some((Rule::BelowHighest, why.into())));
}

// Numbers take the whole range of 64 bits.
#[test]
fn distances_do_not_wrap() {
    let mut s = lost();
    s.record.high_water = None;
    s.group.failover.max_behind = Some(u64::MAX);
    change(&mut s, "0");
    s.members[2].position = Position::Known(sequence(&u64::MAX.to_string()));
    assert_eq!(against(&s), None);
    let order = FailoverOrder::of(&s);
    assert_eq!(order.behind(&s.members[1]).map(|b| b.by), Some(u64::MAX));
    assert_eq!(order.behind(&s.members[2]), None, "it has the highest");
}

// S15, P22: what a member had that cannot be asked any more counts as the members' data does.
#[test]
fn the_high_water_mark_counts() {
    let mut s = lost();
    let mark = |term, number: &str| Some(Mark { term, sequence: sequence(number) });
    s.record.high_water = mark(3, "105");
    assert_eq!(against(&s), None);
    s.record.high_water = mark(3, "106");
    assert!(against(&s).is_some(), "11 below");
    s.record.high_water = mark(2, "5000");
    assert_eq!(against(&s), None, "numbers of an older term say nothing");
    s.record.high_water = mark(4, "95");
    assert_eq!(
        against(&s).map(|(rule, _)| rule),
        Some(Rule::BelowHighest),
        "a later term had more than any number says"
    );
}

// Distances exist within one history only. The high-water mark may be of another one: an administrator decides.
#[test]
fn another_history_is_no_distance() {
    let mut s = lost();
    for (ordinal, data) in [(1, "a:95"), (2, "a:100")] {
        s.members[ordinal].position = Position::Known(sequence(data));
    }
    s.record.high_water = Some(Mark { term: 3, sequence: sequence("a:100") });
    assert_eq!(against(&s), None);
    s.record.high_water = Some(Mark { term: 3, sequence: sequence("b:100") });
    assert!(against(&s).is_some());
    assert_eq!(FailoverOrder::of(&s).behind(&s.members[1]).map(|b| b.by), Some(5), "of what can be compared");
}

// Only a running secondary: a stopped member that is behind synchronises instead.
#[test]
fn a_stopped_member_that_is_behind_does_not_lead() {
    let mut s = lost();
    s.members[1].reading.role = Role::Stopped;
    assert_eq!(against(&s).map(|(rule, _)| rule), Some(Rule::BelowHighest));
}

// A member of an older term lacks what no number counts.
#[test]
fn an_older_term_is_no_distance() {
    let mut s = lost();
    s.record.member_mut(&db(1)).term = Some(2);
    assert_eq!(against(&s).map(|(rule, _)| rule), Some(Rule::OlderTerm));
}

// P22: what may be lost is said: in the decision and in the history.
#[test]
fn a_takeover_says_what_it_may_lose() {
    let s = lost();
    let plan = decide(&s, &Reversed);
    let said = "db-1 leads with 95, 5 below the highest known (100), within spec.failover.maxBehind 10";
    let decision = plan.decisions.iter().find(|d| d.chosen == Some(db(1))).unwrap();
    assert_eq!(decision.reason, format!("{said}; in order"));
    let noted = plan.record.history.iter().find(|t| Event::DataGivenUp.is(&t.what)).unwrap();
    assert_eq!((noted.member.as_ref(), noted.detail.as_deref()), (Some(&db(1)), Some(said)));

    let plan = decide(&s, &Natural);
    assert!(
        plan.decisions.iter().any(|d| d.chosen == Some(db(2)) && d.reason == "in order"),
        "the highest lost nothing"
    );
    assert!(plan.record.history.iter().all(|t| !Event::DataGivenUp.is(&t.what)));
}

// In a switchover who has everything goes first, also while it rests because its stop failed: that is soon over. Whose start failed may never start.
#[test]
fn a_switchover_waits_for_the_rest_after_a_failed_stop() {
    let mut s = lost();
    let (from, to) = (db(2), Some(db(1)));
    let why = "asked for".to_owned();
    s.record.switchover = Some(Switchover {
        from,
        to,
        chosen: None,
        why,
        term: 3,
        floor: None,
        begun: Some(s.now),
        led: None,
        failed: 0,
    });
    let failed = |s: &mut Snapshot, command: &str| {
        let at = s.now;
        let memory = s.record.member_mut(&db(2));
        memory.retry_at = Some(at.saturating_add(10));
        memory.last_failure = Some(Failure { command: command.into(), outcome: Outcome::Exited(1), at });
    };
    failed(&mut s, "stop");
    assert_eq!(against(&s).map(|(rule, _)| rule), Some(Rule::BelowHighest));
    failed(&mut s, "primary");
    assert_eq!(against(&s), None);
}
