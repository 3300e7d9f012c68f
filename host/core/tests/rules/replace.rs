//! When a new member comes in the place of one, because the template changed (B7 to B10; docs/rules.md, "Update").
use super::super::support::db;
use super::super::support::policies::{At, Lead, Natural};
use super::super::support::world::World;
use super::checks::intent;
use std::collections::{BTreeMap, BTreeSet};
use tanist_core::check::{self, Rule, Violation};
use tanist_core::contract::{Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::plan::{Action, Plan, Reason};
use tanist_core::policy::Point;
use tanist_core::record::{Event, LastPrimary, Seats, Switchover, Verb};
use tanist_core::snapshot::{Member, Mode, Moving, Snapshot, Strategy};
use tanist_core::status::{Kind, PolicyHealth, report};

pub(super) fn set(numbers: &[u32]) -> BTreeSet<u32> {
    numbers.iter().copied().collect()
}

/// Members in whose place new ones come, from db-3 on.
pub(super) fn called(numbers: &[u32]) -> BTreeMap<u32, u32> {
    numbers.iter().map(|number| (*number, 3)).collect()
}

/// A primary, db-0, and two secondaries, whose pods the operator makes. All have an older template, and new members come in their place.
pub(super) fn old() -> Snapshot {
    let mut world = World::settled(10_000);
    (0..3).for_each(|ordinal| world.older(ordinal));
    let mut s = world.observe();
    s.group.makes_pods = true;
    s.group.update.strategy = Strategy::Replace;
    s.record.seats = Some(Seats { numbers: set(&[0, 1, 2]), next: 3, ..Seats::default() });
    s
}

/// db-3 has come in the place of db-2: it works with the present template.
pub(super) fn begun() -> Snapshot {
    let mut s = old();
    s.record.seats = Some(Seats { numbers: set(&[0, 1, 2, 3]), replaced: called(&[2]), next: 4, ..Seats::default() });
    let mut new = s.members[2].clone();
    (new.name, new.ordinal) = (db(3), 3);
    let pod = new.pod.as_mut().unwrap();
    (pod.older_template, pod.outdated, pod.uid) = (false, false, "uid-db-3".into());
    let known = s.record.member(&db(2)).clone();
    *s.record.member_mut(&db(3)) = known;
    s.members.push(new);
    s
}

/// db-3 was made and has not joined yet.
pub(super) fn arriving() -> Snapshot {
    let mut s = begun();
    s.record.members.remove(&db(3));
    s.members[3].reading.role = Role::Stopped;
    s.members[3].pod.as_mut().unwrap().ready = false;
    s.members[3].position = Position::Empty;
    s
}

pub(super) fn at(s: &Snapshot, ordinal: usize) -> &Member {
    &s.members[ordinal]
}

pub(super) fn rule(held: Result<(), Violation>) -> Result<(), Rule> {
    held.map_err(|violation| violation.rule)
}

pub(super) fn replaced(s: &Snapshot, ordinal: usize) -> Result<(), Rule> {
    rule(check::replace_member(s, at(s, ordinal)))
}

/// The numbers in whose place new members come after this round.
pub(super) fn open(plan: &Plan) -> Vec<u32> {
    plan.record.seats.iter().flat_map(|seats| seats.replaced.keys().copied()).collect()
}

/// The numbers of those that leave after this round.
pub(super) fn leaving(plan: &Plan) -> Vec<u32> {
    plan.record.seats.iter().flat_map(|seats| seats.leaving.iter().copied()).collect()
}

pub(super) fn deleted(plan: &Plan) -> usize {
    plan.actions.iter().filter(|action| matches!(action, Action::DeletePod { .. })).count()
}

// B6, B8: each strategy, for a primary and a secondary; and a StatefulSet, whose members cannot be replaced one by one.
#[test]
fn a_strategy_says_in_whose_place_new_members_come() {
    let with = |strategy, change: &dyn Fn(&mut Snapshot)| {
        let mut s = old();
        s.group.update.strategy = strategy;
        change(&mut s);
        [0, 1, 2].map(|ordinal| check::is_replaced(&s, at(&s, ordinal)))
    };
    assert_eq!(with(Strategy::Recreate, &|_| ()), [false; 3]);
    assert_eq!(with(Strategy::Replace, &|_| ()), [true; 3]);
    assert_eq!(with(Strategy::ReplacePrimaries, &|_| ()), [true, false, false]);
    assert_eq!(with(Strategy::Replace, &|s| s.group.makes_pods = false), [false; 3]);
    // B7: whatever the strategy, what changed may call for a new member.
    let needs = |s: &mut Snapshot| s.members[1].pod.as_mut().unwrap().needs_new_member = true;
    assert_eq!(with(Strategy::Recreate, &needs), [false, true, false]);
    assert_eq!(with(Strategy::ReplacePrimaries, &needs), [true, true, false]);
    assert_eq!(
        with(Strategy::Replace, &|s| s.members[1].pod.as_mut().unwrap().older_template = false),
        [true, false, true]
    );
    let never = |s: &mut Snapshot| s.record.member_mut(&db(1)).term = None;
    assert_eq!(with(Strategy::Replace, &never), [true, false, true], "it has nothing that another one could take over");
}

// B8, B10: no pod is deleted. From the next round on another member is desired in its place, and nothing in this round rests on that.
#[test]
fn a_new_member_is_called_before_anything_else_happens() {
    let s = old();
    let plan = decide(&s, &Natural);
    assert_eq!((open(&plan), deleted(&plan)), (vec![2], 0), "the highest number first");
    assert!(plan.noted(&s.record).any(|noted| Event::ReplacementBegun.is(&noted.what) && noted.member == Some(db(2))));
    assert_eq!(plan.wake_at(), Some(s.now + 1));
    let said = plan.waits.iter().find(|wait| wait.reason == Reason::Updating).unwrap();
    assert_eq!(said.message, "0 of 3 pods have the present template; a new member comes in place of db-2");
    let mut next = Snapshot { record: plan.record, ..s };
    let plan = decide(&next, &Natural);
    assert_eq!((open(&plan), deleted(&plan)), (vec![2], 0), "one at a time");
    assert_eq!(plan.record.seats.map(|seats| seats.numbers), Some(set(&[0, 1, 2, 3])));
    next.record.seats.as_mut().unwrap().numbers = set(&[0, 1, 2, 3]);
    assert!(!next.leaves(at(&next, 2)), "it stays until that one works");
    assert_eq!(next.roster().desired(), 4);
}

// B9, B10: over the limit nobody is replaced, and nobody falls back to a new pod.
#[test]
fn over_the_limit_members_wait() {
    let limited = |most: u32, open: &[u32], ordinal: usize| {
        let mut s = old();
        s.group.update.replacements = most;
        s.record.seats.as_mut().unwrap().replaced = called(open);
        (replaced(&s, ordinal), deleted(&decide(&s, &Natural)))
    };
    assert_eq!(limited(1, &[], 2), (Ok(()), 0));
    assert_eq!(limited(0, &[], 2), (Err(Rule::AdministratorDecides), 0));
    assert_eq!(limited(1, &[1], 2), (Err(Rule::NotAtRest), 0));
    assert_eq!(limited(2, &[1], 2), (Ok(()), 0));
    let mut s = old();
    for change in [0, 1] {
        s.members[2].reading.role = if change == 0 { Role::Secondary } else { Role::Stopped };
        assert_eq!(rule(check::update_member(&s, at(&s, 2))), Err(Rule::NotAtRest), "its pod stays");
        assert_eq!(rule(check::update_idle(&s, at(&s, 2))), Err(Rule::NotAtRest));
    }
}

// B9: of two at a time the second one does not wait until the new member of the first one works; everybody else has to.
#[test]
fn two_may_be_replaced_at_a_time() {
    let mut s = arriving();
    assert_eq!(replaced(&s, 1), Err(Rule::NotAtRest));
    s.group.update.replacements = 2;
    assert_eq!(replaced(&s, 1), Ok(()));
    s.members[0].pod.as_mut().unwrap().ready = false;
    assert_eq!(replaced(&s, 1), Err(Rule::NotAtRest), "db-0 is not Ready");
}

// B8: a second call would forget which new member came for the first one.
#[test]
fn nobody_is_called_twice() {
    let mut s = arriving();
    s.group.update.replacements = 2;
    let why = check::replace_member(&s, at(&s, 2)).unwrap_err();
    assert_eq!((why.rule, why.message.as_str()), (Rule::NotAtRest, "a new member comes in place of db-2"));
}

// C74: the rules for a member that works.
#[test]
fn a_member_that_works_is_replaced_only_while_nothing_else_is_going_on() {
    let of_two = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = old();
        change(&mut s);
        replaced(&s, 2)
    };
    assert_eq!(of_two(&|_| ()), Ok(()));
    assert_eq!(of_two(&|s| s.group.update.mode = Mode::Paused), Err(Rule::AdministratorDecides));
    assert_eq!(of_two(&|s| s.members[2].pod.as_mut().unwrap().outdated = false), Err(Rule::NotAtRest));
    assert_eq!(of_two(&|s| s.group.update.strategy = Strategy::Recreate), Err(Rule::NotAtRest));
    assert_eq!(of_two(&|s| s.moving = Some(Moving { to_pods: true, set: None })), Err(Rule::NotAtRest));
    assert_eq!(of_two(&|s| s.group.replicas = 2), Err(Rule::NotAtRest), "it leaves itself");
    assert_eq!(of_two(&|s| s.group.unwanted = set(&[1])), Err(Rule::NotAtRest), "db-1 leaves");
    assert_eq!(of_two(&|s| s.members[1].reading.role = Role::Stopped), Err(Rule::NotAtRest));
    let busy = |s: &mut Snapshot| {
        let open = intent(s, Verb::Follow, 1);
        s.record.intents.push(open);
    };
    assert_eq!(of_two(&busy), Err(Rule::MemberBusy));
    let (from, why) = (db(0), String::new());
    let open =
        Switchover { from, to: None, chosen: None, why, term: 1, floor: None, begun: Some(1), led: None, failed: 0 };
    assert_eq!(of_two(&|s| s.record.switchover = Some(open.clone())), Err(Rule::NotAtRest), "the lead moves");
    assert_eq!(of_two(&|s| s.members[0].reading.role = Role::Stopped), Err(Rule::NobodyServes));
    assert_eq!(of_two(&|s| s.group.primaries = 2), Err(Rule::NobodyServes));
    let rested = |wait: u32, uptime: u32| {
        of_two(&move |s: &mut Snapshot| {
            (s.group.update.wait, s.group.update.min_uptime) = (wait, uptime);
            let since = s.now;
            s.members.iter_mut().skip(1).for_each(|m| m.pod.as_mut().unwrap().phase_since = since - 9);
        })
    };
    assert_eq!(
        (rested(9, 9), rested(10, 0), rested(0, 10)),
        (Ok(()), Err(Rule::ChangedRecently), Err(Rule::ChangedRecently))
    );
}

