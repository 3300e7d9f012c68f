//! `tanist explain`: the state of a group in the order of a user's questions: is it well, which member has which role, which commands run, what is
//! awaited, and why.
use super::age::{age, span};
use super::table::{Cell, Table};
use super::view::{View, role};
use super::{color, me};
use crate::api::ReplicaGroup;
use crate::api::status::{Decision, MemberStatus, Standing};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::fmt::Write;
use tanist_core::record::Intent;

/// The explanation as text.
pub fn text(group: &ReplicaGroup, now: Timestamp, colors: bool) -> String {
    let mut out = String::new();
    let view = View::new(group);
    if !view.is_observed() {
        return format!("{}: no operator has looked at it yet; does one watch this namespace?\n", view.name());
    }
    let primaries = view.primaries().join(", ");
    let _ = writeln!(
        out,
        "{}: {} members in their role, primary {}, term {}, policy {}",
        view.name(),
        view.in_role().unwrap_or("0"),
        if primaries.is_empty() { "none" } else { &primaries },
        view.term().unwrap_or_default(),
        view.policy().unwrap_or("none"),
    );
    if let Some((seen, present)) = view.is_behind() {
        let _ = writeln!(out, "The spec has changed: it is at generation {present}, what follows is about {seen}.");
    }
    for condition in view.conditions().iter().filter(|c| noteworthy(&c.type_, &c.status)) {
        let since = age(condition.last_transition_time.0, now);
        let _ = writeln!(
            out,
            "{} {} for {since} ({}): {}",
            condition.type_,
            color::paint(&condition.status, color::bad(), colors),
            condition.reason,
            condition.message
        );
    }
    let _ = write!(out, "\n{}", members(view.members(), colors));
    match view.record() {
        Ok(record) => commands(&mut out, &record.intents, now),
        Err(why) => {
            let _ = writeln!(out, "\nThe record cannot be read by this version of {}: {why}", me());
        }
    }
    waits(&mut out, &view);
    for decision in view.decisions() {
        let _ = write!(out, "\n{}\n{}", headline(decision, now), candidates(decision));
        for note in &decision.notes {
            let _ = writeln!(out, "  noted by {note}");
        }
    }
    out
}

/// Whether a condition shows a problem, so that it is printed.
fn noteworthy(kind: &str, status: &str) -> bool {
    match kind {
        "Ready" | "PolicyActive" => status != "True",
        "Progressing" => false,
        _ => status != "False",
    }
}

fn members(members: &[MemberStatus], colors: bool) -> String {
    let mut table =
        Table::new(&["MEMBER", "ROLE", "POD", "READY", "SEQUENCE", "TERM", "FAILURES", "NODE", "WAITS FOR"]);
    for member in members {
        let failures = if member.failures > 0 { color::bad() } else { anstyle::Style::new() };
        table.add(vec![
            Cell::plain(member.name.as_str()),
            Cell::styled(role(member), color::role(&member.role)),
            Cell::plain(member.phase.as_str()),
            Cell::plain(if member.ready { "yes" } else { "no" }),
            Cell::optional(member.sequence.as_deref()),
            Cell::plain(member.term.map(|t| t.to_string()).unwrap_or_default()),
            Cell::styled(member.failures.to_string(), failures),
            Cell::optional(member.node.as_deref()),
            Cell::optional(member.waits_for.as_deref()),
        ]);
    }
    table.text(colors)
}

fn commands(out: &mut String, open: &[Intent], now: Timestamp) {
    if open.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nCommands under way:");
    for intent in open {
        let _ = writeln!(out, "  {}", command(intent, now));
    }
}

/// What a command is doing, for instance `stop has been running on db-0 for 59s (treat, timeout 60s)`.
pub fn command(intent: &Intent, now: Timestamp) -> String {
    let for_how_long = span(now.as_second().saturating_sub(intent.started));
    let (command, member, verb) = (&intent.command, &intent.member, intent.verb.as_str());
    match intent.exited {
        Some(_) => format!("{command} succeeded on {member}; its role is awaited ({verb}, begun {for_how_long} ago)"),
        None => {
            let timeout = span(intent.timeout.into());
            format!("{command} has been running on {member} for {for_how_long} ({verb}, timeout {timeout})")
        }
    }
}

fn waits(out: &mut String, view: &View<'_>) {
    if view.waits().is_empty() {
        let _ = writeln!(out, "\nNothing is awaited.");
        return;
    }
    let _ = writeln!(out, "\nAwaited (docs/runbook.md says what you can do about each):");
    for wait in view.waits() {
        let _ = writeln!(out, "  {}: {}", wait.reason, wait.message);
    }
}

fn headline(decision: &Decision, now: Timestamp) -> String {
    let chosen = decision.chosen.as_deref().unwrap_or("no member");
    let by = match (&decision.policy, &decision.chosen) {
        (Some(by), _) => format!(", by {by}"),
        (None, Some(_)) => ", by an administrator".to_owned(),
        (None, None) => ", no policy was asked".to_owned(),
    };
    let (ago, at) = (age(decision.at.0, now), decision.at.0);
    format!("{}: {chosen}, in term {}, {ago} ago ({at}){by}: {}", decision.point, decision.term, decision.reason)
}

fn candidates(decision: &Decision) -> String {
    let mut table = Table::new(&["MEMBER", "RESULT", "SEQUENCE", "REASON"]);
    for candidate in &decision.members {
        let result = match candidate.result {
            Standing::Chosen => "chosen",
            Standing::Fallback => "next",
            Standing::PassedOver => "passed over",
            Standing::Barred => "barred",
        };
        table.add(vec![
            Cell::plain(candidate.member.as_str()),
            Cell::plain(result),
            Cell::optional(candidate.sequence.as_deref()),
            Cell::plain(candidate.reason.as_str()),
        ]);
    }
    table.text(false)
}

