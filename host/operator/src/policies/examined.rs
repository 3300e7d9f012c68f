//! Policies with what their exam found (docs/exam.md). It is held on every load, beside the rounds.
use super::Error;
use super::store::queue::Failure;
use super::store::state::Examinee;
use rustix::process::nice;
use std::sync::Arc;
use tanist_core::policy::Point;
use tanist_engine::{Exam, ExamLimits, Policy, exam};
use tokio::sync::oneshot;

/// A policy that was loaded, and examined unless it is built in.
#[derive(Clone)]
pub struct Examined {
    /// The policy, ready to be asked.
    pub policy: Policy,
    exam: Option<Arc<Exam>>,
}

impl Examined {
    /// A built-in policy. Tests of this repository examine it, not each start of the operator.
    #[must_use]
    pub fn builtin(policy: Policy) -> Self {
        Examined { policy, exam: None }
    }

    /// Examines a policy at every point that it has, because groups may ask it at different ones, in a thread of low priority, because the rounds of groups go first.
    ///
    /// # Errors
    /// When the machine was too busy to finish the exam. What an exam found is no error: a version that decided before goes on, whatever is found.
    pub async fn examine(policy: Policy) -> Result<Self, Failure> {
        let (tell, told) = oneshot::channel();
        let interrupted = || Failure { why: Error::Compile.to_string(), is_load: true };
        let examining = move || {
            // Of this thread alone. If it is not possible, the exam has the priority of everything else.
            let _ = nice(10);
            let found = exam(&policy, None, &ExamLimits::default());
            // Nobody listens any more only while the process ends.
            let _ = tell.send((policy, found));
        };
        std::thread::Builder::new().name("exam".into()).spawn(examining).map_err(|_| interrupted())?;
        let (policy, found) = told.await.map_err(|_| interrupted())?;
        // What was not asked may be what a group asks.
        if let Some(why) = &found.unfinished {
            return Err(Failure { why: format!("its exam was not finished: {why}; it is tried again"), is_load: true });
        }
        Ok(Examined { policy, exam: Some(Arc::new(found)) })
    }

    /// What the exam found at these points, in one sentence; at all that the policy has where there are none. `None`: it is built in.
    #[must_use]
    pub fn sentence(&self, points: Option<&[Point]>) -> Option<String> {
        Some(self.found(points)?.sentence())
    }

    /// The part of the exam that concerns a group that asks the policy at these points.
    fn found(&self, points: Option<&[Point]>) -> Option<Exam> {
        let exam = self.exam.as_deref()?;
        Some(points.map_or_else(|| exam.clone(), |points| exam.at(points)))
    }
}

impl Examinee for Examined {
    fn objection(&self, points: Option<&[Point]>) -> Option<String> {
        let failed = self.found(points).filter(|found| !found.passed())?;
        Some(format!("its exam {} (docs/exam.md)", failed.sentence()))
    }
}
