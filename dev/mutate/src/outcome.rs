//! What the tables say of a mutation, read from what the tests printed.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::process::End;

/// No test noticed it.
pub const SURVIVED: &str = "**none: it survived**";

/// How many failed tests a row names.
const NAMED: usize = 3;

/// The random tests of the core, by the beginnings of their names, in the order of the columns.
const RANDOM: [&str; 3] = ["whatever_a_policy", "whatever_happens", "when_faults"];

/// The failed tests: their whole names, once each.
pub fn failed(said: &str) -> BTreeSet<&str> {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b':'));
    said.lines().filter_map(|line| line.strip_prefix("    ")).filter(|name| is_name(name)).collect()
}

/// The cell of a mutation that was noticed: at most three tests, without their modules, and the scripts that differ.
pub fn noticed(end: End, said: &str) -> String {
    if let End::Endless(after) = end {
        return endless(after);
    }
    let names: Vec<_> = failed(said).into_iter().take(NAMED).map(last).collect();
    let scripts: Vec<_> = said.lines().filter_map(script).collect::<BTreeSet<_>>().into_iter().collect();
    let names = if names.is_empty() { "the run ended early".to_owned() } else { names.join(" ") };
    if scripts.is_empty() { names } else { format!("{names} ({})", scripts.join(" ")) }
}

/// The cells of a mutation after the random tests: in how many seeds each noticed it, and the first of them.
pub fn random(end: End, said: &str) -> String {
    let cells = RANDOM.map(|test| match end {
        End::Endless(_) => "no end".to_owned(),
        End::Passed | End::Failed => said.lines().find_map(|line| seeds(line, test)).unwrap_or_default(),
    });
    cells.join(" | ")
}

fn endless(after: Duration) -> String {
    format!("no end after {} s", after.as_secs())
}

/// A test without its modules.
pub fn last(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

/// `NAME.txt:LINE` at the beginning of a line.
fn script(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once(".txt:")?;
    let plain = !name.is_empty() && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    (plain && rest.starts_with(|c: char| c.is_ascii_digit())).then(|| line.get(..name.len() + 4)).flatten()
}

/// `TEST: 3 of 100 seeds fail, the first is 7`.
fn seeds(line: &str, test: &str) -> Option<String> {
    let (name, rest) = line.split_once(test)?.1.split_once(": ")?;
    let (counted, first) = rest.split_once(" seeds fail, the first is ")?;
    let is_word = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    is_word.then(|| if counted.starts_with("0 of ") { "-".to_owned() } else { format!("{counted} ({first})") })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "
failures:

---- stories::all stdout ----
seeding.txt:12: differs
seeding.txt:40: differs
from-zero.txt:3: differs
    at line 3
failures:
    rules::b_c
    rules::a_b
    stories::all
    z_last
";

    #[test]
    fn three_tests_are_named_and_all_scripts() {
        assert_eq!(noticed(End::Failed, SAID), "a_b b_c all (from-zero.txt seeding.txt)");
        assert_eq!(noticed(End::Failed, "Segmentation fault"), "the run ended early");
        assert_eq!(noticed(End::Endless(Duration::from_secs(900)), SAID), "no end after 900 s");
    }

    #[test]
    fn random_tests_are_counted_by_seeds() {
        let said = "x::whatever_a_policy_says: 3 of 100 seeds fail, the first is 7\nwhatever_happens: 0 of 100 seeds fail, the first is none";
        assert_eq!(random(End::Passed, said), "3 of 100 (7) | - | ");
        assert_eq!(random(End::Endless(Duration::ZERO), said), "no end | no end | no end");
    }
}
