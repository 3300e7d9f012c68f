//! What the members that run say together of who is a member.
use super::{Entry, List, quorum};
use crate::contract::{MemberName, Role, Timestamp};
use crate::record::{Membership, cut};
use crate::snapshot::{Member, Snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// What one member said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Its list. An error: why there is none, in words.
    pub list: Result<List, String>,
    /// When it said it, in seconds since 1970.
    pub at: Timestamp,
}

/// What the members that run say together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Nobody runs who could be asked.
    Nobody,
    /// Nobody has said a list. The sentence says why; absent: nobody was asked yet.
    Nothing(Option<String>),
    /// There are two clusters (docs/requirements.md, D27).
    Split(String),
    /// There is one cluster, and its members list different ones.
    Differing(String),
    /// All who said a list said the same one.
    Agreed(Agreed),
}

/// A list that all members said who said one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    /// The list. Whoever is unhealthy in the eyes of one is unhealthy in it.
    pub list: List,
    /// Who said it.
    pub by: BTreeSet<MemberName>,
    /// When the first of them said it, in seconds since 1970.
    pub since: Timestamp,
    /// Who runs and said none.
    pub silent: BTreeSet<MemberName>,
}

impl Agreed {
    /// Whether a quorum of the voters said it: fewer might be cut off and not know better.
    #[must_use]
    pub fn is_confirmed(&self, group: &str) -> bool {
        let says = |entry: &&Entry| entry.is_voter() && entry.member(group).is_some_and(|m| self.by.contains(&m));
        self.list.entries.iter().filter(says).count() >= quorum(self.list.voters())
    }

    /// The voters that count for a quorum: those that said this list themselves and that nobody calls unhealthy. Whoever is silent is unknown and does not count.
    #[must_use]
    pub fn healthy_voters(&self, group: &str) -> BTreeSet<MemberName> {
        let healthy = self.list.entries.iter().filter(|entry| entry.is_voter() && entry.healthy);
        healthy.filter_map(|entry| entry.member(group)).filter(|member| self.by.contains(member)).collect()
    }
}

/// Whether the member can be asked for its list: the group has that command, and the member runs in a role.
#[must_use]
pub fn is_asked(s: &Snapshot, member: &Member) -> bool {
    s.group.commands.membership.is_some()
        && s.reachable(member)
        && matches!(s.role(member).0, Role::Primary | Role::Secondary)
}

/// What the members that run say together.
#[must_use]
pub fn said(s: &Snapshot) -> Said {
    let asked: Vec<_> = s.members.iter().filter(|m| is_asked(s, m)).collect();
    if asked.is_empty() {
        return Said::Nobody;
    }
    let heard: BTreeMap<&MemberName, &Heard> =
        asked.iter().filter_map(|m| Some((&m.name, s.lists.get(&m.name)?))).collect();
    let lists: Vec<(&MemberName, &List, Timestamp)> =
        heard.iter().filter_map(|(name, heard)| Some((*name, heard.list.as_ref().ok()?, heard.at))).collect();
    let Some((first, list, _)) = lists.first().copied() else {
        let why = heard.iter().find_map(|(name, heard)| Some((name, heard.list.as_ref().err()?)));
        return Said::Nothing(why.map(|(name, why)| format!("the list of {name} cannot be read: {}", cut(why))));
    };
    // After a recovery the cluster is the one that the recovered member says.
    let is_other = |known: &&Membership| !known.cluster.is_empty() && known.cluster != list.cluster;
    let known = s.record.membership.as_ref().filter(is_other);
    if let Some(known) = known {
        let (own, before) = (&list.cluster, &known.cluster);
        return Said::Split(format!("{first} is in the cluster {own}, and this group has been in {before}"));
    }
    if let Some((other, its, _)) = lists.iter().find(|(_, other, _)| other.cluster != list.cluster) {
        let (one, two) = (&list.cluster, &its.cluster);
        return Said::Split(format!("{first} is in the cluster {one}, and {other} in {two}"));
    }
    if let Some((other, _, _)) = lists.iter().find(|(_, other, _)| !other.is_same(list)) {
        return Said::Differing(format!("{first} and {other} list different members"));
    }
    let mut merged = list.clone();
    for entry in &mut merged.entries {
        let calls_unhealthy = |(_, list, _): &(&MemberName, &List, Timestamp)| {
            list.entries.iter().any(|other| other.id == entry.id && !other.healthy)
        };
        entry.healthy = !lists.iter().any(calls_unhealthy);
    }
    let by: BTreeSet<_> = lists.iter().map(|(name, _, _)| (*name).clone()).collect();
    let silent = asked.iter().map(|m| m.name.clone()).filter(|name| !by.contains(name)).collect();
    let since = lists.iter().map(|(_, _, at)| *at).min().unwrap_or(s.now);
    Said::Agreed(Agreed { list: merged, by, since, silent })
}

/// Whether a majority of the voters of one list said it, whatever others say.
#[must_use]
pub fn is_said_by_majority(s: &Snapshot) -> bool {
    let group = &s.group.name;
    let lists = || s.lists.iter().filter_map(|(name, heard)| Some((name, heard.list.as_ref().ok()?)));
    lists().any(|(_, list)| {
        let says = |entry: &&Entry| {
            let own = entry.member(group).filter(|_| entry.is_voter());
            own.is_some_and(|own| lists().any(|(name, other)| *name == own && other.is_same(list)))
        };
        list.entries.iter().filter(says).count() >= quorum(list.voters())
    })
}
