//! What becomes of a template that failed on its canary, where pods do not go back (docs/rules.md, "Update").
use super::super::support::db;
use super::super::support::policies::Natural;
use super::super::support::setting::command;
use super::super::support::world::World;
use super::canary::{NEW, outcome, phase, round, tried, watched};
use tanist_core::check::{Rule, due_hook, is_rolled_forward, update_idle, update_member};
use tanist_core::contract::Role;
use tanist_core::decide::decide;
use tanist_core::plan::Reason;
use tanist_core::record::{Batched, Fallback, Seats, Verb};
use tanist_core::snapshot::{Former, Mode, Strategy};
use tanist_core::status::{Kind, PolicyHealth, UpdatePhase, report};

/// The template failed on db-2, whose container was restarted, and another one had worked on every member. Pods are made from that one.
fn failed() -> World {
    let mut world = watched(30);
    world.body(2).pod.containers.values_mut().for_each(|container| container.id = Some("another".into()));
    world.group.update.former = Former::Kept;
    world.record.fallback = Some(Fallback { good: "the old template".into(), trial: None, failed: None });
    let plan = round(&mut world);
    assert_eq!(outcome(&plan).0, None);
    world.record = plan.record;
    for ordinal in 0..2 {
        let pod = &mut world.body(ordinal).pod;
        (pod.outdated, pod.older_template) = (false, false);
    }
    world.older(2);
    world
}

/// The members of the updated pods, what Ready says, and what else is waited for.
fn said(world: &mut World) -> (u32, String, Vec<Reason>) {
    let s = world.observe();
    let plan = decide(&s, &Natural);
    let status = report(&s, &plan, &PolicyHealth::Active(String::new()), None);
    let ready = status.conditions.iter().find(|condition| condition.kind == Kind::Ready).unwrap();
    let waits = plan.waits.iter().map(|wait| wait.reason).collect();
    (status.updated, ready.reason.as_str().to_owned(), waits)
}

// E38: nobody else gets a template that failed on its canary, also whoever loses its pod for another reason. The canary keeps its own, so that an administrator can see what is wrong.
#[test]
fn what_failed_on_its_canary_reaches_nobody_else() {
    let mut world = failed();
    for _ in 0..3 {
        let plan = round(&mut world);
        assert_eq!(outcome(&plan).0, None);
        assert_eq!(plan.record.fallback(&world.group.update), Some("the old template"));
        (world.record, world.now) = (plan.record, world.now + 1000);
    }
    assert_eq!(phase(&mut world), (UpdatePhase::Failed, Some("db-2".into())));
    assert_eq!(said(&mut world), (1, "CanaryFailed".into(), vec![Reason::CanaryFailed]));
    // Its pod is lost, too, and comes back with the template before: that works everywhere, and the other one is still not tried again.
    let pod = &mut world.body(2).pod;
    (pod.outdated, pod.older_template, pod.uid) = (false, false, "another".into());
    for _ in 0..3 {
        let plan = round(&mut world);
        assert_eq!(outcome(&plan).0, None);
        assert_eq!(plan.record.fallback(&world.group.update), Some("the old template"));
        world.record = plan.record;
    }
    assert_eq!(phase(&mut world), (UpdatePhase::Failed, Some("db-2".into())));
    assert_eq!(said(&mut world), (0, "CanaryFailed".into(), vec![Reason::CanaryFailed]));
    // Another template is a new try.
    world.group.update.template = "the next one".into();
    (0..3).for_each(|ordinal| world.older(ordinal));
    let plan = round(&mut world);
    assert_eq!((outcome(&plan), plan.record.fallback(&world.group.update)), ((Some("db-2".into()), None), None));
}

// E38: a member that works with the template before gets no other pod, and one that does not neither; what was announced is over.
#[test]
fn the_canary_keeps_its_pod() {
    let mut world = failed();
    world.serve(2, Role::Stopped);
    world.now += 1000;
    let s = world.observe();
    assert_eq!(update_idle(&s, &s.members[2]).map_err(|v| v.rule), Err(Rule::NotAtRest));
    assert_eq!(update_member(&s, &s.members[2]).map_err(|v| v.rule), Err(Rule::NotAtRest));
    // Another one that got it meanwhile, and does not work with it, gets the one that works (E5).
    let mut other = s.clone();
    other.record.canary.as_mut().unwrap().pod_uid = "another".into();
    assert_eq!(update_idle(&other, &other.members[2]).map_err(|v| v.rule), Ok(()));
    let in_role = failed().observe();
    let mut other = in_role.clone();
    other.record.canary.as_mut().unwrap().pod_uid = "another".into();
    assert_eq!(update_member(&other, &other.members[2]).map_err(|v| v.rule), Err(Rule::NotAtRest), "it works");
    assert_eq!(outcome(&decide(&other, &Natural)).0, None);
    let open = |change: &dyn Fn(&mut World)| {
        let mut world = failed();
        world.group.commands.hooks.after = Some(command("after"));
        world.record.batch = Some(Batched { members: [db(2)].into(), begun: true, failures: 0, retry_at: None });
        change(&mut world);
        due_hook(&world.observe())
    };
    assert_eq!(open(&|_| ()), Some(Verb::AfterUpdate));
    assert_eq!(open(&|w| w.record.canary = None), None, "it goes back");
}

