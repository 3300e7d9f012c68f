//! Switchover: the primary is stopped on purpose so that another member leads, because an administrator requests it, the primary is leaving (S25),
//! its node is to be drained, or a policy says so. A policy that has the point may also choose who leads then, or have it wait.
//!
//! First the primary's sequence is read, then a successor has to reach it, then the primary is stopped. The rest is a failover: a member with all
//! data leads, and that may be the old primary again. No data is lost. A switchover to a named member that failed is not repeated by itself; one off a
//! member that has to give up the lead is, after a pause.
use crate::check;
use crate::check::Rule;
use crate::contract::{MemberName, Position};
use crate::data;
use crate::plan::{Plan, Reason};
use crate::policy::{Point, Policies};
use crate::record::{Event, Switchover, Verb};
use crate::snapshot::{Member, Snapshot};
use crate::steps::lead::{self, Opinion};
use crate::steps::{begin, positions, update};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    close_switchover(s, plan);
    let Some(cause) = check::lead_cause(s) else { return follow_policy(s, policies, plan) };
    let request = request(s, cause.from.clone(), cause.to.clone(), cause.why.clone());
    // A named member is tried once, whichever primary led at that time.
    let known =
        plan.record.switchover.clone().filter(|h| h.to == request.to && (h.to.is_some() || h.from == request.from));
    let current = match known {
        Some(h) if h.next_try().is_some_and(|at| at <= s.now) => {
            Switchover { failed: h.failed.saturating_add(1), ..request }
        }
        Some(h) if h.led.is_some() => return report_failure(s, plan, &h),
        Some(h) if h.begun.is_some() => return,
        Some(h) if h.term == request.term && h.from == request.from => h,
        Some(h) => Switchover { failed: h.failed, ..request },
        None => request,
    };
    if let Some(why) = obstacle(s, &current) {
        plan.record.switchover = Some(current.clone());
        return plan.wait(Reason::SwitchoverPending, current.to.as_ref(), format!("{}: {why}", current.why));
    }
    // The pod of the primary is the next one to be replaced: policies say when.
    if cause.word == "update" && !update::lets_lead_move(s, policies, plan, &cause) {
        return drop(plan.record.switchover.take_if(|h| h.begun.is_none()));
    }
    let chosen = match lead::ask(s, policies, plan, Some(&cause)) {
        Opinion::Move { to, .. } => Some(to).filter(|_| current.to.is_none()),
        Opinion::None => None,
        // When it goes on, the sequence that the successor has to reach is read again.
        Opinion::Hold => return drop(plan.record.switchover.take_if(|h| h.begun.is_none())),
    };
    pursue(s, plan, Switchover { chosen, ..current });
}

/// The host would leave the lead where it is: a policy may move it.
fn follow_policy(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    let moves = match may_ask(s, policies, plan) {
        true => lead::ask(s, policies, plan, None),
        false => Opinion::None,
    };
    let (Opinion::Move { to, why }, Some(primary)) = (moves, check::sole_primary(s)) else {
        // Without a named member the entry goes with its cause. With one it stays, so that the switchover is not tried again.
        // One for an update stays, too: its cause is not seen in the round that closes it, nor while another member is not in its place.
        let awaits = |h: &Switchover| s.member(&h.from).is_some_and(|m| s.serves(m) && check::awaits_update(s, m));
        plan.record.switchover.take_if(|h| h.begun.is_none() || (h.to.is_none() && h.led.is_some() && !awaits(h)));
        return;
    };
    let request = request(s, primary.name.clone(), Some(to), why);
    let same =
        |h: &Switchover| h.begun.is_none() && h.to == request.to && h.from == request.from && h.term == request.term;
    let current = plan.record.switchover.clone().filter(same).unwrap_or(request);
    pursue(s, plan, current);
}

/// Whether the policies are asked about a lead that the host would leave where it is.
fn may_ask(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) -> bool {
    // What was closed in this round counts in the next one.
    if plan.record.switchover != s.record.switchover || !policies.has(Point::Switchover) {
        return false;
    }
    match check::policy_may_move_lead(s) {
        Ok(()) => true,
        Err(violation) => {
            if let Some(failed) = check::failed_switchover(s).filter(|_| violation.rule == Rule::SwitchoverFailed) {
                report_failure(s, plan, failed);
            }
            violation.until.into_iter().for_each(|at| plan.look_again_at(at));
            false
        }
    }
}

fn request(s: &Snapshot, from: MemberName, to: Option<MemberName>, why: String) -> Switchover {
    Switchover { from, to, chosen: None, why, term: s.record.term, floor: None, begun: None, led: None, failed: 0 }
}

/// Stops the primary once a successor has all its data.
fn pursue(s: &Snapshot, plan: &mut Plan, current: Switchover) {
    plan.record.switchover = Some(current.clone());
    let Some(primary) = s.member(&current.from) else { return };
    let Some(floor) = required_sequence(s, plan, &current, primary) else { return };
    let successors: Vec<_> = s.members.iter().filter(|m| is_suitable(s, &current, m)).collect();
    if !successors.iter().any(|m| data::has_reached(&m.position, &floor)) {
        return await_successors(s, plan, &current, &floor, &successors);
    }
    // The second look has the record of before this round, so whoever is to lead has to be in it: with another one there the primary would be led out of
    // its Service and then not be stopped.
    let before = s.record.switchover.as_ref().filter(|h| h.led.is_none());
    if before.is_some_and(|h| h.target() != current.target()) {
        let message = format!("{}: another member was to lead until now", current.why);
        return plan.wait_until(Reason::SwitchoverPending, current.target(), message, Some(s.now.saturating_add(1)));
    }
    let mut intended = s.clone();
    intended.record.clone_from(&plan.record);
    if let Err(violation) = check::switchover_member(&intended, primary) {
        let message = format!("{}: {violation}", current.why);
        return plan.wait_until(Reason::SwitchoverPending, current.target(), message, violation.until);
    }
    begin::begin(&intended, plan, Verb::Switchover, &current.from);
    if plan.touches(&current.from) {
        plan.record.switchover = Some(Switchover { begun: Some(s.now), ..current });
    }
}

