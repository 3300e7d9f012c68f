//! How members are divided among zones (E14, E15; docs/rules.md, "Zones"): each member has one for life, and who is in a wrong one moves by a new member that joins first.
use super::super::support::db;
use super::super::support::policies::Natural;
use super::super::support::setting::group;
use super::super::support::world::World;
use super::membership::agreeing;
use std::collections::{BTreeMap, BTreeSet};
use tanist_core::decide::decide;
use tanist_core::record::{LastPrimary, Record, Seats, Wanted, Zone};
use tanist_core::roster::{Roster, Standing};
use tanist_core::snapshot::{Group, Node};

/// Zones by their names, some with a number of members: `a b=2`.
fn zones(names: &str) -> Vec<Zone> {
    let zone = |word: &str| {
        let (name, replicas) = word.split_once('=').map_or((word, None), |(name, n)| (name, n.parse().ok()));
        Zone { name: name.to_owned(), replicas }
    };
    names.split_whitespace().map(zone).collect()
}

/// Members by their zones: `a: 0 2, b: 1`. Those before a colon have no zone: `: 3`.
fn seats(members: &str) -> Seats {
    let mut seats = Seats::default();
    for part in members.split(',').filter(|part| !part.is_empty()) {
        let (zone, numbers) = part.split_once(':').unwrap();
        for number in numbers.split_whitespace().map(|number| number.parse().unwrap()) {
            seats.numbers.insert(number);
            seats.next = seats.next.max(number + 1);
            seats.is_in(number, Some(zone.trim()).filter(|zone| !zone.is_empty()));
        }
    }
    seats
}

fn own(replicas: u32, named: &str) -> Group {
    Group { makes_pods: true, zones: zones(named), ..group(replicas, 1) }
}

/// The members of a group with these zones, in brackets those that leave, each with its zone.
fn roster(known: &Seats, group: &Group) -> String {
    let record = Record { seats: Some(known.clone()), ..Record::default() };
    shown(group, &record)
}

fn shown(group: &Group, record: &Record) -> String {
    let roster = Roster::new(group, None, record);
    let own = roster.own();
    let all = roster.seats().map(|seat| {
        let text = format!("{}{}", own.zone(seat.ordinal).unwrap_or("?"), seat.ordinal);
        if seat.standing == Standing::Leaving { format!("({text})") } else { text }
    });
    all.collect::<Vec<_>>().join(" ")
}

#[test]
fn members_are_divided_evenly_or_as_the_user_says() {
    let formed = |replicas, zones| roster(&Seats::default(), &own(replicas, zones));
    assert_eq!(formed(3, "a b c"), "a0 b1 c2");
    assert_eq!(formed(5, "a b"), "a0 b1 a2 b3 a4");
    assert_eq!(formed(1, "a b"), "a0");
    assert_eq!(formed(5, "a=1 b c"), "a0 b1 c2 b3 c4", "the others share what is left");
    assert_eq!(formed(3, "a=2 b=1"), "a0 b1 a2");
    assert_eq!(formed(4, "a=4 b"), "a0 a1 a2 a3");
    // The definition refuses these; what was stored before has as many members as desired all the same.
    assert_eq!(formed(3, "a=1 b=1"), "a0 b1 a2");
    assert_eq!(formed(2, "a=3 b"), "a0 a1");
    assert_eq!(formed(0, "a b"), "");
}

#[test]
fn a_group_grows_where_it_has_fewest_and_shrinks_where_it_has_most() {
    let four = seats("a: 0 2, b: 1 3");
    assert_eq!(roster(&four, &own(5, "a b")), "a0 b1 a2 b3 a4");
    assert_eq!(roster(&four, &own(3, "a b")), "a0 b1 a2 (b3)");
    assert_eq!(
        roster(&seats("a: 0 2 4, b: 1"), &own(3, "a b")),
        "a0 b1 a2 (a4)",
        "the highest number of the fullest zone"
    );
    assert_eq!(
        roster(&seats("a: 0, b: 1 2"), &own(3, "a b")),
        "a0 b1 b2",
        "which of the two has one more does not matter"
    );
    let named = Group { unwanted: BTreeSet::from([1]), ..own(4, "a b") };
    assert_eq!(roster(&four, &named), "a0 (b1) a2 b3 b4", "who is to go is replaced in its zone");
}

