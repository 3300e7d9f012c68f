//! Where clients are led, how members are treated, and what a group has at its end.
use super::*;
use crate::clients::tests::{machine, world};
use k8s_openapi::api::core::v1::Pod;
use tanist_api::{GATE_MEMBER, LABEL_GROUP, LABEL_ROLE};

/// db-0 leads and db-1 follows it; clients are led to both, and a Service and a budget select them.
fn whole_group() -> World {
    let world = world(&[machine("db-0", Role::Primary, None), machine("db-1", Role::Secondary, Some("db-0"))]);
    world.create(group("db", 2, 1));
    for (pod, role) in [("db-0", "primary"), ("db-1", "secondary")] {
        let object = json!({
            "metadata": {"name": pod, "uid": format!("uid of {pod}"), "labels": {LABEL_GROUP: "db", LABEL_ROLE: role}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": GATE_MEMBER, "status": "True"}]}
        });
        let object: Pod = serde_json::from_value(object).unwrap();
        world.lock().pods.insert(pod.into(), object.into());
    }
    select_members(&mut world.lock());
    world
}

/// The Services of the group, and its budget, select its members.
pub(super) fn select_members(state: &mut State) {
    let selects = |selector: Value| {
        let object = json!({"metadata": {"labels": {LABEL_GROUP: "db"}}, "spec": {"selector": selector}});
        serde_json::from_value::<kube::core::DynamicObject>(object).unwrap().into()
    };
    let of_role = |role: &str| json!({LABEL_GROUP: "db", LABEL_ROLE: role});
    state.plain.insert((Kind::Service, "db".into()), selects(json!({LABEL_GROUP: "db"})));
    state.plain.insert((Kind::Service, "db-rw".into()), selects(of_role("primary")));
    state.plain.insert((Kind::Service, "db-ro".into()), selects(of_role("secondary")));
    state.plain.insert((Kind::Budget, "db".into()), selects(json!({"matchLabels": {LABEL_GROUP: "db"}})));
}

pub(super) fn pod<'s>(state: &'s mut State, name: &str) -> &'s mut Pod {
    state.pods.get_mut(name).unwrap()
}

pub(super) fn app<'s>(state: &'s mut State, name: &str) -> &'s mut Machine {
    state.machines.get_mut(&format!("uid of {name}")).unwrap()
}

/// Something that changes, and what is then lacking.
pub(super) type Case = (&'static str, fn(&mut State));

#[tokio::test]
async fn what_a_group_lacks_is_said() {
    let lacks = |world: &World| {
        let state = world.lock();
        whole::lacks(&state, &state.groups["db"]).join("; ")
    };
    assert_eq!(lacks(&whole_group()), "");
    let cases: [Case; 11] = [
        ("0 of 1 members are primary", |state| app(state, "db-0").app.role = Role::Secondary),
        ("db-1 is stopped", |state| app(state, "db-1").app.role = Role::Stopped),
        ("db-1 follows db-2, which is no primary", |state| app(state, "db-1").app.follows = Some("db-2".into())),
        ("db-1 does not run", |state| drop(state.pods.remove("db-1"))),
        ("db-1 still runs on n0", |state| drop(state.pods.remove("db-1"))),
        ("db-1 is ending", |state| app(state, "db-1").ending = Some(1)),
        ("db-1 has not the label of the group", |state| drop(pod(state, "db-1").labels_mut().remove(LABEL_GROUP))),
        ("db-1 is Secondary, and clients are led elsewhere", |state| pod(state, "db-1").status = None),
        ("db-0 is Primary, and clients are led elsewhere", |state| pod(state, "db-0").labels_mut().clear()),
        ("Service db-rw does not select its members", |state| {
            let object = state.plain.get_mut(&(Kind::Service, "db-rw".to_owned())).unwrap();
            object.data = json!({"spec": {"selector": {LABEL_GROUP: "db", LABEL_ROLE: "secondary"}}});
        }),
        ("db-1 lacks 2 acknowledged writes", |state| {
            state.clients.entry("db".into()).or_default().promised = (1..=3).collect();
        }),
    ];
    for (why, change) in cases {
        let world = whole_group();
        change(&mut world.lock());
        let said = lacks(&world);
        let expected = if why.starts_with("db-0 is Primary") { "db-0 has not the label" } else { why };
        assert!(said.contains(expected), "{why}: {said}");
    }
}

#[tokio::test]
async fn a_member_that_waits_beside_a_primary_is_seen() {
    let in_vain = |world: &World| {
        let state = world.lock();
        whole::waits_in_vain(&state, &state.groups["db"]).join("; ")
    };
    let world = whole_group();
    let remember = |lasts: Value| {
        let record = json!({"everSeeded": {"member": "db-0", "confirmed": true}, "lastPrimaries": lasts});
        world.lock().groups.get_mut("db").unwrap().status.get_or_insert_default().record = Some(record);
    };
    remember(json!([]));
    assert_eq!(in_vain(&world), "");
    app(&mut world.lock(), "db-1").app.role = Role::Stopped;
    assert_eq!(in_vain(&world), "db-1 is stopped beside db-0");
    let to = |version: Option<&str>| {
        let mut state = world.lock();
        let spec = &mut state.groups.get_mut("db").unwrap().spec;
        (spec.version, spec.commands.upgrade) = (version.map(str::to_owned), spec.commands.stop.clone());
    };
    to(Some("2"));
    assert_eq!(in_vain(&world), "", "all stop for a conversion");
    to(None);
    let before = Machine { node: "n1".into(), ..machine("db-1", Role::Primary, None) };
    world.lock().machines.insert("uid of another pod of db-1".into(), before);
    assert_eq!(in_vain(&world), "", "it may still lead on a node that is not there");
    world.lock().machines.remove("uid of another pod of db-1");
    remember(json!([{"member": "db-1", "podUid": "uid of another pod of db-1"}]));
    assert_eq!(in_vain(&world), "", "nobody can know that it does not");
    world.lock().groups.get_mut("db").unwrap().status = None;
    assert_eq!(in_vain(&world), "", "it remembers nothing");
    remember(json!([]));
    app(&mut world.lock(), "db-0").app.role = Role::Stopped;
    assert_eq!(in_vain(&world), "", "without a primary it may wait for what is not reached");
}

#[tokio::test]
async fn clients_that_are_led_to_the_wrong_member_are_seen() {
    let world = whole_group();
    routes::routes(&mut world.lock(), "db-0", true);
    routes::routes(&mut world.lock(), "db-1", true);
    assert_eq!(broken(&world), [""; 0]);
    pod(&mut world.lock(), "db-1").labels_mut().insert(LABEL_ROLE.into(), "primary".into());
    routes::forges(&mut world.lock(), "db-1");
    routes::routes(&mut world.lock(), "db-1", false);
    assert_eq!(broken(&world), [""; 0], "a user wrote that label");
    routes::routes(&mut world.lock(), "db-1", true);
    let said = broken(&world);
    assert_eq!(said[0], "S22 S23 S31: clients are led to db-1 as primary, which it never was");
    assert_eq!(said[1], "S22 S23: clients are led to 2 primaries: db-0, db-1");
}

#[tokio::test]
async fn clients_that_are_led_to_who_led_long_ago_are_seen() {
    let world = whole_group();
    routes::see_roles(&mut world.lock());
    app(&mut world.lock(), "db-0").app.role = Role::Stopped;
    routes::routes(&mut world.lock(), "db-0", true);
    assert_eq!(broken(&world), [""; 0], "nobody can have seen that yet");
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(200)).await;
    routes::routes(&mut world.lock(), "db-0", true);
    assert_eq!(broken(&world), ["S22 S23 S31: clients are led to db-0 as primary, which it was 200 s ago"]);
}

