//! What the application does, and what is seen of it.
use super::*;
use crate::clients::tests::machine;
use crate::world::World;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::core::ObjectMeta;
use tanist_core::membership::read_list;

/// A group of so many desired members, and pods for as many, in which nothing runs yet.
pub(crate) fn idle(members: u32, learners: bool) -> World {
    let world = World::new(4, 1);
    world.create(group("db", u64::from(members), learners, false));
    let mut state = world.lock();
    for ordinal in 0..members {
        let pod = format!("db-{ordinal}");
        let meta = |name: String, uid: String| ObjectMeta { name: Some(name), uid: Some(uid), ..Default::default() };
        let object = Pod { metadata: meta(pod.clone(), format!("uid of {pod}")), ..Pod::default() };
        state.pods.insert(pod.clone(), object.into());
        let metadata = meta(claim_of(&pod), format!("claim of {pod}"));
        state.claims.insert(claim_of(&pod), PersistentVolumeClaim { metadata, ..Default::default() }.into());
        let own = Machine { node: format!("n{ordinal}"), ..machine(&pod, Role::Stopped, None) };
        state.disks.insert(own.claim.clone(), Disk::default());
        state.machines.insert(format!("uid of {pod}"), own);
    }
    drop(state);
    world
}

/// A command of that member. Whether it works, and what it prints.
pub(crate) fn run(world: &World, pod: &str, words: &[&str]) -> (bool, String) {
    let mut state = world.lock();
    let uid = format!("uid of {pod}");
    let machine = state.machines[&uid].clone();
    let (code, printed) = perform(&mut state, &uid, &machine, words);
    (code == 0, String::from_utf8(printed).unwrap())
}

fn works(world: &World, pod: &str, words: &[&str]) -> bool {
    run(world, pod, words).0
}

/// The identity of a member.
pub(crate) fn id(world: &World, pod: &str) -> String {
    world.lock().agreements["db"].named(pod).unwrap().0.clone()
}

/// db-0 to db-2 are members with a vote, and run.
pub(crate) fn three() -> World {
    let world = idle(3, true);
    assert!(works(&world, "db-0", &["seed"]));
    for (pod, by) in [("db-1", "db-0"), ("db-2", "db-1")] {
        assert!(works(&world, by, &["memberAdd", pod, "address"]));
        assert!(works(&world, pod, &["primary", "db-0.db.shop.svc"]));
        let id = id(&world, pod);
        write(&mut world.lock(), "db");
        // A learner that lags is not promoted.
        while !works(&world, by, &["memberPromote", &id]) {
            write(&mut world.lock(), "db");
        }
    }
    world
}

fn roles(world: &World) -> [Role; 3] {
    refresh(&mut world.lock(), "db");
    ["db-0", "db-1", "db-2"].map(|pod| world.lock().machines[&format!("uid of {pod}")].app.role)
}

const PRIMARY: Role = Role::Primary;

#[tokio::test]
async fn a_majority_serves_and_less_waits() {
    let world = three();
    assert_eq!(roles(&world), [PRIMARY; 3]);
    world.lock().set_node("n2", false);
    assert_eq!(roles(&world), [PRIMARY, PRIMARY, Role::Starting], "one that is cut off serves nobody");
    assert!(works(&world, "db-1", &["memberList"]));
    crate::strikes::die(&mut world.lock(), "db-0");
    assert_eq!(roles(&world), [Role::Stopped, Role::Starting, Role::Starting]);
    for words in [&["memberList"][..], &["memberAdd", "db-3", "a"], &["memberRemove", &id(&world, "db-2")]] {
        assert!(!works(&world, "db-1", words), "{words:?}");
    }
    assert!(works(&world, "db-0", &["primary"]), "it goes on with what is on its volume");
    world.lock().set_node("n2", true);
    assert_eq!(roles(&world), [PRIMARY; 3]);
    assert_eq!(world.lock().broken, [""; 0]);
}

#[tokio::test]
async fn one_that_stands_still_counts_for_nothing() {
    let world = three();
    crate::strikes::freeze(&mut world.lock(), "db-1", 9);
    crate::strikes::die(&mut world.lock(), "db-2");
    assert_eq!(roles(&world)[0], Role::Starting);
}

