//! Every reason that a condition or a wait can have is explained in docs/runbook.md.
#![allow(clippy::expect_used, reason = "tests may")]
use std::collections::BTreeSet;

const RUNBOOK: &str = include_str!("../../../docs/runbook.md");
const PLAN: &str = include_str!("../../core/src/plan.rs");
const STATUS: &str = include_str!("../../core/src/status.rs");
const ERRORS: [&str; 2] = [include_str!("../src/act/error.rs"), include_str!("../src/observe.rs")];

/// The variants of `Reason`.
fn waits() -> BTreeSet<&'static str> {
    let body = PLAN.split_once("pub enum Reason {").expect("Reason").1;
    let body = body.split_once("\n}").expect("its end").0;
    body.lines().map(str::trim).filter_map(|line| line.strip_suffix(',')).collect()
}

/// The words that the source passes as a reason: `CamelCase` literals, of what begins a condition or an error's word.
fn literals(source: &'static str) -> BTreeSet<&'static str> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let camel = |word: &&str| {
        let first = word.chars().next().is_some_and(char::is_uppercase);
        first && word.len() > 4 && word.chars().all(|c| c.is_ascii_alphanumeric())
    };
    code.split('"').skip(1).step_by(2).filter(camel).collect()
}

#[test]
fn every_reason_has_its_entry() {
    let kinds: BTreeSet<_> =
        literals(STATUS.split_once("pub const KINDS").expect("KINDS").1.split_once("];").expect("its end").0);
    let truths = BTreeSet::from(["False", "Unknown"]);
    let mut reasons = waits();
    assert!(reasons.len() > 20 && reasons.contains("PodCannotStart"), "{reasons:?}");
    reasons.extend(literals(STATUS).into_iter().filter(|word| !kinds.contains(word) && !truths.contains(word)));
    for source in ERRORS {
        let words =
            source.split_once("pub fn reason(&self)").expect("reason").1.split_once("\n    }\n").expect("its end").0;
        reasons.extend(literals(words));
    }
    let is_explained = |reason: &str| {
        let title = format!("### {reason}\n");
        RUNBOOK.contains(&title) || RUNBOOK.lines().any(|l| l.starts_with('|') && l.contains(&format!("`{reason}`")))
    };
    let missing: Vec<_> = reasons.iter().filter(|reason| !is_explained(reason)).collect();
    assert!(missing.is_empty(), "docs/runbook.md does not explain {missing:?}");
}
