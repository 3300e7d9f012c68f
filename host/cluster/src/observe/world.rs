//! The objects of a group as they exist in Kubernetes, and what a snapshot takes from them.
use super::moving::{Belonging, Owner};
use super::{Error, applied_hash, conditions, convert, missing, own, successors, volumes, within};
use crate::cluster::Kind;
use crate::context::Context;
use crate::objects;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::core::{DynamicObject, ObjectMeta};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tanist_api::{self as api, ReplicaGroup};
use tanist_core::contract::{MemberName, Position, Timestamp};
use tanist_core::limits;
use tanist_core::memory;
use tanist_core::record::Record;
use tanist_core::roster::Roster;
use tanist_core::snapshot::{Group, LeftClaim, Member, Moving, Object, Set};

/// What is known of a group before its members are.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) group: &'a Group,
    pub(super) set: Option<&'a Set>,
    pub(super) record: &'a Record,
    pub(super) moving: Option<&'a Moving>,
}

/// The objects of the group that exist in Kubernetes.
pub(super) struct World {
    pub(super) set: Option<Arc<StatefulSet>>,
    pub(super) services: Vec<Arc<DynamicObject>>,
    pub(super) budgets: Vec<Arc<DynamicObject>>,
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) claims: Vec<(MemberName, tanist_core::snapshot::Claim)>,
    /// The UIDs of claims that Kubernetes is deleting.
    pub(super) ending: BTreeSet<String>,
    /// The names of claims that are not bound.
    pub(super) unbound: BTreeSet<String>,
    /// The version of the list of pods.
    pub(super) version: Option<String>,
    /// The name of the group, if the operator makes its pods itself.
    pub(super) makes_pods: Option<String>,
    /// The hash of the template that pods should have: `spec.template`, or the one before it if that was given up. Empty: not known yet.
    pub(super) template: String,
}

impl World {
    pub(super) async fn read(ctx: &Context, object: &ReplicaGroup, group: &Group) -> Result<Self, Error> {
        let (cluster, ns, name) = (&*ctx.cluster, &group.namespace, &group.name);
        let (set, services, budgets, (pods, version), (claims, _)) = tokio::try_join!(
            within("the StatefulSet", cluster.get::<StatefulSet>(ns, name)),
            within("services", cluster.list_plain(Kind::Service, ns, name)),
            within("pod disruption budgets", cluster.list_plain(Kind::Budget, ns, name)),
            within("pods", cluster.list::<Pod>(ns, name)),
            within("claims", cluster.list::<PersistentVolumeClaim>(ns, name)),
        )?;
        let unbound = conditions::unbound(claims.iter().map(|claim| &**claim));
        let ending = ending(claims.iter().map(|claim| &**claim));
        let claims = claims.iter().filter_map(|claim| {
            let (member, seen) = convert::claim(&group.name, claim)?;
            let room = volumes::room(claim, member.as_str(), &object.spec.volume_claim_templates);
            Some((member, tanist_core::snapshot::Claim { room, ..seen }))
        });
        let claims = claims.collect();
        let makes_pods = group.makes_pods.then(|| name.clone());
        let template = String::new();
        Ok(World { set, services, budgets, pods, claims, ending, unbound, version, makes_pods, template })
    }

    pub(super) fn claims(&self) -> impl Iterator<Item = (&MemberName, &tanist_core::snapshot::Claim)> {
        self.claims.iter().map(|(m, c)| (m, c))
    }

