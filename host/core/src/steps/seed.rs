//! Seed: nobody runs and nobody may be running; who is started first?
use crate::check;
use crate::check::{Rule, Violation};
use crate::contract::Role;
use crate::limits;
use crate::plan::{Plan, Reason};
use crate::policy::{Point, Policies};
use crate::record::Verb;
use crate::snapshot::Snapshot;
use crate::steps::{ask, begin, positions};

/// See the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    if s.group.replicas == 0 || !s.serving().is_empty() || s.primary_command().is_some() {
        return;
    }
    if s.members.iter().any(|m| s.reachable(m) && s.role(m).0 == Role::Secondary) {
        return; // failover's question
    }
    if let Some(why) = &s.group.overrule_error {
        plan.wait(Reason::OverrideInvalid, None, why);
    }
    if let Err(violation) = check::seed_group(s).and_then(|()| overrule_fits(s)) {
        return wait(s, plan, &violation);
    }
    let stopped = s.members.iter().filter(|m| s.reachable(m) && s.role(m).0 == Role::Stopped);
    if !positions::known(s, plan, stopped) {
        return;
    }
    let bars = ask::bars(s, |m| check::seed_member(s, m));
    if let Some(name) = ask::who(s, policies, plan, Point::Seed, &bars) {
        begin::begin(s, plan, Verb::Seed, &name);
    }
}

fn overrule_fits(s: &Snapshot) -> check::Held {
    match s.overrule() {
        Some(o) if s.member(&o.member).is_none() => {
            let message = format!("the override names {}, which is no member of this group", o.member);
            Err(check::broken_by(Rule::UnknownMember, &o.member, message))
        }
        _ => Ok(()),
    }
}

fn wait(s: &Snapshot, plan: &mut Plan, v: &Violation) {
    let reason = match v.rule {
        Rule::Gate => Reason::PodsNotRunning,
        Rule::MayBePrimary => Reason::MayBePrimary,
        Rule::PositionUnknown => Reason::PositionUnknown,
        Rule::HistoriesDiffer => Reason::HistoriesDiffer,
        Rule::ClaimChanged => Reason::ClaimChanged,
        Rule::UnrecordedClaims => Reason::UnrecordedClaims,
        Rule::NeedsAdoption => Reason::NeedsAdoption,
        Rule::UnknownMember => Reason::OverrideInvalid,
        _ => Reason::MembersNotStopped,
    };
    if v.rule == Rule::NeedsAdoption {
        plan.needs_adoption = Some(v.message.clone());
    }
    // A sequence that could not be read is asked for again after a while.
    let again = (v.rule == Rule::PositionUnknown).then(|| s.now.saturating_add(limits::UNKNOWN_POSITION_SECONDS));
    plan.wait_until(reason, v.member.as_ref(), v.message.clone(), v.until.or(again));
}
