//! What a group remembers: `status.record`, written only with the resource version it was read with.
//!
//! Losing it means more caution, never less; an unknown field blocks instead of being ignored (docs/safety.md, S37).
use crate::contract::{Failure, MemberName, Position, Role, Sequence, Timestamp, Transition};
use crate::limits;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The memory of a group. Default: nothing is remembered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    /// Leadership number: one more with the intent of each seed and each failover.
    #[serde(default)]
    pub term: u64,
    /// The first seed. Absent: this group was never seeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ever_seeded: Option<Seeded>,
    /// The highest data ever seen: no automatic seed below it (docs/safety.md, S15, S17).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_water: Option<Mark>,
    /// Members that were or were to be primary and are not proven over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_primaries: Vec<LastPrimary>,
    /// The highest term of a claim ahead of `term` whose primaries are in `last_primaries` already, or were proven over since. Absent, and
    /// left out, as long as no claim is ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recalled: Option<u64>,
    /// The number of members after the last orderly change.
    #[serde(default)]
    pub last_replicas: u32,
    /// What is remembered of each member.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<MemberName, MemberRecord>,
    /// Members that an orderly shrink took away: their claims stay, and are no surprise.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub retired: BTreeSet<MemberName>,
    /// The latest hand-over of the primary. Absent: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover: Option<Handover>,
    /// Commands that were begun and are not settled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intents: Vec<Intent>,
    /// What happened, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Transition>,
    /// How many intents there have been: makes tokens unique.
    #[serde(default)]
    pub counter: u64,
    /// The generation of the spec that the back-offs were last cleared for.
    #[serde(default)]
    pub cleared_generation: i64,
    /// The value of the retry annotation that was last obeyed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleared_retry: Option<String>,
    /// Since when a policy says nothing but "not now". Absent: none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Timestamp>,
    /// The override that was used; it is never used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_override: Option<String>,
}

/// That the group was seeded, and by whom first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Seeded {
    /// The target of the first seed.
    pub member: MemberName,
    /// Whether a primary was ever confirmed. Until then that member alone may be seeded again, or anyone while all are empty.
    pub confirmed: bool,
}

/// A primary that is stopped on purpose, so that another member leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Handover {
    /// Who leads until then.
    pub from: MemberName,
    /// Who is meant to lead. Absent: anyone else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<MemberName>,
    /// Why, for people.
    pub why: String,
    /// In which term it was wished for.
    pub term: u64,
    /// What the primary held when it was asked first: who shall lead has to have it before the primary is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Sequence>,
    /// When the primary was told to stop. Absent: it was not yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Timestamp>,
    /// Who led in the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub led: Option<MemberName>,
}

impl Handover {
    /// Whether the primary was told to stop and nobody leads yet.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.begun.is_some() && self.led.is_none()
    }
}

/// A point in the group's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mark {
    /// Compared first.
    pub term: u64,
    /// Compared inside one term and one history.
    pub sequence: Sequence,
}

/// A member that was primary, or was told to become it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LastPrimary {
    /// Its name.
    pub member: MemberName,
    /// The very pod.
    pub pod_uid: String,
    /// The container that ran the command.
    pub container: String,
    /// The very container.
    pub container_id: String,
    /// The node it ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The pod's termination grace in seconds: a forced deletion leaves its processes alive that long.
    pub grace: u32,
    /// When the pod was first seen to be gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<Timestamp>,
}

impl LastPrimary {
    /// A primary of which only the name is remembered, by a claim that an older version wrote, or whose list was full.
    #[must_use]
    pub fn by_name(member: MemberName) -> Self {
        let none = String::new;
        LastPrimary {
            member,
            pod_uid: none(),
            container: none(),
            container_id: none(),
            node: None,
            grace: 0,
            gone: None,
        }
    }

    /// See [`LastPrimary::by_name`].
    #[must_use]
    pub fn is_by_name(&self) -> bool {
        self.pod_uid.is_empty()
    }
}

