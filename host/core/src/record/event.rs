//! The words of a group's history, which policies and users see (docs/transitions.md).
use std::fmt;

/// What happened in a group. A record of another version may have words that are not listed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A command is about to start; its intent is written with this.
    CommandStarted,
    /// The runner did not start a command.
    NotStarted,
    /// A command exited with an error, was ended by a restart, or could not be started.
    CommandFailed,
    /// A seed, failover or join is settled: `status` says primary.
    BecamePrimary,
    /// A place or follow is settled: `status` says secondary.
    BecameSecondary,
    /// A stop is settled.
    Stopped,
    /// A pod is about to be deleted.
    PodDeleted,
    /// There was no record and the application ran.
    Adopted,
    /// An administrator's override decided a seed or a failover.
    OverrideUsed,
    /// A takeover gives up data, as the spec allows.
    DataGivenUp,
    /// A member that may have been primary is proven over.
    PrimaryOver,
    /// A switchover ended, and another member leads.
    SwitchedOver,
    /// A switchover ended, and the same member leads again.
    SwitchoverFailed,
    /// Members beyond `replicas` leave.
    Shrunk,
    /// A policy let another number of members in.
    Admitted,
    /// The application lists a new member.
    MemberAdded,
    /// The application does not list a member any more.
    MemberRemoved,
    /// A learner got its vote.
    MemberPromoted,
    /// An administrator's request to recover a member is refused for good.
    RecoveryRefused,
    /// A member goes on alone, as an administrator wanted; the others are forgotten.
    Recovered,
    /// A changed template did not work: pods go back to the one before.
    RolledBack,
    /// The first member with a changed template was in its role for long enough.
    CanaryPassed,
    /// A changed template failed on the first member that got it.
    CanaryFailed,
    /// A new member is to come in the place of one, because the template changed.
    ReplacementBegun,
    /// `beforeUpdate` worked, or the group has none: the pods of the members that it was told of may be replaced.
    BatchBegun,
    /// Those members are in their roles with the present template, and `afterUpdate` worked, if the group has it.
    BatchEnded,
    /// Another member of an active/passive group is the active one from now on.
    Activated,
    /// The data of a member that left was removed from its volume.
    Wiped,
    /// The data was converted to a later version of the application.
    Upgraded,
}

impl Event {
    /// All of them.
    pub const ALL: [Event; 29] = [
        Event::CommandStarted,
        Event::NotStarted,
        Event::CommandFailed,
        Event::BecamePrimary,
        Event::BecameSecondary,
        Event::Stopped,
        Event::PodDeleted,
        Event::Adopted,
        Event::OverrideUsed,
        Event::DataGivenUp,
        Event::PrimaryOver,
        Event::SwitchedOver,
        Event::SwitchoverFailed,
        Event::Shrunk,
        Event::Admitted,
        Event::MemberAdded,
        Event::MemberRemoved,
        Event::MemberPromoted,
        Event::RecoveryRefused,
        Event::Recovered,
        Event::RolledBack,
        Event::CanaryPassed,
        Event::CanaryFailed,
        Event::ReplacementBegun,
        Event::BatchBegun,
        Event::BatchEnded,
        Event::Activated,
        Event::Wiped,
        Event::Upgraded,
    ];

    /// The word in the history.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Event::CommandStarted => "command-started",
            Event::NotStarted => "not-started",
            Event::CommandFailed => "command-failed",
            Event::BecamePrimary => "became-primary",
            Event::BecameSecondary => "became-secondary",
            Event::Stopped => "stopped",
            Event::PodDeleted => "pod-deleted",
            Event::Adopted => "adopted",
            Event::OverrideUsed => "override-used",
            Event::DataGivenUp => "data-given-up",
            Event::PrimaryOver => "primary-over",
            Event::SwitchedOver => "switched-over",
            Event::SwitchoverFailed => "switchover-failed",
            Event::Shrunk => "shrunk",
            Event::Admitted => "admitted",
            Event::MemberAdded => "member-added",
            Event::MemberRemoved => "member-removed",
            Event::MemberPromoted => "member-promoted",
            Event::RecoveryRefused => "recovery-refused",
            Event::Recovered => "recovered",
            Event::RolledBack => "rolled-back",
            Event::CanaryPassed => "canary-passed",
            Event::CanaryFailed => "canary-failed",
            Event::ReplacementBegun => "replacement-begun",
            Event::BatchBegun => "batch-begun",
            Event::BatchEnded => "batch-ended",
            Event::Activated => "activated",
            Event::Wiped => "wiped",
            Event::Upgraded => "upgraded",
        }
    }

    /// Whether an entry of the history is this event.
    #[must_use]
    pub fn is(self, what: &str) -> bool {
        self.word() == what
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
