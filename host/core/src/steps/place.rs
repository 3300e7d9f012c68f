//! Place: as many primaries serve as desired; which member becomes the next secondary?
use crate::check;
use crate::contract::Role;
use crate::plan::{Action, Plan};
use crate::policy::{Point, Policies};
use crate::record::Verb;
use crate::snapshot::{Member, Snapshot};
use crate::steps::{ask, begin, positions};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    let stopped = s.members.iter().any(|m| s.reachable(m) && s.role(m).0 == Role::Stopped && !s.leaves(m));
    if check::place_group(s).is_err() || !stopped {
        return;
    }
    // One secondary at a time (A16), unless the outcome of its command is unknown. A failover does not wait for a long start that cannot
    // matter for the data (`check::FailoverOrder`).
    if s.record.intents.iter().any(|i| i.verb == Verb::Place && s.is_under_way(i)) {
        return;
    }
    // This round stops a primary, so the second look would see other primaries than this step does.
    if plan.actions.iter().any(|a| matches!(a, Action::Run { intent, .. } if intent.verb == Verb::Demote)) {
        return;
    }
    let rule = |m: &Member| check::keeps_pod(s, m).and_then(|()| check::place_member(s, m));
    let bars = ask::bars(s, rule);
    if ask::waits_for_the_list(&bars, s.members.len()) {
        return;
    }
    let candidates = s.members.iter().filter(|m| rule(&positions::after_reading(m)).is_ok());
    if !positions::all_known(s, plan, candidates) {
        return;
    }
    if let Some(name) = ask::choose_member(s, policies, plan, Point::Place, &bars) {
        begin::begin(s, plan, Verb::Place, &name);
    }
}
