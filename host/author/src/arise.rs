//! Which questions arise about a snapshot, without asking a policy.
//!
//! The core's own round decides that ([`tanist_core::decide`]); nothing here repeats its rules.

use std::cell::RefCell;

use tanist_core::{
    decide::decide,
    examples::{why_nobody_moves, why_not},
    plan::{DecidedBy, Plan},
    policy::{Answered, NO_POLICY, Point, Policies, PolicyName, Question, Unanswered},
    question::question,
    snapshot::Snapshot,
};

use crate::ask::NotAsked;

/// What becomes of a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Arises {
    /// It is put to the policies.
    Asked(Box<Question>),
    /// It arises, but the host bars every member and asks nobody.
    Nobody {
        /// The question that nobody is asked.
        question: Box<Question>,
        /// Why, as the group reports it.
        reason: String,
    },
}

impl Arises {
    /// The question, whether anybody is asked or not.
    #[must_use]
    pub fn question(&self) -> &Question {
        match self {
            Self::Asked(question) | Self::Nobody { question, .. } => question,
        }
    }
}

/// What becomes of a question about a snapshot.
///
/// # Errors
/// The host does not come to it: what it does instead.
pub fn arises(snapshot: &Snapshot, point: Point) -> Result<Arises, NotAsked> {
    let heard = Heard::of(Some(point));
    let plan = decide(snapshot, &heard);
    let asked = heard.asked.into_inner();
    if let Some(found) = asked.iter().find(|question| question.point == point) {
        return Ok(Arises::Asked(Box::new(found.clone())));
    }
    let points: Vec<_> = asked.iter().map(|question| question.point).collect();
    nobody(snapshot, &plan, point).ok_or_else(|| not_asked(snapshot, point, &plan, &points))
}

/// The questions that arise about a snapshot, in the order in which a round comes to them; without the optional ones, which arise all the time.
#[must_use]
pub fn points(snapshot: &Snapshot) -> Vec<Point> {
    let heard = Heard::of(None);
    let plan = decide(snapshot, &heard);
    let asked = heard.asked.into_inner().into_iter().map(|question| question.point);
    let barred = plan.decisions.iter().filter(|decision| decision.by == DecidedBy::NoCandidate);
    let mut points: Vec<_> = asked.collect();
    for decision in barred {
        if !points.contains(&decision.point) {
            points.push(decision.point);
        }
    }
    points
}

/// The question for which every member is barred. `None`: this is not so.
pub(crate) fn nobody(snapshot: &Snapshot, plan: &Plan, point: Point) -> Option<Arises> {
    let mut all = plan.decisions.iter();
    let found = all.find(|decision| decision.point == point && decision.by == DecidedBy::NoCandidate)?;
    let bars = found.candidates.iter().map(|each| (each.member.clone(), each.reason.clone())).collect();
    let start = format!("no member can be chosen for {point}");
    let said = plan.waits.iter().find(|wait| wait.message.starts_with(&start));
    let reason = said.map_or(start, |wait| wait.message.clone());
    Some(Arises::Nobody { question: Box::new(question(snapshot, point, &bars)), reason })
}

/// Why a question is not asked. `asked`: the points that are.
pub(crate) fn not_asked(snapshot: &Snapshot, point: Point, plan: &Plan, asked: &[Point]) -> NotAsked {
    let why = why_nobody_moves(snapshot, point).unwrap_or_else(|| why_not(plan, asked.iter().copied()));
    NotAsked { point, why }
}

/// Answers nothing, and keeps what was asked.
struct Heard {
    /// The optional point that is asked about. The others could change what comes after them.
    point: Option<Point>,
    asked: RefCell<Vec<Question>>,
}

impl Heard {
    fn of(point: Option<Point>) -> Self {
        Self { point, asked: RefCell::default() }
    }
}

impl Policies for Heard {
    fn has(&self, point: Point) -> bool {
        !point.is_optional() || self.point == Some(point)
    }

    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        self.asked.borrow_mut().push(question.clone());
        Err(Unanswered { policy: PolicyName::none(), kind: NO_POLICY, message: String::new(), notes: Vec::new() })
    }
}
