//! Many conversations, drawn from seeds and ended at every byte; and what is left when they are over.
use super::draw::{self, Case, Execution};
use super::play::{Clients, Played, play};
use super::printed::{Printed, Question, UNKNOWN};
use super::server::Server;
use super::talk::{End, Talk};
use super::{answers, dice::Dice};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tanist_protocol::frame::Frame;
use tanist_protocol::outcome::Outcome;

/// How many conversations are under way at a time.
const AT_A_TIME: usize = 64;

/// The faults of a usual run.
const FAULTS: u64 = 50_000;

/// What a long run may add to the memory of a short one, in bytes. A conversation that kept one buffer of a pipe would add more.
const GROWTH: u64 = 32 << 20;

/// How often to look whether everything is gone: for a minute, which also a busy machine does not need.
const LOOKS: u32 = 6_000;

/// Runs one test at a time, because they count what belongs to the process.
pub fn alone<T>(test: impl Future<Output = T>) -> T {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test)
}

/// A number from the environment.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect(variable))
}

/// What many cases ended with.
#[derive(Default)]
struct Tally {
    cases: u64,
    executions: u64,
    faulty: u64,
    /// Conclusions of which the client had to be sure.
    sure: u64,
    faults: BTreeMap<&'static str, u64>,
    concluded: BTreeMap<(Question, String), u64>,
    wrong: Vec<String>,
    /// Memory after a tenth of the cases.
    early: u64,
}

impl Tally {
    fn add(&mut self, case: &Case, played: Played) {
        self.cases += 1;
        self.executions += played.executions as u64;
        self.sure += u64::from(played.is_sure);
        let faults = case.faults();
        self.faulty += u64::from(!faults.is_empty());
        faults.into_iter().for_each(|fault| *self.faults.entry(fault).or_default() += 1);
        // All exit codes but 0, and all positions, are one kind each.
        let kind = match played.concluded.split_once(' ') {
            Some(("exited", code)) if code != "0" => "exited otherwise".into(),
            Some(("at", "EMPTY")) | None | Some(("exited" | "not", _)) => played.concluded,
            Some((kind, _)) => format!("{kind} a position"),
        };
        *self.concluded.entry((case.question, kind)).or_default() += 1;
        self.wrong.extend(played.wrong);
    }

    fn show(&self, took: Duration) {
        let (cases, executions, faulty) = (self.cases, self.executions, self.faulty);
        println!(
            "{cases} cases with {executions} executions, {faulty} of them with faults, in {:.1} s",
            took.as_secs_f64()
        );
        self.concluded.iter().for_each(|((question, kind), times)| println!("{times:8} {question:?}: {kind}"));
        self.faults.iter().for_each(|(fault, times)| println!("{times:8} {fault}"));
    }
}

