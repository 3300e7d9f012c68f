//! Loads policies: built in, from a `ConfigMap` or from a directory. An edited policy decides from the next question on. A broken edit changes only
//! what the group reports: the last good policy goes on deciding.
mod copies;
pub mod directory;

use crate::api::spec::{ConfigMapKey, Policy as PolicySpec};
use crate::api::status::PolicyStatus;
use crate::api::{LABEL_POLICY, ReplicaGroup};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, ResourceExt};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tanist_core::policy::{Answered, Policies, PolicyName, Question, Unanswered};
use tanist_core::status::PolicyHealth;
use tanist_engine::{Engine, Layer, LoadError, ParametersError, Policy, Stack};
use tracing::warn;

/// The built-in policies, by name: components like any other, built by `make policies` and embedded.
const BUILTIN: [(&str, &[u8]); 1] = [("sequence", include_bytes!(env!("TANIST_POLICY_SEQUENCE")))];

/// Deadline of reading a policy file: its directory may be a volume whose server is gone.
const READ: Duration = Duration::from_secs(5);

/// Why a policy of a group's stack could not be loaded as the spec says.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no built-in policy of that name.
    #[error("there is no built-in policy {0}; built in are: sequence")]
    FindBuiltin(String),
    /// The `ConfigMap` does not exist, or lacks the label.
    #[error(
        "there is no ConfigMap {0} with the label {LABEL_POLICY}: \"true\" in this namespace; create it, or add the label"
    )]
    FindConfigMap(String),
    /// The `ConfigMap` has no such key.
    #[error("ConfigMap {0} has no key {1} in binaryData (components) or data (scripts)")]
    FindKey(String, String),
    /// The policy is a script, which this version cannot run.
    #[error("{0} is a script; this version runs components only: put the built component into binaryData")]
    RunScript(String),
    /// The operator was started without a policy directory.
    #[error("the operator was started without --policy-dir, so the policy file {0} cannot be read")]
    FindDirectory(String),
    /// The policy file cannot be read.
    #[error("failed to read the policy file {0}: {1}")]
    ReadFile(String, #[source] std::io::Error),
    /// Policies from images are not supported by this version.
    #[error("policies from images are not supported by this version; use builtin, configMap or file ({0})")]
    FetchImage(String),
    /// The spec names no source, or several.
    #[error("a policy names exactly one of builtin, configMap, file and image")]
    NameNone,
    /// The bytes are no policy that this version can load.
    #[error("{0}")]
    Load(#[source] LoadError),
    /// Its parameters do not match its schema.
    #[error("the parameters do not fit: {0}")]
    FitParameters(#[source] ParametersError),
    /// The task that compiled it did not finish.
    #[error("compiling the policy was interrupted")]
    Compile,
}

/// Loads policies and remembers the last good ones.
pub struct Sources {
    engine: Engine,
    client: Client,
    directory: Option<PathBuf>,
    config_maps: Mutex<BTreeMap<String, Store<ConfigMap>>>,
    /// The last good layer for each position in each group's stack.
    good: Mutex<BTreeMap<(String, usize), Good>>,
}

#[derive(Clone)]
struct Good {
    layer: Layer,
    source: String,
}

/// A group's stack, ready to be asked.
pub struct Active {
    stack: Option<Stack>,
    /// Whether all policies are loaded, for the conditions.
    pub health: PolicyHealth,
    /// The policies for the status, in the order in which they are asked.
    pub status: Vec<PolicyStatus>,
}

impl Policies for Active {
    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        match &self.stack {
            Some(stack) => stack.ask(question),
            None => {
                let message = match &self.health {
                    PolicyHealth::Active(text) | PolicyHealth::Stale(text) | PolicyHealth::Missing(text) => {
                        text.clone()
                    }
                };
                let none = PolicyName {
                    name: "none".into(),
                    version: String::new(),
                    source: String::new(),
                    digest: String::new(),
                };
                Err(Unanswered { policy: none, kind: "not-loaded", message, notes: vec![] })
            }
        }
    }
}

impl Sources {
    /// Policies that run in that engine. `directory`: where policy files are; `None`: there are none.
    #[must_use]
    pub fn new(engine: Engine, client: Client, directory: Option<PathBuf>) -> Self {
        Sources { engine, client, directory, config_maps: Mutex::default(), good: Mutex::default() }
    }

    /// Adds the cache of labelled `ConfigMap`s of a namespace.
    pub fn add_config_maps(&self, namespace: &str, store: Store<ConfigMap>) {
        self.config_maps.lock().unwrap_or_else(PoisonError::into_inner).insert(namespace.to_owned(), store);
    }

    /// The stack of a group as it is now, last good layers in place of broken ones.
    pub async fn active(&self, object: &ReplicaGroup) -> Active {
        let uid = object.uid().unwrap_or_default();
        let namespace = object.namespace().unwrap_or_default();
        let mut specs = object.spec.policies.clone();
        // The built-in policy answers what no other policy of the stack answers.
        if !specs.iter().any(|p| p.builtin.as_deref() == Some("sequence") && p.points.is_empty()) {
            specs.push(PolicySpec::builtin("sequence"));
        }
        let (mut layers, mut status, mut stale, mut missing) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (place, spec) in specs.iter().enumerate() {
            let source = source(spec);
            let key = (uid.clone(), place);
            let trouble = match self.layer(&namespace, spec, &source).await {
                Ok((layer, bytes)) => {
                    self.remember(object, key.clone(), Good { layer, source: source.clone() }, bytes).await;
                    None
                }
                Err(error) => {
                    self.recall(object, &key, spec, &source).await;
                    Some(error.to_string())
                }
            };
            // A last good layer counts only if it came from the source in the present spec.
            let good = self.lock().get(&key).filter(|g| g.source == source).cloned();
            match (&good, &trouble) {
                (Some(_), None) => {}
                (Some(good), Some(why)) => {
                    stale.push(format!("{source}: {why}; {} goes on deciding", good.layer.policy.name()))
                }
                (None, why) => missing.push(format!("{source}: {}", why.as_deref().unwrap_or("it is not loaded"))),
            }
            status.push(shown(spec, source, good.as_ref().map(|g| &g.layer), trouble));
            layers.extend(good.map(|g| g.layer));
        }
        let names: Vec<_> = layers.iter().map(|l| l.policy.name().to_string()).collect();
        let health = if !missing.is_empty() {
            PolicyHealth::Missing(missing.join("; "))
        } else if !stale.is_empty() {
            PolicyHealth::Stale(stale.join("; "))
        } else {
            PolicyHealth::Active(names.join(", "))
        };
        // If one policy is missing, the group is only observed: the other policies alone may decide differently from what the user intends.
        let stack = missing.is_empty().then(|| Stack::new(layers));
        Active { stack, health, status }
    }

    /// Forgets a group that is gone.
    pub fn forget(&self, uid: &str) {
        self.lock().retain(|(group, _), _| group != uid);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(String, usize), Good>> {
        self.good.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a good layer, and stores a copy of its policy, whose source may be broken after a restart.
    async fn remember(&self, object: &ReplicaGroup, key: (String, usize), good: Good, bytes: Vec<u8>) {
        let digest = good.layer.policy.name().digest.clone();
        let known = self.lock().get(&key).is_some_and(|g| g.layer.policy.name().digest == digest);
        let builtin = good.source.starts_with("builtin/");
        self.lock().insert(key, good);
        if known || builtin {
            return;
        }
        if let Err(error) = copies::store(&self.client, object, &digest, &bytes).await {
            warn!(
                group = object.name_any(),
                error, "the policy could not be copied; after a restart only its source has it"
            );
        }
    }

    /// After a restart: finds in the status which policy decided last, and loads its copy, which goes on deciding.
    async fn recall(&self, object: &ReplicaGroup, key: &(String, usize), spec: &PolicySpec, source: &str) {
        if self.lock().get(key).is_some_and(|g| g.source == source) {
            return;
        }
        let said = object.status.as_ref().and_then(|s| s.policies.get(key.1)).filter(|p| p.source == source);
        let Some(digest) = said.and_then(|p| p.digest.clone()) else { return };
        let Some(bytes) = copies::find(&self.client, object, &digest).await else { return };
        match self.build(spec, source, bytes).await {
            Ok((layer, _)) if layer.policy.name().digest == digest => {
                self.lock().insert(key.clone(), Good { layer, source: source.to_owned() });
            }
            Ok(_) => {
                warn!(group = object.name_any(), source, "the copy of the policy does not have the digest in its name")
            }
            Err(error) => warn!(group = object.name_any(), source, %error, "the copy of the policy cannot be used"),
        }
    }

    async fn layer(&self, namespace: &str, spec: &PolicySpec, source: &str) -> Result<(Layer, Vec<u8>), Error> {
        let bytes = self.bytes(namespace, spec).await?;
        self.build(spec, source, bytes).await
    }

    async fn build(&self, spec: &PolicySpec, source: &str, bytes: Vec<u8>) -> Result<(Layer, Vec<u8>), Error> {
        let (engine, name) = (self.engine.clone(), source.to_owned());
        // Compiling takes long, so it must not block the rounds of other groups.
        let loading = tokio::task::spawn_blocking(move || (Policy::load(&engine, &name, &bytes), bytes));
        let (policy, bytes) = loading.await.map_err(|_| Error::Compile)?;
        let policy = policy.map_err(Error::Load)?;
        let parameters = serde_json::Value::Object(spec.parameters.clone()).to_string();
        let parameters = policy.validate(&parameters).map_err(Error::FitParameters)?;
        let points = (!spec.points.is_empty()).then(|| spec.points.clone());
        Ok((Layer { policy: Arc::new(policy), points, parameters }, bytes))
    }

    async fn bytes(&self, namespace: &str, spec: &PolicySpec) -> Result<Vec<u8>, Error> {
        match (&spec.builtin, &spec.config_map, &spec.file, &spec.image) {
            (Some(name), None, None, None) => {
                let found = BUILTIN.iter().find(|(n, _)| n == name);
                found.map(|(_, bytes)| bytes.to_vec()).ok_or_else(|| Error::FindBuiltin(name.clone()))
            }
            (None, Some(key), None, None) => self.config_map(namespace, key),
            (None, None, Some(file), None) => {
                let directory = self.directory.as_ref().ok_or_else(|| Error::FindDirectory(file.clone()))?;
                let read = tokio::time::timeout(READ, tokio::fs::read(directory.join(file)));
                let read = read.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                read.map_err(|e| Error::ReadFile(file.clone(), e))
            }
            (None, None, None, Some(image)) => Err(Error::FetchImage(image.clone())),
            _ => Err(Error::NameNone),
        }
    }

    fn config_map(&self, namespace: &str, key: &ConfigMapKey) -> Result<Vec<u8>, Error> {
        let stores = self.config_maps.lock().unwrap_or_else(PoisonError::into_inner);
        let found = stores.get(namespace).and_then(|s| s.get(&ObjectRef::new(&key.name).within(namespace)));
        let map = found.ok_or_else(|| Error::FindConfigMap(key.name.clone()))?;
        if let Some(bytes) = map.binary_data.as_ref().and_then(|d| d.get(&key.key)) {
            return Ok(bytes.0.clone());
        }
        match map.data.as_ref().and_then(|d| d.get(&key.key)) {
            Some(_) => Err(Error::RunScript(format!("{}/{}", key.name, key.key))),
            None => Err(Error::FindKey(key.name.clone(), key.key.clone())),
        }
    }
}

/// The text for a policy's source in status and logs.
fn source(spec: &PolicySpec) -> String {
    match (&spec.builtin, &spec.config_map, &spec.file, &spec.image) {
        (Some(name), ..) => format!("builtin/{name}"),
        (_, Some(map), ..) => format!("configmap/{}/{}", map.name, map.key),
        (_, _, Some(file), _) => format!("file/{file}"),
        (.., Some(image)) => format!("image/{image}"),
        _ => "nothing".into(),
    }
}

fn shown(spec: &PolicySpec, source: String, good: Option<&Layer>, trouble: Option<String>) -> PolicyStatus {
    let points = match good {
        Some(layer) if spec.points.is_empty() => layer.policy.points().collect(),
        Some(layer) => spec.points.iter().copied().filter(|p| layer.policy.has(*p)).collect(),
        None => Vec::new(),
    };
    PolicyStatus {
        source,
        name: good.map(|l| l.policy.name().name.clone()),
        version: good.map(|l| l.policy.name().version.clone()),
        digest: good.map(|l| l.policy.name().digest.clone()),
        points,
        state: state(good.is_some(), trouble.is_some()).to_owned(),
        message: trouble.map(|why| why.chars().take(512).collect()),
    }
}

/// The word of the API for the state of a policy.
fn state(loaded: bool, trouble: bool) -> &'static str {
    match (loaded, trouble) {
        (true, false) => "Active",
        (true, true) => "LastGoodDecides",
        (false, _) => "NotLoaded",
    }
}

/// Whether a group uses that `ConfigMap`.
#[must_use]
pub fn uses(object: &ReplicaGroup, config_map: &str) -> bool {
    object.spec.policies.iter().any(|p| p.config_map.as_ref().is_some_and(|c| c.name == config_map))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
mod tests;
