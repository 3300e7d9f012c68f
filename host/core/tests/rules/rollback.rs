//! When a changed template is given up, and for which one (docs/rules.md, "Update").
use super::super::support::db;
use super::super::support::policies::Natural;
use super::super::support::world::World;
use super::checks::intent;
use tanist_core::check;
use tanist_core::contract::{Phase, Role};
use tanist_core::decide::decide;
use tanist_core::plan::{Action, Plan, Reason};
use tanist_core::record::{Failing, Fallback, Record, Trial, Updating, Verb};
use tanist_core::snapshot::{Former, Missing, Mode, Snapshot};
use tanist_core::status::{Finding, Kind, PolicyHealth, Truth, report};

const OLD: &str = "the old template";
const NEW: &str = "the new template";

/// One primary and two secondaries with the old template, which works; the user wants to go back to it.
fn settled() -> World {
    let mut world = World::settled(10_000);
    (0..3).for_each(|ordinal| world.body(ordinal).pod.ready = true);
    (world.group.update.rolls_back, world.group.update.template) = (true, OLD.into());
    world
}

/// The template changed, db-2 got a pod of the new one, and that has not started for the time of an update.
fn stuck() -> World {
    let mut world = settled();
    world.record.fallback = decide(&world.observe(), &Natural).record.fallback;
    (world.group.update.template, world.group.update.former) = (NEW.into(), Former::Kept);
    (0..2).for_each(|ordinal| world.older(ordinal));
    let pod = &mut world.body(2).pod;
    (pod.phase, pod.ready, pod.trouble) = (Phase::Pending, false, Some("ImagePullBackOff: no such image".into()));
    let since = world.observe().now - 600;
    trial(&mut world).failing = Some(Failing { member: db(2), since });
    world.record.updating = Some(Updating { left: 2, since });
    world
}

/// The trial of the new template.
fn trial(world: &mut World) -> &mut Trial {
    let trial = &mut world.record.fallback.as_mut().unwrap().trial;
    trial.get_or_insert_with(|| Trial { template: NEW.into(), ..Trial::default() })
}

fn failed(record: &Record) -> Option<&str> {
    record.fallback.as_ref()?.failed.as_ref().map(|failed| failed.template.as_str())
}

fn failing(record: &Record) -> Option<(String, i64)> {
    let trial = record.fallback.as_ref()?.trial.as_ref()?;
    trial.failing.as_ref().map(|failing| (failing.member.to_string(), failing.since))
}

fn said(plan: &Plan) -> Option<&str> {
    plan.waits.iter().find(|wait| wait.reason == Reason::RolledBack).map(|wait| wait.message.as_str())
}

fn deletes(plan: &Plan) -> bool {
    plan.actions.iter().any(|action| matches!(action, Action::DeletePod { .. }))
}

fn plan(world: &mut World) -> Plan {
    decide(&world.observe(), &Natural)
}

fn present(world: &mut World, ordinal: u32) {
    let pod = &mut world.body(ordinal).pod;
    (pod.outdated, pod.older_template) = (false, false);
}

// E35: the template with which every member is in its role is the one to go back to; a new one is not before every member has it and works.
#[test]
fn the_last_template_that_worked_is_remembered() {
    let good = |world: &mut World| plan(world).record.fallback.map(|fallback| fallback.good);
    assert_eq!(good(&mut settled()).as_deref(), Some(OLD));
    let without = |change: &dyn Fn(&mut World)| {
        let mut world = settled();
        change(&mut world);
        assert_eq!(good(&mut world), None);
    };
    without(&|w| w.body(1).pod.ready = false);
    without(&|w| w.serve(1, Role::Stopped));
    without(&|w| w.older(1));
    without(&|w| w.set.as_mut().unwrap().unseen = true);
    without(&|w| w.set = None);
    without(&|w| w.group.replicas = 4);
    without(&|w| w.group.update.wait = 1_000_000);
    without(&|w| w.group.update.rolls_back = false);
    without(&|w| {
        let s = w.observe();
        w.record.intents.push(intent(&s, Verb::Follow, 1));
    });
    // While the members are changed each is in its role all the same.
    let mut s = settled().observe();
    assert!(check::template_works(&s));
    s.record.intents.push(intent(&s, Verb::MemberRemove, 1));
    assert!(!check::template_works(&s));
    // While it is rolled out the old one stays, and the new one takes its place at the end.
    let mut world = settled();
    world.record = plan(&mut world).record;
    world.group.update.template = NEW.into();
    world.older(0);
    assert_eq!(good(&mut world).as_deref(), Some(OLD));
    present(&mut world, 0);
    assert_eq!(good(&mut world).as_deref(), Some(NEW));
}

