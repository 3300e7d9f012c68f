//! When a new member comes in the place of one that is in a wrong zone (`spec.zones`; docs/rules.md, "Zones"; E14). Like a member whose template calls for that (`replace`) it stays until the new one works, and
//! then leaves like any other.
use super::leave::works;
use super::replace::{
    as_many_serve, is_being_replaced, is_down, is_within_limit, kind_stays, nobody_leaves, others_are_in_place,
};
use super::update::{awaits_update, canary_allows};
use super::{Held, Rule, broken, broken_by, members};
use crate::contract::Phase;
use crate::snapshot::{Member, Mode, Snapshot};

/// Whether the member stays, and is in a zone that has too many members, or that the user does not name any more.
#[must_use]
pub fn is_misplaced(s: &Snapshot, member: &Member) -> bool {
    s.roster().knows_zones() && !s.leaves(member) && s.roster().is_misplaced(member.ordinal)
}

/// Whether the member is new, was never started, has no node, and comes in the place of one that is in a wrong zone. Its zone may have no node, which is not due to the template.
pub(super) fn comes_to_a_zone(s: &Snapshot, member: &Member) -> bool {
    let Some(seats) = &s.record.seats else { return false };
    let first = |other: &Member| seats.replaced.get(&other.ordinal).copied();
    let came_for = |other: &Member| first(other).is_some_and(|first| first <= member.ordinal) && is_misplaced(s, other);
    has_no_node(s, member) && s.members.iter().any(came_for)
}

/// Whether the member was never started, and its pod has no node.
pub(super) fn has_no_node(s: &Snapshot, member: &Member) -> bool {
    let known = s.record.member(&member.name);
    let waits = member.pod.as_ref().is_some_and(|pod| pod.node.is_none());
    waits && known.term.is_none() && known.started.is_none() && !s.reachable(member)
}

/// A new member may be called in the place of this one.
///
/// # Errors
/// The first rule that does not hold.
pub fn move_member(s: &Snapshot, member: &Member) -> Held {
    administrator_lets(s)?;
    let name = &member.name;
    if !is_misplaced(s, member) || is_being_replaced(s, member) {
        return Err(broken_by(Rule::NotAtRest, name, format!("{name} does not have to move")));
    }
    let commands = &s.group.commands;
    if commands.secondary.is_none() && commands.membership.is_none() {
        let message =
            "without commands.secondary nobody could copy the data first: name the member in spec.members.remove";
        return Err(broken(Rule::AdministratorDecides, message));
    }
    is_within_limit(s, member)?;
    kind_stays(s)?;
    members::serving(s)?;
    // A zone that is lost: its members wait for nobody. Who is called stops nobody, and they leave by the rules for each.
    let is_lost = member.pod.as_ref().is_some_and(|pod| pod.phase == Phase::Unreachable);
    if is_down(s, member) || is_lost {
        return Ok(());
    }
    nobody_leaves(s)?;
    // The new one gets the present template, or the one that works.
    let update = &s.group.update;
    let is_open = update.mode == Mode::ByOperator && !s.record.stopped_at_canary(update);
    let is_tried = is_open && s.members.iter().any(|m| awaits_update(s, m));
    if is_tried {
        canary_allows(s)?;
    }
    as_many_serve(s)?;
    others_are_in_place(s, member)?;
    leads_last(s, member)
}

/// A single primary moves when nobody else has to any more, so that the lead moves once.
fn leads_last(s: &Snapshot, member: &Member) -> Held {
    let moves = |other: &&Member| other.name != member.name && (is_misplaced(s, other) || is_being_replaced(s, other));
    match s.members.iter().find(|other| s.serves(member) && s.group.desired_primaries() < 2 && moves(other)) {
        Some(other) => {
            let message = format!("a new member comes in place of {} before the primary's turn", other.name);
            Err(broken_by(Rule::PrimaryLast, &member.name, message))
        }
        None => Ok(()),
    }
}

/// The user did not pause the group, and no override is in effect.
pub(super) fn administrator_lets(s: &Snapshot) -> Held {
    match s.group.paused || s.active_override().is_some() {
        true => Err(broken(Rule::AdministratorDecides, "the group is paused, or an override is set")),
        false => Ok(()),
    }
}

/// Who is next of those that are in a wrong zone: those that may move now; of them those that do not work, then those that are no primaries, then from the highest number.
#[must_use]
pub fn next_to_move(s: &Snapshot) -> Option<&Member> {
    let waits = |m: &&Member| is_misplaced(s, m) && !is_being_replaced(s, m);
    s.members.iter().filter(waits).max_by_key(|m| (move_member(s, m).is_ok(), !works(s, m), !s.serves(m), m.ordinal))
}
