//! The figures of a campaign, which add up over its pieces.
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use tanist_sim::faults::Fault;
use tanist_sim::life::Lived;

/// What came of some lives that went well.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sums {
    /// How many lives.
    pub seeds: u64,
    /// How long they took.
    pub seconds: f64,
    /// How often each kind of fault happened.
    pub happened: BTreeMap<Fault, u64>,
    /// How many lives had so many faults.
    pub lives_with: BTreeMap<u64, u64>,
    /// How many were lived twice.
    pub twice: u64,
    /// How many had a steady hour.
    pub steady: u64,
    /// The seeds that failed.
    pub failed: Vec<u64>,
}

impl Sums {
    /// Adds a life.
    pub fn add(&mut self, life: &Lived) {
        self.seeds += 1;
        self.steady += u64::from(life.is_steady);
        *self.lives_with.entry(life.happened.values().sum()).or_default() += 1;
        for (kind, times) in &life.happened {
            *self.happened.entry(*kind).or_default() += times;
        }
    }

    /// Adds another piece.
    pub fn join(&mut self, other: Sums) {
        self.seeds += other.seeds;
        self.seconds += other.seconds;
        self.twice += other.twice;
        self.steady += other.steady;
        self.failed.extend(other.failed);
        for (kind, times) in other.happened {
            *self.happened.entry(kind).or_default() += times;
        }
        for (faults, lives) in other.lives_with {
            *self.lives_with.entry(faults).or_default() += lives;
        }
    }

    /// The number of faults that so many hundredths of all lives had at most.
    pub fn faults(&self, hundredths: u64) -> u64 {
        let all: u64 = self.lives_with.values().sum();
        let wanted = (all * hundredths).div_ceil(100);
        let mut so_far = 0;
        let reached = self.lives_with.iter().find(|(_, lives)| {
            so_far += **lives;
            so_far >= wanted
        });
        reached.map_or(0, |(faults, _)| *faults)
    }

    /// What a campaign of this size has to have met, and did not: each kind of fault 1,000 times in 100,000 lives, and ten faults in half of the lives.
    pub fn missing(&self) -> Vec<String> {
        let wanted = self.seeds / 100;
        let times = |kind: &Fault| self.happened.get(kind).copied().unwrap_or(0);
        let rare = Fault::ALL.iter().filter(|kind| !Fault::NOT_YET.contains(kind) && times(kind) < wanted);
        let mut missing: Vec<_> = rare.map(|kind| format!("{kind:?} only {} times", times(kind))).collect();
        if wanted > 0 && self.faults(50) < 10 {
            missing.push(format!("a median of only {} faults", self.faults(50)));
        }
        missing
    }

    /// The figures for docs/benchmarks/simulator.json, and all that the next piece needs.
    pub fn to_json(&self, first: u64, threads: usize) -> Value {
        let happened: BTreeMap<String, u64> = self.happened.iter().map(|(k, n)| (format!("{k:?}"), *n)).collect();
        let lives: BTreeMap<String, u64> = self.lives_with.iter().map(|(k, n)| (k.to_string(), *n)).collect();
        json!({
            "first": first,
            "seeds": self.seeds,
            "seconds": round(self.seconds),
            "seedsPerSecond": round(self.seeds as f64 / self.seconds.max(0.001)),
            "threads": threads,
            "faults": {"median": self.faults(50), "p99": self.faults(99)},
            "happened": happened,
            "livesWithFaults": lives,
            "livedTwice": self.twice,
            "steadyHours": self.steady,
            "failed": self.failed,
        })
    }

    /// Reads what [`Sums::to_json`] made, with its first seed.
    pub fn from_json(value: &Value) -> Option<(u64, Sums)> {
        let number = |field: &str| value.get(field).and_then(Value::as_u64);
        let counts = |field: &str| value.get(field).and_then(Value::as_object);
        let kind = |word: &str| Fault::ALL.into_iter().find(|kind| format!("{kind:?}") == word);
        let sums = Sums {
            seeds: number("seeds")?,
            seconds: value.get("seconds")?.as_f64()?,
            happened: counts("happened")?.iter().filter_map(|(k, n)| Some((kind(k)?, n.as_u64()?))).collect(),
            lives_with: counts("livesWithFaults")?
                .iter()
                .filter_map(|(k, n)| Some((k.parse().ok()?, n.as_u64()?)))
                .collect(),
            twice: number("livedTwice")?,
            steady: number("steadyHours")?,
            failed: value.get("failed")?.as_array()?.iter().filter_map(Value::as_u64).collect(),
        };
        Some((number("first")?, sums))
    }

    /// Writes them as JSON. A file that is half written would lose the sums of a night, so another one takes its place.
    pub fn write(&self, first: u64, threads: usize, path: &Path) {
        let text = serde_json::to_string_pretty(&self.to_json(first, threads)).unwrap() + "\n";
        let new = path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, path).unwrap();
    }
}

fn round(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums() -> Sums {
        let mut sums = Sums { seconds: 2.5, twice: 1, ..Sums::default() };
        for faults in 1..=200 {
            let happened = [(Fault::AppDies, faults), (Fault::NodeGone, 1)].into();
            sums.add(&Lived { happened, is_steady: faults == 7, ..Lived::default() });
        }
        sums
    }

    #[test]
    fn figures_add_up_and_are_read_back() {
        let mut both = sums();
        both.join(sums());
        assert_eq!((both.seeds, both.steady, both.twice, both.happened[&Fault::NodeGone]), (400, 2, 2, 400));
        assert_eq!((both.faults(50), both.faults(99)), (101, 199));
        assert_eq!(Sums::from_json(&both.to_json(7, 2)), Some((7, both)));
    }

    #[test]
    fn what_is_too_rare_is_missing() {
        let missing = sums().missing();
        assert!(missing.contains(&"RequestLost only 0 times".to_owned()), "{missing:?}");
        assert!(!missing.iter().any(|text| text.contains("AppDies") || text.contains("median")), "{missing:?}");
        let mut few = Sums::default();
        (0..100).for_each(|_| few.add(&Lived::default()));
        assert!(few.missing().contains(&"a median of only 0 faults".to_owned()));
    }
}
