//! Which healthy members may be stopped: the primary of a switchover, and members beyond `replicas` (S25, S26).
use super::claims::record_is_current;
use super::membership::{is_let_go, quorum_without};
use super::volumes::has_to_be_wiped;
use super::{Held, Rule, Violation, broken, broken_by, can_take_command, retry_allowed, role_is, zones};
use crate::contract::{MemberName, Phase, Position, Role, Transition};
use crate::over::{self, role_word};
use crate::record::Event;
use crate::snapshot::{Member, Snapshot};

/// Whether the member can take over from the primary: it is a secondary of the current term, no command is open on it, and it stays.
#[must_use]
pub fn is_successor(s: &Snapshot, member: &Member) -> bool {
    s.confirmed(member, Role::Secondary) && can_take_command(s, member).is_ok() && !s.leaves(member)
}

/// The primary is stopped only while a successor is ready to lead.
///
/// # Errors
/// The first rule that does not hold.
pub fn switchover_member(s: &Snapshot, member: &Member) -> Held {
    can_take_command(s, member)?;
    role_is(s, member, &[Role::Primary])?;
    retry_allowed(s, member)?;
    quorum_without(s, &member.name)?;
    // With an outdated record no member could take over afterwards.
    record_is_current(s)?;
    // The second look has the record from before the decision: what ended before asks for nobody any more.
    let open = s.record.switchover.as_ref().filter(|h| h.led.is_none());
    let requested = open.and_then(|h| h.target().cloned());
    let ready = s.members.iter().any(|m| is_successor(s, m) && requested.as_ref().is_none_or(|to| *to == m.name));
    match ready && s.serves(member) {
        true => Ok(()),
        false => Err(broken_by(Rule::NoSuccessor, &member.name, "no secondary is ready to take over from it")),
    }
}

/// The desired number of primaries serve among the members that stay. Several primaries agree on each write, so one that leaves has none that they lack.
///
/// # Errors
/// [`Rule::StayersFirst`].
pub fn stayers_serve(s: &Snapshot) -> Held {
    let serving = s.serving().iter().filter(|m| !s.leaves(m)).count();
    if s.group.is_stopped() || serving >= s.group.desired_primaries() {
        return Ok(());
    }
    let desired = s.group.desired_primaries();
    let message = format!(
        "{serving} of {desired} desired primaries serve among the members that stay; no member leaves before all do"
    );
    Err(broken(Rule::StayersFirst, message))
}

/// A member that works leaves while all that stay are in their roles, where any member can go: so the one that comes in its place joins first, and none that works goes for one that does not.
/// One that is in no role itself waits for nobody.
///
/// # Errors
/// [`Rule::StayersFirst`].
pub fn others_first(s: &Snapshot, member: &Member) -> Held {
    if !s.group.makes_pods || s.group.is_stopped() || !works(s, member) {
        return Ok(());
    }
    // Without that command the others are idle.
    let is_idle = |m: &Member| s.group.commands.secondary.is_none() && s.reachable(m) && s.role(m).0 == Role::Stopped;
    let there = s.members.iter().filter(|m| !s.leaves(m) && (works(s, m) || is_idle(m))).count();
    let desired = s.group.replicas;
    if u32::try_from(there).is_ok_and(|there| there >= desired) {
        return Ok(());
    }
    let message = format!("{there} of {desired} members that stay are in their roles; it leaves when all are");
    Err(broken_by(Rule::StayersFirst, &member.name, message))
}

/// Whether the member is in its role.
pub(super) fn works(s: &Snapshot, member: &Member) -> bool {
    s.confirmed(member, Role::Primary) || s.confirmed(member, Role::Secondary)
}

/// As many seconds as the user wants have passed since another member than this one left (B29). Where members agree it left when the application removed it, otherwise when it stopped.
///
/// # Errors
/// [`Rule::ChangedRecently`].
pub fn removals_rest(s: &Snapshot, member: &MemberName) -> Held {
    let rest = i64::from(s.group.removal_rest);
    let leaves = |name: &MemberName| name != member && s.member(name).is_none_or(|other| s.leaves(other));
    let end = if s.group.commands.membership.is_some() { Event::MemberRemoved } else { Event::Stopped };
    let left = |past: &&Transition| end.is(&past.what) && past.member.as_ref().is_some_and(leaves);
    let until = s.record.history.iter().filter(left).map(|past| past.at.saturating_add(rest)).max();
    match until.filter(|until| s.now < *until && !s.group.is_stopped()) {
        Some(until) => {
            let message = format!("another member left less than {rest} s ago");
            Err(Violation { until: Some(until), ..broken(Rule::ChangedRecently, message) })
        }
        None => Ok(()),
    }
}

