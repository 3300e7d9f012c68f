//! Many lives on all processors, and what came of them.
use super::policies::Natural;
use super::sums::Sums;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::thread::{available_parallelism, scope};
use tanist_sim::life::{Drawn, Lived, ONE_IN, live_with};
use tanist_sim::shrink::shrink;

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
            PANICS.with_borrow_mut(|panics| panics.push(format!("panic: {info}")));
            usual(info);
        }));
    });
}

/// The life of that seed with these faults: all of it on this thread. A panic breaks a promise.
pub fn lived(seed: u64, drawn: &Drawn) -> Lived {
    note_panics();
    PANICS.take();
    let life = catch_unwind(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(live_with(seed, drawn, || Box::new(Natural)))
    });
    let mut life = life.unwrap_or_default();
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

/// What came of many lives.
#[derive(Default)]
pub struct Lives {
    pub sums: Sums,
    /// The failures: seed and story.
    pub failed: BTreeMap<u64, String>,
}

impl Lives {
    fn add(&mut self, seed: u64, life: Lived) {
        if let Some(words) = life.words() {
            println!("seed {seed} failed: {words}");
            self.failed.insert(seed, story(seed, life));
        } else {
            self.sums.add(&life);
        }
    }
}

/// One seed in so many is lived twice, and both lives have to be the same.
fn is_lived_twice(seed: u64) -> bool {
    seed % ONE_IN == 5
}

fn live_once_or_twice(seed: u64) -> Lived {
    let drawn = Drawn::of(seed);
    let mut life = lived(seed, &drawn);
    if is_lived_twice(seed) && lived(seed, &drawn).digest != life.digest {
        life.broken.push("repeat: the same seed is another life the second time".into());
    }
    life
}

/// Lives the lives of these seeds, on all processors, until so many of them have failed.
pub fn live_all(first: u64, count: u64, failures: usize) -> Lives {
    let (next, lives) = (AtomicU64::new(0), Mutex::new(Lives::default()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count || lives.lock().unwrap().failed.len() >= failures {
                return;
            }
            let life = live_once_or_twice(first + number);
            let mut lives = lives.lock().unwrap();
            lives.add(first + number, life);
            lives.sums.twice += u64::from(is_lived_twice(first + number));
        }
    };
    scope(|threads| (0..threads_here()).for_each(|_| drop(threads.spawn(work))));
    lives.into_inner().unwrap()
}

pub fn threads_here() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// What is said about a life that failed. With `TANIST_SIM_SHRINK` the faults that it does not need are left out first.
fn story(seed: u64, mut life: Lived) -> String {
    let mut text = format!("The life of seed {seed}; repeat it: make sim SEED={seed}\n");
    if super::number("TANIST_SIM_SHRINK", 0) > 0 {
        let shrunk = shrink(Drawn::of(seed), life, |drawn| lived(seed, drawn));
        let needed: Vec<_> = shrunk.lived.happened.iter().map(|(kind, times)| format!("{times} {kind:?}")).collect();
        text += &format!("After {} shorter lives it still needs: {}\n", shrunk.tried, needed.join(", "));
        life = shrunk.lived;
    } else {
        text += &format!("with fewer faults: make sim SEED={seed} SHRINK=1\n");
    }
    let kinds: Vec<_> = life.happened.keys().map(|kind| format!("{kind:?}")).collect();
    text += &format!("What happened: {}\n", kinds.join(", "));
    for broken in &life.broken {
        text += &format!("broken: {broken}\n");
    }
    if !life.unwell.is_empty() {
        text += &format!("not well at the end: {}\n", life.unwell.join(", "));
    }
    text + &life.log.join("\n")
}

#[test]
fn a_failure_is_a_line_and_a_story() {
    let failed = Lived {
        broken: vec!["S15 S24: db-1 leads without 2 acknowledged writes".into()],
        happened: [(tanist_sim::faults::Fault::AppDies, 2)].into(),
        log: vec!["     7 s  db-0: its application dies".into()],
        ..Lived::default()
    };
    assert_eq!(failed.words().unwrap(), "S15 S24: db-1 leads without 2 acknowledged writes");
    let story = story(7, failed);
    for part in ["make sim SEED=7\n", "SHRINK=1", "AppDies", "broken: S15 S24", "     7 s  db-0"] {
        assert!(story.contains(part), "{part} is missing: {story}");
    }
}
