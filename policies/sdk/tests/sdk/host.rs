//! What the host would ask: members are barred as in a cluster.

use tanist_policy::{
    Answer, Candidate, Care, Member, Outcome, Phase, Remedy, Role, Snapshot, Treatment,
    testing::{Point, member, snapshot},
};

fn secondary(ordinal: u32) -> Member {
    member(ordinal).role(Role::Secondary)
}

fn eligible(asked: &Snapshot) -> Vec<u32> {
    asked.eligible().map(|member| member.ordinal).collect()
}

// P49: a story is barred as the host bars a group.
#[test]
fn a_seed_bars_members_with_less_data_and_of_older_terms() {
    let story = snapshot([
        member(0).at(4).barred("a bar of the story does not count"),
        member(1).at(9),
        member(2).at(90).in_term(1),
        member(3).at(9),
    ]);
    let asked = story.in_term(2).asked(Point::Seed);
    assert_eq!(eligible(&asked), [1, 3]);
    assert_eq!(asked.bar_of("db-0"), Some("its data (4) is behind the highest known (9)"));
    assert!(asked.bar_of("db-2").unwrap().contains("older term"), "{:?}", asked.bar_of("db-2"));
    assert_eq!((asked.bar_of("db-1"), asked.bar_of("nobody")), (None, None));
    assert_eq!((asked.members[0].term, asked.group.term), (Some(2), 2), "members are of the group's term");
}

#[test]
fn a_group_that_was_never_seeded_has_no_term() {
    let asked = snapshot([member(0).empty(), member(1).empty()]).asked(Point::Seed);
    assert_eq!((eligible(&asked), asked.group.term, asked.members[0].term), (vec![0, 1], 0, None));
}

// P49: a story of a lost primary is barred as the host bars a group.
#[test]
fn a_failover_follows_a_lost_primary() {
    let lost = member(0).phase(Phase::Missing).led_until(5);
    let asked = snapshot([lost, secondary(1).at(9), secondary(2).at(8)]).asked(Point::Failover);
    assert_eq!(eligible(&asked), [1]);
    assert!(asked.bar_of("db-0").unwrap().contains("missing"), "{:?}", asked.bar_of("db-0"));
    assert!(asked.bar_of("db-2").unwrap().contains("behind"), "{:?}", asked.bar_of("db-2"));
    assert_eq!(asked.group.term, 1, "a group that had a primary had a term");
}

#[test]
fn the_other_questions_arise_as_in_a_cluster() {
    let primary = |ordinal| member(ordinal).role(Role::Primary).at(9);
    let join = snapshot([primary(0), member(1).at(9), member(2).at(4)]).primaries(2).asked(Point::Join);
    assert_eq!(eligible(&join), [1, 2]);
    let demote = snapshot([primary(0), primary(1)]).asked(Point::Demote);
    assert_eq!(eligible(&demote), [0, 1]);
    let place = snapshot([primary(0), member(1).at(4)]).asked(Point::Place);
    assert_eq!(eligible(&place), [1]);
    let settled = snapshot([primary(0), secondary(1).at(9), member(2).at(9)]);
    let lead = settled.asked(Point::Switchover);
    assert_eq!((eligible(&lead), lead.bar_of("db-0")), (vec![1], Some("it leads")));
    let settled = snapshot([primary(0), secondary(1).at(9), secondary(2).at(9)]);
    let moves = settled.asked(Point::Rebalance);
    assert_eq!((eligible(&moves), moves.bar_of("db-0")), (vec![1, 2], Some("it leads")));
    let failed = secondary(1).failed("secondary", Outcome::Exited(1), 1);
    let treat = snapshot([primary(0), failed]).asked(Point::Treat);
    assert_eq!(eligible(&treat), [1]);
    let detail = treat.members[1].role_detail.as_deref();
    assert_eq!(detail, Some("secondary failed"));
}

/// What a test gives and the host does not change is still there.
#[test]
fn the_story_is_kept() {
    let story = snapshot([
        member(0).at(9).in_zone("a").labelled("tier", "gold").labelled("rack", "7").with_fact("lag", "3"),
        member(1).at(9),
    ]);
    let story =
        story.preferring("db-1").labelled("size", "small").with_fact("cut", "history").with_parameters("{\"a\":1}");
    let asked = story.asked(Point::Seed);
    let first = &asked.members[0];
    assert_eq!((first.zone.as_deref(), first.label("tier"), first.label("rack")), (Some("a"), Some("gold"), Some("7")));
    assert_eq!((first.fact("lag"), first.fact("tier"), first.label("none")), (Some("3"), None, None));
    assert_eq!((asked.group.label("size"), asked.group.fact("cut")), (Some("small"), Some("history")));
    assert_eq!((asked.group.preferred_primary.as_deref(), asked.parameters.as_str()), (Some("db-1"), "{\"a\":1}"));
    assert_eq!(first.labels, [("rack".to_owned(), "7".to_owned()), ("tier".to_owned(), "gold".to_owned())]);
}

#[test]
fn what_the_host_does_not_ask_is_said() {
    let two = snapshot([member(0).at_history("x", 8), member(1).at_history("y", 9)]);
    assert!(two.ask(Point::Seed).unwrap_err().contains("histor"), "{:?}", two.ask(Point::Seed));
    let running = snapshot([secondary(0).at(9), secondary(1).at(9)]);
    assert_eq!(running.ask(Point::Seed).unwrap_err(), "it asks failover");
    let stopped = snapshot([member(0).role(Role::Primary).at(9), secondary(1).at(9).phase(Phase::Missing)]);
    let why = stopped.ask(Point::Rebalance).unwrap_err();
    assert_eq!(why, "db-1 has no pod that runs", "nobody is asked about a move, and a round says nothing of it");
    let unread = snapshot([member(0).at(9), member(1).unreadable("timeout")]);
    assert!(unread.ask(Point::Seed).unwrap_err().contains("db-1"), "{:?}", unread.ask(Point::Seed));
}

#[test]
#[should_panic(expected = "the host does not ask place about this group: it asks seed")]
fn a_test_about_another_question_panics_with_the_reason() {
    let _ = snapshot([member(0).at(9)]).asked(Point::Place);
}

// P49: what the host would drop fails in a native test.
#[test]
fn an_answer_is_checked_as_the_host_checks_it() {
    let asked = snapshot([member(0).at(4), member(1).at(9)]).asked(Point::Seed);
    let choose = |ordinal: usize| Answer::rank([Candidate::new(&asked.members[ordinal], "because")]);
    assert_eq!(choose(1).check(&asked), Ok(()));
    assert!(choose(0).check(&asked).unwrap_err().contains("behind the highest known"), "{:?}", choose(0).check(&asked));
    assert!(Answer::wait_until(asked.now, "past").check(&asked).is_err());
    assert_eq!(Answer::refuse("no").check(&asked), Ok(()));
    let failed = member(1).role(Role::Failed);
    let asked = snapshot([member(0).role(Role::Primary).at(9), failed]).asked(Point::Treat);
    let treat = |ordinal: usize| Care::Treat(vec![Treatment::new(&asked.members[ordinal], Remedy::Stop, "because")]);
    assert_eq!(treat(1).check(&asked), Ok(()));
    assert!(treat(0).check(&asked).is_err());
}
