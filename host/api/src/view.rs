//! Read access to a group's status: everything that the command line shows or decides comes from here.
use crate::spec::ReplicaGroup;
use crate::status::{Awaited, Decision, MemberStatus, ReplicaGroupStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use tanist_core::record::Record;

/// A group with what its status says. Before an operator has looked at it everything is empty or `None`.
#[derive(Debug, Clone, Copy)]
pub struct View<'g> {
    /// The object as it was read.
    pub group: &'g ReplicaGroup,
    status: Option<&'g ReplicaGroupStatus>,
}

impl<'g> View<'g> {
    /// A view of that group.
    pub fn new(group: &'g ReplicaGroup) -> Self {
        View { group, status: group.status.as_ref() }
    }

    /// The group's name with its namespace.
    pub fn name(&self) -> String {
        format!("{}/{}", self.group.namespace().unwrap_or_default(), self.group.name_any())
    }

    /// The group's name alone.
    pub fn short_name(&self) -> String {
        self.group.name_any()
    }

    /// The generation of the spec that the status is about.
    pub fn observed_generation(&self) -> Option<i64> {
        self.status?.observed_generation
    }

    /// Whether an operator has ever written its status.
    pub fn is_observed(&self) -> bool {
        self.status.is_some()
    }

    /// The generations of the spec: the one that the status is about, and the present one, where they differ.
    pub fn is_behind(&self) -> Option<(i64, i64)> {
        let (seen, now) = (self.observed_generation()?, self.group.metadata.generation?);
        (seen != now).then_some((seen, now))
    }

    /// When the group was created.
    pub fn created(&self) -> Option<Timestamp> {
        self.group.metadata.creation_timestamp.as_ref().map(|t| t.0)
    }

    /// The serving primaries.
    pub fn primaries(&self) -> Vec<&'g str> {
        self.status.map(|s| s.primaries.iter().map(String::as_str).collect()).unwrap_or_default()
    }

    /// Members in their role, of those desired: `2/3`.
    pub fn in_role(&self) -> Option<&'g str> {
        self.status?.columns.members.as_deref()
    }

    /// The names of the policies, in the order in which they are asked.
    pub fn policy(&self) -> Option<&'g str> {
        self.status?.columns.policies.as_deref()
    }

    /// Of which version of the application the data is, if the group has one.
    pub fn version(&self) -> Option<&'g str> {
        self.status?.version.as_deref()
    }

    /// The members, by ordinal.
    pub fn members(&self) -> &'g [MemberStatus] {
        self.status.map(|s| s.members.as_slice()).unwrap_or_default()
    }

    /// The member of that name.
    pub fn member(&self, name: &str) -> Option<&'g MemberStatus> {
        self.members().iter().find(|m| m.name == name)
    }

    /// The conditions of the status; empty if the operator has not written one.
    pub fn conditions(&self) -> &'g [Condition] {
        self.status.map(|s| s.conditions.as_slice()).unwrap_or_default()
    }

    /// The number of members that counts: `spec.replicas`, or the one that policies let in last.
    pub fn replicas(&self) -> u32 {
        let admitted = self.status.and_then(|s| s.record.as_ref()?.pointer("/admitted/replicas")?.as_u64());
        admitted.and_then(|replicas| u32::try_from(replicas).ok()).unwrap_or(self.group.spec.replicas)
    }

    /// The condition of that type.
    pub fn condition(&self, kind: &str) -> Option<&'g Condition> {
        self.conditions().iter().find(|c| c.type_ == kind)
    }

    /// What the group waits for, most important first.
    pub fn waits(&self) -> &'g [Awaited] {
        self.status.map(|s| s.awaiting.as_slice()).unwrap_or_default()
    }

    /// The first entry of what is awaited with that reason.
    pub fn wait(&self, reason: &str) -> Option<&'g Awaited> {
        self.waits().iter().find(|w| w.reason == reason)
    }

    /// The latest answer to each question.
    pub fn decisions(&self) -> &'g [Decision] {
        self.status.map(|s| s.decisions.as_slice()).unwrap_or_default()
    }

    /// The group's record. A group without one has an empty record.
    ///
    /// # Errors
    /// When it was written by a newer version or edited by hand.
    pub fn record(&self) -> Result<Record, String> {
        match self.status.and_then(|s| s.record.as_ref()) {
            Some(record) => serde_json::from_value(record.clone()).map_err(|e| e.to_string()),
            None => Ok(Record::default()),
        }
    }

    /// The term. `None`: there is no record yet.
    pub fn term(&self) -> Option<u64> {
        self.status?.record.as_ref()?.get("term")?.as_u64()
    }
}

/// Whether a word of the status equals another one, ignoring upper and lower case.
pub fn is(word: &str, expected: &str) -> bool {
    word.eq_ignore_ascii_case(expected)
}

/// A role with its reason, for instance `failed (status exited 9)`.
pub fn role(member: &MemberStatus) -> String {
    match &member.role_detail {
        Some(why) => format!("{} ({why})", member.role),
        None => member.role.clone(),
    }
}
