//! Makes the core's snapshot of a case: the input of a decision, as the operator would have observed it. What the case does not say is as in a healthy group
//! in which this question arises.
//!
//! This is the only place that fills in what a case leaves out. Bars and candidates are not made here: the core makes them of this snapshot.

pub(crate) mod remembered;

use std::collections::{BTreeMap, BTreeSet};

use serde_saphyr::Location;
use tanist_core::{
    contract::{Condition, Failure, MemberName, Outcome, Phase, Position, Role, Sequence, Timestamp, Transition},
    examples, limits, memory,
    policy::Point,
    record::{Canary, GroupSize, LostPrimary, Mark, Record, Seeded, Verdict},
    snapshot::{
        Batch, Claim, Command, Commands, Container, Failover, Group, Member, Node, Pod, Reading, Set, Snapshot, Update,
    },
};

use crate::case::{BatchWord, Case, ConditionCase, Data, GroupCase, MemberCase, TemplateWord, split};

/// The container of every command.
const CONTAINER: &str = "main";

/// Seconds for which a member of a case has been in its role and phase.
const SETTLED: Timestamp = 60;

/// The snapshot of a case.
#[must_use]
pub fn snapshot(case: &Case) -> Snapshot {
    let names = case.names();
    let mut said: Vec<_> = (0..names.len()).map(|index| case.members.case(index)).collect();
    fill_roles(case.point.value, &mut said);
    fill_templates(case.point.value, &mut said);
    let term = case.group.term.unwrap_or_else(|| highest_term(&said));
    let replicas = case.group.replicas.unwrap_or_else(|| usual_replicas(case.point.value, count(names.len())));
    let members: Vec<_> = names.iter().zip(&said).map(|(name, said)| member(case, name, said, term)).collect();
    let mut record = record(case, term, replicas, names.len());
    for (member, said) in members.iter().zip(&said) {
        remember(&mut record, case, term, member, said);
    }
    record.lost_primary = lost_primary(&record, &members, &said);
    record.canary = canary(case, &members);
    record.admitted =
        admitted(case, names.len()).map(|replicas| GroupSize { replicas, primaries: primaries(case, &said) });
    // A memory that does not fit was refused when the case was read.
    let record = remembered::joined(case, record.clone()).unwrap_or(record);
    let mut nodes = names.iter().zip(&said).map(|(name, said)| node(name, said)).collect();
    remembered::add_nodes(&record, case.now, &mut nodes);
    let existing = record.admitted.map_or_else(|| count(names.len()).max(replicas), |size| size.replicas);
    Snapshot {
        now: case.now,
        began: 0,
        nonce: "case".to_owned(),
        group: group(case, &names, replicas, primaries(case, &said)),
        record,
        objects: Vec::new(),
        set: Some(Set { uid: "set".to_owned(), replicas: existing, ..Set::default() }),
        moving: None,
        members,
        evidence: BTreeMap::new(),
        nodes: Some(nodes),
        ended: BTreeSet::new(),
        nodes_at: case.now,
        deleted_nodes: BTreeMap::new(),
        gone_pods: BTreeMap::new(),
        lists: BTreeMap::new(),
        answers: BTreeMap::new(),
        surplus_claims: Vec::new(),
        left_claims: Vec::new(),
        cluster_state: Default::default(),
        strangers: BTreeSet::new(),
    }
}

/// The desired number of members with which the question arises.
fn usual_replicas(point: Point, there: u32) -> u32 {
    match point {
        Point::Admit => there.saturating_add(1),
        Point::Order => there.saturating_sub(1),
        _ => there,
    }
}

/// The number of members that policies let in last, where another one is asked for.
fn admitted(case: &Case, there: usize) -> Option<u32> {
    (case.point.value == Point::Admit).then(|| case.group.replicas_before.unwrap_or_else(|| count(there)))
}

/// Whether what a case says about the memory of the operator can be one.
///
/// # Errors
/// What is wrong, and where.
pub fn look(case: &Case) -> Result<(), (Location, String)> {
    let named = case.group.memory.is_some() || (0..case.names().len()).any(|at| case.members.case(at).memory.is_some());
    if named { remembered::joined(case, Record::default()).map(drop) } else { Ok(()) }
}

