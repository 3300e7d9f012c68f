//! How long a former member stays beside the new one, and what its update counts as meanwhile (B8, E14, E32, E35, A50; docs/rules.md, "Update: successors").
use super::super::support::db;
use super::super::support::policies::Natural;
use super::checks::intent;
use super::division::{seats, zones};
use super::replace::{arriving, at, begun, called, old, replaced, rule, set};
use tanist_core::check::{self, Rule};
use tanist_core::contract::Role;
use tanist_core::decide::decide;
use tanist_core::record::{Seats, Verb};
use tanist_core::snapshot::{Evidence, Mode, Snapshot};
use tanist_core::status::{PolicyHealth, UpdatePhase, report};

/// Whether db-2 may go, in whose place a new member comes.
fn goes(s: &Snapshot) -> Result<(), Rule> {
    rule(check::leaves_its_place(s, at(s, 2)))
}

/// New members have come in the place of db-1 and db-2, and work.
fn two_begun() -> Snapshot {
    let mut s = begun();
    let mut new = s.members[3].clone();
    (new.name, new.ordinal) = (db(4), 4);
    new.pod.as_mut().unwrap().uid = "uid-db-4".into();
    let known = s.record.member(&db(3)).clone();
    *s.record.member_mut(&db(4)) = known;
    s.members.push(new);
    s.record.seats =
        Some(Seats { numbers: set(&[0, 1, 2, 3, 4]), replaced: called(&[1, 2]), next: 5, ..Seats::default() });
    s
}

// B8: also where as many others as desired work, the next one goes when the one before is gone.
#[test]
fn one_after_the_other_leaves() {
    let mut s = two_begun();
    assert_eq!(goes(&s), Ok(()));
    let seats = s.record.seats.as_mut().unwrap();
    (seats.replaced, seats.leaving) = (called(&[2]), set(&[1]));
    let why = check::leaves_its_place(&s, at(&s, 2)).unwrap_err();
    assert_eq!((why.rule, why.message.as_str()), (Rule::StayersFirst, "db-1 leaves first"));
}

// E32: nobody has the watched template yet, because the pod of the first new member is not made yet.
#[test]
fn nobody_is_called_beside_the_first_one_that_is_to_be_watched() {
    let mut s = old();
    (s.group.update.canary, s.group.update.template, s.group.update.replacements) = (30, "t2".into(), 2);
    s.record.seats.as_mut().unwrap().replaced = called(&[2]);
    assert_eq!(replaced(&s, 1), Err(Rule::NotAtRest));
    s.group.update.canary = 0;
    assert_eq!(replaced(&s, 1), Ok(()), "nobody is watched");
}

// E35: a start whose end nobody knows copies nothing, as far as anybody can say. So it is no reason to wait longer for the template.
#[test]
fn a_start_whose_end_nobody_knows_is_no_arrival() {
    let arrives = |evidence: Evidence| {
        let mut s = arriving();
        let start = intent(&s, Verb::Place, 3);
        s.evidence.insert(start.token.clone(), evidence);
        s.record.intents.push(start);
        (check::is_arriving(&s, at(&s, 3)), check::fails_with_template(&s, at(&s, 3)).is_some())
    };
    assert_eq!(arrives(Evidence::Running), (true, false));
    assert_eq!(arrives(Evidence::Unknown("the stream broke".into())), (false, true));
}

// A50: all that stay have the template, and the former member is not gone yet.
#[test]
fn an_update_goes_on_until_the_former_member_is_gone() {
    let phase = |s: &Snapshot| report(s, &decide(s, &Natural), &PolicyHealth::Active(String::new()), None).update.0;
    let mut s = begun();
    for member in s.members.iter_mut().take(2) {
        let pod = member.pod.as_mut().unwrap();
        (pod.older_template, pod.outdated) = (false, false);
    }
    let seats = s.record.seats.as_mut().unwrap();
    (seats.replaced, seats.leaving) = (called(&[]), set(&[2]));
    assert_eq!(phase(&s), UpdatePhase::Rollout);
    let seats = s.record.seats.as_mut().unwrap();
    (seats.numbers, seats.leaving) = (set(&[0, 1, 3]), set(&[]));
    s.members.remove(2);
    assert_eq!(phase(&s), UpdatePhase::Done);
}

// E14: one that moves goes when the new one works, also where its template would call for a new member, too: what holds up an update does not hold up the move.
#[test]
fn one_that_moves_waits_for_no_update() {
    let mut s = begun();
    s.group.update.mode = Mode::Paused;
    assert_eq!(goes(&s), Err(Rule::AdministratorDecides), "it goes for the template");
    s.group.zones = zones("b");
    s.record.seats = Some(Seats { replaced: called(&[2]), ..seats("a: 0 1 2, b: 3") });
    assert!(check::is_replaced(&s, at(&s, 2)) && check::is_misplaced(&s, at(&s, 2)));
    assert_eq!(goes(&s), Ok(()));
}

// B8: updates are left to the user meanwhile, and the former member does not work. The new one has its place.
#[test]
fn with_updates_by_hand_one_that_does_not_work_leaves() {
    let mut s = begun();
    s.group.update.mode = Mode::ByHand;
    s.members[2].reading.role = Role::Stopped;
    assert!(check::is_replaced(&s, at(&s, 2)), "its template calls for a new member still");
    assert_eq!(goes(&s), Ok(()));
}

// B8: with 0 members desired nobody works in its place, so it comes back with the group, also if it is in no role.
#[test]
fn nobody_leaves_its_place_in_a_group_that_is_stopped() {
    let mut s = begun();
    s.members[2].reading.role = Role::Stopped;
    assert_eq!(goes(&s), Ok(()));
    (s.group.replicas, s.group.requested.replicas) = (0, 0);
    assert_eq!(goes(&s), Err(Rule::StayersFirst));
}
