//! The tests of a crate: executables, in the order in which they are run, and what notices a mutation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use std::{fs, io};

use crate::compile::{self, Executable};
use crate::order::{self, Order};
use crate::outcome;
use crate::pool;
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
    /// Whether each test has to run to its end, because what it prints counts.
    pub whole: bool,
    /// The longest that one executable may run.
    pub longest: Limits,
}

/// What is known of one mutation, or of the unchanged crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    /// Every test passed; this is what they printed.
    Passed(String),
    /// A test failed that ran by its name: one that noticed it before, or a slow one.
    ByName(End, String),
    /// A test failed among others.
    AmongOthers(End, String),
}

/// Executables that were built together.
#[derive(Debug)]
pub struct Suite {
    setting: Setting,
    executables: Vec<Executable>,
    /// The whole names of the tests that are wanted, for each executable.
    names: Vec<Vec<String>>,
    /// How long all of them take without a mutation, once that is known.
    usual: Option<Duration>,
    /// Whether there are examples in the documentation.
    examples: bool,
    threads: usize,
    /// Known once the unchanged tests have run.
    order: Option<Order>,
}

/// With a mutation tests take about as long as without; this many times as long is no end.
const TIMES: u32 = 20;

/// What a busy machine adds.
const AT_LEAST: Duration = Duration::from_secs(30);

