//! How the conversion of the data ended on a primary that goes on serving. No role shows it, and it may be run again: it has to succeed on data that is converted already (docs/your-application.md).
use super::close_intent;
use super::run::{RunEnd, end_of_run};
use crate::plan::Plan;
use crate::record::{Event, FailedUpgrade, Intent, backoff};
use crate::snapshot::Snapshot;
use crate::steps::upgrade;

/// Settles the command, or says what is awaited.
pub(super) fn settle(s: &Snapshot, plan: &mut Plan, intent: &Intent) {
    let Some(end) = end_of_run(s, plan, intent, &intent.member) else { return };
    close_intent(plan, intent);
    match end {
        RunEnd::Exited => {
            upgrade::converted(s, plan, &intent.member, intent.version.as_deref());
            let term = plan.record.term;
            let present = plan.record.members.values_mut().filter(|known| known.term == Some(term));
            present.for_each(|known| known.version.clone_from(&intent.version));
        }
        RunEnd::NotBegun(why) => plan.record.note(s.now, Event::NotStarted, Some(&intent.member), Some(why)),
        RunEnd::Failed(_, why) => fail(s, plan, intent, why),
        RunEnd::Unknown => fail(s, plan, intent, format!("the outcome of {} is unknown", intent.command)),
    }
}

/// Counts the failure: the member is well.
fn fail(s: &Snapshot, plan: &mut Plan, intent: &Intent, why: String) {
    plan.record.note(s.now, Event::CommandFailed, Some(&intent.member), Some(why));
    let failures = plan.record.failed_upgrade.as_ref().map_or(0, |failed| failed.failures).saturating_add(1);
    let retry_at = Some(s.now.saturating_add(backoff(failures)));
    plan.record.failed_upgrade = Some(FailedUpgrade { failures, retry_at });
}
