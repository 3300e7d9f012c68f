//! How a command before or after an update ended. No role shows it, and it may be run again: what it does has to be the same the second time (docs/your-application.md).
use super::close_intent;
use super::run::{RunEnd, end_of_run};
use crate::check;
use crate::plan::Plan;
use crate::record::{Event, Intent, Verb, backoff};
use crate::snapshot::Snapshot;
use crate::steps::hooks;

/// Settles the command, or says what is awaited.
pub(super) fn settle(s: &Snapshot, plan: &mut Plan, intent: &Intent) {
    let Some(end) = end_of_run(s, plan, intent, &intent.member) else { return };
    close_intent(plan, intent);
    let batch = check::open_batch(s).cloned();
    match (end, batch) {
        (RunEnd::Exited, Some(batch)) if intent.verb == Verb::BeforeUpdate => hooks::begun(s, plan, &batch),
        (RunEnd::Exited, Some(batch)) => hooks::ended(s, plan, &batch),
        (RunEnd::NotBegun(why), _) => {
            plan.record.note(s.now, Event::NotStarted, Some(&intent.member), Some(why));
        }
        (RunEnd::Failed(_, why), _) => fail(s, plan, intent, why),
        (RunEnd::Unknown, _) => fail(s, plan, intent, format!("the outcome of {} is unknown", intent.command)),
        (RunEnd::Exited, None) => {}
    }
}

/// Counts the failure for the batch: the member that executed the command is well.
fn fail(s: &Snapshot, plan: &mut Plan, intent: &Intent, why: String) {
    plan.record.note(s.now, Event::CommandFailed, Some(&intent.member), Some(why));
    if let Some(batch) = &mut plan.record.batch {
        batch.failures = batch.failures.saturating_add(1);
        // What was said before may have been taken back by then: it is said again before a pod goes for the next template.
        batch.begun &= intent.verb != Verb::AfterUpdate;
        batch.retry_at = Some(s.now.saturating_add(backoff(batch.failures)));
    }
}
