//! Random faults that happen to a group.
use super::app::{App, Behaviour, Data};
use super::clients::Clients;
use super::policies::Dice;
use super::world::World;
use super::{db, sequence};
use tanist_core::contract::{Phase, Role};
use tanist_core::record::Record;
use tanist_core::snapshot::{Node, Object, Override};

/// A group of random size and commands, at rest. Most have one primary and some secondaries, because these can lose the most.
pub fn group(dice: &Dice) -> World {
    let replicas = u32::try_from(1 + dice.below(5)).unwrap();
    let all = if dice.once_in(3) { replicas as usize } else { 1 };
    let primaries = 1 + u32::try_from(dice.below(all)).unwrap();
    let mut world = World::new(replicas, primaries);
    let optional = |name| dice.once_in(2).then(|| super::world::command(name));
    world.group.commands.seed = optional("seed");
    world.group.commands.secondary = (!dice.once_in(5)).then(|| super::world::command("secondary"));
    world.group.commands.promote = optional("promote");
    world.group.commands.follow = optional("follow");
    world.group.failover.prefer_running = dice.once_in(3);
    world.group.unknown_grace = 100;
    world.group.start_deadline = 200;
    let (lag, histories) = (i64::try_from(dice.below(9)).unwrap(), dice.once_in(2));
    world.clients = Some(Clients { lag, histories, ..Clients::default() });
    world
}

/// Faults that a group survives without an administrator: no write is lost.
pub fn mild(world: &mut World, dice: &Dice) {
    let ordinal = victim(world, dice);
    match dice.below(14) {
        0 => app(world, ordinal, |app| *app = App::stopped()),
        1 if world.pods.contains_key(&ordinal) => world.restart(ordinal),
        2 => delete(world, ordinal),
        3 => world.forget(ordinal),
        4 => node(world, dice, ordinal, false),
        5 => node(world, dice, ordinal, true),
        6 => app(world, ordinal, |app| app.probe = Some(Role::Unknown)),
        7 => app(world, ordinal, |app| app.probe = None),
        8 => app(world, ordinal, |app| (app.role, app.next) = (Role::Failed, None)),
        9 => behave(world, dice, ordinal),
        10 => behave(world, dice, ordinal),
        11 => world.now += i64::try_from(dice.below(120)).unwrap(),
        12 => cordon(world, ordinal),
        _ => world.serve_clients(1 + dice.next() % 5),
    }
    if dice.once_in(3) {
        world.now += i64::try_from(dice.below(15)).unwrap();
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

/// Harder faults: lost and unreadable data, a lost record, changes of the spec, members that change their role by themselves.
pub fn hard(world: &mut World, dice: &Dice, calm: bool) {
    let ordinal = u32::try_from(dice.below(world.volumes.len())).unwrap();
    match dice.below(16) {
        11 => {
            let names: Vec<_> = world.volumes.keys().map(|o| db(*o)).collect();
            world.group.preferred_primary = dice.once_in(2).then(|| dice.pick(&names).clone());
        }
        12 => resize(world, u32::try_from(dice.below(6)).unwrap()),
        0 => {
            delete(world, ordinal);
            world.new_volume(ordinal);
        }
        1 => unreadable(world, ordinal),
        2 => readable(world),
        3 => world.group.primaries = 1 + u32::try_from(dice.below(world.group.replicas.max(1) as usize)).unwrap(),
        14 => {
            let most = world.group.replicas.clamp(1, 3);
            world.group.primaries = if world.group.primaries == 1 { most } else { 1 };
        }
        4 if calm && world.ghosts.is_empty() && !world.group.paused && world.record.intents.is_empty() => {
            world.record = Record::default();
            // A round sees the running members before the next fault; a pod that is deleted by force before that could not be remembered.
            world.round(&super::policies::Broken);
        }
        // Only where the next round sees it: a member that becomes primary by itself on a silent node could not be remembered.
        5 => world.rises(ordinal),
        13 => by_hand(world, dice, ordinal),
        6 => app(world, ordinal, |app| {
            (app.role, app.probe, app.processes) = (Role::Stopped, Some(Role::Unknown), Some(0))
        }),
        7 => world.group.paused = dice.once_in(3),
        8 => world.group.retry = Some(dice.next().to_string()),
        9 => set_override(world, dice, ordinal),
        10 => world.respawn = !dice.once_in(3),
        _ => mild(world, dice),
    }
    world.group.generation += i64::from(dice.once_in(10));
}

/// An administrator starts a primary by hand; while the group is paused, it is stopped again before the next round.
fn by_hand(world: &mut World, dice: &Dice, ordinal: u32) {
    world.by_hand(ordinal);
    if world.group.paused {
        world.serve_clients(1 + dice.next() % 5);
        app(world, ordinal, |app| *app = App::stopped());
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
    let manifest = serde_json::Value::Null;
    let set = Object { kind: "StatefulSet".into(), name: "db".into(), manifest, current: false, version: None };
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
        world.nodes.remove(&name);
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
