//! Who may take over from lost primaries, and when (docs/rules.md, "Which question arises", "Order of data").
//!
//! Only members of the highest term count. A secondary whose position is not known may have writes that no other member has, so the takeover
//! waits for it, unless `spec.failover.reads` says that fewer positions are enough. It does not wait for the lost primary while a secondary
//! of that term runs that has data and follows all primaries of the term.
mod behind;

pub use behind::Behind;

use super::beside::is_former;
use super::claims::{claims_not_ahead, no_leader_left, record_is_current, volume_unchanged};
use super::elect::elects_nobody;
use super::replace::is_being_replaced;
use super::seed::{above_high_water, highest_among, highest_term, may_have_followed, override_fits, untold};
use super::{
    Held, Rule, Violation, broken, broken_by, can_take_command, phase_word, programs_fit, retry_allowed, role_is,
};
use crate::contract::{Phase, Position, Role, Sequence};
use crate::data;
use crate::over;
use crate::record::Verb;
use crate::snapshot::{Evidence, Member, Snapshot};
use std::cmp::Ordering;

/// No primary serves, no member may be one, and a secondary runs; and the host chooses who leads, not the application. No override lifts this (promise 1).
///
/// # Errors
/// [`Rule::AlreadyFormed`], [`Rule::PrimaryLimit`], [`Rule::MayBePrimary`], [`Rule::NobodyFollows`].
pub fn failover_alone(s: &Snapshot) -> Held {
    elects_nobody(s)?;
    if let Some(member) = s.serving().first() {
        return Err(broken_by(Rule::PrimaryLimit, &member.name, format!("{} serves as primary", member.name)));
    }
    if let Some((name, why)) = s.may_be_primary().into_iter().next() {
        let message = format!("{name} may be primary: {why}");
        return Err(Violation { until: over::proven_at(s), ..broken_by(Rule::MayBePrimary, &name, message) });
    }
    match s.members.iter().any(|m| is_running_secondary(s, m)) {
        true => Ok(()),
        false => Err(broken(Rule::NobodyFollows, "no secondary runs")),
    }
}

/// Whether the member runs as secondary and commands reach it.
#[must_use]
pub fn is_running_secondary(s: &Snapshot, member: &Member) -> bool {
    s.reachable(member) && s.role(member).0 == Role::Secondary
}

/// A snapshot before a takeover, with what its members say together about the order of data. It is worked out once per question, so that judging a
/// member does not look at all the others again.
pub struct FailoverOrder<'a> {
    s: &'a Snapshot,
    highest_term: Option<u64>,
    old_left_out: bool,
    highest_data: Result<Option<Sequence>, Violation>,
}

impl<'a> FailoverOrder<'a> {
    /// Works it out.
    #[must_use]
    pub fn of(s: &'a Snapshot) -> Self {
        let mut order = FailoverOrder { s, highest_term: highest_term(s), old_left_out: false, highest_data: Ok(None) };
        order.old_left_out = order.leaves_old_out();
        order.highest_data = highest_among(s.members.iter().filter(|m| order.counts(m)));
        order
    }

    /// Whether the member's data counts: it is of the highest term, and `spec.failover.preferRunning` does not exclude it.
    #[must_use]
    pub fn counts(&self, member: &Member) -> bool {
        self.highest_term.is_some() && self.is_of_highest(member) && !self.is_left_out(member)
    }

    fn is_of_highest(&self, member: &Member) -> bool {
        self.s.record.member(&member.name).counts_as() == self.highest_term || self.may_have_followed(member)
    }

    /// Whether the member is of an older term, and may have data of the highest one: it was not told whom to follow, and did not stand still.
    fn may_have_followed(&self, member: &Member) -> bool {
        let data = if self.s.position_is_current(member) { &member.position } else { &Position::NotAsked };
        may_have_followed(self.s, member, data, self.highest_term)
    }

    /// Whether no start on the member was confirmed in the highest term: it can block a decision, and not win it (docs/rules.md, "Term").
    fn is_unconfirmed(&self, member: &Member) -> bool {
        let known = self.s.record.member(&member.name);
        known.started.as_ref().is_some_and(|started| !started.target) || self.may_have_followed(member)
    }

    /// `spec.failover.preferRunning`: a stopped old primary may have writes that were never acknowledged, so it is excluded while running
    /// secondaries stand by. Without them the old primary was alone and has every acknowledged write. If the highest data is on a member that cannot
    /// lead, the old primary is not excluded either: nobody else has that data.
    fn leaves_old_out(&self) -> bool {
        self.s.group.failover.prefer_running
            && self.s.members.iter().any(|m| self.stands_by(m))
            && !self.unconfirmed_is_ahead()
            && self.replaced_volume().is_none()
    }

