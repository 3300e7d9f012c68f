//! Which pods of an older template are deleted, and when.
use super::super::support::db;
use super::super::support::policies::Natural;
use super::super::support::world::{START, World};
use super::checks::intent;
use super::rebalance::deleted;
use tanist_core::check::{Rule, gives_up_lead, update_idle, update_member};
use tanist_core::checked::recheck_deletion;
use tanist_core::contract::{Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::plan::{Action, DeletionCause, Plan, Reason};
use tanist_core::record::{Fallback, GivenUp, LastPrimary, Switchover, Updating, Verb};
use tanist_core::snapshot::{Former, Mode, Object, Override, Snapshot};

/// One primary and two secondaries, all of them with an older template.
fn old() -> World {
    let mut world = World::settled(10_000);
    (0..3).for_each(|ordinal| world.older(ordinal));
    world
}

fn held(s: &Snapshot, ordinal: usize) -> Result<(), Rule> {
    update_member(s, &s.members[ordinal]).map_err(|violation| violation.rule)
}

/// The rule that keeps the pod of that member.
fn broken(ordinal: usize, change: &dyn Fn(&mut World)) -> Rule {
    let mut world = old();
    change(&mut world);
    held(&world.observe(), ordinal).unwrap_err()
}

// C74; docs/rules.md, "Update": a member that works goes only while nothing else is going on and all the others work.
#[test]
fn a_member_that_works_is_updated_only_beside_others_that_do() {
    assert_eq!(held(&old().observe(), 2), Ok(()));
    let of_two = |change: &dyn Fn(&mut World)| broken(2, change);
    assert_eq!(of_two(&|w| w.group.update.mode = Mode::ByHand), Rule::AdministratorDecides);
    assert_eq!(of_two(&|w| w.group.update.mode = Mode::Paused), Rule::AdministratorDecides);
    assert_eq!(of_two(&|w| w.group.paused = true), Rule::AdministratorDecides);
    let raw = "db-1 9 1".to_owned();
    let requested = Override { member: db(1), position: Position::Empty, term: 1, raw };
    assert_eq!(of_two(&|w| w.group.requested_override = Some(requested.clone())), Rule::AdministratorDecides);
    assert_eq!(of_two(&|w| w.set.as_mut().unwrap().unseen = true), Rule::NotAtRest);
    assert_eq!(of_two(&|w| w.body(2).pod.older_template = false), Rule::NotAtRest, "only the runner is another");
    assert_eq!(of_two(&|w| w.body(2).pod.outdated = false), Rule::NotAtRest, "the next pod would be the same");
    let busy = |w: &mut World| {
        let s = w.observe();
        w.record.intents.push(intent(&s, Verb::Follow, 1));
    };
    assert_eq!(of_two(&busy), Rule::MemberBusy);
    let (from, why) = (db(0), String::new());
    let begun = Some(START);
    let open = Switchover { from, to: None, chosen: None, why, term: 1, floor: None, begun, led: None, failed: 0 };
    assert_eq!(of_two(&|w| w.record.switchover = Some(open.clone())), Rule::NotAtRest, "the lead moves");
    assert_eq!(of_two(&|w| w.serve(0, Role::Stopped)), Rule::NobodyServes);
    assert_eq!(of_two(&|w| w.body(1).app.probe = Some(Role::Unknown)), Rule::MayBePrimary);
    assert_eq!(of_two(&|w| w.serve(1, Role::Stopped)), Rule::NotAtRest);
    assert_eq!(of_two(&|w| w.body(1).pod.ready = false), Rule::NotAtRest);
    assert_eq!(of_two(&|w| w.body(1).pod.stray = Some("put it back".into())), Rule::NotAtRest);
    assert_eq!(of_two(&|w| w.group.replicas = 4), Rule::NotAtRest, "db-3 is to come");
    assert_eq!(of_two(&|w| w.group.replicas = 2), Rule::NotAtRest, "db-2 leaves");
    assert_eq!(of_two(&|w| w.nodes.get_mut("node-1").unwrap().cordoned = true), Rule::NotAtRest);
    assert_eq!(of_two(&|w| w.new_volume(2)), Rule::ClaimChanged);
    assert_eq!(of_two(&|w| w.group.update.wait = 20_000), Rule::ChangedRecently);
    assert_eq!(of_two(&|w| w.group.update.min_uptime = 20_000), Rule::ChangedRecently);
}

// C72: nobody is restarted before everybody, also whoever is next, has been up for as long as the user wants: 599 s are not 600.
#[test]
fn nobody_is_restarted_before_all_were_up_for_a_while() {
    let after = |since_all: i64, since_last: i64| {
        let mut world = old();
        (world.group.update.min_uptime, world.now) = (600, START + 10_000);
        let now = world.now;
        for (ordinal, since) in [(0, since_all), (1, since_all), (2, since_last)] {
            world.body(ordinal).pod.phase_since = now - since;
        }
        let s = world.observe();
        update_member(&s, &s.members[2]).map_err(|violation| (violation.rule, violation.until))
    };
    assert_eq!(after(600, 600), Ok(()));
    assert_eq!(after(600, 599), Err((Rule::ChangedRecently, Some(START + 10_001))));
    assert_eq!(after(599, 600), Err((Rule::ChangedRecently, Some(START + 10_001))));
}

// Whoever has to move in any case goes first.
#[test]
fn a_member_on_a_node_that_is_drained_is_updated_first() {
    let mut world = old();
    world.nodes.get_mut("node-1").unwrap().cordoned = true;
    assert_eq!(deleted(&decide(&world.observe(), &Natural)), [("db-1".to_owned(), DeletionCause::Update)]);
}

// E32: the primary is the last, and gives up the lead first, once all the others have the template.
#[test]
fn the_primary_is_updated_last() {
    assert_eq!(broken(0, &|_| ()), Rule::PrimaryLast);
    let others = |w: &mut World| {
        for ordinal in [1, 2] {
            let pod = &mut w.body(ordinal).pod;
            (pod.outdated, pod.older_template) = (false, false);
        }
    };
    assert_eq!(broken(0, &others), Rule::PrimaryLast, "it leads");
    let lead = |change: &dyn Fn(&mut World)| {
        let mut world = old();
        change(&mut world);
        let s = world.observe();
        gives_up_lead(&s, &s.members[0]).map_err(|violation| violation.rule)
    };
    assert_eq!(lead(&|_| ()), Err(Rule::PrimaryLast));
    assert_eq!(lead(&others), Ok(()));
    let cordoned = |w: &mut World| {
        others(w);
        ["node-1", "node-2"].iter().for_each(|node| w.nodes.get_mut(*node).unwrap().cordoned = true);
    };
    assert_eq!(lead(&cordoned), Err(Rule::NotAtRest));
    let one = |w: &mut World| {
        others(w);
        w.body(2).pod.ready = false;
    };
    assert_eq!(lead(&one), Err(Rule::NotAtRest));
    // Where others cannot follow it, it is the last, too.
    let mut world = old();
    world.group.commands.secondary = None;
    (1..3).for_each(|ordinal| world.serve(ordinal, Role::Stopped));
    assert_eq!(held(&world.observe(), 0), Err(Rule::PrimaryLast), "the idle ones go before");
    assert_eq!(held(&world.observe(), 2), Ok(()));
    // Then it is replaced as it leads.
    let mut world = old();
    others(&mut world);
    world.group.commands.secondary = None;
    assert_eq!(held(&world.observe(), 0), Ok(()));
}

// Promise: no acknowledged write is lost. A pod without a volume is kept where it may have the only copy.
#[test]
fn the_only_copy_of_the_data_is_kept() {
    let mut world = World::settled(10_000);
    world.group.commands.secondary = None;
    (1..3).for_each(|ordinal| world.serve(ordinal, Role::Stopped));
    world.older(0);
    let mut s = world.observe();
    assert_eq!(held(&s, 0), Ok(()), "it has a volume");
    s.members[0].claims.clear();
    s.record.member_mut(&db(0)).claim_uid = None;
    assert_eq!(held(&s, 0), Err(Rule::OnlyCopy));
    let message = update_member(&s, &s.members[0]).unwrap_err().message;
    assert!(message.contains("delete the pod yourself"), "{message}");
    // Secondaries have copies.
    let mut s = old().observe();
    s.members[2].claims.clear();
    s.record.member_mut(&db(2)).claim_uid = None;
    assert_eq!(held(&s, 2), Ok(()));
}

// E5, E36: a pod in which nothing runs goes at once.
#[test]
fn a_pod_in_which_nothing_runs_is_updated_at_once() {
    let idle = |change: &dyn Fn(&mut World)| {
        let mut world = old();
        world.body(1).pod.ready = false;
        change(&mut world);
        let s = world.observe();
        update_idle(&s, &s.members[2]).map_err(|violation| violation.rule)
    };
    assert_eq!(idle(&|_| ()), Err(Rule::WrongRole), "it follows");
    let pending = |w: &mut World| {
        w.serve(2, Role::Stopped);
        let pod = &mut w.body(2).pod;
        pod.phase = Phase::Pending;
        pod.containers.values_mut().for_each(|container| container.running = false);
    };
    assert_eq!(idle(&pending), Ok(()));
    let unseen = |w: &mut World| {
        pending(w);
        w.set.as_mut().unwrap().unseen = true;
    };
    assert_eq!(idle(&unseen), Err(Rule::NotAtRest), "the next pod would have the old template");
    let leaves = |w: &mut World| {
        pending(w);
        w.group.replicas = 2;
    };
    assert_eq!(idle(&leaves), Err(Rule::NotAtRest), "it is not replaced, it goes");
    assert_eq!(idle(&|w| w.serve(2, Role::Stopped)), Ok(()), "a primary serves beside it");
    let open = |w: &mut World| {
        let s = w.observe();
        w.record.intents.push(intent(&s, Verb::Place, 2));
        pending(w);
    };
    assert!(idle(&open).is_err(), "a command may still run in it");
    let may_lead = |w: &mut World| {
        w.body(2).app.probe = Some(Role::Unknown);
    };
    assert_eq!(idle(&may_lead), Err(Rule::MayBePrimary));
    // A claim alone remembers that it led: in a pod that is not known, and not in this one, where nothing ever ran.
    let led = |w: &mut World| {
        pending(w);
        w.record.last_primaries.push(LastPrimary::by_name(db(2)));
    };
    assert_eq!(idle(&led), Err(Rule::MayBePrimary), "a container of it ran");
    let led_elsewhere = |w: &mut World| {
        led(w);
        w.body(2).pod.containers.values_mut().for_each(|container| container.id = None);
    };
    assert_eq!(idle(&led_elsewhere), Ok(()));
}

// E5: the data of a member that leaves may be the latest, and a pod that can never start shows nothing of it.
#[test]
fn a_pod_that_never_starts_is_updated_while_all_wait_for_its_member_to_leave() {
    let mut world = old();
    (0..3).for_each(|ordinal| world.serve(ordinal, Role::Stopped));
    world.group.replicas = 2;
    let mut s = world.observe();
    s.record.last_primaries.clear();
    let pod = s.members[2].pod.as_mut().unwrap();
    pod.phase = Phase::Pending;
    pod.containers.values_mut().for_each(|container| (container.running, container.id) = (false, None));
    let held = |s: &Snapshot| update_idle(s, &s.members[2]).map_err(|violation| violation.rule);
    assert_eq!(held(&s), Ok(()));
    assert_eq!(deleted(&decide(&s, &Natural)), [("db-2".to_owned(), DeletionCause::Update)]);
    let mut ran = s.clone();
    let pod = ran.members[2].pod.as_mut().unwrap();
    pod.containers.values_mut().for_each(|container| container.id = Some("c".into()));
    assert_eq!(held(&ran), Err(Rule::NotAtRest), "its container is started again by the kubelet");
    let mut present = s.clone();
    present.members[2].pod.as_mut().unwrap().older_template = false;
    assert_eq!(held(&present), Err(Rule::NotAtRest), "the next pod would be the same");
    let mut serves = world.observe();
    serves.members[2] = s.members[2].clone();
    serves.members[0].reading.role = Role::Primary;
    assert_eq!(held(&serves), Err(Rule::NotAtRest), "it is not needed to leave");
    // While all stop it is: its data is read, too. Meanwhile the other secondary is stopped.
    serves.group.replicas = 0;
    serves.members[1].reading.role = Role::Secondary;
    let plan = decide(&serves, &Natural);
    assert_eq!(deleted(&plan), [("db-2".to_owned(), DeletionCause::Update)]);
    let stopped = |plan: &Plan| plan.record.intents.iter().map(|intent| intent.member.clone()).collect::<Vec<_>>();
    assert_eq!(stopped(&plan), [db(1)]);
    let pod = serves.members[2].pod.as_mut().unwrap();
    (pod.older_template, pod.outdated) = (false, false);
    let plan = decide(&serves, &Natural);
    assert_eq!(
        (deleted(&plan), stopped(&plan)),
        (vec![], vec![db(1)]),
        "one that cannot be reached holds up the primary alone"
    );
}

// Promise: no acknowledged write is lost. A container that waits to be started again has the data of its pod; one that never ran has none.
#[test]
fn a_pod_with_data_and_without_a_volume_stays_while_nobody_serves() {
    let mut world = old();
    (0..3).for_each(|ordinal| world.serve(ordinal, Role::Stopped));
    let mut s = world.observe();
    s.record.last_primaries.clear();
    s.members[1].claims.clear();
    let pod = s.members[1].pod.as_mut().unwrap();
    pod.phase = Phase::Pending;
    pod.containers.values_mut().for_each(|container| container.running = false);
    let held = |s: &Snapshot| update_idle(s, &s.members[1]).map_err(|violation| violation.rule);
    assert_eq!(held(&s), Err(Rule::TargetUnreachable), "it ran before");
    let pod = s.members[1].pod.as_mut().unwrap();
    pod.containers.values_mut().for_each(|container| container.id = None);
    assert_eq!(held(&s), Ok(()));
}

// E35: whenever a pod was replaced, the time without progress begins anew.
#[test]
fn progress_begins_the_time_of_an_update_anew() {
    let mut s = old().observe();
    let stuck = |s: &Snapshot| {
        let plan = decide(s, &Natural);
        let is_said = plan.waits.iter().any(|wait| wait.reason == Reason::UpdateStuck);
        (is_said, plan.record.updating.map(|updating| (updating.left, updating.since)))
    };
    s.record.updating = Some(Updating { left: 3, since: s.now - 600 });
    assert_eq!(stuck(&s), (true, Some((3, s.now - 600))));
    s.record.updating = Some(Updating { left: 4, since: s.now - 600 });
    assert_eq!(stuck(&s), (false, Some((3, s.now))));

    // For as long as a healthy update waits it is not stuck.
    for (wait, min_uptime) in [(600, 0), (0, 600), (600, 60)] {
        (s.group.update.wait, s.group.update.min_uptime) = (wait, min_uptime);
        let mut said = |ago: i64| {
            s.record.updating = Some(Updating { left: 3, since: s.now - ago });
            stuck(&s).0
        };
        assert_eq!((said(1_199), said(1_200)), (false, true), "{wait} {min_uptime}");
    }
}

// E5: while nobody serves, who works may be the next to lead, and only what failed is replaced, on its volume.
#[test]
fn while_nobody_serves_only_members_that_failed_are_updated() {
    let mut world = old();
    (0..3).for_each(|ordinal| world.serve(ordinal, Role::Stopped));
    let held = |s: &Snapshot| update_idle(s, &s.members[1]).map_err(|violation| violation.rule);
    assert_eq!(held(&world.observe()), Err(Rule::NobodyServes));
    world.record.member_mut(&db(1)).failures = 1;
    let mut s = world.observe();
    assert_eq!(held(&s), Ok(()));
    s.record.intents.push(intent(&s, Verb::Seed, 0));
    assert!(held(&s).is_err(), "another member is being started");
    s.record.intents.clear();
    s.members[1].claims.clear();
    assert_eq!(held(&s), Err(Rule::NobodyServes), "its pod may have the only copy of the data");
}

// What is applied may be the new template: the deletion waits for it, and for the second look.
#[test]
fn a_pod_is_deleted_by_the_second_look_alone() {
    let mut world = old();
    let s = world.observe();
    let plan = decide(&s, &Natural);
    assert_eq!(deleted(&plan), [("db-2".to_owned(), DeletionCause::Update)]);
    let uid = s.members[2].pod.as_ref().unwrap().uid.clone();
    let look = |live: &Snapshot| {
        recheck_deletion(&s, live, &db(2), &uid, DeletionCause::Update).map(drop).map_err(|violation| violation.rule)
    };
    assert_eq!(look(&s), Ok(()));
    world.body(1).pod.ready = false;
    assert_eq!(look(&world.observe()), Err(Rule::NotAtRest));

    let with = |kind: &str| {
        let mut s = old().observe();
        s.objects.push(Object {
            kind: kind.into(),
            name: "db".into(),
            manifest: Default::default(),
            current: false,
            version: None,
            trial: None,
        });
        deleted(&decide(&s, &Natural)).len()
    };
    assert_eq!(with("StatefulSet"), 0);
    assert_eq!(with("Service"), 1, "that the API server refuses it again and again holds up no update");
}

// Members that agree: the others are a majority without it; of two there is none, whoever goes.
#[test]
fn members_that_agree_are_updated_beside_a_majority() {
    let mut world = World::settled(10_000);
    world.group.primaries = 3;
    world.group.commands.membership = Some(super::super::support::setting::members(false));
    (1..3).for_each(|ordinal| world.serve(ordinal, Role::Primary));
    (0..3).for_each(|ordinal| world.older(ordinal));
    let rule = held(&world.observe(), 2);
    assert_eq!(rule, Err(Rule::ListUnknown), "nobody said who the members are");
}

// E10: a configuration that is not known is said, and holds up no update; a change that does not count yet wakes the group in time.
#[test]
fn a_configuration_that_is_not_known_holds_up_nothing() {
    let mut s = old().observe();
    let usual = decide(&s, &Natural);
    s.group.update.config_trouble = Some("there is no ConfigMap settings".into());
    s.group.update.config_settles = Some(s.now + 7);
    let plan = decide(&s, &Natural);
    assert_eq!(plan.actions, usual.actions);
    let said = plan.waits.iter().find(|wait| wait.reason == Reason::ConfigUnknown).unwrap();
    assert_eq!(said.message, "there is no ConfigMap settings");
    assert!(plan.wake_at().unwrap() <= s.now + 7);
    assert!(!plan.actions.is_empty());
}

// E10: a ConfigMap that is deleted in the middle of an update: no pod of the new template could start, so the members that work go on. It goes on when the ConfigMap is back; and the way back from a template that failed
// does not wait for it.
#[test]
fn without_a_configuration_that_pods_need_nobody_is_updated() {
    let mut s = old().observe();
    let usual = decide(&s, &Natural);
    assert!(usual.actions.iter().any(|a| matches!(a, Action::DeletePod { .. })), "{:?}", usual.actions);
    (s.group.update.config_missing, s.group.update.config_trouble) =
        (true, Some("there is no ConfigMap settings".into()));
    let plan = decide(&s, &Natural);
    assert!(!plan.actions.iter().any(|a| matches!(a, Action::DeletePod { .. })), "{:?}", plan.actions);
    let said = plan.waits.iter().find(|wait| wait.reason == Reason::Updating).unwrap();
    assert!(said.message.contains("a ConfigMap or Secret is not there"), "{}", said.message);
    assert!(plan.waits.iter().any(|wait| wait.reason == Reason::ConfigUnknown));
    let held = update_member(&s, &s.members[2]).map_err(|violation| violation.rule);
    assert_eq!(held, Err(Rule::NotAtRest));
    let update = &mut s.group.update;
    (update.rolls_back, update.template, update.former) = (true, "new".into(), Former::Kept);
    let failed = GivenUp { template: "new".into(), at: s.now, why: String::new() };
    s.record.fallback = Some(Fallback { good: "old".into(), trial: None, failed: Some(failed) });
    assert_eq!(update_member(&s, &s.members[2]), Ok(()));
}
