//! Clients that write, and what must not be lost: every write that was acknowledged. A write is acknowledged once every primary has it, and every secondary that
//! a command told to follow one of them; a primary that is alone acknowledges alone.
use crate::app::Writes;
use crate::world::{Machine, State, World};
use kube::ResourceExt;
use std::collections::BTreeSet;
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_api::spec::Primaries;
use tanist_core::contract::Role;

/// How often a client writes, and how long followers are behind at most.
const EVERY: Duration = Duration::from_millis(400);

/// The same while a group is at rest: nothing can be lost then.
const SELDOM: Duration = Duration::from_secs(20);

/// What the clients of a group know.
#[derive(Debug, Default)]
pub struct Clients {
    /// Acknowledged writes.
    pub promised: Writes,
    /// Writes that a primary has and did not acknowledge yet.
    pub open: BTreeSet<u64>,
    /// The number of the last write.
    pub writes: u64,
}

/// Writes and replicates for ever.
pub async fn run(world: World) {
    loop {
        let pause = if world.lock().is_at_rest { SELDOM } else { EVERY };
        tokio::time::sleep(pause).await;
        let mut state = world.lock();
        let groups: Vec<(String, usize)> =
            state.groups.iter().map(|(name, group)| (name.clone(), primaries(group))).collect();
        for (group, limit) in groups {
            write(&mut state, &group, limit);
            replicate(&mut state, &group);
            acknowledge(&mut state, &group, limit);
        }
    }
}

/// How many primaries a group may have.
#[must_use]
pub fn primaries(group: &ReplicaGroup) -> usize {
    match group.spec.primaries {
        Primaries::Count(count) => usize::try_from(count).unwrap_or(usize::MAX),
        Primaries::All => usize::MAX,
    }
}

/// An application that clients or followers reach, without what its runner remembers.
#[derive(Debug, Clone)]
struct Running {
    pod: String,
    node: String,
    claim: String,
    follows: Option<String>,
}

/// The applications of a group that have that role in truth, whether or not anybody sees them.
fn running(state: &State, group: &str, role: Role) -> Vec<Running> {
    let of = state.machines.values().filter(|machine| machine.group == group && machine.app.role == role);
    let running = |m: &Machine| Running {
        pod: m.pod.clone(),
        node: m.node.clone(),
        claim: m.claim.clone(),
        follows: m.app.follows.clone(),
    };
    of.map(running).collect()
}

fn leaders(state: &State, group: &str) -> Vec<Running> {
    running(state, group, Role::Primary)
}

/// There are no more primaries than the group may have (S20 to S23).
pub fn count_primaries(state: &mut State, group: &str, limit: usize) {
    let leaders = leaders(state, group);
    if leaders.len() > limit {
        let names: Vec<_> = leaders.iter().map(|leader| format!("{} on {}", leader.pod, leader.node)).collect();
        state.breaks("S20 S21 S22 S23", format!("{} primaries: {}", leaders.len(), names.join(", ")));
    }
}

/// One client writes. One primary takes it alone; several agree on each write, so each of them has it at once, and while one is not reached none takes any.
fn write(state: &mut State, group: &str, limit: usize) {
    count_primaries(state, group, limit);
    let leaders = leaders(state, group);
    if leaders.is_empty() || leaders.len() > 1 && !leaders.iter().all(|leader| state.is_up(&leader.node)) {
        return;
    }
    let clients = state.clients.entry(group.to_owned()).or_default();
    clients.writes += 1;
    let write = clients.writes;
    clients.open.insert(write);
    for leader in leaders {
        let Some(disk) = state.disks.get_mut(&leader.claim) else { continue };
        if let Some(register) = &mut disk.data {
            register.number += 1;
            disk.holds.insert(write);
        }
    }
}

/// Followers that reach their primary get what it has.
fn replicate(state: &mut State, group: &str) {
    let reached: Vec<Running> = leaders(state, group).into_iter().filter(|leader| state.is_up(&leader.node)).collect();
    for follower in running(state, group, Role::Secondary) {
        let leader = reached.iter().find(|leader| follower.follows.as_deref() == Some(&leader.pod));
        // Some replicate later than others: one in three times nothing arrives.
        if leader.is_none() || !state.is_up(&follower.node) || state.dice_of_clients(3) == 0 {
            continue;
        }
        if let Some(copy) = leader.and_then(|leader| state.disks.get(&leader.claim).cloned()) {
            state.disks.insert(follower.claim, copy);
        }
    }
}

/// A primary that is stopped in an orderly way sends what it has to the followers that it reaches before it ends, as databases do.
pub fn hand_over(state: &mut State, leader: &Machine) {
    if leader.app.role != Role::Primary || !state.is_up(&leader.node) {
        return;
    }
    let Some(copy) = state.disks.get(&leader.claim).cloned() else { return };
    let follows = |m: &&Machine| m.app.role == Role::Secondary && m.app.follows.as_deref() == Some(&leader.pod);
    let reached = state.machines.values().filter(follows).filter(|m| state.is_up(&m.node));
    for claim in reached.map(|m| m.claim.clone()).collect::<Vec<_>>() {
        state.disks.insert(claim, copy.clone());
    }
}

