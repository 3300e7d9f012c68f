//! The rows H1 to H28 of docs/safety.md that are stopped before their first question: each by its gate, and without taking memory of this process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

mod common;

use common::{
    Guest,
    bombs::{self, components, functions, leaked, loops_around_locals, nested, times, within},
    built, component, contract,
    rows::{Stopped, building, flat, hostile, loading, refusal, row},
};
use proptest::prelude::*;
use tanist_engine::{LoadError, Policy, RunError, Stack, Stage};

const SIZE: Stopped = Stopped::Load(Stage::Size);
const STRUCTURE: Stopped = Stopped::Load(Stage::Structure);
const EXAM: Stopped = Stopped::Load(Stage::Exam);

fn refusal_of(guest: &Guest) -> (&'static str, String) {
    refusal(&guest.build())
}

#[test]
fn h02_loops_in_its_start() {
    row(|| {
        let spin = Guest { extra: "(func $spin (loop (br 0))) (start $spin)", ..Guest::default() };
        assert_eq!(building(&spin), EXAM);
        assert!(matches!(spin.load(), Err(LoadError::Start(RunError::Fuel(_)))));
        let trap = Guest { extra: "(func $trap (unreachable)) (start $trap)", ..Guest::default() };
        assert!(matches!(trap.load(), Err(LoadError::Start(RunError::Trap(_)))));
    });
}

#[test]
fn h05_asks_for_much_at_its_start() {
    flat(|| {
        for (pages, extra) in [
            (257, ""),
            (65_536, ""),
            (1, "(table 10001 funcref)"),
            (1, "(table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref)"),
        ] {
            assert_eq!(building(&Guest { pages, extra, ..Guest::default() }), STRUCTURE, "{pages} {extra}");
        }
        let crowd = format!("(core module $m (memory 1)) {}", times(900, "(core instance (instantiate $m))"));
        assert_eq!(loading(&components(&crowd)), STRUCTURE);
    });
}

#[test]
fn h06_uses_features_that_are_switched_off() {
    for core in [
        "(module (memory i64 1))",
        "(module (memory 1) (memory 1))",
        "(module (memory 1 1 shared))",
        "(module (func (result v128) (v128.const i32x4 0 0 0 0)))",
        "(module (func (return_call 0)))",
        "(module (type (struct)))",
        "(module (type (func)) (func (param (ref 0))))",
        "(module (tag))",
        "(module (type $f (func)) (type $c (cont $f)))",
        "(module (global i32 (i32.add (i32.const 1) (i32.const 1))))",
    ] {
        let text = format!("(component (core {})", core.trim_start_matches('('));
        let bytes = wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let (kind, message) = refusal(&bytes);
        assert_eq!((loading(&bytes), kind), (STRUCTURE, "structure"), "{text}: {message}");
    }
    for component in [
        r#"(component (import "f" (func async)))"#,
        r#"(component (type (map string u32)))"#,
        r#"(component (type (list u32 4)))"#,
    ] {
        match wat::parse_str(component) {
            Ok(bytes) => assert_eq!(refusal(&bytes).0, "structure", "{component}"),
            Err(error) => panic!("{component}: {error}"),
        }
    }
}

