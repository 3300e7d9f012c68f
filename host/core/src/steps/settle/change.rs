//! How a change of the members ended. No role shows it, but the application's list does; and what is changed next goes by that list alone, so an end that is not known is never made
//! up for by another execution.
use super::close_intent;
use super::run::{self, RunEnd};
use crate::contract::{Failure, MemberName, Outcome};
use crate::limits;
use crate::membership::{self, Said};
use crate::plan::{Plan, Reason};
use crate::record::{Event, Intent, Listed, Verb};
use crate::snapshot::Snapshot;

/// What the list says of the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// That the change was made.
    Done,
    /// That it was not made.
    NotDone,
    /// No list could be read that a majority said.
    Unsaid,
    /// The lists are being read.
    Unread,
}

/// Settles the command, or says what is awaited.
pub(super) fn settle(s: &Snapshot, plan: &mut Plan, intent: &Intent) {
    let Some(target) = &intent.target else { return close_intent(plan, intent) };
    // The list shows what came of a command whose end is not known. Once it cannot run any more nothing is awaited: the next change goes by the list.
    if !run::is_known(s, intent) && shown(s, intent, target) == Shown::Done {
        return succeed(s, plan, intent, target);
    }
    match run::end_of_run(s, plan, intent, target) {
        None => {}
        Some(RunEnd::Exited) => confirm(s, plan, intent, target),
        Some(RunEnd::NotBegun(why)) => {
            close_intent(plan, intent);
            plan.record.note(s.now, Event::NotStarted, Some(target), Some(why));
        }
        Some(RunEnd::Failed(outcome, why)) => fail(s, plan, intent, target, outcome, &why),
        Some(RunEnd::Unknown) => {
            let command = &intent.command;
            let why = format!("the outcome of {command} is unknown; who the members are, the application's list says");
            fail(s, plan, intent, target, Outcome::Unknown, &why);
        }
    }
}

/// The command exited 0; it counts once the list agrees. Where nobody can say a list any more, because the new member is needed for a majority, it counts at once.
fn confirm(s: &Snapshot, plan: &mut Plan, intent: &Intent, target: &MemberName) {
    let exited = intent.exited.unwrap_or(s.now);
    match shown(s, intent, target) {
        Shown::Done => return succeed(s, plan, intent, target),
        Shown::Unsaid if intent.verb == Verb::MemberAdd => return succeed(s, plan, intent, target),
        Shown::NotDone | Shown::Unsaid | Shown::Unread => {}
    }
    if let Some(open) = plan.record.intents.iter_mut().find(|i| i.token == intent.token) {
        open.exited = Some(exited);
    }
    let until = exited.saturating_add(limits::CONFIRM_SECONDS);
    if s.now >= until {
        let why = format!("{} exited 0, and the application's list does not show it", intent.command);
        return fail(s, plan, intent, target, Outcome::Exited(0), &why);
    }
    let message = format!("{} exited 0; the application's list does not show it yet", intent.what());
    let again = s.now.saturating_add(limits::LIST_AGAIN_SECONDS).min(until);
    plan.wait_until(Reason::ConfirmingRole, Some(target), message, Some(again));
}

/// What the list says. Lists from before the command, or from while it ran, are not in the snapshot.
fn shown(s: &Snapshot, intent: &Intent, target: &MemberName) -> Shown {
    let group = &s.group.name;
    let agreed = match membership::said(s) {
        Said::Agreed(agreed) => agreed,
        Said::Nothing(None) => return Shown::Unread,
        Said::Nobody | Said::Nothing(Some(_)) | Said::Split(_) | Said::Differing(_) => return Shown::Unsaid,
    };
    let entry = agreed.list.entry(group, target);
    let done = match intent.verb {
        Verb::MemberAdd => entry.is_some(),
        Verb::MemberRemove => entry.is_none(),
        _ => entry.is_some_and(membership::Entry::is_voter),
    };
    match (done, agreed.is_confirmed(group)) {
        (true, true) => Shown::Done,
        // Of two voters the new one does not run yet, so no majority can say that it is one.
        (true, false) if intent.verb == Verb::MemberAdd => Shown::Done,
        (_, false) if agreed.silent.iter().any(|m| !s.lists.contains_key(m)) => Shown::Unread,
        (_, false) => Shown::Unsaid,
        (false, true) => Shown::NotDone,
    }
}

fn succeed(s: &Snapshot, plan: &mut Plan, intent: &Intent, target: &MemberName) {
    close_intent(plan, intent);
    let what = match intent.verb {
        Verb::MemberAdd => Event::MemberAdded,
        Verb::MemberRemove => Event::MemberRemoved,
        _ => Event::MemberPromoted,
    };
    plan.record.note(s.now, what, Some(target), None);
    let known = plan.record.member_mut(target);
    (known.failures, known.last_failure, known.retry_at) = (0, None, None);
    if intent.verb == Verb::MemberRemove {
        // Its identity is over: what is on its volume belongs to nobody.
        (known.started, known.claim_uid) = (None, None);
    }
    if intent.verb == Verb::MemberAdd {
        remember_added(s, plan, target);
    }
}

/// From now on the member may be started, also if nobody can say a list before it runs.
fn remember_added(s: &Snapshot, plan: &mut Plan, target: &MemberName) {
    let learner = s.group.commands.membership.as_ref().is_some_and(|commands| commands.promote.is_some());
    if let Some(known) = plan.record.membership.as_mut().filter(|known| known.of(target).is_none()) {
        let member = Some(target.clone());
        known.members.push(Listed { id: String::new(), member, started: false, voter: !learner, volume: None });
        known.revision = known.revision.saturating_add(1);
    }
}

/// Counts the failure for the member that it is about: the one that executed it is well.
fn fail(s: &Snapshot, plan: &mut Plan, intent: &Intent, target: &MemberName, outcome: Outcome, why: &str) {
    close_intent(plan, intent);
    // One alone that became one of two says no list, and does not serve, before the second one runs: then it has to be started without being listed.
    let alone = plan.record.membership.as_ref().is_some_and(|known| known.voters() == 1);
    // A command that failed may have announced it before; if it did not, the next list says so.
    let may_have_worked = outcome != Outcome::NotStarted;
    if intent.verb == Verb::MemberAdd && alone && may_have_worked {
        remember_added(s, plan, target);
    }
    let failure = Failure { command: intent.command.clone(), outcome, at: s.now };
    plan.record.member_mut(target).record_failure(failure);
    plan.record.note(s.now, Event::CommandFailed, Some(target), Some(why.to_owned()));
}
