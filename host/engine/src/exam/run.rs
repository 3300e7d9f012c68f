//! Asks the questions of an exam, and collects what is found.

use std::time::{Duration, Instant};

use tanist_core::{
    examples::{Case, cases},
    policy::{Point, Question},
};

use super::{
    Exam, ExamLimits, Examined, Finding, Usage,
    part::{Record, closed},
    rules::{Asked, Broken, is_declaration, is_declared, judge, percent},
    subject::Subject,
};
use crate::{
    error::RunError,
    schema::Samples,
    text::{MESSAGE, short},
};

/// Members of a snapshot up to which a group counts as one of few members.
const FEW: usize = 99;

pub(super) fn run(subject: &dyn Subject, given: Option<&str>, limits: &ExamLimits) -> Exam {
    let samples = match given {
        Some(parameters) => Samples { sets: vec![parameters.to_owned()], is_default: false, left_out: Vec::new() },
        None => subject.samples(limits.parameters),
    };
    let mut run = Run::new(subject, limits, &samples);
    run.ask_everything(&samples);
    run.exam.count();
    run.exam
}

/// An exam under way.
struct Run<'a> {
    subject: &'a dyn Subject,
    limits: &'a ExamLimits,
    began: Instant,
    exam: Exam,
    /// Questions that were left out because the fuel of the exam was used up.
    unasked: usize,
}

/// What a question is asked with.
#[derive(Clone, Copy)]
struct With<'a> {
    parameters: &'a str,
    /// Whether these are what every group gets that gives no parameters.
    plain: bool,
    /// Whether these are not the parameters of the other cases.
    varied: bool,
}

/// How the exam goes on after a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// With the next question.
    Question,
    /// The policy failed: with another point.
    Failed,
    /// Not at all.
    End,
}

impl<'a> Run<'a> {
    fn new(subject: &'a dyn Subject, limits: &'a ExamLimits, samples: &Samples) -> Self {
        let examined = Examined {
            points: Point::ALL.into_iter().filter(|point| subject.has(*point)).collect(),
            ..Examined::default()
        };
        let declared = subject.description().declares.iter().filter(|word| !is_declaration(word));
        let unknown =
            declared.map(|word| format!("what it declares as `{word}`, a word that this version does not know"));
        let later = subject.later_interfaces().iter();
        let later = later
            .map(|name| format!("its interface {name}: this version of the host does not know it, and never asks it"));
        let exam = Exam {
            policy: subject.name().clone(),
            findings: Vec::new(),
            declared: Vec::new(),
            examined,
            not_examined: samples.left_out.iter().cloned().chain(unknown).chain(later).collect(),
            unfinished: None,
            not_asked_at: Vec::new(),
            record: Record::default(),
        };
        Self { subject, limits, began: Instant::now(), exam, unasked: 0 }
    }

    /// Every case with the first parameters, then the usual case of each point with each of the others.
    fn ask_everything(&mut self, samples: &Samples) {
        let cases = cases();
        let Some((base, others)) = samples.sets.split_first() else { return };
        if self.ask_cases(&cases, With { parameters: base, plain: samples.is_default, varied: false }) {
            for parameters in others {
                if !self.ask_usual(&cases, With { parameters, plain: false, varied: true }) {
                    break;
                }
            }
        }
        self.exam.not_examined.extend(self.exam.record.closed.iter().copied().map(closed));
        if self.unasked > 0 {
            let text = format!("{} questions, because the exam's fuel was used up", self.unasked);
            self.exam.not_examined.push(text);
        }
    }

    /// Returns whether the exam goes on.
    fn ask_cases(&mut self, cases: &[Case], with: With<'_>) -> bool {
        self.exam.examined.parameters.push(short(with.parameters, MESSAGE));
        for case in cases.iter().filter(|case| self.subject.has(case.point)) {
            if self.exam.record.closed.contains(&case.point) {
                continue;
            }
            match self.ask_case(case, with) {
                Next::Question => {}
                Next::Failed => drop(self.exam.record.closed.insert(case.point)),
                Next::End => return false,
            }
        }
        true
    }

