//! One question in the forms for the operator, the policy and the webhook.

use std::{fs, path::Path};

use anyhow::Context as _;
use serde_json::{Value, json};
use tanist_core::{
    contract::{Group, Member, MemberName, Position, Sequence, Snapshot, Transition},
    examples,
    policy::{Point, Question},
};

const NOW: i64 = 1_795_266_117;
const TERM: u64 = 3;
const GROUP: &str = "register";

/// Data of a member: two share the highest, so that the answer has one of each kind of reason.
fn number(ordinal: u32) -> u64 {
    if ordinal < 2 { 1_000 } else { 1_000 - u64::from(ordinal) }
}

fn name(ordinal: u32) -> String {
    format!("{GROUP}-{ordinal}")
}

/// Stopped members that have only a name, a term and a number; all options are absent.
pub fn lean(members: u32) -> Question {
    let member = |ordinal| Member {
        name: MemberName(name(ordinal)),
        phase_since: NOW - 20,
        role_since: NOW - 10,
        term: Some(TERM),
        ..examples::member(ordinal, number(ordinal))
    };
    let mut snapshot = Snapshot { now: NOW, ..examples::snapshot((0..members).map(member).collect()) };
    snapshot.group =
        Group { name: GROUP.to_owned(), primaries: members, has_secondaries: false, term: TERM, ..snapshot.group };
    Question { point: Point::Seed, snapshot }
}

/// As the operator asks on a cluster with zones, after two outages: nodes, zones, histories, and two transitions for each member.
pub fn full(members: u32) -> Question {
    let mut question = lean(members);
    let history = "6f2c1d9e-3d0b-4a53-9a0a-0f7c8f1f7a11";
    let snapshot = &mut question.snapshot;
    snapshot.group.high_water = Some(Sequence { history: Some(history.to_owned()), number: 1_000 });
    for member in &mut snapshot.members {
        member.node = Some(format!("node{}", member.ordinal % 3 + 1));
        member.zone = Some(format!("zone-{}", member.ordinal % 3 + 1));
        member.last_primary = Some(NOW - 60);
        member.position =
            Position::Known(Sequence { history: Some(history.to_owned()), number: number(member.ordinal) });
        for what in ["command-started", "became-primary"] {
            let detail = Some("primary".to_owned());
            let transition =
                Transition { at: NOW - 60, what: what.to_owned(), member: Some(member.name.clone()), detail };
            snapshot.history.push(transition);
        }
    }
    // The operator keeps only these.
    let surplus = snapshot.history.len().saturating_sub(tanist_core::limits::HISTORY);
    snapshot.history.drain(..surplus);
    question
}

/// The question for the native rule: every field that both have in common.
pub fn native(question: &Question) -> tanist_policy::Snapshot {
    use tanist_policy as sdk;
    let snapshot = &question.snapshot;
    let sequence = |of: &Sequence| sdk::Sequence { history: of.history.clone(), number: of.number };
    let member = |of: &Member| sdk::Member {
        name: of.name.0.clone(),
        ordinal: of.ordinal,
        phase: sdk::Phase::Running,
        phase_since: of.phase_since,
        ready: of.ready,
        role: sdk::Role::Stopped,
        role_since: of.role_since,
        role_detail: of.role_detail.clone(),
        last_primary: of.last_primary,
        term: of.term,
        position: match &of.position {
            Position::Known(known) => sdk::Position::Known(sequence(known)),
            Position::Empty => sdk::Position::Empty,
            Position::Unknown(why) => sdk::Position::Unknown(why.clone()),
            Position::NotAsked => sdk::Position::NotAsked,
        },
        node: of.node.clone(),
        zone: of.zone.clone(),
        failures: of.failures,
        last_failure: None,
        marked: of.marked,
        conditions: vec![],
        labels: of.labels.clone(),
        facts: of.facts.clone(),
        barred: of.barred.clone(),
    };
    let group = &snapshot.group;
    sdk::Snapshot {
        now: snapshot.now,
        group: sdk::Group {
            name: group.name.clone(),
            namespace: group.namespace.clone(),
            replicas: group.replicas,
            primaries: group.primaries,
            has_secondaries: group.has_secondaries,
            term: group.term,
            preferred_primary: group.preferred_primary.as_ref().map(|name| name.0.clone()),
            high_water: group.high_water.as_ref().map(sequence),
            labels: group.labels.clone(),
            facts: group.facts.clone(),
        },
        members: snapshot.members.iter().map(member).collect(),
        history: vec![],
        parameters: snapshot.parameters.clone(),
    }
}

/// The members as short JSON: what a webhook could be sent at best.
pub fn short(question: &Question) -> Value {
    let members = &question.snapshot.members;
    members
        .iter()
        .map(|member| json!({"name": member.name, "ordinal": member.ordinal, "term": member.term, "number": number(member.ordinal)}))
        .collect()
}

/// A request as Metacontroller makes it, recorded on a real cluster with five members.
#[derive(Debug)]
pub struct Recorded(Value);

impl Recorded {
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
        Ok(Self(serde_json::from_slice(&text).with_context(|| format!("failed to parse {}", path.display()))?))
    }

    /// The request about these members: recorded pods, each under the name and with the data of a member. Only pods become more; the group
    /// and its objects stay as recorded.
    pub fn request(&self, question: &Question) -> anyhow::Result<String> {
        let mut request = self.0.clone();
        let pods =
            request.pointer_mut("/related/Pod.v1").and_then(Value::as_object_mut).context("the request has no pods")?;
        let recorded: Vec<(String, String)> = pods
            .iter()
            .map(|(name, pod)| Ok((name.clone(), serde_json::to_string(pod)?)))
            .collect::<anyhow::Result<_>>()?;
        pods.clear();
        for (member, (old, pod)) in question.snapshot.members.iter().zip(recorded.iter().cycle()) {
            let mut pod: Value = serde_json::from_str(&pod.replace(old, member.name.as_str()))?;
            let notes = pod.pointer_mut("/metadata/annotations").context("a pod has no annotations")?;
            *notes = json!({
                "tanist.dev/status": "stopped",
                "tanist.dev/term": TERM.to_string(),
                "tanist.dev/sequence": number(member.ordinal).to_string(),
            });
            pods.insert(member.name.0.clone(), pod);
        }
        Ok(serde_json::to_string(&request)?)
    }
}
