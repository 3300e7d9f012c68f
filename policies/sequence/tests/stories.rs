//! The built-in policy as stories. The names cite the rows of the requirements.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

use tanist_policy::{
    Answer, Member, Outcome, Policy, Remedy, Role, Snapshot,
    testing::{member, snapshot},
};
use tanist_policy_sequence::Sequence;

fn seed(story: &Snapshot) -> Answer {
    Sequence::seed(story).unwrap()
}

fn failover(story: &Snapshot) -> Answer {
    Sequence::failover(story).unwrap()
}

fn join(story: &Snapshot) -> Answer {
    Sequence::join(story).unwrap()
}

fn demote(story: &Snapshot) -> Answer {
    Sequence::demote(story).unwrap()
}

fn place(story: &Snapshot) -> Answer {
    Sequence::place(story).unwrap()
}

fn secondary(ordinal: u32) -> Member {
    member(ordinal).role(Role::Secondary)
}

fn primary(ordinal: u32) -> Member {
    member(ordinal).role(Role::Primary)
}

#[test]
fn a7_the_highest_sequence_is_seeded_and_the_lowest_ordinal_among_equals() {
    let story = snapshot([member(0).at(4), member(1).at(9), member(2).at(9)]);
    assert_eq!(seed(&story).chosen(), ["db-1", "db-2"]);
}

#[test]
fn a8_ordinals_are_numbers_not_text() {
    let story = snapshot((0..12).map(|ordinal| member(ordinal).at(5)));
    let expected: Vec<_> = (0..12).map(|ordinal| format!("db-{ordinal}")).collect();
    assert_eq!(seed(&story).chosen(), expected);
    assert_eq!(join(&story).chosen(), expected);
    assert_eq!(place(&story).chosen(), expected);
}

#[test]
fn a6_what_is_not_known_never_beats_a_number() {
    let story = snapshot([member(0).unreadable("timeout"), member(1).at(5), member(2).at(3)]);
    assert_eq!(seed(&story).chosen(), ["db-1"]);
    assert_eq!(seed(&story).says_of("db-0"), Some("data not known: timeout"));
    let nobody_knows = snapshot([member(0).unreadable("timeout"), member(1)]);
    assert!(matches!(seed(&nobody_knows), Answer::Wait(_)));
}

#[test]
fn a10_further_primaries_follow_the_same_order() {
    let story = snapshot([member(0).at(3), member(1).at(7), member(2).at(7), member(3).at(1)]).primaries(3);
    assert_eq!(join(&story).chosen(), ["db-1", "db-2", "db-0", "db-3"]);
}

#[test]
fn a11_a_name_never_beats_a_higher_sequence() {
    let story = snapshot([member(0).at(1), member(1).at(9)]);
    assert_eq!(join(&story).chosen().first(), Some(&"db-1"));
}

#[test]
fn a13_the_lowest_sequence_is_stopped_first() {
    let story = snapshot([primary(0).at(5), primary(1).at(5), primary(2).at(4)]);
    assert_eq!(demote(&story).chosen(), ["db-2", "db-1", "db-0"]);
}

#[test]
fn a14_among_equals_the_highest_ordinal_is_stopped_first() {
    let story = snapshot((0..11).map(|ordinal| primary(ordinal).at(5)));
    assert_eq!(demote(&story).chosen().first(), Some(&"db-10"));
}

#[test]
fn a16_secondaries_are_placed_in_the_same_order() {
    let story = snapshot([
        primary(0).at(9).barred("it serves"),
        primary(1).at(9).barred("it serves"),
        member(2).at(3),
        member(3).at(8),
        member(4).at(3),
    ]);
    assert_eq!(place(&story).chosen(), ["db-3", "db-2", "db-4"]);
}

#[test]
fn a19_a_failed_seed_falls_back_to_equal_data_only() {
    let story = snapshot([member(0).at(9), member(1).at(9), member(2).at(3)]);
    assert_eq!(seed(&story).chosen(), ["db-0", "db-1"]);
    let first_failed =
        snapshot([member(0).at(9).barred("seed failed"), member(1).at(9), member(2).at(3).barred("behind")]);
    assert_eq!(seed(&first_failed).chosen(), ["db-1"]);
}

#[test]
fn a20_lower_data_is_passed_over_with_the_reason() {
    let story = snapshot([member(0).at(12), member(1).at(14), member(2).at(15)]);
    assert_eq!(seed(&story).chosen(), ["db-2"]);
    assert_eq!(seed(&story).says_of("db-0"), Some("12 is behind 15 of db-2"));
    assert_eq!(seed(&story).says_of("db-2"), Some("data 15, more recent than all others"));
}

#[test]
fn a22_a23_joining_falls_through_to_older_data_then_unknown_then_none() {
    let story = snapshot([
        member(0).empty(),
        member(1).unreadable("timeout"),
        member(2).at(1),
        member(3).at(2),
        member(4).empty(),
    ]);
    assert_eq!(join(&story).chosen(), ["db-3", "db-2", "db-1", "db-0", "db-4"]);
    assert_eq!(place(&story).chosen(), join(&story).chosen());
}

#[test]
fn an_older_term_is_older_whatever_its_number() {
    let story = snapshot([member(0).at(100).in_term(3), member(1).at(1).in_term(4), member(2).at(500)]);
    assert_eq!(failover(&story).chosen(), ["db-1"]);
    assert_eq!(
        failover(&story).says_of("db-0"),
        Some("data 100 of term 3 is of an older term than data 1 of term 4 of db-1")
    );
    assert_eq!(join(&story).chosen(), ["db-1", "db-0", "db-2"]);
}

