//! The rows H1 to H28 of docs/safety.md that are stopped while they run, or by the host's rules.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

mod common;

use std::sync::Arc;

use common::{
    Guest, ask, built, layer, member,
    rows::{Stopped, ended, hostile, row, told},
    snapshot,
};
use tanist_core::{
    check::Rule,
    contract::Answer,
    policy::{Point, Reply, Unanswered},
};
use tanist_engine::{Engine, Limits, Policy, Stack};

/// What a question of each point ends with.
fn always(to: &str, times: u32, expected: Stopped) {
    row(|| {
        for point in Point::ALL {
            assert_eq!(told(to, times, point), expected, "{to} at {point}");
        }
    });
}

#[test]
fn h01_never_returns() {
    always("loop", 0, Stopped::Run("fuel"));
}

#[test]
fn h03_loops_over_bulk_instructions() {
    always("bulk", 0, Stopped::Run("fuel"));
}

#[test]
fn h04_recurses_without_end() {
    always("recurse", 0, Stopped::Run("stack"));
}

#[test]
fn h05_takes_memory_until_there_is_none() {
    always("grow", 0, Stopped::Run("memory"));
    always("grow-quietly", 0, Stopped::No);
}

#[test]
fn h05_grows_tables_and_memories() {
    let grow_table = "(drop (table.grow 0 (ref.null func) (i32.const 20000))) (unreachable)";
    let failed = seed_of(&Guest { seed: grow_table, extra: "(table 1 funcref)", ..Guest::default() });
    assert_eq!(failed.kind, "memory");
    assert!(failed.message.contains("elements of tables, 10000 are allowed"), "{}", failed.message);
    // Asking for memory again and again for nothing costs fuel.
    let grow_memory = "(loop (drop (memory.grow (i32.const 65535))) (br 0)) (unreachable)";
    assert_eq!(seed_of(&Guest { seed: grow_memory, ..Guest::default() }).kind, "fuel");
}