/// The same facts as a JSON value, for programs.
pub fn value(group: &ReplicaGroup) -> Value {
    let view = View::new(group);
    let record = group.status.as_ref().and_then(|s| s.record.as_ref());
    let record = |key: &str| record.and_then(|r| r.get(key));
    json!({
        "name": group.name_any(),
        "namespace": group.namespace(),
        "generation": group.metadata.generation,
        "observedGeneration": view.is_behind().map_or(group.metadata.generation, |(seen, _)| Some(seen)),
        "primaries": view.primaries(),
        "membersInRole": view.in_role(),
        "policies": view.policy(),
        "term": view.term(),
        "conditions": view.conditions(),
        "members": view.members(),
        "commands": record("intents"),
        "switchover": record("handover"),
        "awaiting": view.waits(),
        "decisions": view.decisions(),
        "history": record("history"),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
mod tests {
    use super::super::view::example;
    use super::*;

    fn now() -> Timestamp {
        "2026-01-03T00:00:00Z".parse().unwrap()
    }

    fn stop() -> Value {
        json!({
            "token": "treat-1-n", "command": "stop", "member": "db-0", "verb": "treat", "started": 1_767_398_341, "timeout": 60,
            "podUid": "u0", "container": "db", "containerId": "c0", "generation": 2, "term": 4
        })
    }

    fn group() -> ReplicaGroup {
        example(&json!({
            "metadata": {"generation": 3},
            "status": {
                "columns": {"primaries": "db-1", "members": "1/2", "policies": "sequence 0.1.0"},
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "MembersNotInRole", "message": "1 of 2", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                    {"type": "Degraded", "status": "False", "reason": "Healthy", "message": "fine", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                ],
                "members": [
                    {"name": "db-0", "ordinal": 0, "phase": "Running", "role": "Failed", "roleDetail": "status exited 9", "failures": 2,
                     "waitsFor": "it failed"},
                    {"name": "db-1", "ordinal": 1, "phase": "Running", "role": "Primary", "ready": true, "sequence": "a:7", "term": 4, "node": "n1"}
                ],
                "awaiting": [{"reason": "MemberFailed", "message": "db-0 failed", "member": "db-0"}],
                "decisions": [{
                    "at": "2026-01-01T00:00:00Z", "point": "failover", "policy": "sequence 0.1.0", "term": 3, "chosen": "db-1", "reason": "data 7",
                    "members": [
                        {"member": "db-0", "result": "Barred", "reason": "its pod is missing"},
                        {"member": "db-1", "result": "Chosen", "reason": "data 7 of term 3", "sequence": "a:7"}
                    ],
                    "notes": ["zone: zone b has 1"]
                }],
                "record": {"term": 4, "intents": [stop()]}
            }
        }))
    }

    // P17: the notes stand under the decision.
    #[test]
    fn a_group_is_explained_from_its_state_to_its_reasons() {
        let shown = text(&group(), now(), false);
        let expected = "\
shop/db: 1/2 members in their role, primary db-1, term 4, policy sequence 0.1.0
The spec has changed: it is at generation 3, what follows is about 2.
Ready False for 2d (MembersNotInRole): 1 of 2

MEMBER   ROLE                       POD       READY   SEQUENCE   TERM   FAILURES   NODE   WAITS FOR
db-0     Failed (status exited 9)   Running   no      -          -      2          -      it failed
db-1     Primary                    Running   yes     a:7        4      0          n1     -

Commands under way:
  stop has been running on db-0 for 59s (treat, timeout 60s)

Awaited (docs/runbook.md says what you can do about each):
  MemberFailed: db-0 failed

failover: db-1, in term 3, 2d ago (2026-01-01T00:00:00Z), by sequence 0.1.0: data 7
MEMBER   RESULT   SEQUENCE   REASON
db-0     barred   -          its pod is missing
db-1     chosen   a:7        data 7 of term 3
  noted by zone: zone b has 1
";
        assert_eq!(shown, expected, "{shown}");
    }

    // A decision without a policy and a decision of an administrator are shown differently.
    #[test]
    fn the_explanation_names_who_decided() {
        let mut group = group();
        let mut of = |chosen: Option<&str>| {
            let decision = &mut group.status.as_mut().unwrap().decisions[0];
            (decision.policy, decision.chosen) = (None, chosen.map(Into::into));
            headline(decision, now())
        };
        assert!(
            of(Some("db-1")).contains("db-1, in term 3, 2d ago (2026-01-01T00:00:00Z), by an administrator: data 7")
        );
        assert!(of(None).contains("no member, in term 3, 2d ago (2026-01-01T00:00:00Z), no policy was asked: data 7"));
    }

    #[test]
    fn a_command_that_ended_waits_for_its_role() {
        let mut intent: Intent = serde_json::from_value(stop()).unwrap();
        intent.exited = Some(1_767_398_399);
        assert_eq!(command(&intent, now()), "stop succeeded on db-0; its role is awaited (treat, begun 59s ago)");
    }

    #[test]
    fn a_program_reads_the_same_facts() {
        let shown = value(&group());
        assert_eq!((&shown["term"], &shown["members"][1]["role"]), (&json!(4), &json!("Primary")));
        assert_eq!((&shown["primaries"], &shown["observedGeneration"]), (&json!(["db-1"]), &json!(2)));
        assert_eq!(shown["decisions"][0]["members"][0]["result"], "Barred");
        assert_eq!(shown["commands"][0]["command"], "stop");
    }

    #[test]
    fn a_group_that_no_operator_looked_at_says_so() {
        assert!(text(&example(&json!({"status": null})), now(), false).contains("no operator has looked"));
    }
}
