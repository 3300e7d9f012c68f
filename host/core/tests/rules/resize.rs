//! The rules by which members that agree are added, started, removed and stopped: no policy can break them.
use super::super::support::policies::Natural;
use super::super::support::{db, sequence, setting};
use super::membership::agreeing;
use std::collections::BTreeMap;
use tanist_core::check::{self, Rule};
use tanist_core::contract::{MemberName, Phase, Position, Role};
use tanist_core::decide::decide;
use tanist_core::limits;
use tanist_core::membership::{Entry, Vote};
use tanist_core::memory;
use tanist_core::record::{Intent, LastPrimary, Listed, Membership, Record, Seeded, Started, Verb};
use tanist_core::roster::Roster;
use tanist_core::snapshot::{Override, Set, Snapshot};

/// The change of a member by another one.
pub fn intent(s: &Snapshot, verb: Verb, on: u32, target: u32) -> Intent {
    Intent { target: Some(db(target)), ..super::checks::intent(s, verb, on) }
}

fn broken(s: &Snapshot, verb: Verb, on: u32, target: u32) -> Option<Rule> {
    check::start(s, &intent(s, verb, on, target)).err().map(|violation| violation.rule)
}

/// Three serve, and a fourth is desired: its pod runs, its volume is empty.
pub fn growing(primaries: u32) -> Snapshot {
    let mut world = agreeing(primaries);
    (world.group.replicas, world.group.primaries) = (4, if primaries == 1 { 1 } else { 4 });
    world.set.as_mut().unwrap().replicas = 4;
    world.new_volume(3);
    world.new_pod(3);
    let mut s = world.observe();
    s.members[3].position = Position::Empty;
    s
}

/// What every member said is that much older.
pub fn age(s: &mut Snapshot, seconds: i64) {
    s.lists.values_mut().for_each(|heard| heard.at -= seconds);
}

/// The member is unhealthy in the eyes of all.
pub fn ill(s: &mut Snapshot, ordinal: u32) {
    for heard in s.lists.values_mut() {
        let entries = &mut heard.list.as_mut().unwrap().entries;
        entries.iter_mut().filter(|e| e.name == Some(db(ordinal))).for_each(|e| e.healthy = false);
    }
}

// D15: a list with one more could not be read, and then nobody could be removed again.
#[test]
fn nobody_is_added_for_whom_a_list_has_no_room() {
    let with = |members: usize| {
        let mut s = growing(3);
        for heard in s.lists.values_mut() {
            let entries = &mut heard.list.as_mut().unwrap().entries;
            let learner = Entry { vote: Vote::Learner, ..entries[0].clone() };
            let more = (entries.len()..members).map(|n| Entry { id: format!("x{n}"), name: None, ..learner.clone() });
            entries.extend(more.collect::<Vec<_>>());
        }
        let agreed = check::agreed(&s).unwrap();
        check::add(&s, &agreed, &db(3)).map_err(|violation| violation.message)
    };
    assert!(with(limits::LIST_MEMBERS).unwrap_err().contains("at most 64 members"));
    assert!(!with(limits::LIST_MEMBERS - 1).unwrap_err().contains("at most"), "a learner comes first");
    assert_eq!(with(3), Ok(()));
}

// D8, D14, D15, D27: one change at a time, on a list that a majority said a moment ago, while a majority is healthy.
#[test]
fn members_are_changed_one_at_a_time_by_a_majority() {
    let s = growing(3);
    assert_eq!(broken(&s, Verb::MemberAdd, 0, 3), None);
    let mut open = s.clone();
    open.record.intents.push(intent(&s, Verb::MemberRemove, 1, 2));
    assert_eq!(broken(&open, Verb::MemberAdd, 0, 3), Some(Rule::ChangeOpen));
    let mut old = s.clone();
    age(&mut old, limits::LIST_FRESH_SECONDS);
    assert_eq!(broken(&old, Verb::MemberAdd, 0, 3), None);
    age(&mut old, 1);
    assert_eq!(broken(&old, Verb::MemberAdd, 0, 3), Some(Rule::ListUnknown));
    let mut few = s.clone();
    few.lists.retain(|member, _| *member == db(0));
    assert_eq!(broken(&few, Verb::MemberAdd, 0, 3), Some(Rule::ListUnknown));
    let mut split = s.clone();
    split.lists.get_mut(&db(1)).unwrap().list.as_mut().unwrap().cluster = "another".into();
    assert_eq!(broken(&split, Verb::MemberAdd, 0, 3), Some(Rule::SplitBrain));
    let mut sick = s.clone();
    ill(&mut sick, 1);
    ill(&mut sick, 2);
    assert_eq!(broken(&sick, Verb::MemberAdd, 0, 3), Some(Rule::QuorumAtRisk));
    // Of two voters one is left when the other one goes, and until then both have to agree.
    let mut two = s.clone();
    relist(&mut two, None);
    (two.group.replicas, two.group.primaries, two.members[2].reading.role) = (1, 1, Role::Stopped);
    assert_eq!(broken(&two, Verb::MemberRemove, 0, 1), None);
    ill(&mut two, 1);
    assert_eq!(broken(&two, Verb::MemberRemove, 0, 1), Some(Rule::QuorumAtRisk));
    let mut without = s.clone();
    without.group.commands.membership = None;
    assert_eq!(broken(&without, Verb::MemberAdd, 0, 3), Some(Rule::NoCommand));
}

