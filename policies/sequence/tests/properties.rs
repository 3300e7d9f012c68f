//! The built-in policy, held against oracles that know nothing of how it sorts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

use std::collections::BTreeSet;

use proptest::prelude::*;
use tanist_policy::{
    Answer, Member, Policy, Position, Role, Sequence as Data, Snapshot,
    testing::{member, snapshot},
};
use tanist_policy_sequence::Sequence;

fn members() -> impl Strategy<Value = Vec<Member>> {
    let data = prop_oneof![
        5 => (0_u64..4).prop_map(|number| Position::Known(Data { history: None, number })),
        1 => Just(Position::Empty),
        1 => Just(Position::Unknown("timeout".to_owned())),
        1 => Just(Position::NotAsked),
    ];
    let role = prop_oneof![Just(Role::Stopped), Just(Role::Secondary)];
    let barred = prop::option::weighted(0.2, Just("no".to_owned()));
    let each = (data, prop::option::of(1_u64..3), role, barred);
    prop::collection::vec(each, 1..15).prop_map(|all| {
        let numbered = (0..).zip(all);
        let build = numbered.map(|(ordinal, (position, term, role, barred))| Member {
            position,
            term,
            barred,
            ..member(ordinal).role(role)
        });
        build.collect()
    })
}

fn stories() -> impl Strategy<Value = Snapshot> {
    let preferred = prop::option::of(0_u32..15);
    (members(), preferred, any::<bool>()).prop_map(|(members, preferred, running_first)| {
        let story =
            snapshot(members).with_parameters(&format!(r#"{{"prefer":["db-3"],"runningFirst":{running_first}}}"#));
        match preferred {
            Some(ordinal) => story.preferring(&format!("db-{ordinal}")),
            None => story,
        }
    })
}

type Ask = fn(&Snapshot) -> Result<Answer, tanist_policy::Fault>;

const ALL: [Ask; 5] = [Sequence::seed, Sequence::failover, Sequence::join, Sequence::demote, Sequence::place];

/// Oracle: whether the data of one member is more recent, by the words of the contract.
fn fresher(left: &Member, right: &Member) -> bool {
    match (&left.position, &right.position) {
        (Position::Known(one), Position::Known(two)) if left.term == right.term => one.number > two.number,
        (Position::Known(_), Position::Known(_)) => left.term > right.term,
        (Position::Known(_), _) => true,
        (Position::Unknown(_) | Position::NotAsked, Position::Empty) => true,
        _ => false,
    }
}

fn find<'a>(story: &'a Snapshot, name: &str) -> &'a Member {
    story.members.iter().find(|member| member.name == name).unwrap()
}

proptest! {
    #[test]
    fn the_order_of_members_does_not_matter(story in stories(), shuffle in any::<prop::sample::Index>()) {
        let mut other = story.clone();
        let middle = shuffle.index(other.members.len());
        other.members.rotate_left(middle);
        other.members[..middle].reverse();
        for ask in ALL {
            prop_assert_eq!(ask(&story).unwrap(), ask(&other).unwrap());
        }
    }

    #[test]
    fn answers_name_each_eligible_member_at_most_once(story in stories()) {
        let eligible: BTreeSet<_> = story.eligible().map(|member| member.name.as_str()).collect();
        for ask in ALL {
            let answer = ask(&story).unwrap();
            let chosen = answer.chosen();
            let unique: BTreeSet<_> = chosen.iter().copied().collect();
            prop_assert_eq!(unique.len(), chosen.len());
            prop_assert!(unique.is_subset(&eligible));
            if let Answer::Choose(ranking) = &answer {
                prop_assert_eq!(ranking.candidates.len() + ranking.passed_over.len(), eligible.len());
            }
        }
    }

    /// A20: no member with less than the highest position leads.
    #[test]
    fn nobody_behind_is_seeded_or_promoted(story in stories()) {
        for ask in [Sequence::seed as Ask, Sequence::failover] {
            let answer = ask(&story).unwrap();
            for name in answer.chosen() {
                let chosen = find(&story, name);
                prop_assert!(!story.eligible().any(|other| fresher(other, chosen)), "{name}");
            }
        }
    }

    #[test]
    fn joining_and_placing_never_put_older_data_first(story in stories()) {
        for ask in [Sequence::join as Ask, Sequence::place] {
            let answer = ask(&story).unwrap();
            let chosen = answer.chosen();
            prop_assert_eq!(chosen.len(), story.eligible().count());
            for pair in chosen.windows(2) {
                prop_assert!(!fresher(find(&story, pair[1]), find(&story, pair[0])));
            }
        }
    }

    #[test]
    fn demotion_is_joining_backwards(story in stories()) {
        let (joining, demotion) = (Sequence::join(&story).unwrap(), Sequence::demote(&story).unwrap());
        let backwards: Vec<_> = joining.chosen().into_iter().rev().collect();
        prop_assert_eq!(demotion.chosen(), backwards);
    }

    /// A8, A14: without preferences, equal members are ordered by ordinal.
    #[test]
    fn equal_members_go_by_number(count in 1_u32..40, number in any::<u64>()) {
        let story = snapshot((0..count).map(|ordinal| member(ordinal).at(number)));
        let expected: Vec<_> = (0..count).map(|ordinal| format!("db-{ordinal}")).collect();
        for ask in [Sequence::seed as Ask, Sequence::failover, Sequence::join, Sequence::place] {
            let answer = ask(&story).unwrap();
            prop_assert_eq!(answer.chosen(), expected.clone());
        }
    }

    /// Whoever is taken away, the others keep their order: the order is total and looks at no third member.
    #[test]
    fn the_order_of_two_does_not_depend_on_a_third(story in stories(), gone in any::<prop::sample::Index>()) {
        let whole = Sequence::join(&story).unwrap();
        let mut fewer = story.clone();
        let gone = fewer.members.remove(gone.index(fewer.members.len())).name;
        let expected: Vec<_> = whole.chosen().into_iter().filter(|name| *name != gone).collect();
        let answer = Sequence::join(&fewer).unwrap();
        prop_assert_eq!(answer.chosen(), expected);
    }

    #[test]
    fn reasons_are_short(story in stories()) {
        for ask in ALL {
            if let Answer::Choose(ranking) = ask(&story).unwrap() {
                let chosen = ranking.candidates.iter().map(|candidate| &candidate.reason);
                let passed = ranking.passed_over.iter().map(|remark| &remark.reason);
                prop_assert!(chosen.chain(passed).all(|reason| !reason.is_empty() && reason.len() <= 256));
            }
        }
    }
}
