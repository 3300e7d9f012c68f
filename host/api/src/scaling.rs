//! How the number of members changes, and what becomes of members that leave: the part `scaling` of a group's spec.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the number of members changes, and what becomes of those that leave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    /// Seconds for which the members of a group with `commands.memberList` may stay other than desired without a change among them. Then the condition `Degraded` is True with the
    /// reason `ResizeOverdue` and says what is waited for. Nothing is given up for that: the group goes on, and the condition ends with the next change.
    #[serde(default = "deadline")]
    #[schemars(range(min = 1, max = 604_800))]
    pub deadline_seconds: u32,
    /// The claims of members that were removed. `Keep`: they stay, with their data. In a group with `commands.memberList` such a member cannot come back with
    /// them, because they have the data of an identity that is over: delete its claims before `replicas` grows again. `Delete`: Tanist deletes them, also those that were
    /// kept before, once a majority says that the member is none any more. That needs the right to delete claims, which only `deploy/rbac/volumes` grants. On the way to 0 members
    /// all claims stay in any case.
    #[serde(default)]
    pub volumes: RemovedVolumes,
}

impl Default for Scaling {
    fn default() -> Self {
        Scaling { deadline_seconds: deadline(), volumes: RemovedVolumes::default() }
    }
}

/// A learner copies all data first, which takes minutes where there is much.
fn deadline() -> u32 {
    600
}

/// The claims of members that were removed (docs/requirements.md, D20).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RemovedVolumes {
    /// They stay.
    #[default]
    Keep,
    /// They are deleted.
    Delete,
}
