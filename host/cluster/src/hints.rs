//! What this process remembers between rounds. Safety never depends on it: losing it costs only time.
use crate::cluster;
use crate::observe::{Built, FormerTemplate};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tanist_core::contract::{MemberName, Timestamp};
use tanist_core::evidence::Commands;
use tanist_core::freshness::{Moment, Readings, StatusAnswer};
use tanist_core::snapshot::{Node, Pod};
use tanist_core::status::Failed;

/// The hints of every group, by UID.
#[derive(Debug, Default)]
pub struct Hints {
    groups: Mutex<BTreeMap<String, Group>>,
    ended: Mutex<VecDeque<String>>,
    nodes: Mutex<BTreeMap<String, NodeHint>>,
}

/// How many ended pods are remembered: far more than end in the few minutes in which the answer matters.
const ENDED: usize = 4096;

/// How many nodes are remembered: the largest size of a Kubernetes cluster.
const NODES: usize = 5000;

/// The life of a node that does not exist: no kubelet can report this.
const DELETED: &str = "\0deleted";

/// What is remembered of a node.
#[derive(Debug)]
struct NodeHint {
    /// The text of [`crate::observe::convert::life`]; empty: the node did not report; [`DELETED`]: there was no such node.
    life: String,
    /// Since when, in seconds since 1970, this process has seen it report without a break.
    seen: Timestamp,
    /// Whether this process saw a break before.
    broke: bool,
    /// When it was looked at last, in seconds since 1970.
    looked: Timestamp,
}

/// The hints of one group.
#[derive(Debug, Default)]
pub struct Group {
    /// What its members said of themselves, and when.
    pub readings: Readings,
    /// What is known about how its commands ended.
    pub commands: Commands,
    /// How many rounds of the group this process has begun.
    pub rounds: u64,
    /// What rounds made of objects that stay the same.
    pub built: Built,
    /// Fingerprints of the objects as the API server returned them after the last apply, by kind and name.
    pub applied: BTreeMap<String, String>,
    /// Executions of `status` under way, by pod UID: at most one for each pod.
    pub asking: BTreeMap<String, Asking>,
    /// How long the last `status` took that gave a role, by pod UID.
    pub pace: BTreeMap<String, Duration>,
    /// Objects that are being written, by kind and name.
    pub writing: BTreeSet<String>,
    /// Objects whose last write failed, by kind and name.
    pub unwritten: BTreeMap<String, Unwritten>,
    /// The template that is kept, what else is, and how many at most, as one text. Absent: this process has not looked yet.
    pub kept: Option<String>,
    /// The last template that worked, with its hash. Absent: nobody asked for it yet.
    pub former: Option<(String, FormerTemplate)>,
    /// The configuration that counts, and one that may replace it.
    pub config: Option<crate::observe::config::Settled>,
    /// When and why the numbers of the kept templates could not be read. Absent: they could.
    pub unnumbered: Option<(Moment, cluster::Error)>,
    /// Errors of the last round that were reported as events.
    pub reported: BTreeSet<String>,
    /// Members without a pod, and since when this process has seen that.
    pub missing: BTreeMap<String, Timestamp>,
    /// Since when this process has seen that pods of last primaries are gone, by UID.
    pub gone: BTreeMap<String, Timestamp>,
    /// Since when this process has looked at the group. Absent: it has not.
    pub began: Option<Timestamp>,
    /// Since when this process has seen that a condition of a member holds, by member, word, and what it is about.
    pub holds: BTreeMap<(MemberName, &'static str, Option<String>), Timestamp>,
}

/// The key in [`Group::writing`] and [`Group::unwritten`] of what a member lacks.
#[must_use]
pub fn creation(member: &MemberName) -> String {
    format!("create/{member}")
}

/// By what the write of an object is known while it is under way.
#[must_use]
pub fn write_key(kind: &str, name: &str) -> String {
    format!("{kind}/{name}")
}

impl Group {
    /// Whether that object is being written beside the rounds.
    #[must_use]
    pub fn is_writing(&self, kind: &str, name: &str) -> bool {
        self.writing.contains(&write_key(kind, name))
    }
}

/// A `status` under way.
#[derive(Debug, Clone)]
pub struct Asking {
    /// Its answer. `None` until it has ended.
    pub answer: tokio::sync::watch::Receiver<Option<StatusAnswer>>,
    /// Whether a round went on without waiting for it. Its end then starts the next round.
    pub late: bool,
}

/// An object that could not be written.
#[derive(Debug, Clone)]
pub struct Unwritten {
    /// The hash of the object that could not be written. Another version is tried at once.
    pub desired_hash: String,
    /// When it is tried again.
    pub again: Moment,
    /// The pause before that attempt; the next one is twice as long.
    pub pause: Duration,
    /// What was tried, for events: `apply Service db`.
    pub action: String,
    /// What kind of trouble it is, for conditions.
    pub reason: Failed,
    /// The reason as a sentence.
    pub why: String,
}

impl Group {
    /// A round goes on without waiting for the `status` that runs in that pod for so long. Returns what is known of the member.
    pub fn go_on(&mut self, pod: &Pod, container: &str, waited: Duration) -> StatusAnswer {
        if let Some(asking) = self.asking.get_mut(&pod.uid) {
            asking.late = true;
        }
        self.readings.pending(pod, container, waited)
    }

