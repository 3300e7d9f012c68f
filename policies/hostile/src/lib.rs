//! A policy for tests: it misbehaves as its parameters say, so that every limit of the host has a test.

use std::{
    hint::black_box,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use tanist_policy::{
    Answer, Candidate, Care, Delay, Description, Fault, Location, Parameters, Policy, Ranking, Remark, Remedy,
    Snapshot, Treatment, export_policy,
};

// `do` is one of the words below, and not an enumeration: the exam would try each, and refuse the policy.
const PARAMETERS: &str = r#"{
    "type": "object",
    "additionalProperties": false,
    "required": ["do"],
    "properties": {
        "do": {"type": "string", "maxLength": 20, "description":
            "abstain, bad-member, bulk, burn, controls, count, echo, empty, fault, grind, grow, grow-quietly, huge-answer, huge-text, long-fault, long-name, long-reason, loop, many-reasons, recurse, refuse, trap, twice, wait"
        },
        "times": {"type": "integer", "minimum": 0, "maximum": 4000000, "default": 0}
    }
}"#;

struct Hostile;

export_policy!(Hostile);

/// Outlives a question only if the instance does, which the host must not allow.
static ASKED: AtomicU32 = AtomicU32::new(0);

impl Policy for Hostile {
    fn describe() -> Description {
        Description::new("hostile", env!("CARGO_PKG_VERSION"), "Does what it is told; for tests.")
            .with_parameters(PARAMETERS)
    }

    fn seed(snapshot: &Snapshot) -> Result<Answer, Fault> {
        misbehave(snapshot)
    }

    fn failover(snapshot: &Snapshot) -> Result<Answer, Fault> {
        misbehave(snapshot)
    }

    fn join(snapshot: &Snapshot) -> Result<Answer, Fault> {
        misbehave(snapshot)
    }

    fn demote(snapshot: &Snapshot) -> Result<Answer, Fault> {
        misbehave(snapshot)
    }

    fn place(snapshot: &Snapshot) -> Result<Answer, Fault> {
        misbehave(snapshot)
    }

    fn switchover(snapshot: &Snapshot) -> Result<Answer, Fault> {
        misbehave(snapshot)
    }

    fn rebalance(snapshot: &Snapshot) -> Result<Answer, Fault> {
        misbehave(snapshot)
    }

    fn update(snapshot: &Snapshot) -> Result<Answer, Fault> {
        misbehave(snapshot)
    }

    fn judge(snapshot: &Snapshot) -> Result<Answer, Fault> {
        misbehave(snapshot)
    }

    fn admit(snapshot: &Snapshot) -> Result<Answer, Fault> {
        misbehave(snapshot)
    }

    fn order(snapshot: &Snapshot) -> Result<Answer, Fault> {
        misbehave(snapshot)
    }

    fn treat(snapshot: &Snapshot) -> Result<Care, Fault> {
        Ok(match misbehave(snapshot)? {
            Answer::Choose(ranking) => Care::Treat(
                ranking
                    .candidates
                    .into_iter()
                    .map(|Candidate { member, reason, .. }| Treatment { member, remedy: Remedy::Replace, reason })
                    .collect(),
            ),
            Answer::Wait(delay) => Care::Wait(delay),
            Answer::Refuse(why) => Care::Refuse(why),
            Answer::Abstain => Care::Abstain,
        })
    }
}

fn misbehave(snapshot: &Snapshot) -> Result<Answer, Fault> {
    let parameters = Parameters::of(snapshot);
    let times = usize::try_from(parameters.integer("times").unwrap_or(0)).unwrap_or(0);
    let asked = ASKED.fetch_add(1, Relaxed) + 1;
    Ok(match parameters.text("do").as_deref() {
        Some("abstain") => Answer::Abstain,
        Some("bad-member") => choose(vec![candidate("../../etc/passwd", "no such member")]),
        Some("bulk") => fill(),
        Some("burn") => {
            for step in 0..times {
                black_box(step);
            }
            Answer::Abstain
        }
        Some("controls") => choose(vec![candidate("db-0", "\u{1b}[2J\u{7}\r\n\0\u{202e}")]),
        Some("count") => choose(vec![candidate("db-0", &asked.to_string())]),
        Some("echo") => echo(snapshot),
        Some("empty") => choose(Vec::new()),
        Some("fault") => {
            let location = Location { file: "policy.star".to_owned(), line: 3, column: 7 };
            return Err(Fault { message: "told to".to_owned(), location: Some(location) });
        }
        Some("grind") => {
            black_box(grind(times));
            Answer::Abstain
        }
        Some("grow") => grow(),
        Some("grow-quietly") => {
            grow_quietly();
            Answer::wait("grown")
        }
        Some("huge-answer") => {
            let (member, reason) = ("y".repeat(100), "x".repeat(200));
            let candidates = vec![candidate(&member, &reason); times];
            let remark = Remark { member, reason };
            Answer::Choose(Ranking { candidates, passed_over: vec![remark; times] })
        }
        Some("huge-text") => choose(vec![candidate("db-0", &"x".repeat(times))]),
        Some("long-fault") => return Err(Fault { message: "x".repeat(times), location: None }),
        Some("long-name") => choose(vec![candidate(&"x".repeat(times), "who is that?")]),
        Some("long-reason") => Answer::Refuse("é".repeat(times / 2)),
        Some("loop") => spin(),
        Some("many-reasons") => choose(vec![candidate("db-0", "again"); times]),
        Some("recurse") => Answer::wait(recurse(0).to_string()),
        Some("refuse") => Answer::Refuse("told to".to_owned()),
        Some("trap") => trap(),
        Some("twice") => choose(vec![candidate("db-0", "once"), candidate("db-0", "twice")]),
        Some("wait") => Answer::Wait(Delay { reason: "told to".to_owned(), until: Some(snapshot.now + 10) }),
        // The exam tries any word.
        _ => Answer::Abstain,
    })
}

