//! Which members may become a further primary or a secondary, be demoted or be treated while primaries serve.
use super::claims::claims_not_ahead;
use super::elect::was_removed;
use super::leave::{others_first, removals_rest};
use super::membership::{counts, is_formed, is_let_go, is_listed, quorum_without};
use super::{Held, Rule, Violation, broken, broken_by, can_take_command, programs_fit, retry_allowed, role_is};
use crate::contract::{MemberName, Phase, Role};
use crate::over;
use crate::snapshot::{Member, Snapshot};
use std::collections::BTreeMap;

/// At least one primary serves that others may follow.
pub(super) fn serving(s: &Snapshot) -> Held {
    match s.leading().is_empty() {
        true => Err(broken(Rule::NobodyServes, "no primary serves")),
        false => Ok(()),
    }
}

/// A primary serves, and fewer members may be primary than desired (promise 1).
///
/// # Errors
/// [`Rule::NobodyServes`], [`Rule::PrimaryLimit`].
pub fn join_group(s: &Snapshot) -> Held {
    serving(s)?;
    let mut maybe = s.may_be_primary();
    maybe.retain(|name, _| !s.member(name).is_some_and(|m| s.serves(m) && s.is_extra(m)));
    // One that a majority removed has no say any more, whatever runs on a node that does not report.
    maybe.retain(|name, _| !was_removed(s, name));
    let desired = s.group.desired_primaries();
    if maybe.len() < desired {
        return Ok(());
    }
    let others = maybe.iter().filter(|(name, _)| !s.member(name).is_some_and(|m| s.serves(m)));
    let others: Vec<_> = others.map(|(name, why)| format!("{name} may be primary: {why}")).collect();
    let message =
        format!("{} of {desired} desired primaries serve or may be running ({})", maybe.len(), others.join("; "));
    Err(Violation { until: over::proven_at(s), ..broken(Rule::PrimaryLimit, message) })
}

/// What has to hold for a further primary. Older data is accepted, because the new primary synchronises (A23). `maybe` is
/// [`Snapshot::may_be_primary`], which is the same for every member.
///
/// # Errors
/// The first rule that does not hold.
pub fn join_member(s: &Snapshot, maybe: &BTreeMap<MemberName, String>, member: &Member) -> Held {
    can_take_command(s, member)?;
    is_not_leaving(s, member)?;
    retry_allowed(s, member)?;
    claims_not_ahead(s, member)?;
    programs_fit(s, member)?;
    match is_formed(s) {
        // Who follows there is not made primary: the members elect.
        true => role_is(s, member, &[Role::Stopped])?,
        false => role_is(s, member, &[Role::Stopped, Role::Secondary])?,
    }
    is_listed(s, member)?;
    match maybe.get(&member.name) {
        Some(why) => Err(broken_by(Rule::MayBePrimary, &member.name, format!("it may be primary already: {why}"))),
        None => Ok(()),
    }
}

/// As many primaries serve as desired, and other members are left (A15). Beside a primary that is leaving, a member that stays is one of them even if it is to
/// be the only member: somebody has to take the lead over (S25).
///
/// # Errors
/// [`Rule::NoCommand`], [`Rule::NobodyServes`], [`Rule::NotPlaceable`].
pub fn place_group(s: &Snapshot) -> Held {
    if s.group.commands.secondary.is_none() {
        return Err(broken(Rule::NoCommand, "the group has no secondary command; surplus members stay idle"));
    }
    serving(s)?;
    let serving = s.serving();
    let are_left = s.roster().desired() > s.group.primaries || serving.iter().any(|m| s.leaves(m));
    // More than one may say that it leads where the members elect.
    let more = is_formed(s) && serving.len() > s.group.desired_primaries();
    let enough = serving.len() == s.group.desired_primaries() || more || lacks_only_silent(s, &serving);
    match enough && are_left {
        true => Ok(()),
        false => Err(broken(
            Rule::NotPlaceable,
            "secondaries are started once exactly the desired number of primaries serve",
        )),
    }
}

/// Whether at least as many primaries serve as desired when those count that may be primary on nodes that do not report, in the member's pod or in an earlier one. Nothing
/// proves these over and no other member may become primary in their place until their nodes report, which may be never: secondaries do not wait for that (S20).
fn lacks_only_silent(s: &Snapshot, serving: &[&Member]) -> bool {
    let is_silent = |name: &MemberName| {
        let pod = s.member(name).and_then(|m| m.pod.as_ref());
        pod.is_some_and(|pod| pod.phase == Phase::Unreachable) || over::is_gone_unproven(s, name)
    };
    let maybe = s.may_be_primary();
    let silent = maybe.keys().filter(|name| is_silent(name) && serving.iter().all(|m| m.name != **name));
    let desired = s.group.desired_primaries();
    serving.len() < desired && serving.len().saturating_add(silent.count()) >= desired
}

/// What has to hold for a new secondary (A18).
///
/// # Errors
/// The first rule that does not hold.
pub fn place_member(s: &Snapshot, member: &Member) -> Held {
    can_take_command(s, member)?;
    is_not_leaving(s, member)?;
    retry_allowed(s, member)?;
    claims_not_ahead(s, member)?;
    role_is(s, member, &[Role::Stopped])?;
    programs_fit(s, member)?;
    is_listed(s, member)
}

