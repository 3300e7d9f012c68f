//! Stories in which the operator is killed, or stands still, at every point: before and after each request and each execution.
use super::number;
use super::policies::Natural;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tanist_core::contract::Role;
use tanist_sim::app::group;
use tanist_sim::controllers::delete;
use tanist_sim::operator::Stop;
use tanist_sim::points::{Event, Played, Story, Wrong, play};
use tanist_sim::stale::Stale;
use tanist_sim::strikes::{die, edit, forget, label, lose_volume, restart};
use tanist_sim::world::State;

/// Long enough for another process to take over and to begin commands.
const FROZEN: Duration = Duration::from_secs(40);

fn resize(state: &mut State, replicas: u32) {
    edit(state, "db", "another number of members is asked for", |group| group.spec.replicas = replicas);
}

fn prefer(state: &mut State, member: &str) {
    edit(state, "db", "another member is to lead", |group| group.spec.preferred_primary = Some(member.to_owned()));
}

fn pause(state: &mut State, is_paused: bool) {
    edit(state, "db", "it is paused, or goes on", |group| group.spec.paused = is_paused);
}

/// What happens to a pod, in truth, whatever it is then.
fn each(state: &mut State, what: fn(&mut State, &str)) {
    let pods: Vec<String> = state.pods.keys().cloned().collect();
    pods.iter().for_each(|pod| what(state, pod));
}

/// The pod of a primary, in truth.
fn primary(state: &State) -> String {
    let leads = state.machines.values().filter(|machine| machine.app.role == Role::Primary);
    leads.map(|machine| machine.pod.clone()).max().unwrap_or_default()
}

fn node(state: &mut State, is_up: bool) {
    match is_up {
        true => ["n0", "n1", "n2", "n3"].iter().for_each(|node| state.set_node(node, true)),
        false => {
            let pod = primary(state);
            let node = state.machine(&pod).map(|machine| machine.node.clone()).unwrap_or_default();
            state.set_node(&node, false);
        }
    }
}

fn drain(state: &mut State) {
    let pod = primary(state);
    let node = state.machine(&pod).map(|machine| machine.node.clone()).unwrap_or_default();
    state.cordon(&node, true);
}

fn on_primary(state: &mut State, what: fn(&mut State, &str)) {
    let pod = primary(state);
    what(state, &pod);
}

/// The volume of a primary is lost, if another one has what was acknowledged: of the only copy nothing could come back.
fn lose_a_copy(state: &mut State) {
    let pod = primary(state);
    let promised = state.clients.get("db").map(|clients| clients.promised.clone()).unwrap_or_default();
    let lost = state.machine(&pod).map(|machine| machine.claim.clone()).unwrap_or_default();
    if state
        .disks
        .iter()
        .any(|(claim, disk)| *claim != lost && promised.lacking_in(&disk.holds) == 0 && disk.data.is_some())
    {
        lose_volume(state, &pod);
    }
}

