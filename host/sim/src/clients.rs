//! Clients that write, and what must not be lost: every write that was acknowledged. A primary acknowledges a write once every secondary that a command told
//! to follow it has it; one that nobody follows acknowledges alone.
use crate::world::{Machine, State, World};
use kube::ResourceExt;
use std::collections::BTreeSet;
use std::time::Duration;
use tanist_core::contract::Role;

/// How often a client writes, and how long followers are behind at most.
const EVERY: Duration = Duration::from_millis(400);

/// What the clients of the group know, and what must not happen to it.
#[derive(Debug, Default)]
pub struct Clients {
    /// Acknowledged writes.
    pub promised: BTreeSet<u64>,
    /// Writes that a primary has and did not acknowledge yet.
    pub open: BTreeSet<u64>,
    /// The number of the last write.
    pub writes: u64,
    /// What broke a promise, in the order in which it happened.
    pub broken: Vec<String>,
}

/// Writes and replicates for ever.
pub async fn run(world: World) {
    loop {
        tokio::time::sleep(EVERY).await;
        let mut state = world.lock();
        write(&mut state);
        replicate(&mut state);
        acknowledge(&mut state);
    }
}

/// The processes that are primary, whether or not anybody sees them.
fn leaders(state: &State) -> Vec<Machine> {
    state.machines.values().filter(|machine| machine.app.role == Role::Primary).cloned().collect()
}

/// One client writes to the primary that it finds: one that is reached, else one that is not.
fn write(state: &mut State) {
    let leaders = leaders(state);
    if leaders.len() > 1 {
        let names: Vec<_> = leaders.iter().map(|leader| format!("{} on {}", leader.pod, leader.node)).collect();
        state.breaks(format!("two primaries: {}", names.join(", ")));
    }
    let reached = leaders.iter().find(|leader| state.is_up(&leader.node));
    let Some(leader) = reached.or(leaders.first()).cloned() else { return };
    state.clients.writes += 1;
    let write = state.clients.writes;
    let Some(disk) = state.disks.get_mut(&leader.claim) else { return };
    if let Some(register) = &mut disk.data {
        register.number += 1;
        disk.holds.insert(write);
        state.clients.open.insert(write);
    }
}

/// Followers that reach their primary get what it has.
fn replicate(state: &mut State) {
    let reached: Vec<Machine> = leaders(state).into_iter().filter(|leader| state.is_up(&leader.node)).collect();
    let follows = |m: &&Machine| m.app.role == Role::Secondary && state.is_up(&m.node);
    let followers: Vec<Machine> = state.machines.values().filter(follows).cloned().collect();
    for follower in followers {
        let leader = reached.iter().find(|leader| follower.app.follows.as_deref() == Some(&leader.pod));
        // Some replicate later than others: one in three times nothing arrives.
        if leader.is_none() || state.dice(3) == 0 {
            continue;
        }
        if let Some(copy) = leader.and_then(|leader| state.disks.get(&leader.claim).cloned()) {
            state.disks.insert(follower.claim.clone(), copy);
        }
    }
}

/// What every follower of the only primary has is acknowledged. One that is not reached counts, too: nobody knows whether it will be asked to lead.
fn acknowledge(state: &mut State) {
    let leaders = leaders(state);
    let [leader] = leaders.as_slice() else { return };
    let follows = |m: &&Machine| m.app.role == Role::Secondary && m.app.follows.as_deref() == Some(&leader.pod);
    let claims = state.machines.values().filter(follows).map(|m| m.claim.clone()).chain([leader.claim.clone()]);
    let disks: Vec<_> = claims.filter_map(|claim| state.disks.get(&claim)).collect();
    let everywhere = |write: &u64| disks.iter().all(|disk| disk.holds.contains(write));
    let done: Vec<u64> = state.clients.open.iter().copied().filter(everywhere).collect();
    state.clients.open.retain(|write| !done.contains(write));
    state.clients.promised.extend(done);
}

/// A member leads from now on: it has every acknowledged write.
pub fn leads(state: &mut State, machine: &Machine) {
    let holds = state.disks.get(&machine.claim).map(|disk| disk.holds.clone()).unwrap_or_default();
    let lost: Vec<u64> = state.clients.promised.difference(&holds).copied().collect();
    // Nobody acknowledges later what only an old primary had.
    state.clients.open.retain(|write| holds.contains(write));
    if !lost.is_empty() {
        let from = state.pods.get(&machine.pod).and_then(ResourceExt::uid).unwrap_or_default();
        state.breaks(format!("{} ({from}) leads without {} acknowledged writes", machine.pod, lost.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::App;
    use crate::runner::Tokens;

    fn machine(pod: &str, role: Role, follows: Option<&str>) -> Machine {
        Machine {
            pod: pod.into(),
            node: "n0".into(),
            claim: format!("claim of {pod}"),
            container: "c".into(),
            tokens: Tokens::default(),
            busy: None,
            expects_running: true,
            app: App { role, follows: follows.map(str::to_owned) },
            ending: None,
        }
    }

    /// A world in which these run; the first one has the writes 1 to 3, the others only the first of them.
    fn world(machines: &[Machine]) -> World {
        let world = World::new(1, 1);
        let mut state = world.lock();
        for (at, machine) in machines.iter().enumerate() {
            let disk = state.disks.entry(machine.claim.clone()).or_default();
            disk.holds = (1..=if at == 0 { 3 } else { 1 }).collect();
            state.machines.insert(format!("uid of {}", machine.pod), machine.clone());
        }
        state.clients.open = (1..=3).collect();
        drop(state);
        world
    }

    #[tokio::test]
    async fn two_primaries_are_seen() {
        let world = world(&[machine("db-0", Role::Primary, None), machine("db-1", Role::Primary, None)]);
        write(&mut world.lock());
        assert_eq!(world.lock().clients.broken, ["two primaries: db-0 on n0, db-1 on n0"]);
    }

    #[tokio::test]
    async fn a_write_is_acknowledged_once_every_follower_has_it() {
        let follower = machine("db-1", Role::Secondary, Some("db-0"));
        let world = world(&[machine("db-0", Role::Primary, None), follower.clone()]);
        acknowledge(&mut world.lock());
        assert_eq!(world.lock().clients.promised, BTreeSet::from([1]));
        leads(&mut world.lock(), &follower);
        assert!(world.lock().clients.broken.is_empty(), "it has all that was acknowledged");
        assert_eq!(world.lock().clients.open, BTreeSet::new(), "nobody acknowledges what only the old primary has");
    }

    #[tokio::test]
    async fn a_lost_write_is_seen() {
        let world = world(&[machine("db-0", Role::Primary, None), machine("db-1", Role::Stopped, None)]);
        acknowledge(&mut world.lock());
        leads(&mut world.lock(), &machine("db-1", Role::Primary, None));
        assert_eq!(world.lock().clients.broken, ["db-1 () leads without 2 acknowledged writes"]);
    }
}
