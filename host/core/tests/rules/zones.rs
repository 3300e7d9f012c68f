//! Who is in a wrong zone moves (E14, E15; docs/rules.md, "Zones"): by a new member that joins first.
use super::super::support::policies::Natural;
use super::super::support::setting::members;
use super::super::support::world::World;
use super::super::support::{db, sequence};
use super::checks::intent;
use super::division::{seats, shown, zones};
use super::membership::agreeing;
use super::resize::ill;
use std::collections::{BTreeMap, BTreeSet};
use tanist_core::check::{self, Rule};
use tanist_core::checked::recheck;
use tanist_core::contract::{Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::membership::Vote;
use tanist_core::plan::{Action, Plan, Reason};
use tanist_core::record::{Canary, Intent, Seats, Verb, Verdict};
use tanist_core::snapshot::{Batch, Group, Mode, Moving, Node, Snapshot};
use tanist_core::status::{PolicyHealth, UpdatePhase, report};

/// A primary, db-0, and two secondaries in zone a, whose pods the operator makes; they are wanted in these zones.
pub(super) fn running(named: &str) -> Snapshot {
    let mut s = World::settled(10_000).observe();
    s.group = Group { makes_pods: true, zones: zones(named), ..s.group };
    s.record.seats = Some(seats("a: 0 1 2"));
    s
}

/// The same after db-3 was made in zone b for db-2, and before it has a place.
pub(super) fn moving() -> Snapshot {
    let mut s = running("b");
    let mut known = seats("a: 0 1 2, b: 3");
    known.replaced.insert(2, 3);
    s.record.seats = Some(known);
    let mut new = s.members[2].clone();
    (new.name, new.ordinal, new.reading.role, new.position) = (db(3), 3, Role::Unknown, Position::Empty);
    let pod = new.pod.as_mut().unwrap();
    (pod.uid, pod.phase, pod.ready, pod.node) = ("uid-db-3".into(), Phase::Pending, false, None);
    pod.containers.clear();
    s.members.push(new);
    s
}

/// db-3 works.
fn arrived() -> Snapshot {
    let mut s = moving();
    let (mut new, known) = (s.members[2].clone(), s.record.member(&db(2)).clone());
    (new.name, new.ordinal) = (db(3), 3);
    new.pod.as_mut().unwrap().uid = "uid-db-3".into();
    *s.record.member_mut(&db(3)) = known;
    s.members[3] = new;
    s
}

fn replaced(plan: &Plan) -> Vec<u32> {
    plan.record.seats.iter().flat_map(|seats| seats.replaced.keys().copied()).collect()
}

fn leaving(plan: &Plan) -> Vec<u32> {
    plan.record.seats.iter().flat_map(|seats| seats.leaving.iter().copied()).collect()
}

fn said(plan: &Plan) -> String {
    let all = plan.waits.iter().filter(|wait| wait.reason == Reason::ZonesPending);
    all.map(|wait| wait.message.clone()).collect()
}

fn runs(plan: &Plan) -> impl Iterator<Item = &Intent> {
    plan.actions.iter().filter_map(|action| if let Action::Run { intent, .. } = action { Some(intent) } else { None })
}

fn deletes(plan: &Plan) -> usize {
    plan.actions.iter().filter(|action| matches!(action, Action::DeletePod { .. })).count()
}

#[test]
fn a_new_member_is_called_for_one_that_moves_and_the_primary_is_last() {
    let plan = decide(&running("b"), &Natural);
    assert_eq!(replaced(&plan), [2]);
    assert!(said(&plan).contains("db-2") && said(&plan).contains("zone a"), "{}", said(&plan));
    assert_eq!(replaced(&decide(&running("a b"), &Natural)), [2], "only one is too many there");
    assert_eq!(replaced(&decide(&running("a"), &Natural)), [0; 0]);
    assert_eq!(replaced(&decide(&running("a=2 b=1"), &Natural)), [2]);
    // One after the other: the new one has to work, and the former one to be gone.
    assert_eq!(replaced(&decide(&moving(), &Natural)), [2]);
    let mut s = running("b");
    s.record.seats = Some(seats("a: 0, b: 1 2"));
    assert_eq!(replaced(&decide(&s, &Natural)), [0], "nobody else has to move");
    let mut s = running("b");
    s.record.seats = Some(seats("a: 0 1, b: 2"));
    assert_eq!(replaced(&decide(&s, &Natural)), [1]);
}

#[test]
fn members_that_do_not_work_move_first() {
    let mut s = running("b");
    s.members[1].reading.role = Role::Stopped;
    s.members[1].pod.as_mut().unwrap().ready = false;
    // It is started again first, and moves when nothing else is done.
    assert_eq!(check::next_to_move(&s).map(|m| m.ordinal), Some(1));
    assert!(check::move_member(&s, &s.members[1]).is_ok());
    assert_eq!(check::move_member(&s, &s.members[2]).map_err(|v| v.rule), Err(Rule::NotAtRest));
}

#[test]
fn nobody_moves_where_that_is_not_allowed_and_it_is_said() {
    let refused = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = running("b");
        change(&mut s);
        let plan = decide(&s, &Natural);
        assert_eq!(replaced(&plan), [0; 0]);
        said(&plan)
    };
    assert!(refused(&|s| s.group.update.replacements = 0).contains("maxConcurrentReplacements is 0"));
    assert!(refused(&|s| s.group.commands.secondary = None).contains("spec.members.remove"));
    assert!(refused(&|s| s.record.seats.as_mut().unwrap().leaving = BTreeSet::from([2])).contains("leaving"));
    assert_eq!(refused(&|s| s.group.paused = true), "");
    let unready = |s: &mut Snapshot, n: usize| s.members[n].pod.as_mut().unwrap().ready = false;
    assert!(refused(&|s| (1..3).for_each(|n| unready(s, n))).contains("db-1"));
    // One that is alone in that is the first.
    let mut s = running("b");
    unready(&mut s, 1);
    assert_eq!(replaced(&decide(&s, &Natural)), [1]);
}

