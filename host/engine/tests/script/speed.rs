//! What a question to a script costs. Time is measured by hand; fuel is the same on every machine and is tested.

use std::time::Instant;

use tanist_core::{
    contract::{Member, Snapshot},
    policy::{Point, Policies, Question},
};
use tanist_engine::{Layer, Limits, Stack};

use crate::{
    common::{member, snapshot},
    load,
};

/// Forty lines, as an author would write them.
const FORTY: &str = include_str!("forty.star");

fn five() -> Snapshot {
    let zones = ["a", "b", "c", "a", "b"];
    let of = |(ordinal, zone): (u32, &&str)| Member {
        zone: Some((*zone).to_owned()),
        term: Some(3),
        labels: vec![("priority".to_owned(), (ordinal * 10).to_string()), ("rack".to_owned(), format!("r{ordinal}"))],
        facts: vec![("lag".to_owned(), "12".to_owned()), ("version".to_owned(), "17.2".to_owned())],
        ..member(ordinal, 100 + u64::from(ordinal == 4 || ordinal == 1))
    };
    snapshot((0..).zip(&zones).map(of).collect())
}

fn stack(text: &str) -> Stack {
    let policy = load(text).unwrap_or_else(|error| panic!("{error}"));
    let parameters = policy.validate("{}").unwrap();
    Stack::new(vec![Layer { policy: std::sync::Arc::new(policy), points: None, parameters }])
}

#[test]
fn a_usual_script_uses_a_fraction_of_the_budget() {
    let answered = stack(FORTY).ask(&Question { point: Point::Failover, snapshot: five() }).unwrap();
    let budget = Limits::default().of_interpreter().fuel_base;
    assert!(answered.fuel * 10 < budget, "{} of {budget}", answered.fuel);
}

/// `cargo test --locked --workspace --test script -- --ignored --nocapture measure`
#[test]
#[ignore = "measures time"]
fn measure() {
    let rounds = 3_000;
    let one = "def failover(s): return wait('x')\n".to_owned();
    let parsed = FORTY.replace("def failover(s):\n", "def failover(s):\n    if s: return wait('x')\n");
    let many = |line: &str, times: usize| {
        one.clone() + &(0..times).map(|n| line.replace('#', &n.to_string())).collect::<String>()
    };
    for (what, text) in [
        ("1 line, returns at once", one.clone()),
        ("39 lines, 38 of them comments", one.clone() + &"# nothing is said here\n".repeat(38)),
        ("39 lines, 38 of them assignments", many("x# = #\n", 38)),
        ("39 lines, 19 more functions", many("def f#(a):\n    return a\n", 19)),
        (
            "39 lines, 19 functions of one expression",
            many("def f#(a):\n    return [m for m in a.members if m.zone == a.name]\n", 19),
        ),
        ("40 lines, returns at once", parsed),
        ("40 lines, decides", FORTY.to_owned()),
    ] {
        let stack = stack(&text);
        let question = Question { point: Point::Failover, snapshot: five() };
        let mut times: Vec<_> = (0..rounds)
            .map(|_| {
                let start = Instant::now();
                let _ = std::hint::black_box(stack.ask(&question));
                start.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let fuel = stack.ask(&question).map_or(0, |answered| answered.fuel);
        println!(
            "{what}: p1 {:.0} p50 {:.0} p99 {:.0} microseconds, fuel {fuel}",
            times[rounds / 100],
            times[rounds / 2],
            times[rounds * 99 / 100]
        );
    }
}