/// What is remembered of one member.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberRecord {
    /// The last term in which a start succeeded on it and `status` agreed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<u64>,
    /// The last term in which it served as primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_term: Option<u64>,
    /// When it was last confirmed as primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_primary: Option<Timestamp>,
    /// A start that is not confirmed: until it is, the member counts as of this term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Started>,
    /// The UIDs of its claims when its role was confirmed: other UIDs are other data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_uid: Option<String>,
    /// The last sequence read from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<Sequence>,
    /// Commands that failed since the last start that succeeded.
    #[serde(default)]
    pub failures: u32,
    /// The latest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<Failure>,
    /// Not to be started again before then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// Treatments since the last start that succeeded.
    #[serde(default)]
    pub treated: u32,
    /// Not to be treated again before then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub treat_at: Option<Timestamp>,
    /// A command failed in this very container and nothing has put it right since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<Broken>,
    /// The last command that was started on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_command: Option<String>,
}

/// A start whose end is not confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Started {
    /// The term of the start.
    pub term: u64,
    /// Whether the start was the one that opened that term: only then may the member win by it.
    pub target: bool,
    /// What was known of its data before.
    pub before: Position,
    /// Whether `status` said secondary or primary since: from then on it may hold what nobody else has. Left out when false, so that an
    /// operator from before it was there can read the record after a roll-back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub followed: bool,
}

/// A container in which a command failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Broken {
    /// The very pod.
    pub pod_uid: String,
    /// The very container.
    pub container_id: String,
    /// What to tell people.
    pub reason: String,
}

/// Why a command is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// First primary of a group that runs nowhere.
    Seed,
    /// A surviving member takes over.
    Failover,
    /// A further primary.
    Join,
    /// A secondary is started.
    Place,
    /// A secondary is pointed at the primary.
    Follow,
    /// A surplus primary is stopped.
    Demote,
    /// The primary is stopped, so that another member leads.
    HandOver,
    /// A member beyond `replicas` is stopped.
    Remove,
    /// A failed member is stopped.
    Treat,
}

impl Verb {
    /// The word shown to people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Seed => "seed",
            Verb::Failover => "failover",
            Verb::Join => "join",
            Verb::Place => "place",
            Verb::Follow => "follow",
            Verb::Demote => "demote",
            Verb::HandOver => "hand-over",
            Verb::Remove => "remove",
            Verb::Treat => "treat",
        }
    }

    /// Whether its success leaves a primary: at most one such command runs in a group at a time (row A10).
    #[must_use]
    pub fn makes_primary(self) -> bool {
        matches!(self, Verb::Seed | Verb::Failover | Verb::Join)
    }

    /// Whether it opens a new term (docs/rules.md, "Term").
    #[must_use]
    pub fn opens_term(self) -> bool {
        matches!(self, Verb::Seed | Verb::Failover)
    }

    /// The role that `status` has to say afterwards.
    #[must_use]
    pub fn intended(self) -> Role {
        match self {
            Verb::Seed | Verb::Failover | Verb::Join => Role::Primary,
            Verb::Place | Verb::Follow => Role::Secondary,
            Verb::Demote | Verb::HandOver | Verb::Remove | Verb::Treat => Role::Stopped,
        }
    }
}

/// The durable note of a command about to be executed; it is written before the command starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Intent {
    /// Names this one execution; the runner executes it at most once.
    pub token: String,
    /// Why.
    pub verb: Verb,
    /// The name of the command in the spec.
    pub command: String,
    /// On whom.
    pub member: MemberName,
    /// In which very pod.
    pub pod_uid: String,
    /// In which container.
    pub container: String,
    /// In which very container.
    pub container_id: String,
    /// Under which generation of the spec.
    pub generation: i64,
    /// When it was decided.
    pub started: Timestamp,
    /// How long the command may run, in seconds.
    pub timeout: u32,
    /// In which term.
    pub term: u64,
    /// Whether an earlier start on the member was not confirmed either. Left out when false, so that an operator from before it was
    /// there can read the record after a roll-back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// Whether the member already had the intended role when the command began: then reading that role says nothing about how the command
    /// ended. A follow always has it, so it is left out there; it is left out when false, too, for the sake of a roll-back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub had_role: bool,
    /// When the command was found to have exited 0; from then on only the role is awaited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exited: Option<Timestamp>,
}

impl Intent {
    /// When the command has to be over, in seconds since 1970.
    #[must_use]
    pub fn deadline(&self) -> Timestamp {
        self.started.saturating_add(i64::from(self.timeout))
    }

