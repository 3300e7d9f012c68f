//! What the host will do in this round and what it waits for, as data that leaves nothing to choose.
use crate::check::Violation;
use crate::contract::{MemberName, Role, Sequence, Timestamp, Transition};
use crate::policy::{Point, PolicyName, Unanswered};
use crate::record::{Intent, Record};
use crate::snapshot::{ClaimMark, Object, Query};
use crate::state::Data;
use std::sync::Arc;

mod wait;

pub use wait::{Reason, Wait};

/// The result of a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The record. It has to be written before any action that starts a command.
    pub record: Record,
    /// The actions in their order. An action that fails stops only those that depend on it. Actions that clients depend on come first, objects
    /// that are only applied again come last.
    pub actions: Vec<Action>,
    /// What is awaited, most important first.
    pub waits: Vec<Wait>,
    /// The questions that were asked, with their answers and the reasons for each member.
    pub decisions: Vec<Decision>,
    /// Answers and commands that broke a rule and were dropped.
    pub violations: Vec<Violation>,
    /// Policies that could not answer.
    pub broken: Vec<Unanswered>,
    /// Why the group cannot go on by itself: no candidate is left, or a policy never decides. Absent: it can.
    pub stalled: Option<String>,
    /// Which data neither the record nor a claim explains. Absent: all data is explained.
    pub needs_adoption: Option<String>,
    /// When to look again although nothing is awaited. Absent: at the next event or resync.
    pub look_again: Option<Timestamp>,
}

/// One action of a plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Server-side apply of an object.
    Apply(Object),
    /// Make the controller of the `StatefulSet` create missing pods at once, by an annotation on the object that ends its back-off.
    Nudge {
        /// The UID of the `StatefulSet`.
        set_uid: String,
    },
    /// Write the role label and the readiness gate of a pod, which the Services follow.
    Route {
        /// The member whose pod it is.
        member: MemberName,
        /// The UID of the pod.
        pod_uid: String,
        /// `primary` or `secondary`. Absent: no Service leads to the pod.
        role: Option<&'static str>,
        /// The value of the readiness gate.
        ready: bool,
        /// The `resourceVersion` of the pod that this was decided on, as a precondition of leading clients to it. Absent when clients are led
        /// away: that must not be delayed by a conflict, and the UID protects enough.
        version: Option<String>,
    },
    /// Start a command; its intent is in `record`.
    Run {
        /// The intent: the durable note of the command.
        intent: Intent,
        /// argv with the peers in place.
        argv: Vec<String>,
        /// Environment variables, `KEY=VALUE`: the cluster state. A runner that does not know how to set them is not given them.
        env: Vec<String>,
        /// Whether it starts a member, so that the cluster state is written before.
        needs_state: bool,
    },
    /// Write the cluster state into its ConfigMap (`spec.clusterState`).
    WriteState {
        /// The name of the ConfigMap.
        name: String,
        /// The rendered values, by key of the ConfigMap.
        data: Data,
        /// Its `resourceVersion` as it was seen: a precondition. Absent: there is none, and it may only be created.
        version: Option<String>,
        /// Whether a start of this plan waits for it.
        awaited: bool,
    },
    /// Run `sequence`. It changes nothing, so it needs no intent.
    Read {
        /// The member that is asked.
        member: MemberName,
        /// The UID of its pod.
        pod_uid: String,
    },
    /// Run `memberList`. It changes nothing, so it needs no intent.
    List {
        /// The member that is asked.
        member: MemberName,
        /// The UID of its pod.
        pod_uid: String,
    },
    /// Run `check` on the first member with a changed template, or `prepared` before pods are deleted for an update. They change nothing, so they need no intent.
    Ask {
        /// Which of the two.
        query: Query,
        /// The member that is asked.
        member: MemberName,
        /// The UID of its pod.
        pod_uid: String,
    },
    /// Delete a pod; its volumes stay.
    DeletePod {
        /// The member whose pod it is.
        member: MemberName,
        /// The UID of the pod: a precondition of the call.
        pod_uid: String,
        /// What has to hold still when it is deleted.
        cause: DeletionCause,
        /// The reason that users see.
        reason: String,
    },
    /// Create what a member lacks of its claims and its pod, where this operator makes them. Its number is in the record, which is written before.
    Create {
        /// The member that lacks the objects.
        member: MemberName,
        /// What is created, in this order. None of it is there.
        objects: Vec<Object>,
    },
    /// Let a pod belong to what makes the pods from now on: the `StatefulSet`, or the group itself.
    Adopt {
        /// The member whose pod it is.
        member: MemberName,
        /// The UID of the pod.
        pod_uid: String,
        /// The `resourceVersion` of the pod that this was decided on.
        version: String,
        /// The change, as a merge patch.
        change: Arc<serde_json::Value>,
    },
    /// Delete the `StatefulSet` to which no pod belongs any more.
    DropSet {
        /// The UID of the `StatefulSet`: a precondition of the call.
        uid: String,
        /// Its `resourceVersion` that this was decided on: a precondition of the call.
        version: String,
    },
    /// Scale the `StatefulSet` down. The record that explains the claims of the members that leave is written before.
    Scale {
        /// The number of members that stay.
        replicas: u32,
    },
    /// Delete a claim that a removed member left behind, with its data.
    DeleteClaim {
        /// The removed member whose claim it was.
        member: MemberName,
        /// The claim's name.
        claim: String,
        /// The UID of the claim: a precondition of the call.
        uid: String,
    },
    /// Ask for a larger volume: the claim's request becomes that of the spec.
    GrowClaim {
        /// The member whose claim it is.
        member: MemberName,
        /// The claim's name.
        claim: String,
        /// The UID of the claim.
        uid: String,
        /// The `resourceVersion` of the claim that this was decided on: without this precondition a late write could ask for less than was asked for since.
        version: String,
        /// How much, as Kubernetes writes it.
        size: String,
    },
    /// Write the group's memory as annotations of a claim.
    MarkClaim {
        /// The claim's name.
        claim: String,
        /// The UID of the claim.
        uid: String,
        /// The `resourceVersion` of the claim that this was decided on: without this precondition a late write could lower the term.
        version: String,
        /// The memory to write.
        mark: ClaimMark,
    },
}

