//! The status of a group: everything but `record` is computed anew in each round. No rule of the schema refuses a status.
//!
//! `kubectl describe` sorts fields by name. So what a reader looks for first begins with a letter before `record`, which is long.
//!
//! An operator of the previous release reads this status after a roll-back: a field that it knows keeps its form. What changed its form
//! changed its name (`decisions[].members` was `candidates`, whose `result` had other words).
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use tanist_core::policy::Point;

/// What Tanist observed of the group, and why it does what it does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaGroupStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is true of the group: Ready (every desired member is in its role, and at least one pod runs the present template), Available (a
    /// primary serves, and Services lead clients to it), Progressing (something is being done, or is awaited and ends by itself), Degraded
    /// (something is wrong), PolicyActive (the policies of the spec decide), Stalled (nothing is tried any more until an administrator
    /// changes something), Rescaling in groups with `commands.memberList`, and others only while they hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// How many members have a pod.
    #[serde(default)]
    pub replicas: u32,
    /// How many members are in their role: they serve as primary or secondary, or are stopped as intended.
    #[serde(default)]
    pub ready_replicas: u32,
    /// How many members have a pod of the present `spec.template`. A change of it is done when that is `spec.replicas`, and Ready is True.
    #[serde(default)]
    pub updated_replicas: u32,
    /// The label selector of the members' pods, as text, for autoscalers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The names of the serving primaries, by ordinal. Empty: no primary serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub primaries: Vec<String>,
    /// Texts for the columns of `kubectl get`, which shows no lists. Programs read `primaries`, `readyReplicas` and `policies`.
    #[serde(default, skip_serializing_if = "Columns::is_empty")]
    pub columns: Columns,
    /// The members, by ordinal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub members: Vec<MemberStatus>,
    /// How far the present `spec.template` has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdateStatus>,
    /// How large the volumes of members are, by the names of their templates (`spec.volumeClaimTemplates`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub volumes: BTreeMap<String, VolumeStatus>,
    /// The policies, in the order in which they are asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyStatus>,
    /// What the group waits for, most important first, at most 16 entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaiting: Vec<Awaited>,
    /// The latest answer to each question that was put to the policies. The last decision of all is the one with the highest `at`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "known")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["point"]))]
    pub decisions: Vec<Decision>,
    /// Where the last primary was. Absent while one serves, and in a group of 0 members. Policies see it; nothing else depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_primary: Option<LostPrimary>,
    /// Of which version of the application the data is. Absent: `spec.version` was never set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // The longest that a spec can have.
    #[schemars(length(max = 20))]
    pub version: Option<String>,
    /// The memory of the group: its term, its last primaries, the commands that were started. It cannot be computed anew: do not edit or
    /// remove it. Without it Tanist waits for more proofs, and takes what the annotations of the claims remember.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::spec::anything")]
    pub record: Option<Value>,
}

/// Reads a list, and leaves out what a later version wrote and this one does not know: questions of a later contract. They are computed anew, and without
/// this the whole group could not be read after a roll-back.
fn known<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let all = Vec::<Value>::deserialize(deserializer)?;
    Ok(all.into_iter().filter_map(|each| serde_json::from_value(each).ok()).collect())
}

/// The member that led last, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LostPrimary {
    /// Name of the member, which is that of its pod.
    pub member: String,
    /// The node on which it led. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The zone of that node. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// Texts for the columns of `kubectl get`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Columns {
    /// The names of the serving primaries, separated by commas. Absent: no primary serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primaries: Option<String>,
    /// How many members are in their role, of how many desired ones, for instance `3/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<String>,
    /// The names of the policies in the order in which they are asked, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<String>,
}

impl Columns {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is known of a member: its role, its data and its pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// The name of the member and of its pod: the group's name, a hyphen and the ordinal.
    pub name: String,
    /// The number at the end of its name.
    pub ordinal: u32,
    /// The state of its pod: `Missing`, `Pending`, `Running`, `Terminating`, `Ended` (it will not run again) or `Unreachable` (its node
    /// does not report).
    pub phase: String,
    /// What the application says: `Stopped`, `Starting`, `Secondary`, `Primary`, `Failed` or `Unknown`.
    pub role: String,
    /// Why the role is Failed or Unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_detail: Option<String>,
    /// How recent its data was when it was last asked: `NUMBER` or `HISTORY:NUMBER`. Absent: it was not asked, or had no data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<String>,
    /// The last term in which its role was confirmed. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<u64>,
    /// The UID of its pod. Absent: it has no pod.
    #[serde(default, rename = "podUID", skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// The node that its pod runs on. Absent: the pod has no node yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The number of the `spec.template` that its pod was made from; `tanist history` shows them all. Absent: it has no pod, or that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// Whether its pod is Ready.
    #[serde(default)]
    pub ready: bool,
    /// Whether its pod has the label `tanist.dev/role`, by which the Services for primaries and for secondaries select.
    #[serde(default)]
    pub routed: bool,
    /// What the application itself says of it, by `commands.memberList`: `Voter`, `Learner` (a member without a vote), `Added` (it is a member, and was never
    /// started) or `NotListed`. Absent: the group has no such command, or its members have not agreed on a list yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub membership: Option<String>,
    /// The message of the first entry of `awaiting` that is about this member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// How many commands failed on it since the last one that succeeded.
    #[serde(default)]
    pub failures: u32,
}

