//! The store of policies: sources feed it in the background, and a round only looks up what is ready. It never waits for loading, compiling, files or the
//! API server.
//!
//! What happens when is decided by the pure part ([`state`], [`progress`], [`queue`], [`swaps`], [`good`]); this file does the input and output.
pub mod good;
mod progress;
pub mod queue;
pub mod state;
pub mod swaps;
pub mod work;

use super::Error;
use super::copies;
use super::examined::Examined;
use super::read;
use super::source::{Content, Origin};
use futures::channel::mpsc::UnboundedSender;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::runtime::reflector::{ObjectRef, Store as Cache};
use queue::Failure;
use state::State;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tanist_api::ReplicaGroup;
use tokio::sync::{Notify, Semaphore};
use tracing::{info, warn};
use work::{GroupRef, Work};

/// Requests about copies at the same time, of each kind. After a start all groups want theirs, and rounds need the API server, too. Reads have their own: groups wait for them, and a webhook that is slow
/// answers writes alone.
const READS: usize = 8;
const WRITES: usize = 4;

/// Makes a policy of a source's bytes. This takes long, and for hostile bytes as long as its limits allow.
pub trait Compiler: Send + Sync + 'static {
    /// Makes the policy. The future must not block; it is dropped only when the process ends.
    ///
    /// # Errors
    /// Why the bytes are no policy that can be used, or that the machine was too busy.
    fn compile(&self, content: Content) -> BoxFuture<'static, Result<Examined, Failure>>;
}

/// The policies of all groups, with the sources and copies that they are loaded from.
pub struct Store {
    state: Mutex<State<Examined>>,
    compiler: Arc<dyn Compiler>,
    client: Client,
    wake: UnboundedSender<ObjectRef<ReplicaGroup>>,
    directory: Option<PathBuf>,
    config_maps: Mutex<BTreeMap<String, Cache<ConfigMap>>>,
    /// Bytes of a policy.
    limit: usize,
    changed: Notify,
    reads: Semaphore,
    writes: Semaphore,
}

impl Store {
    /// An empty store. `wake`: starts a round of a group. `limit`: bytes of a policy.
    pub fn new(
        compiler: Arc<dyn Compiler>,
        client: Client,
        wake: UnboundedSender<ObjectRef<ReplicaGroup>>,
        directory: Option<PathBuf>,
        limit: usize,
    ) -> Self {
        Store {
            state: Mutex::default(),
            compiler,
            client,
            wake,
            directory,
            config_maps: Mutex::default(),
            limit,
            changed: Notify::new(),
            reads: Semaphore::new(READS),
            writes: Semaphore::new(WRITES),
        }
    }

    /// What the store knows. Nobody waits for anything while holding it.
    pub fn state(&self) -> MutexGuard<'_, State<Examined>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There may be more to do.
    pub fn changed(&self) {
        self.changed.notify_one();
    }

    /// Adds the cache of labelled `ConfigMap`s of a namespace.
    pub fn add_config_maps(&self, namespace: &str, cache: Cache<ConfigMap>) {
        self.config_maps.lock().unwrap_or_else(PoisonError::into_inner).insert(namespace.to_owned(), cache);
    }

