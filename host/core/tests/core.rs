//! Tests of the core, in the least powerful form that shows the rule: text scripts with golden transcripts (`scripts/`), native tests for
//! single rules (`rules/`), properties with oracles of their own (`properties/`). All play in the same small world (`support/`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may fail"
)]
mod properties;
mod rules;
mod scripts;
mod support;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
