//! One life of a group: it forms, faults happen, everything heals, and it has to be well again.
use crate::faults::Fault;
use crate::operator::Operator;
use crate::strikes::heal;
use crate::world::{State, World};
use crate::{clients, controllers, strikes};
use std::collections::BTreeMap;
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_core::policy::Policies;

/// How long faults happen.
const HARD: Duration = Duration::from_secs(240);

/// How long a group may take to be well once everything has healed: three resync intervals.
const HEALING: Duration = Duration::from_secs(180);

/// How often it is looked whether it is.
const LOOK: Duration = Duration::from_secs(15);

/// How long a process goes on that was frozen and no longer leads.
const AFTER_FROST: Duration = Duration::from_secs(3);

/// What came of a life.
#[derive(Debug)]
pub struct Lived {
    /// What broke a promise.
    pub broken: Vec<String>,
    /// Whether the group was well at its end, or asks an administrator about what it cannot know any more.
    pub is_well: bool,
    /// How often each kind of fault happened.
    pub happened: BTreeMap<Fault, u64>,
    /// What happened, one line each.
    pub log: Vec<String>,
}

/// Lives the life of that seed. `policies`: makes the policies of each process.
pub async fn live(seed: u64, group: ReplicaGroup, policies: impl Fn() -> Box<dyn Policies + Send + Sync>) -> Lived {
    let name = group.metadata.name.clone().unwrap_or_default();
    let world = World::new(4, seed);
    draw(&world);
    world.create(group);
    for task in [0, 1, 2] {
        let world = world.clone();
        drop(match task {
            0 => tokio::spawn(controllers::run(world)),
            1 => tokio::spawn(clients::run(world)),
            _ => tokio::spawn(strikes::run(world)),
        });
    }
    let processes = Processes { world: &world, group: &name, seed, policies: &policies };
    processes.run(HARD).await;
    heal(&mut world.lock());
    let mut waited = Duration::ZERO;
    let last = processes.begin();
    while waited < HEALING && !is_well(&world, &name) {
        last.run(&name, LOOK).await;
        waited += LOOK;
    }
    let is_well = is_well(&world, &name) || asks_for_lost_memory(&world, &name);
    let mut state = world.lock();
    for line in last_words(&state, &name) {
        state.say(line);
    }
    Lived {
        broken: std::mem::take(&mut state.clients.broken),
        is_well,
        happened: std::mem::take(&mut state.faults.happened),
        log: std::mem::take(&mut state.log),
    }
}

/// Each life has some kinds of faults and not others: one that hides another one does not hide it always.
fn draw(world: &World) {
    let mut state = world.lock();
    for kind in Fault::ALL {
        if state.dice(3) == 0 {
            state.faults.kinds.insert(kind);
        }
    }
    let kinds = format!("{:?}", state.faults.kinds);
    state.say(kinds);
}

/// What the status of the group says at the end.
fn last_words(state: &State, group: &str) -> Vec<String> {
    let status = state.groups.get(group).and_then(|group| group.status.as_ref());
    let conditions = status.iter().flat_map(|s| &s.conditions);
    let conditions = conditions.map(|c| format!("{} {} {}: {}", c.type_, c.status, c.reason, c.message));
    let waits = status.iter().flat_map(|s| &s.awaiting).map(|wait| format!("waits {}: {}", wait.reason, wait.message));
    let record = status.and_then(|s| s.record.as_ref()).map(|record| format!("record {record}"));
    conditions.chain(waits).chain(record).collect()
}

fn is_well(world: &World, group: &str) -> bool {
    let state = world.lock();
    let status = state.groups.get(group).and_then(|group| group.status.as_ref());
    status.is_some_and(|status| status.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

/// Whether the status, and with it the memory, was removed, and the group asks an administrator about data that nothing else explains (docs/safety.md, S32).
fn asks_for_lost_memory(world: &World, group: &str) -> bool {
    let state = world.lock();
    let status = state.groups.get(group).and_then(|group| group.status.as_ref());
    let asks = |reason: &str| matches!(reason, "NeedsAdoption" | "UnrecordedClaims");
    state.faults.happened.contains_key(&Fault::StatusLost)
        && status.is_some_and(|status| {
            status.conditions.iter().any(|c| c.type_ == "Degraded" && c.status == "True" && asks(&c.reason))
        })
}

/// The processes of the operator, one after the other, and now and then two at once.
struct Processes<'a, P> {
    world: &'a World,
    group: &'a str,
    seed: u64,
    policies: &'a P,
}

impl<P: Fn() -> Box<dyn Policies + Send + Sync>> Processes<'_, P> {
    fn begin(&self) -> Operator {
        Operator::new(self.world, self.seed ^ self.world.passed().as_secs(), (self.policies)())
    }

    async fn run(&self, time: Duration) {
        let until = self.world.passed() + time;
        while let Some(left) = until.checked_sub(self.world.passed()).filter(|left| !left.is_zero()) {
            let (term, frozen) = {
                let mut state = self.world.lock();
                let killed = state.happens(Fault::OperatorKilled, 1);
                let frozen = state.happens(Fault::OperatorFrozen, 2).then(|| Duration::from_secs(20 + state.dice(60)));
                let seconds = if killed || frozen.is_some() { 5 + state.dice(40) } else { 3_600 };
                (Duration::from_secs(seconds).min(left), frozen)
            };
            let operator = self.begin();
            let (process, group) = (operator.process.clone(), self.group.to_owned());
            let task = tokio::spawn(async move { operator.run(&group, Duration::from_secs(86_400)).await });
            // In the middle of whatever it does.
            tokio::time::sleep(term).await;
            match frozen {
                // It goes on for a moment when it wakes, beside the next one: until it sees that its Lease is gone.
                Some(time) => {
                    process.freeze(time);
                    self.world.lock().say("the operator is frozen");
                    drop(tokio::spawn(async move {
                        tokio::time::sleep(time + AFTER_FROST).await;
                        process.kill();
                        task.abort();
                    }));
                }
                None => {
                    process.kill();
                    task.abort();
                }
            }
        }
    }
}
