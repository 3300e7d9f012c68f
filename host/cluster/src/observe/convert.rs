//! Converts Kubernetes objects to the types of the core.
use super::trouble::{lacked_memory, trouble};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use serde::Deserialize;
use std::collections::BTreeMap;
use tanist_api as api;
use tanist_api::ANNOTATION_VERSION;
use tanist_api::validate::policy_labels;
use tanist_core::contract::{MemberName, Phase, Timestamp};
use tanist_core::data::read_sequence;
use tanist_core::limits;
use tanist_core::record::LastPrimary;
use tanist_core::snapshot::{Claim, ClaimMark, Container, Group, StartNote};
use tanist_core::version;

pub use tanist_core::roster::ordinal;

/// An annotation on claims. The annotations hold a copy of the group's memory, which survives the group's object.
pub const CLAIM_GROUP: &str = "tanist.dev/group";
/// The term in which the member was last confirmed. See [`CLAIM_GROUP`].
pub const CLAIM_TERM: &str = "tanist.dev/term";
/// The last known sequence of the member. See [`CLAIM_GROUP`].
pub const CLAIM_SEQUENCE: &str = "tanist.dev/sequence";
/// The names of the primaries of that term. See [`CLAIM_GROUP`].
pub const CLAIM_PRIMARIES: &str = "tanist.dev/primaries";
/// Where primaries run, in the form of [`LastPrimaries`]. See [`CLAIM_GROUP`].
pub const CLAIM_LAST_PRIMARIES: &str = "tanist.dev/last-primaries";

/// The last start that makes the member primary, or where members agree the last one ([`StartNote`]), written before the command starts.
pub const CLAIM_START: &str = "tanist.dev/start";
/// The last list of members on which the application's members agreed, as JSON. See [`CLAIM_GROUP`].
pub const CLAIM_MEMBERSHIP: &str = "tanist.dev/membership";

/// The value of [`CLAIM_LAST_PRIMARIES`].
#[derive(Debug, Deserialize)]
struct LastPrimaries {
    /// The term it was written in: an older operator writes the other annotations anew and leaves this one as it is.
    term: u64,
    /// At most [`limits::MARKED_PRIMARIES`].
    primaries: Vec<LastPrimary>,
}

/// The annotations to write on a claim. Null: that annotation is removed.
#[must_use]
pub fn claim_notes(mark: &ClaimMark) -> BTreeMap<&'static str, Option<String>> {
    let primaries: Vec<_> = mark.primaries.iter().map(|m| m.as_str()).collect();
    let ran = serde_json::json!({"term": mark.term, "primaries": mark.ran});
    let membership = mark.membership.as_ref().and_then(|list| serde_json::to_string(list).ok());
    let mut notes = BTreeMap::from([
        (CLAIM_GROUP, Some(mark.group.clone())),
        (CLAIM_TERM, Some(mark.term.to_string())),
        (CLAIM_SEQUENCE, mark.sequence.as_ref().map(ToString::to_string)),
        (CLAIM_PRIMARIES, Some(primaries.join(","))),
        (CLAIM_LAST_PRIMARIES, Some(ran.to_string())),
    ]);
    // A group without such a list gets no further annotation.
    notes.extend(membership.map(|list| (CLAIM_MEMBERSHIP, Some(list))));
    notes.extend(mark.version.clone().map(|version| (ANNOTATION_VERSION, Some(version))));
    notes
}

/// The annotation of a start.
#[must_use]
pub fn start_notes(note: &StartNote) -> BTreeMap<&'static str, Option<String>> {
    // Texts, numbers and lists can always be written.
    BTreeMap::from([(CLAIM_START, serde_json::to_string(note).ok())])
}

/// Whether the object is controlled by the one with that UID.
#[must_use]
pub fn owned_by(meta: &ObjectMeta, uid: &str) -> bool {
    meta.owner_references.iter().flatten().any(|o| o.uid == uid && o.controller == Some(true))
}

fn seconds(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|t| t.0.as_second())
}

pub use crate::objects::LABEL_REVISION;

