//! The words of the contract, as scripts see them: enums are texts.

use crate::world::exports::tanist::policy::types::{Outcome, Phase, Position, Role};

/// The points, in the order of the contract, and the interface of each.
pub const POINTS: [(&str, &str); 12] = [
    ("seed", "election"),
    ("failover", "election"),
    ("join", "election"),
    ("demote", "election"),
    ("place", "placement"),
    ("treat", "recovery"),
    ("switchover", "switchover"),
    ("rebalance", "rebalance"),
    ("update", "rollout"),
    ("judge", "rollout"),
    ("admit", "scaling"),
    ("order", "scaling"),
];

pub const fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Missing => "missing",
        Phase::Pending => "pending",
        Phase::Running => "running",
        Phase::Terminating => "terminating",
        Phase::Ended => "ended",
        Phase::Unreachable => "unreachable",
    }
}

pub const fn role(role: Role) -> &'static str {
    match role {
        Role::Unknown => "unknown",
        Role::Stopped => "stopped",
        Role::Starting => "starting",
        Role::Secondary => "secondary",
        Role::Primary => "primary",
        Role::Failed => "failed",
    }
}

pub const fn position(position: &Position) -> &'static str {
    match position {
        Position::Known(_) => "known",
        Position::Empty => "empty",
        Position::Unknown(_) => "unknown",
        Position::NotAsked => "not-asked",
    }
}

pub const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Exited(_) => "exited",
        Outcome::NotStarted => "not-started",
        Outcome::Unknown => "unknown",
    }
}