// D8: it is executed by a healthy voter, and never by the one that it is about.
#[test]
fn a_healthy_voter_changes_another_one() {
    let mut s = growing(3);
    (s.group.replicas, s.group.primaries) = (2, 2);
    assert_eq!(broken(&s, Verb::MemberRemove, 0, 2), None);
    assert_eq!(broken(&s, Verb::MemberRemove, 2, 2), Some(Rule::QuorumAtRisk));
    ill(&mut s, 0);
    assert_eq!(broken(&s, Verb::MemberRemove, 0, 2), Some(Rule::QuorumAtRisk));
}

// D10, D20: whoever is added is desired, stopped and on an empty volume, after everybody who was added before, and the majority with it is there.
#[test]
fn a_member_is_added_on_an_empty_volume_and_one_after_the_other() {
    let s = growing(3);
    let with = |change: &dyn Fn(&mut Snapshot)| {
        let mut other = s.clone();
        change(&mut other);
        broken(&other, Verb::MemberAdd, 0, 3)
    };
    let holds = |position| with(&move |s| s.members[3].position = Position::clone(&position));
    assert_eq!(holds(Position::Known(sequence("9"))), Some(Rule::SecondIdentity));
    assert_eq!(holds(Position::Unknown("exited 3".into())), Some(Rule::PositionUnknown));
    assert_eq!(holds(Position::NotAsked), Some(Rule::PositionUnknown));
    assert_eq!(with(&|s| s.members[3].reading.role = Role::Starting), Some(Rule::WrongRole));
    assert_eq!(with(&|s| s.members[3].pod.as_mut().unwrap().phase = Phase::Pending), Some(Rule::TargetUnreachable));
    assert_eq!(with(&|s| (s.group.replicas, s.group.primaries) = (3, 3)), Some(Rule::NotSurplus));
    assert_eq!(with(&|s| s.record.member_mut(&db(3)).retry_at = Some(s.now + 1)), Some(Rule::BackOff));
    assert_eq!(broken(&s, Verb::MemberAdd, 0, 1), Some(Rule::WrongRole), "it runs");
    let half = |started: bool, voter: bool| {
        with(&move |s| {
            for heard in s.lists.values_mut() {
                let entry = &mut heard.list.as_mut().unwrap().entries[2];
                entry.name = entry.name.take().filter(|_| started);
                entry.vote = if voter { Vote::Voter } else { Vote::Learner };
            }
        })
    };
    assert_eq!(half(true, true), None);
    assert_eq!(half(false, true), Some(Rule::ChangeOpen));
    assert_eq!(half(true, false), Some(Rule::ChangeOpen));
    // Two healthy voters are a majority of three, and none of four.
    assert_eq!(with(&|s| ill(s, 2)), Some(Rule::QuorumAtRisk));
    let learner = with(&|s| {
        s.group.commands.membership = Some(setting::members(true));
        ill(s, 2);
    });
    assert_eq!(learner, None, "a learner changes no majority");
}

