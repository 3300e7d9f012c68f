//! Upgrade: `spec.version` is later than the version of the data; who converts it, and when? On a stopped member (`spec.update.upgradeOn: StoppedMember`) all are stopped first, the primary last, every pod gets the
//! present template, and the question of the first primary says whose data is converted; that member then leads, and the others copy from it. On a primary the command runs once, when all members have the present template.
use crate::check::{self, Upgrade, Violation};
use crate::contract::{MemberName, Position, Role};
use crate::over;
use crate::over::role_word;
use crate::plan::{Plan, Reason};
use crate::policy::Policies;
use crate::record::{Event, Verb};
use crate::snapshot::{Member, Mode, Snapshot, UpgradeOn};
use crate::steps::{begin, seed, update};
use crate::version;
use std::cmp::{Ordering, Reverse};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    note_version(s, plan);
    if let Some(version) = check::has_later_data(s) {
        let message = format!(
            "the data is of version {version}, later than spec.version, so nothing is started: set spec.version and the template to {version}"
        );
        return plan.wait(Reason::VersionTooLow, None, message);
    }
    match check::due_upgrade(s) {
        None => plan.record.failed_upgrade = None,
        Some(due) if due.on == UpgradeOn::Primary => on_primary(s, plan, due),
        Some(due) if check::is_converting(s) => convert(s, policies, plan, due),
        Some(due) if s.group.update.mode != Mode::ByOperator => {
            let message = format!("{}: not while spec.update.paused is set", what(due));
            plan.wait(Reason::Upgrading, None, message);
        }
        Some(_) => {}
    }
}

/// Of which version the data is that nobody converted: what the first seed noted, or what the user says of data that is there when a version is named for the first time. Where the application converts it itself,
/// that of the programs of a primary. When the record was lost, that of the programs that work with the data (simulator, seed 11923792).
fn note_version(s: &Snapshot, plan: &mut Plan) {
    give_up_converted(s, plan);
    let Some(wanted) = s.group.version.as_ref().filter(|_| plan.record.ever_seeded.is_some()) else { return };
    let serves = || s.serving().iter().any(|member| check::has_programs_of(member, wanted));
    let by_itself = s.group.commands.upgrade.is_none() && check::has_later_data(s).is_none() && serves();
    let noted = match &plan.record.version {
        None => earliest_programs(s).unwrap_or(wanted).clone(),
        Some(known) if !by_itself || known == wanted => return,
        Some(_) => wanted.clone(),
    };
    for known in plan.record.members.values_mut().filter(|known| known.term.is_some()) {
        known.version = Some(noted.clone());
    }
    plan.record.version = Some(noted);
}

/// The earliest version of the programs with which a member is in a role. `None`: nobody is, or their pods are from before a version was named.
fn earliest_programs(s: &Snapshot) -> Option<&String> {
    let works = |m: &&Member| s.reachable(m) && matches!(s.role(m).0, Role::Primary | Role::Secondary);
    let programs = s.members.iter().filter(works).filter_map(|member| member.pod.as_ref()?.programs.as_ref());
    programs.min_by(|one, other| version::compare(one, other).unwrap_or(Ordering::Equal))
}

/// An administrator chose a member whose data is of an earlier version: what was converted is given up, and that member's data is converted anew.
fn give_up_converted(s: &Snapshot, plan: &mut Plan) {
    let chosen = s.active_override().map(|requested| s.record.member(&requested.member));
    let own = chosen.and_then(|known| known.version.as_deref()).zip(s.record.version.as_deref());
    let is_earlier = own.is_some_and(|(own, data)| version::compare(own, data) == Some(Ordering::Less));
    if is_earlier && s.may_be_primary().is_empty() {
        plan.record.version = chosen.and_then(|known| known.version.clone());
    }
}

fn what(due: Upgrade<'_>) -> String {
    format!("the data is converted from version {} to {}", due.from, due.to)
}

