//! The first member with a changed template is watched before others get it (docs/rules.md, "Update").
use super::super::support::db;
use super::super::support::policies::Natural;
use super::super::support::world::World;
use tanist_core::check::{Rule, gives_up_lead, update_idle, update_member};
use tanist_core::checked::recheck_deletion;
use tanist_core::contract::{Phase, Role};
use tanist_core::decide::decide;
use tanist_core::freshness::Readings;
use tanist_core::plan::{Action, DeletionCause, Plan, Reason};
use tanist_core::record::{Canary, Fallback, Verdict};
use tanist_core::snapshot::{Commands, Former, Member, Mode, Query, QueryAnswer, Snapshot};
use tanist_core::status::{Kind, PolicyHealth, UpdatePhase, report};

pub const NEW: &str = "the new template";

/// One primary and two secondaries that all work. db-2 has the new template, and is watched for 60 s from now on.
pub fn tried() -> World {
    let mut world = World::settled(10_000);
    (0..3).for_each(|ordinal| world.body(ordinal).pod.ready = true);
    (0..2).for_each(|ordinal| world.older(ordinal));
    (world.group.update.canary, world.group.update.template) = (60, NEW.into());
    world
}

/// The same after so many seconds of watching.
pub fn watched(seconds: i64) -> World {
    let mut world = tried();
    world.record.canary = decide(&world.observe(), &Natural).record.canary;
    world.now += seconds;
    world
}

pub fn round(world: &mut World) -> Plan {
    decide(&world.observe(), &Natural)
}

/// Whose pod is deleted, and how the watch stands.
pub fn outcome(plan: &Plan) -> (Option<String>, Option<Verdict>) {
    let deleted = plan.actions.iter().find_map(|action| match action {
        Action::DeletePod { member, .. } => Some(member.to_string()),
        _ => None,
    });
    (deleted, plan.record.canary.as_ref().and_then(|canary| canary.verdict.clone()))
}

fn failure(world: &mut World) -> Option<String> {
    let plan = round(world);
    let told = plan.waits.iter().any(|wait| wait.reason == Reason::CanaryFailed && wait.member == Some(db(2)));
    let why = plan.record.canary.as_ref().and_then(Canary::failure).map(str::to_owned);
    assert_eq!(told, why.is_some());
    why
}

// S28 (simulator, seed 400001842): another process began the watch, by a clock that may have been wrong. Its verdict rests on the time in which this one has looked.
#[test]
fn a_verdict_rests_on_what_this_process_saw() {
    let judged = |seconds: i64, own: i64, change: &dyn Fn(&mut World)| {
        let mut world = watched(seconds);
        world.began = world.now - own;
        change(&mut world);
        outcome(&round(&mut world)).1
    };
    let works = |_: &mut World| ();
    assert_eq!((judged(70, 60, &works), judged(70, 59, &works)), (Some(Verdict::Passed), None));
    let fails = |w: &mut World| w.body(2).pod.ready = false;
    assert!(judged(60_000, 660, &fails).is_some());
    assert_eq!(judged(60_000, 659, &fails), None);
}

// E30: a container that ends again and again before it counts as working has failed, whatever `waitSeconds` is.
#[test]
fn a_restart_before_it_counts_as_working_is_a_restart() {
    let restarted = |ready: bool| {
        let mut world = tried();
        world.group.update.wait = 600;
        let now = world.now;
        let pod = &mut world.body(2).pod;
        (pod.ready, pod.phase_since) = (ready, now);
        world.record.canary = round(&mut world).record.canary;
        assert_eq!(world.record.canary.as_ref().unwrap().since, None);
        world.now += 10;
        world.body(2).pod.containers.values_mut().for_each(|container| container.id = Some("another".into()));
        failure(&mut world)
    };
    assert_eq!(restarted(true).as_deref(), Some("its container was restarted"));
    assert_eq!(restarted(false), None, "one that was in no role yet may be restarted while it starts");
}

