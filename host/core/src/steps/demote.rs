//! Demote: more primaries serve than desired, or one that leaves makes room for a member that stays; which one is stopped next? A primary of an older term
//! is stopped without a question.
use crate::check;
use crate::contract::Role;
use crate::plan::Plan;
use crate::policy::{Point, Policies};
use crate::record::Verb;
use crate::snapshot::Snapshot;
use crate::steps::{ask, begin, positions};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    let serving = s.serving();
    if serving.is_empty() || s.group.is_stopped() {
        return;
    }
    // One stop at a time (A13): the next question sees the result of this one.
    if s.record.intents.iter().any(|i| i.verb == Verb::Demote) {
        return;
    }
    let stale = s.members.iter().find(|m| {
        s.role(m).0 == Role::Primary
            && check::demote_member(s, &serving, m).is_ok()
            && s.record.member(&m.name).term < Some(s.record.term)
    });
    if let Some(member) = stale {
        return begin::begin(s, plan, Verb::Demote, &member.name);
    }
    if serving.len() <= s.group.desired_primaries() && !serving.iter().any(|m| check::makes_room(s, &serving, m)) {
        return;
    }
    if !positions::all_known(s, plan, serving.iter().copied()) {
        return;
    }
    let bars = ask::bars(s, |m| check::demote_member(s, &serving, m));
    if let Some(name) = ask::choose_member(s, policies, plan, Point::Demote, &bars) {
        begin::begin(s, plan, Verb::Demote, &name);
    }
}
