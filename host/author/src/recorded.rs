//! Records a group as cases: the reverse of [`world`](crate::world). What is recorded is played at once, and what the case asks is compared with what the host
//! asks about the group itself; every difference is said, so that nothing is dropped silently.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use tanist_core::{
    contract::{self, Phase, Position, Timestamp},
    data::show_position,
    policy::{Point, Question},
    snapshot::{Member, Snapshot},
};

use crate::{
    arise::{Arises, arises, points},
    ask::NotAsked,
    assume::assume,
    case::{Case, Cases},
    error::Error,
    world::{self, remembered},
    yaml,
};

/// A group as a file of cases.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recording {
    /// The text of the file of cases, in YAML.
    pub text: String,
    /// The cases of the file, in its order.
    pub cases: Vec<Recorded>,
}

/// One recorded case.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// The name of the case: the question, and what was assumed for it.
    pub name: String,
    /// The decision point that the case asks.
    pub point: Point,
    /// What was assumed, so that the question arises. Absent: it arises now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assumed: Option<String>,
    /// What the case cannot say: where it is asked something else than the group would be.
    pub differs: Vec<String>,
}

/// What is recorded beside the group.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// Lines for the head of the file.
    pub notes: Vec<String>,
    /// The parameters of the group's policy.
    pub parameters: Map<String, Value>,
}

/// A question with the snapshot in which it arises.
type Found = (Point, Snapshot, Option<String>);

/// Records a group. `wanted`: the question. Absent: those that arise now; in a group in which nothing is to be decided each that can be assumed.
///
/// # Errors
/// No question arises, and why; or what was recorded cannot be read back, which is an error of this program.
pub fn record(snapshot: &Snapshot, wanted: Option<Point>, about: &About) -> Result<Recording, Error> {
    if snapshot.group.active_passive {
        let why = "an active/passive group is not recorded: the members of a case have data and commands. A policy is asked `failover` for it, with members that are EMPTY";
        return Err(Error::Usage(format!("{}: {why}", snapshot.group.name)));
    }
    let found = match wanted {
        Some(point) => vec![find(snapshot, point).map_err(|not| Error::Usage(not.to_string()))?],
        None => find_all(snapshot)?,
    };
    let mut written = Vec::new();
    for (point, snapshot, assumed) in &found {
        let name = match assumed {
            Some(what) => format!("{point}, if {what}"),
            None => format!("{point}, as it arises now"),
        };
        let plain = case_of(snapshot, *point, &name, None);
        let read = read_one(&plain)?;
        written.push((name, case_of(snapshot, *point, &read.0, Some(&world::snapshot(&read.1)))));
    }
    let text = file(about, &written.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>());
    let cases = Cases::parse(RECORDED, text.clone())?;
    let all = found.into_iter().zip(&cases.content.cases).zip(written);
    let all = all.map(|(((point, snapshot, assumed), case), (name, _))| {
        let differs = differences(&snapshot, &case.value, point);
        Recorded { name, point, assumed, differs }
    });
    Ok(Recording { cases: all.collect(), text })
}

/// What errors call the recorded file. There is one only if this program writes what it cannot read.
const RECORDED: &str = "the recorded case";

/// The question as it arises now, or with what is assumed for it.
fn find(snapshot: &Snapshot, point: Point) -> Result<Found, NotAsked> {
    let now = match arises(snapshot, point) {
        Ok(_) => return Ok((point, snapshot.clone(), None)),
        Err(not) => not,
    };
    match assume(snapshot, point) {
        // Something else is to be decided first, or the group waits: that is not assumed away where the assumption changes nothing.
        Ok(assumed) => match arises(&assumed.snapshot, point) {
            Ok(_) => Ok((point, assumed.snapshot, Some(assumed.what))),
            Err(not) => Err(NotAsked { point, why: format!("if {}, {}", assumed.what, not.why) }),
        },
        Err(why) => Err(NotAsked { point, why: format!("{}; {why}", now.why) }),
    }
}

fn find_all(snapshot: &Snapshot) -> Result<Vec<Found>, Error> {
    let now: Vec<_> = points(snapshot).into_iter().map(|point| (point, snapshot.clone(), None)).collect();
    if !now.is_empty() {
        return Ok(now);
    }
    let all: Vec<_> = Point::ALL.into_iter().map(|point| find(snapshot, point)).collect();
    if all.iter().all(Result::is_err) {
        let why: Vec<_> = all.into_iter().filter_map(Result::err).map(|not| not.to_string()).collect();
        return Err(Error::Usage(why.join("\n")));
    }
    Ok(all.into_iter().flatten().collect())
}

fn read_one(text: &str) -> Result<(String, Case), Error> {
    let cases = Cases::parse(RECORDED, file(&About::default(), &[text]))?;
    let case = cases.content.cases.into_iter().next().map(|case| case.value);
    let case = case.ok_or_else(|| Error::Usage("nothing was recorded".to_owned()))?;
    Ok((case.name.clone().unwrap_or_default(), case))
}

