//! To whom the objects belong that have the names of a group's: to a group that was deleted and created again under its name while a round reads (S7), to one of before that left them behind, or
//! to somebody else.
use super::convert::owned_by;
use super::{Error, World, within};
use crate::context::Context;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde_json::Value;
use std::sync::Arc;
use tanist_api::{ANNOTATION_APPLIED, ANNOTATION_INSTALLATION, LABEL_GROUP, ReplicaGroup};
use tanist_core::snapshot::Group;

impl World {
    /// Takes over the StatefulSet that a group of before left behind. It counts as this group's from now on, and gets its owner as a part of the manifest, which it does not have yet.
    pub(super) fn take_over_set(&mut self, object: &ReplicaGroup, group: &Group, installation: &str) {
        let Some(set) = &mut self.set else { return };
        let is_of_us = set.annotations().get(ANNOTATION_INSTALLATION).is_some_and(|by| by == installation);
        if is_of_us && is_left_behind(&set.metadata, group) {
            let metadata = &mut Arc::make_mut(set).metadata;
            metadata.owner_references.get_or_insert_default().extend(object.controller_owner_ref(&()));
            // Whatever was applied before: it is as desired only once it really has its owner.
            metadata.annotations.iter_mut().for_each(|notes| drop(notes.remove(ANNOTATION_APPLIED)));
        }
    }

    /// Leaves out Services and budgets whose names belong to somebody else: an apply would take their fields, and they would go with the group. Says which these are.
    pub(super) fn without_names_of_others(
        &self,
        group: &Group,
        desired: Vec<Arc<Value>>,
    ) -> (Vec<Arc<Value>>, Vec<Error>) {
        let mut taken = Vec::new();
        let is_free = |manifest: &Arc<Value>| {
            let text = |pointer| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let (list, kind) = match text("/kind") {
                "Service" => (&self.services, "Service"),
                "PodDisruptionBudget" => (&self.budgets, "PodDisruptionBudget"),
                _ => return true,
            };
            let name = text("/metadata/name");
            let there = list.iter().map(|object| &object.metadata).find(|meta| meta.name.as_deref() == Some(name));
            let is_ours = |meta: &ObjectMeta| {
                let label = meta.labels.as_ref().and_then(|labels| labels.get(LABEL_GROUP));
                owned_by(meta, &group.uid) || label == Some(&group.name)
            };
            let is_free = there.is_none_or(is_ours);
            if !is_free {
                taken.push(Error::NotOurs(kind, name.to_owned()));
            }
            is_free
        };
        (desired.into_iter().filter(is_free).collect(), taken)
    }

    /// Reads the group once more if an object belongs to another group of its name. Without that the round would apply the new group's objects as those of the
    /// old one, which is gone, and Kubernetes collects what belongs to nobody.
    ///
    /// # Errors
    /// [`Error::Gone`]: another group has the name by now. What a group of before left behind is no such error: Kubernetes removes it.
    pub(super) async fn same_group(&self, ctx: &Context, group: &Group) -> Result<(), Error> {
        let plain = self.services.iter().chain(&self.budgets).map(|object| &object.metadata);
        let mut all = self.set.iter().map(|set| &set.metadata).chain(plain);
        if !all.any(|meta| belongs_to_another(meta, group)) {
            return Ok(());
        }
        let now = within("the group", ctx.cluster.get::<ReplicaGroup>(&group.namespace, &group.name)).await?;
        match now.and_then(|now| now.uid()) == Some(group.uid.clone()) {
            true => Ok(()),
            false => Err(Error::Gone),
        }
    }
}

/// Whether nobody controls the object, and it has the group's label: a group of before was deleted without its objects (`kubectl delete --cascade=orphan`).
fn is_left_behind(meta: &ObjectMeta, group: &Group) -> bool {
    let is_controlled = meta.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
    let label = meta.labels.as_ref().and_then(|labels| labels.get(LABEL_GROUP));
    !is_controlled && label == Some(&group.name)
}

/// Whether the object's controller is a group of the same name that is not this one.
fn belongs_to_another(meta: &ObjectMeta, group: &Group) -> bool {
    let is_group = |owner: &&OwnerReference| {
        owner.controller == Some(true) && owner.kind == ReplicaGroup::kind(&()) && owner.name == group.name
    };
    meta.owner_references.iter().flatten().find(is_group).is_some_and(|owner| owner.uid != group.uid)
}

#[cfg(test)]
#[path = "owners_tests.rs"]
mod tests;
