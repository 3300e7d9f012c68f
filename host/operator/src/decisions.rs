//! Decisions run on threads of their own, so that policies that compute for long never hold up the tasks that keep the Lease, serve metrics and
//! answer watches (docs/safety.md, H24).
//!
//! A group whose last decision used much fuel shares all places but one with others of its kind. So one place is always there for groups that decide in
//! microseconds, as nearly all do, however many others burn what they are allowed.
use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Fuel of a question above which its group is a slow one: some milliseconds of a busy machine. Fuel and not time, because time also passes while
/// others run. The built-in policy needs a hundredth of it for five members.
const SLOW: u64 = 1_000_000;

/// The same for each member: the budget grows with them, too, and this is the same part of it.
const SLOW_PER_MEMBER: u64 = 5_000;

/// Whether a question that used that much fuel makes its group a slow one.
#[must_use]
pub fn is_slow(fuel: u64, members: usize) -> bool {
    let members = u64::try_from(members).unwrap_or(u64::MAX);
    fuel > SLOW.saturating_add(SLOW_PER_MEMBER.saturating_mul(members))
}

/// How long a decision waits for a place. With 100 ms for each question, 50 slow groups pass through one place in that time.
const WAIT: Duration = Duration::from_secs(5);

/// The places in which decisions are made.
#[derive(Debug)]
pub struct Decisions {
    all: Semaphore,
    /// The places for groups that decide slowly.
    slow: Semaphore,
    /// The UIDs of the groups whose last decision was a slow one.
    groups: Mutex<BTreeSet<String>>,
}

/// Why a decision was not made. Nothing is wrong with the group; it is tried again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Every place was taken for long.
    #[error("no thread was free for a decision for {} s: the machine is too busy; this is tried again", WAIT.as_secs())]
    Wait,
    /// The decision ended without a result.
    #[error("the decision was interrupted; this is tried again")]
    Finish,
}

impl Default for Decisions {
    /// A place for each core, at least two.
    fn default() -> Self {
        Self::new(thread::available_parallelism().map_or(2, NonZero::get))
    }
}

impl Decisions {
    /// That many places, at least two.
    #[must_use]
    pub fn new(places: usize) -> Self {
        let places = places.clamp(2, 16);
        let slow = places.saturating_sub(1);
        Decisions { all: Semaphore::new(places), slow: Semaphore::new(slow), groups: Mutex::default() }
    }

    /// Makes a decision of the group with that UID on another thread. `decide`: the decision, and whether it was a slow one.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn run<T: Send + 'static>(
        &self,
        group: &str,
        decide: impl FnOnce() -> (T, bool) + Send + 'static,
    ) -> Result<T, Error> {
        let taken = async {
            // The narrower one first: who waits for it holds no place that others need.
            let slow = if self.is_slow(group) { Some(self.slow.acquire().await) } else { None };
            (slow, self.all.acquire().await)
        };
        let _places = tokio::time::timeout(WAIT, taken).await.map_err(|_| Error::Wait)?;
        let deciding = tokio::task::spawn_blocking(decide);
        let (decided, is_slow) = deciding.await.map_err(|_| Error::Finish)?;
        if is_slow {
            self.lock().insert(group.to_owned());
        } else {
            self.lock().remove(group);
        }
        Ok(decided)
    }

    /// Whether the last decision of that group was a slow one.
    #[must_use]
    pub fn is_slow(&self, group: &str) -> bool {
        self.lock().contains(group)
    }

    /// Forgets a group that is gone.
    pub fn forget(&self, group: &str) {
        self.lock().remove(group);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may")]
mod tests;
