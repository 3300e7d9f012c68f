//! The desired state of a group.
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};
use std::borrow::Cow;
use tanist_core::policy::Point;

pub use super::cluster_state::{ClusterState, StateKey};
pub use super::commands::{Command, Commands};
pub use super::members::{Members, MembersKind};
pub use super::scaling::{RemovedVolumes, Scaling};
pub use super::services::{Reach, ServiceOptions, Services, TrafficPolicy};
use super::status::ReplicaGroupStatus;
pub use super::template::{ClaimTemplate, Template};
pub use super::update::{Batch, CutOver, OnFailure, ReplaceWhen, Strategy, Update, UpgradeOn};
pub use super::zones::{Zone, Zones};

/// The desired state of the group.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tanist.dev",
    version = "v1alpha1",
    kind = "ReplicaGroup",
    plural = "replicagroups",
    singular = "replicagroup",
    shortname = "rg",
    category = "all",
    namespaced,
    status = "ReplicaGroupStatus",
    derive = "PartialEq",
    doc = "A replicated application. Commands start, stop and inspect its members; policies decide which member becomes primary, takes over, \
           follows or leaves.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
        "description": "Whether every desired member is in its role and at least one pod runs the present template."}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason",
        "description": "Why the group is or is not ready, in one word."}"#,
    printcolumn = r#"{"name": "Primary", "type": "string", "jsonPath": ".status.columns.primaries",
        "description": "The serving primaries."}"#,
    printcolumn = r#"{"name": "Members", "type": "string", "jsonPath": ".status.columns.members",
        "description": "Members in their role, of those desired."}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Updated", "type": "integer", "priority": 1, "jsonPath": ".status.updatedReplicas",
        "description": "How many members have a pod of the present template."}"#,
    printcolumn = r#"{"name": "Term", "type": "integer", "priority": 1, "jsonPath": ".status.record.term",
        "description": "The term of the group, which grows with every seed and takeover."}"#,
    printcolumn = r#"{"name": "Version", "type": "string", "priority": 1, "jsonPath": ".status.version",
        "description": "Of which version of the application the data is."}"#,
    printcolumn = r#"{"name": "Policy", "type": "string", "priority": 1, "jsonPath": ".status.columns.policies",
        "description": "The policies that decide, in the order in which they are asked."}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "priority": 1, "jsonPath": ".status.conditions[?(@.type==\"Ready\")].message",
        "description": "The state of the group in one sentence."}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaGroupSpec {
    /// How many members the group has: 0 to 1000. 0 stops the application; volumes and memory stay.
    #[schemars(range(max = 1000))]
    pub replicas: u32,

    /// How many members are primary: `All`, or a number from 1 to `replicas`. With `commands.memberList`: `All`, or 1, and then the members elect which one.
    pub primaries: Primaries,

    /// The pods: a pod template as in a StatefulSet, of which every field is allowed. Added to it are the environment variables POD_NAME,
    /// POD_NAMESPACE, SERVICE_NAME and TANIST_POD_UID, the label `tanist.dev/group` and the readiness gate `tanist.dev/member`; unless it says
    /// otherwise, a termination grace period of 600 seconds, no service account token, a preferred pod anti-affinity between members and an even
    /// spread over zones and nodes (an empty `podAntiAffinity` or list of `topologySpreadConstraints` switches them off). Labels and
    /// annotations under `tanist.dev/` are reserved; those under `policy.tanist.dev/` are seen by policies. A change reaches
    /// the pods one after the other (`update`); until then the condition `UpdatePending` names them, and Ready is False while no pod runs the new template.
    pub template: Template,

    /// Volume claims of each member, as in a StatefulSet. Immutable, but for `resources.requests.storage`, which may grow: then the claims of the members
    /// ask for more, while the application runs; the storage class has to allow it (`allowVolumeExpansion`). No claim is deleted, unless `scaling.volumes` is
    /// `Delete`.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub volume_claim_templates: Vec<ClaimTemplate>,

    /// The container in which commands run that name no container. Default: the first container of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub container: Option<String>,

    /// How commands are run. `Injected`: a small program, `tanist-run`, becomes the command of every container that a command names (its
    /// own `command` and `args` are replaced). It remembers how each command ended, also after a crash of the operator, and reports the death
    /// of the application within seconds. It needs port 8099 of the pod, the volume name `tanist` and the path /tanist. `None`: containers
    /// stay as they are, but for a `preStop` hook that runs `stop` where they have none, and commands run by exec alone. When the connection breaks, nobody can tell how the command ended, so Tanist has to
    /// wait longer, or for an administrator. In an active/passive group (without `commands.primary`) there is no runner, whatever this says. Immutable.
    #[serde(default)]
    pub runner: Runner,

    /// The commands that are executed in a member's container. Each is a list of arguments, never a shell string. In `primary`, `secondary`,
    /// `promote` and `follow` the argument `$(PEERS)` is replaced by the fully qualified names of the serving primaries, one argument each, sorted
    /// by ordinal. Without `$(PEERS)` they are appended.
    pub commands: Commands,

    /// The version of the application that the template has: one to three numbers, separated by dots, for instance `17` or `10.11`. Each command that Tanist executes gets the version of the data as environment variable TANIST_VERSION, with `runner: Injected`; `status` as the
    /// runner polls it, and `stop` as the runner runs it when its container ends, do not. When it is later than the version of the data (`status.version`), the data is converted by `commands.upgrade`; without that command the application converts it by itself. Only versions with another
    /// form of the data need another one here. It cannot become lower than the version of the data. Default: no version is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20), regex(pattern = r"^[0-9]{1,6}(\.[0-9]{1,6}){0,2}$"))]
    pub version: Option<String>,

    /// For how many seconds a member may report that it is starting before it counts as failed.
    #[serde(default = "default::start_deadline")]
    #[schemars(range(min = 1, max = 604_800))]
    pub start_deadline_seconds: u32,

    /// For how many seconds after its deadline a command may have an unknown outcome. Then the pod is deleted, as the last resort. Less than 60 counts as 60: a command may start so much later than it was noted.
    #[serde(default = "default::unknown_grace")]
    #[schemars(range(max = 604_800))]
    pub unknown_grace_seconds: u32,

    /// After how many seconds the group is examined again when nothing happens. Changes are noticed by watches, not by this interval.
    #[serde(default = "default::resync_interval")]
    #[schemars(range(min = 1, max = 86_400))]
    pub resync_interval_seconds: u32,

    /// Every how many seconds `status` is run in each member.
    #[serde(default = "default::status_interval")]
    #[schemars(range(min = 1, max = 3_600))]
    pub status_interval_seconds: u32,

    /// The policies that decide. They are asked in this order; the first one that handles the question and does not abstain answers. The
    /// built-in `sequence` is asked last.
    #[serde(default = "default::policies")]
    #[schemars(length(max = 8))]
    pub policies: Vec<Policy>,

    /// When a secondary may take over from a lost primary.
    #[serde(default)]
    pub failover: Failover,

    /// What makes the pods of the members, and which members are to go.
    #[serde(default)]
    pub members: Members,

    /// The zones among which the members are divided.
    #[serde(default, skip_serializing_if = "Zones::is_empty")]
    pub zones: Zones,

    /// How the number of members changes, and what becomes of members that leave because `replicas` was lowered.
    #[serde(default)]
    pub scaling: Scaling,

    /// How a changed template reaches the pods.
    #[serde(default)]
    pub update: Update,

    /// How clients reach the primaries and the secondaries, also from outside of the cluster.
    #[serde(default)]
    pub services: Services,

    /// A ConfigMap that names the members, under keys of your choice; for etcd `ETCD_INITIAL_CLUSTER`. It names the members that the application lists (`commands.memberList`), or else those
    /// that run, and a member that is about to start: that member waits until the ConfigMap is written. With `runner: Injected` each command that Tanist executes has the keys as
    /// environment variables; `status` as the runner polls it, and `stop` as the runner runs it when its container ends, do not. In `primary`, `seed`, `secondary`, `promote`, `follow`, `memberAdd`, `memberRemove`,
    /// `memberPromote` and `recover` an argument `$(STATE:KEY)` is replaced by the value, also without the runner. The operator needs the right to change ConfigMaps
    /// (`deploy/rbac/state`, in the chart `clusterState.enabled`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_state: Option<ClusterState>,

    /// The member that should be primary, for instance `db-0`. When you set it and another member is primary, one switchover to it is done, as
    /// soon as it has all data of the primary. Policies see the name and may prefer it. It has no effect when `primaries` is more than 1, or
    /// where the members elect who leads (`commands.memberList`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = r"^[a-z][-a-z0-9]*-[0-9]+$"))]
    pub preferred_primary: Option<String>,

    /// While true, Tanist does nothing to the group, whatever happens. Running commands are not interrupted.
    #[serde(default)]
    pub paused: bool,

    /// Keys of labels and annotations that policies see, of the group and of the members' pods, in addition to those under
    /// `policy.tanist.dev/`, for instance `topology.example.org/rack`. A policy sees at most 32 of each object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    // As long as the contract lets a text be: Kubernetes allows 317.
    #[schemars(length(max = 32), inner(length(min = 1, max = 256)))]
    pub policy_label_keys: Vec<String>,

    /// The former name of `policyLabelKeys`, refused in new groups. A group that was stored with it goes on with it until you change it.
    #[serde(default, rename = "labels", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 317)))]
    pub former_labels: Vec<String>,
}

