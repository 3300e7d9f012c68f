//! Runs rounds for kube's controller: who decides, what is counted, and which events are written. The round itself is `tanist_cluster::round`.
use crate::context::Context;
use crate::metrics::Measured;
use crate::policies::Active;
use crate::{decisions, news};
use futures::FutureExt;
use kube::ResourceExt;
use kube::runtime::controller::Action as Next;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tanist_api::ReplicaGroup;
use tanist_cluster::observe::{self, Observed};
use tanist_cluster::report;
use tanist_cluster::round::{self, Decider, Done};
use tanist_core::decide::decide;
use tanist_core::plan::Plan;
use tracing::{Instrument, debug, error, info, info_span, warn};

/// Why a round ended early.
pub type Error = round::Error<decisions::Error>;

/// One round of one group. Log lines of the round, and of the commands that it starts, name the group and the number of the round.
///
/// # Errors
/// [`Error`]; [`error_policy`] says when to try again.
pub async fn round(group: Arc<ReplicaGroup>, ctx: Arc<Context>) -> Result<Next, Error> {
    let round = ctx.rounds.hints.next_round(&group.uid().unwrap_or_default());
    let name = group.name_any();
    let span = info_span!("round", namespace = group.namespace(), group = name, round);
    // kube ends the process when a round panics, and with it the rounds of all other groups; the next process would meet the same group.
    let caught = AssertUnwindSafe(run_round(group, ctx).instrument(span)).catch_unwind().await;
    if caught.is_err() {
        error!(
            group = name,
            "a round was interrupted by a fault of the operator; please report what the log says before this"
        );
    }
    caught.unwrap_or(Err(round::Error::Decide(decisions::Error::Round)))
}

async fn run_round(group: Arc<ReplicaGroup>, ctx: Arc<Context>) -> Result<Next, Error> {
    let started = Instant::now();
    let decider = Deciding { ctx: ctx.clone(), policies: Arc::new(ctx.policies.active(&group)) };
    let done = match round::round(&ctx.rounds, &group, &decider).await {
        Ok(done) => done,
        Err(round::Error::Observe(observe::Error::Gone)) => {
            ctx.forget(&group);
            return Ok(Next::await_change());
        }
        Err(error) => {
            if let round::Error::Report { observed, errors, error } = &error {
                // The status cannot say why it was not written; events are other objects.
                news::publish_errors(&ctx, observed, errors.iter().chain([error]));
            }
            return Err(error);
        }
    };
    tell(&ctx, &done, &decider.policies, started.elapsed());
    Ok(next(done.again))
}

/// Events and metrics of a round that came to its end.
fn tell(ctx: &Context, done: &Done, policies: &Active, took: Duration) {
    let Done { observed, plan, outcome, said, .. } = done;
    ctx.seen.note(&observed.snapshot.group.namespace, observed.pods.as_deref());
    news::publish(ctx, observed, plan, outcome, &policies.news);
    if !outcome.errors.is_empty() {
        ctx.metrics.round_errors.inc();
    }
    ctx.metrics.failover(&observed.snapshot, plan, &outcome.done);
    ctx.metrics.reloads(&observed.object, policies);
    ctx.metrics.round(&observed.object, &observed.snapshot, plan, said.conditions(), took);
}

/// The group's policies, on threads of their own.
struct Deciding {
    ctx: Arc<Context>,
    policies: Arc<Active>,
}

impl Decider for Deciding {
    type Error = decisions::Error;

    fn policies(&self) -> report::Policies<'_> {
        self.policies.told()
    }

    /// Decides on a thread of its own, and notes how the policies took the questions.
    async fn decide(&self, observed: Observed) -> Result<(Observed, Plan), decisions::Error> {
        let (shared, active, later) = (self.ctx.clone(), self.policies.clone(), self.policies.clone());
        let uid = observed.snapshot.group.uid.clone();
        let began = Instant::now();
        let deciding = move || {
            let plan = decide(&observed.snapshot, &Measured { active: &*active, metrics: &shared.metrics });
            let pace = active.pace();
            ((observed, plan), pace)
        };
        let (observed, plan) = self.ctx.decisions.run(&uid, deciding, move || later.prepare()).await?;
        // With the time until a thread was free, which the metric of each question does not have.
        debug!(microseconds = began.elapsed().as_secs_f64() * 1e6, "the decision is made");
        self.ctx.policies.note(&observed.object, &self.policies);
        Ok((observed, plan))
    }
}

/// When a failed round is tried again.
#[must_use]
pub fn error_policy(group: Arc<ReplicaGroup>, error: &Error, ctx: Arc<Context>) -> Next {
    let (namespace, name) = (group.namespace(), group.name_any());
    ctx.metrics.round_errors.inc();
    let again = error.again();
    match error {
        round::Error::Observe(_) if again.is_none() => {
            warn!(namespace, group = name, %error, "the group cannot be acted upon until it is changed");
        }
        _ => info!(namespace, group = name, %error, "round ended early"),
    }
    next(again)
}

fn next(after: Option<Duration>) -> Next {
    after.map_or_else(Next::await_change, Next::requeue)
}

#[cfg(test)]
mod order_tests;
