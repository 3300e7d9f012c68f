//! When one member of an application that agrees may go on alone: an administrator gave up the others, by name and in the very situation that there is (docs/rules.md, "Recovery"). No policy is
//! asked here, and none can break these rules.
use super::seed::all_stopped;
use super::{Held, Rule, Violation, broken, broken_by, can_take_command, is_formed, retry_allowed, role_is};
use crate::contract::{MemberName, Position, Role};
use crate::limits;
use crate::membership::{self, Heard, Said};
use crate::memory;
use crate::over;
use crate::record::{Recovery, Stage, Verb};
use crate::snapshot::{Member, RecoveryRequest, Snapshot};

/// What becomes of the request of an administrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked<'a> {
    /// There is none, or it was done.
    Nothing,
    /// It cannot be used, for this reason.
    Unfit(String),
    /// It names what there is.
    Fits(&'a RecoveryRequest),
}

/// Whether the members serve, so that there is nothing to recover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serves {
    /// No member serves.
    Nobody,
    /// Members do, and are in two clusters, or do not agree on who they are.
    Apart,
    /// That is not known yet: the lists of these members are being read.
    Unread(Vec<MemberName>),
    /// They do, for this reason.
    Somebody(String),
}

/// What becomes of the request, by what it names. Whether the members serve is not looked at: see [`serves`].
#[must_use]
pub fn asked(s: &Snapshot) -> Asked<'_> {
    if let Some(why) = &s.group.recovery_error {
        return Asked::Unfit(why.clone());
    }
    let Some(requested) = &s.group.requested_recovery else { return Asked::Nothing };
    match s.record.recovery.as_ref().filter(|known| known.request == requested.raw).map(|known| known.stage) {
        Some(Stage::Done) => Asked::Nothing,
        Some(Stage::Refused) => Asked::Unfit(
            "a majority served when the request to recover a member was looked at, so it is never done; remove the annotation tanist.dev/recover".into(),
        ),
        Some(Stage::Accepted) | None => match unfit(s, requested) {
            Some(why) => Asked::Unfit(why),
            None => Asked::Fits(requested),
        },
    }
}

/// Why the request is not about what there is.
fn unfit(s: &Snapshot, requested: &RecoveryRequest) -> Option<String> {
    let name = &requested.member;
    if s.group.commands.membership.as_ref().is_none_or(|commands| commands.recover.is_none()) {
        return Some("the group has no command recover".into());
    }
    if requested.group != s.group.uid {
        return Some(format!("the request to recover {name} was made for an earlier group of this name"));
    }
    if s.group.is_stopped() {
        return Some(format!("no member is desired, so {name} is not recovered"));
    }
    let Some(member) = s.member(name) else {
        return Some(format!("the request names {name}, which is not a member of this group"));
    };
    let known = s.record.membership.as_ref().map_or(("", 0), |list| (list.cluster.as_str(), list.revision));
    if known != (requested.cluster.as_str(), requested.list) {
        let ((cluster, list), before) = (known, requested.list);
        let of = if cluster.is_empty() { String::new() } else { format!(" of the cluster {cluster}") };
        return Some(format!(
            "the request to recover {name} was made for list {before} of the members, and the group is at list {list}{of}; if it is meant for now, ask again by tanist recover"
        ));
    }
    let volumes = memory::claim_uids(&member.claims);
    if volumes.as_ref() != Some(&requested.claim) {
        return Some(format!("the request names another claim than {name} has; ask again by tanist recover"));
    }
    let started = &s.record.member(name).claim_uid;
    if !requested.restored && *started != volumes {
        return Some(format!(
            "{name} does not have the claim on which it was started; if it was restored, name its claim: tanist recover --claim"
        ));
    }
    (!requested.restored && !is_formed(s)).then(|| "the application's cluster was never formed".into())
}

/// The request that was accepted and still fits.
fn accepted(s: &Snapshot) -> Option<&RecoveryRequest> {
    let known = s.record.recovery.as_ref().filter(|known| known.stage == Stage::Accepted)?;
    match asked(s) {
        Asked::Fits(requested) if requested.raw == known.request => Some(requested),
        _ => None,
    }
}

/// Whether a member is being recovered: an administrator asked for it and it was accepted, or its command began and may have had an effect. Then nobody else is started: members that go on with the old
/// list, and one that goes on alone, would be two clusters. At 0 replicas nobody starts anyway, and all stop.
#[must_use]
pub fn is_recovering(s: &Snapshot) -> bool {
    !s.group.is_stopped() && is_under_way(s)
}

fn is_under_way(s: &Snapshot) -> bool {
    s.record.recovery.as_ref().is_some_and(Recovery::is_begun) || accepted(s).is_some()
}

