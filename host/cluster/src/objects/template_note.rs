//! Records which pods run the group's `spec.template`, and which an older one.
//!
//! Kubernetes distinguishes pods by the revision of the StatefulSet's template. A new version of the operator may make another revision of the same
//! `spec.template`, for instance with another image of the runner. Only a change by the user makes a group unready, so the two have to be
//! distinguished: a note on the StatefulSet holds the hash of `spec.template`, and the revisions that existed when it last changed.
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use tanist_api::{ANNOTATION_TEMPLATE, ReplicaGroup};

/// The value of the annotation [`ANNOTATION_TEMPLATE`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateNote {
    /// SHA-256 of `spec.template` in hexadecimal digits.
    pub hash: String,
    /// Revisions of the pods' template that were made from an older `spec.template`.
    pub older: BTreeSet<String>,
}

impl TemplateNote {
    /// Reads the note of a StatefulSet. `None`: the previous release applied it, or it was edited by hand; then no pod counts as older.
    #[must_use]
    pub fn read(annotations: &BTreeMap<String, String>) -> Option<Self> {
        serde_json::from_str(annotations.get(ANNOTATION_TEMPLATE)?).ok()
    }

    /// The note that the group's StatefulSet should have. `live`: the note that it has. `hash`: [`template_hash`]. `revisions`: those that exist now.
    #[must_use]
    pub fn next(live: Option<&Self>, hash: String, revisions: impl Iterator<Item = String>) -> Self {
        match live {
            Some(live) if live.hash == hash => live.clone(),
            Some(_) => Self { hash, older: revisions.collect() },
            None => Self { hash, older: BTreeSet::new() },
        }
    }

    /// Whether a pod of that revision was made from an older `spec.template` than the group has, whose hash is given. `newest`: the revision of the StatefulSet's
    /// template as it is now, which may be one of the older ones again after a change was undone; `None`: not known yet.
    #[must_use]
    pub fn is_older(&self, hash: &str, revision: &str, newest: Option<&str>) -> bool {
        // Until the StatefulSet has the new template, no pod can have it.
        self.hash != hash || (newest != Some(revision) && self.older.contains(revision))
    }

    /// The value of the annotation.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::json!(self).to_string()
    }
}

/// SHA-256 of the group's `spec.template`.
#[must_use]
pub fn template_hash(group: &ReplicaGroup) -> String {
    let template = serde_json::json!(group.spec.template).to_string();
    Sha256::digest(template).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;
    use serde_json::json;

    fn group(image: &str) -> ReplicaGroup {
        serde_json::from_value(json!({
            "apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "metadata": {"name": "db"},
            "spec": {"replicas": 2, "primaries": 1, "template": {"spec": {"containers": [{"name": "db", "image": image}]}}, "commands": {
                "status": {"exec": ["s"]}, "sequence": {"exec": ["q"]}, "stop": {"exec": ["t"]}, "primary": {"exec": ["p"]}
            }}
        }))
        .unwrap()
    }

    fn hash(image: &str) -> String {
        template_hash(&group(image))
    }

    fn next(live: Option<&TemplateNote>, image: &str, revisions: &[&str]) -> TemplateNote {
        TemplateNote::next(live, hash(image), revisions.iter().map(ToString::to_string))
    }

    #[test]
    fn pods_are_older_from_the_change_until_they_are_replaced() {
        let first = next(None, "db:1", &["a"]);
        assert!(!first.is_older(&hash("db:1"), "a", Some("a")));
        assert!(first.is_older(&hash("db:2"), "a", Some("a")), "the StatefulSet still has the former template");
        let second = next(Some(&first), "db:2", &["a"]);
        assert!(second.is_older(&hash("db:2"), "a", None), "its controller has not seen the new one yet");
        assert!(second.is_older(&hash("db:2"), "a", Some("b")));
        assert!(!second.is_older(&hash("db:2"), "b", Some("b")));
        assert_eq!(next(Some(&second), "db:2", &["a", "b"]), second, "an unchanged template leaves the note as it is");
        let text = BTreeMap::from([(ANNOTATION_TEMPLATE.to_owned(), second.text())]);
        assert_eq!(TemplateNote::read(&text), Some(second));
    }

    #[test]
    fn a_change_that_is_undone_makes_the_same_pods_new_again() {
        let second = next(Some(&next(None, "db:1", &["a"])), "db:2", &["a"]);
        let third = next(Some(&second), "db:1", &["a", "b"]);
        assert!(!third.is_older(&hash("db:1"), "a", Some("a")));
        assert!(third.is_older(&hash("db:1"), "a", Some("b")), "the StatefulSet has not changed back yet");
    }

    // The previous release wrote no note: its pods count as made from the template of the first look.
    #[test]
    fn another_version_of_the_operator_makes_no_pod_older() {
        let first = next(None, "db:1", &["a"]);
        assert!(!first.is_older(&hash("db:1"), "a", Some("b")));
        let other = BTreeMap::from([(ANNOTATION_TEMPLATE.to_owned(), "{".to_owned())]);
        assert_eq!((TemplateNote::read(&other), TemplateNote::read(&BTreeMap::new())), (None, None));
    }
}