// D14, D16, D19, D21: whoever is removed leaves or has lost its identity, and the voters that are left are a majority.
#[test]
fn a_member_is_removed_that_leaves_or_has_lost_its_identity() {
    let mut s = growing(3);
    assert_eq!(broken(&s, Verb::MemberRemove, 0, 2), Some(Rule::NotSurplus));
    assert_eq!(broken(&s, Verb::MemberRemove, 0, 3), Some(Rule::NotListed));
    let mut lost = s.clone();
    (lost.members[2].reading.role, lost.members[2].position) = (Role::Stopped, Position::Empty);
    assert_eq!(broken(&lost, Verb::MemberRemove, 0, 2), None);
    lost.members[2].position = Position::Known(sequence("9"));
    assert_eq!(broken(&lost, Verb::MemberRemove, 0, 2), Some(Rule::NotSurplus));
    (s.group.replicas, s.group.primaries) = (1, 1);
    assert_eq!(broken(&s, Verb::MemberRemove, 0, 2), None);
    ill(&mut s, 1);
    assert_eq!(broken(&s, Verb::MemberRemove, 0, 2), Some(Rule::QuorumAtRisk), "one of two would be left");
    assert_eq!(broken(&s, Verb::MemberRemove, 0, 1), None, "who is ill may go");
    let begun = decide(&s, &Natural).record.intents;
    assert_eq!(begun.iter().map(|i| i.target.clone()).collect::<Vec<_>>(), [Some(db(1))], "and goes first then");
    s.record.intents.push(super::checks::intent(&s, Verb::Join, 1));
    assert_eq!(broken(&s, Verb::MemberRemove, 0, 1), Some(Rule::MemberBusy));
    // Its start has ended, and it waits for a vote that nobody gives it any more.
    s.record.intents[0].exited = Some(s.now);
    assert_eq!(broken(&s, Verb::MemberRemove, 0, 1), None);
}

// D12: a learner that was never started goes before a voter with a higher number.
#[test]
fn what_was_half_added_goes_first() {
    let mut s = growing(3);
    (s.group.replicas, s.group.primaries, s.members[1].reading.role) = (1, 1, Role::Stopped);
    for heard in s.lists.values_mut() {
        let entry = &mut heard.list.as_mut().unwrap().entries[1];
        (entry.name, entry.vote) = (None, Vote::Learner);
    }
    assert_eq!(broken(&s, Verb::MemberRemove, 0, 2), None, "both may go");
    let begun = decide(&s, &Natural).record.intents;
    assert_eq!(begun.iter().map(|i| i.target.clone()).collect::<Vec<_>>(), [Some(db(1))]);
}

// D16, S25: one leads, and gives up the lead before it is removed, unless the others are no majority without it.
#[test]
fn a_leader_gives_up_the_lead_before_it_is_removed() {
    let mut world = agreeing(1);
    for (ordinal, role) in [(0, Role::Secondary), (2, Role::Primary)] {
        world.serve(ordinal, role);
    }
    world.play(&Natural, 0);
    world.group.replicas = 2;
    let mut s = world.observe();
    assert_eq!(broken(&s, Verb::MemberRemove, 0, 2), Some(Rule::StayersFirst));
    assert_eq!(check::lead_cause(&s).map(|cause| cause.word), Some("leaving"));
    ill(&mut s, 1);
    assert_eq!(check::lead_cause(&s), None);
    assert_eq!(broken(&s, Verb::Switchover, 2, 2), Some(Rule::QuorumAtRisk));
}

// D25: a learner gets its vote once it serves and everybody reaches it.
#[test]
fn a_learner_gets_its_vote_once_it_serves() {
    let mut s = growing(3);
    s.group.commands.membership = Some(setting::members(true));
    assert_eq!(broken(&s, Verb::MemberPromote, 0, 2), Some(Rule::WrongRole), "it has one");
    for heard in s.lists.values_mut() {
        let entries = &mut heard.list.as_mut().unwrap().entries;
        entries.iter_mut().filter(|e| e.name == Some(db(2))).for_each(|e| e.vote = Vote::Learner);
    }
    assert_eq!(broken(&s, Verb::MemberPromote, 0, 2), None);
    assert_eq!(broken(&s, Verb::MemberPromote, 0, 3), Some(Rule::NotListed));
    let mut gone = s.clone();
    gone.group.replicas = 2;
    assert_eq!(broken(&gone, Verb::MemberPromote, 0, 2), Some(Rule::NotSurplus));
    let mut behind = s.clone();
    ill(&mut behind, 2);
    assert_eq!(broken(&behind, Verb::MemberPromote, 0, 2), Some(Rule::WrongRole));
    s.lists.remove(&db(2));
    assert_eq!(broken(&s, Verb::MemberPromote, 0, 2), Some(Rule::WrongRole), "it says no list");
    let with = |role| {
        let mut other = s.clone();
        other.members[2].reading.role = role;
        broken(&other, Verb::MemberPromote, 0, 2)
    };
    assert_eq!(with(Role::Starting), None, "it serves nobody before it has its vote");
    assert_eq!(with(Role::Stopped), Some(Rule::WrongRole));
    assert_eq!(with(Role::Unknown), Some(Rule::WrongRole));
    s.group.commands.membership = Some(setting::members(false));
    assert_eq!(broken(&s, Verb::MemberPromote, 0, 2), Some(Rule::NoCommand));
}

