//! Random faults and random policies: an oracle that knows the truth finds no broken rule, and groups reach their spec once faults stop.
use super::super::support::policies::{Dice, Natural, Random};
use super::super::support::world::World;
use super::super::support::{chaos, oracle, seeds};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use tanist_core::checked::recheck;
use tanist_core::decide::decide;
use tanist_core::plan::Action;
use tanist_core::policy::Policies;
use tanist_core::record::Verb;
use tanist_core::status::{PolicyHealth, Truth, report};

/// How many answers the random policies give in all.
const ANSWERS: u64 = 100_000;

/// Rounds of one life.
const ROUNDS: usize = 120;

/// One random run of a group; in each round a fault may happen before it, and between decision and act.
fn live(world: &mut World, dice: &Dice, policies: &dyn Policies, round: &dyn Fn(&mut World) -> bool) {
    let mut calm = false;
    // Faults that lose data or memory end in a wait for an administrator, so some runs have few of them and reach other states.
    let hardship = *dice.pick(&[3, 10, 40]);
    for _ in 0..ROUNDS {
        if dice.once_in(hardship) {
            chaos::hard(world, dice, calm);
        } else if dice.once_in(4) {
            chaos::mild(world, dice);
        }
        if dice.once_in(3) {
            world.serve_clients(1);
        }
        if dice.once_in(8) {
            calm = race(world, dice, policies);
        } else {
            calm = round(world);
        }
        if calm {
            world.now += 1 + i64::try_from(dice.below(20)).unwrap();
        }
        world.log.drain(..world.log.len().saturating_sub(40));
    }
}

/// Asks each question many times: the oracle judges each answer, and the last one is acted on.
struct Insistent<'a> {
    random: &'a Random,
    times: u64,
}

impl Insistent<'_> {
    fn round(&self, world: &mut World) -> bool {
        world.work();
        let snapshot = world.observe();
        let before = self.random.answers.get();
        while self.random.answers.get() < before + self.times {
            let asked = self.random.answers.get();
            oracle::judge(world, &snapshot, &decide(&snapshot, self.random));
            if self.random.answers.get() == asked {
                break; // no question arises
            }
        }
        !world.round(self.random).2
    }
}

/// A round of an operator that is slow or crashes: a fault happens between its decision and its act, and the second look compares the decision
/// with the world again (S1, S6, S8, S9).
fn race(world: &mut World, dice: &Dice, policies: &dyn Policies) -> bool {
    world.work();
    world.rounds += 1;
    let decided = world.observe();
    let plan = decide(&decided, policies);
    oracle::judge(world, &decided, &plan);
    chaos::mild(world, dice);
    world.work();
    let live = world.observe();
    let runs = plan.actions.iter().filter_map(|a| match a {
        Action::Run { intent, argv } => Some((intent.clone(), argv.clone())),
        _ => None,
    });
    let runs: Vec<_> = runs.collect();
    for (intent, _) in &runs {
        if recheck(&decided, &live, intent).is_err() {
            return false; // nothing is written, nothing starts
        }
        oracle::start(world, &live, intent);
    }
    if plan.actions.iter().any(|a| matches!(a, Action::DeletePod { .. } | Action::Read { .. } | Action::Route { .. }))
        && runs.is_empty()
    {
        return false; // fenced by UID; the next round decides anew
    }
    match dice.below(3) {
        // It crashes before anything is written, after the intent is written, or not at all.
        0 => {}
        1 => world.record = plan.record,
        _ => {
            world.record = plan.record.clone();
            for (intent, argv) in runs {
                world.begin(&intent, &argv);
            }
        }
    }
    false
}

/// How often each verb was started in all runs: a verb that hardly happens is hardly tested.
#[derive(Default)]
struct Verbs(RefCell<BTreeMap<Verb, usize>>);

impl Verbs {
    fn add(&self, world: &World) {
        for (verb, count) in &world.verbs {
            *self.0.borrow_mut().entry(*verb).or_default() += count;
        }
    }

    fn at_least(&self, floor: &[(Verb, usize)]) {
        let verbs = self.0.borrow();
        for (verb, least) in floor {
            let count = verbs.get(verb).copied().unwrap_or_default();
            assert!(
                count >= *least,
                "{} was started {count} times, at least {least} expected: {verbs:?}",
                verb.as_str()
            );
        }
    }
}

/// For every verb the least number of starts with the default rule.
const FLOOR: [(Verb, usize); 9] = [
    (Verb::Seed, 200),
    (Verb::Failover, 80),
    (Verb::Join, 100),
    (Verb::Place, 200),
    (Verb::Follow, 80),
    (Verb::Demote, 20),
    (Verb::Switchover, 20),
    (Verb::Remove, 20),
    (Verb::Treat, 200),
];

// S1, S5, S6, S8-S10, S13-S23, S34: 10^5 random answers, and no rule of docs/rules.md is broken.
#[test]
fn whatever_a_policy_answers_no_rule_is_broken() {
    let (answers, verbs) = (Cell::new(0), Verbs::default());
    let all = seeds::each("whatever_a_policy_answers_no_rule_is_broken", 350, |seed| {
        let dice = Dice::new(seed);
        let policies = Random::new(seed, 2 + dice.below(4));
        let mut world = chaos::group(&dice);
        let insistent = Insistent { random: &policies, times: 16 };
        live(&mut world, &dice, &policies, &|world| insistent.round(world));
        answers.set(answers.get() + policies.answers.get());
        verbs.add(&world);
    });
    if all {
        assert!(answers.get() >= ANSWERS, "{} answers", answers.get());
        verbs.at_least(&FLOOR.map(|(verb, least)| (verb, least / 10)));
    }
}

// S34 with the default rule: the same faults, and no rule is broken either.
#[test]
fn whatever_happens_no_rule_is_broken() {
    let verbs = Verbs::default();
    let all = seeds::each("whatever_happens_no_rule_is_broken", 300, |seed| {
        let dice = Dice::new(seed);
        let mut world = chaos::group(&dice);
        live(&mut world, &dice, &Natural, &|world| !world.round(&Natural).2);
        verbs.add(&world);
    });
    if all {
        verbs.at_least(&FLOOR);
    }
}

// Promise 4, S44: once faults stop that lose nothing, the group reaches its spec or waits for an administrator's decision.
#[test]
fn when_faults_stop_the_group_reaches_its_spec_and_stays() {
    let ready = Cell::new(0);
    let all = seeds::each("when_faults_stop_the_group_reaches_its_spec_and_stays", 400, |seed| {
        let dice = Dice::new(seed);
        let mut world = chaos::group(&dice);
        for _ in 0..60 {
            if dice.once_in(3) {
                chaos::mild(&mut world, &dice);
            }
            world.serve_clients(1);
            world.round(&Natural);
        }
        chaos::heal(&mut world);
        let (snapshot, plan) = world.play(&Natural, 6000);
        let said = report(&snapshot, &plan, &PolicyHealth::Active(String::new()), None);
        let settled = said.conditions[0].status == Truth::True;
        ready.set(ready.get() + u32::from(settled));
        assert!(settled, "{:#?}\n{}\n{:#?}", plan.waits, world.log.join("\n"), plan.record);
    });
    assert!(!all || ready.get() > 390, "{}", ready.get());
}
