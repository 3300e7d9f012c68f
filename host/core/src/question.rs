//! Makes the contract's snapshot, which policies see, from what the host observed.
use crate::contract;
use crate::contract::{MemberName, Phase};
use crate::limits;
use crate::policy::{Point, Question};
use crate::snapshot::{Member, Snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// Builds the question of a point; `bars` has the reason for each member that may not be chosen.
#[must_use]
pub fn question(s: &Snapshot, point: Point, bars: &BTreeMap<MemberName, String>) -> Question {
    let group = contract::Group {
        name: s.group.name.clone(),
        namespace: s.group.namespace.clone(),
        replicas: s.group.replicas,
        primaries: s.group.primaries,
        has_secondaries: s.group.commands.secondary.is_some(),
        term: s.record.term,
        preferred_primary: s.group.preferred_primary.clone(),
        high_water: s.record.high_water.as_ref().map(|m| m.sequence.clone()),
        labels: sorted(&s.group.labels),
        facts: facts(s),
    };
    let mut members: Vec<_> = s.members.iter().map(|m| member(s, m, bars.get(&m.name).cloned())).collect();
    members.sort_by(|a, b| (a.ordinal, &a.name).cmp(&(b.ordinal, &b.name)));
    let snapshot =
        contract::Snapshot { now: s.now, group, members, history: s.record.history.clone(), parameters: "{}".into() };
    Question { point, snapshot }
}

fn member(s: &Snapshot, m: &Member, barred: Option<String>) -> contract::Member {
    let memory = s.record.member(&m.name);
    let (role, role_detail) = s.role(m);
    let pod = m.pod.as_ref();
    contract::Member {
        name: m.name.clone(),
        ordinal: m.ordinal,
        phase: pod.map_or(Phase::Missing, |p| p.phase),
        phase_since: pod.map_or(s.now, |p| p.phase_since.min(s.now)),
        ready: pod.is_some_and(|p| p.ready),
        role,
        role_since: m.reading.since.min(s.now),
        role_detail,
        last_primary: memory.last_primary.map(|at| at.min(s.now)),
        term: memory.term,
        position: m.position.clone(),
        node: pod.and_then(|p| p.node.clone()),
        zone: zone(s, m),
        failures: memory.failures,
        last_failure: memory.last_failure.clone(),
        marked: None,
        conditions: Vec::new(),
        labels: pod.map(|p| sorted(&p.labels)).unwrap_or_default(),
        facts: Vec::new(),
        barred,
    }
}

/// The facts about the group (docs/facts.md): the names of the lists of which a policy does not see everything.
fn facts(s: &Snapshot) -> Vec<(String, String)> {
    let many = |labels: &[(String, String)]| keys(labels) > limits::LABELS;
    let labels = many(&s.group.labels) || s.members.iter().filter_map(|m| m.pod.as_ref()).any(|p| many(&p.labels));
    // The record keeps so many, so there may have been older ones.
    let history = s.record.history.len() >= limits::HISTORY;
    let cut: Vec<_> = [("history", history), ("labels", labels)].into_iter().filter(|(_, cut)| *cut).collect();
    match cut.is_empty() {
        true => Vec::new(),
        false => vec![("cut".into(), cut.into_iter().map(|(list, _)| list).collect::<Vec<_>>().join(","))],
    }
}

fn keys(pairs: &[(String, String)]) -> usize {
    pairs.iter().map(|(key, _)| key).collect::<BTreeSet<_>>().len()
}

fn zone(s: &Snapshot, m: &Member) -> Option<String> {
    s.nodes.as_ref()?.get(m.pod.as_ref()?.node.as_ref()?)?.zone.clone()
}

fn sorted(pairs: &[(String, String)]) -> Vec<(String, String)> {
    let unique: BTreeMap<_, _> = pairs.iter().cloned().collect();
    unique.into_iter().take(limits::LABELS).collect()
}
