//! What scenes are made of: a group, its members, and what belongs to them.
use crate::contract::{Failure, MemberName, Outcome, Phase, Position, Role};
use crate::examples::{NOW, RUNS};
use crate::record::{GroupSize, MemberRecord};
use crate::snapshot::{Claim, Command, Commands, Container, Failover, Group, Member, Node, Pod, Reading, Update};
use std::collections::BTreeMap;

pub(super) fn pattern_of(ordinal: u32, present: u32, patterns: &[u32]) -> u32 {
    let beyond = ordinal.checked_sub(present).and_then(|n| usize::try_from(n).ok());
    beyond.and_then(|n| patterns.iter().cycle().nth(n % patterns.len().max(1))).copied().unwrap_or(ordinal)
}

/// What every group needs, of commands that are called like that, and nothing else.
#[must_use]
pub fn commands(command: impl Fn(&str) -> Command) -> Commands {
    Commands {
        status: command("status"),
        sequence: command("sequence"),
        stop: command("stop"),
        primary: command("primary"),
        seed: None,
        secondary: None,
        promote: None,
        follow: None,
        membership: None,
        check: None,
        prepared: None,
        hooks: Default::default(),
        upgrade: None,
    }
}

/// The group `db`, with secondaries, and one primary. What a user need not say is as it is by default.
#[must_use]
pub fn group(members: u32) -> Group {
    let command = |name: &str| Command { exec: vec![format!("/opt/{name}")], container: CONTAINER.into(), timeout: 60 };
    Group {
        name: "db".into(),
        namespace: "default".into(),
        uid: "group".into(),
        generation: 1,
        replicas: members,
        requested: GroupSize { replicas: members, primaries: 1 },
        primaries: 1,
        commands: Commands { secondary: Some(command("secondary")), ..commands(command) },
        active_passive: false,
        runner: true,
        start_deadline: 3600,
        unknown_grace: 900,
        preferred_primary: None,
        domain: "cluster.local".into(),
        failover: Failover::default(),
        paused: false,
        retry: None,
        requested_override: None,
        resize_deadline: 600,
        removal_rest: 0,
        update: Update::default(),
        version: None,
        deletes_volumes: false,
        wipes_volumes: false,
        makes_pods: false,
        unwanted: Default::default(),
        replace_after: 0,
        zones: Vec::new(),
        cluster_state: None,
        override_error: None,
        requested_recovery: None,
        recovery_error: None,
        labels: Vec::new(),
    }
}

const CONTAINER: &str = "db";

pub(super) fn name(ordinal: u32) -> MemberName {
    format!("db-{ordinal}").into()
}

pub(super) fn pod_uid(ordinal: u32) -> String {
    format!("pod-{ordinal}")
}

pub(super) fn container_id(ordinal: u32) -> String {
    format!("container-{ordinal}")
}

pub(super) fn member(ordinal: u32) -> Member {
    let container = Container { id: Some(container_id(ordinal)), running: true, ready: true };
    let pod = Pod {
        uid: pod_uid(ordinal),
        version: "1".into(),
        phase: Phase::Running,
        phase_since: NOW.saturating_sub(RUNS),
        ready: false,
        node: Some("node-0".into()),
        grace: 10,
        containers: BTreeMap::from([(CONTAINER.to_owned(), container)]),
        routed: None,
        outdated: false,
        older_template: false,
        needs_new_member: false,
        template: None,
        gate: Some(false),
        labels: Vec::new(),
        trouble: None,
        stray: None,
        is_elsewhere: false,
        programs: None,
        adoption: None,
        is_being_deleted: false,
        lacked_memory: false,
    };
    let since = NOW.saturating_sub(60);
    let reading = Reading { role: Role::Stopped, since, processes: Some(0), ..Reading::default() };
    Member {
        name: name(ordinal),
        ordinal,
        pod: Some(pod),
        claims: vec![claim(ordinal)],
        reading,
        position: Position::Empty,
        position_at: NOW.saturating_sub(1),
        position_stale: false,
        asked: false,
        conditions: Vec::new(),
    }
}

fn claim(ordinal: u32) -> Claim {
    Claim {
        name: format!("data-db-{ordinal}"),
        uid: format!("claim-{ordinal}"),
        version: "1".into(),
        mark: None,
        start: None,
        room: None,
    }
}

pub(super) fn copied(original: &Member, ordinal: u32) -> Member {
    let mut copy = Member { name: name(ordinal), ordinal, claims: vec![claim(ordinal)], ..original.clone() };
    if let Some(pod) = &mut copy.pod {
        pod.uid = pod_uid(ordinal);
        pod.containers.values_mut().for_each(|container| container.id = Some(container_id(ordinal)));
    }
    copy
}

pub(super) fn node(zone: Option<&str>) -> Node {
    Node { ready: true, since: 0, seen: 0, out_of_service: false, cordoned: false, zone: zone.map(str::to_owned) }
}

pub(super) fn failure(known: &mut MemberRecord, command: &str, outcome: Outcome, times: u32) {
    known.failures = times;
    known.last_failure = Some(Failure { command: command.to_owned(), outcome, at: NOW.saturating_sub(5) });
}

pub(super) fn pair(key: &str, value: String) -> (String, String) {
    (key.to_owned(), value)
}
