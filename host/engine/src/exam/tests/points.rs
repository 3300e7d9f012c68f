//! An exam for groups that ask a policy at some of its points alone.

use super::*;

/// It misbehaves at `failover` and at `join`, in the same way, and behaves elsewhere.
fn wrong_at_failover() -> Made {
    made(|said| match said.question.point {
        Point::Failover | Point::Join => Ok(Some(choose(said.question, vec!["nobody"]))),
        _ => Ok(Some(good(said.question))),
    })
}

// P38: a policy is refused only for what it does where it may be asked.
#[test]
fn what_is_found_at_a_point_counts_for_groups_that_ask_it_there() {
    let whole = examine(&wrong_at_failover());
    assert_eq!(
        (kinds(&whole), &whole.findings[0].points[..]),
        (vec!["unknown-member"], &[Point::Failover, Point::Join][..])
    );

    let part = whole.at(&[Point::Place, Point::Treat]);
    assert!(part.passed() && part.examined.points == [Point::Place, Point::Treat], "{part}");
    let questions = |points: &[Point]| cases().iter().filter(|case| points.contains(&case.point)).count();
    assert_eq!(part.examined.questions, questions(&[Point::Place, Point::Treat]));
    let said = part.sentence();
    assert!(said.starts_with("passed at place, treat: ") && said.contains("it fails at failover, join"), "{said}");
    assert!(part.examined.usage.iter().all(|usage| matches!(usage.point, Point::Place | Point::Treat)));

    let join = whole.at(&[Point::Join]);
    assert!(!join.passed() && join.findings[0].point == Point::Join, "{join}");
    assert_eq!(join.findings[0].count, questions(&[Point::Join]));
    assert_eq!(whole.at(&Point::ALL), whole, "all of them");

    let seeds = Made { points: vec![Point::Seed], ..made(|said| Ok(Some(good(said.question)))) };
    assert_eq!(
        examine(&seeds).at(&[Point::Join]).sentence(),
        "nothing examined: it has none of the questions that it is asked"
    );
}

// What was left out after a failure is said where that point is asked.
#[test]
fn what_was_left_out_is_said_for_its_point() {
    let fails = |said: &Said<'_>| match said.question.point {
        Point::Join => Err(RunError::Stack),
        _ => Ok(Some(good(said.question))),
    };
    let whole = examine(&made(fails));
    assert_eq!(whole.not_examined, ["the other questions of join, after it failed there"]);
    assert!(whole.at(&[Point::Seed]).not_examined.is_empty());
    assert_eq!(whole.at(&[Point::Join]).not_examined, whole.not_examined);
}

// P38: a word with a point lifts what it names at that point, and nowhere else.
#[test]
fn what_is_declared_for_a_point_is_lifted_there_alone() {
    let lower = |point| {
        but_at(if point == Point::Place { "new-secondary" } else { "more-primaries" }, point, |question| {
            choose(question, vec![sensible(question).last().unwrap().name.as_str()])
        })
    };
    let declared = examine(&declaring("place:chooses-lower-sequence", lower(Point::Place)));
    assert!(declared.passed() && declared.declared[0].kind == "chooses-lower-sequence", "{declared}");
    assert!(declared.not_examined.is_empty(), "the word is known: {declared}");
    let elsewhere = examine(&declaring("place:chooses-lower-sequence", lower(Point::Join)));
    assert_eq!(kinds(&elsewhere), ["chooses-lower-sequence"], "{elsewhere}");
    for word in ["plase:chooses-lower-sequence", "place:chooses-lower", "place:unknown-member", ":waits-without-end"] {
        let exam = examine(&declaring(word, made(|said| Ok(Some(good(said.question))))));
        let said = format!("what it declares as `{word}`, a word that this version does not know");
        assert_eq!(exam.not_examined, [said]);
    }
}
