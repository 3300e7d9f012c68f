//! The desired objects of a group: pure functions from the resource to manifests for server-side apply.
//!
//! # Promises
//! 1. Equal groups and settings give equal manifests, and each says so itself: its annotation `tanist.dev/applied` is the SHA-256 of all
//!    the rest, so an unchanged manifest is recognised without comparing objects.
//! 2. The user's template has precedence, except for what makes a pod a member: the group's label, the readiness gate, and with runner
//!    Injected the command of the containers that commands name.
//! 3. They contain no Secret, no claim and no right, and name nothing outside the group's namespace.
//!
//! Whether Kubernetes accepts the template shows only when it is applied (condition `TemplateRejected`).
mod members;
mod pods;
mod probe;
mod revision;
mod runner;
mod services;
mod state;
mod template_note;
mod zones;

pub use members::{LABEL_REVISION, member};
pub use revision::{revision, revision_name};
pub use runner::has_former_commands;
pub use state::cluster_state;
pub use template_note::{Numbers, TemplateNote, config_of, hash_of, template_hash};

use kube::{Resource, ResourceExt};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use tanist_api::spec::MembersKind;
use tanist_api::{ANNOTATION_APPLIED, ANNOTATION_INSTALLATION, LABEL_GROUP, ReplicaGroup};
use tanist_core::record::Record;
use tanist_core::roster::{Roster, Seat};
use tanist_core::snapshot::Group;

/// The settings of the installation that the objects of every group contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The image that holds `/tanist-run`.
    pub runner_image: String,
    /// The name of the installation that applies the objects.
    pub installation: String,
}

/// How many members there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// The size of the `StatefulSet`, which is not `spec.replicas` while members still have to be stopped.
    pub replicas: u32,
    /// How many members are desired, which is not `spec.replicas` while policies do not let that in.
    pub desired: u32,
    /// How many of them have a vote, by the last list on which the application's members agreed. 0: there is none.
    pub voters: usize,
    /// How many of those that are there beyond that, because new ones come in the place of others, were in no role yet.
    pub spare: u32,
    /// What makes the pods. Absent: what the spec says.
    pub makers: Option<Makers>,
}

/// What makes the pods of a group, and what is there for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Makers {
    /// A `StatefulSet` makes them.
    Set,
    /// The operator makes them itself.
    Operator,
    /// One of them, and the other takes over from it.
    Both,
}

impl Size {
    /// What the group's seats and its memory ask for.
    #[must_use]
    pub fn of(group: &Group, roster: Roster<'_>, record: &Record) -> Self {
        let voters = record.membership.as_ref().map_or(0, |known| known.voters());
        let extra = roster.size().saturating_sub(group.replicas);
        let is_new = |seat: &Seat| record.member(&seat.name).term.is_none();
        let new = roster.seats().filter(is_new).take(usize::try_from(extra).unwrap_or(usize::MAX)).count();
        let spare = u32::try_from(new).unwrap_or(extra);
        Size { replicas: roster.size(), desired: group.replicas, voters, spare, makers: None }
    }
}

/// A group without a list of members.
impl From<u32> for Size {
    fn from(replicas: u32) -> Self {
        Size { replicas, desired: replicas, voters: 0, spare: 0, makers: None }
    }
}

/// Why the manifests cannot be built. The user has to fix each, except the first, which only an object that was never stored can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The group has no name or no UID, so it cannot be the owner of objects.
    #[error("the group has no {0}: it was not read from the API server")]
    NotStored(&'static str),
    /// The template is not a pod template.
    #[error("{0}: change spec.template")]
    Form(String),
    /// A command names a container that the template does not have.
    #[error("spec.template has no container {0}, in which commands are to run: name one of its containers")]
    NoContainer(String),
    /// The template uses a name or a path that the runner needs.
    #[error("{0} is taken by the runner: use another, or set spec.runner to None")]
    Taken(String),
}

/// All objects of a group in the order in which they are applied: Services first, so that names resolve when pods start.
///
/// `note` is put on the `StatefulSet`, or where the operator makes the pods itself on the Service with the group's name.
///
/// # Errors
/// When members cannot be made from the template.
pub fn desired(
    group: &ReplicaGroup,
    size: impl Into<Size>,
    settings: &Settings,
    note: &TemplateNote,
) -> Result<Vec<Value>, BuildError> {
    let size = size.into();
    let makers = size.makers.unwrap_or(match group.spec.members.kind {
        MembersKind::StatefulSet => Makers::Set,
        MembersKind::Pods => Makers::Operator,
    });
    let mut objects = services::services(group);
    objects.push(services::budget(group, size, makers));
    // The first is the Service with the group's name.
    if let (Makers::Operator | Makers::Both, Some(named)) = (makers, objects.first_mut()) {
        members::note_on(named, group, settings, note)?;
    }
    if makers != Makers::Operator {
        objects.push(pods::set(group, size.replicas, settings, note)?);
    }
    objects.into_iter().map(|object| finish(group, settings, object)).collect()
}

/// Adds what all objects have: namespace, labels, owner, and last the hash of all that.
fn finish(group: &ReplicaGroup, settings: &Settings, mut object: Value) -> Result<Value, BuildError> {
    let namespace = group.namespace().ok_or(BuildError::NotStored("namespace"))?;
    let owner = owner(group)?;
    let mut labels = app_labels(group);
    labels.insert(LABEL_GROUP.into(), group.name_any().into());
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("namespace".into(), namespace.into());
        // Its own come after those of the user.
        if let Some(all) = metadata.entry("labels").or_insert_with(|| json!({})).as_object_mut() {
            all.extend(labels);
        }
        metadata.insert("ownerReferences".into(), json!([owner]));
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({})).as_object_mut();
        annotations.map(|a| a.insert(ANNOTATION_INSTALLATION.into(), settings.installation.clone().into()));
    }
    let hash = Sha256::digest(object.to_string()).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.insert(ANNOTATION_APPLIED.into(), hash.into());
    }
    Ok(object)
}

/// The group as the owner of an object.
///
/// # Errors
/// When it was not read from the API server.
pub fn owner(group: &ReplicaGroup) -> Result<Value, BuildError> {
    let owner = group.controller_owner_ref(&()).ok_or(BuildError::NotStored("name or UID"))?;
    Ok(json!({
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": true,
        "blockOwnerDeletion": true
    }))
}

/// The recommended labels, by which users and tools find the objects of one application. Its name may come from the template.
fn app_labels(group: &ReplicaGroup) -> Map<String, Value> {
    const NAME: &str = "app.kubernetes.io/name";
    let name = group.name_any();
    let application =
        group.spec.template.labels().find(|(key, _)| *key == NAME).map_or(name.as_str(), |(_, value)| value);
    let labels = [
        (NAME, application),
        ("app.kubernetes.io/instance", &name),
        ("app.kubernetes.io/managed-by", tanist_api::FIELD_MANAGER),
    ];
    labels.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}

#[cfg(test)]
mod budget_tests;
#[cfg(test)]
mod tests;
