//! Objects, and pods that the StatefulSet should have created.
use super::super::support::db;
use super::super::support::policies::{Natural, Says};
use super::super::support::world::{START, World};
use super::active::Group;
use tanist_core::contract::{Care, Remedy, Role, Treatment};
use tanist_core::decide::decide;
use tanist_core::plan::{Action, DeletionCause, Plan, Reason};
use tanist_core::policy::Reply;
use tanist_core::record::{Seats, Verb};
use tanist_core::snapshot::{Missing, Object, Snapshot};

/// db-1 has had no pod for the first number of seconds; the set's controller was told to try again the second number of seconds ago.
fn without_a_pod(seconds: i64, nudged: Option<i64>, refused: Option<&str>) -> Snapshot {
    let mut s = World::new(3, 1).observe();
    s.members[1].pod = None;
    let missing = Missing { since: s.now - seconds, refused: refused.map(str::to_owned) };
    let set = s.set.as_mut().unwrap();
    set.missing.insert(db(1), missing);
    set.nudged = nudged.map(|ago| s.now - ago);
    s
}

fn nudges(s: &Snapshot) -> bool {
    decide(s, &Natural).actions.contains(&Action::Nudge { set_uid: "set".into() })
}

fn applied(kind: &str) -> Object {
    Object {
        kind: kind.into(),
        name: "db".into(),
        manifest: serde_json::Value::Null.into(),
        current: false,
        version: None,
        trial: None,
    }
}

// Without a note the controller of the StatefulSet tries again after up to a quarter of an hour.
#[test]
fn the_set_is_told_to_try_again_now_and_then() {
    assert!(!nudges(&without_a_pod(9, None, None)), "a pod is made within seconds");
    assert!(nudges(&without_a_pod(10, None, None)));
    assert!(!nudges(&without_a_pod(60, Some(19), None)), "a moment ago");
    assert!(nudges(&without_a_pod(60, Some(20), None)));
    assert!(nudges(&without_a_pod(60, Some(-60), None)), "a time in the future was written by a wrong clock");
    let mut s = without_a_pod(60, None, None);
    s.objects.push(applied("StatefulSet"));
    assert!(!nudges(&s), "its apply wakes the controller as well");
    let s = World::new(3, 1).observe();
    assert!(!nudges(&s), "nothing is missing");
}

// A refused pod is reported with the reason and the time of the next try.
#[test]
fn a_refused_pod_says_why() {
    let told = |s: &Snapshot| {
        let plan = decide(s, &Natural);
        let wait = plan.waits.into_iter().find(|w| w.member == Some(db(1))).unwrap();
        (wait.reason, wait.message, wait.until)
    };
    let quota = "pods \"db-1\" is forbidden: exceeded quota: small";
    let message = format!("the pod of db-1 is missing: Kubernetes refuses to create it: {quota}");
    let s = without_a_pod(4, None, Some(quota));
    assert_eq!(told(&s), (Reason::PodCannotStart, message, Some(START + 6)));
    let s = without_a_pod(60, Some(5), None);
    assert_eq!(told(&s), (Reason::PodsNotRunning, "the pod of db-1 is missing".into(), Some(START + 15)));
}

fn at(plan: &Plan, is: impl Fn(&Action) -> bool) -> usize {
    plan.actions.iter().position(is).unwrap_or_else(|| panic!("{:?}", plan.actions))
}

// A takeover does not wait for objects that are applied again.
#[test]
fn a_failover_comes_before_objects() {
    let mut world = World::new(2, 1);
    world.group.commands.secondary = Some(super::super::support::world::command("secondary"));
    for ordinal in [0, 1] {
        world.remember(ordinal, 1, "5");
    }
    world.serve(1, Role::Secondary);
    world.record.member_mut(&db(0)).primary_term = Some(1);
    world.round(&Natural);
    world.objects = vec![applied("Service"), applied("StatefulSet")];
    let plan = decide(&world.observe(), &Natural);
    let run = at(&plan, |a| matches!(a, Action::Run { intent, .. } if intent.verb == Verb::Failover));
    assert!(run < at(&plan, |a| matches!(a, Action::Apply(_))));
}

