//! Policies that break something: each ends in a named error, and the next question works. The rows are those of the hostile table.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

mod common;

use std::{collections::BTreeSet, sync::Arc};

use common::{Guest, ask, engine, layer, load, member, snapshot};
use tanist_core::{
    contract::{Answer, Care},
    policy::{Point, Reply, Unanswered},
};
use tanist_engine::{Engine, Limits, LoadError, Policy, RunError, Stack};

/// How it ends: an error's kind and a part of its message, or nothing when it is answered.
type End = Option<(&'static str, &'static str)>;

/// What the guest is told to do, how often, and how it ends.
const BEHAVIOURS: &[(&str, u32, End)] = &[
    // H1, H3: endless loops, also of instructions that each work for long.
    ("loop", 0, Some(("fuel", "used up its budget"))),
    ("bulk", 0, Some(("fuel", "used up its budget"))),
    // H4
    ("recurse", 0, Some(("stack", "used up its stack"))),
    // H5
    ("grow", 0, Some(("memory", "16777216 are allowed"))),
    ("grow-quietly", 0, None),
    // H7
    ("trap", 0, Some(("trap", "unreachable"))),
    ("fault", 0, Some(("fault", "it reported a fault: told to (policy.star:3:7)"))),
    ("long-fault", 100_000, Some(("fault", "xxx…"))),
    // H9: caps, and the limit of what one call may move.
    ("huge-text", 257, Some(("output", "a reason has 257 bytes, 256 are allowed"))),
    ("huge-text", 1_000_000, Some(("output", "a reason has 1000000 bytes"))),
    ("huge-text", 2_000_000, Some(("output", "more than one call may return"))),
    ("huge-text", 256, None),
    ("huge-answer", 900, Some(("output", "the whole answer has more than 262144 bytes"))),
    ("huge-answer", 100, None),
    ("many-reasons", 1_001, Some(("output", ", 1000 are allowed"))),
    ("many-reasons", 1_000, None),
    ("many-reasons", 1_000_000, Some(("memory", "16777216 are allowed"))),
    ("long-reason", 258, Some(("output", "a reason has 258 bytes"))),
    ("long-reason", 256, None),
    ("long-name", 257, Some(("output", "the name of a member has 257 bytes"))),
    ("long-name", 256, None),
    // H10, H11: whom an answer names is not the engine's business.
    ("bad-member", 0, None),
    ("twice", 0, None),
    ("empty", 0, None),
    // S35, H13, H26
    ("count", 0, None),
    // H23
    ("controls", 0, None),
    ("abstain", 0, Some(("abstained-all", "every policy abstained from"))),
    ("echo", 0, None),
    ("refuse", 0, None),
    ("wait", 0, None),
];

