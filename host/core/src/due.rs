//! When the next round of a group is due, if no event starts one earlier.
use crate::contract::{Role, Timestamp};
use crate::evidence::Commands;
use crate::freshness::RECENT;
use crate::plan::{Action, Plan};
use crate::snapshot::{Evidence, Snapshot};
use std::time::Duration;

/// The pause before the runner is asked again about a command that another process began and that still runs.
pub const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The longest pause between two looks at the members of an active/passive group, which nobody else watches.
const PROBED: Duration = Duration::from_secs(30);

/// The pause before a round that looks at what this one changed.
const SOON: Duration = Duration::from_millis(50);

/// What came of a plan.
#[derive(Debug, Clone, Copy)]
pub struct Carried<'a> {
    /// The actions that were done, or begun.
    pub done: &'a [Action],
    /// When the first of the actions that were not done is tried again. Absent: all were done, or none is tried before something changes.
    pub retry: Option<Duration>,
    /// The longest pause between two rounds: the group's resync interval.
    pub resync: Duration,
    /// The present time, by the clock of decisions.
    pub now: Timestamp,
}

/// After how long the next round begins: soon, if something was changed that may change the next decision, or if not everything could be done.
#[must_use]
pub fn due(s: &Snapshot, plan: &Plan, commands: &Commands, carried: Carried<'_>) -> Duration {
    let elsewhere =
        s.evidence.iter().any(|(token, evidence)| *evidence == Evidence::Running && !commands.is_running(token));
    // Routing, memory or a settled command may change the next decision.
    let changed = plan.record != s.record || !carried.done.is_empty();
    let wake = plan.wake_at().map(|at| seconds(at.saturating_sub(carried.now)));
    let soonest = [
        wake,
        elsewhere.then_some(ASK_AGAIN),
        (changed && !starts_a_round_itself(carried.done)).then_some(SOON),
        carried.retry,
        unread(s),
    ];
    // No runner watches the members of such a group, so each look asks them (E23).
    let longest = if s.group.active_passive { carried.resync.min(PROBED) } else { carried.resync };
    soonest.into_iter().flatten().min().unwrap_or(longest).min(longest)
}

/// The pause before a member is asked again whose role could not be read: nothing else may start a round, for instance when it was asked just while its data was
/// read. The pause doubles with each attempt.
fn unread(s: &Snapshot) -> Option<Duration> {
    let unread = s.members.iter().filter(|m| s.reachable(m) && m.reading.role == Role::Unknown);
    let attempts = unread.map(|m| m.reading.unknown_streak).filter(|streak| *streak > 0).min()?;
    Some(RECENT.saturating_mul(2u32.saturating_pow(attempts.saturating_sub(1))))
}

/// At least one second, because times of decisions are whole seconds.
fn seconds(wait: i64) -> Duration {
    Duration::from_secs(u64::try_from(wait).unwrap_or(0).max(1))
}

/// Whether something was begun whose end starts the next round.
fn starts_a_round_itself(done: &[Action]) -> bool {
    let begins = |a: &Action| {
        matches!(
            a,
            Action::Run { .. }
                | Action::Read { .. }
                | Action::List { .. }
                | Action::Ask { .. }
                | Action::Apply(_)
                | Action::Nudge { .. }
                | Action::Create { .. }
                | Action::Adopt { .. }
                | Action::DropSet { .. }
                | Action::WriteState { .. }
        )
    };
    done.iter().any(begins)
}