impl ReplicaGroupSpec {
    /// The container in which commands run that name no container. `None`: the template has no containers.
    #[must_use]
    pub fn container(&self) -> Option<&str> {
        self.container.as_deref().or_else(|| self.template.container_names().next())
    }

    /// The keys of labels and annotations that policies see beside those under their prefix, under the present and the former name.
    #[must_use]
    pub fn policy_keys(&self) -> Vec<String> {
        self.policy_label_keys.iter().chain(&self.former_labels).cloned().collect()
    }

    /// Whether the runner is process 1 of the members. Those of an active/passive group run what their containers say.
    #[must_use]
    pub fn has_runner(&self) -> bool {
        self.runner == Runner::Injected && !self.commands.is_active_passive()
    }

    /// The container in which a command runs.
    #[must_use]
    pub fn container_of<'a>(&'a self, command: &'a Command) -> Option<&'a str> {
        command.container.as_deref().or_else(|| self.container())
    }
}

/// How many members are primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Primaries {
    /// Every member is a primary.
    All,
    /// As many members are primaries, at most `spec.replicas`.
    Count(u32),
}

impl Primaries {
    /// How many of `replicas` members are primary.
    #[must_use]
    pub fn count(self, replicas: u32) -> u32 {
        match self {
            Self::All => replicas,
            Self::Count(count) => count.min(replicas),
        }
    }
}

