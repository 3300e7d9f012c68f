//! When a new member comes in the place of one whose pod has an older `spec.template`, instead of a new pod (docs/rules.md, "Update"; rows B7 to B10).
//!
//! Here is only when that begins, how long it waits, and when it is taken back. The new member has a number, a name and volumes of its own, and joins first. Then the former one leaves like any
//! other that is not desired any more: `leave`, `membership`.
use super::beside::{is_side_by_side, may_cut_over, waits_for_the_others};
use super::failing::is_replaced_as_failing;
use super::hooks::in_no_other_batch;
use super::leave::{others_first, works};
use super::membership::holds_up_others;
use super::rebalance::has_been_ready;
use super::update::{
    awaits_update, canary_allows, has_older_template, is_in_its_place, is_in_role, is_taken_away, others_are_updated,
    template_has_not_failed, update_group,
};
use super::{Held, Rule, broken, broken_by, members, membership, update_member, zones};
use crate::contract::{MemberName, Role};
use crate::record::Verdict;
use crate::snapshot::{Member, Mode, Pod, Snapshot, Strategy};

/// Whether a new member comes in the place of this one, and not a new pod. One that was never in a role has nothing that another member could take over, and of one that came itself in the place of a member
/// that is still there nothing is lost. Without a role for it the new one could not copy the data first.
#[must_use]
pub fn is_replaced(s: &Snapshot, member: &Member) -> bool {
    let calls = |pod: &Pod| calls_for_new(s, pod) || strategy(s) == Strategy::ReplacePrimaries && s.serves(member);
    let commands = &s.group.commands;
    let can_join = commands.secondary.is_some() || commands.membership.is_some();
    let is_new = s.record.seats.as_ref().is_some_and(|seats| seats.is_successor(member.ordinal));
    s.group.makes_pods
        && can_join
        && !is_new
        && awaits_update(s, member)
        && s.record.member(&member.name).term.is_some()
        && member.pod.as_ref().is_some_and(calls)
}

fn strategy(s: &Snapshot) -> Strategy {
    s.group.update.strategy
}

/// Whether what changed since the pod was made calls for a new member, whatever the role of this one.
fn calls_for_new(s: &Snapshot, pod: &Pod) -> bool {
    pod.needs_new_member || strategy(s) == Strategy::Replace || is_side_by_side(s)
}

/// Whether a new member comes in the place of this one, which stays until that one works.
#[must_use]
pub fn is_being_replaced(s: &Snapshot, member: &Member) -> bool {
    s.group.makes_pods && s.record.seats.as_ref().is_some_and(|seats| seats.replaced.contains_key(&member.ordinal))
}

/// The next step of the member's update may be taken: a new member is called in its place, or its pod is deleted.
///
/// # Errors
/// The first rule that does not hold; with the time at which it will hold.
pub fn update_next(s: &Snapshot, member: &Member) -> Held {
    if is_replaced(s, member) { replace_member(s, member) } else { update_member(s, member) }
}

/// A new member may be called in the place of this one.
///
/// # Errors
/// The first rule that does not hold; with the time at which it will hold.
pub fn replace_member(s: &Snapshot, member: &Member) -> Held {
    update_group(s)?;
    has_older_template(s, member)?;
    template_has_not_failed(s)?;
    if !is_replaced(s, member) {
        return Err(broken_by(Rule::NotAtRest, &member.name, format!("{} gets a new pod", member.name)));
    }
    if is_being_replaced(s, member) {
        return Err(broken_by(
            Rule::NotAtRest,
            &member.name,
            format!("a new member comes in place of {}", member.name),
        ));
    }
    is_within_limit(s, member)?;
    // There is nobody whom a new member could join.
    members::serving(s)?;
    // One that does not run is replaced at once: a template that does not work never blocks the one that does (E5). Whoever leaves waits for it where too few of the others serve.
    match is_down(s, member) {
        true => nobody_leaves_but_after_it(s),
        // All come at once, and nobody who works goes for them.
        false if is_side_by_side(s) => nobody_leaves(s).and_then(|()| all_may_be_called(s)),
        false => nobody_leaves(s).and_then(|()| others_are_well(s, member)),
    }
}