/// Whether a command may start while a member is being recovered.
pub(super) fn lets(s: &Snapshot, verb: Verb) -> Held {
    match verb {
        Verb::Halt | Verb::Recover | Verb::Treat => Ok(()),
        _ if is_recovering(s) => {
            Err(broken(Rule::Recovering, "a member is being recovered, and nobody else is started or changed"))
        }
        _ => Ok(()),
    }
}

/// Whether the members serve. Where they are in two clusters, or list different members and no majority says one list, an administrator decides although they run (D27).
#[must_use]
pub fn serves(s: &Snapshot) -> Serves {
    // Lists that were read at different times may differ although everything is well.
    let is_old = |heard: &Heard| heard.at.saturating_add(limits::LIST_CHANGE_SECONDS) < s.now;
    let unread = s.members.iter().filter(|m| membership::is_asked(s, m) && s.lists.get(&m.name).is_none_or(is_old));
    let unread: Vec<_> = unread.map(|m| m.name.clone()).collect();
    if !unread.is_empty() {
        return Serves::Unread(unread);
    }
    let serving: Vec<_> = who_serves(s).into_iter().map(ToString::to_string).collect();
    match membership::said(s) {
        _ if serving.is_empty() => Serves::Nobody,
        Said::Split(_) => Serves::Apart,
        Said::Differing(_) if !membership::is_said_by_majority(s) => Serves::Apart,
        _ => Serves::Somebody(serving.join(", ")),
    }
}

/// An administrator asks for it, and it was accepted. Members that serve meanwhile are left alone as long as nothing was done, except where they were apart.
fn is_asked_for(s: &Snapshot) -> Result<&RecoveryRequest, Violation> {
    let Some(requested) = accepted(s) else {
        return Err(broken(Rule::NotAsked, "no administrator asks for the recovery of a member"));
    };
    match who_serves(s).first() {
        Some(name) if may_be_refused(s) => {
            Err(broken(Rule::NotAsked, format!("{name} serves, so nobody is recovered")))
        }
        _ => Ok(requested),
    }
}

/// Whether an accepted request is still refused for good when members serve: its command never began, and they were not apart.
#[must_use]
pub fn may_be_refused(s: &Snapshot) -> bool {
    s.record.recovery.as_ref().is_none_or(|known| known.tries == 0 && !known.apart)
}

/// The members that serve by what they show themselves.
fn who_serves(s: &Snapshot) -> Vec<&MemberName> {
    let serves = |m: &&Member| over::may_run(s, m) && matches!(s.role(m).0, Role::Primary | Role::Secondary);
    s.members.iter().filter(serves).map(|m| &m.name).collect()
}

/// A member that runs is stopped so that another one, or itself, can be recovered. One that failed is treated instead.
///
/// # Errors
/// The first rule that does not hold.
pub fn halt_member(s: &Snapshot, member: &Member) -> Held {
    is_asked_for(s)?;
    can_take_command(s, member)?;
    role_is(s, member, &[Role::Primary, Role::Secondary, Role::Starting, Role::Unknown])?;
    retry_allowed(s, member)
}

/// Before a member is recovered every member is proven to be stopped, as before a seed: others that run may be a majority that goes on, and no request lifts this. A member without a pod that runs is
/// no obstacle once that is proven.
///
/// # Errors
/// The first rule that does not hold.
pub fn recover_group(s: &Snapshot) -> Held {
    is_asked_for(s)?;
    all_stopped(s)?;
    // One that only followed has a vote, too: in an earlier pod it may still be part of a majority.
    let ran = s.record.members.iter().filter_map(|(name, known)| Some((name, known.ran.as_ref()?)));
    for (name, last) in ran {
        if let Err(not) = over::prove_ended(s, last) {
            return Err(Violation { until: not.until, ..broken_by(Rule::MayBePrimary, name, not.why) });
        }
    }
    Ok(())
}

/// The member that an administrator named may be started alone: on the volume that was named, which has data.
///
/// # Errors
/// The first rule that does not hold.
pub fn recover_member(s: &Snapshot, member: &Member) -> Held {
    recover_group(s)?;
    let (name, requested) = (&member.name, is_asked_for(s)?);
    if *name != requested.member {
        return Err(broken_by(Rule::NotAsked, name, format!("an administrator named {}", requested.member)));
    }
    can_take_command(s, member)?;
    role_is(s, member, &[Role::Stopped])?;
    super::programs_fit(s, member)?;
    retry_allowed(s, member)?;
    match &member.position {
        Position::Known(_) if s.position_is_current(member) => Ok(()),
        Position::Known(_) | Position::NotAsked => {
            Err(broken_by(Rule::PositionUnknown, name, "its data has not been read since it stopped"))
        }
        Position::Empty => {
            Err(broken_by(Rule::EmptyMember, name, "its volume is empty: there is nothing to go on with"))
        }
        Position::Unknown(why) => {
            Err(broken_by(Rule::PositionUnknown, name, format!("its data cannot be read: {why}")))
        }
    }
}