impl Serialize for Primaries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("All"),
            Self::Count(count) => serializer.serialize_u32(*count),
        }
    }
}

impl<'de> Deserialize<'de> for Primaries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match (value.as_str(), value.as_u64().map(u32::try_from)) {
            (Some("All"), _) => Ok(Self::All),
            (_, Some(Ok(count))) => Ok(Self::Count(count)),
            _ => Err(de::Error::custom("primaries has to be All or a number from 1 up to replicas")),
        }
    }
}

impl JsonSchema for Primaries {
    fn schema_name() -> Cow<'static, str> {
        "Primaries".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-int-or-string": true, "maxLength": 8})
    }
}

/// How commands are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Runner {
    /// By `tanist-run`, which is added to the containers.
    #[default]
    Injected,
    /// By exec alone.
    None,
}

/// One policy: where it comes from (exactly one of `builtin`, `configMap`, `file` and `image`), what it is asked, and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// A policy that ships with Tanist: `sequence`, `patroni`, `quorum`, `sentinel`, `zones`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub builtin: Option<String>,
    /// A policy in a ConfigMap of the same namespace that has the label `tanist.dev/policy: "true"`. When you edit it, the new policy decides at
    /// once, without a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapKey>,
    /// A file in the policy directory of the operator, for instance `nearest.wasm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = r"^[A-Za-z0-9][-A-Za-z0-9._]*$"))]
    pub file: Option<String>,
    /// An OCI image by digest: `REGISTRY/NAME@sha256:...`. Not supported yet: the group reports that the policy cannot be loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = r"^[^@\s]+@sha256:[0-9a-f]{64}$"))]
    pub image: Option<String>,
    /// The questions that it is asked. Default: all that it can answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "points")]
    pub points: Vec<Point>,
    /// Its parameters, at most 16 KiB. They have to match the schema that the policy declares.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "anything")]
    pub parameters: Map<String, Value>,
}

impl Policy {
    /// A policy that ships with Tanist.
    #[must_use]
    pub fn builtin(name: &str) -> Self {
        Self { builtin: Some(name.to_owned()), ..Self::default() }
    }
}

/// A list of the names of points, each at most once. It must not be empty: such a policy would be asked nothing.
fn points(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = Point::ALL.iter().map(|point| point.as_str()).collect();
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": names.len(),
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "enum": names}
    })
}

