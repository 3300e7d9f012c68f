//! A group that was deleted and created again under its name while a round reads: what the round reads then belongs to the new one (S7).
use super::{Error, World, within};
use crate::context::Context;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt};
use tanist_api::ReplicaGroup;
use tanist_core::snapshot::Group;

impl World {
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

/// Whether the object's controller is a group of the same name that is not this one.
fn belongs_to_another(meta: &ObjectMeta, group: &Group) -> bool {
    let is_group = |owner: &&OwnerReference| {
        owner.controller == Some(true) && owner.kind == ReplicaGroup::kind(&()) && owner.name == group.name
    };
    meta.owner_references.iter().flatten().find(is_group).is_some_and(|owner| owner.uid != group.uid)
}
