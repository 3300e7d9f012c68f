//! Scripts, asked as the operator asks them: the built interpreter runs them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

#[path = "../common/mod.rs"]
mod common;

mod authors;
mod bad;
mod exam;
mod form;
mod given;
mod prepared;
mod speed;

use std::sync::{Arc, LazyLock};

use common::{built, member, snapshot};
use tanist_core::{
    contract::{Answer, Care, Remedy, Role, Snapshot},
    policy::{Answered, Point, Policies, Question, Reply, Unanswered},
};
use tanist_engine::{Interpreter, Layer, Limits, LoadError, Policy, Stack};

/// The operator's allocator, which the cost of an instance depends on.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compiling it takes seconds, so all tests share it.
static INTERPRETER: LazyLock<Interpreter> = LazyLock::new(|| {
    Interpreter::load(Limits::default().unhurried(), &built("starlark")).expect("the interpreter is sound")
});

fn load(text: &str) -> Result<Policy, LoadError> {
    Policy::script(&INTERPRETER, "configmap/rules/mine.star", text)
}

/// Why a script is not loaded, with the sources of the error.
fn refusal(text: &str) -> String {
    let error = load(text).expect_err("this script must be refused");
    let mut said = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(error) = source {
        said = format!("{said}: {error}");
        source = error.source();
    }
    said
}

fn layer(text: &str) -> Layer {
    let policy = load(text).unwrap_or_else(|error| panic!("{error}"));
    let parameters = policy.validate("{}").unwrap();
    Layer { policy: Arc::new(policy), points: None, parameters }
}

#[expect(clippy::result_large_err, reason = "as the trait has it")]
fn ask_with(text: &str, parameters: &str, point: Point, snapshot: Snapshot) -> Result<Answered, Unanswered> {
    let policy = load(text).unwrap_or_else(|error| panic!("{error}"));
    let parameters = policy.validate(parameters).unwrap();
    Stack::new(vec![Layer { policy: Arc::new(policy), points: None, parameters }]).ask(&Question { point, snapshot })
}

#[expect(clippy::result_large_err, reason = "as the trait has it")]
fn ask(text: &str, point: Point, snapshot: Snapshot) -> Result<Answered, Unanswered> {
    ask_with(text, "{}", point, snapshot)
}

/// Three members; the second has the most recent data.
fn three() -> Snapshot {
    snapshot(vec![member(0, 4), member(1, 9), member(2, 8)])
}

/// Why a script that was loaded does not answer `seed`.
fn failure(text: &str) -> String {
    ask(text, Point::Seed, three()).expect_err("this script must fail").message
}

/// The text that a script refuses with: what it computed.
fn computed(expression: &str, story: Snapshot) -> String {
    match ask(&format!("def seed(s):\n    return refuse(str({expression}))\n"), Point::Seed, story) {
        Ok(Answered { reply: Reply::Answer(Answer::Refuse(text)), .. }) => text,
        other => panic!("{expression}: {other:?}"),
    }
}

fn names(answered: Answered) -> Vec<String> {
    match answered.reply {
        Reply::Answer(Answer::Choose(ranking)) => ranking.candidates.into_iter().map(|each| each.member.0).collect(),
        other => panic!("{other:?}"),
    }
}

// P29: what a script returns at each point becomes an answer of the contract.
#[test]
fn a_script_answers_every_point() {
    let text = "def best(s): return choose(sorted(s.eligible(), key = lambda m: m.data, reverse = True), 'by data')\n\
                seed = best\nfailover = best\njoin = best\ndemote = best\nplace = best\nswitchover = best\nrebalance = best\nupdate = best\njudge = best\nadmit = best\norder = best\n\
                def treat(s): return choose([recreate(m, 'it failed') for m in s.members if m.role == 'failed'])\n";
    for point in Point::ALL.into_iter().filter(|point| *point != Point::Treat) {
        assert_eq!(names(ask(text, point, three()).unwrap()), ["db-1", "db-2", "db-0"], "{point}");
    }
    let mut story = three();
    story.members[2].role = Role::Failed;
    match ask(text, Point::Treat, story).unwrap().reply {
        Reply::Care(Care::Treat(list)) => {
            let list: Vec<_> =
                list.iter().map(|each| (each.member.0.as_str(), each.remedy, each.reason.as_str())).collect();
            assert_eq!(list, [("db-2", Remedy::Recreate, "it failed")]);
        }
        other => panic!("{other:?}"),
    }
}