// What is on its way to another zone is a member like any other until the new one works: it is started again, gets its pod again, and nobody is let go.
#[test]
fn one_that_moves_is_kept_until_the_new_one_works() {
    let mut stopped = moving();
    stopped.members[2].reading.role = Role::Stopped;
    let plan = decide(&stopped, &Natural);
    let reads = |action: &Action| matches!(action, Action::Read { member, .. } if *member == db(2));
    assert!(plan.actions.iter().any(reads), "it is to be started again: {:?}", plan.actions);
    assert_eq!((deletes(&plan), leaving(&plan)), (0, vec![]));
    let plan = decide(&arrived(), &Natural);
    assert_eq!((leaving(&plan), replaced(&plan)), (vec![2], vec![]));
    // The list is as before: it stays after all, also while the new one has no place.
    for mut s in [moving(), arrived()] {
        s.group.zones = zones("a");
        let plan = decide(&s, &Natural);
        assert_eq!((shown(&s.group, &plan.record).as_str(), replaced(&plan)), ("a0 a1 a2 (b3)", vec![]));
    }
}

// A zone that no node has holds up no seed.
#[test]
fn a_member_that_never_came_to_its_zone_holds_up_no_seed() {
    let mut s = moving();
    for member in &mut s.members[..3] {
        member.reading.role = Role::Stopped;
        member.pod.as_mut().unwrap().ready = false;
        member.position_at = s.now;
    }
    let count =
        |s: &Snapshot| check::SeedOrder::of(s).group().err().filter(|violation| violation.rule == Rule::PodCount);
    assert_eq!(count(&s), None);
    s.group.zones = zones("a");
    assert_eq!(count(&s), None, "nor when the list is corrected meanwhile");
    s.record.seats.as_mut().unwrap().replaced.clear();
    assert_eq!(count(&s), None, "nor when it leaves");
    s.group.zones = zones("a=2 b=1");
    assert!(count(&s).is_some(), "it is desired");
}

