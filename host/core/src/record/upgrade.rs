//! What is remembered of a conversion of the data that did not work, on a member that goes on serving.
use crate::contract::Timestamp;
use serde::{Deserialize, Serialize};

/// `upgrade` failed on a primary, which is well all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailedUpgrade {
    /// How many times in a row.
    pub failures: u32,
    /// Before that time it is not tried again, in seconds since 1970. Absent: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
}
