//! The example questions: each is what a round asks, barred by the host's rules.
use std::collections::BTreeSet;
use tanist_core::check;
use tanist_core::contract::{
    Answer, Candidate, Care, Phase, Position, Ranking, Remedy, Role, Sequence, Snapshot, Treatment,
};
use tanist_core::examples::{asked, cases, member, snapshot, usual};
use tanist_core::policy::{Point, Question, Reply};

fn of(name: &str, point: Point) -> Question {
    let case = cases().into_iter().find(|case| case.name == name && case.point == point);
    case.and_then(|case| case.question()).unwrap_or_else(|| panic!("there is no {name} at {point}"))
}

fn eligible(snapshot: &Snapshot) -> Vec<u32> {
    snapshot.members.iter().filter(|m| m.barred.is_none()).map(|m| m.ordinal).collect()
}

fn bars(question: &Question, ordinal: usize) -> &str {
    question.snapshot.members[ordinal].barred.as_deref().unwrap_or_default()
}

// P36: each example is what a round asks.
#[test]
fn every_case_asks_its_question_with_a_member_to_choose() {
    let mut named = BTreeSet::new();
    for case in cases() {
        assert!(named.insert((case.name, case.point)), "{} at {} is listed twice", case.name, case.point);
        let question = case.question().unwrap_or_else(|| panic!("{} does not ask {}", case.name, case.point));
        assert_eq!(question.point, case.point);
        assert!(!eligible(&question.snapshot).is_empty(), "{} at {}", case.name, case.point);
        assert!(question.snapshot.members.is_sorted_by_key(|m| m.ordinal));
        // The host accepts that one of them is chosen.
        let member = question.snapshot.members.iter().find(|m| m.barred.is_none()).unwrap().name.clone();
        let reply = match case.point {
            Point::Treat => {
                Reply::Care(Care::Treat(vec![Treatment { member, remedy: Remedy::Stop, reason: String::new() }]))
            }
            _ => Reply::Answer(Answer::Choose(Ranking {
                candidates: vec![Candidate { member, reason: String::new(), source: None }],
                passed_over: Vec::new(),
            })),
        };
        assert_eq!(check::reply(&question, &reply), Ok(()), "{} at {}", case.name, case.point);
    }
    let usual: Vec<_> = cases().iter().filter(|case| case.is_usual()).map(|case| case.point).collect();
    assert_eq!(usual, Point::ALL, "each point has one usual case, and it comes first");
}

// P36: members are barred as in a round.
#[test]
fn the_bars_are_those_of_the_host() {
    let seed = of("restart", Point::Seed);
    assert_eq!(eligible(&seed.snapshot), [0, 2]);
    assert!(bars(&seed, 1).contains("behind the highest known") && bars(&seed, 3).contains("older term"));
    assert!(bars(&seed, 4).contains("next try in"));
    let failover = of("lost-primary", Point::Failover);
    assert_eq!(eligible(&failover.snapshot), [1, 2]);
    assert!(bars(&failover, 0).contains("missing") && bars(&failover, 4).contains("older term"));
    assert_eq!(eligible(&of("more-primaries", Point::Join).snapshot), [1, 2, 3]);
    assert_eq!(eligible(&of("surplus-primaries", Point::Demote).snapshot), [0, 1, 2, 3]);
    assert_eq!(eligible(&of("new-secondary", Point::Place).snapshot), [1, 2, 3]);
    assert_eq!(eligible(&of("failed-members", Point::Treat).snapshot), [1, 2, 3, 4]);
    assert_eq!(eligible(&of("equal-data", Point::Failover).snapshot), [0, 1, 2, 3]);
    for case in cases().iter().filter(|case| case.name == "one-left") {
        assert_eq!(eligible(&case.question().unwrap().snapshot).len(), 1, "{}", case.point);
    }
    let unread = of("unreadable", Point::Place);
    assert_eq!(eligible(&unread.snapshot), [1, 2, 3]);
    assert!(matches!(unread.snapshot.members[1].position, Position::Unknown(_)));
    assert_eq!(unread.snapshot.members[2].position, Position::Empty);
    assert_eq!(eligible(&of("other-history", Point::Place).snapshot), [1, 2, 3]);
    assert_eq!(eligible(&of("secondaries", Point::Join).snapshot), [1, 2, 3]);
}

// P36: 5, 100 and 1,000 members, and texts as long as they may be.
#[test]
fn sizes_are_those_of_the_contract() {
    let sizes = |name: &str| {
        let of_name = cases().into_iter().filter(|case| case.name == name);
        of_name.map(|case| case.question().unwrap().snapshot.members.len()).collect::<BTreeSet<_>>()
    };
    assert_eq!((sizes("hundred-members"), sizes("thousand-members")), (BTreeSet::from([100]), BTreeSet::from([1000])));
    let told = of("everything-told", Point::Treat).snapshot;
    let longest = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    assert_eq!(told.members.iter().map(|m| longest(&m.role_detail)).max(), Some(256));
    assert!(told.members.iter().all(|m| m.labels.len() == 32 && m.facts.len() == 32 && !m.conditions.is_empty()));
    assert!(told.members.iter().all(|m| m.labels.is_sorted() && m.facts.is_sorted() && m.conditions.len() <= 32));
    assert!(told.history.len() == 64 && told.group.labels.is_sorted() && told.group.facts.is_sorted());
    assert!(told.members.iter().all(|m| m.barred.is_some() == m.marked.is_some()), "a marked member is barred");
}

