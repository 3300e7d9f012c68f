//! What happened in a round and when, by what the watches recorded: the group's versions, its pods' roles, endpoints, the operator's log.
use crate::judge::Label;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use tanist_e2e::text;

/// A line of a watch, with the moment at which it came, in milliseconds since 1970.
pub type Stamped = (u64, String);

/// A command of the operator, by its log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// The name of this execution.
    pub token: String,
    /// What it is for: `failover`, `seed`, `follow`, ...
    pub verb: String,
    /// Which of the group's commands it is.
    pub command: String,
    /// In whom it runs.
    pub member: String,
    /// When it started, in milliseconds since 1970.
    pub start: Option<u64>,
    /// When it ended.
    pub end: Option<u64>,
    /// It ended well.
    pub well: bool,
}

impl Command {
    /// Whoever executes it is a primary afterwards.
    pub fn makes_a_primary(&self) -> bool {
        matches!(self.verb.as_str(), "failover" | "seed")
    }
}

/// The steps of a round in milliseconds since the loss; absent: there was no such step. Said by the operator itself, but for `ended`, `known` and `shown`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Steps {
    /// The first change of the lost pod that the API server shows.
    pub known: Option<i64>,
    /// The old server's process is gone, as seen on its node.
    pub ended: Option<i64>,
    /// Another operator leads, where one was killed.
    pub leads: Option<i64>,
    /// The operator takes the label away, or says that this member is not primary any more.
    pub detect: Option<i64>,
    /// The record no longer counts the lost container among those that may be primary.
    pub prove: Option<i64>,
    /// The record has the intent to let another lead.
    pub decide: Option<i64>,
    /// Its command starts.
    pub promote: Option<i64>,
    /// Its command ended.
    pub promoted: Option<i64>,
    /// The last of those who stayed was pointed at the new primary.
    pub follow: Option<i64>,
    /// The new primary has the label.
    pub route: Option<i64>,
    /// The endpoint behind -rw.
    pub shown: Option<i64>,
}

/// Whom a round was about.
pub struct Loss<'a> {
    /// The moment of the loss, in milliseconds since 1970.
    pub at: u64,
    /// Who led before.
    pub from: &'a str,
    /// Who leads afterwards.
    pub to: &'a str,
    /// The container in which the old primary ran, as its status names it.
    pub container: &'a str,
    /// When the old server's process ended, if anybody saw it.
    pub ended: Option<u64>,
}

/// What was recorded of it.
pub struct Seen<'a> {
    /// The group's status, each version of it.
    pub group: &'a [Stamped],
    /// The roles of its pods.
    pub labels: &'a [Label],
    /// The endpoints behind -rw.
    pub endpoints: &'a [Stamped],
    /// The operator's log since the loss.
    pub log: &'a [Value],
}

/// The lines of a log in JSON; others say nothing.
pub fn parsed<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Value> {
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn moment(line: &Value) -> Option<u64> {
    let at: Timestamp = text(line, "/timestamp").parse().ok()?;
    u64::try_from(at.as_millisecond()).ok()
}

/// When an operator began to lead, for the first time since that moment.
pub fn leads(log: &[Value], since: u64) -> Option<u64> {
    let leading = log.iter().filter(|line| text(line, "/fields/message") == "leading");
    leading.filter_map(moment).filter(|at| *at >= since).min()
}

/// The commands of the log since that moment, by their tokens. A line may be there more than once.
pub fn commands(log: &[Value], since: u64) -> Vec<Command> {
    let mut found: BTreeMap<String, Command> = BTreeMap::new();
    for line in log {
        let (token, Some(at)) = (text(line, "/fields/token"), moment(line)) else { continue };
        if token.is_empty() || at < since {
            continue;
        }
        let command = found.entry(token.to_owned()).or_insert_with(|| Command {
            token: token.to_owned(),
            verb: verb(token).to_owned(),
            command: text(line, "/fields/command").into(),
            member: text(line, "/fields/member").into(),
            ..Command::default()
        });
        match text(line, "/fields/message") {
            "command starts" => command.start = command.start.or(Some(at)),
            said if said.starts_with("command ended") => {
                command.end = command.end.or(Some(at));
                command.well |= said == "command ended well";
            }
            _ => {}
        }
    }
    found.into_values().collect()
}

/// A token is VERB-NUMBER-...
fn verb(token: &str) -> &str {
    let number = |rest: &str| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
        digits > 0 && rest[digits..].starts_with('-')
    };
    let cut = token.match_indices('-').find(|(at, _)| number(&token[at + 1..]));
    cut.map_or(token, |(at, _)| &token[..at])
}

/// The first moment from the loss on at which a member's role began or ceased to be primary.
fn role_changes(labels: &[Label], since: u64, member: &str, to_primary: bool) -> Option<u64> {
    let mut was = "";
    for label in labels.iter().filter(|label| label.member == member) {
        let changed = (label.role == "primary") == to_primary && (was == "primary") != to_primary;
        if label.at >= since && changed {
            return Some(label.at);
        }
        was = &label.role;
    }
    None
}

