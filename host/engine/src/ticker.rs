//! The clock of the wall limit: while a question is asked, it moves the engine's epoch on, and wasmtime stops a question whose epoch is over.
//!
//! Fuel is the limit that stops the same question at the same place on every machine. The wall limit is beside it for machines that are so busy
//! that the same fuel takes many times as long: a question must not hold up others for ever.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// How long an epoch is. A question is cut off up to two of these after its limit.
pub(crate) const EPOCH: Duration = Duration::from_millis(10);

/// The ticker of one engine. It has a thread from the first question on; the thread sleeps while nothing is asked, and ends with the ticker.
#[derive(Default)]
pub(crate) struct Ticker(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// How many questions are being asked.
    questions: usize,
    /// Whether there is a thread.
    runs: bool,
    /// Whether the thread sleeps until there is a question. Waking it costs a call of the kernel, which most questions can do without.
    sleeps: bool,
    /// Whether the engine is gone.
    ended: bool,
}

/// Epochs move on as long as one of these is alive.
#[must_use]
pub(crate) struct Ticking(Arc<Shared>);

impl Ticker {
    /// Epochs of this engine move on until the result is dropped. If there can be no thread, the question is asked all the same: its fuel bounds it.
    pub(crate) fn begin(&self, engine: &wasmtime::Engine) -> Ticking {
        let mut state = self.0.lock();
        state.questions = state.questions.saturating_add(1);
        if !state.runs {
            let (shared, engine) = (Arc::clone(&self.0), engine.clone());
            let thread = thread::Builder::new().name("policy-epochs".to_owned());
            state.runs = thread.spawn(move || shared.tick(&engine)).is_ok();
        }
        let sleeps = state.sleeps;
        drop(state);
        if sleeps {
            self.0.changed.notify_one();
        }
        Ticking(Arc::clone(&self.0))
    }
}

/// How many epochs a limit is. The first one may be nearly over when a question begins.
pub(crate) fn epochs(wall: Duration) -> u64 {
    let whole = wall.as_millis().div_ceil(EPOCH.as_millis());
    u64::try_from(whole).unwrap_or(u64::MAX).saturating_add(1)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self, engine: &wasmtime::Engine) {
        loop {
            let mut state = self.lock();
            while state.questions == 0 && !state.ended {
                state.sleeps = true;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.sleeps = false;
            if state.ended {
                return;
            }
            drop(state);
            thread::sleep(EPOCH);
            engine.increment_epoch();
        }
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.questions = state.questions.saturating_sub(1);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_one();
    }
}
