//! Asks the questions of an exam, and collects what is found.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use tanist_core::{
    examples::{Case, cases},
    policy::{Point, Question},
};

use super::{
    Exam, ExamLimits, Examined, Finding, Usage,
    rules::{Asked, Broken, DECLARATIONS, judge, percent},
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
    run.exam
}

/// An exam under way.
struct Run<'a> {
    subject: &'a dyn Subject,
    limits: &'a ExamLimits,
    began: Instant,
    exam: Exam,
    /// Names of cases that were asked.
    cases: BTreeSet<&'static str>,
    /// Points that are not asked any more, because the policy failed there.
    closed: BTreeSet<Point>,
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
    /// The policy failed: with another point, or with other parameters.
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
        let declared = subject.description().declares.iter().filter(|word| !DECLARATIONS.contains(&word.as_str()));
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
        };
        Self {
            subject,
            limits,
            began: Instant::now(),
            exam,
            cases: BTreeSet::new(),
            closed: BTreeSet::new(),
            unasked: 0,
        }
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
        for point in self.closed.clone() {
            self.exam.not_examined.push(format!("the other questions of {point}, after it failed there"));
        }
        if self.unasked > 0 {
            let text = format!("{} questions, because the exam's fuel was used up", self.unasked);
            self.exam.not_examined.push(text);
        }
        self.exam.examined.cases = self.cases.len();
    }

    /// Returns whether the exam goes on.
    fn ask_cases(&mut self, cases: &[Case], with: With<'_>) -> bool {
        self.exam.examined.parameters.push(short(with.parameters, MESSAGE));
        for case in cases.iter().filter(|case| self.subject.has(case.point)) {
            if self.closed.contains(&case.point) {
                continue;
            }
            match self.ask_case(case, with) {
                Next::Question => {}
                Next::Failed => drop(self.closed.insert(case.point)),
                Next::End => return false,
            }
        }
        true
    }

    /// Returns whether the exam goes on.
    fn ask_usual(&mut self, cases: &[Case], with: With<'_>) -> bool {
        self.exam.examined.parameters.push(short(with.parameters, MESSAGE));
        for case in cases.iter().filter(|case| case.is_usual() && self.subject.has(case.point)) {
            if self.closed.contains(&case.point) {
                continue;
            }
            match self.ask_case(case, with) {
                Next::Question => {}
                // With these parameters it most likely fails at every point.
                Next::Failed => break,
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
            let asked = self.exam.examined.questions;
            self.exam.unfinished = Some(format!("the machine was too busy: the time was over after {asked} questions"));
            return Next::End;
        }
        self.cases.insert(case.name);
        let examined = &mut self.exam.examined;
        examined.questions += 1;
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
        let declares = &self.subject.description().declares;
        // No other kind than these has the name of a declaration.
        let is_declared = DECLARATIONS.contains(&broken.kind) && declares.iter().any(|word| word == broken.kind);
        let list = if is_declared { &mut self.exam.declared } else { &mut self.exam.findings };
        if let Some(seen) = list.iter_mut().find(|finding| finding.kind == broken.kind) {
            seen.count += 1;
            if !seen.points.contains(&case.point) {
                seen.points.push(case.point);
            }
            return;
        }
        let Broken { kind, expected, found, advice } = broken;
        let advice = match with.varied {
            true => format!("{advice}; or do not let the schema accept these parameters"),
            false => advice.to_owned(),
        };
        list.push(Finding {
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
        });
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
