//! A group as its objects tell it, without asking its members: for the command line, whose user may look and not execute. It uses what a round uses, so
//! that both see the same group; only roles and data are those of the status.
use super::conditions::{self, Around};
use super::{Error, Seen, World, admitted, convert, missing, read_record, requested, silence};
use crate::hints::Group;
use crate::objects::template_hash;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tanist_api::ReplicaGroup;
use tanist_api::status::MemberStatus;
use tanist_api::validate;
use tanist_core::contract::{Phase, Position, Role, Sequence, Timestamp};
use tanist_core::memory;
use tanist_core::record::Record;
use tanist_core::roster::Roster;
use tanist_core::snapshot::{Member, Reading, Set, Snapshot};

/// The objects of a group, as far as they may be read.
pub struct Objects {
    /// The group's object, with its status.
    pub group: ReplicaGroup,
    /// Its `StatefulSet`. `None`: there is none, or it may not be read.
    pub set: Option<StatefulSet>,
    /// The pods with the label of the group.
    pub pods: Vec<Pod>,
    /// The claims with the label of the group. Empty: there are none, or they may not be read.
    pub claims: Vec<PersistentVolumeClaim>,
    /// The nodes of its pods. `None`: they may not be read.
    pub nodes: Option<Vec<Node>>,
}

/// What the objects of a group tell.
pub struct Told {
    /// The input of a decision, as far as it is known.
    pub snapshot: Snapshot,
    /// Members whose data was never read, with what is taken in its place.
    pub guessed: Vec<(String, Position)>,
}

/// The snapshot of a group.
///
/// # Errors
/// When spec or record cannot be read.
pub fn told(objects: Objects, now: Timestamp) -> Result<Told, Error> {
    let Objects { group: object, set, pods, claims, nodes } = objects;
    let record = read_record(&object, now, now)?;
    let requested = requested(&object);
    let object = admitted(Arc::new(object), &record);
    let mut group = validate::group(&object, "cluster.local").map_err(Error::ReadSpec)?;
    group.requested = requested;
    group.update.template = template_hash(&object);
    let unbound = conditions::unbound(claims.iter());
    let ending = super::world::ending(claims.iter());
    let claims = claims.iter().filter_map(|claim| convert::claim(&group.name, claim)).collect();
    let template = record.fallback(&group.update).unwrap_or(&group.update.template).to_owned();
    let (services, budgets) = (Vec::new(), Vec::new());
    let (set, pods) = (set.map(Arc::new), pods.into_iter().map(Arc::new).collect());
    let makes_pods = group.makes_pods.then(|| group.name.clone());
    let mut world =
        World { set, services, budgets, pods, claims, ending, unbound, version: None, makes_pods, template };
    let wants_pods = group.makes_pods;
    world.settle_maker(&mut group, &record);
    let mut record = memory::recall(record, &group.name, world.claims());
    world.find_seats(&group, &mut record);
    let own = group.makes_pods.then(|| Set { uid: group.uid.clone(), ..Set::default() });
    let set = own.or(world.set.as_ref().map(|set| Set {
        uid: set.uid().unwrap_or_default(),
        replicas: set.spec.as_ref().and_then(|s| s.replicas).and_then(|r| u32::try_from(r).ok()).unwrap_or(1),
        ..Set::default()
    }));
    let known = missing::known(&object, &record);
    let moving = world.moving(&group, &record, wants_pods);
    let about = Seen { group: &group, set: set.as_ref(), record: &record, moving: moving.as_ref() };
    let mut members = world.members(&object, about, &known, now);
    let label = object.spec.zones.node_label.as_deref();
    let (nodes, taints) = nodes.map(|nodes| places(&nodes, label)).unzip();
    silence(&mut members, nodes.as_ref());
    let (templates, taints) = (conditions::templates(&object), taints.unwrap_or_default());
    let around = Around { templates, unbound: &world.unbound, record: &record, nodes: nodes.as_ref(), taints: &taints };
    // Who looks from outside sees what no object dates for the first time.
    conditions::add(&mut members, &around, &mut Group::default(), now);
    let rows = object.status.as_ref().map(|status| status.members.as_slice()).unwrap_or_default();
    let guessed = recollect(&mut members, rows, &record, now);
    let surplus_claims = world.surplus_claims(Roster::new(&group, set.as_ref(), &record), &members, &record);
    let left_claims = world.left_claims(&group, &members, &record);
    let strangers = world.strangers(&group, &members);
    let (nonce, objects) = ("told".to_owned(), Vec::new());
    let (evidence, ended, deleted_nodes) = (BTreeMap::new(), BTreeSet::new(), deleted_nodes(nodes.as_ref(), &record));
    let snapshot = Snapshot {
        now,
        // Nobody looks here; what is stored counts as it is.
        began: 0,
        nonce,
        group,
        record,
        objects,
        set,
        moving,
        members,
        evidence,
        nodes,
        nodes_at: now,
        deleted_nodes,
        gone_pods: BTreeMap::new(),
        ended,
        lists: BTreeMap::new(),
        answers: BTreeMap::new(),
        surplus_claims,
        left_claims,
        // Who looks from outside starts nobody.
        cluster_state: tanist_core::state::Stored::Absent,
        strangers,
    };
    Ok(Told { snapshot, guessed })
}