// E32: a good template does not fail because members count as in their role only after `waitSeconds`.
#[test]
fn the_watch_is_longer_by_what_a_ready_member_waits() {
    let fails = |wait: u32, seconds: i64| {
        let mut world = watched(seconds);
        world.group.update.wait = wait;
        world.body(2).pod.ready = false;
        failure(&mut world).is_some()
    };
    assert_eq!((fails(0, 659), fails(0, 660)), (false, true));
    assert_eq!((fails(900, 1_559), fails(900, 1_560)), (false, true));
}

// A pod that never got a node is replaced at once: it is no reason to watch another member, which has had the template for long.
#[test]
fn nobody_is_watched_for_a_pod_without_a_node() {
    let begins = |node: Option<String>| {
        let mut world = tried();
        let mut s = world.observe();
        for member in &mut s.members {
            let pod = member.pod.as_mut().unwrap();
            (pod.older_template, pod.outdated) = (member.ordinal == 0, member.ordinal == 0);
        }
        s.members[0].pod.as_mut().unwrap().node = node;
        decide(&s, &Natural).record.canary.is_some()
    };
    assert!(begins(Some("node-0".into())));
    assert!(!begins(None));
}

pub fn phase(world: &mut World) -> (UpdatePhase, Option<String>) {
    let s = world.observe();
    let plan = decide(&s, &Natural);
    let (phase, member) = report(&s, &plan, &PolicyHealth::Active(String::new()), None).update;
    (phase, member.map(|member| member.to_string()))
}

// A48, E38: what the user asked for runs on one member and failed there: no tool takes that for a success.
#[test]
fn a_group_whose_canary_failed_is_not_ready() {
    let ready = |world: &mut World| {
        let s = world.observe();
        let report = report(&s, &decide(&s, &Natural), &PolicyHealth::Active(String::new()), None);
        let condition = report.conditions.into_iter().find(|c| c.kind == Kind::Ready).unwrap();
        format!("{} {}", condition.status.as_str(), condition.reason.as_str())
    };
    let mut world = watched(30);
    assert_eq!(ready(&mut world), "True AllMembersInRole");
    world.record.canary.as_mut().unwrap().verdict = Some(Verdict::Failed("check exited 3".into()));
    assert_eq!(ready(&mut world), "False CanaryFailed");
    // The template is as before again: nobody waits for another one.
    for ordinal in 0..2 {
        let pod = &mut world.body(ordinal).pod;
        (pod.outdated, pod.older_template) = (false, false);
    }
    assert_eq!(ready(&mut world), "True AllMembersInRole");
}

// E32, E33, E34: nobody else gets the template before the first one was in its role with it for the time; then the next one does.
#[test]
fn others_wait_for_the_first_one() {
    let first = round(&mut tried());
    assert_eq!(outcome(&first), (None, None));
    let canary = first.record.canary.as_ref().unwrap();
    assert_eq!((&canary.member, canary.since), (&db(2), Some(canary.begun)));
    assert!(first.waits.iter().any(|wait| wait.reason == Reason::Canary));
    assert_eq!(first.wake_at().unwrap(), canary.begun + 60);
    assert_eq!(outcome(&round(&mut watched(59))), (None, None));
    let mut world = watched(60);
    let passed = round(&mut world);
    assert_eq!(outcome(&passed), (None, Some(Verdict::Passed)), "the second look would not know that yet");
    assert_eq!(passed.wake_at(), Some(world.now + 1));
    assert_eq!(passed.record.history.last().map(|t| t.what.clone()).as_deref(), Some("canary-passed"));
    world.record = passed.record;
    let s = world.observe();
    assert_eq!(outcome(&decide(&s, &Natural)), (Some("db-1".into()), Some(Verdict::Passed)));
    assert!(recheck_deletion(&s, &s, &db(1), &s.members[1].pod.as_ref().unwrap().uid, DeletionCause::Update).is_ok());
    let mut without = tried();
    without.group.update.canary = 0;
    assert_eq!(outcome(&round(&mut without)), (Some("db-1".into()), None));
}

