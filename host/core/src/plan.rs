//! What the host will do this round, and what it waits for: finished data, nothing left to choose.
use crate::check::Violation;
use crate::contract::{MemberName, Role, Sequence, Timestamp, Transition};
use crate::policy::{Point, PolicyName, Unanswered};
use crate::record::{Intent, Record};
use crate::snapshot::{ClaimMark, Object};

/// The result of a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The memory as it has to be written before anything in `actions` that starts a command.
    pub record: Record,
    /// In the order to be done. One that fails stops what depends on it and nothing else: what serves people comes first, objects that are
    /// written anew last.
    pub actions: Vec<Action>,
    /// What is awaited, most important first.
    pub waits: Vec<Wait>,
    /// The questions asked, their answers and everyone's reasons.
    pub decisions: Vec<Decision>,
    /// Answers that were dropped.
    pub violations: Vec<Violation>,
    /// Policies that could not answer.
    pub broken: Vec<Unanswered>,
    /// All candidates failed: nothing is left to try but to wait or to change something.
    pub stalled: Option<String>,
    /// Data is there that no memory explains.
    pub needs_adoption: Option<String>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Server-side apply of an object.
    Apply(Object),
    /// Tell the controller of the `StatefulSet` to try again now what it waits to try again, by a note on the object.
    Nudge {
        /// The very `StatefulSet`.
        set_uid: String,
    },
    /// Write role label and readiness gate of a pod: this is what Services follow.
    Route {
        /// Whose pod.
        member: MemberName,
        /// The very pod.
        pod_uid: String,
        /// `primary` or `secondary`; absent: no Service shows it.
        role: Option<&'static str>,
        /// Whether it counts as Ready.
        ready: bool,
        /// The version of the pod that this was decided on: a precondition where clients are led to it. Absent: they are led away, which the
        /// UID alone protects, for it must not wait.
        version: Option<String>,
    },
    /// Start a command; its intent is in `record`.
    Run {
        /// The durable note.
        intent: Intent,
        /// argv with the peers in place.
        argv: Vec<String>,
    },
    /// Ask for the sequence; changes nothing, so it needs no intent.
    Read {
        /// Whom.
        member: MemberName,
        /// The very pod.
        pod_uid: String,
    },
    /// Delete a pod, its volumes stay.
    DeletePod {
        /// Whose.
        member: MemberName,
        /// The very pod: a precondition of the call.
        pod_uid: String,
        /// For people.
        reason: String,
    },
    /// Give the `StatefulSet` fewer members; the record that explains their claims is written before.
    Scale {
        /// How many stay.
        replicas: u32,
    },
    /// Write the memory on a claim.
    MarkClaim {
        /// The claim's name.
        claim: String,
        /// The very claim.
        uid: String,
        /// The version of the claim that this was decided on: a late mark would lower its term.
        version: String,
        /// What is written.
        mark: ClaimMark,
    },
}

/// Something awaited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Machine-readable.
    pub reason: Reason,
    /// For people: what is awaited, and what helps.
    pub message: String,
    /// Whom it concerns.
    pub member: Option<MemberName>,
    /// When to look again if nothing happens before.
    pub until: Option<Timestamp>,
}

/// Why nothing more is done: the words of conditions and of docs/runbook.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// `spec.paused`.
    Paused,
    /// An object is being created.
    CreatingObjects,
    /// Pods are not there, or not running.
    PodsNotRunning,
    /// Kubernetes cannot start a pod, and says why.
    PodCannotStart,
    /// A living pod of a member lost its label or its owner.
    PodStray,
    /// A command runs.
    CommandRunning,
    /// A command's end is not known.
    OutcomeUnknown,
    /// A command ended well; `status` does not agree yet.
    ConfirmingRole,
    /// Sequences are being read.
    ReadingPositions,
    /// A sequence could not be read.
    PositionUnknown,
    /// Somebody may be primary who does not serve.
    MayBePrimary,
    /// Somebody is neither stopped nor serving.
    MembersNotStopped,
    /// Two members have data of different histories.
    HistoriesDiffer,
    /// The best data present is below what was seen before.
    BelowHighWater,
    /// The volume of a last primary was replaced.
    ClaimChanged,
    /// Claims of members beyond `replicas` exist.
    UnrecordedClaims,
    /// Data is there that no memory explains.
    NeedsAdoption,
    /// Every candidate failed.
    CandidatesFailed,
    /// Nobody can be chosen.
    NoCandidate,
    /// The policy said: not now.
    PolicyWaits,
    /// The policy said: a person has to change something.
    PolicyRefuses,
    /// The policy could not answer.
    PolicyBroken,
    /// The policy's answer broke a check.
    AnswerRejected,
    /// A failed member is not treated yet.
    MemberFailed,
    /// A secondary has to take over, and cannot yet.
    FailoverPending,
    /// The primary is to hand over, and cannot yet.
    SwitchoverPending,
    /// The primary was to hand over, and leads again: nobody else had all it has.
    SwitchoverFailed,
    /// Secondaries of an older term have to follow.
    FollowPending,
    /// More members than wanted: they leave one after the other.
    ShrinkPending,
    /// The override cannot be used.
    OverrideInvalid,
}

