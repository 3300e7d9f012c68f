//! What a policy costs a group: lives in which it is measured how long no primary served, and what the policy did meanwhile.
//!
//! Two policies that are given the same seeds have the same kinds of faults and the same dice. What they decide differs, and with it what happens next: single
//! lives cannot be compared, many can.
use crate::faults::Fault;
use crate::life::{Drawn, Lived, live_in};
use crate::world::{Machine, State, World};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tanist_api::{LABEL_GROUP, LABEL_ROLE, ReplicaGroup};
use tanist_core::check;
use tanist_core::contract::Role;
use tanist_core::policy::{Answered, Point, Policies, Question, Unanswered};
use tanist_core::record::{Event, Verb};

/// The nodes of a life, as those of the campaign have.
const NODES: u32 = 4;

/// How often it is looked whether a primary serves. Outages are multiples of it.
pub const LOOK: Duration = Duration::from_millis(100);

/// How long a group that begins to want a primary may be without one before that counts: pods have to be made, and their containers to start.
pub const BEGINNING: Duration = Duration::from_secs(30);

/// The group whose lives are measured.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Its object. Its commands are those of [`crate::app::group`].
    pub group: ReplicaGroup,
    /// The kinds of faults in each life. `None`: each life draws its own.
    pub faults: Option<BTreeSet<Fault>>,
}

/// A time without a primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// When it began, from the beginning of the life.
    pub from: Duration,
    /// How long it was.
    pub length: Duration,
}

/// What was measured in a life.
#[derive(Debug, Default)]
pub struct Measured {
    /// For how long the group wanted a primary.
    pub wanted: Duration,
    /// When none served meanwhile, in their order.
    pub outages: Vec<Outage>,
    /// Takeovers that were begun.
    pub failovers: u64,
    /// Switchovers after which another member led.
    pub switchovers: u64,
    /// Answers of the policies that the host dropped, because they name a member that may not be chosen or have another form than they may.
    pub refused: u64,
    /// Questions that a policy failed to answer: it trapped, used up its fuel, or reported a fault.
    pub failed: u64,
    /// What came of the life.
    pub lived: Lived,
}

impl Trial {
    /// Lives the life of that seed. `policies`: makes the policies of each process of the operator.
    pub async fn live(&self, seed: u64, policies: impl Fn() -> Box<dyn Policies + Send + Sync>) -> Measured {
        let world = World::new(NODES, seed);
        world.create(self.group.clone());
        world.lock().faults.kinds = self.faults.clone().unwrap_or_else(|| Drawn::of_registers(seed).kinds);
        let (counts, seen) = (Arc::<Counts>::default(), Known::default());
        drop(tokio::spawn(watch(world.clone(), self.group.name_any(), seen.clone())));
        let counted = || -> Box<dyn Policies + Send + Sync> {
            Box::new(Counted { policies: policies(), counts: counts.clone() })
        };
        let lived = live_in(&world, seed, false, counted).await;
        let mut seen = seen.lock();
        seen.meter.end();
        Measured {
            wanted: seen.meter.wanted,
            outages: std::mem::take(&mut seen.meter.outages),
            failovers: seen.failovers.len() as u64,
            switchovers: seen.switchovers.len() as u64,
            refused: counts.refused.load(Ordering::Relaxed),
            failed: counts.failed.load(Ordering::Relaxed),
            lived,
        }
    }
}

/// What became of the questions to policies.
#[derive(Debug, Default)]
struct Counts {
    refused: AtomicU64,
    failed: AtomicU64,
}

/// Policies whose answers are counted.
struct Counted {
    policies: Box<dyn Policies + Send + Sync>,
    counts: Arc<Counts>,
}

impl Policies for Counted {
    fn has(&self, point: Point) -> bool {
        self.policies.has(point)
    }

    fn are_loaded(&self) -> bool {
        self.policies.are_loaded()
    }

    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        let answer = self.policies.ask(question);
        let count = match &answer {
            Ok(answered) => check::reply(question, &answered.reply).is_err().then_some(&self.counts.refused),
            Err(error) => (!error.is_delay() && !error.is_abstention()).then_some(&self.counts.failed),
        };
        if let Some(count) = count {
            count.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }
}

/// What is seen of a group from outside.
#[derive(Debug, Default)]
struct Seen {
    meter: Meter,
    /// The tokens of takeovers.
    failovers: BTreeSet<String>,
    /// When switchovers ended, and who leads.
    switchovers: BTreeSet<(i64, String)>,
    /// The version of the group that was read last.
    version: Option<String>,
}

