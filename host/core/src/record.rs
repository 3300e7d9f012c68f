//! The memory of a group: `status.record`, which is written only with the `resourceVersion` that was read.
//!
//! A lost record makes the host more careful, never less. An unknown field blocks instead of being ignored (docs/safety.md, S37).
mod event;
mod membership;
mod primaries;
mod recovery;
mod seats;
mod started;
mod switchover;
mod update;
mod upgrade;
mod verb;
mod zones;

pub use event::Event;
pub use membership::{GroupSize, Listed, Membership, Resizing};
pub use primaries::{Active, LastPrimary, LostPrimary};
pub use recovery::{Recovery, Stage};
pub use seats::Seats;
pub use started::{Broken, Started, Untold};
pub use switchover::Switchover;
pub use update::{Batched, Canary, Failing, Fallback, GivenUp, Trial, Updating, Verdict};
pub use upgrade::FailedUpgrade;
pub use verb::Verb;
pub use zones::{Wanted, Zone};

use crate::contract::{Failure, MemberName, Sequence, Timestamp, Transition};
use crate::limits;
use crate::snapshot::{Former, Mode, Strategy, Update};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The memory of a group. The default is an empty record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    /// Leadership number: one more with the intent of each seed and each failover.
    #[serde(default)]
    pub term: u64,
    /// The first seed. Absent: this group was never seeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ever_seeded: Option<Seeded>,
    /// The highest data ever seen: no member with less data is seeded or promoted without an override (docs/safety.md, S15, S17).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_water: Option<Mark>,
    /// Members that were primary, or were told to become it, and are not proven over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_primaries: Vec<LastPrimary>,
    /// The member that led last, while none leads: policies may prefer its zone, or avoid it. No rule depends on it. It is stored beside the
    /// record: an older operator, to which an unknown field of a record is an error, goes on without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_primary: Option<LostPrimary>,
    /// The highest term of a claim above `term` whose primaries were already added to `last_primaries`. Absent while no claim is above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recalled: Option<u64>,
    /// The number of members after the last orderly change.
    #[serde(default)]
    pub last_replicas: u32,
    /// The numbers of members that policies let in last. Absent: none has the question. An operator from before 0.1.4 of the contract cannot read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admitted: Option<GroupSize>,
    /// Who the members are where this operator makes the pods itself. Absent: a `StatefulSet` makes them. An operator that does not know this field cannot read the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seats: Option<Seats>,
    /// The memory of each member.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<MemberName, MemberRecord>,
    /// Members that an orderly scale-down removed. Their claims stay and are expected.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub retired: BTreeSet<MemberName>,
    /// The last list of members on which the application's members agreed. Absent: the group has no command for it, or nobody said one yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub membership: Option<Membership>,
    /// The latest switchover. Absent: there was none.
    #[serde(default, rename = "handover", skip_serializing_if = "Option::is_none")]
    pub switchover: Option<Switchover>,
    /// Open commands: begun and not settled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intents: Vec<Intent>,
    /// The history, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Transition>,
    /// The number of intents so far; part of each token, which it makes unique.
    #[serde(default)]
    pub counter: u64,
    /// The generation of the spec that the back-offs were last cleared for.
    #[serde(default)]
    pub cleared_generation: i64,
    /// The value of the retry annotation that the back-offs were last cleared for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleared_retry: Option<String>,
    /// Since when a policy has answered nothing but "wait". Absent: none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Timestamp>,
    /// A change of the application's members that is under way. Absent: they are those that are desired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resizing: Option<Resizing>,
    /// An update of the pods that is under way. Absent: none is. An operator that does not know this field cannot read the record meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updating: Option<Updating>,
    /// The template of which pods are made when a changed one does not work. Absent: the user wants neither `RollBack` nor a canary, none worked yet, or it cannot be used any more. An operator that does not know this field
    /// cannot read the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// The first member with a changed template. Absent: none is watched. An operator that does not know this field cannot read the record meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// Members whose pods are replaced between `beforeUpdate` and `afterUpdate`. Absent: none are. An operator that does not know this field cannot read the record meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batched>,
    /// Of which version of the application the data is. Absent: the user never named one (`spec.version`). An operator that does not know this field cannot read the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `upgrade` failed on a primary. Absent: it did not, or worked since. An operator that does not know this field cannot read the record meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_upgrade: Option<FailedUpgrade>,
    /// The override that a command was started with; it is never used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_override: Option<String>,
    /// The last request to recover a member (`tanist recover`). Absent: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// The active member of an active/passive group. Absent: none is. An operator that does not know this field cannot read the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<Active>,
    /// The pods of members of an active/passive group that were active, by member, until no write that was decided in their turn can give them the label any more. Empty: there are none. An operator that
    /// does not know this field cannot read the record meanwhile.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gave_way: BTreeMap<MemberName, String>,
    /// The term that the last recovery opened. A volume of an earlier term may be all that is left of what was given up, so its claim is never deleted. Absent: there was no recovery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_term: Option<u64>,
}

