//! Place: as many primaries serve as wanted; who becomes the next secondary?
use crate::check;
use crate::contract::Role;
use crate::plan::{Action, Plan};
use crate::policy::{Point, Policies};
use crate::record::Verb;
use crate::snapshot::Snapshot;
use crate::steps::{ask, begin, positions};

/// See the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    let stopped = s.members.iter().any(|m| s.reachable(m) && s.role(m).0 == Role::Stopped);
    if check::place_group(s).is_err() || !stopped {
        return;
    }
    // One secondary at a time (row A16), unless its command is lost. A long one holds up no failover that could not lose data by it
    // (`check::failover_group`).
    if s.record.intents.iter().any(|i| i.verb == Verb::Place && s.is_under_way(i)) {
        return;
    }
    // While a stop of this very round is not even begun, the primaries are not those that a second look will see.
    if plan.actions.iter().any(|a| matches!(a, Action::Run { intent, .. } if intent.verb == Verb::Demote)) {
        return;
    }
    let bars = ask::bars(s, |m| check::place_member(s, m));
    let candidates = s.members.iter().filter(|m| check::place_member(s, &positions::once_read(m)).is_ok());
    if !positions::known(s, plan, candidates) {
        return;
    }
    if let Some(name) = ask::who(s, policies, plan, Point::Place, &bars) {
        begin::begin(s, plan, Verb::Place, &name);
    }
}
