//! C73: no pod that works is deleted for an update before every member has said that it is prepared (docs/rules.md, "Update: before and after").
use super::super::support::db;
use super::super::support::policies::{At, Lead, Natural};
use super::super::support::setting::command;
use super::super::support::world::World;
use tanist_core::check::{self, Rule};
use tanist_core::checked::recheck_update;
use tanist_core::contract::Role;
use tanist_core::decide::decide;
use tanist_core::freshness::Readings;
use tanist_core::limits::{CHECK_SECONDS, PREPARED_AT_A_TIME, PREPARED_SECONDS};
use tanist_core::plan::{Action, Plan};
use tanist_core::policy::Point;
use tanist_core::record::{Batched, Event, Fallback, GivenUp, Switchover};
use tanist_core::snapshot::{Batch, Former, Query, QueryAnswer, Snapshot};

/// A primary and two secondaries that have an older template and go together, once all are prepared.
fn old() -> World {
    let mut world = World::settled(10_000);
    world.group.commands.prepared = Some(command("prepared"));
    world.group.update.batch = Batch::All;
    [1, 2].into_iter().for_each(|ordinal| world.older(ordinal));
    world
}

/// What the members said, each so many seconds ago: an exit code, or why there is none.
fn said(answers: &[(u32, Result<i32, &str>, i64)]) -> Snapshot {
    let mut s = old().observe();
    for (ordinal, said, ago) in answers {
        let (at, said) = (s.now - ago, (*said).map_err(str::to_owned));
        s.answers.insert((Query::Prepared, db(*ordinal)), QueryAnswer { said, at, ended: at });
    }
    s
}

fn all_say_yes(ago: i64) -> Snapshot {
    said(&[0, 1, 2].map(|ordinal| (ordinal, Ok(0), ago)))
}

/// What a round does: whom it asks, whose pods it deletes.
fn done(plan: &Plan) -> (Vec<String>, Vec<String>) {
    let asked = plan.actions.iter().filter_map(|action| match action {
        Action::Ask { query: Query::Prepared, member, .. } => Some(member.to_string()),
        _ => None,
    });
    let deleted = plan.actions.iter().filter_map(|action| match action {
        Action::DeletePod { member, .. } => Some(member.to_string()),
        _ => None,
    });
    (asked.collect(), deleted.collect())
}

fn names(ordinals: &[u32]) -> Vec<String> {
    ordinals.iter().map(|ordinal| db(*ordinal).to_string()).collect()
}

fn waits(plan: &Plan) -> String {
    plan.waits.iter().map(|wait| wait.message.as_str()).collect::<Vec<_>>().join("; ")
}

// C73: all are asked at the same time, also those that keep their pods; then all go together.
#[test]
fn members_go_together_once_all_are_prepared() {
    let plan = decide(&old().observe(), &Natural);
    assert_eq!(done(&plan), (names(&[0, 1, 2]), vec![]));
    assert!(waits(&plan).contains("db-2, db-1 are next: db-0 is asked whether it is prepared"), "{}", waits(&plan));
    let plan = decide(&all_say_yes(1), &Natural);
    assert_eq!(done(&plan), (vec![], names(&[2, 1])));
    let mut without = old();
    without.group.commands.prepared = None;
    assert_eq!(done(&decide(&without.observe(), &Natural)), (vec![], names(&[2, 1])), "a group without the command");
}

// C73: 1 of all is not prepared, so nobody goes. It is asked again a while later, and so is one that gave no answer.
#[test]
fn one_that_is_not_prepared_holds_up_all() {
    for (said_no, says) in [
        (Ok(1), "db-1 is not prepared: prepared exited 1"),
        (Err("it timed out"), "db-1 has not said that it is prepared: it timed out"),
    ] {
        let after = |ago| decide(&said(&[(0, Ok(0), 1), (1, said_no, ago), (2, Ok(0), 1)]), &Natural);
        let plan = after(CHECK_SECONDS - 1);
        assert_eq!((done(&plan), plan.wake_at()), ((vec![], vec![]), Some(old().observe().now + 1)));
        assert!(waits(&plan).contains(says), "{}", waits(&plan));
        assert_eq!(done(&after(CHECK_SECONDS)), (names(&[1]), vec![]));
    }
    let silent = decide(&said(&[(1, Ok(1), 1)]), &Natural);
    assert!(waits(&silent).contains("db-1 is not prepared"), "who says no is named first: {}", waits(&silent));
}