/// The first seed of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Seeded {
    /// The target of the first seed.
    pub member: MemberName,
    /// Whether a primary was ever confirmed. Until then only that member may be seeded again, or any member while all are empty.
    pub confirmed: bool,
}

/// A point in the group's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mark {
    /// The term, which is compared first.
    pub term: u64,
    /// The sequence, which is compared within one term and one history.
    pub sequence: Sequence,
}

/// The memory of one member.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberRecord {
    /// The last term in which a start succeeded on it and `status` agreed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<u64>,
    /// The last term in which it served as primary. Absent: none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_term: Option<u64>,
    /// Whether it became a secondary after it had been primary, in that same term: then others may rely on its data as on that of every secondary.
    /// Left out when false, so that after a roll-back an older operator, which does not know this field, can read the record.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub followed_since: bool,
    /// When it was last confirmed as primary, or last seen as one before it was proven over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_primary: Option<Timestamp>,
    /// A start that is not confirmed: until it is, the member's data counts as of this term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Started>,
    /// The UIDs of its claims when its role was last confirmed: other UIDs mean other volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_uid: Option<String>,
    /// The last sequence read from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<Sequence>,
    /// Commands that failed since the last start that succeeded.
    #[serde(default)]
    pub failures: u32,
    /// The latest of these failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<Failure>,
    /// Not to be started again before this time. Absent: no back-off runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// Treatments since the last start that succeeded.
    #[serde(default)]
    pub treated: u32,
    /// Not to be treated again before this time. Absent: no back-off runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub treat_at: Option<Timestamp>,
    /// A command failed in this container, and no later command fixed that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<Broken>,
    /// The last command that was started on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_command: Option<String>,
    /// Whether a primary of its term stopped after this secondary was told whom to follow. The term goes on with another primary, so nothing else
    /// shows that the secondary may follow nobody; it is told again (docs/rules.md, "Which question arises"). Left out when false, so that after a
    /// roll-back an older operator, which does not know this field, can read the record.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow_again: bool,
    /// Noted while it may follow a primary of a later term without having been told. Left out otherwise, for a roll-back as above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untold: Option<Untold>,
    /// Where it last ran, in whatever role, until that is proven over. Of members that agree: an identity runs once, and one that only follows has a vote, too. Of others only since their node
    /// did not report: they may follow on there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<LastPrimary>,
    /// Of which version of the application its data was when its role was last confirmed, or its data converted. Absent: the user names none. An operator that does not know this field cannot read the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The durable note of a command; it is written before the command starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Intent {
    /// The name of this execution; the runner executes each token at most once.
    pub token: String,
    /// The purpose of the command.
    pub verb: Verb,
    /// The name of the command in the spec.
    pub command: String,
    /// The member on which it runs.
    pub member: MemberName,
    /// The member that it is about, if that is another one: a change of the members runs in one of the others. Absent: the member on which it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<MemberName>,
    /// The UID of its pod.
    pub pod_uid: String,
    /// The name of the container.
    pub container: String,
    /// The ID of the container.
    pub container_id: String,
    /// The generation of the spec that it was decided under.
    pub generation: i64,
    /// When it was decided.
    pub started: Timestamp,
    /// How long the command may run, in seconds.
    pub timeout: u32,
    /// The group's term from this command on.
    pub term: u64,
    /// Whether an earlier start on the member was not confirmed either. Left out when false, so that after a roll-back an older operator, which
    /// does not know this field, can read the record.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// Whether the member already had the intended role when the command began: then that role does not show how the command ended. Never set for
    /// a follow, where it always holds. Left out when false, for a roll-back as above.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub had_role: bool,
    /// When the command was found to have exited 0; from then on only the role is awaited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exited: Option<Timestamp>,
    /// The version to which it converts the data. Left out for all other commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Intent {
    /// The command as users see it, with the member that it is about if that is another one.
    #[must_use]
    pub fn what(&self) -> String {
        match &self.target {
            Some(target) => format!("{} of {target} on {}", self.command, self.member),
            None => format!("{} on {}", self.command, self.member),
        }
    }

    /// Whether reading the intended role shows that the command worked: only where the member did not have that role before.
    #[must_use]
    pub fn role_proves(&self) -> bool {
        self.verb != Verb::Follow && !self.had_role
    }
}

