//! An administrator's decision that one member goes on alone: how far it came.
use crate::contract::MemberName;
use serde::{Deserialize, Serialize};

/// The last request to recover a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recovery {
    /// The value of the annotation `tanist.dev/recover`. Empty: only a claim remembers that the command began.
    pub request: String,
    /// The member that goes on.
    pub member: MemberName,
    /// How far it came.
    pub stage: Stage,
    /// Whether members ran when it was accepted: they were in two clusters, or did not agree on who they are. Otherwise it ends when members serve before its command began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub apart: bool,
    /// How often `recover` began and may have had an effect, also for a request before this one that was not done. From the first on the administrator has given up the other members:
    /// none of them is started, with the request or without it.
    #[serde(default, skip_serializing_if = "is_none")]
    pub tries: u32,
}

/// How far a request to recover a member came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Nobody served when it was looked at: members are stopped, and the one that was named is started alone.
    Accepted,
    /// A majority served when it was looked at. It is never done.
    Refused,
    /// The member leads alone. It is never done again.
    Done,
}

fn is_none(tries: &u32) -> bool {
    *tries == 0
}

impl Recovery {
    /// A recovery of which only a claim remembers that its command began. It counts as the second try: one before it may have had an effect, so nobody else is started even when this one turns out
    /// not to have begun.
    #[must_use]
    pub fn recalled(member: &MemberName) -> Self {
        Recovery { request: String::new(), member: member.clone(), stage: Stage::Accepted, apart: false, tries: 2 }
    }

    /// Whether its command began, and may have had an effect, and its member was not seen to lead.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.stage == Stage::Accepted && self.tries > 0
    }
}
