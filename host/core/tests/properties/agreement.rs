//! Random faults in groups whose members agree: no majority is lost by what the host does, nobody is added twice, started without being a member or stopped while it is one; and once
//! faults stop the group has the members that are desired.
use super::super::support::agreement::Lie;
use super::super::support::app::{App, Behaviour};
use super::super::support::policies::{Dice, Natural, Random};
use super::super::support::tally::Tally;
use super::super::support::world::{World, command};
use super::super::support::{chaos, db, seeds, setting};
use std::cell::Cell;
use tanist_core::plan::Reason;
use tanist_core::policy::Policies;
use tanist_core::record::Record;
use tanist_core::snapshot::Object;
use tanist_core::status::{Kind, PolicyHealth, Truth, report};

/// A group whose members agree, formed or about to be: each of them serves, or one leads; with learners, or without.
fn group(dice: &Dice) -> World {
    let replicas = u32::try_from(*dice.pick(&[1, 1, 2, 3, 3, 3, 5])).unwrap();
    let one_leads = dice.once_in(3);
    let mut world = World::new(replicas, if one_leads { 1 } else { replicas });
    world.group.commands.seed = Some(command("seed"));
    world.group.commands.membership = Some(setting::members(dice.once_in(2)));
    world.group.commands.secondary = one_leads.then(|| command("secondary"));
    (world.group.unknown_grace, world.group.start_deadline) = (100, 100_000);
    world
}

/// How many members a group is told to have.
const SIZES: [u32; 8] = [0, 1, 1, 2, 3, 3, 4, 5];

fn resize(world: &mut World, dice: &Dice) {
    let replicas = *dice.pick(&SIZES);
    world.events.add("resize");
    world.group.generation += 1;
    world.group.replicas = replicas;
    world.group.primaries = if world.group.commands.secondary.is_some() { replicas.min(1) } else { replicas };
    world.objects.retain(|o| o.kind != "StatefulSet");
    let manifest = serde_json::Value::Null.into();
    let set =
        Object { kind: "StatefulSet".into(), name: "db".into(), manifest, current: false, version: None, trial: None };
    world.objects.push(set);
}

/// Something happens that loses no volume of a member that counts.
fn fault(world: &mut World, dice: &Dice) {
    let ordinals: Vec<u32> = world.pods.keys().copied().collect();
    if ordinals.is_empty() {
        return;
    }
    let ordinal = *dice.pick(&ordinals);
    match dice.below(12) {
        0 => world.body(ordinal).app = App::stopped(),
        1 => world.restart(ordinal),
        2 => world.delete(ordinal),
        3 => {
            let lie = *dice.pick(&[Lie::Fails, Lie::Differs, Lie::Alone, Lie::Split]);
            // The first list that is read is believed, and so is whoever is the majority.
            let voters = world.agreement.members.values().filter(|m| m.voter).count();
            let lie = if world.record.membership.is_none() || voters < 3 { Lie::Fails } else { lie };
            world.agreement.lies.insert(ordinal, lie);
        }
        4 => world.agreement.lies.clear(),
        5 | 6 => behave(world, dice, ordinal),
        7 => ordinals.into_iter().for_each(|o| world.body(o).app = App::stopped()),
        8 => world.now += i64::try_from(dice.below(60)).unwrap(),
        9 if world.record.intents.is_empty() && is_on_claims(world) => {
            world.events.add("wipe");
            world.record = Record::default();
        }
        10 => world.respawn = !dice.once_in(3),
        _ => resize(world, dice),
    }
    world.elect();
}

/// Whether the claims know the members, too: without any memory of one that was added and never ran only people know it.
fn is_on_claims(world: &World) -> bool {
    let lists = world.volumes.values().filter_map(|volume| volume.mark.as_ref()?.membership.as_ref());
    lists.max_by_key(|list| list.revision) == world.record.membership.as_ref()
}

fn behave(world: &mut World, dice: &Dice, ordinal: u32) {
    let seconds = i64::try_from(dice.below(90)).unwrap();
    let behaviour = match dice.below(6) {
        0 => Behaviour::Works(seconds.min(59)),
        1 => Behaviour::Fails(1),
        2 => Behaviour::Lies,
        3 => Behaviour::Vanishes,
        4 => Behaviour::Late(seconds),
        _ => Behaviour::NeverStarts,
    };
    let name = *dice.pick(&["memberAdd", "memberRemove", "memberPromote", "primary", "secondary", "stop"]);
    let starts = matches!(name, "primary" | "secondary" | "stop");
    // A start that says it worked and did not is another test's matter.
    let behaviour = if starts && behaviour == Behaviour::Lies { Behaviour::Fails(1) } else { behaviour };
    world.behaviours.push((db(ordinal), name.into(), behaviour, false));
}

fn live(world: &mut World, dice: &Dice, policies: &dyn Policies) {
    for _ in 0..100 {
        if dice.once_in(4) {
            fault(world, dice);
        }
        let (_, _, changed) = world.round(policies);
        if !changed {
            world.now += 1 + i64::try_from(dice.below(20)).unwrap();
        }
        world.log.drain(..world.log.len().saturating_sub(60));
    }
}

/// The least number of events.
const EVENTS: [(&str, usize); 7] = [
    ("member-add", 100),
    ("member-remove", 60),
    ("member-promote", 30),
    ("rejoin", 200),
    ("seed", 100),
    ("resize", 200),
    ("scaled down", 30),
];

// D8, D12, D14, D15, D19, D20, D27: the oracle of the world judges every plan (`support/agreement.rs`), whatever a policy answers.
#[test]
fn whatever_happens_members_agree() {
    const TEST: &str = "whatever_happens_members_agree";
    let tally = Tally::default();
    let all = seeds::each(TEST, 300, |seed| {
        let dice = Dice::new(seed);
        let random = Random::new(seed, 2);
        let policies: &dyn Policies = if dice.once_in(2) { &Natural } else { &random };
        let mut world = group(&dice);
        live(&mut world, &dice, policies);
        tally.add(&world.events);
    });
    if all {
        tally.at_least(TEST, &EVENTS);
    }
}

// Promise 4, D12: once faults stop, the members of the application are those that are desired, or an administrator has to empty a volume.
#[test]
fn when_faults_stop_the_members_are_those_that_are_desired() {
    const TEST: &str = "when_faults_stop_the_members_are_those_that_are_desired";
    let waits = Cell::new(0);
    let all = seeds::each(TEST, 300, |seed| {
        let dice = Dice::new(seed);
        let mut world = group(&dice);
        live(&mut world, &dice, &Natural);
        chaos::heal(&mut world);
        world.agreement.lies.clear();
        world.elect();
        let (snapshot, plan) = world.play(&Natural, 6000);
        let asks = |reason| matches!(reason, Reason::KeptData | Reason::NeedsAdoption);
        let kept = plan.waits.iter().any(|w| asks(w.reason));
        let said = report(&snapshot, &plan, &PolicyHealth::Active(String::new()), None);
        let holds = |kind, truth| said.conditions.iter().any(|c| c.kind == kind && c.status == truth);
        let well = holds(Kind::Ready, Truth::True) && holds(Kind::Rescaling, Truth::False);
        assert!(well || kept, "{:#?}\n{}\n{:#?}", plan.waits, world.log.join("\n"), world.agreement);
        waits.set(waits.get() + usize::from(!well));
    });
    if all {
        assert!(waits.get() <= 150, "{} groups wait for an administrator", waits.get());
    }
}
