//! Two versions side by side (`spec.update.strategy: SideBySide`; docs/rules.md, "Update: side by side"; E4, E6, E7). New members come in the place of all at once. Readers do not reach them before the cut-over, and
//! from then on only them.
use super::failing::is_replaced_as_failing;
use super::replace::{is_being_replaced, is_replaced, is_watched_first, replace_member};
use super::update::{awaits_update, has_present_template, is_in_its_place};
use super::{Held, Rule, broken, broken_by, is_misplaced, is_successor};
use crate::contract::Role;
use crate::snapshot::{CutOver, Member, Snapshot, Strategy};
use std::collections::BTreeSet;

/// Whether new members come in the place of all at once.
#[must_use]
pub fn is_side_by_side(s: &Snapshot) -> bool {
    s.group.update.strategy == Strategy::SideBySide
}

/// Whether the member leaves at the cut-over, together with all others of the former version. One that is in a wrong zone moves by itself.
#[must_use]
pub fn leaves_together(s: &Snapshot, member: &Member) -> bool {
    is_former(s, member) && awaits_update(s, member)
}

/// Whether a new member may be called in the place of this one in the same round as in that of another one. The first member that gets a template is watched, so it goes alone (E32).
#[must_use]
pub fn goes_along(s: &Snapshot, member: &Member) -> bool {
    is_side_by_side(s) && !is_watched_first(s) && replace_member(s, member).is_ok()
}

/// Readers may be led to the new members: one has been called in the place of each, and enough of them are in their role and Ready.
///
/// # Errors
/// [`Rule::StayersFirst`].
pub(super) fn may_cut_over(s: &Snapshot) -> Held {
    let is_uncalled = |other: &&Member| is_replaced(s, other) && !is_being_replaced(s, other);
    if let Some(other) = s.members.iter().find(is_uncalled) {
        let message = format!("no new member comes in place of {} yet", other.name);
        return Err(broken_by(Rule::StayersFirst, &other.name, message));
    }
    let is_new = |m: &&Member| has_present_template(s, m) && is_in_its_place(s, m).is_ok();
    let there = s.members.iter().filter(is_new).count();
    let needed = match s.group.update.cut_over {
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

/// Whether the member is of the former version, and the cut-over has not come.
pub(super) fn is_former(s: &Snapshot, member: &Member) -> bool {
    is_side_by_side(s) && is_being_replaced(s, member) && !is_misplaced(s, member) && !is_replaced_as_failing(s, member)
}

/// The members of the former version before the cut-over. None: there is one version only, or the cut-over has come.
fn former(s: &Snapshot) -> impl Iterator<Item = &Member> {
    s.members.iter().filter(|m| is_former(s, m))
}

/// Whether the member leaves at the cut-over although it has no pod, or one of the present template that does not work: others of the former version stay until then.
pub(super) fn waits_for_the_others(s: &Snapshot, member: &Member) -> bool {
    is_former(s, member) && s.members.iter().any(|other| leaves_together(s, other))
}

fn follows(s: &Snapshot, member: &Member) -> bool {
    s.reachable(member) && s.confirmed(member, Role::Secondary)
}

/// Whether the member is of the new version, the cut-over has not come, and one of the former version could lead in its place.
#[must_use]
pub(super) fn comes_later(s: &Snapshot, member: &Member) -> bool {
    let could_lead = |other: &Member| is_successor(s, other) && !s.is_cordoned(other);
    !is_being_replaced(s, member) && former(s).any(could_lead)
}

/// The numbers of the followers to which no reader is led. Before the cut-over these are all of the new version, as long as one of the former version is read from, or the group has no readers at all. Afterwards, and when
/// the update was cancelled, these are those with another template than the present one that leave or wait to leave, once readers are led to one that stays: so there is always somebody to read from.
#[must_use]
pub fn held_back(s: &Snapshot) -> BTreeSet<u32> {
    let Some(seats) = s.record.seats.as_ref().filter(|_| is_side_by_side(s) && s.group.makes_pods) else {
        return BTreeSet::new();
    };
    let is_led = |m: &Member| m.pod.as_ref().and_then(|pod| pod.routed.as_deref()) == Some("secondary");
    let is_read = |m: &Member| is_led(m) && m.pod.as_ref().is_some_and(|pod| pod.ready);
    let is_older = |m: &Member| m.pod.as_ref().is_some_and(|pod| pod.older_template);
    let leaves: BTreeSet<u32> = s.members.iter().filter(|m| s.leaves(m)).map(|m| m.ordinal).collect();
    let stays = |m: &&Member| !leaves.contains(&m.ordinal) && follows(s, m) && is_read(m);
    let read: Vec<&Member> = s.members.iter().filter(stays).collect();
    let new_is_read = read.iter().any(|m| !is_being_replaced(s, m));
    // One that cannot be read for a moment keeps its readers.
    let is_silent = |m: &Member| s.reachable(m) && s.role(m).0 == Role::Unknown && is_led(m);
    let keeps = |m: &Member| (follows(s, m) || is_silent(m)) && (is_read(m) || !new_is_read);
    let has_readers = s.group.replicas > s.group.primaries;
    let is_before = former(s).any(|m| keeps(m) || !has_readers && awaits_update(s, m));
    // What came for others with a template that was given up waits to leave.
    let is_given_up = |m: &Member| is_older(m) && seats.is_successor(m.ordinal) && read.iter().any(|m| !is_older(m));
    let waits = |m: &&Member| match leaves.contains(&m.ordinal) {
        true => is_older(m) && !read.is_empty() || is_before && !is_older(m),
        false => !is_being_replaced(s, m) && (is_before || is_given_up(m)),
    };
    s.members.iter().filter(waits).map(|m| m.ordinal).collect()
}
