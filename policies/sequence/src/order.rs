//! The one order of members.

use std::cmp::{Ordering, Reverse};

use tanist_policy::{Member, Parameters, Position, Role, Snapshot};

/// Best first: data, then (if asked for) who runs, then whom the user prefers, then ordinal, then name. Total: no two members are equal.
#[derive(Debug, Default)]
pub struct Order {
    /// Running secondaries come before stopped members with the same data.
    pub running_first: bool,
    /// Members that come first among those with the same data, best first.
    pub preferred: Vec<String>,
}

impl Order {
    /// With the preferences of the snapshot: the group's, then the parameters'.
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

    /// What decides among the same data, before the ordinal.
    fn rank(&self, member: &Member) -> (bool, usize) {
        let idle = self.running_first && member.role != Role::Secondary;
        let place = self.preferred.iter().position(|name| *name == member.name).unwrap_or(usize::MAX);
        (idle, place)
    }

    /// What put the first of several members with the same data before the second.
    pub fn why_first(&self, equal: &[&Member]) -> &'static str {
        match equal {
            [first, second, ..] => match (self.rank(first), self.rank(second)) {
                ((own, _), (other, _)) if own != other => "running already",
                ((_, own), (_, other)) if own != other => "preference",
                _ => "ordinal",
            },
            _ => "ordinal",
        }
    }
}

/// Smallest for the most recent data: known, highest term and number first; then not known; then none.
fn recency(member: &Member) -> (u8, Reverse<(Option<u64>, u64)>) {
    match &member.position {
        Position::Known(sequence) => (0, Reverse((member.term, sequence.number))),
        Position::Unknown(_) | Position::NotAsked => (1, Reverse((None, 0))),
        Position::Empty => (2, Reverse((None, 0))),
    }
}
