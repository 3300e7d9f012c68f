//! Each rule of the exam, with a policy that breaks exactly that one.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests may panic")]

use std::{cell::RefCell, cmp::Reverse, time::Duration};

use tanist_core::{
    contract::{
        Answer, Candidate, Care, Delay, Description, Fault, Member, Position, Ranking, Remark, Remedy, Treatment,
    },
    examples::cases,
    policy::{Point, PolicyName, Question, Reply},
};

mod points;

use super::{
    Exam, ExamLimits, Verdict,
    rules::{Asked, judge, percent},
    run::run,
    subject::Subject,
};
use crate::{
    error::RunError,
    policy::{Outcome, Spent},
    schema::Samples,
};

type Answers = Box<dyn Fn(&Said<'_>) -> Result<Option<Reply>, RunError>>;

/// A question to a policy that is made here.
struct Said<'a> {
    question: &'a Question,
    parameters: &'a str,
    /// How often anything was asked before.
    before: usize,
}

/// A policy that is made here. It does not have to be deterministic, as one in the sandbox has to.
struct Made {
    name: PolicyName,
    description: Description,
    points: Vec<Point>,
    samples: Samples,
    answers: Answers,
    fuel: Box<dyn Fn(&Question) -> u64>,
    notes: bool,
    asked: RefCell<Vec<(Point, usize, String)>>,
}

/// Fuel of each question.
const LIMIT: u64 = 1_000;

/// With all the time that a busy machine may take.
const LIMITS: ExamLimits = ExamLimits { wall: Duration::from_secs(600), ..ExamLimits::DEFAULT };

/// It behaves, unless `answers` says otherwise.
fn made(answers: impl Fn(&Said<'_>) -> Result<Option<Reply>, RunError> + 'static) -> Made {
    let text = |text: &str| text.to_owned();
    Made {
        name: PolicyName {
            name: text("made"),
            version: text("1.0.0"),
            source: text("test/made"),
            digest: String::new(),
        },
        description: Description {
            name: text("made"),
            version: text("1.0.0"),
            summary: String::new(),
            parameters: None,
            declares: Vec::new(),
        },
        points: Point::ALL.to_vec(),
        samples: Samples { sets: vec![text("{}")], is_default: true, left_out: Vec::new() },
        answers: Box::new(answers),
        fuel: Box::new(|_| LIMIT / 2),
        notes: false,
        asked: RefCell::default(),
    }
}

impl Subject for Made {
    fn name(&self) -> &PolicyName {
        &self.name
    }

    fn description(&self) -> &Description {
        &self.description
    }

    fn has(&self, point: Point) -> bool {
        self.points.contains(&point)
    }

    fn samples(&self, _: usize) -> Samples {
        self.samples.clone()
    }

    fn ask(&self, question: &Question, parameters: &str, _: Duration) -> (Outcome, u64) {
        let before = self.asked.borrow().len();
        self.asked.borrow_mut().push((question.point, question.snapshot.members.len(), parameters.to_owned()));
        let reply = (self.answers)(&Said { question, parameters, before });
        let notes = if self.notes { vec![before.to_string()] } else { Vec::new() };
        (
            Outcome { reply, fuel: (self.fuel)(question), budget: LIMIT, memory: 0, spent: Spent::default(), notes },
            LIMIT,
        )
    }
}

fn examine(made: &Made) -> Exam {
    run(made, None, &LIMITS)
}

fn kinds(exam: &Exam) -> Vec<&'static str> {
    exam.findings.iter().map(|finding| finding.kind).collect()
}

