//! Lives of groups under the shipped round with faults of every kind: no promise is broken, and every group is well once everything has healed.
use super::number;
use super::policies::Natural;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::thread::{available_parallelism, scope};
use std::time::Instant;
use tanist_sim::faults::Fault;
use tanist_sim::life::{Lived, live};

thread_local! {
    /// Panics of this thread. A task that panics ends, and whoever spawned it need not notice.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// From now on panics are also noted.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            PANICS.with_borrow_mut(|panics| panics.push(info.to_string()));
            usual(info);
        }));
    });
}

/// The life of that seed: all of it on this thread. A panic breaks a promise.
fn lived(seed: u64) -> Lived {
    note_panics();
    PANICS.take();
    let life = catch_unwind(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(live(seed, || Box::new(Natural)))
    });
    let empty = || Lived { broken: Vec::new(), unwell: Vec::new(), happened: BTreeMap::new(), log: Vec::new() };
    let mut life = life.unwrap_or_else(|_| empty());
    life.broken.extend(PANICS.take());
    life
}

#[test]
fn a_panic_in_a_task_is_noted() {
    note_panics();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { drop(tokio::spawn(async { panic!("on purpose") }).await) });
    let panics = PANICS.take();
    assert!(panics.len() == 1 && panics[0].contains("on purpose"), "{panics:?}");
}

/// What happened in many lives.
#[derive(Default)]
struct Lives {
    happened: BTreeMap<Fault, u64>,
    /// How many faults each life had.
    faults: Vec<u64>,
    /// The failures: seed and story.
    failed: BTreeMap<u64, String>,
}

impl Lives {
    fn add(&mut self, seed: u64, life: Lived) {
        self.faults.push(life.happened.values().sum());
        for (kind, times) in life.happened {
            *self.happened.entry(kind).or_default() += times;
        }
        if !life.broken.is_empty() || !life.unwell.is_empty() {
            let why = format!("broken: {:?}, not healed: {:?}", life.broken, life.unwell);
            self.failed.insert(seed, format!("{why}\nrepeat it: make sim SEED={seed}\n{}", life.log.join("\n")));
        }
    }
}

/// Lives the lives of these seeds, on all processors, until a few of them have failed: `TANIST_SIM_FAILURES`.
fn live_all(first: u64, count: u64) -> Lives {
    let most = usize::try_from(number("TANIST_SIM_FAILURES", 3)).unwrap();
    let (next, lives) = (AtomicU64::new(0), Mutex::new(Lives::default()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count || lives.lock().unwrap().failed.len() >= most {
                return;
            }
            let life = lived(first + number);
            lives.lock().unwrap().add(first + number, life);
        }
    };
    scope(|threads| (0..available_parallelism().map_or(1, usize::from)).for_each(|_| drop(threads.spawn(work))));
    lives.into_inner().unwrap()
}

// `TANIST_SIM_SEEDS`: how many lives; `TANIST_SIM_SEED`: the first one.
#[test]
fn no_promise_is_broken_and_every_group_heals() {
    let (first, count) = (number("TANIST_SIM_SEED", 1), number("TANIST_SIM_SEEDS", 200));
    let began = Instant::now();
    let Lives { happened, mut faults, failed } = live_all(first, count);
    let seconds = began.elapsed().as_secs_f64();
    assert!(failed.is_empty(), "{}", failed.into_values().collect::<Vec<_>>().join("\n\n"));
    faults.sort_unstable();
    let median = faults.get(faults.len() / 2).copied().unwrap_or(0);
    println!("{count} seeds from {first} in {seconds:.1} s, median of {median} faults, of each kind: {happened:?}");
    let missing: Vec<_> = Fault::ALL.iter().filter(|kind| count >= 200 && !happened.contains_key(kind)).collect();
    assert!(missing.is_empty(), "these never happened: {missing:?}");
}

#[test]
fn a_seed_is_the_same_life_each_time() {
    let log = |seed| lived(seed).log;
    assert_eq!(log(7), log(7));
    assert_ne!(log(7), log(8));
}
