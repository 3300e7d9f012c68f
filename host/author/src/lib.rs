//! What an author of policies does without a cluster: ask a policy about a case, test a folder of cases, look at what a policy is, measure it, begin a new
//! one.
//!
//! **The promise.** What is shown here is what the operator would do: the engine, its limits and its gates are the operator's, and the question is made by the
//! core's own decision, with the core's bars. Only the snapshot is made here ([`world`]), of a few lines of YAML ([`case`]).
//!
//! This crate knows neither Kubernetes nor a terminal: it returns values. `tanist policy` prints them.

pub mod arise;
pub mod ask;
pub mod assume;
pub mod bench;
pub mod case;
pub mod check;
pub mod compare;
pub mod coverage;
mod error;
pub mod format;
pub mod inspect;
pub mod manifest;
pub mod project;
pub mod recorded;
pub mod report;
pub mod suite;
pub mod tools;
pub mod update;
pub mod world;
mod yaml;

pub use error::{Error, Place};
