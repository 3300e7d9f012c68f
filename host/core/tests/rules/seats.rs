//! Members by identity: where the operator makes the pods itself, a member has its number for life, a number is never used twice, and any member can go (D23; docs/rules.md, "Members by identity").
use super::super::support::db;
use super::super::support::policies::Natural;
use super::super::support::setting::group;
use super::super::support::world::World;
use std::collections::{BTreeMap, BTreeSet};
use tanist_core::check::{self, Rule, ended_member, left_member, others_first};
use tanist_core::checked::recheck_deletion;
use tanist_core::contract::{Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::limits;
use tanist_core::plan::{Action, DeletionCause, Plan, Reason};
use tanist_core::record::{LastPrimary, Record, Seats, Seeded};
use tanist_core::roster::{Roster, Standing};
use tanist_core::snapshot::{Group, LeftClaim, Missing, Moving, MovingSet, Object, Snapshot};

fn set(numbers: &[u32]) -> BTreeSet<u32> {
    numbers.iter().copied().collect()
}

fn seats(numbers: &[u32], next: u32) -> Seats {
    Seats { numbers: set(numbers), next, ..Seats::default() }
}

fn own(replicas: u32, unwanted: &[u32]) -> Group {
    Group { makes_pods: true, unwanted: set(unwanted), ..group(replicas, 1) }
}

/// The members of a group of which that many are desired, with those that leave in brackets.
fn roster(known: &Seats, replicas: u32, unwanted: &[u32]) -> String {
    let (group, record) = (own(replicas, unwanted), Record { seats: Some(known.clone()), ..Record::default() });
    let shown = |standing, name| if standing == Standing::Leaving { format!("({name})") } else { name };
    let all: Vec<_> =
        Roster::new(&group, None, &record).seats().map(|seat| shown(seat.standing, seat.name.to_string())).collect();
    all.join(" ")
}

#[test]
fn who_stays_are_the_lowest_numbers_that_may_and_new_ones_never_had_a_member() {
    let three = seats(&[0, 1, 2], 3);
    assert_eq!(roster(&Seats::default(), 2, &[]), "db-0 db-1");
    assert_eq!(roster(&three, 3, &[]), "db-0 db-1 db-2");
    assert_eq!(roster(&three, 2, &[]), "db-0 db-1 (db-2)");
    assert_eq!(roster(&three, 3, &[1]), "db-0 (db-1) db-2 db-3", "another one comes in its place");
    assert_eq!(roster(&three, 2, &[1]), "db-0 (db-1) db-2", "it goes instead of the highest number");
    assert_eq!(roster(&seats(&[0, 2], 3), 3, &[1]), "db-0 db-2 db-3", "it is gone, and its number is not used again");
    assert_eq!(roster(&seats(&[0, 2], 3), 3, &[]), "db-0 db-2 db-3", "nor when nobody names it any more");
    assert_eq!(roster(&seats(&[0], 3), 2, &[3]), "db-0 db-4", "a number that is named before it is used is left out");
    assert_eq!(roster(&three, 0, &[]), "(db-0) (db-1) (db-2)");
}

// On the way back from 0 all come with their data: the most recent may be on any volume.
#[test]
fn members_of_before_a_stop_come_back_before_new_ones() {
    let mut known = seats(&[0, 2, 5], 6);
    known.remove(&set(&[0, 2, 5]), true);
    assert_eq!(roster(&known, 0, &[]), "");
    assert_eq!(roster(&known, 1, &[]), "db-0 (db-2) (db-5)");
    assert_eq!(roster(&known, 4, &[]), "db-0 db-2 db-5 db-6");
    let mut left = seats(&[0, 2, 5], 6);
    left.remove(&set(&[5]), false);
    assert_eq!(roster(&left, 3, &[]), "db-0 db-2 db-6", "who left for good does not");
}

// D23: the pod of a member that left before goes with the last ones, and its number is not used again.
#[test]
fn who_left_before_a_stop_does_not_come_back_after_it() {
    let mut known = seats(&[0, 2], 3);
    known.remove(&set(&[0, 1, 2]), true);
    assert_eq!(known, Seats { dormant: set(&[0, 2]), next: 3, ..Seats::default() });
}

// S32: without the record nobody is forgotten who has a pod or a volume, and no number that was seen is used for a new member.
#[test]
fn without_a_record_pods_and_volumes_say_who_the_members_are() {
    let found = Seats::found(None, &set(&[0, 3]), &set(&[0, 1]));
    assert_eq!((&found.numbers, found.next), (&set(&[0, 1, 3]), 4));
    let listed = Seats::found(Some(set(&[0, 3])), &set(&[0]), &set(&[0, 1, 7]));
    assert_eq!((&listed.numbers, listed.next), (&set(&[0, 3]), 8), "whom the application does not list any more left");
}

/// A group of three that runs, whose pods the operator makes. `unwanted`: who is to go.
fn running(replicas: u32, unwanted: &[u32]) -> Snapshot {
    let mut s = World::settled(10_000).observe();
    s.group = Group { makes_pods: true, unwanted: set(unwanted), replicas, ..s.group };
    s.record.seats = Some(seats(&[0, 1, 2], 3));
    s
}

fn decided(s: &Snapshot) -> Plan {
    decide(s, &Natural)
}

fn deletes(plan: &Plan) -> Vec<(String, DeletionCause)> {
    let deleted = |action: &Action| match action {
        Action::DeletePod { member, cause, .. } => Some((member.to_string(), *cause)),
        _ => None,
    };
    plan.actions.iter().filter_map(deleted).collect()
}

fn stops(plan: &Plan) -> Vec<String> {
    let stopped = |action: &Action| match action {
        Action::Run { intent, .. } if intent.command == "stop" => Some(intent.member.to_string()),
        _ => None,
    };
    plan.actions.iter().filter_map(stopped).collect()
}

fn creates(plan: &Plan) -> Vec<String> {
    let created = |action: &Action| match action {
        Action::Create { member, .. } => Some(member.to_string()),
        _ => None,
    };
    plan.actions.iter().filter_map(created).collect()
}

fn lacks(s: &mut Snapshot, members: &[u32]) {
    let object = Object {
        kind: "Pod".into(),
        name: "db-0".into(),
        manifest: Default::default(),
        current: false,
        version: None,
        trial: None,
    };
    let lacking = members.iter().map(|number| (db(*number), vec![object.clone()])).collect();
    s.set.as_mut().unwrap().lacking = lacking;
}

#[test]
fn a_number_is_in_the_record_before_a_pod_is_made_for_it() {
    let mut s = running(4, &[]);
    lacks(&mut s, &[3]);
    let plan = decided(&s);
    assert_eq!(creates(&plan), ["db-3"]);
    assert_eq!(
        plan.record.seats.as_ref().map(|seats| (seats.numbers.clone(), seats.next)),
        Some((set(&[0, 1, 2, 3]), 4))
    );
    // A record that could not be written leaves nobody behind: the action needs it.
    assert_eq!(plan.unwritten(&s.record).record.seats, s.record.seats);
}

// The write itself is tried again after growing pauses.
#[test]
fn a_pod_that_is_refused_is_said_and_looked_for_after_a_while() {
    let mut s = running(3, &[]);
    s.members[1].pod = None;
    lacks(&mut s, &[1]);
    let refused = Missing { since: s.now - 100, refused: Some("no quota".into()) };
    s.set.as_mut().unwrap().missing = [(db(1), refused)].into();
    let plan = decided(&s);
    let wait = plan.waits.iter().find(|wait| wait.reason == Reason::PodCannotStart).unwrap();
    assert_eq!((wait.message.contains("no quota"), wait.until), (true, Some(s.now + 5)));
    assert!(plan.actions.iter().all(|action| !matches!(action, Action::Nudge { .. })), "there is no set");
}

// Its data is not needed while the others serve; on the way to 0 members it may be the most recent.
#[test]
fn a_member_that_leaves_gets_no_new_pod_while_the_others_serve() {
    let lost = |replicas| {
        let mut s = running(replicas, &[]);
        s.members[2].pod = None;
        lacks(&mut s, &[2]);
        decided(&s)
    };
    assert_eq!((creates(&lost(3)), creates(&lost(0))), (vec!["db-2".to_owned()], vec!["db-2".to_owned()]));
    let left = lost(2);
    assert_eq!(creates(&left), [""; 0]);
    assert_eq!(left.record.seats.map(|seats| seats.numbers), Some(set(&[0, 1])));
}

// The node of its volume is gone for good, so its pod starts nowhere. It need not be stopped, and it holds nobody up.
#[test]
fn a_member_whose_pod_cannot_start_leaves() {
    let stuck = |unwanted: &[u32]| {
        let mut s = running(3, unwanted);
        let pod = s.members[2].pod.as_mut().unwrap();
        (pod.phase, pod.node) = (Phase::Pending, None);
        pod.containers.clear();
        s.members[2].reading.role = Role::Unknown;
        decided(&s)
    };
    assert_eq!(deletes(&stuck(&[])), []);
    let left = stuck(&[2]);
    assert_eq!(deletes(&left), [("db-2".to_owned(), DeletionCause::Left)]);
    assert_eq!(left.record.seats.map(|seats| seats.numbers), Some(set(&[0, 1, 3])));
}

// S32: a status that was restored from a backup knows an older number of members.
#[test]
fn a_record_that_is_older_than_the_members_gives_no_number_out_twice() {
    let known = seats(&[0, 1, 2], 3).joined(&set(&[0, 1, 2, 4]));
    assert_eq!((&known.numbers, known.next), (&set(&[0, 1, 2, 4]), 5));
    assert_eq!(seats(&[0, 2], 3).joined(&set(&[1])), seats(&[0, 2], 3), "one that left before is no later one");
}

// Nobody makes a pod for whom no seat is.
#[test]
fn only_members_get_pods() {
    let mut s = running(3, &[]);
    lacks(&mut s, &[7]);
    assert_eq!(creates(&decided(&s)), [""; 0]);
}

#[test]
fn the_one_that_comes_in_the_place_of_a_member_joins_before_that_one_leaves() {
    let s = running(3, &[1]);
    let leaving = s.member(&db(1)).unwrap();
    assert_eq!(others_first(&s, leaving).map_err(|v| v.rule), Err(Rule::StayersFirst));
    assert_eq!(check::remove_member(&s, leaving).map_err(|v| v.rule), Err(Rule::StayersFirst));
    assert_eq!(stops(&decided(&s)), [""; 0]);
    // While the group gets smaller nobody comes in its place.
    let s = running(2, &[1]);
    assert!(others_first(&s, s.member(&db(1)).unwrap()).is_ok());
    assert_eq!(stops(&decided(&s)), ["db-1"]);
}

// S25: the primary that is to go leads until the one in its place follows it.
#[test]
fn a_primary_that_is_to_go_keeps_the_lead_until_all_that_stay_are_in_their_roles() {
    assert!(check::lead_cause(&running(3, &[0])).is_none());
    assert!(check::lead_cause(&running(2, &[0])).is_some_and(|cause| cause.word == "leaving"));
}

/// A group that gets smaller by one, whose db-2 has stopped.
fn stopped() -> Snapshot {
    let mut s = running(2, &[]);
    let now = s.now;
    let member = &mut s.members[2];
    (member.reading.role, member.reading.since) = (Role::Stopped, now);
    (member.position, member.position_at, member.position_stale) = (Position::Empty, now, false);
    s
}

#[test]
fn a_member_that_left_is_forgotten_and_its_pod_deleted_in_one_round() {
    let s = stopped();
    let plan = decided(&s);
    assert_eq!(deletes(&plan), [("db-2".to_owned(), DeletionCause::Left)]);
    let known = plan.record.seats.clone().unwrap();
    assert_eq!((&known.numbers, &known.dormant, known.next), (&set(&[0, 1]), &set(&[]), 3));
    assert!(plan.record.retired.contains(&db(2)), "its claims are explained");
    // The second look has the record of before, in which it is a member still.
    let uid = s.members[2].pod.as_ref().unwrap().uid.clone();
    assert!(recheck_deletion(&s, &s, &db(2), &uid, DeletionCause::Left).is_ok());
    let mut back = s.clone();
    back.group.replicas = 3;
    let refused = recheck_deletion(&s, &back, &db(2), &uid, DeletionCause::Left).map_err(|v| v.rule);
    assert_eq!(refused, Err(Rule::NotSurplus), "it is desired again");
    let mut leads = s.clone();
    leads.members[2].reading.role = Role::Primary;
    let refused = recheck_deletion(&s, &leads, &db(2), &uid, DeletionCause::Left).map_err(|v| v.rule);
    assert!(refused.is_err(), "somebody started it");
}

// The operator was killed between the two: the record does not know the member any more, and its pod is still there.
#[test]
fn a_pod_without_a_member_is_deleted_once_it_is_stopped() {
    let mut s = stopped();
    s.record.seats = Some(seats(&[0, 1], 3));
    assert_eq!(deletes(&decided(&s)), [("db-2".to_owned(), DeletionCause::Left)]);
    let moving = Some(Moving { to_pods: true, set: Some(MovingSet { replicas: 3, ..MovingSet::default() }) });
    let on_its_way = Snapshot { moving, ..s.clone() };
    assert!(deletes(&decided(&on_its_way)).is_empty(), "its StatefulSet would make it again at once");
    let member = s.members[2].clone();
    assert!(left_member(&s, &member).is_ok());
    let set_sized = Snapshot { group: Group { makes_pods: false, ..s.group.clone() }, ..s.clone() };
    assert_eq!(left_member(&set_sized, &member).map_err(|v| v.rule), Err(Rule::NotSurplus), "a StatefulSet does that");
    s.members[2].reading.role = Role::Secondary;
    assert_eq!(left_member(&s, &s.members[2]).map_err(|v| v.rule), Err(Rule::NotAllStopped));
    assert_eq!((deletes(&decided(&s)), stops(&decided(&s))), (vec![], vec!["db-2".to_owned()]), "it is stopped first");
}

#[test]
fn members_come_back_after_the_group_was_scaled_to_0() {
    let mut s = stopped();
    s.group.replicas = 0;
    let now = s.now;
    for member in &mut s.members {
        (member.reading.role, member.reading.since) = (Role::Stopped, now);
        (member.position, member.position_at, member.position_stale) = (Position::Empty, now, false);
    }
    s.record.last_primaries.clear();
    s.record.members.values_mut().for_each(|known| known.primary_term = None);
    let known = decided(&s).record.seats.unwrap();
    assert_eq!((&known.numbers, &known.dormant), (&set(&[]), &set(&[0, 1, 2])));
}

// B8: what has become of the new one is seen when the group is back from 0 members.
#[test]
fn nobody_stays_after_all_in_a_group_that_is_stopped() {
    let replaced = |replicas| {
        let mut s = running(replicas, &[]);
        s.group.requested.replicas = replicas;
        s.record.seats.as_mut().unwrap().replaced = BTreeMap::from([(1, 3)]);
        decided(&s).record.seats.unwrap().replaced
    };
    assert_eq!(replaced(0), BTreeMap::from([(1, 3)]));
    assert_eq!(replaced(3), BTreeMap::new(), "nothing calls for a new one any more");
}

// As the controller of a StatefulSet does: an evicted pod is replaced.
#[test]
fn a_pod_that_has_ended_is_deleted_so_that_a_new_one_is_made() {
    let mut s = running(3, &[]);
    assert!(ended_member(&s.members[1]).is_err());
    s.members[1].pod.as_mut().unwrap().phase = Phase::Ended;
    s.members[1].pod.as_mut().unwrap().phase_since = s.now - 4;
    assert_eq!(deletes(&decided(&s)), [], "a node may refuse it again and again");
    s.members[1].pod.as_mut().unwrap().phase_since = s.now - 5;
    assert_eq!(deletes(&decided(&s)), [("db-1".to_owned(), DeletionCause::Ended)]);
    s.group.makes_pods = false;
    assert_eq!(deletes(&decided(&s)), [], "a StatefulSet does that by itself");
}

// D23: the status of a group does not grow with every member that it ever had. Whom something still rests on is kept.
#[test]
fn members_that_are_gone_are_forgotten_in_time() {
    let gone = |s: &mut Snapshot, numbers: std::ops::Range<u32>| {
        for number in numbers {
            s.record.member_mut(&db(number)).term = Some(1);
            s.record.retired.insert(db(number));
        }
    };
    let known = |s: &Snapshot| {
        let record = decided(s).record;
        let all: BTreeSet<_> = record.members.keys().cloned().collect();
        assert!(record.retired.iter().all(|name| all.contains(name)), "both are forgotten together");
        all.len()
    };
    let kept = limits::GONE_MEMBERS;
    let mut s = running(3, &[]);
    s.record.seats.as_mut().unwrap().next = 500;
    gone(&mut s, 100..164);
    assert_eq!(known(&s), 3 + kept, "so many are kept");
    gone(&mut s, 164..264);
    assert_eq!(known(&s), 3 + kept);
    let record = decided(&s).record;
    assert!(record.members.contains_key(&db(263)) && !record.members.contains_key(&db(164)), "the latest are");
    // Its claim is there.
    let claim = s.members[0].claims[0].clone();
    s.left_claims = vec![LeftClaim { member: db(100), claim, is_being_deleted: false }];
    assert_eq!(known(&s), 3 + kept + 1);
    // It led in this term, and may still run somewhere.
    s.record.member_mut(&db(101)).primary_term = Some(s.record.term);
    let led = s.record.last_primaries[0].clone();
    s.record.last_primaries.push(LastPrimary { member: db(102), ..led });
    s.record.ever_seeded = Some(Seeded { member: db(103), confirmed: true });
    assert_eq!(known(&s), 3 + kept + 4);
    // Those of a stop come back.
    s.record.seats.as_mut().unwrap().dormant = (104..106).collect();
    let mut stopped = s.clone();
    stopped.group.replicas = 0;
    assert_eq!(known(&stopped), 3 + kept + 6);
    // The members of a StatefulSet come back under their numbers.
    s.group.makes_pods = false;
    s.record.seats = None;
    assert_eq!(known(&s), 3 + 164);
}
