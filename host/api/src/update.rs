//! How a changed template reaches the pods: the part `update` of a group's spec.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a changed template reaches the pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    /// How many members get a new pod at a time. `Member`: one after the other. Members whose pods cannot start, or whose last command failed, come first; then those that are
    /// no primaries, the highest ordinal first, each only while every other member is in its role; the primary is last, after a switchover to a member that has the new template.
    /// `None`: Tanist deletes no pod for an update; the condition `UpdatePending` names the pods that wait for you.
    #[serde(default)]
    pub batch: Batch,
    /// While true, an update stops where it is.
    #[serde(default)]
    pub paused: bool,
    /// For how many seconds every other member has to have been ready before the next healthy member gets a new pod.
    #[serde(default)]
    #[schemars(range(max = 86_400))]
    pub wait_seconds: u32,
    /// Seconds without progress after which an update that is not done is reported: the condition `Degraded` is True with the reason `UpdateStuck` and says what is waited for.
    #[serde(default = "timeout")]
    #[schemars(range(min = 1, max = 604_800))]
    pub timeout_seconds: u32,
}

impl Default for Update {
    fn default() -> Self {
        Update { batch: Batch::default(), paused: false, wait_seconds: 0, timeout_seconds: timeout() }
    }
}

/// A member copies what it missed, which takes minutes where there is much.
fn timeout() -> u32 {
    600
}

/// How many members get a new pod at a time (docs/requirements.md, B27).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Batch {
    /// One.
    #[default]
    Member,
    /// None: users delete the pods.
    None,
}
