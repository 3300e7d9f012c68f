//! Every point at which a process of the operator may end or stand still: before and after each request and each execution of a story. Another process takes
//! over, and the story has to end as it does without that.
use crate::operator::{Operator, Process, Stop};
use crate::stale::{Stale, Watched};
use crate::transcript::Transcript;
use crate::world::{State, World};
use crate::{clients, controllers, life};
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_core::contract::Role;
use tanist_core::over::role_word;
use tanist_core::policy::Policies;

/// Something that happens in a story.
pub type Event = fn(&mut State);

/// What happens to some groups, and when.
#[derive(Debug, Clone)]
pub struct Story {
    /// What users would call it.
    pub name: &'static str,
    /// The groups that are created when the story begins.
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
    /// The same with all that the operator asked for, and how it ended.
    pub transcript: Vec<String>,
}

/// What goes wrong in a story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// No process is stopped, and the watches show every change.
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

/// A resync interval and a moment: in that time each group has a round whatever happens.
const QUIET: Duration = Duration::from_secs(61);

/// How long a story goes on after its last event.
const AFTERWARDS: Duration = Duration::from_secs(20);

/// Plays a story in which that goes wrong.
pub async fn play(story: &Story, policies: impl Fn() -> Box<dyn Policies + Send + Sync>, wrong: Wrong) -> Played {
    let world = World::new(4, 1);
    world.lock().transcript = Some(Transcript::default());
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
    let (points, changes) = (first.points(), watched.changes());
    if life::unwell(&world).is_empty() && !current.is_stopped() {
        decide_again(&world, &current).await;
    }
    let unwell = life::unwell(&world);
    let words = life::all_last_words(&world);
    let mut state = world.lock();
    let transcript = state.transcript.take().unwrap_or_default();
    let transcript = transcript.lines().into_iter().chain(last_lines(&state)).collect();
    words.into_iter().for_each(|line| state.say(line));
    Played {
        points,
        stopped,
        changes,
        broken: std::mem::take(&mut state.broken),
        unwell,
        log: std::mem::take(&mut state.log),
        transcript,
    }
}

/// Once nothing was asked for in a whole resync interval, one more round of each group asks for nothing either (invariant 8 of host/README.md; S44).
async fn decide_again(world: &World, process: &Process) {
    world.lock().is_at_rest = true;
    let end = world.passed() + life::SETTLING;
    loop {
        world.lock().oracles.rest();
        tokio::time::sleep(QUIET).await;
        if world.lock().oracles.stirred().is_empty() || world.passed() >= end {
            break;
        }
    }
    let before = process.points();
    {
        let mut state = world.lock();
        state.oracles.rest();
        state.tell();
    }
    // Watches that are silent show nothing: then the interval starts it.
    tokio::time::sleep(QUIET).await;
    let mut state = world.lock();
    let stirred: Vec<_> = state.oracles.stirred().into_keys().collect();
    if !stirred.is_empty() {
        state.breaks("S44", format!("deciding again: {}", stirred.join(", ")));
    }
    if process.points() == before {
        state.breaks("S44", "deciding again: no round was played");
    }
}

/// What is at the end, in truth and as the groups say it.
fn last_lines(state: &State) -> Vec<String> {
    let mut lines = vec!["at the end".to_owned()];
    for (name, group) in &state.groups {
        for ordinal in 0..group.spec.replicas {
            let pod = format!("{name}-{ordinal}");
            let line = state.machine(&pod).map_or_else(
                || format!("{pod} does not run"),
                |machine| match (&machine.app.follows, machine.app.role) {
                    (Some(peer), Role::Secondary) => format!("{pod} is secondary of {peer} on {}", machine.node),
                    (_, role) => format!("{pod} is {} on {}", role_word(role), machine.node),
                },
            );
            lines.push(line);
        }
        lines.extend(life::standing(state, name));
    }
    lines.push(match state.broken.as_slice() {
        [] => "decide again: nothing".to_owned(),
        broken => format!("broken: {}", broken.join("; ")),
    });
    let indent = |(number, line): (usize, String)| if number == 0 { line } else { format!("         {line}") };
    lines.into_iter().enumerate().map(indent).collect()
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
