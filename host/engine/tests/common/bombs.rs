//! Functions that have so much of one thing, as fields of a core module's text: what a cap bounds, and what takes a compiler longest.

use std::fmt::Write;

/// So many functions with this body; `what` comes before it (parameters, results, locals).
pub fn functions(count: u64, what: &str, body: &str) -> String {
    let mut text = String::new();
    for _ in 0..count {
        let _ = writeln!(text, "(func {what} {body})");
    }
    text
}

/// A text again and again.
pub fn times(count: u64, text: &str) -> String {
    text.repeat(usize::try_from(count).unwrap())
}

/// `count` pieces of `body`, in functions of at most `each`.
pub fn spread(count: u64, each: u64, what: &str, body: &str) -> String {
    let mut text = functions(count / each, what, &times(each, body));
    if !count.is_multiple_of(each) {
        text.push_str(&functions(1, what, &times(count % each, body)));
    }
    text
}

/// A body inside of so many loops.
pub fn nested(depth: u64, body: &str) -> String {
    format!("{}{body}{}", times(depth, "loop "), times(depth, "end "))
}

/// A function of nested loops around changes of so many locals: each loop may hand each local on.
pub fn loops_around_locals(depth: u64, locals: u64, again: u64) -> String {
    let mut inner = String::new();
    for local in 0..locals {
        let _ = write!(inner, "local.get {local} i32.const 1 i32.add local.set {local} ");
    }
    let body = nested(depth, &format!("{inner} local.get 0 br_if 0 "));
    format!("(func (local{}) {})", times(locals, " i32"), times(again, &body))
}

/// A function that keeps so many values on its stack across so many loops.
pub fn loops_below_values(values: u64, loops: u64) -> String {
    let mut push = String::new();
    for value in 0..values {
        let _ = write!(push, "local.get 0 i32.const {value} i32.mul ");
    }
    let sum = times(values.saturating_sub(1), "i32.add ");
    format!("(func (param i32) (result i32) {push} {} {sum})", times(loops, "loop end "))
}

/// A text that lives as long as the test.
pub fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// A component of this text.
pub fn components(text: &str) -> Vec<u8> {
    let text = format!("(component {text})");
    wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// So many of something inside of each other.
pub fn within(depth: u64, what: &str, end: &str) -> String {
    format!("{}{}", times(depth, &format!("({what} ")), times(depth, &format!("{end})")))
}

/// Components close to the caps that take the compiler longest, with what they are called.
pub fn largest() -> Vec<(&'static str, String)> {
    let swap = (0..16).map(|local| format!("local.get {local} ")).collect::<String>();
    let sixteen = format!("(param{0}) (result{0})", times(16, " i32"));
    let store = "local.get 0 local.get 1 i32.store offset=70000 ";
    vec![
        ("empty loops in many functions", spread(22_000, 500, "", "loop end ")),
        ("empty loops in large functions", spread(6 * 1_990, 1_990, "", "loop end ")),
        ("nested loops", spread(7 * 7, 7, "", &nested(250, ""))),
        ("loops around locals", times(4, &loops_around_locals(250, 300, 2))),
        ("loops below values", times(4, &loops_below_values(2_000, 90))),
        ("functions", functions(9_900, "", "")),
        ("functions with locals", functions(9_900, &format!("(local{})", times(20, " i64")), "")),
        ("calls", format!("(func $c) {}", spread(50_000, 9_000, "", "call $c "))),
        (
            "calls with values",
            format!(
                "(func $c {sixteen} unreachable) {}",
                functions(2, &sixteen, &format!("{swap} {}", times(5_000, "call $c ")))
            ),
        ),
        ("stores in many functions", spread(16_000, 1_000, "(param i32 i32)", store)),
        ("stores in large functions", spread(6_200, 6_200, "(param i32 i32)", store)),
        ("copies", spread(3_000, 300, "(param i32)", "local.get 0 local.get 0 local.get 0 memory.copy ")),
        ("divisions", spread(15_000, 1_000, "(param i64 i64)", "local.get 0 local.get 1 i64.div_s local.set 0 ")),
        ("floats", spread(60_000, 14_000, "(param f64)", "local.get 0 local.get 0 f64.div local.set 0 ")),
        (
            "conversions",
            spread(55_000, 14_000, "(param f64)", "local.get 0 i64.trunc_sat_f64_s f64.convert_i64_s local.set 0 "),
        ),
        ("additions", spread(60_000, 17_000, "(param i64)", "local.get 0 i64.const 3 i64.add local.set 0 ")),
        (
            "selections",
            spread(45_000, 13_000, "(param i32 i32)", "local.get 0 local.get 1 local.get 0 select local.set 0 "),
        ),
        (
            "globals",
            format!(
                "(global $g (mut i64) (i64.const 0)) {}",
                spread(55_000, 14_000, "", "global.get $g i64.const 1 i64.add global.set $g ")
            ),
        ),
        (
            "ifs",
            spread(
                7_000,
                1_000,
                "(param i32)",
                "local.get 0 if local.get 0 i32.const 1 i32.add local.set 0 else local.get 0 i32.const 2 i32.add local.set 0 end ",
            ),
        ),
    ]
}