#[test]
fn h14_h15_imports_a_clock_dice_or_anything_else() {
    for (import, name) in [
        (
            r#"(import "wasi:clocks/monotonic-clock@0.2.6" (instance (export "now" (func (result u64)))))"#,
            "wasi:clocks/monotonic-clock@0.2.6",
        ),
        (r#"(import "wasi:random/random@0.2.6" (instance (export "x" (func))))"#, "wasi:random/random@0.2.6"),
        (r#"(import "log" (func (param "text" string)))"#, "log"),
        (r#"(import "res" (instance (export "r" (type (sub resource)))))"#, "res"),
        (r#"(import "m" (core module))"#, "m"),
    ] {
        let bytes = wat::parse_str(format!("(component {import})")).unwrap();
        let (kind, message) = refusal(&bytes);
        assert_eq!((loading(&bytes), kind), (STRUCTURE, "import"), "{message}");
        assert_eq!(message, format!("it imports {name}, and a policy may import nothing but types"));
    }
}

#[test]
fn h15_imports_an_interface_of_wasi() {
    let wasi = "package wasi:clocks@0.2.6 { interface monotonic-clock { now: func() -> u64; } }";
    let contract = contract()
        .replace("world election-only {", "world election-only {\n    import wasi:clocks/monotonic-clock@0.2.6;");
    let module = Guest::default().module().replacen(
        "(module",
        r#"(module (import "wasi:clocks/monotonic-clock@0.2.6" "now" (func $now (result i64)))"#,
        1,
    );
    let bytes = component(&module, &format!("{contract}\n{wasi}"), "election-only");
    assert_eq!(
        refusal(&bytes).1,
        "it imports wasi:clocks/monotonic-clock@0.2.6, and a policy may import nothing but types"
    );
}

#[test]
fn h16_lacks_an_interface() {
    let (kind, message) = refusal(&wat::parse_str("(component)").unwrap());
    assert_eq!(loading(&wat::parse_str("(component)").unwrap()), STRUCTURE);
    assert_eq!((kind, message.as_str()), ("lacks-about", "it does not export tanist:policy/about"));
    let contract = contract().replace(
        "world election-only {\n    export types;\n    export about;\n    export election;",
        "world election-only {\n    export types;\n    export about;",
    );
    let module = Guest::default().module().replace("tanist:policy/election@0.1.4", "x");
    assert_eq!(refusal(&component(&module, &contract, "election-only")).0, "lacks-points");
}

#[test]
fn h16_has_a_function_of_another_type() {
    row(|| {
        let changed = contract().replacen("barred: option<string>,", "barred: option<string>, extra: u32,", 1);
        let bytes = component(&Guest::default().module(), &changed, "election-only");
        assert_eq!(loading(&bytes), Stopped::Load(Stage::Type));
    });
}

#[test]
fn h17_h18_h22_is_no_component_too_large_or_native_code() {
    let (kind, message) = refusal(b"");
    assert_eq!((kind, message.as_str()), ("empty", "it is empty"));
    assert_eq!(refusal(&[0x1f, 0x8b, 8, 0]).0, "gzip");
    let module = wat::parse_str("(module)").unwrap();
    let (kind, message) = refusal(&module);
    assert_eq!(
        (kind, message.as_str()),
        ("core-module", "it is a core module, not a component; encode it as a component first")
    );
    for bytes in [&b"hello"[..], b"\0", b"\0asm", b"\x7fELF\x02\x01\x01", b"(component)", &[0xff; 64]] {
        assert!(["not-webassembly", "structure"].contains(&refusal(bytes).0), "{bytes:?}");
    }
    let (kind, message) = refusal(&vec![0; (1 << 20) + 1]);
    assert_eq!((kind, message.as_str()), ("size", "it has 1048577 bytes, 1048576 are allowed"));
    // What the compiler makes is not accepted as a policy.
    let native = tanist_engine::compile(&Guest::default().build()).unwrap();
    assert_eq!((loading(&native), refusal(&native).0), (SIZE, "not-webassembly"));
}

#[test]
fn h17_is_cut_off_at_any_byte() {
    let engine = &hostile().0;
    let bytes = Guest::default().build();
    for end in 0..bytes.len() {
        match Policy::load(engine, "test/truncated", &bytes[..end]) {
            Err(error) => assert!(!error.to_string().is_empty()),
            // Only names for debuggers are missing.
            Ok(policy) => assert!(end > bytes.len() / 2 && policy.name().name == "tiny", "{end}"),
        }
    }
}

#[test]
fn h17_is_a_mebibyte_of_noise() {
    let mut noise = Vec::with_capacity(1 << 20);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    while noise.len() < 1 << 20 {
        // Xorshift: the same noise in every run.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise.extend_from_slice(&state.to_le_bytes());
    }
    let (mut framed, mut inside) = (noise.clone(), noise.clone());
    framed[..8].copy_from_slice(b"\0asm\x0d\0\x01\0");
    // A core module of noise, with the right length.
    inside[..20].copy_from_slice(b"\0asm\x0d\0\x01\0\x01\xef\xff\x3f\0asm\x01\0\0\0");
    flat(|| {
        assert_eq!(loading(&noise), SIZE);
        assert_eq!(loading(&framed), STRUCTURE);
        assert_eq!(loading(&inside), STRUCTURE);
    });
}

/// The components of docs/safety.md that take a compiler minutes or gigabytes.
#[test]
fn h19_is_expensive_to_compile() {
    let store = "local.get 0 local.get 0 i32.store offset=70000 ";
    let bombs = [
        ("20,000 empty loops", functions(1, "", &times(20_000, "loop end "))),
        ("200,000 empty loops", functions(1, "", &times(200_000, "loop end "))),
        ("11,000 nested loops", functions(1, "", &nested(11_000, ""))),
        ("100,000 nested loops", functions(1, "", &nested(100_000, ""))),
        ("a function with 50,000 locals", functions(1, &format!("(local{})", times(50_000, " i64")), "")),
        ("9,000 functions with 40 locals", functions(9_000, &format!("(local{})", times(40, " i64")), "")),
        ("1,500 locals around 200 loops", times(20, &loops_around_locals(200, 1_500, 1))),
        ("200,000 empty functions", functions(200_000, "", "")),
        ("300,000 calls", functions(1, "", &times(300_000, "call 0 "))),
        ("110,000 stores", bombs::spread(110_000, 1_000, "(param i32)", store)),
        (
            "20,000 copies",
            bombs::spread(20_000, 5_000, "(param i32)", "local.get 0 local.get 0 local.get 0 memory.copy "),
        ),
        ("13,000 stores in one function", bombs::spread(13_000, 13_000, "(param i32)", store)),
    ];
    for (name, extra) in bombs {
        let bytes = Guest { extra: leaked(extra), ..Guest::default() }.build();
        assert_eq!(flat(|| loading(&bytes)), if bytes.len() > 1 << 20 { SIZE } else { STRUCTURE }, "{name}");
    }
}

#[test]
fn h20_nests_or_repeats() {
    let deep = |tag: &[u8], levels: usize| {
        let section = tag.repeat(levels);
        let mut bytes = b"\0asm\x0d\0\x01\0\x07".to_vec();
        leb(section.len() + 1, &mut bytes);
        bytes.push(1);
        [bytes, section].concat()
    };
    let mut wide = "(type $a (tuple u8 u8 u8 u8 u8 u8 u8 u8 u8 u8))".to_owned();
    for level in 0..8 {
        wide.push_str(&format!("(type (tuple{}))", times(10, &format!(" {level}"))));
    }
    let mut bombs = vec![
        components(&within(20, "component", "")),
        components(&times(2_000, "(component)")),
        components(&format!("(type $t u8) (component {})", times(6_000, "(alias outer 1 $t (type))"))),
        components(&format!("(component (export \"{}\" (component 0)))", times(90_000, "a"))),
        components(&wide),
    ];
    // 300,000 types inside of each other: a parser that recurses ends the process by its stack.
    for levels in [100, 10_000, 300_000] {
        bombs.extend([deep(&[0x41, 1, 1], levels), deep(&[0x42, 1, 1], levels)]);
    }
    // Only what the gate takes counts, not what making them took.
    flat(|| bombs.iter().for_each(|bomb| assert_eq!(loading(bomb), STRUCTURE)));
}

/// A number as WebAssembly writes it.
fn leb(mut number: usize, out: &mut Vec<u8>) {
    while number > 127 {
        out.push((number & 127) as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

#[test]
fn h20_instantiates_twice_at_each_level() {
    let mut text = "(core module $m) (core instance (instantiate $m))".to_owned();
    for _ in 0..15 {
        text = format!("(component $below {text}) (instance (instantiate $below)) (instance (instantiate $below))");
    }
    assert_eq!(flat(|| loading(&components(&text))), STRUCTURE);
}

#[test]
fn h27_is_for_another_version_of_the_contract() {
    for version in ["0.2.0", "1.0.0"] {
        let (kind, message) = refusal_of(&Guest { version, ..Guest::default() });
        assert_eq!((building(&Guest { version, ..Guest::default() }), kind), (STRUCTURE, "unserved"));
        let expected = format!("@{version}, this host serves tanist:policy@0.1.4");
        assert!(message.starts_with("it uses tanist:policy/") && message.ends_with(&expected), "{message}");
    }
    let draft = r#"(component (import "tanist:draft/scaling@0.0.1" (instance)))"#;
    assert_eq!(refusal(&wat::parse_str(draft).unwrap()).0, "unserved");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn h28_is_any_other_sequence_of_bytes(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = Guest::default().build();
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(policy) = Policy::load(&hostile().0, "test/changed", &bytes) {
            let stack = Stack::new(vec![tanist_engine::Layer { policy: std::sync::Arc::new(policy), points: None, parameters: "{}".to_owned() }]);
            let _ = common::ask(&stack, tanist_core::policy::Point::Seed, &common::snapshot(vec![common::member(0, 1)]));
        }
    }

    #[test]
    fn h28_is_a_changed_policy_of_a_toolchain(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..64)) {
        let mut bytes = built("sequence");
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        // What is not refused here is valid, and within the caps.
        let _ = tanist_engine::structure::examine(&bytes, &tanist_engine::structure::Caps::default());
    }
}
