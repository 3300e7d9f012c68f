//! Between which commands the pods of a batch are replaced (B11; docs/rules.md, "Update: before and after"): `beforeUpdate` worked for its members before the first pod of one that works is deleted, and no other batch begins
//! before `afterUpdate` worked. A pod in which nothing runs waits for neither: a new template may be its cure.
use super::prepared::all_are_prepared;
use super::rebalance::primaries_serve;
use super::update::{is_in_its_place, update_in_role};
use super::{
    Held, Rule, Violation, awaits_update, broken, broken_by, can_take_command, gives_up_lead, has_present_template,
    is_being_replaced, is_converting, update_idle, update_next,
};
use crate::contract::Role;
use crate::record::{Batched, Intent, Switchover, Verb};
use crate::snapshot::{Member, Mode, Snapshot};

/// The open batch. `None`: none is open, or the group has no command about them any more.
#[must_use]
pub fn open_batch(s: &Snapshot) -> Option<&Batched> {
    s.record.batch.as_ref().filter(|_| !s.group.commands.hooks.is_empty())
}

/// Whether the member's pod may be deleted now for an update: its batch has begun, and all are prepared for it.
///
/// # Errors
/// The first rule that does not hold; with the time at which it will hold.
pub fn update_pod(s: &Snapshot, member: &Member) -> Held {
    match update_idle(s, member) {
        Ok(()) => return Ok(()),
        // Whoever is in a role is stopped first for that.
        Err(violation) if is_converting(s) => return Err(violation),
        Err(_) => {}
    }
    update_in_role(s, member)?;
    batch_has_begun(s, member)?;
    all_are_prepared(s)
}

/// Whether `beforeUpdate` worked for the member, if the group has such commands.
///
/// # Errors
/// [`Rule::NotAtRest`].
pub fn batch_has_begun(s: &Snapshot, member: &Member) -> Held {
    if s.group.commands.hooks.is_empty() {
        return Ok(());
    }
    in_no_other_batch(s, member)?;
    match open_batch(s).is_some_and(|batch| batch.begun) {
        true => Ok(()),
        false => Err(broken_by(Rule::NotAtRest, &member.name, format!("beforeUpdate comes before {}", member.name))),
    }
}

/// No batch of others is open.
pub(super) fn in_no_other_batch(s: &Snapshot, member: &Member) -> Held {
    match open_batch(s).filter(|batch| !batch.members.contains(&member.name)) {
        Some(batch) => {
            let message = format!("the update of {} is not finished", listed(batch));
            Err(broken_by(Rule::NotAtRest, &member.name, message))
        }
        None => Ok(()),
    }
}

/// The members of a batch, as users see them.
#[must_use]
pub fn listed(batch: &Batched) -> String {
    batch.names().collect::<Vec<_>>().join(", ")
}

/// Which command about the open batch is due. `None`: none is, or nothing is known to be missing.
#[must_use]
pub fn due_hook(s: &Snapshot) -> Option<Verb> {
    let batch = open_batch(s)?;
    if is_over(s, batch) {
        // What was never announced does not end.
        return (batch.begun || batch.failures > 0).then_some(Verb::AfterUpdate);
    }
    let by_host = s.group.update.mode == Mode::ByOperator;
    let is_next = !batch.begun && by_host && members(s, batch).any(|member| awaits_update(s, member));
    is_next.then_some(Verb::BeforeUpdate)
}

/// The members of a batch that are there and stay. One in whose place a new one comes, meanwhile for another reason, does not: the new one may be what others wait for.
fn members<'s>(s: &'s Snapshot, batch: &'s Batched) -> impl Iterator<Item = &'s Member> {
    s.members.iter().filter(|m| batch.members.contains(&m.name) && !s.leaves(m) && !is_being_replaced(s, m))
}

