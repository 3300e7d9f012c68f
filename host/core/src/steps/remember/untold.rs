//! Secondaries that were not told yet whom to follow in this term, and may follow its primary all the same: they reach it by the name that they were given in an earlier term, or by a Service. Then
//! clients rely on the data that these members have (docs/rules.md, "Term"; docs/safety.md, S15; simulator, seed 262736218).
use crate::contract::{MemberName, Position, Role};
use crate::over;
use crate::plan::Plan;
use crate::record::{Record, Untold};
use crate::snapshot::{Member, Snapshot};

/// Marks those that may follow the target of a takeover as soon as it leads: all others that may run, whether they can be reached or not.
pub(in crate::steps) fn mark_others(s: &Snapshot, record: &mut Record, target: &MemberName) {
    let may_follow = |m: &&Member| {
        let is_stopped = s.reachable(m) && s.seen(m).0 == Role::Stopped;
        &m.name != target && over::may_run(s, m) && !is_stopped
    };
    for member in s.members.iter().filter(may_follow) {
        let before = if s.position_is_current(member) { member.position.clone() } else { Position::NotAsked };
        mark(s, record, member, before);
    }
}

/// Marks those that are seen beside a primary that leads. Their data may have changed since it does, so no position is known from before.
pub(super) fn mark_seen(s: &Snapshot, plan: &mut Plan) {
    if s.leading().is_empty() {
        return;
    }
    for member in s.members.iter().filter(|m| s.seen(m).0 == Role::Secondary) {
        mark(s, &mut plan.record, member, Position::NotAsked);
    }
}

fn mark(s: &Snapshot, record: &mut Record, member: &Member, before: Position) {
    let term = record.term;
    let known = record.member(&member.name);
    let is_marked = known.untold.as_ref().is_some_and(|mark| mark.term >= term);
    // Members that agree follow whom they choose themselves.
    if s.group.commands.membership.is_some() || is_marked || known.counts_as() >= Some(term) {
        return;
    }
    let known = record.member_mut(&member.name);
    // Data that did not change since an earlier mark did not change since this one.
    let before = known.untold.take().map_or(before, |mark| mark.before);
    known.untold = Some(Untold { term, before });
}

/// Removes the mark of a member that is stopped and has the data that it had before: it got nothing from that primary.
pub(super) fn forget(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let is_stopped =
        s.record.intent_of(&member.name).is_none() && s.reachable(member) && s.role(member).0 == Role::Stopped;
    if let Some(known) = plan.record.members.get_mut(&member.name).filter(|_| is_stopped) {
        known.untold.take_if(|mark| mark.is_unchanged(&member.position));
    }
}
