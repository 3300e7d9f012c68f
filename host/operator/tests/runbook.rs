//! Every reason that a condition or a wait can have is explained in docs/runbook.md.
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
