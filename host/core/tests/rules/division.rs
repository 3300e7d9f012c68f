//! How members are divided among zones (E14, E15; docs/rules.md, "Zones"): each member has one for life, and when it changes which zones there are, others come and go.
use super::super::support::setting::group;
use std::collections::{BTreeMap, BTreeSet};
use tanist_core::record::{Record, Seats, Wanted, Zone};
use tanist_core::roster::{Roster, Standing};
use tanist_core::snapshot::Group;

/// Zones by their names, some with a number of members: `a b=2`.
pub(super) fn zones(names: &str) -> Vec<Zone> {
    let zone = |word: &str| {
        let (name, replicas) = word.split_once('=').map_or((word, None), |(name, n)| (name, n.parse().ok()));
        Zone { name: name.to_owned(), replicas }
    };
    names.split_whitespace().map(zone).collect()
}

/// Members by their zones: `a: 0 2, b: 1`. Those before a colon have no zone: `: 3`.
pub(super) fn seats(members: &str) -> Seats {
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

pub(super) fn shown(group: &Group, record: &Record) -> String {
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

/// Who is in a wrong zone.
fn misplaced(known: &Seats, group: &Group) -> Vec<u32> {
    let record = Record { seats: Some(known.clone()), ..Record::default() };
    let roster = Roster::new(group, None, &record);
    known.numbers.iter().copied().filter(|number| roster.is_misplaced(*number)).collect()
}

#[test]
fn who_is_in_a_wrong_zone_stays_and_is_known() {
    let six = seats("a: 0 2 4, b: 1 3 5");
    let all = "a0 b1 a2 b3 a4 b5";
    for (zones, wrong) in
        [("a b", vec![]), ("a b c", vec![4, 5]), ("a d", vec![1, 3, 5]), ("a", vec![1, 3, 5]), ("a=1 b", vec![2, 4])]
    {
        let group = own(6, zones);
        assert_eq!((roster(&six, &group).as_str(), misplaced(&six, &group)), (all, wrong), "{zones}");
    }
    // One that is missing comes in the right zone.
    assert_eq!(roster(&seats("a: 0 2 4, b: 1 3"), &own(6, "a d")), "a0 b1 a2 b3 a4 d5");
    // While another number is not let in yet, the numbers of the zones are not those of the group.
    let mut waits = own(6, "a d");
    waits.requested.replicas = 7;
    assert_eq!(misplaced(&six, &waits), [0; 0]);
    assert_eq!(misplaced(&six, &own(0, "a d")), [0; 0]);
}

// B5: which zone has one more does not change when somebody leaves or comes: who is to go is the same until it has gone.
#[test]
fn who_leaves_is_the_same_until_it_has_left() {
    let six = seats("a: 0 2 4, b: 1 3 5");
    assert_eq!(roster(&six, &own(3, "a b")), "a0 b1 a2 (b3) (a4) (b5)");
    assert_eq!(roster(&seats("a: 0 2, b: 1 3 5"), &own(3, "a b")), "a0 b1 a2 (b3) (b5)");
    assert_eq!(roster(&seats("a: 4 6, b: 1 5, c: 2"), &own(4, "a b c")), "b1 c2 a4 b5 (a6)", "the newest goes first");
    assert_eq!(roster(&seats("a: 0 2, b: 1 3"), &own(3, "a")), "a0 b1 a2 (b3)", "who is nowhere wanted goes first");
}

#[test]
fn who_is_in_no_known_zone_stays_and_counts_for_none() {
    assert_eq!(roster(&seats(": 0 1 2"), &own(3, "a b c")), "?0 ?1 ?2");
    assert_eq!(misplaced(&seats("a: 0 1, : 2"), &own(3, "a b c")), [1]);
    assert_eq!(roster(&seats(": 0 1 2"), &own(2, "a b c")), "?0 ?1 (?2)");
}

// E14: which zones they are in may be known later, so the zones divide the others among themselves.
#[test]
fn who_is_in_no_known_zone_takes_no_place_in_any() {
    assert_eq!(roster(&seats(": 0 1, a: 2"), &own(4, "a b")), "?0 ?1 a2 b3");
    assert_eq!(misplaced(&seats("a: 0 1, : 2"), &own(3, "a b")), [1]);
}

// E15: the definition refuses more than are desired. Of what was stored before the first zones get their numbers, and who is beyond them is in a wrong zone.
#[test]
fn zones_that_want_too_many_get_them_in_their_order() {
    assert_eq!(roster(&Seats::default(), &own(2, "a=2 b=1 c=1")), "a0 a1");
    assert_eq!(misplaced(&seats("a: 0, b: 1 2"), &own(3, "a=2 b=2")), [2]);
}

// E14: a zone that has too many is one that the user names all the same.
#[test]
fn who_is_nowhere_wanted_goes_before_one_of_a_zone_that_has_too_many() {
    assert_eq!(roster(&seats("c: 0, a: 1 2 3"), &own(3, "a b")), "(c0) a1 a2 a3");
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

/// A small random generator: a test with the same seed does the same.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Whatever is changed, one step after the other: never are there fewer members to stay than desired, never more than one beyond them that moves, no number comes twice, who is to leave leaves, and when nothing changes
/// any more each zone has its share after as many steps as members move.
#[test]
fn whatever_changes_the_zones_get_their_shares() {
    for seed in 0..3_000 {
        let mut dice = Dice(seed);
        let (mut known, mut group) = (Seats::default(), own(3, "a b c"));
        let mut given: BTreeSet<u32> = BTreeSet::new();
        for _ in 0..6 {
            let named =
                ["a b c", "a b", "c", "b a d", "a=1 b c", "d e f", "a=0 b"][usize::try_from(dice.below(7)).unwrap()];
            group = own(u32::try_from(1 + dice.below(7)).unwrap(), named);
            for _ in 0..dice.below(30) {
                step(&mut known, &group, &mut given, seed);
            }
        }
        (0..80).for_each(|_| step(&mut known, &group, &mut given, seed));
        let counts: Vec<usize> =
            group.zones.iter().map(|zone| known.zones.get(&zone.name).map_or(0, BTreeSet::len)).collect();
        assert_eq!(counts.iter().sum::<usize>(), usize::try_from(group.replicas).unwrap(), "seed {seed}: {known:?}");
        let open = || group.zones.iter().zip(&counts).filter(|(zone, _)| zone.replicas.is_none()).map(|(_, n)| *n);
        assert!(open().max().unwrap() - open().min().unwrap() < 2, "seed {seed}: {counts:?} of {:?}", group.zones);
    }
}

/// All that are expected are there; then the highest of those that leave does, or the one that moves is called, stays or begins to leave.
fn step(known: &mut Seats, group: &Group, given: &mut BTreeSet<u32>, seed: u64) {
    let none = BTreeSet::new();
    let wanted = Wanted { replicas: group.replicas, unwanted: &none, zones: &group.zones };
    let filled = known.filled(&wanted);
    let new: Vec<u32> = filled.numbers.difference(&known.numbers).copied().collect();
    assert!(new.iter().all(|number| given.insert(*number)), "seed {seed}: {new:?} was given out before");
    assert_eq!(filled.filled(&wanted), filled, "seed {seed}: nothing is missing any more");
    let stay = filled.stay(&wanted);
    let kept = filled.replaced.len();
    assert_eq!(stay.len(), usize::try_from(group.replicas).unwrap() + kept, "seed {seed}: {filled:?}");
    *known = filled;
    let leave: BTreeSet<u32> = known.numbers.difference(&stay).copied().collect();
    if let Some(last) = leave.last().copied() {
        known.remove(&BTreeSet::from([last]), false);
        let then: BTreeSet<u32> = known.numbers.difference(&known.stay(&wanted)).copied().collect();
        assert_eq!(then.len() + 1, leave.len(), "seed {seed}: {known:?}");
        assert!(then.is_subset(&leave), "seed {seed}: {then:?} is to leave since {last} of {leave:?} has left");
    } else if let Some(moves) = known.replaced.keys().next().copied() {
        known.replaced.clear();
        if known.is_misplaced(moves, &wanted) {
            known.leaving.insert(moves);
        }
    } else if let Some(wrong) = known.numbers.iter().rev().copied().find(|number| known.is_misplaced(*number, &wanted))
    {
        let next = known.next;
        known.replaced.insert(wrong, next);
    }
}
