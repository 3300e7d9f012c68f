//! What holds for a member beside its phase and role, by the words of docs/conditions.md: for policies; no rule of the host rests on it.
//!
//! It is made of what a round reads anyway. Since when something holds is taken from the object that says it; where none says it, from when this process
//! first saw it, so that it stays the same from round to round and begins anew with another process.
use crate::hints;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Taint};
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};
use tanist_api::ReplicaGroup;
use tanist_core::contract::{Condition, Timestamp};
use tanist_core::record::Record;
use tanist_core::snapshot::{self, Member};

/// The taint of a cordoned node, which Kubernetes adds with its time.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// What the taints of a node say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taints {
    /// Their keys, sorted.
    keys: BTreeSet<String>,
    /// The earliest time of those that have one.
    since: Option<Timestamp>,
    /// Since when the node may not be scheduled to.
    cordoned: Option<Timestamp>,
}

/// The taints of a node.
#[must_use]
pub fn taints(node: &Node) -> Taints {
    let all: Vec<&Taint> = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).collect();
    let added = |taint: &&Taint| taint.time_added.as_ref().map(|at| at.0.as_second());
    Taints {
        keys: all.iter().map(|taint| taint.key.clone()).collect(),
        since: all.iter().filter_map(added).min(),
        cordoned: all.iter().find(|taint| taint.key == UNSCHEDULABLE).and_then(added),
    }
}

/// What there is to look at, beside the members.
pub struct Around<'a> {
    /// The claims that the template of claims gives each member, without the member's name.
    pub templates: Vec<String>,
    /// The names of claims that are not bound.
    pub unbound: &'a BTreeSet<String>,
    /// The group's memory.
    pub record: &'a Record,
    /// Nodes by name. `None`: they may not be read.
    pub nodes: Option<&'a BTreeMap<String, snapshot::Node>>,
    /// The taints of these nodes, by name of the node.
    pub taints: &'a BTreeMap<String, Taints>,
}

/// The names of the templates of claims.
#[must_use]
pub fn templates(object: &ReplicaGroup) -> Vec<String> {
    object.spec.volume_claim_templates.iter().map(|template| template.metadata.name.clone()).collect()
}

/// The claims that are not bound to a volume.
#[must_use]
pub fn unbound<'a>(claims: impl Iterator<Item = &'a PersistentVolumeClaim>) -> BTreeSet<String> {
    let bound = |claim: &&PersistentVolumeClaim| {
        claim.status.as_ref().and_then(|status| status.phase.as_deref()).is_some_and(|phase| phase == "Bound")
    };
    claims.filter(|claim| !bound(claim)).map(ResourceExt::name_any).collect()
}

/// Something that holds for a member. `about`: the object that it is about; for another one it begins anew.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    word: &'static str,
    since: Option<Timestamp>,
    about: Option<String>,
    detail: Option<String>,
}

/// Adds to each member what holds for it.
pub fn add(members: &mut [Member], around: &Around<'_>, hints: &mut hints::Group, now: Timestamp) {
    let mut holds = BTreeMap::new();
    for member in members {
        for Found { word, since, about, detail } in found(member, around) {
            let key = (member.name.clone(), word, about);
            let first = hints.holds.get(&key).copied().unwrap_or(now);
            let since = since.unwrap_or(first).min(now);
            holds.insert(key, first);
            member.conditions.push(Condition { name: word.to_owned(), since, detail });
        }
    }
    hints.holds = holds;
}

