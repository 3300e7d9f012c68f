//! One life of some groups: they form, faults happen, everything heals, and all have to be well again.
mod drawn;

pub use drawn::{Drawn, agrees, groups, makes_pods, pods_by_operator, registers};

use crate::agree;
use crate::faults::Fault;
use crate::operator::{AFTER_FROST, Operator};
use crate::oracles::whole;
use crate::strikes::{heal, nodes, users};
use crate::world::{State, World};
use crate::{clients, controllers, strikes};
use drawn::replication;
use kube::ResourceExt;
use serde_json::Value;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_api::spec::Primaries;
use tanist_core::policy::Policies;

/// How long faults happen in the life of that seed. Most troubles need few faults, and many short lives have more of them than few long ones; but some need
/// many, and time. `agrees`: members of a group agree, which become members one after the other, and go so.
fn faults_last(seed: u64, agrees: bool) -> Duration {
    // A prime: the other differences between lives are by 3 and 4.
    Duration::from_secs(match (seed % 19, agrees) {
        (0, false) | (1..=5, true) => 240,
        (0, true) => 480,
        (1..=5, false) => 60,
        (_, false) => 24,
        (_, true) => 90,
    })
}

/// How long a group may take to be well once everything has healed: three resync intervals.
pub const HEALING: Duration = Duration::from_secs(180);

/// The longest pause after failures: a command that failed just when everything healed is tried again that much later (seed 51014566).
const PAUSE: Duration = Duration::from_secs(300);

/// How often it is looked whether it is.
const LOOK: Duration = Duration::from_secs(5);

/// How often it is looked whether a group that is not well asks an administrator.
const LOOKS: u32 = 4;

/// How long a group that is well may still do something: the longest back-off, and the last resort for a command of unknown outcome.
pub const SETTLING: Duration = Duration::from_secs(1_500);

/// How long a group is then left alone (docs/safety.md, S44).
const STEADY: Duration = Duration::from_secs(3_600);

/// One life in so many has a steady hour, and another one is lived twice. It divides none of the numbers by which lives differ.
pub const ONE_IN: u64 = 97;

/// Whether the life of that seed ends with a steady hour.
#[must_use]
pub fn has_steady_hour(seed: u64) -> bool {
    seed % ONE_IN == 11
}

/// What came of a life.
#[derive(Debug, Default)]
pub struct Lived {
    /// What broke a promise, each with its rows of docs/safety.md before a colon.
    pub broken: Vec<String>,
    /// The groups that were not well at its end, and do not ask an administrator about what they cannot know any more.
    pub unwell: Vec<String>,
    /// How often each kind of fault happened.
    pub happened: BTreeMap<Fault, u64>,
    /// What happened, one line each.
    pub log: Vec<String>,
    /// A hash of the whole life: everything that was said and written, and when.
    pub digest: u64,
    /// Whether it had a steady hour.
    pub is_steady: bool,
}

impl Lived {
    /// The rows that the first broken promise names; or that a group did not become well (S44). `None`: the life went well.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let rows = |broken: &String| broken.split(':').next().unwrap_or_default().to_owned();
        let unwell = || (!self.unwell.is_empty()).then(|| "S44".to_owned());
        self.broken.first().map(rows).or_else(unwell)
    }

    /// The failure in one line. `None`: the life went well.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let first = self.broken.first().map(|broken| broken.lines().next().unwrap_or_default().to_owned());
        let unwell =
            || (!self.unwell.is_empty()).then(|| format!("S44: not well at the end: {}", self.unwell.join(", ")));
        first.or_else(unwell)
    }
}

/// Lives the life of that seed. `policies`: makes the policies of each process.
pub async fn live(seed: u64, policies: impl Fn() -> Box<dyn Policies + Send + Sync>) -> Lived {
    live_with(seed, &Drawn::of(seed), policies).await
}

