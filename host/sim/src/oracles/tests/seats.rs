//! What the oracles of members by identity notice (D23, B8, B9).
use super::*;
use crate::oracles::seats as judge;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, PodSpec};
use tanist_api::spec::{Strategy, Zone};

/// The record of a group whose members have these numbers, the next one as given, and what else `more` says of them.
fn numbered(numbers: &[u64], next: u64, more: &Value) -> Value {
    let mut record = json!({"term": 1, "counter": 1, "intents": [], "seats": {"numbers": numbers, "next": next}});
    for (field, value) in more.as_object().into_iter().flatten() {
        record["seats"][field] = value.clone();
    }
    record
}

/// db-0 leads and db-1 follows; these are their numbers.
fn seated(numbers: &[u64], next: u64, more: &Value) -> World {
    two([Role::Primary, Role::Secondary], numbered(numbers, next, more))
}

#[tokio::test]
async fn a_number_that_is_used_again_is_seen() {
    let none = json!({});
    let world = seated(&[0, 1], 3, &none);
    write(&world, numbered(&[0, 1, 3], 4, &none));
    assert_eq!(broken(&world), [""; 0]);
    write(&world, numbered(&[0, 1, 2, 3], 4, &none));
    assert_eq!(broken(&world), ["D23: db uses the number 2 again"]);
    write(&world, numbered(&[0, 1, 2, 3], 3, &none));
    assert_eq!(broken(&world), ["D23: the next number of db goes back from 4"]);
    let world = seated(&[0], 3, &json!({"dormant": [2]}));
    write(&world, numbered(&[0, 2], 3, &none));
    assert_eq!(broken(&world), [""; 0], "its data was kept");
}

#[tokio::test]
async fn a_pod_of_an_unknown_number_is_seen() {
    let world = seated(&[0, 1], 2, &json!({}));
    let made = |name: &str, owner: Option<&str>| {
        let mut state = world.lock();
        let owners = owner.map(|uid| vec![OwnerReference { uid: uid.into(), ..OwnerReference::default() }]);
        let metadata = ObjectMeta { name: Some(name.into()), owner_references: owners, ..ObjectMeta::default() };
        state.pods.insert(name.into(), Pod { metadata, ..Pod::default() }.into());
        judge::made(&mut state, "db", name);
        std::mem::take(&mut state.broken).len()
    };
    let own = world.lock().groups["db"].uid().unwrap_or_default();
    assert_eq!((made("db-1", Some(&own)), made("db-2", Some(&own))), (0, 1));
    assert_eq!(made("db-2", Some("of a former group")), 0, "it goes with that");
}

#[tokio::test]
async fn who_leaves_too_early_is_seen() {
    let none = json!({});
    let world = seated(&[0, 1, 2], 3, &none);
    write(&world, numbered(&[0, 1], 3, &none));
    assert_eq!(broken(&world), [""; 0]);
    write(&world, numbered(&[0], 3, &none));
    assert_eq!(broken(&world), ["D23: db-1 leaves, and is desired"]);

    let world = seated(&[0, 1, 2], 3, &none);
    {
        let mut state = world.lock();
        state.clients.entry("db".into()).or_default().promised = (1..=3).collect();
        let holds = |holds| Disk { holds, ..Disk::default() };
        state.disks.insert("claim of db-0".into(), holds((1..=2).collect()));
        state.disks.insert("claim of db-1".into(), holds((1..=2).collect()));
    }
    write(&world, numbered(&[0, 1], 3, &none));
    assert_eq!(broken(&world), ["S25 S27: db-2 leaves, and who stays lacks 1 acknowledged writes"]);
}

// The application lists a member that the record did not know: that one stays, and another one is too many.
#[tokio::test]
async fn who_leaves_for_a_listed_one_is_not_desired() {
    let world = seated(&[0, 2], 3, &json!({}));
    write(&world, numbered(&[0, 1], 3, &json!({})));
    let broken = broken(&world);
    assert!(!broken.iter().any(|what| what.contains("and is desired")), "{broken:?}");
}

