//! What a round makes of objects, kept while they stay the same: there are many rounds and few changes.
//!
//! Each entry names what it was made from: the generation of the group, which changes with its spec, or UID and version of an object.
use super::fingerprint;
use crate::objects::{BuildError, Settings, Size, TemplateNote, config_of, desired, template_hash};
use kube::core::ObjectMeta;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tanist_api::ReplicaGroup;
use tanist_api::spec::ClaimTemplate;

/// What was made for one group. Losing it costs only time.
#[derive(Debug, Default)]
pub struct Built {
    /// The hash of the template of that generation, with that configuration.
    template: Option<(i64, Option<String>, String)>,
    desired: Option<Desired>,
    seen: BTreeMap<String, Seen>,
}

/// The desired objects, and all that they were built from beside the settings of the process.
#[derive(Debug)]
struct Desired {
    generation: i64,
    size: Size,
    note: TemplateNote,
    /// These alone may differ in one generation: the `StatefulSet` keeps those that it was made with.
    claims: Vec<ClaimTemplate>,
    objects: Vec<Arc<Value>>,
}

/// The fingerprint of an object in that version.
#[derive(Debug)]
struct Seen {
    uid: Option<String>,
    version: String,
    fingerprint: String,
}

impl Built {
    /// The hash of the group's `spec.template`.
    pub fn template_hash(&mut self, group: &ReplicaGroup) -> String {
        let config = config_of(group).map(str::to_owned);
        let same =
            |made: &(i64, Option<String>, String)| (Some(made.0), &made.1) == (group.metadata.generation, &config);
        let hash = self.template.take().filter(same).map_or_else(|| template_hash(group), |made| made.2);
        self.template = group.metadata.generation.map(|generation| (generation, config, hash.clone()));
        hash
    }

    /// The objects that the group should have.
    ///
    /// # Errors
    /// Those of [`desired`].
    pub fn desired(
        &mut self,
        group: &ReplicaGroup,
        size: impl Into<Size>,
        settings: &Settings,
        note: &TemplateNote,
    ) -> Result<Vec<Arc<Value>>, BuildError> {
        let size = size.into();
        if let Some(made) = &self.desired {
            let same = (Some(made.generation), made.size) == (group.metadata.generation, size);
            if same && made.note == *note && made.claims == group.spec.volume_claim_templates {
                return Ok(made.objects.clone());
            }
        }
        let objects: Vec<_> = desired(group, size, settings, note)?.into_iter().map(Arc::new).collect();
        self.desired = group.metadata.generation.map(|generation| Desired {
            generation,
            size,
            note: note.clone(),
            claims: group.spec.volume_claim_templates.clone(),
            objects: objects.clone(),
        });
        Ok(objects)
    }

    /// The fingerprint of an existing object. `key`: its kind and name.
    pub fn fingerprint(&mut self, key: &str, meta: &ObjectMeta, spec: impl FnOnce() -> Value) -> String {
        let version = meta.resource_version.as_deref().unwrap_or_default();
        let same = |seen: &&Seen| seen.uid == meta.uid && seen.version == version && !version.is_empty();
        if let Some(seen) = self.seen.get(key).filter(same) {
            return seen.fingerprint.clone();
        }
        let made = fingerprint(meta, &spec());
        let seen = Seen { uid: meta.uid.clone(), version: version.to_owned(), fingerprint: made.clone() };
        self.seen.insert(key.to_owned(), seen);
        made
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;
    use serde_json::json;
    use tanist_api::ANNOTATION_CONFIG;

    fn group(generation: Option<i64>, image: &str) -> ReplicaGroup {
        serde_json::from_value(json!({
            "apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup",
            "metadata": {"name": "db", "namespace": "shop", "uid": "u", "generation": generation},
            "spec": {"replicas": 2, "primaries": 1, "template": {"spec": {"containers": [{"name": "db", "image": image}]}}, "commands": {
                "status": {"exec": ["s"]}, "sequence": {"exec": ["q"]}, "stop": {"exec": ["t"]}, "primary": {"exec": ["p"]}
            }}
        }))
        .unwrap()
    }

    // A change of the group, of its size or of the note is seen at once, and what is kept equals what would be built.
    #[test]
    fn what_is_kept_is_what_would_be_built() {
        let settings = Settings { runner_image: "runner:1".into(), installation: "tanist".into() };
        let mut built = Built::default();
        let note = |older: &[&str]| TemplateNote {
            hash: "h".into(),
            older: older.iter().map(ToString::to_string).collect(),
            ..TemplateNote::default()
        };
        // Without a generation nothing is kept.
        for (generation, image, replicas, older) in [
            (Some(1), "db:1", 2, &[][..]),
            (Some(1), "db:1", 2, &[]),
            (Some(2), "db:2", 2, &[]),
            (Some(2), "db:2", 3, &[]),
            (Some(2), "db:2", 3, &["a"]),
            (None, "db:3", 3, &["a"]),
            (None, "db:4", 3, &["a"]),
        ] {
            let (group, note) = (group(generation, image), note(older));
            let kept = built.desired(&group, replicas, &settings, &note).unwrap();
            let made: Vec<_> = desired(&group, replicas, &settings, &note).unwrap().into_iter().map(Arc::new).collect();
            assert_eq!(kept, made, "{generation:?} {image} {replicas} {older:?}");
            assert_eq!(built.template_hash(&group), template_hash(&group), "{generation:?} {image}");
        }
        let first = built.desired(&group(Some(9), "db:1"), 2, &settings, &note(&[])).unwrap();
        let again = built.desired(&group(Some(9), "db:1"), 2, &settings, &note(&[])).unwrap();
        assert!(first.iter().zip(&again).all(|(a, b)| Arc::ptr_eq(a, b)), "the same group is not built again");
    }

    // E10: in one generation another configuration makes another template, and one that comes back the former one.
    #[test]
    fn another_configuration_is_another_template() {
        let mut built = Built::default();
        let mut hash = |config: Option<&str>| {
            let mut group = group(Some(3), "db:1");
            group.metadata.annotations =
                config.map(|config| [(ANNOTATION_CONFIG.to_owned(), config.to_owned())].into());
            built.template_hash(&group)
        };
        let (none, one, two) = (hash(None), hash(Some("1")), hash(Some("2")));
        assert!(none != one && one != two);
        assert_eq!((hash(Some("1")), hash(None)), (one, none));
    }

    // S44: an object that was changed or made anew has another fingerprint; an unchanged one is not read again.
    #[test]
    fn an_object_of_another_version_is_read_again() {
        let mut built = Built::default();
        let meta = |uid: &str, version: &str| ObjectMeta {
            uid: Some(uid.into()),
            resource_version: Some(version.into()),
            ..ObjectMeta::default()
        };
        let first = built.fingerprint("Service/db", &meta("u", "1"), || json!({"type": "a"}));
        assert_eq!(built.fingerprint("Service/db", &meta("u", "1"), || panic!("it is known")), first);
        for (key, uid, version) in
            [("Service/db", "u", "2"), ("Service/db", "v", "2"), ("Service/other", "v", "2"), ("Service/db", "v", "")]
        {
            let made = built.fingerprint(key, &meta(uid, version), || json!({"type": [key, uid, version]}));
            assert_eq!(
                made,
                fingerprint(&meta(uid, version), &json!({"type": [key, uid, version]})),
                "{key} {uid} {version}"
            );
        }
    }
}
