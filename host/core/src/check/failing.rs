//! When a new member comes in the place of one that fails again and again (`spec.members.replaceAfterFailures`; docs/rules.md, "Members by identity"; D25). Like a member whose template calls for that (`replace`)
//! it stays until the new one works, and then leaves like any other: should it work before, it is the new one that leaves.
use super::beside::is_side_by_side;
use super::replace::{
    is_being_replaced, is_down, is_within_limit, nobody_else_may_lead, nobody_leaves_but_after_it, others_are_in_place,
};
use super::update::{awaits_update, is_in_its_place};
use super::zones::{administrator_lets, is_misplaced};
use super::{Held, Rule, broken, broken_by, members, quorum_without};
use crate::snapshot::{Member, Mode, Snapshot};

/// Whether a new member comes in the place of this one because it failed again and again.
#[must_use]
pub fn is_replaced_as_failing(s: &Snapshot, member: &Member) -> bool {
    let seats = s.record.seats.as_ref().filter(|_| is_being_replaced(s, member));
    seats.is_some_and(|seats| seats.failing.contains(&member.ordinal))
}

/// Whether so many commands failed in the member that a new one is to come in its place. It was in a role before: one that never was may fail for a reason that is not its own, as the next one would, and the next. A template that
/// changed, or a zone, calls for another pod or another member anyway. What lacks memory would lack it elsewhere, too; and one that does not run, or whose node is silent, did not fail.
#[must_use]
pub fn fails_again_and_again(s: &Snapshot, member: &Member) -> bool {
    let limit = s.group.replace_after;
    let is_called_for = || awaits_update(s, member) || is_misplaced(s, member) || s.leaves(member);
    let lacks_memory = || member.pod.as_ref().is_none_or(|pod| pod.lacked_memory);
    s.group.makes_pods
        && limit > 0
        && s.record.member(&member.name).failures >= limit
        && s.record.member(&member.name).term.is_some()
        && s.reachable(member)
        && is_down(s, member)
        && !lacks_memory()
        && !is_called_for()
}

/// A new member may be called in the place of this one.
///
/// # Errors
/// The first rule that does not hold.
pub fn replace_failing(s: &Snapshot, member: &Member) -> Held {
    administrator_lets(s)?;
    let name = &member.name;
    if !fails_again_and_again(s, member) || is_being_replaced(s, member) {
        return Err(broken_by(Rule::NotAtRest, name, format!("{name} is not to be replaced")));
    }
    let commands = &s.group.commands;
    if commands.secondary.is_none() && commands.membership.is_none() {
        return Err(broken(
            Rule::AdministratorDecides,
            "without commands.secondary nobody could copy the data first: name the member in spec.members.remove",
        ));
    }
    if is_side_by_side(s) {
        let message = "with spec.update.strategy SideBySide nobody is replaced but all together: name the member in spec.members.remove";
        return Err(broken(Rule::AdministratorDecides, message));
    }
    is_within_limit(s, member)?;
    members::serving(s)?;
    nobody_leaves_but_after_it(s)?;
    // Of several primaries it may be one itself, so no number of them is asked for: all others are in their roles.
    nobody_else_may_lead(s)?;
    others_are_in_place(s, member)?;
    // New ones, too: what happens to all is the fault of none.
    s.members.iter().filter(|other| other.name != *name).try_for_each(|other| is_in_its_place(s, other))?;
    // Whether it is the template that fails is found out first. Where nobody gets it for now, nobody finds out.
    let updates = s.group.update.mode == Mode::ByOperator && !s.record.stopped_at_canary(&s.group.update);
    if let Some(other) = s.members.iter().find(|other| updates && awaits_update(s, other)) {
        return Err(broken_by(Rule::NotAtRest, &other.name, format!("{} has an older template", other.name)));
    }
    match commands.membership {
        Some(_) => quorum_without(s, name),
        None => Ok(()),
    }
}

/// Who is next of those that fail again and again: those that may be replaced now, then from the highest number.
#[must_use]
pub fn next_failing(s: &Snapshot) -> Option<&Member> {
    let waits = |m: &&Member| fails_again_and_again(s, m) && !is_being_replaced(s, m);
    s.members.iter().filter(waits).max_by_key(|m| (replace_failing(s, m).is_ok(), m.ordinal))
}