/// The stories. The group forms in the first seconds of each.
fn stories() -> Vec<Story> {
    let one = |replicas| vec![group("db", replicas, 1)];
    let two = |replicas| vec![group("db", replicas, 2)];
    let story = |name: &'static str, groups: Vec<ReplicaGroup>, events: &[(u64, Event)]| Story {
        name,
        groups,
        events: events.to_vec(),
    };
    vec![
        story("a group forms", one(3), &[]),
        story("a group of one forms", one(1), &[]),
        story("two groups form", vec![group("db", 2, 1), group("queue", 2, 1)], &[]),
        story("the primary's application dies", one(3), &[(20, |s| on_primary(s, die))]),
        story("the primary's container starts anew", one(3), &[(20, |s| on_primary(s, restart))]),
        story("the primary's pod is deleted", one(3), &[(20, |s| on_primary(s, delete))]),
        story("the primary's pod is deleted at once", one(3), &[(20, |s| on_primary(s, forget))]),
        story("the primary's volume is lost", one(3), &[(20, lose_a_copy)]),
        story("a follower's pod is deleted", one(3), &[(20, |s| delete(s, "db-2"))]),
        story("a follower's volume is lost", one(3), &[(20, |s| lose_volume(s, "db-1"))]),
        story(
            "the node of the primary is silent and comes back",
            one(3),
            &[(20, |s| node(s, false)), (90, |s| node(s, true))],
        ),
        story("the node of the primary is drained", one(3), &[(20, drain)]),
        story("another member is to lead", one(3), &[(20, |s| prefer(s, "db-2"))]),
        story(
            "the primary dies while another member is to lead",
            one(3),
            &[(20, |s| prefer(s, "db-2")), (21, |s| on_primary(s, die))],
        ),
        story("every application dies at once", one(3), &[(20, |s| each(s, die))]),
        story("every pod is deleted at the same time", one(3), &[(20, |s| each(s, delete))]),
        story(
            "the primary and then the next one are deleted",
            one(3),
            &[(20, |s| on_primary(s, delete)), (23, |s| on_primary(s, delete))],
        ),
        story("a group grows", one(1), &[(20, |s| resize(s, 3))]),
        story("a group gets smaller", one(3), &[(20, |s| resize(s, 2))]),
        story(
            "a group gets smaller while a member that leaves leads",
            one(3),
            &[
                (20, |s| prefer(s, "db-2")),
                (40, |s| {
                    edit(s, "db", "nobody is preferred", |group| group.spec.preferred_primary = None);
                    resize(s, 1);
                }),
            ],
        ),
        story("a group goes to no members and back", one(3), &[(20, |s| resize(s, 0)), (50, |s| resize(s, 3))]),
        story(
            "a paused group loses its primary",
            one(3),
            &[(20, |s| pause(s, true)), (22, |s| on_primary(s, die)), (40, |s| pause(s, false))],
        ),
        story(
            "the status is removed",
            one(3),
            &[(20, |s| edit(s, "db", "its status is removed", |group| group.status = None))],
        ),
        story(
            "the status is removed and the primary dies",
            one(3),
            &[
                (20, |s| edit(s, "db", "its status is removed", |group| group.status = None)),
                (40, |s| on_primary(s, delete)),
            ],
        ),
        story(
            "the primary's pod loses its label",
            one(3),
            &[
                (20, |s| on_primary(s, |state, pod| label(state, pod, false))),
                (40, |s| on_primary(s, |state, pod| label(state, pod, true))),
            ],
        ),
        story("a group with two primaries forms", two(3), &[]),
        story("one of two primaries dies", two(3), &[(20, |s| on_primary(s, die))]),
        story("one of two primaries loses its volume", two(3), &[(20, lose_a_copy)]),
        story("both primaries die", two(3), &[(20, |s| each(s, die))]),
        story(
            "the node of one of two primaries is silent and comes back",
            two(3),
            &[(20, |s| node(s, false)), (90, |s| node(s, true))],
        ),
        story("one of two primaries leaves", two(3), &[(20, |s| die(s, "db-0")), (21, |s| resize(s, 2))]),
    ]
}

fn told(story: &Story, wrong: Wrong) -> Played {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(play(story, || Box::new(Natural), wrong))
}

/// Why the story did not go well.
fn fault(played: &Played) -> Option<String> {
    let went_well = played.broken.is_empty() && played.unwell.is_empty();
    (!went_well).then(|| format!("{:?}, not well: {:?}\n{}", played.broken, played.unwell, played.log.join("\n")))
}

/// `TANIST_SIM_POINTS`: one of so many points is tried (1: all of them); `TANIST_SIM_SEED`: which ones. `TANIST_SIM_POINT=STORY:POINT:kill` repeats one.
#[test]
fn a_story_goes_well_wherever_the_operator_is_stopped() {
    let (stride, first) = (number("TANIST_SIM_POINTS", 397).max(1), number("TANIST_SIM_SEED", 1));
    let chosen = std::env::var("TANIST_SIM_POINT").unwrap_or_default();
    let (mut tried, mut stopped, mut faults) = (0_u64, 0, Vec::new());
    for (index, story) in stories().iter().enumerate() {
        let whole = told(story, Wrong::Nothing);
        assert_eq!(fault(&whole), None, "{} goes well", story.name);
        for point in 1..=whole.points {
            for (word, stop) in [("kill", Stop::Kill), ("freeze", Stop::Freeze(FROZEN))] {
                tried += 1;
                let id = format!("{index}:{point}:{word}");
                let is_chosen = if chosen.is_empty() { (tried + first).is_multiple_of(stride) } else { chosen == id };
                if !is_chosen {
                    continue;
                }
                let played = told(story, Wrong::Stopped(vec![(point, stop)]));
                assert_eq!(played.stopped, 1, "{id}: the process never came to this point");
                stopped += 1;
                if let Some(why) = fault(&played) {
                    faults.push(format!("{}; repeat it: TANIST_SIM_POINT={id}\n{why}", story.name));
                }
            }
        }
    }
    println!("{} stories, {tried} points, {stopped} of them tried", stories().len());
    assert!(faults.is_empty(), "{} of {stopped}:\n{}", faults.len(), faults.join("\n\n"));
    assert!(stopped > 0, "no point was tried");
}

