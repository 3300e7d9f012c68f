//! Shrink: there are more members than desired. Those beyond `replicas` are stopped, their positions are read, then the `StatefulSet` is scaled
//! down (S25, S26, S27).
//!
//! The `StatefulSet` is not simply given a smaller number, because its controller would delete the pods with the highest ordinals, primary or not.
//! Where this operator makes the pods, it deletes those of members that left.
use crate::check;
use crate::check::Rule;
use crate::contract::{Failure, Outcome, Position, Role};
use crate::limits;
use crate::membership::{self, Said};
use crate::over;
use crate::over::role_word;
use crate::plan::{Action, DeletionCause, Plan, Reason};
use crate::policy::Policies;
use crate::record::{Event, Verb};
use crate::snapshot::{Member, Snapshot};
use crate::steps::turn::{self, Turn};
use crate::steps::{begin, lists, positions, remember};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    if s.set.is_none() {
        return;
    }
    let is_left = |m: &Member| m.pod.is_some() && !s.roster().has(m);
    let has_pods_left = s.group.makes_pods && s.members.iter().any(is_left);
    if !s.roster().has_surplus() && !has_pods_left {
        return;
    }
    if let Err(violation) = check::stayers_serve(s) {
        return plan.wait(Reason::ShrinkPending, violation.member.as_ref(), violation.message);
    }
    let mut leaving: Vec<_> = s.members.iter().filter(|m| s.leaves(m)).collect();
    // Secondaries first, from the highest ordinal: the primary leaves last. One that cannot be reached holds up no other one but the primary.
    leaving.sort_by_key(|m| (s.role(m).0 == Role::Primary, !s.reachable(m), std::cmp::Reverse(m.ordinal)));
    let is_let_go = |m: &Member| check::is_let_go(s, m).is_ok();
    let runs = |m: &Member| s.role(m).0 != Role::Stopped && m.pod.is_some() && !check::is_out(s, m);
    if let Some(member) = leaving.iter().find(|m| runs(m) && is_let_go(m)) {
        return stop_next(s, policies, plan, member);
    }
    for violation in leaving.iter().filter_map(|m| check::is_let_go(s, m).err()) {
        // Those that are listed the step before removes, and says what it waits for.
        if violation.rule == Rule::ListUnknown {
            let again = Some(s.now.saturating_add(limits::LIST_AGAIN_SECONDS));
            plan.wait_until(Reason::ShrinkPending, violation.member.as_ref(), violation.message, again);
        }
    }
    if !leaving.iter().all(|m| is_let_go(m)) {
        return;
    }
    if let Some(missing) = leaving.iter().find(|m| !s.reachable(m) && s.roster().is_made(m) && !check::is_out(s, m)) {
        let message = format!("{} is leaving, and its pod does not run, so its data cannot be read", missing.name);
        return plan.wait(Reason::ShrinkPending, Some(&missing.name), message);
    }
    if !s.record.intents.is_empty() || plan.actions.iter().any(|a| matches!(a, Action::Run { .. })) {
        return plan.wait(Reason::ShrinkPending, None, "members are removed once no command is open");
    }
    if !positions::all_known(s, plan, leaving.iter().copied().filter(|m| s.reachable(m))) {
        return;
    }
    let led = leaving.iter().copied().filter(|m| s.reachable(m) && s.group.is_stopped() && check::may_have_led(s, m));
    if !positions::all_current(s, plan, led) {
        return;
    }
    if let Some(member) = leaving.iter().find(|m| check::has_to_be_wiped(s, m)) {
        return wipe(s, plan, member);
    }
    if let Err(violation) = check::shrink_group(s, s.group.replicas) {
        // A sequence that could not be read is read again after a while.
        let unread = violation.rule == Rule::PositionUnknown;
        let again = unread.then(|| s.now.saturating_add(limits::UNKNOWN_POSITION_SECONDS));
        let until = violation.until.or(again).or_else(|| over::proven_at(s));
        return plan.wait_until(Reason::ShrinkPending, violation.member.as_ref(), violation.message, until);
    }
    // Where only pods of members are left that the record does not know any more, there is nothing to forget.
    if s.roster().has_surplus() {
        shrink(s, plan, &leaving);
    }
}

/// The same for an active/passive group, whose members run until their pods end. The active one gives way first.
pub(super) fn leave(s: &Snapshot, plan: &mut Plan) {
    if s.set.is_none() || !s.roster().has_surplus() {
        return;
    }
    let leaving: Vec<_> = s.members.iter().filter(|m| s.leaves(m)).collect();
    match check::shrink_group(s, s.group.replicas) {
        Ok(()) => shrink(s, plan, &leaving),
        Err(violation) => plan.wait(Reason::ShrinkPending, violation.member.as_ref(), violation.message),
    }
}

