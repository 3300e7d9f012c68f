//! A member as it was observed: its pod, its claims, and what it answered.
use crate::contract::{Condition, MemberName, Phase, Position, Role, Timestamp};
use crate::record::{Intent, LastPrimary, Membership, Started};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A member as it was observed.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The name of the member, which is also that of its pod.
    pub name: MemberName,
    /// The number in its name.
    pub ordinal: u32,
    /// Its pod. Absent: there is no pod that the group owns.
    pub pod: Option<Pod>,
    /// Its claims, by name.
    pub claims: Vec<Claim>,
    /// The latest result of `status`.
    pub reading: Reading,
    /// The latest result of `sequence` in the present container.
    pub position: Position,
    /// When the position was read.
    pub position_at: Timestamp,
    /// Whether the data may have changed since the position was asked for: a member may have been primary then or later, or the group was paused.
    pub position_stale: bool,
    /// Whether `sequence`, `memberList`, `check` or `prepared` is running on it now. It counts as a command, so no other one may start.
    pub asked: bool,
    /// What holds for it beside phase and role, by the words of docs/conditions.md, in any order. Policies see it; no rule of the host rests on it.
    pub conditions: Vec<Condition>,
}

impl Member {
    /// Whether Services lead clients to it as to a primary.
    #[must_use]
    pub fn leads_clients(&self) -> bool {
        self.pod.as_ref().and_then(|pod| pod.routed.as_deref()) == Some("primary")
    }
}

/// The pod of a member, as the API server shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its UID: a new pod under the same name has another one.
    pub uid: String,
    /// Its `resourceVersion` as it was seen: a precondition of deleting it and of leading clients to it.
    pub version: String,
    /// Its phase, as Kubernetes reports it.
    pub phase: Phase,
    /// When it entered that phase.
    pub phase_since: Timestamp,
    /// Whether Kubernetes reports it as Ready.
    pub ready: bool,
    /// The node that it runs on. Absent: it is not scheduled yet.
    pub node: Option<String>,
    /// Its termination grace period in seconds.
    pub grace: u32,
    /// Its containers, by name.
    pub containers: BTreeMap<String, Container>,
    /// The value of its label `tanist.dev/role`.
    pub routed: Option<String>,
    /// Whether it was made from an older template: the present template reaches it when it is replaced (A50).
    pub outdated: bool,
    /// Whether it was made from a `spec.template` that the user has changed since. A pod can be outdated for another reason: a new version of
    /// the operator adds something else to the template.
    pub older_template: bool,
    /// The version of the application whose programs it has: `spec.version` when it was made. Absent: none was named then.
    pub programs: Option<String>,
    /// Whether what changed in `spec.template` since calls for a new member in the place of this one (B7, `spec.update.replaceWhen`).
    pub needs_new_member: bool,
    /// The number of the `spec.template` from which it was made, as users see it (E3). Absent: not known. No rule rests on it.
    pub template: Option<u64>,
    /// The state of its readiness gate. Absent: never written.
    pub gate: Option<bool>,
    /// Labels that policies see.
    pub labels: Vec<(String, String)>,
    /// Why Kubernetes cannot start it, in its words. Absent: it runs or is being started.
    pub trouble: Option<String>,
    /// What it lacks to be found by the Services and managed by the `StatefulSet`, and what helps, in one sentence. Such a pod still counts as the
    /// member's pod, because its application may run. Absent: it lacks nothing.
    pub stray: Option<String>,
    /// Whether it belongs to something else than what is to make the pods: the group is on its way from one kind of members to the other, or somebody took its owner away.
    pub is_elsewhere: bool,
    /// The change by which it comes to belong to what is to make the pods. Absent: it belongs to that already, or cannot yet.
    pub adoption: Option<Arc<serde_json::Value>>,
    /// Whether it was deleted already and its object is still there: it has no other phase when it has ended before.
    pub is_being_deleted: bool,
    /// Whether a container of it ended last because it needed more memory than it may have.
    pub lacked_memory: bool,
}

/// A container of a member's pod, as the pod's status shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Its ID. Absent: it was not started yet.
    pub id: Option<String>,
    /// Whether it runs.
    pub running: bool,
    /// Whether its readiness probe succeeds. The runner's probe does when `status` says primary or secondary after a command that starts, or
    /// stopped after a command that stops.
    pub ready: bool,
}

