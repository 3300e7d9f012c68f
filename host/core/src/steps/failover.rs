//! Failover: secondaries run, no primary serves and the old one is proven over; who takes over?
use crate::check;
use crate::check::{Rule, Violation};
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
    if !s.members.iter().any(|m| check::follows(s, m)) {
        return; // seed's question
    }
    ask::tell_override(s, plan);
    if let Err(violation) = check::failover_alone(s) {
        return wait(s, plan, &violation);
    }
    // A person named one member and its data. Who is busy cannot be asked; the check says whether that matters.
    let asked = |m: &&Member| match s.overrule() {
        Some(overrule) => m.name == overrule.member,
        None => check::counts(s, m) && (m.asked || check::free(s, m).is_ok()),
    };
    if !positions::standing(s, plan, s.members.iter().filter(asked)) {
        return;
    }
    if let Err(violation) = check::failover_group(s) {
        return wait(s, plan, &violation);
    }
    let bars = ask::bars(s, |m| check::failover_member(s, m));
    let chosen = match s.overrule() {
        Some(overrule) => ask::overruled(s, plan, Point::Failover, overrule, &bars),
        None => ask::who(s, policies, plan, Point::Failover, &bars),
    };
    if let Some(name) = chosen {
        begin::begin(s, plan, Verb::Failover, &name);
    }
}

fn wait(s: &Snapshot, plan: &mut Plan, v: &Violation) {
    let reason = match v.rule {
        Rule::MayBePrimary => Reason::MayBePrimary,
        Rule::PositionUnknown => Reason::PositionUnknown,
        Rule::HistoriesDiffer => Reason::HistoriesDiffer,
        Rule::ClaimChanged => Reason::ClaimChanged,
        _ => Reason::FailoverPending,
    };
    let again = (v.rule == Rule::PositionUnknown).then(|| s.now.saturating_add(limits::UNKNOWN_POSITION_SECONDS));
    plan.wait_until(reason, v.member.as_ref(), v.message.clone(), v.until.or(again));
}
