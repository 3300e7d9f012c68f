//! Tables as kubectl prints them: capital heads, blanks between, no lines.
use super::condition;
use crate::api::ReplicaGroup;
use crate::api::status::{LastDecision, MemberStatus, Standing};
use comfy_table::{Table, presets};
use kube::ResourceExt;
use serde_json::Value;

fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(heads);
    table
}

fn tidy(table: &Table) -> String {
    table
        .to_string()
        .lines()
        .map(|l| l.trim_end().strip_prefix(' ').unwrap_or(l.trim_end()))
        .collect::<Vec<_>>()
        .join("\n")
}

fn or_dash(text: Option<&str>) -> String {
    text.filter(|t| !t.is_empty()).unwrap_or("-").to_owned()
}

/// A row for each group.
pub fn groups(groups: &[ReplicaGroup]) -> String {
    let mut rows = table(&["NAME", "READY", "PRIMARY", "MEMBERS", "POLICY", "TERM", "WHY"]);
    for group in groups {
        let status = group.status.as_ref();
        let (ready, reason, _) = condition(group, "Ready");
        let term = status.and_then(|s| s.record.as_ref()?.get("term").and_then(Value::as_u64));
        rows.add_row([
            group.name_any(),
            or_dash(Some(&ready)),
            or_dash(status.and_then(|s| s.primary.as_deref())),
            or_dash(status.and_then(|s| s.serving.as_deref())),
            or_dash(status.and_then(|s| s.policy.as_deref())),
            term.map_or("-".into(), |t| t.to_string()),
            or_dash(Some(&reason)),
        ]);
    }
    tidy(&rows)
}

/// A row for each member.
pub fn members(members: &[MemberStatus]) -> String {
    let mut rows = table(&["MEMBER", "ROLE", "POD", "READY", "SEQUENCE", "TERM", "FAILURES", "NODE", "WAITS FOR"]);
    for member in members {
        let role = match &member.role_detail {
            Some(why) => format!("{} ({why})", member.role),
            None => member.role.clone(),
        };
        rows.add_row([
            member.name.clone(),
            role,
            member.phase.clone(),
            if member.ready { "yes" } else { "no" }.to_owned(),
            or_dash(member.sequence.as_deref()),
            member.term.map_or("-".into(), |t| t.to_string()),
            member.failures.to_string(),
            or_dash(member.node.as_deref()),
            or_dash(member.waits_for.as_deref()),
        ]);
    }
    tidy(&rows)
}

/// A row for each member in a decision.
pub fn decision(decision: &LastDecision) -> String {
    let mut rows = table(&["MEMBER", "RESULT", "SEQUENCE", "REASON"]);
    for candidate in &decision.candidates {
        let result = match candidate.result {
            Standing::Chosen => "chosen",
            Standing::Fallback => "next",
            Standing::PassedOver => "passed over",
            Standing::Barred => "barred",
        };
        rows.add_row([
            candidate.member.clone(),
            result.to_owned(),
            or_dash(candidate.sequence.as_deref()),
            candidate.reason.clone(),
        ]);
    }
    tidy(&rows)
}
