//! What rounds count, for whoever shows metrics.
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_core::snapshot::Evidence;
use tanist_core::status::Condition;

/// How an execution went, as far as metrics tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Went {
    /// It exited 0, or gave an answer.
    Well,
    /// It exited with another code.
    Failed,
    /// It was not started.
    NotStarted,
    /// How it went is not known.
    Unknown,
}

impl Went {
    /// The word in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Went::Well => "ok",
            Went::Failed => "failed",
            Went::NotStarted => "not-started",
            Went::Unknown => "unknown",
        }
    }
}

impl From<&Evidence> for Went {
    fn from(evidence: &Evidence) -> Self {
        match evidence {
            Evidence::Exited(0) => Went::Well,
            Evidence::Exited(_) => Went::Failed,
            Evidence::NotStarted(_) => Went::NotStarted,
            Evidence::Running | Evidence::Interrupted | Evidence::Unknown(_) => Went::Unknown,
        }
    }
}

/// What is executed in a member, as far as bounds and metrics tell it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// `status`, `sequence` or `settle`.
    Question,
    /// A command that changes the member, such as `primary` or `stop`.
    Command,
}

impl Execution {
    /// The word in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Execution::Question => "question",
            Execution::Command => "command",
        }
    }
}

/// Counts. Nothing that a round does depends on it.
pub trait Count: Send + Sync {
    /// An execution found no free slot.
    fn no_slot(&self, kind: Execution);
    /// An execution of that command has ended.
    fn executed(&self, command: &str, went: Went, took: Duration);
    /// How a command ended is not known.
    fn unknown(&self);
    /// The conditions of a group are these.
    fn conditions(&self, group: &ReplicaGroup, conditions: &[Condition]);
}

/// For tests and the simulator, which show no metrics: nothing is counted.
impl Count for () {
    fn no_slot(&self, _: Execution) {}
    fn executed(&self, _: &str, _: Went, _: Duration) {}
    fn unknown(&self) {}
    fn conditions(&self, _: &ReplicaGroup, _: &[Condition]) {}
}
