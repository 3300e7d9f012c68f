//! The roster of a group: who its members are, and who of them stays. Here it is said which numbers of a `StatefulSet` are members;
//! rules ask for the standing of a member, and not for its number.
use crate::contract::MemberName;
use crate::record::Record;
use crate::snapshot::{Group, Member, Set};

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
        (0..self.size()).map(move |ordinal| Seat {
            name: MemberName::from(format!("{}-{ordinal}", self.group.name)),
            ordinal,
            standing: self.standing_of(ordinal),
        })
    }

    /// The number of seats, which is what the `StatefulSet` is given: never fewer than it has, because a member leaves in steps of its own (docs/safety.md,
    /// S25, S26), and never fewer than the record expects (docs/safety.md, S18).
    #[must_use]
    pub fn size(self) -> u32 {
        self.group.replicas.max(self.provided()).max(self.listed())
    }

    /// The number of seats that the application's own members need: while they lack a majority nobody else can run for one that left with all the others.
    fn listed(self) -> u32 {
        let agrees = self.group.commands.membership.is_some() && !self.group.is_stopped();
        let known = self.record.membership.as_ref().filter(|_| agrees);
        known.map_or(0, |known| known.seats(&self.group.name))
    }

    /// The number of seats that there are or were: the `StatefulSet` was told to make their pods.
    #[must_use]
    pub fn provided(self) -> u32 {
        self.set.map_or(0, |set| set.replicas).max(self.record.last_replicas)
    }

    /// Whether the `StatefulSet` makes a pod for the member now.
    #[must_use]
    pub fn is_made(self, member: &Member) -> bool {
        self.set.is_some_and(|set| member.ordinal < set.replicas)
    }

    /// Whether the member has one of the seats that there are or were.
    #[must_use]
    pub fn was_provided(self, member: &Member) -> bool {
        member.ordinal < self.provided()
    }

    /// Whether the member is expected: otherwise only its pod is still there.
    #[must_use]
    pub fn has(self, member: &Member) -> bool {
        member.ordinal < self.size()
    }

    /// What the group wants of the member.
    #[must_use]
    pub fn standing(self, member: &Member) -> Standing {
        self.standing_of(member.ordinal)
    }

    fn standing_of(self, ordinal: u32) -> Standing {
        if ordinal < self.group.replicas { Standing::Desired } else { Standing::Leaving }
    }
}
