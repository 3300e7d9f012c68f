//! The last list of members on which the members of the application agreed.
use crate::contract::{MemberName, Timestamp};
use crate::roster::{self, Roster};
use crate::snapshot::Group;
use serde::{Deserialize, Serialize};

/// A list that a quorum of its voters said. Members that are stopped are known by it, so that they can be started again when nobody runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Membership {
    /// The identity of the application's cluster. Empty: it is not known yet, after a recovery.
    pub cluster: String,
    /// How often the list has changed: of two that are remembered the later one counts.
    pub revision: u64,
    /// Its members, by identity.
    pub members: Vec<Listed>,
}

/// A member of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Listed {
    /// The identity that the application gave the member, as `memberList` prints it.
    pub id: String,
    /// The member of the group that it is. Absent: it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberName>,
    /// Whether it was started under that identity.
    pub started: bool,
    /// Whether it has a vote.
    pub voter: bool,
    /// The volumes on which it is to start for the first time ([`crate::memory::claim_uids`]). Absent: it was started before, or nothing is known of its volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
}

/// How many members a group has, and how many of them are primaries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GroupSize {
    /// The number of members.
    pub replicas: u32,
    /// The primaries among them.
    pub primaries: u32,
}

/// A change of the application's members that is under way: the target that it has now, and when something last changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resizing {
    /// The desired number of members.
    pub target: u32,
    /// The revision of the list.
    pub revision: u64,
    /// When the group first had both, in seconds since 1970.
    pub since: Timestamp,
}

impl Membership {
    /// The list while one member goes on alone and has not said one yet: neither its identity nor that of its cluster is known. `before`: the list before.
    #[must_use]
    pub fn alone(member: &MemberName, before: Option<&Membership>) -> Self {
        let own = Listed { id: String::new(), member: Some(member.clone()), started: true, voter: true, volume: None };
        let revision = before.map_or(0, |list| list.revision).saturating_add(1);
        Membership { cluster: String::new(), revision, members: vec![own] }
    }

    /// What the list has of that member of the group.
    #[must_use]
    pub fn of(&self, member: &MemberName) -> Option<&Listed> {
        self.members.iter().find(|listed| listed.member.as_ref() == Some(member))
    }

    /// The member was started under its identity: nobody else may be able to say so before it runs again.
    pub fn note_started(&mut self, member: &MemberName) {
        let own = self.members.iter_mut().find(|listed| listed.member.as_ref() == Some(member));
        if let Some(listed) = own.filter(|listed| !listed.started) {
            (listed.started, listed.volume) = (true, None);
            self.revision = self.revision.saturating_add(1);
        }
    }

    /// Notes on which volumes members start for the first time, by the volumes that they have now.
    pub fn note_volumes(&mut self, volumes: impl Fn(&MemberName) -> Option<String>) {
        let mut is_new = false;
        for listed in self.members.iter_mut().filter(|listed| !listed.started) {
            let now = listed.member.as_ref().and_then(&volumes);
            is_new |= now.is_some() && listed.volume != now;
            listed.volume = now.or_else(|| listed.volume.take());
        }
        self.revision = self.revision.saturating_add(u64::from(is_new));
    }

    /// Whether the member was started under that identity. Of one that was just added the identity is not known yet.
    #[must_use]
    pub fn has_started(&self, id: &str, member: Option<&MemberName>) -> bool {
        let is_it = |listed: &Listed| listed.id == id || listed.id.is_empty() && listed.member.as_ref() == member;
        self.members.iter().any(|listed| listed.started && is_it(listed))
    }

    /// Whether these are the desired members, all started and with a vote.
    #[must_use]
    pub fn is_settled(&self, group: &Group, roster: Roster<'_>) -> bool {
        let is_desired = |listed: &Listed| {
            let own = listed.member.as_ref().and_then(|name| roster::ordinal(&group.name, name.as_str()));
            listed.started && listed.voter && own.is_some_and(|own| roster.wants(own))
        };
        self.members.iter().all(is_desired) && u32::try_from(self.members.len()) == Ok(roster.desired())
    }

    /// How many members have a vote.
    #[must_use]
    pub fn voters(&self) -> usize {
        self.members.iter().filter(|listed| listed.voter).count()
    }

    /// The numbers of its members of that group that are needed: those that were started, or have a vote and may be needed for a majority.
    pub fn needed(&self, group: &str) -> impl Iterator<Item = u32> {
        let needed = self.members.iter().filter(|listed| listed.started || listed.voter);
        needed.filter_map(move |listed| roster::ordinal(group, listed.member.as_ref()?.as_str()))
    }

    /// The later of two lists of one cluster. A list of another cluster changes nothing.
    #[must_use]
    pub fn later(known: Option<Membership>, other: &Membership) -> Option<Membership> {
        match known {
            None => Some(other.clone()),
            Some(known) if known.cluster == other.cluster && known.revision < other.revision => Some(other.clone()),
            known => known,
        }
    }
}
