//! What a user wishes.
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};
use std::borrow::Cow;
use tanist_core::policy::Point;

use super::status::ReplicaGroupStatus;
pub use super::template::{ClaimTemplate, Template};

/// What is wished.
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
    doc = "One replicated application: its commands say how a member is started, stopped and asked; its policies decide who leads, takes \
           over, follows and goes.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
        "description": "Whether every wished member serves in its role."}"#,
    printcolumn = r#"{"name": "Primary", "type": "string", "jsonPath": ".status.primary",
        "description": "The serving primaries."}"#,
    printcolumn = r#"{"name": "Members", "type": "string", "jsonPath": ".status.serving",
        "description": "Members in their role, of those wished."}"#,
    printcolumn = r#"{"name": "Policy", "type": "string", "jsonPath": ".status.policy",
        "description": "The policies that decide, in the order in which they are asked."}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaGroupSpec {
    /// How many members are wanted: 0 to 1000. 0 stops the application; its volumes and its memory stay.
    #[schemars(range(max = 1000))]
    pub replicas: u32,

    /// How many of them are to be primary: `All`, or 1 up to `replicas`.
    pub primaries: Primaries,

    /// The pods: a pod template as in a StatefulSet, of which every field is allowed. Added to it are the environment variables POD_NAME,
    /// POD_NAMESPACE, SERVICE_NAME and TANIST_POD_UID, the label `tanist.dev/group` and the readiness gate `tanist.dev/member`; unless it says
    /// otherwise, a termination grace of 600 seconds, no service account token, a preferred pod anti-affinity between members and an even
    /// spread over zones and nodes (an empty `podAntiAffinity` or list of `topologySpreadConstraints` switches them off). Labels and
    /// annotations under `tanist.dev/` are reserved; those under `policy.tanist.dev/` are seen by policies. A change of it reaches a pod
    /// when that pod is replaced; until then the group shows `UpdatePending`.
    pub template: Template,

    /// Claims for volumes of each member, as in a StatefulSet. Immutable. Claims are never deleted by Tanist.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub volume_claim_templates: Vec<ClaimTemplate>,

    /// The container of the template in which commands run that name none. Default: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub container: Option<String>,

    /// How commands are run. `Injected`: a small program, `tanist-run`, becomes the command of every container that a command names (its
    /// own `command` and `args` are replaced); so a command can be asked about again after a crash of the operator, and the death of the
    /// application is seen within seconds. It needs port 8099 of the pod, the volume name `tanist` and the path /tanist. `None`: containers
    /// stay as they are, commands run by exec alone; whether a lost command ran cannot be asked, so more waits for time or for a person.
    /// Immutable.
    #[serde(default)]
    pub runner: Runner,

    /// What is executed in a member's container. Each is an argv, never a shell string. In `primary`, `secondary`, `promote` and `follow`
    /// the argument `$(PEERS)` is replaced by the fully qualified names of the serving primaries, each an argument of its own, sorted by
    /// ordinal; without it they are added at the end.
    pub commands: Commands,

    /// How long a member may say that it is starting before it counts as failed.
    #[serde(default = "default::start_deadline")]
    #[schemars(range(min = 1, max = 604_800))]
    pub start_deadline_seconds: u32,

    /// How long nothing is done about a command whose outcome stayed unknown after its deadline. Then its pod is deleted, as the last
    /// resort.
    #[serde(default = "default::unknown_grace")]
    #[schemars(range(max = 604_800))]
    pub unknown_grace_seconds: u32,

    /// How often the group is looked at when nothing happens: a safety net, not how changes are noticed.
    #[serde(default = "default::resync_interval")]
    #[schemars(range(min = 1, max = 86_400))]
    pub resync_interval_seconds: u32,

    /// How often `status` is run in each member.
    #[serde(default = "default::status_interval")]
    #[schemars(range(min = 1, max = 3_600))]
    pub status_interval_seconds: u32,

    /// Who decides. They are asked in this order; the first that has the point and an opinion answers, at last the built-in `sequence`.
    #[serde(default = "default::policies")]
    #[schemars(length(max = 8))]
    pub policies: Vec<Policy>,

    /// When a secondary may take over from a lost primary.
    #[serde(default)]
    pub failover: Failover,

    /// The member that should be primary, for instance `db-0`. When it is named and another member leads, the primary hands over to it once,
    /// as soon as it has all that the primary has; policies see it as a wish. Nothing happens while several primaries are wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = r"^[a-z][-a-z0-9]*-[0-9]+$"))]
    pub preferred_primary: Option<String>,

    /// Does nothing to the group while true, whatever happens. Commands that run are not interrupted.
    #[serde(default)]
    pub paused: bool,

    /// Keys of further labels and annotations, of the pods and of the group, that policies see beside those under `policy.tanist.dev/`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 317)))]
    pub labels: Vec<String>,
}

