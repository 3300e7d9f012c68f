//! Groups that are on their way from one kind of members to the other (`spec.members.kind`, D23): what makes the pods now, and what each pod lacks to belong to what is to make them.
use super::{World, convert};
use crate::objects::{LABEL_REVISION, Makers, TemplateNote, owner};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};
use std::sync::Arc;
use tanist_api::{ANNOTATION_POD_REVISION, ANNOTATION_TEMPLATE, LABEL_GROUP, ReplicaGroup};
use tanist_core::check;
use tanist_core::record::Record;
use tanist_core::snapshot::{Group, Moving, MovingSet};

/// Whom a pod belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The `StatefulSet` of the group.
    Set,
    /// The group itself.
    Group,
    /// A `StatefulSet` of the group that is gone: a change of the owner arrived late.
    Gone,
    /// No controller owns the pod.
    Nobody,
    /// The controller of the pod is an object that is not of this group.
    Other,
}

/// How a pod belongs to its group.
pub(super) struct Belonging<'a> {
    /// Whether what makes the pods now, or made them before, owns it.
    pub(super) owned: bool,
    /// Whether the pod was made from an older template, and the newest revision of what owns it.
    pub(super) revision: (bool, Option<&'a str>),
    /// Whether the pod has another owner than it should; see [`Pod::is_elsewhere`](tanist_core::snapshot::Pod::is_elsewhere).
    pub(super) is_elsewhere: bool,
    /// The patch that gives the pod its owner; see [`Pod::adoption`](tanist_core::snapshot::Pod::adoption).
    pub(super) adoption: Option<Arc<Value>>,
}

impl World {
    /// The `StatefulSet`, if it belongs to the group.
    pub(super) fn own_set(&self, group: &Group) -> Option<&StatefulSet> {
        self.set.as_deref().filter(|set| convert::owned_by(&set.metadata, &group.uid))
    }

    /// Says what makes the pods now, which may not be what the spec says: numbers in the record say that it is the operator, and without them it is the `StatefulSet` if there is one.
    pub(super) fn settle_maker(&mut self, group: &mut Group, record: &Record) {
        let is_made = |pod: &Arc<Pod>| convert::owned_by(&pod.metadata, &group.uid);
        group.makes_pods = match (&record.seats, self.own_set(group)) {
            (Some(_), _) => true,
            (None, Some(_)) => false,
            // Its record may be lost.
            (None, None) => group.makes_pods || self.pods.iter().any(is_made),
        };
        self.makes_pods = group.makes_pods.then(|| group.name.clone());
    }

    /// What is left of a change of `spec.members.kind`. `wants_pods`: what the spec says.
    pub(super) fn moving(&self, group: &Group, record: &Record, wants_pods: bool) -> Option<Moving> {
        let set = self.own_set(group).map(|set| MovingSet {
            uid: set.uid().unwrap_or_default(),
            version: set.resource_version().unwrap_or_default(),
            replicas: replicas(set),
            is_current: self.is_current(set),
            is_being_deleted: set.metadata.deletion_timestamp.is_some(),
        });
        match (group.makes_pods, wants_pods) {
            (false, false) => None,
            (true, true) => set.map(|set| Moving { to_pods: true, set: Some(set) }),
            (false, true) => Some(Moving { to_pods: true, set }),
            // A StatefulSet that cannot have these members goes again.
            (true, false) => Some(Moving { to_pods: set.is_some() && check::fits_set(group, record).is_err(), set }),
        }
    }

    /// What has to be there to make pods.
    pub(super) fn makers(group: &Group, record: &Record, moving: Option<&Moving>) -> Makers {
        match (group.makes_pods, moving.map(|moving| moving.to_pods)) {
            (false, None | Some(false)) => Makers::Set,
            (false, Some(true)) => Makers::Both,
            (true, None | Some(true)) => Makers::Operator,
            (true, Some(false)) if check::fits_set(group, record).is_ok() => Makers::Both,
            (true, Some(false)) => Makers::Operator,
        }
    }

