//! Observe: the only reader. It reads everything live from the API server and from the members; watches only start rounds.
mod built;
mod conditions;
pub mod config;
pub mod convert;
mod missing;
mod moving;
mod nodes;
mod own;
mod owners;
pub mod quantity;
mod questions;
mod revisions;
mod state;
mod successors;
pub mod told;
mod trouble;
mod uncreated;
mod volumes;
mod world;
pub use built::Built;
use conditions::Around;
pub use convert::every_container_ended;
use nodes::{Nodes, silence};
pub use questions::{read_answer, read_list, read_position};
use revisions::Past;
pub use revisions::{FormerTemplate, Kept, Numbered, kept};
use world::{Seen, World};

use crate::cluster;
use crate::context::Context;
use crate::member::Target;
use crate::objects::{self, Size};
use kube::ResourceExt;
use kube::core::ObjectMeta;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tanist_api::spec::Primaries;
use tanist_api::{self as api, ReplicaGroup, validate};
use tanist_core::contract::{MemberName, Timestamp};
use tanist_core::freshness::{Ask, Moment, Statuses};
use tanist_core::limits;
use tanist_core::memory;
use tanist_core::record::{GroupSize, LostPrimary, Record};
use tanist_core::roster::Roster;
use tanist_core::snapshot::{Group, Member, Snapshot};
use tanist_core::status::Failed;
use tracing::debug;

