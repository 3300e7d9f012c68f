//! How the number of members changes, and what becomes of members that leave: the part `scaling` of a group's spec.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the number of members changes, and what becomes of those that leave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    /// The least number of members, for administrators and autoscalers: `replicas` below it is refused. 0, which stops all members, is allowed all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub min_replicas: Option<u32>,
    /// The largest number of members: `replicas` above it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_replicas: Option<u32>,
    /// Whether `replicas` has to be odd: an even number of voters survives no more losses than one less. 0 is allowed all the same.
    #[serde(default)]
    pub odd: bool,
    /// Whether a smaller `replicas` than before is refused, 0 too. Set it to false to scale down on purpose.
    #[serde(default)]
    pub never_down: bool,
    /// Seconds for which the members of a group with `commands.memberList` may stay other than desired without a change among them. Then the condition `Degraded` is True with the
    /// reason `ResizeOverdue` and says what is waited for. Nothing is given up for that: the group goes on, and the condition ends with the next change.
    #[serde(default = "deadline")]
    #[schemars(range(min = 1, max = 604_800))]
    pub deadline_seconds: u32,
    /// Seconds from the moment at which one member that leaves has stopped, or with `commands.memberList` was removed from the application, to the next one. A primary that leaves gives up the lead
    /// without that wait, and nobody waits on the way to 0 members.
    #[serde(default)]
    #[schemars(range(max = 86_400))]
    pub wait_between_removals_seconds: u32,
    /// The claims of members that were removed. `Keep`: they stay, with their data. In a group with `commands.memberList` such a member cannot come back with
    /// them, because they have the data of an identity that is over: delete its claims before `replicas` grows again. `Delete`: Tanist deletes them, also those that were
    /// kept before, once a majority says that the member is none any more. That needs the right to delete claims, which only `deploy/rbac/volumes` grants. `Wipe`: the claims stay, and
    /// `commands.wipe` empties them in the stopped member before its pod goes, so that a member of a StatefulSet can come back as a new one; one whose pod does not run, that never served, or where that failed 5 times leaves with its data. On the way to 0 members all claims stay as
    /// they are in any case.
    #[serde(default)]
    pub volumes: RemovedVolumes,
}

impl Default for Scaling {
    fn default() -> Self {
        Scaling {
            min_replicas: None,
            max_replicas: None,
            odd: false,
            never_down: false,
            deadline_seconds: deadline(),
            wait_between_removals_seconds: 0,
            volumes: RemovedVolumes::default(),
        }
    }
}

/// A learner copies all data first, which takes minutes where there is much.
fn deadline() -> u32 {
    600
}

/// The claims of members that were removed (docs/requirements.md, D20).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RemovedVolumes {
    /// They stay, so that a member that comes back has its data.
    #[default]
    Keep,
    /// They stay, and the member's data is removed from them.
    Wipe,
    /// They are deleted.
    Delete,
}
