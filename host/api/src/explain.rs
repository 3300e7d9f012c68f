//! What the status of a group says, in sentences, in the order of a user's questions: is it well, which commands run, what is awaited, and why. How they
//! are shown (tables, colours, headings) is up to the caller.
use crate::age::{age, span};
use crate::spec::ReplicaGroup;
use crate::status::{Decision, Standing};
use crate::view::View;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::fmt;
use tanist_core::record::Intent;

/// Nothing can be explained: no operator has written a status of the group. It has the group's name with its namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}: no operator has looked at it yet; does one watch this namespace?")]
pub struct Unobserved(pub String);

/// A group in sentences. No sentence has a line break of its own at the end.
#[derive(Debug, Clone)]
pub struct Explanation<'g> {
    /// The group, with its members, whose rows are shown as they are.
    pub view: View<'g>,
    /// Its state: how many members are in their role, who leads, the term, the policies, and of which version the data is if the group has one.
    pub state: String,
    /// That the status is about an older spec. `None`: it is about the present one.
    pub behind: Option<String>,
    /// What is wrong, in the order of the conditions. Empty: nothing is.
    pub problems: Vec<Problem<'g>>,
    /// What each open command does. An error: why this version cannot read the record.
    pub commands: Result<Vec<String>, String>,
    /// What is awaited, most important first, each with its reason, which docs/runbook.md explains. Empty: nothing is.
    pub awaited: Vec<String>,
    /// The latest answer to each question, in the order of the status.
    pub decisions: Vec<Answer<'g>>,
}

/// A condition that shows that something is wrong. Displayed, it is a sentence.
#[derive(Debug, Clone)]
pub struct Problem<'g> {
    /// The condition of the group's status that shows the problem.
    pub condition: &'g Condition,
    /// For how long it has been so, in the form of [`age`](crate::age).
    pub lasts: String,
}

impl Problem<'_> {
    /// The sentence, with the condition's status as the caller shows it, for instance in a colour.
    #[must_use]
    pub fn sentence(&self, status: &str) -> String {
        let Condition { type_, reason, message, .. } = self.condition;
        format!("{type_} {status} for {} ({reason}): {message}", self.lasts)
    }
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence(&self.condition.status))
    }
}

/// The answer to a question that was put to the policies.
#[derive(Debug, Clone)]
pub struct Answer<'g> {
    /// What was decided, in which term, when, by whom, and why.
    pub headline: String,
    /// What the policies noted for their authors, one sentence each: at most 8.
    pub notes: Vec<String>,
    /// The decision, with what was decided about each member.
    pub decision: &'g Decision,
}

/// Explains a group. `now`: what ages and durations are counted up to.
///
/// # Errors
/// [`Unobserved`]: it has no status yet.
pub fn explain(group: &ReplicaGroup, now: Timestamp) -> Result<Explanation<'_>, Unobserved> {
    let view = View::new(group);
    if !view.is_observed() {
        return Err(Unobserved(view.name()));
    }
    let problems = view.conditions().iter().filter(|c| is_problem(c));
    Ok(Explanation {
        view,
        state: state(&view),
        behind: view.is_behind().map(|(seen, present)| {
            format!("The spec has changed: it is at generation {present}, what follows is about {seen}.")
        }),
        problems: problems
            .map(|condition| Problem { condition, lasts: age(condition.last_transition_time.0, now) })
            .collect(),
        commands: view.record().map(|record| record.intents.iter().map(|intent| command(intent, now)).collect()),
        awaited: view.waits().iter().map(|wait| format!("{}: {}", wait.reason, wait.message)).collect(),
        decisions: view.decisions().iter().map(|decision| answer(decision, now)).collect(),
    })
}

fn state(view: &View<'_>) -> String {
    let primaries = view.primaries().join(", ");
    let version = view.version().map(|version| format!(", data of version {version}")).unwrap_or_default();
    format!(
        "{}: {} members in their role, primary {}, term {}, policy {}{version}",
        view.name(),
        view.in_role().unwrap_or("0"),
        if primaries.is_empty() { "none" } else { &primaries },
        view.term().unwrap_or_default(),
        view.policy().unwrap_or("none"),
    )
}

/// Whether a condition shows that something is wrong: some are well when they are True, most when they are False.
#[must_use]
pub fn is_problem(condition: &Condition) -> bool {
    match condition.type_.as_str() {
        "Ready" | "Available" | "PolicyActive" => condition.status != "True",
        "Progressing" => false,
        _ => condition.status != "False",
    }
}

/// What a command is doing at `now`, for instance `stop has been running on db-0 for 59s (treat, timeout 60s)`.
#[must_use]
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

fn answer(decision: &Decision, now: Timestamp) -> Answer<'_> {
    let notes = decision.notes.iter().map(|note| format!("noted by {note}")).collect();
    Answer { headline: headline(decision, now), notes, decision }
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

