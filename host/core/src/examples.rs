//! Example groups: what is asked about them, made as a round makes it. For the exam of policies, for their authors, and for tests.
//!
//! [`cases`] lists the questions; each is what [`decide`](crate::decide::decide) asks about a [`Scene`], so members are barred by the host's own
//! rules and for its own reasons. [`asked`] does the same for a group that a test describes as policies see it. [`member`] and [`snapshot`] are single values
//! of the contract, for questions that a test writes by hand; [`pod`] is one of the core's.
mod asked;
mod cases;
mod parts;
mod scene;
mod told;

pub use asked::{asked, why_nobody_moves, why_not};
pub use cases::{Case, cases, usual};
pub use parts::{commands, group};
pub use scene::Scene;

use crate::contract::{Group, Member, Phase, Position, Role, Sequence, Snapshot, Timestamp};
use crate::snapshot::{Container, Pod};
use std::collections::BTreeMap;

/// The time of every example.
pub const NOW: Timestamp = 1_795_000_000;

/// Seconds for which the pods of the examples have been running: long enough for every question.
const RUNS: Timestamp = 7_200;

/// `db-ORDINAL`: its pod runs, it is stopped, its data is known and of no history, and nothing else is known of it.
#[must_use]
pub fn member(ordinal: u32, number: u64) -> Member {
    Member {
        name: format!("db-{ordinal}").into(),
        ordinal,
        phase: Phase::Running,
        phase_since: NOW.saturating_sub(RUNS),
        ready: false,
        role: Role::Stopped,
        role_since: NOW.saturating_sub(800),
        role_detail: None,
        last_primary: None,
        term: None,
        position: Position::Known(Sequence { history: None, number }),
        node: None,
        zone: None,
        failures: 0,
        last_failure: None,
        marked: None,
        conditions: Vec::new(),
        labels: Vec::new(),
        facts: Vec::new(),
        barred: None,
    }
}

/// The group `db` with these members, one primary and secondaries. It was never seeded.
#[must_use]
pub fn snapshot(members: Vec<Member>) -> Snapshot {
    let group = Group {
        name: "db".to_owned(),
        namespace: "default".to_owned(),
        replicas: u32::try_from(members.len()).unwrap_or(u32::MAX),
        primaries: 1,
        has_secondaries: true,
        term: 0,
        preferred_primary: None,
        high_water: None,
        labels: Vec::new(),
        facts: Vec::new(),
    };
    Snapshot { now: NOW, group, members, history: Vec::new(), parameters: "{}".to_owned() }
}

/// Clients reach a member in the role in which it serves, as in a group at rest.
fn routed(role: Role) -> Option<String> {
    match role {
        Role::Primary => Some("primary".to_owned()),
        Role::Secondary => Some("secondary".to_owned()),
        _ => None,
    }
}

/// A pod with one container, `db`, that runs. `id`: of the container; `ready`: whether that is ready.
#[must_use]
pub fn pod(id: &str, ready: bool, phase: Phase) -> Pod {
    let container = Container { id: Some(id.into()), running: true, ready };
    Pod {
        uid: "u".into(),
        version: "1".into(),
        phase,
        phase_since: 0,
        ready: false,
        node: None,
        grace: 30,
        containers: BTreeMap::from([("db".to_owned(), container)]),
        routed: None,
        outdated: false,
        older_template: false,
        needs_new_member: false,
        template: None,
        gate: None,
        labels: Vec::new(),
        trouble: None,
        stray: None,
        is_elsewhere: false,
        programs: None,
        adoption: None,
        is_being_deleted: false,
        lacked_memory: false,
    }
}
