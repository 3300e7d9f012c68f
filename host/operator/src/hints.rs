//! What this process remembers between rounds. Safety never depends on it: losing it costs only time.
use crate::member::{StatusAnswer, unasked};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tanist_core::contract::{MemberName, Phase, Position, Role, Timestamp};
use tanist_core::limits;
use tanist_core::snapshot::{Evidence, Node, Pod};

/// The hints of every group, by UID.
#[derive(Debug, Default)]
pub struct Hints {
    groups: Mutex<BTreeMap<String, Group>>,
    ended: Mutex<VecDeque<String>>,
    nodes: Mutex<BTreeMap<String, NodeHint>>,
}

/// How long an answer of `status` is reused: long enough for a burst of rounds.
pub const RECENT: Duration = Duration::from_secs(2);

/// How old an observation may be to count as present; an execution takes about as long. Before a term opens no older answer counts, and no
/// command starts on an older second look.
pub const FRESH: Duration = Duration::from_millis(250);

/// How many ended pods are remembered: far more than end in the few minutes in which the answer matters.
const ENDED: usize = 4096;

/// How many nodes are remembered: the largest size of a Kubernetes cluster.
const NODES: usize = 5000;

/// What is remembered of a node.
#[derive(Debug)]
struct NodeHint {
    /// The text of [`crate::observe::convert::life`]; empty: the node did not report.
    life: String,
    /// Since when, in seconds since 1970, this process has seen it report without a break.
    seen: Timestamp,
    /// Whether this process saw a break before.
    broke: bool,
}

/// The hints of one group.
#[derive(Debug, Default)]
pub struct Group {
    /// The last known role and since when, by pod UID.
    pub roles: BTreeMap<String, RoleHint>,
    /// The last answer of `status`, by pod UID.
    pub answers: BTreeMap<String, StatusHint>,
    /// When a command was last started or ended, by pod UID. Answers from before that moment do not count any more.
    pub touched: BTreeMap<String, Instant>,
    /// The last position that was read, by pod UID.
    pub positions: BTreeMap<String, PositionHint>,
    /// When data may last have changed: a member may have been primary, the group was paused, or spec or override changed. No seed and no
    /// failover rests on a position that was asked for before.
    pub moved: Option<Instant>,
    /// The generation and the override at the last look. When one of them changes, known positions count as old.
    pub question: Option<(i64, Option<String>)>,
    /// UIDs of pods whose sequence is being read.
    pub reading: BTreeSet<String>,
    /// Commands whose intent is written and that this process is about to start, by token: they must not be
    /// taken for lost.
    pub promised: BTreeSet<String>,
    /// Commands that this process waits for, by token.
    pub running: BTreeSet<String>,
    /// How commands ended, by token.
    pub results: BTreeMap<String, Evidence>,
    /// How many rounds of the group this process has begun.
    pub rounds: u64,
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
    /// Errors of the last round that were reported as events.
    pub reported: BTreeSet<String>,
    /// Members without a pod, and since when this process has seen that.
    pub missing: BTreeMap<String, Timestamp>,
    /// When `status` last gave a role, by member.
    pub contacts: BTreeMap<MemberName, Timestamp>,
    /// Since when this process has seen that a condition of a member holds, by member, word, and what it is about.
    pub holds: BTreeMap<(MemberName, &'static str, Option<String>), Timestamp>,
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
    pub again: Instant,
    /// The pause before that attempt; the next one is twice as long.
    pub pause: Duration,
    /// What was tried, for events: `apply Service db`.
    pub action: String,
    /// The reason in one word, for conditions.
    pub reason: &'static str,
    /// The reason as a sentence.
    pub why: String,
}

/// A role of a member, and when it began.
#[derive(Debug, Clone)]
pub struct RoleHint {
    /// The last role that `status` gave.
    pub role: Role,
    /// Since when it has been so, in seconds since 1970.
    pub since: Timestamp,
}

/// An answer of `status` with its circumstances.
#[derive(Debug, Clone)]
pub struct StatusHint {
    /// When it was asked, before the answer came.
    pub asked: Instant,
    /// When the answer came.
    pub ended: Instant,
    /// The answer.
    pub answer: StatusAnswer,
    /// How many executions in a row gave no role.
    pub streak: u32,
    /// Whether that container was ready then.
    pub ready: bool,
    /// The ID of the container in which it ran.
    pub container_id: Option<String>,
}

/// A position with its circumstances.
#[derive(Debug, Clone)]
pub struct PositionHint {
    /// The ID of the container in which it ran.
    pub container_id: String,
    /// The position.
    pub position: Position,
    /// When it was read, in seconds since 1970, by the clock of decisions.
    pub at: Timestamp,
    /// When it was asked for, before the answer came.
    pub asked: Instant,
    /// When the answer came.
    pub answered: Instant,
    /// The role at that time: a position does not outlive the role in which it was read.
    pub role: Role,
    /// Whether that container was ready at that time.
    pub ready: bool,
    /// Whether a member may have been primary when it was asked for, so that data may have changed.
    pub led: bool,
}

/// The present state of a member, against which a remembered position is compared.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// The container in which `sequence` runs.
    pub container_id: Option<&'a str>,
    /// The role of the member.
    pub role: Role,
    /// Whether that container is ready.
    pub ready: bool,
    /// The time of this look.
    pub at: Instant,
    /// When data may last have changed. `None`: never seen.
    pub moved: Option<Instant>,
}

