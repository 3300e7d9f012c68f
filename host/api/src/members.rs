//! What makes the pods of the members, and which members are to go: the part `members` of a group's spec.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What makes the pods of the members, and which members are to go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Members {
    /// What makes the pods. `StatefulSet`: a StatefulSet, whose members are numbered from 0 without a gap, so that the highest number leaves first. `Pods`: Tanist itself, with
    /// claims by the same names. A member has its number, its name and its volumes for life, and a number is never used twice, so that any member can go (`remove`). Pods that are lost are made anew, as
    /// by a StatefulSet. That needs the right to create pods and claims, which only `deploy/rbac/members` grants. A running group may be moved from the one to the other, and no pod is lost: see
    /// docs/rules.md, "Members by identity". Back to `StatefulSet` it moves as soon as its members are numbered from 0 without a gap.
    #[serde(default)]
    pub kind: MembersKind,
    /// Members that are to go, for instance `db-1`, with `kind: Pods`: a new member with a new number comes in the place of each, joins first, and then the one that is named leaves. While
    /// `replicas` gets smaller these go instead of those with the highest numbers. A name may stay here when the member is gone, because no other one ever gets it; there is room for 16. What becomes of its
    /// claims: `scaling.volumes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        inner(length(max = 63), regex(pattern = r"^[a-z][-a-z0-9]*-(0|[1-9][0-9]{0,8})$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub remove: Vec<String>,
    /// How many commands in a row may fail in a member that then runs nothing, before a new member with a new number comes in its place, with `kind: Pods`, if it was in a role before: the new one joins first, and then the one that fails leaves. 0, the
    /// default: nobody is replaced for that. 5 is a good value: with the pauses between the tries that takes some minutes. Only while all other members are in their roles, so that a fault of all replaces nobody, one after
    /// the other (`update.maxConcurrentReplacements`), and not for lack of memory, which a new member would lack as well. What becomes of its claims: `scaling.volumes`.
    #[serde(default)]
    #[schemars(range(max = 1000))]
    pub replace_after_failures: u32,
}

/// What makes the pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MembersKind {
    /// Kubernetes makes the pods of one StatefulSet; members leave from the highest number down.
    #[default]
    StatefulSet,
    /// Tanist makes the pods and volume claims itself, so that any member can leave.
    Pods,
}
