//! Policies of groups: built in, from a `ConfigMap` or from a directory. An edited policy decides from the next question on. A broken edit changes only
//! what the group reports: the last good policy goes on deciding. Rounds look up what is ready; loading is the [`store`]'s business.
mod active;
pub mod builtin;
pub mod compile;
mod copies;
pub mod directory;
mod examined;
mod in_child;
mod read;
pub mod room;
mod scripts;
mod source;
pub mod store;

pub use active::Active;
pub use read::content_of;
pub use source::text as source_text;

use examined::Examined;
use futures::channel::mpsc::UnboundedSender;
use in_child::InChild;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::reflector::{ObjectRef, Store as Cache};
use kube::runtime::watcher::Event;
use kube::{Client, ResourceExt};
use room::Room;
use source::Origin;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use store::work::{GroupRef, Wanted};
use store::{Compiler, Store};
use tanist_api::spec::Policy as PolicySpec;
use tanist_api::{LABEL_POLICY, ReplicaGroup};
use tanist_engine::{Engine, LoadError};

/// Why a policy of a group's stack could not be loaded as the spec says.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no built-in policy of that name.
    #[error("there is no built-in policy {0}; built in are: {1}")]
    FindBuiltin(String, String),
    /// The `ConfigMap` does not exist, or lacks the label.
    #[error(
        "there is no ConfigMap {0} with the label {LABEL_POLICY}: \"true\" in this namespace; create it, or add the label"
    )]
    FindConfigMap(String),
    /// The `ConfigMap` found no room in the memory of the operator.
    #[error(
        "ConfigMap {0} is left out: the ConfigMaps with the label {LABEL_POLICY}: \"true\" have more than {of} MiB in this namespace, or {all} MiB in all; take the label \
         from those that no group names, then change this one",
        of = room::OF_NAMESPACE / 1024 / 1024, all = room::IN_ALL / 1024 / 1024
    )]
    NoRoom(String),
    /// The `ConfigMap` has no such key.
    #[error("ConfigMap {0} has no key {1} in binaryData (components) or data (scripts)")]
    FindKey(String, String),
    /// A text under a key that is no script's.
    #[error("{0} is text: put a built component into binaryData; the key of a script ends with .star")]
    NameScript(String),
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
    /// The task that read or compiled it did not finish.
    #[error("loading the policy was interrupted")]
    Compile,
}

/// The policies of all groups.
pub struct Sources {
    engine: Engine,
    store: Store,
    room: Mutex<Room>,
}

impl Sources {
    /// Policies that run in that engine. `wake`: starts a round of a group. `directory`: where policy files are; `None`: there are none.
    #[must_use]
    pub fn new(
        engine: Engine,
        client: Client,
        wake: UnboundedSender<ObjectRef<ReplicaGroup>>,
        directory: Option<PathBuf>,
    ) -> Self {
        // There is no other way to make them: no component is compiled in this process.
        let compiler = Arc::new(InChild::new(engine.clone()));
        Self::of(compiler, engine, client, wake, directory)
    }

    /// The same with another compiler, for a test.
    #[cfg(test)]
    pub fn compiled_by(
        compiler: Arc<dyn Compiler>,
        engine: Engine,
        client: Client,
        wake: UnboundedSender<ObjectRef<ReplicaGroup>>,
        directory: Option<PathBuf>,
    ) -> Self {
        Self::of(compiler, engine, client, wake, directory)
    }

    fn of(
        compiler: Arc<dyn Compiler>,
        engine: Engine,
        client: Client,
        wake: UnboundedSender<ObjectRef<ReplicaGroup>>,
        directory: Option<PathBuf>,
    ) -> Self {
        let store = Store::new(compiler, client, wake, directory, engine.limits().component_bytes);
        Sources { engine, store, room: Mutex::default() }
    }

    /// Loads the built-in policies, so that the first round finds them. They are compiled already, unless the engine refuses that.
    ///
    /// # Errors
    /// When one cannot be loaded: this machine cannot run any policy.
    pub async fn load_builtins(&self) -> Result<(), builtin::Error> {
        for each in &builtin::POLICIES {
            let policy = builtin::policy_in_any_case(&self.engine, each).await?;
            self.store.state().add_builtin(each.name, Examined::builtin(policy));
        }
        Ok(())
    }

    /// The same for a test, which has no time to wait.
    #[cfg(test)]
    pub fn have_builtins(&self) {
        for each in &builtin::POLICIES {
            let policy = builtin::policy(&self.engine, each).expect("it is sound");
            self.store.state().add_builtin(each.name, Examined::builtin(policy));
        }
    }

