//! What this process remembers between rounds. It is never the truth: losing it costs time, not safety.
use crate::member::{Said, unasked};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tanist_core::contract::{Phase, Position, Role, Timestamp};
use tanist_core::limits;
use tanist_core::snapshot::{Evidence, Node, Pod};

/// The hints of every group, by UID.
#[derive(Debug, Default)]
pub struct Hints {
    groups: Mutex<BTreeMap<String, Group>>,
    ended: Mutex<VecDeque<String>>,
    nodes: Mutex<BTreeMap<String, NodeHint>>,
}

/// How long an answer of `status` serves further rounds: those of one burst.
pub const RECENT: Duration = Duration::from_secs(2);

/// How long what was seen is of this moment: an execution lasts as long. Before a term opens no older answer counts, and no command starts on an
/// older second look.
pub const FRESH: Duration = Duration::from_millis(250);

/// Pods whose end is remembered; far more than end within the minutes in which anybody asks.
const ENDED: usize = 4096;

/// Nodes whose reports are remembered: as many as a Kubernetes cluster has.
const NODES: usize = 5000;

/// What is remembered of a node.
#[derive(Debug)]
struct NodeHint {
    /// See [`crate::observe::convert::life`]; empty: it did not report.
    life: String,
    /// Since when this process has seen it report without a break.
    seen: Timestamp,
    /// Whether this process saw a break before.
    broke: bool,
}

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
    /// When data may have moved last: somebody may have been primary, the group was paused, or spec or override changed. No seed and no failover
    /// rests on a position that was asked for before.
    pub moved: Option<Instant>,
    /// The generation and the override that positions were asked for under.
    pub question: Option<(i64, Option<String>)>,
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
    /// Who is being asked for its role, by pod UID: one execution at a time.
    pub asking: BTreeMap<String, Asking>,
    /// How long the last `status` took that said a role, by pod UID.
    pub pace: BTreeMap<String, Duration>,
    /// Objects that are being written, by kind and name.
    pub writing: BTreeSet<String>,
    /// Objects whose last write failed, by kind and name.
    pub unwritten: BTreeMap<String, Unwritten>,
    /// Errors of the last round that lasted.
    pub told: BTreeSet<String>,
    /// Members without a pod, and since when, as this process saw it.
    pub missing: BTreeMap<String, Timestamp>,
}

/// A `status` under way.
#[derive(Debug, Clone)]
pub struct Asking {
    /// What it says in the end.
    pub answer: tokio::sync::watch::Receiver<Option<Said>>,
    /// Whether a round went on without it: its end then starts the next one.
    pub late: bool,
}

/// An object that could not be written.
#[derive(Debug, Clone)]
pub struct Unwritten {
    /// Which wish: another one is tried at once.
    pub wish: String,
    /// When it is tried again.
    pub again: Instant,
    /// How long it was waited for that.
    pub pause: Duration,
    /// One word for conditions.
    pub reason: &'static str,
    /// Why, in words.
    pub why: String,
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
    /// When the answer came.
    pub ended: Instant,
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
    /// When, by the clock of decisions.
    pub at: Timestamp,
    /// When it was asked for, before the answer came.
    pub asked: Instant,
    /// When the answer came.
    pub answered: Instant,
    /// The role at that time: a position is of a role.
    pub role: Role,
    /// Whether that container was ready at that time.
    pub ready: bool,
    /// Whether data may have moved when it was asked for.
    pub led: bool,
}

/// A member as a round sees it.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// The container in which `sequence` runs.
    pub container_id: Option<&'a str>,
    /// Its role.
    pub role: Role,
    /// Whether that container is ready.
    pub ready: bool,
    /// When it is seen.
    pub at: Instant,
    /// When data may have moved last.
    pub moved: Option<Instant>,
}

