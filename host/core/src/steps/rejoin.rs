//! Rejoin: the members of an application that agree are stopped, or too many of them; those that the application lists are started again, each on its own volume, all at the
//! same time: without a majority nobody serves. There is nothing to choose.
use crate::check::{self, Rule};
use crate::contract::{Position, Role, Timestamp};
use crate::limits;
use crate::plan::{Plan, Reason};
use crate::policy::Policies;
use crate::record::Verb;
use crate::snapshot::{Member, Snapshot};
use crate::steps::{begin, positions};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    if s.group.is_stopped() || !s.serving().is_empty() || !check::is_formed(s) {
        return;
    }
    let stopped: Vec<&Member> = s.members.iter().filter(|m| s.reachable(m) && s.role(m).0 == Role::Stopped).collect();
    let candidates = stopped.iter().copied().filter(|m| check::rejoin_member(s, &positions::after_reading(m)).is_ok());
    if !positions::all_known(s, plan, candidates) {
        return;
    }
    for member in stopped {
        if let Some(until) = gives_up_lead(s, member) {
            let message = format!("{} gave up the lead; it is started again when another member leads", member.name);
            plan.wait_until(Reason::RejoinPending, Some(&member.name), message, Some(until));
            continue;
        }
        match check::rejoin_member(s, member) {
            Ok(()) => begin::begin(s, plan, Verb::Rejoin, &member.name),
            // One that leaves and is listed no more has nothing to do here.
            Err(violation) if s.leaves(member) && violation.rule == Rule::NotListed => {}
            Err(violation) => {
                let mut message = format!("{} is not started: {violation}", member.name);
                // Which data the others lack is known only when they have a majority again.
                if violation.rule == Rule::SecondIdentity && matches!(member.position, Position::Known(_)) {
                    message.push_str("; keep its claim, for its data may be needed");
                }
                plan.wait_until(Reason::RejoinPending, Some(&member.name), message, violation.until);
            }
        }
    }
}

/// Until when the others have time to elect another leader than that member, which was stopped so that they do. `None`: it was not, or the time is over.
fn gives_up_lead(s: &Snapshot, member: &Member) -> Option<Timestamp> {
    let open = s.record.switchover.as_ref().filter(|h| h.is_open() && h.from == member.name)?;
    let until = open.begun?.max(member.reading.since).saturating_add(limits::ELECTION_SECONDS);
    (s.now < until).then_some(until)
}
