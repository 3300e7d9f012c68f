//! Every point at which a process of the operator may end or stand still: before and after each request and each execution of a story. Another process takes
//! over, and the story has to end as it does without that.
use crate::operator::{Operator, Process, Stop};
use crate::stale::{Stale, Watched};
use crate::world::{State, World};
use crate::{clients, controllers, life};
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_core::policy::Policies;

/// Something that happens in a story.
pub type Event = fn(&mut State);

/// What happens to some groups, and when.
#[derive(Debug, Clone)]
pub struct Story {
    /// What users would call it.
    pub name: &'static str,
    /// The groups.
    pub groups: Vec<ReplicaGroup>,
    /// What happens, and at which second, in this order.
    pub events: Vec<(u64, Event)>,
}

/// How a story went.
#[derive(Debug)]
pub struct Played {
    /// How many points the first process passed.
    pub points: u64,
    /// How many processes were stopped.
    pub stopped: usize,
    /// How many changes its watches had to show.
    pub changes: u64,
    /// What broke a promise.
    pub broken: Vec<String>,
    /// The groups that were not well at the end.
    pub unwell: Vec<String>,
    /// What happened, one line each.
    pub log: Vec<String>,
}

/// What goes wrong in a story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// Nothing.
    Nothing,
    /// The first process is stopped at that point of its life, and each of the next ones at a point of its own, as long as the list goes on.
    Stopped(Vec<(u64, Stop)>),
    /// The watches of the first process show that change wrongly.
    Stale(u64, Stale),
}

/// How long another process waits for the Lease of one that ended or stands still.
const LEASE: Duration = Duration::from_secs(15);

/// How often it is looked how things are.
const LOOK: Duration = Duration::from_secs(1);

/// How long a story goes on after its last event.
const AFTERWARDS: Duration = Duration::from_secs(20);

/// Plays a story in which that goes wrong.
pub async fn play(story: &Story, policies: impl Fn() -> Box<dyn Policies + Send + Sync>, wrong: Wrong) -> Played {
    let world = World::new(4, 1);
    story.groups.iter().for_each(|group| world.create(group.clone()));
    drop(tokio::spawn(controllers::run(world.clone())));
    drop(tokio::spawn(clients::run(world.clone())));
    drop(tokio::spawn(happen(world.clone(), story.events.clone())));
    let (mut stops, stale) = match wrong {
        Wrong::Nothing => (Vec::new(), None),
        Wrong::Stopped(stops) => (stops, None),
        Wrong::Stale(change, stale) => (Vec::new(), Some((change, stale))),
    };
    stops.reverse();
    let (first, watched) = begin(&world, 1, policies(), stops.pop(), stale);
    let end = Duration::from_secs(story.events.last().map_or(0, |(at, _)| *at)) + AFTERWARDS;
    let (mut current, mut begun, mut stopped, mut takes_over) = (first.clone(), 1, 0, None);
    while world.passed() < end || world.passed() < end + life::HEALING && !life::unwell(&world).is_empty() {
        tokio::time::sleep(LOOK).await;
        if current.is_stopped() && takes_over.is_none() {
            world.lock().say("the operator is stopped");
            stopped += 1;
            takes_over = Some(world.passed() + LEASE);
        }
        if takes_over.is_some_and(|at| at <= world.passed()) {
            world.lock().say("another one takes over");
            begun += 1;
            (current, takes_over) = (begin(&world, begun, policies(), stops.pop(), None).0, None);
        }
    }
    let unwell = life::unwell(&world);
    let words = life::all_last_words(&world);
    let mut state = world.lock();
    words.into_iter().for_each(|line| state.say(line));
    Played {
        points: first.points(),
        stopped,
        changes: watched.changes(),
        broken: std::mem::take(&mut state.broken),
        unwell,
        log: std::mem::take(&mut state.log),
    }
}

fn begin(
    world: &World,
    seed: u64,
    policies: Box<dyn Policies + Send + Sync>,
    stop: Option<(u64, Stop)>,
    stale: Option<(u64, Stale)>,
) -> (Process, Watched) {
    let mut operator = Operator::new(world, seed, policies);
    if let Some((point, stop)) = stop {
        operator.process.stop_at(point, stop);
    }
    if let Some((change, stale)) = stale {
        operator = operator.with_stale(change, stale);
    }
    let begun = (operator.process.clone(), operator.watched());
    drop(tokio::spawn(async move { operator.run_all(Duration::from_secs(86_400)).await }));
    begun
}

async fn happen(world: World, events: Vec<(u64, Event)>) {
    for (at, event) in events {
        tokio::time::sleep(Duration::from_secs(at).saturating_sub(world.passed())).await;
        event(&mut world.lock());
    }
}
