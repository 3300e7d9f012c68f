//! A member that agrees with others starts, and nothing is remembered of them.
use super::super::support::db;
use super::super::support::policies::Natural;
use super::membership::agreeing;
use tanist_core::contract::Role;
use tanist_core::decide::decide;
use tanist_core::limits;
use tanist_core::plan::Reason;
use tanist_core::record::{Record, Seeded};
use tanist_core::snapshot::Snapshot;

/// Three members that agree, of which only db-0 was started, so many seconds ago. Record and marks of claims are lost.
fn lost(seconds: i64) -> Snapshot {
    let mut s = agreeing(3).observe();
    s.record = Record { last_replicas: 3, ..Record::default() };
    s.lists.clear();
    for member in &mut s.members {
        member.claims.iter_mut().for_each(|claim| (claim.mark, claim.start) = (None, None));
        member.reading.role = if member.name == db(0) { Role::Starting } else { Role::Stopped };
        member.reading.since = s.now - seconds;
    }
    s
}

// S32, D8: it would wait for the others for ever, and nobody knows who they are: an administrator is asked. One that starts by itself in time is adopted.
#[test]
fn a_member_that_starts_alone_needs_an_administrator() {
    let asks = |s: &Snapshot| {
        let plan = decide(s, &Natural);
        (plan.needs_adoption.is_some(), plan.waits.iter().any(|wait| wait.reason == Reason::MayBePrimary))
    };
    assert_eq!(asks(&lost(limits::ALONE_SECONDS)), (true, false));
    assert_eq!(asks(&lost(limits::ALONE_SECONDS - 1)), (false, true));
    let mut known = lost(limits::ALONE_SECONDS);
    known.record.ever_seeded = Some(Seeded { member: db(0), confirmed: false });
    assert!(!asks(&known).0, "a seed is under way");
    let mut plain = lost(limits::ALONE_SECONDS);
    plain.group.commands.membership = None;
    assert!(!asks(&plain).0, "it waits for nobody");
}
