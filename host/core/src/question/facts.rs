//! The facts that policies see beside the fields of the contract (docs/facts.md). Each list has far fewer than the contract allows, so none is cut.
use crate::check;
use crate::contract::{Position, Role, Sequence};
use crate::limits;
use crate::membership::{Agreed, Entry, Said, quorum, said};
use crate::policy::Point;
use crate::record::Verb;
use crate::snapshot::{Member, Query, Snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// Facts by their words.
type Facts = BTreeMap<&'static str, String>;

fn sorted(facts: Facts) -> Vec<(String, String)> {
    facts.into_iter().map(|(word, value)| (word.to_owned(), value)).collect()
}

/// Adds pairs whose keys are missing. The result is sorted by key.
pub fn add_missing(pairs: &mut Vec<(String, String)>, more: &[(String, String)]) {
    let own: BTreeMap<_, _> = more.iter().cloned().chain(pairs.drain(..)).collect();
    pairs.extend(own);
}

/// The highest known number of each history in each term: of the members, and of the high-water mark.
pub(super) struct Tops<'a> {
    numbers: BTreeMap<(u64, Option<&'a str>), u64>,
    /// What the members of the application agree on, at questions about their number.
    agreed: Option<Agreed>,
}

impl<'a> Tops<'a> {
    pub(super) fn of(s: &'a Snapshot, point: Point) -> Self {
        let mut tops = BTreeMap::new();
        let mut count = |term, sequence: &'a Sequence| {
            let top = tops.entry((term, sequence.history.as_deref())).or_insert(sequence.number);
            *top = sequence.number.max(*top);
        };
        for member in &s.members {
            if let (Position::Known(own), Some(term)) = (&member.position, s.record.member(&member.name).counts_as()) {
                count(term, own);
            }
        }
        if let Some(mark) = &s.record.high_water {
            count(mark.term, &mark.sequence);
        }
        Tops { numbers: tops, agreed: agreed(s, point) }
    }

    /// How far the member's number is below the highest. `None`: its position or its term is not known.
    fn behind(&self, s: &Snapshot, member: &Member) -> Option<u64> {
        let Position::Known(own) = &member.position else { return None };
        let term = s.record.member(&member.name).counts_as()?;
        self.numbers.get(&(term, own.history.as_deref())).map(|top| top.saturating_sub(own.number))
    }
}

/// The facts of a member.
pub(super) fn of_member(s: &Snapshot, tops: &Tops<'_>, member: &Member, point: Point) -> Vec<(String, String)> {
    let mut facts = Facts::new();
    if is_of_update(point) {
        let template = |pod: &crate::snapshot::Pod| if pod.older_template { "older" } else { "present" };
        facts.extend(member.pod.as_ref().map(|pod| ("template", template(pod).to_owned())));
        let code = s.answers.get(&(Query::Check, member.name.clone())).and_then(|answer| answer.said.as_ref().ok());
        facts.extend(code.map(|code| ("check", code.to_string())));
    }
    if is_of_scaling(point) {
        let entry = tops.agreed.as_ref().and_then(|agreed| agreed.list.entry(&s.group.name, &member.name));
        facts.extend(entry.map(|entry| ("listed", listed_word(entry).to_owned())));
        facts.extend(entry.map(|entry| ("healthy", entry.healthy.to_string())));
        let change = check::due_change(s, tops.agreed.as_ref(), member).filter(|_| point == Point::Order);
        facts.extend(change.map(|verb| ("change", change_word(verb).to_owned())));
    }
    facts.extend(tops.behind(s, member).map(|by| ("behind", by.to_string())));
    let silent = member.pod.is_none() || s.seen(member).0 == Role::Unknown;
    let contact = member.reading.contact.filter(|_| silent).map(|at| at.min(s.now));
    facts.extend(contact.map(|at| ("last-contact", at.to_string())));
    sorted(facts)
}

/// Whether the question is about the way of a changed template to the members.
const fn is_of_update(point: Point) -> bool {
    matches!(point, Point::Update | Point::Judge)
}

/// Whether the question is about the number of members.
const fn is_of_scaling(point: Point) -> bool {
    matches!(point, Point::Admit | Point::Order)
}

/// The list on which the members of the application agree.
fn agreed(s: &Snapshot, point: Point) -> Option<Agreed> {
    match said(s) {
        Said::Agreed(agreed) if is_of_scaling(point) => Some(agreed),
        _ => None,
    }
}

