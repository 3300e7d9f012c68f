//! Whether every member is prepared for pods to be deleted for an update (C73; docs/rules.md, "Update: before and after").
use super::{Held, Rule, broken_by, goes_on};
use crate::contract::{MemberName, Timestamp};
use crate::limits;
use crate::record::Event;
use crate::snapshot::{Query, QueryAnswer, Snapshot};

/// Every member that is in its role has said a moment ago that it is prepared, and none has said otherwise since. Holds where the group has no such command, and on the way back from a template that failed: with
/// that, `prepared` may never say yes.
///
/// # Errors
/// [`Rule::NotPrepared`]: the first member that has not said so.
pub fn all_are_prepared(s: &Snapshot) -> Held {
    match unprepared(s).next() {
        Some(name) => Err(broken_by(Rule::NotPrepared, name, why(s, name))),
        None => Ok(()),
    }
}

/// The members that have not said that they are prepared, as far as that counts now.
pub fn unprepared(s: &Snapshot) -> impl Iterator<Item = &MemberName> {
    let asked = s.group.commands.prepared.is_some() && s.record.fallback(&s.group.update).is_none();
    let reports = s.members.iter().filter(move |member| asked && goes_on(s, member));
    reports.map(|member| &member.name).filter(|name| !answer(s, name).is_some_and(|answer| answer.said == Ok(0)))
}

/// What the member said, if it still counts: it was asked after the last batch began, or lost a pod, and answered a moment ago.
fn answer<'s>(s: &'s Snapshot, name: &MemberName) -> Option<&'s QueryAnswer> {
    let until = |answer: &QueryAnswer| answer.ended.saturating_add(limits::PREPARED_SECONDS);
    let answer = s.answers.get(&(Query::Prepared, name.clone()))?;
    Some(answer).filter(|answer| s.now <= until(answer) && began(s).is_none_or(|began| answer.at > began))
}

/// When the last batch began, or a pod of it was deleted: what was said before was about another one.
fn began(s: &Snapshot) -> Option<Timestamp> {
    let begins = [Event::BatchBegun.word(), Event::PodDeleted.word()];
    s.record.history.iter().rev().find(|entry| begins.contains(&entry.what.as_str())).map(|entry| entry.at)
}

fn why(s: &Snapshot, name: &MemberName) -> String {
    match answer(s, name).map(|answer| &answer.said) {
        Some(Ok(code)) => format!("{name} is not prepared: prepared exited {code}"),
        Some(Err(why)) => format!("{name} has not said that it is prepared: {why}"),
        None => format!("{name} has not said yet whether it is prepared"),
    }
}
