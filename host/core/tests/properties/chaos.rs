//! Random faults and random policies: an oracle that knows the truth finds no broken rule, and groups reach their spec once faults stop.
use super::super::support::policies::{Dice, Natural, Random, Reversed};
use super::super::support::swarm::{Swarm, group, lagging};
use super::super::support::tally::Tally;
use super::super::support::world::World;
use super::super::support::{chaos, oracle, seeds};
use std::cell::Cell;
use tanist_core::checked::recheck;
use tanist_core::decide::decide;
use tanist_core::plan::{Action, Plan, Reason};
use tanist_core::policy::Policies;
use tanist_core::record::MemberRecord;
use tanist_core::status::{PolicyHealth, Truth, report};

/// How many answers the random policies give in all.
const ANSWERS: u64 = 100_000;

/// Rounds of one life.
const ROUNDS: usize = 120;

/// One random run of a group; in each round a fault may happen before it, and between decision and act.
fn live(world: &mut World, swarm: &Swarm, dice: &Dice, policies: &dyn Policies, round: &dyn Fn(&mut World) -> bool) {
    let mut calm = false;
    for _ in 0..ROUNDS {
        if dice.once_in(swarm.hardship) {
            chaos::hard(world, swarm, dice, calm);
        } else if dice.once_in(swarm.unrest) {
            chaos::mild(world, swarm, dice);
        }
        if dice.once_in(swarm.load) {
            world.serve_clients(1);
        }
        if dice.once_in(swarm.races) {
            calm = race(world, swarm, dice, policies);
        } else {
            calm = round(world);
        }
        if calm {
            world.now += 1 + i64::try_from(dice.below(swarm.pause)).unwrap();
        }
        world.log.drain(..world.log.len().saturating_sub(40));
    }
}

/// Asks each question many times: the oracle judges each answer, and another one is acted on.
struct Insistent<'a> {
    random: &'a Random,
    /// Whose answer is acted on. With the default rule more groups get as far as a takeover, at which wrong answers cost most.
    acts: &'a dyn Policies,
    times: u64,
}

impl Insistent<'_> {
    fn round(&self, world: &mut World) -> bool {
        world.work();
        let snapshot = world.observe();
        // The default rule backwards takes whatever no rule bars, the worst first.
        oracle::judge(world, &snapshot, &decide(&snapshot, &Reversed));
        let before = self.random.answers.get();
        while self.random.answers.get() < before + self.times {
            let asked = self.random.answers.get();
            oracle::judge(world, &snapshot, &decide(&snapshot, self.random));
            if self.random.answers.get() == asked {
                break; // no question arises
            }
        }
        !world.round(self.acts).2
    }
}

