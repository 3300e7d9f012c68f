//! Clients that write, and what must not be lost: every write that was acknowledged. A write is acknowledged once every primary has it, and every secondary that
//! a command told to follow one of them; a primary that is alone acknowledges alone. An application that replicates asynchronously acknowledges at once: then a
//! takeover may lose what only the lost primary had ([`Replication`]).
use crate::agree;
use crate::app::Writes;
use crate::controllers::claim_of;
use crate::oracles::routes;
use crate::world::{Machine, State, World};
use kube::ResourceExt;
use std::collections::BTreeSet;
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_api::spec::Primaries;
use tanist_core::contract::Role;
use tanist_core::record::Verb;

/// How often a client writes, and how long followers are behind at most.
const EVERY: Duration = Duration::from_millis(400);

/// The same while a group is at rest: nothing can be lost then.
const SELDOM: Duration = Duration::from_secs(20);

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replication {
    /// Once each primary and each of its followers has it.
    #[default]
    Synchronous,
    /// Once the primary has it. Followers get it later.
    Asynchronous,
}

/// What the clients of a group know.
#[derive(Debug, Default)]
pub struct Clients {
    /// When its application acknowledges a write.
    pub replication: Replication,
    /// Writes that were acknowledged to clients, so none of them may be lost.
    pub promised: Writes,
    /// Writes that a primary has and did not acknowledge yet.
    pub open: BTreeSet<u64>,
    /// The number of the last write.
    pub writes: u64,
    /// How many primaries there may be besides what the group asks for now: see [`allow`].
    pub allowed: usize,
    /// Whether a volume has writes that a primary which a user started by hand lacked: a later seed may choose either of the two, and the other's writes are the user's loss.
    pub is_forked: bool,
}