/// A question with its answer and everyone's reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// When.
    pub at: Timestamp,
    /// Which question.
    pub point: Point,
    /// Who answered. Absent: a person did, by override.
    pub policy: Option<PolicyName>,
    /// In which term.
    pub term: u64,
    /// Who was chosen. Absent: nobody.
    pub chosen: Option<MemberName>,
    /// Why, in one sentence.
    pub reason: String,
    /// Everyone, by ordinal.
    pub candidates: Vec<Considered>,
}

/// One member in a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Considered {
    /// Who.
    pub member: MemberName,
    /// What came of it.
    pub result: Standing,
    /// Why.
    pub reason: String,
    /// Its data.
    pub sequence: Option<Sequence>,
}

/// What came of a member in a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Acted upon.
    Chosen,
    /// Would be next.
    Fallback,
    /// The policy did not want it.
    PassedOver,
    /// The host would not have accepted it.
    Barred,
}

impl Plan {
    /// A plan that does nothing and remembers what is remembered.
    #[must_use]
    pub fn new(record: Record) -> Self {
        Plan {
            record,
            actions: Vec::new(),
            waits: Vec::new(),
            decisions: Vec::new(),
            violations: Vec::new(),
            broken: Vec::new(),
            stalled: None,
            needs_adoption: None,
        }
    }

    /// Adds something awaited.
    pub fn wait(&mut self, reason: Reason, member: Option<&MemberName>, message: impl Into<String>) {
        self.wait_until(reason, member, message, None);
    }

    /// The same, with a time to look again.
    pub fn wait_until(
        &mut self,
        reason: Reason,
        member: Option<&MemberName>,
        message: impl Into<String>,
        until: Option<Timestamp>,
    ) {
        let wait = Wait { reason, message: message.into(), member: member.cloned(), until };
        if !self.waits.contains(&wait) {
            self.waits.push(wait);
        }
    }

    /// Whether this round already does something with the member.
    #[must_use]
    pub fn touches(&self, name: &MemberName) -> bool {
        self.actions.iter().any(|a| match a {
            Action::Run { intent, .. } => &intent.member == name,
            Action::Read { member, .. } | Action::DeletePod { member, .. } => member == name,
            Action::Apply(_) | Action::Nudge { .. } | Action::Route { .. } => false,
            Action::MarkClaim { .. } | Action::Scale { .. } => false,
        })
    }

    /// What this round adds to the history, oldest first.
    pub fn noted<'a>(&'a self, before: &'a Record) -> impl Iterator<Item = &'a Transition> {
        let last = before.history.last();
        let known = last.map_or(0, |last| self.record.history.iter().rposition(|t| t == last).map_or(0, |at| at + 1));
        self.record.history.iter().skip(known)
    }

    /// Puts what writes objects anew behind everything that serves people. The `StatefulSet` shrinks at the very end: an apply after that
    /// would let it grow again.
    pub(crate) fn sort(&mut self) {
        self.actions.sort_by_key(|action| match action {
            Action::Route { .. } | Action::Run { .. } | Action::Read { .. } => 0,
            Action::DeletePod { .. } | Action::MarkClaim { .. } => 0,
            Action::Apply(_) | Action::Nudge { .. } => 1,
            Action::Scale { .. } => 2,
        });
    }

    /// The earliest time that something awaited names.
    #[must_use]
    pub fn wake_at(&self) -> Option<Timestamp> {
        self.waits.iter().filter_map(|w| w.until).min()
    }
}

/// What a pod's routing should be for a role.
#[must_use]
pub fn route_word(role: Role) -> Option<&'static str> {
    match role {
        Role::Primary => Some("primary"),
        Role::Secondary => Some("secondary"),
        Role::Unknown | Role::Stopped | Role::Starting | Role::Failed => None,
    }
}
