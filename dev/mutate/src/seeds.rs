//! Lives the simulator's seeds with one bug after the other in force, until a seed notices it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::batch::{self, Originals};
use crate::compile::{self, Choice, Compile, Executable};
use crate::deadline::Deadline;
use crate::plan::{self, Mutation};
use crate::process::{self, End, Limits};
use crate::tries::say;

/// Lives seeds of the simulator with bugs. Prints `known NUMBER` when a seed noticed one or all were lived, `wrong NUMBER` when it does not compile.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The copy in which everything is built and written.
    #[arg(long)]
    root: PathBuf,
    /// What to try.
    #[arg(long)]
    plan: PathBuf,
    /// How many seeds are lived with each bug, from 1 on.
    #[arg(long, default_value_t = 20_000)]
    most: u64,
    /// No seeds are begun after it.
    #[command(flatten)]
    deadline: Deadline,
}

/// What is known of a bug. What was lived without a failure counts, too, so that a run may be interrupted.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Found {
    /// The first seed that notices it. All before were lived.
    seed: Option<u64>,
    /// How many were lived, from 1 on.
    lived: u64,
    /// What that seed said, in its first words.
    said: String,
}

/// Seeds of one process. From 200 on the simulator expects that every kind of fault happened among them.
const AT_ONCE: u64 = 199;

/// The longest text of what a seed said, in characters.
const WORDS: usize = 160;

/// No life takes that long: seconds of a processor for so many seeds, and of the clock.
const LONGEST: Limits = Limits { processor: Duration::from_secs(600), clock: Duration::from_secs(1200) };

/// Runs the command `seeds`: runs the simulator with each bug until a seed notices it.
///
/// # Errors
/// Nothing more can be known: the copy, cargo, a simulator that fails without a bug, an interruption.
pub fn run(args: &Args) -> Result<()> {
    let mutations = plan::read(&args.plan)?;
    let mut originals = Originals::default();
    let done = live_all(args, &mutations, &mut originals);
    originals.restore()?;
    done
}

fn live_all(args: &Args, mutations: &[Mutation], originals: &mut Originals) -> Result<()> {
    let words = ["--profile", "sim", "-p", "tanist-sim", "--test", "sim"].map(str::to_owned);
    let choice = Choice { root: args.root.clone(), words: words.into() };
    let built = batch::build(&choice, mutations, originals)?;
    for (number, why) in &built.apart {
        eprintln!("mutants: bug {number} has a build of its own: {why}");
    }
    eprintln!("mutants: {} of {} bugs are in one build", built.held.len(), mutations.len());
    let (held, apart): (Vec<_>, Vec<_>) = mutations.iter().partition(|each| built.held.contains(&each.number));
    if let [executable] = built.executables.as_slice() {
        if let Found { seed: Some(seed), said, .. } = live(args, executable, None, Found::default(), AT_ONCE)? {
            bail!("seed {seed} fails without a bug: {said}");
        }
        for mutation in held.into_iter().take_while(|_| !args.deadline.is_over()) {
            try_one(args, executable, Some(mutation.number), mutation)?;
        }
    }
    originals.restore()?;
    for mutation in apart.into_iter().take_while(|_| !args.deadline.is_over()) {
        let text = fs::read_to_string(&mutation.mutated).with_context(|| mutation.mutated.display().to_string())?;
        originals.write(&args.root.join(&mutation.file), &text)?;
        match compile::tests(&choice) {
            Ok(executables) => {
                for executable in &executables {
                    try_one(args, executable, None, mutation)?;
                }
            }
            Err(error @ Compile::Code(_)) => {
                eprintln!("mutants: bug {}: {error}", mutation.number);
                say("wrong", mutation.number)?;
            }
            Err(error) => return Err(error.into()),
        }
        originals.restore()?;
    }
    Ok(())
}

/// Goes on where an earlier run ended.
fn try_one(args: &Args, executable: &Executable, number: Option<u32>, mutation: &Mutation) -> Result<()> {
    let before = fs::read_to_string(&mutation.result).ok();
    let before = before.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let found = live(args, executable, number, before, args.most)?;
    keep(&mutation.result, &found)?;
    if found.seed.is_some() || found.lived >= args.most {
        say("known", mutation.number)?;
    }
    Ok(())
}

/// Lives seeds until one fails, or so many were lived, or the time is over.
fn live(args: &Args, executable: &Executable, number: Option<u32>, mut found: Found, most: u64) -> Result<Found> {
    while found.seed.is_none() && found.lived < most && !args.deadline.is_over() {
        let (first, count) = (found.lived + 1, AT_ONCE.min(most - found.lived));
        let mut command = Command::new(&executable.path);
        command.arg("no_promise").current_dir(args.root.join("host/sim"));
        command.env("TANIST_SIM_SEED", first.to_string()).env("TANIST_SIM_SEEDS", count.to_string());
        command.env("TANIST_SIM_FAILURES", "1").env("RUST_BACKTRACE", "0");
        match number {
            Some(number) => command.env("TANIST_MUTANT", number.to_string()),
            None => command.env_remove("TANIST_MUTANT"),
        };
        let (end, said) = process::run(&mut command, LONGEST)?;
        match (end, failure(&said)) {
            (End::Passed, _) => found.lived += count,
            (End::Failed, None) if lived_well(&said) => found.lived += count,
            (_, Some((seed, said))) => found = Found { seed: Some(seed), lived: seed, said },
            (End::Endless(_), None) => {
                found = Found { seed: Some(first), lived: first, said: "a life has no end".into() }
            }
            (End::Failed, None) => {
                found = Found { seed: Some(first), lived: first, said: "the run ended early".into() }
            }
        }
    }
    Ok(found)
}

/// The first seed that failed, and why: of the lines `seed N failed: ROWS: WORDS` the one with the lowest number.
fn failure(said: &str) -> Option<(u64, String)> {
    let told = said.lines().filter_map(|line| line.split_once("seed ")?.1.split_once(" failed: "));
    let numbered = told.filter_map(|(seed, words)| Some((seed.parse().ok()?, words)));
    numbered.min_by_key(|(seed, _)| *seed).map(|(seed, words): (u64, &str)| (seed, words.chars().take(WORDS).collect()))
}

/// Whether all lives went well and only what the whole campaign has to reach was missed, which few seeds do not reach.
fn lived_well(said: &str) -> bool {
    said.lines().any(|line| line.contains(" seeds from ")) && !said.contains("these seeds failed")
}

fn keep(path: &Path, found: &Found) -> Result<()> {
    let new = path.with_extension("new");
    let text = serde_json::to_string(found)?;
    let written = fs::write(&new, format!("{text}\n")).and_then(|()| fs::rename(&new, path));
    written.with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_read() {
        let said = "seed 18 failed: S20: two primaries\nseed 17 failed: S44: not well at the end: db\n";
        assert_eq!(failure(said), Some((17, "S44: not well at the end: db".into())));
        assert_eq!(failure("error: test failed"), None);
    }

    #[test]
    fn a_campaign_that_was_too_short_went_well() {
        assert!(lived_well("100 seeds from 1 in 2 s\npanicked: these never happened"));
        assert!(!lived_well("100 seeds from 1 in 2 s\npanicked: these seeds failed: [7]"));
        assert!(!lived_well("it ended early"));
    }
}
