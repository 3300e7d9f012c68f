//! The resource `ReplicaGroup` v1alpha1, for every program that reads or writes one: the operator, its command line, tests, a web page.
//!
//! - [`spec`] and [`status`] have the types, as a user writes and reads them. They are the only source: `crds/replicagroups.tanist.dev.yaml` is
//!   generated from them by [`definition`], and their comments are what `kubectl explain` shows.
//! - Whatever can be refused without looking at the cluster is refused by the API server itself, by rules of the definition, with a sentence that
//!   says what to do; what is left (a template that Kubernetes does not accept) shows as a condition.
//! - [`validate`] reads a spec as the group that the core decides about.
//! - [`view`] reads a status, and [`explain`] says it in sentences.
//!
//! **The promise.** Nothing here does anything: there is no client, no runtime, no clock and no terminal. Times are arguments.
pub mod age;
mod cluster_state;
mod commands;
pub mod examples;
pub mod explain;
mod generate;
mod members;
mod rules;
mod scaling;
mod services;
pub mod spec;
pub mod status;
mod template;
mod update;
pub mod validate;
pub mod view;
mod zones;

pub use generate::{crd, definition};
pub use rules::Misfit;
pub use spec::{Command, ReplicaGroup};
pub use status::ReplicaGroupStatus;

/// The field manager of everything that is applied.
pub const FIELD_MANAGER: &str = "tanist";

/// Label of every object of a group, and of its pods and claims: the group's name.
pub const LABEL_GROUP: &str = "tanist.dev/group";

/// Label of a pod that may be reached: `primary` or `secondary`. Absent: no Service leads to it.
pub const LABEL_ROLE: &str = "tanist.dev/role";

/// Label of a pod: the zone that its member belongs to (`spec.zones`).
pub const LABEL_ZONE: &str = "tanist.dev/zone";

/// Label of a pod: the place of that zone in the list, from 0 up.
pub const LABEL_ZONE_INDEX: &str = "tanist.dev/zone-index";

/// Label of a `ConfigMap` that policies may be read from; its value is `true`.
pub const LABEL_POLICY: &str = "tanist.dev/policy";

/// Prefix of the labels and annotations of pods that policies see.
pub const POLICY_PREFIX: &str = "policy.tanist.dev/";

/// Readiness gate of every pod of a group: the member serves in its role, or is meant to be idle.
pub const GATE_MEMBER: &str = "tanist.dev/member";

/// Annotation of every applied object: the SHA-256 of the desired object, so that a change is seen without comparing objects.
pub const ANNOTATION_APPLIED: &str = "tanist.dev/applied";

/// Annotation of a StatefulSet: when the operator last made its controller retry at once, in seconds since 1970.
pub const ANNOTATION_NUDGE: &str = "tanist.dev/nudge";

/// Annotation of a StatefulSet: which `spec.template` it has, its number, and which revisions of pods are older. Only the operator reads it.
/// On a `ControllerRevision`: the hash of its template. Where the operator makes the pods itself it is on the Service with the name of the group.
pub const ANNOTATION_TEMPLATE: &str = "tanist.dev/template";

/// Annotation of the Service with the name of a group whose pods the operator makes itself: the revision of the pods that it makes now.
pub const ANNOTATION_POD_REVISION: &str = "tanist.dev/pod-revision";

/// Annotation of a pod, and of a `ControllerRevision`: a hash of the configuration that belongs to the template (`spec.update.onConfigChange`).
pub const ANNOTATION_CONFIG: &str = "tanist.dev/config";

/// Annotation of a pod, and of a `ControllerRevision`: `spec.version` when it was made. On a claim: the version of the data of its member.
pub const ANNOTATION_VERSION: &str = "tanist.dev/version";

/// Annotation of the ConfigMap of `spec.clusterState`: the keys that were written last.
pub const ANNOTATION_STATE_KEYS: &str = "tanist.dev/state-keys";

/// Label of a `ControllerRevision` that stores a template of a group: the group. It has not the group's own label, by which the StatefulSet's controller finds its revisions.
pub const LABEL_TEMPLATE_OF: &str = "tanist.dev/template-of";

/// Annotation of a `ControllerRevision` that stores a template of a group: the template's number.
pub const ANNOTATION_REVISION: &str = "tanist.dev/revision";

/// Annotation of a group, where kubectl has it on its own objects: why it was changed. It is stored with the template.
pub const ANNOTATION_CAUSE: &str = "kubernetes.io/change-cause";

/// Annotation of every applied object: which installation of the operator applied it.
pub const ANNOTATION_INSTALLATION: &str = "tanist.dev/installation";

/// Annotation of a group: anything new in it clears `Stalled`.
pub const ANNOTATION_RETRY: &str = "tanist.dev/retry";

/// Annotation of a group: an administrator overrides the order of data (docs/rules.md, "Override").
pub const ANNOTATION_OVERRIDE: &str = "tanist.dev/override";

/// Annotation of a group: an administrator gives up a lost majority, and one member goes on alone (docs/rules.md, "Recovery").
pub const ANNOTATION_RECOVER: &str = "tanist.dev/recover";