    pub(super) fn set(&self, group: &Group, record: &Record, ctx: &Context) -> Result<Option<Set>, Error> {
        if let Some((other, by)) = self.other_installation(group, &ctx.settings.installation) {
            return Err(Error::OtherInstallation(other, by));
        }
        if group.makes_pods {
            return self.no_set(group, record).map(Some);
        }
        let Some(set) = &self.set else { return Ok(None) };
        if !convert::owned_by(&set.metadata, &group.uid) {
            return Err(Error::NotOurs("StatefulSet", group.name.clone()));
        }
        let replicas = set.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1);
        let status = set.status.as_ref();
        let lags = status.is_some_and(|status| status.observed_generation < set.metadata.generation);
        Ok(Some(Set {
            uid: set.uid().unwrap_or_default(),
            replicas: u32::try_from(replicas).unwrap_or(0),
            version: set.resource_version().unwrap_or_default(),
            missing: BTreeMap::new(),
            nudged: set.annotations().get(api::ANNOTATION_NUDGE).and_then(|at| at.parse().ok()),
            unseen: lags || self.live_note().is_some_and(|note| note.hash != self.template),
            lacking: BTreeMap::new(),
        }))
    }

    /// Another installation of the operator that manages the group, and the kind of the object that says so: the StatefulSet, or the Service that stands in its place.
    fn other_installation(&self, group: &Group, own: &str) -> Option<(String, &'static str)> {
        let set = self.own_set(group).map(|set| ("StatefulSet", &set.metadata));
        let service = named(&self.services, &group.name).filter(|_| group.makes_pods);
        let service = service.map(|service| ("Service", &service.metadata));
        let ours = set.into_iter().chain(service).filter(|(_, meta)| convert::owned_by(meta, &group.uid));
        let said = ours.filter_map(|(kind, meta)| {
            Some((meta.annotations.as_ref()?.get(api::ANNOTATION_INSTALLATION)?.clone(), kind))
        });
        said.into_iter().find(|(by, _)| by != own)
    }

    /// The desired objects, each with whether it exists as desired.
    pub(super) fn objects(&self, ctx: &Context, group: &Group, desired: Vec<Arc<serde_json::Value>>) -> Vec<Object> {
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
            found.push(Object { kind, name, manifest, current: same && untouched, version, trial: None });
        }
        found
    }

    /// The metadata of an existing object, and the fingerprint of what other users may change.
    pub(super) fn live(&self, ctx: &Context, group: &Group, kind: &str, name: &str) -> Option<(&ObjectMeta, String)> {
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
    pub(super) fn members(
        &self,
        object: &ReplicaGroup,
        Seen { group, set, record, moving }: Seen<'_>,
        known: &BTreeSet<String>,
        now: Timestamp,
    ) -> Vec<Member> {
        let mut members: BTreeMap<u32, Member> = BTreeMap::new();
        for seat in Roster::new(group, set, record).seats() {
            members.insert(seat.ordinal, self.member(seat.name, seat.ordinal));
        }
        let (keys, live) = (object.spec.policy_keys(), self.live_note());
        for pod in &self.pods {
            let belonging = self.belonging(pod, object, group, moving);
            let Belonging { owned, revision: (older_template, newest), is_elsewhere, adoption } = belonging;
            let ours = owned || pod.metadata.uid.as_ref().is_some_and(|uid| known.contains(uid));
            let Some(ordinal) = convert::ordinal(&group.name, &pod.name_any()).filter(|_| ours) else { continue };
            let member = members.entry(ordinal).or_insert_with(|| self.member(pod.name_any().into(), ordinal));
            let stray = missing::stray(pod, group, owned, adoption.is_some());
            let template = self.template_number(pod, live.as_ref());
            let seen = convert::pod(pod, group, &keys, newest, now);
            let has_former_zone = own::waits_for_a_former_zone(pod, object);
            // Once the StatefulSet has the present commands: before that another pod would have the former ones, too.
            // A canary is known by its template alone, so what fails on it could not be told from the template: with one a restart of the group brings them.
            let counts = seen.outdated && group.update.canary == 0;
            let has_former_commands = counts && objects::has_former_commands(object, pod);
            let older_template = older_template || has_former_zone || has_former_commands;
            let outdated = seen.outdated || has_former_zone;
            let seen = tanist_core::snapshot::Pod { stray, older_template, outdated, template, ..seen };
            member.pod = Some(tanist_core::snapshot::Pod { is_elsewhere, adoption, ..seen });
        }
        // Whoever has a pod may be primary, and is never left out.
        let has_room = members.len() <= limits::MEMBERS;
        let all = members.into_values().filter(|member| has_room || member.pod.is_some());
        all.take(limits::MEMBERS).collect()
    }

    /// Pods that another object made, and to which clients are led as to a primary of this group.
    pub(super) fn strangers(&self, group: &Group, members: &[Member]) -> BTreeSet<String> {
        let own: BTreeSet<&str> = members.iter().filter_map(|member| Some(member.pod.as_ref()?.uid.as_str())).collect();
        // Nobody reaches one that is not Ready, or is being deleted: it may stay for long on a node that does not report (simulator, seed 37003997).
        let is_reached = |pod: &Pod| {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let is_ready = conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True");
            is_ready && pod.metadata.deletion_timestamp.is_none()
        };
        let leads = |pod: &&Arc<Pod>| {
            let labels = pod.labels();
            is_reached(pod)
                && labels.get(api::LABEL_GROUP) == Some(&group.name)
                && labels.get(api::LABEL_ROLE).is_some_and(|role| role == "primary")
        };
        let is_other = |pod: &&Arc<Pod>| {
            self.owner(pod, group) == Owner::Other && !own.contains(pod.metadata.uid.as_deref().unwrap_or_default())
        };
        self.pods.iter().filter(leads).filter(is_other).map(|pod| pod.name_any()).collect()
    }

    /// Finds those in whose place new members have to come. `used`: the group with the template of which pods are made.
    pub(super) fn find_successors(&self, members: &mut [Member], used: &ReplicaGroup) {
        let pods = members.iter_mut().filter_map(|member| member.pod.as_mut());
        for pod in pods.filter(|pod| pod.older_template) {
            let seen = self.pods.iter().find(|seen| seen.metadata.uid.as_deref() == Some(&pod.uid));
            pod.needs_new_member = seen.is_some_and(|seen| successors::needs_new_member(seen, used));
        }
    }

    /// The names of the group's claims that belong to no member of the roster.
    pub(super) fn surplus_claims(&self, roster: Roster<'_>, members: &[Member], record: &Record) -> Vec<String> {
        let expected = members.iter().filter(|m| roster.has(m)).map(|m| m.name.clone());
        memory::surplus(record, roster.group_name(), &expected.collect::<Vec<_>>(), self.claims())
    }

    /// The claims that removed members left behind. Whoever has a pod, or is expected, is a member.
    pub(super) fn left_claims(&self, group: &Group, members: &[Member], record: &Record) -> Vec<LeftClaim> {
        let present: Vec<_> = members.iter().map(|m| m.name.clone()).collect();
        let mut left = memory::left(record, &group.name, &present, self.claims());
        left.iter_mut().for_each(|left| left.is_being_deleted = self.ending.contains(&left.claim.uid));
        left
    }

    pub(super) fn member(&self, name: MemberName, ordinal: u32) -> Member {
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

pub(super) fn named<'a>(list: &'a [Arc<DynamicObject>], name: &str) -> Option<&'a DynamicObject> {
    list.iter().map(|object| &**object).find(|object| object.metadata.name.as_deref() == Some(name))
}

/// The UIDs of claims that Kubernetes is deleting.
pub(super) fn ending<'a>(claims: impl Iterator<Item = &'a PersistentVolumeClaim>) -> BTreeSet<String> {
    claims.filter(|claim| claim.metadata.deletion_timestamp.is_some()).filter_map(ResourceExt::uid).collect()
}
