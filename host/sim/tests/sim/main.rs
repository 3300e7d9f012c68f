//! Groups under the shipped round in a simulated cluster.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
mod lives;
mod points;
#[allow(dead_code, missing_docs, reason = "the policies of the core's tests; not all are used here")]
#[path = "../../../core/tests/support/policies.rs"]
mod policies;
mod seeds;
mod stories;
mod sums;
mod table;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A number from the environment.
fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
