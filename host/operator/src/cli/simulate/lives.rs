//! Lives many lives on all processors.
use anyhow::Context;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{available_parallelism, scope};
use tanist_core::policy::Policies;
use tanist_engine::Stack;
use tanist_sim::trial::{Measured, Trial};

thread_local! {
    /// Panics of this thread. A task that panics ends, and whoever spawned it need not notice.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The lives that are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Lives<'a> {
    /// The group, and what may happen to it.
    pub trial: &'a Trial,
    /// The seed of the first life.
    pub first: u64,
    /// How many there are.
    pub count: u64,
    /// Whether what happened is kept.
    pub keep_log: bool,
}

/// One life with the policy, and the same with the built-in one.
pub type Pair = [Measured; 2];

/// Lives every life with both stacks: the figures by seed.
///
/// # Errors
/// The system does not let a runtime be made.
pub fn live_all(lives: &Lives<'_>, stacks: &[Stack; 2]) -> anyhow::Result<BTreeMap<u64, Pair>> {
    // Nothing but lives runs in this process meanwhile.
    set_hook(Box::new(|info| PANICS.with_borrow_mut(|panics| panics.push(info.to_string()))));
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let all = Mutex::new(Ok(BTreeMap::new()));
    let progress = Progress::of(lives.count);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= lives.count || is_over.load(Ordering::Relaxed) {
                return;
            }
            let seed = lives.first.saturating_add(number);
            let pair = pair(lives, stacks, seed);
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            match (pair, &mut *all) {
                (Ok(pair), Ok(all)) => {
                    all.insert(seed, pair);
                    progress.show(all.len());
                }
                (Ok(_), Err(_)) => {}
                (Err(error), all) => {
                    is_over.store(true, Ordering::Relaxed);
                    *all = Err(error);
                }
            }
        }
    };
    scope(|threads| (0..available_parallelism().map_or(1, usize::from)).for_each(|_| drop(threads.spawn(work))));
    drop(take_hook());
    progress.end();
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn pair(lives: &Lives<'_>, [yours, built_in]: &[Stack; 2], seed: u64) -> anyhow::Result<Pair> {
    let mut yours = live(lives, yours, seed)?;
    let mut built_in = live(lives, built_in, seed)?;
    built_in.lived.log = Vec::new();
    if !lives.keep_log {
        yours.lived.log = Vec::new();
    }
    Ok([yours, built_in])
}

/// One life: all of it on this thread, in a clock of its own that goes on when nothing else is to be done. A panic breaks a promise.
fn live(lives: &Lives<'_>, stack: &Stack, seed: u64) -> anyhow::Result<Measured> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.context("failed to start a runtime for a life")?;
    PANICS.take();
    let policies = || -> Box<dyn Policies + Send + Sync> { Box::new(stack.clone()) };
    let life = catch_unwind(AssertUnwindSafe(|| runtime.block_on(lives.trial.live(seed, policies))));
    let mut measured = life.unwrap_or_default();
    measured.lived.broken.extend(PANICS.take());
    Ok(measured)
}

/// How many lives there were so far, on a terminal.
struct Progress {
    is_shown: bool,
    count: u64,
}

impl Progress {
    fn of(count: u64) -> Self {
        Progress { is_shown: std::io::stderr().is_terminal(), count }
    }

    fn show(&self, done: usize) {
        if self.is_shown {
            self.write(&format!("\r{done} of {} lives", self.count));
        }
    }

    /// Leaves no trace of it.
    fn end(&self) {
        if self.is_shown {
            self.write("\r\u{1b}[K");
        }
    }

    /// Whoever cannot be told how far it is misses nothing else.
    fn write(&self, text: &str) {
        let mut out = std::io::stderr().lock();
        drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }
}