// C73: who is in no role does not report: a template that does not work never blocks its cure (E5).
#[test]
fn who_is_in_no_role_does_not_report() {
    let mut s = said(&[(0, Ok(0), 1), (2, Ok(0), 1)]);
    s.members[1].reading.role = Role::Stopped;
    assert_eq!(check::unprepared(&s).len(), 0);
    let mut idle = old();
    idle.serve(1, Role::Stopped);
    assert_eq!(done(&decide(&idle.observe(), &Natural)).1, names(&[1]), "a pod in which nothing runs goes at once");
}

// C73: whoever says no, and does not say what its role is a moment later, has not changed its mind. Once it leaves it does not count.
#[test]
fn a_no_counts_whatever_the_role() {
    let mut s = said(&[(0, Ok(0), 1), (1, Ok(1), 5), (2, Ok(0), 1)]);
    s.members[1].reading.role = Role::Unknown;
    assert_eq!(check::unprepared(&s), [&db(1)]);
    s.group.replicas = 1;
    s.members[2].reading.role = Role::Unknown;
    assert!(s.leaves(&s.members[1]) && check::unprepared(&s).is_empty());
}

// C73: the only primary stops before its pod goes, so all are asked before that. Once the lead moves it goes on: a successor may take longer to catch up than answers count.
#[test]
fn the_only_primary_gives_up_the_lead_once_all_are_prepared() {
    let with = |says: Option<i32>| {
        let mut world = World::settled(10_000);
        world.group.commands.prepared = Some(command("prepared"));
        world.older(0);
        let mut s = world.observe();
        let answer = |code| QueryAnswer { said: Ok(code), at: s.now - 1, ended: s.now - 1 };
        s.answers =
            says.into_iter().flat_map(|code| [0, 1, 2].map(|o| ((Query::Prepared, db(o)), answer(code)))).collect();
        s
    };
    let moves = |s: &Snapshot| check::lead_cause(s).map(|cause| cause.word);
    assert_eq!((moves(&with(None)), moves(&with(Some(4))), moves(&with(Some(0)))), (None, None, Some("update")));
    let asks = decide(&with(None), &Natural);
    assert_eq!(done(&asks), (names(&[0, 1, 2]), vec![]));
    assert!(waits(&asks).contains("db-0 is next: db-0 is asked"), "{}", waits(&asks));
    let begun = decide(&with(Some(0)), &Natural).record.switchover;
    assert!(begun.is_some());
    let mut late = with(None);
    late.record.switchover = begun;
    assert_eq!((moves(&late), done(&decide(&late, &Natural)).0), (Some("update"), vec![]));
    let mut against = with(Some(4));
    against.record.switchover.clone_from(&late.record.switchover);
    assert_eq!(moves(&against), None, "somebody changed its mind");
    let mut other = late.clone();
    other.record.switchover.as_mut().unwrap().why = "db-9 is to lead in place of db-0".into();
    assert_eq!(moves(&other), None, "nobody was asked for that one");
    late.record.switchover.as_mut().unwrap().led = Some(db(0));
    assert_eq!(moves(&late), None, "it failed: all are asked before the next try");
    let mut again = with(Some(0));
    again.record.note(again.now, Event::SwitchoverFailed, Some(&db(0)), None);
    assert_eq!(
        (moves(&again), moves(&with(Some(0)))),
        (None, Some("update")),
        "what was said before is about the last try"
    );
    let mut busy = with(Some(0));
    busy.members.iter_mut().for_each(|member| member.asked = true);
    assert_eq!(moves(&busy), Some("update"), "the successors answer a moment later");
}