fn found(member: &Member, around: &Around<'_>) -> Vec<Found> {
    let mut all = Vec::new();
    let mut say = |word, since, about: Option<&String>, detail: Option<String>| {
        all.push(Found { word, since, about: about.cloned(), detail });
    };
    let wanted = around.templates.iter().map(|template| format!("{template}-{}", member.name));
    let there = |name: &String| member.claims.iter().any(|claim| claim.name == *name);
    if let Some(missing) = wanted.into_iter().find(|name| !there(name) || around.unbound.contains(name)) {
        say("volume-missing", None, Some(&missing), Some(missing.clone()));
    }
    if let Some(had) = &around.record.member(&member.name).claim_uid
        && let Some(other) = member.claims.iter().find(|claim| had.split(' ').all(|uid| uid != claim.uid))
    {
        say("volume-replaced", None, Some(&other.uid), Some(other.name.clone()));
    }
    let Some(pod) = &member.pod else { return all };
    if pod.outdated {
        say("update-pending", None, Some(&pod.uid), None);
    }
    let Some(name) = &pod.node else { return all };
    let Some(node) = around.nodes.and_then(|nodes| nodes.get(name)) else { return all };
    let taints = around.taints.get(name).cloned().unwrap_or_default();
    if !node.ready {
        say("node-not-ready", Some(node.since), Some(name), Some(name.clone()));
    }
    if node.cordoned {
        say("node-draining", taints.cordoned, Some(name), Some(name.clone()));
    }
    if !taints.keys.is_empty() {
        let keys = taints.keys.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        say("node-tainted", taints.since, Some(name), Some(keys));
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]
    use super::*;
    use serde_json::{Value, json};
    use tanist_core::contract::{Phase, Position};
    use tanist_core::snapshot::{Claim, Pod};

    const NOW: Timestamp = 5000;

    fn member() -> Member {
        let pod =
            Pod { node: Some("n1".into()), uid: "p".into(), ..tanist_core::examples::pod("c", true, Phase::Running) };
        let (name, uid, version) = ("data-db-0".to_owned(), "u1".to_owned(), "1".to_owned());
        Member {
            name: "db-0".into(),
            ordinal: 0,
            pod: Some(pod),
            claims: vec![Claim { name, uid, version, mark: None, start: None, room: None }],
            reading: Default::default(),
            position: Position::NotAsked,
            position_at: 0,
            position_stale: false,
            asked: false,
            conditions: Vec::new(),
        }
    }

    fn node(spec: Value, ready: bool) -> (snapshot::Node, Taints) {
        let conditions = json!([{"type": "Ready", "status": if ready { "True" } else { "Unknown" }}]);
        let node: Node = serde_json::from_value(
            json!({"metadata": {"name": "n1"}, "spec": spec, "status": {"conditions": conditions}}),
        )
        .unwrap();
        (snapshot::Node { since: 4000, ..super::super::convert::node(&node) }, taints(&node))
    }

    /// One round: word, since and detail of each condition.
    fn round(
        member: &Member,
        (node, taints): (snapshot::Node, Taints),
        hints: &mut hints::Group,
        unbound: &[&str],
        now: Timestamp,
    ) -> Vec<(String, Timestamp, Option<String>)> {
        let mut record = Record::default();
        record.member_mut(&member.name).claim_uid = Some("u1".into());
        let (nodes, taints) = ([("n1".to_owned(), node)].into(), [("n1".to_owned(), taints)].into());
        let unbound = unbound.iter().map(|name| (*name).to_owned()).collect();
        let around = Around {
            templates: vec!["data".into()],
            unbound: &unbound,
            record: &record,
            nodes: Some(&nodes),
            taints: &taints,
        };
        let mut members = [member.clone()];
        add(&mut members, &around, hints, now);
        members[0].conditions.iter().map(|c| (c.name.clone(), c.since, c.detail.clone())).collect()
    }

    fn told(word: &str, since: Timestamp, detail: &str) -> (String, Timestamp, Option<String>) {
        (word.to_owned(), since, (!detail.is_empty()).then(|| detail.to_owned()))
    }

    #[test]
    fn a_healthy_member_has_none() {
        let mut hints = hints::Group::default();
        assert_eq!(round(&member(), node(json!({}), true), &mut hints, &[], NOW), []);
    }

    // P21: the times of objects count; a time that no object has is when it was first seen, and stays.
    #[test]
    fn since_when_stays_the_same() {
        let mut hints = hints::Group::default();
        let added = "1970-01-01T00:50:00Z";
        let taints = json!([
            {"key": UNSCHEDULABLE, "effect": "NoSchedule", "timeAdded": added},
            {"key": "dedicated", "effect": "NoSchedule"}
        ]);
        let lost = || node(json!({"unschedulable": true, "taints": taints}), false);
        let all = [
            told("node-not-ready", 4000, "n1"),
            told("node-draining", 3000, "n1"),
            told("node-tainted", 3000, &format!("dedicated,{UNSCHEDULABLE}")),
        ];
        assert_eq!(round(&member(), lost(), &mut hints, &[], NOW), all);
        assert_eq!(round(&member(), lost(), &mut hints, &[], NOW + 60), all);

        let cordoned = || node(json!({"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}), true);
        let mut hints = hints::Group::default();
        let first = round(&member(), cordoned(), &mut hints, &[], NOW);
        assert_eq!(first, [told("node-draining", NOW, "n1"), told("node-tainted", NOW, "karpenter.sh/disrupted")]);
        assert_eq!(round(&member(), cordoned(), &mut hints, &[], NOW + 60), first);
        round(&member(), node(json!({}), true), &mut hints, &[], NOW + 70);
        assert_eq!(round(&member(), cordoned(), &mut hints, &[], NOW + 80)[0].1, NOW + 80, "it began anew");
    }

    // P21: the words that are not about nodes.
    #[test]
    fn pods_and_volumes_are_looked_at_too() {
        let mut hints = hints::Group::default();
        let mut outdated = member();
        outdated.pod.iter_mut().for_each(|pod| pod.outdated = true);
        assert_eq!(round(&outdated, node(json!({}), true), &mut hints, &[], NOW), [told("update-pending", NOW, "")]);
        outdated.pod.iter_mut().for_each(|pod| pod.uid = "another".into());
        let again = round(&outdated, node(json!({}), true), &mut hints, &[], NOW + 9);
        assert_eq!(again, [told("update-pending", NOW + 9, "")], "another pod");

        let missing = [told("volume-missing", NOW, "data-db-0")];
        assert_eq!(round(&member(), node(json!({}), true), &mut hints, &["data-db-0"], NOW), missing);
        let mut without = member();
        without.claims.clear();
        assert_eq!(round(&without, node(json!({}), true), &mut hints, &[], NOW + 60), missing);
        let mut replaced = member();
        replaced.claims[0].uid = "u2".into();
        let told = [told("volume-replaced", NOW, "data-db-0")];
        assert_eq!(round(&replaced, node(json!({}), true), &mut hints, &[], NOW), told);
    }

    #[test]
    fn claims_are_bound_or_not() {
        let claim = |name: &str, phase: &str| -> PersistentVolumeClaim {
            serde_json::from_value(json!({"metadata": {"name": name}, "status": {"phase": phase}})).unwrap()
        };
        let found = unbound([claim("a", "Bound"), claim("b", "Pending"), claim("c", "Lost")].iter());
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["b", "c"]);
    }
}