/// The members that may be chosen, most recent data first, then by ordinal; for `demote` the other way round.
fn sensible(question: &Question) -> Vec<&Member> {
    let mut members: Vec<_> = question.snapshot.members.iter().filter(|member| member.barred.is_none()).collect();
    members.sort_by_key(|member| match &member.position {
        Position::Known(sequence) => (0, Reverse((member.term, sequence.number)), member.ordinal),
        Position::Unknown(_) | Position::NotAsked => (1, Reverse((None, 0)), member.ordinal),
        Position::Empty => (2, Reverse((None, 0)), member.ordinal),
    });
    if let Some(preferred) = &question.snapshot.group.preferred_primary
        && let Some(place) =
            members.iter().position(|member| member.name == *preferred && member.position == members[0].position)
    {
        let first = members.remove(place);
        members.insert(0, first);
    }
    if question.point == Point::Demote {
        members.reverse();
    }
    members
}

/// Chooses these members, or stops them where members failed.
fn choose(question: &Question, names: Vec<&str>) -> Reply {
    let because = || "because".to_owned();
    let candidate = |name: &str| Candidate { member: name.into(), reason: because(), source: None };
    let treatment = |name: &str| Treatment { member: name.into(), remedy: Remedy::Stop, reason: because() };
    match question.point {
        Point::Treat => Reply::Care(Care::Treat(names.into_iter().map(treatment).collect())),
        _ => Reply::Answer(Answer::Choose(Ranking {
            candidates: names.into_iter().map(candidate).collect(),
            passed_over: Vec::new(),
        })),
    }
}

fn good(question: &Question) -> Reply {
    choose(question, sensible(question).into_iter().map(|member| member.name.as_str()).collect())
}

fn wait(until: Option<i64>) -> Reply {
    Reply::Answer(Answer::Wait(Delay { reason: "not now".to_owned(), until }))
}

/// Answers one question in another way than a good policy.
fn but_at(name: &'static str, point: Point, other: impl Fn(&Question) -> Reply + 'static) -> Made {
    let wanted = cases().into_iter().find(|case| case.name == name && case.point == point).unwrap().question().unwrap();
    made(move |said| Ok(Some(if *said.question == wanted { other(said.question) } else { good(said.question) })))
}

/// It breaks one rule in that case, and nothing else.
fn breaks(kind: &str, name: &'static str, point: Point, other: impl Fn(&Question) -> Reply + 'static) -> Exam {
    let exam = examine(&but_at(name, point, other));
    assert_eq!(kinds(&exam), [kind], "{exam}");
    let finding = &exam.findings[0];
    assert_eq!((finding.case, finding.point, finding.count), (name, point, 1), "{exam}");
    assert!(!exam.passed() && exam.verdict() == Verdict::Failed && exam.not_examined.is_empty());
    exam
}

// P36: each question of each case, twice.
#[test]
fn a_policy_that_behaves_passes_and_every_case_is_asked_twice() {
    let policy = made(|said| Ok(Some(good(said.question))));
    let exam = examine(&policy);
    assert!(exam.passed() && exam.findings.is_empty() && exam.declared.is_empty(), "{exam}");
    assert_eq!(exam.examined.questions, cases().len());
    let asked = policy.asked.take();
    assert_eq!(asked.len(), cases().len() * 2);
    assert!(asked.chunks(2).all(|pair| pair[0] == pair[1]), "each is asked twice");
    assert!(asked.iter().any(|(_, members, _)| *members == 1_000));
    assert_eq!(exam.examined.points, Point::ALL);
    assert_eq!(exam.examined.fuel, LIMIT / 2 * asked.len() as u64);
    assert_eq!(examine(&made(|said| Ok(Some(good(said.question))))), exam, "an exam is the same each time");
    let expected = format!("passed: {} questions of 32 cases, 1000 members use 50 % of the fuel", cases().len());
    assert_eq!(exam.sentence(), expected);
}

#[test]
fn a_policy_is_asked_at_its_points_only_and_may_abstain() {
    let policy = Made { points: vec![Point::Place, Point::Seed], ..made(|_| Ok(None)) };
    let exam = examine(&policy);
    assert!(exam.passed(), "{exam}");
    assert_eq!(exam.examined.points, [Point::Seed, Point::Place]);
    assert!(policy.asked.borrow().iter().all(|(point, ..)| policy.points.contains(point)));
    let refuses = made(|_| Ok(Some(Reply::Answer(Answer::Refuse("no".to_owned())))));
    assert!(examine(&refuses).passed());
}

