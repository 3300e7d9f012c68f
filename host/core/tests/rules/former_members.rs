//! Members that agree, whose pods the operator makes: one in whose place a new one comes stays until that one works (B8, D11, D25), and goes first only where it is in the way (D8).
use super::super::support::policies::Natural;
use super::super::support::{db, sequence};
use super::division::{seats, zones};
use super::membership::agreeing_of;
use super::replace::{called, set};
use super::resize::{ill, relist};
use std::collections::BTreeMap;
use tanist_core::check::{self, Rule};
use tanist_core::contract::{Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::policy::Point;
use tanist_core::record::{GroupSize, Seats};
use tanist_core::snapshot::{Group, Snapshot};

/// Three members are desired, and all are primaries. db-3 has come in the place of db-2, which serves on beside the others.
fn one_serves_on() -> Snapshot {
    let mut s = agreeing_of(4, 4).observe();
    let requested = GroupSize { replicas: 3, primaries: 3 };
    s.group = Group { makes_pods: true, replicas: 3, primaries: 3, requested, ..s.group };
    s.record.seats = Some(Seats { numbers: set(&[0, 1, 2, 3]), replaced: called(&[2]), next: 4, ..Seats::default() });
    s.members.iter_mut().for_each(|member| member.position = Position::Known(sequence("9")));
    s
}

// D11: where members agree it serves on until it is removed, so no question arises whom to stop. Otherwise the group would be stalled, for nobody may be chosen.
#[test]
fn nobody_is_asked_whom_to_stop_while_a_former_member_serves_on() {
    let plan = decide(&one_serves_on(), &Natural);
    assert!(plan.decisions.iter().all(|decision| decision.point != Point::Demote), "{:?}", plan.decisions);
    assert_eq!(plan.stalled, None);
    // Nor while another one leaves, too, and is still listed.
    let mut two = agreeing_of(5, 5).observe();
    two.group = Group { makes_pods: true, ..one_serves_on().group };
    let seats = Seats { numbers: set(&[0, 1, 2, 3, 4]), leaving: set(&[1]), next: 5, ..Seats::default() };
    two.record.seats = Some(Seats { replaced: called(&[2]), ..seats });
    two.members.iter_mut().for_each(|member| member.position = Position::Known(sequence("9")));
    let plan = decide(&two, &Natural);
    assert!(plan.decisions.iter().all(|decision| decision.point != Point::Demote), "{:?}", plan.decisions);
    assert_eq!(plan.stalled, None);
}

// D11: it does not count among those that serve for good: one that was removed serves on beside it until as many as desired do.
#[test]
fn a_former_member_that_serves_on_takes_no_other_ones_place() {
    let mut s = one_serves_on();
    s.record.seats.as_mut().unwrap().leaving = set(&[3]);
    for heard in s.lists.values_mut() {
        heard.list.as_mut().unwrap().entries.retain(|entry| entry.name != Some(db(3)));
    }
    s.record.membership.as_mut().unwrap().members.retain(|listed| listed.member != Some(db(3)));
    let of = |s: &Snapshot| check::demote_member(s, &s.serving(), &s.members[3]).map_err(|violation| violation.rule);
    assert_eq!(of(&s), Err(Rule::NotSurplus), "db-0 and db-1 serve, and db-2 on its way out");
    s.record.seats.as_mut().unwrap().replaced.clear();
    assert_eq!(of(&s), Ok(()));
}

// C74: nor does it stand for one that is down.
#[test]
fn a_former_member_that_serves_on_stands_for_nobody() {
    let mut s = one_serves_on();
    let of = |s: &Snapshot| check::rebalance_group(s).map_err(|violation| violation.rule);
    assert_ne!(of(&s), Err(Rule::NobodyServes));
    s.members[1].reading.role = Role::Stopped;
    assert_eq!(of(&s), Err(Rule::NobodyServes));
}

// D25: it is one of the desired members meanwhile, so nothing is overdue because of it.
#[test]
fn a_former_member_that_stays_is_desired_meanwhile() {
    let mut s = one_serves_on();
    let overdue = |s: &Snapshot| decide(s, &Natural).record.resizing.map(|resizing| resizing.target);
    assert_eq!(overdue(&s), None);
    s.record.seats.as_mut().unwrap().replaced.clear();
    assert_eq!(overdue(&s), Some(3), "without it one of the four is too many");
}

/// Four members without learners are desired in zone b. db-2 is in zone a and does not work; a new member is to come in its place.
fn one_does_not_work() -> Snapshot {
    let mut s = agreeing_of(4, 1).observe();
    s.group = Group { makes_pods: true, zones: zones("b"), ..s.group };
    s.record.seats = Some(Seats { replaced: BTreeMap::from([(2, 4)]), ..seats("b: 0 1 3, a: 2") });
    (s.members[2].reading.role, s.members[2].pod.as_mut().unwrap().phase) = (Role::Unknown, Phase::Pending);
    ill(&mut s, 2);
    s
}

// D8: one that does not work goes first only where it is in the way: it has a vote, and too few are healthy for one vote more. Otherwise the new member joins before it leaves.
#[test]
fn one_that_does_not_work_stays_where_it_is_in_nobodys_way() {
    let goes = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = one_does_not_work();
        change(&mut s);
        check::leaves_its_place(&s, &s.members[2]).map_err(|violation| violation.rule)
    };
    assert_eq!(goes(&|s| ill(s, 3)), Ok(()), "two of four are healthy, and of five three would have to be");
    assert_eq!(goes(&|_| ()), Err(Rule::StayersFirst), "three of four are healthy: as many as five need");
    let unlisted = |s: &mut Snapshot| {
        ill(s, 3);
        relist(s, None);
    };
    assert_eq!(goes(&unlisted), Err(Rule::StayersFirst), "it has no vote: without it as few are healthy");
}
