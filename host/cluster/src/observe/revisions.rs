//! Finds the pods that run the group's `spec.template`, the numbers of the templates ([`TemplateNote`]), and the template to which pods go back.
use super::World;
use super::config::Settled;
use super::convert::{LABEL_REVISION, owned_by};
use crate::cluster::{Cluster, Error, Kind};
use crate::context::Context;
use crate::objects::{Numbers, TemplateNote, desired, hash_of, revision_name};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tanist_api::spec::Template;
use tanist_api::{
    ANNOTATION_CAUSE, ANNOTATION_CONFIG, ANNOTATION_POD_REVISION, ANNOTATION_REVISION, ANNOTATION_TEMPLATE,
    ANNOTATION_VERSION, ReplicaGroup,
};
use tanist_core::record::Record;
use tanist_core::snapshot::{Former, Group};

/// The template of a group as the StatefulSet has it, for those who store it.
#[derive(Debug, Clone, PartialEq)]
pub struct Numbered {
    /// The group with that template, which is not `spec.template` after that was given up.
    pub group: Arc<ReplicaGroup>,
    /// The template's hash.
    pub hash: String,
    /// The number of the template, under which it is to be stored.
    pub number: u64,
    /// The numbers of other templates that pods still run.
    pub in_use: BTreeSet<u64>,
    /// The hash of the template to which pods would go back.
    pub good: Option<String>,
}

/// How long a round waits for numbers and former templates: a group goes on without them.
const READ: Duration = Duration::from_secs(1);

/// How long numbers that could not be read are not asked for again.
const PAUSE: Duration = Duration::from_secs(60);

/// A template that is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// The number of the template, from the annotation of its object.
    pub number: u64,
    /// The metadata of the `ControllerRevision` that keeps it.
    pub meta: ObjectMeta,
}

/// The stored templates of a group, by number.
///
/// # Errors
/// When they cannot be read, for instance without the right to.
pub async fn kept(cluster: &dyn Cluster, group: &Group) -> Result<Vec<Kept>, Error> {
    let list = cluster.list_plain(Kind::Revision, &group.namespace, &group.name).await?;
    // A group that was deleted and created anew under the name owns none of its predecessor's.
    let ours = list.iter().filter(|object| owned_by(&object.metadata, &group.uid));
    let mut kept: Vec<_> = ours
        .filter_map(|object| {
            let number = object.annotations().get(ANNOTATION_REVISION)?.parse().ok()?;
            Some(Kept { number, meta: object.metadata.clone() })
        })
        .collect();
    kept.sort_by_key(|kept| kept.number);
    Ok(kept)
}

/// The template before the one that is tried, or was given up.
#[derive(Debug, Clone)]
pub(super) enum Past {
    /// Nobody asks for it.
    Unasked,
    /// The group with that template; pods can be made from it.
    Kept(Arc<ReplicaGroup>),
    /// It is not stored, or no pod can be made from it with the present commands.
    Lost,
    /// It could not be read.
    Unreadable(Error),
}

impl Past {
    /// What the core has to know of it.
    pub(super) fn former(&self) -> Former {
        match self {
            Past::Unasked | Past::Unreadable(_) => Former::Unknown,
            Past::Kept(_) => Former::Kept,
            Past::Lost => Former::Lost,
        }
    }
}

