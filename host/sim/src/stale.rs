//! Watches that show one change wrongly. A watch only says which group to look at, so whatever it shows, and whenever, a story has to end as it does with a
//! watch that is right (docs/safety.md, S6 and S29).
use crate::shared::Shared;
use crate::world::World;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tokio::time::Instant;

/// How a change is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stale {
    /// The watch never shows it.
    Missed,
    /// That much later, and all that follow it until then, too: a connection that is silent.
    Silent(Duration),
    /// The watch shows it twice.
    Twice,
    /// The cache goes back: for that long each round is given the group as it was before the change.
    Old(Duration),
}

/// What the watches of a process have shown.
#[derive(Debug, Clone, Default)]
pub struct Watched(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    changes: u64,
    wrong: Option<(u64, Stale)>,
    /// Whether a change is still to be shown.
    is_owed: bool,
    silent_until: Option<Instant>,
    old_until: Option<Instant>,
    /// The groups as they were shown last.
    groups: BTreeMap<String, Arc<ReplicaGroup>>,
}

impl Watched {
    /// Watches that show that change wrongly. The first one is 1.
    #[must_use]
    pub fn wrong(change: u64, stale: Stale) -> Self {
        Watched(Arc::new(Mutex::new(Seen { wrong: Some((change, stale)), ..Seen::default() })))
    }

    /// How many changes there were to show.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Whether one is still to be shown. Ends when it may be.
    pub(crate) async fn owes(&self) -> bool {
        let (is_owed, until) = {
            let seen = self.lock();
            (seen.is_owed, seen.silent_until)
        };
        if !is_owed {
            return false;
        }
        if let Some(until) = until {
            tokio::time::sleep_until(until).await;
        }
        let mut seen = self.lock();
        (seen.is_owed, seen.silent_until) = (false, None);
        true
    }

    /// Whether the change that just happened is shown. Ends when it is.
    pub(crate) async fn shows(&self) -> bool {
        {
            let mut seen = self.lock();
            seen.changes += 1;
            let wrong = seen.wrong.filter(|(change, _)| *change == seen.changes).map(|(_, stale)| stale);
            match wrong {
                Some(Stale::Missed) => return false,
                Some(Stale::Silent(time)) => seen.silent_until = Some(Instant::now() + time),
                Some(Stale::Twice) => seen.is_owed = true,
                Some(Stale::Old(time)) => seen.old_until = Some(Instant::now() + time),
                None => {}
            }
            if seen.silent_until.is_none() {
                return true;
            }
            // Who waits for it may be called away, and comes back.
            seen.is_owed = true;
        }
        self.owes().await
    }

    /// The group as the cache shows it. Absent if it is gone.
    pub(crate) fn group(&self, world: &World, name: &str) -> Option<Arc<ReplicaGroup>> {
        let live = world.lock().groups.get(name).map(Shared::as_it_is);
        let mut seen = self.lock();
        if seen.old_until.is_some_and(|until| Instant::now() < until)
            && let Some(old) = seen.groups.get(name)
        {
            return Some(old.clone());
        }
        if let Some(group) = &live {
            seen.groups.insert(name.to_owned(), group.clone());
        }
        live
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
