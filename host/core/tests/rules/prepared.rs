//! C73: no pod that works is deleted for an update before every member has said that it is prepared (docs/rules.md, "Update: before and after").
use super::super::support::db;
use super::super::support::policies::Natural;
use super::super::support::setting::command;
use super::super::support::world::World;
use tanist_core::check::{self, Rule};
use tanist_core::checked::recheck_update;
use tanist_core::contract::Role;
use tanist_core::decide::decide;
use tanist_core::limits::{CHECK_SECONDS, PREPARED_SECONDS};
use tanist_core::plan::{Action, Plan};
use tanist_core::record::{Batched, Event, Fallback, GivenUp};
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
    assert!(waits(&plan).contains("db-2, db-1 are next: db-0 has not said yet whether it is prepared"), "{}", waits(&plan));
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
}

// C73: who is in no role does not report: a template that does not work never blocks its cure (E5).
#[test]
fn who_is_in_no_role_does_not_report() {
    let mut s = said(&[(0, Ok(0), 1), (2, Ok(0), 1)]);
    s.members[1].reading.role = Role::Stopped;
    assert_eq!(check::unprepared(&s).count(), 0);
    let mut idle = old();
    idle.serve(1, Role::Stopped);
    assert_eq!(done(&decide(&idle.observe(), &Natural)).1, names(&[1]), "a pod in which nothing runs goes at once");
}

// C73: an answer counts for a while, and not for a batch that began after it was asked for, or after a pod went.
#[test]
fn answers_are_about_now() {
    let held = |s: &Snapshot| check::all_are_prepared(s).map_err(|violation| violation.rule);
    assert_eq!(held(&all_say_yes(PREPARED_SECONDS)), Ok(()));
    assert_eq!(held(&all_say_yes(PREPARED_SECONDS + 1)), Err(Rule::NotPrepared));
    assert_eq!(done(&decide(&all_say_yes(PREPARED_SECONDS + 1), &Natural)), (names(&[0, 1, 2]), vec![]));
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
    assert_eq!(check::unprepared(&s).count(), 3);
    let failed = GivenUp { template: "new".into(), at: s.now, why: String::new() };
    s.record.fallback = Some(Fallback { good: "old".into(), trial: None, failed: Some(failed) });
    assert_eq!((check::unprepared(&s).count(), check::all_are_prepared(&s)), (0, Ok(())));
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