// E35: when one member did not get into its role with the new template for the time of an update, the template is given up; the reason is that of Kubernetes.
#[test]
fn a_template_that_does_not_work_is_given_up_in_time() {
    let given_up = plan(&mut stuck());
    assert_eq!(failed(&given_up.record), Some(NEW));
    let why = said(&given_up).unwrap();
    assert!(why.contains("ImagePullBackOff: no such image") && why.ends_with("change spec.template"), "{why}");
    assert_eq!(given_up.record.history.last().map(|t| t.what.as_str()), Some("rolled-back"));
    assert_eq!(given_up.record.updating, None, "the way back has its own time");
    assert!(!deletes(&given_up), "what was observed is about the template that was given up");
    let kept = |change: &dyn Fn(&mut World)| {
        let mut world = stuck();
        change(&mut world);
        let plan = plan(&mut world);
        assert_eq!((failed(&plan.record), said(&plan)), (None, None));
        plan.record
    };
    kept(&|w| w.group.update.rolls_back = false);
    kept(&|w| w.group.update.mode = Mode::Paused);
    kept(&|w| w.group.update.mode = Mode::ByHand);
    kept(&|w| trial(w).failing.as_mut().unwrap().since += 1);
    // S28: another process noted since when, by a clock that may have been wrong.
    let record = kept(&|w| w.began = w.now - 599);
    assert_eq!(failing(&record), Some(("db-2".to_owned(), stuck().now - 599)));
    kept(&|w| w.record.fallback = None);
    kept(&|w| w.record.fallback.as_mut().unwrap().good = NEW.into());
    kept(&|w| w.group.update.former = Former::Unknown);
    assert_eq!(kept(&|w| w.group.update.former = Former::Lost).fallback, None, "there is nothing to go back to");
    // Who never started has no pod either when Kubernetes refuses it.
    let refused = |why: Option<&str>| {
        let mut world = stuck();
        let mut s = world.observe();
        s.members[2].pod = None;
        let missing = Missing { since: s.now - 600, refused: why.map(str::to_owned) };
        s.set.as_mut().unwrap().missing.insert(db(2), missing);
        failed(&decide(&s, &Natural).record) == Some(NEW)
    };
    assert_eq!((refused(Some("violates PodSecurity")), refused(None)), (true, false));
}

// E35: the time is that of one member: it begins anew when that one works, or when another template is tried. An update that is slow for another reason gives up nothing.
#[test]
fn the_time_of_a_failure_is_that_of_one_member() {
    let mut world = stuck();
    let now = world.observe().now;
    assert_eq!(failing(&plan(&mut world).record), None, "it is given up");
    trial(&mut world).failing = None;
    assert_eq!(
        failing(&plan(&mut world).record),
        Some(("db-2".into(), now)),
        "the update is overdue, the member is not"
    );
    trial(&mut world).failing = Some(Failing { member: db(1), since: now - 600 });
    assert_eq!(failing(&plan(&mut world).record), Some(("db-2".into(), now)), "it was another member");
    trial(&mut world).template = "another template".into();
    trial(&mut world).failing = Some(Failing { member: db(2), since: now - 600 });
    assert_eq!(failing(&plan(&mut world).record), Some(("db-2".into(), now)), "it was another template");
    // The one that failed first counts, whoever else fails.
    trial(&mut world).template = NEW.into();
    trial(&mut world).failing = Some(Failing { member: db(2), since: now - 300 });
    present(&mut world, 1);
    world.body(1).pod.ready = false;
    assert_eq!(failing(&plan(&mut world).record), Some(("db-2".into(), now - 300)));
}