#[test]
fn a_member_in_a_wrong_zone_moves_one_at_a_time_and_the_new_one_comes_first() {
    // A zone is added.
    let six = seats("a: 0 2 4, b: 1 3 5");
    assert_eq!(roster(&six, &own(6, "a b c")), "a0 b1 a2 b3 a4 (b5) c6");
    assert_eq!(roster(&seats("a: 0 2 4, b: 1 3, c: 6"), &own(6, "a b c")), "a0 b1 a2 b3 (a4) c6 c7");
    assert_eq!(roster(&seats("a: 0 2, b: 1 3, c: 6 7"), &own(6, "a b c")), "a0 b1 a2 b3 c6 c7");
    // A zone is renamed, or removed.
    assert_eq!(roster(&six, &own(6, "a d")), "a0 b1 a2 b3 a4 (b5) d6");
    assert_eq!(roster(&six, &own(6, "a")), "a0 b1 a2 b3 a4 (b5) a6");
    // More at a time, or none.
    let mut faster = own(6, "a d");
    faster.update.replacements = 2;
    assert_eq!(roster(&six, &faster), "a0 b1 a2 (b3) a4 (b5) d6 d7");
    faster.update.replacements = 0;
    assert_eq!(roster(&six, &faster), "a0 b1 a2 b3 a4 b5");
    assert_eq!(
        roster(&seats("a: 0 2 4, b: 1 3"), &faster),
        "a0 b1 a2 b3 a4 d5",
        "one that is missing comes in the right zone"
    );
}

// Members that agree are at most 64, so of as many nobody moves: another one comes when one of them is gone.
#[test]
fn members_that_agree_have_no_room_beyond_their_limit() {
    let s = agreeing(3).observe();
    let all: Vec<String> = (0..64).map(|n| n.to_string()).collect();
    let known = seats(&format!("a: {}", all.join(" ")));
    let new = |replicas| {
        let group = Group { replicas, zones: zones("b"), makes_pods: true, ..s.group.clone() };
        let record = Record { seats: Some(known.clone()), ..Record::default() };
        Roster::new(&group, None, &record).own().numbers.len() - 64
    };
    assert_eq!((new(64), new(63)), (0, 0));
    let fewer = seats(&format!("a: {}", all[..63].join(" ")));
    let group = Group { replicas: 63, zones: zones("b"), makes_pods: true, ..s.group.clone() };
    assert!(roster(&fewer, &group).ends_with("(a62) b63"));
}

// A leader that moves hands over, so it does that once, at the end.
#[test]
fn a_primary_moves_last() {
    let (known, group) = (seats("a: 0 2 4, b: 1 3 5"), own(6, "a d"));
    let led = |ordinal: u32| {
        let last = LastPrimary {
            member: db(ordinal),
            pod_uid: "u".into(),
            container: "db".into(),
            container_id: "c".into(),
            node: None,
            grace: 30,
            gone: None,
        };
        let record = Record { seats: Some(known.clone()), last_primaries: vec![last], ..Record::default() };
        shown(&group, &record)
    };
    assert_eq!(led(5), "a0 b1 a2 (b3) a4 b5 d6");
    assert_eq!(led(0), "a0 b1 a2 b3 a4 (b5) d6");
}

#[test]
fn who_is_in_no_known_zone_stays_and_counts_for_none() {
    assert_eq!(roster(&seats(": 0 1 2"), &own(3, "a b c")), "?0 ?1 ?2");
    assert_eq!(roster(&seats("a: 0 1, : 2"), &own(3, "a b c")), "a0 (a1) ?2 b3");
    assert_eq!(roster(&seats(": 0 1 2"), &own(2, "a b c")), "?0 ?1 (?2)");
}

// A zone is for life: also while the group is at 0, and not for who comes later.
#[test]
fn a_member_keeps_its_zone_until_it_has_left() {
    let mut known = seats("a: 0, b: 1 2");
    known.remove(&BTreeSet::from([0, 1, 2]), true);
    assert_eq!(roster(&known, &own(3, "b a")), "a0 b1 b2");
    let mut known = seats("a: 0, b: 1 2");
    known.remove(&BTreeSet::from([0, 1]), false);
    assert_eq!(known.zones, BTreeMap::from([("b".to_owned(), BTreeSet::from([2]))]));
    assert_eq!(roster(&seats("a: 0, b: 1"), &own(2, "")), "?0 ?1", "without zones members run anywhere");
}