// A zone that no node has is not due to a template.
#[test]
fn a_member_that_has_no_place_in_its_zone_is_no_canary_and_fails_no_template() {
    let mut s = moving();
    assert!(check::has_no_place(&s, &s.members[3]));
    assert!(check::fails_with_template(&s, &s.members[3]).is_none());
    s.group.zones = zones("a");
    assert!(!check::has_no_place(&s, &s.members[3]));
    assert!(check::fails_with_template(&s, &s.members[3]).is_some());
    let mut s = moving();
    (s.group.update.canary, s.group.update.template) = (60, "new".into());
    for member in &mut s.members[..3] {
        let pod = member.pod.as_mut().unwrap();
        (pod.older_template, pod.outdated) = (true, true);
    }
    assert_eq!(decide(&s, &Natural).record.canary, None);
}

/// Where nobody has a place: a pod without a node, and nothing was ever started.
fn has_no_node(s: &mut Snapshot, ordinal: u32) {
    s.record.members.remove(&db(ordinal));
    let member = s.members.iter_mut().find(|m| m.ordinal == ordinal).unwrap();
    (member.reading.role, member.position) = (Role::Unknown, Position::NotAsked);
    let pod = member.pod.as_mut().unwrap();
    (pod.phase, pod.ready, pod.node) = (Phase::Pending, false, None);
    pod.containers.clear();
}

// The name of a zone was wrong from the beginning, and is corrected: who is there holds up no seed any more, because it moves or leaves.
#[test]
fn a_member_of_a_zone_that_was_wrong_from_the_beginning_holds_up_no_seed() {
    let mut s = running("a c");
    s.record.seats = Some(seats("a: 0 1, c: 2"));
    for member in &mut s.members[..2] {
        member.reading.role = Role::Stopped;
        member.position_at = s.now;
    }
    has_no_node(&mut s, 2);
    let waits = |s: &Snapshot| check::SeedOrder::of(s).group().is_err_and(|violation| violation.rule == Rule::PodCount);
    assert!(waits(&s), "it is desired there");
    let corrected = Snapshot { group: Group { zones: zones("a b"), ..s.group.clone() }, ..s.clone() };
    assert!(!waits(&corrected));
    let mut first = corrected.clone();
    (first.record.ever_seeded, first.record.high_water, first.record.term) = (None, None, 0);
    first.record.members.clear();
    first.record.last_primaries.clear();
    first.members[..2].iter_mut().for_each(|member| member.position = Position::Empty);
    assert_eq!(check::SeedOrder::of(&first).member(&first.members[0]), Ok(()), "those that are there are empty");
    let mut filled = first.clone();
    filled.members[1].position = Position::Known(sequence("9"));
    let asks = |s: &Snapshot| check::SeedOrder::of(s).group().map_err(|violation| violation.rule);
    assert_eq!(asks(&filled), Err(Rule::NeedsAdoption), "a user filled volumes before, and one of them cannot be read");
    let plan = decide(&filled, &Natural);
    assert!(plan.needs_adoption.as_ref().is_some_and(|why| why.contains("db-2 may have more recent data")));
    let mut down = filled.clone();
    has_no_node(&mut down, 1);
    down.members[0].position = Position::Known(sequence("9"));
    assert!(waits(&down), "db-1 is desired, and its pod may come");
    let mut desired = filled.clone();
    desired.group.zones = zones("a c");
    assert!(waits(&desired), "db-2 is desired there: its zone will have a node");
    first.group.zones = zones("a c");
    assert!(check::SeedOrder::of(&first).member(&first.members[0]).is_err());
    let named = Snapshot { group: Group { unwanted: BTreeSet::from([2]), ..s.group.clone() }, ..s.clone() };
    assert!(!waits(&named));
    let mut ran = corrected.clone();
    ran.members[2].pod.as_mut().unwrap().node = Some("node-1".into());
    assert!(waits(&ran), "something may have run there");
}

