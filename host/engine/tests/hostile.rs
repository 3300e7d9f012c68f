//! Policies that break something: each ends in a named error, and the next question works. The rows are those of the hostile table.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

mod common;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::{ask, engine, layer, load, member, snapshot};
use tanist_core::{
    contract::Care,
    policy::{CUT_OFF, Point, Policies, Question, Reply, Unanswered},
};
use tanist_engine::{Engine, Heard, Limits, Policy, Stack};

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
    ("burn", 1_000, Some(("abstained-all", "every policy abstained from"))),
    // H24: slow instructions, within the budget and beyond it.
    ("grind", 1_000, Some(("abstained-all", "every policy abstained from"))),
    ("grind", 4_000_000, Some(("fuel", "used up its budget"))),
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
    let listed = schema.split_once("\"description\":").unwrap().1.split('"').nth(1).unwrap();
    let known: BTreeSet<_> = listed.split(", ").collect();
    let tested: BTreeSet<_> = BEHAVIOURS.iter().map(|(to, _, _)| *to).collect();
    assert_eq!(known, tested);
}

// P14: the next policy is not asked, because it could choose what the first would have refused.
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
    let limits = Limits { fuel_base: 50_000, fuel_per_member: 0, fuel_per_byte: 0, ..Limits::default().unhurried() };
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
    let limits = Limits { memory_bytes: 2 << 20, ..Limits::default().unhurried() };
    let engine = Engine::new(limits).unwrap();
    let policy = load(&engine, "hostile");
    let failed = ask(&told(&policy, "grow", 0), Point::Seed, &snapshot(vec![member(0, 1)])).unwrap_err();
    assert_eq!(failed.kind, "memory");
    assert!(failed.message.contains("2097152 are allowed"), "{}", failed.message);
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

// H24: on a machine that is so busy that fuel lasts too long, a question ends by the clock. That is no fault of the policy, so it has a name of its
// own, and the next question works. Where fuel is over first, as it is on a machine with time, fuel is what is reported.
#[test]
fn a_question_ends_by_the_clock_where_its_fuel_lasts_too_long() {
    let members = vec![member(0, 1)];
    // Enough for what has an end, also on a busy machine.
    let slow = Engine::new(Limits { fuel_base: u64::MAX >> 1, wall: Duration::from_secs(2), ..Limits::default() });
    let policy = load(&slow.unwrap(), "hostile");
    let mut heard = Vec::new();
    let question = Question { point: Point::Seed, snapshot: snapshot(members) };
    let cut =
        told(&policy, "loop", 0).ask_and_note(&question, &mut |place, how, _| heard.push((place, how))).unwrap_err();
    assert_eq!((cut.kind, heard), (CUT_OFF, vec![(0, Heard::CutOff)]));
    assert!(cut.is_delay() && cut.message.contains("the machine is too busy"), "{}", cut.message);
    assert!(told(&policy, "count", 0).ask(&question).is_ok());

    let fast = load(&engine(), "hostile");
    let burnt = told(&fast, "loop", 0).ask_and_note(&question, &mut |_, how, _| assert_eq!(how, Heard::Failed));
    assert_eq!(burnt.unwrap_err().kind, "fuel");
}

// Each policy of a stack is heard for itself. A question about more members has more time, as it has more fuel.
#[test]
fn it_is_noted_how_each_policy_took_a_question() {
    let wall = |members| Limits::default().wall_of(members).as_millis();
    assert_eq!((wall(5), wall(100), wall(1_000)), (100, 100, 1_000));
    let policy = load(&engine(), "hostile");
    let stack = Stack::new(vec![
        layer(&policy, r#"{"do":"abstain","times":0}"#),
        layer(&policy, r#"{"do":"fault","times":0}"#),
        layer(&policy, r#"{"do":"count","times":0}"#),
    ]);
    let mut heard = Vec::new();
    let question = Question { point: Point::Seed, snapshot: snapshot(vec![member(0, 1)]) };
    let failed = stack.ask_and_note(&question, &mut |place, how, _| heard.push((place, how))).unwrap_err();
    assert_eq!((failed.kind, heard), ("fault", vec![(0, Heard::Answered), (1, Heard::Failed)]));
}