fn file(about: &About, cases: &[&str]) -> String {
    let notes: String = about.notes.iter().map(|note| format!("# {}\n", yaml::comment(note))).collect();
    let parameters = match about.parameters.is_empty() {
        true => String::new(),
        false => format!("parameters: {}\n", yaml::flow(&Value::Object(about.parameters.clone()))),
    };
    format!("{notes}{parameters}cases:\n{}", cases.concat())
}

/// The text of a case. `plain`: the snapshot of the case without what the operator remembers; absent: it is not known yet.
fn case_of(s: &Snapshot, point: Point, name: &str, plain: Option<&Snapshot>) -> String {
    let mut group = group(s, point);
    if let Some(memory) = plain.map(|plain| remembered::of_group(s, plain)).filter(|memory| !memory.is_empty()) {
        group.push(("memory", Value::Object(memory)));
    }
    let members = s.members.iter().map(|each| {
        let mut fields = member(s, each);
        let memory = plain.map(|plain| remembered::of_member(s, plain, each));
        if let Some(memory) = memory.filter(|memory| !memory.is_empty()) {
            fields.push(("memory", Value::Object(memory)));
        }
        format!("      {}: {}\n", yaml::scalar(each.name.as_str()), yaml::mapping(&fields))
    });
    let members: String = members.collect();
    let name = yaml::scalar(name);
    let head = format!("  - name: {name}\n    point: {point}\n    now: {}\n", s.now);
    format!("{head}    group: {}\n    members:\n{members}{}", yaml::mapping(&group), history(s))
}

/// A time as a case has it: seconds before its `now`; later times as they are.
fn ago(s: &Snapshot, at: Timestamp) -> Value {
    if at > s.now { at.into() } else { at.saturating_sub(s.now).into() }
}

