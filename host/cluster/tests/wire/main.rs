//! Executions over a real connection: the shipped client against an API server that tells the truth in every wrong way.
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
