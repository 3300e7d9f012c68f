//! What all rounds of a process share.
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::count::Count;
use crate::hints::Hints;
use crate::objects::Settings;
use crate::slots::Slots;
use kube::ResourceExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tanist_api::ReplicaGroup;
use tokio::sync::Semaphore;

/// Starts a round of the group of that namespace and name.
pub type Wake = Box<dyn Fn(&str, &str) + Send + Sync>;

/// What all rounds share.
pub struct Context {
    /// The cluster that rounds read and write, and in whose members they execute.
    pub cluster: Arc<dyn Cluster>,
    /// The clock for everything that is decided or stored.
    pub clock: Arc<Clock>,
    /// The settings of the installation.
    pub settings: Settings,
    /// The domain of the cluster's DNS names, for instance `cluster.local`.
    pub cluster_domain: String,
    /// What this process remembers between rounds.
    pub hints: Hints,
    /// Slots for short executions: `status`, `sequence` and `settle`.
    pub questions: Slots,
    /// Slots for commands.
    pub commands: Slots,
    /// Turns to read what `spec.update.onConfigChange` follows: [`AT_ONCE`](crate::observe::config::AT_ONCE).
    pub configurations: Semaphore,
    /// Counts what happens.
    pub count: Arc<dyn Count>,
    /// Gives a random number each time, for nonces.
    pub dice: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Starts a round.
    pub wake: Wake,
    /// True after SIGTERM: nothing new starts.
    pub closing: AtomicBool,
}

impl Context {
    /// Starts a round of a group.
    pub fn wake(&self, group: &ReplicaGroup) {
        self.wake_named(&group.namespace().unwrap_or_default(), &group.name_any());
    }

    /// The same, by its name.
    pub fn wake_named(&self, namespace: &str, name: &str) {
        (self.wake)(namespace, name);
    }

    /// Forgets a group that is gone, by its UID.
    pub fn forget(&self, uid: &str) {
        self.hints.forget(uid);
        self.questions.forget(uid);
        self.commands.forget(uid);
    }

    /// Whether the process has received SIGTERM.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }
}
