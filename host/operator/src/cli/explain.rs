//! Everything that a group says about itself, in the order in which a person asks: is it well, who is what, what runs, what is awaited, why.
use super::{named, table};
use crate::api::ReplicaGroup;
use crate::api::status::ReplicaGroupStatus;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::fmt::Write;

/// For people.
pub fn text(group: &ReplicaGroup) -> String {
    let mut out = String::new();
    let Some(status) = &group.status else {
        return format!("{}: no operator has looked at it yet; does one watch this namespace?\n", named(group));
    };
    let term = record(status, "/term").and_then(Value::as_u64).unwrap_or_default();
    let _ = writeln!(
        out,
        "{}: {} in their role, primary {}, term {term}, decided by {}",
        named(group),
        status.serving.as_deref().unwrap_or("nobody"),
        status.primary.as_deref().filter(|p| !p.is_empty()).unwrap_or("none"),
        status.policy.as_deref().unwrap_or("-"),
    );
    if status.observed_generation != group.metadata.generation {
        let _ = writeln!(out, "The spec changed since; what follows is about an older one.");
    }
    for condition in status.conditions.iter().filter(|c| noteworthy(&c.type_, &c.status)) {
        let _ = writeln!(out, "{} {} ({}): {}", condition.type_, condition.status, condition.reason, condition.message);
    }
    let _ = writeln!(out, "\n{}", table::members(&status.members));
    commands(&mut out, status);
    waiting(&mut out, status);
    for decision in &status.decisions {
        let who = decision.policy.as_deref().unwrap_or("nobody was asked");
        let chosen = decision.chosen.as_deref().unwrap_or("nobody");
        let _ = writeln!(
            out,
            "\n{}: {chosen}, in term {} at {}, by {who}: {}\n{}",
            decision.point,
            decision.term,
            decision.at.0,
            decision.reason,
            table::decision(decision)
        );
    }
    out
}

/// What is not as it should be.
fn noteworthy(kind: &str, status: &str) -> bool {
    match kind {
        "Ready" | "PolicyActive" => status != "True",
        "Progressing" => false,
        _ => status != "False",
    }
}

fn commands(out: &mut String, status: &ReplicaGroupStatus) {
    let open = record(status, "/intents").and_then(Value::as_array).cloned().unwrap_or_default();
    if open.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nCommands under way:");
    for intent in &open {
        let word = |key: &str| intent.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
        let number = |key: &str| intent.get(key).and_then(Value::as_i64).unwrap_or_default();
        let since = jiff::Timestamp::from_second(number("started")).map_or("?".into(), |t| t.to_string());
        let (command, member, verb) = (word("command"), word("member"), word("verb"));
        let _ = writeln!(out, "  {command} on {member} ({verb}) since {since}, may take {} s", number("timeout"));
    }
}

fn waiting(out: &mut String, status: &ReplicaGroupStatus) {
    if status.waiting.is_empty() {
        let _ = writeln!(out, "\nNothing is awaited.");
        return;
    }
    let _ = writeln!(out, "\nAwaited (docs/runbook.md says what a person may do for each):");
    for wait in &status.waiting {
        let _ = writeln!(out, "  {}: {}", wait.reason, wait.message);
    }
}

fn record<'a>(status: &'a ReplicaGroupStatus, pointer: &str) -> Option<&'a Value> {
    status.record.as_ref()?.pointer(pointer)
}