// C74: a failover may be about to begin: db-1 follows, and nothing proves that what led in a former pod of it is over.
#[test]
fn nobody_is_replaced_while_another_member_may_be_primary() {
    let mut s = old();
    s.record.push_last_primary(LastPrimary {
        member: db(1),
        pod_uid: "gone".into(),
        container: "db".into(),
        container_id: "c".into(),
        node: None,
        grace: 10,
        gone: None,
    });
    assert_eq!(replaced(&s, 2), Err(Rule::MayBePrimary));
}

// E5: one that does not work is replaced at once, whatever the others do; but somebody has to be there whom the new one can join. While nobody serves its pod may go, for that may be the cure.
#[test]
fn a_member_that_does_not_work_is_replaced_first() {
    let mut s = old();
    s.members[1].reading.role = Role::Stopped;
    s.members[2].pod.as_mut().unwrap().ready = false;
    assert_eq!(replaced(&s, 1), Ok(()));
    assert_eq!(open(&decide(&s, &Natural)), [1]);
    let mut down = s.clone();
    down.members[0].reading.role = Role::Stopped;
    assert_eq!(replaced(&down, 1), Err(Rule::NobodyServes));
    let mut dead = down.clone();
    dead.members.iter_mut().for_each(|m| m.reading.role = Role::Stopped);
    dead.record.last_primaries.clear();
    dead.record.member_mut(&db(1)).failures = 1;
    assert_eq!(rule(check::update_idle(&dead, at(&dead, 1))), Ok(()));
}

