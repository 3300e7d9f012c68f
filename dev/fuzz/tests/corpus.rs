//! Each target with all of its corpus, and with a number of changed copies that are the same each time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::path::PathBuf;
use std::{fs, panic};
use tanist_fuzz::mutate::changed;
use tanist_fuzz::{TARGETS, Target};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The inputs of a corpus, in the order of their names.
fn corpus(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut all: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    all.sort();
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    all.iter().map(|path| (name(path), fs::read(path).unwrap())).collect()
}

/// Runs the target; if it panics, the input is left where it can be tried again.
fn try_one(target: &Target, what: &str, bytes: &[u8]) {
    if panic::catch_unwind(|| (target.run)(bytes)).is_err() {
        let path = std::env::temp_dir().join(format!("tanist-fuzz-{}", target.name));
        fs::write(&path, bytes).unwrap();
        panic!("target {}, {what}: see above; the input is in {}", target.name, path.display());
    }
}

/// `TANIST_FUZZ_TRIES`: how many changed inputs for each one that is usual; `TANIST_FUZZ_SEED`: other ones.
fn holds(name: &str) {
    let number =
        |variable: &str, usual| std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (times, seed) = (number("TANIST_FUZZ_TRIES", 1), number("TANIST_FUZZ_SEED", 1));
    let target = tanist_fuzz::target(name).unwrap();
    let corpus = corpus(target);
    assert!((1..=40).contains(&corpus.len()), "{} inputs: keep the corpus small", corpus.len());
    corpus.iter().for_each(|(file, bytes)| try_one(target, file, bytes));
    let inputs: Vec<Vec<u8>> = corpus.into_iter().map(|(_, bytes)| bytes).collect();
    let mut random = SmallRng::seed_from_u64(seed);
    for number in 0..u64::from(target.tries) * times {
        try_one(target, &format!("change {number}"), &changed(&mut random, &inputs, target.longest));
    }
}

#[test]
fn an_answer_is_taken_or_refused() {
    holds("answers");
}

#[test]
fn a_frame_is_read_as_it_was_written() {
    holds("frames");
}

#[test]
fn a_component_is_loaded_or_refused_before_it_is_compiled() {
    holds("module");
}

#[test]
fn a_record_is_read_as_it_was_written() {
    holds("record");
}

#[test]
fn a_group_is_read_or_refused() {
    holds("resource");
}

#[test]
fn a_script_is_loaded_or_refused() {
    holds("script");
}

#[test]
fn a_sequence_is_a_position_or_none() {
    holds("sequence");
}

#[test]
fn only_a_frame_that_says_so_is_an_exit_code() {
    holds("status");
}

#[test]
fn every_target_is_tried_here() {
    let own = include_str!("corpus.rs");
    let tried = |target: &&Target| own.contains(&format!("holds(\"{}\")", target.name));
    assert_eq!(TARGETS.iter().filter(tried).count(), TARGETS.len());
}
