//! How often a source may change what decides. Pure: time is an input.
//!
//! Each change costs a compilation, and a write of the status of each group that uses the source (docs/safety.md, H25).
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// So many changes within [`WINDOW`] act at once: an edit, its correction, and one more. Further ones wait.
pub const AT_ONCE: usize = 3;

/// The time in which changes are counted.
pub const WINDOW: Duration = Duration::from_secs(10);

/// How long a source that changes too often has to stay as it is before its last change acts.
pub const QUIET: Duration = Duration::from_secs(5);

/// What a source shows, and what of that acts.
#[derive(Debug)]
pub struct Swaps<T> {
    acts: Option<T>,
    /// The latest change and when it came, while changes wait.
    waits: Option<(T, Instant)>,
    changes: VecDeque<Instant>,
}

impl<T> Default for Swaps<T> {
    fn default() -> Self {
        Swaps { acts: None, waits: None, changes: VecDeque::new() }
    }
}

impl<T: PartialEq> Swaps<T> {
    /// What acts. `None`: nothing was seen yet.
    pub fn acts(&self) -> Option<&T> {
        self.acts.as_ref()
    }

    /// What acts, and the change that waits.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.acts.iter().chain(self.waits.iter().map(|(value, _)| value))
    }

    /// Whether changes wait until the source is quiet.
    pub fn flaps(&self) -> bool {
        self.waits.is_some()
    }

    /// The source shows this now.
    pub fn show(&mut self, value: T, now: Instant) {
        let latest = self.waits.as_ref().map(|(value, _)| value).or(self.acts.as_ref());
        if latest == Some(&value) {
            return;
        }
        while self.changes.front().is_some_and(|at| now.saturating_duration_since(*at) >= WINDOW) {
            self.changes.pop_front();
        }
        if self.waits.is_some() || self.changes.len() >= AT_ONCE {
            self.waits = Some((value, now));
            return;
        }
        // What is seen first changes nothing that decided.
        if self.acts.replace(value).is_some() {
            self.changes.push_back(now);
        }
    }

    /// Lets the last change act if the source has been quiet for long enough.
    pub fn settle(&mut self, now: Instant) {
        if self.due().is_some_and(|due| due <= now) {
            self.acts = self.waits.take().map(|(value, _)| value);
            self.changes = VecDeque::from([now]);
        }
    }

    /// When [`Swaps::settle`] is due. `None`: no change waits.
    pub fn due(&self) -> Option<Instant> {
        self.waits.as_ref().map(|(_, since)| *since + QUIET)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
mod tests {
    use super::*;

    // H25: at which second what is shown, and what acts then and whether changes wait.
    #[test]
    fn three_changes_act_at_once_and_further_ones_wait_for_a_quiet_source() {
        let shown: [(u64, &str, &str, bool); 12] = [
            (0, "a", "a", false),
            (1, "b", "b", false),
            (2, "c", "c", false),
            (3, "a", "a", false),
            (4, "b", "a", true),
            (8, "c", "a", true),
            (12, "c", "a", true),
            (13, "c", "c", false),
            (14, "d", "d", false),
            (15, "e", "e", false),
            (16, "f", "e", true),
            (21, "f", "f", false),
        ];
        let (start, mut swaps) = (Instant::now(), Swaps::default());
        for (second, value, acts, flaps) in shown {
            let now = start + Duration::from_secs(second);
            swaps.settle(now);
            swaps.show(value, now);
            assert_eq!((swaps.acts(), swaps.flaps()), (Some(&acts), flaps), "at second {second}");
        }
        assert_eq!(swaps.due(), None);
    }

    #[test]
    fn slow_changes_always_act_at_once() {
        let (start, mut swaps) = (Instant::now(), Swaps::default());
        for step in 0..20 {
            swaps.show(step, start + Duration::from_secs(4 * step));
            assert_eq!((swaps.acts(), swaps.flaps()), (Some(&step), false));
        }
    }
}
