//! Random choices that a seed repeats.
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

/// The choices of one seed.
pub struct Dice(StdRng);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(StdRng::seed_from_u64(seed))
    }

    /// A number from 0 to `end` - 1.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end.max(1))
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of them.
    pub fn of<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Bytes of any value.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}