// Members of before `spec.zones` was set are where their nodes are, and the nodes' own zones do not matter to who has one.
#[test]
fn the_nodes_say_the_zones_of_members_that_have_none() {
    let mut s = World::settled(10_000).observe();
    s.group = Group { makes_pods: true, zones: zones("a b"), ..s.group };
    s.record.seats = Some(seats("a: 1, : 0 2"));
    let node =
        |zone: &str| Node { zone: Some(zone.to_owned()), ..s.nodes.as_ref().unwrap().values().next().unwrap().clone() };
    s.nodes = Some((0..3).zip(["a", "b", "b"]).map(|(n, zone)| (format!("node-{n}"), node(zone))).collect());
    for (member, n) in s.members.iter_mut().zip(0..) {
        member.pod.as_mut().unwrap().node = Some(format!("node-{n}"));
    }
    assert_eq!(decide(&s, &Natural).record.seats, Some(seats("a: 0 1, b: 2")));
    s.group.zones.clear();
    assert_eq!(decide(&s, &Natural).record.seats, Some(seats(": 0 1 2")));
}

/// A small random generator: a test with the same seed does the same.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Whatever is changed, one step after the other: never are there fewer members to stay than desired, never more than one beyond them that moves, no number comes twice, and when nothing changes any more each
/// zone has its share after as many steps as members move.
#[test]
fn whatever_changes_the_zones_get_their_shares() {
    for seed in 0..3_000 {
        let mut dice = Dice(seed);
        let (mut known, mut group) = (Seats::default(), own(3, "a b c"));
        let mut given: BTreeSet<u32> = BTreeSet::new();
        for _ in 0..6 {
            let named =
                ["a b c", "a b", "c", "b a d", "a=1 b c", "d e f", "a=0 b"][usize::try_from(dice.below(7)).unwrap()];
            group = Group { replicas: u32::try_from(1 + dice.below(7)).unwrap(), ..own(1, named) };
            let steps = dice.below(30);
            for _ in 0..steps {
                step(&mut known, &group, &mut given, seed);
            }
        }
        (0..40).for_each(|_| step(&mut known, &group, &mut given, seed));
        let counts: Vec<usize> =
            group.zones.iter().map(|zone| known.zones.get(&zone.name).map_or(0, BTreeSet::len)).collect();
        assert_eq!(counts.iter().sum::<usize>(), usize::try_from(group.replicas).unwrap(), "seed {seed}: {known:?}");
        let open = || group.zones.iter().zip(&counts).filter(|(zone, _)| zone.replicas.is_none()).map(|(_, n)| *n);
        assert!(open().max().unwrap() - open().min().unwrap() < 2, "seed {seed}: {counts:?} of {:?}", group.zones);
    }
}

/// All that are expected are there; then the highest of those that leave does.
fn step(known: &mut Seats, group: &Group, given: &mut BTreeSet<u32>, seed: u64) {
    let none = BTreeSet::new();
    let wanted = Wanted {
        replicas: group.replicas,
        unwanted: &none,
        zones: &group.zones,
        moves: group.update.replacements,
        primaries: &none,
    };
    let filled = known.filled(&wanted);
    let new: Vec<u32> = filled.numbers.difference(&known.numbers).copied().collect();
    assert!(new.iter().all(|number| given.insert(*number)), "seed {seed}: {new:?} was given out before");
    assert_eq!(filled.filled(&wanted), filled, "seed {seed}: nothing is missing any more");
    let stay = filled.stay(&wanted);
    assert_eq!(stay.len(), usize::try_from(group.replicas).unwrap(), "seed {seed}: {filled:?}");
    assert!(
        new.len() <= usize::try_from(group.replicas + 1).unwrap().saturating_sub(known.numbers.len()),
        "seed {seed}"
    );
    *known = filled;
    if let Some(last) = known.numbers.difference(&stay).max().copied() {
        known.remove(&BTreeSet::from([last]), false);
    }
}
