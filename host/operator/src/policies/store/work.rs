//! What the store is to do next, as data. The driver carries it out and reports the result back.
use super::good::Version;
use crate::policies::source::{Content, Origin};
use tanist_core::policy::Point;

/// A group, as far as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupRef {
    /// The namespace of the group's object.
    pub namespace: String,
    /// The name of the group's object.
    pub name: String,
    /// Its UID. A group that is deleted and created again is another one.
    pub uid: String,
}

/// Finds a layer of a group: the text of its source and, where a stack names the same source several times, the number of its occurrence.
pub type Key = String;

/// One thing to do. Each is begun once; its result comes back through the method of `State` that is named.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Read a source: `read`.
    Read(Origin),
    /// Compile these bytes: `compiled`.
    Compile(Content),
    /// List the copies that a group owns: `listed`.
    List(GroupRef),
    /// Read the copy of that name: `fetched`.
    Fetch(GroupRef, String),
    /// Write a copy: `copied`.
    Copy(GroupRef, Note, Option<Content>),
    /// Remove the copy of that name: `removed`.
    Remove(GroupRef, String),
}

/// What a copy says about itself, beside the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The layer whose version it is.
    pub key: Key,
    /// The version of which it is a copy.
    pub version: Version,
    /// Higher is newer.
    pub number: u64,
}

/// A copy as it was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The name of the copy's `ConfigMap`.
    pub name: String,
    /// What it says about itself. `None`: a release that noted nothing wrote it; the group's status says which source it is of.
    pub note: Option<Note>,
}

/// A layer of a group's spec.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// How it is found again.
    pub key: Key,
    /// Its source, or why it has none.
    pub origin: Result<Origin, String>,
    /// Its parameters, as JSON with sorted keys.
    pub parameters: String,
    /// The questions it is asked. `None`: all that it can answer.
    pub points: Option<Vec<Point>>,
    /// The digest of what decided last, as the group's status says, and the name of the copy of it that a release without notes wrote.
    pub former: Option<(String, String)>,
}

/// How a layer stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The source as it is now decides.
    Active,
    /// The source as it is now is being loaded.
    Loading,
    /// The source as it is now cannot be used, for this reason. Without a version that decides nothing is decided.
    Failed(String),
    /// The source changes too often; its last change waits.
    Flapping,
    /// The newest version failed several questions in a row; the one before decides.
    Reverted,
}

/// What a round finds of a layer.
#[derive(Debug, Clone)]
pub struct Found<P> {
    /// How it stands.
    pub standing: Standing,
    /// What decides: the policy, its parameters in the form that it gets, the version.
    pub decides: Option<(P, String, Version)>,
}