/// Nothing is started on a member that is leaving: it would have to be stopped again (S25).
fn is_not_leaving(s: &Snapshot, member: &Member) -> Held {
    match s.leaves(member) {
        true => Err(broken_by(Rule::StayersFirst, &member.name, "it is beyond spec.replicas and is leaving")),
        false => Ok(()),
    }
}

/// A secondary of an older term, or one that may follow a primary that stopped, may be pointed at the serving primary.
///
/// # Errors
/// The first rule that does not hold.
pub fn follow_member(s: &Snapshot, member: &Member) -> Held {
    if s.group.commands.follow.is_none() && s.group.commands.secondary.is_none() {
        return Err(broken(Rule::NoCommand, "the group has neither a follow nor a secondary command"));
    }
    can_take_command(s, member)?;
    retry_allowed(s, member)?;
    claims_not_ahead(s, member)?;
    role_is(s, member, &[Role::Secondary])?;
    if is_formed(s) && s.record.member(&member.name).started.is_some() {
        return Err(broken_by(
            Rule::ListUnknown,
            &member.name,
            "its start counts when it says the list of the members",
        ));
    }
    match s.confirmed(member, Role::Secondary) {
        true => Err(broken_by(Rule::WrongRole, &member.name, "it follows already")),
        false => Ok(()),
    }
}

/// More primaries serve than desired, this one is of an older term (A13; docs/requirements.md, reading 18), or it makes room ([`makes_room`]). `serving` is [`Snapshot::serving`],
/// which is the same for every member.
///
/// Of surplus primaries those that clients do not reach are stopped first: what clients were told is stored is in the others, for instance when a user started a
/// second primary by hand (S23).
///
/// # Errors
/// The first rule that does not hold.
pub fn demote_member(s: &Snapshot, serving: &[&Member], member: &Member) -> Held {
    can_take_command(s, member)?;
    role_is(s, member, &[Role::Primary])?;
    // A stop that could not be started waits for its back-off; otherwise every round would try it again.
    retry_allowed(s, member)?;
    let is_older = || !is_formed(s) || s.record.member(&member.name).term < Some(s.record.term);
    let stale = !s.serves(member) && !serving.is_empty() && is_older();
    if s.leaves(member) {
        is_let_go(s, member)?;
        // One that clients do not reach, or that is of an older term, goes at once: it is primary beside those that serve.
        if s.group.commands.membership.is_none() && !stale && !s.is_surplus(member) {
            removals_rest(s, &member.name)?;
        }
    }
    quorum_without(s, &member.name)?;
    if !stale && !s.leaves(member) && is_formed(s) {
        let message = "the members elect themselves who leads, and none is stopped for that";
        return Err(broken_by(Rule::NotSurplus, &member.name, message));
    }
    // Where members agree one in whose place a new one comes serves on beside the desired ones.
    let counts = |m: &&&Member| s.leaves(m) || !s.is_extra(m);
    let surplus = serving.iter().filter(counts).count() > s.group.desired_primaries();
    if surplus && !stale && serving.iter().any(|m| s.is_surplus(m)) {
        if !s.is_surplus(member) {
            let message = "clients reach it, or did first; a primary that they do not reach is stopped first";
            return Err(broken_by(Rule::NotSurplus, &member.name, message));
        }
    } else if !stale && !s.leaves(member) && serving.iter().any(|m| s.leaves(m)) {
        let message = "members beyond spec.replicas are stopped first";
        return Err(broken_by(Rule::NotSurplus, &member.name, message));
    }
    match stale || surplus || makes_room(s, serving, member) {
        true => Ok(()),
        false => Err(broken_by(Rule::NotSurplus, &member.name, "no more primaries serve than desired")),
    }
}

/// Whether a primary that leaves is stopped so that a member that stays can become one in its place (S25). One after the other: only while as many serve as
/// desired, and only beside another one that clients reach. With a single desired primary the lead moves by a switchover.
#[must_use]
pub fn makes_room(s: &Snapshot, serving: &[&Member], member: &Member) -> bool {
    let other = serving.iter().any(|m| m.name != member.name && m.leads_clients());
    if others_first(s, member).is_err() {
        return false;
    }
    if !s.leaves(member) || !other || serving.len() != s.group.desired_primaries() || counts(s, &member.name) {
        return false;
    }
    let maybe = s.may_be_primary();
    if maybe.len() > s.group.desired_primaries() {
        return false;
    }
    s.members.iter().any(|m| join_member(s, &maybe, m).is_ok())
}

/// Only failed members are treated, with a back-off between treatments (A25, A26).
///
/// # Errors
/// The first rule that does not hold.
pub fn failed_member(s: &Snapshot, member: &Member) -> Held {
    can_take_command(s, member)?;
    role_is(s, member, &[Role::Failed])?;
    let memory = s.record.member(&member.name);
    match memory.treat_at {
        Some(at) if at > s.now => {
            let message = format!("treatments: {}; next one in {} s", memory.treated, at.saturating_sub(s.now));
            Err(Violation { until: Some(at), ..broken_by(Rule::BackOff, &member.name, message) })
        }
        _ => Ok(()),
    }
}