    /// Whether reading the intended role shows that the command worked: only where the member did not have that role before.
    #[must_use]
    pub fn role_proves(&self) -> bool {
        self.verb != Verb::Follow && !self.had_role
    }
}

impl Record {
    /// Whether nothing at all is remembered.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.term == 0 && self.ever_seeded.is_none() && self.members.values().all(|m| m.term.is_none())
    }

    /// What is remembered of a member; nothing is a value too.
    #[must_use]
    pub fn member(&self, name: &MemberName) -> MemberRecord {
        self.members.get(name).cloned().unwrap_or_default()
    }

    /// The same, to be changed.
    pub fn member_mut(&mut self, name: &MemberName) -> &mut MemberRecord {
        self.members.entry(name.clone()).or_default()
    }

    /// Adds to the history and keeps its bound.
    pub fn note(&mut self, at: Timestamp, what: &str, member: Option<&MemberName>, detail: Option<String>) {
        let detail = detail.map(|text| cut(&text));
        self.history.push(Transition { at, what: what.into(), member: member.cloned(), detail });
        let surplus = self.history.len().saturating_sub(limits::HISTORY);
        self.history.drain(..surplus);
    }

    /// The unsettled command of a member.
    #[must_use]
    pub fn intent_of(&self, member: &MemberName) -> Option<&Intent> {
        self.intents.iter().find(|i| &i.member == member)
    }

    /// Brings times that claim to be later than now back: what is past to now, what is awaited to the longest back-off from now. They were
    /// written by another process, whose clock was another one (docs/safety.md, S28).
    pub fn clamp(&mut self, now: Timestamp) {
        let past = |at: &mut Timestamp| *at = (*at).min(now);
        let awaited = |at: &mut Timestamp| *at = (*at).min(now.saturating_add(limits::BACKOFF_LONGEST_SECONDS));
        self.last_primaries.iter_mut().filter_map(|l| l.gone.as_mut()).for_each(past);
        for intent in &mut self.intents {
            past(&mut intent.started);
            intent.exited.iter_mut().for_each(past);
        }
        for member in self.members.values_mut() {
            member.last_primary.iter_mut().for_each(past);
            member.last_failure.iter_mut().map(|f| &mut f.at).for_each(past);
            member.retry_at.iter_mut().chain(&mut member.treat_at).for_each(awaited);
        }
        self.handover.iter_mut().filter_map(|h| h.begun.as_mut()).for_each(past);
        self.history.iter_mut().map(|t| &mut t.at).for_each(past);
        self.waiting_since.iter_mut().for_each(past);
    }

    /// Forgets all back-offs: a person changed the spec or asked for a retry.
    pub fn clear_backoff(&mut self) {
        for member in self.members.values_mut() {
            member.retry_at = None;
            member.treat_at = None;
        }
        // What could not be handed over may be tried again.
        self.handover.take_if(|h| !h.is_open());
    }
}

impl MemberRecord {
    /// The term its data counts as of: an unconfirmed start counts (docs/rules.md, "Term").
    #[must_use]
    pub fn counts_as(&self) -> Option<u64> {
        self.started.as_ref().map(|s| s.term).max(self.term)
    }

    /// Counts a failure and sets the back-off: 10 s, doubling, at most 5 min.
    pub fn fail(&mut self, failure: Failure) {
        let at = failure.at;
        self.failures = self.failures.saturating_add(1);
        self.last_failure = Some(failure);
        self.retry_at = Some(at.saturating_add(backoff(self.failures)));
    }

    /// A start succeeded and `status` agreed: what went wrong before is over.
    pub fn succeed(&mut self) {
        self.failures = 0;
        self.last_failure = None;
        self.retry_at = None;
        self.treated = 0;
        self.treat_at = None;
        self.broken = None;
        self.started = None;
    }
}

/// Seconds to wait after the n-th failure in a row, n from 1.
#[must_use]
pub fn backoff(failures: u32) -> i64 {
    let doublings = failures.saturating_sub(1).min(16);
    (limits::BACKOFF_FIRST_SECONDS << doublings).min(limits::BACKOFF_LONGEST_SECONDS)
}

/// A text within the bound for reasons, cut at a character.
#[must_use]
pub fn cut(text: &str) -> String {
    let mut end = text.len().min(limits::REASON_BYTES);
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or_default().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
