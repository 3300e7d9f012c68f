//! When an application is over, and who may be primary (docs/rules.md, "Over", "May be primary").
use super::super::support::db;
use super::super::support::policies::Natural;
use super::super::support::world::World;
use super::checks::{intent, served, stopped};
use super::membership::agreeing;
use tanist_core::check::{self, Rule};
use tanist_core::contract::{Phase, Role};
use tanist_core::decide::decide;
use tanist_core::over::{may_run, prove_over};
use tanist_core::record::{LastPrimary, Verb};
use tanist_core::snapshot::{Container, Snapshot};

// S21: what runs on a deleted node has time from when both were seen to be gone, pod and node.
#[test]
fn a_deleted_node_is_waited_for_from_the_later_moment() {
    let mut s = stopped().observe();
    let last = |gone| LastPrimary {
        member: db(0),
        pod_uid: "gone".into(),
        container: "db".into(),
        container_id: "c".into(),
        node: Some("deleted".into()),
        grace: 5,
        gone,
    };
    let now = s.now;
    let mut until = |gone: Option<i64>, seen: Option<i64>| {
        s.deleted_nodes = seen.map(|at| ("deleted".to_owned(), now + at)).into_iter().collect();
        prove_over(&s, &last(gone.map(|at| now + at))).map_err(|not| not.until.map(|at| at - now))
    };
    assert_eq!(until(Some(-100), Some(-10)), Err(Some(25)));
    assert_eq!(until(Some(-10), Some(-100)), Err(Some(25)));
    assert_eq!(
        until(None, Some(-100)),
        Err(Some(35)),
        "its pod is gone only now, and its kubelet hears of it only now"
    );
    assert_eq!(until(Some(-100), None), Err(Some(35)), "this process has not seen it yet");
    assert_eq!(until(Some(-35), Some(-36)), Ok("its node is gone"));
    s.deleted_nodes = [("deleted".to_owned(), now - 100)].into();
    s.gone_pods = [("gone".to_owned(), now - 10)].into();
    let until = prove_over(&s, &last(Some(now - 100))).map_err(|not| not.until.map(|at| at - now));
    assert_eq!(until, Err(Some(25)), "this process saw the pod after the time that another one noted");
}

// S20, S28: another process, whose clock was behind, noted that the pod was gone before this process saw it run the last time (simulator, seed 56007936).
#[test]
fn a_pod_is_gone_since_this_process_saw_that_itself() {
    let mut s = stopped().observe();
    let (now, before) = (s.now, s.now - 1000);
    s.began = before;
    for node in s.nodes.iter_mut().flatten().map(|(_, node)| node) {
        (node.since, node.seen) = (before, before);
    }
    let node = s.nodes.as_ref().and_then(|nodes| nodes.keys().next().cloned());
    let last = LastPrimary {
        member: db(0),
        pod_uid: "gone".into(),
        container: "db".into(),
        container_id: "c".into(),
        node,
        grace: 5,
        gone: Some(before - 86_400),
    };
    let mut until = |seen: Option<i64>| {
        s.gone_pods = seen.map(|at| ("gone".to_owned(), now + at)).into_iter().collect();
        prove_over(&s, &last).map_err(|not| not.until.map(|at| at - now))
    };
    assert_eq!(until(Some(0)), Err(Some(95)));
    assert_eq!(until(Some(-94)), Err(Some(1)));
    assert_eq!(until(Some(-95)), Ok("its pod is gone and its node stayed Ready"));
    assert_eq!(
        until(None),
        Ok("its pod is gone and its node stayed Ready"),
        "who looks from outside takes it as it is stored"
    );
}

// S21: a pod that is being deleted may get more time than when it began to lead; when it is gone nobody can say that any more.
#[test]
fn the_longest_grace_of_a_pod_is_remembered() {
    let mut world = served();
    world.round(&Natural);
    let seen = world.observe();
    let remembered = |grace: u32| {
        let mut s = seen.clone();
        s.members[0].pod.as_mut().unwrap().grace = grace;
        let last = decide(&s, &Natural).record.last_primaries;
        last.iter().filter(|last| last.member == db(0)).map(|last| last.grace).collect::<Vec<_>>()
    };
    let own = seen.members[0].pod.as_ref().unwrap().grace;
    assert_eq!((remembered(own), remembered(600), remembered(0)), (vec![own], vec![600], vec![own]));
}

