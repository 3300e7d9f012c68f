//! A group as a user writes it, and everything that is made of it without a cluster.
use crate::sentence::{self, ESCAPED};
use serde_json::Value;
use tanist_api::validate::{self, read_override};
use tanist_api::{ANNOTATION_OVERRIDE, ReplicaGroup};
use tanist_cluster::objects::{Settings, TemplateNote, desired, template_hash};

/// Bytes of a sentence about a group, without what it quotes.
const SAID: usize = 1 << 10;

/// The bytes as the JSON of a group.
pub fn run(bytes: &[u8]) {
    let group: ReplicaGroup = match serde_json::from_slice(bytes) {
        Ok(group) => group,
        Err(why) => return sentence::check(&sentence::shown(&why.to_string()), SAID + ESCAPED * bytes.len(), bytes),
    };
    let written = serde_json::to_value(&group).unwrap_or_default();
    let read = serde_json::from_value::<ReplicaGroup>(written.clone());
    assert_eq!(read.as_ref().ok(), Some(&group), "what was written is not read back");
    let again = serde_json::to_value(read.unwrap_or_else(|_| group.clone())).unwrap_or_default();
    assert_eq!(again, written, "the second writing is another one");
    match validate::group(&group, "cluster.local") {
        Ok(valid) => {
            assert_eq!(valid.commands.status.exec, group.spec.commands.status.exec);
            assert!(valid.primaries <= valid.replicas, "more primaries than members");
            valid
                .override_error
                .iter()
                .for_each(|why| sentence::check(&sentence::shown(why), SAID + ESCAPED * bytes.len(), bytes));
        }
        Err(why) => sentence::check(&why.to_string(), SAID, bytes),
    }
    build(&group, bytes);
    if let Some(Err(why)) = group
        .metadata
        .annotations
        .iter()
        .flatten()
        .find(|(k, _)| *k == ANNOTATION_OVERRIDE)
        .map(|(_, raw)| read_override(raw))
    {
        sentence::check(&sentence::shown(&why), SAID + ESCAPED * bytes.len(), bytes);
    }
}

/// The objects of the group. What they are made of is the user's, so building them may fail, with a sentence.
fn build(group: &ReplicaGroup, bytes: &[u8]) {
    let settings = Settings { runner_image: "runner:1".into(), installation: "tanist".into() };
    let note = TemplateNote::next(None, template_hash(group), std::iter::empty(), None, None);
    let build = || desired(group, group.spec.replicas, &settings, &note);
    match build() {
        Ok(objects) => {
            assert_eq!(build().ok().as_ref(), Some(&objects), "equal groups give equal objects");
            assert!(objects.iter().all(is_owned), "an object is nobody's");
        }
        Err(why) => sentence::check(&sentence::shown(&why.to_string()), SAID + ESCAPED * bytes.len(), bytes),
    }
}

fn is_owned(object: &Value) -> bool {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.is_some_and(|owners| owners.len() == 1)
}
