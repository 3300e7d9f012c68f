//! Whether every member is prepared for pods to be deleted for an update (C73; docs/rules.md, "Update: before and after").
use super::lead::why_it_moves;
use super::{Held, Rule, broken_by, goes_on};
use crate::contract::{MemberName, Timestamp};
use crate::limits;
use crate::record::{Event, Switchover};
use crate::snapshot::{Member, Query, QueryAnswer, Snapshot};

/// Every member that is in its role has said a moment ago that it is prepared, and none has said otherwise since. Holds where the group has no such command, and on the way back from a template that failed: with
/// that, `prepared` may never say yes.
///
/// # Errors
/// [`Rule::NotPrepared`]: the first member that says no, else the first that has not said yes.
pub fn all_are_prepared(s: &Snapshot) -> Held {
    let names = unprepared(s);
    match names.iter().copied().find(|name| says_no(s, name)).or(names.first().copied()) {
        Some(name) => Err(broken_by(Rule::NotPrepared, name, why(s, name))),
        None => Ok(()),
    }
}

/// The same before the only primary is stopped for its update. While a successor catches up for that a yes needs not be said again, because that may take longer than answers count; a no holds it up.
///
/// # Errors
/// [`Rule::NotPrepared`].
pub fn primary_may_stop(s: &Snapshot, primary: &Member) -> Held {
    let name = &primary.name;
    let for_update = |known: &Switchover| known.from == *name && known.to.is_none() && known.why == why_it_moves(name);
    let is_moving = |known: &Switchover| for_update(known) && known.term == s.record.term && known.led.is_none();
    let held = all_are_prepared(s);
    let is_known = s.record.switchover.as_ref().is_some_and(is_moving);
    if is_known && !unprepared(s).into_iter().any(|name| says_no(s, name)) { Ok(()) } else { held }
}

fn says_no(s: &Snapshot, name: &MemberName) -> bool {
    answer(s, name).is_some_and(|answer| answer.said.as_ref().is_ok_and(|code| *code != 0))
}

/// The members that have not said that they are prepared, as far as that counts now.
#[must_use]
pub fn unprepared(s: &Snapshot) -> Vec<&MemberName> {
    let asked = s.group.commands.prepared.is_some() && s.record.fallback(&s.group.update).is_none();
    let code = |member: &Member| answer(s, &member.name).and_then(|answer| answer.said.as_ref().ok());
    // A member that says no, and whose role cannot be read a moment later, has not changed its mind.
    let is_against = move |member: &&Member| match code(member) {
        Some(code) => *code != 0 && !s.leaves(member),
        None => goes_on(s, member),
    };
    s.members.iter().filter(move |_| asked).filter(is_against).map(|member| &member.name).collect()
}

/// What the member said, if it still counts: it was asked after the last batch began, or lost a pod, and answered a moment ago.
fn answer<'s>(s: &'s Snapshot, name: &MemberName) -> Option<&'s QueryAnswer> {
    let answer = s.answers.get(&(Query::Prepared, name.clone()))?;
    let until = answer.ended.saturating_add(seconds_that_count(s));
    Some(answer).filter(|answer| s.now <= until && began(s).is_none_or(|began| answer.at > began))
}

/// How long an answer counts: until all the others could be asked, some at a time, each for as long as the command may take.
fn seconds_that_count(s: &Snapshot) -> i64 {
    let timeout = s.group.commands.prepared.as_ref().map_or(0, |command| i64::from(command.timeout));
    let turns = i64::try_from(s.members.len().div_ceil(limits::PREPARED_AT_A_TIME)).unwrap_or(i64::MAX);
    timeout.saturating_mul(turns).saturating_add(limits::PREPARED_SECONDS)
}

/// When the last batch began, a pod of it was deleted, or the primary was stopped and leads again: what was said before was about another try.
fn began(s: &Snapshot) -> Option<Timestamp> {
    let begins = [Event::BatchBegun, Event::PodDeleted, Event::SwitchoverFailed].map(Event::word);
    s.record.history.iter().rev().find(|entry| begins.contains(&entry.what.as_str())).map(|entry| entry.at)
}

fn why(s: &Snapshot, name: &MemberName) -> String {
    match answer(s, name).map(|answer| &answer.said) {
        Some(Ok(code)) => format!("{name} is not prepared: prepared exited {code}"),
        Some(Err(why)) => format!("{name} has not said that it is prepared: {why}"),
        None => format!("{name} is asked whether it is prepared"),
    }
}
