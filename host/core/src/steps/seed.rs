//! Seed: nobody runs and nobody may be running; who is started first?
use crate::check;
use crate::check::{Rule, Violation};
use crate::contract::Role;
use crate::limits;
use crate::plan::{Plan, Reason};
use crate::policy::{Point, Policies};
use crate::record::Verb;
use crate::snapshot::{Member, Snapshot};
use crate::steps::{ask, begin, positions};

/// See the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    if s.group.replicas == 0 || !s.serving().is_empty() || s.primary_command().is_some() {
        return;
    }
    if s.members.iter().any(|m| s.reachable(m) && s.role(m).0 == Role::Secondary) {
        return; // failover's question
    }
    ask::tell_override(s, plan);
    if let Err(violation) = check::seed_group(s) {
        return wait(s, plan, &violation);
    }
    // Members of a proven older term neither win nor block, so nobody waits for their data. A person named one member and its data.
    let counts = |m: &&Member| match s.overrule() {
        Some(overrule) => m.name == overrule.member,
        None => !check::of_older_term(s, m),
    };
    let stopped = s.members.iter().filter(|m| s.reachable(m) && s.role(m).0 == Role::Stopped);
    if !positions::standing(s, plan, stopped.filter(counts)) {
        return;
    }
    let bars = ask::bars(s, |m| check::seed_member(s, m));
    let chosen = match s.overrule() {
        Some(overrule) => ask::overruled(s, plan, Point::Seed, overrule, &bars),
        None => ask::who(s, policies, plan, Point::Seed, &bars),
    };
    if let Some(name) = chosen {
        begin::begin(s, plan, Verb::Seed, &name);
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
        _ => Reason::MembersNotStopped,
    };
    if v.rule == Rule::NeedsAdoption {
        plan.needs_adoption = Some(v.message.clone());
    }
    // A sequence that could not be read is asked for again after a while.
    let again = (v.rule == Rule::PositionUnknown).then(|| s.now.saturating_add(limits::UNKNOWN_POSITION_SECONDS));
    plan.wait_until(reason, v.member.as_ref(), v.message.clone(), v.until.or(again));
}