// A zone is lost: its nodes do not report, and its members move all the same, one after the other.
#[test]
fn members_of_a_lost_zone_wait_for_nobody() {
    let mut s = running("a c");
    s.record.seats = Some(seats("a: 0, b: 1 2"));
    for member in &mut s.members[1..] {
        member.reading.role = Role::Unknown;
        member.pod.as_mut().unwrap().phase = Phase::Unreachable;
    }
    assert!(s.members[1..].iter().all(|member| check::move_member(&s, member).is_ok()));
    assert_eq!(replaced(&decide(&s, &Natural)), [2]);
    // The one that may move now is next, whatever the order.
    s.record.seats.as_mut().unwrap().replaced.insert(7, 8);
    let mut third = s.members[0].clone();
    (third.name, third.ordinal) = (db(7), 7);
    s.record.seats.as_mut().unwrap().numbers.insert(7);
    s.members.push(third);
    s.members[1].pod.as_mut().unwrap().phase = Phase::Pending;
    assert_eq!(check::next_to_move(&s).map(|m| m.ordinal), Some(1));
    // In the place of the other one that is lost nobody can come meanwhile, and it holds up nobody.
    let mut s = arrived();
    s.record.seats = Some(Seats { replaced: BTreeMap::from([(2, 3)]), ..seats("b: 0 3, c: 1 2") });
    for member in &mut s.members[1..3] {
        member.reading.role = Role::Unknown;
        member.pod.as_mut().unwrap().phase = Phase::Unreachable;
    }
    assert_eq!(leaving(&decide(&s, &Natural)), [2]);
    // Nor does one that leaves, for instance a primary that waits until others serve.
    s.group.unwanted = BTreeSet::from([0]);
    assert_eq!(
        check::leaves_its_place(&s, &s.members[2]).map_err(|v| v.rule),
        Err(Rule::StayersFirst),
        "it does not count"
    );
    s.group.replicas = 2;
    s.group.requested.replicas = 2;
    assert_eq!(check::leaves_its_place(&s, &s.members[2]), Ok(()));
}

// A member that works was named to go, and the one that is to come for it has no place: one comes for that, too.
#[test]
fn a_newcomer_without_a_place_moves_while_another_one_leaves() {
    let mut s = moving();
    s.record.seats = Some(seats("a: 0 1 2, b: 3"));
    (s.group.zones, s.group.unwanted) = (zones("a"), BTreeSet::from([2]));
    assert_eq!(check::move_member(&s, &s.members[3]), Ok(()));
    assert_eq!(replaced(&decide(&s, &Natural)), [3]);
    s.moving = Some(Moving { to_pods: true, set: None });
    assert!(check::move_member(&s, &s.members[3]).is_err(), "not on the way to the other kind");
}

// A number that is not let in, and 0 members, are no reason to stay after all: the zones of others are not known then.
#[test]
fn one_that_moves_goes_on_when_the_group_has_its_members_again() {
    for (replicas, requested) in [(3, 7), (0, 0)] {
        let mut s = moving();
        (s.group.replicas, s.group.requested.replicas) = (replicas, requested);
        let plan = decide(&s, &Natural);
        assert_eq!((replaced(&plan), leaving(&plan)), (vec![2], vec![]), "{replicas} of {requested}");
    }
}

// With 0 members desired one that never got a node holds up nobody.
#[test]
fn a_newcomer_without_a_place_does_not_hold_up_a_stop() {
    let mut s = moving();
    (s.group.replicas, s.group.requested.replicas) = (0, 0);
    assert!(check::is_out(&s, &s.members[3]));
    assert!(!check::is_out(&s, &s.members[2]));
    let plan = decide(&s, &Natural);
    let stops = |action: &Action| matches!(action, Action::Run { .. });
    assert!(plan.actions.iter().any(stops), "{:?}", plan.waits);
}

/// Some have an older template, and it failed on the first member that got it.
fn failed(s: &mut Snapshot) {
    (s.group.update.canary, s.group.update.template) = (60, "new".into());
    for member in &mut s.members[..3] {
        member.pod.as_mut().unwrap().older_template = true;
    }
    let canary = Canary {
        template: "new".into(),
        member: db(2),
        pod_uid: "u".into(),
        container: None,
        begun: s.now,
        since: None,
        unjudged: None,
        verdict: Some(Verdict::Failed("it ends".into())),
    };
    s.record.canary = Some(canary);
}