type Fields = Vec<(&'static str, Value)>;

fn pairs(all: &[(String, String)]) -> Option<Value> {
    let all: BTreeMap<_, _> = all.iter().cloned().collect();
    (!all.is_empty()).then(|| json!(all))
}

fn group(s: &Snapshot, point: Point) -> Fields {
    let group = &s.group;
    let mut fields: Fields = vec![
        ("name", group.name.clone().into()),
        ("namespace", group.namespace.clone().into()),
        ("replicas", if point == Point::Admit { group.requested.replicas } else { group.replicas }.into()),
        ("primaries", group.primaries.into()),
        ("term", s.record.term.into()),
    ];
    if point == Point::Admit {
        fields.push(("replicas-before", group.replicas.into()));
    }
    if group.commands.secondary.is_none() {
        fields.push(("has-secondaries", false.into()));
    }
    let preferred = group.preferred_primary.as_ref().filter(|name| s.member(name).is_some());
    fields.extend(preferred.map(|name| ("preferred-primary", name.as_str().into())));
    if let Some(mark) = &s.record.high_water {
        fields.push(("high-water", mark.sequence.to_string().into()));
        if mark.term != s.record.term {
            fields.push(("high-water-term", mark.term.into()));
        }
    }
    if group.failover.prefer_running {
        fields.push(("prefer-running", true.into()));
    }
    fields.extend(group.failover.reads.map(|reads| ("reads", reads.into())));
    fields.extend(group.failover.max_behind.map(|limit| ("max-behind", limit.into())));
    if has_update(s) {
        fields.push(("update-batch", group.update.batch.word().into()));
        fields.push(("canary-seconds", group.update.canary.into()));
    }
    fields.extend(pairs(&group.labels).map(|labels| ("labels", labels)));
    fields
}

/// Whether a changed template is on its way to the members.
fn has_update(s: &Snapshot) -> bool {
    s.members.iter().any(|m| m.pod.as_ref().is_some_and(|pod| pod.older_template))
}

fn word<T: Serialize>(word: T) -> Value {
    serde_json::to_value(word).unwrap_or_default()
}

fn member(s: &Snapshot, m: &Member) -> Fields {
    let mut fields = Fields::new();
    let phase = m.pod.as_ref().map_or(Phase::Missing, |pod| pod.phase);
    if phase == Phase::Running {
        let data = match &m.position {
            Position::Known(sequence) => sequence.to_string(),
            Position::Empty => "EMPTY".to_owned(),
            Position::Unknown(_) => "unknown".to_owned(),
            Position::NotAsked => "not-asked".to_owned(),
        };
        fields.push(("data", data.into()));
    }
    let memory = s.record.member(&m.name);
    let term = memory.term.filter(|term| *term != s.record.term || m.position == Position::Empty);
    fields.extend(term.map(|term| ("term", term.into())));
    match phase {
        Phase::Running | Phase::Terminating => fields.push(("role", word(m.reading.role))),
        _ => {}
    }
    if phase != Phase::Running {
        fields.push(("phase", word(phase)));
    }
    fields.extend(m.reading.detail.clone().map(|detail| ("detail", detail.into())));
    if let Some(pod) = &m.pod {
        fields.push(("ready", pod.ready.into()));
        let template = if pod.older_template { "older" } else { "present" };
        fields.extend(has_update(s).then(|| ("template", template.into())));
        fields.push(("since", ago(s, pod.phase_since)));
        fields.extend(pod.node.clone().map(|node| ("node", node.into())));
    }
    let since = m.pod.as_ref().map(|pod| pod.phase_since);
    if since != Some(m.reading.since) {
        fields.push(("role-since", ago(s, m.reading.since)));
    }
    fields.extend(memory.last_primary.map(|at| ("last-primary", ago(s, at))));
    let node = m.pod.as_ref().and_then(|pod| s.nodes.as_ref()?.get(pod.node.as_ref()?));
    fields.extend(node.and_then(|node| node.zone.clone()).map(|zone| ("zone", zone.into())));
    if node.is_some_and(|node| node.cordoned) {
        fields.push(("cordoned", true.into()));
    }
    if memory.failures > 0 {
        fields.push(("failures", memory.failures.into()));
    }
    fields.extend(memory.last_failure.as_ref().map(|last| {
        let last = json!({"command": last.command, "outcome": last.outcome, "at": ago(s, last.at)});
        ("last-failure", last)
    }));
    fields.extend(m.pod.as_ref().and_then(|pod| pairs(&pod.labels)).map(|labels| ("labels", labels)));
    fields.extend(m.reading.contact.map(|at| ("last-contact", ago(s, at))));
    if !m.conditions.is_empty() {
        let all = m.conditions.iter().map(|each| {
            let mut said = Map::from_iter([("since".to_owned(), ago(s, each.since))]);
            said.extend(each.detail.clone().map(|detail| ("detail".to_owned(), detail.into())));
            (each.name.clone(), Value::Object(said))
        });
        fields.push(("conditions", Value::Object(all.collect())));
    }
    fields
}

/// What happened before, as far as it is about members that the case has.
fn history(s: &Snapshot) -> String {
    let mut text = String::new();
    for past in &s.record.history {
        if past.member.as_ref().is_some_and(|name| s.member(name).is_none()) {
            continue;
        }
        let mut fields: Fields = vec![("at", ago(s, past.at)), ("what", past.what.clone().into())];
        fields.extend(past.member.as_ref().map(|name| ("member", name.as_str().into())));
        fields.extend(past.detail.clone().map(|detail| ("detail", detail.into())));
        text.push_str(&format!("      - {}\n", yaml::mapping(&fields)));
    }
    if text.is_empty() { text } else { format!("    history:\n{text}") }
}

/// Where the case is asked something else than the group would be.
fn differences(live: &Snapshot, case: &Case, point: Point) -> Vec<String> {
    let Ok(in_group) = arises(live, point) else { return Vec::new() };
    let in_case = match arises(&world::snapshot(case), point) {
        Ok(found) => found,
        Err(not) => return vec![format!("played again, {not}")],
    };
    let mut all = Vec::new();
    let asks = |found: &Arises| matches!(found, Arises::Asked(_));
    if asks(&in_group) != asks(&in_case) {
        let word = |found: &Arises| if asks(found) { "a policy is asked" } else { "every member is barred" };
        all.push(format!("in the group {}, in the case {}", word(&in_group), word(&in_case)));
    }
    all.extend(compared(in_group.question(), in_case.question()));
    all
}

/// The differences of two questions, field by field.
fn compared(live: &Question, case: &Question) -> Vec<String> {
    let mut all = Vec::new();
    let (own, other) = (&live.snapshot, &case.snapshot);
    all.extend(fields("the group", &own.group, &other.group));
    if own.history != other.history {
        all.push("the history: the case has no entries about members that are gone".to_owned());
    }
    for member in &own.members {
        match other.members.iter().find(|each| each.name == member.name) {
            Some(found) => all.extend(fields(member.name.as_str(), member, found)),
            None => all.push(format!("{} is missing in the case", member.name)),
        }
    }
    all
}

fn fields<T: Serialize>(of: &str, live: &T, case: &T) -> Vec<String> {
    let (Value::Object(live), Value::Object(case)) = (word(live), word(case)) else { return Vec::new() };
    let show = |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), shown);
    let keys = live.keys().chain(case.keys().filter(|key| !live.contains_key(*key)));
    let differing = keys.filter(|key| live.get(*key) != case.get(*key));
    let one = |key: &String| {
        format!("{of}: {key} is {} in the group, {} in the case", show(live.get(key)), show(case.get(key)))
    };
    differing.map(one).collect()
}

fn shown(value: &Value) -> String {
    match serde_json::from_value::<contract::Position>(value.clone()) {
        Ok(position) => show_position(&position),
        Err(_) => yaml::flow(value),
    }
}
