//! Random faults, random policies: what an oracle that knows the truth must never see, and where it must end.
use super::super::support::policies::{Dice, Natural, Random};
use super::super::support::world::World;
use super::super::support::{chaos, oracle};
use tanist_core::checked::recheck;
use tanist_core::contract::Role;
use tanist_core::decide::decide;
use tanist_core::plan::{Action, Reason};
use tanist_core::policy::Policies;
use tanist_core::status::{PolicyHealth, Truth, report};

/// How many answers the random policies give in all (issue 3).
const ANSWERS: u64 = 100_000;

/// Rounds of one life.
const ROUNDS: usize = 120;

/// One life of a group; in each round something may happen before, and between decision and act.
fn live(world: &mut World, dice: &Dice, policies: &dyn Policies, round: &dyn Fn(&mut World) -> bool) {
    let mut calm = false;
    for _ in 0..ROUNDS {
        if dice.once_in(3) {
            chaos::hard(world, dice, calm);
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

/// Wherever the world asks, it asks many times: each answer is held against the truth, the last one is acted on.
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

/// A round of an operator that is slow, or dies: something happens between its decision and its act, and what it acts on is held against
/// the world once more (S1, S6, S8, S9).
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
        Action::Run { intent, .. } => Some(intent),
        _ => None,
    });
    let runs: Vec<_> = runs.cloned().collect();
    for intent in &runs {
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
        // It dies before anything is written; after the intent is written; not at all.
        0 => {}
        1 => world.record = plan.record,
        _ => {
            world.record = plan.record.clone();
            for intent in runs {
                world.begin(&intent);
            }
        }
    }
    false
}

// S1, S5, S6, S8-S10, S13-S23, S34: 10^5 random answers, and no rule of design 4 is broken.
#[test]
fn whatever_a_policy_answers_no_rule_is_broken() {
    let (mut answers, mut seed, mut seeds, mut joins) = (0, 0, 0, 0);
    while answers < ANSWERS {
        seed += 1;
        let dice = Dice::new(seed);
        let policies = Random::new(seed, 2 + dice.below(4));
        let mut world = chaos::group(&dice);
        let insistent = Insistent { random: &policies, times: 16 };
        live(&mut world, &dice, &policies, &|world| insistent.round(world));
        answers += policies.answers.get();
        seeds += world.execs.values().filter(|e| e.intent.verb == tanist_core::record::Verb::Seed).count();
        joins += world.execs.values().filter(|e| e.intent.verb == tanist_core::record::Verb::Join).count();
    }
    assert!(seeds > 300 && joins > 300, "the worlds hardly moved: {seeds} seeds, {joins} joins");
}

// S34 with the default rule: the same faults, and no rule is broken either.
#[test]
fn whatever_happens_no_rule_is_broken() {
    for seed in 0..300 {
        let dice = Dice::new(seed);
        let mut world = chaos::group(&dice);
        live(&mut world, &dice, &Natural, &|world| !world.round(&Natural).2);
    }
}

// Promise 4, S44: faults that lose nothing stop, and the group reaches its spec, or waits for what this version does not do.
#[test]
fn when_faults_stop_the_group_reaches_its_spec_and_stays() {
    let mut ready = 0;
    for seed in 0..400 {
        let dice = Dice::new(seed);
        let mut world = chaos::group(&dice);
        for _ in 0..60 {
            if dice.once_in(3) {
                chaos::mild(&mut world, &dice);
            }
            world.round(&Natural);
        }
        chaos::heal(&mut world);
        let (snapshot, plan) = world.play(&Natural, 6000);
        let said = report(&snapshot, &plan, &PolicyHealth::Active(String::new()), None);
        let settled = said.conditions[0].status == Truth::True;
        ready += u32::from(settled);
        let secondaries = snapshot.members.iter().any(|m| m.reading.role == Role::Secondary);
        let later = plan.waits.iter().any(|w| matches!(w.reason, Reason::FailoverPending | Reason::FollowPending))
            && secondaries;
        // A joiner that went on alone before anybody saw it serve: it may block, not win (design 4, "Term"), and a person decides.
        let alone = plan.waits.iter().any(|w| w.reason == Reason::NoCandidate)
            && plan.record.members.values().any(|m| m.started.as_ref().is_some_and(|started| !started.target));
        assert!(
            settled || later || alone,
            "seed {seed}: {:#?}\n{}\n{:#?}",
            plan.waits,
            world.log.join("\n"),
            plan.record
        );
    }
    assert!(ready > 200, "{ready}");
}
