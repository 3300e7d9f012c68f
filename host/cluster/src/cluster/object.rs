//! The objects that a round reads, and which of them.
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolumeClaim, Pod};
use kube::core::DynamicObject;
use std::sync::Arc;
use tanist_api::ReplicaGroup;

/// The kinds of objects that a round reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `ReplicaGroup`: the group itself.
    Group,
    /// `StatefulSet`: makes the pods of a group, unless the operator does.
    Set,
    /// `Service`: leads clients to the members of a group.
    Service,
    /// `PodDisruptionBudget`: limits how many members may be evicted at a time.
    Budget,
    /// `Pod`: a member runs in it.
    Pod,
    /// `PersistentVolumeClaim`: has a volume of a member and a copy of the group's memory.
    Claim,
    /// `Node`, which has no namespace.
    Node,
    /// `Event`: says why a controller could not create a pod or a claim.
    Event,
    /// `ControllerRevision`: a template that the group had. A list has no data.
    Revision,
    /// `ConfigMap`, by name.
    ConfigMap,
    /// `Secret`, by name.
    Secret,
}

impl Kind {
    /// The kind as Kubernetes writes it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Group => "ReplicaGroup",
            Kind::Set => "StatefulSet",
            Kind::Service => "Service",
            Kind::Budget => "PodDisruptionBudget",
            Kind::Pod => "Pod",
            Kind::Claim => "PersistentVolumeClaim",
            Kind::Node => "Node",
            Kind::Event => "Event",
            Kind::Revision => "ControllerRevision",
            Kind::ConfigMap => "ConfigMap",
            Kind::Secret => "Secret",
        }
    }

    /// The kind that Kubernetes writes so, if a group's objects can have it: `Service`, `PodDisruptionBudget`, `StatefulSet`, `ConfigMap`, `Pod` or
    /// `PersistentVolumeClaim`.
    #[must_use]
    pub fn of_desired(word: &str) -> Option<Self> {
        let all = [Kind::Set, Kind::Service, Kind::Budget, Kind::ConfigMap, Kind::Pod, Kind::Claim];
        all.into_iter().find(|kind| kind.word() == word)
    }
}

/// A request for objects of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// The kind of the objects that are read.
    pub kind: Kind,
    /// The namespace; without meaning for nodes.
    pub namespace: String,
    /// Which of them.
    pub which: Which,
}

/// Which objects are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The one of that name, by GET: only this proves that an object is not there.
    Named(String),
    /// Those with the label of that group.
    OfGroup(String),
    /// Events of an object (by its UID) that say that it could not create another one; at most 200.
    FailuresOf(String),
}

/// The answer to a [`Read`].
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The objects, all of the kind that was asked for.
    pub objects: Vec<Object>,
    /// The version of the list. Absent after a read by name.
    pub version: Option<String>,
}

/// An object of one of the [`Kind`]s. It is shared: a cluster in memory gives the same object to each reader.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "each is the object of the kind of its name")]
pub enum Object {
    Group(Arc<ReplicaGroup>),
    Set(Arc<StatefulSet>),
    Pod(Arc<Pod>),
    Claim(Arc<PersistentVolumeClaim>),
    Node(Arc<Node>),
    Event(Arc<Event>),
    /// A Service, a `PodDisruptionBudget`, a `ControllerRevision`, or the answer to an apply: nobody here takes its spec apart.
    Plain(Arc<DynamicObject>),
}

/// A type that objects of one [`Kind`] have.
pub trait Typed: Sized {
    /// The kind that all objects of this type have.
    const KIND: Kind;

    /// The object, if it is of that kind.
    fn of(object: Object) -> Option<Arc<Self>>;
}

macro_rules! typed {
    ($($kind:ident $type:ty),*) => {$(
        impl Typed for $type {
            const KIND: Kind = Kind::$kind;

            fn of(object: Object) -> Option<Arc<Self>> {
                if let Object::$kind(object) = object { Some(object) } else { None }
            }
        }
    )*};
}

typed!(Group ReplicaGroup, Set StatefulSet, Pod Pod, Claim PersistentVolumeClaim, Node Node, Event Event);

/// An object that was read without its type.
pub fn plain(object: Object) -> Option<Arc<DynamicObject>> {
    if let Object::Plain(object) = object { Some(object) } else { None }
}