/// What all primaries and their followers have is acknowledged. One that is not reached counts, too: nobody knows whether it will be asked to lead.
fn acknowledge(state: &mut State, group: &str, limit: usize) {
    let leaders = leaders(state, group);
    if leaders.is_empty() || leaders.len() > limit {
        return;
    }
    let led = |f: &Running| leaders.iter().any(|leader| f.follows.as_deref() == Some(&leader.pod));
    let mut all = running(state, group, Role::Secondary);
    all.retain(led);
    let disks: Vec<_> = all.iter().chain(&leaders).filter_map(|running| state.disks.get(&running.claim)).collect();
    let Some(clients) = state.clients.get_mut(group) else { return };
    let everywhere = |write: &u64| disks.iter().all(|disk| disk.holds.contains(*write));
    let done: Vec<u64> = clients.open.iter().copied().filter(everywhere).collect();
    for write in done {
        clients.open.remove(&write);
        clients.promised.insert(write);
    }
}

/// A member leads from now on: it has every acknowledged write.
pub fn leads(state: &mut State, machine: &Machine) {
    let holds = state.disks.get(&machine.claim).map(|disk| disk.holds.clone()).unwrap_or_default();
    let is_alone = leaders(state, &machine.group).is_empty();
    let clients = state.clients.entry(machine.group.clone()).or_default();
    let lost = clients.promised.lacking_in(&holds);
    if is_alone {
        // Nobody acknowledges later what only an old primary had.
        clients.open.retain(|write| holds.contains(*write));
    }
    if lost > 0 {
        let from = state.pods.get(&machine.pod).and_then(ResourceExt::uid).unwrap_or_default();
        state.breaks("S15 S24", format!("{} ({from}) leads without {lost} acknowledged writes", machine.pod));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::app::{App, Register};
    use crate::runner::Tokens;

    pub(crate) fn machine(pod: &str, role: Role, follows: Option<&str>) -> Machine {
        Machine {
            group: "db".into(),
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
    pub(crate) fn world(machines: &[Machine]) -> World {
        let world = World::new(1, 1);
        let mut state = world.lock();
        for (at, machine) in machines.iter().enumerate() {
            let disk = state.disks.entry(machine.claim.clone()).or_default();
            disk.holds = (1..=if at == 0 { 3 } else { 1 }).collect();
            state.machines.insert(format!("uid of {}", machine.pod), machine.clone());
        }
        state.clients.entry("db".into()).or_default().open = (1..=3).collect();
        drop(state);
        world
    }

    #[tokio::test]
    async fn two_primaries_are_seen() {
        let world = world(&[machine("db-0", Role::Primary, None), machine("db-1", Role::Primary, None)]);
        write(&mut world.lock(), "db", 2);
        assert!(world.lock().broken.is_empty(), "two are allowed");
        write(&mut world.lock(), "db", 1);
        assert_eq!(world.lock().broken, ["S20 S21 S22 S23: 2 primaries: db-0 on n0, db-1 on n0"]);
    }

    #[tokio::test]
    async fn a_write_is_acknowledged_once_every_follower_has_it() {
        let follower = machine("db-1", Role::Secondary, Some("db-0"));
        let world = world(&[machine("db-0", Role::Primary, None), follower.clone()]);
        acknowledge(&mut world.lock(), "db", 1);
        assert_eq!(world.lock().clients["db"].promised, Writes::from_iter([1]));
        world.lock().machines.retain(|_, machine| machine.pod == "db-1");
        leads(&mut world.lock(), &follower);
        assert!(world.lock().broken.is_empty(), "it has all that was acknowledged");
        assert_eq!(
            world.lock().clients["db"].open,
            BTreeSet::new(),
            "nobody acknowledges what only the old primary had"
        );
    }

    #[tokio::test]
    async fn a_lost_write_is_seen() {
        let world = world(&[machine("db-0", Role::Primary, None), machine("db-1", Role::Stopped, None)]);
        acknowledge(&mut world.lock(), "db", 1);
        leads(&mut world.lock(), &machine("db-1", Role::Primary, None));
        assert_eq!(world.lock().broken, ["S15 S24: db-1 () leads without 2 acknowledged writes"]);
    }

    #[tokio::test]
    async fn several_primaries_agree_on_each_write() {
        let both = [machine("db-0", Role::Primary, None), machine("db-1", Role::Primary, None)];
        let world = world(&both);
        for machine in &both {
            let register = Register { history: "h".into(), number: 1 };
            world.lock().disks.get_mut(&machine.claim).unwrap().data = Some(register);
        }
        world.lock().clients.entry("db".into()).or_default().writes = 3;
        let has = |machine: &Machine| world.lock().disks[&machine.claim].holds.contains(4);
        write(&mut world.lock(), "db", 2);
        assert!(both.iter().all(has));
        world.lock().set_node("n0", false);
        write(&mut world.lock(), "db", 2);
        assert_eq!(world.lock().clients["db"].writes, 4, "none takes a write while one is not reached");
    }

    #[tokio::test]
    async fn groups_have_clients_of_their_own() {
        let world = world(&[machine("db-0", Role::Primary, None)]);
        let other = Machine { group: "queue".into(), ..machine("queue-0", Role::Primary, None) };
        world.lock().machines.insert("uid of queue-0".into(), other.clone());
        write(&mut world.lock(), "db", 1);
        acknowledge(&mut world.lock(), "db", 1);
        leads(&mut world.lock(), &other);
        assert!(world.lock().broken.is_empty(), "{:?}", world.lock().broken);
    }
}
