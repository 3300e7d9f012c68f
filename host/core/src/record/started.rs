//! What is remembered of a member beside its last confirmed role: a start that is not confirmed, and a container in which a command failed.
use crate::contract::Position;
use crate::memory;
use crate::snapshot::Member;
use serde::{Deserialize, Serialize};

/// A start whose end is not confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Started {
    /// The term of the start.
    pub term: u64,
    /// Whether this start opened the term (a seed or failover): only then may the member win a decision in that term before it is confirmed.
    pub target: bool,
    /// The position of its data before the start.
    pub before: Position,
    /// Whether `status` has said secondary or primary since then: from that moment it may have data that no other member has. Left out when
    /// false, so that after a roll-back an older operator, which does not know this field, can read the record.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub followed: bool,
    /// Whether a primary stopped after this command began: it may be the one among the peers that the member follows now. Left out when false, for
    /// a roll-back as above.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub peer_stopped: bool,
}

/// Noted of a secondary of an earlier term that ran, or may have run, while a primary of this term led: it may follow that one without having been told. Until it was told, its data counts as data of this term, too:
/// it can block a takeover, and not win it (docs/rules.md, "Term").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Untold {
    /// The term of the primary.
    pub term: u64,
    /// The position of its data before that primary led. Not asked: not known.
    pub before: Position,
    /// The UIDs of its claims then. Absent: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<String>,
    /// The first mark, about an earlier primary that it may have followed untold. It counts when the later takeovers had no effect. Absent: this is the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Box<Untold>>,
}

impl Untold {
    /// The mark that counts in that term. `None`: nobody knows that the member could have followed a primary of it.
    #[must_use]
    pub fn of(&self, term: u64) -> Option<&Untold> {
        match &self.earlier {
            _ if term == self.term => Some(self),
            Some(first) if (first.term..self.term).contains(&term) => Some(first),
            _ => None,
        }
    }

    /// The first mark.
    #[must_use]
    pub fn first(&self) -> &Untold {
        self.earlier.as_deref().unwrap_or(self)
    }

    /// Whether the member with that data has exactly what it had before: it got nothing from that primary, and no client relies on it. The numbers of a secondary that runs do not fall.
    #[must_use]
    pub fn stood_still(&self, member: &Member, data: &Position) -> bool {
        matches!(data, Position::Known(_) | Position::Empty) && *data == self.before && self.has_its_volumes(member)
    }

    /// Whether the member has the volumes that it had then.
    #[must_use]
    pub fn has_its_volumes(&self, member: &Member) -> bool {
        memory::claim_uids(&member.claims) == self.claims
    }
}

/// A container in which a command failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Broken {
    /// The UID of the pod.
    pub pod_uid: String,
    /// The ID of the container.
    pub container_id: String,
    /// The reason that users see.
    pub reason: String,
}