/// Whether all members of the batch are in their role and none of them gets a new pod for it any more: they have the present template, the update is called off, or it is another one's turn.
#[must_use]
pub fn is_over(s: &Snapshot, batch: &Batched) -> bool {
    let update = &s.group.update;
    let is_called_off = update.mode != Mode::ByOperator || s.record.stopped_at_canary(update);
    let has_template = |member: &Member| has_present_template(s, member);
    members(s, batch).all(|member| is_in_its_place(s, member).is_ok())
        && (is_called_off || members(s, batch).all(has_template) || is_overtaken(s, batch))
}

/// Whether nobody of the batch can go, and somebody else could go but for it: all have an older template again, and the lead is with the batch, or a node of another one is to be drained.
fn is_overtaken(s: &Snapshot, batch: &Batched) -> bool {
    let can_go = |s: &Snapshot, member: &Member| update_next(s, member).is_ok() || gives_up_lead(s, member).is_ok();
    // Whoever is only being asked something can go a moment later.
    let mut answered = s.clone();
    answered.members.iter_mut().for_each(|member| member.asked = false);
    let s = &answered;
    if members(s, batch).any(|member| can_go(s, member)) {
        return false;
    }
    let mut without = s.clone();
    without.record.batch = None;
    let mut held = without.members.iter().filter(|m| !batch.members.contains(&m.name) && !can_go(s, m));
    held.any(|member| can_go(&without, member))
}

/// The member may execute a command about the open batch: it is in its role, and goes on in it.
///
/// # Errors
/// The first rule that does not hold.
pub fn executes_hook(s: &Snapshot, member: &Member) -> Held {
    can_take_command(s, member)?;
    match goes_on(s, member) {
        true => Ok(()),
        false => Err(broken_by(Rule::WrongRole, &member.name, format!("{} is not in its role", member.name))),
    }
}

/// Whether the member is in its role and stays.
#[must_use]
pub fn goes_on(s: &Snapshot, member: &Member) -> bool {
    let serves = s.confirmed(member, Role::Primary) || s.confirmed(member, Role::Secondary);
    serves && !s.leaves(member)
}

/// Nothing else is open, as many primaries serve as desired, the command that is due does not rest after a failure, and before a batch a pod of it could be deleted next.
///
/// # Errors
/// The first rule that does not hold; with the time at which it will hold.
pub fn hook_may_run(s: &Snapshot, verb: Verb) -> Held {
    let Some(batch) = open_batch(s).filter(|_| due_hook(s) == Some(verb)) else {
        return Err(broken(Rule::NotAtRest, "no update of some members begins or ends"));
    };
    if let Some(at) = batch.retry_at.filter(|at| *at > s.now) {
        let message = format!("failures: {}; next try in {} s", batch.failures, at.saturating_sub(s.now));
        return Err(Violation { until: Some(at), ..broken(Rule::BackOff, message) });
    }
    if let Some(intent) = s.record.intents.first() {
        let message = format!("{} is not settled", intent.what());
        return Err(broken_by(Rule::MemberBusy, &intent.member, message));
    }
    // A takeover may need whoever would execute it.
    primaries_serve(s)?;
    if s.record.switchover.as_ref().is_some_and(Switchover::is_open) {
        return Err(broken(Rule::NotAtRest, "the lead moves"));
    }
    if verb == Verb::AfterUpdate {
        return Ok(());
    }
    let mut why = broken(Rule::NotAtRest, format!("{} wait for their update", listed(batch)));
    for member in s.members.iter().filter(|m| batch.members.contains(&m.name)) {
        match update_in_role(s, member).or_else(|held| gives_up_lead(s, member).map_err(|_| held)) {
            Ok(()) => return Ok(()),
            Err(held) => why = held,
        }
    }
    Err(why)
}

/// What has to hold when a command before or after an update starts: the same on live reads as when it was decided.
pub(super) fn hook(s: &Snapshot, member: &Member, intent: &Intent) -> Held {
    hook_may_run(s, intent.verb)?;
    executes_hook(s, member)
}