/// Plays the cases until so many had a fault, or a few went wrong.
async fn play_all(next: impl Fn() -> Option<Case> + Send + Sync + 'static, faults: u64) -> Tally {
    let server = Arc::new(Server::start().await);
    let clients = Arc::new(Clients::new(&server));
    let (next, tally) = (Arc::new(next), Arc::new(Mutex::new(Tally::default())));
    let workers = (0..AT_A_TIME).map(|_| {
        let (server, clients, next, tally) = (server.clone(), clients.clone(), next.clone(), tally.clone());
        tokio::spawn(async move {
            while let Some(case) = next() {
                let played = play(&server, &clients, &case).await;
                let mut tally = tally.lock().unwrap();
                tally.add(&case, played);
                if tally.early == 0 && tally.faulty >= faults / 10 {
                    tally.early = memory();
                }
                if tally.faulty >= faults || tally.wrong.len() >= 3 {
                    return;
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    std::mem::take(&mut tally.lock().unwrap())
}

/// The memory of this process in bytes.
fn memory() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Open files and living tasks.
fn held() -> (usize, usize) {
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    (std::fs::read_dir("/proc/self/fd").unwrap().count(), tasks)
}

/// Looks until no more is held than before.
async fn wait_for(before: (usize, usize)) {
    let mut now = held();
    for _ in 0..LOOKS {
        if now.0 <= before.0 && now.1 <= before.1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        now = held();
    }
    panic!("open files and tasks before: {before:?}, afterwards: {now:?}");
}

// S3, S12, S39; docs/rules.md, "Execution through the API server". TANIST_WIRE_FAULTS: how many conversations with faults; TANIST_WIRE_SEED: that
// one alone.
#[test]
fn nothing_unknown_counts_as_known() {
    alone(async {
        let before = held();
        let (one, faults) = (number("TANIST_WIRE_SEED"), number("TANIST_WIRE_FAULTS").unwrap_or(FAULTS));
        let seeds = AtomicU64::new(one.unwrap_or(1));
        let next = move || {
            let seed = seeds.fetch_add(1, Ordering::Relaxed);
            one.is_none_or(|one| one == seed).then(|| Case::drawn(seed))
        };
        let began = Instant::now();
        let tally = play_all(next, faults).await;
        tally.show(began.elapsed());
        assert!(tally.wrong.is_empty(), "{}", tally.wrong.join("\n\n"));
        wait_for(before).await;
        // Few conversations need not have everything in them.
        if one.is_none() && faults >= FAULTS {
            let late = memory();
            println!("memory: {} MiB after a tenth, {} MiB at the end", tally.early >> 20, late >> 20);
            assert!(late < tally.early + GROWTH, "memory grew from {} to {late} bytes", tally.early);
            enough(&tally);
        }
    });
}

/// A client that calls everything unknown is safe and useless: each conclusion comes often enough, and so does each fault.
fn enough(tally: &Tally) {
    let each = |question, kinds: &[&str]| kinds.iter().map(|kind| (question, (*kind).to_owned())).collect::<Vec<_>>();
    let kinds = [
        each(Question::Start, &["exited 0", "exited otherwise", "not started", "running", "interrupted", UNKNOWN]),
        each(Question::Settle, &["exited 0", "exited otherwise", "not started", "running", "interrupted", UNKNOWN]),
        each(Question::Status, &["primary", "secondary", "stopped", "starting", "failed", UNKNOWN]),
        each(Question::Sequence, &["at a position", "at EMPTY", UNKNOWN]),
    ];
    for kind in kinds.into_iter().flatten() {
        let times = tally.concluded.get(&kind).copied().unwrap_or(0);
        assert!(times >= tally.cases / 1_000, "{kind:?}: {times} of {} cases", tally.cases);
    }
    assert!(tally.sure >= tally.cases / 2, "{} of {} cases had one right answer", tally.sure, tally.cases);
    let rare: Vec<_> = tally.faults.iter().filter(|(_, times)| **times < tally.cases / 5_000).collect();
    assert!(rare.is_empty(), "these hardly happened: {rare:?}");
}

/// Short conversations of which every part is tried.
fn short() -> Vec<Case> {
    let mut dice = Dice::new(1);
    let case = |question, runner, talk: Talk, printed: Printed| Case {
        seed: 0,
        question,
        runner,
        token: "t".into(),
        first: Execution { talk, printed },
        second: None,
    };
    let frame = Frame::bare("t", Outcome::Exited(7), 2).to_bytes();
    let printed = Printed {
        answer: Some((frame.len(), "exited 7".into())),
        bytes: frame.clone(),
        exited: true,
        ..Printed::default()
    };
    let (success, exit) = (draw::status(&answers::success()), draw::status(&answers::exit(7)));
    let missing = draw::status(&answers::missing(&mut dice));
    vec![
        case(Question::Start, false, draw::told(vec![success.clone()]), Printed::default()),
        case(Question::Status, false, draw::told(vec![draw::out(b"primary"), exit]), Printed::default()),
        case(
            Question::Settle,
            true,
            draw::told(vec![draw::out(&frame[..9]), draw::out(&frame[9..]), success]),
            printed,
        ),
        case(Question::Start, false, draw::told(vec![missing]), Printed::default()),
        case(Question::Start, false, Talk::new(answers::refusal()), Printed::default()),
    ]
}

// S3: in order, by a reset, and in silence.
#[test]
fn a_conversation_may_end_at_any_byte() {
    alone(async {
        let before = held();
        let mut cases = Vec::new();
        for case in short() {
            for sent in 0..=case.first.talk.sent {
                for end in [End::Close, End::Reset, End::Silence] {
                    let talk = Talk { sent, end, ..case.first.talk.clone() };
                    let first = Execution { talk, ..case.first.clone() };
                    cases.push(Case { seed: cases.len() as u64, first, ..case.clone() });
                }
            }
        }
        let (count, cases) = (cases.len() as u64, Mutex::new(cases));
        let tally = play_all(move || cases.lock().unwrap().pop(), u64::MAX).await;
        assert!(tally.wrong.is_empty(), "{}", tally.wrong.join("\n\n"));
        assert_eq!(tally.cases, count);
        wait_for(before).await;
    });
}
