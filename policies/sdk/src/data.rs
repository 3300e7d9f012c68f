//! How recent data is, in the order of the contract.

use std::cmp::Ordering;

use crate::{Member, Position, Sequence, Snapshot};

/// Known data of a member: its term, then its number inside one history.
///
/// Comparing two of them gives `None` where the contract has no order: in one term, numbers of two histories cannot be compared. So `a < b` and `a > b` are
/// both false there, and `max_by` with a fallback would hide it: use [`Snapshot::most_recent`], or decide what to do.
///
/// ```
/// # use tanist_policy::{Data, Sequence};
/// let of = |history: &str, number| Sequence { history: Some(history.to_owned()), number };
/// let (one, two) = (of("x", 7), of("y", 9));
/// assert!(Data { term: Some(2), sequence: &one } > Data { term: Some(1), sequence: &two });
/// assert_eq!(Data { term: Some(2), sequence: &one }.partial_cmp(&Data { term: Some(2), sequence: &two }), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data<'a> {
    /// The term that the data is of. `None`: the member was never confirmed; that is less than every term.
    pub term: Option<u64>,
    /// How recent it is inside of the term.
    pub sequence: &'a Sequence,
}

impl PartialOrd for Data<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.term.cmp(&other.term) {
            Ordering::Equal if self.sequence.history == other.sequence.history => {
                Some(self.sequence.number.cmp(&other.sequence.number))
            }
            Ordering::Equal => None,
            by_term => Some(by_term),
        }
    }
}

impl Member {
    /// Its data. `None`: it has none, or it is not known.
    pub fn data(&self) -> Option<Data<'_>> {
        self.sequence().map(|sequence| Data { term: self.term, sequence })
    }

    /// Whether its data is more recent than that of another member, less recent, or the same. `None`: that cannot be said, because the data of one
    /// of them is not known, or because they are of two histories of one term.
    pub fn compare_data(&self, other: &Self) -> Option<Ordering> {
        self.data()?.partial_cmp(&other.data()?)
    }
}

impl Snapshot {
    /// The members that may be chosen and have the most recent data, in the order of the snapshot. Where no such member has any data yet, as when a group is
    /// seeded for the first time, all of them.
    ///
    /// Empty, if that cannot be said: no data is known, or the highest term has two histories. Members whose data is not known count as less recent than
    /// known data; where that would be wrong, the host asks no policy.
    pub fn most_recent(&self) -> Vec<&Member> {
        let known = || self.eligible().filter(|member| member.data().is_some());
        let is_ahead = |member: &Member, best: &Member| member.compare_data(best) == Some(Ordering::Greater);
        let Some(best) = known().reduce(|best, member| if is_ahead(member, best) { member } else { best }) else {
            let is_new = self.eligible().all(|member| member.position == Position::Empty);
            return self.eligible().filter(|_| is_new).collect();
        };
        if known().any(|member| best.compare_data(member).is_none()) {
            return Vec::new();
        }
        known().filter(|member| best.compare_data(member) == Some(Ordering::Equal)).collect()
    }
}