/// Stops a member that leaves: the one that a policy chooses, or else `next`.
fn stop_next(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan, next: &Member) {
    // Where members agree the order was that in which they were removed.
    if s.group.commands.membership.is_some() || s.record.intents.iter().any(|i| i.verb == Verb::Remove) {
        return stop_member(s, plan, next);
    }
    match turn::ask(s, policies, plan) {
        Turn::Next => stop_member(s, plan, next),
        Turn::Nobody => {}
        Turn::Of(name, _) => s.member(&name).into_iter().for_each(|member| stop_member(s, plan, member)),
    }
}

fn stop_member(s: &Snapshot, plan: &mut Plan, member: &Member) {
    if s.record.intents.iter().any(|i| i.verb == Verb::Remove) || plan.touches(&member.name) {
        return;
    }
    let Err(violation) = check::remove_member(s, member) else {
        return begin::begin(s, plan, Verb::Remove, &member.name);
    };
    let role = role_word(s.role(member).0);
    let message = match violation.rule {
        Rule::ChangedRecently | Rule::StayersFirst => format!("{} is leaving: {violation}", member.name),
        _ => format!("{} is leaving; it is {role} and has to be stopped first", member.name),
    };
    plan.wait_until(Reason::ShrinkPending, Some(&member.name), message, violation.until);
}

/// Removes the data of a member that leaves (`spec.scaling.volumes: Wipe`, D20).
fn wipe(s: &Snapshot, plan: &mut Plan, member: &Member) {
    // It exited 0 before, and not all is gone: that is a failure like any other, with a pause after it.
    let known = s.record.member(&member.name);
    if known.last_command.as_deref() == Some(check::WIPE) && known.last_failure.is_none() {
        let failure = Failure { command: check::WIPE.to_owned(), outcome: Outcome::Exited(0), at: s.now };
        plan.record.member_mut(&member.name).record_failure(failure);
        let why = format!("{} exited 0, and sequence is not EMPTY", check::WIPE);
        plan.record.note(s.now, Event::CommandFailed, Some(&member.name), Some(why));
        let message = format!("{} is leaving, and its data is not removed yet", member.name);
        return plan.wait_until(Reason::ShrinkPending, Some(&member.name), message, Some(s.now.saturating_add(1)));
    }
    let is_old = |agreed: membership::Agreed| agreed.since.saturating_add(limits::LIST_CHANGE_SECONDS) < s.now;
    // Nothing is removed on a list that is older than a moment.
    if let Said::Agreed(agreed) = membership::said(s)
        && is_old(agreed)
    {
        for other in s.members.iter().filter(|m| membership::is_asked(s, m)) {
            lists::ask(s, plan, other, limits::LIST_AGAIN_SECONDS);
        }
        let message = "the lists of the members are read before its data is removed";
        return plan.wait(Reason::ShrinkPending, Some(&member.name), message);
    }
    match check::wipe_member(s, member) {
        Ok(()) => begin::begin(s, plan, Verb::Wipe, &member.name),
        Err(violation) => {
            let message = format!(
                "{} is leaving, and its data is removed first: {violation}; with spec.scaling.volumes: Keep it leaves with it",
                member.name
            );
            let again = s.now.saturating_add(limits::LIST_AGAIN_SECONDS);
            plan.wait_until(Reason::ShrinkPending, Some(&member.name), message, violation.until.or(Some(again)));
        }
    }
}

fn shrink(s: &Snapshot, plan: &mut Plan, leaving: &[&Member]) {
    plan.record.last_replicas = s.group.replicas;
    let come_back = s.group.is_stopped();
    if let Some(seats) = &mut plan.record.seats {
        seats.remove(&leaving.iter().map(|m| m.ordinal).collect(), come_back);
    }
    if s.group.is_stopped() {
        // Nobody is left who could take over: with `preferRunning`, too, the primary, which stopped last, has every acknowledged write (S26).
        for member in leaving {
            remember::note_position(plan, member);
            // It may have led alone when the others had ended: nobody leads without what it has.
            if check::is_unconfirmed_primary(s, member) {
                remember::note_as_latest(plan, member);
            }
        }
    }
    // A set that was told to shrink may show that later: once is enough.
    for member in leaving.iter().filter(|m| m.position == Position::Empty && !s.record.retired.contains(&m.name)) {
        if s.group.wipes_volumes && s.record.member(&member.name).last_command.as_deref() == Some(check::WIPE) {
            plan.record.note(s.now, Event::Wiped, Some(&member.name), None);
        }
    }
    plan.record.retired.extend(leaving.iter().map(|m| m.name.clone()));
    plan.record.note(s.now, Event::Shrunk, None, Some(format!("to {} members", s.group.replicas)));
    if !s.group.makes_pods {
        return plan.actions.push(Action::Scale { replicas: s.group.replicas });
    }
    for (member, pod) in leaving.iter().filter_map(|m| Some((m, m.pod.as_ref()?))) {
        plan.actions.push(Action::DeletePod {
            member: member.name.clone(),
            pod_uid: pod.uid.clone(),
            cause: DeletionCause::Left,
            reason: "the member left".into(),
        });
    }
}
