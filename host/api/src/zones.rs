//! The zones among which the members are divided: the part `zones` of a group's spec.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The zones among which the members are divided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Zones {
    /// The label of a node that says its zone. Default: `topology.kubernetes.io/zone`. It is also what `update.batch: Zone` and policies see as the zone of a member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 317),
        regex(pattern = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
    )]
    pub node_label: Option<String>,
    /// The zones, with `members.kind: Pods`. Each member belongs to one of them for life: its pod has to run there (a required node affinity, in addition to yours), has the labels `tanist.dev/zone` and `tanist.dev/zone-index`,
    /// and its containers have the environment variables ZONE_NAME and ZONE_INDEX (0 for the first). It is one group all the same: one lead over all zones. When a zone is added, removed or renamed, members move: a new
    /// member joins in the right zone first, then the one in whose place it came leaves, `update.maxConcurrentReplacements` at a time (those that an update brings count, too), primaries last. That needs `commands.secondary` or
    /// `commands.memberList`. Empty: members run anywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub list: Vec<Zone>,
}

impl Zones {
    /// Whether nothing is said about zones.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.node_label.is_none() && self.list.is_empty()
    }

    /// The label of a node that says its zone.
    #[must_use]
    pub fn label(&self) -> &str {
        self.node_label.as_deref().unwrap_or("topology.kubernetes.io/zone")
    }
}

/// A zone in which members run: one value of the label that nodes have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Zone {
    /// Its name: the value of the node label.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"))]
    pub name: String,
    /// How many of the group's `replicas` it has. Zones without a number share the others evenly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1000))]
    pub replicas: Option<u32>,
}