/// db-2 is stopped, and the others serve.
pub fn one_stopped(primaries: u32) -> Snapshot {
    let mut world = agreeing(primaries);
    world.serve(2, Role::Stopped);
    let mut s = world.observe();
    s.members[2].position = Position::Known(sequence("9"));
    s
}

/// A voter that is no member of the group.
fn unknown(id: &str) -> Entry {
    Entry { name: Some("other-7".into()), id: id.into(), vote: Vote::Voter, healthy: true, address: "-".into() }
}

// D14, S25: those that stay are started before those that leave are removed, however many serve; where one leads, beside it nobody else is made primary.
#[test]
fn who_stays_is_started_before_others_are_removed() {
    let mut s = one_stopped(3);
    (s.members[0].ordinal, s.members[2].ordinal) = (2, 0);
    (s.group.replicas, s.group.primaries) = (1, 1);
    let joins = |s: &Snapshot| check::join_group(s).err().map(|violation| violation.rule);
    assert_eq!(joins(&s), None);
    let mut plain = s.clone();
    plain.group.commands.membership = None;
    assert_eq!(joins(&plain), Some(Rule::PrimaryLimit));
    s.group.commands.secondary = Some(setting::command("secondary"));
    assert_eq!(joins(&s), None, "two lead");
    s.members[1].reading.role = Role::Secondary;
    assert_eq!(joins(&s), Some(Rule::PrimaryLimit), "one leads");
}

/// The members list db-2 like that.
pub fn relist(s: &mut Snapshot, listed: Option<bool>) {
    for heard in s.lists.values_mut() {
        let entries = &mut heard.list.as_mut().unwrap().entries;
        match listed {
            None => entries.retain(|e| e.name != Some(db(2))),
            Some(started) => {
                let own = entries.iter_mut().filter(|e| e.name == Some(db(2)));
                own.for_each(|e| e.name = e.name.take().filter(|_| started));
            }
        }
    }
    if listed == Some(false) {
        forget_starts(s);
    }
}

/// Nobody was seen to be started before.
pub fn forget_starts(s: &mut Snapshot) {
    let known = s.record.membership.iter_mut().flat_map(|known| &mut known.members);
    known.for_each(|listed| listed.started = false);
    claims_know(s);
}

/// Record and claims have the list, with the volumes of those that were not started yet.
pub fn claims_know(s: &mut Snapshot) {
    let volumes: BTreeMap<_, _> = s.members.iter().map(|m| (m.name.clone(), memory::claim_uids(&m.claims))).collect();
    let of = |name: &MemberName| volumes.get(name).cloned().flatten();
    s.record.membership.iter_mut().for_each(|known| known.note_volumes(of));
    let marks = s.members.iter_mut().flat_map(|m| &mut m.claims).filter_map(|claim| claim.mark.as_mut());
    marks.for_each(|mark| mark.membership.clone_from(&s.record.membership));
}

// D10, D20: nobody is started whom the application does not list, and no volume gets a second identity.
#[test]
fn nobody_starts_who_is_not_listed_or_on_another_volume() {
    for (primaries, verb) in [(3, Verb::Join), (1, Verb::Place)] {
        let s = one_stopped(primaries);
        let with = |change: &dyn Fn(&mut Snapshot)| {
            let mut other = s.clone();
            change(&mut other);
            let own = super::checks::intent(&other, verb, 2);
            check::start(&other, &own).err().map(|violation| violation.rule)
        };
        assert_eq!(with(&|_| ()), None, "{verb:?}");
        assert_eq!(with(&|s| relist(s, None)), Some(Rule::NotListed));
        assert_eq!(with(&|s| s.lists.clear()), Some(Rule::ListUnknown));
        assert_eq!(with(&|s| s.members[2].position = Position::Empty), Some(Rule::SecondIdentity), "its data is gone");
        assert_eq!(with(&|s| s.members[2].claims[0].uid = "another".into()), Some(Rule::SecondIdentity));
        let added = |position: Position, begun: bool| {
            with(&move |s| {
                relist(s, Some(false));
                s.members[2].position = position.clone();
                let started =
                    Started { term: 1, target: false, before: Position::Empty, followed: false, peer_stopped: false };
                s.record.member_mut(&db(2)).started = Some(started).filter(|_| begun);
            })
        };
        assert_eq!(added(Position::Empty, false), None);
        assert_eq!(added(Position::Known(sequence("9")), false), Some(Rule::SecondIdentity));
        assert_eq!(added(Position::Known(sequence("9")), true), None, "an interrupted start left it");
        assert_eq!(added(Position::Unknown("exited 3".into()), false), Some(Rule::SecondIdentity));
    }
}