/// An object with any fields, which are preserved.
pub(super) fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// One entry of a `ConfigMap` of the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapKey {
    /// The name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key, in `data` for a script and in `binaryData` for a component.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

/// When a secondary may take over from a lost primary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failover {
    /// The sequences of how many members of the highest term have to be known before one of them takes over. Default: all but the lost
    /// primary. Set it only to what your application guarantees: when a write is acknowledged by W of N members, N - W + 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub reads: Option<u32>,
    /// A stopped old primary is not considered while secondaries run. Set it for synchronous standbys, which have all data of the primary.
    #[serde(default)]
    pub prefer_running: bool,
    /// How many writes a takeover may lose, in the units in which `sequence` counts. A running secondary may take over although it is that far below
    /// the most recent known data of the present term, if a policy prefers it; the built-in `sequence` goes on choosing the highest of those that may
    /// lead. What only the lost primary had and nobody has read is not known and not counted. Default: nobody below the highest known data takes over. It
    /// never counts for a seed, nor in a switchover while a member that has everything can lead. `secondary` and `follow` have to discard what the new
    /// primary does not have, or fail: members that are ahead of it follow it afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_u64))]
    pub max_behind: Option<u64>,
}

/// The values of fields that the user does not set.
pub mod default {
    use super::{Command, Policy};
    use serde::{Deserialize, Deserializer};

    /// Seconds that a command may take (row A35).
    pub const TIMEOUT: u32 = 600;
    /// Seconds that `status` may take: it is run every few seconds and has to be cheap.
    pub const STATUS_TIMEOUT: u32 = 5;
    /// Seconds that `memberList`, `check`, `prepared`, `beforeUpdate` and `afterUpdate` may take: no other command runs in the member meanwhile.
    pub const LIST_TIMEOUT: u32 = 10;
    /// Termination grace period in seconds of a pod whose template sets none (row A45).
    pub const GRACE: u32 = 600;

    pub(super) fn start_deadline() -> u32 {
        3600
    }

    pub(super) fn unknown_grace() -> u32 {
        900
    }

    pub(super) fn resync_interval() -> u32 {
        60
    }

    pub(crate) fn status_interval() -> u32 {
        2
    }

    /// Reads `status` with its own default timeout. The API server fills it in; this is for objects that it has not seen.
    pub(crate) fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Command, D::Error> {
        let mut command = Command::deserialize(deserializer)?;
        command.timeout_seconds.get_or_insert(STATUS_TIMEOUT);
        Ok(command)
    }

    /// Reads `memberList`, `check`, `prepared`, `beforeUpdate` or `afterUpdate` with its own default timeout, as for `status`.
    pub(crate) fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Command>, D::Error> {
        let command = Option::<Command>::deserialize(deserializer)?;
        Ok(command
            .map(|command| Command { timeout_seconds: command.timeout_seconds.or(Some(LIST_TIMEOUT)), ..command }))
    }

    pub(super) fn policies() -> Vec<Policy> {
        vec![Policy::builtin("sequence")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_group_of_thirty_lines_is_read_with_its_defaults() {
        let group: ReplicaGroup = serde_json::from_value(json!({
            "apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "metadata": {"name": "db"},
            "spec": {"replicas": 3, "primaries": "All", "template": {"spec": {"containers": [{"name": "db"}]}}, "commands": {
                "status": {"exec": ["a"]}, "sequence": {"exec": ["b"]}, "stop": {"exec": ["c"]}, "primary": {"exec": ["d"]}
            }}
        }))
        .unwrap();
        let spec = &group.spec;
        assert_eq!(spec.primaries.count(spec.replicas), 3);
        assert_eq!((spec.commands.status.timeout(), spec.commands.stop.as_ref().unwrap().timeout()), (5, 600));
        assert_eq!((spec.start_deadline_seconds, spec.unknown_grace_seconds), (3600, 900));
        assert_eq!((spec.resync_interval_seconds, spec.status_interval_seconds), (60, 2));
        assert_eq!(spec.container(), Some("db"));
        assert_eq!(spec.policies, vec![Policy::builtin("sequence")]);
        assert_eq!(spec.runner, Runner::Injected);
    }
    // P20: a group that was stored with the former name goes on with it.
    #[test]
    fn both_names_of_the_keys_for_policies_count() {
        let spec = json!({"policyLabelKeys": ["rack"], "labels": ["tier"]});
        let group = crate::examples::group(&json!({"spec": spec})).unwrap();
        assert_eq!(group.spec.policy_keys(), ["rack", "tier"]);
    }
}
