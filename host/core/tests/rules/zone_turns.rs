//! Who in a wrong zone has to wait, and who of them is next (E14; docs/rules.md, "Zones").
use super::super::support::{db, sequence};
use super::division::seats;
use super::zones::{moving, running};
use tanist_core::check::{self, Rule};
use tanist_core::contract::{Position, Role};
use tanist_core::record::Started;
use tanist_core::snapshot::{Override, Snapshot};

/// Whether a new member may be called in the place of that one.
fn moves(s: &Snapshot, ordinal: u32) -> Result<(), Rule> {
    check::move_member(s, s.member(&db(ordinal)).unwrap()).map_err(|violation| violation.rule)
}

fn next(s: &Snapshot) -> Option<u32> {
    check::next_to_move(s).map(|member| member.ordinal)
}

// E14: an administrator who has paused the group, or says who leads, decides alone.
#[test]
fn nobody_is_called_away_while_an_administrator_decides() {
    let s = running("b");
    assert_eq!(moves(&s, 2), Ok(()));
    let mut paused = s.clone();
    paused.group.paused = true;
    assert_eq!(moves(&paused, 2), Err(Rule::AdministratorDecides));
    let mut overridden = s;
    let (member, position, term) = (db(0), Position::Known(sequence("9")), overridden.record.term);
    overridden.group.requested_override = Some(Override { member, position, term, raw: "o".into() });
    assert_eq!(moves(&overridden, 2), Err(Rule::AdministratorDecides));
}

// E14: so the lead moves once.
#[test]
fn a_single_primary_waits_for_all_others_that_have_to_move() {
    let mut s = running("b");
    assert_eq!(moves(&s, 0), Err(Rule::PrimaryLast));
    s.record.seats = Some(seats("a: 0, b: 1 2"));
    assert_eq!(moves(&s, 0), Ok(()));
}

// E14: nothing is lost when one moves that is in no role.
#[test]
fn of_two_that_may_move_the_one_that_does_not_work_is_next() {
    let mut s = running("b");
    // It never was in a role, so the others do not wait for it.
    s.record.members.remove(&db(1));
    (s.members[1].reading.role, s.members[1].pod.as_mut().unwrap().ready) = (Role::Stopped, false);
    assert_eq!((moves(&s, 1), moves(&s, 2)), (Ok(()), Ok(())));
    assert_eq!(next(&s), Some(1));
}

// E14: of several primaries each may move while the others serve. Who is none moves before them, whatever its number.
#[test]
fn of_those_that_may_move_primaries_are_last() {
    let mut s = running("b");
    s.group.primaries = 2;
    s.members[2].reading.role = Role::Primary;
    assert_eq!((moves(&s, 0), moves(&s, 1), moves(&s, 2)), (Ok(()), Ok(()), Ok(())));
    assert_eq!(next(&s), Some(1));
}

// E14: who was started, or was about to be, may have the most recent data, also while its new pod has no node.
#[test]
fn only_one_that_was_never_started_has_no_place() {
    assert!(check::has_no_place(&moving(), &moving().members[3]));
    let (mut confirmed, mut begun) = (moving(), moving());
    confirmed.record.member_mut(&db(3)).term = Some(1);
    let start = Started { term: 1, target: false, before: Position::Empty, followed: false, peer_stopped: false };
    begun.record.member_mut(&db(3)).started = Some(start);
    for mut s in [confirmed, begun] {
        assert!(!check::has_no_place(&s, &s.members[3]));
        (s.group.replicas, s.group.requested.replicas) = (0, 0);
        assert!(!check::is_out(&s, &s.members[3]), "the group does not stop without it");
    }
}