/// What is seen, of the task that looks and of the life.
#[derive(Debug, Clone, Default)]
struct Known(Arc<Mutex<Seen>>);

impl Known {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at a group for ever.
async fn watch(world: World, group: String, seen: Known) {
    loop {
        tokio::time::sleep(LOOK).await;
        let now = world.passed();
        let (mut state, mut seen) = (world.lock(), seen.lock());
        let change = seen.meter.note(now, wants(&state, &group), serves(&state, &group));
        match change {
            Some(Change::Begins) => state.say(format!("{group}: no primary serves")),
            Some(Change::Ends(length)) => {
                state.say(format!("{group}: no primary was to be reached for {:.1} s", length.as_secs_f64()));
            }
            None => {}
        }
        seen.read(&state, &group);
    }
}

/// Whether a group wants a primary and can have one: it is not paused, has members, and a node reports on which they could run.
fn wants(state: &State, group: &str) -> bool {
    let is_wanted = |group: &ReplicaGroup| !group.spec.paused && group.spec.replicas > 0;
    state.groups.get(group).is_some_and(|group| is_wanted(group)) && state.nodes.keys().any(|node| state.is_up(node))
}

/// Whether clients reach a primary: it is one in truth, on a node that is reached, and the group's Service leads to its pod.
fn serves(state: &State, group: &str) -> bool {
    let leads = |(uid, machine): (&String, &Machine)| {
        let is_primary = machine.group == group && machine.app.role == Role::Primary && machine.ending.is_none();
        is_primary && state.is_up(&machine.node) && state.pods.get(&machine.pod).is_some_and(|pod| routed(pod, uid))
    };
    state.machines.iter().any(leads)
}

/// Whether the Service of primaries leads to a pod, and it is the one of that UID.
fn routed(pod: &Pod, uid: &str) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_ready = conditions.any(|c| c.type_ == "Ready" && c.status == "True");
    let is_primary = pod.labels().get(LABEL_ROLE).is_some_and(|role| role == "primary");
    let is_there = pod.metadata.uid.as_deref() == Some(uid) && pod.metadata.deletion_timestamp.is_none();
    is_there && is_ready && is_primary && pod.labels().contains_key(LABEL_GROUP)
}

impl Seen {
    /// Notes the takeovers and switchovers of the group's record, if it was written since the last look.
    fn read(&mut self, state: &State, group: &str) {
        let Some(object) = state.groups.get(group).filter(|group| group.metadata.resource_version != self.version)
        else {
            return;
        };
        self.version.clone_from(&object.metadata.resource_version);
        let record = object.status.as_ref().and_then(|status| status.record.as_ref());
        let list = |name: &str| record.and_then(|record| record.get(name)?.as_array()).into_iter().flatten();
        let text = |entry: &Value, name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let takeovers = list("intents").filter(|intent| text(intent, "verb") == Verb::Failover.as_str());
        self.failovers.extend(takeovers.map(|intent| text(intent, "token")));
        let ended = list("history").filter(|entry| Event::SwitchedOver.is(&text(entry, "what")));
        let when = |entry: &Value| entry.get("at").and_then(Value::as_i64).unwrap_or_default();
        self.switchovers.extend(ended.map(|entry| (when(entry), text(entry, "member"))));
    }
}

/// What changed with a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// An outage begins.
    Begins,
    /// An outage of that length ends.
    Ends(Duration),
}

/// Adds up the time without a primary.
#[derive(Debug, Default)]
struct Meter {
    wanted: Duration,
    outages: Vec<Outage>,
    open: Option<Outage>,
    is_wanted: bool,
    /// Since when the group wants a primary, until one has served or that time is over.
    begins: Option<Duration>,
}

impl Meter {
    /// Notes what holds at a look. It stands for the time until the next one.
    fn note(&mut self, now: Duration, wants: bool, serves: bool) -> Option<Change> {
        if wants && !self.is_wanted {
            self.begins = Some(now);
        }
        self.is_wanted = wants;
        if serves {
            self.begins = None;
        }
        let is_beginning = self.begins.is_some_and(|since| now.saturating_sub(since) < BEGINNING);
        if wants && !is_beginning {
            self.wanted += LOOK;
        }
        if !wants || serves || is_beginning {
            return self.end();
        }
        let change = self.open.is_none().then_some(Change::Begins);
        self.open.get_or_insert(Outage { from: now, length: Duration::ZERO }).length += LOOK;
        change
    }

    /// Ends an outage.
    fn end(&mut self) -> Option<Change> {
        let outage = self.open.take()?;
        self.outages.push(outage);
        Some(Change::Ends(outage.length))
    }
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
