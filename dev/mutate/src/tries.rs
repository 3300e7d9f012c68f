//! Tries the mutations of a plan: first those that one build holds, then the others, one build each.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::batch::{self, Originals};
use crate::compile::{self, Choice, Compile, Executable};
use crate::deadline::Deadline;
use crate::outcome::{self, SURVIVED};
use crate::plan::{self, Mutation};
use crate::pool;
use crate::process::{End, Limits};
use crate::suite::{Setting, Suite, Tried};

/// Tries the mutations of a crate against its tests. Prints `known NUMBER` when there is a result, `wrong NUMBER` when there cannot be one.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The copy in which everything is built and written.
    #[arg(long)]
    root: PathBuf,
    /// The crate's name.
    #[arg(long)]
    package: String,
    /// The folder of the crate.
    #[arg(long)]
    folder: PathBuf,
    /// What to try.
    #[arg(long)]
    plan: PathBuf,
    /// This test executable and the tests beside the code, instead of all and the examples in the documentation.
    #[arg(long)]
    test: Option<String>,
    /// What is built first for a mutation that has a build of its own: most are noticed there. `lib` or `bins`.
    #[arg(long)]
    first: Option<String>,
    /// How many mutations are tried at a time.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// A build for each mutation, even where one could hold all.
    #[arg(long)]
    apart: bool,
    /// The random tests count in how many of so many seeds they fail.
    #[arg(long)]
    random: Option<u32>,
    /// Seconds of a processor after which a test has no end.
    #[arg(long, default_value_t = 900)]
    processor: u64,
    /// Seconds after which one has none that waits.
    #[arg(long, default_value_t = 7200)]
    clock: u64,
    /// No mutation is begun after it.
    #[command(flatten)]
    deadline: Deadline,
    /// This file says that the unchanged tests pass.
    #[arg(long)]
    passed: PathBuf,
    /// Arguments for the tests.
    #[arg(last = true)]
    words: Vec<String>,
}

/// From so many mutations on one build for all is faster: before the first result it has to run all tests without a mutation.
const WORTH_IT: usize = 3;

/// Runs the command `tests`: tries the mutations of a crate against its tests.
///
/// # Errors
/// Nothing more can be known: the copy, cargo, the unchanged tests, an interruption.
pub fn run(args: &Args) -> Result<()> {
    let mutations = plan::read(&args.plan)?;
    let mut originals = Originals::default();
    let done = try_all(args, &mutations, &mut originals);
    originals.restore()?;
    done
}

fn try_all(args: &Args, mutations: &[Mutation], originals: &mut Originals) -> Result<()> {
    let mut apart: VecDeque<&Mutation> = mutations.iter().collect();
    if !args.apart && mutations.len() >= WORTH_IT && !args.deadline.is_over() {
        apart = try_together(args, mutations, originals)?.into();
    }
    originals.restore()?;
    let mut is_known = args.passed.exists();
    while let Some(mutation) = apart.pop_front() {
        if args.deadline.is_over() {
            return Ok(());
        }
        if !is_known {
            passes(args, &mut suite(args, compile::tests(&args.choice(None))?, processors())?)?;
            is_known = true;
        }
        try_apart(args, mutation, originals)?;
    }
    Ok(())
}

/// Tries what one build can hold. Returns the others, and those about which a build of their own says more.
fn try_together<'a>(args: &Args, mutations: &'a [Mutation], originals: &mut Originals) -> Result<Vec<&'a Mutation>> {
    let began = Instant::now();
    let built = batch::build(&args.choice(None), mutations, originals)?;
    for (number, why) in &built.apart {
        eprintln!("mutants: {} {number} has a build of its own: {why}", args.folder.display());
    }
    let seconds = began.elapsed().as_secs();
    eprintln!("mutants: {} of {} are in one build, after {seconds} s", built.held.len(), mutations.len());
    let (held, mut apart): (Vec<_>, Vec<_>) = mutations.iter().partition(|each| built.held.contains(&each.number));
    if held.is_empty() {
        return Ok(apart);
    }
    let mut suite = suite(args, built.executables, processors())?;
    passes(args, &mut suite)?;
    suite.reach(args.jobs)?;
    eprintln!("mutants: which tests reach which mutations is known after {} s", began.elapsed().as_secs());
    let others = pool::each(&held, args.jobs, |mutation| -> Result<Option<&Mutation>> {
        if args.deadline.is_over() {
            return Ok(None);
        }
        match cells(args, &suite, mutation)? {
            Some(cells) => known(mutation, &cells).map(|()| None),
            None => Ok(Some(*mutation)),
        }
    })?;
    apart.extend(others.into_iter().flatten());
    eprintln!("mutants: tried after {} s", began.elapsed().as_secs());
    Ok(apart)
}

