//! Which of more primaries than desired gets no clients: one that a user started by hand (docs/safety.md, S23).
use super::{Member, Snapshot};
use crate::check;
use crate::contract::{MemberName, Role};
use crate::record::LastPrimary;

impl Snapshot {
    /// Whether clients do not reach it, and as many other primaries of this term as desired come before it, so that it gets no clients and nobody follows it.
    ///
    /// Those come before it that clients reach, and those that were noted as primary earlier, until they are proven over: clients may reach one whose role cannot be read
    /// or whose node does not report (S19, S20). Between those that clients reach the policy decides.
    #[must_use]
    pub fn is_surplus(&self, member: &Member) -> bool {
        let counts = |name: &MemberName| !self.member(name).is_some_and(|m| self.serves(m) && self.is_extra(m));
        let comes_before = |name: &&MemberName| {
            **name != member.name
                && counts(name)
                && (self.is_led(name) || self.led_before(name, member))
                && !self.was_voted_out(name)
        };
        let others = || self.may_be_primary().keys().filter(comes_before).count();
        !member.leads_clients() && others() >= self.group.desired_primaries()
    }

    /// Whether a primary that leaves, or in whose place a new one comes, does not count among the desired ones: where members agree it goes on until it is removed, which waits for those that stay. So these get
    /// clients beside it.
    #[must_use]
    pub fn is_extra(&self, member: &Member) -> bool {
        let goes = || self.leaves(member) || check::is_being_replaced(self, member);
        let several = || self.group.commands.secondary.is_none() || self.serving().len() > 1;
        self.group.commands.membership.is_some() && goes() && several()
    }

    /// Whether clients are led to it as to a primary of this term.
    fn is_led(&self, name: &MemberName) -> bool {
        // Whoever was ever seen as primary is noted. A label alone, of one that nobody can ask, may be the work of a user (seed 53005246).
        let is_noted = || self.record.last_primaries.iter().any(|last| last.member == *name);
        let leads =
            |m: &Member| m.leads_clients() && !self.stepped_down(m) && (self.role(m).0 == Role::Primary || is_noted());
        self.record.member(name).term == Some(self.record.term) && self.member(name).is_some_and(leads)
    }

    /// Whether that one was noted as a primary of this term before `member` was, and is not seen in another role where it led. Of those that were noted at the same time
    /// none was first: no member is chosen by its ordinal.
    fn led_before(&self, name: &MemberName, member: &Member) -> bool {
        let (known, own) = (self.record.member(name), self.record.member(&member.name));
        let still = |last: &LastPrimary| !self.pod(&last.pod_uid).is_some_and(|(other, _)| self.stepped_down(other));
        let mut earlier = self.record.last_primaries.iter().take_while(|last| last.member != member.name);
        known.primary_term == Some(self.record.term)
            && known.last_primary != own.last_primary
            && earlier.any(|last| last.member == *name && still(last))
    }

    /// Whether the members elect who leads, and that one does not say that it does: whoever says so has a majority.
    fn was_voted_out(&self, name: &MemberName) -> bool {
        check::is_formed(self) && !self.member(name).is_some_and(|other| self.serves(other))
    }

    /// Applications may move the lead by themselves: what says that it is no primary does not come before one.
    fn stepped_down(&self, member: &Member) -> bool {
        self.reachable(member) && matches!(self.role(member).0, Role::Stopped | Role::Starting | Role::Secondary)
    }
}
