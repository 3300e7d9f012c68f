//! Builds the `ControllerRevision` that stores a template of a group (E3).
use super::{BuildError, Settings, finish};
use kube::ResourceExt;
use serde_json::{Value, json};
use tanist_api::{
    ANNOTATION_CAUSE, ANNOTATION_CONFIG, ANNOTATION_REVISION, ANNOTATION_TEMPLATE, ANNOTATION_VERSION, LABEL_GROUP,
    LABEL_TEMPLATE_OF, ReplicaGroup,
};

/// How much of a template's hash is in a name: enough to tell a thousand templates apart, and more than the StatefulSet's controller puts into its own.
const DIGITS: usize = 16;

/// The group's `spec.template` as it is, to be stored under that number. `hash`: [`template_hash`](super::template_hash). The same template has the same name, so one that
/// comes back is stored once, under its latest number, as with a Deployment.
///
/// # Errors
/// When the group was not read from the API server.
pub fn revision(group: &ReplicaGroup, settings: &Settings, hash: &str, number: u64) -> Result<Value, BuildError> {
    let mut annotations = json!({ANNOTATION_REVISION: number.to_string(), ANNOTATION_TEMPLATE: hash});
    for key in [ANNOTATION_CAUSE, ANNOTATION_CONFIG] {
        if let (Some(note), Some(annotations)) = (group.annotations().get(key), annotations.as_object_mut()) {
            annotations.insert(key.into(), note.clone().into());
        }
    }
    if let (Some(version), Some(annotations)) = (&group.spec.version, annotations.as_object_mut()) {
        annotations.insert(ANNOTATION_VERSION.into(), version.clone().into());
    }
    let kept = json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": revision_name(&group.name_any(), hash), "annotations": annotations},
        // As a StatefulSet's controller keeps its templates.
        "data": {"spec": {"template": group.spec.template}},
        "revision": number
    });
    let mut kept = finish(group, settings, kept)?;
    if let Some(labels) = kept.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(LABEL_GROUP);
        labels.insert(LABEL_TEMPLATE_OF.into(), group.name_any().into());
    }
    Ok(kept)
}

/// The name of the `ControllerRevision` that stores a template of a group.
#[must_use]
pub fn revision_name(group: &str, hash: &str) -> String {
    let digits: String = hash.chars().take(DIGITS).collect();
    format!("{group}-{digits}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
mod tests {
    use super::*;
    use crate::objects::template_hash;

    fn group(image: &str) -> ReplicaGroup {
        let changes = json!({
            "metadata": {"name": "db", "namespace": "shop", "uid": "u", "annotations": {ANNOTATION_CAUSE: "a new image", "other": "x"}},
            "spec": {"template": {"spec": {"containers": [{"name": "db", "image": image, "unknown": {"kept": 1}}]}}},
        });
        tanist_api::examples::group(&changes).unwrap()
    }

    fn made(image: &str, number: u64) -> Value {
        let settings = Settings { runner_image: "runner:1".into(), installation: "tanist".into() };
        revision(&group(image), &settings, &template_hash(&group(image)), number).unwrap()
    }

    // E3: what is kept is what the user wrote, without what a pod gets in addition.
    #[test]
    fn the_template_is_kept_as_it_was_written() {
        let first = made("db:1", 3);
        let template = json!({"spec": {"containers": [{"name": "db", "image": "db:1", "unknown": {"kept": 1}}]}});
        assert_eq!((&first["data"]["spec"]["template"], &first["revision"]), (&template, &json!(3)));
        let annotations = first["metadata"]["annotations"].as_object().unwrap();
        assert_eq!(
            (&annotations[ANNOTATION_REVISION], &annotations[ANNOTATION_CAUSE]),
            (&json!("3"), &json!("a new image"))
        );
        assert!(!annotations.contains_key("other"));
        assert_eq!(first["metadata"]["ownerReferences"][0]["uid"], "u", "it goes with its group");
        let labels = first["metadata"]["labels"].as_object().unwrap();
        assert_eq!(
            (labels.get(LABEL_GROUP), &labels[LABEL_TEMPLATE_OF]),
            (None, &json!("db")),
            "no controller of a StatefulSet finds it"
        );
    }

    #[test]
    fn the_same_template_has_the_same_name() {
        let name = |made: &Value| made["metadata"]["name"].as_str().unwrap().to_owned();
        assert_eq!(name(&made("db:1", 3)), name(&made("db:1", 5)));
        assert_ne!(name(&made("db:1", 3)), name(&made("db:2", 3)));
        assert_eq!(name(&made("db:1", 1)).len(), "db-".len() + DIGITS);
    }
}
