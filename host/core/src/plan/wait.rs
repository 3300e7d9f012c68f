//! What a group waits for, and why.
use crate::contract::{MemberName, Timestamp};
use crate::words::words;

/// Something that the group waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The reason as one word, for machines.
    pub reason: Reason,
    /// What is awaited and what helps, as users see it.
    pub message: String,
    /// The member that it concerns. Absent: the whole group.
    pub member: Option<MemberName>,
    /// When to look again if nothing happens before. Absent: at the next event or resync.
    pub until: Option<Timestamp>,
}

words! {
    /// Why a group waits: the reasons in conditions, explained in docs/runbook.md.
    pub enum Reason {
        /// The user paused the group with `spec.paused`.
        Paused,
        /// An object is being applied.
        CreatingObjects,
        /// Pods are missing or do not run.
        PodsNotRunning,
        /// Kubernetes cannot start a pod, and says why.
        PodCannotStart,
        /// A living pod of a member lost its label or its owner.
        PodStray,
        /// A command runs.
        CommandRunning,
        /// The outcome of a command is unknown.
        OutcomeUnknown,
        /// A command exited 0, and `status` does not show the intended role yet.
        ConfirmingRole,
        /// Sequences are being read.
        ReadingPositions,
        /// A sequence could not be read.
        PositionUnknown,
        /// A member may be primary that does not serve.
        MayBePrimary,
        /// A member is not stopped, and the first primary waits for that.
        MembersNotStopped,
        /// Two members have data of different histories.
        HistoriesDiffer,
        /// The best data present is below the most recent data that was ever seen.
        BelowHighWater,
        /// The volume of a last primary was replaced, or a claim has a later term than the record.
        ClaimChanged,
        /// Claims of members beyond those expected may have data that counts.
        UnrecordedClaims,
        /// A member has data that neither the record nor a claim explains.
        NeedsAdoption,
        /// No member can be chosen, and at least one candidate failed.
        CandidatesFailed,
        /// No member can be chosen.
        NoCandidate,
        /// The policy answered that it waits.
        PolicyWaits,
        /// The policy answered that an administrator has to change something.
        PolicyRefuses,
        /// The policy could not answer.
        PolicyBroken,
        /// A policy is being loaded.
        PolicyLoading,
        /// The machine's load cut off the question.
        DecisionDelayed,
        /// The policy's answer broke a check.
        AnswerRejected,
        /// A member failed.
        MemberFailed,
        /// A secondary has to take over and cannot yet.
        FailoverPending,
        /// A switchover was requested and cannot begin yet.
        SwitchoverPending,
        /// A switchover ended, and the requested member does not lead: it did not have all data.
        SwitchoverFailed,
        /// Secondaries of an older term have to follow the new primary.
        FollowPending,
        /// There are more members than desired; they are removed one after the other.
        ShrinkPending,
        /// The group is on its way from one kind of members to the other.
        MovePending,
        /// Members move to other zones.
        ZonesPending,
        /// New members come in the place of some that fail again and again.
        ReplacementPending,
        /// The override cannot be used.
        OverrideInvalid,
        /// No member said who the members of the application are.
        ListUnknown,
        /// Members of the application list different members.
        ListsDiffer,
        /// Members of the application are in different clusters.
        SplitBrain,
        /// A member that the application lists cannot be started yet.
        RejoinPending,
        /// The members of the application are not those that are desired yet.
        ResizePending,
        /// The members of the application are other than desired, and nothing changed among them for a long time.
        ResizeOverdue,
        /// A volume has data of an earlier identity.
        KeptData,
        /// Volumes are getting larger.
        VolumesGrowing,
        /// The storage cannot make a volume larger.
        VolumeNotGrown,
        /// Pods get the present template one after the other.
        Updating,
        /// The same, and nothing changed for a long time.
        UpdateStuck,
        /// The first member with a changed template is watched.
        Canary,
        /// A changed template failed on the first member that got it.
        CanaryFailed,
        /// A ConfigMap or Secret that belongs to the template cannot be read.
        ConfigUnknown,
        /// A changed template did not work, and pods go back to the one before.
        RolledBack,
        /// A member is being recovered, as an administrator wanted.
        RecoverPending,
        /// The request to recover a member cannot be used.
        RecoverInvalid,
        /// The data is being converted to a later version of the application.
        Upgrading,
        /// The data is of a later version than `spec.version`.
        VersionTooLow,
        /// The ConfigMap of `spec.clusterState` cannot be written as it has to be.
        ClusterStateBlocked,
    }
}