/// The result of a mutation that the build holds. None where only a build of its own is believed: a test may read the sources, where all mutations
/// are, and a test that fails once and then not says nothing.
fn cells(args: &Args, suite: &Suite, mutation: &Mutation) -> Result<Option<String>> {
    Ok(match suite.attempt(Some(mutation.number), args.hints(mutation))? {
        Tried::Passed(said) if args.random.is_some() => Some(outcome::random(End::Passed, &said)),
        Tried::AmongOthers(end, said) if args.random.is_some() => Some(outcome::random(end, &said)),
        Tried::Passed(_) => None,
        Tried::ByName(end, said) => Some(outcome::noticed(end, &said)),
        Tried::AmongOthers(end @ End::Endless(_), said) => Some(outcome::noticed(end, &said)),
        Tried::AmongOthers(_, said) => match suite.again(mutation.number, &said)? {
            Tried::Passed(_) => None,
            Tried::ByName(end, said) | Tried::AmongOthers(end, said) => Some(outcome::noticed(end, &said)),
        },
    })
}

/// Builds the crate with this mutation alone.
fn try_apart(args: &Args, mutation: &Mutation, originals: &mut Originals) -> Result<()> {
    let path = args.root.join(&mutation.file);
    let text = fs::read_to_string(&mutation.mutated).with_context(|| mutation.mutated.display().to_string())?;
    originals.write(&path, &text)?;
    let mut cells = SURVIVED.to_owned();
    for first in [args.first.as_deref(), None].into_iter().skip(usize::from(args.first.is_none())) {
        let executables = match compile::tests(&args.choice(first)) {
            Ok(executables) => executables,
            Err(error @ Compile::Code(_)) => {
                eprintln!("mutants: {} {}: {error}", args.folder.display(), mutation.number);
                say("wrong", mutation.number)?;
                originals.restore()?;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let mut suite = suite(args, executables, processors())?;
        if first.is_some() {
            suite.leave_out_examples();
        }
        let tried = suite.attempt(None, args.hints(mutation))?;
        cells = match (tried, args.random) {
            (Tried::Passed(said), Some(_)) => outcome::random(End::Passed, &said),
            (Tried::ByName(end, said) | Tried::AmongOthers(end, said), Some(_)) => outcome::random(end, &said),
            (Tried::Passed(_), None) => continue,
            (Tried::ByName(end, said) | Tried::AmongOthers(end, said), None) => outcome::noticed(end, &said),
        };
        break;
    }
    originals.restore()?;
    known(mutation, &cells)
}

/// The unchanged tests pass.
fn passes(args: &Args, suite: &mut Suite) -> Result<()> {
    let began = Instant::now();
    let threads = (processors() / args.jobs.max(1)).max(1);
    if let Tried::ByName(_, said) | Tried::AmongOthers(_, said) = suite.unchanged(threads)? {
        bail!("the tests fail without a mutation:\n{}", end_of(&said));
    }
    eprintln!("mutants: without a mutation the tests take {:.1} s", began.elapsed().as_secs_f64());
    fs::write(&args.passed, "").with_context(|| args.passed.display().to_string())
}

fn suite(args: &Args, executables: Vec<Executable>, threads: usize) -> Result<Suite> {
    let mut variables = Vec::new();
    if let Some(seeds) = args.random {
        variables = vec![("TANIST_COUNT".into(), "1".into()), ("TANIST_SEEDS".into(), seeds.to_string())];
    }
    let setting = Setting {
        root: args.root.clone(),
        folder: args.folder.clone(),
        package: args.package.clone(),
        words: args.words.clone(),
        variables,
        examples: args.test.is_none(),
        whole: args.random.is_some(),
        longest: Limits { processor: Duration::from_secs(args.processor), clock: Duration::from_secs(args.clock) },
    };
    Ok(Suite::new(setting, executables, threads)?)
}

impl Args {
    fn choice(&self, first: Option<&str>) -> Choice {
        let mut words = vec!["-p".to_owned(), self.package.clone()];
        words.extend(self.test.iter().flat_map(|test| ["--lib".to_owned(), "--test".to_owned(), test.clone()]));
        words.extend(first.map(|first| format!("--{first}")));
        Choice { root: self.root.clone(), words }
    }

    /// The random tests are counted whole.
    fn hints<'a>(&self, mutation: &'a Mutation) -> &'a [String] {
        if self.random.is_some() { &[] } else { &mutation.hints }
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Keeps a result; whole or not at all, because a run may be interrupted.
fn known(mutation: &Mutation, cells: &str) -> Result<()> {
    let new = mutation.result.with_extension("new");
    let written = fs::write(&new, format!("{cells}\n")).and_then(|()| fs::rename(&new, &mutation.result));
    written.with_context(|| mutation.result.display().to_string())?;
    say("known", mutation.number)
}

/// One line for dev/mutants, at once.
///
/// # Errors
/// Nobody reads it any more.
pub fn say(what: &str, number: u32) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{what} {number}")?;
    Ok(out.flush()?)
}

fn end_of(said: &str) -> String {
    let lines: Vec<_> = said.lines().collect();
    lines.get(lines.len().saturating_sub(30)..).unwrap_or_default().join("\n")
}