/// The first process is stopped at one point, and the one that took over at another (docs/safety.md, S1).
///
/// `TANIST_SIM_PAIRS`: how many pairs are tried, in stories and at points that `TANIST_SIM_SEED` chooses.
#[test]
fn a_story_goes_well_when_two_operators_are_stopped() {
    let (count, seed) = (number("TANIST_SIM_PAIRS", 60), number("TANIST_SIM_SEED", 1));
    let stories = stories();
    let mut dice = SmallRng::seed_from_u64(seed);
    let (mut both, mut faults) = (0, Vec::new());
    for _ in 0..count {
        let index = dice.random_range(0..stories.len());
        let story = &stories[index];
        let points = told(story, Wrong::Nothing).points;
        // What is left for the second process is less than the whole story.
        let first = dice.random_range(1..=points);
        let second = dice.random_range(1..=40);
        let stop = |freeze: bool| if freeze { Stop::Freeze(FROZEN) } else { Stop::Kill };
        let stops = vec![(first, stop(dice.random())), (second, stop(dice.random()))];
        let played = told(story, Wrong::Stopped(stops.clone()));
        both += usize::from(played.stopped == 2);
        if let Some(why) = fault(&played) {
            faults.push(format!("{}, {stops:?}; repeat it: TANIST_SIM_SEED={seed}\n{why}", story.name));
        }
    }
    println!("{count} pairs of points tried, at {both} of them both were stopped");
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), faults.join("\n\n"));
    assert!(u64::try_from(both).unwrap() * 2 >= count, "only {both} of {count} pairs stopped both");
}

/// How watches show a change. An operator looks at a group again after its resync interval of 60 s, whatever they show.
const PATTERNS: [(&str, Stale); 5] = [
    ("missed", Stale::Missed),
    ("late", Stale::Silent(Duration::from_secs(10))),
    ("silent", Stale::Silent(Duration::from_secs(300))),
    ("twice", Stale::Twice),
    ("old", Stale::Old(FROZEN)),
];

/// Watches are hints: whatever they show, the story ends well (docs/safety.md, S6 and S29).
///
/// `TANIST_SIM_STALE`: one of so many pairs of a change and a pattern is tried (1: all of them). `TANIST_SIM_PAIR=STORY:CHANGE:PATTERN` repeats one.
#[test]
fn a_story_goes_well_however_a_change_is_shown() {
    let (stride, first) = (number("TANIST_SIM_STALE", 61).max(1), number("TANIST_SIM_SEED", 1));
    let chosen = std::env::var("TANIST_SIM_PAIR").unwrap_or_default();
    let (mut pairs, mut tried, mut faults) = (0_u64, 0, Vec::new());
    for (index, story) in stories().iter().enumerate() {
        let whole = told(story, Wrong::Nothing);
        assert!(whole.changes > 0, "{}: the watches showed nothing", story.name);
        for change in 1..=whole.changes {
            for (word, stale) in PATTERNS {
                pairs += 1;
                let id = format!("{index}:{change}:{word}");
                let is_chosen = if chosen.is_empty() { (pairs + first).is_multiple_of(stride) } else { chosen == id };
                if !is_chosen {
                    continue;
                }
                tried += 1;
                if let Some(why) = fault(&told(story, Wrong::Stale(change, stale))) {
                    faults.push(format!("{}; repeat it: TANIST_SIM_PAIR={id}\n{why}", story.name));
                }
            }
        }
    }
    println!("{} stories, {pairs} pairs of a change and a pattern, {tried} of them tried", stories().len());
    assert!(faults.is_empty(), "{} of {tried}:\n{}", faults.len(), faults.join("\n\n"));
    assert!(tried > 0, "no pair was tried");
}