/// A stored template, and the annotations that belong to it: why the group was changed to it, and its configuration.
pub type FormerTemplate = (Template, BTreeMap<&'static str, String>);

/// Annotations of a `ControllerRevision` that come back with its template.
const NOTES: [&str; 3] = [ANNOTATION_CAUSE, ANNOTATION_CONFIG, ANNOTATION_VERSION];

/// Looks for the template before `spec.template`, as soon as that may be given up.
pub(super) async fn past(ctx: &Context, object: &ReplicaGroup, group: &Group, record: &Record) -> Past {
    let may_be_used = group.update.rolls_back || group.update.canary > 0;
    let asked = record.fallback.as_ref().filter(|f| may_be_used && f.good != group.update.template);
    let Some(good) = asked.map(|fallback| fallback.good.as_str()) else { return Past::Unasked };
    let known = ctx.hints.with_group(&group.uid, |hints| hints.former.clone()).filter(|(hash, _)| hash == good);
    let found = match known {
        Some((_, found)) => found,
        None => match former(&*ctx.cluster, group, good).await {
            Ok(Some(found)) => found,
            Ok(None) => return Past::Lost,
            Err(error) => return Past::Unreadable(error),
        },
    };
    ctx.hints.with_group(&group.uid, |hints| hints.former = Some((good.to_owned(), found.clone())));
    // Only the configuration is another one, and what it was before nobody knows any more.
    if found.0 == object.spec.template {
        return Past::Lost;
    }
    let past = with_former(object, found);
    // Nobody goes back to another version but by `RollBack`, which no group has whose data is converted: the data may be of the later one.
    if !group.update.rolls_back && past.spec.version != object.spec.version {
        return Past::Lost;
    }
    let makes_pods = desired(&past, group.replicas, &ctx.settings, &TemplateNote::default()).is_ok();
    if makes_pods { Past::Kept(Arc::new(past)) } else { Past::Lost }
}

/// The group with a former template, which comes back for the reason for which it was there.
fn with_former(object: &ReplicaGroup, (template, notes): FormerTemplate) -> ReplicaGroup {
    let mut past = ReplicaGroup::clone(object);
    past.spec.template = template;
    let mut notes = notes;
    past.spec.version = notes.remove(ANNOTATION_VERSION);
    let annotations = past.metadata.annotations.get_or_insert_default();
    annotations.retain(|key, _| !NOTES.contains(&key.as_str()));
    annotations.extend(notes.into_iter().map(|(key, note)| (key.to_owned(), note)));
    past
}

/// The group with a template that is stored. `None`: it is not, or could not be read.
pub(super) async fn stored(ctx: &Context, object: &ReplicaGroup, hash: &str) -> Option<ReplicaGroup> {
    let group = tanist_api::validate::group(object, &ctx.cluster_domain).ok()?;
    let found = former(&*ctx.cluster, &group, hash).await.ok()??;
    Some(with_former(object, found))
}

/// The configuration that the group's template had when it failed (E38). Pods have the template before, so the `StatefulSet` has the configuration of that one. `None`: another template failed, or none
/// did, or it cannot be read.
pub(super) async fn failed_config(
    ctx: &Context,
    object: &ReplicaGroup,
    group: &Group,
    record: &Record,
) -> Option<Settled> {
    let canary = record.canary.as_ref().filter(|canary| canary.failure().is_some()).map(|canary| &canary.template);
    let given_up = record.fallback.as_ref().and_then(|fallback| fallback.failed.as_ref());
    let failed = given_up.map(|failed| &failed.template).or(canary)?;
    let (_, notes) = former(&*ctx.cluster, group, failed).await.ok()??;
    let config = notes.get(ANNOTATION_CONFIG).cloned();
    let hash = hash_of(&object.spec.template, config.as_deref(), object.spec.version.as_deref());
    (hash == *failed).then(|| Settled::of(config))
}

/// Reads a stored template. `None`: it is not stored.
async fn former(cluster: &dyn Cluster, group: &Group, hash: &str) -> Result<Option<FormerTemplate>, Error> {
    let name = revision_name(&group.name, hash);
    let reading = cluster.get_plain(Kind::Revision, &group.namespace, &name);
    let found = tokio::time::timeout(READ, reading).await.map_err(|_| silent())??;
    let Some(object) = found.filter(|object| owned_by(&object.metadata, &group.uid)) else { return Ok(None) };
    let template = object.data.pointer("/data/spec/template").cloned();
    let template = template.and_then(|template| serde_json::from_value::<Template>(template).ok());
    let notes: BTreeMap<_, _> =
        NOTES.iter().filter_map(|key| Some((*key, object.annotations().get(*key)?.clone()))).collect();
    let config = notes.get(ANNOTATION_CONFIG).map(String::as_str);
    let version = notes.get(ANNOTATION_VERSION).map(String::as_str);
    Ok(template.filter(|template| hash_of(template, config, version) == hash).map(|template| (template, notes)))
}

fn silent() -> Error {
    Error::Unreachable(format!("no answer within {} s", READ.as_secs()))
}

/// The numbers that are taken.
fn numbers(kept: &[Kept]) -> Numbers {
    let latest = kept.last();
    let hash = latest.and_then(|kept| kept.meta.annotations.as_ref()?.get(ANNOTATION_TEMPLATE).cloned());
    Numbers { highest: latest.map_or(0, |kept| kept.number), latest: hash.unwrap_or_default() }
}

impl World {
    /// Reads the numbers of the stored templates when the note of the StatefulSet has to change. Absent: they are not needed, or could not be read a moment ago.
    ///
    /// # Errors
    /// Why they cannot be read. A group goes on without them.
    pub(super) async fn read_numbers(&self, ctx: &Context, group: &Group) -> Result<Option<Numbers>, Error> {
        if !TemplateNote::needs_numbers(self.live_note().as_ref(), &self.template) {
            return Ok(None);
        }
        let failed = ctx.hints.with_group(&group.uid, |hints| hints.unnumbered.clone());
        if let Some((_, error)) = failed.filter(|(at, _)| ctx.clock.moment().since(*at) < PAUSE) {
            return Err(error);
        }
        let reading = tokio::time::timeout(READ, kept(&*ctx.cluster, group)).await;
        let read = reading.unwrap_or_else(|_| Err(silent()));
        let failed = read.as_ref().err().map(|error| (ctx.clock.moment(), error.clone()));
        ctx.hints.with_group(&group.uid, |hints| hints.unnumbered = failed);
        read.map(|kept| Some(numbers(&kept)))
    }

    /// The note that the StatefulSet should have.
    pub(super) fn template_note(&self, kept: Option<&Numbers>) -> TemplateNote {
        let (live, hash) = (self.live_note(), self.template.clone());
        let newest = self.newest_revision();
        let mut note = TemplateNote::next(live.as_ref(), hash, self.revisions(), newest, kept);
        // What the operator wrote on its pods is known even if the Service, and with it the note, was deleted. A StatefulSet that takes over knows them by their revisions.
        let made = self.pods.iter().filter(|_| self.makes_pods.is_some());
        let older = made.filter(|pod| pod.annotations().get(ANNOTATION_TEMPLATE).is_some_and(|own| *own != note.hash));
        let older: Vec<_> = older.filter_map(|pod| pod.labels().get(LABEL_REVISION)).cloned().collect();
        note.older.extend(older.into_iter().filter(|revision| Some(revision.as_str()) != newest));
        note
    }

    /// Whether a pod was made from a `spec.template` that was changed since. `live`: the note on the StatefulSet.
    pub(super) fn has_older_template(&self, pod: &Pod, live: Option<&TemplateNote>) -> bool {
        // A pod says of which template it is: one that was made late, or whose note is lost, is of no other. A release from before did not write that on the pods of a StatefulSet.
        if let Some(own) = pod.annotations().get(ANNOTATION_TEMPLATE) {
            let is_noted = live.is_some_and(|note| note.hash == self.template);
            // A revision is all of a pod: one of the newest is of the present template, whatever was known of it when it changed its owner.
            let is_newest = pod.labels().get(LABEL_REVISION).map(String::as_str) == self.newest_revision();
            return !is_noted || (*own != self.template && !is_newest);
        }
        let (known, newest) = (live.zip(pod.labels().get(LABEL_REVISION)), self.newest_revision());
        // Where pods say it, one that does not is from before, also if it was not seen when the note was written: somebody may have changed its label (simulator, seed 80008072).
        let is_from_before =
            |note: &TemplateNote, own: &String| note.marks && newest.is_some_and(|newest| newest != own);
        known.is_some_and(|(note, own)| is_from_before(note, own) || note.is_older(&self.template, own, newest))
    }

    /// The number of the template from which a pod was made.
    pub(super) fn template_number(&self, pod: &Pod, live: Option<&TemplateNote>) -> Option<u64> {
        let (live, revision) = (live?, pod.labels().get(LABEL_REVISION)?);
        match pod.annotations().get(ANNOTATION_TEMPLATE).is_some_and(|own| *own != live.hash) {
            true => live.numbers.get(revision).copied(),
            false => live.number_of(revision, self.newest_revision()),
        }
    }

    /// The template that the StatefulSet has, which is that of the group. `None`: it has not the present one yet, or that has no number.
    pub(super) fn numbered(&self, group: Arc<ReplicaGroup>, record: &Record) -> Option<Numbered> {
        let live = self.live_note().filter(|live| live.hash == self.template && live.number > 0)?;
        let pods = self.pods.iter().filter_map(|pod| self.template_number(pod, Some(&live)));
        let in_use = pods.filter(|number| *number != live.number).collect();
        let good = record.fallback.as_ref().map(|fallback| fallback.good.clone());
        Some(Numbered { group, hash: live.hash, number: live.number, in_use, good })
    }

    /// The note that the StatefulSet has.
    pub(super) fn live_note(&self) -> Option<TemplateNote> {
        match &self.makes_pods {
            Some(_) => TemplateNote::read(self.annotations()?),
            None => TemplateNote::read(self.set.as_ref()?.annotations()),
        }
    }

    /// The revisions of the pods, and the newest revision of the StatefulSet.
    fn revisions(&self) -> impl Iterator<Item = String> {
        let pods = self.pods.iter().filter_map(|p| p.labels().get(LABEL_REVISION));
        let newest = self.set.iter().filter_map(|s| s.status.as_ref()?.update_revision.as_ref());
        let noted = self.annotations().and_then(|notes| notes.get(ANNOTATION_POD_REVISION));
        pods.chain(newest).chain(noted).cloned()
    }

    /// The revision of the StatefulSet's template as it is now. `None`: its controller has not seen that template yet.
    pub(super) fn newest_revision(&self) -> Option<&str> {
        if self.makes_pods.is_some() {
            return self.annotations()?.get(ANNOTATION_POD_REVISION).map(String::as_str);
        }
        let set = self.set.as_ref()?;
        let status = set.status.as_ref()?;
        let seen = status.observed_generation >= set.metadata.generation;
        status.update_revision.as_deref().filter(|_| seen)
    }
}

#[cfg(test)]
#[path = "revisions_tests.rs"]
mod tests;
