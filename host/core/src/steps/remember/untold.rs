//! Secondaries that were not told yet whom to follow in this term, and may follow its primary all the same: they reach it by the name that they were given in an earlier term, or by a Service. Then
//! clients rely on the data that these members have (docs/rules.md, "Term"; docs/safety.md, S15; simulator, seed 262736218).
use crate::contract::{MemberName, Position, Role};
use crate::memory;
use crate::over;
use crate::plan::Plan;
use crate::record::{Record, Untold};
use crate::snapshot::{Member, Snapshot};

/// Marks those that may follow the target of a takeover or seed as soon as it leads, whether they can be reached or not.
pub(in crate::steps) fn mark_others(s: &Snapshot, record: &mut Record, target: &MemberName) {
    for member in s.members.iter().filter(|m| &m.name != target) {
        // Where it ran when its node became silent is not proven over; its pod may be gone since.
        let may_run = over::may_run(s, member) || record.member(&member.name).ran.is_some();
        if may_run && !over::says_stopped(s, member) {
            // However old that reading is: data that is the same later on did not change in between.
            mark(s, record, member, member.position.clone());
        }
    }
}

/// Marks those that are seen beside a primary that leads. Their data may have changed since it does, so no position is known from before.
pub(super) fn mark_seen(s: &Snapshot, plan: &mut Plan) {
    if s.leading().is_empty() {
        return;
    }
    for member in s.members.iter().filter(|m| s.seen(m).0 == Role::Secondary) {
        let is_marked = s.record.member(&member.name).untold.as_ref().is_some_and(|mark| mark.term == s.record.term);
        if !is_marked {
            mark(s, &mut plan.record, member, Position::NotAsked);
        }
    }
}

fn mark(s: &Snapshot, record: &mut Record, member: &Member, read: Position) {
    let term = record.term;
    let known = record.member(&member.name);
    let counts_as = known.counts_as();
    // Members that agree follow whom they choose themselves. Where nothing was ever started there is no data.
    if s.group.commands.membership.is_some() || counts_as.is_none() || counts_as >= Some(term) {
        return;
    }
    let known = record.member_mut(&member.name);
    let was_read = matches!(read, Position::Known(_) | Position::Empty);
    let before = match &known.started {
        Some(started) if !was_read => started.before.clone(),
        _ => read,
    };
    let earlier = known.untold.take().map(|mut mark| mark.earlier.take().unwrap_or_else(|| Box::new(mark)));
    known.untold = Some(Untold { term, before, claims: memory::claim_uids(&member.claims), earlier });
}

/// Removes the mark of a member that is stopped and has the data that it had before: it got nothing from that primary. Nor does one count that is no member any more.
pub(super) fn forget(s: &Snapshot, plan: &mut Plan) {
    for (name, known) in &mut plan.record.members {
        let member = s.member(name);
        let got_nothing = |m: &Member| s.reachable(m) && over::says_stopped(s, m);
        let has_nothing =
            |mark: &Untold| member.is_none_or(|m| got_nothing(m) && mark.first().stood_still(m, &m.position));
        known.untold.take_if(|mark| has_nothing(mark));
    }
}