// E32: another pod was made anew just before the first one goes: who got the template by that is watched before anybody else gets it.
#[test]
fn nobody_goes_when_another_one_got_the_template_meanwhile() {
    let mut world = tried();
    world.older(2);
    let s = world.observe();
    assert_eq!(outcome(&decide(&s, &Natural)), (Some("db-2".into()), None));
    let uid = s.members[2].pod.as_ref().unwrap().uid.clone();
    let goes = |live: &Snapshot| recheck_deletion(&s, live, &db(2), &uid, DeletionCause::Update).map(drop);
    assert_eq!(goes(&s), Ok(()));
    let mut live = s.clone();
    let pod = live.members[1].pod.as_mut().unwrap();
    (pod.older_template, pod.outdated) = (false, false);
    let why = goes(&live).unwrap_err();
    assert_eq!((why.rule, why.member), (Rule::NotAtRest, Some(db(1))));
}

// E32: a primary gives up the lead for an update only after the watch, too.
#[test]
fn the_lead_waits_for_the_first_one() {
    let gives_up = |mut world: World| {
        (1..3).for_each(|ordinal| {
            let pod = &mut world.body(ordinal).pod;
            (pod.outdated, pod.older_template) = (false, false);
        });
        world.record.canary = watched(0).record.canary;
        world
    };
    let held = |mut world: World| {
        let s = world.observe();
        gives_up_lead(&s, &s.members[0]).map_err(|violation| violation.rule)
    };
    assert_eq!(held(gives_up(tried())), Err(Rule::NotAtRest));
    let mut passed = gives_up(tried());
    passed.record.canary.as_mut().unwrap().verdict = Some(Verdict::Passed);
    assert_eq!(held(passed), Ok(()));
}

// E34, E38: a restart, a failed status and a time that is over are failures of the template; they are final, also for members in whose pods nothing runs, until it changes.
#[test]
fn a_template_that_fails_goes_no_further() {
    let mut restarted = watched(30);
    restarted.body(2).pod.containers.values_mut().for_each(|container| container.id = Some("another".into()));
    assert_eq!(failure(&mut restarted).as_deref(), Some("its container was restarted"));

    let mut late = watched(0);
    late.body(2).pod.ready = false;
    assert_eq!(failure(&mut late), None);
    late.record.canary = round(&mut late).record.canary;
    late.now += 660;
    let why = failure(&mut late).unwrap();
    assert!(why.contains("not in its role for 60 s without a break, in 660 s"), "{why}");

    let mut failed = restarted;
    failed.record.canary = round(&mut failed).record.canary;
    assert_eq!(phase(&mut failed), (UpdatePhase::Failed, Some("db-2".into())));
    failed.now += 100_000;
    assert_eq!(outcome(&round(&mut failed)).0, None);
    let mut idle = failed.observe();
    let pod = idle.members[1].pod.as_mut().unwrap();
    pod.phase = Phase::Pending;
    assert_eq!(update_idle(&idle, &idle.members[1]).map_err(|v| v.rule), Err(Rule::NotAtRest));
    idle.group.update.template = "the next one".into();
    assert_eq!(update_idle(&idle, &idle.members[1]).map_err(|v| v.rule), Ok(()));
}

// E38: another template is a new try: what was found of the one before says nothing of it, and the first member that has it is watched from its own beginning.
#[test]
fn another_template_is_watched_anew() {
    let mut world = watched(30);
    world.record.canary.as_mut().unwrap().verdict = Some(Verdict::Failed("it fell over".into()));
    world.group.update.template = "the next one".into();
    let plan = round(&mut world);
    let canary = plan.record.canary.unwrap();
    assert_eq!((canary.template.as_str(), canary.begun, canary.verdict), ("the next one", world.now, None));
    assert!(plan.waits.iter().all(|wait| wait.reason != Reason::CanaryFailed), "{:?}", plan.waits);
}

// E34: its status says failed.
#[test]
fn a_failed_status_is_a_failure() {
    let mut s = watched(30).observe();
    s.members[2].reading.role = Role::Failed;
    let canary = decide(&s, &Natural).record.canary.unwrap();
    assert_eq!(canary.failure(), Some("its status says failed"));
}

