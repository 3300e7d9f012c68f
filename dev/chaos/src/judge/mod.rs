//! The judge: what the clients' journal and the watches say about promises. Each check returns one line for each violation, and nothing else.
//!
//! Two things are told apart. A member is *writable* when its server is not in recovery and its transactions may write. It *acknowledges* when a
//! client hears that its write is committed. A primary that was cut off stays writable and acknowledges nothing, for its standbys are gone: that alone
//! loses no data. Tanist promises more: nobody takes over before the old primary is over. So both are violations, each with its own name.
//!
//! Moments of the journal are microseconds, all others milliseconds. [`crate::awake`] feeds each check with a forged journal in which exactly that
//! promise is broken, in the tests and before every run.
mod primaries;
mod readers;
mod routes;
mod rows;
mod sight;
mod takeovers;
mod updates;

pub use primaries::{others_lead, two_acknowledge, two_writable};
pub use readers::{Label, Visit, visits, wrong_ro};
pub use routes::{Routes, Way, ways_of_rw, wrong_rw};
pub use rows::{missing, outage};
pub use sight::{no_difference, silent_inside, unseen};
pub use takeovers::{told_to_lead, too_soon, unproven};
pub use updates::{moved_again, new_pods, not_once, went_further};

/// A moment in milliseconds as one of the journal.
const fn micros(millis: u64) -> u64 {
    millis.saturating_mul(1000)
}
