//! How a command ended that changes no role: by its evidence alone. After its last resort nothing is awaited any more, because no pod is deleted for it.
use super::{CommandPlace, ENDED, NEVER_TRIED, last_resort, locate};
use crate::contract::{MemberName, Outcome};
use crate::limits;
use crate::plan::{Plan, Reason};
use crate::record::Intent;
use crate::snapshot::{Evidence, Snapshot};

/// The end of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RunEnd {
    /// It exited 0.
    Exited,
    /// It was not begun, and did not fail: the role of its member had changed, for instance.
    NotBegun(String),
    /// It failed, or could not be started; why, in words.
    Failed(Outcome, String),
    /// It cannot run any more, and nobody knows how it ended.
    Unknown,
}

/// Whether the command runs within its time, or its end is known.
pub(super) fn is_known(s: &Snapshot, intent: &Intent) -> bool {
    match s.evidence.get(&intent.token) {
        Some(Evidence::Exited(_) | Evidence::NotStarted(_)) => true,
        Some(Evidence::Running) => {
            s.now < last_resort(s, intent) && matches!(locate(s, intent), CommandPlace::Here(..))
        }
        _ => false,
    }
}

/// The end of the command. `None`: it is not over, and the plan says what is awaited, for that member.
pub(super) fn end_of_run(s: &Snapshot, plan: &mut Plan, intent: &Intent, about: &MemberName) -> Option<RunEnd> {
    let evidence = s.evidence.get(&intent.token);
    match evidence {
        Some(Evidence::Exited(0)) => return Some(RunEnd::Exited),
        Some(Evidence::Exited(code)) => {
            return Some(RunEnd::Failed(Outcome::Exited(*code), format!("{} exited {code}", intent.command)));
        }
        Some(Evidence::NotStarted(why)) if why.is_one_of(&NEVER_TRIED) => {
            let again = intent.started.saturating_add(limits::AGAIN_SECONDS);
            if s.now >= again {
                return Some(RunEnd::NotBegun(format!("{}: {why}", intent.command)));
            }
            let message = format!("{} was not started: {why}", intent.what());
            plan.wait_until(Reason::CommandRunning, Some(about), message, Some(again));
            return None;
        }
        Some(Evidence::NotStarted(why)) => {
            let why = format!("{} was not started: {why}", intent.command);
            return Some(RunEnd::Failed(Outcome::NotStarted, why));
        }
        Some(Evidence::Running) if is_known(s, intent) => {
            let seconds = s.now.saturating_sub(intent.started);
            let message = format!("{} has been running for {seconds} s", intent.what());
            plan.wait_until(Reason::CommandRunning, Some(about), message, Some(last_resort(s, intent)));
            return None;
        }
        _ => {}
    }
    let ended = match evidence {
        Some(Evidence::Interrupted) => true,
        Some(Evidence::Unknown(why)) => why.is_one_of(&ENDED),
        _ => false,
    };
    let until = last_resort(s, intent);
    if ended || s.now >= until || matches!(locate(s, intent), CommandPlace::Over | CommandPlace::Restarted(..)) {
        return Some(RunEnd::Unknown);
    }
    let why = match evidence {
        Some(Evidence::Unknown(why)) => why.to_string(),
        _ => "its result was not found".to_owned(),
    };
    let message = format!("the outcome of {} is unknown: {why}", intent.what());
    plan.wait_until(Reason::OutcomeUnknown, Some(about), message, Some(until));
    None
}