/// A claim of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The name of the claim's object.
    pub name: String,
    /// Its UID: another UID means another volume.
    pub uid: String,
    /// Its `resourceVersion` as it was seen: a precondition of writing annotations on it.
    pub version: String,
    /// The memory in its annotations. Absent: none.
    pub mark: Option<ClaimMark>,
    /// The last start that makes its member primary, noted before that command started. Absent: none.
    pub start: Option<StartNote>,
    /// How large its volume is, and is to be. Absent: it is not bound to a volume yet, or no size is desired.
    pub room: Option<Room>,
}

/// How large the volume of a claim is, and is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// The name of the volume in the pod: that of its template.
    pub volume: String,
    /// What `spec.volumeClaimTemplates` asks for.
    pub desired: Amount,
    /// What the claim asks for. A claim that an administrator made larger stays as it is.
    pub requested: Amount,
    /// What its volume and the file system on it have.
    pub capacity: Amount,
    /// What Kubernetes or the storage says about the growth, as users see it. Absent: nothing.
    pub note: Option<String>,
    /// Whether the storage said that it cannot do it.
    pub is_refused: bool,
}

/// An amount of storage. Amounts are compared by their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amount {
    /// The amount in bytes.
    pub bytes: u128,
    /// As Kubernetes writes it, for instance `10Gi`.
    pub text: String,
}

/// A claim that a member left behind: an orderly scale-down removed the member, and nothing of the group expects it any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftClaim {
    /// The name of the member that was removed.
    pub member: MemberName,
    /// The claim that it left behind.
    pub claim: Claim,
    /// Kubernetes is deleting it, and waits until nothing uses it any more: a pod that mounts it, or whoever holds a finalizer.
    pub is_being_deleted: bool,
}

/// A start that makes a primary, in an annotation of its member's claim. The record has the same intent; without the record (the status was removed, or replaced by an
/// older one) nothing else knows of a command that is still on its way and was never confirmed ([`memory::recall`](crate::memory::recall)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartNote {
    /// The group it was written for.
    pub group: String,
    /// The number of the group's intents up to this one: of two notes in one term the one with the higher number is later.
    pub counter: u64,
    /// The command. Settling it tells whether it started, and if it did not, that it never will.
    pub intent: Intent,
    /// Where it makes a primary.
    pub target: LastPrimary,
    /// What the record says of the start.
    pub started: Started,
    /// Of which version of the application the data was before it. Absent: the user named none, or an older operator wrote this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The memory in the annotations of a claim: it outlives the group's object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimMark {
    /// The group it was written for.
    pub group: String,
    /// The term in which the member was last confirmed.
    pub term: u64,
    /// Its last known sequence.
    pub sequence: Option<crate::contract::Sequence>,
    /// The primaries of that term, sorted.
    pub primaries: Vec<MemberName>,
    /// Pods and nodes of members that may be primary and were not proven over when this was written; at most [`limits::MARKED_PRIMARIES`](crate::limits::MARKED_PRIMARIES), the own
    /// member's first. Empty if an older operator wrote it, which recorded only the names.
    pub ran: Vec<LastPrimary>,
    /// The last list of members on which the application's members agreed. Absent: none was known.
    pub membership: Option<Membership>,
    /// Of which version of the application its data is. Absent: the user named none, or an older operator wrote this.
    pub version: Option<String>,
}

/// What `check` or `prepared` said of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryAnswer {
    /// Its exit code: 0 is a yes. The error: why there is none, in words.
    pub said: Result<i32, String>,
    /// When it was asked.
    pub at: Timestamp,
    /// When it answered, or was given up.
    pub ended: Timestamp,
}

/// The result of `status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The role that `status` reported; unknown if it could not be read.
    pub role: Role,
    /// Why the role is unknown or failed.
    pub detail: Option<String>,
    /// When the member was first seen in this role.
    pub since: Timestamp,
    /// How often in a row the role could not be read.
    pub unknown_streak: u32,
    /// The number of processes that the runner sees in the container of `status`; see [`Commands::counts_application`]. Absent: not counted.
    pub processes: Option<u32>,
    /// The token of the command that runs in the container of `status`, as its runner says. Absent: none, or no runner says so.
    pub running: Option<String>,
    /// When `status` last gave a role, for a member that gives none now. Absent: it gives one, or it is not known.
    pub contact: Option<Timestamp>,
}

impl Default for Reading {
    fn default() -> Self {
        Reading {
            role: Role::Unknown,
            detail: None,
            since: 0,
            unknown_streak: 0,
            processes: None,
            running: None,
            contact: None,
        }
    }
}
