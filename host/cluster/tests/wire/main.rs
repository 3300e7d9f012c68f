//! Executions over a real connection: the shipped client against an API server that misbehaves in every known way (decision 0035).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may"
)]
mod answers;
mod campaign;
mod dice;
mod draw;
mod found;
mod frames;
mod play;
mod printed;
mod server;
mod talk;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