/// Where the member that led last was: on the node and in the zone that the case gives it, even if its pod is gone.
fn lost_primary(record: &Record, members: &[Member], said: &[MemberCase]) -> Option<LostPrimary> {
    // As the operator remembers it: only while no member leads.
    let led = record.last_led().filter(|_| said.iter().all(|each| each.role != Some(Role::Primary)))?;
    let (member, said) = members.iter().zip(said).find(|(member, _)| member.name == *led)?;
    let there = member.pod.as_ref().and_then(|pod| pod.node.clone());
    Some(LostPrimary { member: led.clone(), node: said.node.clone().or(there), zone: said.zone.clone() })
}

/// A time of a case: 0 and less are seconds before its `now`.
fn time(case: &Case, at: Timestamp) -> Timestamp {
    if at > 0 { at } else { case.now.saturating_add(at) }
}

fn count(members: usize) -> u32 {
    u32::try_from(members).unwrap_or(u32::MAX)
}

/// Gives a role to members without one: the one in which the question arises.
fn fill_roles(point: Point, members: &mut [MemberCase]) {
    let all = |role| vec![role; members.len()];
    let has = |role: Role| members.iter().any(|member| member.role == Some(role));
    let led_by_first = |others: Role| {
        let first = members.iter().position(|member| member.role.is_none()).filter(|_| !has(Role::Primary));
        (0..members.len()).map(|index| if Some(index) == first { Role::Primary } else { others }).collect()
    };
    let roles: Vec<Role> = match point {
        Point::Seed => all(Role::Stopped),
        Point::Failover => all(Role::Secondary),
        Point::Demote => all(Role::Primary),
        Point::Join | Point::Place => led_by_first(Role::Stopped),
        Point::Treat | Point::Switchover | Point::Rebalance => led_by_first(Role::Secondary),
        Point::Update | Point::Judge | Point::Admit | Point::Order => led_by_first(Role::Secondary),
    };
    for (member, role) in members.iter_mut().zip(roles) {
        member.role.get_or_insert(role);
    }
}

/// Gives a template to the pods of members without one: the one with which the question arises.
fn fill_templates(point: Point, members: &mut [MemberCase]) {
    let last = members.len().saturating_sub(1);
    for (index, member) in members.iter_mut().enumerate() {
        member.template.get_or_insert(match point {
            Point::Update => TemplateWord::Older,
            Point::Judge if index < last => TemplateWord::Older,
            _ => TemplateWord::Present,
        });
    }
}

/// The template of a group whose template changed.
const CHANGED: &str = "changed";

fn update(case: &Case) -> Update {
    let batch = match case.group.update_batch {
        Some(BatchWord::Zone) => Batch::Zone,
        Some(BatchWord::All) => Batch::All,
        Some(BatchWord::Member) | None => Batch::Member,
    };
    Update { batch, canary: canary_seconds(case), template: CHANGED.to_owned(), ..Update::default() }
}

fn canary_seconds(case: &Case) -> u32 {
    case.group.canary_seconds.unwrap_or(if case.point.value == Point::Judge { 300 } else { 0 })
}

/// The last member with the changed template is the first one that got it, and has been watched since it entered its role. At other questions it passed.
fn canary(case: &Case, members: &[Member]) -> Option<Canary> {
    let has_it = |m: &&Member| m.pod.as_ref().is_some_and(|pod| !pod.older_template);
    let member = members.iter().filter(has_it).max_by_key(|m| m.ordinal).filter(|_| canary_seconds(case) > 0)?;
    let pod = member.pod.as_ref()?;
    Some(Canary {
        template: CHANGED.to_owned(),
        member: member.name.clone(),
        pod_uid: pod.uid.clone(),
        container: pod.containers.get(CONTAINER).and_then(|container| container.id.clone()),
        begun: member.reading.since,
        since: Some(member.reading.since),
        unjudged: None,
        verdict: (case.point.value != Point::Judge).then_some(Verdict::Passed),
    })
}

/// The number of primaries with which the question arises.
fn primaries(case: &Case, members: &[MemberCase]) -> u32 {
    let leading = count(members.iter().filter(|member| member.role == Some(Role::Primary)).count());
    let usual = match case.point.value {
        Point::Join => leading.saturating_add(1),
        Point::Demote => leading.saturating_sub(1),
        Point::Place | Point::Rebalance | Point::Update | Point::Judge | Point::Admit | Point::Order => leading,
        Point::Seed | Point::Failover | Point::Treat | Point::Switchover => 1,
    };
    case.group.primaries.unwrap_or(usual.max(1))
}

