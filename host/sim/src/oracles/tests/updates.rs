//! The oracle of updates.
use super::*;
use crate::strikes::users::WRONG_IMAGE;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{Container, PodSpec};
use tanist_api::{LABEL_GROUP, LABEL_ROLE};

/// A primary and a secondary. Their pods are of the revision `a`, and the set's is the given one.
fn of_revision(present: &str, secondary: bool) -> World {
    let world = two([Role::Primary, Role::Secondary], record(1, &[]));
    let mut state = world.lock();
    let status = StatefulSetStatus { update_revision: Some(present.into()), ..Default::default() };
    state.sets.insert("db".into(), StatefulSet { status: Some(status), ..Default::default() }.into());
    for (pod, role) in [("db-0", "primary"), ("db-1", "secondary")] {
        let mut object = Pod::clone(&state.pods[pod]);
        let uid = state.groups["db"].uid().unwrap_or_default();
        let owner = OwnerReference { name: "db".into(), uid, ..Default::default() };
        object.metadata.owner_references = Some(vec![owner]);
        let labels = [("controller-revision-hash", "a"), (LABEL_ROLE, role)];
        object.metadata.labels = Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        state.pods.insert(pod.into(), object.into());
    }
    let mut group = state.groups["db"].clone();
    if !secondary {
        group.spec.commands.secondary = None;
    }
    state.groups.insert("db".into(), group);
    drop(state);
    world
}

#[tokio::test]
async fn the_replacement_of_a_pod_that_is_as_it_should_be_is_seen() {
    let world = of_revision("a", true);
    deletes(&mut world.lock(), "db-1");
    assert_eq!(broken(&world), ["S19: db-1 is deleted, serves as Secondary and is well"]);
    let world = of_revision("b", true);
    deletes(&mut world.lock(), "db-1");
    assert_eq!(broken(&world), [""; 0], "its template is an older one");
    let mut group = world.lock().groups["db"].clone();
    group.spec.update.paused = true;
    world.lock().groups.insert("db".into(), group);
    deletes(&mut world.lock(), "db-1");
    assert_eq!(broken(&world), ["S19: db-1 is deleted, serves as Secondary and is well"], "nobody asked for it");
}

#[tokio::test]
async fn the_replacement_of_a_primary_that_could_give_up_the_lead_is_seen() {
    let world = of_revision("b", true);
    deletes(&mut world.lock(), "db-0");
    assert_eq!(broken(&world), ["E32: db-0 leads, and is replaced before another one does"]);
    let world = of_revision("b", false);
    deletes(&mut world.lock(), "db-0");
    assert_eq!(broken(&world), [""; 0], "nobody follows it");
}

// C73: whoever works has said that it is prepared before it is replaced.
#[tokio::test]
async fn a_replacement_of_who_is_not_prepared_is_seen() {
    let world = of_revision("b", true);
    let mut group = world.lock().groups["db"].clone();
    group.spec.commands.prepared = group.spec.commands.stop.clone();
    world.lock().groups.insert("db".into(), group);
    deletes(&mut world.lock(), "db-1");
    assert_eq!(broken(&world), ["C73: db-1 is replaced and well, and never said that it is prepared"]);
    let uid = world.lock().pods["db-1"].uid().unwrap();
    world.lock().prepared.insert(uid);
    deletes(&mut world.lock(), "db-1");
    assert_eq!(broken(&world), [""; 0]);
}

// B11: whoever works is announced before it is replaced, and one update ends before another one begins.
#[tokio::test]
async fn an_update_that_nobody_was_told_of_is_seen() {
    let world = of_revision("b", true);
    let mut group = world.lock().groups["db"].clone();
    let command = group.spec.commands.stop.clone().unwrap();
    (group.spec.commands.before_update, group.spec.commands.after_update) = (Some(command.clone()), Some(command));
    world.lock().groups.insert("db".into(), group);
    deletes(&mut world.lock(), "db-1");
    assert_eq!(broken(&world), ["B11: db-1 is replaced and well, and nobody was told"]);
    world.lock().announced.entry("db".into()).or_default().insert("db-1".into());
    deletes(&mut world.lock(), "db-1");
    assert_eq!(broken(&world), [""; 0], "it was announced");
    crate::oracles::updates::encloses(&mut world.lock(), "db", "beforeUpdate", &["db-1"]);
    crate::oracles::updates::encloses(&mut world.lock(), "db", "afterUpdate", &["db-1"]);
    assert_eq!(broken(&world), [""; 0], "it is announced again, and ends");
    crate::oracles::updates::encloses(&mut world.lock(), "db", "beforeUpdate", &["db-0"]);
    assert_eq!(broken(&world), ["B11: the update of db-0 begins before that of db-1 has ended"]);
    let state = world.lock();
    let lacks = whole::lacks(&state, &state.groups["db"]);
    assert!(lacks.iter().any(|lack| lack.contains("was announced and has not ended")), "{lacks:?}");
}

// E5: a member that works keeps its pod while that of another one has no image, unless nobody can see that pod.
#[tokio::test]
async fn a_replacement_beside_a_pod_without_its_image_is_seen() {
    let deleted = |label: Option<&str>| {
        let world = of_revision("b", true);
        let mut state = world.lock();
        let mut other = Pod::clone(&state.pods["db-0"]);
        let container = Container { image: Some(WRONG_IMAGE.into()), ..Container::default() };
        other.spec = Some(PodSpec { containers: vec![container], ..PodSpec::default() });
        other.metadata.labels = label.map(|group| [(LABEL_GROUP.to_owned(), group.to_owned())].into());
        state.pods.insert("db-0".into(), other.into());
        drop(state);
        deletes(&mut world.lock(), "db-1");
        broken(&world)
    };
    assert_eq!(deleted(Some("db")), ["E5: db-1 is replaced and well, and db-0 waits for its image"]);
    assert_eq!(deleted(None), [""; 0]);
}