// C73: while somebody is not prepared a policy that chose who goes has decided nothing: its choice is asked for again.
#[test]
fn a_choice_counts_once_all_are_prepared() {
    let chosen = |s: &Snapshot| {
        let plan = decide(s, &At(Point::Update, Lead::To(db(1))));
        (plan.decisions.iter().filter(|decision| decision.point == Point::Update).count(), done(&plan).1)
    };
    assert_eq!(chosen(&said(&[(0, Ok(1), 1)])), (0, vec![]));
    assert_eq!(chosen(&all_say_yes(1)), (1, names(&[1])));
}

// A switchover for an update that ended with the old primary is tried again after a pause, however often the others are not in their places meanwhile.
#[test]
fn a_switchover_for_an_update_that_failed_is_not_repeated_at_once() {
    let mut world = World::settled(10_000);
    world.older(0);
    let mut s = world.observe();
    let from = db(0);
    let why = "db-0 gets the present template and gives up the lead first".to_owned();
    let begun = Some(s.now - 5);
    let open = Switchover { from, to: None, chosen: None, why, term: 1, floor: None, begun, led: None, failed: 2 };
    s.record.switchover = Some(open);
    let closed = decide(&s, &Natural).record.switchover;
    assert_eq!(closed.as_ref().map(|known| (known.failed, known.led.clone())), Some((2, Some(db(0)))));
    s.record.switchover = closed.clone();
    s.members[1].pod.as_mut().unwrap().ready = false;
    assert_eq!(decide(&s, &Natural).record.switchover, closed, "another member is not Ready for a moment");
    s.members[1].pod.as_mut().unwrap().ready = true;
    let plan = decide(&s, &Natural);
    assert_eq!((&plan.record.switchover, plan.record.intents.len()), (&closed, 0));
    assert!(waits(&plan).contains("tried 3 times"), "{}", waits(&plan));
}

// C73: of many some are asked at a time, so that status goes on. An answer counts until all could be asked.
#[test]
fn of_many_some_are_asked_at_a_time() {
    let mut world = World::new(10, 1);
    world.group.commands.secondary = Some(command("secondary"));
    (0..10).for_each(|ordinal| world.remember(ordinal, 1, "9"));
    (0..10).for_each(|ordinal| world.serve(ordinal, if ordinal == 0 { Role::Primary } else { Role::Secondary }));
    world.record.member_mut(&db(0)).primary_term = Some(1);
    world.play(&Natural, 0);
    world.now += 10_000;
    world.group.commands.prepared = Some(command("prepared"));
    world.older(9);
    let mut s = world.observe();
    assert_eq!(done(&decide(&s, &Natural)).0.len(), PREPARED_AT_A_TIME);
    s.members[..3].iter_mut().for_each(|member| member.asked = true);
    assert_eq!(done(&decide(&s, &Natural)).0.len(), PREPARED_AT_A_TIME - 3);
    let ago = PREPARED_SECONDS + 2 * i64::from(command("prepared").timeout);
    let at = s.now - ago;
    s.answers = (0..10).map(|o| ((Query::Prepared, db(o)), QueryAnswer { said: Ok(0), at, ended: at })).collect();
    assert_eq!(check::all_are_prepared(&s), Ok(()));
    s.now += 1;
    assert!(check::all_are_prepared(&s).is_err());
}

// B11, C73: a member that is only being asked can go a moment later, so its batch is not another one's turn.
#[test]
fn a_batch_is_not_over_while_its_member_is_asked() {
    let mut world = old();
    world.group.update.batch = Batch::Member;
    world.group.commands.hooks.after = Some(command("after"));
    let mut s = world.observe();
    s.record.batch = Some(Batched { members: [db(2)].into(), begun: true, failures: 0, retry_at: None });
    s.members[2].asked = true;
    assert_eq!(check::due_hook(&s), None);
}