impl Record {
    /// Whether the record is empty: no term, no seed, no confirmed member.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.term == 0 && self.ever_seeded.is_none() && self.members.values().all(|m| m.term.is_none())
    }

    /// Notes a primary, once for each container.
    pub fn push_last_primary(&mut self, entry: LastPrimary) {
        let same = |l: &LastPrimary| l.pod_uid == entry.pod_uid && l.container_id == entry.container_id;
        if !self.last_primaries.iter().any(same) {
            self.last_primaries.push(entry);
        }
    }

    /// The memory of a member; an empty one if there is none.
    #[must_use]
    pub fn member(&self, name: &MemberName) -> &MemberRecord {
        static BLANK: LazyLock<MemberRecord> = LazyLock::new(MemberRecord::default);
        self.members.get(name).unwrap_or(&BLANK)
    }

    /// The memory of a member, for changing it.
    pub fn member_mut(&mut self, name: &MemberName) -> &mut MemberRecord {
        self.members.entry(name.clone()).or_default()
    }

    /// Where members ran that may run still: last primaries, and members of an application that agrees.
    pub fn ran(&self) -> impl Iterator<Item = &LastPrimary> {
        self.last_primaries.iter().chain(self.members.values().filter_map(|member| member.ran.as_ref()))
    }

    /// Adds an entry to the history and drops the oldest ones beyond the limit, but not those of the last ends of members: others rest after them, for as long as a day (B29).
    pub fn note(&mut self, at: Timestamp, what: Event, member: Option<&MemberName>, detail: Option<String>) {
        let detail = detail.map(|text| cut(&text));
        self.history.push(Transition { at, what: what.word().into(), member: member.cloned(), detail });
        while self.history.len() > limits::HISTORY {
            let kept = self.last_ends();
            let oldest = (0..self.history.len()).find(|at| !kept.contains(at));
            self.history.remove(oldest.unwrap_or(0));
        }
    }

    /// Where in the history the last ends of members are: their removals, and their stops. Of each kind as many as members may fail at a time while another one rests.
    fn last_ends(&self) -> BTreeSet<usize> {
        let of_kind = |kind: Event| {
            let mut seen = BTreeSet::new();
            let all = self.history.iter().enumerate().rev().filter(move |(_, past)| kind.is(&past.what));
            all.filter(move |(_, past)| seen.insert(past.member.clone())).map(|(at, _)| at).take(limits::LAST_ENDS)
        };
        of_kind(Event::MemberRemoved).chain(of_kind(Event::Stopped)).collect()
    }

    /// The member that was last confirmed as primary: that of the highest term, and in it the latest. `None`: none was, or several may be the one.
    #[must_use]
    pub fn last_led(&self) -> Option<&MemberName> {
        let led = |m: &MemberRecord| m.primary_term.map(|term| (term, m.last_primary));
        let latest = self.members.values().filter_map(led).max()?;
        let mut found = self.members.iter().filter(|(_, m)| led(m) == Some(latest)).map(|(name, _)| name);
        found.next().filter(|_| found.next().is_none())
    }

    /// The open command of a member.
    #[must_use]
    pub fn intent_of(&self, member: &MemberName) -> Option<&Intent> {
        self.intents.iter().find(|i| &i.member == member)
    }

    /// Corrects times from another process whose clock was ahead (docs/safety.md, S28): times of the past are at most now, and times that are
    /// waited for are at most the back-off from now that belongs to the failures so far. What is noted of a time that is still to come happened before this process began to look, at `began`: so
    /// a rest after it is no longer than it should be.
    pub fn clamp(&mut self, now: Timestamp, began: Timestamp) {
        let past = |at: &mut Timestamp| *at = (*at).min(now);
        let awaited = |at: &mut Timestamp, pause: i64| *at = (*at).min(now.saturating_add(pause));
        self.last_primaries.iter_mut().filter_map(|l| l.gone.as_mut()).for_each(past);
        self.members.values_mut().filter_map(|m| m.ran.as_mut()?.gone.as_mut()).for_each(past);
        for intent in &mut self.intents {
            past(&mut intent.started);
            intent.exited.iter_mut().for_each(past);
        }
        for member in self.members.values_mut() {
            member.last_primary.iter_mut().for_each(past);
            member.last_failure.iter_mut().map(|f| &mut f.at).for_each(past);
            member.retry_at.iter_mut().for_each(|at| awaited(at, backoff(member.failures)));
            // As many treatments have no back-off.
            let slow = member.treated.saturating_sub(limits::FREE_TREATMENTS).saturating_add(1);
            member.treat_at.iter_mut().for_each(|at| awaited(at, backoff(slow)));
        }
        self.switchover.iter_mut().filter_map(|h| h.begun.as_mut()).for_each(past);
        self.history.iter_mut().map(|t| &mut t.at).filter(|at| **at > now).for_each(|at| *at = began);
        self.waiting_since.iter_mut().for_each(past);
        self.resizing.iter_mut().map(|resizing| &mut resizing.since).for_each(past);
        self.updating.iter_mut().map(|updating| &mut updating.since).for_each(past);
        if let Some(batch) = &mut self.batch {
            batch.retry_at.iter_mut().for_each(|at| awaited(at, backoff(batch.failures)));
        }
        if let Some(upgrade) = &mut self.failed_upgrade {
            upgrade.retry_at.iter_mut().for_each(|at| awaited(at, backoff(upgrade.failures)));
        }
        if let Some(canary) = &mut self.canary {
            past(&mut canary.begun);
            canary.since.iter_mut().chain(&mut canary.unjudged).for_each(past);
        }
        if let Some(fallback) = &mut self.fallback {
            fallback.failed.iter_mut().map(|failed| &mut failed.at).for_each(past);
            let failing = fallback.trial.iter_mut().filter_map(|trial| trial.failing.as_mut());
            failing.map(|failing| &mut failing.since).for_each(past);
        }
    }

    /// The template that the next pods get in place of `spec.template`, which was given up, or failed on its canary. `None`: they get `spec.template`.
    #[must_use]
    pub fn fallback(&self, update: &Update) -> Option<&str> {
        let is_used = self.is_rolled_back(update) || self.stopped_at_canary(update);
        self.fallback.as_ref().filter(|_| is_used).map(|fallback| fallback.good.as_str())
    }

    /// Whether `spec.template` was given up, and all pods go back to the template before it.
    #[must_use]
    pub fn is_rolled_back(&self, update: &Update) -> bool {
        self.fallback.as_ref().is_some_and(|fallback| fallback.given_up(update).is_some())
    }

    /// Whether `spec.template` failed on its canary, and nobody gets another pod for that (`onFailure: Wait`). Whoever gets one for another reason gets the template with which every member worked (E38).
    /// Where new members come in the place of others this is not so: it is the template that tells these from those.
    #[must_use]
    pub fn stopped_at_canary(&self, update: &Update) -> bool {
        let by_host = update.mode != Mode::ByHand && !update.rolls_back;
        let is_watched = by_host && update.canary > 0 && update.strategy == Strategy::Recreate;
        let is_kept = || self.fallback.as_ref().is_some_and(|fallback| fallback.good != update.template);
        let has_failed = || self.canary_of(update).is_some_and(|canary| canary.failure().is_some());
        is_watched && update.former != Former::Lost && is_kept() && has_failed()
    }

    /// The canary of the template that the group has. `None`: nobody was watched with it.
    #[must_use]
    pub fn canary_of(&self, update: &Update) -> Option<&Canary> {
        self.canary.as_ref().filter(|canary| canary.template == update.template)
    }

    /// Clears all back-offs: an administrator changed the spec or asked for a retry.
    pub fn clear_backoff(&mut self) {
        for member in self.members.values_mut() {
            member.retry_at = None;
            member.treat_at = None;
        }
        self.batch.iter_mut().for_each(|batch| batch.retry_at = None);
        self.failed_upgrade.iter_mut().for_each(|failed| failed.retry_at = None);
        // A switchover that failed may be tried again.
        self.switchover.take_if(|h| !h.is_open());
    }
}

