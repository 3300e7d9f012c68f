//! What a position that was read before is still worth.
use super::Moment;
use crate::contract::{Position, Role, Timestamp};
use crate::limits;
use std::time::Duration;

/// A position with its circumstances.
#[derive(Debug, Clone)]
pub struct PositionHint {
    /// The ID of the container in which it ran.
    pub container_id: String,
    /// What `sequence` said of the member's data.
    pub position: Position,
    /// When it was read, in seconds since 1970, by the clock of decisions.
    pub at: Timestamp,
    /// When it was asked for, before the answer came.
    pub asked: Moment,
    /// When the answer came.
    pub answered: Moment,
    /// The role at that time: a position does not outlive the role in which it was read.
    pub role: Role,
    /// Whether that container was ready at that time.
    pub ready: bool,
    /// Whether a member may have been primary when it was asked for, so that data may have changed.
    pub led: bool,
}

/// The present state of a member, against which a remembered position is compared.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// The container in which `sequence` runs.
    pub container_id: Option<&'a str>,
    /// The role of the member.
    pub role: Role,
    /// Whether that container is ready.
    pub ready: bool,
    /// The time of this look.
    pub at: Moment,
    /// When data may last have changed. `None`: never seen.
    pub moved: Option<Moment>,
}

/// What a remembered position may still be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worth {
    /// Nothing: the member is not in the state in which it was read. The position is forgotten.
    Gone,
    /// Nothing: it is too old, and has to be read again.
    Old,
    /// Enough to choose who joins, for joiners synchronise; not enough for a seed or a failover.
    Moved,
    /// Every decision: the data has not changed since.
    Stands,
}

impl PositionHint {
    /// What the position may be used for now: nothing in another container, in another role, or once a stopped member became ready; and never
    /// longer than [`limits::POSITION_SECONDS`], because a stopped member may have run in between without being observed.
    #[must_use]
    pub fn worth(&self, now: Sight<'_>) -> Worth {
        let same = now.container_id == Some(self.container_id.as_str()) && now.role == self.role;
        let woke = self.role == Role::Stopped && now.ready && !self.ready;
        if !same || woke {
            return Worth::Gone;
        }
        let patience = match self.position {
            Position::Unknown(_) => limits::UNKNOWN_POSITION_SECONDS,
            Position::Known(_) | Position::Empty | Position::NotAsked => limits::POSITION_SECONDS,
        };
        let patience = Duration::from_secs(u64::try_from(patience).unwrap_or(0));
        if now.at.since(self.answered) >= patience {
            return Worth::Old;
        }
        match self.led || now.moved.is_some_and(|moved| self.asked <= moved) {
            true => Worth::Moved,
            false => Worth::Stands,
        }
    }
}