/// Converts a pod. `keys`: the labels and annotations that policies see in addition to those under their prefix.
#[must_use]
pub fn pod(
    pod: &Pod,
    group: &Group,
    keys: &[String],
    revision: Option<&str>,
    now: Timestamp,
) -> tanist_core::snapshot::Pod {
    let status = pod.status.as_ref();
    let spec = pod.spec.as_ref();
    let statuses = status.and_then(|s| s.container_statuses.as_ref()).into_iter().flatten();
    let containers: BTreeMap<_, _> = statuses
        .map(|c| {
            let running = c.state.as_ref().is_some_and(|s| s.running.is_some());
            (
                c.name.clone(),
                Container { id: c.container_id.clone().filter(|id| !id.is_empty()), running, ready: c.ready },
            )
        })
        .collect();
    let conditions = status.and_then(|s| s.conditions.as_ref());
    let condition = |kind: &str| conditions.and_then(|c| c.iter().find(|c| c.type_ == kind));
    let ready = condition("Ready");
    let container = &group.commands.status.container;
    let is_made_with = |name: &str| {
        spec.is_none_or(|spec| spec.containers.is_empty() || spec.containers.iter().any(|c| c.name == name))
    };
    // In a pod that was made before the container got its name the application may run in any: it is there, in a role that nobody knows.
    let runs = match is_made_with(container) {
        true => containers.get(container).is_some_and(|c| c.running),
        false => containers.values().any(|c| c.running),
    };
    let phase = match status.and_then(|s| s.phase.as_deref()) {
        _ if every_container_ended(pod) => Phase::Ended,
        _ if status.is_some_and(|s| s.reason.as_deref() == Some("NodeLost")) => Phase::Unreachable,
        // The node controller is the first to report a lost node.
        _ if ready.is_some_and(|c| c.status == "Unknown" || c.reason.as_deref() == Some("NodeNotReady")) => {
            Phase::Unreachable
        }
        _ if pod.metadata.deletion_timestamp.is_some() => Phase::Terminating,
        _ if runs => Phase::Running,
        _ => Phase::Pending,
    };
    tanist_core::snapshot::Pod {
        uid: pod.uid().unwrap_or_default(),
        version: pod.resource_version().unwrap_or_default(),
        phase,
        phase_since: since(pod, ready).unwrap_or(now).min(now),
        ready: ready.is_some_and(|c| c.status == "True"),
        node: spec.and_then(|s| s.node_name.clone()).filter(|n| !n.is_empty()),
        grace: grace(pod),
        containers,
        routed: pod.labels().get(api::LABEL_ROLE).cloned(),
        outdated: revision.is_some_and(|newest| pod.labels().get(LABEL_REVISION).is_some_and(|own| own != newest)),
        older_template: false,
        needs_new_member: false,
        template: None,
        gate: condition(api::GATE_MEMBER).map(|c| c.status == "True"),
        labels: policy_labels(pod.labels(), pod.annotations(), keys),
        trouble: (phase == Phase::Pending).then(|| trouble(pod)).flatten(),
        stray: None,
        is_elsewhere: false,
        programs: pod.annotations().get(ANNOTATION_VERSION).filter(|text| version::read(text).is_some()).cloned(),
        adoption: None,
        is_being_deleted: pod.metadata.deletion_timestamp.is_some(),
        lacked_memory: lacked_memory(pod),
    }
}

/// Since when the pod is, or is not, Ready. The clock of its node may be behind that of the API server, but a pod is in no phase before it is created.
fn since(pod: &Pod, ready: Option<&PodCondition>) -> Option<Timestamp> {
    let changed = ready.and_then(|condition| seconds(condition.last_transition_time.as_ref()));
    changed.max(seconds(pod.metadata.creation_timestamp.as_ref()))
}

/// Whether the pod has ended for good: nothing of it runs or will run again. It is not enough that all containers have ended, because the kubelet
/// starts them again, also after a forced deletion. The kubelet writes the last phase; if another component wrote it for a node that is gone,
/// containers still seem to run.
#[must_use]
pub fn every_container_ended(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let runs =
        status.container_statuses.iter().flatten().any(|c| c.state.as_ref().is_some_and(|s| s.running.is_some()));
    matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")) && !runs
}

/// Taints of nodes that are about to be removed: the cluster autoscaler's and Karpenter's. They come before the pods are evicted.
const REMOVED_SOON: [&str; 2] = ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"];

/// Converts a node.
#[must_use]
pub fn node(node: &Node) -> tanist_core::snapshot::Node {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
    let ready = conditions.and_then(|c| c.iter().find(|c| c.type_ == "Ready"));
    let taints: Vec<&str> = node.spec.iter().flat_map(|s| s.taints.iter().flatten()).map(|t| t.key.as_str()).collect();
    let unschedulable = node.spec.as_ref().and_then(|s| s.unschedulable).unwrap_or(false);
    tanist_core::snapshot::Node {
        ready: ready.is_some_and(|c| c.status == "True"),
        since: ready.and_then(|c| seconds(c.last_transition_time.as_ref())).unwrap_or(0),
        seen: 0,
        out_of_service: taints.contains(&"node.kubernetes.io/out-of-service"),
        cordoned: unschedulable || taints.iter().any(|t| REMOVED_SOON.contains(t)),
        zone: zone(node, None),
    }
}