/// Nobody runs any more.
pub fn all_stopped() -> Snapshot {
    let mut world = agreeing(3);
    (0..3).for_each(|ordinal| world.serve(ordinal, Role::Stopped));
    let mut s = world.observe();
    s.members.iter_mut().for_each(|m| m.position = Position::Known(sequence("9")));
    s
}

pub fn rejoins(s: &Snapshot, ordinal: u32) -> Option<Rule> {
    check::start(s, &super::checks::intent(s, Verb::Rejoin, ordinal)).err().map(|violation| violation.rule)
}

// D20, D27: when nobody serves, whoever the last list names starts, on its own volume.
#[test]
fn whoever_the_last_list_names_starts_again() {
    let s = all_stopped();
    let with = |change: &dyn Fn(&mut Snapshot)| {
        let mut other = s.clone();
        change(&mut other);
        rejoins(&other, 2)
    };
    assert_eq!(with(&|_| ()), None);
    assert_eq!(with(&|s| s.members[2].position = Position::Unknown("exited 3".into())), None);
    assert_eq!(with(&|s| s.group.replicas = 0), Some(Rule::NotSurplus));
    assert_eq!(
        with(&|s| (s.group.replicas, s.group.primaries) = (2, 2)),
        None,
        "it leaves, and is needed for a majority"
    );
    assert_eq!(with(&|s| s.members[2].position = Position::Empty), Some(Rule::SecondIdentity));
    assert_eq!(with(&|s| s.members[2].claims[0].uid = "another".into()), Some(Rule::SecondIdentity));
    assert_eq!(with(&|s| s.record.membership.as_mut().unwrap().members.truncate(2)), Some(Rule::NotListed));
    assert_eq!(with(&|s| s.record.member_mut(&db(2)).retry_at = Some(s.now + 1)), Some(Rule::BackOff));
    assert_eq!(with(&|s| s.members[2].reading.role = Role::Secondary), Some(Rule::WrongRole));
    assert_eq!(with(&|s| s.group.commands.membership = None), Some(Rule::NoCommand));
    let ran = |pod: &'static str, ordinal: u32| {
        with(&move |s| {
            let own = super::checks::intent(s, Verb::Rejoin, ordinal);
            let mut last = LastPrimary::of(&own, s.members[2].pod.as_ref().unwrap());
            last.pod_uid = pod.into();
            s.record.push_last_primary(last);
        })
    };
    let here = s.members[2].pod.as_ref().unwrap().uid.clone().leak();
    assert_eq!(ran("an earlier pod", 2), Some(Rule::MayBePrimary), "it may run there still, under the same identity");
    assert_eq!(
        (ran("an earlier pod", 1), ran(here, 2)),
        (None, None),
        "another one's pod; its own, where it is stopped"
    );
    let removing = |target: u32| with(&move |s| s.record.intents.push(intent(s, Verb::MemberRemove, 0, target)));
    assert_eq!((removing(2), removing(1)), (Some(Rule::ChangeOpen), None), "it may be removed already");
    let formed = |member: u32| {
        with(&move |s| {
            s.record.membership = None;
            s.record.ever_seeded = Some(Seeded { member: db(member), confirmed: true });
        })
    };
    assert_eq!((formed(2), formed(0)), (None, Some(Rule::NotListed)), "before any list was read");
    // What members say who run counts more than what is remembered.
    let mut some = agreeing(3);
    some.serve(2, Role::Stopped);
    let mut s = some.observe();
    s.members[2].position = Position::Known(sequence("9"));
    assert_eq!(rejoins(&s, 2), None);
    relist(&mut s, None);
    assert_eq!(rejoins(&s, 2), Some(Rule::NotListed));
}

