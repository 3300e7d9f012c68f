//! Who is examined: a policy, or in tests something that misbehaves in one way.

use std::time::Duration;

use tanist_core::{
    contract::Description,
    policy::{Point, PolicyName, Question},
};

use crate::{
    policy::{Outcome, Policy},
    question::{Asked, Lists},
    schema::Samples,
};

/// What an exam needs of a policy.
pub(super) trait Subject {
    fn name(&self) -> &PolicyName;

    fn description(&self) -> &Description;

    fn has(&self, point: Point) -> bool;

    /// Parameters to examine it with, at most so many sets.
    fn samples(&self, most: usize) -> Samples;

    /// Interfaces that this host never calls.
    fn later_interfaces(&self) -> &[String] {
        &[]
    }

    /// Asks one question in a new instance. Returns the fuel that the question could have used at most, too.
    fn ask(&self, question: &Question, parameters: &str, wall: Duration) -> (Outcome, u64);
}

impl Subject for Policy {
    fn name(&self) -> &PolicyName {
        self.name()
    }

    fn description(&self) -> &Description {
        self.description()
    }

    fn has(&self, point: Point) -> bool {
        self.has(point)
    }

    fn samples(&self, most: usize) -> Samples {
        self.samples(most)
    }

    fn later_interfaces(&self) -> &[String] {
        self.later_interfaces()
    }

    fn ask(&self, question: &Question, parameters: &str, wall: Duration) -> (Outcome, u64) {
        let lists = Lists::of(&question.snapshot);
        let asked = Asked::new(&question.snapshot, &lists);
        let _ticking = self.engine().ticking();
        let outcome = self.ask(question.point, &asked.with(parameters), asked.size(), wall);
        (outcome, self.fuel_of(asked.size()))
    }
}
