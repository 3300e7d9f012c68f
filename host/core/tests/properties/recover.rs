//! Random losses in groups whose members agree, and administrators who give up majorities at any time, rightly or not: nobody goes on alone while another one runs, nobody who was given up
//! comes back, and members that serve are left alone. The oracle of the world judges every plan (`support/agreement.rs`).
use super::super::support::app::{App, Behaviour};
use super::super::support::policies::{Dice, Natural};
use super::super::support::tally::Tally;
use super::super::support::world::{World, command};
use super::super::support::{chaos, db, seeds, setting};
use tanist_core::contract::Phase;

fn group(dice: &Dice) -> World {
    let replicas = u32::try_from(*dice.pick(&[1, 2, 3, 3, 3, 5])).unwrap();
    let one_leads = dice.once_in(3);
    let mut world = World::new(replicas, if one_leads { 1 } else { replicas });
    world.group.commands.seed = Some(command("seed"));
    let mut members = setting::members(dice.once_in(2));
    members.recover = Some(command("recover"));
    world.group.commands.membership = Some(members);
    world.group.commands.secondary = one_leads.then(|| command("secondary"));
    (world.group.unknown_grace, world.group.start_deadline) = (100, 100_000);
    world
}

/// A volume is lost with its pod.
fn lose(world: &mut World, ordinal: u32) {
    match world.pods.get(&ordinal).is_some_and(|b| b.pod.phase == Phase::Unreachable) {
        true => world.forget(ordinal),
        false => world.delete(ordinal),
    }
    world.new_volume(ordinal);
}

fn fault(world: &mut World, dice: &Dice) {
    let ordinals: Vec<u32> = world.pods.keys().copied().collect();
    if ordinals.is_empty() {
        return;
    }
    let ordinal = *dice.pick(&ordinals);
    match dice.below(14) {
        0 => world.body(ordinal).app = App::stopped(),
        1 => world.restart(ordinal),
        2 if world.body(ordinal).pod.phase != Phase::Unreachable => world.delete(ordinal),
        3 => world.forget(ordinal),
        4 | 5 => lose(world, ordinal),
        6..=8 => {
            world.events.add("asked");
            world.ask_recovery(ordinal, dice.once_in(4));
        }
        9 if dice.once_in(3) => world.group.requested_recovery = None,
        10 => {
            let seconds = i64::try_from(dice.below(90)).unwrap();
            let behaviour = match dice.below(5) {
                0 => Behaviour::Works(seconds.min(59)),
                1 => Behaviour::Fails(1),
                2 => Behaviour::Vanishes,
                3 => Behaviour::Late(seconds),
                _ => Behaviour::NeverStarts,
            };
            let name = *dice.pick(&["recover", "recover", "primary", "secondary", "stop"]);
            world.behaviours.push((db(ordinal), name.into(), behaviour, false));
        }
        11 => chaos::reach(world, ordinal, false),
        12 => chaos::reach(world, ordinal, true),
        13 => ordinals.into_iter().for_each(|o| world.body(o).app = App::stopped()),
        _ => {}
    }
    world.elect();
}

/// The least number of events.
const EVENTS: [(&str, usize); 4] = [("asked", 200), ("halt", 30), ("recover", 30), ("member-add", 30)];

// D8, D20, D27: whatever happens, and whatever people ask for.
#[test]
fn whatever_happens_a_recovery_makes_no_second_cluster() {
    const TEST: &str = "whatever_happens_a_recovery_makes_no_second_cluster";
    let tally = Tally::default();
    let all = seeds::each(TEST, 300, |seed| {
        let dice = Dice::new(seed);
        let mut world = group(&dice);
        world.play(&Natural, 60);
        for _ in 0..120 {
            if dice.once_in(4) {
                fault(&mut world, &dice);
            }
            let (_, _, changed) = world.round(&Natural);
            if !changed {
                world.now += 1 + i64::try_from(dice.below(20)).unwrap();
            }
            world.log.drain(..world.log.len().saturating_sub(60));
        }
        tally.add(&world.events);
    });
    if all {
        tally.at_least(TEST, &EVENTS);
    }
}
