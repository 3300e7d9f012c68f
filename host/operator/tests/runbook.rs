//! What users are told has its explanation: reasons and events in docs/runbook.md, fields of the record that an older operator cannot read in docs/operations.md.
#![allow(clippy::indexing_slicing, clippy::string_slice, reason = "tests may panic")]
use tanist_core::plan::Reason;
use tanist_core::status::{Failed, Finding};

const RUNBOOK: &str = include_str!("../../../docs/runbook.md");

fn is_explained(reason: &str) -> bool {
    let title = format!("### {reason}\n");
    RUNBOOK.contains(&title) || RUNBOOK.lines().any(|l| l.starts_with('|') && l.contains(&format!("`{reason}`")))
}

#[test]
fn every_reason_has_its_entry() {
    let waits = Reason::ALL.iter().map(|reason| reason.as_str());
    let failures = Failed::ALL.iter().map(|failed| failed.as_str());
    let findings = Finding::ALL.iter().map(|finding| finding.as_str());
    let missing: Vec<_> = waits.chain(failures).chain(findings).filter(|reason| !is_explained(reason)).collect();
    assert!(missing.is_empty(), "docs/runbook.md does not explain {missing:?}");
}

/// What is between that heading and the next one of its level.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let rest = text.split_once(&format!("\n{heading}\n")).map_or("", |(_, rest)| rest);
    let level = heading.split(' ').next().unwrap_or_default();
    rest.split_once(&format!("\n{level} ")).map_or(rest, |(section, _)| section)
}

#[test]
fn every_event_is_explained() {
    let source = include_str!("../src/news.rs").split("mod tests").next().unwrap_or_default();
    let explained = section(RUNBOOK, "## Events");
    let is_reason = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.chars().all(|c| c.is_ascii_alphabetic())
            && *word != "Pod"
    };
    let reasons: Vec<_> =
        source.lines().flat_map(|line| line.split('"').skip(1).step_by(2)).filter(is_reason).collect();
    assert!(reasons.len() > 15, "{reasons:?}");
    let missing: Vec<_> = reasons.iter().filter(|reason| !explained.contains(&format!("`{reason}`"))).collect();
    assert!(missing.is_empty(), "docs/runbook.md, Events, does not explain {missing:?}");
}

/// Fields of the record that the first release knows, which `deploy/tests/previous-release` names. It refuses a record with any other one.
const KNOWN: [&str; 37] = [
    "term",
    "ever_seeded",
    "high_water",
    "last_primaries",
    "last_replicas",
    "members",
    "retired",
    "switchover",
    "intents",
    "history",
    "counter",
    "cleared_generation",
    "cleared_retry",
    "waiting_since",
    "used_override",
    "primary_term",
    "last_primary",
    "started",
    "claim_uid",
    "sequence",
    "failures",
    "last_failure",
    "retry_at",
    "treated",
    "treat_at",
    "broken",
    "last_command",
    "token",
    "verb",
    "command",
    "member",
    "pod_uid",
    "container",
    "container_id",
    "generation",
    "timeout",
    "exited",
];

// Whoever rolls back looks for these fields: one that is not named there leaves the group unmanaged.
#[test]
fn what_an_older_operator_cannot_read_is_said() {
    let named = section(include_str!("../../../docs/operations.md"), "## Roll back");
    let record = include_str!("../../core/src/record.rs");
    let started = include_str!("../../core/src/record/started.rs");
    let fields = |source: &'static str, name: &str| {
        let body = source.split_once(&format!("pub struct {name} {{")).map_or("", |(_, rest)| rest);
        let body = body.split_once("\n}").map_or("", |(body, _)| body);
        let names = body.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(':'));
        names.map(|(name, _)| name).collect::<Vec<_>>()
    };
    let all = [(record, "Record"), (record, "MemberRecord"), (record, "Intent"), (started, "Started")];
    let all: Vec<_> = all.into_iter().flat_map(|(source, name)| fields(source, name)).collect();
    assert!(all.len() > 50, "{all:?}");
    // Beside the record, for an older operator goes on without it.
    let known = |name: &&&str| KNOWN.contains(name) || ["again", "before", "target", "lost_primary"].contains(name);
    let camel = |name: &str| {
        let mut parts = name.split('_');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |all, part| all + &part[..1].to_uppercase() + &part[1..])
    };
    let is_named = |name: &&&str| {
        let name = camel(name);
        named.contains(&format!("`{name}`"))
            || named.contains(&format!(".{name}`"))
            || named.contains(&format!("`{name} "))
    };
    let missing: Vec<_> = all.iter().filter(|name| !known(name)).filter(|name| !is_named(name)).collect();
    assert!(missing.is_empty(), "docs/operations.md, Roll back, does not name {missing:?}");
}
