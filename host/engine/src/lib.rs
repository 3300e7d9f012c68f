//! Loads policies, which are WebAssembly components, and asks them questions.
//!
//! **The promise.** Whatever the bytes of a policy are, and whatever it does, loading and asking end in bounded time and memory with a value:
//! a reply of the contract's form, or a named error. A reply is a function of policy, parameters and snapshot, on every machine.
//!
//! A policy can import no function, runs in a new instance for each question, and always under all [`Limits`]. The engine does not check
//! whether a reply is safe: `tanist-core` does. A complete host:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use tanist_core::{
//!     contract::{Answer, Group, Snapshot},
//!     policy::{Point, Policies, Question, Reply},
//! };
//! use tanist_engine::{Engine, Layer, Limits, Policy, Stack};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let engine = Engine::new(Limits::default())?;
//!     let policy = Policy::load(&engine, "file/sequence", &std::fs::read("sequence.wasm")?)?;
//!     let parameters = policy.validate(r#"{"prefer": ["db-2"]}"#)?;
//!     let stack = Stack::new(vec![Layer { policy: Arc::new(policy), points: None, parameters }]);
//!
//!     let group = Group {
//!         name: "db".to_owned(),
//!         namespace: "default".to_owned(),
//!         replicas: 3,
//!         primaries: 1,
//!         has_secondaries: true,
//!         term: 0,
//!         preferred_primary: None,
//!         high_water: None,
//!         labels: vec![],
//!         facts: vec![],
//!     };
//!     let snapshot = Snapshot { now: 1_700_000_000, group, members: vec![], history: vec![], parameters: "{}".to_owned() };
//!     let answered = stack.ask(&Question { point: Point::Seed, snapshot })?;
//!     match answered.reply {
//!         Reply::Answer(Answer::Choose(ranking)) => println!("{} chose {:?}", answered.policy, ranking.candidates),
//!         other => println!("{} said {other:?}", answered.policy),
//!     }
//!     Ok(())
//! }
//! ```

mod authoring;
mod bindings;
mod compiled;
mod contract;
mod convert;
mod error;
mod exam;
mod frames;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod interfaces;
mod limits;
mod native;
mod policy;
mod prepared;
mod question;
mod sandbox;
mod schema;
mod script;
mod stack;
pub mod structure;
mod text;
mod ticker;

/// The operator's allocator: the C library's own takes most of the time of an exam.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use authoring::Lines;
pub use compiled::{compile, compile_for};
pub use error::{LoadError, ParametersError, RunError, SchemaError, SetupError, Stage};
pub use exam::{Exam, ExamLimits, Examined, Finding, Usage, Verdict, exam};
pub use limits::Limits;
pub use policy::{Engine, Policy, Spent};
pub use script::Interpreter;
pub use stack::{Alone, Heard, Layer, Stack};
pub use text::is_unfit;
