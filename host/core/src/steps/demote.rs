//! Demote: more primaries serve than wanted; who is stopped next? A primary of an older term is stopped by the host.
use crate::check;
use crate::contract::Role;
use crate::plan::Plan;
use crate::policy::{Point, Policies};
use crate::record::Verb;
use crate::snapshot::Snapshot;
use crate::steps::{ask, begin, positions};

/// See the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    let serving = s.serving();
    if serving.is_empty() || s.group.replicas == 0 {
        return;
    }
    // One stop at a time (row A13): the next question sees what this one left.
    if s.record.intents.iter().any(|i| i.verb == Verb::Demote) {
        return;
    }
    let stale = s.members.iter().find(|m| {
        s.role(m).0 == Role::Primary
            && check::demote_member(s, m).is_ok()
            && s.record.member(&m.name).term < Some(s.record.term)
    });
    if let Some(member) = stale {
        return begin::begin(s, plan, Verb::Demote, &member.name);
    }
    if serving.len() <= s.group.wanted_primaries() {
        return;
    }
    if !positions::known(s, plan, serving) {
        return;
    }
    let bars = ask::bars(s, |m| check::demote_member(s, m));
    if let Some(name) = ask::who(s, policies, plan, Point::Demote, &bars) {
        begin::begin(s, plan, Verb::Demote, &name);
    }
}
