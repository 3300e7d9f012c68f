//! Decisions run on threads of their own, so that policies that compute for long never hold up the tasks that keep the Lease, serve metrics and
//! answer watches (docs/safety.md, H24).
//!
//! A group that used much fuel for a decision not long ago shares all places but one with others of its kind. So one place is always there for groups that decide in
//! microseconds, as nearly all do, however many others burn what they are allowed. Slow groups also give way on the processors: a place is a thread, and threads of one
//! priority wait some milliseconds for each other. And the place of a slow decision rests after it.
use rustix::process::nice;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use thread_priority::ThreadPriority;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
    thread_schedule_policy,
};
use tokio::sync::{Semaphore, oneshot};

/// Fuel of a question above which its group is a slow one: some milliseconds of a busy machine. Fuel and not time, because time also passes while
/// others run. A script of forty lines needs a third of it for five members, the built-in policy a two hundredth.
const SLOW: u64 = 4_000_000;

/// The same for each member: the budget grows with them, too, and this is the same part of it.
const SLOW_PER_MEMBER: u64 = 5_000;

/// Whether a question that used that much fuel makes its group a slow one.
#[must_use]
pub fn is_slow(fuel: u64, members: usize) -> bool {
    let members = u64::try_from(members).unwrap_or(u64::MAX);
    fuel > SLOW.saturating_add(SLOW_PER_MEMBER.saturating_mul(members))
}

/// How a decision went, as far as it matters for the next ones of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pace {
    /// Whether it used much fuel ([`is_slow`]).
    pub slow: bool,
    /// Whether a question of it was cut off at the wall limit: it did not get enough of a processor. The less it got, the less fuel it used.
    pub cut_off: bool,
}

/// What is known of a group that decided slowly.
#[derive(Debug, Clone, Copy)]
struct Slow {
    /// When it counts as quick again.
    until: Instant,
    /// Whether a decision was cut off since the last slow one that was not.
    cut_off: bool,
}

/// How long a group stays a slow one after its last slow decision. Most rounds ask no policy, and a policy may burn its fuel at every second question:
/// a quick decision proves nothing about the next one.
const SLOW_FOR: Duration = Duration::from_secs(600);

/// How long a decision waits for a place. With 100 ms for each question, and the pause after it, 33 slow groups pass through one place in that time.
const WAIT: Duration = Duration::from_secs(10);

/// How long the place of a slow decision stays taken after it, in times of the decision: so slow groups together use a third of a processor for each of their places, and
/// the pod, whose share of a busy machine all its threads have in common, keeps the rest for the others. Priority alone counts within the pod only.
const PAUSE: u32 = 2;

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The places in which decisions are made.
#[derive(Debug)]
pub struct Decisions {
    all: Arc<Semaphore>,
    /// The places for groups that decide slowly.
    slow: Arc<Semaphore>,
    /// The groups that decided slowly, by UID.
    groups: Mutex<BTreeMap<String, Slow>>,
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
    /// The round panicked.
    #[error("the round was interrupted by a fault of the operator, which its log shows; this is tried again")]
    Round,
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
        Decisions {
            all: Arc::new(Semaphore::new(places)),
            slow: Arc::new(Semaphore::new(slow)),
            groups: Mutex::default(),
        }
    }

    /// Makes a decision of the group with that UID on another thread. `decide`: the decision, and how it went. `then` runs on the same thread when the decision is
    /// already known; not in a slow group.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn run<T: Send + 'static>(
        &self,
        group: &str,
        decide: impl FnOnce() -> (T, Pace) + Send + 'static,
        then: impl FnOnce() + Send + 'static,
    ) -> Result<T, Error> {
        let slow = self.slow_at(group, Instant::now());
        let taken = async {
            // The narrower one first: who waits for it holds no place that others need.
            let slow = if slow.is_some() { self.slow.clone().acquire_owned().await.ok() } else { None };
            (slow, self.all.clone().acquire_owned().await.ok())
        };
        let places = tokio::time::timeout(WAIT, taken).await.map_err(|_| Error::Wait)?;
        let (tell, told) = oneshot::channel();
        let deciding = move || {
            let (of_slow, of_all) = places;
            let began = Instant::now();
            let (decided, pace) = decide();
            let took = began.elapsed();
            // Nobody listens any more only while the process ends.
            let _ = tell.send((decided, pace));
            if slow.is_none() && !pace.slow {
                then();
            }
            drop(of_all);
            if slow.is_some() && pace.slow {
                thread::sleep((took * PAUSE).min(LONGEST_PAUSE));
            }
            drop(of_slow);
        };
        match slow {
            Some(known) => give_way(known.cut_off, deciding)?,
            None => drop(tokio::task::spawn_blocking(deciding)),
        }
        let (decided, pace) = told.await.map_err(|_| Error::Finish)?;
        self.note(group, pace);
        Ok(decided)
    }

    /// What is known of that group if it decided slowly, not long ago.
    fn slow_at(&self, group: &str, now: Instant) -> Option<Slow> {
        self.lock().get(group).copied().filter(|slow| now < slow.until)
    }

    fn note(&self, group: &str, pace: Pace) {
        let mut groups = self.lock();
        if pace.slow {
            groups.insert(group.to_owned(), Slow { until: Instant::now() + SLOW_FOR, cut_off: pace.cut_off });
        } else if let Some(known) = groups.get_mut(group).filter(|_| pace.cut_off) {
            known.cut_off = true;
        }
    }

    /// Forgets a group that is gone.
    pub fn forget(&self, group: &str) {
        self.lock().remove(group);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Slow>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs it on a thread of its own that stops as soon as another thread has something to do. A thread of a low priority would not do: one that is awakened waits
/// until the other one has used up its slice of some milliseconds, each time. `insist`: it did not get enough of a processor the last time, so it may wait less politely
/// now, and has a tenth of a processor at least.
fn give_way(insist: bool, deciding: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let work = move || {
        // Both are of this thread alone. If neither is possible, the decision has the priority of everything else.
        if insist || !becomes_idle() {
            let _ = nice(10);
        }
        deciding();
    };
    thread::Builder::new().name("slow-decision".into()).spawn(work).map(drop).map_err(|_| Error::Finish)
}

/// Puts this thread into the class that runs only while no other thread wants the processor, and says whether it is there.
fn becomes_idle() -> bool {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    // It sets the niceness afterwards, which means nothing in that class, and may be refused.
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle);
    thread_schedule_policy().is_ok_and(|now| now == idle)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may")]
mod tests;