/// Stops whoever runs; once nobody does, asks who converts its data.
fn convert(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan, due: Upgrade<'_>) {
    let left = s.members.iter().filter(|m| m.pod.as_ref().is_some_and(|pod| pod.older_template)).count();
    let before = plan.waits.len();
    if halt(s, plan, due) {
        match check::convert_group(s) {
            Ok(()) => seed::choose(s, policies, plan, Verb::Convert),
            Err(violation) => wait(plan, due, &violation),
        }
    }
    if plan.waits.len() > before {
        update::report_stuck(s, plan, u32::try_from(left).unwrap_or(u32::MAX));
    }
}

/// Stops the next member: secondaries before primaries, of each kind from the highest ordinal. So the last one has the writes of all. Returns whether nobody is left to stop.
fn halt(s: &Snapshot, plan: &mut Plan, due: Upgrade<'_>) -> bool {
    let runs = |m: &&Member| s.reachable(m) && over::may_run(s, m) && s.role(m).0 != Role::Stopped;
    let next = s.members.iter().filter(runs).min_by_key(|m| (check::rank(s, m), Reverse(m.ordinal)));
    let Some(member) = next else { return true };
    match check::halt_for_upgrade(s, member) {
        Ok(()) => begin::begin(s, plan, Verb::Halt, &member.name),
        Err(violation) => {
            let role = role_word(s.role(member).0);
            let about = violation.member.as_ref().filter(|other| **other != member.name);
            let about = about.map(|other| format!("{other}: ")).unwrap_or_default();
            let why = format!("{} is {role} and is stopped next: {about}{violation}", member.name);
            plan.wait_until(Reason::Upgrading, Some(&member.name), format!("{}; {why}", what(due)), violation.until);
        }
    }
    false
}

fn wait(plan: &mut Plan, due: Upgrade<'_>, violation: &Violation) {
    let message = match &violation.member {
        Some(member) => format!("{}; {member}: {violation}", what(due)),
        None => format!("{}; {violation}", what(due)),
    };
    plan.wait_until(Reason::Upgrading, violation.member.as_ref(), message, violation.until);
}

/// Whether nobody has data that could be converted: the first seed was begun and came to nothing.
pub(super) fn nothing_to_convert(s: &Snapshot) -> bool {
    let is_unconfirmed = s.record.ever_seeded.as_ref().is_some_and(|seeded| !seeded.confirmed);
    is_unconfirmed && s.members.iter().all(|m| m.position == Position::Empty)
}

/// The application goes on while the command runs. A primary executes it that can; after a failure the same one again.
fn on_primary(s: &Snapshot, plan: &mut Plan, due: Upgrade<'_>) {
    if s.record.intents.iter().any(|intent| intent.verb == Verb::Upgrade) {
        return;
    }
    if let Some(failed) = &s.record.failed_upgrade {
        let (failures, what) = (failed.failures, what(due));
        let message = format!("{what}, and upgrade failed on the primary; failures: {failures}; it is tried again");
        plan.wait(Reason::UpdateStuck, None, message);
    }
    if let Err(violation) = check::upgrade_group(s) {
        return wait(plan, due, &violation);
    }
    let serving = s.serving();
    let able = serving.iter().copied().find(|member| check::upgrade_member(s, member).is_ok());
    match able.filter(|member| !plan.touches(&member.name)) {
        Some(member) => begin::begin_upgrade(s, plan, &member.name, due),
        None => plan.look_again_at(s.now.saturating_add(1)),
    }
}

/// The data is of that version from now on.
pub(super) fn converted(s: &Snapshot, plan: &mut Plan, on: &MemberName, to: Option<&str>) {
    let from = plan.record.version.clone().unwrap_or_default();
    plan.record.version = to.map(str::to_owned);
    plan.record.failed_upgrade = None;
    let detail = format!("from version {from} to {}", to.unwrap_or_default());
    plan.record.note(s.now, Event::Upgraded, Some(on), Some(detail));
}
