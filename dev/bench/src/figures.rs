//! What is kept of many samples.

use std::time::Duration;

use serde::Serialize;

/// Samples of one thing, outliers included.
#[derive(Debug, Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    pub fn push(&mut self, took: Duration) {
        self.0.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    pub fn figures(mut self) -> Figures {
        self.0.sort_unstable();
        let at = |part: f64| {
            // The nearest rank: no value that was not measured.
            let rank = (part * self.0.len() as f64).ceil().max(1.0) as usize - 1;
            self.0.get(rank).copied().unwrap_or(0) as f64 / 1000.0
        };
        let mean = self.0.iter().sum::<u64>() as f64 / self.0.len().max(1) as f64 / 1000.0;
        Figures { samples: self.0.len(), min: at(0.0), p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0), mean }
    }
}

/// Microseconds, unless it is said otherwise.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Figures {
    pub samples: usize,
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
    pub mean: f64,
}

impl Figures {
    /// The same in milliseconds.
    pub fn in_milliseconds(self) -> Self {
        let ms = |value: f64| value / 1000.0;
        let Self { samples, min, p50, p90, p99, max, mean } = self;
        Self { samples, min: ms(min), p50: ms(p50), p90: ms(p90), p99: ms(p99), max: ms(max), mean: ms(mean) }
    }
}
