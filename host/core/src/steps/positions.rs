//! Reads sequences, only when a question needs them (A4).
use crate::check;
use crate::contract::{Position, Timestamp};
use crate::plan::{Action, Plan, Reason};
use crate::snapshot::{Member, Snapshot};
use crate::steps::begin::was_asked;

/// Seconds between two readings of the same sequence.
pub const PAUSE_SECONDS: i64 = 2;

/// Plans to read the positions that have not been read since the primary was lost. Returns whether all are current.
pub fn all_current<'a>(s: &Snapshot, plan: &mut Plan, members: impl IntoIterator<Item = &'a Member>) -> bool {
    plan_reads(s, plan, members, |m| s.position_is_current(m))
}

/// Plans to read the positions that are not known at all. Older ones are enough for members that synchronise anyway. Returns whether all are known.
pub fn all_known<'a>(s: &Snapshot, plan: &mut Plan, members: impl IntoIterator<Item = &'a Member>) -> bool {
    plan_reads(s, plan, members, |m| was_asked(&m.position))
}

/// The member as it will be once its sequence was read. The question waits for such a member, because it may be the best candidate (A10, A16).
pub fn after_reading(member: &Member) -> Member {
    Member { asked: false, ..member.clone() }
}

/// Plans to read those positions again that were read more than two seconds ago. Returns when to look again.
pub fn read_again<'a>(s: &Snapshot, plan: &mut Plan, members: impl IntoIterator<Item = &'a Member>) -> Timestamp {
    for member in members {
        if member.position == Position::NotAsked || member.position_at.saturating_add(PAUSE_SECONDS) <= s.now {
            read_one(s, plan, member);
        }
    }
    s.now.saturating_add(PAUSE_SECONDS)
}

/// Plans to read one position, and says so.
pub fn read_one(s: &Snapshot, plan: &mut Plan, member: &Member) {
    if let Some(pod) =
        member.pod.as_ref().filter(|_| check::can_take_command(s, member).is_ok() && !plan.touches(&member.name))
    {
        plan.actions.push(Action::Read { member: member.name.clone(), pod_uid: pod.uid.clone() });
    }
    plan.wait(Reason::ReadingPositions, Some(&member.name), format!("the sequence of {} is being read", member.name));
}

fn plan_reads<'a>(
    s: &Snapshot,
    plan: &mut Plan,
    members: impl IntoIterator<Item = &'a Member>,
    known: impl Fn(&Member) -> bool,
) -> bool {
    let mut all = true;
    for member in members {
        if known(member) {
            continue;
        }
        all = false;
        if check::can_take_command(s, member).is_err() || plan.touches(&member.name) {
            continue;
        }
        if let Some(pod) = &member.pod {
            plan.actions.push(Action::Read { member: member.name.clone(), pod_uid: pod.uid.clone() });
        }
    }
    if !all {
        plan.wait(Reason::ReadingPositions, None, "the sequences of the members are being read");
    }
    all
}