// E38: nobody else gets a template that failed, for a zone neither; where a member does not work anyway nothing is lost.
#[test]
fn a_member_that_works_does_not_move_for_a_template_that_failed() {
    let mut s = running("b");
    failed(&mut s);
    let why = check::move_member(&s, &s.members[2]).unwrap_err();
    assert!(why.message.contains("failed on db-2"), "{why}");
    s.members[2].reading.role = Role::Stopped;
    assert_eq!(check::move_member(&s, &s.members[2]), Ok(()));
    let mut s = arrived();
    failed(&mut s);
    assert_eq!(leaving(&decide(&s, &Natural)), [0; 0]);
    s.group.update.mode = Mode::ByHand;
    assert_eq!(leaving(&decide(&s, &Natural)), [2], "without updates nobody is watched");
    let mut s = arrived();
    failed(&mut s);
    (s.members[2].reading.role, s.members[2].pod.as_mut().unwrap().ready) = (Role::Stopped, false);
    assert_eq!(check::leaves_its_place(&s, &s.members[2]), Ok(()));
}

// D8, E14: where members agree and have no learners, nobody is added while too few are healthy for one voter more. Then one that does not work goes first.
#[test]
fn where_members_agree_one_that_does_not_work_goes_before_another_is_added() {
    let lost = |learners: bool, change: &dyn Fn(&mut Snapshot)| {
        let mut s = agreeing(1).observe();
        s.group = Group { makes_pods: true, zones: zones("b"), ..s.group };
        s.group.commands.membership = Some(members(learners));
        s.record.seats = Some(Seats { replaced: BTreeMap::from([(2, 3)]), ..seats("b: 0 1, a: 2") });
        (s.members[2].reading.role, s.members[2].pod.as_mut().unwrap().phase) = (Role::Unknown, Phase::Pending);
        ill(&mut s, 2);
        change(&mut s);
        check::leaves_its_place(&s, &s.members[2]).map_err(|violation| violation.rule)
    };
    assert_eq!(lost(false, &|_| ()), Ok(()));
    assert_eq!(lost(true, &|_| ()), Err(Rule::StayersFirst), "a learner can be added");
    let half = |s: &mut Snapshot| {
        for heard in s.lists.values_mut() {
            let entries = &mut heard.list.as_mut().unwrap().entries;
            entries.iter_mut().filter(|entry| entry.name == Some(db(2))).for_each(|entry| entry.vote = Vote::Learner);
        }
    };
    assert_eq!(lost(true, &half), Ok(()), "one change is open at a time, and this one never ends");
    let starts = |s: &mut Snapshot| {
        half(s);
        (s.members[2].reading.role, s.members[2].pod.as_mut().unwrap().phase) = (Role::Stopped, Phase::Running);
    };
    assert_eq!(lost(true, &starts), Err(Rule::StayersFirst), "it may still start");
    let fails = |s: &mut Snapshot| {
        starts(s);
        s.record.member_mut(&db(2)).failures = 1;
    };
    assert_eq!(lost(true, &fails), Ok(()));
    assert_eq!(lost(false, &|s| s.group.commands.membership = None), Err(Rule::StayersFirst), "they do not agree");
    assert_eq!(lost(false, &|s| s.record.intents.push(intent(s, Verb::Follow, 1))), Err(Rule::StayersFirst));
    assert_eq!(lost(false, &|s| ill(s, 1)), Err(Rule::StayersFirst), "nobody can be removed: it has to come back");
    let new = |s: &mut Snapshot| {
        for heard in s.lists.values_mut() {
            heard.list.as_mut().unwrap().entries.retain(|entry| entry.name != Some(db(2)));
        }
    };
    assert_eq!(lost(false, &new), Err(Rule::StayersFirst), "it is no voter");
    let works = |s: &mut Snapshot| s.members[2] = agreeing(1).observe().members[2].clone();
    assert_eq!(lost(false, &works), Err(Rule::StayersFirst));
}

// What called for a new member is over, and the former one does not work: it leaves, also when updates are left to the user.
#[test]
fn one_that_does_not_work_any_more_leaves_when_the_list_is_as_before() {
    for mode in [Mode::ByOperator, Mode::Paused, Mode::ByHand] {
        let mut s = arrived();
        (s.group.zones, s.group.update.mode) = (zones("a"), mode);
        (s.members[2].reading.role, s.members[2].pod.as_mut().unwrap().ready) = (Role::Stopped, false);
        assert!(!check::is_misplaced(&s, &s.members[2]));
        assert_eq!(check::leaves_its_place(&s, &s.members[2]), Ok(()));
    }
}

