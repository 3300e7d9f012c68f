//! How clients reach the members: the part `services` of a group's spec.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The two Services that lead clients to members in their role. The one without a virtual address, by which members find each other, has no options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Services {
    /// The Service that leads to the primaries: the group's name and `-rw`.
    #[serde(default)]
    pub primary: ServiceOptions,
    /// The Service that leads to the secondaries: the group's name and `-ro`.
    #[serde(default)]
    pub secondary: ServiceOptions,
}

/// What may differ between Services. Everything else follows from the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceOptions {
    /// From where it can be reached: as `spec.type` of a Service.
    #[serde(default, rename = "type")]
    pub reach: Reach,
    /// Labels of the Service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Service, for instance for the load balancer of a cloud.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub annotations: BTreeMap<String, String>,
    /// Which load balancer: as in a Service. It cannot be changed afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub load_balancer_class: Option<String>,
    /// From which addresses the load balancer accepts clients: as in a Service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 64)))]
    pub load_balancer_source_ranges: Vec<String>,
    /// Whether clients from outside are led to other nodes: as in a Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<TrafficPolicy>,
}

/// From where a Service can be reached (docs/requirements.md, E13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Reach {
    /// From within the cluster.
    #[default]
    #[serde(rename = "ClusterIP")]
    Cluster,
    /// At a port of each node, too.
    NodePort,
    /// Through a load balancer, too.
    LoadBalancer,
}

impl Reach {
    /// The word in a Service.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Reach::Cluster => "ClusterIP",
            Reach::NodePort => "NodePort",
            Reach::LoadBalancer => "LoadBalancer",
        }
    }
}

/// Where clients from outside are led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TrafficPolicy {
    /// To every node.
    Cluster,
    /// Only to members on the node that they reached: their address stays.
    Local,
}

impl TrafficPolicy {
    /// The word in a Service.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            TrafficPolicy::Cluster => "Cluster",
            TrafficPolicy::Local => "Local",
        }
    }
}
