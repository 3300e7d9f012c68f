//! Builds the claims and the pods of members where the operator makes them itself (`spec.members.kind: Pods`, D23). They are what the controller of a StatefulSet would make: the same
//! names, the same DNS names, the same labels, so that nothing else has to know the difference.
use super::pods::{list, object, template};
use super::{BuildError, Settings, TemplateNote, config_of, owner, template_hash, zones};
use kube::ResourceExt;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tanist_api::{ANNOTATION_CONFIG, ANNOTATION_POD_REVISION, ANNOTATION_TEMPLATE, LABEL_GROUP, ReplicaGroup};

/// The label by which a pod says of which revision of the template it is, as that of a StatefulSet does.
pub const LABEL_REVISION: &str = "controller-revision-hash";

/// Labels of a StatefulSet's pods: by the first, people and Services select one member.
const LABEL_POD: &str = "statefulset.kubernetes.io/pod-name";
const LABEL_INDEX: &str = "apps.kubernetes.io/pod-index";

/// How much of the hash of the template is a revision.
const DIGITS: usize = 16;

/// What the Service with the group's name says of the pods: which `spec.template` they get, and of which revision they are made now. Without a StatefulSet there is no other place for it.
pub(super) fn note_on(
    service: &mut Value,
    group: &ReplicaGroup,
    settings: &Settings,
    note: &TemplateNote,
) -> Result<(), BuildError> {
    let mut annotations =
        json!({ANNOTATION_TEMPLATE: note.text(), ANNOTATION_POD_REVISION: revision(&template(group, settings)?)});
    if let (Some(config), Some(annotations)) = (config_of(group), annotations.as_object_mut()) {
        annotations.insert(ANNOTATION_CONFIG.into(), config.into());
    }
    if let Some(metadata) = service.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("annotations".into(), annotations);
    }
    Ok(())
}

/// The revision of a pod template.
fn revision(template: &Value) -> String {
    let hash = Sha256::digest(template.to_string());
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.chars().take(DIGITS).collect()
}

/// The claims of a member and then its pod. `ordinal`: the number in its name. `zone`: the one that it belongs to.
///
/// # Errors
/// When no pod can be made from the template.
pub fn member(
    group: &ReplicaGroup,
    ordinal: u32,
    zone: Option<&str>,
    settings: &Settings,
) -> Result<Vec<Value>, BuildError> {
    let name = format!("{}-{ordinal}", group.name_any());
    let mut objects = claims(group, &name)?;
    let mut pod = pod(group, &name, ordinal, settings)?;
    if let Some(zone) = zone {
        zones::place(group, zone, &mut pod)?;
    }
    objects.push(pod);
    Ok(objects)
}

fn claims(group: &ReplicaGroup, member: &str) -> Result<Vec<Value>, BuildError> {
    let namespace = group.namespace().ok_or(BuildError::NotStored("namespace"))?;
    let written = |e| BuildError::Form(format!("spec.volumeClaimTemplates cannot be written: {e}"));
    group
        .spec
        .volume_claim_templates
        .iter()
        .map(|claim| {
            let name = format!("{}-{member}", claim.metadata.name);
            let mut claim = serde_json::to_value(claim).map_err(written)?;
            let whole =
                claim.as_object_mut().ok_or_else(|| BuildError::Form("a claim template has to be an object".into()))?;
            whole.insert("apiVersion".into(), "v1".into());
            whole.insert("kind".into(), "PersistentVolumeClaim".into());
            let metadata = object(whole, "metadata", "a claim template")?;
            metadata.insert("name".into(), name.into());
            metadata.insert("namespace".into(), namespace.clone().into());
            object(metadata, "labels", "a claim template")?.insert(LABEL_GROUP.into(), group.name_any().into());
            Ok(claim)
        })
        .collect()
}

fn pod(group: &ReplicaGroup, name: &str, ordinal: u32, settings: &Settings) -> Result<Value, BuildError> {
    let mut pod = template(group, settings)?;
    let revision = revision(&pod);
    let form = || BuildError::Form("template has to be an object".into());
    let whole = pod.as_object_mut().ok_or_else(form)?;
    whole.insert("apiVersion".into(), "v1".into());
    whole.insert("kind".into(), "Pod".into());
    let metadata = object(whole, "metadata", "template")?;
    metadata.insert("name".into(), name.into());
    metadata.insert("namespace".into(), group.namespace().ok_or(BuildError::NotStored("namespace"))?.into());
    metadata.insert("ownerReferences".into(), json!([owner(group)?]));
    let hash = template_hash(group);
    object(metadata, "annotations", "template.metadata")?.insert(ANNOTATION_TEMPLATE.into(), hash.into());
    let labels = object(metadata, "labels", "template.metadata")?;
    for (key, value) in [(LABEL_REVISION, revision), (LABEL_POD, name.to_owned()), (LABEL_INDEX, ordinal.to_string())] {
        labels.insert(key.into(), value.into());
    }
    let spec = object(whole, "spec", "template")?;
    lives_on(spec)?;
    spec.insert("hostname".into(), name.into());
    spec.insert("subdomain".into(), group.name_any().into());
    mount(group, name, spec)?;
    Ok(pod)
}

/// A pod of a member goes on until it is deleted. The API server refuses the other ways in the template of a StatefulSet, and not in a pod.
fn lives_on(spec: &Map<String, Value>) -> Result<(), BuildError> {
    let policy = spec.get("restartPolicy").and_then(Value::as_str).unwrap_or("Always");
    let ends = spec.get("activeDeadlineSeconds").is_some_and(|deadline| !deadline.is_null());
    match (policy, ends) {
        ("Always", false) => Ok(()),
        ("Always", true) => Err(BuildError::Form("a member has no activeDeadlineSeconds".into())),
        _ => Err(BuildError::Form(format!("restartPolicy of a member has to be Always, not {policy}"))),
    }
}

/// Each claim is the volume with the name of its template, in place of one that the pod template has under that name.
fn mount(group: &ReplicaGroup, member: &str, spec: &mut Map<String, Value>) -> Result<(), BuildError> {
    let volumes = list(spec, "volumes", "template.spec")?;
    for claim in &group.spec.volume_claim_templates {
        let volume = &claim.metadata.name;
        volumes.retain(|other| other.get("name").and_then(Value::as_str) != Some(volume));
        volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": format!("{volume}-{member}")}}));
    }
    Ok(())
}
