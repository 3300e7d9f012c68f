//! Who may become a further primary or a secondary, be stopped or be treated, while primaries serve.
use super::claims::explained;
use super::{Held, Rule, Violation, broken, broken_by, free, rested, role_is};
use crate::contract::Role;
use crate::over;
use crate::snapshot::{Member, Snapshot};

/// A primary serves.
pub(super) fn serving(s: &Snapshot) -> Held {
    match s.serving().is_empty() {
        true => Err(broken(Rule::NobodyServes, "no primary serves")),
        false => Ok(()),
    }
}

/// A primary serves and fewer may be primary than wanted (promise 1).
///
/// # Errors
/// [`Rule::NobodyServes`], [`Rule::PrimaryLimit`].
pub fn join_group(s: &Snapshot) -> Held {
    serving(s)?;
    let maybe = s.may_be_primary();
    let wanted = s.group.wanted_primaries();
    if maybe.len() < wanted {
        return Ok(());
    }
    let others = maybe.iter().filter(|(name, _)| !s.member(name).is_some_and(|m| s.serves(m)));
    let others: Vec<_> = others.map(|(name, why)| format!("{name} may be: {why}")).collect();
    let message = format!("{} of {wanted} wanted primaries serve or may serve ({})", maybe.len(), others.join("; "));
    Err(Violation { until: over::proven_at(s), ..broken(Rule::PrimaryLimit, message) })
}

/// What has to hold for a further primary: data that fell behind is fine, it synchronises (A23).
///
/// # Errors
/// The first rule that does not hold.
pub fn join_member(s: &Snapshot, member: &Member) -> Held {
    free(s, member)?;
    stays(s, member)?;
    rested(s, member)?;
    explained(s, member)?;
    role_is(s, member, &[Role::Stopped, Role::Secondary])?;
    match s.may_be_primary().get(&member.name) {
        Some(why) => Err(broken_by(Rule::MayBePrimary, &member.name, format!("it may be primary already: {why}"))),
        None => Ok(()),
    }
}

/// As many primaries serve as wanted, and members are left over for something else (A15).
///
/// # Errors
/// [`Rule::NoCommand`], [`Rule::NobodyServes`], [`Rule::NotPlaceable`].
pub fn place_group(s: &Snapshot) -> Held {
    if s.group.commands.secondary.is_none() {
        return Err(broken(Rule::NoCommand, "the group has no secondary command; surplus members stay idle"));
    }
    serving(s)?;
    match s.serving().len() == s.group.wanted_primaries() && s.group.replicas > s.group.primaries {
        true => Ok(()),
        false => Err(broken(Rule::NotPlaceable, "secondaries wait until exactly the wanted primaries serve")),
    }
}

/// What has to hold for a new secondary (A18).
///
/// # Errors
/// The first rule that does not hold.
pub fn place_member(s: &Snapshot, member: &Member) -> Held {
    free(s, member)?;
    stays(s, member)?;
    rested(s, member)?;
    explained(s, member)?;
    role_is(s, member, &[Role::Stopped])
}

/// Nothing is started on a member that is to leave: it only has to be stopped again (S25).
fn stays(s: &Snapshot, member: &Member) -> Held {
    match s.group.is_surplus(member) {
        true => Err(broken_by(Rule::StayersFirst, &member.name, "it is beyond spec.replicas and leaves")),
        false => Ok(()),
    }
}

/// A secondary of an older term is pointed at who serves now.
///
/// # Errors
/// The first rule that does not hold.
pub fn follow_member(s: &Snapshot, member: &Member) -> Held {
    if s.group.commands.follow.is_none() && s.group.commands.secondary.is_none() {
        return Err(broken(Rule::NoCommand, "the group has neither a follow nor a secondary command"));
    }
    free(s, member)?;
    rested(s, member)?;
    explained(s, member)?;
    role_is(s, member, &[Role::Secondary])?;
    match s.confirmed(member, Role::Secondary) {
        true => Err(broken_by(Rule::WrongRole, &member.name, "it follows already")),
        false => Ok(()),
    }
}

/// More primaries serve than wanted, or this one is of an older term (A13, docs/requirements.md, reading 18).
///
/// # Errors
/// The first rule that does not hold.
pub fn demote_member(s: &Snapshot, member: &Member) -> Held {
    free(s, member)?;
    role_is(s, member, &[Role::Primary])?;
    // A stop that could not even be started is not tried as fast as rounds follow each other.
    rested(s, member)?;
    let serving = s.serving();
    let stale = !s.serves(member) && !serving.is_empty();
    if !stale && !s.group.is_surplus(member) && serving.iter().any(|m| s.group.is_surplus(m)) {
        let message = "members beyond spec.replicas are stopped first";
        return Err(broken_by(Rule::NotSurplus, &member.name, message));
    }
    match stale || serving.len() > s.group.wanted_primaries() {
        true => Ok(()),
        false => Err(broken_by(Rule::NotSurplus, &member.name, "not more primaries serve than are wanted")),
    }
}

/// Only failed members are treated, and not without end (A25, A26).
///
/// # Errors
/// The first rule that does not hold.
pub fn failed_member(s: &Snapshot, member: &Member) -> Held {
    free(s, member)?;
    role_is(s, member, &[Role::Failed])?;
    let memory = s.record.member(&member.name);
    match memory.treat_at {
        Some(at) if at > s.now => {
            let message = format!("it was treated {} times; next in {} s", memory.treated, at.saturating_sub(s.now));
            Err(Violation { until: Some(at), ..broken_by(Rule::BackOff, &member.name, message) })
        }
        _ => Ok(()),
    }
}
