//! When the data is converted to a later version of the application (docs/rules.md, "Major versions"): `spec.version` is later than that of the data, and the group has the command `upgrade`.
//!
//! Programs of the later version start on no data that was not converted, and nothing at all starts on data of a later version than `spec.version`.
use super::leave::others_first;
use super::rebalance::{members_are_there, primaries_serve};
use super::seed::{SeedOrder, never_came};
use super::update::{configuration_is_there, has_never_run, is_in_its_place};
use super::{Held, Rule, Violation, broken, broken_by, can_take_command, retry_allowed, role_is, stayers_serve};
use crate::contract::{Phase, Position, Role};
use crate::over;
use crate::record::Switchover;
use crate::snapshot::{Member, Mode, Snapshot, UpgradeOn};
use crate::version;
use std::cmp::Ordering;

/// A conversion of the data that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upgrade<'s> {
    /// The version of the data.
    pub from: &'s str,
    /// The version that the user wants, which is later.
    pub to: &'s str,
    /// Where it is converted.
    pub on: UpgradeOn,
}

/// The conversion that is due. `None`: the data is of the version that the user wants, or the application converts it itself.
#[must_use]
pub fn due_upgrade(s: &Snapshot) -> Option<Upgrade<'_>> {
    let (from, to) = (s.record.version.as_deref()?, s.group.version.as_deref()?);
    let is_later = version::compare(to, from) == Some(Ordering::Greater);
    let upgrade = Upgrade { from, to, on: s.group.update.upgrade_on };
    // Members that agree are never all stopped.
    let is_possible = upgrade.on == UpgradeOn::Primary || s.group.commands.membership.is_none();
    (is_later && is_possible && s.group.commands.upgrade.is_some() && !s.group.active_passive).then_some(upgrade)
}

/// The version of the data, if that is later than the one that the user wants.
#[must_use]
pub fn has_later_data(s: &Snapshot) -> Option<&str> {
    let (data, wanted) = (s.record.version.as_deref()?, s.group.version.as_deref()?);
    (version::compare(data, wanted) == Some(Ordering::Greater)).then_some(data)
}

/// Whether the pod of the stopped member is replaced by the rules of a conversion.
#[must_use]
pub(super) fn is_about_version(s: &Snapshot, member: &Member) -> bool {
    is_converting(s) || lacks_programs(s, member)
}

/// Whether all members stop now, so that one of them can convert the data. Not while an administrator holds up updates: the members go on with what they have.
#[must_use]
pub fn is_converting(s: &Snapshot) -> bool {
    let by_host = s.group.update.mode == Mode::ByOperator && !s.group.is_stopped();
    by_host && due_upgrade(s).is_some_and(|upgrade| upgrade.on == UpgradeOn::StoppedMember)
}

/// Who is to be started on its data has programs that fit to the data: where only converted data fits, those of its very version, and otherwise none of an earlier one. Who runs goes on.
///
/// # Errors
/// [`Rule::VersionTooLow`], [`Rule::NotConverted`].
pub fn programs_fit(s: &Snapshot, member: &Member) -> Held {
    let name = &member.name;
    if matches!(s.role(member).0, Role::Primary | Role::Secondary) {
        return Ok(());
    }
    if let Some(version) = has_later_data(s) {
        let message = format!("the data is of version {version}, later than spec.version");
        return Err(broken_by(Rule::VersionTooLow, name, message));
    }
    match unfit(s, member) {
        Some((programs, data)) => {
            let message = format!("its pod has the programs of version {programs}, and the data is of version {data}");
            Err(broken_by(Rule::NotConverted, name, message))
        }
        None => Ok(()),
    }
}

/// The version of the programs in the member's pod and that of the data, if these do not fit to each other. A pod that was made before any version was named has programs for the data of then.
fn unfit<'s>(s: &'s Snapshot, member: &'s Member) -> Option<(&'s str, &'s str)> {
    let (programs, data) = (member.pod.as_ref()?.programs.as_deref()?, s.record.version.as_deref()?);
    let order = version::compare(programs, data)?;
    let reads_former = s.group.update.upgrade_on == UpgradeOn::Primary;
    let fits = order == Ordering::Equal || reads_former && order == Ordering::Greater;
    (s.group.commands.upgrade.is_some() && !fits).then_some((programs, data))
}

/// Whether the member's pod has the programs of that version.
#[must_use]
pub fn has_programs_of(member: &Member, version: &str) -> bool {
    let programs = member.pod.as_ref().and_then(|pod| pod.programs.as_deref());
    programs.is_some_and(|programs| version::compare(programs, version) == Some(Ordering::Equal))
}