#[test]
fn h07_traps_or_reports_a_fault() {
    always("trap", 0, Stopped::Run("trap"));
    always("fault", 0, Stopped::Run("fault"));
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
fn h08_has_a_hostile_allocator() {
    // Out of bounds, unaligned, overlapping, zero, trapping.
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

/// H7, P44: an author is told in which function a policy trapped, if it has names; the name is hostile text.
#[test]
fn h07_a_trap_says_in_which_function() {
    let message = |extra: &'static str| seed_of(&Guest { seed: "(call $begin)", extra, ..Guest::default() }).message;
    let said = message(
        "(func $_ZN4mine4seed17h05af221e174051e9E (result i32) (call $_RNvC4mine4pick))
         (func $begin (result i32) (call $_ZN4mine4seed17h05af221e174051e9E))
         (func $_RNvC4mine4pick (result i32) (call $_ZN4core9panicking5panic17h05af221e174051e9E))
         (func $_ZN4core9panicking5panic17h05af221e174051e9E (result i32) (unreachable))",
    );
    assert!(
        said.ends_with("`unreachable` instruction executed: in mine::pick, called by mine::seed, called by begin"),
        "{said}"
    );
    let only_the_toolchain = message("(func $begin (@name \"__rust_abort\") (result i32) (unreachable))");
    assert!(only_the_toolchain.contains("executed: in "), "{only_the_toolchain}");
    let hostile = message("(func $begin (@name \"\\1b[2J\\e2\\80\\aeend\") (result i32) (unreachable))");
    assert!(hostile.contains("executed: in \\u{1b}[2J\\u{202e}end"), "{hostile}");
}

#[test]
fn h08_traps_after_its_answer() {
    let extra = r#"(func (export "cabi_post_tanist:policy/election@0.1.4#seed") (param i32) (unreachable))"#;
    assert_eq!(seed_of(&Guest { extra, ..Guest::default() }).kind, "trap");
    let extra = r#"(func (export "cabi_post_tanist:policy/election@0.1.4#seed") (param i32) (loop (br 0)))"#;
    assert_eq!(seed_of(&Guest { extra, ..Guest::default() }).kind, "fuel");
}

#[test]
fn h09_returns_what_is_no_value() {
    // `refuse` is case 2 of the answer, its text at 16; `choose` is case 0, its candidates at 16.
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
fn h09_returns_too_much() {
    always("huge-text", 2_000_000, Stopped::Run("output"));
    always("huge-text", 257, Stopped::Run("output"));
    always("many-reasons", 1_001, Stopped::Run("output"));
    always("huge-answer", 900, Stopped::Run("output"));
}

#[test]
fn h10_names_members_that_do_not_exist_or_twice() {
    always("bad-member", 0, Stopped::Check(Rule::UnknownMember));
    row(|| {
        for point in Point::ALL.into_iter().filter(|point| *point != Point::Treat) {
            assert_eq!(told("twice", 0, point), Stopped::Check(Rule::DuplicateMember), "{point}");
        }
    });
}

#[test]
fn h11_contradicts_itself() {
    row(|| {
        for point in Point::ALL.into_iter().filter(|point| *point != Point::Treat) {
            assert_eq!(told("empty", 0, point), Stopped::Check(Rule::EmptyAnswer), "{point}");
        }
        // The policy asks to replace a member, which no group can do.
        assert_eq!(told("count", 0, Point::Treat), Stopped::Check(Rule::RemedyNotPossible));
    });
}

#[test]
fn h12_chooses_a_member_that_is_barred() {
    row(|| {
        // It echoes every member as a candidate, the barred one too.
        assert_eq!(told("echo", 0, Point::Seed), Stopped::Check(Rule::BarredMember));
    });
}

#[test]
fn h13_h26_counts_or_looks_for_what_is_left() {
    row(|| {
        let stack = Stack::new(vec![layer(&hostile().1, r#"{"do":"count"}"#)]);
        let story = snapshot(vec![member(0, 1)]);
        let first = ask(&stack, Point::Join, &story).unwrap();
        for _ in 0..3 {
            assert_eq!(ask(&stack, Point::Join, &story).unwrap(), first);
        }
        let Reply::Answer(Answer::Choose(ranking)) = first.reply else { panic!("{first:?}") };
        assert_eq!(ranking.candidates.first().unwrap().reason, "1");
    });
}

#[test]
fn h23_puts_control_characters_into_its_texts() {
    row(|| {
        let stack = Stack::new(vec![layer(&hostile().1, r#"{"do":"controls"}"#)]);
        let answered = ask(&stack, Point::Seed, &snapshot(vec![member(0, 1)])).unwrap();
        let Reply::Answer(Answer::Choose(ranking)) = answered.reply else { panic!("{answered:?}") };
        assert_eq!(ranking.candidates.first().unwrap().reason, r"\u{1b}[2J\u{7}\u{d}\u{a}\u{0}\u{202e}");
    });
}

#[test]
fn h24_is_slow_within_its_budget() {
    row(|| {
        let limits = Limits::default();
        let stack = Stack::new(vec![layer(&hostile().1, r#"{"do":"loop"}"#)]);
        let failed = ask(&stack, Point::Seed, &snapshot(vec![member(0, 1)])).unwrap_err();
        let most = limits.fuel_base + limits.fuel_per_member + limits.fuel_per_byte * 1_000;
        let said: u64 = failed.message.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
        assert!(said <= most, "{}", failed.message);
    });
}

#[test]
fn h25_alternates_between_two_versions() {
    row(|| {
        let engine = Engine::new(Limits::default().unhurried()).unwrap();
        let load = |bytes: &[u8]| Policy::load(&engine, "test/flip", bytes);
        let kept = (
            load(&Guest::default().build()).unwrap(),
            load(&Guest { name: ["same", "1.0.0"], ..Guest::default() }.build()).unwrap(),
        );
        let compiled = engine.compilations();
        for _ in 0..20 {
            assert!(load(&Guest::default().build()).is_ok() && load(b"broken").is_err());
        }
        assert_eq!((compiled, engine.compilations()), (2, 2), "{kept:?}");
    });
}

/// What another process compiled is as good as what this one compiles, and what is broken is refused.
#[test]
fn h22_what_was_compiled_elsewhere_is_checked() {
    let (engine, bytes) = (Engine::new(Limits::default().unhurried()).unwrap(), Guest::default().build());
    let compiled = tanist_engine::compile(&bytes).unwrap();
    let policy = Policy::from_compiled(&engine, "test/compiled", &bytes, &compiled).unwrap();
    assert_eq!((policy.name().name.as_str(), engine.compilations()), ("tiny", 0));
    let stack = Stack::new(vec![layer(&Arc::new(policy), "{}")]);
    assert_eq!(ended(&stack, Point::Seed), Stopped::Run("abstained-all"));

    let engine = Engine::new(Limits::default().unhurried()).unwrap();
    for broken in [&b""[..], b"\x7fELF", &bytes, &built("sequence"), &compiled[..compiled.len() / 2]] {
        let error = Policy::from_compiled(&engine, "test/compiled", &bytes, broken).unwrap_err();
        assert_eq!(error.kind(), "compiled", "{error}");
    }
    // The bytes of the policy itself are held against the same gate as ever.
    assert_eq!(
        Policy::from_compiled(&engine, "test/compiled", &compiled, &compiled).unwrap_err().kind(),
        "not-webassembly"
    );
}
