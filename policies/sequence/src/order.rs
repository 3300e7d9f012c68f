//! The order of members.

use std::cmp::{Ordering, Reverse};

use tanist_policy::{Member, Parameters, Position, Role, Snapshot};

/// Best first: data, then (at a failover) running members, then preferred members, then ordinal, then name. The order is total: no two members are
/// equal.
#[derive(Debug, Default)]
pub struct Order {
    /// Running secondaries come before stopped members with the same data.
    pub running_first: bool,
    /// Members that come first among those with the same data, best first.
    pub preferred: Vec<String>,
}

impl Order {
    /// The order with the preferences of the snapshot: first the group's, then those of the parameters.
    pub fn preferring(snapshot: &Snapshot) -> Self {
        let listed = Parameters::of(snapshot).texts("prefer");
        let preferred = snapshot.group.preferred_primary.iter().cloned().chain(listed).collect();
        Self { running_first: false, preferred }
    }

    /// The members that may be chosen, best first.
    pub fn sorted<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a Member> {
        let mut members: Vec<_> = snapshot.eligible().collect();
        members.sort_unstable_by(|left, right| self.compare(left, right));
        members
    }

    fn compare(&self, left: &Member, right: &Member) -> Ordering {
        recency(left)
            .cmp(&recency(right))
            .then_with(|| self.rank(left).cmp(&self.rank(right)))
            .then_with(|| left.ordinal.cmp(&right.ordinal))
            .then_with(|| left.name.cmp(&right.name))
    }

    /// What decides among members with the same data, before the ordinal.
    fn rank(&self, member: &Member) -> (bool, usize) {
        let idle = self.running_first && member.role != Role::Secondary;
        let place = self.preferred.iter().position(|name| *name == member.name).unwrap_or(usize::MAX);
        (idle, place)
    }

    /// The reason why the first of several members with the same data comes before the second.
    pub fn why_first(&self, equal: &[&Member]) -> &'static str {
        match equal {
            [first, second, ..] => match (self.rank(first), self.rank(second)) {
                ((own, _), (other, _)) if own != other => "role (it is running)",
                ((_, own), (_, other)) if own != other => "preference",
                _ => "ordinal",
            },
            _ => "ordinal",
        }
    }
}

/// The key of the order, smallest for the most recent data: known data by highest term and number, then unknown data, then no data.
fn recency(member: &Member) -> (u8, Reverse<(Option<u64>, u64)>) {
    match &member.position {
        Position::Known(sequence) => (0, Reverse((member.term, sequence.number))),
        Position::Unknown(_) | Position::NotAsked => (1, Reverse((None, 0))),
        Position::Empty => (2, Reverse((None, 0))),
    }
}