/// Why a pod is deleted. The second look holds each against its own rule ([`checked::recheck_deletion`](crate::checked::recheck_deletion)): a pod that
/// was to be deleted because its member failed is never deleted because a policy would move it, nor the other way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionCause {
    /// The member failed, and a policy chose this treatment (A26), or the outcome of its command stayed unknown (docs/requirements.md, reading 27).
    Failure,
    /// The member is a secondary that works, and a policy wants it moved (docs/rules.md, "Rebalance").
    Rebalance,
    /// The pod has an older template than the group (docs/rules.md, "Update").
    Update,
    /// The member left the group, whose pods this operator makes itself.
    Left,
    /// Every container of the pod has ended for good. A `StatefulSet` does this by itself.
    Ended,
}

/// Who settled a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecidedBy {
    /// A policy answered.
    Policy(PolicyName),
    /// An administrator decided by the annotation `tanist.dev/override`; no policy was asked.
    Administrator,
    /// Every member was barred, so no policy was asked.
    NoCandidate,
}

impl DecidedBy {
    /// The policy that answered. `None`: no policy was asked.
    #[must_use]
    pub fn policy(&self) -> Option<&PolicyName> {
        match self {
            DecidedBy::Policy(name) => Some(name),
            DecidedBy::Administrator | DecidedBy::NoCandidate => None,
        }
    }
}

/// As users see it, for instance `sequence 0.1.0 (builtin/sequence)`.
impl std::fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecidedBy::Policy(name) => name.fmt(f),
            DecidedBy::Administrator => f.write_str("an administrator (tanist.dev/override)"),
            DecidedBy::NoCandidate => f.write_str("no policy was asked"),
        }
    }
}

/// A question with its answer and the reason for each member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// When it was decided.
    pub at: Timestamp,
    /// The decision point that was settled.
    pub point: Point,
    /// Who settled it.
    pub by: DecidedBy,
    /// The group's term at that time.
    pub term: u64,
    /// The chosen member. Absent: none.
    pub chosen: Option<MemberName>,
    /// Why, in one sentence.
    pub reason: String,
    /// All members by ordinal, each with its result.
    pub candidates: Vec<Considered>,
    /// What the policies that were asked noted for their authors. Nothing is decided by it.
    pub notes: Vec<String>,
}