// E34: the time has to pass without a break, and what becomes of the node is not due to the template.
#[test]
fn a_break_begins_the_watch_anew() {
    let mut broken = watched(59);
    broken.body(2).pod.ready = false;
    let canary = round(&mut broken).record.canary.unwrap();
    assert_eq!((canary.since, canary.verdict), (None, None));

    let mut away = watched(0);
    away.now += 5_000;
    away.body(2).pod.phase = Phase::Unreachable;
    let canary = round(&mut away).record.canary.unwrap();
    assert_eq!((canary.begun, canary.since, canary.verdict), (away.now, None, None));

    let mut replaced = watched(59);
    replaced.body(2).pod.uid = "another".into();
    replaced.body(2).pod.containers.values_mut().for_each(|container| container.id = Some("another".into()));
    let canary = round(&mut replaced).record.canary.unwrap();
    assert_eq!((canary.pod_uid.as_str(), canary.verdict), ("another", None));
}

// E37: a member by which the group grows and that has no node is not watched: the template never ran there.
#[test]
fn a_new_member_without_a_node_is_not_watched() {
    let mut world = World::settled(10_000);
    (0..3).for_each(|ordinal| world.body(ordinal).pod.ready = true);
    (0..3).for_each(|ordinal| world.older(ordinal));
    (world.group.update.canary, world.group.update.template) = (60, NEW.into());
    world.group.replicas = 4;
    world.set.as_mut().unwrap().replicas = 4;
    world.new_volume(3);
    world.new_pod(3);
    assert!(round(&mut world).record.canary.is_some_and(|canary| canary.member == db(3)), "with a node it is");
    let pod = &mut world.body(3).pod;
    (pod.phase, pod.node) = (Phase::Pending, None);
    pod.containers.clear();
    assert_eq!(round(&mut world).record.canary, None);
}

// E34: a canary that is watched for longer than an update may take is no update that is stuck.
#[test]
fn an_update_is_not_stuck_while_its_first_member_is_watched() {
    let mut world = tried();
    (world.group.update.canary, world.group.update.timeout) = (3_600, 60);
    for _ in 0..5 {
        let plan = round(&mut world);
        assert!(plan.waits.iter().all(|wait| wait.reason != Reason::UpdateStuck), "{:?}", plan.waits);
        world.record = plan.record;
        world.now += 50;
    }
}

// E34, E38: a member that leaves is watched no more, and another one begins; a pause takes back no failure.
#[test]
fn a_verdict_outlives_a_pause_and_a_watch_does_not() {
    let leaves = |verdict: Option<Verdict>| {
        let mut world = watched(30);
        world.group.replicas = 2;
        world.record.canary.as_mut().unwrap().verdict = verdict;
        round(&mut world).record.canary.map(|canary| canary.member)
    };
    assert_eq!(leaves(None), None);
    assert_eq!(leaves(Some(Verdict::Failed("x".into()))), Some(db(2)));
    let paused = |verdict: Option<Verdict>| {
        let mut world = watched(30);
        world.group.update.mode = Mode::Paused;
        world.record.canary.as_mut().unwrap().verdict = verdict;
        round(&mut world).record.canary.and_then(|canary| canary.verdict)
    };
    assert_eq!(paused(None), None);
    assert_eq!(paused(Some(Verdict::Failed("x".into()))), Some(Verdict::Failed("x".into())));
}

// E5, E37: members that cannot work get the template at once; a group in which all have it has no canary, and neither has one that leaves updates to people.
#[test]
fn only_an_update_has_a_canary() {
    let mut s = tried().observe();
    s.members[1].pod.as_mut().unwrap().phase = Phase::Pending;
    assert_eq!(update_member(&s, &s.members[1]).map_err(|v| v.rule), Ok(()));
    let none = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = watched(0).observe();
        change(&mut s);
        decide(&s, &Natural).record.canary.is_none()
    };
    assert!(!none(&|_| {}));
    assert!(none(&|s| s.members.iter_mut().for_each(|m| m.pod.as_mut().unwrap().older_template = false)));
    assert!(none(&|s| s.group.update.mode = Mode::ByHand));
    assert!(none(&|s| s.group.update.canary = 0));
    let mut untried = tried();
    untried.older(2);
    assert_eq!(outcome(&round(&mut untried)), (Some("db-2".into()), None));
}

