//! Lives of groups under the shipped round with faults of every kind: no promise is broken, and every group is well once everything has healed.
use super::lives::{Lives, live_all, lived, threads_here};
use super::number;
use super::sums::Sums;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;
use tanist_api::spec::Primaries;
use tanist_sim::faults::Fault;
use tanist_sim::life::{Drawn, agrees, groups};

/// The lives of each commit when nothing else is asked for.
const USUAL: u64 = 2_000;

/// Lives of a night between two notes of how far it is.
const PIECE: u64 = 20_000;

/// The first seed: that of the environment, or one that the commit determines, so that each commit has lives of its own and a failure can be repeated.
fn first_seed() -> u64 {
    let of_commit = || {
        let git = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(env!("CARGO_MANIFEST_DIR")).output();
        let text = git.ok().filter(|git| git.status.success())?.stdout;
        seed_of(std::str::from_utf8(&text).ok()?)
    };
    number("TANIST_SIM_SEED", of_commit().unwrap_or(1))
}

/// The first seed of a commit.
fn seed_of(commit: &str) -> Option<u64> {
    u64::from_str_radix(commit.get(..7)?, 16).ok()
}

#[test]
fn each_commit_has_seeds_of_its_own() {
    assert_eq!(seed_of("5998f37c0ffee0000000000000000000000000aa\n"), Some(0x599_8f37));
    assert_ne!(seed_of("5998f38"), seed_of("5998f37"));
    assert_eq!(seed_of("fatal:"), None);
}