// What failed stays so without members and while updates are paused. It is forgotten when an administrator replaces the pods.
#[test]
fn what_failed_is_not_forgotten() {
    let kept = |change: &dyn Fn(&mut World)| {
        let mut world = failed();
        let pod = &mut world.body(2).pod;
        (pod.outdated, pod.older_template, pod.uid) = (false, false, "another".into());
        change(&mut world);
        let record = round(&mut world).record;
        let good = record.fallback.as_ref().map(|fallback| fallback.good.clone());
        (record.canary.is_some(), good)
    };
    let good = Some("the old template".to_owned());
    assert_eq!(kept(&|_| ()), (true, good.clone()));
    assert_eq!(kept(&|w| w.group.replicas = 0), (true, good.clone()));
    assert_eq!(kept(&|w| w.group.update.mode = Mode::Paused), (true, good.clone()));
    assert_eq!(kept(&|w| w.group.update.former = Former::Unknown), (true, good), "it could be read before");
    assert_eq!(kept(&|w| w.group.update.mode = Mode::ByHand), (false, None));
    let mut by_hand = failed();
    by_hand.group.update.mode = Mode::ByHand;
    assert_eq!(by_hand.record.fallback(&by_hand.group.update), None, "and not for one round more");
    // An open watch is over when there are no members.
    let mut world = watched(30);
    world.group.replicas = 0;
    assert_eq!(round(&mut world).record.canary, None);
}

// In the round in which it fails the former template has to be there; and one that most members have left is no longer the one before.
#[test]
fn nobody_goes_back_to_what_is_not_known_or_too_old() {
    let fails = |change: &dyn Fn(&mut World)| {
        let mut world = watched(30);
        world.body(2).pod.containers.values_mut().for_each(|container| container.id = Some("another".into()));
        world.group.update.former = Former::Kept;
        world.record.fallback = Some(Fallback { good: "the old template".into(), trial: None, failed: None });
        change(&mut world);
        let plan = round(&mut world);
        assert!(plan.waits.iter().any(|wait| wait.reason == Reason::CanaryFailed));
        plan.record.fallback.is_some()
    };
    assert!(fails(&|_| ()));
    assert!(!fails(&|w| w.group.update.former = Former::Unknown));
    let replaces = |w: &mut World| {
        w.record.seats =
            Some(Seats { numbers: (0..3).collect(), replaced: [(1, 2)].into(), next: 3, ..Seats::default() });
    };
    assert!(!fails(&replaces), "the canary came in the place of another member");
    let mut world = watched(60);
    world.group.update.former = Former::Kept;
    world.record.fallback = Some(Fallback { good: "the old template".into(), trial: None, failed: None });
    assert_eq!(round(&mut world).record.fallback, None, "it passed, and the others get it");
}

// D23: members that move to another kind would be made from another template.
#[test]
fn a_kind_of_members_waits_for_another_template() {
    let s = failed().observe();
    let why = is_rolled_forward(&s).unwrap_err();
    assert_eq!(why, "the template failed on its first member; change the template");
}

// Which template is remembered, and when pods are made from it.
#[test]
fn pods_are_made_from_the_former_template_only_after_a_canary_that_failed() {
    let former = |change: &dyn Fn(&mut World)| {
        let mut world = failed();
        change(&mut world);
        let plan = round(&mut world);
        (world.record.fallback(&world.group.update).is_some(), plan.record.fallback.map(|fallback| fallback.good))
    };
    let good = Some("the old template".to_owned());
    assert_eq!(former(&|_| ()), (true, good.clone()));
    assert_eq!(former(&|w| w.group.update.strategy = Strategy::Replace), (false, good.clone()));
    assert_eq!(former(&|w| w.group.update.former = Former::Lost), (false, None));
    assert_eq!(former(&|w| w.group.update.canary = 0), (false, None));
    assert_eq!(former(&|w| w.record.canary.as_mut().unwrap().verdict = None), (false, good.clone()));
    assert!(!former(&|w| w.record.canary.as_mut().unwrap().template = "before".into()).0);
    assert!(!former(&|w| w.record.fallback.as_mut().unwrap().good = NEW.into()).0);
    // What works everywhere is the next to be remembered, and only where a canary may fail.
    let works = |canary: u32| {
        let mut world = World::settled(10_000);
        (0..3).for_each(|ordinal| world.body(ordinal).pod.ready = true);
        (world.group.update.canary, world.group.update.template) = (canary, NEW.into());
        round(&mut world).record.fallback.map(|fallback| (fallback.good, fallback.trial))
    };
    assert_eq!((works(60), works(0)), (Some((NEW.into(), None)), None));
    // How long it fails is noted only where pods go back for that.
    let mut world = tried();
    world.record.fallback = Some(Fallback { good: "the old template".into(), trial: None, failed: None });
    world.body(2).pod.ready = false;
    assert_eq!(round(&mut world).record.fallback.unwrap().trial, None);
}