// H10 to H12, P36: what the host would refuse.
#[test]
fn an_answer_that_the_host_refuses_is_found() {
    let exam = breaks("unknown-member", "lost-primary", Point::Failover, |question| choose(question, vec!["nobody"]));
    assert_eq!(
        exam.sentence(),
        "failed: the policy named nobody, which is not a member of this group, at failover of case lost-primary"
    );
    breaks("unknown-member", "new-secondary", Point::Place, |question| {
        let Reply::Answer(Answer::Choose(mut ranking)) = good(question) else { panic!() };
        ranking.passed_over = vec![Remark { member: "nobody".into(), reason: String::new() }];
        Reply::Answer(Answer::Choose(ranking))
    });
    let exam = breaks("barred-member", "restart", Point::Seed, |question| choose(question, vec!["db-1"]));
    assert!(exam.findings[0].found.contains("behind the highest known"), "never below the highest: {exam}");
    breaks("barred-member", "failed-members", Point::Treat, |question| choose(question, vec!["db-5"]));
    breaks("member-twice", "forming", Point::Seed, |question| choose(question, vec!["db-0", "db-0"]));
    breaks("no-candidate", "one-left", Point::Join, |question| choose(question, vec![]));
    let with = |change: fn(&mut Candidate)| {
        move |question: &Question| {
            let Reply::Answer(Answer::Choose(mut ranking)) = good(question) else { panic!() };
            change(&mut ranking.candidates[0]);
            Reply::Answer(Answer::Choose(ranking))
        }
    };
    breaks("reason-too-long", "restart", Point::Seed, with(|first| first.reason = "x".repeat(257)));
    breaks("source", "more-primaries", Point::Join, with(|first| first.source = Some("db-0".into())));
    breaks("delay-not-later", "restart", Point::Seed, |question| wait(Some(question.snapshot.now)));
    breaks("remedy", "one-member", Point::Treat, |_| {
        let replace = Treatment { member: "db-0".into(), remedy: Remedy::Replace, reason: String::new() };
        Reply::Care(Care::Treat(vec![replace]))
    });
}

// S35, P36: nothing in the sandbox can do this, so the host would have to be broken.
#[test]
fn an_answer_that_differs_the_second_time_is_found() {
    let exam = examine(&made(|said| match (said.question.point, said.before % 2) {
        (Point::Seed, 1) => Ok(Some(wait(Some(i64::MAX)))),
        _ => Ok(Some(good(said.question))),
    }));
    assert_eq!(kinds(&exam), ["differs"], "{exam}");
    assert!(exam.findings[0].found.contains("and then: wait: not now"), "{exam}");
    let notes = examine(&Made { notes: true, ..made(|said| Ok(Some(good(said.question)))) });
    assert_eq!(kinds(&notes), ["differs"], "{notes}");
}

// P36: half of the fuel, at 5, 100 and 1,000 members.
#[test]
fn more_than_half_of_the_fuel_is_found_whatever_the_size() {
    let at = |members: usize, fuel: u64| {
        let fuel =
            Box::new(move |question: &Question| if question.snapshot.members.len() == members { fuel } else { 1 });
        examine(&Made { fuel, ..made(|said| Ok(Some(good(said.question)))) })
    };
    assert!(at(1_000, LIMIT / 2).passed());
    for members in [5, 100, 1_000] {
        let exam = at(members, LIMIT / 2 + 1);
        assert_eq!((kinds(&exam), exam.findings[0].members), (vec!["fuel"], members), "{exam}");
    }
    assert_eq!((percent(0, 10), percent(1, 1_000), percent(501, 1_000), percent(5, 0)), (0, 1, 51, 500));
    let usage = at(1_000, 7).examined.usage;
    assert_eq!(usage.len(), 3 * Point::ALL.len(), "few, 100 and 1,000 members for each point");
}