/// What a position is worth to a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worth {
    /// Nothing any more: the member is another one than it was, and what was read is forgotten.
    Gone,
    /// Nothing now: it is too old.
    Old,
    /// Enough to choose who joins, for joiners synchronise; not enough for a seed or a failover.
    Moved,
    /// It says where the data is.
    Stands,
}

impl PositionHint {
    /// What the position is worth now: nothing in another container, in another role, or once a stopped member became ready; and never longer
    /// than [`limits::POSITION_SECONDS`], for what is stopped may have run in between without anybody seeing it.
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
        // That nobody could say is as old as its end: an execution that hangs for its whole timeout is an answer too, and a cautious one.
        let at = if hint.said.role == Role::Unknown { hint.ended } else { hint.asked };
        (!before && !fell && at.elapsed() < patience).then(|| hint.said.clone())
    }

    /// What is known of a member that is being asked, and has not answered for so long: what it failed to say before, else nothing.
    pub fn pending(&mut self, pod: &Pod, container: &str, waited: Duration) -> Said {
        if let Some(asking) = self.asking.get_mut(&pod.uid) {
            asking.late = true;
        }
        let id = pod.containers.get(container).and_then(|c| c.id.as_ref());
        let before =
            self.said.get(&pod.uid).filter(|hint| hint.said.role == Role::Unknown && hint.container_id.as_ref() == id);
        match before {
            Some(hint) => hint.said.clone(),
            None => unasked(format!("status has been running for {} s", waited.as_secs())),
        }
    }

    /// Forgets how commands ended that no open intent asks about; not those that are about to start or run.
    pub fn forget_results(&mut self, open: &BTreeSet<&str>) {
        let (promised, running) = (&self.promised, &self.running);
        self.results.retain(|token, _| open.contains(&**token) || promised.contains(token) || running.contains(token));
    }

    /// Whether data may have moved up to now, so that positions have to be asked for anew: it may move, or another question is asked than at the
    /// last look. Remembers that.
    pub fn moves(&mut self, question: (i64, Option<String>), moves: bool, now: Instant) -> bool {
        let moved = moves || self.question.as_ref() != Some(&question);
        self.question = Some(question);
        if moved {
            self.moved = Some(now);
        }
        moved
    }

    /// Whether the runner of that pod said that it can look at the sequence once more before it starts a command. An older one would not
    /// understand to be asked.
    pub fn can_look(&self, pod_uid: &str) -> bool {
        self.said.get(pod_uid).is_some_and(|hint| hint.said.looks)
    }

    /// Remembers what `status` said in an execution that began then.
    pub fn say(&mut self, pod: &Pod, container: &str, asked: Instant, said: Said) {
        let asked = asked + said.after;
        let before = self.said.get(&pod.uid).map_or(0, |hint| hint.streak);
        let streak = if said.role == Role::Unknown { before.saturating_add(1) } else { 0 };
        let within = pod.containers.get(container);
        let (container_id, ready) = (within.and_then(|c| c.id.clone()), within.is_some_and(|c| c.ready));
        self.said.insert(pod.uid.clone(), SaidHint { asked, ended: Instant::now(), said, streak, ready, container_id });
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

    /// The node with what this process saw of it: since when it has reported without a break. Another life than at the last look is a break.
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
        // What this process saw itself counts for more than what a kubelet's clock says; no node reports since a time to come.
        let since = if broke { seen } else { node.since.min(seen) };
        Node { seen, since, ..node }
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
            version: "1".into(),
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
            stray: None,
        }
    }

    /// Whether what that pod said so many seconds ago still serves when it is seen as `now`.
    fn serves(then: &Pod, role: Role, seconds: u64, now: &Pod, settled: Duration) -> bool {
        let mut group = Group::default();
        let asked = Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        group.say(then, "db", asked, Said { role, detail: None, processes: None, after: Duration::ZERO, looks: false });
        group.said.values_mut().for_each(|hint| hint.ended = asked);
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

    // Decision 0013: nobody is asked for what he did not say he can.
    #[test]
    fn an_older_runner_is_not_asked_to_look() {
        let (mut group, pod) = (Group::default(), pod("c", true, Phase::Running));
        assert!(!group.can_look(&pod.uid));
        for looks in [false, true, false] {
            let said = Said { role: Role::Stopped, detail: None, processes: None, after: Duration::ZERO, looks };
            group.say(&pod, "db", Instant::now(), said);
            assert_eq!(group.can_look(&pod.uid), looks);
        }
    }

    // Memory stays flat: what no open intent asks about any more is forgotten, what is about to be asked about is not.
    #[test]
    fn results_go_with_their_intents() {
        let mut group = Group::default();
        for token in ["open", "closed", "promised", "running"] {
            group.results.insert(token.into(), Evidence::Exited(0));
        }
        group.promised.insert("promised".into());
        group.running.insert("running".into());
        group.forget_results(&BTreeSet::from(["open"]));
        assert_eq!(group.results.into_keys().collect::<Vec<_>>(), ["open", "promised", "running"]);
    }

    // A status that hangs until it is killed is an answer for the round that its end starts; without that it would never count.
    #[test]
    fn an_unknown_answer_is_as_old_as_its_end() {
        let (mut group, pod) = (Group::default(), pod("c", true, Phase::Running));
        let asked = Instant::now().checked_sub(Duration::from_secs(25)).unwrap();
        let said = |role| Said { role, detail: None, processes: Some(0), after: Duration::ZERO, looks: false };
        group.say(&pod, "db", asked, said(Role::Unknown));
        assert!(group.recent(&pod, "db", RECENT, RECENT).is_some());
        assert_eq!(group.pending(&pod, "db", RECENT).processes, Some(0), "what it failed to say before still stands");
        group.touch(&pod.uid, Instant::now());
        assert!(group.recent(&pod, "db", RECENT, RECENT).is_none(), "a command was in between");
        group.say(&pod, "db", asked, said(Role::Secondary));
        assert!(group.recent(&pod, "db", RECENT, RECENT).is_none(), "a role is as old as its question");
        let pending = group.pending(&pod, "db", RECENT);
        assert_eq!((pending.role, pending.processes), (Role::Unknown, None), "a role is not carried on");
    }

    #[test]
    fn a_command_makes_answers_old() {
        let (mut group, pod) = (Group::default(), pod("c", true, Phase::Running));
        let asked = Instant::now();
        let said = |after| Said { role: Role::Secondary, detail: None, processes: None, after, looks: false };
        group.say(&pod, "db", asked, said(Duration::ZERO));
        let end = asked + Duration::from_millis(40);
        group.touch(&pod.uid, end);
        assert!(group.recent(&pod, "db", RECENT, RESYNC).is_none());
        group.say(&pod, "db", asked, said(Duration::ZERO));
        assert!(group.recent(&pod, "db", RECENT, RESYNC).is_none(), "it was asked before, and answered after");
        group.say(&pod, "db", asked, said(end - asked));
        assert!(group.recent(&pod, "db", RECENT, RESYNC).is_some(), "it came of the command");
    }

    /// What `sequence` said of a stopped member in container `c`, asked for at `asked` and answered a second later.
    fn position(position: Position, asked: Instant) -> PositionHint {
        let answered = asked + Duration::from_secs(1);
        let container_id = "c".to_owned();
        PositionHint { container_id, position, at: 0, asked, answered, role: Role::Stopped, ready: false, led: false }
    }

    // A position counts for a seed only if it was asked for since nobody led, in this life of the member, and not long ago.
    #[test]
    fn a_position_is_worth_what_happened_since_it_was_asked_for() {
        let asked = Instant::now() + Duration::from_secs(100);
        let after = |millis| asked + Duration::from_millis(millis);
        let before = asked.checked_sub(Duration::from_millis(1));
        let seen = Sight { container_id: Some("c"), role: Role::Stopped, ready: false, at: after(1500), moved: before };
        let known = position(Position::Empty, asked);
        let table = [
            ("nothing happened", Sight { ..seen }, Worth::Stands),
            ("nothing was ever seen to move", Sight { moved: None, ..seen }, Worth::Stands),
            (
                "a pause or a primary was seen in the moment it was asked for",
                Sight { moved: Some(asked), ..seen },
                Worth::Moved,
            ),
            ("while it was under way", Sight { moved: Some(after(500)), ..seen }, Worth::Moved),
            ("since it came", Sight { moved: Some(after(1200)), ..seen }, Worth::Moved),
            ("the container is another one", Sight { container_id: Some("d"), ..seen }, Worth::Gone),
            ("there is none", Sight { container_id: None, ..seen }, Worth::Gone),
            ("it leads", Sight { role: Role::Primary, ..seen }, Worth::Gone),
            ("nobody knows its role", Sight { role: Role::Unknown, ..seen }, Worth::Gone),
            ("it became ready", Sight { ready: true, ..seen }, Worth::Gone),
            ("just young enough", Sight { at: after(30_999), ..seen }, Worth::Stands),
            ("it is old: what is stopped may have run since", Sight { at: after(31_000), ..seen }, Worth::Old),
        ];
        for (why, sight, worth) in table {
            assert_eq!(known.worth(sight), worth, "{why}");
        }
        assert_eq!(
            PositionHint { led: true, ..known.clone() }.worth(seen),
            Worth::Moved,
            "somebody led when it was asked for"
        );
        assert_eq!(PositionHint { ready: true, ..known }.worth(seen), Worth::Stands, "it was ready and is not");
        let unknown = position(Position::Unknown("it hung".into()), asked);
        assert_eq!(unknown.worth(Sight { at: after(10_999), ..seen }), Worth::Stands);
        assert_eq!(unknown.worth(Sight { at: after(11_000), ..seen }), Worth::Old, "it is asked again sooner");
    }

    // A pause between two looks is seen by the generation; another override is another question.
    #[test]
    fn what_was_asked_under_another_question_is_asked_anew() {
        let (mut group, now) = (Group::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        assert!(group.moves((1, None), false, now), "nothing was seen before");
        assert!(!group.moves((1, None), false, at(1)));
        assert_eq!(group.moved, Some(now));
        assert!(group.moves((1, None), true, at(2)), "somebody may be primary");
        assert!(group.moves((3, None), false, at(3)), "paused and resumed, or anything else");
        assert!(group.moves((3, Some("db-1 9 3".into())), false, at(4)));
        assert!(!group.moves((3, Some("db-1 9 3".into())), false, at(5)));
        assert_eq!(group.moved, Some(at(4)));
    }

    fn node(ready: bool, since: Timestamp) -> Node {
        Node { ready, since, seen: 0, out_of_service: false, cordoned: false, zone: None }
    }

    // S28: how long a node has reported is what this process saw; the API's times come from other clocks.
    #[test]
    fn a_node_reports_since_this_process_saw_it() {
        let hints = Hints::default();
        let times = |life: &str, node: Node, now| {
            let node = hints.node("n", life, node, now);
            (node.since, node.seen)
        };
        assert_eq!(times("a", node(true, 100), 5000), (100, 5000), "ready for long, and seen for the first time");
        assert_eq!(times("a", node(true, 100), 5040), (100, 5000));
        assert_eq!(times("b", node(true, 90), 5100), (5100, 5100), "a break, whatever its clock says");
        assert_eq!(times("b", node(false, 90), 5200).1, 5200);
        assert_eq!(times("b", node(true, 90), 5300), (5300, 5300), "it was silent in between");
        assert_eq!(times("b", node(true, 90), 5400), (5300, 5300));
        let hints = Hints::default();
        let ahead = |now| hints.node("n", "a", node(true, 9000), now).since;
        assert_eq!((ahead(5000), ahead(5060)), (5000, 5000), "nothing reports since a time to come");
    }
}
