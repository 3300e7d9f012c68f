//! Members that agree: what an application says of its own members by `memberList`, read and compared.
//!
//! The application is the authority on who its members are: Tanist shows its list, changes it by commands, and starts nobody that it does not list. A list is what one
//! member said at one time, so it counts only together with those of the others ([`said`]).
mod said;

pub use said::{Agreed, Heard, Said, is_asked, is_said_by_majority, said};

use crate::contract::MemberName;
use crate::limits;
use crate::record::{Listed, Membership};
use crate::roster;
use std::collections::BTreeSet;

/// Whether a member has a vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vote {
    /// It counts for the quorum.
    Voter,
    /// It receives everything and counts for nothing until it is promoted.
    Learner,
}

/// A member as the application lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name under which it runs. Absent: it was added, and never started.
    pub name: Option<MemberName>,
    /// Its identity, which no other member ever has.
    pub id: String,
    /// Whether it has a vote.
    pub vote: Vote,
    /// Whether it answers the member that said the list.
    pub healthy: bool,
    /// Where the others reach it.
    pub address: String,
}

/// What `memberList` printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// The identity of the application's cluster.
    pub cluster: String,
    /// Its members, by identity; at least one.
    pub entries: Vec<Entry>,
}

/// How many of that many voters agree at least when they decide something.
#[must_use]
pub fn quorum(voters: usize) -> usize {
    voters.div_euclid(2).saturating_add(1)
}

impl Entry {
    /// The member of the group that it is: the one whose name it has, or while it was never started the one whose name its address begins with. `None`: it is
    /// no member of the group.
    #[must_use]
    pub fn member(&self, group: &str) -> Option<MemberName> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => MemberName::from(first_label(&self.address)),
        };
        roster::ordinal(group, name.as_str()).is_some().then_some(name)
    }

    /// Whether it was started under its identity.
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.name.is_some()
    }

    /// Whether it was added and does not count yet: it was never started, or has no vote.
    #[must_use]
    pub fn is_half_added(&self) -> bool {
        !self.is_started() || !self.is_voter()
    }

    /// Whether it has a vote.
    #[must_use]
    pub fn is_voter(&self) -> bool {
        self.vote == Vote::Voter
    }
}

impl List {
    /// How many members have a vote.
    #[must_use]
    pub fn voters(&self) -> usize {
        self.entries.iter().filter(|entry| entry.is_voter()).count()
    }

    /// The entry of that member of the group.
    #[must_use]
    pub fn entry(&self, group: &str, member: &MemberName) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.member(group).as_ref() == Some(member))
    }

    /// Whether both list the same members of the same cluster, whoever is healthy.
    #[must_use]
    pub fn is_same(&self, other: &List) -> bool {
        let all = |list: &List| -> Vec<Entry> {
            list.entries.iter().map(|entry| Entry { healthy: true, ..entry.clone() }).collect()
        };
        self.cluster == other.cluster && all(self) == all(other)
    }

    /// The list as the record has it. `known`: the one before. Who was seen under an identity was started, also when a list that was read before says otherwise.
    #[must_use]
    pub fn to_record(&self, group: &str, known: Option<&Membership>) -> Membership {
        let before =
            |entry: &Entry| known.is_some_and(|known| known.has_started(&entry.id, entry.member(group).as_ref()));
        let started = |entry: &Entry| entry.is_started() || before(entry);
        // What was noted of the same identity: of one that was just added it is not known yet.
        let noted = |entry: &Entry, member: Option<&MemberName>| {
            let of = known.and_then(|known| known.of(member?)).filter(|l| l.id.is_empty() || l.id == entry.id)?;
            of.volume.clone().filter(|_| !entry.is_started())
        };
        let listed = |entry: &Entry| {
            let member = entry.member(group);
            let volume = noted(entry, member.as_ref());
            Listed { id: entry.id.clone(), member, started: started(entry), voter: entry.is_voter(), volume }
        };
        let members = self.entries.iter().map(listed).collect();
        let revision = known.map_or(0, |known| known.revision);
        let same = Membership { cluster: self.cluster.clone(), revision, members };
        match known == Some(&same) {
            true => same,
            false => Membership { revision: revision.saturating_add(1), ..same },
        }
    }
}

/// Parses the output of `memberList`: the line `cluster ID`, then one line for each member, `NAME|- ID voter|learner healthy|unhealthy ADDRESS`. White space
/// separates words, and empty lines are passed over. Whoever was added and never started has `-` for its name.
///
/// # Errors
/// A sentence that says what is wrong. It never repeats the output.
pub fn read_list(stdout: &[u8]) -> Result<List, String> {
    if stdout.len() > limits::LIST_BYTES {
        return Err(format!("memberList printed more than {} bytes", limits::LIST_BYTES));
    }
    let text = std::str::from_utf8(stdout).map_err(|_| "memberList printed bytes that are not UTF-8".to_owned())?;
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let cluster = match lines.next().map(|(_, line)| line.split_whitespace().collect::<Vec<_>>()) {
        Some(words) => match words.as_slice() {
            ["cluster", id] => word(id).ok_or("memberList printed an identity of the cluster that is too long")?,
            _ => return Err("the first line of memberList is not `cluster ID`".to_owned()),
        },
        None => return Err("memberList printed nothing".to_owned()),
    };
    let entries: Result<Vec<_>, _> = lines.map(|(at, line)| read_entry(at.saturating_add(1), line)).collect();
    let mut entries = entries?;
    if entries.is_empty() {
        return Err("memberList printed no member".to_owned());
    }
    if entries.len() > limits::LIST_MEMBERS {
        return Err(format!("memberList printed more than {} members", limits::LIST_MEMBERS));
    }
    entries.sort_by(|a, b| a.id.cmp(&b.id));
    let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
    if !entries.iter().all(|entry| ids.insert(&entry.id)) {
        return Err("memberList printed one identity twice".to_owned());
    }
    if !entries.iter().filter_map(|entry| entry.name.as_ref()).all(|name| names.insert(name)) {
        return Err("memberList printed one name twice".to_owned());
    }
    Ok(List { cluster, entries })
}

fn read_entry(line: usize, text: &str) -> Result<Entry, String> {
    let wrong = || format!("line {line} of memberList is not `NAME|- ID voter|learner healthy|unhealthy ADDRESS`");
    let words: Vec<_> = text.split_whitespace().collect();
    let [name, id, vote, health, address] = words.as_slice() else { return Err(wrong()) };
    let vote = match *vote {
        "voter" => Vote::Voter,
        "learner" => Vote::Learner,
        _ => return Err(wrong()),
    };
    let healthy = match *health {
        "healthy" => true,
        "unhealthy" => false,
        _ => return Err(wrong()),
    };
    let (name, id, address) = (word(name), word(id), word(address));
    let (Some(name), Some(id), Some(address)) = (name, id, address) else {
        return Err(format!("line {line} of memberList has a word of more than {} bytes", limits::LIST_WORD_BYTES));
    };
    Ok(Entry { name: (name != "-").then(|| MemberName::from(name)), id, vote, healthy, address })
}

/// A word, without characters that would spoil a message. `None`: it is too long.
fn word(text: &str) -> Option<String> {
    (text.len() <= limits::LIST_WORD_BYTES)
        .then(|| text.chars().map(|c| if c.is_control() { '?' } else { c }).collect())
}

/// The first part of the host name in an address such as `https://db-3.db.shop.svc:2380`.
fn first_label(address: &str) -> &str {
    let host = address.split_once("://").map_or(address, |(_, rest)| rest);
    host.split(['.', ':', '/']).next().unwrap_or_default()
}
