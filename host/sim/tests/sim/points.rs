//! Stories in which the operator is killed, or stands still, at every point: before and after each request and each execution.
use super::number;
use super::stories::{stories, told};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;
use tanist_sim::operator::Stop;
use tanist_sim::points::{Played, Wrong};
use tanist_sim::stale::Stale;

/// Long enough for another process to take over and to begin commands.
const FROZEN: Duration = Duration::from_secs(40);

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