#[tokio::test]
async fn the_treatment_of_what_is_well_is_seen() {
    let world = whole_group();
    write(&world, record(1, &[intent("treat-1-a", "db-1", 1), intent("treat-2-b", "db-0", 1)]));
    ends(&mut world.lock(), "db-0", "c", "follow-0-a", 1);
    starts(&mut world.lock(), "uid of db-0", "treat-2-b");
    assert_eq!(broken(&world), [""; 0], "a command failed");
    ends(&mut world.lock(), "db-0", "c", "follow-0-b", 0);
    starts(&mut world.lock(), "uid of db-1", "treat-1-a");
    assert_eq!(broken(&world), ["S19: treat-1-a stops db-1, which serves as Secondary and is well"]);
}

#[tokio::test]
async fn treatments_without_a_pause_are_seen() {
    let world = two(STOPPED, record(1, &[]));
    let treat = || deletes(&mut world.lock(), "db-1");
    (0..2).for_each(|_| treat());
    assert_eq!(broken(&world), [""; 0], "a stop and a new pod follow at once");
    treat();
    assert_eq!(broken(&world), ["S19: treatment 3 of db-1 comes 0 s after the last one"]);
    ends(&mut world.lock(), "db-1", "c", "place-1-a", 0);
    (0..2).for_each(|_| treat());
    treats::forgives(&mut world.lock(), "db");
    (0..2).for_each(|_| treat());
    assert_eq!(broken(&world), [""; 0], "it began anew");
}

#[tokio::test]
async fn a_stop_of_the_primary_that_no_user_started_is_seen() {
    let intents = [intent("demote-1-a", "db-0", 1), intent("demote-2-b", "db-1", 1)];
    let prepare = || {
        let world = two([Role::Primary, Role::Primary], record(1, &intents));
        app(&mut world.lock(), "db-1").app.by_hand = true;
        world
    };
    let world = prepare();
    starts(&mut world.lock(), "uid of db-1", "demote-2-b");
    assert_eq!(broken(&world), [""; 0]);
    starts(&mut world.lock(), "uid of db-0", "demote-1-a");
    assert_eq!(broken(&world), ["S23: demote-1-a stops db-0, which leads, and not db-1, which a user started"]);
    let leaves = prepare();
    leaves.lock().groups.get_mut("db").unwrap().spec.replicas = 0;
    starts(&mut leaves.lock(), "uid of db-0", "demote-1-a");
    assert_eq!(broken(&leaves), [""; 0], "it is not desired any more");
}

#[tokio::test]
async fn who_was_started_by_hand_leads_once_nobody_else_does() {
    let world = two([Role::Primary, Role::Primary], record(1, &[]));
    let is_by_hand = || app(&mut world.lock(), "db-1").app.by_hand;
    app(&mut world.lock(), "db-1").app.by_hand = true;
    clients::accept_by_hand(&mut world.lock(), "db");
    assert!(is_by_hand(), "another one leads");
    world.lock().clients.entry("db".into()).or_default().promised = (1..=3).collect();
    app(&mut world.lock(), "db-0").app.role = Role::Stopped;
    clients::accept_by_hand(&mut world.lock(), "db");
    assert!(!is_by_hand());
    assert_eq!(world.lock().clients["db"].promised, [1].into_iter().collect(), "what it lacks is lost");
}