/// For programs: the same facts.
pub fn value(group: &ReplicaGroup) -> Value {
    let status = group.status.clone().unwrap_or_default();
    json!({
        "name": group.name_any(),
        "namespace": group.namespace(),
        "generation": group.metadata.generation,
        "observedGeneration": status.observed_generation,
        "primary": status.primary,
        "serving": status.serving,
        "policy": status.policy,
        "term": record(&status, "/term"),
        "conditions": status.conditions,
        "members": status.members,
        "commands": record(&status, "/intents"),
        "handover": record(&status, "/handover"),
        "waiting": status.waiting,
        "decisions": status.decisions,
        "history": record(&status, "/history"),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
mod tests {
    use super::*;

    fn group() -> ReplicaGroup {
        serde_json::from_value(json!({
            "apiVersion": "tanist.dev/v1alpha1",
            "kind": "ReplicaGroup",
            "metadata": {"name": "db", "namespace": "shop", "generation": 3},
            "spec": {
                "replicas": 2, "primaries": 1,
                "template": {"spec": {"containers": [{"name": "db", "image": "example.org/db:1"}]}},
                "commands": {"status": {"exec": ["s"]}, "sequence": {"exec": ["q"]}, "stop": {"exec": ["t"]}, "primary": {"exec": ["p"]}}
            },
            "status": {
                "observedGeneration": 2, "primary": "db-1", "serving": "1/2", "policy": "sequence 0.1.0",
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "MembersNotInRole", "message": "1 of 2", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                    {"type": "Degraded", "status": "False", "reason": "Healthy", "message": "fine", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                ],
                "members": [
                    {"name": "db-0", "ordinal": 0, "phase": "running", "role": "failed", "roleDetail": "status exited 9", "failures": 2,
                     "waitsFor": "it failed"},
                    {"name": "db-1", "ordinal": 1, "phase": "running", "role": "primary", "ready": true, "sequence": "a:7", "term": 4, "node": "n1"}
                ],
                "waiting": [{"reason": "MemberFailed", "message": "db-0 failed", "member": "db-0"}],
                "decisions": [{
                    "at": "2026-01-01T00:00:00Z", "point": "failover", "policy": "sequence 0.1.0", "term": 3, "chosen": "db-1", "reason": "data 7",
                    "candidates": [
                        {"member": "db-0", "result": "barred", "reason": "its pod is missing"},
                        {"member": "db-1", "result": "chosen", "reason": "data 7 of term 3", "sequence": "a:7"}
                    ]
                }],
                "record": {"term": 4, "intents": [{"command": "stop", "member": "db-0", "verb": "treat", "started": 1767225600, "timeout": 60}]}
            }
        }))
        .unwrap()
    }

    #[test]
    fn a_person_reads_who_is_what_and_why() {
        let told = text(&group());
        let expected = "\
shop/db: 1/2 in their role, primary db-1, term 4, decided by sequence 0.1.0
The spec changed since; what follows is about an older one.
Ready False (MembersNotInRole): 1 of 2

MEMBER  ROLE                      POD      READY  SEQUENCE  TERM  FAILURES  NODE  WAITS FOR
db-0    failed (status exited 9)  running  no     -         -     2         -     it failed
db-1    primary                   running  yes    a:7       4     0         n1    -

Commands under way:
  stop on db-0 (treat) since 2026-01-01T00:00:00Z, may take 60 s

Awaited (docs/runbook.md says what a person may do for each):
  MemberFailed: db-0 failed

failover: db-1, in term 3 at 2026-01-01T00:00:00Z, by sequence 0.1.0: data 7
MEMBER  RESULT  SEQUENCE  REASON
db-0    barred  -         its pod is missing
db-1    chosen  a:7       data 7 of term 3
";
        assert_eq!(told, expected, "{told}");
    }

    #[test]
    fn a_program_reads_the_same_facts() {
        let told = value(&group());
        assert_eq!((&told["term"], &told["members"][1]["role"]), (&json!(4), &json!("primary")));
        assert_eq!(told["decisions"][0]["candidates"][0]["result"], "barred");
        assert_eq!(told["commands"][0]["command"], "stop");
    }

    #[test]
    fn a_group_that_nobody_looked_at_says_so() {
        let mut group = group();
        group.status = None;
        assert!(text(&group).contains("no operator has looked"));
        assert_eq!(super::super::table::groups(&[group]).lines().nth(1).unwrap().split_whitespace().next(), Some("db"));
    }
}
