//! Reads by name what the lists by label do not show. Only a GET by name proves that something is gone: one `kubectl label` removes a label, and
//! the pod goes on running.
use super::{Error, World, within};
use crate::cluster::Kind;
use crate::context::Context;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use tanist_api::{self as api, ReplicaGroup};
use tanist_core::record::Record;
use tanist_core::roster::Roster;
use tanist_core::snapshot::{Group, Set};

/// How many reads by name run at a time. There are none while nothing is missing.
pub(super) const READS: usize = 8;

/// UIDs of pods that were members when they were last seen, from the record and the status.
pub fn known(object: &ReplicaGroup, record: &Record) -> BTreeSet<String> {
    let of_memory = record.ran().map(|l| &l.pod_uid).chain(record.intents.iter().map(|i| &i.pod_uid));
    let rows = object.status.iter().flat_map(|s| &s.members).filter_map(|m| m.pod_uid.as_ref());
    of_memory.chain(rows).filter(|uid| !uid.is_empty()).cloned().collect()
}

/// Names of the pods that should exist or may still exist. A group without a `StatefulSet` expects none from it.
pub fn expected(group: &Group, set: Option<&Set>, record: &Record) -> BTreeSet<String> {
    let seats = set.map(|_| Roster::new(group, set, record).seats()).into_iter().flatten();
    let of_memory = record.ran().map(|l| &l.member).chain(record.intents.iter().map(|i| &i.member));
    seats.map(|seat| seat.name.to_string()).chain(of_memory.map(ToString::to_string)).collect()
}

/// What a member's pod lacks (label or owner), and what to do about it. `None`: nothing.
pub fn stray(pod: &Pod, group: &Group, owned: bool, is_adopted: bool) -> Option<String> {
    let (name, namespace) = (pod.name_any(), &group.namespace);
    let (label, value) = (api::LABEL_GROUP, &group.name);
    match (pod.labels().get(label) == Some(value), owned) {
        (true, true) => None,
        (false, _) => Some(format!(
            "the pod {name} lost its label {label}, so no Service leads to it and nothing manages it; put it back: kubectl -n \
             {namespace} label pod {name} {label}={value} --overwrite"
        )),
        (true, false) if is_adopted => {
            Some(format!("the pod {name} has no owner; Tanist adopts it by itself within seconds"))
        }
        (true, false) if group.makes_pods => Some(format!(
            "the pod {name} does not belong to the group, so it would stay when the group is deleted; delete it, and it is made anew"
        )),
        (true, false) => {
            Some(format!("the pod {name} has no owner; the StatefulSet {value} adopts it by itself within seconds"))
        }
    }
}

impl World {
    /// Reads by name what the lists do not show.
    ///
    /// # Errors
    /// [`Error`]: an object that cannot be read must not count as gone.
    pub(super) async fn find(
        &mut self,
        ctx: &Arc<Context>,
        group: &Group,
        pods: &BTreeSet<String>,
        desired: &[Arc<Value>],
    ) -> Result<(), Error> {
        let listed: BTreeSet<String> = self.pods.iter().map(|pod| pod.name_any()).collect();
        let (cluster, namespace) = (&*ctx.cluster, &group.namespace);
        // Owned names, because a stream over borrowed ones is not general enough for `spawn`.
        let names: Vec<String> = pods.difference(&listed).cloned().collect();
        let reads = names.into_iter().map(|name| {
            let (ctx, namespace) = (ctx.clone(), namespace.clone());
            async move { within("pods", ctx.cluster.get::<Pod>(&namespace, &name)).await }
        });
        let found: Vec<_> = stream::iter(reads).buffer_unordered(READS).try_collect().await?;
        self.pods.extend(found.into_iter().flatten());
        for manifest in desired {
            let text = |pointer| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let (kind, name) = (text("/kind"), text("/metadata/name"));
            let (list, of, what) = match kind {
                "Service" => (&mut self.services, Kind::Service, "services"),
                "PodDisruptionBudget" => (&mut self.budgets, Kind::Budget, "pod disruption budgets"),
                // The StatefulSet is always read by name.
                _ => continue,
            };
            if list.iter().all(|o| o.metadata.name.as_deref() != Some(name)) {
                list.extend(within(what, cluster.get_plain(of, namespace, name)).await?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