impl Suite {
    /// The tests beside the code come first: they start in no time.
    ///
    /// # Errors
    /// An executable does not list its tests.
    pub fn new(setting: Setting, mut executables: Vec<Executable>, threads: usize) -> Result<Self, Run> {
        executables.sort_by_key(|each| !each.unit);
        let mut suite = Self {
            usual: None,
            examples: setting.examples && executables.iter().any(|each| each.library),
            setting,
            executables,
            names: Vec::new(),
            threads,
            order: None,
        };
        for at in 0..suite.executables.len() {
            let said = suite.run(at, None, &suite.words(&["--list", "--format", "terse"]))?.1;
            let names = said.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned);
            suite.names.push(names.collect());
        }
        Ok(suite)
    }

    /// Examples in the documentation are left to a later build.
    pub const fn leave_out_examples(&mut self) {
        self.examples = false;
    }

    /// Tests without any mutation. From now on quick tests run before slow ones, none may run much longer than it did, and as many threads run those of an
    /// executable.
    ///
    /// # Errors
    /// Nothing is known.
    pub fn unchanged(&mut self, threads: usize) -> Result<Tried, Run> {
        let began = Instant::now();
        let (mut order, mut all) = (Order::default(), String::new());
        for at in 0..self.executables.len() {
            let (end, said) = self.run(at, None, &self.words(&["--report-time"]))?;
            if end != End::Passed {
                return Ok(Tried::AmongOthers(end, said));
            }
            order.add(at, self.names.get(at).map(Vec::as_slice).unwrap_or_default(), &said);
            all.push_str(&said);
        }
        if self.examples {
            let (end, said) = self.run_examples(None)?;
            if end != End::Passed {
                return Ok(Tried::AmongOthers(end, said));
            }
            self.examples = said.lines().any(|line| line.starts_with("running ") && line != "running 0 tests");
        }
        self.usual = Some(began.elapsed());
        self.threads = threads;
        self.order = (!self.setting.whole).then_some(order);
        Ok(Tried::Passed(all))
    }

    /// Runs quick tests together and each slow one alone, and notes which mutations each of them reaches: from now on a mutation is tried against these only.
    /// As many run at a time.
    ///
    /// # Errors
    /// Nothing is known.
    pub fn reach(&mut self, jobs: usize) -> Result<(), Run> {
        let Some(mut order) = self.order.take() else { return Ok(()) };
        let work: Vec<_> = order.parts().collect();
        let reached = pool::each(&work, jobs, |(at, names, takes)| self.reached(*at, names, *takes))?;
        order.note_reached(reached);
        self.order = Some(order);
        Ok(())
    }

    /// The mutations that these tests reach. None when they do not pass alone: then they are tried against each.
    fn reached(&self, at: usize, names: &[String], takes: Duration) -> Result<Option<BTreeSet<u32>>, Run> {
        let failed = |error| Run::Program("tests".to_owned(), error);
        let folder = tempfile::tempdir().map_err(failed)?;
        let mut command = self.exactly(at, names)?;
        command.env("TANIST_REACHED", folder.path());
        let (end, _) = self.finish(command, None, Some(takes))?;
        let reached = numbers(folder.path()).map_err(failed)?;
        Ok((end == End::Passed).then_some(reached))
    }

    /// Runs the tests that are hinted at, then all, until one fails.
    ///
    /// # Errors
    /// Nothing is known.
    pub fn attempt(&self, number: Option<u32>, hints: &[String]) -> Result<Tried, Run> {
        for (at, names) in self.hinted(hints) {
            let (end, said) = self.run_exactly(at, number, &names, self.usual)?;
            if end != End::Passed {
                return Ok(Tried::ByName(end, said));
            }
        }
        let tried = match &self.order {
            Some(order) => self.in_order(number, order)?,
            None => self.as_they_are(number)?,
        };
        if self.examples && matches!(tried, Tried::Passed(_)) {
            let (end, said) = self.run_examples(number)?;
            if end != End::Passed {
                return Ok(Tried::AmongOthers(end, said));
            }
        }
        Ok(tried)
    }

    /// The slow tests that noticed most in their time come first.
    fn in_order(&self, number: Option<u32>, order: &Order) -> Result<Tried, Run> {
        for (at, quick) in order.quick.iter().filter(|(_, quick)| order::may_notice(&quick.reached, number)) {
            let (end, said) = self.run_exactly(*at, number, &quick.names, Some(quick.take))?;
            if end != End::Passed {
                return Ok(Tried::AmongOthers(end, said));
            }
        }
        let mut slow: Vec<_> = order.slow.iter().filter(|test| order::may_notice(&test.reached, number)).collect();
        slow.sort_by_key(|test| test.takes / test.noticed.load(Relaxed).saturating_add(1));
        for test in slow {
            let (end, said) =
                self.run_exactly(test.executable, number, std::slice::from_ref(&test.name), Some(test.takes))?;
            if end != End::Passed {
                test.noticed.fetch_add(1, Relaxed);
                return Ok(Tried::ByName(end, said));
            }
        }
        Ok(Tried::Passed(String::new()))
    }

    fn as_they_are(&self, number: Option<u32>) -> Result<Tried, Run> {
        let early: &[_] = if self.setting.whole { &[] } else { &["--fail-fast"] };
        let mut all = String::new();
        for at in 0..self.executables.len() {
            let (end, said) = self.run(at, number, &self.words(early))?;
            if end != End::Passed {
                return Ok(Tried::AmongOthers(end, said));
            }
            all.push_str(&said);
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

    /// Runs a failed test once more, alone. A machine that is too busy for a test is not a test that notices something.
    ///
    /// # Errors
    /// Nothing is known.
    pub fn again(&self, number: u32, said: &str) -> Result<Tried, Run> {
        let failed = outcome::failed(said);
        let each = self.names.iter().enumerate();
        let mut whole = each.flat_map(|(at, names)| names.iter().map(move |name| (at, name)));
        let Some((at, name)) = whole.find(|(_, name)| failed.contains(name.as_str())) else {
            // It ended without a word. Nothing can be repeated but all of it.
            return self.attempt(Some(number), &[]);
        };
        let (end, said) = self.run_exactly(at, Some(number), std::slice::from_ref(name), self.usual)?;
        Ok(if end == End::Passed { Tried::Passed(said) } else { Tried::ByName(end, said) })
    }

    fn words<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        self.setting.words.iter().map(String::as_str).chain(more.iter().copied()).collect()
    }

    /// Tests that take so long without a mutation.
    fn run_exactly(
        &self,
        at: usize,
        number: Option<u32>,
        names: &[String],
        usual: Option<Duration>,
    ) -> Result<(End, String), Run> {
        self.finish(self.exactly(at, names)?, number, usual)
    }

    fn exactly(&self, at: usize, names: &[String]) -> Result<Command, Run> {
        let words: Vec<_> = names.iter().map(String::as_str).chain(["--exact", "--fail-fast"]).collect();
        self.test(at, &words)
    }

    fn run(&self, at: usize, number: Option<u32>, words: &[&str]) -> Result<(End, String), Run> {
        self.finish(self.test(at, words)?, number, self.usual)
    }

    fn test(&self, at: usize, words: &[&str]) -> Result<Command, Run> {
        let Some(executable) = self.executables.get(at) else {
            return Err(Run::Program(at.to_string(), io::ErrorKind::NotFound.into()));
        };
        let folder = self.setting.root.join(&self.setting.folder);
        let mut command = Command::new(&executable.path);
        command.args(words).current_dir(&folder);
        // To end early and to say times is not stable yet.
        command.args(["-Z", "unstable-options"]).env("RUSTC_BOOTSTRAP", "1");
        // What cargo sets.
        command.env("CARGO_MANIFEST_DIR", &folder).env("CARGO_PKG_NAME", &self.setting.package);
        command.env("RUST_TEST_THREADS", self.threads.to_string());
        Ok(command)
    }

    fn run_examples(&self, number: Option<u32>) -> Result<(End, String), Run> {
        let mut command = compile::cargo(&self.setting.root);
        command.args(["test", "--quiet", "--locked", "--doc", "-p", &self.setting.package]);
        self.finish(command, number, self.usual)
    }

    fn finish(&self, mut command: Command, number: Option<u32>, usual: Option<Duration>) -> Result<(End, String), Run> {
        command.envs(self.setting.variables.iter().map(|(name, value)| (name, value))).env("RUST_BACKTRACE", "0");
        match number {
            Some(number) => command.env("TANIST_MUTANT", number.to_string()),
            None => command.env_remove("TANIST_MUTANT"),
        };
        let longest = self.setting.longest;
        let processor = usual.map_or(longest.processor, |usual| longest.processor.min(AT_LEAST + usual * TIMES));
        process::run(&mut command, Limits { processor, ..longest })
    }
}

/// The names of the files there, which are numbers.
fn numbers(folder: &Path) -> io::Result<BTreeSet<u32>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().parse().ok()));
    Ok(names.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
}