fn path(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Lives so many lives, says what came of them, and fails if one failed.
fn campaign(first: u64, count: u64) -> Sums {
    let began = Instant::now();
    let failures = usize::try_from(number("TANIST_SIM_FAILURES", 3)).unwrap();
    let Lives { mut sums, failed } = live_all(first, count, failures);
    sums.seconds = began.elapsed().as_secs_f64();
    sums.failed = failed.keys().copied().collect();
    let (speed, median, most) = (sums.seeds as f64 / sums.seconds, sums.faults(50), sums.faults(99));
    println!(
        "{} seeds from {first} in {:.1} s, {speed:.0} a second; {} lived twice, {} with a steady hour; median of {median} faults, 99 of 100 have at most \
         {most}; of each kind: {:?}",
        sums.seeds, sums.seconds, sums.twice, sums.steady, sums.happened
    );
    if !failed.is_empty() {
        println!("{}", failed.into_values().collect::<Vec<_>>().join("\n\n"));
    }
    sums
}

// `TANIST_SIM_SEEDS`: how many lives; `TANIST_SIM_SEED`: the first one; `TANIST_SIM_FAILURES`: after how many failures it ends; `TANIST_SIM_JSON`: where the
// figures go; `TANIST_SIM_SHRINK=1`: failures are told with the faults that they need.
#[test]
fn no_promise_is_broken_and_every_group_heals() {
    let (first, count) = (first_seed(), number("TANIST_SIM_SEEDS", USUAL));
    let sums = campaign(first, count);
    if let Some(path) = path("TANIST_SIM_JSON") {
        sums.write(first, threads_here(), &path);
    }
    assert!(sums.failed.is_empty(), "these seeds failed: {:?}", sums.failed);
    assert!(sums.missing().is_empty(), "{:?}", sums.missing());
}

// `TANIST_SIM_NIGHT`: the file that remembers how far it is; whoever starts it again goes on from there. A file `stop` beside it ends it after the present piece.
#[test]
#[ignore = "it takes hours: make night"]
fn a_night_of_lives() {
    let file = path("TANIST_SIM_NIGHT").expect("TANIST_SIM_NIGHT names the file that remembers how far it is");
    let (stop, count) = (file.with_file_name("stop"), number("TANIST_SIM_SEEDS", 5_000_000));
    let read = |text: String| Sums::from_json(&serde_json::from_str(&text).unwrap()).unwrap();
    let before = std::fs::read_to_string(&file).ok().map(read);
    let (first, mut sums) = before.unwrap_or_else(|| (number("TANIST_SIM_SEED", 10_000_000), Sums::default()));
    while sums.seeds + (sums.failed.len() as u64) < count && !stop.exists() {
        let done = sums.seeds + sums.failed.len() as u64;
        sums.join(campaign(first + done, PIECE.min(count - done)));
        sums.write(first, threads_here(), &file);
        println!("{} of {count} seeds, failed: {:?}", sums.seeds, sums.failed);
    }
    assert!(sums.failed.is_empty(), "these seeds failed: {:?}", sums.failed);
    assert!(sums.missing().is_empty(), "{:?}", sums.missing());
}

#[test]
fn a_seed_is_the_same_life_each_time() {
    let digest = |seed| lived(seed, &Drawn::of(seed)).digest;
    assert_eq!(digest(7), digest(7));
    assert_ne!(digest(7), digest(8));
}

/// What happens in lives of a group whose members agree, and how often at least in sixty of them.
const CHANGES: [(&str, usize); 8] = [
    ("runs seed", 40),
    ("runs primary", 160),
    ("runs memberAdd", 90),
    ("runs memberPromote", 30),
    ("runs memberRemove", 10),
    ("members are asked for", 120),
    ("was removed, and ends", 6),
    ("an administrator empties", 1),
];

// A life in which the members hardly change would show nothing.
#[test]
fn in_lives_of_members_that_agree_they_change() {
    let seeds = (0..).filter(|seed| agrees(*seed)).take(60);
    let logs: Vec<String> = seeds.flat_map(|seed| lived(seed, &Drawn::of(seed)).log).collect();
    let times = |what: &str| logs.iter().filter(|line| line.contains(what)).count();
    let seldom: Vec<_> = CHANGES.iter().map(|(what, least)| (*what, times(what), *least)).collect();
    assert!(seldom.iter().all(|(_, times, least)| times >= least), "{seldom:?}");
}

// Where one of them leads it changes, and clients are led to another one: else nothing would be shown of that.
#[test]
fn in_some_lives_members_elect_who_leads() {
    let one_leads = |seed: &u64| agrees(*seed) && groups(*seed)[0].spec.primaries == Primaries::Count(1);
    let seeds = (0..).filter(one_leads).take(60);
    let logs: Vec<String> = seeds.flat_map(|seed| lived(seed, &Drawn::of(seed)).log).collect();
    let elected = logs.iter().filter(|line| line.contains("is elected")).count();
    assert!(elected >= 70, "{elected} elections in 60 lives");
}

/// What happened in so many lives of this kind in which templates change.
fn updated(is_meant: impl Fn(&u64) -> bool, lives: usize) -> Vec<String> {
    let changes = |seed: &u64| Drawn::of(*seed).kinds.contains(&Fault::TemplateChanged);
    let seeds = (0..).filter(|seed| is_meant(seed) && changes(seed)).take(lives);
    seeds.flat_map(|seed| lived(seed, &Drawn::of(seed)).log).collect()
}

// B11: the same for updates that are announced.
#[test]
fn in_some_lives_updates_are_announced_and_ended() {
    let is_told = |seed: &u64| groups(*seed)[0].spec.commands.after_update.is_some();
    let logs = updated(is_told, 40);
    let times = |what: &str| logs.iter().filter(|line| line.contains(what)).count();
    let (begun, ended) = (times(" runs beforeUpdate"), times(" runs afterUpdate"));
    assert!(begun >= 8 && ended >= 8, "{begun} {ended}");
}

// C73: the same for updates before which all are asked.
#[test]
fn in_some_lives_members_are_asked_before_an_update() {
    let is_asked = |seed: &u64| groups(*seed)[0].spec.commands.prepared.is_some();
    let asked = updated(is_asked, 20).into_iter().filter(|line| line.contains(" runs prepared")).count();
    assert!(asked >= 20, "{asked}");
}
