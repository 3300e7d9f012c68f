//! Asks for sequences, only when a question needs them (row A4).
use crate::check;
use crate::plan::{Action, Plan, Reason};
use crate::snapshot::{Member, Snapshot};
use crate::steps::begin::asked;

/// Plans to read the positions that were not asked for since nobody leads. Whether all of them are there.
pub fn standing<'a>(s: &Snapshot, plan: &mut Plan, members: impl IntoIterator<Item = &'a Member>) -> bool {
    read(s, plan, members, |m| s.position_stands(m))
}

/// The same, where older positions will do: joiners synchronise. Whether all of them are there.
pub fn known<'a>(s: &Snapshot, plan: &mut Plan, members: impl IntoIterator<Item = &'a Member>) -> bool {
    read(s, plan, members, |m| asked(&m.position))
}

/// The member as it will be once its reading has ended: it is waited for, since who answers last may be the best (rows A10, A16).
pub fn once_read(member: &Member) -> Member {
    Member { asked: false, ..member.clone() }
}

fn read<'a>(
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
        if check::free(s, member).is_err() || plan.touches(&member.name) {
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
