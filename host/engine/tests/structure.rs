//! H19, H20: each cap of a component's structure refuses one more than it allows, and says what and where.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

mod common;

use common::{
    Guest,
    bombs::{components, functions, leaked, nested, times, within},
    built,
};
use tanist_engine::{
    LoadError, Stage,
    structure::{Caps, StructureError, examine},
};

/// No cap.
fn open() -> Caps {
    const ANY: u64 = u64::MAX;
    Caps {
        nesting: ANY,
        type_nesting: ANY,
        types: ANY,
        modules: ANY,
        instances: ANY,
        adapters: ANY,
        aliases: ANY,
        externals: ANY,
        name_bytes: ANY,
        functions: ANY,
        parameters: ANY,
        results: ANY,
        body_bytes: ANY,
        function_locals: ANY,
        locals: ANY,
        block_nesting: ANY,
        function_blocks: ANY,
        blocks: ANY,
        function_values: ANY,
        values: ANY,
        function_calls: ANY,
        calls: ANY,
        work: ANY,
        memories: ANY,
        memory_bytes: ANY,
        tables: ANY,
        elements: ANY,
        segments: ANY,
        globals: ANY,
    }
}

/// What it is called, how its cap is set, and a component with more of it for a larger number.
type Case = (&'static str, fn(&mut Caps) -> &mut u64, fn(u64) -> Vec<u8>);

const OF_COMPONENTS: &[Case] = &[
    ("components inside of each other", |caps| &mut caps.nesting, |n| components(&within(n, "component", ""))),
    ("types inside of each other", |caps| &mut caps.type_nesting, |n| components(&within(n, "type (component", ")"))),
    ("types and their parts", |caps| &mut caps.types, |n| components(&times(n, "(type (list u8))"))),
    ("types and their parts", |caps| &mut caps.types, |n| components(&format!("(type (tuple{}))", times(n, " u8")))),
    ("core modules", |caps| &mut caps.modules, |n| components(&times(n, "(core module)"))),
    (
        "instances that starting it makes",
        |caps| &mut caps.instances,
        |n| components(&format!("(core module $m) {}", times(n, "(core instance (instantiate $m))"))),
    ),
    (
        "instances that starting it makes",
        |caps| &mut caps.instances,
        |n| components(&format!("(component $c) {}", times(n, "(instance (instantiate $c))"))),
    ),
    (
        "calls from component to component",
        |caps| &mut caps.adapters,
        |n| {
            let lowered = times(n, "(core func (canon lower (func $f)))");
            components(&format!(
                "(component $c (import \"f\" (func $f)) {lowered}) (import \"f\" (func $f)) (instance (instantiate $c (with \"f\" (func $f))))"
            ))
        },
    ),
    (
        "aliases",
        |caps| &mut caps.aliases,
        |n| components(&format!("(type $t u8) (component {})", times(n, "(alias outer 1 $t (type))"))),
    ),
    (
        "imports and exports",
        |caps| &mut caps.externals,
        |n| {
            let exports = (0..n).map(|i| format!("(export \"e{i}\" (func $f))")).collect::<String>();
            components(&format!("(core module (func $f) {exports})"))
        },
    ),
    (
        "bytes of a name",
        |caps| &mut caps.name_bytes,
        |n| components(&format!("(core module (func (export \"{}\")))", times(n, "x"))),
    ),
];

const OF_MODULES: &[Case] = &[
    ("functions", |caps| &mut caps.functions, |n| module(&functions(n, "", ""))),
    (
        "parameters of a function or block",
        |caps| &mut caps.parameters,
        |n| module(&format!("(type (func (param{})))", times(n, " i32"))),
    ),
    (
        "results of a function or block",
        |caps| &mut caps.results,
        |n| module(&format!("(type (func (result{})))", times(n, " i32"))),
    ),
    ("locals of all functions", |caps| &mut caps.locals, |n| module(&functions(n, "(local i32)", ""))),
    ("memories", |caps| &mut caps.memories, |n| components(&times(n, "(core module (memory 0))"))),
    ("bytes of memory at the start", |caps| &mut caps.memory_bytes, |n| module(&format!("(memory {n})"))),
    ("tables", |caps| &mut caps.tables, |n| module(&times(n, "(table 0 funcref)"))),
    ("elements of tables", |caps| &mut caps.elements, |n| module(&format!("(table {n} funcref)"))),
    ("elements of tables", |caps| &mut caps.elements, |n| module(&format!("(func $f) (elem func{})", times(n, " $f")))),
    ("segments of data and elements", |caps| &mut caps.segments, |n| module(&times(n, "(data \"\")"))),
    ("segments of data and elements", |caps| &mut caps.segments, |n| module(&times(n, "(elem func)"))),
    ("globals", |caps| &mut caps.globals, |n| module(&times(n, "(global i32 (i32.const 0))"))),
    ("blocks, loops and branches of all functions", |caps| &mut caps.blocks, |n| module(&functions(n, "", ""))),
    ("calls in all functions", |caps| &mut caps.calls, |n| module(&functions(n, "", "call 0"))),
    (
        "values alive at the blocks and branches of all functions",
        |caps| &mut caps.values,
        |n| module(&functions(n, "(param i32)", "loop end")),
    ),
    ("estimated microseconds of the compiler", |caps| &mut caps.work, |n| module(&functions(n, "", ""))),
];

const OF_FUNCTIONS: &[Case] = &[
    ("bytes of function 0", |caps| &mut caps.body_bytes, |n| body("", &times(n, "nop "))),
    (
        "locals of function 0",
        |caps| &mut caps.function_locals,
        |n| body(leaked(format!("(local{})", times(n, " i32"))), ""),
    ),
    ("blocks inside of each other of function 0", |caps| &mut caps.block_nesting, |n| body("", &nested(n, ""))),
    (
        "blocks, loops and branches of function 0",
        |caps| &mut caps.function_blocks,
        |n| body("", &times(n, "block end ")),
    ),
    (
        "blocks, loops and branches of function 0",
        |caps| &mut caps.function_blocks,
        |n| body("", &format!("block {} end", times(n, "i32.const 0 br_if 0 "))),
    ),
    (
        "blocks, loops and branches of function 0",
        |caps| &mut caps.function_blocks,
        |n| body("", &format!("block i32.const 0 br_table {} end", times(n, "0 "))),
    ),
    ("calls of function 0", |caps| &mut caps.function_calls, |n| body("", &times(n, "call 0 "))),
    ("calls of function 0", |caps| &mut caps.function_calls, |n| body("", &times(n, "ref.func 0 drop "))),
    (
        "values alive at the blocks and branches of function 0",
        |caps| &mut caps.function_values,
        |n| body("(param i32 i32)", &times(n, "loop end ")),
    ),
    (
        "values alive at the blocks and branches of function 0",
        |caps| &mut caps.function_values,
        |n| body("", &format!("{} loop end {}", times(n, "i32.const 0 "), times(n, "drop "))),
    ),
];

fn module(fields: &str) -> Vec<u8> {
    components(&format!("(core module {fields})"))
}

fn body(what: &str, body: &str) -> Vec<u8> {
    module(&format!("(elem declare func 0) {}", functions(1, what, body)))
}

/// How much of it a component has, according to a cap of 0.
fn found(what: &str, cap: fn(&mut Caps) -> &mut u64, bytes: &[u8], allowed: u64) -> Option<(u64, usize)> {
    let mut caps = open();
    *cap(&mut caps) = allowed;
    match examine(bytes, &caps) {
        Ok(_) => None,
        Err(StructureError::Above { what: said, offset, found, cap, advice }) => {
            assert_eq!((said.as_str(), cap), (what, allowed));
            assert!(!advice.is_empty() && found > allowed && offset > 0 && offset <= bytes.len());
            Some((found, offset))
        }
        Err(other) => panic!("{what}: {other}"),
    }
}

#[test]
fn every_cap_of_h19_and_h20_refuses_one_more_than_it_allows() {
    for (what, cap, make) in [OF_COMPONENTS, OF_MODULES, OF_FUNCTIONS].concat() {
        let (few, more) = (make(7), make(8));
        // The smallest cap that lets the smaller one pass refuses the larger one.
        let enough = (0..1 << 20).find(|allowed| found(what, cap, &few, *allowed).is_none());
        let enough = enough.unwrap_or_else(|| panic!("{what} has no bound"));
        assert!(enough > 0, "{what} is not counted");
        assert!(found(what, cap, &more, enough).is_some(), "{what}: eight are not more than seven");
    }
}

#[test]
fn h20_instances_are_counted_over_all_levels() {
    // Each level instantiates the one below twice: 20 levels, 2 KB, a million instances.
    let mut text = "(core module $m) (core instance (instantiate $m))".to_owned();
    for _ in 0..15 {
        text = format!("(component $below {text}) (instance (instantiate $below)) (instance (instantiate $below))");
    }
    let refused = examine(&components(&text), &Caps::default()).unwrap_err();
    assert!(matches!(&refused, StructureError::Above { cap: 64, .. }), "{refused}");
    assert!(refused.to_string().starts_with("instances that starting it makes: "), "{refused}");

    // An alias of a component costs what the component costs; so does its export.
    for way in ["(alias outer 1 $many (component $again))", "(export $again \"again\" (component $here))"] {
        let many = format!("(component $here (core module $m) {})", times(60, "(core instance (instantiate $m))"));
        let inner = if way.contains("outer") { String::new() } else { many.clone() };
        let outer = if way.contains("outer") { many.replace("$here", "$many") } else { String::new() };
        let one = format!("{outer} (component {inner} {way} (instance (instantiate $again)))");
        assert!(examine(&components(&one), &Caps::default()).is_ok(), "{way}");
        let two = one.replace(
            "(instance (instantiate $again))",
            "(instance (instantiate $again)) (instance (instantiate $again))",
        );
        assert!(
            matches!(examine(&components(&two), &Caps::default()), Err(StructureError::Above { cap: 64, .. })),
            "{way}"
        );
    }
}

#[test]
fn h20_a_component_that_comes_from_outside_is_refused() {
    for text in [
        "(component (import \"c\" (component)))",
        "(component $c (component $d) (export \"d\" (component $d))) (instance $i (instantiate $c)) (alias export $i \"d\" (component))",
    ] {
        let refused = examine(&components(text), &Caps::default()).unwrap_err();
        assert!(matches!(refused, StructureError::HandedOver { .. }), "{refused}");
    }
}

#[test]
fn texts_are_utf8_alone() {
    for encoding in ["utf16", "latin1+utf16"] {
        let text = format!(
            "(core module $m (memory (export \"m\") 1) (func (export \"f\") (param i32 i32)) (func (export \"r\") (param i32 i32 i32 i32) (result i32) unreachable))
             (core instance $i (instantiate $m))
             (func (param \"s\" string) (canon lift (core func $i \"f\") (memory (core memory $i \"m\")) (realloc (core func $i \"r\")) string-encoding={encoding}))"
        );
        let refused = examine(&components(&text), &Caps::default()).unwrap_err();
        assert!(matches!(refused, StructureError::Encoding { .. }), "{refused}");
        assert!(examine(&components(&text.replace(encoding, "utf8")), &Caps::default()).is_ok());
    }
}

#[test]
fn the_policies_of_this_repository_need_a_fraction_of_the_caps() {
    for name in ["sequence", "prefer", "reversed", "hostile"] {
        let caps = Caps::default();
        let structure = examine(&built(name), &caps).unwrap();
        let count = |what: &str| structure.counts.iter().find(|(each, _)| *each == what).unwrap().1;
        // This one exports every interface.
        let part = if name == "hostile" { 2 } else { 3 };
        assert!(count("estimated microseconds of the compiler") * part < caps.work, "{name}: {structure:?}");
        assert!(count("types and their parts") * 4 < caps.types, "{name}");
        assert!(structure.imports.is_empty() && structure.exports.contains(&"tanist:policy/about@0.1.4".to_owned()));
    }
}

#[test]
fn a_refusal_names_the_function_and_says_what_to_do() {
    let guest = Guest { extra: leaked(functions(1, "", &times(3_000, "block end "))), ..Guest::default() };
    let error = guest.load().unwrap_err();
    assert_eq!(error.stage(), Stage::Structure);
    assert_eq!(tanist_engine::compile(&guest.build()), Err(error.clone()));
    let LoadError::Structure(StructureError::Above { offset, .. }) = &error else { panic!("{error}") };
    assert_eq!(
        error.to_string(),
        format!(
            "it cannot be compiled: blocks, loops and branches of function 6: 4001 counted up to byte {offset}, 4000 are allowed; split the function into smaller ones, or forbid the compiler to inline"
        )
    );
}

/// The figures of docs/safety.md, H19: `cargo test --locked --workspace --test structure -- --ignored --nocapture`.
#[test]
#[ignore = "measures for a minute"]
fn what_the_caps_allow_takes_some_seconds() {
    for (name, extra) in common::bombs::largest() {
        let guest = Guest { extra: leaked(extra), ..Guest::default() };
        let (bytes, before) = (guest.build(), common::usage::busy());
        let structure = examine(&bytes, &Caps::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let estimate = structure.counts.iter().find(|(what, _)| what.starts_with("estimated")).unwrap().1 / 1_000;
        let begun = common::usage::peak_from_now();
        let compiled = tanist_engine::compile(&bytes).unwrap();
        let (took, peak) = (common::usage::busy() - before, common::usage::peak() - begun);
        println!(
            "{name}: {} bytes, estimated {estimate} ms, took {took} ms and {} MiB, gave {} bytes",
            bytes.len(),
            peak >> 20,
            compiled.len()
        );
    }
}
