//! Active/passive groups: who has the label of the active member, whether it works, and when its pod is replaced.
use super::shown::{Case, app, pod, select_members};
use super::*;
use crate::app::App;
use crate::oracles::passive::is_alone;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use tanist_api::{GATE_MEMBER, LABEL_GROUP, LABEL_ROLE};

/// db-0 and db-1 work, and db-0 is active. Their pods are as their StatefulSet makes them, and Services lead clients to them.
fn two_that_work() -> World {
    let works = |pod: &str| Machine { is_passive: true, app: App::works(), ..machine(pod, Role::Secondary, None) };
    let world = world(&[works("db-0"), works("db-1")]);
    world.create(crate::app::passive("db", 2));
    let mut state = world.lock();
    let status = StatefulSetStatus { update_revision: Some("a".into()), ..Default::default() };
    let metadata = ObjectMeta { uid: Some("uid of the set".into()), ..Default::default() };
    state.sets.insert("db".into(), StatefulSet { metadata, status: Some(status), ..Default::default() }.into());
    for (pod, role) in [("db-0", "primary"), ("db-1", "secondary")] {
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "uid of the set"});
        let object = json!({
            "metadata": {
                "name": pod, "uid": format!("uid of {pod}"), "ownerReferences": [owner],
                "labels": {LABEL_GROUP: "db", LABEL_ROLE: role, "controller-revision-hash": "a"}
            },
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": GATE_MEMBER, "status": "True"}]}
        });
        let object: Pod = serde_json::from_value(object).unwrap();
        state.pods.insert(pod.into(), object.into());
    }
    select_members(&mut state);
    drop(state);
    world
}

fn label(state: &mut State, name: &str, role: &str) {
    pod(state, name).labels_mut().insert(LABEL_ROLE.into(), role.into());
}

/// The pod belongs to a group that had this name before.
fn is_of_another_group(state: &mut State, name: &str) {
    pod(state, name).owner_references_mut()[0].uid = "uid of an older set".into();
}

/// The label of the active member moves from db-0 to db-1.
fn give_way(state: &mut State) {
    label(state, "db-0", "secondary");
    label(state, "db-1", "primary");
}

#[tokio::test]
async fn a_second_active_member_is_seen() {
    let world = two_that_work();
    routes::routes(&mut world.lock(), "db-0", true);
    routes::routes(&mut world.lock(), "db-1", true);
    assert_eq!(broken(&world), [""; 0]);
    label(&mut world.lock(), "db-1", "primary");
    routes::routes(&mut world.lock(), "db-1", true);
    let both = "E24: db-0 and db-1 have the label of the active member of db";
    assert_eq!(broken(&world)[0], both);
    // It counts before anybody is led there.
    pod(&mut world.lock(), "db-1").status = None;
    is_alone(&mut world.lock(), "db-1");
    assert_eq!(broken(&world), [both]);
}

// A user gave the other label, its pod belongs to a group of before, it has gone, or the group is none of these.
#[tokio::test]
async fn only_labels_that_the_operator_gave_to_members_count() {
    let harmless: [fn(&mut State); 4] = [
        |state| routes::forges(state, "db-0"),
        |state| is_of_another_group(state, "db-0"),
        |state| label(state, "db-0", "secondary"),
        |state| {
            state.passive.remove("db");
        },
    ];
    for change in harmless {
        let world = two_that_work();
        label(&mut world.lock(), "db-1", "primary");
        change(&mut world.lock());
        is_alone(&mut world.lock(), "db-1");
        assert_eq!(broken(&world), [""; 0]);
    }
}

