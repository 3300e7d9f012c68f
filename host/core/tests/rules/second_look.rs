//! The checks just before a pod is deleted or the StatefulSet is scaled down, and the preconditions that stop late writes.
use super::super::support::db;
use super::super::support::policies::Natural;
use super::super::support::world::World;
use super::checks::{intent, served, stopped};
use tanist_core::check::{Rule, Violation};
use tanist_core::checked::{Deletion, recheck_deletion, recheck_scaling};
use tanist_core::contract::{MemberName, Role};
use tanist_core::decide::decide;
use tanist_core::plan::{Action, DeletionCause, Reason};
use tanist_core::record::{LastPrimary, Verb};
use tanist_core::snapshot::Snapshot;
use tanist_core::status::{Kind, PolicyHealth, Truth, report};

/// The second look before the pod of a failed member is deleted.
pub fn deletion(s: &Snapshot, live: &Snapshot, member: &MemberName, uid: &str) -> Result<Deletion, Violation> {
    recheck_deletion(s, live, member, uid, DeletionCause::Failure)
}

// S19: the end of a command that became known after the decision counts: its pod is not deleted.
#[test]
fn an_end_that_became_known_keeps_the_pod() {
    use tanist_core::snapshot::Evidence;
    let mut world = stopped();
    world.behaviours.push((db(0), "primary".into(), super::super::support::app::Behaviour::Vanishes, false));
    world.round(&Natural);
    world.now += 1000;
    let s = world.observe();
    let uid = s.members[0].pod.as_ref().unwrap().uid.clone();
    let mut live = s.clone();
    live.members[0].pod.as_mut().unwrap().version = "7".into();
    assert_eq!(deletion(&s, &live, &db(0), &uid).unwrap().version(), "7", "fenced by what was seen last");
    live.evidence.values_mut().for_each(|e| *e = Evidence::Exited(0));
    assert!(deletion(&s, &live, &db(0), &uid).is_err());
    live.evidence.values_mut().for_each(|e| *e = Evidence::Unknown("no answer".into()));
    assert!(deletion(&s, &live, &db(0), &uid).is_ok());
}

// S25: the set is scaled down only while no member that leaves runs, may be primary or has an open command, and the spec still says so.
#[test]
fn a_second_look_keeps_the_size_of_a_set_whose_leaving_members_live() {
    let leaving = || {
        let mut world = stopped();
        world.serve(0, Role::Primary);
        world.serve(1, Role::Primary);
        world.play(&Natural, 60);
        (world.group.replicas, world.group.primaries) = (2, 2);
        let s = world.observe();
        (world, s)
    };
    let (mut world, s) = leaving();
    let held =
        |live: &Snapshot, replicas| recheck_scaling(&s, live, replicas).map(|c| c.replicas()).map_err(|v| v.rule);
    assert_eq!(held(&world.observe(), 2), Ok(2));
    assert_eq!(held(&world.observe(), 1), Err(Rule::NotSurplus), "not what the spec says");
    let mut another = world.observe();
    another.set.as_mut().unwrap().uid = "another".into();
    assert_eq!(held(&another, 2), Err(Rule::TargetReplaced));
    world.serve(2, Role::Secondary);
    assert_eq!(held(&world.observe(), 2), Err(Rule::NotAllStopped));
    world.serve(2, Role::Stopped);
    world.body(2).app.probe = Some(Role::Unknown);
    assert_eq!(held(&world.observe(), 2), Err(Rule::NotAllStopped), "its role is unknown");
    world.body(2).app.probe = None;
    world.serve(0, Role::Stopped);
    assert_eq!(held(&world.observe(), 2), Err(Rule::StayersFirst));
    let (mut world, s) = leaving();
    world.record.intents.push(intent(&s, Verb::Join, 2));
    let busy = world.observe();
    assert_eq!(recheck_scaling(&busy, &busy, 2).unwrap_err().rule, Rule::MemberBusy);
    // Its pod is gone, and nothing proves that its application is over.
    let (mut world, _) = leaving();
    world.respawn = false;
    let pod = world.observe().members[2].pod.clone().unwrap();
    world.forget(2);
    world.record.last_primaries.push(LastPrimary {
        member: db(2),
        pod_uid: pod.uid,
        container: "db".into(),
        container_id: "c".into(),
        node: None,
        grace: 10,
        gone: None,
    });
    let gone = world.observe();
    assert_eq!(recheck_scaling(&gone, &gone, 2).unwrap_err().rule, Rule::MayBePrimary);
}

// The time for which a pod was not seen does not count once it is seen again.
#[test]
fn a_pod_that_is_seen_again_was_never_gone() {
    let mut world = served();
    world.play(&Natural, 60);
    world.record.last_primaries[0].gone = Some(world.now - 1000);
    world.round(&Natural);
    assert_eq!(world.record.last_primaries[0].gone, None);
}

// A running pod that lost its label still counts as the member's pod, and the message says what helps.
#[test]
fn a_stray_pod_is_reported_and_counts() {
    let mut world = served();
    world.play(&Natural, 60);
    world.body(0).pod.stray = Some("put it back".into());
    let plan = decide(&world.observe(), &Natural);
    let told = plan.waits.iter().find(|w| w.reason == Reason::PodStray).unwrap();
    assert_eq!((told.member.as_ref(), told.message.as_str()), (Some(&db(0)), "put it back"));
    assert!(world.observe().may_be_primary().contains_key(&db(0)));
    let said = report(&world.observe(), &plan, &PolicyHealth::Active(String::new()), None);
    assert_eq!(
        (said.conditions[0].kind, said.conditions[0].status),
        (Kind::Ready, Truth::False),
        "no Service leads to it"
    );
}

// A write that leads clients to a pod has the pod's version as a precondition; a write that leads them away needs none.
#[test]
fn routes_to_a_pod_carry_its_version() {
    let mut world = served();
    let routes = |world: &mut World| {
        let plan = decide(&world.observe(), &Natural);
        let of = |a: &Action| match a {
            Action::Route { member, role, ready, version, .. } if *member == db(0) => {
                Some((*role, *ready, version.clone()))
            }
            _ => None,
        };
        plan.actions.iter().filter_map(of).collect::<Vec<_>>()
    };
    assert_eq!(routes(&mut world), [(Some("primary"), true, Some("1".to_owned()))]);
    world.play(&Natural, 60);
    world.serve(0, Role::Stopped);
    assert_eq!(routes(&mut world)[0], (None, false, None));
}
