//! The configuration that belongs to a template (`spec.update.onConfigChange`, E10, E11): a hash of the data of the ConfigMaps and Secrets that it names. It counts as a part of the template, so that a change of it
//! reaches the pods in the same way.
//!
//! Data is compared, and no metadata. Changes of several count once nothing has changed for a while (E2). While one that a pod needs is not there, or cannot be read, the configuration that counted before goes on to count:
//! a ConfigMap that is deleted restarts nobody, for no pod would start without it.
use super::World;
use crate::cluster::{Error, Kind};
use crate::context::Context;
use futures::{StreamExt, stream};
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tanist_api::spec::Template;
use tanist_api::{ANNOTATION_CONFIG, ReplicaGroup};
use tanist_core::contract::Timestamp;
use tanist_core::freshness::Moment;
use tanist_core::snapshot::Group;
use tokio::time::{Instant, timeout, timeout_at};

/// How long nothing has to change before a change counts (E2).
pub const QUIET: Duration = Duration::from_secs(10);

/// How long a round waits for the configuration.
const READ: Duration = Duration::from_secs(2);

/// The most objects that are read for one group. More are an error that is reported.
const OBJECTS: usize = 64;

/// The most bytes that these may have together. More are an error that is reported.
const BYTES: usize = 8 << 20;

/// How many groups read their configuration at the same time, in the whole process, and how many objects each of them.
pub const AT_ONCE: usize = 4;
const OBJECTS_AT_ONCE: usize = 8;

/// How long a round waits for its turn to read the configuration.
const TURN: Duration = Duration::from_secs(1);

const GOES_ON: &str = "the configuration that the members have goes on to count";

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reading {
    /// No configuration belongs to the template.
    Off,
    /// Its hash. `None`: the template names none.
    Hash(Option<String>),
    /// Why it is not known.
    Trouble(String),
    /// The same: an object that pods need is not there.
    Missing(String),
    /// Other groups read theirs: what counted before goes on to count, and the next look reads it.
    Later,
}

/// The configuration that counts, and one that may replace it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The hash that counts.
    used: Option<String>,
    /// Another one, and since when it has been read without a change.
    next: Option<(Option<String>, Moment)>,
}

impl Settled {
    /// One that counts, of which nobody has read another one.
    pub(super) fn of(used: Option<String>) -> Self {
        Settled { used, next: None }
    }
}

/// What belongs to the template.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Configured {
    /// The hash that counts. `None`: nothing belongs to it.
    pub(super) hash: Option<String>,
    /// Why the present one is not known.
    pub(super) trouble: Option<String>,
    /// Whether that is because an object is not there without which no pod starts.
    pub(super) is_missing: bool,
    /// When the present one counts.
    pub(super) settles: Option<Timestamp>,
}

/// Whether the group's pods get that ConfigMap, and a change of its data counts.
#[must_use]
pub fn follows(group: &ReplicaGroup, config_map: &str) -> bool {
    let named = || {
        references(&group.spec.template).into_keys().any(|(kind, name)| kind == Kind::ConfigMap && name == config_map)
    };
    group.spec.update.on_config_change && named()
}

