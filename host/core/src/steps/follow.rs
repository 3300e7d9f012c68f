//! Follow: every secondary of an older term, and every one that may follow a primary that stopped, is pointed at the present primary. There is
//! nothing to choose, so no policy is asked.
use crate::check;
use crate::contract::Role;
use crate::plan::{Plan, Reason};
use crate::policy::Policies;
use crate::record::Verb;
use crate::snapshot::Snapshot;
use crate::steps::begin;

/// Runs this step; see the documentation of the module. The commands start at the same time, so that a slow one does not delay the others.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    if s.leading().is_empty() {
        return;
    }
    let unfinished = |m: &&crate::snapshot::Member| {
        check::is_running_secondary(s, m) && !s.confirmed(m, Role::Secondary) && s.record.intent_of(&m.name).is_none()
    };
    for member in s.members.iter().filter(unfinished) {
        match check::follow_member(s, member) {
            Ok(()) => begin::begin(s, plan, Verb::Follow, &member.name),
            Err(violation) => {
                let message = format!("{} does not follow the new primary yet: {violation}", member.name);
                plan.wait_until(Reason::FollowPending, Some(&member.name), message, violation.until);
            }
        }
    }
}