/// Closes a switchover once a primary serves and no command of it is open.
fn close_switchover(s: &Snapshot, plan: &mut Plan) {
    let Some(open) = plan.record.switchover.as_ref().filter(|h| h.is_open()) else { return };
    if s.record.intents.iter().any(|i| i.verb == Verb::Switchover) || s.primary_command().is_some() {
        return;
    }
    let Some(leads) = s.serving().first().map(|m| m.name.clone()) else { return };
    let what = if leads == open.from { Event::SwitchoverFailed } else { Event::SwitchedOver };
    let from = open.from.to_string();
    if let Some(h) = &mut plan.record.switchover {
        h.led = Some(leads.clone());
        h.chosen = None;
    }
    plan.record.note(s.now, what, Some(&leads), Some(format!("from {from}")));
}

fn report_failure(s: &Snapshot, plan: &mut Plan, h: &Switchover) {
    let leads = h.led.as_ref().map_or("-", |l| l.as_str());
    let tried = match h.failed {
        0 => "once".to_owned(),
        before => format!("{} times", before.saturating_add(1)),
    };
    let next = h.next_try();
    let again = match next {
        Some(_) => "it is tried again after a while, or at once with the annotation tanist.dev/retry",
        None => "set the annotation tanist.dev/retry to try again",
    };
    let why = match check::is_formed(s) {
        true => "because the members elected it",
        false => "because no other member had all its data",
    };
    let message = format!("{}: tried {tried}; {leads} leads, {why}; {again}", h.why);
    plan.wait_until(Reason::SwitchoverFailed, h.to.as_ref(), message, next);
}

/// Why the switchover cannot begin now. `None`: it can.
fn obstacle(s: &Snapshot, h: &Switchover) -> Option<String> {
    if let Some(intent) = s.record.intents.first() {
        return Some(format!("{} on {} is not settled", intent.command, intent.member));
    }
    let Some(to) = &h.to else {
        let any = s.members.iter().any(|m| check::is_successor(s, m));
        let why = match s.group.commands.secondary {
            Some(_) => "no secondary is ready to lead",
            None => {
                "no other member has its data, because the group has no secondary command; set spec.replicas so that it stays"
            }
        };
        return (!any).then(|| why.into());
    };
    let Some(member) = s.member(to) else { return Some(format!("{to} is not a member of this group")) };
    if s.leaves(member) {
        return Some(format!("{to} is beyond spec.replicas"));
    }
    if s.is_cordoned(member) {
        return Some(format!("the node of {to} is to be drained"));
    }
    if check::is_successor(s, member) {
        // A takeover would refuse it, when the primary is already stopped.
        return check::has_its_volumes(s, member).err().map(|violation| violation.to_string());
    }
    let (role, why) = s.role(member);
    let why = why.map(|w| format!(" ({w})")).unwrap_or_default();
    Some(format!("{to} is {}{why} and has to follow the primary first", crate::over::role_word(role)))
}

fn is_suitable(s: &Snapshot, h: &Switchover, member: &Member) -> bool {
    // A move from one node that is drained to another one would have to be repeated.
    let in_vain = s.is_cordoned(member) && s.member(&h.from).is_some_and(|from| !s.leaves(from));
    check::is_successor(s, member) && !in_vain && h.target().is_none_or(|to| *to == member.name)
}

/// The primary's sequence when it was first asked for this switchover. `None`: not known yet; the plan says why.
fn required_sequence(
    s: &Snapshot,
    plan: &mut Plan,
    h: &Switchover,
    primary: &Member,
) -> Option<crate::contract::Sequence> {
    if let Some(floor) = &h.floor {
        return Some(floor.clone());
    }
    match &primary.position {
        Position::Known(own) => {
            plan.record.switchover = Some(Switchover { floor: Some(own.clone()), ..h.clone() });
            Some(own.clone())
        }
        Position::Unknown(why) => {
            let message = format!("{}: the data of {} cannot be read: {why}", h.why, primary.name);
            plan.wait_until(
                Reason::SwitchoverPending,
                h.target(),
                message,
                Some(s.now.saturating_add(positions::PAUSE_SECONDS)),
            );
            None
        }
        Position::NotAsked | Position::Empty => {
            positions::read_one(s, plan, primary);
            None
        }
    }
}

/// Reads the sequences of the possible successors again, every two seconds, until one has reached that of the primary.
fn await_successors(
    s: &Snapshot,
    plan: &mut Plan,
    h: &Switchover,
    floor: &crate::contract::Sequence,
    successors: &[&Member],
) {
    let again = positions::read_again(s, plan, successors.iter().copied());
    let texts: Vec<_> =
        successors.iter().map(|m| format!("{} has {}", m.name, data::show_position(&m.position))).collect();
    let message = format!("{}: {} had {floor}; {}", h.why, h.from, texts.join(", "));
    plan.wait_until(Reason::SwitchoverPending, h.target(), message, Some(again));
}
