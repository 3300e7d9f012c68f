//! A group's policies, in the order in which they are asked.

use std::sync::Arc;

use tanist_core::policy::{Answered, Point, Policies, PolicyName, Question, Unanswered};

use crate::{
    policy::Policy,
    question::{Asked, Lists},
};

/// One policy of a group, and how the group uses it.
#[derive(Debug, Clone)]
pub struct Layer {
    /// The policy.
    pub policy: Arc<Policy>,
    /// The points at which it is asked. `None`: all that it has.
    pub points: Option<Vec<Point>>,
    /// Its parameters, as [`Policy::validate`] returned them.
    pub parameters: String,
}

impl Layer {
    fn is_asked_at(&self, point: Point) -> bool {
        self.policy.has(point) && self.points.as_ref().is_none_or(|points| points.contains(&point))
    }
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

    /// The policies in the order in which they are asked.
    pub fn layers(&self) -> &[Layer] {
        &self.0
    }
}

impl Policies for Stack {
    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        let point = question.point;
        let lists = Lists::of(&question.snapshot);
        let asked = Asked::new(&question.snapshot, &lists);
        let mut fuel: u64 = 0;
        let mut last = None;
        let mut notes = Vec::new();
        for layer in self.0.iter().filter(|layer| layer.is_asked_at(point)) {
            let policy = layer.policy.name();
            let outcome = layer.policy.ask(point, &asked.with(&layer.parameters), asked.size());
            fuel = fuel.saturating_add(outcome.fuel);
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
                kind: "abstained-all",
                message: format!("every policy abstained from `{point}`"),
                notes,
            },
            None => Unanswered {
                policy: no_policy(),
                kind: "no-policy",
                message: format!("no policy of the group has `{point}`"),
                notes,
            },
        })
    }
}

/// The name that is reported if no policy was asked.
fn no_policy() -> PolicyName {
    PolicyName { name: "none".to_owned(), version: String::new(), source: String::new(), digest: String::new() }
}
