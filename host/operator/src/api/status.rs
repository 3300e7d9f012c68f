//! What a user sees. Everything but `record` is derived in each round; no rule of the schema can refuse it.
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tanist_core::policy::Point;

/// What is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaGroupStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds: Ready (every wished member serves in its role), Progressing (something is being done or awaited), Degraded (something is
    /// wrong), PolicyActive (the policies of the spec decide), Stalled (nothing is tried any more until a person changes something), and
    /// others when they apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// How many members exist.
    #[serde(default)]
    pub replicas: u32,
    /// The label selector of the members, as text, for autoscalers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The serving primaries, as text: for the column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,
    /// Members in their role, of those wished, as text, for instance `3/3`: for the column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<String>,
    /// The names of the policies that decide, in the order in which they are asked, as text: for the column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The members, by ordinal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub members: Vec<MemberStatus>,
    /// The policies, in the order in which they are asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyStatus>,
    /// What is awaited, and whom it concerns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Waiting>,
    /// The last question that was put to a policy, the answer, and the reason for every member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_decision: Option<LastDecision>,
    /// The latest answer to each question, so that who was started first is still told when others have joined since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["point"]))]
    pub decisions: Vec<LastDecision>,
    /// The memory of the group: its term, who led it, which commands were begun. It is not derived: do not edit or remove it. What is
    /// missing here makes Tanist more careful, and is filled from the claims' annotations as far as they know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::spec::anything")]
    pub record: Option<Value>,
}

/// One member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// The name of its pod.
    pub name: String,
    /// The number in its name.
    pub ordinal: u32,
    /// What Kubernetes says about its pod: missing, pending, running, terminating, ended or unreachable.
    pub phase: String,
    /// What the application says: stopped, starting, secondary, primary, failed or unknown.
    pub role: String,
    /// Why the role is failed or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_detail: Option<String>,
    /// How recent its data was when it was last asked, as text: `[HISTORY:]NUMBER`. Absent: not known, or it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<String>,
    /// The last leadership number in which it was confirmed in its role. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<u64>,
    /// The UID of its pod.
    #[serde(default, rename = "podUID", skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// The node it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Whether its pod is Ready.
    #[serde(default)]
    pub ready: bool,
    /// Whether Services lead to it.
    #[serde(default)]
    pub routed: bool,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Commands that failed on it since the last one that succeeded.
    #[serde(default)]
    pub failures: u32,
}

/// One policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyStatus {
    /// Where it comes from, for instance `builtin/sequence` or `configmap/my-policy/policy.wasm`.
    pub source: String,
    /// As it calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// As it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The SHA-256 of the bytes that decide, as `sha256:` and 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What it is asked: seed, failover, join, demote, place, treat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub points: Vec<Point>,
    /// How it stands: `Active`, or why it does not decide, or that an older one decides in its place.
    pub state: String,
}

/// A question with its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastDecision {
    /// When it was answered.
    pub at: Time,
    /// Which question: seed, failover, join, demote, place or treat.
    #[schemars(with = "String")]
    pub point: Point,
    /// Who answered: name, version and source. Absent: nobody could be chosen, so nobody was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// In which term.
    pub term: u64,
    /// Who was chosen. Absent: nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// Why, in one sentence.
    pub reason: String,
    /// Every member, by ordinal: what came of it, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
}

/// One member in a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// Who.
    pub member: String,
    /// What came of it: `chosen`; `fallback`: would be next; `passed-over`: the policy did not want it; `barred`: the host would not have
    /// accepted it.
    #[schemars(with = "String")]
    pub result: Standing,
    /// Why.
    pub reason: String,
    /// How recent its data was, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<String>,
}

/// What came of a member in a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Acted upon.
    Chosen,
    /// Would be next.
    Fallback,
    /// The policy did not want it.
    PassedOver,
    /// The host would not have accepted it.
    Barred,
}

/// Something awaited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// Machine-readable, for instance `PodsNotRunning`.
    pub reason: String,
    /// What is awaited, and what helps.
    pub message: String,
    /// Whom it concerns. Absent: the whole group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
}
