//! The tests of a crate: executables, in the order in which they are run, and what notices a mutation.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
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

/// Quick tests run first, each executable's in one process.
#[derive(Debug, Default)]
struct Order {
    quick: BTreeMap<usize, Quick>,
    slow: Vec<Slow>,
}

/// Tests that share a process.
#[derive(Debug, Default, PartialEq, Eq)]
struct Quick {
    names: Vec<String>,
    take: Duration,
}

/// A test that has a process of its own.
#[derive(Debug)]
struct Slow {
    executable: usize,
    name: String,
    takes: Duration,
    /// How many mutations it noticed so far.
    noticed: AtomicU32,
}

/// A test that takes longer is slow.
const QUICK: Duration = Duration::from_millis(100);

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
        for (at, quick) in &order.quick {
            let (end, said) = self.run_exactly(*at, number, &quick.names, Some(quick.take))?;
            if end != End::Passed {
                return Ok(Tried::AmongOthers(end, said));
            }
        }
        let mut slow: Vec<_> = order.slow.iter().collect();
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
        let words: Vec<_> = names.iter().map(String::as_str).chain(["--exact", "--fail-fast"]).collect();
        self.finish(self.test(at, &words)?, number, usual)
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

impl Order {
    /// Adds the tests of an executable, with the times that it printed: `test NAME ... ok <0.002s>`. A test of which there is no such line counts as quick.
    fn add(&mut self, executable: usize, names: &[String], said: &str) {
        let times: BTreeMap<&str, Duration> = said.lines().filter_map(time).collect();
        for name in names {
            match times.get(name.as_str()) {
                Some(takes) if *takes > QUICK => {
                    let (name, takes) = (name.clone(), *takes);
                    self.slow.push(Slow { executable, name, takes, noticed: AtomicU32::new(0) });
                }
                takes => {
                    let quick = self.quick.entry(executable).or_default();
                    quick.names.push(name.clone());
                    quick.take += takes.copied().unwrap_or(QUICK);
                }
            }
        }
    }
}

fn time(line: &str) -> Option<(&str, Duration)> {
    let (name, seconds) = line.strip_prefix("test ")?.split_once(" ... ok <")?;
    let name = name.split_once(" - ").map_or(name, |(name, _)| name);
    let seconds = seconds.trim_end_matches("s>").parse().ok()?;
    Some((name, Duration::try_from_secs_f64(seconds).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_and_slow_tests_are_told_apart() {
        let mut order = Order::default();
        let names = ["a::b", "c", "d", "prints"].map(str::to_owned);
        let said =
            "test a::b ... ok <0.002s>\ntest c - should panic ... ok <0.1s>\ntest d ... ok <1.5s>\ntest prints ... x\n";
        order.add(2, &names, said);
        let names = ["a::b", "c", "prints"].map(str::to_owned).into();
        assert_eq!(order.quick, BTreeMap::from([(2, Quick { names, take: Duration::from_millis(202) })]));
        let slow: Vec<_> = order.slow.iter().map(|test| (test.executable, test.name.as_str(), test.takes)).collect();
        assert_eq!(slow, [(2, "d", Duration::from_millis(1500))]);
    }
}