impl MemberRecord {
    /// The term that its data counts as of, unconfirmed starts included (docs/rules.md, "Term").
    #[must_use]
    pub fn counts_as(&self) -> Option<u64> {
        self.started.as_ref().map(|s| s.term).max(self.term)
    }

    /// Counts a failure and sets the back-off: 10 s, doubling, at most 5 min.
    pub fn record_failure(&mut self, failure: Failure) {
        let at = failure.at;
        self.failures = self.failures.saturating_add(1);
        self.last_failure = Some(failure);
        self.retry_at = Some(at.saturating_add(backoff(self.failures)));
    }

    /// Clears failures, back-offs and treatments: a start succeeded and `status` shows its role. If a primary stopped meanwhile, the member is told
    /// again whom to follow.
    pub fn record_success(&mut self) {
        self.failures = 0;
        self.last_failure = None;
        self.retry_at = None;
        self.treated = 0;
        self.treat_at = None;
        self.broken = None;
        self.follow_again = self.started.take().is_some_and(|started| started.peer_stopped);
    }
}

/// Seconds to wait after a number of failures in a row, from 1.
#[must_use]
pub fn backoff(failures: u32) -> i64 {
    let doublings = failures.saturating_sub(1).min(16);
    (limits::BACKOFF_FIRST_SECONDS << doublings).min(limits::BACKOFF_LONGEST_SECONDS)
}

/// The text cut to [`limits::REASON_BYTES`] at the end of a character, with control characters replaced by spaces.
#[must_use]
pub fn cut(text: &str) -> String {
    let mut end = text.len().min(limits::REASON_BYTES);
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or_default().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
