//! Lives of groups under the shipped round with faults of every kind: no promise is broken, and every group is well once everything has healed.
use super::number;
use super::policies::Natural;
use std::collections::BTreeMap;
use tanist_sim::faults::Fault;
use tanist_sim::life::{Lived, live};

fn lived(seed: u64) -> Lived {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(live(seed, || Box::new(Natural)))
}

// `TANIST_SIM_SEEDS`: how many lives; `TANIST_SIM_SEED`: the first one.
#[test]
fn no_promise_is_broken_and_every_group_heals() {
    let (first, count) = (number("TANIST_SIM_SEED", 1), number("TANIST_SIM_SEEDS", 40));
    let mut happened: BTreeMap<Fault, u64> = BTreeMap::new();
    for seed in first..first + count {
        let life = lived(seed);
        for (kind, times) in life.happened {
            *happened.entry(kind).or_default() += times;
        }
        let story = || format!("repeat it: make sim SEED={seed}\n{}", life.log.join("\n"));
        assert!(life.broken.is_empty(), "{:?}\n{}", life.broken, story());
        assert!(life.unwell.is_empty(), "{:?} do not heal\n{}", life.unwell, story());
    }
    let missing: Vec<_> = Fault::ALL.iter().filter(|kind| count >= 40 && !happened.contains_key(kind)).collect();
    assert!(missing.is_empty(), "these never happened: {missing:?}");
}

#[test]
fn a_seed_is_the_same_life_each_time() {
    let log = |seed| lived(seed).log;
    assert_eq!(log(7), log(7));
    assert_ne!(log(7), log(8));
}