/// What was decided about a member, in words.
#[must_use]
pub fn result(standing: Standing) -> &'static str {
    match standing {
        Standing::Chosen => "chosen",
        Standing::Fallback => "next",
        Standing::PassedOver => "passed over",
        Standing::Barred => "barred",
    }
}

/// The same facts as a JSON value, for programs. What is not known is null or an empty list.
#[must_use]
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
        "recovery": record("recovery"),
        "awaiting": view.waits(),
        "decisions": view.decisions(),
        "history": record("history"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;

    fn now() -> Timestamp {
        "2026-01-03T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_status_is_said_in_sentences() {
        let group = examples::troubled().unwrap();
        let said = explain(&group, now()).unwrap();
        let state = "shop/db: 1/2 members in their role, primary db-1, term 4, policy sequence 0.1.0";
        assert_eq!(said.state, state);
        let mut of_17 = group.clone();
        of_17.status.get_or_insert_default().version = Some("17".into());
        let state = format!("{state}, data of version 17");
        assert_eq!(explain(&of_17, now()).map(|said| said.state).ok(), Some(state));
        let behind = "The spec has changed: it is at generation 3, what follows is about 2.";
        assert_eq!(said.behind.as_deref(), Some(behind));
        let problems: Vec<_> = said.problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems, ["Ready False for 2d (MembersNotInRole): 1 of 2"], "what is well is not said");
        assert_eq!(said.problems[0].sentence("<b>False</b>"), "Ready <b>False</b> for 2d (MembersNotInRole): 1 of 2");
        assert_eq!(said.commands.unwrap(), ["stop has been running on db-0 for 59s (treat, timeout 60s)"]);
        assert_eq!(said.awaited, ["MemberFailed: db-0 failed"]);
        let [answer] = said.decisions.as_slice() else { panic!("{:?}", said.decisions) };
        let headline = "failover: db-1, in term 3, 2d ago (2026-01-01T00:00:00Z), by sequence 0.1.0: data 7";
        assert_eq!(answer.headline, headline);
        assert_eq!(answer.notes, ["noted by zone: zone b has 1"]);
        let results: Vec<_> = answer.decision.members.iter().map(|member| result(member.result)).collect();
        assert_eq!(results, ["barred", "chosen"]);
    }

    #[test]
    fn a_group_that_is_well_has_nothing_to_explain() {
        let group = examples::group(&json!({})).unwrap();
        let said = explain(&group, now()).unwrap();
        assert_eq!((said.behind, said.problems.len(), said.commands, said.awaited.len()), (None, 0, Ok(Vec::new()), 0));
    }

    // What a later version wrote is no reason to say nothing of the rest.
    #[test]
    fn a_record_that_cannot_be_read_leaves_the_other_sentences() {
        let group = examples::group(&json!({"status": {"record": {"later": 1}}})).unwrap();
        let said = explain(&group, now()).unwrap();
        assert!(said.commands.unwrap_err().contains("later"));
        assert!(said.state.starts_with("shop/db: 2/2 members"));
    }

    // Some conditions are well when they are True, others when they are False; an unknown one is never well.
    #[test]
    fn a_condition_is_a_problem_by_its_kind() {
        let is = |kind: &str, status: &str| {
            let since = "2026-01-01T00:00:00Z";
            let condition =
                json!({"type": kind, "status": status, "reason": "R", "message": "m", "lastTransitionTime": since});
            is_problem(&serde_json::from_value(condition).unwrap())
        };
        assert!(!is("Ready", "True") && is("Ready", "False") && is("PolicyActive", "Unknown"));
        assert!(!is("Degraded", "False") && is("Degraded", "True") && is("Stalled", "Unknown"));
        assert!(!is("Available", "True") && is("Available", "False"));
        assert!(!is("Progressing", "True") && !is("Progressing", "False"));
    }

    // A decision without a policy and a decision of an administrator are shown differently.
    #[test]
    fn the_explanation_names_who_decided() {
        let mut group = examples::troubled().unwrap();
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
        let group = examples::troubled().unwrap();
        let mut intent = View::new(&group).record().unwrap().intents.remove(0);
        intent.exited = Some(1_767_398_399);
        assert_eq!(command(&intent, now()), "stop succeeded on db-0; its role is awaited (treat, begun 59s ago)");
    }

    #[test]
    fn a_program_reads_the_same_facts() {
        let shown = value(&examples::troubled().unwrap());
        assert_eq!((&shown["term"], &shown["members"][1]["role"]), (&json!(4), &json!("Primary")));
        assert_eq!((&shown["primaries"], &shown["observedGeneration"]), (&json!(["db-1"]), &json!(2)));
        assert_eq!(shown["decisions"][0]["members"][0]["result"], "Barred");
        assert_eq!(shown["commands"][0]["command"], "stop");
    }

    #[test]
    fn a_group_that_no_operator_looked_at_says_so() {
        let group = examples::group(&json!({"status": null})).unwrap();
        let why = "shop/db: no operator has looked at it yet; does one watch this namespace?";
        assert_eq!(explain(&group, now()).unwrap_err().to_string(), why);
    }
}
