//! Bounds on executions in members. Short executions (`status`, `sequence`, `settle`) and commands have separate slots, so that commands that
//! run for hours never delay questions. Each group gets a share of each kind, so that no group can take all slots. What has been running for a while
//! gives its slot back and goes on, so that commands that copy data for hours do not delay a takeover either.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One group gets at most a quarter of the slots of a kind: only four groups that hang can take all of them.
const SHARE: usize = 4;

/// How long a short execution waits for a slot. Without one it is tried again in the next round.
pub const WAIT: Duration = Duration::from_secs(5);

/// How long an execution holds its slot. After that it counts as a long one.
const LONG: Duration = Duration::from_secs(10);

/// How many long executions there are at most, for each slot. Further ones hold their slots to their end: each is a connection through the API server.
const LONG_ONES: usize = 16;

/// Slots of one kind.
#[derive(Debug)]
pub struct Slots {
    all: Arc<Semaphore>,
    long: Arc<Semaphore>,
    size: usize,
    share: usize,
    groups: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// The right to one execution, until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Slot {
    _of_all: OwnedSemaphorePermit,
    _of_group: OwnedSemaphorePermit,
    long: Arc<Semaphore>,
}

impl Slot {
    /// Executes in this slot. It is free again at the end, or after [`LONG`] if there are not too many long executions.
    pub async fn hold<T>(self, execution: impl Future<Output = T>) -> T {
        tokio::pin!(execution);
        if let Ok(ended) = tokio::time::timeout(LONG, &mut execution).await {
            return ended;
        }
        match self.long.clone().try_acquire_owned() {
            Ok(_place) => {
                drop(self);
                execution.await
            }
            Err(_) => execution.await,
        }
    }
}

impl Slots {
    /// That many slots, at least one.
    #[must_use]
    pub fn new(size: usize) -> Self {
        let size = size.clamp(1, Semaphore::MAX_PERMITS);
        let share = size.div_ceil(SHARE);
        let long = Arc::new(Semaphore::new(size.saturating_mul(LONG_ONES).min(Semaphore::MAX_PERMITS)));
        Slots { all: Arc::new(Semaphore::new(size)), long, size, share, groups: Mutex::default() }
    }

    /// Waits for a slot of that group (by UID), at most for `patience`.
    ///
    /// # Errors
    /// Which bound was reached, in words.
    pub async fn take(&self, group: &str, patience: Duration) -> Result<Slot, String> {
        let of_group = self.group_slots(group);
        let taken = async {
            // The group's bound comes first: an execution that waits for it holds no slot that other groups need.
            let of_group = of_group.acquire_owned().await.ok()?;
            let of_all = self.all.clone().acquire_owned().await.ok()?;
            Some(Slot { _of_all: of_all, _of_group: of_group, long: self.long.clone() })
        };
        match tokio::time::timeout(patience, taken).await {
            Ok(Some(slot)) => Ok(slot),
            _ => Err(format!(
                "no execution slot was free for {} s: at most {} at a time in one group, {} in all",
                patience.as_secs(),
                self.share,
                self.size
            )),
        }
    }

    fn group_slots(&self, group: &str) -> Arc<Semaphore> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.entry(group.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(self.share))).clone()
    }

    /// Forgets a group that is gone. Its running executions hold their slots until they end.
    pub fn forget(&self, group: &str) {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).remove(group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    // S38: a group that hangs takes its share of the slots and no more.
    #[tokio::test]
    async fn a_group_that_hangs_leaves_slots_for_others() {
        let slots = Slots::new(8);
        let held = [slots.take("a", SOON).await, slots.take("a", SOON).await];
        assert!(held.iter().all(Result::is_ok));
        let refused = slots.take("a", SOON).await.err();
        assert_eq!(
            refused.as_deref(),
            Some("no execution slot was free for 0 s: at most 2 at a time in one group, 8 in all")
        );
        assert!(slots.take("b", SOON).await.is_ok(), "another group");
        drop(held);
        assert!(slots.take("a", SOON).await.is_ok(), "a slot comes back with its end");
    }

    #[tokio::test]
    async fn all_groups_together_are_bounded() {
        let slots = Slots::new(4);
        let mut held = Vec::new();
        for group in ["a", "b", "c", "d"] {
            held.push(slots.take(group, SOON).await);
        }
        assert!(held.iter().all(Result::is_ok));
        assert!(slots.take("e", SOON).await.is_err());
        slots.forget("a");
        assert!(slots.take("a", SOON).await.is_err(), "forgetting a group frees nothing that runs");
    }

    // An execution that waits for its group's bound holds no slot that other groups need.
    #[tokio::test]
    async fn waiting_for_a_group_takes_no_slot_of_all() {
        let slots = Arc::new(Slots::new(8));
        let _held = [slots.take("a", SOON).await, slots.take("a", SOON).await];
        let waiting: Vec<_> = (0..20)
            .map(|_| {
                let slots = slots.clone();
                tokio::spawn(async move { slots.take("a", Duration::from_secs(2)).await.is_ok() })
            })
            .collect();
        tokio::time::sleep(SOON).await;
        assert!(slots.take("b", SOON).await.is_ok());
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
    }

    // S38: copies of data that take hours hold up no takeover, of their own group or of others.
    #[tokio::test(start_paused = true)]
    async fn what_runs_for_long_gives_its_slot_back() {
        let slots = Slots::new(4);
        let hours = Duration::from_secs(7200);
        let mut copies = Vec::new();
        for group in ["a", "b", "c", "d"] {
            let slot = slots.take(group, SOON).await.unwrap();
            copies.push(tokio::spawn(slot.hold(tokio::time::sleep(hours))));
        }
        assert!(slots.take("a", SOON).await.is_err() && slots.take("e", SOON).await.is_err(), "all slots are held");
        tokio::time::sleep(LONG).await;
        assert!(slots.take("a", SOON).await.is_ok() && slots.take("e", SOON).await.is_ok());
        assert!(copies.iter().all(|copy| !copy.is_finished()), "the copies go on");
        tokio::time::sleep(hours).await;
        assert!(copies.iter().all(tokio::task::JoinHandle::is_finished));
        assert_eq!(slots.long.available_permits(), 4 * LONG_ONES, "their places are free again");
    }

    #[tokio::test(start_paused = true)]
    async fn long_executions_are_bounded() {
        let slots = Slots::new(1);
        let hours = Duration::from_secs(7200);
        for group in 0..LONG_ONES {
            let slot = slots.take(&group.to_string(), SOON).await.unwrap();
            drop(tokio::spawn(slot.hold(tokio::time::sleep(hours))));
            tokio::time::sleep(LONG * 2).await;
        }
        let slot = slots.take("last", SOON).await.unwrap();
        drop(tokio::spawn(slot.hold(tokio::time::sleep(hours))));
        tokio::time::sleep(LONG * 2).await;
        assert!(slots.take("late", SOON).await.is_err(), "the last one holds its slot");
        tokio::time::sleep(hours).await;
        assert!(slots.take("late", SOON).await.is_ok());
    }

    // S38: what ends in time is answered in time, and its slot is free at once.
    #[tokio::test(start_paused = true)]
    async fn a_short_execution_frees_its_slot_at_its_end() {
        let slots = Slots::new(1);
        let slot = slots.take("a", SOON).await.unwrap();
        assert_eq!(slot.hold(async { 7 }).await, 7);
        assert!(slots.take("a", SOON).await.is_ok());
    }
}
