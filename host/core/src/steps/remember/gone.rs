//! Members by identity never come back under their numbers, so what is known of those that are gone is forgotten in time: it would fill the group's status.
use crate::contract::MemberName;
use crate::limits;
use crate::plan::Plan;
use crate::roster;
use crate::snapshot::Snapshot;
use std::collections::BTreeSet;

/// Forgets all but the latest members that are gone with their claims.
pub(super) fn forget(s: &Snapshot, plan: &mut Plan) {
    let Some(seats) = plan.record.seats.as_ref().filter(|_| s.group.makes_pods) else { return };
    let number = |name: &MemberName| roster::ordinal(&s.group.name, name.as_str());
    let term = plan.record.term;
    // A claim that it left, and the memory on the claims of others, which names the primaries of the term, have to be explained.
    let counts = |name: &MemberName| {
        let known = plan.record.member(name);
        known.primary_term == Some(term)
            || plan.record.intent_of(name).is_some()
            || plan.record.last_primaries.iter().any(|last| last.member == *name)
            || plan.record.ever_seeded.as_ref().is_some_and(|seeded| seeded.member == *name)
            || s.left_claims.iter().any(|left| left.member == *name)
            || s.member(name).is_some()
    };
    let stays = |name: &MemberName| {
        number(name).is_none_or(|own| seats.numbers.contains(&own) || seats.dormant.contains(&own)) || counts(name)
    };
    let all: BTreeSet<&MemberName> = plan.record.members.keys().chain(&plan.record.retired).collect();
    let mut gone: Vec<MemberName> = all.into_iter().filter(|name| !stays(name)).cloned().collect();
    gone.sort_by_key(|name| std::cmp::Reverse(number(name)));
    for name in gone.into_iter().skip(limits::GONE_MEMBERS) {
        plan.record.members.remove(&name);
        plan.record.retired.remove(&name);
    }
}
