//! What is loaded and what is refused, with which words.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

mod common;

use std::sync::Arc;

use common::{Guest, ask, built, component, contract, engine, layer, load, member, snapshot};
use proptest::prelude::*;
use tanist_core::policy::Point;
use tanist_engine::{Engine, Limits, LoadError, Policy, Stack};

fn refusal(bytes: &[u8]) -> (&'static str, String) {
    let error = Policy::load(&engine(), "test/bytes", bytes).unwrap_err();
    let mut message = error.to_string();
    if let Some(source) = std::error::Error::source(&error) {
        message = format!("{message}: {source}");
    }
    (error.kind(), message)
}

fn refusal_of(guest: &Guest) -> (&'static str, String) {
    refusal(&guest.build())
}

#[test]
fn a_policy_that_has_one_interface_is_loaded() {
    let policy = Guest::default().load().unwrap();
    assert_eq!(policy.points().collect::<Vec<_>>(), [Point::Seed, Point::Failover, Point::Join, Point::Demote]);
    assert_eq!(policy.name().to_string(), "tiny 1.0.0 (test/guest)");
    assert!(policy.name().digest.starts_with("sha256:") && policy.name().digest.len() == 71);
    let stack = Stack::new(vec![layer(&Arc::new(policy), "{}")]);
    assert_eq!(ask(&stack, Point::Treat, &snapshot(vec![])).unwrap_err().kind, "no-policy");
    assert_eq!(ask(&stack, Point::Seed, &snapshot(vec![])).unwrap_err().kind, "abstained-all");
}

#[test]
fn all_built_policies_are_loaded() {
    let engine = engine();
    for name in ["sequence", "reversed", "prefer", "hostile"] {
        let policy = load(&engine, name);
        assert_eq!(policy.name().name, name);
        assert_eq!(policy.points().collect::<Vec<_>>(), Point::ALL, "{name}");
    }
}

#[test]
fn the_built_in_policy_fits_into_a_fraction_of_a_config_map() {
    assert!(built("sequence").len() < 100_000, "{}", built("sequence").len());
}

#[test]
fn instances_that_hold_only_types_may_be_imported() {
    let contract =
        contract().replace("world election-only {\n    export types;", "world election-only {\n    import types;");
    let bytes = component(&Guest::default().module(), &contract, "election-only");
    assert!(Policy::load(&engine(), "test/imports-types", &bytes).is_ok());
}

#[test]
fn bytes_that_are_no_component_are_refused() {
    // H17, H18, H22
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
        assert!(["not-webassembly", "compile"].contains(&refusal(bytes).0), "{bytes:?}");
    }
    let (kind, message) = refusal(&vec![0; (1 << 20) + 1]);
    assert_eq!((kind, message.as_str()), ("size", "it has 1048577 bytes, 1048576 are allowed"));
}

#[test]
fn a_truncated_component_is_refused() {
    let engine = engine();
    let bytes = Guest::default().build();
    for end in 0..bytes.len() {
        match Policy::load(&engine, "test/truncated", &bytes[..end]) {
            Err(error) => assert!(!error.to_string().is_empty()),
            // Only names for debuggers are missing.
            Ok(policy) => assert!(end > bytes.len() / 2 && policy.name().name == "tiny", "{end}"),
        }
    }
}

#[test]
fn imports_are_refused_by_name() {
    // H14, H15
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
        assert_eq!(kind, "import", "{message}");
        assert_eq!(message, format!("it imports {name}, and a policy may import nothing but types"));
    }
}