// H7: a failure ends the questions of its point, because each may cost as much as its limits allow.
#[test]
fn a_failure_is_found_once_and_its_point_is_not_asked_again() {
    let fault = || RunError::Fault(Fault { message: "no such zone".to_owned(), location: None });
    let policy = made(move |said| match said.question.point {
        Point::Join => Err(fault()),
        Point::Demote => Err(RunError::Trap("unreachable".to_owned())),
        _ => Ok(Some(good(said.question))),
    });
    let exam = examine(&policy);
    assert_eq!(kinds(&exam), ["fault", "trap"], "{exam}");
    let asked = |point| policy.asked.borrow().iter().filter(|(each, ..)| *each == point).count();
    assert_eq!((asked(Point::Join), asked(Point::Demote)), (2, 2));
    assert!(asked(Point::Seed) > 2);
    assert_eq!(exam.not_examined.len(), 2);
    assert!(
        exam.sentence().ends_with("no such zone, at join of case more-primaries (1 more finding)"),
        "{}",
        exam.sentence()
    );
    let fails = |error: RunError| kinds(&examine(&made(move |_| Err(error.clone()))));
    assert_eq!(fails(RunError::Fuel(LIMIT)), ["fuel"]);
    assert_eq!(fails(RunError::Memory(String::new())), ["memory"]);
    assert_eq!(fails(RunError::Stack), ["stack"]);
    assert_eq!(fails(RunError::Output("a reason has 257 bytes, 256 are allowed".to_owned())), ["output"]);
    assert_eq!(fails(RunError::Malformed(String::new())), ["malformed"]);
}

#[test]
fn findings_of_a_kind_are_counted() {
    let exam = examine(&made(|said| Ok(Some(choose(said.question, vec!["nobody"])))));
    assert_eq!(kinds(&exam), ["unknown-member"]);
    assert_eq!((exam.findings[0].count, &exam.findings[0].points[..]), (cases().len(), &Point::ALL[..]));
    assert!(
        exam.to_string().contains(
            "questions (seed, failover, join, demote, place, treat, switchover, rebalance, update, judge, admit, order)"
        ),
        "{exam}"
    );
}

// H24, P39: the machine's load is no fault of a policy.
#[test]
fn an_exam_that_the_machine_cuts_off_is_not_finished() {
    let exam =
        examine(&made(|said| if said.before < 20 { Ok(Some(good(said.question))) } else { Err(RunError::Wall) }));
    assert_eq!((exam.verdict(), kinds(&exam).len()), (Verdict::NotFinished, 0), "{exam}");
    assert!(!exam.passed());
    assert_eq!(
        exam.sentence(),
        "not finished: the machine was too busy: the time was over after 10 questions; it is tried again"
    );
    let over = ExamLimits { wall: Duration::ZERO, ..LIMITS };
    assert_eq!(run(&made(|said| Ok(Some(good(said.question)))), None, &over).verdict(), Verdict::NotFinished);
    // What was found before stays found.
    let found = examine(&made(|said| match said.before {
        0..20 => Ok(Some(choose(said.question, vec!["nobody"]))),
        _ => Err(RunError::Wall),
    }));
    assert_eq!(found.verdict(), Verdict::Failed);
}

// P39: what was left out is in the sentence and in the report.
#[test]
fn the_fuel_of_an_exam_is_bounded_and_what_is_left_out_is_said() {
    let policy = made(|said| Ok(Some(good(said.question))));
    let limits = ExamLimits { fuel: 20 * LIMIT / 2, ..LIMITS };
    let exam = run(&policy, None, &limits);
    assert_eq!((policy.asked.borrow().len(), exam.examined.questions), (20, 10));
    assert!(exam.passed());
    let left = format!("{} questions, because the exam's fuel was used up", cases().len() - 10);
    assert_eq!(exam.not_examined, [left.as_str()]);
    assert!(exam.sentence().contains(&left), "{}", exam.sentence());
}