type Places = BTreeMap<String, tanist_core::snapshot::Node>;

/// The nodes by name, and the taints of each. `label`: the label that says the zone.
fn places(nodes: &[Node], label: Option<&str>) -> (Places, BTreeMap<String, conditions::Taints>) {
    let seen = |node: &Node| tanist_core::snapshot::Node { zone: convert::zone(node, label), ..convert::node(node) };
    let of_nodes = |node: &Node| ((node.name_any(), seen(node)), (node.name_any(), conditions::taints(node)));
    nodes.iter().map(of_nodes).unzip()
}

/// Gives each member the role and the data that are stored of it, and returns those whose data is a guess.
fn recollect(
    members: &mut [Member],
    rows: &[MemberStatus],
    record: &Record,
    now: Timestamp,
) -> Vec<(String, Position)> {
    let mut guessed = Vec::new();
    for member in members {
        member.reading = reading(member, rows, now);
        let (position, is_guess) = position(member, record);
        if is_guess && member.pod.as_ref().is_some_and(|pod| pod.phase == Phase::Running) {
            guessed.push((member.name.to_string(), position.clone()));
        }
        (member.position, member.position_at) = (position, now);
    }
    guessed
}

/// The nodes of last primaries that are not there. Who looks from outside does not know since when, and takes them for long gone.
fn deleted_nodes(nodes: Option<&Places>, record: &Record) -> BTreeMap<String, Timestamp> {
    let of_memory = record.last_primaries.iter().filter_map(|last| last.node.clone());
    let deleted = of_memory.filter(|name| nodes.is_some_and(|nodes| !nodes.contains_key(name)));
    deleted.map(|name| (name, 0)).collect()
}

/// The role that the status says, if it is about the pod that the member has now.
fn reading(member: &Member, rows: &[MemberStatus], now: Timestamp) -> Reading {
    let Some(pod) = &member.pod else { return Reading { since: now, ..Reading::default() } };
    let row = rows.iter().find(|row| row.name == member.name.as_str());
    let row = row.filter(|row| row.pod_uid.as_deref() == Some(pod.uid.as_str()));
    let reading = |role, detail: Option<&str>| Reading {
        role,
        detail: detail.map(str::to_owned),
        since: pod.phase_since,
        ..Reading::default()
    };
    match (pod.phase, row) {
        (Phase::Running | Phase::Terminating, Some(row)) => reading(role_of(&row.role), row.role_detail.as_deref()),
        (Phase::Running | Phase::Terminating, None) => {
            reading(Role::Unknown, Some("the group's status is about another pod of it"))
        }
        _ => reading(Role::Unknown, Some("its container does not run")),
    }
}

/// The role of a word of the status. A word of a later version is no role that this version knows.
fn role_of(word: &str) -> Role {
    match word.to_ascii_lowercase().as_str() {
        "stopped" => Role::Stopped,
        "starting" => Role::Starting,
        "secondary" => Role::Secondary,
        "primary" => Role::Primary,
        "failed" => Role::Failed,
        _ => Role::Unknown,
    }
}

/// The data of a member when it was last read, and whether it is a guess, because it was never read.
fn position(member: &Member, record: &Record) -> (Position, bool) {
    let known = record.member(&member.name);
    match (&known.sequence, known.term) {
        (Some(sequence), _) => (Position::Known(sequence.clone()), false),
        // In a role of that term it has what the group had then.
        (None, Some(term)) => {
            let mark = record.high_water.as_ref().filter(|mark| mark.term == term);
            let guess = mark.map_or(Sequence { history: None, number: 1 }, |mark| mark.sequence.clone());
            (Position::Known(guess), true)
        }
        (None, None) if known.started.is_some() => (Position::Unknown("it was never read".to_owned()), true),
        (None, None) => (Position::Empty, true),
    }
}

#[cfg(test)]
#[path = "told_tests.rs"]
mod tests;