/// A member beyond `replicas` is stopped. A primary is stopped here only on the way to 0 members, and last; otherwise it is switched over or
/// demoted first.
///
/// # Errors
/// The first rule that does not hold.
pub fn remove_member(s: &Snapshot, member: &Member) -> Held {
    can_take_command(s, member)?;
    // Without a majority the last members that agree are in no role any more.
    match s.group.commands.membership {
        Some(_) if s.group.is_stopped() => role_is(s, member, &[Role::Primary, Role::Secondary, Role::Starting])?,
        _ => role_is(s, member, &[Role::Primary, Role::Secondary])?,
    }
    retry_allowed(s, member)?;
    if !s.leaves(member) {
        return Err(broken_by(Rule::NotSurplus, &member.name, "it is not beyond spec.replicas"));
    }
    is_let_go(s, member)?;
    stayers_serve(s)?;
    others_first(s, member)?;
    // Where members agree the wait is before the removal.
    if s.group.commands.membership.is_none() {
        removals_rest(s, &member.name)?;
    }
    let follower = s.members.iter().find(|m| s.role(m).0 == Role::Secondary && m.name != member.name);
    if s.role(member).0 == Role::Primary && !s.group.is_stopped() {
        let message = "a primary beyond spec.replicas is switched over or demoted first";
        return Err(broken_by(Rule::StayersFirst, &member.name, message));
    }
    match (s.role(member).0, follower) {
        (Role::Primary, Some(other)) => {
            let message = format!("the primary leaves last, and {} still follows it", other.name);
            Err(broken_by(Rule::StayersFirst, &member.name, message))
        }
        _ => Ok(()),
    }
}

/// Whether the member was the latest primary, or one of them, until it stopped: it went on when the others had stopped. The term of the record may be
/// a later one, of a takeover that never began.
#[must_use]
pub fn led_to_the_end(s: &Snapshot, member: &Member) -> bool {
    let led = |m: &Member| s.record.member(&m.name).primary_term;
    let own = led(member);
    own.is_some() && own == s.members.iter().filter_map(led).max() && !s.record.member(&member.name).followed_since
}

/// Whether the member led to the end, or was started as one of several primaries and nobody knows whether it became one.
#[must_use]
pub fn may_have_led(s: &Snapshot, member: &Member) -> bool {
    led_to_the_end(s, member) || is_unconfirmed_primary(s, member)
}

/// Whether the member was started as a primary beside others, and nobody knows whether it became one. Never where members agree: they count themselves, and all come back.
#[must_use]
pub fn is_unconfirmed_primary(s: &Snapshot, member: &Member) -> bool {
    let known = s.record.member(&member.name);
    let is_begun = known.started.as_ref().is_some_and(|begun| !begun.target && begun.before != member.position);
    is_begun && s.group.commands.membership.is_none() && !over::is_follow_command(known.last_command.as_deref())
}

/// On the way to 0 members nobody is left who could have the last writes of the primary. So how far it came is known before its pod is deleted (S26): a
/// member that is asked to come back without it must not lead.
fn final_data_known(s: &Snapshot, member: &Member) -> Held {
    let why = match &member.position {
        Position::Known(_) | Position::Empty if s.position_is_current(member) => return Ok(()),
        Position::Unknown(why) => format!("cannot be read: {why}"),
        _ => "has not been read since it stopped".into(),
    };
    let led = if led_to_the_end(s, member) { "led to the end" } else { "may have led" };
    let message =
        format!("the data of {}, which {led}, {why}; without it no later seed could know what is missing", member.name);
    Err(broken_by(Rule::PositionUnknown, &member.name, message))
}