/// Writes and replicates for ever.
pub async fn run(world: World) {
    loop {
        let pause = if world.lock().is_at_rest { SELDOM } else { EVERY };
        tokio::time::sleep(pause).await;
        let mut state = world.lock();
        routes::see_roles(&mut state);
        let groups: Vec<String> = state.groups.keys().cloned().collect();
        for group in groups {
            if state.agreements.contains_key(&group) {
                agree::write(&mut state, &group);
                continue;
            }
            forget_allowed(&mut state, &group);
            end_fork(&mut state, &group);
            accept_by_hand(&mut state, &group);
            let limit = limit(&state, &group);
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

/// How many primaries a group may have now: as many as it asks for, or as it asked for when those that lead, or are about to, were told to.
#[must_use]
pub fn limit(state: &State, group: &str) -> usize {
    let asked = state.groups.get(group).map_or(usize::MAX, |group| primaries(group));
    asked.max(state.clients.get(group).map_or(0, |clients| clients.allowed))
}

/// The group is about to ask for another number of primaries. Those that it has stay until they are stopped one by one.
pub fn allow(state: &mut State, group: &str) {
    let limit = limit(state, group);
    state.clients.entry(group.to_owned()).or_default().allowed = limit;
}

/// Once a group has no more primaries than it asks for, and none is about to lead, it may have no more again.
fn forget_allowed(state: &mut State, group: &str) {
    if state.clients.get(group).is_none_or(|clients| clients.allowed == 0) {
        return;
    }
    let is_about_to = |m: &Machine| m.busy.as_deref().is_some_and(Verb::token_makes_primary);
    let asked = state.groups.get(group).map_or(usize::MAX, |group| primaries(group));
    let status = state.groups.get(group).and_then(|group| group.status.as_ref());
    let intents = status.and_then(|status| status.record.as_ref()?.get("intents")?.as_array());
    let tokens = intents.into_iter().flatten().filter_map(|intent| intent.get("token")?.as_str());
    let some_open = tokens.into_iter().any(Verb::token_makes_primary);
    let some_run = state.machines.values().any(|m| m.group == group && is_about_to(m));
    if !some_open && !some_run && leaders(state, group).len() <= asked {
        state.clients.entry(group.to_owned()).or_default().allowed = 0;
    }
}

/// A primary that a user started by hand is the group's primary once no other one runs: nobody can tell it from one that a command started. What it lacks is the
/// user's loss.
pub fn accept_by_hand(state: &mut State, group: &str) {
    let is_one = |m: &Machine| m.group == group && m.app.by_hand && m.ending.is_none();
    if !leaders(state, group).is_empty() {
        return;
    }
    let Some((uid, machine)) = state.machines.iter().find(|(_, m)| is_one(m)).map(|(uid, m)| (uid.clone(), m.clone()))
    else {
        return;
    };
    let holds = state.disks.get(&machine.claim).map(|disk| disk.holds.clone()).unwrap_or_default();
    let clients = state.clients.entry(group.to_owned()).or_default();
    clients.is_forked = true;
    clients.promised.keep(&holds);
    clients.open.retain(|write| holds.contains(*write));
    state.machines.entry(uid).and_modify(|machine| machine.app.by_hand = false);
    state.say(format!("{}, which a user started by hand, leads alone", machine.pod));
}

/// A fork is over once no volume of the group, and no backup of one, has what the primary lacks.
fn end_fork(state: &mut State, group: &str) {
    if !state.clients.get(group).is_some_and(|clients| clients.is_forked) {
        return;
    }
    let leaders = leaders(state, group);
    let Some(holds) = leaders.first().and_then(|leader| state.disks.get(&leader.claim)).map(|disk| &disk.holds) else {
        return;
    };
    let of_group = |claim: &&String| claim.starts_with(&claim_of(&format!("{group}-")));
    let uid = |name: &String| state.claims.get(name).and_then(|claim| claim.uid());
    let kept = state.claims.keys().filter(of_group).filter_map(uid).filter_map(|uid| state.disks.get(&uid));
    let copied = state.copies.iter().filter(|(name, _)| of_group(name)).map(|(_, (disk, _))| disk);
    if kept.chain(copied).all(|disk| disk.holds.lacking_in(holds) == 0) {
        state.clients.entry(group.to_owned()).or_default().is_forked = false;
    }
}

/// An application that clients or followers reach, without what its runner remembers.
#[derive(Debug, Clone)]
struct Running {
    pod: String,
    node: String,
    claim: String,
    follows: Option<String>,
    /// Whether others reach it.
    is_reached: bool,
}

/// The applications of a group that have that role in truth, whether or not anybody sees them. Clients have nothing to do with what a user started by hand.
fn running(state: &State, group: &str, role: Role) -> Vec<Running> {
    let is_meant = |m: &Machine| m.group == group && m.app.role == role && !m.app.by_hand;
    let of = state.machines.iter().filter(|(_, machine)| is_meant(machine));
    let running = |(uid, m): (&String, &Machine)| Running {
        pod: m.pod.clone(),
        node: m.node.clone(),
        claim: m.claim.clone(),
        follows: m.app.follows.clone(),
        is_reached: state.reaches(uid, m),
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

/// One client writes. One primary takes it alone, unless it stands still; several agree on each write, so each of them has it at once, and while one is not reached none takes any.
fn write(state: &mut State, group: &str, limit: usize) {
    count_primaries(state, group, limit);
    let leaders = leaders(state, group);
    // A primary whose node is cut off has clients on that node.
    let stands_still = state
        .machines
        .iter()
        .any(|(uid, m)| m.group == group && m.app.role == Role::Primary && state.stands_still(uid));
    if leaders.is_empty() || stands_still || leaders.len() > 1 && !leaders.iter().all(|leader| leader.is_reached) {
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
    let reached: Vec<Running> = leaders(state, group).into_iter().filter(|leader| leader.is_reached).collect();
    for follower in running(state, group, Role::Secondary) {
        let leader = reached.iter().find(|leader| follower.follows.as_deref() == Some(&leader.pod));
        // Some replicate later than others: one in three times nothing arrives.
        if leader.is_none() || !follower.is_reached || state.dice_of_clients(3) == 0 {
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
    let follows = |m: &Machine| m.app.role == Role::Secondary && m.app.follows.as_deref() == Some(&leader.pod);
    let reached = state.machines.iter().filter(|(uid, m)| follows(m) && state.reaches(uid, m));
    for claim in reached.map(|(_, m)| m.claim.clone()).collect::<Vec<_>>() {
        state.disks.insert(claim, copy.clone());
    }
}

/// What all primaries and their followers have is acknowledged. One that is not reached counts, too: nobody knows whether it will be asked to lead.
fn acknowledge(state: &mut State, group: &str, limit: usize) {
    let leaders = leaders(state, group);
    if leaders.is_empty() || leaders.len() > limit {
        return;
    }
    let waits = state.clients.get(group).is_some_and(|clients| clients.replication == Replication::Synchronous);
    let led = |f: &Running| waits && leaders.iter().any(|leader| f.follows.as_deref() == Some(&leader.pod));
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

/// How many acknowledged writes a member in its role does not have although it has to: a secondary may only lag where nobody waits for it.
#[must_use]
pub fn lacking(state: &State, machine: &Machine) -> u32 {
    let nothing = Writes::default();
    let holds = state.disks.get(&machine.claim).map_or(&nothing, |disk| &disk.holds);
    let Some(clients) = state.clients.get(&machine.group) else { return 0 };
    if state.agreements.contains_key(&machine.group) {
        return 0; // a majority has each write, and the others get it a moment later
    }
    let may_lag = clients.replication == Replication::Asynchronous && machine.app.role == Role::Secondary;
    if may_lag { 0 } else { clients.promised.lacking_in(holds) }
}

/// A member leads from now on: it has every acknowledged write. Where nobody waits for followers, a takeover has at least what every other follower has that is
/// reached.
pub fn leads(state: &mut State, machine: &Machine) {
    let holds = state.disks.get(&machine.claim).map(|disk| disk.holds.clone()).unwrap_or_default();
    let is_alone = leaders(state, &machine.group).is_empty();
    let takes_over =
        machine.busy.as_deref().is_some_and(|token| token.split('-').next() == Some(Verb::Failover.as_str()));
    let clients = state.clients.entry(machine.group.clone()).or_default();
    let lost = clients.promised.lacking_in(&holds);
    if is_alone {
        // Nobody acknowledges later what only an old primary had.
        clients.open.retain(|write| holds.contains(*write));
    }
    if lost == 0 {
        return;
    }
    let is_forked = clients.is_forked;
    let may_lose = takes_over && is_alone && clients.replication == Replication::Asynchronous;
    let ahead = if may_lose { has_more(state, machine, &holds, lost) } else { None };
    if may_lose && ahead.is_none() || is_forked && is_alone {
        state.say(format!("{lost} acknowledged writes are given up"));
        state.clients.entry(machine.group.clone()).or_default().promised.keep(&holds);
        return;
    }
    let than = ahead.map(|other| format!(", which {other} has in part")).unwrap_or_default();
    let from = state.pods.get(&machine.pod).and_then(ResourceExt::uid).unwrap_or_default();
    state.breaks("S15 S24", format!("{} ({from}) leads without {lost} acknowledged writes{than}", machine.pod));
}

/// A secondary that is reached and has some of the acknowledged writes that a member lacks. `holds`: what that member has; `lost`: how many it lacks.
fn has_more(state: &State, machine: &Machine, holds: &Writes, lost: u32) -> Option<String> {
    let promised = &state.clients.get(&machine.group)?.promised;
    let others = running(state, &machine.group, Role::Secondary).into_iter();
    let mut others = others.filter(|other| other.is_reached && other.claim != machine.claim);
    let adds = |other: &Running| {
        let disk = state.disks.get(&other.claim);
        disk.is_some_and(|disk| promised.lacking_in(&holds.joined(&disk.holds)) < lost)
    };
    others.find(adds).map(|other| other.pod)
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
            app: App { role, follows: follows.map(str::to_owned), by_hand: false },
            ending: None,
            is_passive: false,
            programs: 1,
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

    // Nobody waits for followers, so a takeover loses what only the lost primary had, and nothing else does.
    #[tokio::test]
    async fn an_asynchronous_takeover_has_what_the_other_followers_have() {
        let follower = |name: &str| machine(name, Role::Secondary, Some("db-0"));
        let takes_over = |verb: &str| Machine { busy: Some(format!("{verb}-1-a")), ..follower("db-1") };
        let prepare = |reached: bool| {
            let world = world(&[machine("db-0", Role::Primary, None), follower("db-1"), follower("db-2")]);
            let mut state = world.lock();
            state.clients.entry("db".into()).or_default().replication = Replication::Asynchronous;
            acknowledge(&mut state, "db", 1);
            assert_eq!(state.clients["db"].promised, (1..=3).collect());
            state.machines.remove("uid of db-0");
            state.disks.get_mut("claim of db-2").unwrap().holds = (1..=2).collect();
            state.set_node("n0", reached);
            drop(state);
            world
        };
        let (world, alone) = (prepare(true), prepare(false));
        leads(&mut world.lock(), &takes_over("failover"));
        let said = ["S15 S24: db-1 () leads without 2 acknowledged writes, which db-2 has in part"];
        assert_eq!(world.lock().broken, said);
        leads(&mut alone.lock(), &takes_over("failover"));
        assert_eq!(alone.lock().broken, [""; 0]);
        assert_eq!(alone.lock().clients["db"].promised, [1].into_iter().collect(), "the others are given up");
        let seeded = prepare(false);
        leads(&mut seeded.lock(), &takes_over("seed"));
        assert_eq!(seeded.lock().broken, ["S15 S24: db-1 () leads without 2 acknowledged writes"]);
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