// E35, E38: with `onFailure: RollBack` pods go back as soon as the template failed, and nobody waits for a canary then.
#[test]
fn a_failed_canary_is_rolled_back() {
    let mut world = watched(30);
    world.body(2).pod.containers.values_mut().for_each(|container| container.id = Some("another".into()));
    world.record.canary = round(&mut world).record.canary;
    (world.group.update.rolls_back, world.group.update.former) = (true, Former::Kept);
    world.record.fallback = Some(Fallback { good: "the old template".into(), trial: None, failed: None });
    let plan = round(&mut world);
    let failed = plan.record.fallback.as_ref().and_then(|fallback| fallback.failed.clone()).unwrap();
    assert_eq!((failed.template.as_str(), failed.why.as_str()), (NEW, "db-2: its container was restarted"));
    world.record = plan.record;
    // The StatefulSet has the former template.
    (0..2).for_each(|ordinal| {
        let pod = &mut world.body(ordinal).pod;
        (pod.outdated, pod.older_template) = (false, false);
    });
    world.older(2);
    assert_eq!(outcome(&round(&mut world)), (Some("db-2".into()), None));
    assert_eq!(phase(&mut world).0, UpdatePhase::Failed);
}

// E30, E31, E33, E37: the words of the status.
#[test]
fn the_status_says_how_far_it_is() {
    let mut pending = tried();
    pending.older(2);
    assert_eq!(phase(&mut pending), (UpdatePhase::Pending, None));
    assert_eq!(phase(&mut tried()), (UpdatePhase::Canary, Some("db-2".into())));
    let mut rollout = watched(60);
    rollout.record.canary = round(&mut rollout).record.canary;
    assert_eq!(phase(&mut rollout), (UpdatePhase::Rollout, None));
    let mut done = World::settled(10_000);
    assert_eq!(phase(&mut done), (UpdatePhase::Done, None));
    let mut s = done.observe();
    s.members[2].pod = None;
    let plan = decide(&s, &Natural);
    let said = report(&s, &plan, &PolicyHealth::Active(String::new()), None).update.0;
    assert_eq!(said.as_str(), "CanaryUpscale");
}

/// A group with `check` after so many seconds of watching, the answer of which is as old as the watch plus `at`, and took a second.
fn examined(seconds: i64, answer: Option<(Result<i32, String>, i64)>) -> Snapshot {
    let mut world = watched(seconds);
    world.group.commands.check = Some(super::super::support::setting::command("check"));
    let began = world.record.canary.as_ref().unwrap().since.unwrap();
    let mut s = world.observe();
    s.answers = answer
        .map(|(said, at)| ((Query::Check, db(2)), QueryAnswer { said, at: began + at, ended: began + at + 1 }))
        .into_iter()
        .collect();
    s
}

/// How it goes on: whom `check` asks, the verdict, and in how many seconds there is another look.
fn checked(s: &Snapshot) -> (Vec<String>, Option<Verdict>, i64) {
    let plan = decide(s, &Natural);
    let asked = plan.actions.iter().filter_map(|action| match action {
        Action::Ask { member, .. } => Some(member.to_string()),
        _ => None,
    });
    let verdict = plan.record.canary.as_ref().and_then(|canary| canary.verdict.clone());
    (asked.collect(), verdict, plan.wake_at().unwrap_or_default() - s.now)
}

