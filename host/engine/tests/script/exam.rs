//! Scripts in an exam: each rule is broken by a few lines, and what is usual passes.

use tanist_core::policy::Point;
use tanist_engine::{Exam, ExamLimits, Verdict, exam};

use crate::{common::usage::busy, load};

/// With all the time that a busy machine may take.
const LIMITS: ExamLimits = ExamLimits::UNHURRIED;

fn examine(text: &str) -> Exam {
    exam(&load(text).unwrap_or_else(|error| panic!("{error}")), None, &LIMITS)
}

/// It fails with this kind alone; the sentence says so in these words.
fn fails(text: &str, kind: &str, words: &str) -> Exam {
    let exam = examine(text);
    let kinds: Vec<_> = exam.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!((exam.verdict(), &kinds[..]), (Verdict::Failed, &[kind][..]), "{text}\n{exam}");
    assert!(exam.sentence().contains(words), "{}", exam.sentence());
    exam
}

#[test]
fn the_examples_pass() {
    let zone = examine(include_str!("../../../../examples/policies/zone.star"));
    assert!(zone.passed() && zone.not_examined.is_empty(), "{zone}");
    assert_eq!(zone.examined.points.len(), 2);
    let window = examine(include_str!("../../../../examples/policies/window.star"));
    assert!(window.passed() && window.not_examined.is_empty(), "{window}");
    assert_eq!(window.examined.points, [Point::Switchover]);
    let rollout = examine(include_str!("../../../../examples/policies/rollout.star"));
    assert!(rollout.passed() && rollout.not_examined.is_empty(), "{rollout}");
    assert_eq!(rollout.examined.points, [Point::Update, Point::Judge]);
    let scaling = examine(include_str!("../../../../examples/policies/scaling.star"));
    assert!(scaling.passed() && scaling.not_examined.is_empty(), "{scaling}");
    assert_eq!(scaling.examined.points, [Point::Admit, Point::Order]);
    let forty = examine(include_str!("forty.star"));
    assert!(forty.passed(), "{forty}");
}

#[test]
fn a_script_that_sorts_by_data_passes_at_every_point() {
    let text = "def best(s): return choose(sorted(s.eligible(), key = lambda m: m.data, reverse = True), 'by data')\n\
                seed = best\nfailover = best\njoin = best\nplace = best\nswitchover = best\nrebalance = best\nupdate = best\njudge = best\nadmit = best\norder = best\n\
                def demote(s): return choose(sorted(s.eligible(), key = lambda m: (m.data, -m.ordinal)), 'by data')\n\
                def treat(s): return choose([stop(m, 'it failed') for m in s.eligible()])\n";
    let exam = examine(text);
    assert!(exam.passed(), "{exam}");
}

#[test]
fn each_rule_is_broken_by_a_few_lines() {
    // The interpreter itself refuses members that are barred, times that are over, and loops of too many steps.
    fails("def seed(s): return choose(s.members[0], 'first')\n", "fault", "`db-0` may not be chosen now");
    fails("def failover(s): return choose(s.members)\n", "fault", "choose: the member `db-0` may not be chosen now");
    fails(
        "def place(s): return choose(s.eligible())\n",
        "chooses-lower-sequence",
        "it chooses db-1 with a:15 of term 3",
    );
    fails("def seed(s): return wait('not yet')\n", "waits-without-end", "it waits without a time");
    fails("def seed(s): return wait('not yet', until = s.now)\n", "fault", "expected a time after now");
    fails("def seed(s): return choose(s.eligible()[-1], 'last')\n", "prefers-high-ordinals", "it puts db-");
    fails("def treat(s): return choose([replace(m, 'broken') for m in s.eligible()])\n", "remedy", "asks to replace");
    fails("def seed(s): return choose([s.members[7]])\n", "fault", "mine.star:1:");
    let pairs = "def seed(s):\n    for a in s.members:\n        for b in s.members:\n            if a.ordinal > b.ordinal: pass\n";
    let exam = fails(pairs, "fault", "at seed of case thousand-members");
    assert!(exam.findings[0].found.contains("50000"), "{exam}");
}

// P39: a reason that quotes a long text of the snapshot, and parameters that the schema accepts and the script does not.
#[test]
fn long_texts_and_bounds_of_parameters_are_tried() {
    let quotes =
        "def treat(s): return choose([stop(m, 'it failed: ' + (m.role_detail or '')) for m in s.eligible()])\n";
    let exam = fails(quotes, "fault", "treat of case everything-told");
    assert!(exam.findings[0].found.contains("256"), "{exam}");
    let divides = "parameters = {'type': 'object', 'properties': {'share': {'type': 'integer', 'minimum': 0, 'default': 2}}}\n\
                   def seed(s): return choose(s.eligible()[0], str(10 // s.parameters['share']))\n";
    let exam = fails(divides, "fault", r#"with parameters {"share":0}"#);
    assert_eq!(exam.findings[0].case, "restart");
    let bounded = divides.replace("'minimum': 0", "'minimum': 1");
    assert!(examine(&bounded).passed());
}

#[test]
fn what_a_script_declares_is_lifted() {
    let text = "def describe(): return {'declares': ['chooses-lower-sequence', 'waits-without-end']}\n\
                def place(s): return choose(s.eligible())\ndef seed(s): return wait('not yet')\n";
    let exam = examine(text);
    assert!(exam.passed() && exam.declared.len() == 2, "{exam}");
}

/// `cargo test --locked --workspace --test script -- --ignored --nocapture exams`
#[test]
#[ignore = "measures time"]
fn measure_exams() {
    let every = "def best(s): return choose(sorted(s.eligible(), key = lambda m: m.data, reverse = True), 'by data')\n\
                 seed = best\nfailover = best\njoin = best\nplace = best\n";
    let zone = include_str!("../../../../examples/policies/zone.star");
    for (name, text) in [("zone.star", zone), ("forty.star", include_str!("forty.star")), ("by data", every)] {
        for _ in 0..3 {
            let policy = load(text).unwrap();
            let began = busy();
            let exam = exam(&policy, None, &LIMITS);
            let took = busy() - began;
            println!("{name}: {took} ms, {} questions, {} units of fuel", exam.examined.questions, exam.examined.fuel);
        }
        println!("{}", examine(text));
    }
}
