//! The loop: observe, decide, act, report.
use crate::act::{self, Outcome, act};
use crate::context::Context;
use crate::metrics::Measured;
use crate::observe::{self, Observed, observe};
use crate::policies::Active;
use crate::{decisions, news, report};
use kube::ResourceExt;
use kube::runtime::controller::Action as Next;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tanist_api::ReplicaGroup;
use tanist_core::decide::decide;
use tanist_core::due::{Carried, due};
use tanist_core::freshness::Ask;
use tanist_core::plan::Plan;
use tracing::{Instrument, debug, info, info_span, warn};

/// Why a round failed: something could not be read or not written. Either ends the round; the next one starts anew.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The group could not be observed.
    #[error(transparent)]
    Observe(observe::Error),
    /// There was no thread for the decision.
    #[error(transparent)]
    Decide(decisions::Error),
    /// The result of the round could not be written.
    #[error(transparent)]
    Act(act::Error),
}

/// One round of one group. Waits and errors of one group never affect another. Log lines of the round, and of the commands that it starts, name
/// the group and the number of the round.
///
/// # Errors
/// [`Error`]; [`error_policy`] says when to try again.
pub async fn round(group: Arc<ReplicaGroup>, ctx: Arc<Context>) -> Result<Next, Error> {
    let round = ctx.hints.next_round(&group.uid().unwrap_or_default());
    let span = info_span!("round", namespace = group.namespace(), group = group.name_any(), round);
    run_round(group, ctx).instrument(span).await
}

async fn run_round(group: Arc<ReplicaGroup>, ctx: Arc<Context>) -> Result<Next, Error> {
    let started = Instant::now();
    let policies = Arc::new(ctx.policies.active(&group));
    let resync = Duration::from_secs(u64::from(group.spec.resync_interval_seconds));
    let observed = match observe(&ctx, &group, Ask::Changed(resync), None).await {
        // reads
        Ok(observed) => observed,
        Err(error) => return unobserved(&ctx, &group, error, &policies.health).await,
    };
    let (observed, plan) = decided(&ctx, observed, &policies).await?; // neither
    let mut said = report::derive(&observed.snapshot, &plan, &policies, &[]); // neither
    let outcome = act(&ctx, &observed, &plan, &said).await; // writes
    let plan = if outcome.recorded { plan } else { plan.unwritten(&observed.snapshot.record) };
    if !outcome.recorded || !outcome.errors.is_empty() {
        // writes
        said = report::derive(&observed.snapshot, &plan, &policies, &outcome.errors);
        if let Err(error) = report::write(&ctx, &outcome.object, &plan, &said).await {
            // The status cannot say why it was not written; events are other objects.
            news::publish_errors(&ctx, &observed, outcome.errors.iter().chain([&error]));
            return Err(Error::Act(error));
        }
    }
    log(&observed, &plan, &outcome);
    news::publish(&ctx, &observed, &plan, &outcome, &policies.news);
    ctx.metrics.failover(&observed.snapshot, &outcome.done);
    ctx.metrics.reloads(&observed.object, &policies);
    ctx.metrics.round(&observed.object, &observed.snapshot, &plan, said.conditions(), started.elapsed());
    Ok(again(&ctx, &group, &observed, &plan, &outcome))
}

/// Decides on a thread of its own, and notes how the policies took the questions.
async fn decided(ctx: &Arc<Context>, observed: Observed, policies: &Arc<Active>) -> Result<(Observed, Plan), Error> {
    let (shared, active, later) = (ctx.clone(), policies.clone(), policies.clone());
    let uid = observed.snapshot.group.uid.clone();
    let began = Instant::now();
    let deciding = move || {
        let plan = decide(&observed.snapshot, &Measured { active: &*active, metrics: &shared.metrics });
        let pace = active.pace();
        ((observed, plan), pace)
    };
    let (observed, plan) = ctx.decisions.run(&uid, deciding, move || later.prepare()).await.map_err(Error::Decide)?;
    // With the time until a thread was free, which the metric of each question does not have.
    debug!(microseconds = began.elapsed().as_secs_f64() * 1e6, "the decision is made");
    ctx.policies.note(&observed.object, policies);
    Ok((observed, plan))
}

/// Logs what was decided and done. Log lines have precise times; the record has seconds only.
fn log(observed: &Observed, plan: &Plan, outcome: &Outcome) {
    for decision in plan.decisions.iter().filter(|d| d.chosen.is_some()) {
        let (point, policy) = (decision.point.to_string(), decision.by.policy().map(|p| p.name.as_str()));
        let chosen = decision.chosen.as_ref().map(|m| m.as_str());
        info!(point, member = chosen, policy, term = decision.term, reason = decision.reason, "decided");
    }
    let notes = plan.decisions.iter().flat_map(|decision| &decision.notes);
    for note in notes.chain(plan.broken.iter().flat_map(|unanswered| &unanswered.notes)) {
        info!(note, "a policy noted");
    }
    for t in plan.noted(&observed.snapshot.record) {
        info!(what = t.what, member = t.member.as_ref().map(|m| m.as_str()), detail = t.detail, "noted");
    }
    for error in &outcome.errors {
        info!(reason = error.reason().as_str(), %error, "not done");
    }
}

async fn unobserved(
    ctx: &Context,
    group: &ReplicaGroup,
    error: observe::Error,
    health: &tanist_core::status::PolicyHealth,
) -> Result<Next, Error> {
    if let observe::Error::Gone = error {
        ctx.forget(group);
        return Ok(Next::await_change());
    }
    if !matches!(error, observe::Error::OtherInstallation(_)) {
        report::unobserved(ctx, group, error.reason(), &error.to_string(), health).await.map_err(Error::Act)?;
    }
    Err(Error::Observe(error))
}

/// When the next round begins if no event starts one earlier.
fn again(ctx: &Context, group: &ReplicaGroup, observed: &Observed, plan: &Plan, outcome: &Outcome) -> Next {
    if !outcome.errors.is_empty() {
        ctx.metrics.round_errors.inc();
    }
    if outcome.errors.iter().any(|error| matches!(error, act::Error::Closing)) {
        return Next::await_change();
    }
    let carried = Carried {
        done: &outcome.done,
        retry: outcome.errors.iter().filter_map(act::Error::again).min(),
        resync: Duration::from_secs(u64::from(group.spec.resync_interval_seconds)),
        now: ctx.clock.now(),
    };
    let s = &observed.snapshot;
    Next::requeue(ctx.hints.with_group(&s.group.uid, |h| due(s, plan, &h.commands, carried)))
}

/// When a failed round is tried again.
#[must_use]
pub fn error_policy(group: Arc<ReplicaGroup>, error: &Error, ctx: Arc<Context>) -> Next {
    let (namespace, name) = (group.namespace(), group.name_any());
    ctx.metrics.round_errors.inc();
    let after = match error {
        Error::Act(error) => match error.again() {
            Some(after) => after,
            None => return Next::await_change(),
        },
        Error::Observe(
            observe::Error::ReadSpec(_) | observe::Error::BuildObjects(_) | observe::Error::ReadRecord(_),
        ) => {
            warn!(namespace, group = name, %error, "the group cannot be acted upon until it is changed");
            return Next::await_change();
        }
        Error::Decide(_) => Duration::from_secs(1),
        Error::Observe(_) => Duration::from_secs(5),
    };
    info!(namespace, group = name, %error, "round ended early");
    Next::requeue(after)
}