    /// Feeds the store until the process ends.
    pub async fn run(&self) {
        let mut running = FuturesUnordered::new();
        loop {
            let began = Instant::now();
            let (work, next) = self.begin(began);
            running.extend(work.into_iter().map(|work| self.carry_out(work)));
            if let Some(rest) = queue::rest_after(began.elapsed()) {
                // What was begun goes on.
                let ended = async { running.by_ref().for_each(|()| std::future::ready(())).await };
                let _ = futures::future::join(tokio::time::timeout(rest, ended), tokio::time::sleep(rest)).await;
            }
            let later = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = later => {}
                Some(()) = running.next(), if !running.is_empty() => {}
            }
        }
    }

    /// What is to be done now, and when to look again. Wakes the groups that see something else than before.
    fn begin(&self, now: Instant) -> (Vec<Work>, Option<Instant>) {
        let mut state = self.state();
        let work = state.todo(now);
        for group in state.take_woken() {
            // The receiver is gone only while the process is ending.
            let _ = self.wake.unbounded_send(ObjectRef::new(&group.name).within(&group.namespace));
        }
        (work, state.next(now))
    }

    /// Does one thing and tells the state what came of it.
    async fn carry_out(&self, work: Work) {
        match work {
            Work::Read(origin) => self.read(&origin).await,
            Work::Compile(content) => self.compile(content).await,
            Work::List(group) => {
                let listed = self.request(&self.reads, &group, "list", copies::list(&self.client, &group)).await;
                self.state().listed(&group.uid, listed, Instant::now());
            }
            Work::Fetch(group, name) => {
                let read = self.request(&self.reads, &group, "read", copies::read(&self.client, &group, &name)).await;
                self.state().fetched(&group.uid, &name, read, Instant::now());
            }
            Work::Copy(group, note, content) => {
                let writing = copies::store(&self.client, &group, &note, content.as_ref());
                let written = self.request(&self.writes, &group, "write", writing).await;
                self.state().copied(&group.uid, &note, written, Instant::now());
            }
            Work::Remove(group, name) => {
                let removed =
                    self.request(&self.writes, &group, "remove", copies::remove(&self.client, &group, &name)).await;
                self.state().removed(&group.uid, &name, removed.is_ok(), Instant::now());
            }
        }
    }

    async fn request<T>(
        &self,
        slots: &Semaphore,
        group: &GroupRef,
        verb: &str,
        request: impl Future<Output = Result<T, String>>,
    ) -> Result<T, String> {
        // The semaphore is never closed.
        let _slot = slots.acquire().await;
        let done = request.await;
        if let Err(error) = &done {
            let (namespace, group) = (&group.namespace, &group.name);
            warn!(namespace, group, verb, error, "a copy of a policy could not be handled; this is tried again");
        }
        done
    }

    async fn read(&self, origin: &Origin) {
        match origin {
            Origin::ConfigMap { namespace, .. } => {
                let cache = self.config_maps.lock().unwrap_or_else(PoisonError::into_inner).get(namespace).cloned();
                let (of, limit) = (origin.clone(), self.limit);
                // The digest of a large policy takes milliseconds.
                let read = tokio::task::spawn_blocking(move || read::config_map(cache.as_ref(), &of, limit)).await;
                self.shows(origin, read.unwrap_or(Err(Error::Compile)));
            }
            Origin::File { name, .. } => self.read_file(origin, name).await,
            Origin::BuiltinScript { name, .. } => self.shows(origin, read::builtin_script(name)),
            Origin::Builtin(_) => {}
        }
    }

    /// Reads a file. If its volume does not answer in time the source has failed, and is not read again until that attempt has ended: each attempt
    /// holds a thread.
    async fn read_file(&self, origin: &Origin, name: &str) {
        let Some(directory) = self.directory.clone() else {
            return self.shows(origin, Err(Error::FindDirectory(name.to_owned())));
        };
        let (limit, file) = (self.limit, name.to_owned());
        let mut reading = tokio::task::spawn_blocking(move || read::file(&directory, &file, limit));
        let read = match tokio::time::timeout(read::READ, &mut reading).await {
            Ok(read) => read,
            Err(_) => {
                self.state().is_silent(origin, read::silent(name).to_string(), Instant::now());
                self.changed();
                reading.await
            }
        };
        self.shows(origin, read.unwrap_or(Err(Error::Compile)));
    }

    fn shows(&self, origin: &Origin, shown: Result<Content, Error>) {
        self.state().read(origin, shown.map_err(|error| error.to_string()), Instant::now());
    }

    async fn compile(&self, content: Content) {
        let digest = content.digest.clone();
        let began = Instant::now();
        let made = self.compiler.compile(content).await;
        let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        match &made {
            Ok(made) => {
                info!(
                    digest,
                    millis,
                    policy = made.policy.name().name,
                    exam = made.sentence(None),
                    "a policy was loaded"
                )
            }
            Err(failure) => info!(digest, millis, why = failure.why, "a policy could not be loaded"),
        }
        self.state().compiled(&digest, made, Instant::now());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
mod tests;