/// What a remembered position may still be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worth {
    /// Nothing: the member is not in the state in which it was read. The position is forgotten.
    Gone,
    /// Nothing: it is too old, and has to be read again.
    Old,
    /// Enough to choose who joins, for joiners synchronise; not enough for a seed or a failover.
    Moved,
    /// Every decision: the data has not changed since.
    Stands,
}

impl PositionHint {
    /// What the position may be used for now: nothing in another container, in another role, or once a stopped member became ready; and never
    /// longer than [`limits::POSITION_SECONDS`], because a stopped member may have run in between without being observed.
    #[must_use]
    pub fn worth(&self, now: Sight<'_>) -> Worth {
        let same = now.container_id == Some(self.container_id.as_str()) && now.role == self.role;
        let woke = self.role == Role::Stopped && now.ready && !self.ready;
        if !same || woke {
            return Worth::Gone;
        }
        let patience = match self.position {
            Position::Unknown(_) => limits::UNKNOWN_POSITION_SECONDS,
            Position::Known(_) | Position::Empty | Position::NotAsked => limits::POSITION_SECONDS,
        };
        let patience = Duration::from_secs(u64::try_from(patience).unwrap_or(0));
        if now.at.saturating_duration_since(self.answered) >= patience {
            return Worth::Old;
        }
        match self.led || now.moved.is_some_and(|moved| self.asked <= moved) {
            true => Worth::Moved,
            false => Worth::Stands,
        }
    }
}

impl Group {
    /// A command starts or has ended in that pod, at that moment at the latest: earlier answers do not count any more.
    pub fn touch(&mut self, pod_uid: &str, at: Instant) {
        self.positions.remove(pod_uid);
        self.answers.remove(pod_uid);
        self.touched.insert(pod_uid.to_owned(), at);
    }

    /// The last answer of `status`, if it is at most `patience` old, or `settled` in a container that was ready then and still is; `None` if a
    /// command started or ended since.
    ///
    /// An answer ends with the container's readiness, and with the container: the runner reports the death of an application through readiness.
    pub fn recent(&self, pod: &Pod, container: &str, patience: Duration, settled: Duration) -> Option<StatusAnswer> {
        let hint = self.answers.get(&pod.uid)?;
        let before = self.touched.get(&pod.uid).is_some_and(|touched| hint.asked < *touched);
        let now = pod.containers.get(container).filter(|c| c.id == hint.container_id)?;
        let fell = hint.ready && !now.ready;
        let is_settled = hint.ready && now.ready && pod.phase == Phase::Running && hint.answer.role != Role::Unknown;
        let patience = if is_settled { settled } else { patience };
        // The age of an unknown answer counts from its end: an execution that hangs for its whole timeout is an answer too, and a cautious one.
        let at = if hint.answer.role == Role::Unknown { hint.ended } else { hint.asked };
        (!before && !fell && at.elapsed() < patience).then(|| hint.answer.clone())
    }

