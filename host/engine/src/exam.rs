//! The exam of a policy: whether it behaves, found out before it decides for a live group.
//!
//! **The promise.** An exam asks a policy the example questions of the core ([`tanist_core::examples`]), each of them twice, with parameters that the
//! policy's own schema accepts, and says what it did that no policy should do. It is bounded in fuel and time, has no effect, and gives the same
//! result on every machine, unless the machine is so busy that it is not finished. docs/exam.md has the rules and the cases for authors.
//!
//! A policy that passes is not safe by that: what may be done is checked on every answer (docs/safety.md, S34), whatever the exam said.

mod part;
mod report;
mod rules;
mod run;
mod subject;

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::Serialize;
use tanist_core::policy::{Point, PolicyName};

use crate::policy::Policy;

/// What an exam may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExamLimits {
    /// Fuel of all questions together. When it is used up, the remaining questions are not examined, which the exam says. Two thousand million
    /// units take some two seconds; the built-in policy needs a fortieth of that.
    pub fuel: u64,
    /// The time of the whole exam. When it is over, the exam is not finished: the machine is too busy, because fuel ends far sooner. An exam that is cut
    /// begins from its start, so this is far more than a busy machine needs: what is cut again and again keeps a group without its policy. Seen: 78
    /// questions in a minute, where forty processes wanted two processors.
    pub wall: Duration,
    /// Sets of parameters, made from the policy's schema, that the usual question of each point is asked with.
    pub parameters: usize,
}

impl ExamLimits {
    /// What an exam may cost in an operator.
    pub const DEFAULT: Self = Self { fuel: 2_000_000_000, wall: Duration::from_secs(600), parameters: 32 };

    /// The same limits, but for the time: for tests and commands, where nobody waits and nothing may fail because the machine is busy.
    pub const UNHURRIED: Self = Self { wall: Duration::from_secs(3600), ..Self::DEFAULT };
}

impl Default for ExamLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What an exam found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Exam {
    /// The policy that was examined.
    pub policy: PolicyName,
    /// What it did that no policy should do, each kind once, in the order in which it was seen. Empty: nothing.
    pub findings: Vec<Finding>,
    /// What it did that is unusual, and that it declares in its description.
    pub declared: Vec<Finding>,
    /// What was asked.
    pub examined: Examined,
    /// What was left out of this exam, and why. What every exam leaves out is in [`Exam::NEVER_EXAMINED`].
    pub not_examined: Vec<String>,
    /// Why the exam could not be finished: the machine's load, which says nothing about the policy. Absent: it was finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<String>,
    /// Points that the policy has and that do not count here, see [`Exam::at`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_asked_at: Vec<Point>,
    /// What the rest is counted from.
    #[serde(skip)]
    record: part::Record,
}

/// What was asked in an exam.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Examined {
    /// The points that the policy has and may be asked at, each of which was asked about.
    pub points: Vec<Point>,
    /// The number of different cases.
    pub cases: usize,
    /// The number of different questions; each was asked twice.
    pub questions: usize,
    /// The sets of parameters that were used, as JSON; each is cut to 1 KiB. The first was used in every case, the others in the usual case of each point.
    pub parameters: Vec<String>,
    /// The fuel of all questions.
    pub fuel: u64,
    /// The most fuel that a question of each point and size used.
    pub usage: Vec<Usage>,
}

/// The fuel of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// The decision point that was asked.
    pub point: Point,
    /// The number of members of the snapshot.
    pub members: usize,
    /// What the question used.
    pub fuel: u64,
    /// What it could have used at most. The exam allows half of it.
    pub limit: u64,
}

/// One kind of thing that a policy did and should not do, with the first question at which it did it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// One word for machines, listed in docs/exam.md, for instance `unknown-member`.
    pub kind: &'static str,
    /// The name of the case.
    pub case: &'static str,
    /// What is special about the case.
    pub about: &'static str,
    /// The point that was asked.
    pub point: Point,
    /// The number of members of its snapshot.
    pub members: usize,
    /// The parameters, as JSON; cut to 1 KiB.
    pub parameters: String,
    /// What was expected.
    pub expected: String,
    /// What came instead.
    pub found: String,
    /// What the policy's author does about it.
    pub advice: String,
    /// The number of questions at which this kind was seen.
    pub count: usize,
    /// The points at which it was seen.
    pub points: Vec<Point>,
}

/// How an exam ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing was found.
    Passed,
    /// Something was found, whether the exam was finished or not.
    Failed,
    /// Nothing was found so far, and the machine's load ended the exam: it is tried again.
    NotFinished,
}

impl Exam {
    /// How it ended.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (self.findings.is_empty(), &self.unfinished) {
            (false, _) => Verdict::Failed,
            (true, Some(_)) => Verdict::NotFinished,
            (true, None) => Verdict::Passed,
        }
    }

    /// Whether the policy may decide for a live group: the exam was finished and nothing was found.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.verdict() == Verdict::Passed
    }
}

/// Examines a policy.
///
/// `given`: the only parameters that it is examined with, as [`Policy::validate`] returned them, for instance those of a group. Without them it is
/// examined with what its schema says: the defaults, or a value for everything that is required, and one after the other each value of an
/// enumeration and each bound of a parameter.
///
/// This takes the time of some hundred questions, and is no part of a round: ask for it beside the rounds. The same policy, parameters and limits give
/// the same result, unless it is [`Verdict::NotFinished`].
#[must_use]
pub fn exam(policy: &Policy, given: Option<&str>, limits: &ExamLimits) -> Exam {
    run::run(policy, given, limits)
}
