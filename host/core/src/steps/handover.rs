//! Hand over: the primary is stopped on purpose, so that another member leads: a person wishes it, or it is about to leave (S25), or its node
//! is to be emptied.
//!
//! First the primary says what it holds, then the heir has to have it, then the primary is stopped, and the rest is a failover: whoever has
//! everything leads, and that may be the old primary again. Nothing is lost; a hand-over that failed is not tried again by itself.
use crate::check;
use crate::contract::{MemberName, Position};
use crate::data;
use crate::plan::{Action, Plan, Reason};
use crate::policy::Policies;
use crate::record::{Handover, Verb};
use crate::snapshot::{Member, Snapshot};
use crate::steps::begin;
use std::cmp::Ordering;

/// See the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    close(s, plan);
    let Some(wish) = wish(s) else {
        // What nobody named is over with its cause; whom a person named stays tried.
        plan.record.handover.take_if(|h| h.begun.is_none() || (h.to.is_none() && h.led.is_some()));
        return;
    };
    // Whom a person named is tried once, whoever led then.
    let known = plan.record.handover.clone().filter(|h| h.to == wish.to && (h.to.is_some() || h.from == wish.from));
    let current = match known {
        Some(h) if h.led.is_some() => return tell_failure(plan, &h),
        Some(h) if h.begun.is_some() => return,
        Some(h) if h.term == wish.term && h.from == wish.from => h,
        _ => wish,
    };
    plan.record.handover = Some(current.clone());
    let Some(primary) = s.member(&current.from) else { return };
    if let Some(why) = obstacle(s, &current) {
        return plan.wait(Reason::SwitchoverPending, current.to.as_ref(), format!("{}: {why}", current.why));
    }
    let Some(floor) = floor(s, plan, &current, primary) else { return };
    let heirs: Vec<_> = s.members.iter().filter(|m| is_heir(s, &current, m)).collect();
    if !heirs.iter().any(|m| has(m, &floor)) {
        return lagging(s, plan, &current, &floor, &heirs);
    }
    let mut wished = s.clone();
    wished.record.clone_from(&plan.record);
    if let Err(violation) = check::handover_member(&wished, primary) {
        let message = format!("{}: {violation}", current.why);
        return plan.wait_until(Reason::SwitchoverPending, current.to.as_ref(), message, violation.until);
    }
    begin::begin(&wished, plan, Verb::HandOver, &current.from);
    if plan.touches(&current.from) {
        plan.record.handover = Some(Handover { begun: Some(s.now), ..current });
    }
}

/// What is wished for: a primary that leaves goes first, then what a person prefers. Several primaries need no heir: they are demoted.
fn wish(s: &Snapshot) -> Option<Handover> {
    let serving = s.serving();
    let [primary] = serving.as_slice() else { return None };
    if s.group.wanted_primaries() != 1 || s.group.replicas == 0 {
        return None;
    }
    let wish = |to: Option<MemberName>, why: String| {
        let (from, term) = (primary.name.clone(), s.record.term);
        Some(Handover { from, to, why, term, floor: None, begun: None, led: None })
    };
    if s.group.is_surplus(primary) {
        return wish(None, format!("{} leaves and hands over first", primary.name));
    }
    if s.is_cordoned(primary) && s.members.iter().any(|m| check::heir(s, m) && !s.is_cordoned(m)) {
        return wish(None, format!("the node of {} is to be emptied", primary.name));
    }
    let preferred = s.group.preferred_primary.as_ref().filter(|to| **to != primary.name)?;
    wish(Some(preferred.clone()), format!("{preferred} is to lead instead of {}", primary.name))
}

/// A hand-over is over when somebody serves and nobody is being stopped for it.
fn close(s: &Snapshot, plan: &mut Plan) {
    let Some(open) = plan.record.handover.as_ref().filter(|h| h.is_open()) else { return };
    if s.record.intents.iter().any(|i| i.verb == Verb::HandOver) || s.primary_command().is_some() {
        return;
    }
    let Some(leads) = s.serving().first().map(|m| m.name.clone()) else { return };
    let what = if leads == open.from { "hand-over-failed" } else { "handed-over" };
    let from = open.from.to_string();
    if let Some(h) = &mut plan.record.handover {
        h.led = Some(leads.clone());
    }
    plan.record.note(s.now, what, Some(&leads), Some(format!("from {from}")));
}