fn declaring(word: &str, made: Made) -> Made {
    let description = Description { declares: vec![word.to_owned()], ..made.description.clone() };
    Made { description, ..made }
}

// P36, P38: to choose less recent data has to be declared.
#[test]
fn less_recent_data_is_chosen_only_by_a_policy_that_declares_it() {
    let exam =
        breaks("chooses-lower-sequence", "new-secondary", Point::Place, |question| choose(question, vec!["db-1"]));
    assert_eq!(
        exam.findings[0].found,
        "it chooses db-1 with a:15 of term 3, though db-2 with a:18 of term 3 may be chosen"
    );
    // Numbers of another history count only inside of it; here it is of an older term besides.
    breaks("chooses-lower-sequence", "other-history", Point::Place, |question| choose(question, vec!["db-2"]));
    breaks("chooses-lower-sequence", "unreadable", Point::Join, |question| choose(question, vec!["db-2"]));
    breaks("chooses-lower-sequence", "surplus-primaries", Point::Demote, |question| choose(question, vec!["db-3"]));
    // Data that could not be read may be the most recent.
    assert!(examine(&but_at("unreadable", Point::Join, |question| choose(question, vec!["db-1"]))).passed());
    // The host waits until the member that is to lead has all data.
    assert!(examine(&but_at("drained-primary", Point::Switchover, |question| choose(question, vec!["db-2"]))).passed());
    let lower = || but_at("new-secondary", Point::Place, |question| choose(question, vec!["db-1"]));
    let declared = examine(&declaring("chooses-lower-sequence", lower()));
    assert!(declared.passed() && declared.declared[0].kind == "chooses-lower-sequence", "{declared}");
    assert!(declared.sentence().ends_with("as declared: chooses-lower-sequence"), "{}", declared.sentence());
    // It lifts no check of the host, and no other rule.
    let barred = but_at("restart", Point::Seed, |question| choose(question, vec!["db-1"]));
    assert_eq!(kinds(&examine(&declaring("chooses-lower-sequence", barred))), ["barred-member"]);
    assert_eq!(kinds(&examine(&declaring("prefers-high-ordinals", lower()))), ["chooses-lower-sequence"]);
}