// C73: an answer counts for a while, and not for a batch that began after it was asked for, or after a pod went.
#[test]
fn answers_are_about_now() {
    let held = |s: &Snapshot| check::all_are_prepared(s).map_err(|violation| violation.rule);
    let counts = PREPARED_SECONDS + i64::from(command("prepared").timeout);
    assert_eq!(held(&all_say_yes(counts)), Ok(()));
    assert_eq!(held(&all_say_yes(counts + 1)), Err(Rule::NotPrepared));
    assert_eq!(done(&decide(&all_say_yes(counts + 1), &Natural)), (names(&[0, 1, 2]), vec![]));
    for event in [Event::PodDeleted, Event::BatchBegun] {
        let since = |ago| {
            let mut s = all_say_yes(5);
            let at = s.now - ago;
            s.record.note(at, event, Some(&db(2)), None);
            held(&s)
        };
        assert_eq!((since(4), since(5), since(6)), (Err(Rule::NotPrepared), Err(Rule::NotPrepared), Ok(())));
    }
}

// C73, B11: what comes before the batch comes before the question, so that an application may get prepared by it.
#[test]
fn before_update_comes_before_the_question() {
    let mut world = old();
    world.group.commands.hooks.before = Some(command("before"));
    let mut s = world.observe();
    let batch = |begun| Some(Batched { members: [db(1), db(2)].into(), begun, failures: 0, retry_at: None });
    s.record.batch = batch(false);
    assert_eq!(done(&decide(&s, &Natural)), (vec![], vec![]));
    s.record.batch = batch(true);
    assert_eq!(done(&decide(&s, &Natural)), (names(&[0, 1, 2]), vec![]));
}

// E35, C73: with a template that failed nobody may ever be prepared, so the way back waits for nobody.
#[test]
fn the_way_back_waits_for_nobody() {
    let mut world = old();
    let update = &mut world.group.update;
    (update.rolls_back, update.template, update.former) = (true, "new".into(), Former::Kept);
    let mut s = world.observe();
    assert_eq!(check::unprepared(&s).len(), 3);
    let failed = GivenUp { template: "new".into(), at: s.now, why: String::new() };
    s.record.fallback = Some(Fallback { good: "old".into(), trial: None, failed: Some(failed) });
    assert_eq!((check::unprepared(&s).len(), check::all_are_prepared(&s)), (0, Ok(())));
}

// S6, C73: it is held on live reads, too, for all of them.
#[test]
fn a_second_look_spares_all_when_one_is_not_prepared() {
    let s = all_say_yes(1);
    let again = |live: &Snapshot| {
        let pods = [2, 1].map(|at: usize| (&s.members[at].name, s.members[at].pod.as_ref().unwrap().uid.as_str()));
        recheck_update(&s, live, &pods).map(|gone| gone.len()).map_err(|(member, violation)| (member, violation.rule))
    };
    assert_eq!(again(&s), Ok(2));
    let mut live = s.clone();
    live.answers.get_mut(&(Query::Prepared, db(0))).unwrap().said = Ok(1);
    assert_eq!(again(&live), Err((db(2), Rule::NotPrepared)));
}

// C73: what a member said to one command is no answer to the other, and is forgotten with its command.
#[test]
fn each_command_has_answers_of_its_own() {
    let mut world = old();
    world.group.commands.check = Some(command("check"));
    let (members, mut commands) = (world.observe().members, world.group.commands);
    let pod = members[1].pod.clone().unwrap();
    let answer = |code| QueryAnswer { said: Ok(code), at: 7, ended: 8 };
    let mut readings = Readings::default();
    readings.remember_query(Query::Check, &pod, "db", answer(0));
    readings.remember_query(Query::Prepared, &pod, "db", answer(4));
    let both = [((Query::Check, db(1)), answer(0)), ((Query::Prepared, db(1)), answer(4))];
    assert_eq!(readings.queries(&members, &commands), both.clone().into());
    let prepared = commands.prepared.take();
    assert_eq!(readings.queries(&members, &commands), both[..1].iter().cloned().collect());
    commands.prepared = prepared;
    assert_eq!(readings.queries(&members, &commands), both[..1].iter().cloned().collect(), "it was removed meanwhile");
}
