//! The built policies, asked as the operator asks them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

mod common;

use std::sync::Arc;

use common::{ask, engine, layer, load, member, snapshot};
use tanist_core::{
    contract::{
        Answer, Care, Condition, Failure, Group, Member, Outcome, Phase, Position, Role, Sequence, Snapshot, Transition,
    },
    policy::{Point, Reply},
};
use tanist_engine::{Engine, Layer, Policy, Stack};

fn stack(policies: &[(&Arc<Policy>, &str)]) -> Stack {
    Stack::new(policies.iter().map(|(policy, parameters)| layer(policy, parameters)).collect())
}

fn chosen(stack: &Stack, point: Point, story: &Snapshot) -> Vec<String> {
    match ask(stack, point, story).unwrap().reply {
        Reply::Answer(Answer::Choose(ranking)) => ranking.candidates.into_iter().map(|each| each.member.0).collect(),
        Reply::Care(Care::Treat(treatments)) => {
            treatments.into_iter().map(|each| format!("{} {:?}", each.member, each.remedy)).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn failed(ordinal: u32, command: &str) -> Member {
    let failure = Failure { command: command.to_owned(), outcome: Outcome::Exited(1), at: 900 };
    Member { role: Role::Failed, failures: 1, last_failure: Some(failure), ..member(ordinal, 1) }
}

#[test]
fn the_built_in_policy_answers_every_point() {
    let sequence = stack(&[(&load(&engine(), "sequence"), "{}")]);
    let story = snapshot(vec![member(0, 4), member(1, 9), member(2, 9)]);
    assert_eq!(chosen(&sequence, Point::Seed, &story), ["db-1", "db-2"]);
    assert_eq!(chosen(&sequence, Point::Failover, &story), ["db-1", "db-2"]);
    assert_eq!(chosen(&sequence, Point::Join, &story), ["db-1", "db-2", "db-0"]);
    assert_eq!(chosen(&sequence, Point::Place, &story), ["db-1", "db-2", "db-0"]);
    assert_eq!(chosen(&sequence, Point::Demote, &story), ["db-0", "db-2", "db-1"]);
    let story = snapshot(vec![failed(0, "primary"), failed(1, "stop")]);
    assert_eq!(chosen(&sequence, Point::Treat, &story), ["db-0 Stop", "db-1 Recreate"]);
}

#[test]
fn swapping_the_policy_changes_the_outcome_at_every_point() {
    let engine = engine();
    let sequence = stack(&[(&load(&engine, "sequence"), "{}")]);
    let reversed = stack(&[(&load(&engine, "reversed"), "{}"), (&load(&engine, "sequence"), "{}")]);
    let equal = snapshot(vec![member(0, 9), member(1, 9), member(2, 9)]);
    for point in [Point::Seed, Point::Failover, Point::Join, Point::Demote, Point::Place] {
        assert_ne!(chosen(&sequence, point, &equal).first(), chosen(&reversed, point, &equal).first(), "{point}");
    }
    let ill = snapshot(vec![failed(0, "primary")]);
    assert_ne!(chosen(&sequence, Point::Treat, &ill), chosen(&reversed, Point::Treat, &ill));
}

// P13: what one policy does not answer, the next one answers.
#[test]
fn the_first_that_does_not_abstain_answers() {
    let engine = engine();
    let (prefer, sequence) = (load(&engine, "prefer"), load(&engine, "sequence"));
    let both = stack(&[(&prefer, r#"{"member":"db-2"}"#), (&sequence, "{}")]);
    let story = snapshot(vec![member(0, 9), member(1, 9), member(2, 9)]);
    let answered = ask(&both, Point::Seed, &story).unwrap();
    assert_eq!(
        (answered.policy.name.as_str(), chosen(&both, Point::Seed, &story)),
        ("prefer", vec!["db-2".to_owned()])
    );
    // It has no opinion about joining, nor about a member that is behind.
    assert_eq!(ask(&both, Point::Join, &story).unwrap().policy.name, "sequence");
    let behind = snapshot(vec![member(0, 9), member(1, 9), member(2, 8)]);
    assert_eq!(ask(&both, Point::Seed, &behind).unwrap().policy.name, "sequence");
}

// P13: `points` limits what a policy is asked.
#[test]
fn a_policy_is_asked_only_at_the_points_it_is_given() {
    let engine = engine();
    let (reversed, sequence) = (load(&engine, "reversed"), load(&engine, "sequence"));
    let only_join = Layer { points: Some(vec![Point::Join]), ..layer(&reversed, "{}") };
    let stack = Stack::new(vec![only_join, layer(&sequence, "{}")]);
    let story = snapshot(vec![member(0, 9), member(1, 9)]);
    assert_eq!(ask(&stack, Point::Join, &story).unwrap().policy.name, "reversed");
    assert_eq!(ask(&stack, Point::Seed, &story).unwrap().policy.name, "sequence");
}

// P16: parameters are of one policy of the stack.
#[test]
fn each_policy_is_given_its_own_parameters() {
    let engine = engine();
    let sequence = load(&engine, "sequence");
    let story = snapshot(vec![member(0, 9), member(1, 9), member(2, 9)]);
    let preferring = stack(&[(&sequence, r#"{"prefer":["db-2","db-1"]}"#)]);
    assert_eq!(chosen(&preferring, Point::Seed, &story), ["db-2", "db-1", "db-0"]);
    // What the question says about parameters does not reach it.
    let story = Snapshot { parameters: r#"{"prefer":["db-1"]}"#.to_owned(), ..story };
    assert_eq!(chosen(&preferring, Point::Seed, &story), ["db-2", "db-1", "db-0"]);
}

#[test]
fn every_field_of_the_snapshot_arrives() {
    let story = Snapshot {
        now: -5,
        group: Group {
            name: "g".to_owned(),
            namespace: "ns".to_owned(),
            replicas: 5,
            primaries: 2,
            has_secondaries: true,
            term: u64::MAX,
            preferred_primary: Some("db-1".into()),
            high_water: Some(Sequence { history: Some("h".to_owned()), number: u64::MAX }),
            labels: vec![("a".to_owned(), "1".to_owned())],
            facts: vec![("cut".to_owned(), "é".to_owned())],
        },
        members: vec![
            Member {
                name: "db-1".into(),
                ordinal: 1,
                phase: Phase::Unreachable,
                phase_since: 1,
                ready: true,
                role: Role::Failed,
                role_since: 2,
                role_detail: Some("why".to_owned()),
                last_primary: Some(3),
                term: Some(4),
                position: Position::Unknown("no".to_owned()),
                node: Some("n1".to_owned()),
                zone: Some("z1".to_owned()),
                failures: 7,
                last_failure: Some(Failure { command: "stop".to_owned(), outcome: Outcome::Exited(-1), at: 6 }),
                marked: Some(8),
                conditions: vec![Condition { name: "c".to_owned(), since: 9, detail: Some("d".to_owned()) }],
                labels: vec![("l".to_owned(), "v".to_owned())],
                facts: vec![("f".to_owned(), "w".to_owned())],
                barred: Some("b".to_owned()),
            },
            Member { position: Position::NotAsked, ..member(2, 0) },
        ],
        history: vec![Transition { at: 10, what: "pod-deleted".to_owned(), member: Some("db-2".into()), detail: None }],
        parameters: "{}".to_owned(),
    };
    let echo = stack(&[(&load(&engine(), "hostile"), r#"{"do":"echo"}"#)]);
    let Reply::Answer(Answer::Choose(ranking)) = ask(&echo, Point::Failover, &story).unwrap().reply else { panic!() };
    let candidates: Vec<_> = ranking
        .candidates
        .into_iter()
        .map(|each| (each.member.0, each.reason, each.source.map(|source| source.0)))
        .collect();
    assert_eq!(
        candidates,
        [("db-1".to_owned(), "1".to_owned(), Some("n1".to_owned())), ("db-2".to_owned(), "2".to_owned(), None)]
    );
    let lines: Vec<_> = ranking.passed_over.into_iter().map(|remark| remark.reason).collect();
    assert_eq!(
        lines,
        [
            r#"-5 1 {"do":"echo","times":0}"#,
            "g ns 5 2 true",
            r#"18446744073709551615 Some("db-1") Some(Sequence { history: Some("h"), number: 18446744073709551615 })"#,
            r#"[("a", "1")] [("cut", "é")]"#,
            r#"Transition { at: 10, what: "pod-deleted", member: Some("db-2"), detail: None }"#,
            "Phase::Unreachable 1 true Role::Failed",
            r#"2 Some("why") Some(3) Some(4)"#,
            r#"Position::Unknown("no")"#,
            r#"Some("n1") Some("z1") 7 Some(Failure { command: "stop", outcome: Outcome::Exited(-1), at: 6 })"#,
            r#"Some(8) [Condition { name: "c", since: 9, detail: Some("d") }] Some("b")"#,
            r#"[("l", "v")] [("f", "w")]"#,
            "Phase::Running 100 false Role::Stopped",
            "200 None None None",
            "Position::NotAsked",
            "None None 0 None",
            "None [] None",
            "[] []",
        ]
    );
}

#[test]
fn every_word_of_the_enums_arrives() {
    let echo = stack(&[(&load(&engine(), "hostile"), r#"{"do":"echo"}"#)]);
    let line = |member: Member, index: usize| {
        let Reply::Answer(Answer::Choose(ranking)) = ask(&echo, Point::Seed, &snapshot(vec![member])).unwrap().reply
        else {
            panic!()
        };
        ranking.passed_over[4 + index].reason.clone()
    };
    for phase in [Phase::Missing, Phase::Pending, Phase::Running, Phase::Terminating, Phase::Ended, Phase::Unreachable]
    {
        assert!(line(Member { phase, ..member(0, 1) }, 0).starts_with(&format!("Phase::{phase:?} ")));
    }
    for role in [Role::Unknown, Role::Stopped, Role::Starting, Role::Secondary, Role::Primary, Role::Failed] {
        assert!(line(Member { role, ..member(0, 1) }, 0).ends_with(&format!(" Role::{role:?}")));
    }
    for position in [Position::Empty, Position::NotAsked] {
        assert_eq!(line(Member { position: position.clone(), ..member(0, 1) }, 2), format!("Position::{position:?}"));
    }
    for outcome in [Outcome::NotStarted, Outcome::Unknown] {
        let last_failure = Some(Failure { command: "x".to_owned(), outcome, at: 1 });
        let text = line(Member { last_failure, ..member(0, 1) }, 3);
        assert!(text.contains(&format!("outcome: Outcome::{outcome:?}")), "{text}");
    }
}

#[test]
fn a_thousand_members_fit_into_the_limits() {
    let sequence = stack(&[(&load(&engine(), "sequence"), "{}")]);
    let pairs: Vec<_> = (0..32).map(|index| (format!("key-{index}"), "v".repeat(30))).collect();
    let members =
        (0..1_000).map(|ordinal| Member { labels: pairs.clone(), facts: pairs.clone(), ..member(ordinal, 1) });
    let story = snapshot(members.collect());
    let order = chosen(&sequence, Point::Seed, &story);
    assert_eq!(order.len(), 1_000);
    assert_eq!((order[2].as_str(), order[10].as_str()), ("db-2", "db-10"));
}

#[test]
fn policies_can_be_asked_from_many_threads() {
    let engine: Engine = engine();
    let sequence = stack(&[(&load(&engine, "sequence"), "{}")]);
    let story = snapshot(vec![member(0, 4), member(1, 9)]);
    let expected = ask(&sequence, Point::Seed, &story).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(ask(&sequence, Point::Seed, &story).unwrap(), expected));
        }
    });
}