/// Why the group could not be observed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The group is gone, or another one has its name.
    #[error("the group is gone")]
    Gone,
    /// The spec cannot be acted upon.
    #[error("failed to read the spec: {0}")]
    ReadSpec(#[source] validate::Invalid),
    /// The record cannot be read; ignoring it could lose data.
    #[error(
        "failed to read status.record: {0}; it was written by a newer version or edited by hand: update Tanist, or remove status.record \
         (what the claims remember then counts)"
    )]
    ReadRecord(#[source] serde_json::Error),
    /// The objects cannot be built from the spec.
    #[error("failed to build the objects: {0}")]
    BuildObjects(#[source] objects::BuildError),
    /// Another installation of the operator manages this group.
    #[error(
        "installation \"{0}\" manages this group; remove the annotation tanist.dev/installation from its {1} to take it over"
    )]
    OtherInstallation(String, &'static str),
    /// An object with the name of one of the group's objects has another owner.
    #[error("{0} {1} exists and does not belong to this group; rename the group, or remove that object{how}", how = orphaning(.0, .1))]
    NotOurs(&'static str, String),
    /// The API server could not be read.
    #[error("failed to read {0}: {1}")]
    Read(&'static str, #[source] cluster::Error),
    /// The API server did not answer.
    #[error("failed to read {0}: no answer within {1} s")]
    Silent(&'static str, u64),
}

/// How a StatefulSet is removed whose pods go on.
fn orphaning(kind: &str, name: &str) -> String {
    match kind {
        "StatefulSet" => format!(" with its pods left running (kubectl delete statefulset {name} --cascade=orphan)"),
        _ => String::new(),
    }
}

impl Error {
    /// What kind of trouble it is, for conditions and events.
    #[must_use]
    pub fn reason(&self) -> Failed {
        match self {
            Error::Gone => Failed::Gone,
            Error::ReadSpec(_) => Failed::SpecInvalid,
            Error::ReadRecord(_) => Failed::RecordUnreadable,
            Error::BuildObjects(_) => Failed::TemplateInvalid,
            Error::OtherInstallation(..) => Failed::OtherInstallation,
            Error::NotOurs(..) => Failed::NameTaken,
            Error::Read(_, error) if error.code() == Some(403) => Failed::Forbidden,
            Error::Read(..) | Error::Silent(..) => Failed::ApiUnreadable,
        }
    }

    /// After how long the round is tried again. Absent: not before something changes.
    #[must_use]
    pub fn again(&self) -> Option<Duration> {
        match self {
            Error::Gone | Error::ReadSpec(_) | Error::BuildObjects(_) | Error::ReadRecord(_) => None,
            Error::OtherInstallation(..) | Error::NotOurs(..) | Error::Read(..) | Error::Silent(..) => {
                Some(Duration::from_secs(5))
            }
        }
    }
}

/// Deadline of each read, because kube has none.
const READ_SECONDS: u64 = 20;

/// The input of a round: the group as it was read, and the snapshot.
#[derive(Debug)]
pub struct Observed {
    /// The group. The record is written against its resource version.
    pub object: Arc<ReplicaGroup>,
    /// The frozen input of the decision.
    pub snapshot: Snapshot,
    /// The version of the list of pods.
    pub pods: Option<String>,
    /// The template that the StatefulSet has. Absent: it has not the present one yet, or that has no number.
    pub template: Option<Numbered>,
    /// Why former templates cannot be read. Absent: they can, or were not needed.
    pub unreadable: Option<cluster::Error>,
    /// Why objects of the group stay as they are: none can be built from the spec, or one has a name that belongs to somebody else. Everything else goes on.
    pub unfit: Vec<Error>,
}

/// Reads everything that a decision may use. `before`: what was seen a moment ago. Its members are asked at once, while the API server is read;
/// their answers count only if the pods and containers turn out to be the same.
///
/// # Errors
/// [`Error`]; nothing is done then.
pub async fn observe(
    ctx: &Arc<Context>,
    seen: &ReplicaGroup,
    ask: Ask<'_>,
    before: Option<&Snapshot>,
) -> Result<Observed, Error> {
    let started = ctx.clock.moment();
    let asked = async {
        match before {
            Some(s) => questions::statuses(ctx, &s.group, &s.members, ask, Statuses::new()).await,
            None => Statuses::new(),
        }
    };
    let (said, observed) = tokio::join!(asked, read(ctx, seen));
    let (mut observed, by_others) = observed?;
    let same = |name: &MemberName| {
        let pod = |s: &Snapshot| {
            s.member(name).and_then(|m| m.pod.as_ref()).map(|p| (p.uid.clone(), p.phase, p.containers.clone()))
        };
        before.is_some_and(|s| pod(s) == pod(&observed.snapshot))
    };
    // An answer from before another process wrote says nothing about the record that it wrote.
    let said = if by_others { Statuses::new() } else { said.into_iter().filter(|(name, _)| same(name)).collect() };
    let read = ctx.clock.moment();
    // What this process noted since of commands that it has not started yet moves no data. What another process noted does.
    let known = before.filter(|_| !by_others).map(|s| &s.record);
    ask_members(ctx, &mut observed.snapshot, ask, said, known).await;
    let ms = |from, to: Moment| to.since(from).as_secs_f64() * 1000.0;
    let (objects_ms, members_ms) = (ms(started, read), ms(read, ctx.clock.moment()));
    debug!(group = observed.snapshot.group.name, ?ask, objects_ms, members_ms, "observed");
    Ok(observed)
}

/// Adds the answers of the members and the outcomes of open commands to the snapshot. `known`: the record by which data may have moved, if it is another one.
async fn ask_members(ctx: &Arc<Context>, s: &mut Snapshot, ask: Ask<'_>, said: Statuses, known: Option<&Record>) {
    s.evidence = questions::evidence(ctx, &s.group, &s.record, &s.members).await;
    let statuses = questions::statuses(ctx, &s.group, &s.members, ask, said).await;
    s.now = ctx.clock.now();
    questions::apply(ctx, s, statuses, known);
}

/// A group as it was read, before anything that belongs to it.
struct Base {
    /// What is stored; the status is written to it.
    stored: Arc<ReplicaGroup>,
    /// The same with the number of members that policies let in.
    object: Arc<ReplicaGroup>,
    group: Group,
    record: Record,
    began: Timestamp,
    /// Another process wrote the record since the last look.
    by_others: bool,
}

async fn read_group(ctx: &Arc<Context>, seen: &ReplicaGroup) -> Result<Base, Error> {
    let namespace = seen.namespace().ok_or(Error::Gone)?;
    let (cluster, name) = (&*ctx.cluster, seen.name_any());
    let object = within("the group", cluster.get::<ReplicaGroup>(&namespace, &name)).await?.ok_or(Error::Gone)?;
    if object.uid() != seen.uid() || object.metadata.deletion_timestamp.is_some() {
        return Err(Error::Gone);
    }
    let now = ctx.clock.now();
    let began = ctx.hints.began(object.uid().as_deref().unwrap_or_default(), now);
    let mut record = read_record(&object, now, began)?;
    // What follows sees the number of members that policies let in; only the record is written to the group as it was read.
    let stored = Arc::clone(&object);
    let object = admitted(object, &record);
    let mut group = validate::group(&object, &ctx.cluster_domain).map_err(Error::ReadSpec)?;
    group.requested = requested(&stored);
    let at = ctx.clock.moment();
    let by_others = ctx.hints.with_group(&group.uid, |hints| {
        hints.commands.watch(&mut record.intents, group.unknown_grace, now);
        hints.readings.note_record(object.record(), at)
    });
    Ok(Base { stored, object, group, record, began, by_others })
}

/// Decides which template pods have, or get, and gives the group with it, and what is known of the template before. What commands run in is of that
/// template, too.
async fn choose_template(
    ctx: &Arc<Context>,
    base: &mut Base,
    world: &mut World,
    configuration: config::Reading,
) -> Result<(Arc<ReplicaGroup>, Past), Error> {
    let Base { object, group, record, .. } = base;
    let (at, now, live) = (ctx.clock.moment(), ctx.clock.now(), world.live_config());
    let is_known = matches!(configuration, config::Reading::Hash(_))
        || ctx.hints.with_group(&group.uid, |hints| hints.config.is_some());
    let failed = if is_known { None } else { revisions::failed_config(ctx, object, group, record).await };
    // What pods are made from: what is stored, and its configuration.
    let present = ctx.hints.with_group(&group.uid, |hints| {
        hints.config = failed.or(hints.config.take());
        let configured = config::settle(&mut hints.config, configuration, live, at, now);
        (group.update.config_trouble, group.update.config_settles) = (configured.trouble, configured.settles);
        group.update.config_missing = configured.is_missing;
        let present = config::with(object, configured.hash);
        group.update.template = hints.built.template_hash(&present);
        present
    });
    world.template = record.fallback(&group.update).unwrap_or(&group.update.template).to_owned();
    let past = revisions::past(ctx, &present, group, record).await;
    group.update.former = past.former();
    // Pods have, or get, the template before `spec.template`: the containers of commands without one are of that.
    let is_back = record.fallback(&group.update).is_some();
    let used = if let (true, Past::Kept(past)) = (is_back, &past) { past.clone() } else { present };
    if is_back {
        let before = validate::group(&used, &ctx.cluster_domain).map_err(Error::ReadSpec)?;
        let now = std::mem::replace(group, before);
        (group.update, group.requested, group.makes_pods) = (now.update, now.requested, now.makes_pods);
        group.version = now.version;
    } else {
        world.template.clone_from(&group.update.template);
    }
    Ok((used, past))
}

/// Reads the group and its objects from the API server, and says whether another process wrote its record since the last look.
async fn read(ctx: &Arc<Context>, seen: &ReplicaGroup) -> Result<(Observed, bool), Error> {
    let mut base = read_group(ctx, seen).await?;
    let (configuration, cluster_state, world) = tokio::join!(
        config::read(ctx, &base.object, &base.group),
        state::read(ctx, &base.group),
        World::read(ctx, &base.object, &base.group)
    );
    let mut world = world?;
    world.take_over_set(&base.object, &base.group, &ctx.settings.installation);
    let wants_pods = base.group.makes_pods;
    world.settle_maker(&mut base.group, &base.record);
    let (used, past) = choose_template(ctx, &mut base, &mut world, configuration).await?;
    let Base { stored, object, group, record, began, by_others } = base;
    let is_back = record.fallback(&group.update).is_some();
    world.find_claims(ctx, &used, Roster::new(&group, None, &record)).await?;
    let mut record = memory::recall(record, &group.name, world.claims());
    world.find_seats(&group, &mut record);
    // What a claim opened again has the time of the process that wrote it.
    let now = ctx.clock.now();
    record.clamp(now, began);
    world.same_group(ctx, &group).await?;
    let mut set = world.set(&group, &record, ctx)?;
    let numbers = world.read_numbers(ctx, &group).await;
    let note = world.template_note(numbers.as_ref().ok().and_then(Option::as_ref));
    let moving = world.moving(&group, &record, wants_pods);
    let makers = Some(World::makers(&group, &record, moving.as_ref()));
    let size = Size { makers, ..Size::of(&group, Roster::new(&group, set.as_ref(), &record), &record) };
    let desired = match (is_back, &past) {
        (true, Past::Unreadable(_)) => Ok(Vec::new()),
        _ => {
            let made = volumes::as_made(&used, world.set.as_deref());
            ctx.hints.with_group(&group.uid, |h| h.built.desired(&made, size, &ctx.settings, &note))
        }
    };
    let (desired, mut unfit) = match desired {
        Ok(desired) => (desired, Vec::new()),
        Err(error) => (Vec::new(), vec![Error::BuildObjects(error)]),
    };
    // As long as it cannot be read, or nothing can be made of it, what is there stays as it is.
    if desired.is_empty() {
        set.iter_mut().for_each(|set| set.unseen = true);
    }
    let known = missing::known(&object, &record);
    world.find(ctx, &group, &missing::expected(&group, set.as_ref(), &record), &desired).await?;
    // Once more for what was read by name.
    world.same_group(ctx, &group).await?;
    let (desired, taken) = world.without_names_of_others(&group, desired);
    // The Service with the group's name says of which template pods are: without it the operator makes none, and takes no StatefulSet away.
    let lacks_own = taken.iter().any(|error| matches!(error, Error::NotOurs("Service", name) if *name == group.name));
    set.iter_mut().filter(|_| lacks_own).for_each(|set| set.unseen = true);
    unfit.extend(taken);
    let mut objects = world.objects(ctx, &group, desired);
    if let (Some(set), false) = (&mut set, objects.is_empty())
        && let Err(error) = world.add_lacking(ctx, set, &used, Roster::new(&group, None, &record), &mut objects).await
    {
        (set.unseen, objects) = (true, Vec::new());
        unfit.push(error);
    }
    let now = ctx.clock.now();
    let about = Seen { group: &group, set: set.as_ref(), record: &record, moving: moving.as_ref() };
    let mut members = world.members(&object, about, &known, now);
    world.find_successors(&mut members, &used);
    let (left_claims, strangers) = (world.left_claims(&group, &members, &record), world.strangers(&group, &members));
    let Nodes { nodes, deleted: deleted_nodes, .. } = place(ctx, &object, &world, &record, &mut members, now).await?;
    if let Some(set) = &mut set {
        set.missing = match group.makes_pods {
            true => World::refused(ctx, &group, set, now),
            false => uncreated::uncreated(ctx, &group, set, &members, &record, now).await,
        };
    }
    let gone_pods = nodes::gone(ctx, &group.uid, &members, &record);
    let snapshot = Snapshot {
        gone_pods,
        surplus_claims: world.surplus_claims(Roster::new(&group, set.as_ref(), &record), &members, &record),
        now,
        began,
        nonce: format!("{:016x}", (ctx.dice)()),
        ended: ended(ctx, &record),
        group,
        record,
        objects,
        set,
        moving,
        members,
        evidence: questions::Evidences::new(),
        nodes,
        // From before they were read.
        nodes_at: now,
        deleted_nodes,
        lists: BTreeMap::new(),
        answers: BTreeMap::new(),
        left_claims,
        cluster_state,
        strangers,
    };
    let template = world.numbered(used, &snapshot.record).filter(|_| !matches!(past, Past::Unreadable(_)));
    let unreadable = if let Past::Unreadable(error) = past { Some(error) } else { numbers.err() };
    Ok((Observed { object: stored, snapshot, template, unreadable, unfit, pods: world.version }, by_others))
}

/// Reads the nodes of the members, and adds what nodes, claims and templates say of each member.
async fn place(
    ctx: &Arc<Context>,
    object: &ReplicaGroup,
    world: &World,
    record: &Record,
    members: &mut [Member],
    now: Timestamp,
) -> Result<Nodes, Error> {
    let found = nodes::read(ctx, members, record, object.spec.zones.node_label.as_deref()).await?;
    let (nodes, taints) = (found.nodes.as_ref(), &found.taints);
    silence(members, nodes);
    let templates = conditions::templates(object);
    let around = Around { templates, unbound: &world.unbound, record, nodes, taints };
    let uid = object.uid().unwrap_or_default();
    ctx.hints.with_group(&uid, |hints| conditions::add(members, &around, hints, now));
    Ok(found)
}

/// The pods that the record knows and that this process saw end.
fn ended(ctx: &Context, record: &Record) -> BTreeSet<String> {
    let remembered = record.ran().map(|l| &l.pod_uid).chain(record.intents.iter().map(|i| &i.pod_uid));
    remembered.filter(|uid| ctx.hints.has_ended(uid)).cloned().collect()
}

/// The group with the numbers of members that policies let in last, if they have the question (docs/rules.md, "Number of members").
fn admitted(object: Arc<ReplicaGroup>, record: &Record) -> Arc<ReplicaGroup> {
    // What stands in a record may be anything; a number that the definition refuses was never let in.
    let most = u32::try_from(limits::MEMBERS).unwrap_or(u32::MAX);
    match record.admitted.filter(|size| size.replicas != object.spec.replicas && size.replicas <= most) {
        Some(size) => {
            let mut object = Arc::unwrap_or_clone(object);
            object.spec.replicas = size.replicas;
            // As the definition has it: where there are members, at least one is primary.
            object.spec.primaries = Primaries::Count(size.primaries.max(1));
            Arc::new(object)
        }
        None => object,
    }
}

/// The numbers of members of the spec.
fn requested(object: &ReplicaGroup) -> GroupSize {
    let replicas = object.spec.replicas;
    GroupSize { replicas, primaries: object.spec.primaries.count(replicas) }
}

/// Reads the record. Another process may have written it by a clock that was ahead, so no time in it is later than now.
fn read_record(object: &ReplicaGroup, now: Timestamp, began: Timestamp) -> Result<Record, Error> {
    let Some(status) = &object.status else { return Ok(Record::default()) };
    let Some(raw) = &status.record else { return Ok(Record::default()) };
    let mut record = Record::deserialize(raw).map_err(Error::ReadRecord)?;
    record.clamp(now, began);
    record.lost_primary = status.lost_primary.clone().map(|lost| LostPrimary {
        member: lost.member.into(),
        node: lost.node,
        zone: lost.zone,
    });
    Ok(record)
}

/// Awaits a read with a deadline of our own.
pub async fn within<T>(what: &'static str, read: impl Future<Output = Result<T, cluster::Error>>) -> Result<T, Error> {
    match tokio::time::timeout(Duration::from_secs(READ_SECONDS), read).await {
        Ok(result) => result.map_err(|e| Error::Read(what, e)),
        Err(_) => Err(Error::Silent(what, READ_SECONDS)),
    }
}

/// The hash of a manifest, as its annotation says it. Empty: it has none.
#[must_use]
pub fn applied_hash(manifest: &serde_json::Value) -> String {
    let annotations = manifest.pointer("/metadata/annotations").and_then(|a| a.get(api::ANNOTATION_APPLIED));
    annotations.and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

/// Labels, annotations and spec as one text, without the annotation that makes the set's controller try again: it is not a part of the desired
/// object.
#[must_use]
pub fn fingerprint(meta: &ObjectMeta, spec: &serde_json::Value) -> String {
    use sha2::Digest;
    let mut annotations = meta.annotations.clone().unwrap_or_default();
    annotations.remove(api::ANNOTATION_NUDGE);
    // Texts, lists and maps with texts as keys can always be written.
    let text = serde_json::to_vec(&(&meta.labels, &annotations, &meta.uid, spec)).unwrap_or_default();
    sha2::Sha256::digest(text).iter().map(|b| format!("{b:02x}")).collect()
}

/// The target of a member's commands. `None`: it has no pod.
#[must_use]
pub fn target(group: &Group, member: &Member) -> Option<Target> {
    let pod = member.pod.as_ref()?;
    Some(Target {
        namespace: group.namespace.clone(),
        group: group.uid.clone(),
        pod: member.name.to_string(),
        uid: pod.uid.clone(),
        runner: group.runner,
        probed: group.active_passive,
        env: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // S28: times that another process stored by a clock that was ahead are limited to the present.
    #[test]
    fn stored_times_are_brought_back_when_they_are_read() {
        let last = serde_json::json!({"member": "db-0", "podUid": "u", "container": "db", "containerId": "c", "grace": 30, "gone": 9000});
        let object = serde_json::from_value(serde_json::json!({
            "apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "metadata": {"name": "db"},
            "spec": {"replicas": 1, "primaries": 1, "template": {}, "commands": {
                "status": {"exec": ["s"]}, "sequence": {"exec": ["q"]}, "stop": {"exec": ["t"]}, "primary": {"exec": ["p"]}
            }},
            "status": {"lostPrimary": {"member": "db-0", "zone": "a"}, "record": {"lastPrimaries": [last]}}
        }));
        let record =
            object.ok().and_then(|object: ReplicaGroup| read_record(&object, 5000, 5000).ok()).unwrap_or_default();
        assert_eq!(record.last_primaries.first().and_then(|last| last.gone), Some(5000));
        // Beside the record, and joined to it.
        let lost = LostPrimary { member: "db-0".into(), node: None, zone: Some("a".into()) };
        assert_eq!(record.lost_primary, Some(lost));
    }
}