#[test]
fn a_component_with_a_wasi_import_is_refused_with_its_name() {
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
fn other_versions_of_the_contract_are_refused_with_both_versions() {
    // H27
    for version in ["0.2.0", "1.0.0"] {
        let (kind, message) = refusal_of(&Guest { version, ..Guest::default() });
        assert_eq!(kind, "unserved");
        let expected = format!("@{version}, this host serves tanist:policy@0.1.0");
        assert!(message.starts_with("it uses tanist:policy/") && message.ends_with(&expected), "{message}");
    }
    let draft = r#"(component (import "tanist:draft/scaling@0.0.1" (instance)))"#;
    assert_eq!(refusal(&wat::parse_str(draft).unwrap()).0, "unserved");
}

#[test]
fn patch_releases_of_the_contract_are_served() {
    assert!(Guest { version: "0.1.7", ..Guest::default() }.load().is_ok());
}

#[test]
fn what_is_missing_is_said() {
    // H16
    let (kind, message) = refusal(&wat::parse_str("(component)").unwrap());
    assert_eq!((kind, message.as_str()), ("lacks-about", "it does not export tanist:policy/about"));
    let contract = contract().replace(
        "world election-only {\n    export types;\n    export about;\n    export election;",
        "world election-only {\n    export types;\n    export about;",
    );
    let module = Guest::default().module().replace("tanist:policy/election@0.1.0", "x");
    assert_eq!(refusal(&component(&module, &contract, "election-only")).0, "lacks-points");
}

#[test]
fn an_interface_of_another_type_is_refused_before_the_first_question() {
    for (from, to, part) in [
        (
            "barred: option<string>,",
            "barred: option<string>, extra: u32,",
            "expected record of 20 fields, found 21 fields",
        ),
        ("not-asked,\n    }", "not-asked, other,\n    }", "variant"),
        ("demote: func(snapshot: snapshot) -> result<answer, fault>;", "", "demote"),
        ("seed: func(snapshot: snapshot)", "seed: func(snapshot: snapshot, extra: u32)", ""),
        (
            "seed: func(snapshot: snapshot) -> result<answer, fault>",
            "seed: func(snapshot: snapshot) -> result<fault, answer>",
            "",
        ),
    ] {
        let changed = contract().replacen(from, to, 1);
        assert_ne!(changed, contract());
        let module = Guest::default().module();
        let (kind, message) = refusal(&component(&module, &changed, "election-only"));
        assert_eq!(kind, "type", "{message}");
        assert!(
            message.contains("its tanist:policy/election is not that of the contract") && message.contains(part),
            "{message}"
        );
    }
}

#[test]
fn features_that_are_switched_off_are_refused() {
    // H6
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
        assert_eq!(kind, "compile", "{text}: {message}");
    }
    for component in [
        r#"(component (import "f" (func async)))"#,
        r#"(component (type (map string u32)))"#,
        r#"(component (type (list u32 4)))"#,
    ] {
        match wat::parse_str(component) {
            Ok(bytes) => assert_eq!(refusal(&bytes).0, "compile", "{component}"),
            Err(error) => panic!("{component}: {error}"),
        }
    }
}

#[test]
fn descriptions_and_schemas_are_checked() {
    for (guest, kind, part) in [
        (Guest { name: ["", "1.0.0"], ..Guest::default() }, "description", "its name has 0 bytes, 1 to 64 are allowed"),
        (Guest { name: ["\u{1b}[2J", "1.0.0"], ..Guest::default() }, "description", "its name has control characters"),
        (Guest { name: ["tiny", "1"], ..Guest::default() }, "description", "its version `1` is not a semantic version"),
        (Guest { schema: "{", ..Guest::default() }, "schema", "schema: it is not JSON"),
        (
            Guest { schema: r##"{"type":"object","$ref":"#"}"##, ..Guest::default() },
            "schema",
            "schema: `$ref` is not understood",
        ),
    ] {
        let (found, message) = refusal_of(&guest);
        assert_eq!(found, kind);
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn parameters_are_checked_and_brought_into_one_form() {
    let policy = load(&engine(), "sequence");
    assert_eq!(policy.validate("{}").unwrap(), r#"{"prefer":[],"runningFirst":true}"#);
    assert_eq!(
        policy.validate(r#"{"runningFirst": false, "prefer": ["db-2"]}"#).unwrap(),
        r#"{"prefer":["db-2"],"runningFirst":false}"#
    );
    let error = policy.validate(r#"{"prefer":["db-1",2]}"#).unwrap_err();
    assert_eq!(error.to_string(), "parameters.prefer[1]: expected a text, found a whole number");
    assert!(policy.validate(r#"{"order":"lowest"}"#).is_err());
    let none = load(&engine(), "reversed").validate(r#"{"a":1}"#).unwrap_err();
    assert_eq!(none.to_string(), "parameters: this policy takes no parameters");
}

#[test]
fn the_same_bytes_share_what_was_compiled() {
    let engine = engine();
    let first = Policy::load(&engine, "configmap/a/x.wasm", &built("prefer")).unwrap();
    let second = Policy::load(&engine, "configmap/b/x.wasm", &built("prefer")).unwrap();
    // What was compiled holds the description, so that one place means one compilation.
    assert!(std::ptr::eq(first.description(), second.description()));
    assert_eq!(first.name().digest, second.name().digest);
    assert_ne!(first.name().source, second.name().source);
}

#[test]
fn a_smaller_limit_refuses_what_a_larger_accepts() {
    let engine = Engine::new(Limits { component_bytes: 1_000, ..Limits::default() }).unwrap();
    assert!(matches!(Policy::load(&engine, "x", &built("prefer")), Err(LoadError::Size { limit: 1_000, .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// H28: whatever the bytes are, there is a value.
    #[test]
    fn changed_bytes_never_panic(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = Guest::default().build();
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(policy) = Policy::load(&engine(), "test/changed", &bytes) {
            let stack = Stack::new(vec![tanist_engine::Layer { policy: Arc::new(policy), points: None, parameters: "{}".to_owned() }]);
            let _ = ask(&stack, Point::Seed, &snapshot(vec![member(0, 1)]));
        }
    }
}