/// One member in a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Considered {
    /// The member that was considered.
    pub member: MemberName,
    /// Its place in the decision.
    pub result: Standing,
    /// Why it has this place.
    pub reason: String,
    /// Its sequence. Absent: empty, unknown or not asked.
    pub sequence: Option<Sequence>,
}

/// The place of a member in a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The policy's first candidate: the decision is about this member.
    Chosen,
    /// A further candidate of the policy.
    Fallback,
    /// It could have been chosen, but the policy did not name it as a candidate.
    PassedOver,
    /// A rule of the host excludes it.
    Barred,
}

impl Plan {
    /// A plan that does nothing and keeps the record as it is.
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
            look_again: None,
        }
    }

    /// Adds something that the group waits for.
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

    /// Asks for another round at that time, or earlier, although nothing is awaited.
    pub fn look_again_at(&mut self, at: Timestamp) {
        self.look_again = Some(self.look_again.map_or(at, |other| other.min(at)));
    }

    /// Whether this round already does something with the member.
    #[must_use]
    pub fn touches(&self, name: &MemberName) -> bool {
        self.actions.iter().any(|a| match a {
            Action::Run { intent, .. } => &intent.member == name,
            Action::Read { member, .. } | Action::List { member, .. } => member == name,
            Action::Ask { member, .. } | Action::DeletePod { member, .. } => member == name,
            Action::Apply(_) | Action::Nudge { .. } | Action::Route { .. } | Action::WriteState { .. } => false,
            Action::Create { .. } | Action::Adopt { .. } | Action::DropSet { .. } => false,
            Action::MarkClaim { .. } | Action::GrowClaim { .. } | Action::DeleteClaim { .. } | Action::Scale { .. } => {
                false
            }
        })
    }

    /// What this round adds to the history, oldest first.
    pub fn noted<'a>(&'a self, before: &'a Record) -> impl Iterator<Item = &'a Transition> {
        let last = before.history.last();
        let known = last.map_or(0, |last| self.record.history.iter().rposition(|t| t == last).map_or(0, |at| at + 1));
        self.record.history.iter().skip(known)
    }

    /// Orders the actions: those that clients depend on first, then applied objects. The `StatefulSet` is scaled down last, because an apply after
    /// that would scale it up again.
    pub(crate) fn sort(&mut self) {
        self.actions.sort_by_key(|action| match action {
            Action::Route { .. } | Action::Run { .. } | Action::Read { .. } => 0,
            Action::List { .. } | Action::Ask { .. } => 0,
            // Nobody waits for these.
            Action::DeletePod { cause: DeletionCause::Ended | DeletionCause::Left, .. } => 1,
            Action::DeletePod { .. } | Action::MarkClaim { .. } | Action::DeleteClaim { .. } => 0,
            // It stands before the first command that waits for it.
            Action::WriteState { awaited: true, .. } => 0,
            Action::WriteState { awaited: false, .. } => 1,
            Action::Apply(_) | Action::Nudge { .. } | Action::GrowClaim { .. } | Action::Create { .. } => 1,
            Action::Adopt { .. } | Action::DropSet { .. } => 1,
            Action::Scale { .. } => 2,
        });
    }

    /// The earliest time at which to look again.
    #[must_use]
    pub fn wake_at(&self) -> Option<Timestamp> {
        self.waits.iter().filter_map(|w| w.until).chain(self.look_again).min()
    }

    /// The plan whose record was not written: without intents for commands that did not start, and without the decision for a move that was not made. Record and
    /// status hold only what really happened. `before`: the record that was read.
    #[must_use]
    pub fn unwritten(mut self, before: &Record) -> Plan {
        let needs_record = |a: &Action| {
            matches!(
                a,
                Action::Run { .. }
                    | Action::DeletePod { .. }
                    | Action::DeleteClaim { .. }
                    | Action::Create { .. }
                    | Action::Scale { .. }
            )
        };
        if self.actions.iter().any(needs_record) {
            self.decisions.retain(|decision| !decision.point.is_optional() || decision.point == Point::Switchover);
            self.record = before.clone();
        }
        self
    }
}

/// The value of the label `tanist.dev/role` for a role. `None`: no Service leads to such a pod.
#[must_use]
pub fn route_word(role: Role) -> Option<&'static str> {
    match role {
        Role::Primary => Some("primary"),
        Role::Secondary => Some("secondary"),
        Role::Unknown | Role::Stopped | Role::Starting | Role::Failed => None,
    }
}
