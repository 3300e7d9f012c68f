//! Admit: `spec.replicas` asks for another number of members than policies let in last; does the group get it? A policy may delay or refuse that. What was let in is in the record, and
//! the group goes on with that: whoever looks at it sees the numbers that count as `replicas` and `primaries`, and those of the spec as `requested`.
use crate::check;
use crate::contract::{Answer, Position};
use crate::plan::{Plan, Reason};
use crate::policy::{Point, Policies, Reply};
use crate::record::{Event, cut};
use crate::snapshot::{Member, Reading, Snapshot};
use crate::steps::ask::{self, Opinion};

/// Runs this step; see the documentation of the module. The numbers of the snapshot count for all of this round.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    let requested = s.group.requested;
    let counts = s.group.replicas == requested.replicas;
    if !policies.has(Point::Admit) {
        plan.record.admitted = None;
    } else if counts || !has_run(s) {
        // What there is when a policy comes was let in by nobody, and is what it is asked to change from. One that is not loaded may not have the question.
        if policies.are_loaded() {
            plan.record.admitted = Some(requested);
        }
    } else {
        ask(s, policies, plan);
    }
    let let_in = plan.record.admitted.is_none_or(|admitted| admitted == requested);
    if let_in && !counts {
        plan.look_again_at(s.now.saturating_add(1));
    }
}

/// Whether a member of the group ever led.
fn has_run(s: &Snapshot) -> bool {
    if s.group.active_passive { s.record.term > 0 } else { s.record.ever_seeded.is_some() }
}

fn ask(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    let (requested, before) = (s.group.requested, s.group.replicas);
    let then = with_all(s);
    let bars = ask::bars(&then, |member| check::comes_or_leaves(&then, s, member));
    let asked = requested.replicas;
    let numbers = format!("spec.replicas is {asked}, and {before} members were let in");
    let answered = match ask::ask_optional(&then, policies, plan, Point::Admit, &bars) {
        // What is let in stays so, also if the next answer is another one.
        Opinion::None => return plan.record.admitted = Some(requested),
        Opinion::NoAnswer | Opinion::NotYet => return,
        Opinion::Of(answered) => answered,
    };
    match &answered.reply {
        Reply::Answer(Answer::Choose(ranking)) => {
            let decision = ask::policy_decision(&then, Point::Admit, &answered, ranking, &bars);
            let why = format!("from {before} to {asked}, by policy {}: {}", answered.policy.name, decision.reason);
            plan.record.note(s.now, Event::Admitted, None, Some(cut(&why)));
            plan.decisions.push(decision);
            plan.record.admitted = Some(requested);
        }
        Reply::Answer(Answer::Wait(delay)) => {
            let why = format!("{numbers}: policy {} waits: {}", answered.policy.name, cut(&delay.reason));
            plan.wait_until(Reason::ResizePending, None, why, delay.until);
        }
        Reply::Answer(Answer::Refuse(why)) => {
            ask::report_refusal::<()>(plan, &answered, &format!("{numbers}: {why}"));
        }
        Reply::Answer(Answer::Abstain) | Reply::Care(_) => {}
    }
}

/// The group with the numbers that are asked for, and with the members that would come.
fn with_all(s: &Snapshot) -> Snapshot {
    let mut then = s.clone();
    (then.group.replicas, then.group.primaries) = (s.group.requested.replicas, s.group.requested.primaries);
    let seats: Vec<_> = then.roster().seats().filter(|seat| s.member(&seat.name).is_none()).collect();
    then.members.extend(seats.into_iter().map(|seat| Member {
        name: seat.name,
        ordinal: seat.ordinal,
        pod: None,
        claims: Vec::new(),
        reading: Reading::default(),
        position: Position::NotAsked,
        position_at: 0,
        position_stale: false,
        asked: false,
        conditions: Vec::new(),
    }));
    then
}