#[tokio::test]
async fn what_an_active_passive_group_lacks_is_said() {
    let lacks = |world: &World| {
        let state = world.lock();
        whole::lacks(&state, &state.groups["db"]).join("; ")
    };
    let world = two_that_work();
    assert_eq!(lacks(&world), "");
    give_way(&mut world.lock());
    assert_eq!(lacks(&world), "", "whichever works may be the active one");
    let cases: [Case; 11] = [
        ("the active members are []", |state| label(state, "db-0", "secondary")),
        (r#"the active members are ["db-0", "db-1"]"#, |state| label(state, "db-1", "primary")),
        ("the active members are []", |state| is_of_another_group(state, "db-0")),
        (r#"the active members are ["db-1"]"#, |state| {
            give_way(state);
            state.groups.get_mut("db").unwrap().spec.replicas = 1;
        }),
        ("db-0 does not work, or is not reached", |state| app(state, "db-0").app.role = Role::Stopped),
        ("db-1 does not work, or is not reached", |state| app(state, "db-1").ending = Some(1)),
        ("db-0 does not work, or is not reached", |state| state.set_node("n0", false)),
        ("db-0 is not shown as primary", |state| drop(pod(state, "db-0").labels_mut().remove(LABEL_GROUP))),
        ("db-1 is not shown as secondary", |state| pod(state, "db-1").status = None),
        ("Service db-rw does not select its members", |state| {
            state.plain.remove(&(Kind::Service, "db-rw".to_owned()));
        }),
        ("db-1 belongs to something else than what makes it", |state| is_of_another_group(state, "db-1")),
    ];
    for (why, change) in cases {
        let world = two_that_work();
        change(&mut world.lock());
        let said = lacks(&world);
        assert!(said.contains(why), "{why}: {said}");
    }
}

// Who works waits for clients in vain while nobody is active, or only one that does not work.
#[tokio::test]
async fn a_group_that_leads_clients_to_nobody_who_works_is_seen() {
    let in_vain = |changes: &[fn(&mut State)]| {
        let world = two_that_work();
        for &change in changes {
            change(&mut world.lock());
        }
        let state = world.lock();
        whole::waits_in_vain(&state, &state.groups["db"]).join("; ")
    };
    let dies: fn(&mut State) = |state| app(state, "db-0").app.role = Role::Stopped;
    let is_inactive: fn(&mut State) = |state| label(state, "db-0", "secondary");
    let leaves: fn(&mut State) = |state| {
        give_way(state);
        state.groups.get_mut("db").unwrap().spec.replicas = 1;
    };
    let is_away: fn(&mut State) = |state| state.set_node("n0", false);
    assert_eq!(in_vain(&[]), "");
    assert_eq!(in_vain(&[is_inactive]), r#"nobody is active, and ["db-0", "db-1"] work"#);
    assert_eq!(in_vain(&[dies]), r#"nobody is active, and ["db-1"] work"#);
    assert_eq!(in_vain(&[dies, give_way]), "", "the other one took over");
    assert_eq!(in_vain(&[leaves]), "", "one that leaves may be active");
    assert_eq!(in_vain(&[is_inactive, is_away]), "", "nobody works who could be");
}

#[tokio::test]
async fn the_replacement_of_an_active_member_before_it_gave_way_is_seen() {
    let replaced = |name: &str, change: fn(&mut State)| {
        let world = two_that_work();
        world.lock().sets.get_mut("db").unwrap().status.as_mut().unwrap().update_revision = Some("b".into());
        change(&mut world.lock());
        deletes(&mut world.lock(), name);
        broken(&world)
    };
    assert_eq!(replaced("db-0", |_| {}), ["E32: db-0 is active, and is replaced before it gave way"]);
    assert_eq!(replaced("db-1", |_| {}), [""; 0], "it is not active");
    assert_eq!(replaced("db-0", give_way), [""; 0], "it gave way");
    assert_eq!(replaced("db-0", |state| app(state, "db-0").app.role = Role::Stopped), [""; 0], "it does not work");
    let alone = |state: &mut State| state.groups.get_mut("db").unwrap().spec.replicas = 1;
    assert_eq!(replaced("db-0", alone), [""; 0], "there is nobody to whom it could give way");
}
