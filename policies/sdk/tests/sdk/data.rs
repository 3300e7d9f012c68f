//! The order of data, held against the host's.

use std::cmp::Ordering;

use tanist_core::{contract, data};
use tanist_policy::{
    Data, Sequence, Snapshot,
    testing::{member, snapshot},
};

/// P49: every pair of a few terms, histories and numbers: what the host says is what the SDK says.
#[test]
fn data_is_compared_as_the_host_compares_it() {
    let mut all = Vec::new();
    for term in 0..3 {
        for history in [None, Some("x"), Some("y")] {
            for number in [0, 1, u64::MAX] {
                all.push((term, Sequence { history: history.map(str::to_owned), number }));
            }
        }
    }
    let of_host = |own: &Sequence| contract::Sequence { history: own.history.clone(), number: own.number };
    let mut seen = [0; 4];
    for (term, own) in &all {
        for (other, others) in &all {
            let found =
                Data { term: Some(*term), sequence: own }.partial_cmp(&Data { term: Some(*other), sequence: others });
            assert_eq!(found, data::compare((*term, &of_host(own)), (*other, &of_host(others))), "{own:?} {others:?}");
            seen[found.map_or(3, |order| order as i8 as usize & 3).min(3)] += 1;
        }
    }
    assert!(seen.iter().filter(|count| **count > 0).count() >= 3, "{seen:?}");
}

#[test]
fn a_member_that_was_never_confirmed_is_behind_every_term() {
    let (never, old) = (member(0).at(9), member(1).at(1).in_term(1));
    assert_eq!(never.compare_data(&old), Some(Ordering::Less));
    assert_eq!(never.compare_data(&member(2).at(9)), Some(Ordering::Equal));
}

#[test]
fn what_is_not_known_is_not_compared() {
    for other in [member(1), member(1).empty(), member(1).unreadable("timeout")] {
        assert_eq!(member(0).at(9).compare_data(&other), None);
        assert_eq!(other.compare_data(&other), None);
    }
}

fn most_recent(story: &Snapshot) -> Vec<u32> {
    story.most_recent().into_iter().map(|member| member.ordinal).collect()
}

#[test]
fn the_most_recent_are_those_that_nobody_is_ahead_of() {
    let numbers = snapshot([member(0).at(8), member(1).at(9), member(2).at(9), member(3).at(11).barred("no")]);
    assert_eq!(most_recent(&numbers), [1, 2]);
    let terms = snapshot([member(0).at(8).in_term(2), member(1).at(9).in_term(1), member(2).at(90)]);
    assert_eq!(most_recent(&terms), [0]);
    let unread = snapshot([member(0).unreadable("timeout"), member(1).at(3), member(2).empty()]);
    assert_eq!(most_recent(&unread), [1]);
}

// P49: numbers of two histories are not compared.
#[test]
fn two_histories_of_the_highest_term_have_no_most_recent_data() {
    let at = |ordinal, history, number| member(ordinal).at_history(history, number).in_term(3);
    assert!(most_recent(&snapshot([at(0, "x", 8), at(1, "y", 9)])).is_empty());
    assert!(most_recent(&snapshot([at(0, "x", 8), member(1).at(9).in_term(3)])).is_empty());
    // Those of an older term do not count.
    assert_eq!(most_recent(&snapshot([at(0, "x", 8), at(1, "y", 9).in_term(2)])), [0]);
}

#[test]
fn when_nobody_has_data_all_are_equal() {
    assert_eq!(most_recent(&snapshot([member(0).empty(), member(1).empty().barred("no"), member(2).empty()])), [0, 2]);
    assert!(most_recent(&snapshot([member(0).empty(), member(1)])).is_empty());
    assert!(most_recent(&snapshot([])).is_empty());
}
