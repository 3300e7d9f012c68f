//! What this process remembers between rounds. It is never the truth: losing it costs time, not safety.
use crate::member::Said;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tanist_core::contract::{Phase, Position, Role, Timestamp};
use tanist_core::snapshot::{Evidence, Pod};

/// The hints of every group, by UID.
#[derive(Debug, Default)]
pub struct Hints {
    groups: Mutex<BTreeMap<String, Group>>,
    ended: Mutex<VecDeque<String>>,
}

/// How long an answer of `status` serves further rounds: those of one burst.
pub const RECENT: Duration = Duration::from_secs(2);

/// How long what was seen is of this moment: an execution lasts as long. Before a term opens no older answer counts, and no command starts on an
/// older second look.
pub const FRESH: Duration = Duration::from_millis(250);

/// Pods whose end is remembered; far more than end within the minutes in which anybody asks.
const ENDED: usize = 4096;

/// The hints of one group.
#[derive(Debug, Default)]
pub struct Group {
    /// Roles by pod UID: since when.
    pub roles: BTreeMap<String, RoleHint>,
    /// What `status` said last, by pod UID.
    pub said: BTreeMap<String, SaidHint>,
    /// When a command was last started or ended, by pod UID: what was said before is not known any more.
    pub touched: BTreeMap<String, Instant>,
    /// Positions by pod UID.
    pub positions: BTreeMap<String, PositionHint>,
    /// Pods whose sequence is being read.
    pub reading: BTreeSet<String>,
    /// Commands whose intent is written and that this process is about to start, by token: nobody may take them for lost.
    pub promised: BTreeSet<String>,
    /// Commands that this process waits for, by token.
    pub running: BTreeSet<String>,
    /// How commands ended, by token.
    pub results: BTreeMap<String, Evidence>,
    /// How many rounds it had in this process.
    pub rounds: u64,
    /// Objects as they came back when they were applied last, by kind and name.
    pub applied: BTreeMap<String, String>,
}

/// What is remembered of a role.
#[derive(Debug, Clone)]
pub struct RoleHint {
    /// The role.
    pub role: Role,
    /// Since when.
    pub since: Timestamp,
}

/// What `status` said.
#[derive(Debug, Clone)]
pub struct SaidHint {
    /// When it was asked, before the answer came.
    pub asked: Instant,
    /// The answer.
    pub said: Said,
    /// Unknown answers in a row: each was asked for.
    pub streak: u32,
    /// Whether that container was ready then.
    pub ready: bool,
    /// In which very container.
    pub container_id: Option<String>,
}

/// What is remembered of a position.
#[derive(Debug, Clone)]
pub struct PositionHint {
    /// In which very container.
    pub container_id: String,
    /// What was read.
    pub position: Position,
    /// When.
    pub at: Timestamp,
    /// The role at that time: a position is of a role.
    pub role: Role,
    /// Whether somebody may have been primary when it was read, or since.
    pub led: bool,
}

impl Group {
    /// A command starts or ended in that pod, not later than then: what was asked before is not known any more.
    pub fn touch(&mut self, pod_uid: &str, at: Instant) {
        self.positions.remove(pod_uid);
        self.said.remove(pod_uid);
        self.touched.insert(pod_uid.to_owned(), at);
    }

    /// What `status` said up to `patience` ago, or `settled` ago in a container that was ready then and is; unless a command was in between.
    ///
    /// A container that is ready no more, or another one, says that it is not so any more: the runner reports the death of an application
    /// through readiness.
    pub fn recent(&self, pod: &Pod, container: &str, patience: Duration, settled: Duration) -> Option<Said> {
        let hint = self.said.get(&pod.uid)?;
        let before = self.touched.get(&pod.uid).is_some_and(|touched| hint.asked < *touched);
        let now = pod.containers.get(container).filter(|c| c.id == hint.container_id)?;
        let fell = hint.ready && !now.ready;
        let is_settled = hint.ready && now.ready && pod.phase == Phase::Running && hint.said.role != Role::Unknown;
        let patience = if is_settled { settled } else { patience };
        (!before && !fell && hint.asked.elapsed() < patience).then(|| hint.said.clone())
    }

    /// Remembers what `status` said in an execution that began then.
    pub fn say(&mut self, pod: &Pod, container: &str, asked: Instant, said: Said) {
        let asked = asked + said.after;
        let before = self.said.get(&pod.uid).map_or(0, |hint| hint.streak);
        let streak = if said.role == Role::Unknown { before.saturating_add(1) } else { 0 };
        let within = pod.containers.get(container);
        let (container_id, ready) = (within.and_then(|c| c.id.clone()), within.is_some_and(|c| c.ready));
        self.said.insert(pod.uid.clone(), SaidHint { asked, said, streak, ready, container_id });
    }
}

