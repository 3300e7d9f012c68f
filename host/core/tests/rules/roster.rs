//! The roster: who is a member and who leaves, by what is desired, what there is and what is remembered (docs/safety.md, S18, S25, S26).
use super::super::support::db;
use super::super::support::policies::Natural;
use super::super::support::setting::group;
use super::super::support::world::World;
use tanist_core::decide::decide;
use tanist_core::record::Record;
use tanist_core::roster::{Roster, Standing};
use tanist_core::snapshot::Set;

/// The seats of a group of which that many are desired, made and remembered; those that leave in brackets.
fn seats(desired: u32, made: Option<u32>, remembered: u32) -> String {
    let set = made.map(|replicas| Set { uid: "s".into(), replicas, ..Set::default() });
    let (group, record) = (group(desired, 1), Record { last_replicas: remembered, ..Record::default() });
    let roster = Roster::new(&group, set.as_ref(), &record);
    let shown = |standing, name| if standing == Standing::Leaving { format!("({name})") } else { name };
    let seats: Vec<_> = roster.seats().map(|seat| shown(seat.standing, seat.name.to_string())).collect();
    assert_eq!(roster.size() as usize, seats.len());
    seats.join(" ")
}

// S18, S25, S26: the StatefulSet is never given fewer members than it has or had; those that are not desired leave in their own time.
#[test]
fn the_set_never_gets_fewer_members_than_it_has_or_had() {
    assert_eq!(seats(3, None, 0), "db-0 db-1 db-2");
    assert_eq!(seats(5, Some(3), 3), "db-0 db-1 db-2 db-3 db-4");
    assert_eq!(seats(0, Some(3), 0), "(db-0) (db-1) (db-2)");
    assert_eq!(seats(1, Some(1), 3), "db-0 (db-1) (db-2)");
}

// S25: a pod beyond the roster is there for a moment after its member left. It is no member that is expected, and nothing is wanted of it.
#[test]
fn a_pod_beyond_the_roster_leaves_and_is_not_expected() {
    let mut world = World::new(3, 1);
    world.group.replicas = 1;
    let mut s = world.observe();
    (s.record.last_replicas, s.set.as_mut().unwrap().replicas) = (2, 2);
    let shown = |ordinal| {
        let member = s.member(&db(ordinal)).unwrap();
        (s.leaves(member), s.roster().has(member), s.roster().is_made(member))
    };
    assert_eq!((shown(0), shown(1), shown(2)), ((false, true, true), (true, true, true), (true, false, false)));
}

// S18, S26: who is asked back and then not, before the StatefulSet was told of it, left in an orderly way still: its claim surprises nobody and blocks no seed.
#[test]
fn a_member_that_was_asked_back_only_for_a_moment_has_left_in_an_orderly_way() {
    let mut world = World::new(3, 1);
    world.record.retired = [db(2)].into();
    let mut kept = |made| {
        let mut s = world.observe();
        s.set.as_mut().unwrap().replicas = made;
        s.record.last_replicas = 2;
        decide(&s, &Natural).record.retired
    };
    assert_eq!(kept(2), [db(2)].into(), "it is desired, and has no seat yet");
    assert_eq!(kept(3), [].into(), "it has a seat");
}
