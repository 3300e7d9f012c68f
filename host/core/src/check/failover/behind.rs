//! `spec.failover.maxBehind`: a running secondary that is not far behind may take over, and the writes that it lacks are given up (docs/rules.md,
//! "Order of data").
//!
//! The distance is counted in the units of `sequence`, from the most recent data that is known: of the members that count, and of the high-water
//! mark. What only an unreadable lost primary had is not known, so it is in no distance. The takeover opens a new term. From then on the data of the new
//! primary is the most recent one, its numbers count anew from there, and members that were ahead are of an older term, as after an override.
use super::{FailoverOrder, is_running_secondary};
use crate::check::claims::{claims_not_ahead, volume_unchanged};
use crate::check::{Violation, can_take_command, retry_allowed, role_is};
use crate::contract::{Position, Role, Sequence};
use crate::data;
use crate::snapshot::Member;

/// How far a member is below the most recent data that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind<'a> {
    /// Its own data.
    pub own: &'a Sequence,
    /// The most recent data that is known.
    pub highest: &'a Sequence,
    /// The distance of the two numbers, in the units of `sequence`; never 0.
    pub by: u64,
}

impl FailoverOrder<'_> {
    /// How far the member is below the most recent data that is known. `None`: it has that data, or the distance is not known, because the member's
    /// position is not known or is of another term or history.
    #[must_use]
    pub fn behind<'a>(&'a self, member: &'a Member) -> Option<Behind<'a>> {
        let Position::Known(own) = &member.position else { return None };
        let (highest, by) =
            self.known_tops().ok()?.filter_map(|top| Some((top, data::ahead(top, own)?))).max_by_key(|(_, by)| *by)?;
        (by > 0).then_some(Behind { own, highest, by })
    }

    /// Whether the member may take over although it is behind: it is a running secondary, and no known data of the highest term is more than
    /// `spec.failover.maxBehind` above its own. A switchover was promised to lose nothing, so meanwhile a member that has everything goes first.
    pub(super) fn may_be_behind(&self, member: &Member, own: &Sequence) -> Result<bool, Violation> {
        let s = self.s;
        let Some(limit) = s.group.failover.max_behind.filter(|_| is_running_secondary(s, member)) else {
            return Ok(false);
        };
        let later = s.record.high_water.as_ref().is_some_and(|mark| Some(mark.term) > self.highest_term);
        let within = |top: &Sequence| data::ahead(top, own).is_some_and(|by| by <= limit);
        let within = !later && self.known_tops()?.all(within);
        let keeps_all = s.record.switchover.as_ref().is_some_and(|h| h.is_open());
        Ok(within && !(keeps_all && s.members.iter().any(|m| m.name != member.name && self.can_lead_with_all(m))))
    }

    /// Why `spec.failover.maxBehind` does not let the member lead. `None`: the group does not set it, or it is not about this member.
    pub(super) fn beyond(&self, member: &Member) -> Option<String> {
        let limit = self.s.group.failover.max_behind.filter(|_| is_running_secondary(self.s, member))?;
        let Behind { own, highest, by } = self.behind(member)?;
        let why = match by > limit {
            true => format!("spec.failover.maxBehind is {limit}"),
            false => "in a switchover a member that has everything goes first".to_owned(),
        };
        Some(format!("its data ({own}) is {by} below the highest known ({highest}), and {why}"))
    }

    /// The most recent data of the members that count, and the high-water mark of their term.
    fn known_tops(&self) -> Result<impl Iterator<Item = &Sequence>, Violation> {
        let mark = self.s.record.high_water.as_ref().filter(|mark| Some(mark.term) == self.highest_term);
        Ok(self.highest_data()?.into_iter().chain(mark.map(|mark| &mark.sequence)))
    }

    /// Whether nothing but the order of members speaks against the member, and it has the most recent data that is known. That it rests after a failed stop
    /// is soon over, and says nothing about its next start.
    fn can_lead_with_all(&self, member: &Member) -> bool {
        let Position::Known(own) = &member.position else { return false };
        let has = |top: &Sequence| data::ahead(top, own) == Some(0);
        let last = self.s.record.member(&member.name).last_failure.as_ref();
        let able = self.can_lead(member) || (last.is_some_and(|last| last.command == "stop") && self.is_able(member));
        able && self.known_tops().is_ok_and(|mut tops| tops.all(has))
    }

    /// Whether the one member could lead with more recent data than the other one has.
    pub(super) fn is_ahead(&self, one: &Member, other: &Member) -> bool {
        let (Position::Known(data), Position::Known(own)) = (&one.position, &other.position) else { return false };
        self.can_lead(one) && data::ahead(data, own).is_some_and(|by| by > 0)
    }

    /// Whether the member could take over now if its data were recent enough.
    pub(super) fn can_lead(&self, member: &Member) -> bool {
        retry_allowed(self.s, member).is_ok() && self.is_able(member)
    }

    /// The same, once it has rested after a failure.
    fn is_able(&self, member: &Member) -> bool {
        let s = self.s;
        self.counts(member)
            && s.position_is_current(member)
            && !self.is_unconfirmed(member)
            && can_take_command(s, member).is_ok()
            && role_is(s, member, &[Role::Secondary, Role::Stopped]).is_ok()
            && claims_not_ahead(s, member).is_ok()
            && volume_unchanged(s, member).is_ok()
    }
}