/// Nobody leaves, or whoever does waits for somebody who comes in the place of one that is down: too few of the others serve, or all that stay have to be in their roles first (seed 196333018).
pub(super) fn nobody_leaves_but_after_it(s: &Snapshot) -> Held {
    let waits = |other: &Member| s.leaves(other) && others_first(s, other).is_err();
    match super::stayers_serve(s).is_err() || s.members.iter().any(waits) {
        true => kind_stays(s),
        false => nobody_leaves(s),
    }
}

/// Whether nothing runs in the member's pod, or it is in no role. One whose pod Kubernetes takes away gets another pod, of the present template.
#[must_use]
pub fn is_down(s: &Snapshot, member: &Member) -> bool {
    let has_stopped = matches!(s.role(member).0, Role::Stopped | Role::Failed) && !is_in_role(s, member);
    let is_going = member.pod.as_ref().is_none_or(is_taken_away);
    !is_going && (!s.reachable(member) || has_stopped)
}

/// Whether the member is new and its first start goes on: it copies the data, which takes its time.
#[must_use]
pub fn is_arriving(s: &Snapshot, member: &Member) -> bool {
    let known = s.record.member(&member.name);
    let is_new = known.term.is_none() && known.failures == 0;
    is_new && s.record.intent_of(&member.name).is_some_and(|intent| s.is_under_way(intent))
}

/// Its pod is not deleted for an update where a new member comes in its place, also while that has to wait (B10). While nobody serves none could come, and a template without another place may be the cure.
pub(super) fn keeps_pod_until_replaced(s: &Snapshot, member: &Member) -> Held {
    let is_bound = member.pod.as_ref().is_some_and(|pod| pod.needs_new_member) || s.group.update.replacements == 0;
    match is_replaced(s, member) && (is_bound || !s.leading().is_empty()) {
        true => {
            Err(broken_by(Rule::NotAtRest, &member.name, format!("a new member comes in place of {}", member.name)))
        }
        false => Ok(()),
    }
}

/// How many members may be on their way out for new ones at a time. Of two versions side by side all may.
#[must_use]
pub fn replacement_limit(s: &Snapshot) -> u32 {
    let limit = s.group.update.replacements;
    if limit > 0 && is_side_by_side(s) { u32::MAX } else { limit }
}

/// No more members are on their way out for new ones at a time than the user allows (B9). One that is down goes before one that works.
pub(super) fn is_within_limit(s: &Snapshot, member: &Member) -> Held {
    let limit = replacement_limit(s);
    let counts = |other: &&Member| is_being_replaced(s, other) && (!is_down(s, member) || is_down(s, other));
    let open = s.members.iter().filter(counts).count();
    if s.group.commands.membership.is_some() {
        membership::has_room(usize::try_from(s.roster().desired()).unwrap_or(usize::MAX))?;
    }
    match (limit, u32::try_from(open).is_ok_and(|open| open < limit)) {
        (0, _) => Err(broken(Rule::AdministratorDecides, "spec.update.maxConcurrentReplacements is 0")),
        (_, true) => Ok(()),
        (_, false) => Err(broken(
            Rule::NotAtRest,
            format!("members being replaced: {open}, as many as spec.update.maxConcurrentReplacements allows"),
        )),
    }
}

/// The group is not on its way to the other kind of members.
pub(super) fn kind_stays(s: &Snapshot) -> Held {
    match s.moving {
        Some(_) => Err(broken(Rule::NotAtRest, "spec.members.kind was changed")),
        None => Ok(()),
    }
}

/// No member leaves, and the group is not on its way to the other kind of members.
pub(super) fn nobody_leaves(s: &Snapshot) -> Held {
    kind_stays(s)?;
    match s.members.iter().find(|other| s.leaves(other)) {
        Some(other) => Err(broken_by(Rule::NotAtRest, &other.name, format!("{} is leaving", other.name))),
        None => Ok(()),
    }
}

/// Nothing is going on but the arrival of new members, and all others are in their role.
pub(super) fn others_are_in_place(s: &Snapshot, member: &Member) -> Held {
    if let Some(intent) = s.record.intents.first() {
        let message = format!("{} on {} is not settled", intent.command, intent.member);
        return Err(broken_by(Rule::MemberBusy, &intent.member, message));
    }
    if s.record.switchover.as_ref().is_some_and(super::Switchover::is_open) {
        return Err(broken(Rule::NotAtRest, "the lead moves"));
    }
    others(s, member).try_for_each(|other| is_in_its_place(s, other))
}