/// When the member appeared among the endpoints, from the loss on.
fn shown(endpoints: &[Stamped], since: u64, member: &str) -> Option<u64> {
    let listed = format!("{member}:true:");
    let mut was_missing = false;
    for (at, said) in endpoints {
        if *at >= since && was_missing && said.contains(&listed) {
            return Some(*at);
        }
        was_missing = !said.contains(&listed);
    }
    None
}

fn list<'a>(status: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    status.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// The steps of a round.
pub fn steps(loss: &Loss<'_>, seen: &Seen<'_>) -> Steps {
    let Loss { at: since, from, to, container, ended } = *loss;
    let versions: Vec<(u64, Value)> = seen
        .group
        .iter()
        .filter(|(at, _)| *at >= since)
        .filter_map(|(at, status)| Some((*at, serde_json::from_str(status).ok()?)))
        .collect();
    let version = |holds: &dyn Fn(&Value) -> bool| versions.iter().find(|(_, status)| holds(status)).map(|(at, _)| *at);
    let said = version(&|status| list(status, "/primaries").next().and_then(Value::as_str) != Some(from));
    let decided = version(&|status| {
        list(status, "/record/intents").any(|intent| matches!(text(intent, "/verb"), "failover" | "seed"))
    });
    let proven = version(&|status| {
        !list(status, "/record/lastPrimaries")
            .any(|last| text(last, "/member") == from && text(last, "/containerId") == container)
    });
    let commands = commands(seen.log, since);
    let promotion = commands.iter().find(|c| c.makes_a_primary() && c.member == to && c.well);
    let stayed = commands.iter().filter(|c| c.verb == "follow" && c.member != from && c.member != to && c.well);
    let unlabelled = role_changes(seen.labels, since, from, false);
    let known = seen.labels.iter().find(|label| label.at >= since && label.member == from).map(|label| label.at);
    let after =
        |at: Option<u64>| at.map(|at| i64::try_from(at).unwrap_or(i64::MAX) - i64::try_from(since).unwrap_or(0));
    Steps {
        known: after(known),
        ended: after(ended),
        leads: after(leads(seen.log, since)),
        detect: after(unlabelled.into_iter().chain(said).min()),
        prove: after(proven),
        decide: after(decided),
        promote: after(promotion.and_then(|c| c.start)),
        promoted: after(promotion.and_then(|c| c.end)),
        follow: after(stayed.filter_map(|c| c.end).max()),
        route: after(role_changes(seen.labels, since, to, true)),
        shown: after(shown(seen.endpoints, since, to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(second: u32, message: &str, token: &str, member: &str) -> String {
        format!(
            r#"{{"timestamp": "1970-01-01T00:00:{second:02}.500000Z", "fields": {{"message": "{message}", "token": "{token}", "command": "promote", "member": "{member}"}}}}"#
        )
    }

    fn label(at: u64, member: &str, role: &str) -> Label {
        Label { at, member: member.into(), role: role.into() }
    }

    #[test]
    fn a_takeover_has_its_steps() {
        let log = [
            line(1, "leading", "", ""),
            line(3, "command starts", "failover-3-abc", "b"),
            line(4, "command ended well", "failover-3-abc", "b"),
            line(5, "command starts", "follow-3-def", "c"),
            line(6, "command ended well", "follow-3-def", "c"),
            "torn".into(),
        ];
        let log = parsed(log.iter().map(String::as_str));
        let labels =
            [label(1, "a", "primary"), label(1, "b", "secondary"), label(2_200, "a", ""), label(4_800, "b", "primary")];
        let version =
            |at, primary: &str, record: &str| (at, format!(r#"{{"primaries": [{primary}], "record": {record}}}"#));
        let held = r#"{"lastPrimaries": [{"member": "a", "containerId": "x"}]}"#;
        let group = [
            version(100, r#""a""#, held),
            version(2_100, r#""a""#, held),
            version(2_400, "", held),
            version(2_900, "", r#"{"lastPrimaries": [], "intents": [{"verb": "failover"}]}"#),
        ];
        let endpoints = [(100, "a:true:10.0.0.1 x".to_owned()), (5_000, "b:true:10.0.0.2 x".to_owned())];
        let seen = Seen { group: &group, labels: &labels, endpoints: &endpoints, log: &log };
        let loss = Loss { at: 2_000, from: "a", to: "b", container: "x", ended: Some(2_050) };
        let wanted = Steps {
            known: Some(200),
            ended: Some(50),
            // It led before.
            leads: None,
            detect: Some(200),
            prove: Some(900),
            decide: Some(900),
            promote: Some(1_500),
            promoted: Some(2_500),
            follow: Some(4_500),
            route: Some(2_800),
            shown: Some(3_000),
        };
        assert_eq!(steps(&loss, &seen), wanted);
    }

    #[test]
    fn a_verb_is_what_comes_before_the_number() {
        assert_eq!(verb("failover-12-3f"), "failover");
        assert_eq!(verb("switch-over-1-x"), "switch-over");
        assert_eq!(verb("odd"), "odd");
    }
}