    /// Notes which of these pods do not exist. Returns since when this process has seen that without a break.
    pub fn see_gone(&mut self, gone: impl IntoIterator<Item = String>, now: Timestamp) -> BTreeMap<String, Timestamp> {
        let known = std::mem::take(&mut self.gone);
        let since = |uid: String| (uid.clone(), known.get(&uid).copied().unwrap_or(now));
        self.gone = gone.into_iter().map(since).collect();
        self.gone.clone()
    }
}

impl Hints {
    /// Runs a function on the hints of a group, under their lock. The lock is never held across an await.
    pub fn with_group<R>(&self, uid: &str, look: impl FnOnce(&mut Group) -> R) -> R {
        look(self.lock().entry(uid.to_owned()).or_default())
    }

    /// Since when this process has looked at the group, in seconds since 1970: from the first time that this is asked.
    pub fn began(&self, uid: &str, now: Timestamp) -> Timestamp {
        self.with_group(uid, |group| *group.began.get_or_insert(now))
    }

    /// Counts the round that begins, and returns its number.
    pub fn next_round(&self, uid: &str) -> u64 {
        self.with_group(uid, |group| {
            group.rounds = group.rounds.saturating_add(1);
            group.rounds
        })
    }

    /// Forgets a group that is gone.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Completes a node with since when this process has seen it report without a break. A different `life` than at the last look is a break.
    pub fn node(&self, name: &str, life: &str, node: Node, now: Timestamp) -> Node {
        let (seen, broke) = self.look_at_node(name, if node.ready { life } else { "" }, now);
        // What this process saw counts more than the time of a kubelet's clock, and no start of reporting lies in the future.
        let since = if broke { seen } else { node.since.min(seen) };
        Node { seen, since, ..node }
    }

    /// Since when this process has seen without a break that there is no such node.
    pub fn deleted_node(&self, name: &str, now: Timestamp) -> Timestamp {
        self.look_at_node(name, DELETED, now).0
    }

    /// Since when a node has been as it is now, and whether this process saw it otherwise before.
    fn look_at_node(&self, name: &str, life: &str, now: Timestamp) -> (Timestamp, bool) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = nodes.remove(name);
        let (seen, broke) = match &known {
            Some(hint) if hint.life == life => (hint.seen, hint.broke),
            known => (now, known.is_some()),
        };
        if nodes.len() >= NODES {
            // Nodes come and go for years. Who was not looked at for longest is gone, or costs only time.
            let oldest = nodes.iter().min_by_key(|(_, hint)| hint.looked).map(|(name, _)| name.clone());
            oldest.and_then(|name| nodes.remove(&name));
        }
        nodes.insert(name.to_owned(), NodeHint { life: life.to_owned(), seen, broke, looked: now });
        (seen, broke)
    }

    /// The number of commands that this process waits for, in all groups.
    pub fn running(&self) -> usize {
        self.lock().values().map(|g| g.commands.under_way().saturating_add(g.readings.under_way())).sum()
    }

    /// Remembers that, by its last status, every container of a pod has ended.
    pub fn end(&self, pod_uid: String) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if !ended.contains(&pod_uid) {
            ended.push_back(pod_uid);
        }
        while ended.len() > ENDED {
            ended.pop_front();
        }
    }

    /// Whether, by its last status, every container of a pod has ended.
    pub fn has_ended(&self, pod_uid: &str) -> bool {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|uid| uid == pod_uid)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Group>> {
        // After a panic under the lock the hints may be incomplete, which is harmless.
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