/// A round of an operator that is slow or crashes: a fault happens between its decision and its act, and the second look compares the decision
/// with the world again (S1, S6, S8, S9).
fn race(world: &mut World, swarm: &Swarm, dice: &Dice, policies: &dyn Policies) -> bool {
    world.work();
    world.rounds += 1;
    let decided = world.observe();
    let plan = decide(&decided, policies);
    oracle::judge(world, &decided, &plan);
    chaos::mild(world, swarm, dice);
    world.work();
    let live = world.observe();
    let runs = plan.actions.iter().filter_map(|a| match a {
        Action::Run { intent, argv, .. } => Some((intent.clone(), argv.clone())),
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

/// The least number of events with random policies; see [`Tally::at_least`].
const RANDOM: [(&str, usize); 18] = [
    ("seed", 230),
    ("failover", 80),
    ("failover with preferRunning", 20),
    ("join", 140),
    ("place", 260),
    ("follow", 135),
    ("told again", 35),
    ("demote", 13),
    ("switchover", 13),
    ("switchover by a policy", 2),
    ("remove", 24),
    ("treat", 210),
    ("pod deleted", 65),
    ("scaled down", 24),
    ("override used", 8),
    ("BelowHighWater", 3),
    ("ClaimChanged", 100),
    ("answer dropped", 440),
];

/// The same with the default rule.
const NATURAL: [(&str, usize); 15] = [
    ("seed", 200),
    ("failover", 120),
    ("failover with preferRunning", 45),
    ("join", 170),
    ("place", 330),
    ("follow", 210),
    ("told again", 60),
    ("demote", 27),
    ("switchover", 17),
    ("remove", 20),
    ("treat", 200),
    ("pod deleted", 60),
    ("scaled down", 15),
    ("override used", 3),
    ("ClaimChanged", 90),
];

/// The same with faults that lose nothing.
const HARMLESS: [(&str, usize); 11] = [
    ("seed", 260),
    ("failover", 130),
    ("failover with preferRunning", 45),
    ("join", 370),
    ("place", 430),
    ("follow", 350),
    ("told again", 145),
    ("demote", 75),
    ("switchover", 30),
    ("treat", 125),
    ("pod deleted", 7),
];

// S1, S5, S6, S8-S10, S13-S24, S34: 10^5 random answers, and no rule of docs/rules.md is broken.
#[test]
fn whatever_a_policy_answers_no_rule_is_broken() {
    const TEST: &str = "whatever_a_policy_answers_no_rule_is_broken";
    let (answers, tally) = (Cell::new(0), Tally::default());
    let all = seeds::each(TEST, 350, |seed| {
        let dice = Dice::new(seed);
        let policies = Random::new(seed, 2 + dice.below(4));
        let (swarm, mut world) = (Swarm::new(&dice), group(&dice));
        let acts: &dyn Policies = if dice.once_in(2) { &Natural } else { &policies };
        let insistent = Insistent { random: &policies, acts, times: 24 };
        live(&mut world, &swarm, &dice, acts, &|world| insistent.round(world));
        answers.set(answers.get() + policies.answers.get());
        tally.add(&world.events);
    });
    if all {
        assert!(answers.get() >= ANSWERS, "{} answers", answers.get());
        tally.at_least(TEST, &RANDOM);
    }
}

// S34 with the default rule: the same faults, and no rule is broken either.
#[test]
fn whatever_happens_no_rule_is_broken() {
    const TEST: &str = "whatever_happens_no_rule_is_broken";
    let tally = Tally::default();
    let all = seeds::each(TEST, 300, |seed| {
        let dice = Dice::new(seed);
        let (swarm, mut world) = (Swarm::new(&dice), group(&dice));
        live(&mut world, &swarm, &dice, &Natural, &|world| !world.round(&Natural).2);
        tally.add(&world.events);
    });
    if all {
        tally.at_least(TEST, &NATURAL);
    }
}

/// The least number of events of groups in which little happens, with random policies.
const QUIET: [(&str, usize); 3] = [("member moved", 17), ("place", 210), ("failover", 90)];

// docs/rules.md, "Rebalance": with long quiet times between faults, and random answers, a member moves only where everything else is well.
#[test]
fn a_secondary_moves_only_while_everything_else_is_well() {
    const TEST: &str = "a_secondary_moves_only_while_everything_else_is_well";
    let tally = Tally::default();
    let all = seeds::each(TEST, 200, |seed| {
        let dice = Dice::new(seed);
        let policies = Random::new(seed, 2);
        let mut swarm = Swarm::new(&dice);
        (swarm.hardship, swarm.unrest, swarm.pause) = (40, *dice.pick(&[8, 20]), 300);
        let mut world = group(&dice);
        world.pods.values_mut().for_each(|body| body.pod.phase_since -= 7200);
        let insistent = Insistent { random: &policies, acts: &policies, times: 4 };
        live(&mut world, &swarm, &dice, &policies, &|world| insistent.round(world));
        tally.add(&world.events);
    });
    if all {
        tally.at_least(TEST, &QUIET);
    }
}

/// The least number of events of groups with `maxBehind`.
const LAGGING: [(&str, usize); 2] = [("failover", 90), ("takeover within maxBehind", 17)];

// S24 with maxBehind: the same faults and random answers. No takeover loses more acknowledged writes than that, and a seed loses none.
#[test]
fn no_takeover_loses_more_than_max_behind() {
    const TEST: &str = "no_takeover_loses_more_than_max_behind";
    let tally = Tally::default();
    let all = seeds::each(TEST, 200, |seed| {
        let dice = Dice::new(seed);
        let policies = Random::new(seed, 2 + dice.below(4));
        let (swarm, mut world) = (Swarm::new(&dice), lagging(&dice));
        // Backwards: whoever is furthest behind among those that may lead.
        let acts: &dyn Policies = if dice.once_in(2) { &Natural } else { &Reversed };
        let insistent = Insistent { random: &policies, acts, times: 4 };
        live(&mut world, &swarm, &dice, acts, &|world| insistent.round(world));
        tally.add(&world.events);
    });
    if all {
        tally.at_least(TEST, &LAGGING);
    }
}

/// Whether a member whose start was never confirmed has data that no other one can be compared with or has: it can block a decision and not win it
/// (docs/rules.md, "Term"), so an administrator decides. No other wait may be left once faults stop.
fn unconfirmed_blocks(plan: &Plan) -> bool {
    let blocks = |m: &MemberRecord| m.started.as_ref().is_some_and(|started| !started.target);
    let waits = plan.stalled.is_some() || plan.waits.iter().any(|w| w.reason == Reason::HistoriesDiffer);
    waits && plan.record.members.values().any(blocks)
}

/// Faults that lose nothing happen to a group, and then stop. Whether it waits for an administrator; otherwise it reached its spec, and whoever
/// follows does follow a primary.
fn settle(mut world: World, swarm: &Swarm, dice: &Dice, policies: &dyn Policies, tally: &Tally) -> bool {
    for _ in 0..60 {
        if dice.once_in(3) {
            chaos::mild(&mut world, swarm, dice);
        }
        if dice.once_in(10) {
            chaos::spec(&mut world, swarm, dice);
        }
        world.serve_clients(1);
        world.round(policies);
    }
    chaos::heal(&mut world);
    let (snapshot, plan) = world.play(policies, 6000);
    let said = report(&snapshot, &plan, &PolicyHealth::Active(String::new()), None);
    let settled = said.conditions[0].status == Truth::True;
    let blocked = !settled && unconfirmed_blocks(&plan);
    assert!(settled || blocked, "{:#?}\n{}\n{:#?}", plan.waits, world.log.join("\n"), plan.record);
    if settled {
        oracle::followed(&mut world);
    }
    tally.add(&world.events);
    blocked
}

// Promise 4, S44: once faults stop that lose nothing, the group reaches its spec, or waits for an administrator's decision; and whoever follows does
// follow a primary.
#[test]
fn when_faults_stop_the_group_reaches_its_spec_and_stays() {
    const TEST: &str = "when_faults_stop_the_group_reaches_its_spec_and_stays";
    let (tally, waits) = (Tally::default(), Cell::new(0));
    let all = seeds::each(TEST, 400, |seed| {
        let dice = Dice::new(seed);
        let (swarm, world) = (Swarm::new(&dice), group(&dice));
        waits.set(waits.get() + usize::from(settle(world, &swarm, &dice, &Natural, &tally)));
    });
    if all {
        assert!(waits.get() <= 8, "{} groups wait for an administrator", waits.get());
        tally.at_least(TEST, &HARMLESS);
    }
}

// The same after takeovers by members that were behind, with maxBehind: members that were ahead join again.
#[test]
fn after_takeovers_within_max_behind_the_group_reaches_its_spec() {
    const TEST: &str = "after_takeovers_within_max_behind_the_group_reaches_its_spec";
    let (tally, waits) = (Tally::default(), Cell::new(0));
    let all = seeds::each(TEST, 150, |seed| {
        let dice = Dice::new(seed);
        let (swarm, world) = (Swarm::new(&dice), lagging(&dice));
        waits.set(waits.get() + usize::from(settle(world, &swarm, &dice, &Reversed, &tally)));
    });
    if all {
        assert!(waits.get() <= 8, "{} groups wait for an administrator", waits.get());
        tally.at_least(TEST, &LAGGING);
    }
}
