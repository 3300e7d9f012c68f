//! What is remembered of an update of the pods.
use crate::contract::Timestamp;
use serde::{Deserialize, Serialize};

/// An update of the pods that is under way: how many have the older template, and since when it is that many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Updating {
    /// Members whose pods have an older template.
    pub left: u32,
    /// When there first were that many, in seconds since 1970.
    pub since: Timestamp,
}