/// For how many seconds the kubelet may let the pod's processes live after its end was asked for: what the spec says, or who deleted it with more.
fn grace(pod: &Pod) -> u32 {
    let asked = pod.metadata.deletion_grace_period_seconds;
    let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
    u32::try_from(own.max(asked.unwrap_or(0))).unwrap_or(30)
}

/// The labels of a node that say its zone: of Kubernetes from 1.17 on, and of before.
const ZONE: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];

/// The zone of a node. `label`: the label that says it (`spec.zones.nodeLabel`); absent: those of Kubernetes (E14).
#[must_use]
pub fn zone(node: &Node, label: Option<&str>) -> Option<String> {
    let labels = node.labels();
    let usual = || ZONE.iter().find_map(|key| labels.get(*key));
    label.map_or_else(usual, |label| labels.get(label)).cloned()
}

/// A text that changes when a node stops reporting or is replaced: between two looks with the same text it has reported without a break.
#[must_use]
pub fn life(node: &Node) -> String {
    let status = node.status.as_ref();
    let ready = status.and_then(|s| s.conditions.as_ref()?.iter().find(|c| c.type_ == "Ready"));
    let since = ready.and_then(|c| c.last_transition_time.as_ref()).map(|t| t.0.to_string()).unwrap_or_default();
    let boot = status.and_then(|s| s.node_info.as_ref()).map(|info| info.boot_id.as_str()).unwrap_or_default();
    format!("{} {boot} {since}", node.uid().unwrap_or_default())
}

/// Converts a claim, and tells its member by its name: a `StatefulSet` calls it `TEMPLATE-GROUP-ORDINAL`.
#[must_use]
pub fn claim(group: &str, claim: &PersistentVolumeClaim) -> Option<(MemberName, Claim)> {
    let name = claim.name_any();
    let (head, digits) = name.rsplit_once('-')?;
    head.strip_suffix(group)?.strip_suffix('-')?;
    let member = format!("{group}-{digits}");
    ordinal(group, &member)?;
    let notes = claim.annotations();
    let mark =
        notes.get(CLAIM_GROUP).zip(notes.get(CLAIM_TERM).and_then(|t| t.parse().ok())).map(|(of, term)| ClaimMark {
            group: of.clone(),
            term,
            sequence: notes.get(CLAIM_SEQUENCE).and_then(|s| match read_sequence(s.as_bytes()) {
                Ok(tanist_core::contract::Position::Known(sequence)) => Some(sequence),
                _ => None,
            }),
            primaries: notes.get(CLAIM_PRIMARIES).map(|p| names(p)).unwrap_or_default(),
            ran: notes.get(CLAIM_LAST_PRIMARIES).map(|text| last_primaries(text, term)).unwrap_or_default(),
            membership: notes.get(CLAIM_MEMBERSHIP).and_then(|text| serde_json::from_str(text).ok()),
            version: notes.get(ANNOTATION_VERSION).filter(|text| version::read(text).is_some()).cloned(),
        });
    let (uid, version) = (claim.uid().unwrap_or_default(), claim.resource_version().unwrap_or_default());
    // What cannot be read was written by a later version, or by hand. The record is what counts; this only helps where it was lost.
    let start = notes.get(CLAIM_START).and_then(|text| serde_json::from_str(text).ok());
    Some((MemberName::from(member), Claim { name: name.clone(), uid, version, mark, start, room: None }))
}

/// Where primaries ran. A list that cannot be read, or is of another term, is ignored; the names of the primaries still block.
fn last_primaries(text: &str, term: u64) -> Vec<LastPrimary> {
    let read: Option<LastPrimaries> = serde_json::from_str(text).ok();
    let mut ran = read.filter(|read| read.term == term).map(|read| read.primaries).unwrap_or_default();
    ran.retain(|entry| !entry.is_by_name());
    ran.truncate(limits::MARKED_PRIMARIES);
    ran
}