    /// Returns whether the exam goes on.
    fn ask_usual(&mut self, cases: &[Case], with: With<'_>) -> bool {
        self.exam.examined.parameters.push(short(with.parameters, MESSAGE));
        for case in cases.iter().filter(|case| case.is_usual() && self.subject.has(case.point)) {
            if self.exam.record.closed.contains(&case.point) {
                continue;
            }
            match self.ask_case(case, with) {
                // A group that asks the next point does not ask this one, perhaps.
                Next::Question | Next::Failed => {}
                Next::End => return false,
            }
        }
        true
    }

    fn ask_case(&mut self, case: &Case, with: With<'_>) -> Next {
        if self.exam.examined.fuel >= self.limits.fuel {
            self.unasked += 1;
            return Next::Question;
        }
        let Some(question) = case.question() else {
            self.exam.not_examined.push(format!("{} of case {}, which does not arise", case.point, case.name));
            return Next::Question;
        };
        let (first, limit) = self.subject.ask(&question, with.parameters, self.time_left());
        let (second, _) = self.subject.ask(&question, with.parameters, self.time_left());
        let cut = [&first, &second].into_iter().any(|outcome| outcome.reply == Err(RunError::Wall));
        if cut || self.time_left().is_zero() {
            let asked: usize = self.exam.record.questions.values().sum();
            self.exam.unfinished = Some(format!("the machine was too busy: the time was over after {asked} questions"));
            return Next::End;
        }
        self.exam.record.cases.insert((case.point, case.name));
        *self.exam.record.questions.entry(case.point).or_default() += 1;
        let examined = &mut self.exam.examined;
        examined.fuel = examined.fuel.saturating_add(first.fuel).saturating_add(second.fuel);
        if first.reply.is_ok() {
            note_usage(&mut examined.usage, &question, first.fuel, limit);
        }
        let asked = Asked { question: &question, first: &first, second: &second, limit, plain: with.plain };
        let broken = judge(&asked);
        let next = match first.reply.is_err() || broken.iter().any(|each| each.kind == "fuel") {
            true => Next::Failed,
            false => Next::Question,
        };
        for each in broken {
            self.find(each, case, &question, with);
        }
        next
    }

    fn time_left(&self) -> Duration {
        self.limits.wall.saturating_sub(self.began.elapsed())
    }

    /// Adds a finding, or counts it when its kind was seen before.
    fn find(&mut self, broken: Broken, case: &Case, question: &Question, with: With<'_>) {
        let is_declared = is_declared(&self.subject.description().declares, broken.kind, case.point);
        let Broken { kind, expected, found, advice } = broken;
        let advice = match with.varied {
            true => format!("{advice}; or do not let the schema accept these parameters"),
            false => advice.to_owned(),
        };
        let finding = Finding {
            kind,
            case: case.name,
            about: case.about,
            point: case.point,
            members: question.snapshot.members.len(),
            parameters: short(with.parameters, MESSAGE),
            expected,
            found: short(&found, MESSAGE),
            advice,
            count: 1,
            points: vec![case.point],
        };
        self.exam.record.find(is_declared, finding);
    }
}

/// Keeps the question that used the largest share of its fuel, for each point: of groups with few members, and of each larger size.
fn note_usage(usage: &mut Vec<Usage>, question: &Question, fuel: u64, limit: u64) {
    let members = question.snapshot.members.len();
    let of_size = |each: &&mut Usage| each.members == members || (each.members <= FEW && members <= FEW);
    let now = Usage { point: question.point, members, fuel, limit };
    match usage.iter_mut().filter(|each| each.point == question.point).find(of_size) {
        Some(seen) if percent(fuel, limit) > percent(seen.fuel, seen.limit) => *seen = now,
        Some(_) => {}
        None => usage.push(now),
    }
}