/// Reads the configuration of a group.
pub(super) async fn read(ctx: &Context, object: &ReplicaGroup, group: &Group) -> Reading {
    let update = &object.spec.update;
    let counts = |kind| if kind == Kind::Secret { update.on_secret_change } else { update.on_config_change };
    if !update.on_config_change && !update.on_secret_change {
        return Reading::Off;
    }
    let named: Vec<_> = references(&object.spec.template).into_iter().filter(|((kind, _), _)| counts(*kind)).collect();
    if named.len() > OBJECTS {
        let count = named.len();
        return Reading::Trouble(format!(
            "spec.template names {count} ConfigMaps and Secrets, and at most {OBJECTS} are followed: name fewer, or set spec.update.onConfigChange and onSecretChange to false"
        ));
    }
    // Few groups at once, and few objects of each: what users may store in them is more than this process may hold.
    let Ok(Ok(_turn)) = timeout(TURN, ctx.configurations.acquire()).await else { return Reading::Later };
    let until = Instant::now() + READ;
    let reads = named.into_iter().map(|((kind, name), is_optional)| async move {
        let read = timeout_at(until, ctx.cluster.get_plain(kind, &group.namespace, &name)).await;
        let silent = || Error::Unreachable(format!("no answer within {} s", READ.as_secs()));
        data((kind, &name), is_optional, read.unwrap_or_else(|_| Err(silent())))
    });
    let mut reads = stream::iter(reads).buffered(OBJECTS_AT_ONCE);
    let (mut all, mut missing, mut trouble) = (Hashed::default(), None, None);
    while let Some(read) = reads.next().await {
        match read {
            Ok(data) => all.add(&data),
            // What is not there says more than what cannot be read.
            Err(Reading::Missing(why)) => missing = missing.or(Some(Reading::Missing(why))),
            Err(why) => trouble = trouble.or(Some(why)),
        }
        if all.bytes > BYTES {
            let most = BYTES >> 20;
            let what = "the ConfigMaps and Secrets that spec.template names have more than";
            let then = "name fewer, or set spec.update.onConfigChange and onSecretChange to false";
            trouble = Some(Reading::Trouble(format!("{what} {most} MiB: {then}; {GOES_ON}")));
            break;
        }
    }
    missing.or(trouble).unwrap_or_else(|| Reading::Hash(all.end()))
}

/// The hash of a list of JSON texts, of which only one is held at a time.
#[derive(Default)]
struct Hashed {
    digest: Sha256,
    objects: usize,
    bytes: usize,
}

impl Hashed {
    fn add(&mut self, value: &Value) {
        let text = value.to_string();
        self.digest.update(if self.objects == 0 { "[" } else { "," });
        self.digest.update(&text);
        self.objects = self.objects.saturating_add(1);
        self.bytes = self.bytes.saturating_add(text.len());
    }

    /// `None`: there was nothing.
    fn end(mut self) -> Option<String> {
        if self.objects == 0 {
            return None;
        }
        self.digest.update("]");
        Some(hex(&self.digest.finalize()))
    }
}

/// What of an object counts.
fn data(
    (kind, name): (Kind, &str),
    is_optional: bool,
    read: Result<Option<Arc<DynamicObject>>, Error>,
) -> Result<Value, Reading> {
    let word = kind.word();
    let then = GOES_ON;
    match read {
        Ok(Some(object)) => {
            let data = json!([object.data.get("data"), object.data.get("binaryData")]);
            // The hash of a password could be guessed by whoever sees it. The UID is seen only by who may read the Secret.
            let data = if kind == Kind::Secret {
                json!(sha256(&format!("{} {data}", object.uid().unwrap_or_default())))
            } else {
                data
            };
            Ok(json!([word, name, data]))
        }
        Ok(None) if is_optional => Ok(json!([word, name])),
        Ok(None) => Err(Reading::Missing(format!(
            "there is no {word} {name}, which spec.template names, so no pod could start: create it, or change spec.template; until then no pod is replaced for an update, and {then}"
        ))),
        Err(error) if error.code() == Some(403) && kind == Kind::Secret => Err(Reading::Trouble(format!(
            "the operator may not read the {word} {name}: give it the right (deploy/rbac/secrets), or set spec.update.onSecretChange to false; {then}"
        ))),
        Err(error) => Err(Reading::Trouble(format!("the {word} {name} cannot be read: {}; {then}", error.words()))),
    }
}

fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text))
}