    /// Loads policies in the background until the process ends.
    pub async fn run(&self) {
        self.store.run().await;
    }

    /// Adds the cache of labelled `ConfigMap`s of a namespace.
    pub fn add_config_maps(&self, namespace: &str, cache: Cache<ConfigMap>) {
        self.store.add_config_maps(namespace, cache);
    }

    /// What goes into that cache, by the room that there is ([`room`]).
    pub fn fit(&self, namespace: &str, event: Event<ConfigMap>) -> Event<ConfigMap> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner).fit(namespace, event)
    }

    /// A `ConfigMap` was created, changed or deleted. The groups that use it are woken when there is something new for them.
    pub fn config_map_changed(&self, changed: &ConfigMap) {
        let (namespace, name) = (changed.namespace().unwrap_or_default(), changed.name_any());
        let is_it = |origin: &Origin| matches!(origin, Origin::ConfigMap { namespace: n, name: m, .. } if (n, m) == (&namespace, &name));
        self.store.state().touched(is_it);
        self.store.changed();
    }

    /// The first list of a namespace's `ConfigMap`s is complete, or a later one.
    pub fn config_maps_known(&self, namespace: &str) {
        let mut state = self.store.state();
        state.namespace_known(namespace);
        state.touched(|origin| matches!(origin, Origin::ConfigMap { namespace: n, .. } if n == namespace));
        drop(state);
        self.store.changed();
    }

    /// Something changed in the policy directory.
    pub fn directory_changed(&self) {
        self.store.state().touched(|origin| matches!(origin, Origin::File { .. }));
        self.store.changed();
    }

    /// The stack of a group as it is now, last good layers in place of broken ones. It waits for nothing; what is not ready yet is loaded in the
    /// background, and the group is woken then.
    pub fn active(&self, object: &ReplicaGroup) -> Active {
        let group = GroupRef {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
        };
        let mut specs = object.spec.policies.clone();
        // The built-in policy answers what no other policy of the stack answers.
        if !specs.iter().any(|p| p.builtin.as_deref() == Some("sequence") && p.points.is_empty()) {
            specs.push(PolicySpec::builtin("sequence"));
        }
        let wanted = wanted(&group, object, &specs);
        let fit = |made: &Examined, parameters: &str| {
            made.policy.validate(parameters).map_err(|error| format!("the parameters do not fit: {error}"))
        };
        let mut state = self.store.state();
        let (found, more) = state.look(&group, &wanted, Instant::now(), fit);
        let news = state.take_news(&group.uid);
        drop(state);
        if more {
            self.store.changed();
        }
        let keys = wanted.into_iter().map(|layer| layer.key);
        Active::new(&specs, keys.zip(found).collect(), &news)
    }

    /// Notes how the policies took the questions of a round. One that fails several in a row is replaced by the version before it.
    pub fn note(&self, object: &ReplicaGroup, active: &Active) {
        let uid = object.uid().unwrap_or_default();
        let mut more = false;
        for (key, version, heard) in active.take_heard() {
            more |= self.store.state().heard(&uid, key, version, heard, Instant::now());
        }
        if more {
            self.store.changed();
        }
    }

    /// Forgets a group that is gone.
    pub fn forget(&self, uid: &str) {
        self.store.state().forget(uid);
    }
}

/// The layers of a spec. A layer is found again by its source; the second one of the same source by that and its number.
fn wanted(group: &GroupRef, object: &ReplicaGroup, specs: &[PolicySpec]) -> Vec<Wanted> {
    let said = object.status.as_ref().map(|status| status.policies.as_slice()).unwrap_or_default();
    let mut times = BTreeMap::<String, usize>::new();
    let layer = |spec: &PolicySpec| {
        let source = source::text(spec);
        let occurrence = times.entry(source.clone()).or_default();
        *occurrence += 1;
        let key = if *occurrence == 1 { source.clone() } else { format!("{source}#{occurrence}") };
        let digest = said.iter().find(|policy| policy.source == source).and_then(|policy| policy.digest.clone());
        Wanted {
            key,
            origin: Origin::of(&group.namespace, spec).map_err(|error| error.to_string()),
            parameters: serde_json::Value::Object(spec.parameters.clone()).to_string(),
            points: (!spec.points.is_empty()).then(|| spec.points.clone()),
            former: digest.map(|digest| (digest.clone(), copies::former_name(&group.name, &digest))),
        }
    };
    specs.iter().map(layer).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
mod tests;
