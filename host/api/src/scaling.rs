//! What becomes of members that leave: the part `scaling` of a group's spec.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What becomes of members that leave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    /// The claims of members that were removed. `Keep`: they stay, with their data. In a group with `commands.memberList` such a member cannot come back with
    /// them, because they have the data of an identity that is over: delete its claims before `replicas` grows again. `Delete`: Tanist deletes them, also those that were
    /// kept before, once a majority says that the member is none any more. That needs the right to delete claims, which only `deploy/rbac/volumes` grants. On the way to 0 members
    /// all claims stay in any case.
    #[serde(default)]
    pub volumes: RemovedVolumes,
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