// E32: the only primary is the last one, and nobody takes the lead from it before its successor is there.
#[test]
fn the_primary_is_replaced_last() {
    let mut s = old();
    assert_eq!(replaced(&s, 0), Err(Rule::PrimaryLast));
    assert_eq!(rule(check::gives_up_lead(&s, at(&s, 0))), Err(Rule::NotAtRest));
    (1..3).for_each(|at| s.members[at].pod.as_mut().unwrap().older_template = false);
    assert_eq!(replaced(&s, 0), Ok(()));
    assert!(check::lead_cause(&s).is_none(), "its successor has to come first");
    let mut other = begun();
    other.group.update.replacements = 2;
    (0..4).filter(|at| *at != 0).for_each(|at| other.members[at].pod.as_mut().unwrap().older_template = false);
    assert_eq!(replaced(&other, 0), Err(Rule::PrimaryLast), "db-2 is on its way out");
}

// E5, B9: within the limit one that is down goes before one that works, which stays; the new member comes in its place.
#[test]
fn a_member_that_is_down_goes_first() {
    let mut s = arriving();
    assert_eq!(replaced(&s, 1), Err(Rule::NotAtRest));
    s.members[1].pod.as_mut().unwrap().phase = Phase::Pending;
    assert_eq!(replaced(&s, 1), Ok(()));
    let plan = decide(&s, &Natural);
    assert_eq!(
        (open(&plan), plan.record.seats.as_ref().map(|seats| seats.replaced.clone())),
        (vec![1], Some(called(&[1])))
    );
    s.members[2].pod.as_mut().unwrap().phase = Phase::Pending;
    assert_eq!(replaced(&s, 1), Err(Rule::NotAtRest), "db-2 is down, too");
    s.group.update.replacements = 0;
    assert_eq!(replaced(&s, 1), Err(Rule::AdministratorDecides));
}

