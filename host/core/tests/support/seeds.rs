//! Lives by number. `TANIST_SEEDS=N` plays N of them in each test, `TANIST_SEED=K` that one alone; a failure names its seed.
//! `TANIST_COUNT=1` plays all and says how many fail: how well the random world sees a rule that is disabled (`dev/mutants --random`).
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook};

/// How many seeds are named that fail.
const SHOWN: usize = 10;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Plays each seed. Whether that were at least as many as the test wants, so that what happened often enough can be asserted.
pub fn each(test: &str, wanted: u64, play: impl Fn(u64)) -> bool {
    let seeds = match number("TANIST_SEED") {
        Some(one) => one..one + 1,
        None => 0..number("TANIST_SEEDS").unwrap_or(wanted),
    };
    let count = number("TANIST_COUNT").is_some();
    if count {
        set_hook(Box::new(|_| {}));
    }
    let mut failed = Vec::new();
    for seed in seeds.clone() {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| play(seed))) {
            if !count {
                eprintln!("{test} fails with seed {seed}; TANIST_SEED={seed} plays it alone");
                resume_unwind(panic);
            }
            failed.push(seed);
        }
    }
    if count {
        let first = failed.first().map_or("-".to_owned(), u64::to_string);
        println!("{test}: {} of {} seeds fail, the first is {first}", failed.len(), seeds.end - seeds.start);
        println!("{test}: {:?}", failed.iter().take(SHOWN).collect::<Vec<_>>());
        assert!(failed.is_empty());
    }
    !count && seeds.end - seeds.start >= wanted
}
