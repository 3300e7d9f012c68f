//! How old what a decision rests on may be (decision 0008): what members said of themselves, when, and how long it counts.
//!
//! Everything here is a hint: losing it costs another question, and never safety. Time is an input, as a [`Moment`].
mod apply;
mod position;

pub use apply::{Change, Statuses};
pub use position::{PositionHint, Sight, Worth};

use crate::contract::{MemberName, Phase, Role, Timestamp};
use crate::membership::Heard;
use crate::snapshot::{Commands, Member, Pod, Query, QueryAnswer};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Add;
use std::time::Duration;

/// How long an answer of `status` is reused: long enough for a burst of rounds.
pub const RECENT: Duration = Duration::from_secs(2);

/// How old an observation may be to count as present; an execution takes about as long. Before a term opens no older answer counts, and no
/// command starts on an older second look.
pub const FRESH: Duration = Duration::from_millis(250);

/// A moment by a clock that never steps, counted from any moment before: only differences mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(Duration);

impl Moment {
    /// The moment that long after the one from which the clock counts.
    #[must_use]
    pub const fn after_start(passed: Duration) -> Self {
        Moment(passed)
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, later: Duration) -> Moment {
        Moment(self.0.saturating_add(later))
    }
}

/// In which members `status` is run anew. For the others an answer of the last two seconds counts, if no command ran there since.
#[derive(Debug, Clone, Copy)]
pub enum Ask<'a> {
    /// A round's first look: like [`Ask::Recent`], but an answer from a container that was ready then and still is counts for this long, the
    /// resync interval, because its runner would have reported the application's death. Nothing dangerous rests on this look alone.
    Changed(Duration),
    /// In members whose last answer is older than two seconds.
    Recent,
    /// In every member without an answer of this moment: before the first primary of a term is started.
    Everyone,
    /// In this member: before any other action on it.
    Only(&'a MemberName),
}

/// How old an answer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ages {
    /// In any container.
    pub any: Duration,
    /// In a container that was ready then and still is.
    pub settled: Duration,
}

impl Ages {
    const fn both(age: Duration) -> Self {
        Ages { any: age, settled: age }
    }
}

impl Ask<'_> {
    /// How old an answer of that member may be (decision 0008). `runner`: whether the group's members have one; without it readiness says nothing about
    /// roles.
    #[must_use]
    pub fn ages(self, runner: bool, name: &MemberName) -> Ages {
        match self {
            Ask::Changed(within) if runner => Ages { any: RECENT, settled: within.max(RECENT) },
            Ask::Everyone => Ages::both(FRESH),
            Ask::Only(only) if only == name => Ages::both(Duration::ZERO),
            Ask::Only(_) | Ask::Recent | Ask::Changed(_) => Ages::both(RECENT),
        }
    }

    /// Whether a round waits for that member's answer until its deadline, because something dangerous rests on it.
    #[must_use]
    pub fn awaits(self, name: &MemberName) -> bool {
        match self {
            Ask::Everyone => true,
            Ask::Only(only) => only == name,
            Ask::Recent | Ask::Changed(_) => false,
        }
    }
}

/// An answer of `status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusAnswer {
    /// The role that `status` reported; unknown if it gave none.
    pub role: Role,
    /// Why the role is unknown or failed.
    pub detail: Option<String>,
    /// The number of processes of the application. Absent: the runner did not count them.
    pub processes: Option<u32>,
    /// The token of the command that ran in the container of `status`. Absent: none ran, or nobody says so.
    pub running: Option<String>,
    /// How long after the start of the execution `status` began, at least: the answer is no older than that moment.
    pub after: Duration,
    /// Whether the pod's runner can check the sequence just before it starts a command.
    pub looks: bool,
    /// Whether it can give environment variables to a command.
    pub takes_env: bool,
}

impl StatusAnswer {
    /// An answer that has only a role.
    #[must_use]
    pub fn of(role: Role) -> Self {
        StatusAnswer {
            role,
            detail: None,
            processes: None,
            running: None,
            after: Duration::ZERO,
            looks: false,
            takes_env: false,
        }
    }

    /// The answer in place of a `status` that was not run, gave no answer, or has not ended yet.
    #[must_use]
    pub fn unread(why: &str) -> Self {
        StatusAnswer { detail: Some(format!("status could not be read: {why}")), ..Self::of(Role::Unknown) }
    }
}

/// An answer of `status` with its circumstances.
#[derive(Debug, Clone)]
struct StatusHint {
    /// When it was asked, before the answer came.
    asked: Moment,
    /// When the answer came.
    ended: Moment,
    answer: StatusAnswer,
    /// How many executions in a row gave no role.
    streak: u32,
    /// Whether that container was ready then.
    ready: bool,
    /// The ID of the container in which it ran.
    container_id: Option<String>,
}

/// A list of members with its circumstances.
#[derive(Debug, Clone)]
struct ListHint {
    /// The ID of the container in which it was said.
    container_id: Option<String>,
    heard: Heard,
}