// E32: nobody is let go in the round in which the pod of another one is deleted.
#[test]
fn a_member_whose_pod_is_deleted_takes_no_place() {
    let mut s = begun();
    let pod = s.members[3].pod.as_mut().unwrap();
    (pod.older_template, pod.outdated) = (true, true);
    let plan = decide(&s, &Natural);
    assert_eq!((deleted(&plan), leaving(&plan)), (1, vec![]));
}

// D15: a list has room for 64 members.
#[test]
fn members_that_agree_are_never_more_than_a_list_has_room_for() {
    let mut s = old();
    s.group.commands.membership = Some(super::super::support::setting::members(false));
    (s.group.replicas, s.group.update.replacements) = (64, 64);
    assert_eq!(
        check::replace_member(&s, at(&s, 2)).unwrap_err().message,
        "the application may have at most 64 members, and it has as many"
    );
}

// B8: without a command for it a new member could copy no data before it is the primary.
#[test]
fn without_secondaries_a_single_primary_gets_a_new_pod() {
    let of = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = old();
        s.group.commands.secondary = None;
        change(&mut s);
        check::is_replaced(&s, at(&s, 0))
    };
    assert_eq!((of(&|_| ()), of(&|s| s.group.primaries = 3)), (false, false));
    assert!(of(&|s| s.group.commands.membership = Some(super::super::support::setting::members(false))));
}

// B10: what calls for a new place calls for it also while nobody serves: the pod may be bound to the volumes of a node that the template excludes. With a limit of 0 no pod goes either.
#[test]
fn without_a_primary_a_pod_stays_that_could_not_come_back() {
    let of = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = old();
        s.members.iter_mut().for_each(|m| m.reading.role = Role::Stopped);
        s.record.last_primaries.clear();
        s.record.member_mut(&db(1)).failures = 1;
        change(&mut s);
        rule(check::update_idle(&s, at(&s, 1)))
    };
    assert_eq!(of(&|_| ()), Ok(()));
    assert_eq!(of(&|s| s.members[1].pod.as_mut().unwrap().needs_new_member = true), Err(Rule::NotAtRest));
    assert_eq!(of(&|s| s.group.update.replacements = 0), Err(Rule::NotAtRest));
}

// P52: a policy that holds up updates does not hold up the cure of one that does not run.
#[test]
fn a_member_that_does_not_run_waits_for_no_policy() {
    let mut s = old();
    let policy = || At(Point::Update, Lead::Waits(None));
    assert_eq!(open(&decide(&s, &policy())), [0; 0]);
    s.members[1].pod.as_mut().unwrap().phase = Phase::Pending;
    assert_eq!(open(&decide(&s, &policy())), [1]);
}

// Users read by which way a member gets the template.
#[test]
fn the_status_says_in_whose_place_new_members_come() {
    let mut s = old();
    s.group.update.strategy = Strategy::ReplacePrimaries;
    let told = report(&s, &decide(&s, &Natural), &PolicyHealth::Active("natural 1".into()), None);
    let said = told.conditions.iter().find(|c| c.kind == Kind::UpdatePending).unwrap();
    assert_eq!(
        said.message,
        "db-0: older template; new members come in their place; db-1, db-2: older template; they get new pods one after the other, the primary last"
    );
}
