//! The roster of a group: who its members are, and who of them stays. Here it is said which numbers are members: those of a `StatefulSet` from 0 up, or where this operator
//! makes the pods those that it gave out ([`Seats`]). Rules ask for the standing of a member, and not for its number.
use crate::contract::MemberName;
use crate::record::{Record, Seats, Wanted};
use crate::snapshot::{Group, Member, Set};
use std::collections::BTreeSet;

/// What the group wants of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is one of the desired members.
    Desired,
    /// It is not desired any more and leaves in an orderly way (docs/safety.md, S25, S26).
    Leaving,
}

/// A place in the roster: a member that is expected, whether it has a pod or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// The member's name, which is also the name of its pod.
    pub name: MemberName,
    /// The number in its name.
    pub ordinal: u32,
    /// Whether it stays.
    pub standing: Standing,
}

/// The number in a member's name: compared as a number, never as text (row A8). `None`: it is no member of that group.
#[must_use]
pub fn ordinal(group: &str, member: &str) -> Option<u32> {
    let digits = member.strip_prefix(group)?.strip_prefix('-')?;
    let canonical = digits == "0" || !digits.starts_with('0');
    digits.parse().ok().filter(|_| canonical && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Who the members are, by what is desired, what there is and what is remembered.
#[derive(Debug, Clone, Copy)]
pub struct Roster<'a> {
    group: &'a Group,
    set: Option<&'a Set>,
    record: &'a Record,
}

impl<'a> Roster<'a> {
    /// The roster of a group with that `StatefulSet` and that memory.
    #[must_use]
    pub fn new(group: &'a Group, set: Option<&'a Set>, record: &'a Record) -> Self {
        Roster { group, set, record }
    }

    /// The group's name.
    #[must_use]
    pub fn group_name(self) -> &'a str {
        &self.group.name
    }

    /// The seats of all expected members, by ordinal.
    pub fn seats(self) -> impl Iterator<Item = Seat> {
        let numbers = match self.group.makes_pods {
            true => self.own().numbers,
            false => (0..self.size()).collect(),
        };
        let stay = self.staying();
        numbers.into_iter().map(move |ordinal| Seat {
            name: MemberName::from(format!("{}-{ordinal}", self.group.name)),
            ordinal,
            standing: if stay.has(ordinal) { Standing::Desired } else { Standing::Leaving },
        })
    }

    /// The number of seats, which is what a `StatefulSet` is given: never fewer than it has, because a member leaves in steps of its own (docs/safety.md,
    /// S25, S26), and never fewer than the record expects (docs/safety.md, S18).
    #[must_use]
    pub fn size(self) -> u32 {
        if self.group.makes_pods {
            return count(&self.own().numbers);
        }
        let listed = self.listed().max().map_or(0, |highest| highest.saturating_add(1));
        self.group.replicas.max(self.provided()).max(listed)
    }

    /// The numbers that the application's own members need: while they lack a majority nobody else can run for one that left with all the others.
    fn listed(self) -> impl Iterator<Item = u32> {
        let agrees = self.group.commands.membership.is_some() && !self.group.is_stopped();
        let known = self.record.membership.as_ref().filter(|_| agrees);
        known.into_iter().flat_map(|known| known.needed(&self.group.name))
    }

    /// The seats of a group whose pods this operator makes: what is remembered, with those that the application's members need, those that come back after a stop, and new ones for what
    /// is desired beyond them.
    #[must_use]
    pub fn own(self) -> Seats {
        let mut seats = self.record.seats.clone().unwrap_or_default();
        seats.numbers.extend(self.listed());
        let seen = seats.numbers.last().map_or(0, |highest| highest.saturating_add(1));
        seats.next = seats.next.max(seen);
        seats.filled(&self.wanted())
    }

    /// The members that the user wants, where this operator makes the pods.
    fn wanted(self) -> Wanted<'a> {
        let Group { replicas, unwanted, zones, .. } = self.group;
        Wanted { replicas: *replicas, unwanted, zones }
    }

    /// Whether the zones of members count now. While policies do not let another number of members in, the numbers of the zones are those of another group, and with 0 members nobody is to be anywhere.
    #[must_use]
    pub fn knows_zones(self) -> bool {
        let is_admitted = self.group.requested.replicas == self.group.replicas;
        self.group.makes_pods && !self.group.zones.is_empty() && is_admitted && !self.group.is_stopped()
    }

    /// Whether the member with that number is in a wrong zone (`spec.zones`).
    #[must_use]
    pub fn is_misplaced(self, ordinal: u32) -> bool {
        self.knows_zones() && self.own().is_misplaced(ordinal, &self.wanted())
    }

    /// How many members are desired: `replicas`, and where this operator makes the pods those in whose place new ones come, until these work.
    #[must_use]
    pub fn desired(self) -> u32 {
        let kept = |seats: &Seats| seats.kept(self.group.replicas, &self.group.unwanted).count();
        let more = self.record.seats.as_ref().filter(|_| self.group.makes_pods).map_or(0, kept);
        self.group.replicas.saturating_add(u32::try_from(more).unwrap_or(u32::MAX))
    }

    /// The number of seats that there are or were: pods were, or are, made for them.
    #[must_use]
    pub fn provided(self) -> u32 {
        match self.group.makes_pods {
            true => self.record.seats.as_ref().map_or(0, |seats| count(&seats.numbers)),
            false => self.set.map_or(0, |set| set.replicas).max(self.record.last_replicas),
        }
    }

    /// Whether a pod is made for the member now.
    #[must_use]
    pub fn is_made(self, member: &Member) -> bool {
        match self.group.makes_pods {
            true => self.was_provided(member),
            false => self.set.is_some_and(|set| member.ordinal < set.replicas),
        }
    }

    /// Whether the member has one of the seats that there are or were.
    #[must_use]
    pub fn was_provided(self, member: &Member) -> bool {
        match self.group.makes_pods {
            true => self.record.seats.as_ref().is_some_and(|seats| seats.numbers.contains(&member.ordinal)),
            false => member.ordinal < self.provided(),
        }
    }

    /// Whether the member is expected: otherwise only its pod is still there.
    #[must_use]
    pub fn has(self, member: &Member) -> bool {
        match self.group.makes_pods {
            true => self.own().numbers.contains(&member.ordinal),
            false => member.ordinal < self.size(),
        }
    }

    /// Whether a member leaves that there is, or was.
    #[must_use]
    pub fn has_surplus(self) -> bool {
        match self.group.makes_pods {
            true => self.seats().any(|seat| seat.standing == Standing::Leaving),
            false => self.provided() > self.group.replicas,
        }
    }

    /// Whether the member with that number stays.
    #[must_use]
    pub fn wants(self, ordinal: u32) -> bool {
        self.staying().has(ordinal)
    }

    /// What the group wants of the member.
    #[must_use]
    pub fn standing(self, member: &Member) -> Standing {
        if self.wants(member.ordinal) { Standing::Desired } else { Standing::Leaving }
    }

    fn staying(self) -> Staying {
        match self.group.makes_pods {
            true => Staying::These(self.own().stay(&self.wanted())),
            false => Staying::Below(self.group.replicas),
        }
    }
}

/// The numbers of the members that stay.
enum Staying {
    /// Members with an ordinal below this number, where a `StatefulSet` makes the pods.
    Below(u32),
    /// Members with these ordinals, where this operator makes the pods.
    These(BTreeSet<u32>),
}

impl Staying {
    fn has(&self, ordinal: u32) -> bool {
        match self {
            Staying::Below(end) => ordinal < *end,
            Staying::These(numbers) => numbers.contains(&ordinal),
        }
    }
}

fn count(numbers: &BTreeSet<u32>) -> u32 {
    u32::try_from(numbers.len()).unwrap_or(u32::MAX)
}
