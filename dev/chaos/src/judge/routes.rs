//! Whom those meet who write: never a member in recovery. There are two ways in which Tanist is not at fault, and each counts only if it is proven.
//!
//! *Old*: Kubernetes leaves the kernel's entries of TCP connections alone when an endpoint goes. A new connection that gets the port of an old one, to a
//! member that lost its power, goes where the old one went. The kernel of the client's node reports each new entry; so there is none for that
//! connection, and the last one with its port, to that member's address, was made when -rw still led there.
//!
//! *Late*: the API server was killed, and the controller of endpoints has not read again what changed. The API server had shown, before the
//! connection began, that the member has no label of a primary; and its endpoint, there at the kill, had not changed since.
use super::Label;
use crate::journal::{Entry, Operation};
use anyhow::Result;
use regex::Regex;
use std::collections::BTreeMap;

/// What the kernel of a node said of one entry of its connection tracker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracked {
    /// When, in microseconds.
    at: u64,
    /// The entry is new; otherwise it was dropped.
    new: bool,
    /// To whom the connection goes.
    address: String,
    /// By which port the server knows the client.
    port: String,
}

/// What led connections through `-rw` to members.
#[derive(Debug, Default)]
pub struct Routes {
    /// The endpoints from each moment on, in milliseconds: `NAME:READY:ADDRESS ...`.
    pub endpoints: Vec<(u64, String)>,
    /// What each node's kernel reported, by node.
    pub tracked: BTreeMap<String, Vec<Tracked>>,
    /// The roles that the API server showed.
    pub labels: Vec<Label>,
    /// When the API server was killed, in milliseconds.
    pub kills: Vec<u64>,
    /// The node of the client `rw`; the others have theirs in their names.
    pub quiet: String,
}

/// A connection through `-rw` that reached a member in recovery, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// By an old entry of the kernel.
    Old(String),
    /// By an endpoint that was late after the end of an API server.
    Late(String),
    /// Neither is proven.
    Wrong(String),
}

impl Routes {
    /// Reads what `conntrack -E -o timestamp` wrote about connections to servers.
    ///
    /// # Errors
    /// When the expression is wrong.
    pub fn tracked(lines: &[(u64, String)]) -> Result<Vec<Tracked>> {
        let entry = Regex::new(
            r"\[([0-9]+)\.([0-9]{6})\].*\[(NEW|DESTROY)\].* src=([0-9.]+) dst=[0-9.]+ sport=5432 dport=([0-9]+)",
        )?;
        let read = |line: &str| {
            let found = entry.captures(line)?;
            let (seconds, micros): (u64, u64) = (found[1].parse().ok()?, found[2].parse().ok()?);
            let at = seconds.checked_mul(1_000_000)?.checked_add(micros)?;
            Some(Tracked { at, new: &found[3] == "NEW", address: found[4].into(), port: found[5].into() })
        };
        Ok(lines.iter().filter_map(|(_, line)| read(line)).collect())
    }

    /// The newest entry that was there at that moment by whose port the server knows the connection: its moment in milliseconds, and its address.
    fn newest_entry(&self, node: &str, at: u64, port: &str) -> Option<(u64, &str)> {
        let tracked = self.tracked.get(node)?;
        let last = tracked.iter().rfind(|tracked| tracked.at <= at && tracked.port == port)?;
        last.new.then_some((last.at / 1000, &*last.address))
    }

    /// Whether the endpoints said then, or up to a second before, that this member serves at that address.
    fn led_there(&self, at: u64, member: &str, address: &str) -> bool {
        let listed = format!("{member}:true:{address} ");
        let (mut was, mut left) = (false, None);
        for (from, said) in self.endpoints.iter().take_while(|(from, _)| *from <= at) {
            let now = said.contains(&listed);
            if was && !now {
                left = Some(*from);
            }
            was = now;
        }
        was || left.is_some_and(|left| at - left < 1000)
    }

    /// The API server had shown by then that this member is not the primary.
    fn unlabelled(&self, at: u64, member: &str) -> bool {
        let seen = self.labels.iter().take_while(|label| label.at <= at).filter(|label| label.member == member).last();
        seen.is_some_and(|label| label.role != "primary")
    }

    /// The endpoints have listed this member at this address, without a gap, since a moment at which the API server was killed.
    fn lists_since_a_kill(&self, at: u64, member: &str, address: &str) -> bool {
        let Some(kill) = self.kills.iter().filter(|kill| **kill <= at).max() else { return false };
        let listed = format!("{member}:true:{address} ");
        let mut since = None;
        for (from, said) in self.endpoints.iter().take_while(|(from, _)| *from <= at) {
            since = said.contains(&listed).then(|| since.unwrap_or(*from));
        }
        since.is_some_and(|since| since <= *kill)
    }

    fn way(&self, entry: &Entry) -> Way {
        /// A connection is given up after 2 s, in milliseconds with something to spare.
        const GIVEN_UP: u64 = 3000;
        let Entry { client, end, .. } = entry;
        let begin = entry.begin / 1000;
        let member = entry.who();
        let node = client.strip_prefix("rw-").unwrap_or(&self.quiet);
        let made = self.newest_entry(node, *end, &entry.key);
        let led = format!("-rw led {client} to {member}, in recovery, at {end}");
        let Some((made, address)) = made else { return Way::Wrong(led) };
        if made + GIVEN_UP < begin && self.led_there(made, member, address) {
            Way::Old(format!("{led}, by an entry of {made}"))
        } else if self.unlabelled(begin, member) && self.lists_since_a_kill(begin, member, address) {
            Way::Late(led)
        } else {
            Way::Wrong(format!("{led}, by an entry of {made}"))
        }
    }
}

/// Each connection through `-rw` that reached a member in recovery.
pub fn ways_of_rw(journal: &[Entry], routes: &Routes) -> Vec<Way> {
    let to_standbys = journal.iter().filter(|entry| {
        entry.operation == Operation::Meet && entry.client.starts_with("rw") && entry.value == "standby"
    });
    to_standbys.map(|entry| routes.way(entry)).collect()
}

/// Those for which nothing is proven.
pub fn wrong_rw(journal: &[Entry], routes: &Routes) -> Vec<String> {
    let wrong = |way| match way {
        Way::Wrong(said) => Some(said),
        Way::Old(_) | Way::Late(_) => None,
    };
    ways_of_rw(journal, routes).into_iter().filter_map(wrong).collect()
}