#[tokio::test]
async fn who_leaves_a_wrong_zone_is_known_by_its_node() {
    let leaves_with_nodes_in = |zone: &str| {
        let world = seated(&[0, 1], 2, &json!({}));
        let mut group = world.lock().groups["db"].clone();
        let zone_a = Zone { name: "zone-a".into(), replicas: Some(1) };
        (group.spec.replicas, group.spec.zones.list) = (1, vec![zone_a]);
        world.lock().groups.insert("db".into(), group);
        for (pod, zone) in [("db-0", zone), ("db-1", "zone-a")] {
            let node = format!("node of {pod}");
            let mut object = Pod::clone(&world.lock().pods[pod]);
            object.spec = Some(PodSpec { node_name: Some(node.clone()), ..PodSpec::default() });
            world.lock().pods.insert(pod.into(), object.into());
            let labels = Some([("topology.kubernetes.io/zone".to_owned(), zone.to_owned())].into());
            let metadata = ObjectMeta { name: Some(node.clone()), labels, ..ObjectMeta::default() };
            world.lock().nodes.insert(node, Node { metadata, ..Node::default() }.into());
        }
        write(&world, numbered(&[1], 2, &json!({"zones": {"zone-a": [1]}})));
        broken(&world)
    };
    assert_eq!(leaves_with_nodes_in("zone-b"), [""; 0], "the one member has to be in zone-a");
    assert_eq!(leaves_with_nodes_in("zone-a"), ["D23: db-0 leaves, and is desired"]);
}

#[tokio::test]
async fn who_is_let_go_before_the_new_one_works_is_seen() {
    let world = seated(&[0, 1, 2], 3, &json!({"replaced": {"1": 2}}));
    let leaving = |terms: Value| {
        let mut record = numbered(&[0, 1, 2], 3, &json!({"leaving": [1]}));
        record["members"] = terms;
        record
    };
    write(&world, leaving(json!({"db-0": {"term": 1}, "db-2": {}})));
    assert_eq!(broken(&world), ["B8: db-1 is to leave, and 1 of 2 others were in a role"]);
    write(&world, numbered(&[0, 1, 2], 3, &json!({})));
    write(&world, leaving(json!({"db-0": {"term": 1}, "db-2": {"term": 1}})));
    assert_eq!(broken(&world), [""; 0]);
    write(&world, numbered(&[0, 1, 2, 3, 4], 5, &json!({"replaced": {"0": 3, "1": 4}})));
    assert_eq!(broken(&world), ["B9: new members come in place of 2 of db, and 1 may at a time"]);
}

#[tokio::test]
async fn a_statefulset_that_takes_members_with_it_is_seen() {
    let world = seated(&[0, 1], 2, &json!({}));
    let mut state = world.lock();
    let set = |uid: &str| {
        let metadata = ObjectMeta { name: Some("db".into()), uid: Some(uid.into()), ..ObjectMeta::default() };
        StatefulSet { metadata, ..StatefulSet::default() }
    };
    let mut pod = Pod::clone(&state.pods["db-1"]);
    pod.metadata.owner_references = Some(vec![OwnerReference { uid: "set".into(), ..OwnerReference::default() }]);
    state.pods.insert("db-1".into(), pod.into());
    judge::dropped(&mut state, &set("another"));
    assert_eq!(state.broken, [""; 0]);
    judge::dropped(&mut state, &set("set"));
    assert_eq!(state.broken, ["D23: db-1 goes with the StatefulSet db"]);
}

#[tokio::test]
async fn clients_of_a_new_member_before_the_cut_over_are_seen() {
    let record = numbered(&[0, 1], 2, &json!({"replaced": {"0": 1}}));
    let world = two([Role::Secondary, Role::Secondary], record);
    let mut state = world.lock();
    judge::shows(&mut state, "db", "db-1");
    assert_eq!(state.broken, [""; 0], "one by one each gets its clients");
    let mut group = state.groups["db"].clone();
    group.spec.update.strategy = Strategy::SideBySide;
    state.groups.insert("db".into(), group);
    judge::shows(&mut state, "db", "db-0");
    assert_eq!(state.broken, [""; 0]);
    let mut pod = Pod::clone(&state.pods["db-0"]);
    let labels = [("controller-revision-hash", "older"), (tanist_api::LABEL_ROLE, "secondary")];
    pod.metadata.labels = Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    state.pods.insert("db-0".into(), pod.into());
    judge::shows(&mut state, "db", "db-1");
    assert_eq!(state.broken, ["E4: clients are led to db-1 before the cut-over"]);
}
