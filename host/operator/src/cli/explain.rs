//! `tanist explain`: what a group's status says ([`tanist_api::explain`]), printed: a table of the members, and of those that a decision was about.
use super::output::printable;
use super::table::{Cell, Table};
use super::{called, color};
use jiff::Timestamp;
use std::fmt::Write;
use tanist_api::ReplicaGroup;
use tanist_api::explain::{Explanation, explain, result};
use tanist_api::status::{Decision, MemberStatus};
use tanist_api::view::role;

/// The explanation as text.
pub fn text(group: &ReplicaGroup, now: Timestamp, colors: bool) -> String {
    let said = match explain(group, now) {
        Ok(said) => said,
        Err(unobserved) => return format!("{unobserved}\n"),
    };
    let mut out = format!("{}\n", said.state);
    if let Some(behind) = &said.behind {
        let _ = writeln!(out, "{behind}");
    }
    for problem in &said.problems {
        let status = color::paint(&problem.condition.status, color::bad(), colors);
        let _ = writeln!(out, "{}", problem.sentence(&status));
    }
    let _ = write!(out, "\n{}", members(said.view.members(), colors));
    commands(&mut out, &said);
    awaited(&mut out, &said);
    for answer in &said.decisions {
        let _ = write!(out, "\n{}\n{}", answer.headline, candidates(answer.decision));
        for note in &answer.notes {
            let _ = writeln!(out, "  {}", printable(note));
        }
    }
    out
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

fn commands(out: &mut String, said: &Explanation<'_>) {
    let commands = match &said.commands {
        Ok(commands) if commands.is_empty() => return,
        Ok(commands) => commands,
        Err(why) => {
            let _ = writeln!(out, "\nThe record cannot be read by this version of {}: {why}", called());
            return;
        }
    };
    let _ = writeln!(out, "\nCommands under way:");
    for command in commands {
        let _ = writeln!(out, "  {}", printable(command));
    }
}

fn awaited(out: &mut String, said: &Explanation<'_>) {
    if said.awaited.is_empty() {
        let _ = writeln!(out, "\nNothing is awaited.");
        return;
    }
    let _ = writeln!(out, "\nAwaited (docs/runbook.md says what you can do about each):");
    for wait in &said.awaited {
        let _ = writeln!(out, "  {}", printable(wait));
    }
}

fn candidates(decision: &Decision) -> String {
    let mut table = Table::new(&["MEMBER", "RESULT", "SEQUENCE", "REASON"]);
    for candidate in &decision.members {
        table.add(vec![
            Cell::plain(candidate.member.as_str()),
            Cell::plain(result(candidate.result)),
            Cell::optional(candidate.sequence.as_deref()),
            Cell::plain(candidate.reason.as_str()),
        ]);
    }
    table.text(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example;
    use serde_json::json;
    use tanist_api::examples;

    fn now() -> Timestamp {
        "2026-01-03T00:00:00Z".parse().unwrap()
    }

    // P17: the notes stand under the decision.
    #[test]
    fn a_group_is_explained_from_its_state_to_its_reasons() {
        let shown = text(&examples::troubled().unwrap(), now(), false);
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

    #[test]
    fn a_group_that_no_operator_looked_at_says_so() {
        assert!(text(&example(&json!({"status": null})), now(), false).contains("no operator has looked"));
    }
}
