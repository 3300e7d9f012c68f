//! Instances of scripts that are made before there is a question.
//!
//! The text of a script does not depend on the question, and loading it takes most of the time of a decision (docs/decisions/0018-scripts.md). So while nothing is
//! asked, an instance is made and given the text. It answers one question, like every instance, and the fuel of its loading counts as the question's: an answer is the
//! same with it and without it, and so is where a script is stopped.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use wasmtime::{Store, component::Instance};

use crate::{
    policy::{Compiled, Policy},
    sandbox::{self, Sandbox},
    script::file_of,
    ticker,
};

/// How many of them an engine keeps.
const MOST: usize = 16;

/// Fuel for loading above which a script is not prepared: the work is not metered as a question is, and nobody else may have to wait for it. It also bounds what
/// loading can allocate. A script of forty lines needs a third of it.
const LIGHT: u64 = 4_000_000;

/// How long one stays when there is no room for another script's. Its own may be gone, or its group may ask nothing for days.
const KEPT: Duration = Duration::from_secs(600);

/// The prepared instances of an engine, the oldest first: at most one of each script.
#[derive(Default)]
pub(crate) struct Shelf(Mutex<VecDeque<Prepared>>);

/// An instance that was given the text of its script.
struct Prepared {
    /// The digest of the script.
    digest: String,
    /// What errors call the script.
    file: String,
    store: Store<Sandbox>,
    instance: Instance,
    /// The fuel that loading used.
    used: u64,
    since: Instant,
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Prepared>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is room for one of that script, and none yet.
    fn lacks(&self, digest: &str, file: &str) -> bool {
        let all = self.lock();
        let has = all.iter().any(|each| each.digest == digest && each.file == file);
        !has && (all.len() < MOST || all.front().is_some_and(|oldest| oldest.since.elapsed() >= KEPT))
    }

    fn store(&self, prepared: Prepared) {
        let mut all = self.lock();
        // Another thread may have made one meanwhile.
        if all.iter().any(|each| each.digest == prepared.digest && each.file == prepared.file) {
            return;
        }
        if all.len() >= MOST {
            all.pop_front();
        }
        all.push_back(prepared);
    }

    fn take(&self, digest: &str, file: &str) -> Option<Prepared> {
        let mut all = self.lock();
        let at = all.iter().position(|each| each.digest == digest && each.file == file)?;
        all.remove(at)
    }
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("prepared", &self.lock().len()).finish_non_exhaustive()
    }
}

impl Policy {
    /// Makes an instance for the next question, where that saves time: of a script that has none. It takes as long as loading the script. To be called when nobody
    /// waits for an answer.
    pub fn prepare(&self) {
        let Compiled { digest, pre, script: Some(script), .. } = &*self.compiled else { return };
        let file = file_of(&self.name().source);
        let (engine, limits) = (self.engine(), self.engine().limits());
        if script.fuel > LIGHT || !engine.shelf().lacks(digest, file) {
            return;
        }
        let _ticking = engine.ticking();
        let fuel = limits.fuel_base;
        let mut store = sandbox::store(engine.runtime(), limits, fuel, limits.wall);
        // Where this fails, so does the question that follows, and says why.
        let Ok(instance) = pre.instantiate(&mut store) else { return };
        if script.load(&mut store, &instance, file).is_err() {
            return;
        }
        let used = fuel.saturating_sub(store.get_fuel().unwrap_or(0));
        let (digest, file) = (digest.clone(), file.to_owned());
        engine.shelf().store(Prepared { digest, file, store, instance, used, since: Instant::now() });
    }

    /// A prepared instance, with what is left of that fuel, and the time that is left.
    pub(crate) fn take_prepared(&self, fuel: u64, wall: Duration) -> Option<(Store<Sandbox>, Instance)> {
        self.compiled.script.as_ref()?;
        let found = self.engine().shelf().take(&self.compiled.digest, file_of(&self.name().source))?;
        let Prepared { mut store, instance, used, .. } = found;
        let left = fuel.checked_sub(used).filter(|left| *left > 0)?;
        store.set_fuel(left).ok()?;
        store.data_mut().allow(fuel);
        store.set_epoch_deadline(ticker::epochs(wall));
        Some((store, instance))
    }
}