/// A primary and two secondaries whose pods the operator makes. An object has changed, and db-2 has no pod. The step that writes objects is an early one, so only the order of the plan puts anything before them.
fn with_objects_to_write() -> Snapshot {
    let mut s = World::settled(10_000).observe();
    s.group.makes_pods = true;
    s.record.seats = Some(Seats { numbers: [0, 1, 2].into(), next: 3, ..Seats::default() });
    s.objects.push(applied("Service"));
    s.members[2].pod = None;
    s.set.as_mut().unwrap().lacking.insert(db(2), vec![applied("Pod")]);
    s
}

fn is_applied(action: &Action) -> bool {
    matches!(action, Action::Apply(_))
}

fn is_created(action: &Action) -> bool {
    matches!(action, Action::Create { .. })
}

// D23: of a large group not everything is made at once. To create nothing would say that it worked, and forget why it did not before.
#[test]
fn who_has_its_turn_later_is_not_created_now() {
    let mut s = with_objects_to_write();
    assert!(decide(&s, &Natural).actions.iter().any(is_created));
    s.set.as_mut().unwrap().lacking.insert(db(2), Vec::new());
    assert!(!decide(&s, &Natural).actions.iter().any(is_created));
}

// Until its label is gone clients reach a member that must not have them, and an object may be refused again and again.
#[test]
fn clients_are_led_away_before_objects_are_written() {
    let mut s = with_objects_to_write();
    s.members[1].pod.as_mut().unwrap().routed = Some("primary".into());
    let plan = decide(&s, &Natural);
    let led_away = at(&plan, |a| matches!(a, Action::Route { member, role: None, .. } if *member == db(1)));
    assert!(led_away < at(&plan, is_applied) && led_away < at(&plan, is_created), "{:?}", plan.actions);

    // Of an active/passive group, whose members have labels by another step.
    let mut group = Group::settled();
    group.now.objects.push(applied("Service"));
    group.pod(2).routed = Some("primary".into());
    let plan = decide(&group.now, &Natural);
    let led_away =
        at(&plan, |a| matches!(a, Action::Route { member, role: Some("secondary"), .. } if *member == db(2)));
    assert!(led_away < at(&plan, is_applied), "{:?}", plan.actions);
}

// A member that failed is out of service until it has its new pod.
#[test]
fn the_cure_of_a_failed_member_comes_before_objects_are_written() {
    let mut s = with_objects_to_write();
    s.members[1].reading.role = Role::Failed;
    let treatment = Treatment { member: db(1), remedy: Remedy::Recreate, reason: "its stop failed".into() };
    let plan = decide(&s, &Says::new(Reply::Care(Care::Treat(vec![treatment]))));
    let is_cure = |a: &Action| matches!(a, Action::DeletePod { cause: DeletionCause::Failure, .. });
    let cured = at(&plan, is_cure);
    assert!(cured < at(&plan, is_applied) && cured < at(&plan, is_created), "{:?}", plan.actions);
}

// S22, S23: pods of a group that was deleted under this name may have its clients for a while. No new primary gets any beside them; one that has clients keeps them (simulator, seed 32006111).
#[test]
fn clients_of_a_former_group_come_before_a_new_primary() {
    let led = |routed: Option<&str>, stranger: bool| {
        let mut s = World::settled(10_000).observe();
        s.members[0].pod.as_mut().unwrap().routed = routed.map(str::to_owned);
        s.strangers.extend(stranger.then(|| "db-7".to_owned()));
        let plan = decide(&s, &Natural);
        let says = plan.waits.iter().any(|wait| wait.reason == Reason::PodStray && wait.message.contains("db-7"));
        assert_eq!(says, stranger);
        plan.actions.iter().find_map(|action| match action {
            Action::Route { member, role, .. } if *member == db(0) => Some(*role),
            _ => None,
        })
    };
    assert_eq!((led(None, false), led(None, true)), (Some(Some("primary")), Some(None)));
    assert_ne!(led(Some("primary"), true), Some(None), "it keeps its clients");
}