// A round with as many members as a group may have judges each of them: nothing is taken over from a few.
#[test]
fn of_many_members_each_copy_is_barred_as_its_pattern() {
    for point in Point::ALL {
        let (group, patterns) = usual(point);
        let few = group.question(point).unwrap().snapshot.members;
        let many = group.grown(1000, patterns).question(point).unwrap().snapshot;
        assert_eq!(many.members.len(), 1000);
        // Only the member that is watched can be judged.
        let least = if point == Point::Judge { 1 } else { 200 };
        assert!(eligible(&many).len() >= least, "{point}");
        let pattern = |ordinal: u32| {
            let present = u32::try_from(few.len()).unwrap();
            let Some(beyond) = ordinal.checked_sub(present) else { return ordinal };
            patterns[beyond as usize % patterns.len()]
        };
        if matches!(point, Point::Admit | Point::Order) {
            // Of five two come or leave, so of a thousand four hundred do.
            let of_number: Vec<_> = many.members.iter().filter(|m| m.ordinal >= 600).map(|m| m.ordinal).collect();
            assert_eq!(eligible(&many), of_number, "{point}");
            continue;
        }
        for member in &many.members {
            let of = few.iter().find(|m| m.ordinal == pattern(member.ordinal)).unwrap();
            assert_eq!(member.barred, of.barred, "{point}: {} is as {}", member.name, of.name);
        }
    }
}

/// What policies see of a group is enough to ask about it again: the members are barred alike, for the same reasons. The contract does not say how long a
/// member rests after a failure, nor `spec.failover.reads`, with which alone the group with an unreadable member has a failover.
#[test]
fn a_group_as_policies_see_it_is_asked_about_alike() {
    let rests = |bar: &String| bar.contains("next try in") || bar.contains("next one in");
    let bars_of =
        |s: &Snapshot| s.members.iter().map(|m| m.barred.clone().filter(|bar| !rests(bar))).collect::<Vec<_>>();
    for case in cases() {
        let question = case.question().unwrap();
        if question.snapshot.members.len() > 10 || (case.name, case.point) == ("unreadable", Point::Failover) {
            continue;
        }
        let mut story = question.snapshot.clone();
        story.members.iter_mut().for_each(|m| m.barred = Some("of the story".to_owned()));
        let again = asked(case.point, &story).unwrap_or_else(|why| panic!("{} at {}: {why}", case.name, case.point));
        assert_eq!(bars_of(&again.snapshot), bars_of(&question.snapshot), "{} at {}", case.name, case.point);
    }
}

#[test]
fn what_a_story_does_not_say_is_as_in_a_healthy_group() {
    let story = snapshot(vec![member(0, 4), member(1, 9)]);
    let seed = asked(Point::Seed, &story).unwrap();
    assert_eq!((eligible(&seed.snapshot), seed.snapshot.group.term), (vec![1], 1));
    assert_eq!(seed.snapshot.members[0].term, Some(1));
    assert_eq!(asked(Point::Failover, &story).unwrap_err(), "it asks seed");
    let mut fresh = story.clone();
    fresh.members.iter_mut().for_each(|m| m.position = Position::Empty);
    fresh.members[1].facts = vec![("priority".to_owned(), "3".to_owned())];
    let first = asked(Point::Seed, &fresh).unwrap().snapshot;
    assert_eq!((eligible(&first), first.group.term, first.members[0].term), (vec![0, 1], 0, None));
    assert_eq!(first.members[1].facts, fresh.members[1].facts);
}

#[test]
fn what_a_story_remembers_counts() {
    let mut above = snapshot(vec![member(0, 4), member(1, 9)]);
    above.group.high_water = Some(Sequence { history: None, number: 10 });
    let nobody = asked(Point::Seed, &above).unwrap();
    assert_eq!(eligible(&nobody.snapshot), [0; 0], "every member is barred, with its reason");
    assert!(bars(&nobody, 1).contains("10"), "{}", bars(&nobody, 1));
    // A primary that was lost and cannot be read does not hold up its successors; another member that cannot be read does.
    let mut lost = snapshot(vec![member(0, 1), member(1, 9), member(2, 9)]);
    lost.members[0].phase = Phase::Missing;
    lost.members[0].last_primary = Some(lost.now.saturating_sub(5));
    lost.members[1].role = Role::Secondary;
    lost.members[2].role = Role::Secondary;
    assert_eq!(eligible(&asked(Point::Failover, &lost).unwrap().snapshot), [1, 2]);
    lost.members[0].last_primary = None;
    assert!(asked(Point::Failover, &lost).unwrap_err().contains("db-0"), "{:?}", asked(Point::Failover, &lost));
}

/// A primary was made one by a command, so nobody has to be told again to follow it. And where nobody may move, it is said why, though a round says nothing of it.
#[test]
fn a_group_at_rest_is_asked_who_moves_or_says_why_nobody_does() {
    let case = cases().into_iter().find(|case| case.point == Point::Rebalance).unwrap();
    let mut story = case.question().unwrap().snapshot;
    story.members.iter_mut().for_each(|m| m.last_primary = None);
    let asked_about = asked(Point::Rebalance, &story).unwrap();
    assert!(!eligible(&asked_about.snapshot).is_empty());
    story.members.retain(|m| m.role == Role::Primary);
    story.group.replicas = 1;
    let why = asked(Point::Rebalance, &story).unwrap_err();
    assert!(why.contains(story.members[0].name.as_str()), "{why}");
}