// The second look has the record from before the round: in the round in which a new member gets its number no pod is deleted for an update. Otherwise it would be refused again and again, and the number never written.
#[test]
fn no_pod_is_deleted_for_an_update_when_a_member_gets_its_number() {
    let deleted = |known: &str| {
        let mut s = running("a b");
        s.record.seats = Some(Seats { replaced: BTreeMap::from([(2, 3)]), ..seats(known) });
        let mut new = s.members[2].clone();
        (new.name, new.ordinal, new.pod) = (db(3), 3, None);
        s.members.push(new);
        s.record.members.remove(&db(3));
        (s.group.update.batch, s.group.update.mode) = (Batch::All, Mode::ByOperator);
        for member in &mut s.members[1..3] {
            let pod = member.pod.as_mut().unwrap();
            (pod.older_template, pod.outdated) = (true, true);
        }
        let plan = decide(&s, &Natural);
        assert_eq!(plan.record.seats.as_ref().map(|seats| seats.numbers.len()), Some(4));
        deletes(&plan)
    };
    assert_eq!(deleted("a: 0 1 2"), 0);
    assert_eq!(deleted("a: 0 1 2, b: 3"), 1, "once it is known");
}

// A50: who moves has the present template, so no update goes on.
#[test]
fn a_move_is_no_rollout() {
    let told = |s: &Snapshot| {
        let report = report(s, &decide(s, &Natural), &PolicyHealth::Active(String::new()), None);
        (report.update.0, report.updated)
    };
    assert_eq!(told(&moving()), (UpdatePhase::Done, 3));
    let mut s = moving();
    s.members[2].pod.as_mut().unwrap().older_template = true;
    assert_eq!(told(&s), (UpdatePhase::Rollout, 1));
}

/// Three members on nodes of the zones a, b and b, which the record does not know.
fn from_before(named: &str, known: &str) -> Snapshot {
    let mut s = World::settled(10_000).observe();
    s.group = Group { makes_pods: true, zones: zones(named), ..s.group };
    s.record.seats = Some(seats(known));
    let any = s.nodes.as_ref().unwrap().values().next().unwrap().clone();
    let node = |zone: &str| Node { zone: Some(zone.to_owned()), ..any.clone() };
    s.nodes = Some((0..3).zip(["a", "b", "b"]).map(|(n, zone)| (format!("node-{n}"), node(zone))).collect());
    for (member, n) in s.members.iter_mut().zip(0..) {
        member.pod.as_mut().unwrap().node = Some(format!("node-{n}"));
    }
    s
}

// E14: zones come in the same change as fewer members. Who leaves is known in the round that learns where the members are, and in its second look (simulator, seed 5766331).
#[test]
fn who_leaves_is_known_in_the_round_that_learns_the_zones() {
    let mut s = from_before("a", ": 0 1 2");
    (s.group.replicas, s.group.requested.replicas) = (2, 2);
    assert!(s.leaves(&s.members[2]), "before that the highest number leaves");
    let live = s.clone();
    s.nodes.as_mut().unwrap().get_mut("node-2").unwrap().zone = Some("a".into());
    let begun: Vec<_> = runs(&decide(&s, &Natural)).cloned().collect();
    assert_eq!(begun.iter().map(|run| (run.verb, &run.member)).collect::<Vec<_>>(), [(Verb::Remove, &db(1))]);
    assert_eq!(recheck(&s, &s, &begun[0]).map(drop), Ok(()));
    assert_eq!(recheck(&s, &live, &begun[0]).map(drop).map_err(|v| v.rule), Err(Rule::NotSurplus), "not by then");
}

// Members of before `spec.zones` was set are where their nodes are, and the nodes' own zones do not matter to who has one.
#[test]
fn the_nodes_say_the_zones_of_members_that_have_none() {
    let mut s = from_before("a b", "a: 1, : 0 2");
    assert_eq!(decide(&s, &Natural).record.seats, Some(seats("a: 0 1, b: 2")));
    s.group.zones.clear();
    assert_eq!(decide(&s, &Natural).record.seats, Some(seats(": 0 1 2")));
}