fn tell_failure(plan: &mut Plan, h: &Handover) {
    let leads = h.led.as_ref().map_or("-", |l| l.as_str());
    let message = format!(
        "{}: tried once, and {leads} leads, for nobody else had all it has; set the annotation tanist.dev/retry to try again",
        h.why
    );
    plan.wait(Reason::SwitchoverFailed, h.to.as_ref(), message);
}

/// What speaks against it by now.
fn obstacle(s: &Snapshot, h: &Handover) -> Option<String> {
    if let Some(intent) = s.record.intents.first() {
        return Some(format!("{} on {} is not settled", intent.command, intent.member));
    }
    let Some(to) = &h.to else {
        let any = s.members.iter().any(|m| check::heir(s, m));
        return (!any).then(|| "nobody follows who could lead".into());
    };
    let Some(member) = s.member(to) else { return Some(format!("{to} is no member of this group")) };
    if s.group.is_surplus(member) {
        return Some(format!("{to} is beyond spec.replicas"));
    }
    if s.is_cordoned(member) {
        return Some(format!("the node of {to} is to be emptied"));
    }
    if check::heir(s, member) {
        return None;
    }
    let (role, why) = s.role(member);
    let why = why.map(|w| format!(" ({w})")).unwrap_or_default();
    Some(format!("{to} is {}{why}, and has to follow first", crate::over::word(role)))
}

fn is_heir(s: &Snapshot, h: &Handover, member: &Member) -> bool {
    // From one node that is emptied to another one: nothing is won.
    let in_vain = s.is_cordoned(member) && s.member(&h.from).is_some_and(|from| !s.group.is_surplus(from));
    check::heir(s, member) && !in_vain && h.to.as_ref().is_none_or(|to| *to == member.name)
}

/// What the primary held when it was asked for this hand-over.
fn floor(s: &Snapshot, plan: &mut Plan, h: &Handover, primary: &Member) -> Option<crate::contract::Sequence> {
    if let Some(floor) = &h.floor {
        return Some(floor.clone());
    }
    match &primary.position {
        Position::Known(own) => {
            plan.record.handover = Some(Handover { floor: Some(own.clone()), ..h.clone() });
            Some(own.clone())
        }
        Position::Unknown(why) => {
            let message = format!("{}: the data of {} cannot be read: {why}", h.why, primary.name);
            plan.wait_until(Reason::SwitchoverPending, h.to.as_ref(), message, Some(s.now.saturating_add(AGAIN)));
            None
        }
        Position::NotAsked | Position::Empty => {
            read(s, plan, primary);
            None
        }
    }
}

fn has(member: &Member, floor: &crate::contract::Sequence) -> bool {
    let Position::Known(own) = &member.position else { return false };
    matches!(data::compare((0, own), (0, floor)), Some(Ordering::Equal | Ordering::Greater))
}

/// The heirs are asked again until one has what the primary had: a few times, quickly, for who keeps up has it at once.
fn lagging(s: &Snapshot, plan: &mut Plan, h: &Handover, floor: &crate::contract::Sequence, heirs: &[&Member]) {
    let again = s.now.saturating_add(AGAIN);
    for heir in
        heirs.iter().filter(|m| m.position == Position::NotAsked || m.position_at.saturating_add(AGAIN) <= s.now)
    {
        read(s, plan, heir);
    }
    let texts: Vec<_> =
        heirs.iter().map(|m| format!("{} holds {}", m.name, data::show_position(&m.position))).collect();
    let message = format!("{}: {} held {floor}; {}", h.why, h.from, texts.join(", "));
    plan.wait_until(Reason::SwitchoverPending, h.to.as_ref(), message, Some(again));
}

fn read(s: &Snapshot, plan: &mut Plan, member: &Member) {
    if let Some(pod) = member.pod.as_ref().filter(|_| check::free(s, member).is_ok() && !plan.touches(&member.name)) {
        plan.actions.push(Action::Read { member: member.name.clone(), pod_uid: pod.uid.clone() });
    }
    plan.wait(Reason::ReadingPositions, Some(&member.name), format!("the sequence of {} is being read", member.name));
}

/// Seconds between two looks at an heir that is not there yet.
const AGAIN: i64 = 2;
