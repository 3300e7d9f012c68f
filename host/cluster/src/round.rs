//! The loop: observe, decide, act, report. Who decides is given; what a process counts and tells of a round is up to it.
use crate::act::{self, Outcome, act};
use crate::context::Context;
use crate::observe::{self, Observed, observe};
use crate::report::{self, Derived, Policies};
use std::sync::Arc;
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_api::spec::ReplicaGroupSpec;
use tanist_core::due::{Carried, due};
use tanist_core::freshness::Ask;
use tanist_core::limits;
use tanist_core::plan::Plan;
use tracing::info;

/// Who decides in a round.
pub trait Decider: Sync {
    /// Why there is no decision. Nothing is wrong with the group then, and the next round tries again.
    type Error: std::fmt::Display;

    /// The group's policies, for its status.
    fn policies(&self) -> Policies<'_>;

    /// Decides. What was observed is given back.
    fn decide(&self, observed: Observed) -> impl Future<Output = Result<(Observed, Plan), Self::Error>> + Send;
}

/// A round that came to its end.
pub struct Done {
    /// What was observed.
    pub observed: Observed,
    /// What was decided. Without what could not be recorded.
    pub plan: Plan,
    /// What was done.
    pub outcome: Outcome,
    /// The status as it was written.
    pub said: Derived,
    /// After how long the next round begins if nothing starts one earlier. Absent: not before something changes.
    pub again: Option<Duration>,
}

/// Why a round ended early. The next one starts anew.
#[derive(Debug, thiserror::Error)]
pub enum Error<D: std::fmt::Display> {
    /// The group could not be observed.
    #[error(transparent)]
    Observe(observe::Error),
    /// There is no decision.
    #[error("{0}")]
    Decide(D),
    /// What the round did could not be written to the status.
    #[error("{error}")]
    Report {
        /// What was observed.
        observed: Box<Observed>,
        /// Why actions were not done.
        errors: Vec<act::Error>,
        /// Why the status was not written.
        error: act::Error,
    },
    /// The group could not be observed, and its status could not say so.
    #[error(transparent)]
    Tell(act::Error),
}

impl<D: std::fmt::Display> Error<D> {
    /// After how long the round is tried again. Absent: not before something changes.
    #[must_use]
    pub fn again(&self) -> Option<Duration> {
        match self {
            Error::Observe(error) => error.again(),
            Error::Decide(_) => Some(Duration::from_secs(1)),
            Error::Report { error, .. } | Error::Tell(error) => error.again(),
        }
    }
}

/// Seconds after which a group is looked at in any case. Where the members elect their leader, nothing in Kubernetes shows that they elected another one.
fn interval(spec: &ReplicaGroupSpec) -> u32 {
    let elects = spec.commands.member_list.is_some() && spec.primaries.count(spec.replicas) < spec.replicas;
    let resync = spec.resync_interval_seconds;
    if elects { resync.min(limits::ELECTED_SECONDS) } else { resync }
}

/// One round of one group. Waits and errors of one group never affect another.
///
/// # Errors
/// [`Error`]; [`Error::again`] says when to try again.
pub async fn round<D: Decider>(ctx: &Arc<Context>, group: &ReplicaGroup, decider: &D) -> Result<Done, Error<D::Error>> {
    let resync = Duration::from_secs(u64::from(interval(&group.spec)));
    let observed = match observe(ctx, group, Ask::Changed(resync), None).await {
        // reads
        Ok(observed) => observed,
        Err(error) => return Err(unobserved(ctx, group, error, decider).await),
    };
    let (observed, plan) = decider.decide(observed).await.map_err(Error::Decide)?; // neither
    let mut said = report::derive(&observed.snapshot, &plan, decider.policies(), &[]); // neither
    let outcome = act(ctx, &observed, &plan, &said).await; // writes
    let plan = if outcome.recorded { plan } else { plan.unwritten(&observed.snapshot.record) };
    if !outcome.recorded || !outcome.errors.is_empty() {
        // writes
        said = report::derive(&observed.snapshot, &plan, decider.policies(), &outcome.errors);
        if let Err(error) = report::write(ctx, &outcome.object, &plan, &said).await {
            return Err(Error::Report { observed: Box::new(observed), errors: outcome.errors, error });
        }
    }
    log(&observed, &plan, &outcome);
    let again = again(ctx, resync, &observed, &plan, &outcome);
    Ok(Done { observed, plan, outcome, said, again })
}

