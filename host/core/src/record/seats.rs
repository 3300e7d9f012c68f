//! Who the members are of a group whose pods this operator makes itself: no `StatefulSet` says it.
use super::zones::{self, Wanted};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The numbers of the members (`spec.members.kind: Pods`). A member keeps its number, its name and its volumes for life, and a number is never used twice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Seats {
    /// The numbers of the members that there are, whether they have a pod or not.
    #[serde(default)]
    pub numbers: BTreeSet<u32>,
    /// The numbers of the members that the group had when it was scaled to 0: they come back with their data.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub dormant: BTreeSet<u32>,
    /// Members in whose place new ones come, because the template changed (`spec.update.strategy`, `replaceWhen`) or they are in a wrong zone (`spec.zones`): their numbers, each with the first number of those that came since.
    /// They stay until the new ones work.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replaced: BTreeMap<u32, u32>,
    /// The numbers of those of them that fail again and again, and are replaced for that (`spec.members.replaceAfterFailures`).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub failing: BTreeSet<u32>,
    /// The numbers of those of them that leave, since the new ones work.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub leaving: BTreeSet<u32>,
    /// In which zone each member is (`spec.zones`): by the name of the zone the numbers of its members. A member keeps its zone for life; who is in none is not known yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub zones: BTreeMap<String, BTreeSet<u32>>,
    /// The number of the next new member.
    #[serde(default)]
    pub next: u32,
}

impl Seats {
    /// What is known when the record does not say who the members are: whoever has a pod, and whoever the application lists, or if it has no list whoever has a volume. No number that
    /// was seen is used for a new member.
    #[must_use]
    pub fn found(listed: Option<BTreeSet<u32>>, pods: &BTreeSet<u32>, volumes: &BTreeSet<u32>) -> Self {
        let mut numbers = listed.unwrap_or_else(|| volumes.clone());
        numbers.extend(pods);
        let highest = numbers.iter().chain(volumes).max();
        let next = highest.map_or(0, |highest| highest.saturating_add(1));
        Seats { numbers, next, ..Seats::default() }
    }

    /// Adds members that were made after this was written, for it was restored from an older copy: pods and volumes whose numbers it never gave out.
    #[must_use]
    pub fn joined(mut self, seen: &BTreeSet<u32>) -> Self {
        let later: Vec<u32> = seen.iter().copied().filter(|number| *number >= self.next).collect();
        if let Some(highest) = later.last() {
            self.next = highest.saturating_add(1);
        }
        self.numbers.extend(later);
        self
    }

    /// The members that there are when these are wanted: those of before a stop come back, then new ones come until enough are there that stay.
    #[must_use]
    pub fn filled(&self, wanted: &Wanted<'_>) -> Self {
        let mut seats = self.clone();
        if wanted.replicas > 0 {
            seats.numbers.append(&mut seats.dormant);
        }
        if wanted.zones.is_empty() {
            seats.zones.clear();
        }
        let free = seats.free(wanted.unwanted);
        let few = usize::try_from(wanted.replicas).unwrap_or(usize::MAX).saturating_sub(free.len());
        let places: Vec<Option<&str>> = match wanted.zones.is_empty() {
            true => vec![None; few],
            false => zones::missing(&seats, &free, wanted).into_iter().map(Some).collect(),
        };
        let numbers = (seats.next..u32::MAX).filter(|number| !wanted.unwanted.contains(number));
        for (number, zone) in numbers.zip(places) {
            seats.numbers.insert(number);
            seats.next = number.saturating_add(1);
            seats.is_in(number, zone);
        }
        seats
    }

    /// The members that stay when these are wanted: the lowest numbers of those that may, in each zone as many as it is to have, and beside them those in whose place new ones come.
    #[must_use]
    pub fn stay(&self, wanted: &Wanted<'_>) -> BTreeSet<u32> {
        let free = self.free(wanted.unwanted);
        let stay = match wanted.zones.is_empty() {
            true => free.into_iter().take(usize::try_from(wanted.replicas).unwrap_or(usize::MAX)).collect(),
            false => zones::staying(self, &free, wanted),
        };
        stay.into_iter().chain(self.kept(wanted.replicas, wanted.unwanted)).collect()
    }

    /// Whether that member is in a wrong zone, and one in the right zone is to come in its place.
    #[must_use]
    pub fn is_misplaced(&self, number: u32, wanted: &Wanted<'_>) -> bool {
        !wanted.zones.is_empty() && zones::is_misplaced(self, &self.free(wanted.unwanted), wanted, number)
    }

    /// Those who stay until new ones work in their place. With 0 members nobody does.
    pub fn kept<'a>(&'a self, replicas: u32, unwanted: &'a BTreeSet<u32>) -> impl Iterator<Item = u32> + 'a {
        let stays = |number: &u32| self.numbers.contains(number) && !unwanted.contains(number);
        self.replaced.keys().copied().filter(move |number| replicas > 0 && stays(number))
    }

    /// Those who may be among the desired ones for good.
    fn free(&self, unwanted: &BTreeSet<u32>) -> BTreeSet<u32> {
        let goes = |number: &u32| {
            unwanted.contains(number) || self.leaving.contains(number) || self.replaced.contains_key(number)
        };
        self.numbers.iter().copied().filter(|number| !goes(number)).collect()
    }

    /// The zone of that member. Absent: it has none, or nobody knows it.
    #[must_use]
    pub fn zone(&self, number: u32) -> Option<&str> {
        self.zones.iter().find(|(_, members)| members.contains(&number)).map(|(zone, _)| zone.as_str())
    }

    /// Notes the zone of a member of which none is known.
    pub fn is_in(&mut self, number: u32, zone: Option<&str>) {
        if let Some(zone) = zone.filter(|_| self.zone(number).is_none()) {
            self.zones.entry(zone.to_owned()).or_default().insert(number);
        }
    }

    /// Whether that member came in the place of another one, which has not begun to leave yet.
    #[must_use]
    pub fn is_successor(&self, number: u32) -> bool {
        self.replaced.values().any(|first| *first <= number)
    }

    /// A member stays, or leaves: nobody comes in its place any more.
    pub fn keep(&mut self, number: u32) -> Option<u32> {
        self.failing.remove(&number);
        self.replaced.remove(&number)
    }

    /// Takes members out. When the group is scaled to 0 they come back later, with the same numbers.
    pub fn remove(&mut self, numbers: &BTreeSet<u32>, come_back: bool) {
        let (mut leave, stay): (BTreeSet<u32>, BTreeSet<u32>) =
            self.numbers.iter().partition(|number| numbers.contains(number));
        self.numbers = stay;
        self.replaced.retain(|number, _| !numbers.contains(number));
        self.failing.retain(|number| !numbers.contains(number));
        self.leaving.retain(|number| !numbers.contains(number));
        if come_back {
            // They keep their zones: nobody is left in `leave`.
            self.dormant.append(&mut leave);
        }
        for members in self.zones.values_mut() {
            members.retain(|number| !leave.contains(number));
        }
        self.zones.retain(|_, members| !members.is_empty());
    }
}