/// Whether the member's pod lacks the programs that convert the data, if that is due, or those for the data as it is.
fn lacks_programs(s: &Snapshot, member: &Member) -> bool {
    match due_upgrade(s).filter(|_| is_converting(s)) {
        // The template may have changed once more, because the programs of the one before do not convert it.
        Some(due) => !has_programs_of(member, due.to) || member.pod.as_ref().is_some_and(|pod| pod.older_template),
        None => {
            s.group.update.mode == Mode::ByOperator
                && due_upgrade(s).is_none()
                && has_later_data(s).is_none()
                && unfit(s, member).is_some()
        }
    }
}

/// A member that runs is stopped for the conversion: one after the other, and the next one when the pods of those before have the present template and run. So a template that cannot run costs one member. Primaries
/// go on until all others are stopped.
///
/// # Errors
/// The first rule that does not hold.
pub fn halt_for_upgrade(s: &Snapshot, member: &Member) -> Held {
    can_take_command(s, member)?;
    role_is(s, member, &[Role::Primary, Role::Secondary, Role::Starting, Role::Unknown])?;
    retry_allowed(s, member)?;
    has_volume(member)?;
    if let Some(intent) = s.record.intents.first() {
        return Err(broken_by(Rule::MemberBusy, &intent.member, format!("{} is not settled", intent.what())));
    }
    // The pod of one that leaves may not come back as long as others serve, and one that never came may have no place.
    let is_away = |m: &Member| s.leaves(m) && m.pod.is_none() || never_came(s, m);
    // Nobody serves any more, all can be reached, and the template can run: the way forward is the shortest one.
    let is_proven = |m: &Member| waits_stopped(s, m).is_ok();
    let are_there = s.members.iter().all(|m| s.reachable(m) || is_away(m));
    let nobody_leads = s.leading().is_empty() && s.may_be_primary().is_empty();
    if nobody_leads && are_there && s.members.iter().any(is_proven) {
        return Ok(());
    }
    // Fewer members are desired: those leave first, as they would without a conversion.
    if let Some(leaving) = s.members.iter().find(|m| leaves_first(s, m) && !is_away(m)) {
        return Err(broken_by(Rule::StayersFirst, &leaving.name, "it is leaving"));
    }
    let own = rank(s, member);
    let mut before = s.members.iter().filter(|m| rank(s, m) < own && !is_away(m));
    before.try_for_each(|other| waits_stopped(s, other))
}

/// Whether the member leaves, and those that stay serve without it. One that works and waits for others that come (`others_first`) would wait for the conversion, which these wait for (simulator, seed 96004395);
/// and those that leave with it wait for it, because all are stopped before one is gone (seed 187575286).
fn leaves_first(s: &Snapshot, member: &Member) -> bool {
    let nobody_waits = || s.members.iter().filter(|m| s.leaves(m)).all(|m| others_first(s, m).is_ok());
    s.leaves(member) && stayers_serve(s).is_ok() && nobody_waits()
}

/// In which order members stop. Those of the lowest rank are stopped already, or nothing of them can be said.
#[must_use]
pub fn rank(s: &Snapshot, member: &Member) -> u8 {
    // One that leads and cannot be asked for a moment goes on (S19).
    let led = || s.record.last_primaries.iter().any(|last| last.member == member.name);
    match s.role(member).0 {
        _ if !s.reachable(member) => 0,
        Role::Stopped => 0,
        Role::Unknown | Role::Starting if led() => 3,
        Role::Unknown | Role::Starting | Role::Failed => 1,
        Role::Secondary => 2,
        Role::Primary => 3,
    }
}

/// The member is stopped, in a pod of the present template.
fn waits_stopped(s: &Snapshot, member: &Member) -> Held {
    can_take_command(s, member)?;
    role_is(s, member, &[Role::Stopped])?;
    match lacks_programs(s, member) {
        true => Err(broken_by(Rule::NotAtRest, &member.name, OLDER)),
        false => Ok(()),
    }
}

/// What is said of a pod that lacks the programs.
const OLDER: &str = "its pod has an older template than the group";

/// The data outlives the pod.
fn has_volume(member: &Member) -> Held {
    match member.claims.is_empty() {
        true => {
            let message = "its data is in its pod, which has to be deleted before the data can be converted: add volumeClaimTemplates in a new group, or set update.upgradeOn to Primary";
            Err(broken_by(Rule::OnlyCopy, &member.name, message))
        }
        false => Ok(()),
    }
}

