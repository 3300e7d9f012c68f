//! Seed: no member runs or may be running; which one is started first?
use crate::check;
use crate::check::{Rule, Violation};
use crate::contract::Role;
use crate::limits;
use crate::memory;
use crate::plan::{Plan, Reason};
use crate::policy::{Point, Policies};
use crate::record::Verb;
use crate::snapshot::{Member, Snapshot};
use crate::steps::{ask, begin, positions, upgrade};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    if s.group.is_stopped() || !s.serving().is_empty() || s.primary_command().is_some() {
        return;
    }
    if check::is_formed(s) {
        return; // rejoin's question
    }
    if s.members.iter().any(|m| s.reachable(m) && s.role(m).0 == Role::Secondary) {
        return; // failover's question
    }
    choose(s, policies, plan, Verb::Seed);
}

/// Asks who is started as the first primary, or whose data is converted first ([`Verb::Convert`]): it is the same member.
pub(super) fn choose(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan, verb: Verb) {
    if s.primary_command().is_some() {
        return;
    }
    ask::report_unusable_override(s, plan);
    let order = check::SeedOrder::of(s);
    if let Err(violation) = order.group() {
        return wait(s, plan, &violation);
    }
    // Members of a proven older term neither win nor block, so their data is not read. With an override only the named member's data is needed.
    let counts = |m: &&Member| match s.active_override() {
        Some(requested) => m.name == requested.member,
        None => !order.is_of_older_term(m),
    };
    let stopped = s.members.iter().filter(|m| s.reachable(m) && s.role(m).0 == Role::Stopped);
    if !positions::all_current(s, plan, stopped.filter(counts)) {
        return;
    }
    // Without that a lost record would know the data by its former version.
    if verb == Verb::Seed && s.members.iter().any(|m| memory::lacks_version(s, m)) {
        return plan.wait(
            Reason::Upgrading,
            None,
            "the claims are annotated with the version of the data before anybody starts",
        );
    }
    if verb == Verb::Convert && upgrade::nothing_to_convert(s) {
        return plan.record.version.clone_from(&s.group.version);
    }
    let bars = ask::bars(s, |m| match verb {
        Verb::Convert => check::convert_member(s, &order, m),
        _ => order.member(m).and_then(|()| check::programs_fit(s, m)),
    });
    let chosen = match s.active_override() {
        Some(requested) => ask::decide_by_override(s, plan, Point::Seed, requested, &bars),
        None => ask::choose_member(s, policies, plan, Point::Seed, &bars),
    };
    if let Some(name) = chosen {
        begin::begin(s, plan, verb, &name);
    }
}

fn wait(s: &Snapshot, plan: &mut Plan, v: &Violation) {
    let reason = match v.rule {
        Rule::PodCount => Reason::PodsNotRunning,
        Rule::MayBePrimary => Reason::MayBePrimary,
        Rule::PositionUnknown => Reason::PositionUnknown,
        Rule::HistoriesDiffer => Reason::HistoriesDiffer,
        Rule::ClaimChanged | Rule::EmptyMember => Reason::ClaimChanged,
        Rule::UnrecordedClaims => Reason::UnrecordedClaims,
        Rule::NeedsAdoption => Reason::NeedsAdoption,
        _ => Reason::MembersNotStopped,
    };
    if v.rule == Rule::NeedsAdoption {
        plan.needs_adoption = Some(v.message.clone());
    }
    // A sequence that could not be read is read again after a while.
    let again = (v.rule == Rule::PositionUnknown).then(|| s.now.saturating_add(limits::UNKNOWN_POSITION_SECONDS));
    plan.wait_until(reason, v.member.as_ref(), v.message.clone(), v.until.or(again));
}