/// The highest term of the members. Where none is named: 0 if all are empty and stopped, so that the group was never seeded, and 1 otherwise.
fn highest_term(members: &[MemberCase]) -> u64 {
    let blank = |member: &MemberCase| {
        matches!(member.data, Some(Data(Position::Empty))) && matches!(member.role, Some(Role::Stopped))
    };
    let usual = u64::from(!members.iter().all(blank));
    members.iter().filter_map(|member| member.term).max().unwrap_or(usual)
}

fn group(case: &Case, names: &[String], replicas: u32, primaries: u32) -> Group {
    let GroupCase {
        name,
        namespace,
        has_secondaries,
        preferred_primary,
        prefer_running,
        reads,
        max_behind,
        labels,
        ..
    } = &case.group;
    let first = names.first().and_then(|name| split(name)).map_or("db", |(group, _)| group);
    let command = |name: &str| Command { exec: vec![name.to_owned()], container: CONTAINER.to_owned(), timeout: 60 };
    Group {
        name: name.as_ref().map_or_else(|| first.to_owned(), |name| name.value.clone()),
        namespace: namespace.clone().unwrap_or_else(|| "default".to_owned()),
        replicas: admitted(case, names.len()).unwrap_or(replicas),
        requested: GroupSize { replicas, primaries },
        primaries,
        commands: Commands {
            secondary: has_secondaries.unwrap_or(true).then(|| command("secondary")),
            ..examples::commands(command)
        },
        preferred_primary: preferred_primary.as_ref().map(|name| MemberName(name.value.clone())),
        failover: Failover { reads: *reads, prefer_running: *prefer_running, max_behind: *max_behind },
        update: update(case),
        labels: pairs(labels),
        ..examples::group(replicas)
    }
}