#[test]
fn a_group_without_any_data_begins_with_the_lowest_ordinal() {
    let story = snapshot([member(2).empty(), member(0).empty(), member(1).empty()]);
    assert_eq!(seed(&story).chosen(), ["db-0", "db-1", "db-2"]);
}

#[test]
fn no_data_is_never_seeded_beside_data() {
    let story = snapshot([member(0).empty(), member(1).at(0)]);
    assert_eq!(seed(&story).chosen(), ["db-1"]);
    assert_eq!(seed(&story).says_of("db-0"), Some("no data yet"));
}

#[test]
fn another_history_is_no_fallback() {
    let story = snapshot([member(0).at_history("a", 9), member(1).at_history("b", 9)]);
    assert_eq!(seed(&story).chosen(), ["db-0"]);
    assert_eq!(seed(&story).says_of("db-1"), Some("9 is of another history than db-0 has"));
}

#[test]
fn a_running_secondary_takes_over_before_a_stopped_member_with_the_same_data() {
    let story = snapshot([member(0).at(9), secondary(1).at(9), secondary(2).at(8)]);
    assert_eq!(failover(&story).chosen(), ["db-1", "db-0"]);
    assert_eq!(failover(&story).says_of("db-1"), Some("data 9, as others have; first by role (it is running)"));
    let ordinal_first = story.with_parameters(r#"{"prefer":[],"runningFirst":false}"#);
    assert_eq!(failover(&ordinal_first).chosen(), ["db-0", "db-1"]);
}

#[test]
fn more_recent_data_beats_running() {
    let story = snapshot([member(0).at(10), secondary(1).at(9)]);
    assert_eq!(failover(&story).chosen(), ["db-0"]);
}

#[test]
fn the_preferred_primary_leads_among_equals_only() {
    let story = snapshot([member(0).at(9), member(1).at(9), member(2).at(9), member(3).at(8)]);
    assert_eq!(seed(&story.clone().preferring("db-2")).chosen(), ["db-2", "db-0", "db-1"]);
    assert_eq!(seed(&story.clone().preferring("db-3")).chosen(), ["db-0", "db-1", "db-2"]);
    assert_eq!(join(&story.clone().preferring("db-2")).chosen(), ["db-2", "db-0", "db-1", "db-3"]);
    assert_eq!(demote(&story.clone().preferring("db-2")).chosen(), ["db-3", "db-1", "db-0", "db-2"]);
    assert_eq!(place(&story.preferring("db-2")).chosen(), ["db-0", "db-1", "db-2", "db-3"]);
}

#[test]
fn the_parameters_prefer_after_the_group() {
    let story = snapshot([member(0).at(9), member(1).at(9), member(2).at(9)])
        .preferring("db-1")
        .with_parameters(r#"{"prefer":["db-2","db-1"]}"#);
    assert_eq!(seed(&story).chosen(), ["db-1", "db-2", "db-0"]);
    assert_eq!(seed(&story).says_of("db-1"), Some("data 9, as others have; first by preference"));
}

#[test]
fn barred_members_are_never_chosen_nor_remarked() {
    let story = snapshot([member(0).at(9).barred("terminating"), member(1).at(8)]);
    for answer in [seed(&story), failover(&story), join(&story), demote(&story), place(&story)] {
        assert_eq!(answer.chosen(), ["db-1"]);
        assert_eq!(answer.says_of("db-0"), None);
    }
}

#[test]
fn without_a_member_to_choose_it_waits() {
    let story = snapshot([member(0).barred("marked")]);
    for answer in [seed(&story), failover(&story), join(&story), demote(&story), place(&story)] {
        assert!(matches!(answer, Answer::Wait(_)), "{answer:?}");
    }
}

#[test]
fn a25_the_first_reaction_to_a_failure_is_stop() {
    let story =
        snapshot([member(0).failed("primary", Outcome::Exited(1), 1), member(1).at(1), member(2).role(Role::Failed)]);
    assert_eq!(Sequence::treat(&story).unwrap().remedies(), [("db-0", Remedy::Stop), ("db-2", Remedy::Stop)]);
}

#[test]
fn a26_a27_a_failed_stop_is_followed_by_a_new_pod() {
    let story = snapshot([
        member(0).failed("stop", Outcome::Exited(1), 1),
        member(1).failed("stop", Outcome::Unknown, 2),
        member(2).failed("seed", Outcome::Exited(1), 5),
    ]);
    let expected = [("db-0", Remedy::Recreate), ("db-1", Remedy::Recreate), ("db-2", Remedy::Stop)];
    assert_eq!(Sequence::treat(&story).unwrap().remedies(), expected);
}

#[test]
fn only_failed_members_that_may_be_chosen_are_treated() {
    let story = snapshot([member(0).failed("stop", Outcome::Exited(1), 1).barred("marked"), primary(1)]);
    assert!(Sequence::treat(&story).unwrap().remedies().is_empty());
}

#[test]
fn reasons_are_short_however_long_the_texts_are() {
    let story = snapshot([member(0).unreadable(&"é".repeat(128)), member(1).at(1)]);
    let answer = seed(&story);
    assert!(answer.says_of("db-0").is_some_and(|reason| reason.len() <= 256));
}
