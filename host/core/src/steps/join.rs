//! Join: a primary serves, but fewer than desired; which member becomes the next one?
use crate::check;
use crate::contract::Role;
use crate::plan::{Plan, Reason};
use crate::policy::{Point, Policies};
use crate::record::Verb;
use crate::snapshot::{Member, Snapshot};
use crate::steps::{ask, begin, positions};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    if s.serving().is_empty() || s.primary_command().is_some() || s.group.is_stopped() {
        return;
    }
    let serving = s.serving().into_iter().filter(|m| !s.is_extra(m)).count();
    if serving >= s.group.desired_primaries() {
        return;
    }
    if let Err(violation) = check::join_group(s) {
        return plan.wait_until(Reason::MayBePrimary, violation.member.as_ref(), violation.message, violation.until);
    }
    let maybe = s.may_be_primary();
    let stopped_free =
        s.members.iter().any(|m| s.role(m).0 == Role::Stopped && check::join_member(s, &maybe, m).is_ok());
    let rule = |m: &Member| {
        check::keeps_pod(s, m)?;
        check::join_member(s, &maybe, m)?;
        if stopped_free && s.role(m).0 == Role::Secondary {
            let message = "stopped members are chosen before running secondaries";
            return Err(check::broken_by(check::Rule::WrongRole, &m.name, message));
        }
        Ok(())
    };
    let bars = ask::bars(s, rule);
    if ask::waits_for_the_list(&bars, s.members.len()) {
        return;
    }
    let candidates = s.members.iter().filter(|m| rule(&positions::after_reading(m)).is_ok());
    if !positions::all_known(s, plan, candidates) {
        return;
    }
    if let Some(name) = ask::choose_member(s, policies, plan, Point::Join, &bars) {
        begin::begin(s, plan, Verb::Join, &name);
    }
}
