//! How the members of a group are divided among zones (`spec.zones`, E14, E15): where this operator makes the pods itself, each member has a zone for life.
use super::Seats;
use std::collections::BTreeSet;

/// A zone that the user names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// The value of the node label (`spec.zones.nodeLabel`).
    pub name: String,
    /// How many members it has. Absent: those that no zone has by number are divided evenly among all zones without one.
    pub replicas: Option<u32>,
}

/// Which members the user wants, of a group whose pods this operator makes itself.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// How many members the group is to have.
    pub replicas: u32,
    /// The numbers of those that are to go (`spec.members.remove`).
    pub unwanted: &'a BTreeSet<u32>,
    /// The zones in the order of the spec. Empty: members have none.
    pub zones: &'a [Zone],
}

/// The members of a group that may stay, by zone.
struct Spread {
    /// Of each zone of the spec, in its order.
    zones: Vec<BTreeSet<u32>>,
    /// Those in a zone that the user does not name any more.
    elsewhere: BTreeSet<u32>,
    /// Those of which nobody knows where they are: they count for no zone, and move nowhere.
    unknown: BTreeSet<u32>,
}

impl Spread {
    fn of(seats: &Seats, free: &BTreeSet<u32>, zones: &[Zone]) -> Self {
        let of = |name: &str| seats.zones.get(name).map(|own| own.intersection(free).copied().collect());
        let zones: Vec<BTreeSet<u32>> = zones.iter().map(|zone| of(&zone.name).unwrap_or_default()).collect();
        let known: BTreeSet<u32> = seats.zones.values().flatten().copied().collect();
        let here: BTreeSet<u32> = zones.iter().flatten().copied().collect();
        let (known, unknown): (BTreeSet<u32>, BTreeSet<u32>) = free.iter().partition(|number| known.contains(number));
        Spread { elsewhere: known.difference(&here).copied().collect(), unknown, zones }
    }

    /// How many members each zone is to have. What is left over in an even division goes to the zones whose next member has the lowest number, and then to the first ones of the spec. So whoever leaves or comes changes
    /// nothing for the others.
    fn shares(&self, wanted: &Wanted<'_>) -> Vec<usize> {
        let mut left = size(wanted.replicas).saturating_sub(self.unknown.len());
        let mut shares: Vec<usize> = Vec::new();
        for zone in wanted.zones {
            let share = zone.replicas.map_or(0, size).min(left);
            left -= share;
            shares.push(share);
        }
        let open = |zone: &Zone| zone.replicas.is_none();
        // The definition refuses numbers that leave some without a zone; what was stored before stays whole.
        let all_are_fixed = !wanted.zones.iter().any(open);
        let is_open = |(_, zone): &(usize, &Zone)| all_are_fixed || open(zone);
        let mut takers: Vec<usize> = wanted.zones.iter().enumerate().filter(is_open).map(|(at, _)| at).collect();
        let (each, more) = (left.checked_div(takers.len()).unwrap_or(0), left.checked_rem(takers.len()).unwrap_or(0));
        let fixed = |at: usize| shares.get(at).copied().unwrap_or(0);
        let next = |at: &usize| self.zones.get(*at)?.iter().nth(fixed(*at).saturating_add(each)).copied();
        takers.sort_by_key(|at| next(at).unwrap_or(u32::MAX));
        for (rank, at) in takers.into_iter().enumerate() {
            if let Some(share) = shares.get_mut(at) {
                *share += each + usize::from(rank < more);
            }
        }
        shares
    }

    /// The members that are in the right zone: in each as many as it is to have, the lowest numbers; and those of which nobody knows where they are.
    fn placed(&self, wanted: &Wanted<'_>) -> BTreeSet<u32> {
        let shares = self.shares(wanted);
        let of_zones = self.zones.iter().zip(shares).flat_map(|(numbers, share)| numbers.iter().take(share));
        of_zones.chain(&self.unknown).copied().collect()
    }
}

/// The zones of the members that the group has too few of, in the order in which these get their numbers. `free`: the numbers of those that may stay.
pub(super) fn missing<'a>(seats: &Seats, free: &BTreeSet<u32>, wanted: &Wanted<'a>) -> Vec<&'a str> {
    let spread = Spread::of(seats, free, wanted.zones);
    let present = spread.zones.iter().map(BTreeSet::len);
    let lack: Vec<usize> =
        spread.shares(wanted).into_iter().zip(present).map(|(share, present)| share.saturating_sub(present)).collect();
    let most = size(wanted.replicas).saturating_sub(free.len());
    // In turns, so that the first members of a group are in as many zones as possible.
    let deepest = lack.iter().copied().max().unwrap_or(0);
    let names = |depth: usize| {
        let lacks = wanted.zones.iter().zip(&lack).filter(move |(_, lack)| **lack >= depth);
        lacks.map(|(zone, _)| zone.name.as_str())
    };
    (1..=deepest).flat_map(names).take(most).collect()
}

/// The members that stay: those in the right zone, and of the others as many as are missing, the lowest numbers of zones that the user names first.
pub(super) fn staying(seats: &Seats, free: &BTreeSet<u32>, wanted: &Wanted<'_>) -> BTreeSet<u32> {
    let spread = Spread::of(seats, free, wanted.zones);
    let mut stay = spread.placed(wanted);
    let here = spread.zones.iter().flatten().copied().collect::<BTreeSet<u32>>();
    let rest: Vec<u32> = here.difference(&stay).chain(&spread.elsewhere).copied().collect();
    let most = size(wanted.replicas);
    let missing = most.saturating_sub(stay.len());
    stay.extend(rest.into_iter().take(missing));
    stay.into_iter().take(most).collect()
}

/// Whether that member would be in a wrong zone if it stayed: in one that has too many, or that the user does not name any more.
pub(super) fn is_misplaced(seats: &Seats, free: &BTreeSet<u32>, wanted: &Wanted<'_>, number: u32) -> bool {
    let mut free = free.clone();
    free.insert(number);
    !Spread::of(seats, &free, wanted.zones).placed(wanted).contains(&number)
}

fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