fn hex(digest: &[u8]) -> String {
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn items(list: Option<&Value>) -> &[Value] {
    list.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The ConfigMaps and Secrets that a template names, and whether pods start without it. Nothing is copied: a change of any ConfigMap of a namespace asks this of every group that follows some.
fn references(template: &Template) -> BTreeMap<(Kind, String), bool> {
    let mut found = BTreeMap::new();
    let Some(spec) = template.spec() else { return found };
    let mut add = |kind: Kind, source: Option<&Value>, key: &str| {
        let Some((source, name)) = source.and_then(|source| Some((source, source.get(key)?.as_str()?))) else { return };
        let is_optional = source.get("optional").and_then(Value::as_bool).unwrap_or(false);
        // One that is needed anywhere is needed.
        let known = found.entry((kind, name.to_owned())).or_insert(is_optional);
        *known = *known && is_optional;
    };
    for volume in items(spec.get("volumes")) {
        add(Kind::ConfigMap, volume.get("configMap"), "name");
        add(Kind::Secret, volume.get("secret"), "secretName");
        for source in items(volume.pointer("/projected/sources")) {
            add(Kind::ConfigMap, source.get("configMap"), "name");
            add(Kind::Secret, source.get("secret"), "name");
        }
    }
    for container in ["initContainers", "containers"].into_iter().flat_map(|list| items(spec.get(list))) {
        for variable in items(container.get("env")) {
            add(Kind::ConfigMap, variable.pointer("/valueFrom/configMapKeyRef"), "name");
            add(Kind::Secret, variable.pointer("/valueFrom/secretKeyRef"), "name");
        }
        for source in items(container.get("envFrom")) {
            add(Kind::ConfigMap, source.get("configMapRef"), "name");
            add(Kind::Secret, source.get("secretRef"), "name");
        }
    }
    found
}

/// What counts, of what was read now and before. `live`: what the `StatefulSet` has. `known`: what this process saw before; a process that begins takes what it reads.
pub(super) fn settle(
    known: &mut Option<Settled>,
    read: Reading,
    live: Option<&str>,
    at: Moment,
    now: Timestamp,
) -> Configured {
    let used = known.as_ref().map_or_else(|| live.map(str::to_owned), |known| known.used.clone());
    let hash = match read {
        // Nobody gets a new pod because changes do not count any more.
        Reading::Off => {
            *known = Some(Settled::of(used.clone()));
            return Configured { hash: used, ..Configured::default() };
        }
        Reading::Later => return Configured { hash: used, ..Configured::default() },
        Reading::Trouble(trouble) => return Configured { hash: used, trouble: Some(trouble), ..Configured::default() },
        Reading::Missing(trouble) => {
            return Configured { hash: used, trouble: Some(trouble), is_missing: true, settles: None };
        }
        Reading::Hash(hash) => hash,
    };
    let before = known.take();
    let since = before.and_then(|before| (before.used != hash).then_some(before)).map(|before| match before.next {
        Some((next, since)) if next == hash => since,
        _ => at,
    });
    let Some(since) = since.filter(|since| at.since(*since) < QUIET) else {
        *known = Some(Settled::of(hash.clone()));
        return Configured { hash, ..Configured::default() };
    };
    *known = Some(Settled { used: used.clone(), next: Some((hash, since)) });
    let left = QUIET.saturating_sub(at.since(since)).as_secs().saturating_add(1);
    Configured {
        hash: used,
        trouble: None,
        is_missing: false,
        settles: Some(now.saturating_add(i64::try_from(left).unwrap_or(i64::MAX))),
    }
}

/// The group with the configuration that counts, as pods are made from it.
pub(super) fn with(object: &Arc<ReplicaGroup>, hash: Option<String>) -> Arc<ReplicaGroup> {
    let has = object.annotations().contains_key(ANNOTATION_CONFIG);
    let Some(hash) = hash else {
        if !has {
            return object.clone();
        }
        let mut group = ReplicaGroup::clone(object);
        group.annotations_mut().remove(ANNOTATION_CONFIG);
        return Arc::new(group);
    };
    let mut group = ReplicaGroup::clone(object);
    group.annotations_mut().insert(ANNOTATION_CONFIG.to_owned(), hash);
    Arc::new(group)
}

impl World {
    /// The configuration that the template of the `StatefulSet` has.
    pub(super) fn live_config(&self) -> Option<&str> {
        if self.makes_pods.is_some() {
            return self.annotations()?.get(ANNOTATION_CONFIG).map(String::as_str);
        }
        let template = &self.set.as_ref()?.spec.as_ref()?.template;
        template.metadata.as_ref()?.annotations.as_ref()?.get(ANNOTATION_CONFIG).map(String::as_str)
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