fn pairs(map: &BTreeMap<String, String>) -> Vec<(String, String)> {
    map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn member(case: &Case, name: &str, said: &MemberCase, term: u64) -> Member {
    let phase = match said.reachable {
        Some(false) => Phase::Unreachable,
        _ => said.phase.unwrap_or(Phase::Running),
    };
    // That a member was moved a short time ago is a matter of the host's.
    let usual = if case.point.value == Point::Rebalance { limits::MOVE_SECONDS } else { SETTLED };
    let since = time(case, said.since.unwrap_or(-usual));
    let role_since = said.role_since.map_or(since, |at| time(case, at));
    // A role can only be read where commands arrive.
    let role = match phase {
        Phase::Running | Phase::Terminating => said.role.unwrap_or(Role::Stopped),
        Phase::Missing | Phase::Pending | Phase::Ended | Phase::Unreachable => Role::Unknown,
    };
    let detail = match role {
        Role::Unknown => Some("its status cannot be read".to_owned()),
        Role::Failed => Some("its status says failed".to_owned()),
        _ => None,
    };
    let detail = said.detail.clone().or(detail);
    let known = Position::Known(Sequence { history: None, number: 1 });
    let usual = if term == 0 { Position::Empty } else { known };
    let position = match phase {
        Phase::Running => said.data.clone().map_or(usual, |data| data.0),
        _ => Position::NotAsked,
    };
    Member {
        name: MemberName(name.to_owned()),
        ordinal: split(name).map_or(0, |(_, ordinal)| ordinal),
        pod: (phase != Phase::Missing).then(|| pod(name, said, phase, role, since)),
        claims: vec![claim(name)],
        reading: Reading {
            role,
            detail,
            since: role_since,
            unknown_streak: u32::from(role == Role::Unknown),
            processes: None,
            running: None,
            contact: said.last_contact.map(|at| time(case, at)),
        },
        position,
        position_at: case.now,
        position_stale: false,
        asked: false,
        conditions: said.conditions.iter().map(|(name, said)| condition(case, name, said)).collect(),
    }
}

fn condition(case: &Case, name: &str, said: &ConditionCase) -> Condition {
    let since = time(case, said.since.unwrap_or(-SETTLED));
    Condition { name: name.to_owned(), since, detail: said.detail.clone() }
}

fn pod(name: &str, said: &MemberCase, phase: Phase, role: Role, since: Timestamp) -> Pod {
    let runs = !matches!(phase, Phase::Pending | Phase::Ended);
    let in_role = matches!(role, Role::Primary | Role::Secondary);
    let is_older = said.template == Some(TemplateWord::Older);
    let container = Container { id: Some(format!("{name}-container")), running: runs, ready: in_role };
    Pod {
        uid: format!("{name}-pod"),
        version: "1".to_owned(),
        phase,
        phase_since: since,
        ready: said.ready.unwrap_or(in_role && phase == Phase::Running),
        node: (phase != Phase::Pending).then(|| node_name(name, said)),
        grace: 30,
        containers: BTreeMap::from([(CONTAINER.to_owned(), container)]),
        routed: None,
        outdated: is_older,
        older_template: is_older,
        needs_new_member: false,
        template: None,
        gate: None,
        labels: pairs(&said.labels),
        trouble: None,
        stray: None,
        is_elsewhere: false,
        programs: None,
        adoption: None,
        is_being_deleted: false,
        lacked_memory: false,
    }
}

fn claim(name: &str) -> Claim {
    Claim {
        name: format!("data-{name}"),
        uid: format!("{name}-claim"),
        version: "1".to_owned(),
        mark: None,
        start: None,
        room: None,
    }
}

fn node_name(name: &str, said: &MemberCase) -> String {
    said.node.clone().unwrap_or_else(|| format!("node-of-{name}"))
}

fn node(name: &str, said: &MemberCase) -> (String, Node) {
    let reports = said.reachable != Some(false) && said.phase != Some(Phase::Unreachable);
    let node = Node {
        ready: reports,
        since: 0,
        seen: 0,
        out_of_service: false,
        cordoned: said.cordoned,
        zone: said.zone.clone(),
    };
    (node_name(name, said), node)
}

/// The memory of the group: it was seeded in its term, and every last primary is over.
fn record(case: &Case, term: u64, replicas: u32, members: usize) -> Record {
    let high_water = case.group.high_water.as_ref().and_then(|data| match &data.value.0 {
        Position::Known(sequence) => {
            Some(Mark { term: case.group.high_water_term.unwrap_or(term), sequence: sequence.clone() })
        }
        _ => None,
    });
    let history = case.history.iter().map(|past| Transition {
        at: time(case, past.at),
        what: past.what.clone(),
        member: past.member.as_ref().map(|member| MemberName(member.value.clone())),
        detail: past.detail.clone(),
    });
    let first = case.names().into_iter().next().unwrap_or_default();
    Record {
        term,
        ever_seeded: (term > 0).then_some(Seeded { member: MemberName(first), confirmed: true }),
        high_water,
        last_replicas: replicas.max(count(members)),
        history: history.collect(),
        cleared_generation: 1,
        ..Record::default()
    }
}

/// The memory of one member.
fn remember(record: &mut Record, case: &Case, term: u64, member: &Member, said: &MemberCase) {
    let confirmed = term > 0 && said.data != Some(Data(Position::Empty));
    let own = said.term.or(confirmed.then_some(term));
    let known = record.member_mut(&member.name);
    known.term = own;
    known.claim_uid = own.and_then(|_| memory::claim_uids(&member.claims));
    // A lead that moved a short time ago is no matter for a policy.
    let leads = case.point.value == Point::Switchover && said.role == Some(Role::Primary);
    let usual = leads.then_some(-limits::LEAD_SECONDS);
    let last_primary = said.last_primary.or(usual);
    known.last_primary = last_primary.map(|at| time(case, at));
    // A primary was made one by a command of this group, whatever the case says of its past.
    let leads = said.role == Some(Role::Primary);
    known.primary_term = own.filter(|_| leads || last_primary.is_some());
    known.failures = said.failures;
    let usual = || Failure { command: "primary".to_owned(), outcome: Outcome::Exited(1), at: time(case, -SETTLED) };
    let told = said.last_failure.as_ref().map(|told| Failure {
        command: told.command.clone(),
        outcome: told.outcome,
        at: time(case, told.at),
    });
    known.last_failure = told.or_else(|| (said.failures > 0).then(usual));
}
