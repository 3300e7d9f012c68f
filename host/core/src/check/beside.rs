//! Two versions side by side (`spec.update.strategy: SideBySide`; docs/rules.md, "Update: side by side"; E4, E6, E7). New members come in the place of all at once. Clients do not reach them before the cut-over, and
//! from then on only them.
use super::leave::works;
use super::replace::{is_being_replaced, is_replaced, is_watched_first, replace_member};
use super::update::{awaits_update, has_present_template, is_in_its_place};
use super::{Held, Rule, broken, broken_by, is_misplaced};
use crate::contract::Role;
use crate::snapshot::{CutOver, Member, Snapshot, Strategy};

/// When clients are led to the new members. Absent: members are not replaced side by side.
fn cut_over(s: &Snapshot) -> Option<CutOver> {
    match s.group.update.strategy {
        Strategy::SideBySide(when) => Some(when),
        Strategy::Recreate | Strategy::Replace | Strategy::ReplacePrimaries => None,
    }
}

/// Whether new members come in the place of all at once.
#[must_use]
pub fn is_side_by_side(s: &Snapshot) -> bool {
    cut_over(s).is_some()
}

/// Whether the member leaves together with the others in whose place new ones come. One that does not work leaves by itself, and so does one that is in a wrong zone.
#[must_use]
pub fn leaves_together(s: &Snapshot, member: &Member) -> bool {
    is_side_by_side(s) && awaits_update(s, member) && works(s, member) && !is_misplaced(s, member)
}

/// Whether a new member may be called in the place of this one in the same round as in that of another one. The first member that gets a template is watched, so it goes alone (E32).
#[must_use]
pub fn goes_along(s: &Snapshot, member: &Member) -> bool {
    is_side_by_side(s) && !is_watched_first(s) && replace_member(s, member).is_ok()
}

/// Clients may be led to the new members.
///
/// # Errors
/// [`Rule::StayersFirst`].
pub(super) fn may_cut_over(s: &Snapshot) -> Held {
    let Some(when) = cut_over(s) else { return Ok(()) };
    let is_uncalled = |other: &&Member| is_replaced(s, other) && !is_being_replaced(s, other) && works(s, other);
    if let Some(other) = s.members.iter().find(is_uncalled) {
        let message = format!("no new member comes in place of {} yet", other.name);
        return Err(broken_by(Rule::StayersFirst, &other.name, message));
    }
    let is_new = |m: &&Member| has_present_template(s, m) && is_in_its_place(s, m).is_ok();
    let there = s.members.iter().filter(is_new).count();
    let needed = match when {
        CutOver::All => s.group.replicas,
        CutOver::One => 1,
    };
    match u32::try_from(there).is_ok_and(|there| there >= needed) {
        true => Ok(()),
        false => Err(broken(
            Rule::StayersFirst,
            format!("{there} of {needed} members that the cut-over waits for work with the present template"),
        )),
    }
}

/// Whether no clients are led to that secondary: it is new and the cut-over has not come, or the cut-over has come and it is one of before. One of before keeps its clients until a new one has some.
#[must_use]
pub fn is_held_back(s: &Snapshot, member: &Member) -> bool {
    let Some(seats) = s.record.seats.as_ref().filter(|_| is_side_by_side(s)) else { return false };
    let follows = |m: &Member| s.confirmed(m, Role::Secondary);
    let came_for = |former: &Member| {
        let first = seats.replaced.get(&former.ordinal);
        first.is_some_and(|first| *first <= member.ordinal) && awaits_update(s, former)
    };
    let is_older = |m: &Member| m.pod.as_ref().is_some_and(|pod| pod.older_template);
    let is_former = seats.leaving.contains(&member.ordinal) && is_older(member);
    let serves = |other: &Member| s.reachable(other) && follows(other) && !is_older(other);
    let others_follow = || s.members.iter().any(|other| !s.leaves(other) && serves(other));
    follows(member) && (s.members.iter().any(came_for) || is_former && others_follow())
}