    /// How a pod belongs to the group.
    pub(super) fn belonging<'a>(
        &'a self,
        pod: &Pod,
        object: &ReplicaGroup,
        group: &Group,
        moving: Option<&Moving>,
    ) -> Belonging<'a> {
        let owner = self.owner(pod, group);
        let (now, other) = if group.makes_pods { (Owner::Group, Owner::Set) } else { (Owner::Set, Owner::Group) };
        let to_set = group.makes_pods && moving.is_some_and(|moving| !moving.to_pods);
        let target = if to_set { Owner::Set } else { now };
        let is_elsewhere = owner != target;
        // Its controller adopts pods of nobody by itself.
        let is_ours = owner == other
            || owner == now
            || owner == Owner::Gone
            || (owner == Owner::Nobody && target == Owner::Group);
        let is_labelled = pod.labels().get(LABEL_GROUP) == Some(&group.name);
        let adoption = (is_elsewhere && is_ours && is_labelled)
            .then(|| match target {
                Owner::Set => self.to_set(pod, group),
                _ => self.to_group(pod, object, group),
            })
            .flatten();
        Belonging {
            owned: owner == now || owner == other || owner == Owner::Gone,
            revision: self.revision(pod, group, owner),
            is_elsewhere,
            adoption: adoption.map(Arc::new),
        }
    }

    /// Whether a pod was made from an older template, and the newest revision of what owns it: each owner has revisions of its own.
    fn revision<'a>(&'a self, pod: &Pod, group: &Group, owner: Owner) -> (bool, Option<&'a str>) {
        match (owner, self.own_set(group)) {
            (Owner::Set, Some(set)) if group.makes_pods => {
                let (note, own) = (TemplateNote::read(set.annotations()), pod.labels().get(LABEL_REVISION));
                let is_older = note.zip(own).is_some_and(|(note, own)| note.is_older(&self.template, own, newest(set)));
                (is_older, newest(set))
            }
            (Owner::Group, _) if !group.makes_pods => {
                let own = pod.annotations().get(ANNOTATION_TEMPLATE);
                (own.is_some_and(|own| *own != self.template), None)
            }
            _ => {
                let of_set = || self.set.as_ref()?.status.as_ref()?.update_revision.as_deref();
                let newest = if group.makes_pods { self.newest_revision() } else { of_set() };
                (self.has_older_template(pod, self.live_note().as_ref()), newest)
            }
        }
    }

    pub(super) fn owner(&self, pod: &Pod, group: &Group) -> Owner {
        let controller = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
        let set = self.own_set(group).and_then(ResourceExt::uid);
        match controller {
            None => Owner::Nobody,
            Some(owner) if owner.uid == group.uid => Owner::Group,
            Some(owner) if Some(&owner.uid) == set.as_ref() => Owner::Set,
            // The group stays an owner of each pod that comes to a set.
            Some(_) if pod.owner_references().iter().any(|owner| owner.uid == group.uid) => Owner::Gone,
            Some(_) => Owner::Other,
        }
    }

    /// The change by which a pod comes to belong to the group. What its StatefulSet knew of its template is written on it.
    fn to_group(&self, pod: &Pod, object: &ReplicaGroup, group: &Group) -> Option<Value> {
        let mut change = owned(pod, vec![owner(object).ok()?]);
        let Some(set) = self.own_set(group).filter(|_| self.owner(pod, group) == Owner::Set) else {
            return Some(change);
        };
        let note = TemplateNote::read(set.annotations());
        let (revision, newest) = (pod.labels().get(LABEL_REVISION)?, newest(set));
        let hash = note.filter(|note| !note.is_older(&note.hash, revision, newest)).map(|note| note.hash);
        let (metadata, hash) = (change.get_mut("metadata")?.as_object_mut()?, hash.unwrap_or_default());
        let noted = self.live_note().is_some_and(|note| note.hash == hash);
        let present = self.annotations().and_then(|notes| notes.get(ANNOTATION_POD_REVISION));
        if let Some(present) = present.filter(|_| noted && newest == Some(revision)) {
            metadata.insert("labels".into(), json!({LABEL_REVISION: present}));
        }
        metadata.insert("annotations".into(), json!({ANNOTATION_TEMPLATE: hash}));
        Some(change)
    }

    /// Whether the set has the template of the group, and its controller has seen that.
    fn is_current(&self, set: &StatefulSet) -> bool {
        let note = TemplateNote::read(set.annotations());
        let stays = set.metadata.deletion_timestamp.is_none();
        stays && newest(set).is_some() && note.is_some_and(|note| note.hash == self.template)
    }

    /// The change by which a pod comes to belong to the `StatefulSet`. `None`: that has not the present template yet, or would take a pod of an older one for one of that.
    fn to_set(&self, pod: &Pod, group: &Group) -> Option<Value> {
        let set = self.own_set(group).filter(|set| self.is_current(set))?;
        let (newest, own) = (newest(set)?, pod.labels().get(LABEL_REVISION)?);
        let is_older = self.has_older_template(pod, self.live_note().as_ref());
        let note = TemplateNote::read(set.annotations())?;
        if is_older && !note.is_older(&self.template, own, Some(newest)) {
            return None;
        }
        let reference = |of: &str, kind: &str, uid: String| OwnerReference {
            api_version: of.into(),
            kind: kind.into(),
            name: set.name_any(),
            uid,
            controller: None,
            block_owner_deletion: None,
        };
        let controller = OwnerReference { controller: Some(true), ..reference("apps/v1", "StatefulSet", set.uid()?) };
        // The group stays an owner: if this arrives when the set is gone, the garbage collector takes the set's reference and not the pod.
        let group = reference(&ReplicaGroup::api_version(&()), &ReplicaGroup::kind(&()), group.uid.clone());
        let mut change = owned(pod, vec![json!(controller), json!(group)]);
        if !is_older && Some(own.as_str()) == self.newest_revision() {
            change.get_mut("metadata")?.as_object_mut()?.insert("labels".into(), json!({LABEL_REVISION: newest}));
        }
        Some(change)
    }
}

/// The change of a pod's owners. Those that have nothing to do with its group stay.
fn owned(pod: &Pod, owners: Vec<Value>) -> Value {
    let is_new = |owner: &OwnerReference| owners.iter().any(|new| new.get("uid") == Some(&json!(owner.uid)));
    let others = pod.owner_references().iter().filter(|owner| owner.controller != Some(true) && !is_new(owner));
    let others: Vec<Value> = others.map(|owner| json!(owner)).collect();
    json!({"metadata": {"ownerReferences": others.into_iter().chain(owners).collect::<Vec<_>>()}})
}

fn replicas(set: &StatefulSet) -> u32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).and_then(|replicas| u32::try_from(replicas).ok()).unwrap_or(1)
}

/// The revision of the set's template as it is now, as its controller says it.
fn newest(set: &StatefulSet) -> Option<&str> {
    let status = set.status.as_ref()?;
    status.update_revision.as_deref().filter(|_| status.observed_generation >= set.metadata.generation)
}

#[cfg(test)]
#[path = "moving_tests.rs"]
mod tests;
