//! A group's policies, in the order in which they are asked.

use std::{sync::Arc, time::Instant};

use tanist_core::policy::{
    ABSTAINED_ALL, Answered, NO_POLICY, Point, Policies, PolicyName, Question, Reply, Unanswered,
};

use crate::{
    error::RunError,
    policy::{Outcome, Policy, Spent},
    question::{Asked, Lists},
};

/// One policy of a group, and how the group uses it.
#[derive(Debug, Clone)]
pub struct Layer {
    /// The loaded policy; several groups may share it.
    pub policy: Arc<Policy>,
    /// The points at which it is asked. `None`: all that it has.
    pub points: Option<Vec<Point>>,
    /// Its parameters, as [`Policy::validate`] returned them.
    pub parameters: String,
}

impl Layer {
    /// Asks this policy alone, and says what the question cost: for tools that show each policy of a stack. `None`: it is not asked at this point.
    pub fn ask(&self, question: &Question) -> Option<Alone> {
        if !self.is_asked_at(question.point) {
            return None;
        }
        let lists = Lists::of(&question.snapshot);
        let asked = Asked::new(&question.snapshot, &lists);
        let engine = self.policy.engine();
        let _ticking = engine.ticking();
        let wall = engine.limits().wall_of(asked.size().members);
        let outcome = self.policy.ask(question.point, &asked.with(&self.parameters), asked.size(), wall);
        let Outcome { reply, fuel, budget, memory, spent, notes } = outcome;
        Some(Alone { reply, fuel, budget, memory, spent, notes })
    }

    fn is_asked_at(&self, point: Point) -> bool {
        self.policy.has(point) && self.points.as_ref().is_none_or(|points| points.contains(&point))
    }
}

/// What one policy made of a question, and what that cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alone {
    /// Its reply. `None`: it abstains.
    pub reply: Result<Option<Reply>, RunError>,
    /// The fuel that it used.
    pub fuel: u64,
    /// The fuel that it was given.
    pub budget: u64,
    /// Bytes of its memories.
    pub memory: usize,
    /// Where the time went.
    pub spent: Spent,
    /// What it noted for its author.
    pub notes: Vec<String>,
}

/// The policies of a group. The first policy that has the point and does not abstain answers. A policy that fails ends the question, because the
/// next one could decide something that the first would have refused.
#[derive(Debug, Clone)]
pub struct Stack(Vec<Layer>);

impl Stack {
    /// Policies in the order in which they are asked. The last is usually a built-in one that has every point.
    pub fn new(layers: Vec<Layer>) -> Self {
        Self(layers)
    }

    /// Has the policies ready for the next question, where that saves time ([`Policy::prepare`]): to be called when nobody waits for an answer.
    pub fn prepare(&self) {
        self.0.iter().for_each(|layer| layer.policy.prepare());
    }

    /// The policies in the order in which they are asked.
    pub fn layers(&self) -> &[Layer] {
        &self.0
    }
}

/// How one policy of a stack took a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It answered or abstained.
    Answered,
    /// It failed: it trapped, used up a budget, reported a fault or returned something unfit.
    Failed,
    /// The machine's load cut it off, which says nothing about it.
    CutOff,
}

impl Policies for Stack {
    fn has(&self, point: Point) -> bool {
        !point.is_optional() || self.0.iter().any(|layer| layer.is_asked_at(point))
    }

    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        self.ask_and_note(question, &mut |_, _, _| {})
    }
}

impl Stack {
    /// Asks a question, and notes of each policy that was asked how it took it: its place in the stack, from 0, what was heard,
    /// and the fuel that it used.
    ///
    /// # Errors
    /// When no policy has a usable answer.
    #[expect(clippy::result_large_err, reason = "as the trait has it")]
    pub fn ask_and_note(
        &self,
        question: &Question,
        note: &mut dyn FnMut(usize, Heard, u64),
    ) -> Result<Answered, Unanswered> {
        let point = question.point;
        let lists = Lists::of(&question.snapshot);
        let asked = Asked::new(&question.snapshot, &lists);
        let mut fuel: u64 = 0;
        let mut last = None;
        let mut notes = Vec::new();
        let began = Instant::now();
        for (place, layer) in self.0.iter().enumerate().filter(|(_, layer)| layer.is_asked_at(point)) {
            let policy = layer.policy.name();
            // Scripts run in an engine of their own, which has a clock of its own.
            let _ticking = layer.policy.engine().ticking();
            let wall = layer.policy.engine().limits().wall_of(asked.size().members).saturating_sub(began.elapsed());
            let outcome = layer.policy.ask(point, &asked.with(&layer.parameters), asked.size(), wall);
            fuel = fuel.saturating_add(outcome.fuel);
            note(place, heard(&outcome.reply), outcome.fuel);
            notes.extend(outcome.notes.iter().map(|note| format!("{}: {note}", policy.name)));
            match outcome.reply {
                Ok(Some(reply)) => return Ok(Answered { policy: policy.clone(), reply, fuel, notes }),
                Ok(None) => last = Some(policy),
                Err(error) => {
                    let (kind, message) = (error.kind(), error.to_string());
                    return Err(Unanswered { policy: policy.clone(), kind, message, notes });
                }
            }
        }
        Err(match last {
            Some(policy) => Unanswered {
                policy: policy.clone(),
                kind: ABSTAINED_ALL,
                message: format!("every policy abstained from `{point}`"),
                notes,
            },
            None => Unanswered {
                policy: PolicyName::none(),
                kind: NO_POLICY,
                message: format!("no policy of the group has `{point}`"),
                notes,
            },
        })
    }
}

fn heard<T>(reply: &Result<T, RunError>) -> Heard {
    match reply {
        Ok(_) => Heard::Answered,
        Err(RunError::Wall) => Heard::CutOff,
        Err(_) => Heard::Failed,
    }
}