fn names(text: &str) -> Vec<MemberName> {
    text.split(',').filter(|n| !n.is_empty()).map(MemberName::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use tanist_core::record::{Listed, Membership};

    // A8: numbers, not text.
    #[test]
    fn ordinals_are_numbers() {
        assert_eq!(ordinal("db", "db-10"), Some(10));
        for other in ["db-", "db-01", "db-x", "dbx-1", "db-1-2", "other-1", "db-+1"] {
            assert_eq!(ordinal("db", other), None, "{other}");
        }
    }

    // S28: how long a pod has been Ready limits how often it is moved (docs/rules.md, "Rebalance"). Its node says since when, by a clock that may be wrong.
    #[test]
    fn no_pod_is_ready_before_it_is_created() {
        let since = |ready: &str| {
            let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": ready});
            let metadata = json!({"name": "db-0", "creationTimestamp": "2026-11-23T10:00:00Z"});
            let pod: Pod =
                serde_json::from_value(json!({"metadata": metadata, "status": {"conditions": [condition]}})).unwrap();
            let ready = pod.status.as_ref().and_then(|status| status.conditions.as_ref()?.first().cloned());
            let created = seconds(pod.metadata.creation_timestamp.as_ref()).unwrap();
            super::since(&pod, ready.as_ref()).unwrap() - created
        };
        assert_eq!((since("2026-11-23T10:00:20Z"), since("2026-11-23T08:00:20Z")), (20, 0));
    }

    // S21: whoever deletes a pod may give its processes more time than its spec does. A forced deletion afterwards ends nothing.
    #[test]
    fn a_pod_has_the_longer_grace() {
        let grace = |spec: Value, metadata: Value| {
            let pod = json!({"metadata": metadata, "spec": spec});
            super::grace(&serde_json::from_value(pod).unwrap())
        };
        let own = |seconds: i64| json!({"terminationGracePeriodSeconds": seconds, "containers": []});
        let asked = |seconds: i64| json!({"deletionGracePeriodSeconds": seconds});
        assert_eq!((grace(own(5), json!({})), grace(json!({"containers": []}), json!({}))), (5, 30));
        assert_eq!((grace(own(5), asked(600)), grace(own(600), asked(0))), (600, 600));
    }

    #[test]
    fn a_claim_belongs_to_the_member_that_its_name_says() {
        let named = |name: &str| {
            let claim: PersistentVolumeClaim =
                serde_json::from_value(serde_json::json!({"metadata": {"name": name, "uid": "u"}})).unwrap();
            super::claim("db", &claim).map(|(m, _)| m.0)
        };
        assert_eq!(named("data-db-2").as_deref(), Some("db-2"));
        assert_eq!(named("data-other-2"), None);
        assert_eq!(named("data-otherdb-2"), None);
    }

    // S32: annotations on a claim are read back; a list that an older operator left behind is ignored.
    #[test]
    fn a_claim_says_where_primaries_run() {
        let entry = LastPrimary {
            member: "db-0".into(),
            pod_uid: "pod".into(),
            container: "db".into(),
            container_id: "c".into(),
            node: Some("node-0".into()),
            grace: 30,
            gone: None,
        };
        let (group, primaries) = ("db".into(), vec![MemberName::from("db-0")]);
        let mark =
            ClaimMark { group, term: 4, sequence: None, primaries, ran: vec![entry], membership: None, version: None };
        let read = |notes: Value| {
            let claim = json!({"metadata": {"name": "data-db-0", "uid": "u", "annotations": notes}});
            claim_of(claim).and_then(|claim| claim.mark)
        };
        let mut notes = json!(claim_notes(&mark));
        notes.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        assert_eq!(read(notes.clone()), Some(mark.clone()));
        let named = ClaimMark { ran: Vec::new(), ..mark };
        for other in [r#"{"term":3,"primaries":[]}"#, "{", r#"{"term":4,"primaries":[{"member":"db-0"}]}"#] {
            let mut notes = notes.clone();
            notes[CLAIM_LAST_PRIMARIES] = json!(other);
            assert_eq!(read(notes), Some(named.clone()), "{other}");
        }
        notes[CLAIM_TERM] = json!("5");
        assert_eq!(read(notes), Some(ClaimMark { term: 5, ..named }), "the list is of another term");
    }

    // D2, S32: the list of members is read back from a claim; a group without one gets no annotation, and a text that is none says nothing.
    #[test]
    fn a_claim_remembers_the_members() {
        let listed = Listed { id: "a1".into(), member: Some("db-0".into()), started: true, voter: true, volume: None };
        let list = Membership { cluster: "c".into(), revision: 7, members: vec![listed] };
        let mark = |membership| ClaimMark {
            group: "db".into(),
            term: 4,
            sequence: None,
            primaries: Vec::new(),
            ran: Vec::new(),
            membership,
            version: None,
        };
        let read = |notes: BTreeMap<&str, Option<String>>| {
            let claim = json!({"metadata": {"name": "data-db-0", "uid": "u", "annotations": notes}});
            claim_of(claim).and_then(|claim| claim.mark?.membership)
        };
        let written = |membership| {
            let mut notes = claim_notes(&mark(membership));
            notes.retain(|_, text| text.is_some());
            notes
        };
        assert_eq!(read(written(Some(list.clone()))), Some(list.clone()));
        assert!(!written(None).contains_key(CLAIM_MEMBERSHIP));
        let mut spoiled = written(Some(list));
        spoiled.insert(CLAIM_MEMBERSHIP, Some("{".into()));
        assert_eq!(read(spoiled), None);
    }

    // Claims and pods have versions; a text that is none says nothing.
    #[test]
    fn claims_and_pods_say_versions() {
        let mark = |version: Option<&str>| ClaimMark {
            group: "db".into(),
            term: 4,
            sequence: None,
            primaries: Vec::new(),
            ran: Vec::new(),
            membership: None,
            version: version.map(str::to_owned),
        };
        let read = |notes: BTreeMap<&str, Option<String>>| {
            let claim = json!({"metadata": {"name": "data-db-0", "uid": "u", "annotations": notes}});
            claim_of(claim).and_then(|claim| claim.mark?.version)
        };
        let written = |version| {
            let mut notes = claim_notes(&mark(version));
            notes.retain(|_, text| text.is_some());
            notes
        };
        assert_eq!(read(written(Some("10.6"))).as_deref(), Some("10.6"));
        assert_eq!((read(written(Some("x"))), read(written(None))), (None, None));
        assert!(!written(None).contains_key(ANNOTATION_VERSION));
        let programs = |version: &str| {
            let metadata = json!({"name": "db-0", "annotations": {ANNOTATION_VERSION: version}});
            let pod = serde_json::from_value(json!({"metadata": metadata})).unwrap();
            super::pod(&pod, &tanist_core::examples::group(1), &[], None, 0).programs
        };
        assert_eq!((programs("17").as_deref(), programs("1x")), (Some("17"), None));
    }

    fn claim_of(claim: Value) -> Option<Claim> {
        super::claim("db", &serde_json::from_value(claim).unwrap()).map(|(_, claim)| claim)
    }

    // S5, docs/rules.md, "Over": a container between its death and its restart has not ended for good; nor has a pod whose phase another component
    // wrote.
    #[test]
    fn only_the_last_phase_is_the_end() {
        let ended = |phase: &str, state: Value| {
            let statuses =
                json!([{"name": "db", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state}]);
            let status = json!({"phase": phase, "containerStatuses": statuses});
            let pod = json!({"spec": {"containers": [{"name": "db"}]}, "metadata": {}, "status": status});
            serde_json::from_value(pod).is_ok_and(|pod| every_container_ended(&pod))
        };
        let terminated = || json!({"terminated": {"exitCode": 137}});
        assert!(!ended("Running", terminated()));
        assert!(ended("Failed", terminated()) && ended("Succeeded", terminated()));
        assert!(!ended("Failed", json!({"running": {}})));
    }

    // E14: labels of old and new Kubernetes, or the one that the user names.
    #[test]
    fn a_node_says_its_zone_by_one_of_three_labels() {
        let zone = |labels: Value, label: Option<&str>| {
            super::zone(&serde_json::from_value(json!({"metadata": {"name": "n", "labels": labels}})).unwrap(), label)
        };
        let (new, old) = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone");
        assert_eq!(zone(json!({new: "a", old: "b"}), None).as_deref(), Some("a"));
        assert_eq!(zone(json!({old: "b", "rack": "r"}), None).as_deref(), Some("b"));
        assert_eq!(zone(json!({new: "a", "rack": "r"}), Some("rack")).as_deref(), Some("r"));
        assert_eq!(zone(json!({new: "a"}), Some("rack")), None, "another label says nothing about racks");
    }

    // A drain begins with a cordon; drains of autoscalers begin with a taint.
    #[test]
    fn a_node_that_is_to_be_emptied_is_known_by_its_mark() {
        let cordoned = |spec: Value| -> bool {
            node(&serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": spec})).unwrap_or_default()).cordoned
        };
        let taint = |key: &str| json!({"taints": [{"key": key, "effect": "NoSchedule"}]});
        assert!(cordoned(json!({"unschedulable": true})));
        assert!(cordoned(taint("karpenter.sh/disrupted")) && cordoned(taint("ToBeDeletedByClusterAutoscaler")));
        assert!(!cordoned(json!({})) && !cordoned(taint("dedicated")));
    }
}
