//! Conditions: their types, and the reasons that they can have. docs/runbook.md explains each reason.
use super::Failed;
use crate::plan::Reason;
use crate::words::words;

words! {
    /// The status of a condition, as in Kubernetes.
    pub enum Truth {
        /// The condition holds.
        True,
        /// The condition does not hold.
        False,
        /// It cannot be determined.
        Unknown,
    }
}

words! {
    /// The type of a condition. The first six are always present, the others only while they hold.
    pub enum Kind {
        /// Whether the group is as the spec says.
        Ready,
        /// Whether clients are served.
        Available,
        /// Whether something is being done.
        Progressing,
        /// Whether an administrator is needed.
        Degraded,
        /// Whether the policies are those of the spec, and answer.
        PolicyActive,
        /// Whether a question has had no answer for long.
        Stalled,
        /// Data was found that no record tells of.
        NeedsAdoption,
        /// Pods run an older template.
        UpdatePending,
        /// The API server refuses the template.
        TemplateRejected,
        /// Whether the members of the application are being changed. Only of a group whose members agree, and always there.
        Rescaling,
    }
}

words! {
    /// A reason of a condition that is neither a wait nor a failure.
    pub enum Finding {
        /// Every member is in its role, and policies have not let in the number of members that is asked for.
        NotAdmitted,
        /// `spec.replicas` is 0, and nothing runs as primary.
        Stopped,
        /// A pod is not Ready yet, though its member is in its role.
        PodsNotReady,
        /// No pod runs the new template.
        UpdatePending,
        /// Pods run the template before `spec.template`, which did not work.
        RolledBack,
        /// Every member is in its role.
        AllMembersInRole,
        /// The role of a member is unknown.
        RolesUnknown,
        /// No primary serves.
        NoPrimary,
        /// Members are not in their role.
        MembersNotInRole,
        /// A primary serves, and Services lead clients to it.
        PrimariesServe,
        /// The same, and all members that have a vote are healthy.
        QuorumHealthy,
        /// The same, and not all of them are healthy.
        QuorumAvailable,
        /// No primary serves, because too few members that have a vote are in a role.
        QuorumLost,
        /// A member is starting by itself.
        MemberStarting,
        /// Nothing is left to do.
        Settled,
        /// A command was started.
        CommandStarted,
        /// A question has had no answer for long.
        Stalled,
        /// Nothing needs an administrator.
        Healthy,
        /// A policy failed at a question.
        PolicyFailed,
        /// Every policy is loaded as the spec says.
        Loaded,
        /// The last good version of a policy decides.
        LastGoodDecides,
        /// A policy was never loaded.
        NoPolicy,
        /// A policy changes too often.
        Flapping,
        /// The version before decides, because the new one failed.
        PreviousDecides,
        /// A policy only ever says "wait".
        PolicyNeverDecides,
        /// Every candidate is barred or failed.
        NoCandidateLeft,
        /// There is a candidate, or none is needed.
        Moving,
        /// Claims have data, and no record tells of it.
        DataWithoutMemory,
        /// Pods were made from an older template.
        PodsOfAnOlderTemplate,
        /// The API server refuses an object.
        RefusedByTheApiServer,
        /// Members are added.
        ScalingUp,
        /// Members are removed.
        ScalingDown,
        /// A member that lost its volume is removed and added anew.
        Repairing,
        /// The members of the application are those that are desired.
        ReplicasMatchSpec,
        /// Who the members of the application are is not known.
        MembersUnknown,
    }
}

/// The reason of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionReason {
    /// The group waits.
    Waits(Reason),
    /// Observing the group or acting on it failed.
    Failed(Failed),
    /// What the report found, where the group neither waits nor failed.
    Is(Finding),
}

impl ConditionReason {
    /// One `CamelCase` word for machines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ConditionReason::Waits(reason) => reason.as_str(),
            ConditionReason::Failed(failed) => failed.as_str(),
            ConditionReason::Is(finding) => finding.as_str(),
        }
    }
}

impl From<Reason> for ConditionReason {
    fn from(reason: Reason) -> Self {
        ConditionReason::Waits(reason)
    }
}

impl From<Failed> for ConditionReason {
    fn from(failed: Failed) -> Self {
        ConditionReason::Failed(failed)
    }
}

impl From<Finding> for ConditionReason {
    fn from(finding: Finding) -> Self {
        ConditionReason::Is(finding)
    }
}

/// A condition of the group's status, without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The type of the condition, for instance `Ready`.
    pub kind: Kind,
    /// Whether it holds.
    pub status: Truth,
    /// Why the condition holds or does not, as one word.
    pub reason: ConditionReason,
    /// The sentence that users see, at most 1024 bytes.
    pub message: String,
}

impl Condition {
    /// A condition whose message is cut to what Kubernetes takes, without control characters.
    pub fn new(kind: Kind, status: Truth, reason: impl Into<ConditionReason>, message: &str) -> Self {
        Condition { kind, status, reason: reason.into(), message: long_cut(message) }
    }
}

/// The text cut to 1024 bytes, the limit for messages of conditions, with control characters replaced by spaces.
fn long_cut(text: &str) -> String {
    let mut end = text.len().min(1024);
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or_default().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