// E35: what becomes of a member that worked with the new template is not due to it, nor is a node, an older pod, or a place that is missing.
#[test]
fn the_template_is_not_to_blame_for_everything() {
    let spared = |change: &dyn Fn(&mut World)| {
        let mut world = stuck();
        change(&mut world);
        let plan = plan(&mut world);
        assert_eq!((failed(&plan.record), failing(&plan.record)), (None, None));
    };
    spared(&|w| {
        trial(w).worked.insert(db(2));
    });
    spared(&|w| w.body(2).pod.phase = Phase::Unreachable);
    spared(&|w| w.body(2).pod.phase = Phase::Terminating);
    spared(&|w| w.older(2));
    let without_place = |term: Option<u64>| {
        let mut world = stuck();
        world.body(2).pod.node = None;
        let mut s = world.observe();
        s.record.member_mut(&db(2)).term = term;
        failed(&decide(&s, &Natural).record) == Some(NEW)
    };
    assert_eq!((without_place(None), without_place(Some(1))), (false, true), "a member that worked before had a place");
    // Who is in its role with the new template worked.
    let mut world = stuck();
    let pod = &mut world.body(2).pod;
    (pod.phase, pod.ready, pod.trouble) = (Phase::Running, true, None);
    let worked = plan(&mut world).record.fallback.unwrap().trial.unwrap().worked;
    assert_eq!(worked, [db(2)].into());
}

// Whatever is deleted in a round still gets the template that does not work: it is given up in the next one.
#[test]
fn nothing_is_given_up_while_a_pod_is_deleted() {
    let mut world = stuck();
    world.serve(1, Role::Stopped);
    let first = plan(&mut world);
    assert_eq!((deletes(&first), failed(&first.record)), (true, None));
    assert!(failing(&first.record).is_some(), "its time goes on");
}

// The last member has to get into its role in time, too; so does a lone one.
#[test]
fn the_last_member_counts() {
    let mut world = stuck();
    (0..2).for_each(|ordinal| present(&mut world, ordinal));
    world.record.updating = None;
    assert_eq!(failed(&plan(&mut world).record), Some(NEW));
}

// Until the template changes, or the user does not want it any more, pods have the one before; nothing is Ready or updated meanwhile.
#[test]
fn what_was_given_up_stays_so_until_the_template_changes() {
    let mut world = stuck();
    world.record = plan(&mut world).record;
    // The pods are back on the old one and work.
    for ordinal in 0..3 {
        present(&mut world, ordinal);
        let pod = &mut world.body(ordinal).pod;
        (pod.phase, pod.ready, pod.trouble) = (Phase::Running, true, None);
    }
    let s = world.observe();
    let rests = decide(&s, &Natural);
    assert_eq!(s.record.fallback(&s.group.update), Some(OLD));
    assert_eq!((failed(&rests.record), said(&rests).is_some()), (Some(NEW), true));
    let seen = report(&s, &rests, &PolicyHealth::Active(String::new()), None);
    assert_eq!(seen.updated, 0, "no pod has spec.template");
    let ready = seen.conditions.iter().find(|c| c.kind == Kind::Ready).unwrap();
    assert_eq!((ready.status, ready.reason), (Truth::False, Finding::RolledBack.into()), "{}", ready.message);
    let mut silent = s.clone();
    silent.group.update.former = Former::Unknown;
    let message = said(&decide(&silent, &Natural)).unwrap().to_owned();
    assert!(message.contains("cannot be read now"), "{message}");
    let after = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = s.clone();
        change(&mut s);
        assert_eq!(s.record.fallback(&s.group.update), None);
        let plan = decide(&s, &Natural);
        assert!(said(&plan).is_none());
        plan.record.fallback
    };
    let works = |template: &str| Some(Fallback { good: template.into(), trial: None, failed: None });
    assert_eq!(after(&|s| s.group.update.rolls_back = false), None);
    // With a canary it is remembered for other pods, and the template is tried anew.
    let with_canary = |s: &mut Snapshot| (s.group.update.rolls_back, s.group.update.canary) = (false, 30);
    assert_eq!(after(&with_canary), works(NEW));
    assert_eq!(after(&|s| s.group.update.template = "the next one".into()), works("the next one"), "the pods have it");
    assert_eq!(after(&|s| s.group.update.former = Former::Lost), works(NEW), "they have spec.template");
}