/// The `StatefulSet` may get smaller: the members that stay serve, and no member that leaves runs, may be primary or has an open command. This has
/// to hold before, because its controller deletes the pods with the highest ordinals whatever runs in them.
///
/// # Errors
/// [`Rule::NotSurplus`], [`Rule::StayersFirst`], [`Rule::MemberBusy`], [`Rule::NotAllStopped`], [`Rule::MayBePrimary`],
/// [`Rule::PositionUnknown`].
pub fn shrink_group(s: &Snapshot, replicas: u32) -> Held {
    let grows = !s.group.makes_pods && s.set.as_ref().is_none_or(|set| set.replicas < replicas);
    if replicas != s.group.replicas || grows {
        return Err(broken(Rule::NotSurplus, format!("the desired number of members is no longer {replicas}")));
    }
    stayers_serve(s)?;
    let maybe = s.may_be_primary();
    for member in s.members.iter().filter(|m| s.leaves(m)) {
        is_let_go(s, member)?;
        if s.group.active_passive {
            others_first(s, member)?;
        }
        if let Some(intent) = s.record.intent_of(&member.name) {
            let message = format!("its command {} is not settled", intent.command);
            return Err(broken_by(Rule::MemberBusy, &member.name, message));
        }
        // The members of an active/passive group run until their pods end.
        let has_to_stop = !s.group.active_passive && member.pod.is_some() && s.role(member).0 != Role::Stopped;
        if has_to_stop && !is_out(s, member) {
            let message = format!("{} is leaving and is {}", member.name, role_word(s.role(member).0));
            return Err(broken_by(Rule::NotAllStopped, &member.name, message));
        }
        if let Some(why) = maybe.get(&member.name) {
            let message = format!("{} is leaving and may be primary: {why}", member.name);
            return Err(broken_by(Rule::MayBePrimary, &member.name, message));
        }
        if s.group.is_stopped() && !s.group.active_passive && may_have_led(s, member) {
            final_data_known(s, member)?;
        }
        if has_to_be_wiped(s, member) {
            let message = format!("{} is leaving, and its data is to be removed first", member.name);
            return Err(broken_by(Rule::NotWiped, &member.name, message));
        }
    }
    Ok(())
}

/// Whether nothing of a member that leaves can run any more, so that it need not be stopped: its pod cannot start, for instance because its node or its volume is gone for good. This holds
/// nobody up while those that stay serve, or when its pod never got a node.
#[must_use]
pub fn is_out(s: &Snapshot, member: &Member) -> bool {
    s.leaves(member)
        && (!is_needed_to_leave(s) || s.group.makes_pods && zones::has_no_node(s, member))
        && !over::may_run(s, member)
        && s.record.intent_of(&member.name).is_none()
}

/// Whether a member that leaves is needed until it has left in order: its data may be the most recent. On the way to 0 members that is always so.
#[must_use]
pub fn is_needed_to_leave(s: &Snapshot) -> bool {
    s.group.is_stopped() || stayers_serve(s).is_err()
}

/// The pod of a member that left may be deleted, where this operator makes the pods: the group may get smaller by it, or got smaller before and only the pod is still there.
///
/// # Errors
/// Those of [`shrink_group`].
pub fn left_member(s: &Snapshot, member: &Member) -> Held {
    let name = &member.name;
    if !s.group.makes_pods || !s.leaves(member) {
        return Err(broken_by(Rule::NotSurplus, name, "it stays"));
    }
    if s.roster().has(member) {
        return shrink_group(s, s.group.replicas);
    }
    if let Some(intent) = s.record.intent_of(name) {
        return Err(broken_by(Rule::MemberBusy, name, format!("its command {} is not settled", intent.command)));
    }
    if let Some(why) = s.why_may_be_primary(name) {
        return Err(broken_by(Rule::MayBePrimary, name, format!("{name} left and may be primary: {why}")));
    }
    let (role, _) = s.role(member);
    match role == Role::Stopped || s.group.active_passive || !over::may_run(s, member) {
        true => Ok(()),
        false => Err(broken_by(Rule::NotAllStopped, name, format!("{name} left and is {}", role_word(role)))),
    }
}

/// The pod has ended for good and may be replaced.
///
/// # Errors
/// [`Rule::NotSurplus`].
pub fn ended_member(member: &Member) -> Held {
    match member.pod.as_ref().is_some_and(|pod| pod.phase == Phase::Ended) {
        true => Ok(()),
        false => Err(broken_by(Rule::NotSurplus, &member.name, "its pod has not ended")),
    }
}
