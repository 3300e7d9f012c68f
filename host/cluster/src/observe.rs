//! Observe: the only reader. It reads everything live from the API server and from the members; watches only start rounds.
mod built;
mod conditions;
pub mod convert;
mod missing;
mod nodes;
mod owners;
mod questions;
mod revisions;
pub mod told;
mod uncreated;
pub use built::Built;
use conditions::Around;
pub use convert::every_container_ended;
use nodes::Nodes;
pub use questions::{read_list, read_position};

use crate::cluster::{self, Kind};
use crate::context::Context;
use crate::member::Target;
use crate::objects::{self, Size};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::core::{DynamicObject, ObjectMeta};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tanist_api::{self as api, ReplicaGroup, validate};
use tanist_core::contract::{MemberName, Phase, Position, Timestamp};
use tanist_core::freshness::{Ask, Moment, Statuses};
use tanist_core::limits;
use tanist_core::memory;
use tanist_core::record::{LostPrimary, Record};
use tanist_core::roster::Roster;
use tanist_core::snapshot::{Group, LeftClaim, Member, Object, Set, Snapshot};
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
        "installation \"{0}\" manages this group; remove the annotation tanist.dev/installation from its StatefulSet to take it over"
    )]
    OtherInstallation(String),
    /// An object with the name of one of the group's objects has another owner.
    #[error("{0} {1} exists and does not belong to this group; rename the group or remove that object")]
    NotOurs(&'static str, String),
    /// The API server could not be read.
    #[error("failed to read {0}: {1}")]
    Read(&'static str, #[source] cluster::Error),
    /// The API server did not answer.
    #[error("failed to read {0}: no answer within {1} s")]
    Silent(&'static str, u64),
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
            Error::OtherInstallation(_) => Failed::OtherInstallation,
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
            Error::OtherInstallation(_) | Error::NotOurs(..) | Error::Read(..) | Error::Silent(..) => {
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
    ask_members(ctx, &mut observed.snapshot, ask, said).await;
    let ms = |from, to: Moment| to.since(from).as_secs_f64() * 1000.0;
    let (objects_ms, members_ms) = (ms(started, read), ms(read, ctx.clock.moment()));
    debug!(group = observed.snapshot.group.name, ?ask, objects_ms, members_ms, "observed");
    Ok(observed)
}

/// Adds the answers of the members and the outcomes of open commands to the snapshot.
async fn ask_members(ctx: &Arc<Context>, s: &mut Snapshot, ask: Ask<'_>, said: Statuses) {
    s.evidence = questions::evidence(ctx, &s.group, &s.record, &s.members).await;
    let statuses = questions::statuses(ctx, &s.group, &s.members, ask, said).await;
    s.now = ctx.clock.now();
    questions::apply(ctx, s, statuses);
}

/// Reads the group and its objects from the API server, and says whether another process wrote its record since the last look.
async fn read(ctx: &Arc<Context>, seen: &ReplicaGroup) -> Result<(Observed, bool), Error> {
    let namespace = seen.namespace().ok_or(Error::Gone)?;
    let (cluster, name) = (&*ctx.cluster, seen.name_any());
    let object = within("the group", cluster.get::<ReplicaGroup>(&namespace, &name)).await?.ok_or(Error::Gone)?;
    if object.uid() != seen.uid() || object.metadata.deletion_timestamp.is_some() {
        return Err(Error::Gone);
    }
    let group = validate::group(&object, &ctx.cluster_domain).map_err(Error::ReadSpec)?;
    let now = ctx.clock.now();
    let mut record = read_record(&object, now)?;
    let at = ctx.clock.moment();
    let by_others = ctx.hints.with_group(&group.uid, |hints| {
        hints.commands.watch(&mut record.intents, group.unknown_grace, now);
        hints.readings.note_record(object.record(), at)
    });
    let template = ctx.hints.with_group(&group.uid, |hints| hints.built.template_hash(&object));
    let mut world = World::read(ctx, &group, template).await?;
    let mut record = memory::recall(record, &group.name, world.claims());
    // What a claim opened again has the time of the process that wrote it.
    record.clamp(ctx.clock.now());
    world.same_group(ctx, &group).await?;
    let mut set = world.set(&group, ctx)?;
    let note = world.template_note();
    let size = Size::of(Roster::new(&group, set.as_ref(), &record), &record);
    let desired = ctx.hints.with_group(&group.uid, |h| h.built.desired(&object, size, &ctx.settings, &note));
    let desired = desired.map_err(Error::BuildObjects)?;
    let known = missing::known(&object, &record);
    world.find(ctx, &group, &missing::expected(&group, set.as_ref(), &record), &desired).await?;
    // Once more for what was read by name.
    world.same_group(ctx, &group).await?;
    let objects = world.objects(ctx, &group, desired);
    let now = ctx.clock.now();
    let mut members = world.members(&object, &group, set.as_ref(), &record, &known, now);
    let surplus_claims = world.surplus_claims(Roster::new(&group, set.as_ref(), &record), &members, &record);
    let left_claims = world.left_claims(&group, &members, &record);
    let Nodes { nodes, taints, deleted: deleted_nodes } = nodes::read(ctx, &members, &record).await?;
    silence(&mut members, nodes.as_ref());
    let templates = conditions::templates(&object);
    let around = Around { templates, unbound: &world.unbound, record: &record, nodes: nodes.as_ref(), taints: &taints };
    ctx.hints.with_group(&group.uid, |hints| conditions::add(&mut members, &around, hints, now));
    if let Some(set) = &mut set {
        set.missing = uncreated::uncreated(ctx, &group, set, &members, &record, now).await;
    }
    let remembered = record.ran().map(|l| &l.pod_uid).chain(record.intents.iter().map(|i| &i.pod_uid));
    let ended = remembered.filter(|uid| ctx.hints.has_ended(uid)).cloned().collect();
    let nonce = format!("{:016x}", (ctx.dice)());
    let evidence = questions::Evidences::new();
    let snapshot = Snapshot {
        now,
        nonce,
        group,
        record,
        objects,
        set,
        members,
        evidence,
        nodes,
        deleted_nodes,
        ended,
        lists: BTreeMap::new(),
        surplus_claims,
        left_claims,
    };
    Ok((Observed { object, snapshot, pods: world.version }, by_others))
}

/// Marks members on nodes that do not report as unreachable: asking them would only time out, and what the API shows of them is outdated.
fn silence(members: &mut [Member], nodes: Option<&BTreeMap<String, tanist_core::snapshot::Node>>) {
    for pod in members.iter_mut().filter_map(|m| m.pod.as_mut()) {
        let node = pod.node.as_ref().and_then(|name| nodes?.get(name));
        if node.is_some_and(|node| !node.ready) && pod.phase != Phase::Ended {
            pod.phase = Phase::Unreachable;
        }
    }
}

/// Reads the record. Another process may have written it by a clock that was ahead, so no time in it is later than now.
fn read_record(object: &ReplicaGroup, now: Timestamp) -> Result<Record, Error> {
    let Some(status) = &object.status else { return Ok(Record::default()) };
    let Some(raw) = &status.record else { return Ok(Record::default()) };
    let mut record = Record::deserialize(raw).map_err(Error::ReadRecord)?;
    record.clamp(now);
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

/// The objects of the group that exist in Kubernetes.
struct World {
    set: Option<Arc<StatefulSet>>,
    services: Vec<Arc<DynamicObject>>,
    budgets: Vec<Arc<DynamicObject>>,
    pods: Vec<Arc<Pod>>,
    claims: Vec<(MemberName, tanist_core::snapshot::Claim)>,
    /// The names of claims that are not bound.
    unbound: BTreeSet<String>,
    /// The version of the list of pods.
    version: Option<String>,
    /// The hash of the group's `spec.template`.
    template: String,
}

impl World {
    async fn read(ctx: &Context, group: &Group, template: String) -> Result<Self, Error> {
        let (cluster, ns, name) = (&*ctx.cluster, &group.namespace, &group.name);
        let (set, services, budgets, (pods, version), (claims, _)) = tokio::try_join!(
            within("the StatefulSet", cluster.get::<StatefulSet>(ns, name)),
            within("services", cluster.list_plain(Kind::Service, ns, name)),
            within("pod disruption budgets", cluster.list_plain(Kind::Budget, ns, name)),
            within("pods", cluster.list::<Pod>(ns, name)),
            within("claims", cluster.list::<PersistentVolumeClaim>(ns, name)),
        )?;
        let unbound = conditions::unbound(claims.iter().map(|claim| &**claim));
        let claims = claims.iter().filter_map(|c| convert::claim(&group.name, c)).collect();
        Ok(World { set, services, budgets, pods, claims, unbound, version, template })
    }

    fn claims(&self) -> impl Iterator<Item = (&MemberName, &tanist_core::snapshot::Claim)> {
        self.claims.iter().map(|(m, c)| (m, c))
    }

    fn set(&self, group: &Group, ctx: &Context) -> Result<Option<Set>, Error> {
        let Some(set) = &self.set else { return Ok(None) };
        if !convert::owned_by(&set.metadata, &group.uid) {
            return Err(Error::NotOurs("StatefulSet", group.name.clone()));
        }
        match set.annotations().get(api::ANNOTATION_INSTALLATION) {
            Some(other) if other != &ctx.settings.installation => Err(Error::OtherInstallation(other.clone())),
            _ => {
                let replicas = set.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1);
                Ok(Some(Set {
                    uid: set.uid().unwrap_or_default(),
                    replicas: u32::try_from(replicas).unwrap_or(0),
                    version: set.resource_version().unwrap_or_default(),
                    missing: BTreeMap::new(),
                    nudged: set.annotations().get(api::ANNOTATION_NUDGE).and_then(|at| at.parse().ok()),
                    unseen: set
                        .status
                        .as_ref()
                        .is_some_and(|status| status.observed_generation < set.metadata.generation),
                }))
            }
        }
    }

    /// The desired objects, each with whether it exists as desired.
    fn objects(&self, ctx: &Context, group: &Group, desired: Vec<Arc<serde_json::Value>>) -> Vec<Object> {
        let mut found = Vec::new();
        for manifest in desired {
            let text =
                |pointer| manifest.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
            let (kind, name, hash) = (text("/kind"), text("/metadata/name"), applied_hash(&manifest));
            let there = self.live(ctx, group, &kind, &name);
            // The hash shows whether the desired object changed, and the fingerprint whether the existing object was changed by others.
            let same = there.as_ref().is_some_and(|(meta, _)| {
                convert::owned_by(meta, &group.uid)
                    && meta.annotations.as_ref().and_then(|a| a.get(api::ANNOTATION_APPLIED)) == Some(&hash)
            });
            let untouched = ctx.hints.with_group(&group.uid, |h| {
                h.applied.get(&format!("{kind}/{name}")) == there.as_ref().map(|(_, fingerprint)| fingerprint)
            });
            let version = there.and_then(|(meta, _)| meta.resource_version.clone());
            found.push(Object { kind, name, manifest, current: same && untouched, version });
        }
        found
    }

    /// The metadata of an existing object, and the fingerprint of what other users may change.
    fn live(&self, ctx: &Context, group: &Group, kind: &str, name: &str) -> Option<(&ObjectMeta, String)> {
        let fingerprint = |meta: &ObjectMeta, spec: &dyn Fn() -> serde_json::Value| {
            ctx.hints.with_group(&group.uid, |h| h.built.fingerprint(&format!("{kind}/{name}"), meta, spec))
        };
        let plain = match kind {
            "StatefulSet" => {
                let set = self.set.as_ref().filter(|set| set.metadata.name.as_deref() == Some(name))?;
                let spec = || serde_json::to_value(&set.spec).unwrap_or_default();
                return Some((&set.metadata, fingerprint(&set.metadata, &spec)));
            }
            "Service" => named(&self.services, name)?,
            "PodDisruptionBudget" => named(&self.budgets, name)?,
            _ => return None,
        };
        let spec = || plain.data.get("spec").cloned().unwrap_or_default();
        Some((&plain.metadata, fingerprint(&plain.metadata, &spec)))
    }

    /// Every expected member and every pod that the set owns or whose UID is known: a pod that lost its label or its owner may still run.
    fn members(
        &self,
        object: &ReplicaGroup,
        group: &Group,
        set: Option<&Set>,
        record: &Record,
        known: &BTreeSet<String>,
        now: Timestamp,
    ) -> Vec<Member> {
        let mut members: BTreeMap<u32, Member> = BTreeMap::new();
        for seat in Roster::new(group, set, record).seats() {
            members.insert(seat.ordinal, self.member(seat.name, seat.ordinal));
        }
        let revision = self.set.as_ref().and_then(|s| s.status.as_ref()?.update_revision.as_deref());
        let (keys, live) = (object.spec.policy_keys(), self.live_note());
        for pod in &self.pods {
            let owned = set.is_some_and(|s| convert::owned_by(&pod.metadata, &s.uid));
            let ours = owned || pod.metadata.uid.as_ref().is_some_and(|uid| known.contains(uid));
            let Some(ordinal) = convert::ordinal(&group.name, &pod.name_any()).filter(|_| ours) else { continue };
            let member = members.entry(ordinal).or_insert_with(|| self.member(pod.name_any().into(), ordinal));
            let stray = missing::stray(pod, group, owned);
            let older_template = self.has_older_template(pod, live.as_ref());
            let seen = convert::pod(pod, group, &keys, revision, now);
            member.pod = Some(tanist_core::snapshot::Pod { stray, older_template, ..seen });
        }
        members.into_values().take(limits::MEMBERS).collect()
    }

    /// The names of the group's claims that belong to no member of the roster.
    fn surplus_claims(&self, roster: Roster<'_>, members: &[Member], record: &Record) -> Vec<String> {
        let expected = members.iter().filter(|m| roster.has(m)).map(|m| m.name.clone());
        memory::surplus(record, roster.group_name(), &expected.collect::<Vec<_>>(), self.claims())
    }

    /// The claims that removed members left behind. Whoever has a pod, or is expected, is a member.
    fn left_claims(&self, group: &Group, members: &[Member], record: &Record) -> Vec<LeftClaim> {
        let present: Vec<_> = members.iter().map(|m| m.name.clone()).collect();
        memory::left(record, &group.name, &present, self.claims())
    }

    fn member(&self, name: MemberName, ordinal: u32) -> Member {
        let mut claims: Vec<_> = self.claims.iter().filter(|(m, _)| m == &name).map(|(_, c)| c.clone()).collect();
        claims.sort_by(|a, b| a.name.cmp(&b.name));
        Member {
            name,
            ordinal,
            pod: None,
            claims,
            reading: Default::default(),
            position: Position::NotAsked,
            position_at: 0,
            position_stale: false,
            asked: false,
            conditions: Vec::new(),
        }
    }
}

fn named<'a>(list: &'a [Arc<DynamicObject>], name: &str) -> Option<&'a DynamicObject> {
    list.iter().map(|object| &**object).find(|object| object.metadata.name.as_deref() == Some(name))
}

fn applied_hash(manifest: &serde_json::Value) -> String {
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanist_core::snapshot::{Node, Pod};

    fn on(node: &str, phase: Phase) -> Member {
        let pod = tanist_core::examples::pod("c", true, phase);
        Member {
            name: "db-0".into(),
            ordinal: 0,
            pod: Some(Pod { node: Some(node.into()), ..pod }),
            claims: Vec::new(),
            reading: Default::default(),
            position: Position::NotAsked,
            position_at: 0,
            position_stale: false,
            asked: false,
            conditions: Vec::new(),
        }
    }

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
        let record = object.ok().and_then(|object: ReplicaGroup| read_record(&object, 5000).ok()).unwrap_or_default();
        assert_eq!(record.last_primaries.first().and_then(|last| last.gone), Some(5000));
        // Beside the record, and joined to it.
        let lost = LostPrimary { member: "db-0".into(), node: None, zone: Some("a".into()) };
        assert_eq!(record.lost_primary, Some(lost));
    }

    // S20: pods on a silent node are not asked, long before Kubernetes marks each of them; an ended pod stays ended. If nodes cannot be read, all
    // pods are asked.
    #[test]
    fn a_silent_node_silences_its_pods() {
        let node = |ready| Node { ready, since: 0, seen: 0, out_of_service: false, cordoned: false, zone: None };
        let nodes = BTreeMap::from([("dark".to_owned(), node(false)), ("well".to_owned(), node(true))]);
        let phase_of = |name, phase, nodes: Option<&BTreeMap<String, Node>>| {
            let mut members = [on(name, phase)];
            silence(&mut members, nodes);
            let [member] = members;
            member.pod.map(|p| p.phase)
        };
        assert_eq!(phase_of("dark", Phase::Running, Some(&nodes)), Some(Phase::Unreachable));
        assert_eq!(phase_of("dark", Phase::Ended, Some(&nodes)), Some(Phase::Ended));
        assert_eq!(phase_of("well", Phase::Running, Some(&nodes)), Some(Phase::Running));
        assert_eq!(phase_of("dark", Phase::Running, None), Some(Phase::Running));
    }
}
