//! Random faults that happen to a group.
use super::app::{App, Behaviour, Data};
use super::policies::Dice;
use super::swarm::{Fault, Swarm};
use super::world::World;
use super::{db, sequence};
use tanist_core::contract::{Phase, Role};
use tanist_core::record::Record;
use tanist_core::snapshot::{Node, Object, Override};

/// A fault that the group survives without an administrator: no write is lost. Time may pass, too.
pub fn mild(world: &mut World, swarm: &Swarm, dice: &Dice) {
    let ordinal = victim(world, dice);
    happen(world, dice, swarm.mild(dice), ordinal);
    if dice.once_in(3) {
        world.now += i64::try_from(dice.below(15)).unwrap();
    }
}

/// A harder fault: lost and unreadable data, a lost record, changes of the spec, members that change their role by themselves. `calm`: the last
/// round changed nothing.
pub fn hard(world: &mut World, swarm: &Swarm, dice: &Dice, calm: bool) {
    let ordinal = u32::try_from(dice.below(world.volumes.len())).unwrap();
    match swarm.hard(dice) {
        Fault::Wipe if !(calm && forgettable(world)) => {}
        fault => happen(world, dice, fault, ordinal),
    }
    world.group.generation += i64::from(dice.once_in(10));
}

/// A change of the spec that loses nothing.
pub fn spec(world: &mut World, swarm: &Swarm, dice: &Dice) {
    if let Some(fault) = swarm.spec(dice) {
        happen(world, dice, fault, 0);
    }
}

/// Whether the record may be lost without a loss of data that no memory can prevent: nothing is under way of which only the record knows.
fn forgettable(world: &World) -> bool {
    let waits = world.record.members.values().any(|m| m.follow_again);
    world.ghosts.is_empty() && !world.group.paused && world.record.intents.is_empty() && !waits
}

fn happen(world: &mut World, dice: &Dice, fault: Fault, ordinal: u32) {
    use Fault as F;
    world.events.add(fault.word());
    world.say(format!("fault: {}, at db-{ordinal}", fault.word()));
    match fault {
        F::Crash => app(world, ordinal, |app| *app = App::stopped()),
        F::Restart if world.pods.contains_key(&ordinal) => world.restart(ordinal),
        F::Restart => {}
        F::Delete => delete(world, ordinal),
        F::Forget => world.forget(ordinal),
        F::NodeDown => node(world, dice, ordinal, false),
        F::NodeUp => node(world, dice, ordinal, true),
        F::Silent => app(world, ordinal, |app| app.probe = Some(Role::Unknown)),
        F::Honest => app(world, ordinal, |app| app.probe = None),
        F::Fail => app(world, ordinal, |app| (app.role, app.next) = (Role::Failed, None)),
        F::Behave => behave(world, dice, ordinal),
        F::Time => world.now += i64::try_from(dice.below(120)).unwrap(),
        F::Cordon => cordon(world, ordinal),
        F::Write => world.serve_clients(1 + dice.next() % 5),
        F::LoseVolume => {
            delete(world, ordinal);
            world.new_volume(ordinal);
        }
        F::Unreadable => unreadable(world, ordinal),
        F::Readable => readable(world),
        F::Primaries => {
            world.group.primaries = 1 + u32::try_from(dice.below(world.group.replicas.max(1) as usize)).unwrap();
        }
        F::OneOrMore => {
            let most = world.group.replicas.clamp(1, 3);
            world.group.primaries = if world.group.primaries == 1 { most } else { 1 };
        }
        F::Wipe => {
            world.record = Record::default();
            // A round sees the running members before the next fault; a pod that is deleted by force before that could not be remembered.
            world.round(&super::policies::Broken);
        }
        // A round sees it before the next fault: a primary that nobody saw before its pod was deleted by force could not be remembered.
        F::Rise => {
            world.rises(ordinal);
            world.round(&super::policies::Broken);
        }
        F::SilentEnd => app(world, ordinal, |app| {
            (app.role, app.probe, app.processes) = (Role::Stopped, Some(Role::Unknown), Some(0));
        }),
        F::Pause => world.group.paused = dice.once_in(3),
        F::Retry => world.group.retry = Some(dice.next().to_string()),
        F::Override => set_override(world, dice, ordinal),
        F::Respawn => world.respawn = !dice.once_in(3),
        F::Prefer => {
            let names: Vec<_> = world.volumes.keys().map(|o| db(*o)).collect();
            world.group.preferred_primary = dice.once_in(2).then(|| dice.pick(&names).clone());
        }
        F::Resize => resize(world, u32::try_from(*dice.pick(&[0, 0, 1, 2, 3, 4, 5])).unwrap()),
        F::ByHand => by_hand(world, dice, ordinal),
    }
}

/// The member that a fault hits: a random one, but every other time a primary.
fn victim(world: &World, dice: &Dice) -> u32 {
    let leads: Vec<_> = world.pods.iter().filter(|(_, b)| b.app.leads()).map(|(o, _)| *o).collect();
    match leads.is_empty() || dice.once_in(2) {
        true => u32::try_from(dice.below(world.volumes.len())).unwrap(),
        false => *dice.pick(&leads),
    }
}

/// An administrator starts a primary by hand; while the group is paused, it is stopped again before the next round. Otherwise a round sees it before the next fault, as with
/// [`Fault::Rise`].
fn by_hand(world: &mut World, dice: &Dice, ordinal: u32) {
    world.by_hand(ordinal);
    if world.group.paused {
        world.serve_clients(1 + dice.next() % 5);
        app(world, ordinal, |app| *app = App::stopped());
    } else {
        world.round(&super::policies::Broken);
    }
}

