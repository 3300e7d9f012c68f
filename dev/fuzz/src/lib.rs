//! Fuzz targets: each gives any bytes to a part that reads what others wrote, and checks what comes of it.
//!
//! A target panics when a rule does not hold: that is what a fuzzer looks for. The corpus in `corpus/TARGET` is committed: `tests/corpus.rs` runs all of it, and
//! some changed copies of it, in each `cargo test`; `dev/fuzz/run TARGET SECONDS` goes on from it, guided by coverage.
#[cfg(feature = "engine")]
pub mod answers;
pub mod frames;
#[cfg(feature = "engine")]
pub mod module;
pub mod mutate;
pub mod record;
pub mod resource;
#[cfg(feature = "engine")]
pub mod script;
pub mod sentence;
pub mod sequence;
#[cfg(feature = "client")]
pub mod status;

/// A fuzz target: one part of the code that reads bytes which others wrote.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// Reads the bytes. It panics when a rule does not hold.
    pub run: fn(&[u8]),
    /// Bytes of the longest input that is tried: somewhat more than the part takes.
    pub longest: usize,
    /// How many changed inputs `cargo test` tries; so many that each target takes a second or two.
    pub tries: u32,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    #[cfg(feature = "engine")]
    Target { name: "answers", run: answers::run, longest: 4_096, tries: 30_000 },
    Target { name: "frames", run: frames::run, longest: 4_096, tries: 20_000 },
    #[cfg(feature = "engine")]
    Target { name: "module", run: module::run, longest: 65_536, tries: 1_500 },
    Target { name: "record", run: record::run, longest: 16_384, tries: 8_000 },
    Target { name: "resource", run: resource::run, longest: 32_768, tries: 15_000 },
    #[cfg(feature = "engine")]
    Target { name: "script", run: script::run, longest: 8_192, tries: 2_000 },
    Target { name: "sequence", run: sequence::run, longest: 400, tries: 60_000 },
    #[cfg(feature = "client")]
    Target { name: "status", run: status::run, longest: 4_096, tries: 150_000 },
];

/// The target of that name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
