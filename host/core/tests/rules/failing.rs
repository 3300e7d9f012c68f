//! A member that fails again and again gets a successor (`spec.members.replaceAfterFailures`, D25; docs/rules.md, "Members by identity").
use super::super::support::db;
use super::super::support::policies::Natural;
use super::super::support::world::World;
use super::checks::intent;
use super::membership::agreeing;
use super::resize::ill;
use std::collections::BTreeSet;
use tanist_core::check::{self, Rule};
use tanist_core::contract::{Failure, Outcome, Phase, Role};
use tanist_core::decide::decide;
use tanist_core::plan::{Plan, Reason};
use tanist_core::record::{Seats, Verb};
use tanist_core::snapshot::{Group, Moving, Snapshot, Strategy};
use tanist_core::status::{Kind, PolicyHealth, Truth, UpdatePhase, report};

/// Members by identity, of whom db-2 has failed that often, and rests before the next try.
fn failing_of(world: &mut World, failures: u32) -> Snapshot {
    let mut s = world.observe();
    s.group = Group { makes_pods: true, replace_after: 5, ..s.group };
    s.record.seats = Some(Seats { numbers: BTreeSet::from([0, 1, 2]), next: 3, ..Seats::default() });
    s.members[2].reading.role = Role::Stopped;
    s.members[2].pod.as_mut().unwrap().ready = false;
    let at = s.now;
    for _ in 0..failures {
        let failure = Failure { command: "secondary".into(), outcome: Outcome::Exited(1), at };
        s.record.member_mut(&db(2)).record_failure(failure);
    }
    s
}

fn failing(failures: u32) -> Snapshot {
    failing_of(&mut World::settled(10_000), failures)
}

/// The numbers of those in whose place new ones come because they fail, after checking that nobody else is among the replaced.
fn called(plan: &Plan) -> Vec<u32> {
    let seats = plan.record.seats.as_ref().unwrap();
    let replaced: Vec<u32> = seats.replaced.keys().copied().collect();
    assert_eq!(replaced, seats.failing.iter().copied().collect::<Vec<_>>());
    replaced
}

fn said(plan: &Plan) -> String {
    let all = plan.waits.iter().filter(|wait| wait.reason == Reason::ReplacementPending);
    all.map(|wait| wait.message.clone()).collect()
}

#[test]
fn who_fails_again_and_again_gets_a_successor() {
    let plan = decide(&failing(5), &Natural);
    assert_eq!(called(&plan), [2]);
    assert!(said(&plan).contains("5 commands in a row failed in it"), "{}", said(&plan));
    assert_eq!(called(&decide(&failing(4), &Natural)), [0; 0], "it is tried again first");
    let change = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = failing(7);
        change(&mut s);
        let plan = decide(&s, &Natural);
        assert_eq!(said(&plan), "", "{:?} {:?}", s.members[2].pod, s.members[2].reading);
        called(&plan)
    };
    assert_eq!(change(&|s| s.group.replace_after = 0), [0; 0], "that is the default");
    assert_eq!(
        change(&|s| s.members[2].pod.as_mut().unwrap().lacked_memory = true),
        [0; 0],
        "a new one would lack it, too"
    );
    assert_eq!(change(&|s| s.members[2].reading.role = Role::Secondary), [0; 0], "it works");
    assert_eq!(
        change(&|s| (s.members[2].reading.role, s.members[2].reading.since) = (Role::Starting, s.now)),
        [0; 0],
        "it is being tried"
    );
    assert_eq!(
        change(&|s| s.members[2].pod.as_mut().unwrap().phase = Phase::Unreachable),
        [0; 0],
        "its node is silent"
    );
    let older = |s: &mut Snapshot| {
        let pod = s.members[2].pod.as_mut().unwrap();
        (pod.older_template, pod.outdated) = (true, true);
    };
    let waits = |s: &mut Snapshot| {
        let pod = s.members[2].pod.as_mut().unwrap();
        pod.phase = Phase::Pending;
        pod.containers.clear();
    };
    assert_eq!(change(&waits), [0; 0], "its pod does not run, so nothing fails in it");
    assert_eq!(
        change(&|s| s.record.member_mut(&db(2)).term = None),
        [0; 0],
        "it was never in a role: the next one might fail alike"
    );
    let mut s = failing(7);
    older(&mut s);
    assert!(!check::fails_again_and_again(&s, &s.members[2]), "another template comes first");
    s.group.makes_pods = false;
    assert!(!check::fails_again_and_again(&s, &s.members[2]));
}