fn told(policy: &Arc<Policy>, to: &str, times: u32) -> Stack {
    Stack::new(vec![layer(policy, &format!(r#"{{"do":"{to}","times":{times}}}"#))])
}

#[test]
fn every_behaviour_ends_as_it_should_and_the_next_question_works() {
    let policy = load(&engine(), "hostile");
    let healthy = told(&policy, "count", 0);
    let story = snapshot(vec![member(0, 1), member(1, 1), member(2, 1)]);
    for (to, times, expected) in BEHAVIOURS {
        for point in Point::ALL {
            match (ask(&told(&policy, to, *times), point, &story), expected) {
                (Ok(answered), None) => assert!(answered.fuel > 0, "{to}"),
                (Err(Unanswered { kind, message, policy, .. }), Some((expected, part))) => {
                    assert_eq!(kind, *expected, "{to} {times} at {point}: {message}");
                    assert!(message.contains(part), "{to} {times} at {point}: {message}");
                    assert!(message.len() < 2_000);
                    assert_eq!(policy.name, "hostile");
                }
                (reply, expected) => panic!("{to} {times} at {point}: {reply:?} instead of {expected:?}"),
            }
            assert!(ask(&healthy, point, &story).is_ok(), "after {to} at {point}");
        }
    }
}

#[test]
fn every_behaviour_of_the_guest_is_tested() {
    let policy = load(&engine(), "hostile");
    let schema = policy.description().parameters.clone().unwrap();
    let listed = schema.split_once("\"enum\": [").unwrap().1.split_once(']').unwrap().0;
    let known: BTreeSet<_> = listed.split(',').map(|word| word.trim().trim_matches('"')).collect();
    let tested: BTreeSet<_> = BEHAVIOURS.iter().map(|(to, _, _)| *to).collect();
    assert_eq!(known, tested);
}

#[test]
fn nothing_is_left_of_a_question_for_the_next() {
    let policy = load(&engine(), "hostile");
    let stack = told(&policy, "count", 0);
    let story = snapshot(vec![member(0, 1)]);
    let first = ask(&stack, Point::Join, &story).unwrap();
    for _ in 0..3 {
        assert_eq!(ask(&stack, Point::Join, &story).unwrap(), first);
    }
    let Reply::Answer(Answer::Choose(ranking)) = first.reply else { panic!("{first:?}") };
    assert_eq!(ranking.candidates.first().unwrap().reason, "1");
}

#[test]
fn control_characters_are_escaped_before_anybody_sees_them() {
    let policy = load(&engine(), "hostile");
    let story = snapshot(vec![member(0, 1)]);
    let answered = ask(&told(&policy, "controls", 0), Point::Seed, &story).unwrap();
    let Reply::Answer(Answer::Choose(ranking)) = answered.reply else { panic!("{answered:?}") };
    assert_eq!(ranking.candidates.first().unwrap().reason, r"\u{1b}[2J\u{7}\u{d}\u{a}\u{0}\u{202e}");
}

#[test]
fn a_failing_policy_ends_the_question() {
    let engine = engine();
    let (hostile, sequence) = (load(&engine, "hostile"), load(&engine, "sequence"));
    let stack = Stack::new(vec![layer(&hostile, r#"{"do":"trap"}"#), layer(&sequence, "{}")]);
    let failed = ask(&stack, Point::Seed, &snapshot(vec![member(0, 1)])).unwrap_err();
    assert_eq!((failed.kind, failed.policy.name.as_str()), ("trap", "hostile"));
}

#[test]
fn fuel_grows_with_the_snapshot() {
    let limits = Limits { fuel_base: 50_000, fuel_per_member: 0, fuel_per_byte: 0, ..Limits::default() };
    // Describing itself must fit into the base, so the policy is loaded by an engine with enough; the cache is per engine.
    let poor = Engine::new(limits).unwrap();
    let rich = Engine::new(Limits { fuel_per_member: 100_000, ..limits }).unwrap();
    let many = snapshot((0..500).map(|ordinal| member(ordinal, 1)).collect());
    let stack = |engine: &Engine| Stack::new(vec![layer(&load(engine, "sequence"), "{}")]);
    assert_eq!(ask(&stack(&poor), Point::Seed, &many).unwrap_err().kind, "fuel");
    assert!(ask(&stack(&rich), Point::Seed, &many).is_ok());
}

#[test]
fn the_limit_of_memory_is_for_all_memories_together() {
    let limits = Limits { memory_bytes: 2 << 20, ..Limits::default() };
    let engine = Engine::new(limits).unwrap();
    let policy = load(&engine, "hostile");
    let failed = ask(&told(&policy, "grow", 0), Point::Seed, &snapshot(vec![member(0, 1)])).unwrap_err();
    assert_eq!(failed.kind, "memory");
    assert!(failed.message.contains("2097152 are allowed"), "{}", failed.message);
}

/// Asks a policy written by hand for `seed`.
fn seed_of(guest: &Guest) -> Unanswered {
    let policy = Arc::new(guest.load().unwrap());
    let stack = Stack::new(vec![layer(&policy, "{}")]);
    let failed = ask(&stack, Point::Seed, &snapshot(vec![member(0, 1), member(1, 1)])).unwrap_err();
    let healthy = ask(&stack, Point::Join, &snapshot(vec![]));
    assert!(matches!(healthy, Err(Unanswered { kind: "abstained-all", .. })), "{healthy:?}");
    failed
}

#[test]
fn hostile_allocators_are_errors() {
    // H8: out of bounds, unaligned, overlapping, zero, trapping.
    for (realloc, kind) in [
        ("(i32.const -8)", Some("malformed")),
        ("(i32.const 4294967295)", Some("malformed")),
        ("(i32.const 8193)", Some("malformed")),
        ("(unreachable)", Some("trap")),
        ("(loop (br 0)) (unreachable)", Some("fuel")),
        // Whatever these make of the snapshot, it is their own loss.
        ("(i32.const 8192)", Some("abstained-all")),
        ("(i32.const 0)", None),
    ] {
        let guest = Guest { realloc, ..Guest::default() };
        let policy = Arc::new(guest.load().unwrap());
        let stack = Stack::new(vec![layer(&policy, "{}")]);
        let failed = ask(&stack, Point::Seed, &snapshot(vec![member(0, 1), member(1, 1)])).unwrap_err();
        if let Some(kind) = kind {
            assert_eq!(failed.kind, kind, "{realloc}: {}", failed.message);
        }
    }
}

#[test]
fn hostile_results_are_errors() {
    // H9. `refuse` is case 2 of the answer, its text at 16; `choose` is case 0, its candidates at 16.
    let refuse = |address: &str, length: &str| {
        format!(
            "(i32.store8 (i32.const 4096) (i32.const 0)) (i32.store8 (i32.const 4104) (i32.const 2))
             (i32.store (i32.const 4112) (i32.const {address})) (i32.store (i32.const 4116) (i32.const {length})) (i32.const 4096)"
        )
    };
    let choose = |address: &str, length: &str| refuse(address, length).replace("(i32.const 2))", "(i32.const 0))");
    for (seed, kind) in [
        ("(i32.const -1)".to_owned(), "malformed"),
        ("(i32.const 65528)".to_owned(), "malformed"),
        ("(i32.const 2049)".to_owned(), "malformed"),
        ("(i32.store8 (i32.const 4096) (i32.const 9)) (i32.const 4096)".to_owned(), "malformed"),
        (refuse("0", "-1"), "malformed"),
        (refuse("65536", "1"), "malformed"),
        (refuse("-1", "4"), "malformed"),
        (format!("(i32.store8 (i32.const 5000) (i32.const 0xff)) {}", refuse("5000", "1")), "malformed"),
        (choose("0", "-1"), "malformed"),
        (choose("4", "60000000"), "malformed"),
        (choose("3", "1"), "malformed"),
    ] {
        let failed = seed_of(&Guest { seed: Box::leak(seed.clone().into_boxed_str()), ..Guest::default() });
        assert!(failed.kind == kind || failed.kind == "output" || failed.kind == "trap", "{seed}: {failed:?}");
    }
}

#[test]
fn a_trap_after_the_answer_drops_the_answer() {
    let extra = r#"(func (export "cabi_post_tanist:policy/election@0.1.0#seed") (param i32) (unreachable))"#;
    assert_eq!(seed_of(&Guest { extra, ..Guest::default() }).kind, "trap");
    let extra = r#"(func (export "cabi_post_tanist:policy/election@0.1.0#seed") (param i32) (loop (br 0)))"#;
    assert_eq!(seed_of(&Guest { extra, ..Guest::default() }).kind, "fuel");
}

#[test]
fn tables_and_memories_are_limited_while_they_grow() {
    let grow_table = "(drop (table.grow 0 (ref.null func) (i32.const 20000))) (unreachable)";
    let failed = seed_of(&Guest { seed: grow_table, extra: "(table 1 funcref)", ..Guest::default() });
    assert_eq!(failed.kind, "memory");
    assert!(failed.message.contains("elements of tables, 10000 are allowed"), "{}", failed.message);
    // Asking for memory again and again for nothing costs fuel.
    let grow_memory = "(loop (drop (memory.grow (i32.const 65535))) (br 0)) (unreachable)";
    assert_eq!(seed_of(&Guest { seed: grow_memory, ..Guest::default() }).kind, "fuel");
}

#[test]
fn the_budget_covers_the_start() {
    // H2, H5
    let spin = "(func $spin (loop (br 0))) (start $spin)";
    assert!(matches!(Guest { extra: spin, ..Guest::default() }.load(), Err(LoadError::Start(RunError::Fuel(_)))));
    let trap = "(func $trap (unreachable)) (start $trap)";
    assert!(matches!(Guest { extra: trap, ..Guest::default() }.load(), Err(LoadError::Start(RunError::Trap(_)))));
    for pages in [257, 65_536] {
        let hoard = Guest { pages, ..Guest::default() }.load();
        assert!(matches!(hoard, Err(LoadError::Start(RunError::Memory(_)))), "{hoard:?}");
    }
    let table = Guest { extra: "(table 10001 funcref)", ..Guest::default() }.load();
    assert!(matches!(table, Err(LoadError::Start(RunError::Memory(_)))), "{table:?}");
    let tables = Guest {
        extra: "(table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref)",
        ..Guest::default()
    }
    .load();
    assert!(matches!(tables, Err(LoadError::Start(RunError::Memory(_)))), "{tables:?}");
}

#[test]
fn treatments_keep_to_the_same_limits() {
    let policy = load(&engine(), "hostile");
    let story = snapshot(vec![member(0, 1)]);
    let failed = ask(&told(&policy, "many-reasons", 1_001), Point::Treat, &story).unwrap_err();
    assert!(failed.message.contains("1001 treatments"), "{}", failed.message);
    let answered = ask(&told(&policy, "wait", 0), Point::Treat, &story).unwrap();
    assert!(matches!(answered.reply, Reply::Care(Care::Wait(delay)) if delay.until == Some(1_010)));
}
