//! Failover: secondaries run, no primary serves and the old one is proven over; which member takes over?
use crate::check;
use crate::check::{FailoverOrder, Rule, Violation};
use crate::contract::MemberName;
use crate::limits;
use crate::plan::{Plan, Reason};
use crate::policy::{Point, Policies};
use crate::record::{Event, Verb, cut};
use crate::snapshot::{Member, Snapshot};
use crate::steps::{ask, begin, positions};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    if s.group.is_stopped() || !s.serving().is_empty() || s.primary_command().is_some() {
        return;
    }
    if !s.members.iter().any(|m| check::is_running_secondary(s, m)) {
        return; // seed's question
    }
    if check::is_formed(s) {
        let message = "no primary serves; the members elect the next one themselves, and nobody is started for that";
        return plan.wait(Reason::FailoverPending, None, message);
    }
    ask::report_unusable_override(s, plan);
    if let Err(violation) = check::failover_alone(s) {
        return wait(s, plan, &violation);
    }
    let order = FailoverOrder::of(s);
    // With an override only the named member's data is needed. A busy member cannot be asked; `FailoverOrder::group` checks whether that matters.
    let asked = |m: &&Member| match s.active_override() {
        Some(requested) => m.name == requested.member,
        None => order.counts(m) && (m.asked || check::can_take_command(s, m).is_ok()),
    };
    if !positions::all_current(s, plan, s.members.iter().filter(asked)) {
        return;
    }
    if let Err(violation) = order.group() {
        return wait(s, plan, &violation);
    }
    let bars = ask::bars(s, |m| order.member(m));
    let chosen = match s.active_override() {
        Some(requested) => ask::decide_by_override(s, plan, Point::Failover, requested, &bars),
        None => ask::choose_member(s, policies, plan, Point::Failover, &bars),
    };
    if let Some(name) = chosen {
        begin::begin(s, plan, Verb::Failover, &name);
        if s.active_override().is_none() {
            report_behind(s, plan, &order, &name);
        }
    }
}

/// Says how much the takeover may lose (`spec.failover.maxBehind`): in the decision, which events and `tanist explain` show, and in the history.
fn report_behind(s: &Snapshot, plan: &mut Plan, order: &FailoverOrder<'_>, name: &MemberName) {
    let Some(behind) = s.member(name).and_then(|member| order.behind(member)) else { return };
    let (own, highest, by) = (behind.own.number, behind.highest.number, behind.by);
    let limit = s.group.failover.max_behind.unwrap_or_default();
    let said = format!(
        "{name} leads with {own}, {by} below the highest known ({highest}), within spec.failover.maxBehind {limit}"
    );
    if let Some(decision) = plan.decisions.iter_mut().find(|d| d.point == Point::Failover) {
        decision.reason = cut(&format!("{said}; {}", decision.reason));
    }
    if plan.record.intents.iter().any(|intent| intent.verb == Verb::Failover) {
        plan.record.note(s.now, Event::DataGivenUp, Some(name), Some(said));
    }
}

fn wait(s: &Snapshot, plan: &mut Plan, v: &Violation) {
    let reason = match v.rule {
        Rule::MayBePrimary => Reason::MayBePrimary,
        Rule::PositionUnknown => Reason::PositionUnknown,
        Rule::HistoriesDiffer => Reason::HistoriesDiffer,
        Rule::ClaimChanged => Reason::ClaimChanged,
        Rule::UnrecordedClaims => Reason::UnrecordedClaims,
        Rule::NeedsAdoption => Reason::NeedsAdoption,
        _ => Reason::FailoverPending,
    };
    if v.rule == Rule::NeedsAdoption {
        plan.needs_adoption = Some(v.message.clone());
    }
    let again = (v.rule == Rule::PositionUnknown).then(|| s.now.saturating_add(limits::UNKNOWN_POSITION_SECONDS));
    plan.wait_until(reason, v.member.as_ref(), v.message.clone(), v.until.or(again));
}
