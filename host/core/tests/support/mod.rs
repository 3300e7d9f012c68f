//! What the tests stand on: a world in memory, policies written natively, and an oracle that knows the truth.
pub mod agreement;
pub mod app;
pub mod chaos;
pub mod clients;
pub mod commands;
pub mod ending;
pub mod oracle;
pub mod policies;
pub mod script;
pub mod seeds;
pub mod setting;
pub mod shown;
pub mod swarm;
pub mod tally;
pub mod world;

use tanist_core::contract::{MemberName, Position, Sequence};

/// `db-N`.
pub fn db(ordinal: u32) -> MemberName {
    MemberName::from(format!("db-{ordinal}"))
}

/// `7` or `history:7`.
pub fn sequence(text: &str) -> Sequence {
    match tanist_core::data::read_sequence(text.as_bytes()) {
        Ok(Position::Known(sequence)) => sequence,
        other => panic!("{text:?} is no sequence: {other:?}"),
    }
}
