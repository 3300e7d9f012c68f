//! Groups whose members agree.
use super::*;
use crate::agree::tests::{id, run, three};
use crate::agree::{refresh, write as client_writes};
use crate::faults::Fault;

/// A command starts on a member after its intent was recorded. What broke. `about`: the member that a change is about.
fn begin(world: &World, token: &str, member: &str, about: Option<&str>) -> Vec<String> {
    let verb = token.rsplitn(3, '-').nth(2).unwrap();
    let generation = world.lock().groups["db"].metadata.generation;
    let intent = json!({
        "token": token, "verb": verb, "member": member, "podUid": format!("uid of {member}"), "containerId": "c", "term": 1,
        "target": about, "generation": generation
    });
    write(world, record(1, &[intent]));
    starts(&mut world.lock(), &format!("uid of {member}"), token);
    broken(world)
}

/// Time passes, in which members notice how things are.
async fn wait(world: &World) {
    refresh(&mut world.lock(), "db");
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    refresh(&mut world.lock(), "db");
}

fn resize(world: &World, to: u32) {
    crate::strikes::edit(&mut world.lock(), "db", "", |group| group.spec.replicas = to);
}

fn die(world: &World, pod: &str) {
    crate::strikes::die(&mut world.lock(), pod);
}

#[tokio::test(start_paused = true)]
async fn two_changes_at_once_are_seen() {
    let world = three();
    resize(&world, 2);
    let open = |token: &str, member: &str| intent(token, member, 1);
    write(&world, record(1, &[open("member-remove-1-a", "db-0"), open("member-add-2-a", "db-1")]));
    assert_eq!(broken(&world), ["D15: two changes of the members of db are open: member-remove-1-a, member-add-2-a"]);
    world.lock().machines.get_mut("uid of db-1").unwrap().busy = Some("member-add-2-a".into());
    assert_eq!(
        begin(&world, "member-remove-3-a", "db-0", Some("db-2")),
        ["D15: member-remove-3-a: another change runs in db-1"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_added_twice_is_seen() {
    let world = three();
    assert_eq!(begin(&world, "member-add-1-a", "db-0", Some("db-3")), [""; 0]);
    assert_eq!(
        begin(&world, "member-add-2-a", "db-0", Some("db-2")),
        ["D12 D15: member-add-2-a: db-2 is added a second time"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_without_a_majority_is_seen_once_it_could_be_known() {
    let world = three();
    resize(&world, 2);
    wait(&world).await;
    die(&world, "db-0");
    refresh(&mut world.lock(), "db");
    assert_eq!(begin(&world, "member-remove-1-a", "db-1", Some("db-2")), [""; 0], "a moment ago all were well");
    wait(&world).await;
    assert_eq!(
        begin(&world, "member-remove-2-a", "db-1", Some("db-2")),
        ["D14: member-remove-2-a: without db-2 no majority of 2 voters is healthy"]
    );
    assert_eq!(begin(&world, "member-add-3-a", "db-1", Some("db-3")), [""; 0], "two of three are a majority");
    die(&world, "db-2");
    wait(&world).await;
    assert_eq!(
        begin(&world, "member-add-4-a", "db-1", Some("db-3")),
        ["D8: member-add-4-a: no majority of 3 voters is healthy"]
    );
    world.lock().faults.happened.insert(Fault::OperatorFrozen, 1);
    assert_eq!(begin(&world, "member-add-5-a", "db-1", Some("db-3")), [""; 0], "who decided it stood still meanwhile");
}

#[tokio::test(start_paused = true)]
async fn the_removal_of_a_member_that_stays_is_seen() {
    let world = three();
    assert_eq!(
        begin(&world, "member-remove-1-a", "db-0", Some("db-2")),
        ["D14 D16: member-remove-1-a: db-2 is desired and well"]
    );
    die(&world, "db-2");
    assert_eq!(begin(&world, "member-remove-2-a", "db-0", Some("db-2")), [""; 0], "it does not run");
}

#[tokio::test(start_paused = true)]
async fn a_start_of_somebody_who_is_not_listed_is_seen() {
    let world = three();
    die(&world, "db-2");
    assert_eq!(begin(&world, "join-1-a", "db-2", None), [""; 0]);
    assert!(run(&world, "db-0", &["memberRemove", &id(&world, "db-2")]).0);
    assert_eq!(begin(&world, "join-2-a", "db-2", None), ["D10: join-2-a: db-2 is not listed"]);
    let mut known = record(
        1,
        &[json!({
            "token": "rejoin-3-a", "verb": "rejoin", "member": "db-2", "podUid": "uid of db-2", "containerId": "c", "term": 1
        })],
    );
    write(&world, known.clone());
    starts(&mut world.lock(), "uid of db-2", "rejoin-3-a");
    assert_eq!(broken(&world), ["D10: rejoin-3-a: db-2 is not listed"]);
    known["intents"][0]["token"] = "rejoin-4-a".into();
    known["membership"] = json!({"members": [{"id": "m", "member": "db-2", "started": true, "voter": true}]});
    write(&world, known);
    starts(&mut world.lock(), "uid of db-2", "rejoin-4-a");
    assert_eq!(broken(&world), [""; 0], "how its removal ended is not known");
}

#[tokio::test(start_paused = true)]
async fn a_second_identity_is_seen() {
    let world = three();
    die(&world, "db-2");
    let old = id(&world, "db-2");
    assert!(run(&world, "db-0", &["memberRemove", &old]).0 && run(&world, "db-0", &["memberAdd", "db-2", "a"]).0);
    let new = id(&world, "db-2");
    assert_eq!(
        begin(&world, "join-1-a", "db-2", None),
        [format!("D20: join-1-a: db-2 comes back as {old}, and is listed as {new}")]
    );
    let world = three();
    die(&world, "db-2");
    let own = id(&world, "db-2");
    let copy = world.lock().disks["claim of db-2"].clone();
    world.lock().disks.insert("another claim".into(), copy);
    world.lock().machines.get_mut("uid of db-2").unwrap().claim = "another claim".into();
    assert_eq!(
        begin(&world, "join-1-a", "db-2", None),
        [format!("D20: join-1-a: db-2 starts as {own} on a copy of its volume")]
    );
    world.lock().disks.remove("another claim");
    assert_eq!(begin(&world, "join-2-a", "db-2", None), [""; 0], "whether its first start worked is not known");
    let intent = json!({"token": "join-3-a", "verb": "join", "member": "db-2", "podUid": "uid of db-2", "containerId": "c", "term": 1});
    let mut known = record(1, &[intent]);
    known["membership"] = json!({"members": [{"id": own, "member": "db-2", "started": true, "voter": true}]});
    write(&world, known);
    starts(&mut world.lock(), "uid of db-2", "join-3-a");
    assert_eq!(broken(&world), [format!("D20: join-3-a: db-2 was started as {own}, and starts on another volume")]);
}

#[tokio::test(start_paused = true)]
async fn an_identity_that_runs_twice_is_seen() {
    let world = three();
    let second = Machine { app: Default::default(), ..world.lock().machines["uid of db-2"].clone() };
    world.lock().machines.insert("the next pod".into(), second);
    let mut intent = intent("join-1-a", "db-2", 1);
    intent["podUid"] = "the next pod".into();
    write(&world, record(1, &[intent]));
    starts(&mut world.lock(), "the next pod", "join-1-a");
    assert_eq!(broken(&world), ["S20 D20: join-1-a: db-2 runs under its identity on n2 already"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_loses_the_majority_or_a_member_is_seen() {
    let world = three();
    wait(&world).await;
    assert_eq!(begin(&world, "demote-1-a", "db-0", None), [""; 0], "two are a majority");
    die(&world, "db-2");
    wait(&world).await;
    assert_eq!(begin(&world, "demote-2-a", "db-0", None), ["D14: demote-2-a: without db-0 no majority is left"]);
    assert!(
        begin(&world, "treat-3-a", "db-0", None)
            .contains(&"D14: treat-3-a: without db-0 no majority is left".to_owned())
    );
    world.lock().oracles.failed.insert("c".into());
    assert_eq!(begin(&world, "treat-4-a", "db-0", None), [""; 0], "it failed");
    resize(&world, 1);
    assert_eq!(begin(&world, "remove-5-a", "db-1", None), ["D19: remove-5-a: db-1 is stopped, and still listed"]);
    shrinks(&mut world.lock(), "db", 1);
    assert!(broken(&world)[0].starts_with("D19: db shrinks to 1, and db-"));
    resize(&world, 0);
    assert_eq!(begin(&world, "remove-6-a", "db-1", None), [""; 0], "on the way to 0 all stop");
    shrinks(&mut world.lock(), "db", 0);
    assert_eq!(broken(&world), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_second_cluster_is_seen() {
    let world = three();
    world.lock().disks.insert("claim of db-1".into(), Disk::default());
    assert!(run(&world, "db-1", &["seed"]).0);
    assert!(broken(&world)[0].starts_with("D27: db-1 forms a second cluster beside cluster-"));
    client_writes(&mut world.lock(), "db");
    assert!(broken(&world)[0].starts_with("S15: the majority of db lacks "), "what was written is lost with it");
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_emptied_although_it_counts_is_seen() {
    let world = three();
    let own = id(&world, "db-2");
    crate::oracles::members::empties(&mut world.lock(), "db", "db-2");
    let said = format!("D20: an administrator is to empty the volume of db-2, whose identity {own} counts");
    assert_eq!(broken(&world), [said]);
    assert!(run(&world, "db-0", &["memberRemove", &own]).0);
    crate::oracles::members::empties(&mut world.lock(), "db", "db-2");
    assert_eq!(broken(&world), [""; 0]);
}
