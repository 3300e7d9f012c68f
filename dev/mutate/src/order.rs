//! The order in which tests are run: quick ones first, and only those that reach a mutation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Quick tests run first, each executable's in one process.
#[derive(Debug, Default)]
pub struct Order {
    /// The quick tests, by the index of their executable.
    pub quick: BTreeMap<usize, Quick>,
    /// Each of them.
    pub slow: Vec<Slow>,
}

/// The mutations that tests reach. None: not known, so they may notice each.
pub type Reached = Option<BTreeSet<u32>>;

/// Tests that share a process.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Quick {
    /// Their whole names.
    pub names: Vec<String>,
    /// How long they take together.
    pub take: Duration,
    /// What one of them at least reaches.
    pub reached: Reached,
}

/// A test that has a process of its own.
#[derive(Debug)]
pub struct Slow {
    /// Where it is.
    pub executable: usize,
    /// Its whole name.
    pub name: String,
    /// How long it takes.
    pub takes: Duration,
    /// How many mutations it noticed so far.
    pub noticed: AtomicU32,
    /// What it reaches.
    pub reached: Reached,
}

/// A test that takes longer is slow.
const QUICK: Duration = Duration::from_millis(100);

/// Whether tests that reach these may notice that mutation. Without one all tests run.
pub fn may_notice(reached: &Reached, number: Option<u32>) -> bool {
    match (reached, number) {
        (Some(reached), Some(number)) => reached.contains(&number),
        _ => true,
    }
}

impl Order {
    /// Adds the tests of an executable, with the times that it printed: `test NAME ... ok <0.002s>`. A test of which there is no such line counts as quick.
    pub fn add(&mut self, executable: usize, names: &[String], said: &str) {
        let times: BTreeMap<&str, Duration> = said.lines().filter_map(time).collect();
        for name in names {
            match times.get(name.as_str()) {
                Some(takes) if *takes > QUICK => {
                    let (name, takes) = (name.clone(), *takes);
                    self.slow.push(Slow { executable, name, takes, noticed: AtomicU32::new(0), reached: None });
                }
                takes => {
                    let quick = self.quick.entry(executable).or_default();
                    quick.names.push(name.clone());
                    quick.take += takes.copied().unwrap_or(QUICK);
                }
            }
        }
    }

    /// What runs in a process of its own: executable, names, time. In the order that [`Self::note_reached`] expects.
    pub fn parts(&self) -> impl Iterator<Item = (usize, Vec<String>, Duration)> {
        let quick = self.quick.iter().map(|(at, quick)| (*at, quick.names.clone(), quick.take));
        quick.chain(self.slow.iter().map(|test| (test.executable, vec![test.name.clone()], test.takes)))
    }

    /// Notes what each of the [`parts`](Self::parts) reaches.
    pub fn note_reached(&mut self, reached: Vec<Reached>) {
        let quick = self.quick.values_mut().map(|quick| &mut quick.reached);
        let parts = quick.chain(self.slow.iter_mut().map(|test| &mut test.reached));
        parts.zip(reached).for_each(|(part, reached)| *part = reached);
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

    fn order() -> Order {
        let mut order = Order::default();
        let names = ["a::b", "c", "d", "prints"].map(str::to_owned);
        let said =
            "test a::b ... ok <0.002s>\ntest c - should panic ... ok <0.1s>\ntest d ... ok <1.5s>\ntest prints ... x\n";
        order.add(2, &names, said);
        order
    }

    #[test]
    fn quick_and_slow_tests_are_told_apart() {
        let order = order();
        let names = ["a::b", "c", "prints"].map(str::to_owned).into();
        let quick = Quick { names, take: Duration::from_millis(202), reached: None };
        assert_eq!(order.quick, BTreeMap::from([(2, quick)]));
        let slow: Vec<_> = order.slow.iter().map(|test| (test.executable, test.name.as_str(), test.takes)).collect();
        assert_eq!(slow, [(2, "d", Duration::from_millis(1500))]);
    }

    #[test]
    fn what_each_reaches_is_put_where_it_belongs() {
        let mut order = order();
        let parts: Vec<_> = order.parts().collect();
        order.note_reached(parts.iter().map(|(_, names, _)| (names.len() == 1).then(|| BTreeSet::from([7]))).collect());
        assert_eq!(order.quick[&2].reached, None);
        assert_eq!(order.slow[0].reached, Some(BTreeSet::from([7])));
        assert!(may_notice(&order.quick[&2].reached, Some(8)) && may_notice(&order.slow[0].reached, Some(7)));
        assert!(!may_notice(&order.slow[0].reached, Some(8)) && may_notice(&order.slow[0].reached, None));
    }
}
