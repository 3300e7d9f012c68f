//! Bounds on executions in members. Short executions (`status`, `sequence`, `settle`) and commands have separate slots, so that commands that
//! run for hours never delay questions. Each group gets a share of each kind, so that no group can take all slots.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One group gets at most a quarter of the slots of a kind: only four groups that hang can take all of them.
const SHARE: usize = 4;

/// How long a short execution waits for a slot. Without one it is tried again in the next round.
pub const WAIT: Duration = Duration::from_secs(5);

/// Slots of one kind.
#[derive(Debug)]
pub struct Slots {
    all: Arc<Semaphore>,
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
}

impl Slots {
    /// That many slots, at least one.
    #[must_use]
    pub fn new(size: usize) -> Self {
        let size = size.clamp(1, Semaphore::MAX_PERMITS);
        let share = size.div_ceil(SHARE);
        Slots { all: Arc::new(Semaphore::new(size)), size, share, groups: Mutex::default() }
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
            Some(Slot { _of_all: of_all, _of_group: of_group })
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
}
