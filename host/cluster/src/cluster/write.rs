//! The writes of a round. Each names the state that it was decided on, and the API server refuses it when that state has changed: a process may have
//! been frozen for hours before its write arrives. The table is at the top of `act.rs`.
use super::Kind;
use serde_json::Value;
use std::collections::BTreeMap;
use tanist_api::ReplicaGroup;
use tanist_core::checked::{Deletion, Discard, Scaling};
use tanist_core::contract::Timestamp;

/// One write. What takes something away, a [`Deletion`], a [`Discard`] or a [`Scaling`], can only be made by a check.
#[derive(Debug)]
pub enum Write {
    /// Replaces the status of a group, whose version is the fence.
    Status(Box<ReplicaGroup>),
    /// Server-side apply of an object of a group.
    Apply {
        /// The group's namespace.
        namespace: String,
        /// The kind of the object.
        kind: Kind,
        /// The object's name.
        name: String,
        /// What is applied. Its `resourceVersion`, if it has one, is the fence.
        manifest: Value,
        /// The field manager.
        manager: &'static str,
        /// Whether it takes fields from other managers. Without, a different object that exists already makes it fail.
        force: bool,
    },
    /// Creates an object of a group; one of that name that exists already makes it fail.
    Create {
        /// The group's namespace.
        namespace: String,
        /// The kind of the object: `Pod` or `PersistentVolumeClaim`.
        kind: Kind,
        /// What is created.
        manifest: Value,
        /// Whether the API server only says whether it would create it.
        dry_run: bool,
    },
    /// Sets the label by which Services select a pod. Without a role none does.
    Label {
        /// The pod whose label is set.
        pod: Fence,
        /// The value of the label: `primary` or `secondary`. Absent: the label is removed.
        role: Option<&'static str>,
    },
    /// Sets the readiness gate of a pod.
    Gate {
        /// The pod whose readiness gate is set.
        pod: Fence,
        /// Whether the member is in its role.
        ready: bool,
        /// The time of the change.
        at: Timestamp,
    },
    /// Writes annotations of a claim.
    Mark {
        /// The claim that is annotated.
        claim: Fence,
        /// The annotations; absent ones are removed.
        notes: BTreeMap<&'static str, Option<String>>,
    },
    /// Raises how much storage a claim asks for.
    Grow {
        /// The claim whose request is raised.
        claim: Fence,
        /// How much, as Kubernetes writes it.
        size: String,
    },
    /// Changes the owner of a pod, and what it says of its template.
    Adopt {
        /// The pod that gets another owner.
        pod: Fence,
        /// The change, as a merge patch.
        change: Value,
    },
    /// Deletes a `StatefulSet` to which no pod belongs. What belongs to it goes, too.
    DropSet {
        /// The `StatefulSet` that is deleted.
        set: Fence,
    },
    /// Annotates a `StatefulSet`, so that its controller looks at it.
    Nudge {
        /// The `StatefulSet` that is annotated.
        set: Fence,
        /// The value of the annotation: the time of the round, in seconds since 1970.
        at: Timestamp,
    },
    /// Lowers the replicas of a `StatefulSet`; UID and version in it are the fence.
    Scale {
        /// The set's namespace.
        namespace: String,
        /// The set's name.
        set: String,
        /// How far, as it was checked.
        to: Scaling,
    },
    /// Deletes a pod; UID and version in it are the fence.
    Delete {
        /// The pod's namespace.
        namespace: String,
        /// Which pod, as it was checked.
        deletion: Deletion,
    },
    /// Deletes a `ControllerRevision` of a former template, to which no pod goes back.
    Forget {
        /// The `ControllerRevision` that is deleted.
        revision: Fence,
    },
    /// Deletes a claim; UID and version in it are the fence.
    Discard {
        /// The claim's namespace.
        namespace: String,
        /// Which claim, as it was checked.
        discard: Discard,
    },
}

/// An object as it was when its change was decided: the API server refuses the change of any other one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object's UID: another object of that name is not changed.
    pub uid: String,
    /// The object's `resourceVersion`. Absent: any.
    pub version: Option<String>,
}
