//! When a member starts for the first time, and on which volume: what is remembered of it before has to outlive the status.
use super::super::support::policies::Natural;
use super::super::support::world::World;
use super::super::support::{db, sequence};
use super::checks::intent;
use super::membership::agreeing;
use super::resize::{all_stopped, claims_know, one_stopped, rejoins, relist};
use tanist_core::check::{self, Rule};
use tanist_core::contract::{Position, Role};
use tanist_core::decide::decide;
use tanist_core::memory;
use tanist_core::plan::Action;
use tanist_core::record::{Started, Verb};
use tanist_core::snapshot::Snapshot;

// D20, S32: a member starts for the first time only once the record and the claims of the others have the list with it: whoever loses the record afterwards knows everyone who may be needed
// for a majority. Claims that say nothing of this group's members are not waited for.
#[test]
fn a_first_start_waits_until_the_claims_know_the_list() {
    let starts = |s: &Snapshot| check::start(s, &intent(s, Verb::Join, 2)).err().map(|why| why.rule);
    let mut s = one_stopped(3);
    relist(&mut s, Some(false));
    s.members[2].position = Position::Empty;
    assert_eq!(starts(&s), None);
    let with = |change: &dyn Fn(&mut Snapshot)| {
        let mut other = s.clone();
        change(&mut other);
        let own = &other.members[1].claims[0].name;
        let marked = |action: &&Action| matches!(action, Action::MarkClaim { claim, .. } if claim == own);
        (starts(&other), decide(&other, &Natural).actions.iter().filter(marked).count())
    };
    let unaware =
        |s: &mut Snapshot, ordinal: usize| s.members[ordinal].claims[0].mark.as_mut().unwrap().membership = None;
    assert_eq!(with(&|s| unaware(s, 1)), (Some(Rule::ListUnknown), 1));
    // Nobody says a list any more: the one that was alone before has lost its majority by the addition.
    let alone = |s: &mut Snapshot| {
        unaware(s, 1);
        s.lists.clear();
        s.members.iter_mut().take(2).for_each(|m| m.reading.role = Role::Starting);
    };
    assert_eq!(with(&alone).1, 1, "its claim is told all the same");
    assert_eq!(with(&|s| s.members[1].claims[0].mark = None), (Some(Rule::ListUnknown), 1));
    let elsewhere = |s: &mut Snapshot| {
        unaware(s, 1);
        s.members[1].claims[0].uid = "another".into();
        s.members[1].reading.role = Role::Starting;
    };
    assert_eq!(with(&elsewhere), (None, 0), "it has another volume");
    let later = |s: &mut Snapshot| s.members[1].claims[0].mark.as_mut().unwrap().term = 9;
    assert_eq!(with(&|s| (unaware(s, 1), later(s)).1), (None, 0), "an administrator compares it with the record");
    let unrecorded = |s: &mut Snapshot| {
        s.record.membership.as_mut().unwrap().members.retain(|listed| listed.member != Some(db(2)));
        claims_know(s);
    };
    assert_eq!(with(&unrecorded).0, Some(Rule::ListUnknown));
}

// S32, D20: who was added and whose first start is not known to have happened may begin on the volume that was noted for it, and on no other. It is not taken for one that lost its volume.
#[test]
fn whoever_was_added_may_begin_on_the_volume_that_was_noted() {
    let volume = |s: &Snapshot| memory::claim_uids(&s.members[2].claims);
    let added = |position: Position, noted: &dyn Fn(&Snapshot) -> Option<String>| {
        let mut s = all_stopped();
        let noted = noted(&s);
        let own = s.record.membership.as_mut().unwrap().members.iter_mut().find(|l| l.member == Some(db(2))).unwrap();
        // As after the status was removed: whoever the claims list counts as started.
        (own.started, own.volume) = (true, noted);
        s.record.member_mut(&db(2)).claim_uid = None;
        s.members[2].position = position;
        rejoins(&s, 2)
    };
    let other = |_: &Snapshot| Some("another".to_owned());
    let none = |_: &Snapshot| None;
    let known = || Position::Known(sequence("9"));
    // S32 (simulator, seed 113438642): nobody knows the volume, so it is read first.
    let unread = |s: &mut Snapshot| s.members[2].position = Position::Unknown("exited 3".into());
    let mut s = all_stopped();
    unread(&mut s);
    assert_eq!(rejoins(&s, 2), None, "it is the volume on which it served");
    s.record.member_mut(&db(2)).term = None;
    assert_eq!(rejoins(&s, 2), Some(Rule::SecondIdentity));
    assert_eq!((added(Position::Empty, &volume), added(known(), &volume)), (None, None));
    assert_eq!(added(Position::Empty, &none), Some(Rule::SecondIdentity));
    for position in [Position::Empty, known()] {
        assert_eq!(added(position, &other), Some(Rule::SecondIdentity));
    }
}

// S32: a list that says that the member was started proves that its volume had data, whoever said it: an empty one is not that any more, although it has the same name and UID.
#[test]
fn whoever_is_listed_as_started_does_not_begin_on_an_empty_volume() {
    let joins = |started: bool| {
        let mut s = one_stopped(3);
        relist(&mut s, Some(started));
        let volume = memory::claim_uids(&s.members[2].claims);
        let own = s.record.membership.as_mut().unwrap().members.iter_mut().find(|l| l.member == Some(db(2))).unwrap();
        (own.started, own.volume) = (true, volume);
        s.record.member_mut(&db(2)).claim_uid = None;
        s.members[2].position = Position::Empty;
        let agreed = check::agreed(&s).unwrap();
        let is_lost = check::lost(&s, agreed.list.entry("db", &db(2)).unwrap(), &s.members[2]);
        (check::start(&s, &intent(&s, Verb::Join, 2)).err().map(|why| why.rule), is_lost)
    };
    assert_eq!(joins(false), (None, false));
    assert_eq!(joins(true), (Some(Rule::SecondIdentity), true), "it is removed, and added anew");
}

// S32: the volume of whoever was not started yet is noted, also when another one takes its place; of whoever was started nothing is noted any more.
#[test]
fn the_volume_of_a_first_start_is_noted_until_it_was_seen() {
    let mut world = agreeing(3);
    world.record.membership.as_mut().unwrap().members.iter_mut().for_each(|listed| listed.started = false);
    world.forget_lists();
    let noted = |world: &mut World| {
        let record = decide(&world.observe(), &Natural).record;
        world.record = record;
        let list = world.record.membership.clone().unwrap();
        (list.revision, list.of(&db(2)).unwrap().volume.clone())
    };
    let (first, uid) = noted(&mut world);
    assert_eq!(uid, memory::claim_uids(&world.observe().members[2].claims));
    assert_eq!(noted(&mut world).0, first, "nothing changed");
    world.volumes.remove(&2);
    world.new_volume(2);
    let (second, other) = noted(&mut world);
    assert_eq!((second, other == uid, other.is_some()), (first + 1, false, true));
    let start = Started { term: 1, target: false, before: Position::Empty, followed: false, peer_stopped: false };
    world.record.member_mut(&db(2)).started = Some(start);
    world.volumes.remove(&2);
    world.new_volume(2);
    assert_eq!(noted(&mut world), (second, other), "a start was begun there (simulator, seed 113438642)");
    world.record.membership.as_mut().unwrap().note_started(&db(2));
    assert_eq!(noted(&mut world).1, None);
}
