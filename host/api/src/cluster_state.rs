//! A ConfigMap that names the members: the part `clusterState` of a group's spec.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A ConfigMap that names the members as they are, for administrators and other programs. Each of its keys is also an environment variable of the commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterState {
    /// The name of the ConfigMap. Default: the group's name and `-cluster-state`. One that belongs to somebody else is never written. Under another name a new one is made, and
    /// the former one stays until the group is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub name: Option<String>,
    /// The keys. All values together have at most 32 KiB.
    #[schemars(
        length(min = 1, max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub data: Vec<StateKey>,
}

/// One key of the ConfigMap, with exactly one of `value` and `each`. `$(GROUP)`, `$(NAMESPACE)`, `$(UID)` (of the group), `$(STATE)` (`new` until the first member served, then `existing`),
/// `$(COUNT)`, `$(NAMES)` and `$(ADDRESSES)` (of the members) are replaced in both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StateKey {
    /// The key in the ConfigMap and the name of the environment variable.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub name: String,
    /// A text about the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = r"^[^\x00]*$"))]
    pub value: Option<String>,
    /// A text about one member, repeated for each, by ordinal. `$(NAME)`, `$(ADDRESS)` (its fully qualified name), `$(ORDINAL)` and `$(ID)` (its identity in the list that the
    /// application says, if there is one) are replaced, too. For instance `$(NAME)=http://$(ADDRESS):2380`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = r"^[^\x00]*$"))]
    pub each: Option<String>,
    /// The text between two members, also in `$(NAMES)` and `$(ADDRESSES)`.
    #[serde(default = "comma")]
    #[schemars(length(max = 16), regex(pattern = r"^[^\x00]*$"))]
    pub separator: String,
}

fn comma() -> String {
    ",".into()
}