// P36, P38: to prefer the last member has to be declared.
#[test]
fn a_higher_ordinal_is_chosen_only_by_a_policy_that_declares_it_or_was_told_to() {
    let high = || but_at("forming", Point::Seed, |question| choose(question, vec!["db-2", "db-0", "db-1"]));
    let exam = examine(&high());
    assert_eq!(kinds(&exam), ["prefers-high-ordinals"], "{exam}");
    assert_eq!(exam.findings[0].found, "it puts db-2 before db-0, and nothing else tells them apart");
    assert!(examine(&declaring("prefers-high-ordinals", high())).passed());
    assert!(run(&high(), Some(r#"{"prefer":["db-2"]}"#), &LIMITS).passed());
    // Nor is it held against a policy that the user prefers that member.
    let mut question = cases().into_iter().find(|case| case.name == "forming").unwrap().question().unwrap();
    let outcome = Outcome {
        reply: Ok(Some(choose(&question, vec!["db-2"]))),
        fuel: 1,
        budget: LIMIT,
        memory: 0,
        spent: Spent::default(),
        notes: Vec::new(),
    };
    let broken = |question: &Question| {
        judge(&Asked { question, first: &outcome, second: &outcome, limit: LIMIT, plain: true }).len()
    };
    assert_eq!(broken(&question), 1);
    question.snapshot.group.preferred_primary = Some("db-2".into());
    assert_eq!(broken(&question), 0);
}

// P36, P38: to wait without a time has to be declared.
#[test]
fn a_wait_has_an_end_unless_it_is_declared() {
    breaks("waits-without-end", "restart", Point::Seed, |_| wait(None));
    breaks("waits-without-end", "failed-members", Point::Treat, |_| {
        Reply::Care(Care::Wait(Delay { reason: "not now".to_owned(), until: None }))
    });
    let waits = but_at("restart", Point::Seed, |_| wait(None));
    assert!(examine(&declaring("waits-without-end", waits)).passed());
    assert!(examine(&but_at("restart", Point::Seed, |question| wait(Some(question.snapshot.now + 1)))).passed());
}

// P38: no other kind can be declared.
#[test]
fn words_that_are_not_known_lift_nothing_and_are_said() {
    let exam = examine(&declaring("unknown-member", made(|said| Ok(Some(choose(said.question, vec!["nobody"]))))));
    assert_eq!(kinds(&exam), ["unknown-member"]);
    assert_eq!(exam.not_examined, ["what it declares as `unknown-member`, a word that this version does not know"]);
}

// P39: a policy obeys its own schema.
#[test]
fn parameters_that_the_schema_accepts_are_tried() {
    let set = |text: &str| text.to_owned();
    let samples = |is_default| Samples {
        sets: vec![set("{}"), set(r#"{"lag":0}"#), set(r#"{"lag":9}"#)],
        is_default,
        left_out: vec![],
    };
    let fails = |said: &Said<'_>| match said.parameters {
        r#"{"lag":0}"# => Err(RunError::Fault(Fault { message: "division by zero".to_owned(), location: None })),
        _ => Ok(Some(good(said.question))),
    };
    let policy = Made { samples: samples(true), ..made(fails) };
    let exam = examine(&policy);
    assert_eq!(kinds(&exam), ["fault"], "{exam}");
    assert!(exam.sentence().ends_with(r#"at seed of case restart with parameters {"lag":0}"#), "{}", exam.sentence());
    assert!(exam.findings[0].advice.ends_with("do not let the schema accept these parameters"));
    // The other points and the next parameters are asked all the same, at the usual case of each point.
    let asked = policy.asked.borrow();
    let with = |parameters: &str| asked.iter().filter(|(.., each)| each == parameters).count();
    assert_eq!((with(r#"{"lag":0}"#), with(r#"{"lag":9}"#)), (Point::ALL.len() * 2, Point::ALL.len() * 2));
    assert_eq!(exam.examined.parameters, samples(true).sets);
    // Given parameters are the only ones.
    let given = Made { samples: samples(true), ..made(fails) };
    assert!(run(&given, Some(r#"{"lag":9}"#), &LIMITS).passed());
    assert!(given.asked.borrow().iter().all(|(.., each)| each == r#"{"lag":9}"#));
    let none = Samples { sets: vec![], is_default: false, left_out: vec![set("anything: no parameters were found")] };
    let exam = examine(&Made { samples: none, ..made(|said| Ok(Some(good(said.question)))) });
    assert!(exam.passed() && exam.sentence() == "nothing examined: anything: no parameters were found", "{exam}");
}

// P37: a sentence for the status, a report for the author.
#[test]
fn a_sentence_fits_into_a_status_and_a_report_has_everything() {
    let long = "é".repeat(400);
    let parameters = format!(r#"{{"a":"{long}"}}"#);
    let named = long.clone();
    let policy = made(move |said| Ok(Some(choose(said.question, vec![&named]))));
    let exam = run(&policy, Some(&parameters), &LIMITS);
    let sentence = exam.sentence();
    assert!(sentence.len() <= 256 && sentence.contains("at seed of case restart with parameters"), "{sentence}");
    let whole = exam.to_string();
    for part in [
        "made 1.0.0 (test/made)",
        "finding unknown-member: seed of case restart",
        "expected: names",
        "do:  ",
        "fuel used",
    ] {
        assert!(whole.contains(part), "{part}: {whole}");
    }
    assert!(whole.len() < 10_000, "{}", whole.len());
    assert!(Exam::NEVER_EXAMINED.iter().all(|what| whole.contains(what)));
    let json = serde_json::to_value(&exam).unwrap();
    assert_eq!(json["findings"][0]["kind"], "unknown-member");
    assert_eq!(json["examined"]["usage"][0]["point"], "seed");
    assert!(json.get("unfinished").is_none());
}
