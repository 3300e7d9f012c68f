//! A switchover that was requested, is under way, or has ended.
use crate::contract::{MemberName, Sequence, Timestamp};
use crate::limits;
use serde::{Deserialize, Serialize};

/// A switchover: a primary is stopped on purpose so that another member leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Switchover {
    /// The primary that gives up the lead.
    pub from: MemberName,
    /// The member that has to lead afterwards. Absent: any other member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<MemberName>,
    /// The member that a policy chose for a switchover to any other member. Kept until the switchover has ended, and left out where no policy
    /// chose: an older operator, which does not know this field, can read the record then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<MemberName>,
    /// The reason that users see.
    pub why: String,
    /// The group's term when it was requested.
    pub term: u64,
    /// The primary's sequence when it was first asked: the successor has to have it before the primary is stopped. Absent: not asked yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Sequence>,
    /// When the primary was told to stop. Absent: not yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Timestamp>,
    /// The member that led in the end. Absent: the switchover has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub led: Option<MemberName>,
    /// How many such switchovers of the same member ended with it as the primary before this one. Left out while none did: an older operator, which does
    /// not know this field, can read the record then.
    #[serde(default, skip_serializing_if = "none_failed")]
    pub failed: u32,
}

impl Switchover {
    /// When a switchover that ended with the old primary is tried again. `None`: it is not, because a named member was asked for; it has not ended; or
    /// it is not known when it began.
    #[must_use]
    pub fn next_try(&self) -> Option<Timestamp> {
        self.led.as_ref().filter(|_| self.to.is_none())?;
        let doublings = self.failed.min(16);
        let pause = (limits::SWITCHOVER_PAUSE_FIRST_SECONDS << doublings).min(limits::SWITCHOVER_PAUSE_LONGEST_SECONDS);
        Some(self.begun?.saturating_add(pause))
    }

    /// The one member that is to lead: the requested one, or the one that a policy chose. `None`: any other member.
    #[must_use]
    pub fn target(&self) -> Option<&MemberName> {
        self.to.as_ref().or(self.chosen.as_ref())
    }

    /// Whether the primary was told to stop and no member leads yet.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.begun.is_some() && self.led.is_none()
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn none_failed(failed: &u32) -> bool {
    *failed == 0
}
