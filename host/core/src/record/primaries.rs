//! Primaries of the past in the record: those that may still act as primary, and where the last one was.
use super::Intent;
use crate::contract::{MemberName, Timestamp};
use crate::snapshot::Pod;
use serde::{Deserialize, Serialize};

/// A member that was primary, or was told to become it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LastPrimary {
    /// The name of the member.
    pub member: MemberName,
    /// The UID of the pod in which it was primary.
    pub pod_uid: String,
    /// The name of the container in which it was primary.
    pub container: String,
    /// The ID of that container.
    pub container_id: String,
    /// The node it ran on. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The pod's termination grace period in seconds: after a forced deletion its processes may live that long.
    pub grace: u32,
    /// When the pod was first seen to be gone. Absent: it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<Timestamp>,
}

/// The active member of an active/passive group, in the pod in which it became that: a new pod under its name is another candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Active {
    /// The name of the member.
    pub member: MemberName,
    /// The UID of its pod.
    pub pod_uid: String,
}

impl LastPrimary {
    /// The target of a command, in the pod in which it starts.
    #[must_use]
    pub fn of(intent: &Intent, pod: &Pod) -> Self {
        LastPrimary {
            member: intent.member.clone(),
            pod_uid: intent.pod_uid.clone(),
            container: intent.container.clone(),
            container_id: intent.container_id.clone(),
            node: pod.node.clone(),
            grace: pod.grace,
            gone: None,
        }
    }

    /// A primary of which only the name is known: from a claim that an older version wrote, or whose list was full.
    #[must_use]
    pub fn by_name(member: MemberName) -> Self {
        let none = String::new;
        LastPrimary {
            member,
            pod_uid: none(),
            container: none(),
            container_id: none(),
            node: None,
            grace: 0,
            gone: None,
        }
    }

    /// Whether only the name is known; see [`LastPrimary::by_name`].
    #[must_use]
    pub fn is_by_name(&self) -> bool {
        self.pod_uid.is_empty()
    }
}

/// Where the member that led last was. It is told to policies and proves nothing; see [`LastPrimary`] for that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LostPrimary {
    /// The name of the member that led last.
    pub member: MemberName,
    /// The node on which it led. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The zone of that node. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}