    /// Whether the member is an old primary that `spec.failover.preferRunning` excludes.
    fn is_left_out(&self, member: &Member) -> bool {
        self.old_left_out && self.led_highest_term(member) && !is_running_secondary(self.s, member)
    }

    /// Whether a running secondary of the highest term has data and was told whom to follow. One that was not told yet that another primary of the term
    /// had stopped may have followed only that one.
    fn stands_by(&self, member: &Member) -> bool {
        let memory = self.s.record.member(&member.name);
        let of_highest = self.is_of_highest(member) && !self.is_unconfirmed(member);
        is_running_secondary(self.s, member) && of_highest && !memory.follow_again && member.position != Position::Empty
    }

    /// Whether a member whose start was never confirmed has data that no secondary that stands by has.
    fn unconfirmed_is_ahead(&self) -> bool {
        let ahead = |m: &Member| {
            let Position::Known(own) = &m.position else { return false };
            let has = |other: &Member| match &other.position {
                Position::Known(data) => {
                    matches!(data::compare((0, data), (0, own)), Some(Ordering::Equal | Ordering::Greater))
                }
                _ => false,
            };
            !self.s.members.iter().any(|other| self.stands_by(other) && has(other))
        };
        self.s.members.iter().any(|m| self.is_of_highest(m) && self.is_unconfirmed(m) && ahead(m))
    }