// S21: Kubernetes shows a node as Ready for up to 55 s although it does not report, so its kubelet may hear of the deletion only when it is back.
#[test]
fn a_node_that_seems_ready_may_be_silent() {
    let mut s = stopped().observe();
    let (gone, last) = (s.now, last(&s, Some("node-0")));
    let mut is_over = |now: i64, back: i64| {
        let node = s.nodes.as_mut().and_then(|nodes| nodes.get_mut("node-0")).unwrap();
        (node.since, node.seen) = (back, back);
        (s.now, s.nodes_at) = (now, now);
        prove_over(&s, &last).is_ok()
    };
    assert_eq!((is_over(gone + 99, 0), is_over(gone + 100, 0)), (false, true), "60 s, 30 s, and its grace of 10 s");
    assert_eq!(
        (is_over(gone + 109, gone + 70), is_over(gone + 110, gone + 70)),
        (false, true),
        "it was silent, and came back"
    );
}

// S32: a command that makes a primary and that the record does not have is awaited. One that the record has, or that makes no primary, is not taken for that.
#[test]
fn a_start_that_the_record_lost_may_make_a_primary() {
    let mut world = served();
    world.group.primaries = 1;
    let mut s = world.observe();
    for (token, counts) in [
        ("seed-1-n", true),
        ("failover-1-n", true),
        ("join-1-n", true),
        ("place-1-n", false),
        ("follow-1-n", false),
        ("demote-1-n", false),
        ("seeds", false),
        ("", false),
    ] {
        s.members[1].reading.running = Some(token.to_owned());
        let why = s.may_be_primary().remove(&db(1));
        assert_eq!(why.is_some_and(|why| why.contains("does not have that command")), counts, "{token}");
    }
    s.members[1].reading.running = Some("join-1-n".into());
    let mut join = intent(&s, Verb::Join, 1);
    join.token = "join-1-n".into();
    s.record.intents.push(join);
    assert_eq!(s.may_be_primary().remove(&db(1)), None, "the record has it, and what is known of its place");
}

fn last(s: &Snapshot, node: Option<&str>) -> LastPrimary {
    LastPrimary {
        member: db(0),
        pod_uid: "gone".into(),
        container: "db".into(),
        container_id: "c".into(),
        node: node.map(str::to_owned),
        grace: 10,
        gone: Some(s.now),
    }
}

// docs/rules.md, "Over": the cases that stories cannot reach.
#[test]
fn what_is_not_recorded_is_not_over() {
    let mut world = stopped();
    let mut s = world.observe();
    assert!(prove_over(&s, &last(&s, None)).is_err(), "on which node it ran is not known");
    assert!(prove_over(&s, &last(&s, Some("node-0"))).is_err_and(|not| not.until == Some(s.now + 100)));
    s.ended.insert("gone".into());
    assert_eq!(prove_over(&s, &last(&s, None)), Ok("its containers ended before its pod was gone"));
    // The same pod on a node that does not report: its last report may be out of date.
    let pod = s.members[0].pod.clone().unwrap();
    let mut here = LastPrimary { pod_uid: pod.uid, container_id: "another".into(), ..last(&s, None) };
    assert_eq!(prove_over(&s, &here), Ok("its container ended"), "its container was replaced");
    s.members[0].pod.as_mut().unwrap().phase = Phase::Unreachable;
    assert!(prove_over(&s, &here).is_err());
    s.members[0].pod.as_mut().unwrap().phase = Phase::Running;
    here.container = "other".into();
    s.members[0].reading.role = Role::Unknown;
    assert!(prove_over(&s, &here).is_err(), "nothing is known of that container");
    s.members[0].reading.role = Role::Stopped;
    s.record.intents.push(intent(&s, Verb::Demote, 0));
    assert!(prove_over(&s, &here).is_err(), "stopped, and a command is open");
}

// docs/rules.md, "Membership": members that agree choose themselves who leads, so one that led and says secondary is over as a primary. Where they do not agree, and on a node that does not report, that
// proves nothing.
#[test]
fn one_that_led_and_follows_is_over_where_members_agree() {
    let mut world = agreeing(1);
    world.serve(0, Role::Secondary);
    let mut s = world.observe();
    let last = LastPrimary::of(&intent(&s, Verb::Rejoin, 0), s.members[0].pod.as_ref().unwrap());
    assert_eq!(prove_over(&s, &last), Ok("its status says secondary"));
    s.members[0].pod.as_mut().unwrap().phase = Phase::Unreachable;
    assert!(prove_over(&s, &last).is_err(), "its answer is from before its node went silent");
    s.members[0].pod.as_mut().unwrap().phase = Phase::Running;
    s.group.commands.membership = None;
    assert!(prove_over(&s, &last).is_err(), "nobody chose another one");
}

// A member of two containers: the application may run in either.
#[test]
fn any_container_that_a_command_names_may_hold_a_primary() {
    let mut world = stopped();
    world.group.commands.primary.container = "engine".into();
    let pod = &mut world.body(1).pod;
    pod.containers.insert("engine".into(), Container { id: Some("e".into()), running: true, ready: true });
    pod.containers.insert("db".into(), Container { id: None, running: false, ready: false });
    pod.phase = Phase::Pending;
    let s = world.observe();
    assert!(s.may_be_primary().contains_key(&db(1)));
    let mut idle = s.clone();
    idle.group.commands.primary.container = "db".into();
    assert!(!idle.may_be_primary().contains_key(&db(1)), "a container that no command names does not count");
}