/// An orderly deletion; on a node that does not report it can only be a forced one.
fn delete(world: &mut World, ordinal: u32) {
    let silent = world.pods.get(&ordinal).is_some_and(|b| b.pod.phase == Phase::Unreachable);
    if silent { world.forget(ordinal) } else { world.delete(ordinal) }
}

/// An administrator changes the number of members.
fn resize(world: &mut World, replicas: u32) {
    world.group.replicas = replicas;
    world.group.primaries = world.group.primaries.min(replicas.max(1));
    world.objects.retain(|o| o.kind != "StatefulSet");
    let manifest = serde_json::Value::Null.into();
    let set =
        Object { kind: "StatefulSet".into(), name: "db".into(), manifest, current: false, version: None, trial: None };
    world.objects.push(set);
}

/// Faults stop: everything that can come back does.
pub fn heal(world: &mut World) {
    world.behaviours.clear();
    world.respawn = true;
    world.group.paused = false;
    world.group.requested_override = None;
    readable(world);
    let names: Vec<_> = world.nodes.keys().cloned().collect();
    for name in names {
        set_node(world, &name, true);
    }
    for ordinal in 0..world.set.as_ref().map_or(0, |s| s.replicas) {
        if !world.pods.contains_key(&ordinal) {
            world.new_pod(ordinal);
        }
        app(world, ordinal, |app| (app.probe, app.processes) = (None, None));
    }
}

fn app(world: &mut World, ordinal: u32, change: impl FnOnce(&mut App)) {
    if let Some(body) = world.pods.get_mut(&ordinal) {
        change(&mut body.app);
    }
}

fn node(world: &mut World, dice: &Dice, ordinal: u32, ready: bool) {
    let Some(name) = world.pods.get(&ordinal).and_then(|b| b.pod.node.clone()) else { return };
    if !ready && dice.once_in(6) {
        // The machine is gone for good, and so is all that ran there.
        let there: Vec<_> =
            world.pods.iter().filter(|(_, b)| b.pod.node.as_deref() == Some(&name)).map(|(o, _)| *o).collect();
        world.delete_node(&name);
        there.into_iter().for_each(|o| world.forget(o));
        world.work();
        return;
    }
    set_node(world, &name, ready);
}

/// Or the other way round.
fn cordon(world: &mut World, ordinal: u32) {
    let name = world.pods.get(&ordinal).and_then(|b| b.pod.node.as_ref());
    if let Some(node) = name.and_then(|name| world.nodes.get_mut(name)) {
        node.cordoned = !node.cordoned;
    }
}

/// The node of that member reports again, or does not any more.
pub fn reach(world: &mut World, ordinal: u32, ready: bool) {
    let name = world.pods.get(&ordinal).and_then(|b| b.pod.node.clone());
    name.into_iter().for_each(|name| set_node(world, &name, ready));
}

fn set_node(world: &mut World, name: &str, ready: bool) {
    let known = world.nodes.get(name).is_some_and(|n| n.ready == ready);
    if known {
        return;
    }
    let node = Node { ready, since: world.now, seen: world.now, out_of_service: false, cordoned: false, zone: None };
    world.nodes.insert(name.to_owned(), node);
    for body in world.pods.values_mut().filter(|b| b.pod.node.as_deref() == Some(name)) {
        body.pod.phase = if ready { Phase::Running } else { Phase::Unreachable };
    }
}

fn unreadable(world: &mut World, ordinal: u32) {
    let volume = world.volumes.get_mut(&ordinal).unwrap();
    if let Data::Known(known) = &volume.data {
        volume.data = Data::Unreadable(known.clone());
    }
    world.pods.get_mut(&ordinal).into_iter().for_each(|b| b.read = None);
}

fn readable(world: &mut World) {
    for volume in world.volumes.values_mut() {
        if let Data::Unreadable(known) = &volume.data {
            volume.data = Data::Known(known.clone());
        }
    }
}

fn behave(world: &mut World, dice: &Dice, ordinal: u32) {
    let highest = world.volumes.values().filter_map(|v| v.truth()).map(|(_, n)| n).max().unwrap_or(0);
    let seconds = i64::try_from(dice.below(120)).unwrap();
    let behaviour = match dice.below(10) {
        0 => Behaviour::Works(seconds.min(59)),
        1 => Behaviour::Fails(1),
        2 => Behaviour::Spoils(highest + 1 + dice.next() % 9, 1),
        3 => Behaviour::Lies,
        4 => Behaviour::Vanishes,
        5 => Behaviour::Late(seconds),
        6 => Behaviour::Hangs,
        7 => Behaviour::NeverStarts,
        _ => Behaviour::Starts(seconds),
    };
    let name = *dice.pick(&["seed", "primary", "primary", "secondary", "stop", "promote", "follow"]);
    // With preferRunning the group relies on what these two report: nothing but the member itself knows whether it follows.
    let trusted = world.group.failover.prefer_running && matches!(name, "secondary" | "follow");
    let behaviour = if trusted && behaviour == Behaviour::Lies { Behaviour::Fails(1) } else { behaviour };
    world.behaviours.push((db(ordinal), name.into(), behaviour, false));
}

/// An administrator names a member with its sequence and the present term, or with a wrong sequence.
fn set_override(world: &mut World, dice: &Dice, ordinal: u32) {
    let position = match &world.volumes[&ordinal].data {
        Data::Known(known) if !dice.once_in(4) => tanist_core::contract::Position::Known(known.clone()),
        _ => tanist_core::contract::Position::Known(sequence("3")),
    };
    let raw = dice.next().to_string();
    world.group.requested_override = Some(Override { member: db(ordinal), position, term: world.record.term, raw });
}