/// The other members, but for new ones that still arrive.
fn others<'a>(s: &'a Snapshot, member: &'a Member) -> impl Iterator<Item = &'a Member> {
    let arrives = |other: &Member| s.record.member(&other.name).term.is_none();
    s.members.iter().filter(move |other| other.name != member.name && !arrives(other))
}

/// The same for an update: all others are Ready for as long as the user wants, and a single primary is the last.
fn others_are_well(s: &Snapshot, member: &Member) -> Held {
    in_no_other_batch(s, member)?;
    as_many_serve(s)?;
    others_are_in_place(s, member)?;
    let (wait, uptime) = (i64::from(s.group.update.wait), i64::from(s.group.update.min_uptime));
    s.members.iter().filter(|_| uptime > 0).try_for_each(|any| has_been_ready(s, any, uptime))?;
    others(s, member).filter(|_| wait > 0).try_for_each(|other| has_been_ready(s, other, wait))?;
    canary_allows(s)?;
    goes_alone(s)?;
    if s.serves(member) && s.group.desired_primaries() < 2 {
        others_are_updated(s, member)?;
        if let Some(other) = s.members.iter().find(|other| is_being_replaced(s, other)) {
            let message = format!("a new member comes in place of {} before the primary's turn", other.name);
            return Err(broken_by(Rule::PrimaryLast, &member.name, message));
        }
    }
    Ok(())
}

/// No failover is about to begin, and the template has not failed on the first member that got it.
fn all_may_be_called(s: &Snapshot) -> Held {
    as_many_serve(s)?;
    canary_allows(s)?;
    goes_alone(s)
}

/// At least as many primaries serve as desired, and nobody else may be primary: then no failover is about to begin.
pub(super) fn as_many_serve(s: &Snapshot) -> Held {
    let (serving, desired) = (s.serving().len(), s.group.desired_primaries());
    if serving < desired {
        return Err(broken(Rule::NobodyServes, format!("{serving} of {desired} desired primaries serve")));
    }
    nobody_else_may_lead(s)
}

/// Whoever may be primary serves.
pub(super) fn nobody_else_may_lead(s: &Snapshot) -> Held {
    let serves = |name: &MemberName| s.member(name).is_some_and(|member| s.serves(member));
    match s.may_be_primary().into_iter().find(|(name, _)| !serves(name)) {
        Some((name, why)) => Err(broken_by(Rule::MayBePrimary, &name, format!("{name} may be primary too: {why}"))),
        None => Ok(()),
    }
}

/// Whether the first member that gets the template is watched, and has not passed yet.
pub(super) fn is_watched_first(s: &Snapshot) -> bool {
    let update = &s.group.update;
    let has_passed = s.record.canary_of(update).is_some_and(|canary| canary.verdict == Some(Verdict::Passed));
    update.canary > 0 && !s.record.is_rolled_back(update) && !has_passed
}

/// The first member that gets a template is watched, so it goes alone (E32): nobody else is called before it has passed.
fn goes_alone(s: &Snapshot) -> Held {
    match s.members.iter().find(|other| is_watched_first(s) && is_being_replaced(s, other)) {
        Some(other) => {
            let message = format!("the member that comes in place of {} is watched first", other.name);
            Err(broken_by(Rule::NotAtRest, &other.name, message))
        }
        None => Ok(()),
    }
}

