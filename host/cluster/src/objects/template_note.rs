//! Records which pods run the group's `spec.template`, and which an older one.
//!
//! Kubernetes distinguishes pods by the revision of the StatefulSet's template. A new version of the operator may make another revision of the same
//! `spec.template`, for instance with another image of the runner. Only a change by the user makes a group unready, so the two have to be
//! distinguished: a note on the StatefulSet holds the hash of `spec.template`, its number, and the revisions that existed when it last changed.
//!
//! Templates of a group are numbered as kubectl numbers those of a Deployment: one that comes back gets a new number. The numbers are those of the
//! `ControllerRevision`s that store the templates (`act/revisions.rs`), so that they go on when the StatefulSet is made anew.
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use tanist_api::spec::Template;
use tanist_api::{ANNOTATION_CONFIG, ANNOTATION_TEMPLATE, ReplicaGroup};
use tanist_core::version;

/// The value of the annotation [`ANNOTATION_TEMPLATE`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateNote {
    /// SHA-256 of `spec.template` in hexadecimal digits.
    pub hash: String,
    /// Revisions of the pods' template that were made from an older `spec.template`.
    pub older: BTreeSet<String>,
    /// The number of this `spec.template`, from 1. 0: not known yet.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub number: u64,
    /// The numbers of the templates from which the older revisions were made, as far as they are known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, u64>,
    /// Whether the pods of a StatefulSet say of which template they are. A template that a release from before applied stays as it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub marks: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_unknown(number: &u64) -> bool {
    *number == 0
}

/// The numbers that templates of a group have, by the `ControllerRevision`s that store them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The highest one. 0: there is none.
    pub highest: u64,
    /// The hash of the template that has it.
    pub latest: String,
}

impl Numbers {
    /// The number of a template that has none yet.
    fn of(&self, hash: &str) -> u64 {
        if self.highest > 0 && self.latest == hash { self.highest } else { self.highest.saturating_add(1) }
    }
}

impl TemplateNote {
    /// Reads the note of a StatefulSet. `None`: the previous release applied it, or it was edited by hand; then no pod counts as older.
    #[must_use]
    pub fn read(annotations: &BTreeMap<String, String>) -> Option<Self> {
        serde_json::from_str(annotations.get(ANNOTATION_TEMPLATE)?).ok()
    }

    /// Whether the note that the StatefulSet should have rests on the numbers of the stored templates. `live`: the note that it has.
    #[must_use]
    pub fn needs_numbers(live: Option<&Self>, hash: &str) -> bool {
        live.is_none_or(|live| live.hash != hash || live.number == 0)
    }

    /// The note that the group's StatefulSet should have. `live`: the note that it has. `hash`: [`template_hash`]. `revisions`: those that exist now.
    /// `newest`: as in [`Self::is_older`]. `kept`: `None` if it could not be read, or was not needed.
    #[must_use]
    pub fn next(
        live: Option<&Self>,
        hash: String,
        revisions: impl Iterator<Item = String>,
        newest: Option<&str>,
        kept: Option<&Numbers>,
    ) -> Self {
        let first = kept.map_or(0, |kept| kept.of(&hash));
        match live {
            Some(live) if live.hash == hash && live.number > 0 => live.clone(),
            Some(live) if live.hash == hash => Self { number: first, ..live.clone() },
            Some(live) => {
                let older: BTreeSet<_> = revisions.collect();
                let known = |r: &String| Some((r.clone(), live.number_of(r, newest)?));
                let numbers = older.iter().filter_map(known).collect();
                let number = if live.number > 0 { first.max(live.number.saturating_add(1)) } else { first };
                Self { hash, older, number, numbers, marks: true }
            }
            // Without any pod or revision it is a new StatefulSet.
            None => Self { hash, number: first, marks: revisions.count() == 0, ..Self::default() },
        }
    }

