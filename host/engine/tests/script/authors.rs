//! What authors are told of a script beside its answers: which lines ran, and whether two texts say the same.

use super::*;
use tanist_engine::Lines;

fn lines(text: &str, point: Point) -> Lines {
    let question = Question { point, snapshot: three() };
    layer(text).lines(&question).expect("it is asked there").unwrap_or_else(|error| panic!("{error}"))
}

const BRANCHES: &str = r#""""What it does."""

parameters = {
    "type": "object",
}

def most(members):
    """The highest."""
    return max([m.data for m in members])

def is_old(m):
    # Short functions are seen, too, though the interpreter replaces their calls.
    return m.data.number < 5

def seed(s):
    pass
    found = [
        m
        for m in s.eligible()
        if m.data == most(s.members)
    ]
    if is_old(found[0]):
        print("old")
        return None
    elif len(found) == 2:
        return refuse("two")
    for m in found: print(m.name)
    return choose(found)

def failover(s):
    return seed(s)
"#;

// P41: the lines that a question ran, of those that do something; a comment, a text and `pass` do nothing.
#[test]
fn the_lines_that_ran_are_known() {
    let seen = lines(BRANCHES, Point::Seed);
    assert_eq!(seen.statements, [3, 7, 9, 11, 13, 15, 17, 22, 23, 24, 25, 26, 27, 28, 30, 31]);
    assert_eq!(seen.ran, [3, 7, 9, 11, 13, 15, 17, 22, 25, 27, 28, 30]);
    assert_eq!(lines(BRANCHES, Point::Failover).ran.last(), Some(&31));
}

// What ran before a fault ran.
#[test]
fn the_lines_before_a_fault_are_known() {
    let seen = lines("def seed(s):\n    x = 1\n    fail('no')\n    return choose(s.members)\n", Point::Seed);
    assert_eq!((seen.statements, seen.ran), (vec![1, 2, 3, 4], vec![1, 2, 3]));
}

#[test]
fn a_point_that_is_not_asked_has_no_lines() {
    let question = |point| Question { point, snapshot: three() };
    let script = layer("def seed(s):\n    return None\n");
    assert!(script.lines(&question(Point::Join)).is_none());
    // Its lines are known all the same.
    assert_eq!(script.policy.lines().unwrap().unwrap(), Lines { statements: vec![1, 2], ran: vec![] });
    let elsewhere = Layer { points: Some(vec![Point::Join]), ..script };
    assert!(elsewhere.lines(&question(Point::Seed)).is_none());
    let engine = tanist_engine::Engine::new(Limits::default().unhurried()).unwrap();
    let component = Policy::load(&engine, "", &built("prefer")).unwrap();
    let parameters = component.validate(r#"{"member": "db-1"}"#).unwrap();
    let component = Layer { policy: Arc::new(component), points: None, parameters };
    assert!(component.lines(&question(Point::Seed)).is_none() && component.policy.lines().is_none());
}

// Watching changes nothing of what is asked: the next question is a new instance.
#[test]
fn watching_changes_no_answer() {
    let (script, question) = (layer(BRANCHES), Question { point: Point::Seed, snapshot: three() });
    let before = script.ask(&question).unwrap();
    script.lines(&question).unwrap().unwrap();
    let after = script.ask(&question).unwrap();
    assert_eq!((&after.reply, after.fuel, &after.notes), (&before.reply, before.fuel, &before.notes));
}

#[test]
fn the_meaning_of_a_text_is_without_its_form() {
    let meaning = |text: &str| INTERPRETER.meaning("mine.star", text).unwrap_or_else(|error| panic!("{error}"));
    let one = meaning("def seed(s):\n    return choose([m for m in s.members], 'a  b')  # why\n");
    assert_eq!(one, meaning("\n\ndef seed( s ):\n  return choose([\n m for m in s.members ],\n\n  \"a  b\")\n"));
    for other in ["'a b'", "'a  b', None", "'a  b' if s else 1", "'a  b' + ('c' + 'd')", "('a  b' + 'c') + 'd'"] {
        assert_ne!(
            one,
            meaning(&format!("def seed(s):\n    return choose([m for m in s.members], {other})\n")),
            "{other}"
        );
    }
    assert_ne!(meaning("x = a - (b - c)\n"), meaning("x = a - b - c\n"));
    assert_ne!(meaning("if a:\n    b()\nc()\n"), meaning("if a:\n    b()\n    c()\n"));
    let error = INTERPRETER.meaning("mine.star", "x = 1\ny = = 2\n").unwrap_err();
    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(format!("{error} {cause}").contains("mine.star:2:5"), "{error} {cause}");
}