/// The same with other faults.
pub async fn live_with(seed: u64, drawn: &Drawn, policies: impl Fn() -> Box<dyn Policies + Send + Sync>) -> Lived {
    let world = World::new(4, seed);
    groups(seed).into_iter().for_each(|group| world.create(group));
    {
        let mut state = world.lock();
        state.clients.entry("db".to_owned()).or_default().replication = replication(seed);
        state.say(format!("these may happen: {:?}", drawn.kinds));
        (state.faults.kinds, state.faults.spared) = (drawn.kinds.clone(), drawn.spared.clone());
    }
    live_in(&world, seed, has_steady_hour(seed), policies).await
}

/// Lives the life of that seed in a world that has its groups and its kinds of faults. `rests`: whether a steady hour follows when all are well.
pub async fn live_in(
    world: &World,
    seed: u64,
    rests: bool,
    policies: impl Fn() -> Box<dyn Policies + Send + Sync>,
) -> Lived {
    for task in [0, 1, 2] {
        let world = world.clone();
        drop(match task {
            0 => tokio::spawn(controllers::run(world)),
            1 => tokio::spawn(clients::run(world)),
            _ => tokio::spawn(strikes::run(world)),
        });
    }
    let processes = Processes { world, seed, count: Cell::new(0), policies: &policies };
    let agrees = !world.lock().agreements.is_empty();
    processes.run(faults_last(seed, agrees)).await;
    heal(&mut world.lock());
    let last = processes.begin();
    let process = last.process.clone();
    // Nobody starts its rounds but changes and itself.
    drop(tokio::spawn(async move { last.run_all(Duration::from_secs(86_400)).await }));
    if !world.lock().away.is_empty() {
        go_on_without(world).await;
        nodes::return_all(&mut world.lock());
    }
    wait_until(world, |world| unwell(world).is_empty()).await;
    let mut unwell = unwell(world);
    let is_steady = rests && unwell.is_empty();
    if is_steady {
        rest(world).await;
    }
    // A group that asks reads the data of its members again now and then, and says only that meanwhile (seed 80575285).
    for _ in 0..LOOKS {
        unwell.retain(|group| !asks(world, group));
        if unwell.is_empty() {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    process.kill();
    let words = all_last_words(world);
    let mut state = world.lock();
    words.into_iter().for_each(|line| state.say(line));
    Lived {
        broken: std::mem::take(&mut state.broken),
        unwell,
        happened: std::mem::take(&mut state.faults.happened),
        digest: state.digest(),
        log: std::mem::take(&mut state.log),
        is_steady,
    }
}

/// Waits until that holds, but not longer than healing may take. Whether it holds.
async fn wait_until(world: &World, holds: impl Fn(&World) -> bool) -> bool {
    let mut waited = Duration::ZERO;
    // Where members agree they are changed one by one, users empty volumes, and then pods are replaced, one after the other; each takes its time.
    let times = if world.lock().agreements.is_empty() { 1 } else { 4 };
    let limit = |world: &World| HEALING * times + if rests(world) { PAUSE } else { Duration::ZERO };
    while waited < limit(world) && !holds(world) {
        users::renew(&mut world.lock());
        users::try_again(&mut world.lock());
        users::correct_versions(&mut world.lock());
        agree::administer(&mut world.lock());
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
    }
    holds(world)
}

/// Whether some member rests after a failure.
fn rests(world: &World) -> bool {
    let state = world.lock();
    let records = state.groups.values().filter_map(|group| group.status.as_ref()?.record.as_ref());
    let mut members =
        records.filter_map(|record| record.get("members")?.as_object()).flat_map(|members| members.values());
    members.any(|member| member.get("retryAt").and_then(Value::as_i64).is_some_and(|at| at > state.now))
}

/// While nodes stay away and everything else has healed, the other members are used (S20, S44).
async fn go_on_without(world: &World) {
    let in_vain = |world: &World| {
        let names: Vec<String> = world.lock().groups.keys().cloned().collect();
        let silent: Vec<String> = names.into_iter().filter(|name| !asks(world, name)).collect();
        let state = world.lock();
        let groups = silent.iter().filter_map(|name| state.groups.get(name));
        groups.flat_map(|group| whole::waits_in_vain(&state, group)).collect::<Vec<_>>()
    };
    if !wait_until(world, |world| in_vain(world).is_empty()).await {
        let what = in_vain(world).join(", ");
        let words = all_last_words(world);
        let mut state = world.lock();
        words.into_iter().for_each(|line| state.say(line));
        state.breaks("S20 S44", format!("while a node stays away: {what}"));
    }
}

/// Groups that are well are left alone (S44).
async fn rest(world: &World) {
    world.lock().is_at_rest = true;
    tokio::time::sleep(SETTLING).await;
    world.lock().oracles.rest();
    tokio::time::sleep(STEADY).await;
    let mut state = world.lock();
    let stirred = state.oracles.stirred();
    if !stirred.is_empty() {
        let words: Vec<_> = stirred.iter().map(|(what, times)| format!("{what} {times} times")).collect();
        state.breaks("S44", format!("in a steady hour: {}", words.join(", ")));
    }
}

/// What the status of each group says at the end.
#[must_use]
pub fn all_last_words(world: &World) -> Vec<String> {
    let state = world.lock();
    let of =
        |name: &String| last_words(&state, name).into_iter().map(|line| format!("{name}: {line}")).collect::<Vec<_>>();
    state.groups.keys().flat_map(of).collect()
}

fn last_words(state: &State, group: &str) -> Vec<String> {
    let status = state.groups.get(group).and_then(|group| group.status.as_ref());
    let record = status.and_then(|s| s.record.as_ref()).map(|record| format!("record {record}"));
    standing(state, group).into_iter().chain(record).collect()
}

/// The conditions of a group, and what it waits for.
#[must_use]
pub fn standing(state: &State, group: &str) -> Vec<String> {
    let status = state.groups.get(group).and_then(|group| group.status.as_ref());
    let conditions = status.iter().flat_map(|s| &s.conditions);
    let conditions = conditions.map(|c| format!("{} {} {}: {}", c.type_, c.status, c.reason, c.message));
    let waits = status.iter().flat_map(|s| &s.awaiting).map(|wait| format!("waits {}: {}", wait.reason, wait.message));
    let lacks = state.groups.get(group).filter(|group| says_ready(group)).map(|group| whole::lacks(state, group));
    let lacks = lacks.into_iter().flatten().map(|why| format!("says that it is Ready, and {why}"));
    conditions.chain(waits).chain(lacks).collect()
}

fn says_ready(group: &ReplicaGroup) -> bool {
    let mut conditions = group.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|c| c.type_ == "Ready" && c.status == "True")
}

/// Whether the operator is not done with replacing the group's pods.
fn is_updating(group: &ReplicaGroup) -> bool {
    let mut waits = group.status.iter().flat_map(|status| &status.awaiting);
    waits.any(|wait| wait.reason == "Updating")
}

/// The groups that are not Ready or updated, or say so and are not whole in truth.
#[must_use]
pub fn unwell(world: &World) -> Vec<String> {
    let state = world.lock();
    let is_well =
        |group: &ReplicaGroup| says_ready(group) && !is_updating(group) && whole::lacks(&state, group).is_empty();
    state.groups.values().filter(|group| !is_well(group)).map(ResourceExt::name_any).collect()
}

/// Whether the group asks an administrator about what it cannot know any more: the status, and with it the memory, was removed, or went with a group that was deleted
/// (docs/safety.md, S7, S32), also together with what a claim says of the member that leads, or was to say; one of several primaries lost its volume just before the others ended
/// (S16), or a user started a primary on a volume that was replaced; one of several was started, never confirmed, and has data that no other one has; a user started a primary on data of an older term, and the one that led
/// is gone; the member with the most recent data is not desired any more; or one stood still while the lead was to move to it, which is tried once (seed 39452153).
fn asks(world: &World, group: &str) -> bool {
    let state = world.lock();
    let Some(object) = state.groups.get(group) else { return false };
    let mut conditions = object.status.iter().flat_map(|status| &status.conditions);
    let Some(asks) = conditions.find(|c| c.type_ == "Degraded" && c.status == "True") else { return false };
    let happened = |fault| state.faults.happened.contains_key(&fault);
    let forgot = happened(Fault::StatusLost) || happened(Fault::GroupRecreated);
    let has_several = object.spec.primaries != Primaries::Count(1) || happened(Fault::PrimariesChanged);
    let lost = happened(Fault::VolumeLost) || happened(Fault::VolumeRestored);
    // Who the members are says no list before a majority runs, and without the memory nobody knows whom that needs (docs/decisions/0038-membership.md, "Cost").
    if forgot
        && matches!(asks.reason.as_str(), "NoPrimary" | "MemberFailed" | "ResizeOverdue")
        && agree::memory_is_outdated(&state, group)
    {
        return true;
    }
    match asks.reason.as_str() {
        "NeedsAdoption" => forgot,
        "UnrecordedClaims" => forgot || happened(Fault::Resized) && asks.message.contains("it is no member now"),
        "ClaimChanged" => forgot || lost && (has_several || happened(Fault::PrimaryByHand)),
        "BelowHighWater" => happened(Fault::Resized) && asks.message.contains("and is not a desired member"),
        // An update gets on as little as anything else.
        "NoPrimary" | "UpdateStuck" => {
            let mut waits = object.status.iter().flat_map(|status| &status.awaiting);
            // What a claim says that led is believed until it is stopped, also if it follows by now.
            let unknown = ["may be primary: its role is primary", "may still run in its pod: its role is secondary"];
            let is_unknown =
                waits.any(|w| w.reason == "MayBePrimary" && unknown.iter().any(|unknown| w.message.ends_with(unknown)));
            is_unknown
                && (forgot && (happened(Fault::ClaimUnmarked) || happened(Fault::WriteRefused) || state.unnoted)
                    || happened(Fault::PrimaryByHand))
        }
        "SwitchoverFailed" => happened(Fault::MemberFrozen),
        "NoCandidate" => {
            has_several && asks.message.contains("a start on it was never confirmed")
                || happened(Fault::Resized) && asks.message.contains("and is not a desired member")
        }
        _ => false,
    }
}

/// The processes of the operator, one after the other, and now and then two at once.
struct Processes<'a, P> {
    world: &'a World,
    seed: u64,
    /// How many processes there were. Each has other dice, and so other tokens.
    count: Cell<u64>,
    policies: &'a P,
}