#[tokio::test]
async fn nobody_starts_who_is_not_announced_and_who_was_removed_ends() {
    let world = idle(3, true);
    assert!(!works(&world, "db-1", &["primary", "db-0.db"]), "there is no cluster");
    assert!(works(&world, "db-0", &["seed"]));
    assert!(works(&world, "db-0", &["seed"]), "it goes on with what is there");
    assert!(!works(&world, "db-1", &["primary", "db-0.db"]), "it was not added");
    assert!(works(&world, "db-0", &["memberAdd", "db-1", "a"]));
    assert!(!works(&world, "db-0", &["memberAdd", "db-1", "a"]), "it is a member already");
    assert!(!works(&world, "db-0", &["memberAdd", "db-2", "a"]), "another one is half added");
    assert!(!works(&world, "db-1", &["primary"]), "nobody tells it of the cluster");
    assert!(works(&world, "db-1", &["primary", "db-0.db"]));
    assert_eq!(roles(&world), [PRIMARY, Role::Starting, Role::Stopped], "a learner serves nobody");
    let id = id(&world, "db-1");
    assert!(works(&world, "db-0", &["memberRemove", &id]));
    assert_eq!(roles(&world), [PRIMARY, Role::Stopped, Role::Stopped]);
    assert!(!works(&world, "db-1", &["primary", "db-0.db"]), "its identity is over");
    assert!(works(&world, "db-0", &["memberAdd", "db-1", "a"]));
    assert!(!works(&world, "db-1", &["primary", "db-0.db"]), "a volume has one identity");
    assert_eq!(world.lock().broken, [""; 0]);
}

#[tokio::test]
async fn without_learners_one_that_becomes_two_needs_both() {
    let world = idle(3, false);
    assert!(works(&world, "db-0", &["seed"]));
    world.lock().set_node("n0", false);
    assert_eq!(roles(&world)[0], PRIMARY, "the only voter is a majority wherever it is");
    world.lock().set_node("n0", true);
    assert!(works(&world, "db-0", &["memberAdd", "db-1", "a"]));
    assert_eq!(roles(&world)[0], Role::Starting);
    assert!(works(&world, "db-1", &["primary", "db-0.db"]));
    assert_eq!(roles(&world)[..2], [PRIMARY, PRIMARY]);
}

#[tokio::test]
async fn the_list_is_what_the_operator_reads() {
    let world = three();
    world.lock().set_node("n2", false);
    let (_, text) = run(&world, "db-0", &["memberList"]);
    let list = read_list(text.as_bytes()).unwrap();
    let said = |e: &tanist_core::membership::Entry| (e.member("db").unwrap().to_string(), e.is_voter(), e.healthy);
    let mut said: Vec<_> = list.entries.iter().map(said).collect();
    said.sort();
    let expected = [("db-0", true), ("db-1", true), ("db-2", false)];
    assert_eq!(said, expected.map(|(name, healthy)| (name.to_owned(), true, healthy)));
    assert!(works(&world, "db-0", &["memberRemove", &id(&world, "db-2")]));
    assert!(works(&world, "db-0", &["memberAdd", "db-2", "a"]));
    let list = read_list(run(&world, "db-0", &["memberList"]).1.as_bytes()).unwrap();
    let added = list.entry("db", &"db-2".into()).unwrap();
    assert!(!added.is_started() && !added.is_voter());
}

#[tokio::test]
async fn a_majority_has_each_write_and_one_that_lacks_some_is_seen() {
    let world = three();
    for _ in 0..40 {
        write(&mut world.lock(), "db");
    }
    let has = |world: &World| {
        let state = world.lock();
        let last = state.clients["db"].writes;
        state.disks.values().filter(|disk| disk.holds.contains(last)).count()
    };
    assert!(has(&world) >= 2);
    crate::strikes::die(&mut world.lock(), "db-2");
    (0..9).for_each(|_| write(&mut world.lock(), "db"));
    assert_eq!(world.lock().broken, [""; 0]);
    let claims = ["claim of db-0", "claim of db-1"];
    claims.iter().for_each(|claim| world.lock().disks.get_mut(*claim).unwrap().holds = (1..=20).collect());
    write(&mut world.lock(), "db");
    assert!(world.lock().broken[0].starts_with("S15: the majority of db lacks "), "{:?}", world.lock().broken);
}

#[tokio::test]
async fn a_volume_is_lost_only_beside_a_majority() {
    let world = three();
    let may = |pod: &str| may_lose_its_volume(&world.lock(), "db", pod);
    assert!(may("db-0") && may("db-2"));
    crate::strikes::die(&mut world.lock(), "db-2");
    assert!(may("db-2") && !may("db-0"));
}

#[tokio::test]
async fn members_that_are_not_those_that_are_desired_are_said() {
    let world = three();
    let differ = |world: &World| {
        let state = world.lock();
        differ(&state, &state.groups["db"]).join("; ")
    };
    assert_eq!(differ(&world), "");
    let resize = |to| crate::strikes::edit(&mut world.lock(), "db", "", |group| group.spec.replicas = to);
    resize(2);
    assert_eq!(differ(&world), "db-2 is a member, and not desired");
    resize(4);
    assert_eq!(differ(&world), "db-3 is no member");
    resize(3);
    let id = id(&world, "db-2");
    let change =
        |how: fn(&mut Listed)| how(world.lock().agreements.get_mut("db").unwrap().members.get_mut(&id).unwrap());
    change(|listed| listed.voter = false);
    assert_eq!(differ(&world), "db-2 has no vote");
    change(|listed| listed.started = false);
    assert_eq!(differ(&world), "db-2 was added, and never started");
}