/// What `check` or `prepared` said, with its circumstances.
#[derive(Debug, Clone)]
struct QueryHint {
    /// The ID of the container in which it ran.
    container_id: Option<String>,
    answer: QueryAnswer,
}

/// A role of a member, and when it began.
#[derive(Debug, Clone)]
struct RoleHint {
    role: Role,
    since: Timestamp,
}

/// What the members of one group said of themselves, by pod UID, and when. What is about pods that are gone is forgotten.
#[derive(Debug, Default)]
pub struct Readings {
    /// The last known role and since when.
    roles: BTreeMap<String, RoleHint>,
    /// The last answer of `status`.
    answers: BTreeMap<String, StatusHint>,
    /// When a command was last started or ended. Answers from before that moment do not count any more.
    touched: BTreeMap<String, Moment>,
    /// The last position that was read.
    positions: BTreeMap<String, PositionHint>,
    /// When data may last have changed: a member may have been primary, the group was paused, or spec or override changed. No seed and no
    /// failover rests on a position that was asked for before.
    moved: Option<Moment>,
    /// The generation and the override at the last look. When one of them changes, known positions count as old.
    question: Option<(i64, Option<String>)>,
    /// The last list of members that was said, by pod UID.
    lists: BTreeMap<String, ListHint>,
    /// When members were last changed. Lists that were asked for before do not count any more.
    changed: Option<Moment>,
    /// What `check` and `prepared` said last, by pod UID.
    queries: BTreeMap<(Query, String), QueryHint>,
    /// Pods whose sequence or list is being read, or whose application is being asked something else.
    reading: BTreeSet<String>,
    /// When `status` last gave a role, by member.
    contacts: BTreeMap<MemberName, Timestamp>,
    /// The hash of the record as this process last read or wrote it.
    record: Option<u64>,
    /// When this process last saw that another one had written the record. Whatever was asked before says nothing about now.
    others: Option<Moment>,
}

impl Readings {
    /// Notes the record that was read at that moment. Returns whether somebody else wrote it since this process last read or wrote it: another process has begun
    /// or settled commands meanwhile. Then whatever was asked before is forgotten, and positions have to be read again: this process stood still, or had lost
    /// its turn (docs/safety.md, S5).
    pub fn note_record(&mut self, record: Option<&Value>, at: Moment) -> bool {
        let read = hash(record);
        let by_others = self.record.replace(read).is_some_and(|known| known != read);
        if by_others {
            self.answers.clear();
            self.positions.clear();
            self.lists.clear();
            (self.others, self.moved) = (Some(at), Some(at));
        }
        by_others
    }

    /// This process wrote that record.
    pub fn wrote_record(&mut self, record: Option<&Value>) {
        self.record = Some(hash(record));
    }

    /// A command starts or has ended in that pod, at that moment at the latest: earlier answers do not count any more.
    pub fn touch(&mut self, pod_uid: &str, at: Moment) {
        self.positions.remove(pod_uid);
        self.answers.remove(pod_uid);
        self.touched.insert(pod_uid.to_owned(), at);
    }

    /// The last answer of `status`, if it is not older than `ages` allow; `None` if a command started or ended since.
    ///
    /// An answer ends with the container's readiness, and with the container: the runner reports the death of an application through readiness.
    #[must_use]
    pub fn recent(&self, pod: &Pod, container: &str, ages: Ages, now: Moment) -> Option<StatusAnswer> {
        let hint = self.answers.get(&pod.uid)?;
        let before = self.touched.get(&pod.uid).max(self.others.as_ref()).is_some_and(|touched| hint.asked < *touched);
        let within = pod.containers.get(container).filter(|c| c.id == hint.container_id)?;
        let fell = hint.ready && !within.ready;
        let is_settled = hint.ready && within.ready && pod.phase == Phase::Running && hint.answer.role != Role::Unknown;
        let patience = if is_settled { ages.settled } else { ages.any };
        // The age of an unknown answer counts from its end: an execution that hangs for its whole timeout is an answer too, and a cautious one.
        let at = if hint.answer.role == Role::Unknown { hint.ended } else { hint.asked };
        (!before && !fell && now.since(at) < patience).then(|| hint.answer.clone())
    }

    /// What is known of a member whose `status` has been running for that long: its last answer if that was unknown too, else nothing.
    #[must_use]
    pub fn pending(&self, pod: &Pod, container: &str, waited: Duration) -> StatusAnswer {
        let id = pod.containers.get(container).and_then(|c| c.id.as_ref());
        let before = self
            .answers
            .get(&pod.uid)
            .filter(|hint| hint.answer.role == Role::Unknown && hint.container_id.as_ref() == id);
        match before {
            Some(hint) => hint.answer.clone(),
            None => StatusAnswer::unread(&format!("status has been running for {} s", waited.as_secs())),
        }
    }

