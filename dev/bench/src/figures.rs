//! What is reported of many samples.

use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// From so many samples on there is a 90th percentile. With fewer it would be the highest or the second highest sample.
const FOR_P90: usize = 20;
/// From so many samples on there is a 99th percentile: ten samples are above it. Twenty samples have none.
const FOR_P99: usize = 1_000;

/// Samples of one thing, outliers included.
#[derive(Debug, Default)]
pub struct Samples(Vec<Duration>);

impl Samples {
    /// Adds a sample.
    pub fn push(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// The figures, in microseconds.
    ///
    /// # Errors
    /// When there is no sample.
    pub fn figures(self) -> anyhow::Result<Figures> {
        Figures::of(self.0.into_iter().map(|took| took.as_nanos() as f64 / 1000.0))
    }
}

/// Figures of some samples, in the samples' unit: microseconds for decisions, milliseconds elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// How many samples there are.
    pub samples: usize,
    /// The lowest sample.
    pub min: f64,
    /// The median sample.
    pub p50: f64,
    /// The 90th percentile; absent below [`FOR_P90`] samples.
    pub p90: Option<f64>,
    /// The 99th percentile; absent below [`FOR_P99`] samples.
    pub p99: Option<f64>,
    /// The highest sample.
    pub max: f64,
    /// The arithmetic mean.
    pub mean: f64,
}

impl Figures {
    /// The figures of these samples.
    ///
    /// # Errors
    /// When there is no sample.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> anyhow::Result<Self> {
        let mut sorted: Vec<f64> = samples.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        // The nearest rank: no value that was not measured.
        let at = |percent: usize| {
            let rank = (percent * count).div_ceil(100).max(1) - 1;
            sorted.get(rank).copied().context("nothing was measured")
        };
        Ok(Self {
            samples: count,
            min: at(0)?,
            p50: at(50)?,
            p90: (count >= FOR_P90).then(|| at(90)).transpose()?,
            p99: (count >= FOR_P99).then(|| at(99)).transpose()?,
            max: at(100)?,
            mean: sorted.iter().sum::<f64>() / count as f64,
        })
    }
}

/// A percentile as a cell of a table: `-` where there are too few samples for it.
pub fn cell(percentile: Option<f64>, digits: usize) -> String {
    percentile.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(to: u32) -> Figures {
        // The order of samples does not matter.
        Figures::of((1..=to).rev().map(f64::from)).unwrap()
    }

    #[test]
    fn percentiles_are_samples_of_the_nearest_rank() {
        let thousand = counting(1_000);
        assert_eq!((thousand.min, thousand.p50, thousand.max), (1.0, 500.0, 1_000.0));
        assert_eq!((thousand.p90, thousand.p99), (Some(900.0), Some(990.0)));
        assert_eq!(thousand.mean, 500.5);
        // Five: the third; four: the second. Nothing between two samples.
        assert_eq!((counting(5).p50, counting(4).p50, counting(1).p50), (3.0, 2.0, 1.0));
    }

    #[test]
    fn few_samples_have_no_high_percentiles() {
        assert_eq!((counting(19).p90, counting(19).p99), (None, None));
        assert_eq!((counting(20).p90, counting(20).p99), (Some(18.0), None));
        assert_eq!(counting(999).p99, None);
        assert_eq!(cell(counting(20).p99, 0), "-");
        assert_eq!(cell(counting(20).p90, 1), "18.0");
    }

    #[test]
    fn no_sample_is_an_error() {
        assert!(Samples::default().figures().is_err());
    }

    #[test]
    fn durations_become_microseconds() {
        let mut samples = Samples::default();
        samples.push(Duration::from_nanos(1_500));
        assert_eq!(samples.figures().unwrap().p50, 1.5);
    }
}