// E34: `check` is asked at once, every 10 s, and when the time is over; only then, with 0, the others get the template.
#[test]
fn a_check_is_asked_while_the_canary_is_watched() {
    let well = |at: i64| Some((Ok(0), at));
    let asks = || vec!["db-2".to_owned()];
    assert_eq!(checked(&examined(0, None)).0, asks());
    assert_eq!(checked(&examined(9, well(0))), (Vec::new(), None, 2));
    assert_eq!(checked(&examined(11, well(0))).0, asks());
    assert_eq!(checked(&examined(55, well(50))), (Vec::new(), None, 5), "the last one is asked when the time is over");
    assert_eq!((checked(&examined(60, well(50))).0, checked(&examined(60, well(59))).0), (asks(), asks()));
    assert_eq!(checked(&examined(60, well(59))).1, None);
    assert_eq!(checked(&examined(61, well(60))).1, Some(Verdict::Passed));
    assert_eq!(checked(&examined(61, well(60))).0, Vec::<String>::new());
    assert_eq!(checked(&examined(11, well(-1))).0, asks(), "what it said before it was in its role says nothing");
    let mut busy = examined(11, well(0));
    busy.members[2].asked = true;
    assert_eq!(checked(&busy).0, Vec::<String>::new());
    let mut none = examined(60, None);
    none.group.commands.check = None;
    assert_eq!(checked(&none).1, Some(Verdict::Passed));
    let mut away = examined(0, None);
    away.members[2].reading.role = Role::Starting;
    away.record.canary.as_mut().unwrap().since = None;
    assert_eq!(checked(&away).0, Vec::<String>::new(), "it is not in its role");
}

// E34, E38: another exit code fails the template at once. An answer that was lost is none: it is asked again, and after the time of an update it has failed with the reason.
#[test]
fn a_check_that_does_not_exit_0_fails_the_template() {
    let failed = |why: &str| Some(Verdict::Failed(why.to_owned()));
    assert_eq!(checked(&examined(5, Some((Ok(3), 4)))).1, failed("check exited 3"));
    assert_eq!(checked(&examined(5, Some((Ok(3), -1)))).1, None, "it was not in its role then");
    let lost = |seconds: i64, at: i64| checked(&examined(seconds, Some((Err("the stream broke".into()), at))));
    assert_eq!(lost(5, 4), (Vec::new(), None, 10));
    assert_eq!(lost(15, 4).0, vec!["db-2".to_owned()]);
    assert_eq!((lost(61, 60).1, lost(61, 60).2), (None, 10), "no answer is no good one");
    let own = examined(0, None).group;
    let timeout = i64::from(own.update.timeout) + i64::from(own.commands.check.unwrap().timeout);
    let silent = checked(&examined(60 + timeout, Some((Ok(0), 50)))).1;
    assert_eq!(silent, failed(&format!("check gave no answer in {} s", 60 + timeout)), "the last one hangs");
    let late = lost(60 + timeout, 59 + timeout).1;
    assert_eq!(late, failed(&format!("check gave no answer in {} s: the stream broke", 60 + timeout)));
}

// E34: an answer counts for the container in which it was given.
#[test]
fn what_an_earlier_container_said_does_not_count() {
    let members = tried().observe().members;
    let pod = members[2].pod.clone().unwrap();
    let answer = QueryAnswer { said: Ok(0), at: 7, ended: 8 };
    let mut readings = Readings::default();
    assert!(readings.begin_reading(&pod.uid));
    readings.remember_query(Query::Check, &pod, "db", answer.clone());
    assert_eq!(readings.under_way(), 0);
    let mut commands = tried().group.commands;
    commands.check = Some(super::super::support::setting::command("check"));
    let mut said = |members: &[Member], commands: &Commands| readings.queries(members, commands);
    assert_eq!(said(&members, &commands), [((Query::Check, db(2)), answer)].into());
    let mut moved = members.clone();
    moved[2].pod.as_mut().unwrap().containers.get_mut("db").unwrap().id = Some("another".into());
    assert_eq!(said(&moved, &commands), [].into());
    assert_eq!(said(&members[..2], &commands), [].into());
    assert_eq!(said(&members, &commands), [].into(), "its pod was gone");
}