/// A member in whose place a new one comes may leave: as many others as desired are in their roles, also if it is in none itself, and the present template is known to work if the first member that got it is
/// watched (E32, E38).
///
/// # Errors
/// The first rule that does not hold.
pub fn leaves_its_place(s: &Snapshot, member: &Member) -> Held {
    if s.group.is_stopped() {
        return Err(broken_by(
            Rule::StayersFirst,
            &member.name,
            "the group is stopped, so no other member can take its place",
        ));
    }
    let update = &s.group.update;
    // Otherwise it goes for a zone, or what called for a new one is over and it cannot stay, because it does not work.
    let is_of_template = || is_replaced(s, member) || waits_for_the_others(s, member);
    let is_of_another = || zones::is_misplaced(s, member) || is_replaced_as_failing(s, member) && !works(s, member);
    let for_template = update.mode != Mode::ByHand && is_of_template() && !is_of_another();
    match for_template {
        true => update_group(s)?,
        false => zones::administrator_lets(s)?,
    }
    if !for_template && !works(s, member) {
        return its_place_is_taken(s, member);
    }
    // When nobody else waits for the template, nobody is watched with it any more.
    let is_watched = update.mode == Mode::ByOperator && update.canary > 0;
    let is_tried = is_watched && s.members.iter().any(|m| awaits_update(s, m));
    if is_tried && s.record.fallback(update).is_none() {
        let why = match s.record.canary_of(update).map(|canary| canary.verdict.as_ref()) {
            Some(Some(Verdict::Passed)) => None,
            Some(Some(Verdict::Failed(_))) => Some("the new template failed on the first member that got it"),
            Some(None) => Some("the first member with the new template is watched"),
            // One that does not work would wait for a template that nobody gets before it has left, and so would one in whose place nobody comes any more (E5).
            None => {
                Some("no member has the new template yet").filter(|_| works(s, member) && comes_in_its_place(s, member))
            }
        };
        if let Some(why) = why {
            return Err(broken_by(Rule::StayersFirst, &member.name, format!("{} stays for now: {why}", member.name)));
        }
    }
    // Those of the former version leave together, whether they work or not.
    if for_template && is_side_by_side(s) {
        return may_cut_over(s);
    }
    its_place_is_taken(s, member)
}

/// Whether a new member comes in the place of this one, or is there, and gets the present template: it is one of those that stay. One that leads gets it last, after those that wait for this one to leave.
fn comes_in_its_place(s: &Snapshot, member: &Member) -> bool {
    let first = s.record.seats.as_ref().and_then(|seats| seats.replaced.get(&member.ordinal));
    let is_last = |other: &Member| s.serves(other) && awaits_update(s, other) && others_are_updated(s, other).is_err();
    let comes = |first: u32, other: &Member| other.ordinal >= first && !s.leaves(other) && !is_last(other);
    first.is_some_and(|first| s.members.iter().any(|other| comes(*first, other)))
}

/// As many members as desired are in their roles without that one. One that works goes when nobody else is on the way out any more. For one that is in none itself those do not count that wait for a new member, too, and are in no role: it has
/// nothing that they could wait for.
fn its_place_is_taken(s: &Snapshot, member: &Member) -> Held {
    if let Some(other) = s.members.iter().find(|other| works(s, member) && s.leaves(other)) {
        return Err(broken_by(Rule::StayersFirst, &member.name, format!("{} leaves first", other.name)));
    }
    let others = || s.members.iter().filter(|other| other.name != member.name && !s.leaves(other));
    let there = others().filter(|other| works(s, other)).count();
    // Where members agree, nobody may be added before one that does not work is removed.
    if !works(s, member) && holds_up_others(s, member) {
        return Ok(());
    }
    let is_called = |other: &Member| is_replaced(s, other) || is_being_replaced(s, other);
    let wait_too = |other: &&Member| !works(s, other) && (is_called(other) || zones::is_misplaced(s, other));
    let excused = if works(s, member) { 0 } else { others().filter(wait_too).count() };
    match u32::try_from(there.saturating_add(excused)).is_ok_and(|enough| enough >= s.group.replicas) {
        true => Ok(()),
        false => {
            let message =
                format!("{there} of {} other members are in their roles; it leaves when all are", s.group.replicas);
            Err(broken_by(Rule::StayersFirst, &member.name, message))
        }
    }
}

/// Whether a member in whose place a new one comes stays after all: what called for that is over, and it is in its role.
#[must_use]
pub fn may_stay(s: &Snapshot, member: &Member) -> bool {
    let is_over = |pod: &Pod| {
        let by_role = strategy(s) == Strategy::ReplacePrimaries;
        s.group.update.mode == Mode::ByHand || !pod.older_template || !by_role && !calls_for_new(s, pod)
    };
    let is_well = is_in_its_place(s, member).is_ok() && member.pod.as_ref().is_some_and(is_over);
    let is_told = s.group.zones.is_empty() || s.roster().knows_zones();
    is_well && is_told && !zones::is_misplaced(s, member)
}