// P29: reasons of members, and of those that are passed over.
#[test]
fn a_script_gives_reasons_and_sources_and_passes_over() {
    let text = "def join(s):\n    a, b, c = s.members\n    \
                return choose([(b, 'most recent'), (c, 'next', a)], passed_over = [(a, 'too old')])\n";
    let Reply::Answer(Answer::Choose(ranking)) = ask(text, Point::Join, three()).unwrap().reply else { panic!() };
    let candidates: Vec<_> = ranking
        .candidates
        .iter()
        .map(|each| (each.reason.as_str(), each.source.as_ref().map(|name| name.0.as_str())))
        .collect();
    assert_eq!(candidates, [("most recent", None), ("next", Some("db-0"))]);
    assert_eq!((ranking.passed_over[0].member.0.as_str(), ranking.passed_over[0].reason.as_str()), ("db-0", "too old"));
}

// P29: with a time and without.
#[test]
fn a_script_waits_and_refuses() {
    let text = "def seed(s): return wait('the disk is slow', until = s.now + 30)\ndef join(s): return refuse('not on Sundays')\n\
                def place(s): return wait('for a change')\n";
    let reply = |point| ask(text, point, three()).unwrap().reply;
    let Reply::Answer(Answer::Wait(delay)) = reply(Point::Seed) else { panic!() };
    assert_eq!((delay.reason.as_str(), delay.until), ("the disk is slow", Some(1_030)));
    assert_eq!(reply(Point::Join), Reply::Answer(Answer::Refuse("not on Sundays".to_owned())));
    let Reply::Answer(Answer::Wait(delay)) = reply(Point::Place) else { panic!() };
    assert_eq!(delay.until, None);
}

// P13, P29: no function, or no answer.
#[test]
fn what_a_script_does_not_define_or_return_falls_to_the_next_policy() {
    let text = "def seed(s):\n    if len(s.members) > 5: return choose(s.members)\n";
    let policy = load(text).unwrap();
    assert_eq!(policy.points().collect::<Vec<_>>(), [Point::Seed]);
    assert_eq!(ask(text, Point::Seed, three()).unwrap_err().kind, "abstained-all");
    assert_eq!(ask(text, Point::Join, three()).unwrap_err().kind, "no-policy");
}

// P31: promise of the engine: an answer is a function of policy, parameters and snapshot.
#[test]
fn equal_questions_get_equal_answers_and_nothing_is_remembered() {
    let text = "seen = []\ndef seed(s):\n    return refuse('%d %s' % (len(seen), {m.name: hash(m.name) for m in s.members}))\n";
    let first = ask(text, Point::Seed, three()).unwrap();
    for _ in 0..3 {
        let again = ask(text, Point::Seed, three()).unwrap();
        assert_eq!((&again.reply, again.fuel), (&first.reply, first.fuel));
    }
}

#[test]
fn the_example_prefers_a_zone_among_the_most_recent() {
    let text = include_str!("../../../../examples/policies/zone.star");
    let zoned = |ordinal, number, zone: &str| tanist_core::contract::Member {
        zone: Some(zone.to_owned()),
        ..member(ordinal, number)
    };
    let asked = |zone: &str, third| {
        let story = snapshot(vec![zoned(0, 9, "a"), zoned(1, 9, "b"), zoned(2, third, "b")]);
        ask_with(text, &format!(r#"{{"zone":"{zone}"}}"#), Point::Failover, story)
            .map(names)
            .map_err(|error| error.kind)
    };
    assert_eq!(asked("b", 9).unwrap(), ["db-1", "db-2"]);
    assert_eq!(asked("b", 8).unwrap(), ["db-1"]);
    assert_eq!(asked("a", 8).unwrap(), ["db-0"]);
    // Nobody of that zone has the most recent data: the next policy decides.
    assert_eq!(asked("b", 10).unwrap(), ["db-2"]);
    assert_eq!(asked("c", 9).unwrap_err(), "abstained-all");
    let policy = load(text).unwrap();
    assert_eq!(policy.name().name, "mine");
    assert_eq!(policy.description().summary, "The members of one zone lead whenever their data is the most recent.");
    assert!(policy.validate("{}").is_err());
}