    /// A member of the highest term whose volume was replaced after its role was confirmed: the lost data may have been the most recent.
    fn replaced_volume(&self) -> Option<&'a Member> {
        let s = self.s;
        let is_of_term = |m: &Member| self.highest_term.is_some() && s.record.member(&m.name).term == self.highest_term;
        let has_another = |m: &Member| match untold(s, m, self.highest_term) {
            Some(mark) => !mark.has_its_volumes(m),
            None => is_of_term(m) && volume_unchanged(s, m).is_err(),
        };
        s.members.iter().find(|m| !self.led_highest_term(m) && has_another(m))
    }

    /// Whether the data of the lost primary was read: no member had more recent data.
    fn leader_is_read(&self) -> bool {
        let s = self.s;
        let read = |m: &Member| {
            matches!(m.position, Position::Known(_)) && s.position_is_current(m) && volume_unchanged(s, m).is_ok()
        };
        s.members.iter().any(|m| self.led_highest_term(m) && self.counts(m) && read(m))
    }

    /// Whether the member was primary in the highest term to the end. It is over by now. While a secondary stands by, writes that only the primary has were never
    /// acknowledged to a client. One that became a secondary in that term is like any other secondary: it may have writes that were acknowledged because it had them.
    fn led_highest_term(&self, member: &Member) -> bool {
        let memory = self.s.record.member(&member.name);
        memory.primary_term == self.highest_term && !memory.followed_since
    }

    /// What has to hold for the whole group before a member takes over.
    ///
    /// # Errors
    /// The first rule that does not hold; an override lifts all but Over.
    pub fn group(&self) -> Held {
        let s = self.s;
        failover_alone(s)?;
        if s.active_override().is_some() {
            return Ok(());
        }
        record_is_current(s)?;
        no_leader_left(s)?;
        if self.highest_term.is_none() {
            let message = "members run as secondaries, and this group has no record of their data; choose who leads with the annotation tanist.dev/override";
            return Err(broken(Rule::NeedsAdoption, message));
        }
        if !self.enough_positions() {
            let waited = |m: &&Member| self.counts(m) && !self.led_highest_term(m) && !self.only_joins(m);
            s.members.iter().filter(waited).try_for_each(|m| readable(s, m))?;
            self.somebody_has_everything()?;
            if let Some(member) = self.replaced_volume().filter(|_| !self.leader_is_read()) {
                let message = format!(
                    "the volume of {} was replaced after it last followed; the lost data may have been the most recent, and the data of the lost primary cannot be read",
                    member.name
                );
                return Err(broken_by(Rule::ClaimChanged, &member.name, message));
            }
        }
        self.highest_data().map(|_| ())
    }

    /// A secondary that runs was told of every write that was acknowledged, if it followed the last primary. One that is stopped may have been stopped before the
    /// primary was, which went on without it. So if none runs, the lost primary's data has to be known, as for a seed (S15).
    fn somebody_has_everything(&self) -> Held {
        let s = self.s;
        if s.members.iter().any(|m| self.stands_by(m)) {
            return Ok(());
        }
        for member in s.members.iter().filter(|m| self.counts(m) && self.led_highest_term(m)) {
            let replaced =
                |_| broken_by(Rule::ClaimChanged, &member.name, format!("the volume of {} was replaced", member.name));
            let is_empty = member.position == Position::Empty;
            let empty = || broken_by(Rule::EmptyMember, &member.name, format!("{} led and has no data", member.name));
            let has_data = || {
                volume_unchanged(s, member).map_err(replaced)?;
                if is_empty { Err(empty()) } else { Ok(()) }
            };
            readable(s, member).and_then(|()| has_data()).map_err(|violation| {
                let message = format!("{}; no secondary runs that has all its writes for certain", violation.message);
                Violation { message, ..violation }
            })?;
        }
        Ok(())
    }

    /// Whether the member is becoming a secondary and cannot have data that others lack. Its data before the start has to be known and not above
    /// the highest known now; its command still runs or `status` says starting; and it was not seen as secondary or primary since. What it copies
    /// meanwhile comes from the lost primary, and no client relies on that copy before `status` says secondary.
    fn only_joins(&self, member: &Member) -> bool {
        let s = self.s;
        let memory = s.record.member(&member.name);
        let Some(intent) = s.record.intent_of(&member.name).filter(|i| i.verb == Verb::Place && !i.again) else {
            return false;
        };
        let Some(started) = memory.started.as_ref().filter(|started| !started.target && !started.followed) else {
            return false;
        };
        // Where the user says how many have to be read, a write may have been acknowledged because a program had it that only starts: it may receive writes before it serves anybody.
        let may_have_received = s.group.failover.reads.is_some();
        let on_its_way = match (s.evidence.get(&intent.token), s.role(member).0) {
            (Some(Evidence::Running), Role::Stopped) => true,
            (Some(Evidence::Running), Role::Starting) => !may_have_received,
            // The command exited 0, so a member that is stopped now may have served in between: only starting counts.
            (Some(Evidence::Exited(0)), Role::Starting) => !may_have_received,
            _ => false,
        };
        let has_moved = may_have_followed(s, member, &started.before, self.highest_term);
        let term = if has_moved { self.highest_term } else { memory.term };
        on_its_way && s.reachable(member) && self.holds_no_more(&started.before, term)
    }

    /// Whether data of the given term is not above the highest known data of the highest term.
    fn holds_no_more(&self, before: &Position, term: Option<u64>) -> bool {
        match before {
            Position::Empty => true,
            Position::Unknown(_) | Position::NotAsked => false,
            Position::Known(_) if term < self.highest_term => true,
            Position::Known(before) => {
                let top = self.highest_data().ok().flatten();
                let order = top.and_then(|top| data::compare((0, before), (0, top)));
                matches!(order, Some(Ordering::Less | Ordering::Equal))
            }
        }
    }

    /// Whether as many positions are known as `spec.failover.reads` asks for. An empty or replaced volume does not count, because it says nothing
    /// about acknowledged writes.
    fn enough_positions(&self) -> bool {
        let s = self.s;
        let known = |m: &&Member| {
            matches!(m.position, Position::Known(_)) && s.position_is_current(m) && volume_unchanged(s, m).is_ok()
        };
        let counted = || s.members.iter().filter(|m| self.counts(m));
        // The number is meant for as many members as are desired. While more of them follow (one leaves, or new ones come in the place of others) a write may be on those that are too many.
        // The lost primary is one of the desired members, also where its data does not count.
        let all = s.members.iter().filter(|m| self.highest_term.is_some() && self.is_of_highest(m)).count();
        let more = all.saturating_sub(usize::try_from(s.group.replicas).unwrap_or(usize::MAX));
        let reads = s.group.failover.reads.and_then(|reads| usize::try_from(reads).ok());
        reads.is_some_and(|reads| counted().filter(known).count() >= reads.saturating_add(more))
    }

    /// Every position that counts and can be read was read after the primary was lost (S8).
    pub(super) fn positions_read(&self) -> Held {
        let s = self.s;
        if s.active_override().is_some() || self.enough_positions() {
            return Ok(());
        }
        let unread = |m: &&Member| self.counts(m) && can_take_command(s, m).is_ok() && !s.position_is_current(m);
        match s.members.iter().find(unread) {
            Some(m) => {
                let message = format!("the data of {} has not been read since the primary was lost", m.name);
                Err(broken_by(Rule::PositionUnknown, &m.name, message))
            }
            None => Ok(()),
        }
    }

    /// The highest data that counts. `None`: no member that counts has data.
    fn highest_data(&self) -> Result<Option<&Sequence>, Violation> {
        self.highest_data.as_ref().map(Option::as_ref).map_err(Clone::clone)
    }

    /// What has to hold for the member that takes over.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn member(&self, member: &Member) -> Held {
        let s = self.s;
        can_take_command(s, member)?;
        role_is(s, member, &[Role::Secondary, Role::Stopped])?;
        programs_fit(s, member)?;
        if let Some(requested) = s.active_override() {
            return override_fits(s, member, requested);
        }
        retry_allowed(s, member)?;
        let name = &member.name;
        if self.is_left_out(member) {
            let why = "it was the primary and is stopped; spec.failover.preferRunning excludes it";
            return Err(broken_by(Rule::LeftOut, name, why));
        }
        if !self.counts(member) {
            let why = "its data is of an older term and may lack the latest writes";
            return Err(broken_by(Rule::OlderTerm, name, why));
        }
        if self.is_unconfirmed(member) {
            let why = match self.may_have_followed(member) {
                true => "it was not told whom to follow in this term, so its data may be incomplete",
                false => "a start on it was never confirmed, so its data may be an incomplete copy",
            };
            return Err(broken_by(Rule::Unconfirmed, name, why));
        }
        claims_not_ahead(s, member)?;
        volume_unchanged(s, member)?;
        let own = match &member.position {
            Position::Known(own) if s.position_is_current(member) => own,
            Position::Empty => {
                return Err(broken_by(Rule::EmptyMember, name, "it has no data, and this group has data"));
            }
            _ => {
                let why = "its data has not been read since the primary was lost";
                return Err(broken_by(Rule::PositionUnknown, name, why));
            }
        };
        if !self.may_be_behind(member, own)? {
            let behind = self.highest_data()?.filter(|top| data::compare((0, own), (0, top)) != Some(Ordering::Equal));
            if let Some(top) = behind {
                let usual = || format!("its data ({own}) is behind the highest known ({top})");
                let why = self.beyond(member).unwrap_or_else(usual);
                return Err(broken_by(Rule::BelowHighest, name, why));
            }
            above_high_water(s, member, own)?;
        }
        self.yields_to_equals(member)
    }

    /// Among members with equal data the requested primary goes first and the member that gives up the lead goes last; a member that is leaving or
    /// whose node is to be drained goes after those that stay (docs/rules.md, "Barred always"; S25). Each may lead when no other member that can lead has its
    /// data.
    /// With `spec.failover.maxBehind` a member that could lead with more recent data counts like one with equal data.
    fn yields_to_equals(&self, member: &Member) -> Held {
        let s = self.s;
        let equal = |m: &Member| {
            m.name != member.name && (m.position == member.position || self.is_ahead(m, member)) && self.can_lead(m)
        };
        let open = s.record.switchover.as_ref().filter(|h| h.is_open());
        let from = |m: &Member| open.is_some_and(|h| h.from == m.name);
        let named = open.and_then(|h| h.target());
        if named == Some(&member.name) {
            return Ok(());
        }
        let leaves = |m: &Member| s.leaves(m) || s.is_cordoned(m);
        let gives_way = s.is_cordoned(member) || s.leaves(member);
        let stays = gives_way && s.members.iter().any(|m| equal(m) && !leaves(m) && !from(m));
        // One that follows as well, and stays: it passes the rules that this one passed.
        let former = |m: &Member| is_former(s, m) && is_running_secondary(s, m) && !leaves(m) && !from(m);
        let as_well = |m: &Member| m.position == member.position && self.can_lead(m);
        let comes_later = || !is_being_replaced(s, member) && s.members.iter().any(|m| former(m) && as_well(m));
        // Looked for only where it is said: each member looks at all others.
        let data = || if s.members.iter().any(|m| self.is_ahead(m, member)) { "all its data" } else { "the same data" };
        let why = if let Some(named) = s.members.iter().find(|m| named == Some(&m.name) && equal(m)) {
            format!("{} is the requested primary and has {}", named.name, data())
        } else if from(member) && s.members.iter().any(equal) {
            format!("it is giving up the lead, and another member has {}", data())
        } else if s.leaves(member) && stays {
            format!("it is leaving, and a member that stays has {}", data())
        } else if s.is_cordoned(member) && stays {
            format!("its node is to be drained, and a member on another node has {}", data())
        } else if comes_later() {
            format!("it is of the new version, and a member of the former one has {}", data())
        } else {
            return Ok(());
        };
        Err(broken_by(Rule::GivesUpLead, &member.name, why))
    }
}

/// Whether the member's data is known, or can be asked for. What was read before the primary was lost says nothing of what came since (S8).
fn readable(s: &Snapshot, member: &Member) -> Held {
    let why = match &member.position {
        Position::Unknown(why) => format!("cannot be read: {why}"),
        _ if s.position_is_current(member) || can_take_command(s, member).is_ok() => return Ok(()),
        _ => why_unread(s, member),
    };
    let message = format!("the data of {} {why}; it may be the most recent", member.name);
    Err(broken_by(Rule::PositionUnknown, &member.name, message))
}

fn why_unread(s: &Snapshot, member: &Member) -> String {
    match s.record.intent_of(&member.name) {
        Some(intent) => format!("cannot be read while its command {} is not settled", intent.command),
        None if s.reachable(member) => "is being read".into(),
        None => {
            let phase = member.pod.as_ref().map_or(Phase::Missing, |p| p.phase);
            format!("is not known, because its pod is {}", phase_word(phase))
        }
    }
}