    /// What is known of a member whose `status` has been running for that long: its last answer if that was unknown too, else nothing.
    pub fn pending(&mut self, pod: &Pod, container: &str, waited: Duration) -> StatusAnswer {
        if let Some(asking) = self.asking.get_mut(&pod.uid) {
            asking.late = true;
        }
        let id = pod.containers.get(container).and_then(|c| c.id.as_ref());
        let before = self
            .answers
            .get(&pod.uid)
            .filter(|hint| hint.answer.role == Role::Unknown && hint.container_id.as_ref() == id);
        match before {
            Some(hint) => hint.answer.clone(),
            None => unasked(format!("status has been running for {} s", waited.as_secs())),
        }
    }

    /// Forgets the results of commands without an open intent, except of those that run or are about to start.
    pub fn forget_results(&mut self, open: &BTreeSet<&str>) {
        let (promised, running) = (&self.promised, &self.running);
        self.results.retain(|token, _| open.contains(&**token) || promised.contains(token) || running.contains(token));
    }

    /// Notes whether data may have changed up to now, so that positions have to be read again: a member may be primary (`moves`), or generation or
    /// override differ from those of the last look. Returns whether it may.
    pub fn moves(&mut self, question: (i64, Option<String>), moves: bool, now: Instant) -> bool {
        let moved = moves || self.question.as_ref() != Some(&question);
        self.question = Some(question);
        if moved {
            self.moved = Some(now);
        }
        moved
    }

    /// Whether the runner of that pod has said that it can check the sequence just before it starts a command. An older runner would not
    /// understand the option.
    pub fn can_look(&self, pod_uid: &str) -> bool {
        self.answers.get(pod_uid).is_some_and(|hint| hint.answer.looks)
    }

    /// Remembers the answer of a `status` whose execution began at `asked`.
    pub fn remember_status(&mut self, pod: &Pod, container: &str, asked: Instant, answer: StatusAnswer) {
        let asked = asked + answer.after;
        let before = self.answers.get(&pod.uid).map_or(0, |hint| hint.streak);
        let streak = if answer.role == Role::Unknown { before.saturating_add(1) } else { 0 };
        let within = pod.containers.get(container);
        let (container_id, ready) = (within.and_then(|c| c.id.clone()), within.is_some_and(|c| c.ready));
        self.answers
            .insert(pod.uid.clone(), StatusHint { asked, ended: Instant::now(), answer, streak, ready, container_id });
    }
}

impl Hints {
    /// Runs a function on the hints of a group, under their lock. The lock is never held across an await.
    pub fn with_group<R>(&self, uid: &str, look: impl FnOnce(&mut Group) -> R) -> R {
        look(self.lock().entry(uid.to_owned()).or_default())
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
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let life = if node.ready { life } else { "" };
        let known = nodes.get(name).filter(|hint| hint.life == life).map(|hint| (hint.seen, hint.broke));
        let (seen, broke) = known.unwrap_or((now, nodes.contains_key(name)));
        if known.is_none() {
            nodes.insert(name.to_owned(), NodeHint { life: life.to_owned(), seen, broke });
        }
        while nodes.len() > NODES {
            nodes.pop_first();
        }
        // What this process saw counts more than the time of a kubelet's clock, and no start of reporting lies in the future.
        let since = if broke { seen } else { node.since.min(seen) };
        Node { seen, since, ..node }
    }

    /// The number of commands that this process waits for, in all groups.
    pub fn running(&self) -> usize {
        self.lock().values().map(|g| g.running.len().saturating_add(g.reading.len())).sum()
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
pub mod tests;