#[test]
fn nobody_is_replaced_where_that_is_not_allowed_and_it_is_said() {
    let refused = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = failing(5);
        change(&mut s);
        check::replace_failing(&s, &s.members[2]).map_err(|violation| violation.rule)
    };
    assert_eq!(refused(&|_| ()), Ok(()));
    assert_eq!(refused(&|s| s.group.paused = true), Err(Rule::AdministratorDecides));
    assert_eq!(refused(&|s| s.group.update.replacements = 0), Err(Rule::AdministratorDecides));
    assert_eq!(
        refused(&|s| (s.group.primaries, s.group.commands.secondary) = (3, None)),
        Err(Rule::AdministratorDecides),
        "nobody could copy the data"
    );
    assert_eq!(refused(&|s| s.group.update.strategy = Strategy::SideBySide), Err(Rule::AdministratorDecides));
    let serves_no_more = |s: &mut Snapshot| s.members[0].reading.role = Role::Stopped;
    assert!(refused(&serves_no_more).is_err());
    // A fault of all replaces nobody: the rest has to be well.
    let too = |s: &mut Snapshot| s.members[1].reading.role = Role::Stopped;
    assert_eq!(refused(&too), Err(Rule::NotAtRest));
    let new = |s: &mut Snapshot| {
        s.members[1].reading.role = Role::Stopped;
        s.record.member_mut(&db(1)).term = None;
    };
    assert_eq!(refused(&new), Err(Rule::NotAtRest), "also one that was never in a role");
    let older = |s: &mut Snapshot| {
        let pod = s.members[1].pod.as_mut().unwrap();
        (pod.older_template, pod.outdated) = (true, true);
    };
    assert_eq!(refused(&older), Err(Rule::NotAtRest), "it may be the template that fails");
    let paused = |s: &mut Snapshot| {
        older(s);
        s.group.update.mode = tanist_core::snapshot::Mode::Paused;
    };
    assert_eq!(refused(&paused), Ok(()), "nobody gets it for now");
    let leaves = |s: &mut Snapshot| s.group.unwanted = BTreeSet::from([1]);
    assert_eq!(
        refused(&leaves),
        Ok(()),
        "who leaves waits until all that stay are in their roles, and this one never is"
    );
    let moves = |s: &mut Snapshot| {
        leaves(s);
        s.moving = Some(Moving { to_pods: false, set: None });
    };
    assert_eq!(refused(&moves), Err(Rule::NotAtRest), "the kind of the members changes first");
    let busy = |s: &mut Snapshot| s.record.intents = vec![intent(s, Verb::Place, 1)];
    assert_eq!(refused(&busy), Err(Rule::MemberBusy));
    let mut s = failing(5);
    serves_no_more(&mut s);
    let plan = decide(&s, &Natural);
    assert_eq!(called(&plan), [0; 0]);
    assert!(said(&plan).starts_with("db-2 is"), "{}", said(&plan));
}

// D25: only if the rest keeps its quorum.
#[test]
fn of_members_that_agree_the_rest_needs_a_majority() {
    let held = |s: &Snapshot| check::replace_failing(s, &s.members[2]).map_err(|violation| violation.rule);
    // All of them are primaries, or one is.
    for primaries in [3, 1] {
        let mut s = failing_of(&mut agreeing(primaries), 5);
        assert_eq!(held(&s), Ok(()), "of {primaries}");
        ill(&mut s, 1);
        assert_eq!(held(&s), Err(Rule::QuorumAtRisk));
    }
}

/// The same when db-3 was called for db-2, and works or not.
fn succeeded(works: bool) -> Snapshot {
    let mut s = failing(5);
    let seats = s.record.seats.as_mut().unwrap();
    seats.numbers.insert(3);
    (seats.replaced, seats.failing, seats.next) = ([(2, 3)].into(), BTreeSet::from([2]), 4);
    let (mut new, known) = (s.members[1].clone(), s.record.member(&db(1)).clone());
    (new.name, new.ordinal) = (db(3), 3);
    new.pod.as_mut().unwrap().uid = "uid-db-3".into();
    if works {
        *s.record.member_mut(&db(3)) = known;
    } else {
        new.reading.role = Role::Stopped;
    }
    s.members.push(new);
    s
}

fn leaving(plan: &Plan) -> Vec<u32> {
    plan.record.seats.iter().flat_map(|seats| seats.leaving.iter().copied()).collect()
}

#[test]
fn it_leaves_when_the_new_one_works_and_stays_if_it_works_itself() {
    let plan = decide(&succeeded(false), &Natural);
    assert_eq!((called(&plan), leaving(&plan)), (vec![2], vec![]));
    assert!(said(&plan).contains("a new member comes in place of db-2"), "{}", said(&plan));
    assert!(plan.waits.iter().all(|wait| wait.reason != Reason::Updating), "it is no update: {:?}", plan.waits);
    let plan = decide(&succeeded(true), &Natural);
    assert_eq!((called(&plan), leaving(&plan)), (vec![], vec![2]));
    // It works again: the new one is not needed, and goes.
    let mut back = succeeded(true);
    back.members[2] = World::settled(10_000).observe().members[2].clone();
    back.record.member_mut(&db(2)).record_success();
    let plan = decide(&back, &Natural);
    assert_eq!((called(&plan), leaving(&plan)), (vec![], vec![]));
    // An update that is paused or left to somebody holds up no repair.
    let mut paused = succeeded(true);
    paused.group.update.mode = tanist_core::snapshot::Mode::Paused;
    assert_eq!(leaving(&decide(&paused, &Natural)), [2]);
    let mut changed = paused.clone();
    changed.group.update.strategy = Strategy::Replace;
    let pod = changed.members[2].pod.as_mut().unwrap();
    (pod.older_template, pod.outdated) = (true, true);
    assert_eq!(leaving(&decide(&changed, &Natural)), [2], "also if the template changed meanwhile");
    // One that works again has another template by now: it waits for that like all others.
    let mut again = paused.clone();
    again.members[2] = World::settled(10_000).observe().members[2].clone();
    again.record.member_mut(&db(2)).record_success();
    again.group.update.strategy = Strategy::Replace;
    let pod = again.members[2].pod.as_mut().unwrap();
    (pod.older_template, pod.outdated) = (true, true);
    assert_eq!(leaving(&decide(&again, &Natural)), [0; 0]);
}

#[test]
fn a_group_that_replaces_a_member_is_progressing() {
    let s = failing(5);
    let report = report(&s, &decide(&s, &Natural), &PolicyHealth::Active(String::new()), None);
    let progressing = report.conditions.iter().find(|c| c.kind == Kind::Progressing).unwrap();
    assert_eq!(progressing.status, Truth::True);
    assert_eq!((report.update.0, report.updated), (UpdatePhase::Done, 3), "it is no rollout");
}
