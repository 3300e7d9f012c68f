//! What the end of an execution proves, and what this process knows about how commands ended.
mod cause;
mod commands;
mod ended;

pub use cause::Cause;
pub use commands::Commands;
pub use ended::{
    Ended, Output, Started, Told, list, probed, query, refused, sequence, settled, started, status, status_code,
    was_busy,
};
