//! Makes the contract's snapshot, which policies see, from what the host observed.
mod facts;

pub use facts::add_missing;

use crate::contract;
use crate::contract::{MemberName, Phase, Position, Role};
use crate::limits;
use crate::policy::{Point, Question};
use crate::record::cut;
use crate::snapshot::{Member, Snapshot};
use std::collections::BTreeMap;

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
        facts: facts::of_group(s, point),
    };
    let tops = facts::Tops::of(s, point);
    let mut members: Vec<_> =
        s.members.iter().map(|m| member(s, &tops, m, point, bars.get(&m.name).cloned())).collect();
    members.sort_by(|a, b| (a.ordinal, &a.name).cmp(&(b.ordinal, &b.name)));
    let snapshot =
        contract::Snapshot { now: s.now, group, members, history: s.record.history.clone(), parameters: "{}".into() };
    Question { point, snapshot }
}

fn member(s: &Snapshot, tops: &facts::Tops<'_>, m: &Member, point: Point, barred: Option<String>) -> contract::Member {
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
        role_detail: role_detail.as_deref().map(cut),
        last_primary: if role == Role::Primary { Some(s.now) } else { memory.last_primary.map(|at| at.min(s.now)) },
        term: memory.term,
        position: match &m.position {
            // Its members have no data that counts.
            Position::NotAsked if s.group.active_passive => Position::Empty,
            Position::Unknown(why) => Position::Unknown(cut(why)),
            position => position.clone(),
        },
        node: pod.and_then(|p| p.node.clone()),
        zone: s.zone(m).map(str::to_owned),
        failures: memory.failures,
        last_failure: memory.last_failure.clone(),
        marked: None,
        conditions: conditions(s, m),
        labels: pod.map(|p| sorted(&p.labels)).unwrap_or_default(),
        facts: facts::of_member(s, tops, m, point),
        barred,
    }
}

/// What holds for the member, by name, each name once; at most [`limits::CONDITIONS`].
fn conditions(s: &Snapshot, m: &Member) -> Vec<contract::Condition> {
    let unique: BTreeMap<_, _> = m.conditions.iter().map(|each| (&each.name, each)).collect();
    let told = unique.into_values().take(limits::CONDITIONS).map(|each| contract::Condition {
        name: each.name.clone(),
        since: each.since.min(s.now),
        detail: each.detail.as_deref().map(cut),
    });
    told.collect()
}

fn sorted(pairs: &[(String, String)]) -> Vec<(String, String)> {
    let unique: BTreeMap<_, _> = pairs.iter().cloned().collect();
    unique.into_iter().take(limits::LABELS).collect()
}
