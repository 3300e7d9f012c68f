//! Hooks: the commands `beforeUpdate` and `afterUpdate` enclose the update of some members (B11). The step `update` names them; here the commands about them are run, each on one member that goes on in its role: a primary
//! first, because a secondary may have to take over and cannot while it executes one; after a failure another member.
use crate::check;
use crate::contract::Role;
use crate::plan::{Plan, Reason};
use crate::policy::Policies;
use crate::record::{Batched, Event, Verb};
use crate::snapshot::{Member, Snapshot};
use crate::steps::begin;

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    // What changed in this round counts in the next one: the second look has the record from before.
    if plan.record.batch.is_none() || s.record.intents.iter().any(|intent| intent.verb.is_hook()) {
        return;
    }
    let Some(batch) = check::open_batch(s) else { return plan.record.batch = None };
    // Nobody could execute anything. Whoever comes back has the present template.
    if s.group.is_stopped() {
        return;
    }
    let Some(verb) = check::due_hook(s) else { return close_unannounced(s, plan, batch) };
    let (name, command) = s.command(verb, true);
    let hooks = &s.group.commands.hooks;
    match verb {
        Verb::BeforeUpdate if hooks.before.is_none() => return begun(s, plan, batch),
        Verb::AfterUpdate if hooks.after.is_none() => return ended(s, plan, batch),
        _ => {}
    }
    let what = format!("{name} for {}", check::listed(batch));
    if let Err(violation) = check::hook_may_run(s, verb) {
        let message = format!("{what}: {violation}");
        return plan.wait_until(Reason::Updating, None, message, violation.until);
    }
    let Some(on) = executor(s, batch, &command.container) else {
        let container = &command.container;
        let message = format!(
            "{what}: no member that is in its role runs container {container}; without {name} the update goes on"
        );
        return plan.wait(Reason::Updating, None, message);
    };
    match check::executes_hook(s, on) {
        Ok(()) if !plan.touches(&on.name) => begin::begin_hook(s, plan, verb, &on.name, batch),
        Ok(()) => plan.look_again_at(s.now.saturating_add(1)),
        Err(violation) => {
            plan.wait_until(Reason::Updating, Some(&on.name), format!("{what}: {violation}"), violation.until)
        }
    }
}

/// A batch that was never announced, and of which nobody is to get a new pod any more, is forgotten.
fn close_unannounced(s: &Snapshot, plan: &mut Plan, batch: &Batched) {
    let waits = |m: &Member| batch.members.contains(&m.name) && check::awaits_update(s, m);
    let is_over = check::is_over(s, batch) || !s.members.iter().any(waits);
    plan.record.batch.take_if(|_| is_over && !batch.begun && batch.failures == 0);
}

/// The pods of the batch may go from the next round on.
pub(super) fn begun(s: &Snapshot, plan: &mut Plan, batch: &Batched) {
    plan.record.note(s.now, Event::BatchBegun, None, Some(check::listed(batch)));
    plan.record.batch = Some(Batched { members: batch.members.clone(), begun: true, failures: 0, retry_at: None });
    plan.look_again_at(s.now.saturating_add(1));
}

/// Another batch may begin from the next round on.
pub(super) fn ended(s: &Snapshot, plan: &mut Plan, batch: &Batched) {
    plan.record.note(s.now, Event::BatchEnded, None, Some(check::listed(batch)));
    plan.record.batch = None;
    plan.look_again_at(s.now.saturating_add(1));
}

/// Who executes a command about the batch: one after the other with each failure, first a primary and somebody who is not of the batch. `None`: nobody in whom that container runs is in its role.
fn executor<'s>(s: &'s Snapshot, batch: &Batched, container: &str) -> Option<&'s Member> {
    let runs = |m: &Member| m.pod.as_ref().is_some_and(|pod| pod.containers.get(container).is_some_and(|c| c.running));
    let mut able: Vec<&Member> = s.members.iter().filter(|m| check::goes_on(s, m) && runs(m)).collect();
    able.sort_by_key(|m| (!s.confirmed(m, Role::Primary), batch.members.contains(&m.name), m.ordinal));
    let turn = usize::try_from(batch.failures).unwrap_or_default().checked_rem(able.len())?;
    able.get(turn).copied()
}