/// How far a template has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStatus {
    /// `Pending`: no member has it yet. `Canary`: the first one that got it is watched (`spec.update.canarySeconds`). `Rollout`: one member after the other gets it. `Done`: every member has it. `Failed`: it failed on
    /// the first member that got it, or pods go back to the one before; nothing else is tried until the template changes. `CanaryUpscale`: every member has it, and further members are being made with it. More words may be added.
    pub phase: String,
    /// The member on which it is tried, or failed. Absent: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
}

/// The volumes of members that are made from one template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeStatus {
    /// The most that the claim of a member asks for. The size in `spec.volumeClaimTemplates` can be set back to it.
    #[schemars(length(max = 64))]
    pub requested: String,
    /// The least that the volume of a member has.
    pub capacity: String,
}

/// A policy of the group as it is loaded: where it comes from, and whether it answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyStatus {
    /// Where it comes from, for instance `builtin/sequence` or `configmap/my-policy/policy.wasm`.
    pub source: String,
    /// The name that the policy gives itself. Absent: it was never loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The version that the policy gives itself. Absent: it was never loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The SHA-256 of the component that decides: `sha256:` and 64 hexadecimal digits. Absent: none decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The questions that it is asked: seed, failover, join, demote, place, treat, switchover, rebalance, update, judge, admit, order.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "known")]
    #[schemars(with = "Vec<String>")]
    pub points: Vec<Point>,
    /// `Active`: it decides. `LastGoodDecides`: it could not be loaded as it is now, and the component that was loaded before goes on to
    /// decide. `NotLoaded`: it could not be loaded and there is none from before, so nothing is decided. `Loading`: it is being loaded; what
    /// was loaded before decides, if anything. `Flapping`: it changes so often that its last change waits until it is quiet.
    /// `PreviousDecides`: it failed several questions in a row, and the version before it decides until it is changed. `NeverAsked`: a policy
    /// before it answers each of its questions. More words may be added.
    pub state: String,
    /// Why it is not `Active`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What the exam of what decides found, in one sentence. `tanist policy check` prints the whole. Absent: it is built in, or none decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exam: Option<String>,
}

/// A question with its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// When it was answered. An answer that is repeated keeps its time.
    pub at: Time,
    /// Which question: seed, failover, join, demote, place, treat, switchover, rebalance, update, judge, admit or order.
    #[schemars(with = "String")]
    pub point: Point,
    /// The policy that answered: name, version and source. Absent: no policy was asked, because no member could be chosen or an
    /// administrator decided by an override; `reason` says which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The term of the group when the question was asked.
    pub term: u64,
    /// The member that was chosen. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// Why, in one sentence.
    pub reason: String,
    /// What was decided about each member, by ordinal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Considered>,
    /// What the policies that were asked noted for their authors: the first 8 notes, each with the name of the policy. All of them are in the
    /// operator's log. Nothing is decided by them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One member in a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Considered {
    /// The name of the member.
    pub member: String,
    /// `Chosen`; `Fallback`: it would be chosen next; `PassedOver`: the policy did not want it; `Barred`: a rule of Tanist forbids to choose
    /// it.
    #[schemars(with = "String")]
    pub result: Standing,
    /// Why, in one sentence.
    pub reason: String,
    /// How recent its data was: `NUMBER` or `HISTORY:NUMBER`. Absent: not known, or it had no data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<String>,
}

/// What a decision says about a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub enum Standing {
    /// It was chosen.
    Chosen,
    /// It would be chosen next.
    Fallback,
    /// The policy did not want it.
    PassedOver,
    /// A rule of the host forbids to choose it.
    Barred,
}

/// Something that the group waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Awaited {
    /// One CamelCase word for programs, for instance `PodsNotRunning`; docs/runbook.md explains each.
    pub reason: String,
    /// What is awaited, and what helps.
    pub message: String,
    /// The member that it is about. Absent: the whole group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
}

impl crate::ReplicaGroup {
    /// The record as it is stored. Absent: the group has none yet.
    #[must_use]
    pub fn record(&self) -> Option<&Value> {
        self.status.as_ref()?.record.as_ref()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
mod tests {
    use super::*;
    use serde_json::json;

    // S37: what a later operator wrote does not keep this one from reading the group.
    #[test]
    fn questions_of_a_later_contract_are_left_out() {
        let at = "2026-11-23T00:00:00Z";
        let decision = |point: &str| json!({"at": at, "point": point, "term": 1, "reason": "first"});
        let status: ReplicaGroupStatus = serde_json::from_value(json!({
            "decisions": [decision("seed"), decision("grow")],
            "policies": [{"source": "builtin/x", "points": ["seed", "grow", "rebalance"], "state": "Active"}],
        }))
        .unwrap();
        assert_eq!(status.decisions.iter().map(|decision| decision.point).collect::<Vec<_>>(), [Point::Seed]);
        assert_eq!(status.policies[0].points, [Point::Seed, Point::Rebalance]);
    }
}
