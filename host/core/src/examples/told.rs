//! A question with everything that the contract has words for, as long as the contract allows.
use crate::contract::{Condition, Member, Transition};
use crate::examples::NOW;
use crate::limits;
use crate::policy::Question;

/// Pairs and conditions of a member, by the contract.
const PAIRS: usize = 32;

/// Bytes of a label's value, which a zone is too.
const LABEL: usize = 63;

/// Words for conditions (`docs/conditions.md`).
const CONDITIONS: [&str; 6] =
    ["node-draining", "node-not-ready", "node-tainted", "update-pending", "volume-missing", "volume-replaced"];

/// Adds what this host does not send (facts of applications, marks) or rarely does, and fills every list and text up to what the contract allows.
pub(super) fn everything(mut question: Question) -> Question {
    let s = &mut question.snapshot;
    s.members.iter_mut().for_each(tell);
    // At `switchover` a preferred primary would be the only candidate, and a lead that moves to it leaves no question about a secondary.
    let free = !question.point.is_optional();
    s.group.preferred_primary = s.members.iter().rev().find(|m| m.barred.is_none() && free).map(|m| m.name.clone());
    s.group.labels = pairs("tier", "critical");
    s.group.facts.retain(|(key, _)| key != "cut");
    s.group.facts.push(("cut".to_owned(), "facts,history,labels".to_owned()));
    s.group.facts.sort();
    let names: Vec<_> = s.members.iter().map(|m| m.name.clone()).collect();
    s.history = (0..limits::HISTORY)
        .zip(names.iter().cycle())
        .map(|(_, name)| Transition {
            at: NOW.saturating_sub(500),
            what: "command-failed".to_owned(),
            member: Some(name.clone()),
            detail: Some(filled("primary: it exited with 1: ", limits::REASON_BYTES)),
        })
        .collect();
    question
}

fn tell(member: &mut Member) {
    member.labels = pairs("priority", &(member.ordinal % 4).to_string());
    // What the question rests on stays.
    let template: Vec<_> = member.facts.drain(..).filter(|(key, _)| key == "template").collect();
    member.facts = pairs("lag", "12").split_off(template.len());
    member.facts.extend(template);
    let since = NOW.saturating_sub(300);
    let condition = |name: &&str| Condition { name: (*name).to_owned(), since, detail: Some("node-1".to_owned()) };
    member.conditions = CONDITIONS.iter().map(condition).collect();
    member.zone = member.zone.as_deref().map(|zone| filled(zone, LABEL));
    member.role_detail = member.role_detail.as_deref().map(|detail| filled(detail, limits::REASON_BYTES));
    // Members that are marked are always barred.
    member.marked = member.barred.is_some().then_some(since);
}

/// As many pairs as the contract allows, by key; one has a usual name and value.
fn pairs(key: &str, value: &str) -> Vec<(String, String)> {
    let mut pairs: Vec<_> = (1..PAIRS).map(|number| (format!("a-key-{number:02}"), filled("value", LABEL))).collect();
    pairs.push((key.to_owned(), value.to_owned()));
    pairs
}

/// The text, made so many bytes long.
fn filled(text: &str, bytes: usize) -> String {
    let missing = bytes.saturating_sub(text.len());
    format!("{text}{}", "-".repeat(missing))
}