// D27: a cluster is formed once; not even an override forms another one.
#[test]
fn a_cluster_is_formed_once() {
    let mut s = all_stopped();
    let seed =
        |s: &Snapshot| check::start(s, &super::checks::intent(s, Verb::Seed, 0)).err().map(|violation| violation.rule);
    assert_eq!(seed(&s), Some(Rule::AlreadyFormed));
    let (member, position, raw) = (db(0), Position::Known(sequence("9")), "x".to_owned());
    s.group.requested_override = Some(Override { member, position, term: s.record.term, raw });
    assert_eq!(seed(&s), Some(Rule::AlreadyFormed));
    s.record.membership = None;
    assert_eq!(seed(&s), Some(Rule::AlreadyFormed), "it was seeded");
    s.record.ever_seeded = None;
    assert_ne!(seed(&s), Some(Rule::AlreadyFormed));
    let mut plain = all_stopped();
    plain.group.commands.membership = None;
    assert_ne!(seed(&plain), Some(Rule::AlreadyFormed));
}

// D17, D19: whoever leaves is stopped, and the StatefulSet shrinks, only once the application does not list it any more.
#[test]
fn a_listed_member_is_not_stopped() {
    let mut world = agreeing(3);
    (world.group.replicas, world.group.primaries) = (2, 2);
    let s = world.observe();
    let stops =
        |s: &Snapshot, verb| check::start(s, &super::checks::intent(s, verb, 2)).err().map(|violation| violation.rule);
    assert_eq!(stops(&s, Verb::Remove), Some(Rule::StillListed));
    assert_eq!(stops(&s, Verb::Demote), Some(Rule::StillListed));
    let mut stopped = s.clone();
    stopped.members[2].reading.role = Role::Stopped;
    assert_eq!(check::shrink_group(&stopped, 2).unwrap_err().rule, Rule::StillListed);
    let mut let_go = s.clone();
    relist(&mut let_go, None);
    assert_eq!(stops(&let_go, Verb::Demote), None);
    let_go.lists.retain(|member, _| *member == db(0));
    let_go.lists.values_mut().for_each(|heard| heard.list.as_mut().unwrap().entries.push(unknown("m7")));
    assert_eq!(stops(&let_go, Verb::Remove), Some(Rule::StillListed), "a minority says so");
    let mut none = s.clone();
    (none.group.replicas, none.group.primaries) = (0, 0);
    assert_ne!(stops(&none, Verb::Remove), Some(Rule::StillListed), "all stop, and stay members");
}

// D14: nobody is stopped for another reason whose vote the majority needs.
#[test]
fn nobody_is_stopped_whose_vote_is_needed() {
    let mut s = agreeing(3).observe();
    s.record.member_mut(&db(2)).term = Some(0);
    let demotes = |s: &Snapshot| {
        check::start(s, &super::checks::intent(s, Verb::Demote, 2)).err().map(|violation| violation.rule)
    };
    assert_eq!(demotes(&s), None);
    let mut few = s.clone();
    few.lists.retain(|member, _| *member == db(0));
    assert_eq!(demotes(&few), Some(Rule::ListUnknown), "a minority says so");
    ill(&mut s, 1);
    assert_eq!(demotes(&s), Some(Rule::QuorumAtRisk));
    let ready = |m: &tanist_core::snapshot::Member| check::quorum_without(&s, &m.name).err().map(|v| v.rule);
    assert_eq!(
        s.members.iter().map(ready).collect::<Vec<_>>(),
        [Some(Rule::QuorumAtRisk), None, Some(Rule::QuorumAtRisk)]
    );
}

// D20: on the way back from 0 everyone who is listed has a seat; on the way to 0, and without a list, nothing changes.
#[test]
fn everyone_who_is_listed_has_a_seat() {
    let listed = |ordinal: u32, started, voter| Listed {
        id: ordinal.to_string(),
        member: Some(db(ordinal)),
        started,
        voter,
        volume: None,
    };
    let list = Membership {
        cluster: "c".into(),
        revision: 1,
        members: vec![listed(0, true, true), listed(2, true, false), listed(3, false, true), listed(4, false, false)],
    };
    let record = Record { membership: Some(list), ..Record::default() };
    let mut group = setting::group(1, 1);
    let set = Set { uid: "s".into(), ..Set::default() };
    let size = |group: &_| Roster::new(group, Some(&set), &record).size();
    assert_eq!(size(&group), 1, "no such command");
    group.commands.membership = Some(setting::members(false));
    assert_eq!(size(&group), 4, "one that has a vote may be needed before it ever ran");
    group.replicas = 0;
    assert_eq!(size(&group), 0);
}