fn listed_word(entry: &Entry) -> &'static str {
    match (entry.is_started(), entry.is_voter()) {
        (false, _) => "added",
        (true, false) => "learner",
        (true, true) => "voter",
    }
}

/// What would be done with a member, at the question who is next.
fn change_word(verb: Verb) -> &'static str {
    match verb {
        Verb::MemberAdd => "add",
        Verb::MemberRemove => "remove",
        _ => "stop",
    }
}

/// What is known of the number of members: how many there were before, and whether those that agree have a majority that is healthy.
fn of_scaling(s: &Snapshot, point: Point) -> Facts {
    // The group has the numbers that are asked for while a policy decides on them.
    let before = s.record.admitted.filter(|_| point == Point::Admit).map(|before| before.replicas.to_string());
    let mut facts: Facts = before.map(|before| ("replicas-before", before)).into_iter().collect();
    let has_quorum = |agreed: Agreed| agreed.healthy_voters(&s.group.name).len() >= quorum(agreed.list.voters());
    facts.extend(agreed(s, point).map(|agreed| ("quorum", has_quorum(agreed).to_string())));
    facts
}

/// What is known of the update: how many may go at a time, and the first member with the template.
fn of_update(s: &Snapshot) -> Facts {
    let update = &s.group.update;
    let mut facts = Facts::from([("update-batch", update.batch.word().to_owned())]);
    if let Some(canary) = s.record.canary_of(update).filter(|_| update.canary > 0) {
        facts.insert("canary", canary.member.to_string());
        facts.insert("canary-seconds", update.canary.to_string());
        facts.extend(canary.since.map(|since| ("canary-since", since.min(s.now).to_string())));
    }
    facts
}

/// The facts of the group.
pub(super) fn of_group(s: &Snapshot, point: Point) -> Vec<(String, String)> {
    let mut facts = Facts::new();
    facts.extend(cut(s).map(|lists| ("cut", lists)));
    facts.extend(is_of_update(point).then(|| of_update(s)).into_iter().flatten());
    facts.extend(is_of_scaling(point).then(|| of_scaling(s, point)).into_iter().flatten());
    facts.extend(s.group.failover.max_behind.map(|limit| ("max-behind", limit.to_string())));
    // Why the host would move the lead by itself.
    let cause = check::lead_cause(s).filter(|_| point == Point::Switchover);
    facts.extend(cause.map(|cause| ("switchover", cause.word.to_owned())));
    let (led, node, zone) = last_primary(s);
    facts.extend(
        [("last-primary", led), ("last-primary-node", node), ("last-primary-zone", zone)]
            .into_iter()
            .filter_map(|(word, value)| Some((word, value?))),
    );
    sorted(facts)
}

/// The member that leads, or led last, and where it was then. With several primaries: the one that became it last.
fn last_primary(s: &Snapshot) -> (Option<String>, Option<String>, Option<String>) {
    let led = s.record.last_led();
    let serving = s.serving();
    let leads = match serving.as_slice() {
        [one] => Some(*one),
        all => all.iter().copied().find(|m| led == Some(&m.name)),
    };
    match (leads, led) {
        (Some(m), _) => {
            (Some(m.name.to_string()), m.pod.as_ref().and_then(|pod| pod.node.clone()), s.zone(m).map(str::to_owned))
        }
        (None, Some(led)) if serving.is_empty() => {
            let lost = s.record.lost_primary.as_ref().filter(|lost| lost.member == *led);
            (Some(led.to_string()), lost.and_then(|l| l.node.clone()), lost.and_then(|l| l.zone.clone()))
        }
        _ => (None, None, None),
    }
}

/// The names of the lists of which a policy does not see everything.
fn cut(s: &Snapshot) -> Option<String> {
    let many = |labels: &[(String, String)]| keys(labels) > limits::LABELS;
    let labels = many(&s.group.labels) || s.members.iter().filter_map(|m| m.pod.as_ref()).any(|p| many(&p.labels));
    // The record keeps so many, so there may have been older ones.
    let history = s.record.history.len() >= limits::HISTORY;
    let cut: Vec<_> = [("history", history), ("labels", labels)].into_iter().filter(|(_, cut)| *cut).collect();
    (!cut.is_empty()).then(|| cut.into_iter().map(|(list, _)| list).collect::<Vec<_>>().join(","))
}

fn keys(pairs: &[(String, String)]) -> usize {
    pairs.iter().map(|(key, _)| key).collect::<BTreeSet<_>>().len()
}