impl ReplicaGroupSpec {
    /// The container in which commands run that name none. `None`: the template has none at all.
    #[must_use]
    pub fn container(&self) -> Option<&str> {
        self.container.as_deref().or_else(|| self.template.container_names().next())
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
    /// Every member.
    All,
    /// So many.
    Count(u32),
}

impl Primaries {
    /// How many of so many members.
    #[must_use]
    pub fn of(self, replicas: u32) -> u32 {
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
    /// By `tanist-run`, which is put into the containers.
    #[default]
    Injected,
    /// By exec alone.
    None,
}

/// What is executed in a member's container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Commands {
    /// Says by its exit code what the member is: 0 running as secondary, 7 stopped, 8 running as primary, 9 failed, 10 starting. Any other
    /// code, a timeout or a broken stream is unknown. Runs often and at any time: keep it cheap, and let it change nothing.
    #[serde(deserialize_with = "default::status")]
    pub status: Command,
    /// Prints how recent the member's data is, on one line: `EMPTY`, or a number of 64 bits, or `HISTORY:NUMBER` where numbers of different
    /// histories cannot be compared. Exit code 0. Runs only when a decision needs it, on members that run and on members that are stopped.
    pub sequence: Command,
    /// Stops the member's application and returns when it is over. Has to succeed when it is stopped already.
    pub stop: Command,
    /// Starts the member as a primary that joins those whose names it is given. Returns when that is done or has failed.
    pub primary: Command,
    /// Starts the first primary of a group that runs nowhere. Default: `primary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Command>,
    /// Starts the member as a secondary of the primaries whose names it is given. Default: members beyond `primaries` stay stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secondary: Option<Command>,
    /// Makes a running secondary primary. Default: `primary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promote: Option<Command>,
    /// Makes a running secondary follow the primaries whose names it is given. Default: `secondary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<Command>,
    /// Not supported yet, and refused. Before another member takes over, Tanist proves that the old primary's application is over; a command
    /// that makes sure of it is a feature of a later version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Command>,
}

impl Commands {
    /// The commands that are there, by name, in the order of the fields.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &Command)> {
        let required = [
            ("status", Some(&self.status)),
            ("sequence", Some(&self.sequence)),
            ("stop", Some(&self.stop)),
            ("primary", Some(&self.primary)),
        ];
        let optional = [
            ("seed", self.seed.as_ref()),
            ("secondary", self.secondary.as_ref()),
            ("promote", self.promote.as_ref()),
            ("follow", self.follow.as_ref()),
            ("fence", self.fence.as_ref()),
        ];
        required.into_iter().chain(optional).filter_map(|(name, command)| Some((name, command?)))
    }
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// The program and its arguments. No shell is involved unless you name one.
    #[schemars(length(min = 1, max = 128), inner(length(max = 65_536)))]
    pub exec: Vec<String>,
    /// The container of the template in which it runs. Default: `spec.container`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub container: Option<String>,
    /// How long it may take: 1 to 86400. Default: 600, for `status` 5. What it has done by then is unknown, so be generous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_seconds: Option<u32>,
}

impl Command {
    /// How long it may take, in seconds.
    #[must_use]
    pub fn timeout(&self) -> u32 {
        self.timeout_seconds.unwrap_or(default::TIMEOUT)
    }
}

/// One policy: where it comes from (exactly one of `builtin`, `configMap`, `file` and `image`), what it is asked, and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// A policy that ships with Tanist, for instance `sequence`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub builtin: Option<String>,
    /// A policy in a ConfigMap of the same namespace that has the label `tanist.dev/policy: "true"`. An edit of it decides from then on,
    /// without a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapKey>,
    /// A file of the operator's policy directory, for instance `nearest.wasm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = r"^[A-Za-z0-9][-A-Za-z0-9._]*$"))]
    pub file: Option<String>,
    /// An OCI image by digest: `REGISTRY/NAME@sha256:...`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = r"^[^@\s]+@sha256:[0-9a-f]{64}$"))]
    pub image: Option<String>,
    /// What it is asked. Default: every point that it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "points")]
    pub points: Vec<Point>,
    /// Its parameters; they have to fit the schema that the policy describes. At most 16 KiB.
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

/// Every point by name, each at most once; an empty list would ask nothing.
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

/// An object with any fields, which are kept.
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
    /// How many members of the highest term must have a known position before one of them takes over. Default: all but a lost primary. Set
    /// it only to what your application guarantees: with a write acknowledged by W of N members, N - W + 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub reads: Option<u32>,
    /// Leaves out a stopped old primary while secondaries run: for synchronous standbys, which have everything it had.
    #[serde(default)]
    pub prefer_running: bool,
}

/// The numbers that stand where a user gives none.
pub mod default {
    use super::{Command, Policy};
    use serde::{Deserialize, Deserializer};

    /// Seconds that a command may take (row A35).
    pub const TIMEOUT: u32 = 600;
    /// Seconds that `status` may take: it is run every few seconds and has to be cheap.
    pub const STATUS_TIMEOUT: u32 = 5;
    /// Seconds that a pod gets to end, when its template sets none (row A45).
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

    pub(super) fn status_interval() -> u32 {
        2
    }

    /// A `status` command that the API server has not seen yet, which would have filled in its default.
    pub(super) fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Command, D::Error> {
        let mut command = Command::deserialize(deserializer)?;
        command.timeout_seconds.get_or_insert(STATUS_TIMEOUT);
        Ok(command)
    }

    pub(super) fn policies() -> Vec<Policy> {
        vec![Policy::builtin("sequence")]
    }
}