impl Hints {
    /// The hints of a group, locked. Never held over an await.
    pub fn of<R>(&self, uid: &str, look: impl FnOnce(&mut Group) -> R) -> R {
        look(self.lock().entry(uid.to_owned()).or_default())
    }

    /// The number of the round that begins.
    pub fn next_round(&self, uid: &str) -> u64 {
        self.of(uid, |group| {
            group.rounds = group.rounds.saturating_add(1);
            group.rounds
        })
    }

    /// Forgets a group that is gone.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Commands that this process waits for, over all groups.
    pub fn running(&self) -> usize {
        self.lock().values().map(|g| g.running.len().saturating_add(g.reading.len())).sum()
    }

    /// Remembers that every container of a pod ended, as its last status said.
    pub fn end(&self, pod_uid: String) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if !ended.contains(&pod_uid) {
            ended.push_back(pod_uid);
        }
        while ended.len() > ENDED {
            ended.pop_front();
        }
    }

    /// Whether the last status of a pod said that every container ended.
    pub fn has_ended(&self, pod_uid: &str) -> bool {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|uid| uid == pod_uid)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Group>> {
        // A panic while holding the lock leaves hints, not truth.
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use tanist_core::snapshot::Container;

    const RESYNC: Duration = Duration::from_secs(30);

    /// A pod with one container, `db`.
    pub fn pod(id: &str, ready: bool, phase: Phase) -> Pod {
        let container = Container { id: Some(id.into()), running: true, ready };
        Pod {
            uid: "u".into(),
            phase,
            phase_since: 0,
            ready: false,
            node: None,
            grace: 30,
            containers: BTreeMap::from([("db".to_owned(), container)]),
            routed: None,
            outdated: false,
            gate: None,
            labels: Vec::new(),
            trouble: None,
        }
    }

    /// Whether what that pod said so many seconds ago still serves when it is seen as `now`.
    fn serves(then: &Pod, role: Role, seconds: u64, now: &Pod, settled: Duration) -> bool {
        let mut group = Group::default();
        let asked = Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        group.say(then, "db", asked, Said { role, detail: None, processes: None, after: Duration::ZERO });
        group.recent(now, "db", RECENT, settled).is_some()
    }

    // Decision 0008: what spares an execution, and what does not.
    #[test]
    fn an_answer_serves_while_its_container_stays_ready() {
        let (well, fell) = (pod("c", true, Phase::Running), pod("c", false, Phase::Running));
        let role = Role::Secondary;
        assert!(serves(&well, role, 10, &well, RESYNC));
        assert!(!serves(&well, role, 10, &well, RECENT), "only the first look trusts readiness");
        assert!(!serves(&well, role, 31, &well, RESYNC), "resync asks everyone");
        assert!(!serves(&well, role, 0, &fell, RESYNC), "it died");
        assert!(!serves(&fell, role, 10, &well, RESYNC), "it was not ready when it said so");
        assert!(!serves(&well, role, 10, &pod("d", true, Phase::Running), RESYNC), "another container");
        assert!(!serves(&well, role, 10, &pod("c", true, Phase::Terminating), RESYNC), "it is being stopped");
        assert!(!serves(&well, Role::Unknown, 10, &well, RESYNC), "it said nothing");
        assert!(serves(&fell, role, 1, &fell, RECENT), "a burst of rounds asks once");
    }

    #[test]
    fn a_command_makes_answers_old() {
        let (mut group, pod) = (Group::default(), pod("c", true, Phase::Running));
        let asked = Instant::now();
        let said = |after| Said { role: Role::Secondary, detail: None, processes: None, after };
        group.say(&pod, "db", asked, said(Duration::ZERO));
        let end = asked + Duration::from_millis(40);
        group.touch(&pod.uid, end);
        assert!(group.recent(&pod, "db", RECENT, RESYNC).is_none());
        group.say(&pod, "db", asked, said(Duration::ZERO));
        assert!(group.recent(&pod, "db", RECENT, RESYNC).is_none(), "it was asked before, and answered after");
        group.say(&pod, "db", asked, said(end - asked));
        assert!(group.recent(&pod, "db", RECENT, RESYNC).is_some(), "it came of the command");
    }
}