/// Whether the pod of a stopped member goes, because its programs cannot convert the data, or do not fit to it. Where nobody serves this is done once nobody may be primary, and for a conversion once all are stopped, whatever `update.strategy` says: the data stays with its member.
///
/// # Errors
/// The first rule that does not hold.
pub(super) fn replace_pod(s: &Snapshot, member: &Member) -> Held {
    if !lacks_programs(s, member) || member.pod.as_ref().is_none_or(|pod| !pod.outdated) {
        return Err(broken_by(Rule::NotAtRest, &member.name, "it has the present template"));
    }
    // One that leaves has nothing to convert while others serve.
    if leaves_first(s, member) {
        return Err(broken_by(Rule::StayersFirst, &member.name, "it is leaving"));
    }
    if s.set.as_ref().is_none_or(|set| set.unseen) {
        return Err(broken(Rule::NotAtRest, "the StatefulSet does not have the present template yet"));
    }
    configuration_is_there(s)?;
    has_volume(member)?;
    let is_pending = member.pod.as_ref().is_some_and(|pod| pod.phase == Phase::Pending);
    // Where it may lead is elsewhere if nothing ever ran in this pod.
    let may_lead = || s.why_may_be_primary(&member.name).is_some() && !has_never_run(member);
    if is_pending && s.record.intent_of(&member.name).is_none() && !may_lead() {
        return Ok(());
    }
    can_take_command(s, member)?;
    role_is(s, member, &[Role::Stopped])?;
    match s.leading().is_empty() {
        true if is_converting(s) => super::seed::all_stopped(s),
        // Secondaries may run on, and the next primary may be the very one whose programs do not fit (simulator, seed 58384752).
        true => super::seed::nobody_may_lead(s),
        false => Ok(()),
    }
}

/// What has to hold for the whole group before a member converts its data: no program of the former version is left.
///
/// # Errors
/// The first rule that does not hold.
pub fn convert_group(s: &Snapshot) -> Held {
    if !is_converting(s) {
        return Err(broken(Rule::NotAsked, "no data has to be converted"));
    }
    match s.members.iter().find(|m| lacks_programs(s, m) && over::may_run(s, m)) {
        Some(member) => Err(broken_by(Rule::NotAtRest, &member.name, OLDER)),
        None => Ok(()),
    }
}

/// What has to hold for the member that converts its data: it could be the first primary, and has data.
///
/// # Errors
/// The first rule that does not hold.
pub fn convert_member(s: &Snapshot, order: &SeedOrder<'_>, member: &Member) -> Held {
    order.member(member)?;
    has_volume(member)?;
    match &member.position {
        Position::Known(_) if s.position_is_current(member) => Ok(()),
        _ => Err(broken_by(Rule::EmptyMember, &member.name, "it has no data to convert, or its data is not known")),
    }
}

/// Before the data is converted on a primary that goes on serving: nothing else is open, and all members work with the present template.
///
/// # Errors
/// The first rule that does not hold; with the time at which it will hold.
pub fn upgrade_group(s: &Snapshot) -> Held {
    if due_upgrade(s).is_none_or(|upgrade| upgrade.on != UpgradeOn::Primary) {
        return Err(broken(Rule::NotAsked, "no data has to be converted on a primary"));
    }
    if s.group.update.mode == Mode::Paused {
        return Err(broken(Rule::AdministratorDecides, "spec.update.paused is set"));
    }
    if let Some((failed, at)) = s.record.failed_upgrade.as_ref().and_then(|failed| Some((failed, failed.retry_at?)))
        && at > s.now
    {
        let message = format!("failures: {}; next try in {} s", failed.failures, at.saturating_sub(s.now));
        return Err(Violation { until: Some(at), ..broken(Rule::BackOff, message) });
    }
    if let Some(intent) = s.record.intents.first() {
        return Err(broken_by(Rule::MemberBusy, &intent.member, format!("{} is not settled", intent.what())));
    }
    if s.record.switchover.as_ref().is_some_and(Switchover::is_open) {
        return Err(broken(Rule::NotAtRest, "the lead moves"));
    }
    primaries_serve(s)?;
    members_are_there(s)?;
    s.members.iter().try_for_each(|member| is_in_its_place(s, member))?;
    // Another one may have to go on with the data once it is converted. A pod that differs otherwise, for instance by its runner, never gets another one for that.
    let is_older = |m: &Member| m.pod.as_ref().is_some_and(|pod| pod.older_template);
    let lacks_it = |m: &Member, due: Upgrade<'_>| is_older(m) || !has_programs_of(m, due.to);
    match due_upgrade(s).and_then(|due| s.members.iter().find(|m| lacks_it(m, due))) {
        Some(member) => Err(broken_by(Rule::NotAtRest, &member.name, OLDER)),
        None => Ok(()),
    }
}

/// The member is a primary that may execute it.
///
/// # Errors
/// The first rule that does not hold.
pub fn upgrade_member(s: &Snapshot, member: &Member) -> Held {
    can_take_command(s, member)?;
    match s.serves(member) && !s.leaves(member) {
        true => Ok(()),
        false => Err(broken_by(Rule::WrongRole, &member.name, format!("{} does not serve as a primary", member.name))),
    }
}
