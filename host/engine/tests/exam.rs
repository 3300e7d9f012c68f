//! The built policies, examined as the operator and authors have them examined.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

mod common;

use std::collections::BTreeSet;

use common::{Guest, engine, layer, load, rows::hostile, usage::busy};
use tanist_core::{
    examples::cases,
    policy::{Point, Policies, Question},
};
use tanist_engine::{Exam, ExamLimits, Examined, Policy, Stack, Verdict, exam};

/// The operator's allocator: the C library's own takes most of the time of an exam.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// With all the time that a busy machine may take.
const LIMITS: ExamLimits = ExamLimits::UNHURRIED;

fn examine(policy: &Policy) -> Exam {
    exam(policy, None, &LIMITS)
}

fn kinds(exam: &Exam) -> BTreeSet<&'static str> {
    exam.findings.iter().map(|finding| finding.kind).collect()
}

/// The policy that misbehaves on request, told to do that.
fn told(to: &str, times: u32) -> Exam {
    let policy = &hostile().1;
    let parameters = policy.validate(&format!(r#"{{"do":"{to}","times":{times}}}"#)).unwrap();
    exam(policy, Some(&parameters), &LIMITS)
}

#[test]
fn the_built_in_policy_passes_with_little_fuel() {
    let sequence = load(&engine(), "sequence");
    let exam = examine(&sequence);
    assert!(exam.passed() && exam.declared.is_empty() && exam.not_examined.is_empty(), "{exam}");
    assert!(exam.examined.fuel * 2 < ExamLimits::DEFAULT.fuel, "{}", exam.examined.fuel);
    assert!(exam.examined.usage.iter().any(|usage| usage.members == 1_000 && usage.point == Point::Seed));
    assert!(exam.examined.parameters.len() >= 4, "its lists and flags are tried: {exam}");
    assert!(exam.sentence().starts_with("passed: ") && exam.sentence().contains("1000 members use"));
    assert_eq!(examine(&sequence), exam, "an exam is the same each time");
}

#[test]
fn the_example_passes_although_it_requires_a_parameter() {
    let exam = examine(&load(&engine(), "prefer"));
    assert!(exam.passed() && exam.not_examined.is_empty(), "{exam}");
    assert_eq!(exam.examined.parameters[0], r#"{"member":"db-1"}"#);
}

#[test]
fn the_reversed_policy_passes_by_what_it_declares() {
    let exam = examine(&load(&engine(), "reversed"));
    assert!(exam.passed(), "{exam}");
    let declared: BTreeSet<_> = exam.declared.iter().map(|finding| finding.kind).collect();
    assert_eq!(declared, BTreeSet::from(["chooses-lower-sequence", "prefers-high-ordinals"]));
}

// H1, H3 to H5, H7, H9 to H12, P36: each ends as a finding of its own kind.
#[test]
fn a_hostile_policy_fails_whatever_it_does() {
    for (to, times, kind) in [
        ("bad-member", 0, "unknown-member"),
        ("bulk", 0, "fuel"),
        ("burn", 4_000_000, "fuel"),
        ("controls", 0, "barred-member"),
        ("count", 0, "barred-member"),
        ("echo", 0, "barred-member"),
        ("empty", 0, "no-candidate"),
        ("fault", 0, "fault"),
        ("grow", 0, "memory"),
        ("huge-answer", 900, "output"),
        ("huge-text", 257, "output"),
        ("long-fault", 1_000, "fault"),
        ("long-name", 100, "unknown-member"),
        ("long-reason", 300, "output"),
        ("loop", 0, "fuel"),
        ("many-reasons", 2, "member-twice"),
        ("recurse", 0, "stack"),
        ("trap", 0, "trap"),
        ("twice", 0, "member-twice"),
    ] {
        let exam = told(to, times);
        assert_eq!(exam.verdict(), Verdict::Failed, "{to}: {exam}");
        assert!(kinds(&exam).contains(kind), "{to}: {exam}");
        assert!(exam.sentence().len() <= 256 && exam.to_string().len() < 20_000, "{to}");
    }
    for to in ["abstain", "refuse", "wait"] {
        assert!(told(to, 0).passed(), "{to}: {}", told(to, 0));
    }
}

// What a policy does only when it is told to, by words that its schema does not list, no exam finds: the host checks each answer all the same.
#[test]
fn a_hostile_policy_that_is_told_nothing_passes() {
    let exam = examine(&hostile().1);
    assert!(exam.passed(), "{exam}");
}

// P36: fuel grows with the number of members; a policy whose work grows faster is found before a group of that size is.
#[test]
fn a_policy_that_needs_too_much_at_many_members_fails_there_alone() {
    // For each member it counts to 8,000. The number of members is in the snapshot's record, at 116.
    let seed = "(local $i i32) (local $j i32)
        (block (loop
            (br_if 1 (i32.ge_u (local.get $i) (i32.load offset=116 (local.get 0))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (local.set $j (i32.const 0))
            (block (loop
                (br_if 1 (i32.ge_u (local.get $j) (i32.const 8000)))
                (local.set $j (i32.add (local.get $j) (i32.const 1)))
                (br 0)))
            (br 0)))
        (i32.const 2048)";
    let exam = examine(&Guest { seed, pages: 64, ..Guest::default() }.load().unwrap());
    assert_eq!(kinds(&exam), BTreeSet::from(["fuel"]), "{exam}");
    let finding = &exam.findings[0];
    assert_eq!((finding.case, finding.point, finding.count), ("thousand-members", Point::Seed, 1), "{exam}");
    assert!(exam.sentence().ends_with("57 %, at seed of case thousand-members"), "{}", exam.sentence());
}

#[test]
fn the_manual_has_every_case_and_every_kind() {
    let manual = include_str!("../../../docs/exam.md");
    for case in cases() {
        let row = manual.lines().find(|line| {
            let mut cells = line.split(" | ");
            let points = cells.nth(1).unwrap_or_default();
            line.starts_with(&format!("| `{}` |", case.name))
                && (points == "all" || points.split(", ").any(|point| point == case.point.as_str()))
        });
        assert!(row.is_some_and(|row| row.contains(case.about)), "{} at {}: {row:?}", case.name, case.point);
    }
    for finding in examine(&hostile().1).findings {
        assert!(manual.contains(&format!("`{}`", finding.kind)), "{}", finding.kind);
    }
    // What every exam leaves out is there in the same words.
    let plain = manual.replace('`', "");
    for what in Exam::NEVER_EXAMINED {
        assert!(plain.contains(&format!("- {what}")), "{what}");
    }
}

/// `cargo test --locked --workspace --test exam -- --ignored --nocapture measure`
///
/// Times are those of the processor, because other load on the machine does not count.
#[test]
#[ignore = "measures time"]
fn measure() {
    let engine = engine();
    for name in ["sequence", "prefer", "reversed", "hostile"] {
        let policy = load(&engine, name);
        for _ in 0..3 {
            let began = busy();
            let Examined { questions, fuel, .. } = examine(&policy).examined;
            println!("{name}: {} ms, {questions} questions, {fuel} units of fuel", busy() - began);
        }
        println!("{}", examine(&policy));
    }
    let sequence = load(&engine, "sequence");
    let stack = Stack::new(vec![layer(&sequence, "{}")]);
    for (size, of_size) in [("few", 1..100), ("100", 100..101), ("1,000", 1_000..1_001)] {
        let questions: Vec<_> = cases().iter().filter_map(|case| case.question()).collect();
        let of_size = |question: &&Question| of_size.contains(&question.snapshot.members.len());
        let questions: Vec<_> = questions.iter().filter(of_size).collect();
        let began = busy();
        for question in &questions {
            let _ = (stack.ask(question), stack.ask(question));
        }
        println!("{} questions about {size} members, each twice: {} ms", questions.len(), busy() - began);
    }
    let began = busy();
    let count = cases().iter().filter_map(|case| case.question()).count();
    println!("to make {count} questions: {} ms", busy() - began);
}
