//! Builds the `StatefulSet` and its pod template.
use super::{BuildError, Settings, TemplateNote, app_labels, config_of, runner, template_hash};
use kube::ResourceExt;
use serde_json::{Map, Value, json};
use tanist_api::spec::default;
use tanist_api::{ANNOTATION_CONFIG, ANNOTATION_TEMPLATE, ANNOTATION_VERSION, GATE_MEMBER, LABEL_GROUP, ReplicaGroup};
use tanist_protocol::place;

/// The label of a node.
const HOST: &str = "kubernetes.io/hostname";

/// The `StatefulSet` (row A45). It creates all pods at once and replaces none by itself: policies decide about order, and plans about replacing
/// pods. It never deletes a claim.
pub(super) fn set(
    group: &ReplicaGroup,
    replicas: u32,
    settings: &Settings,
    note: &TemplateNote,
) -> Result<Value, BuildError> {
    let name = group.name_any();
    // A pod says from which `spec.template` it was made. Its revision alone does not: the template may have changed again before anybody saw the pod.
    let mut template = template(group, settings)?;
    if let Some(template) = template.as_object_mut().filter(|_| note.marks) {
        let metadata = object(template, "metadata", "template")?;
        object(metadata, "annotations", "template.metadata")?
            .insert(ANNOTATION_TEMPLATE.into(), template_hash(group).into());
    }
    let mut spec = json!({
        "replicas": replicas,
        "serviceName": name,
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete"},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "selector": {"matchLabels": {LABEL_GROUP: name}},
        "template": template
    });
    if !group.spec.volume_claim_templates.is_empty() {
        let claims = serde_json::to_value(&group.spec.volume_claim_templates);
        let claims =
            claims.map_err(|e| BuildError::Form(format!("spec.volumeClaimTemplates cannot be written: {e}")))?;
        spec.as_object_mut().map(|spec| spec.insert("volumeClaimTemplates".into(), claims));
    }
    let metadata = json!({"name": name, "annotations": {ANNOTATION_TEMPLATE: note.text()}});
    Ok(json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}))
}

/// The user's template with what makes a pod a member.
pub(super) fn template(group: &ReplicaGroup, settings: &Settings) -> Result<Value, BuildError> {
    let mut template = group.spec.template.0.clone();
    let labels = object(object(&mut template, "metadata", "template")?, "labels", "template.metadata")?;
    for (key, value) in app_labels(group) {
        labels.entry(key).or_insert(value);
    }
    labels.insert(LABEL_GROUP.into(), group.name_any().into());

    let notes = [(ANNOTATION_CONFIG, config_of(group)), (ANNOTATION_VERSION, group.spec.version.as_deref())];
    for (key, note) in notes.into_iter().filter_map(|(key, note)| Some((key, note?))) {
        let annotations = object(object(&mut template, "metadata", "template")?, "annotations", "template.metadata")?;
        annotations.insert(key.into(), note.into());
    }
    let spec = object(&mut template, "spec", "template")?;
    unless_set(spec, "terminationGracePeriodSeconds", default::GRACE);
    unless_set(spec, "automountServiceAccountToken", false);
    spread(group, spec)?;
    let gates = list(spec, "readinessGates", "template.spec")?;
    let gate = json!({"conditionType": GATE_MEMBER});
    if !gates.contains(&gate) {
        gates.push(gate);
    }
    for kind in ["initContainers", "containers"] {
        for container in containers(spec, kind)? {
            introduce(group, container?)?;
        }
    }
    match group.spec.has_runner() {
        true => runner::inject(group, settings, spec)?,
        false => runner::stop_by_hook(group, spec)?,
    }
    Ok(template.into())
}

/// Spreads members over nodes and zones where possible, so that the loss of one costs one member. If the template sets one of the two fields,
/// even to an empty list or object, the user's value stays.
fn spread(group: &ReplicaGroup, spec: &mut Map<String, Value>) -> Result<(), BuildError> {
    let members = json!({"matchLabels": {LABEL_GROUP: group.name_any()}});
    let apart = json!({"weight": 100, "podAffinityTerm": {"topologyKey": HOST, "labelSelector": members}});
    let preference = json!({"preferredDuringSchedulingIgnoredDuringExecution": [apart]});
    unless_set(object(spec, "affinity", "template.spec")?, "podAntiAffinity", preference);
    let even = |key: &str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": members});
    unless_set(spec, "topologySpreadConstraints", json!([even(group.spec.zones.label()), even(HOST)]));
    Ok(())
}

/// Adds the environment variables that tell a container its identity, unless the user sets them. Ours come first, so that the user's may refer
/// to them.
fn introduce(group: &ReplicaGroup, container: &mut Map<String, Value>) -> Result<(), BuildError> {
    let from = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    let ours = vec![
        json!({"name": "POD_NAME", "valueFrom": from("metadata.name")}),
        json!({"name": "POD_NAMESPACE", "valueFrom": from("metadata.namespace")}),
        json!({"name": "SERVICE_NAME", "value": group.name_any()}),
        json!({"name": place::POD_UID, "valueFrom": from("metadata.uid")}),
    ];
    add_env(container, ours)
}

/// Adds environment variables to a container, before its own, unless the user sets them.
pub(super) fn add_env(container: &mut Map<String, Value>, ours: Vec<Value>) -> Result<(), BuildError> {
    let env = list(container, "env", "a container of template.spec")?;
    let missing = |own: &Value| !env.iter().any(|theirs| theirs.get("name") == own.get("name"));
    let mut all: Vec<Value> = ours.into_iter().filter(missing).collect();
    all.append(env);
    *env = all;
    Ok(())
}

/// The containers of a list of the pod spec, each as an object. Empty if there is no such list.
pub(super) fn containers<'a>(
    spec: &'a mut Map<String, Value>,
    kind: &'static str,
) -> Result<impl Iterator<Item = Result<&'a mut Map<String, Value>, BuildError>>, BuildError> {
    let not_an_object = move || BuildError::Form(format!("every item of template.spec.{kind} has to be an object"));
    let items = match spec.get_mut(kind) {
        None | Some(Value::Null) => None,
        Some(Value::Array(items)) => Some(items),
        Some(_) => return Err(BuildError::Form(format!("template.spec.{kind} has to be a list"))),
    };
    Ok(items.into_iter().flatten().map(move |item| item.as_object_mut().ok_or_else(not_an_object)))
}

/// A field that is an object. It is created if it is missing.
pub(super) fn object<'a>(
    parent: &'a mut Map<String, Value>,
    key: &str,
    of: &str,
) -> Result<&'a mut Map<String, Value>, BuildError> {
    let field = parent.entry(key).or_insert(Value::Null);
    if field.is_null() {
        *field = json!({});
    }
    field.as_object_mut().ok_or_else(|| BuildError::Form(format!("{key} of {of} has to be an object")))
}

/// A field that is a list. It is created if it is missing.
pub(super) fn list<'a>(
    parent: &'a mut Map<String, Value>,
    key: &str,
    of: &str,
) -> Result<&'a mut Vec<Value>, BuildError> {
    let field = parent.entry(key).or_insert(Value::Null);
    if field.is_null() {
        *field = json!([]);
    }
    field.as_array_mut().ok_or_else(|| BuildError::Form(format!("{key} of {of} has to be a list")))
}

/// Sets a field unless the user has set it.
pub(super) fn unless_set(parent: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    let field = parent.entry(key).or_insert(Value::Null);
    if field.is_null() {
        *field = value.into();
    }
}