    /// Remembers the answer of a `status` whose execution began at `asked` and ended at `ended`.
    pub fn remember_status(
        &mut self,
        pod: &Pod,
        container: &str,
        (asked, ended): (Moment, Moment),
        answer: StatusAnswer,
    ) {
        let asked = asked + answer.after;
        let before = self.answers.get(&pod.uid).map_or(0, |hint| hint.streak);
        let streak = if answer.role == Role::Unknown { before.saturating_add(1) } else { 0 };
        let within = pod.containers.get(container);
        let (container_id, ready) = (within.and_then(|c| c.id.clone()), within.is_some_and(|c| c.ready));
        self.answers.insert(pod.uid.clone(), StatusHint { asked, ended, answer, streak, ready, container_id });
    }

    /// Whether the runner of that pod has said that it can check the sequence just before it starts a command. An older runner would not
    /// understand the option.
    #[must_use]
    pub fn can_look(&self, pod_uid: &str) -> bool {
        self.answers.get(pod_uid).is_some_and(|hint| hint.answer.looks)
    }

    /// Whether the runner of that pod has said that it can give environment variables to a command.
    #[must_use]
    pub fn takes_env(&self, pod_uid: &str) -> bool {
        self.answers.get(pod_uid).is_some_and(|hint| hint.answer.takes_env)
    }

    /// Notes that the sequence or list of that pod is being read, or its application asked something else. False: something of it is being asked already.
    pub fn begin_reading(&mut self, pod_uid: &str) -> bool {
        self.reading.insert(pod_uid.to_owned())
    }

    /// Remembers the list that a member said, which was asked for at that moment. A list from before the members were last changed, or before another process
    /// wrote the record, does not count.
    pub fn remember_list(&mut self, pod: &Pod, container: &str, asked: Moment, heard: Heard) {
        self.reading.remove(&pod.uid);
        if self.changed.max(self.others).is_some_and(|since| asked < since) {
            return;
        }
        let container_id = pod.containers.get(container).and_then(|c| c.id.clone());
        self.lists.insert(pod.uid.clone(), ListHint { container_id, heard });
    }

    /// Remembers what the command of a query said in that pod.
    pub fn remember_query(&mut self, query: Query, pod: &Pod, container: &str, answer: QueryAnswer) {
        self.reading.remove(&pod.uid);
        let container_id = pod.containers.get(container).and_then(|c| c.id.clone());
        self.queries.insert((query, pod.uid.clone()), QueryHint { container_id, answer });
    }

    /// What members said to queries, each in the container that the member has now. What is about other pods, or about commands that the group does not have, is forgotten.
    pub fn queries(&mut self, members: &[Member], commands: &Commands) -> BTreeMap<(Query, MemberName), QueryAnswer> {
        let pod_of = |uid: &str| members.iter().find_map(|m| Some((m, m.pod.as_ref().filter(|pod| pod.uid == uid)?)));
        self.queries.retain(|(query, uid), _| commands.query(*query).is_some() && pod_of(uid).is_some());
        let said = self.queries.iter().filter_map(|((query, uid), hint)| {
            let ((member, pod), command) = (pod_of(uid)?, commands.query(*query)?);
            let id = pod.containers.get(&command.container).and_then(|c| c.id.as_ref());
            (hint.container_id.as_ref() == id).then(|| ((*query, member.name.clone()), hint.answer.clone()))
        });
        said.collect()
    }

    /// A command that changes the members starts or has ended: no list that was asked for before counts any more.
    pub fn change_members(&mut self, at: Moment) {
        self.lists.clear();
        self.changed = Some(at);
    }

    /// What members said of who is a member, each in the container that it has now. What is about other pods is forgotten.
    pub fn lists(&mut self, members: &[Member], container: &str) -> BTreeMap<MemberName, Heard> {
        let pods = members.iter().filter_map(|m| Some((m, m.pod.as_ref()?)));
        let said = pods.filter_map(|(m, pod)| {
            let id = pod.containers.get(container).and_then(|c| c.id.as_ref());
            let hint = self.lists.get(&pod.uid).filter(|hint| hint.container_id.as_ref() == id)?;
            Some((m.name.clone(), hint.heard.clone()))
        });
        let said: BTreeMap<_, _> = said.collect();
        self.lists.retain(|uid, _| members.iter().any(|m| m.pod.as_ref().is_some_and(|pod| pod.uid == *uid)));
        said
    }

    /// How many sequences are being read.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.reading.len()
    }

    /// Remembers the sequence of that pod, which was being read.
    pub fn remember_position(&mut self, pod_uid: &str, hint: PositionHint) {
        self.reading.remove(pod_uid);
        if self.others.is_none_or(|others| hint.asked >= others) {
            self.positions.insert(pod_uid.to_owned(), hint);
        }
    }

    /// Notes whether data may have changed up to now, so that positions have to be read again: a member may be primary (`moves`), or generation or
    /// override differ from those of the last look. Returns whether it may.
    pub fn moves(&mut self, question: (i64, Option<String>), moves: bool, now: Moment) -> bool {
        let moved = moves || self.question.as_ref() != Some(&question);
        self.question = Some(question);
        if moved {
            self.moved = Some(now);
        }
        moved
    }
}

/// The hash of a record, which tells one from another. A whole record of each group would be much to keep.
fn hash(record: Option<&Value>) -> u64 {
    let mut hasher = DefaultHasher::new();
    record.hash(&mut hasher);
    hasher.finish()
}
