//! The tests of a crate: executables, in the order in which they are run, and what notices a mutation.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::compile::{self, Executable};
use crate::outcome;
use crate::process::{self, End, Limits, Run};

/// How tests are run.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The root of the copy.
    pub root: PathBuf,
    /// The crate's folder below it, in which cargo runs tests.
    pub folder: PathBuf,
    /// The crate's name.
    pub package: String,
    /// Arguments of each executable.
    pub words: Vec<String>,
    /// Variables of each executable.
    pub variables: Vec<(String, String)>,
    /// Whether examples in the documentation count.
    pub examples: bool,
    /// The longest that one executable may run.
    pub longest: Limits,
}

/// What is known of one mutation, or of the unchanged crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    /// Every test passed; this is what they printed.
    Passed(String),
    /// A test failed that noticed it before.
    Again(End, String),
    /// This is what an executable printed that failed.
    Noticed(End, String),
}

/// Executables that were built together.
#[derive(Debug)]
pub struct Suite {
    setting: Setting,
    executables: Vec<Executable>,
    /// The whole names of the tests, for each executable.
    names: Vec<Vec<String>>,
    limits: Limits,
    /// Whether there are examples in the documentation.
    examples: bool,
    threads: usize,
}

/// An executable that fails once more takes about as long as when it passes; this many times as long is no end.
const TIMES: u32 = 20;

/// What a busy machine adds.
const AT_LEAST: Duration = Duration::from_secs(60);

impl Suite {
    /// The tests beside the code come first: they start in no time.
    ///
    /// # Errors
    /// An executable does not list its tests.
    pub fn new(setting: Setting, mut executables: Vec<Executable>, threads: usize) -> Result<Self, Run> {
        executables.sort_by_key(|each| !each.unit);
        let mut suite = Self {
            limits: setting.longest,
            examples: setting.examples && executables.iter().any(|each| each.library),
            setting,
            executables,
            names: Vec::new(),
            threads,
        };
        for at in 0..suite.executables.len() {
            let said = suite.run(at, None, &["--list".into(), "--format".into(), "terse".into()])?.1;
            let names = said.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned);
            suite.names.push(names.collect());
        }
        Ok(suite)
    }

    /// Tests without any mutation. From now on no executable may run much longer than all of them did. Then as many threads run each of them.
    ///
    /// # Errors
    /// Nothing is known.
    pub fn unchanged(&mut self, threads: usize) -> Result<Tried, Run> {
        let began = Instant::now();
        let tried = self.attempt(None, &[])?;
        let usual = AT_LEAST + began.elapsed() * TIMES;
        self.limits.processor = self.setting.longest.processor.min(usual);
        if self.examples {
            let (_, said) = self.run_examples(None)?;
            self.examples = said.lines().any(|line| line.starts_with("running ") && line != "running 0 tests");
        }
        self.threads = threads;
        Ok(tried)
    }

    /// Examples in the documentation are left to a later build.
    pub const fn leave_out_examples(&mut self) {
        self.examples = false;
    }

    /// Runs the tests that are hinted at, then all, until an executable fails.
    ///
    /// # Errors
    /// Nothing is known.
    pub fn attempt(&self, number: Option<u32>, hints: &[String]) -> Result<Tried, Run> {
        for (at, mut words) in self.hinted(hints) {
            words.push("--exact".into());
            let (end, said) = self.run(at, number, &words)?;
            if end != End::Passed {
                return Ok(Tried::Again(end, said));
            }
        }
        let mut all = String::new();
        for at in 0..self.executables.len() {
            let (end, said) = self.run(at, number, &self.setting.words)?;
            if end != End::Passed {
                return Ok(Tried::Noticed(end, said));
            }
            all.push_str(&said);
        }
        if self.examples {
            let (end, said) = self.run_examples(number)?;
            if end != End::Passed {
                return Ok(Tried::Noticed(end, said));
            }
        }
        Ok(Tried::Passed(all))
    }

    /// The tests with these names: of which executable, and their whole names.
    fn hinted(&self, hints: &[String]) -> BTreeMap<usize, Vec<String>> {
        let mut found: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (at, names) in self.names.iter().enumerate() {
            for name in names.iter().filter(|name| hints.iter().any(|hint| hint == outcome::last(name))) {
                found.entry(at).or_default().push(name.clone());
            }
        }
        found
    }

    /// Whether a failed test fails once more, alone. A machine that is too busy for a test is not a test that notices something.
    ///
    /// # Errors
    /// Nothing is known.
    pub fn confirms(&self, number: u32, said: &str) -> Result<bool, Run> {
        let failed = outcome::failed(said);
        let Some((at, name)) = self
            .names
            .iter()
            .enumerate()
            .find_map(|(at, names)| Some((at, names.iter().find(|name| failed.contains(name.as_str()))?)))
        else {
            // It ended without a word. Nothing can be repeated but all of it.
            return Ok(matches!(self.attempt(Some(number), &[])?, Tried::Noticed(..)));
        };
        Ok(self.run(at, Some(number), &[name.clone(), "--exact".into()])?.0 != End::Passed)
    }

    fn run(&self, at: usize, number: Option<u32>, words: &[String]) -> Result<(End, String), Run> {
        let Some(executable) = self.executables.get(at) else {
            return Err(Run::Program(at.to_string(), io::ErrorKind::NotFound.into()));
        };
        let folder = self.setting.root.join(&self.setting.folder);
        let mut command = Command::new(&executable.path);
        command.args(words).current_dir(&folder);
        // What cargo sets.
        command.env("CARGO_MANIFEST_DIR", &folder).env("CARGO_PKG_NAME", &self.setting.package);
        command.env("RUST_TEST_THREADS", self.threads.to_string());
        self.finish(command, number)
    }

    fn run_examples(&self, number: Option<u32>) -> Result<(End, String), Run> {
        let mut command = compile::cargo(&self.setting.root);
        command.args(["test", "--quiet", "--locked", "--doc", "-p", &self.setting.package]);
        self.finish(command, number)
    }

    fn finish(&self, mut command: Command, number: Option<u32>) -> Result<(End, String), Run> {
        command.envs(self.setting.variables.iter().map(|(name, value)| (name, value))).env("RUST_BACKTRACE", "0");
        match number {
            Some(number) => command.env("TANIST_MUTANT", number.to_string()),
            None => command.env_remove("TANIST_MUTANT"),
        };
        process::run(&mut command, self.limits)
    }
}