/// Tells in the status that the group could not be observed, unless the group is gone or somebody else's.
async fn unobserved<D: Decider>(
    ctx: &Context,
    group: &ReplicaGroup,
    error: observe::Error,
    decider: &D,
) -> Error<D::Error> {
    if !matches!(error, observe::Error::Gone | observe::Error::OtherInstallation(..)) {
        let health = decider.policies().health;
        if let Err(error) = report::unobserved(ctx, group, error.reason(), &error.to_string(), health).await {
            return Error::Tell(error);
        }
    }
    Error::Observe(error)
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

/// When the next round begins if no event starts one earlier.
fn again(ctx: &Context, resync: Duration, observed: &Observed, plan: &Plan, outcome: &Outcome) -> Option<Duration> {
    if outcome.errors.iter().any(|error| matches!(error, act::Error::Closing)) {
        return None;
    }
    let retry = outcome.errors.iter().filter_map(act::Error::again).min();
    let carried = Carried { done: &outcome.done, retry, resync, now: ctx.clock.now() };
    let s = &observed.snapshot;
    Some(ctx.hints.with_group(&s.group.uid, |h| due(s, plan, &h.commands, carried)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;
    use crate::stub::{GROUP, LOADED, Silent, Stub};
    use std::io;
    use std::sync::Mutex;
    use tanist_core::decide::decide;
    use tanist_core::plan::{DecidedBy, Decision};
    use tanist_core::policy::Point;
    use tracing::instrument::WithSubscriber;

    /// Decides that db-1 follows nobody new, and notes why.
    struct Noting;

    impl Decider for Noting {
        type Error = String;

        fn policies(&self) -> Policies<'_> {
            LOADED
        }

        async fn decide(&self, observed: Observed) -> Result<(Observed, Plan), String> {
            let mut plan = decide(&observed.snapshot, &Silent);
            plan.decisions.push(Decision {
                at: observed.snapshot.now,
                point: Point::Place,
                by: DecidedBy::NoCandidate,
                term: 1,
                chosen: None,
                reason: String::new(),
                candidates: Vec::new(),
                notes: vec!["db-1 lags by 7".into()],
            });
            Ok((observed, plan))
        }
    }

    /// What was logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    // S22; docs/your-application.md, "Members that agree": where the members elect who leads, nothing but their `status` shows it, so they are asked more often.
    #[test]
    fn members_that_elect_are_looked_at_more_often() {
        let of = |primaries: serde_json::Value, resync: u32, agrees: bool| {
            let mut group = Stub::new().get(GROUP).unwrap();
            group["spec"]["replicas"] = 3.into();
            group["spec"]["primaries"] = primaries;
            group["spec"]["resyncIntervalSeconds"] = resync.into();
            if agrees {
                group["spec"]["commands"]["memberList"] = serde_json::json!({"exec": ["list"]});
            }
            interval(&serde_json::from_value::<ReplicaGroup>(group).unwrap().spec)
        };
        assert_eq!((of(1.into(), 60, true), of(1.into(), 2, true)), (5, 2));
        assert_eq!((of("All".into(), 60, true), of(1.into(), 60, false)), (60, 60));
    }

    // P17: what a policy notes is in the log of the round.
    #[tokio::test]
    async fn what_a_policy_notes_is_logged() {
        let stub = Stub::new();
        let group: ReplicaGroup = serde_json::from_value(stub.get(GROUP).unwrap()).unwrap();
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let done = round(&stub.context(), &group, &Noting).with_subscriber(subscriber).await;
        assert!(done.is_ok());
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert!(text.contains("a policy noted note=\"db-1 lags by 7\""), "{text}");
    }
}