// S13, S20: a pod that was made before the container of a command got its name has the application in another one: whatever runs there counts, and a pod of an older template is not replaced as one in which nothing runs.
#[test]
fn in_a_pod_without_the_container_of_a_command_any_may_hold_a_primary() {
    let mut s = World::settled(1_000).observe();
    let pod = s.members[1].pod.as_mut().unwrap();
    let own = std::mem::take(&mut pod.containers).into_values().next().unwrap();
    pod.containers.insert("before".into(), own);
    (pod.older_template, pod.outdated) = (true, true);
    s.members[1].reading.role = Role::Unknown;
    assert!(may_run(&s, &s.members[1]) && s.may_be_primary().contains_key(&db(1)));
    assert_eq!(check::update_idle(&s, &s.members[1]).map_err(|violation| violation.rule), Err(Rule::MayBePrimary));
    s.members[1].pod.as_mut().unwrap().containers.values_mut().for_each(|container| container.running = false);
    assert!(!may_run(&s, &s.members[1]));
}

// A member that is starting after `secondary` will not be primary, unless it was seen as primary since.
#[test]
fn a_member_that_was_primary_after_it_was_told_to_follow_may_be_primary() {
    let mut world = served();
    world.group.primaries = 1;
    world.play(&Natural, 60);
    world.serve(1, Role::Starting);
    assert!(!world.observe().may_be_primary().contains_key(&db(1)));
    world.serve(1, Role::Primary);
    let plan = decide(&world.observe(), &super::super::support::policies::Broken);
    world.record = plan.record;
    world.serve(1, Role::Starting);
    assert!(world.observe().may_be_primary().contains_key(&db(1)));
}

// S32, S44: who led in this term and cannot be read may still lead. Not so who was confirmed as a secondary since, also if a start that was to make it primary again was refused:
// nothing would prove it over while it goes on as a secondary.
#[test]
fn who_became_a_secondary_since_does_not_count_while_it_cannot_be_read() {
    let counts = |followed_since: bool| {
        let mut s = World::settled(1_000).observe();
        let term = s.record.term;
        let known = s.record.member_mut(&db(1));
        (known.primary_term, known.followed_since) = (Some(term), followed_since);
        known.last_command = Some("primary".into());
        s.members[1].reading.role = Role::Unknown;
        decide(&s, &Natural).record.last_primaries.iter().any(|last| last.member == db(1))
    };
    assert_eq!((counts(false), counts(true)), (true, false));
}

// Major versions: a primary that ends while it converts its data is over once its status says that it is stopped: the conversion starts no server. A start may.
#[test]
fn a_primary_that_ended_while_it_converted_is_over() {
    let over = |verb: Option<Verb>| {
        let mut s = World::settled(1_000).observe();
        s.members[0].reading.role = Role::Stopped;
        s.record.intents.extend(verb.map(|verb| intent(&s, verb, 0)));
        let (pod, container) = (s.members[0].pod.as_ref().unwrap(), s.group.commands.status.container.clone());
        let (pod_uid, container_id) = (pod.uid.clone(), pod.containers[&container].id.clone().unwrap());
        prove_over(&s, &LastPrimary { pod_uid, container, container_id, gone: None, ..last(&s, None) }).is_ok()
    };
    assert_eq!([None, Some(Verb::Upgrade), Some(Verb::Place)].map(over), [true, true, false]);
}

// S21: one that was seen as primary may be primary until it is over, also if it never led the present term: its pod is deleted by force on a node that does not report,
// and then only the record knows of it (found by the random world, seed 2212).
#[test]
fn who_was_seen_as_primary_in_an_older_term_is_over_before_another_leads() {
    let mut world = World::settled(1_000);
    let term = world.record.term;
    (world.record.term, world.group.failover.prefer_running) = (term + 1, true);
    for led in [0, 2] {
        world.record.member_mut(&db(led)).term = Some(term + 1);
    }
    world.serve(1, Role::Primary);
    world.record = decide(&world.observe(), &Natural).record;
    world.nodes.get_mut("node-1").unwrap().ready = false;
    world.body(1).pod.phase = Phase::Unreachable;
    world.forget(1);
    world.restart(0);
    world.play(&Natural, 300);
    let waits = world.observe().may_be_primary();
    assert_eq!(waits.keys().cloned().collect::<Vec<_>>(), [db(1)], "{}", world.log.join("\n"));
    world.nodes.get_mut("node-1").unwrap().out_of_service = true;
    world.play(&Natural, 300);
    assert_eq!(world.observe().serving().len(), 1, "{}", world.log.join("\n"));
}