    /// The number of the template from which a pod of that revision was made. `newest`: as in [`Self::is_older`]. `None`: not known.
    #[must_use]
    pub fn number_of(&self, revision: &str, newest: Option<&str>) -> Option<u64> {
        match self.is_older(&self.hash, revision, newest) {
            true => self.numbers.get(revision).copied(),
            false => Some(self.number).filter(|number| *number > 0),
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

/// SHA-256 of the group's `spec.template`, with the configuration that belongs to it ([`config_of`]), and its version.
#[must_use]
pub fn template_hash(group: &ReplicaGroup) -> String {
    hash_of(&group.spec.template, config_of(group), group.spec.version.as_deref())
}

/// SHA-256 of a template, with the hash of the configuration that belongs to it, and the version of the application that it has (`spec.version`).
#[must_use]
pub fn hash_of(template: &Template, config: Option<&str>, version: Option<&str>) -> String {
    let mut text = serde_json::json!(template).to_string();
    let version = version.map(|version| format!("version {}", version::whole(version)));
    for more in config.into_iter().chain(version.as_deref()) {
        text.push('\n');
        text.push_str(more);
    }
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hash of the configuration that belongs to the template. It is an annotation of the group as a round sees it, and never of the one that is stored.
#[must_use]
pub fn config_of(group: &ReplicaGroup) -> Option<&str> {
    group.metadata.annotations.as_ref()?.get(ANNOTATION_CONFIG).map(String::as_str)
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
        next_of(live, image, revisions, None)
    }

    fn next_of(live: Option<&TemplateNote>, image: &str, revisions: &[&str], kept: Option<&Numbers>) -> TemplateNote {
        let newest = revisions.last().copied();
        TemplateNote::next(live, hash(image), revisions.iter().map(ToString::to_string), newest, kept)
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

    // E3: numbers grow by one with each change, and each pod keeps that of its template.
    #[test]
    fn templates_are_numbered() {
        let none = Numbers::default();
        let first = next_of(None, "db:1", &["a"], Some(&none));
        assert_eq!((first.number, first.number_of("a", Some("a"))), (1, Some(1)));
        // Another runner: another revision of the same template.
        assert_eq!(first.number_of("a2", Some("a2")), Some(1));
        let second = next_of(Some(&first), "db:2", &["a", "a2"], None);
        assert_eq!(second.number, 2, "what was kept could not be read");
        let numbers = |note: &TemplateNote, newest| ["a", "a2", "b"].map(|revision| note.number_of(revision, newest));
        assert_eq!(numbers(&second, Some("b")), [Some(1), Some(1), Some(2)]);
        let third = next_of(Some(&second), "db:1", &["a", "a2", "b"], Some(&Numbers { highest: 7, latest: hash("x") }));
        assert_eq!(
            (third.number, &numbers(&third, None)),
            (8, &[Some(1), Some(1), Some(2)]),
            "numbers are never used twice"
        );
        // The template is back, and with it its revision: its pods are new again.
        assert_eq!(numbers(&third, Some("a2")), [Some(1), Some(8), Some(2)]);
        let fourth = next_of(Some(&third), "db:4", &["a2"], Some(&Numbers { highest: 8, latest: hash("db:1") }));
        assert_eq!((fourth.number, fourth.number_of("a2", Some("c"))), (9, Some(8)));
    }

    // The numbers go on when the note is lost with its StatefulSet, and after an operator that does not know them.
    #[test]
    fn a_note_without_numbers_gets_them_from_what_is_kept() {
        let kept = Numbers { highest: 4, latest: hash("db:1") };
        assert_eq!(next_of(None, "db:1", &[], Some(&kept)).number, 4, "it is still the latest one");
        assert_eq!(next_of(None, "db:2", &[], Some(&kept)).number, 5);
        let unnumbered = next(None, "db:1", &["a"]);
        assert_eq!((unnumbered.number, unnumbered.number_of("a", Some("a"))), (0, None));
        assert!(TemplateNote::needs_numbers(Some(&unnumbered), &hash("db:1")));
        assert_eq!(
            unnumbered.text(),
            json!({"hash": hash("db:1"), "older": []}).to_string(),
            "as operators from before write it"
        );
        let numbered = next_of(Some(&unnumbered), "db:1", &["a"], Some(&kept));
        assert_eq!(numbered.number, 4);
        assert!(!TemplateNote::needs_numbers(Some(&numbered), &hash("db:1")));
        assert!(TemplateNote::needs_numbers(Some(&numbered), &hash("db:2")));
        assert!(TemplateNote::needs_numbers(None, &hash("db:1")));
        let text = BTreeMap::from([(ANNOTATION_TEMPLATE.to_owned(), numbered.text())]);
        assert_eq!(TemplateNote::read(&text), Some(numbered));
        // What could not be numbered before a change has no number after it.
        let changed = next_of(Some(&unnumbered), "db:2", &["a"], Some(&kept));
        assert_eq!((changed.number, changed.number_of("a", Some("b"))), (5, None));
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