fn candidate(member: &str, reason: &str) -> Candidate {
    Candidate { member: member.to_owned(), reason: reason.to_owned(), source: None }
}

fn choose(candidates: Vec<Candidate>) -> Answer {
    Answer::Choose(Ranking { candidates, passed_over: Vec::new() })
}

/// What arrived, so that the host's test can compare it with what it sent.
fn echo(snapshot: &Snapshot) -> Answer {
    let group = &snapshot.group;
    let mut lines = vec![
        format!("{} {} {}", snapshot.now, snapshot.history.len(), snapshot.parameters),
        format!("{} {} {} {} {}", group.name, group.namespace, group.replicas, group.primaries, group.has_secondaries),
        format!("{} {:?} {:?}", group.term, group.preferred_primary, group.high_water),
        format!("{:?} {:?}", group.labels, group.facts),
    ];
    lines.extend(snapshot.history.iter().map(|each| format!("{each:?}")));
    for each in &snapshot.members {
        lines.extend([
            format!("{:?} {} {} {:?}", each.phase, each.phase_since, each.ready, each.role),
            format!("{} {:?} {:?} {:?}", each.role_since, each.role_detail, each.last_primary, each.term),
            format!("{:?}", each.position),
            format!("{:?} {:?} {} {:?}", each.node, each.zone, each.failures, each.last_failure),
            format!("{:?} {:?} {:?}", each.marked, each.conditions, each.barred),
            format!("{:?} {:?}", each.labels, each.facts),
        ]);
    }
    let passed_over = lines.into_iter().map(|reason| Remark { member: "line".to_owned(), reason }).collect();
    let members = snapshot.members.iter();
    let candidates = members.map(|each| Candidate {
        member: each.name.clone(),
        reason: each.ordinal.to_string(),
        source: each.node.clone(),
    });
    Answer::Choose(Ranking { candidates: candidates.collect(), passed_over })
}

fn spin() -> Answer {
    let mut count = 0_u64;
    loop {
        count = black_box(count.wrapping_add(1));
    }
}

/// Takes as long for its fuel as a policy can: each step needs the result of a slow instruction of the one before.
fn grind(times: usize) -> f64 {
    let mut number = 1e300_f64;
    for _ in 0..times {
        number = black_box((number / 3.0).sqrt() + 2.0);
    }
    number
}

/// Fills much memory again and again: bulk instructions are not cut in the middle.
fn fill() -> Answer {
    let mut memory = vec![0_u8; 8 << 20];
    loop {
        black_box(&mut memory).fill(1);
    }
}

/// Takes memory until there is none; the allocator's failure is a trap.
fn grow() -> Answer {
    let mut hoard = Vec::new();
    loop {
        hoard.push(black_box(vec![1_u8; 1 << 20]));
    }
}

/// Takes memory until there is none, and goes on.
fn grow_quietly() {
    let mut hoard: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut more = Vec::new();
        if more.try_reserve_exact(1 << 20).is_err() {
            return;
        }
        hoard.push(black_box(more));
    }
}

/// Recurses without end, in a way that no compiler turns into a loop and that does not use the stack in linear memory.
#[inline(never)]
fn recurse(depth: u32) -> u32 {
    if depth == u32::MAX {
        return depth;
    }
    let below = recurse(depth + 1);
    ASKED.fetch_add(1, Relaxed).rotate_left(below) ^ below
}

#[allow(clippy::panic, reason = "the test needs a trap")]
fn trap() -> Answer {
    panic!("told to")
}