impl<P: Fn() -> Box<dyn Policies + Send + Sync>> Processes<'_, P> {
    fn begin(&self) -> Operator {
        self.count.set(self.count.get() + 1);
        Operator::new(self.world, self.seed ^ (self.count.get() << 32), (self.policies)())
    }

    /// Another process works for a while, which nobody stops.
    fn begin_beside(&self) {
        let other = self.begin();
        let time = Duration::from_secs(20 + self.world.lock().roll(Fault::OperatorTwice, 60));
        self.world.lock().say("another process works beside it");
        drop(tokio::spawn(async move { other.run_all(time).await }));
    }

    async fn run(&self, time: Duration) {
        let until = self.world.passed() + time;
        while let Some(left) = until.checked_sub(self.world.passed()).filter(|left| !left.is_zero()) {
            let (term, frozen) = {
                let mut state = self.world.lock();
                let killed = state.happens(Fault::OperatorKilled, 1);
                let frozen = state.happens(Fault::OperatorFrozen, 2);
                let frozen = frozen.then(|| Duration::from_secs(20 + state.roll(Fault::OperatorFrozen, 60)));
                let seconds = match frozen {
                    Some(_) => 5 + state.roll(Fault::OperatorFrozen, 40),
                    None if killed => 5 + state.roll(Fault::OperatorKilled, 40),
                    None => 3_600,
                };
                (Duration::from_secs(seconds).min(left), frozen)
            };
            let operator = self.begin();
            if self.world.lock().happens(Fault::OperatorTwice, 4) {
                self.begin_beside();
            }
            let process = operator.process.clone();
            let task = tokio::spawn(async move { operator.run_all(Duration::from_secs(86_400)).await });
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
