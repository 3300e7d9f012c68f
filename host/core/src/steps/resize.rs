//! Resize: the members of the application become those that are desired, one change at a time (docs/requirements.md, D9-D21). A member is added before it is started, first without a
//! vote where the application can do that; it is removed before it is stopped; and what was half added is removed when it is not desired any more.
//!
//! Each round looks at what there is, so a spec that changes is only another next change.
use crate::check::{self, Rule};
use crate::contract::{MemberName, Position, Role};
use crate::limits;
use crate::membership::{self, Agreed, Entry, Said};
use crate::plan::{Plan, Reason};
use crate::policy::Policies;
use crate::record::Verb;
use crate::roster;
use crate::snapshot::{Member, Snapshot};
use crate::steps::turn::{self, Turn};
use crate::steps::{begin, lists, positions};

/// A change of the members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What is done.
    pub verb: Verb,
    /// The member that it is about.
    pub target: MemberName,
    /// Whether it repairs: the member lost its identity.
    pub repairs: bool,
}

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    // What the members do not agree on was said by the step before.
    let Said::Agreed(agreed) = membership::said(s) else { return };
    if s.group.commands.membership.is_none() || s.group.is_stopped() {
        return;
    }
    if s.record.intents.iter().any(|intent| intent.verb.changes_members()) {
        return;
    }
    // Whether a volume is empty decides who lost its identity, and who may be added.
    let stopped = s.members.iter().filter(|m| s.reachable(m) && s.role(m).0 == Role::Stopped && !s.leaves(m));
    let unread: Vec<_> = stopped.filter(|m| m.position == Position::NotAsked).collect();
    if !unread.is_empty() && !positions::all_known(s, plan, unread) {
        return;
    }
    for (member, why) in s.members.iter().filter_map(|m| Some((m, check::kept(s, &agreed, m)?))) {
        keep(s, plan, &member.name, format!("{} is not started: {why}", member.name));
    }
    let is_fresh = agreed.since.saturating_add(limits::LIST_CHANGE_SECONDS) >= s.now;
    match next(s, &agreed) {
        Some(change) if is_fresh && !repairs(s, &agreed, &change) => match turn::ask(s, policies, plan) {
            Turn::Next => pursue(s, plan, &agreed, &change),
            Turn::Nobody => repair(s, &agreed).into_iter().for_each(|change| pursue(s, plan, &agreed, &change)),
            Turn::Of(target, verb) => pursue(s, plan, &agreed, &chosen(s, verb, target)),
        },
        Some(change) => pursue(s, plan, &agreed, &change),
        None => await_half_added(s, plan, &agreed),
    }
}

/// The change that a policy chose.
fn chosen(s: &Snapshot, verb: Verb, target: MemberName) -> Change {
    let repairs = verb == Verb::MemberAdd && is_back(s, &target);
    Change { verb, target, repairs }
}

/// Whether the change repairs what is broken or half done: no policy is asked about that.
fn repairs(s: &Snapshot, agreed: &Agreed, change: &Change) -> bool {
    let is_half_added = agreed.list.entry(&s.group.name, &change.target).is_some_and(Entry::is_half_added);
    change.repairs || change.verb == Verb::MemberPromote || is_half_added
}

/// What is repaired while a policy lets nobody come or go. What was half added and leaves is not among it: once it can be removed it is the next change, and no policy is asked.
fn repair(s: &Snapshot, agreed: &Agreed) -> Option<Change> {
    let due = |member: &Member| match agreed.list.entry(&s.group.name, &member.name) {
        Some(entry) if check::lost(s, entry, member) => Some((Verb::MemberRemove, 0)),
        Some(entry) if entry.is_half_added() => Some((Verb::MemberPromote, 1)),
        None if !s.leaves(member) && s.reachable(member) && is_back(s, &member.name) => Some((Verb::MemberAdd, 2)),
        _ => None,
    };
    let all = s.members.iter().filter_map(|member| Some((due(member)?, &member.name)));
    let may = all.filter(|((verb, _), name)| check::change_target(s, agreed, *verb, name).is_ok());
    let ((verb, _), target) = may.min_by_key(|((_, place), _)| *place)?;
    Some(Change { verb, target: target.clone(), repairs: verb != Verb::MemberPromote })
}

/// Whether it was a member before, and comes back under another identity.
fn is_back(s: &Snapshot, target: &MemberName) -> bool {
    s.record.member(target).term.is_some()
}

/// The next change. `None`: the members are those that are desired, or one that was added has to start.
#[must_use]
pub fn next(s: &Snapshot, agreed: &Agreed) -> Option<Change> {
    let group = &s.group.name;
    let members = || agreed.list.entries.iter().filter_map(|entry| Some((entry, entry.member(group)?)));
    let leaves = |name: &MemberName| roster::ordinal(group, name.as_str()).is_some_and(|own| !s.roster().wants(own));
    let change = |verb, target: MemberName, repairs| Some(Change { verb, target, repairs });
    // First what was half added, then the highest number.
    let mut leaving: Vec<(&Entry, MemberName)> = members().filter(|(_, name)| leaves(name)).collect();
    leaving.sort_by_key(|(entry, name)| {
        (entry.is_started() && entry.is_voter(), std::cmp::Reverse(roster::ordinal(group, name.as_str())))
    });
    let lost = |(entry, name): &(&Entry, MemberName)| s.member(name).is_some_and(|m| check::lost(s, entry, m));
    let leave = leaving.into_iter().map(|(_, name)| (name, false));
    let gone: Vec<(MemberName, bool)> = leave.chain(members().filter(lost).map(|(_, name)| (name, true))).collect();
    // One without which there is no majority keeps in neither the others that leave nor one that lost its volume, which may be what the majority lacks.
    if let Some((name, repairs)) = gone.iter().find(|(name, _)| check::remove(s, agreed, name).is_ok()) {
        return change(Verb::MemberRemove, name.clone(), *repairs);
    }
    let half: Vec<_> = members().filter(|(entry, _)| entry.is_half_added()).collect();
    if let Some((_, name)) = half.iter().find(|(_, name)| check::promote(s, agreed, name).is_ok()) {
        return change(Verb::MemberPromote, name.clone(), false);
    }
    let missing = |m: &&Member| !s.leaves(m) && s.reachable(m) && agreed.list.entry(group, &m.name).is_none();
    let missing: Vec<_> = s.members.iter().filter(missing).collect();
    // One that cannot be added does not keep the others out. Those that leave may wait for one that stays: also for an administrator, who alone can bring one in on whose volume is data.
    let can = missing.iter().find(|m| check::add(s, agreed, &m.name).is_ok());
    let is_kept = |m: &&&Member| check::add(s, agreed, &m.name).is_err_and(|why| why.rule == Rule::SecondIdentity);
    let first = can.or_else(|| missing.iter().find(is_kept));
    match (gone.first(), first) {
        (Some((name, repairs)), None) => return change(Verb::MemberRemove, name.clone(), *repairs),
        (None, _) if !half.is_empty() => return None,
        _ => {}
    }
    let member = first.or(missing.first())?;
    change(Verb::MemberAdd, member.name.clone(), is_back(s, &member.name))
}

fn pursue(s: &Snapshot, plan: &mut Plan, agreed: &Agreed, change: &Change) {
    let target = &change.target;
    if let Err(violation) = check::change_target(s, agreed, change.verb, target)
        && violation.rule == Rule::SecondIdentity
    {
        return keep(s, plan, target, format!("{}: {violation}", describe(change)));
    }
    // Nothing is changed on a list that is older than a moment.
    if agreed.since.saturating_add(limits::LIST_CHANGE_SECONDS) < s.now {
        for member in s.members.iter().filter(|m| membership::is_asked(s, m)) {
            lists::ask(s, plan, member, limits::LIST_AGAIN_SECONDS);
        }
        return plan.wait(Reason::ResizePending, Some(target), "the lists of the members are being read");
    }
    let held = check::change_group(s).and_then(|agreed| check::change_target(s, &agreed, change.verb, target));
    if let Err(violation) = held {
        let message = format!("{}: {violation}", describe(change));
        let again = s.now.saturating_add(limits::LIST_AGAIN_SECONDS);
        return plan.wait_until(Reason::ResizePending, Some(target), message, violation.until.or(Some(again)));
    }
    let executes = |m: &&Member| {
        check::executes(s, agreed, target, &m.name).is_ok()
            && check::can_take_command(s, m).is_ok()
            && !plan.touches(&m.name)
    };
    match s.members.iter().find(executes).map(|m| m.name.clone()) {
        Some(on) => {
            let id = agreed.list.entry(&s.group.name, target).map(|entry| entry.id.clone());
            begin::begin_change(s, plan, change.verb, &on, target, id.as_deref());
        }
        None => plan.wait(
            Reason::ResizePending,
            Some(target),
            format!("{}: every member that could do it is busy", describe(change)),
        ),
    }
}

/// A volume whose data keep a member out. Only an administrator can delete it, and is told to only while a healthy majority has all data: until then this volume may be what they lack.
fn keep(s: &Snapshot, plan: &mut Plan, member: &MemberName, message: String) {
    match check::healthy_majority(s) {
        Ok(_) => plan.wait(Reason::KeptData, Some(member), format!("{message}; delete its claim and its pod")),
        Err(violation) => {
            let message = format!("{message}; keep its claim for now: {violation}");
            let again = s.now.saturating_add(limits::LIST_AGAIN_SECONDS);
            plan.wait_until(Reason::ResizePending, Some(member), message, Some(again));
        }
    }
}

/// What a change does, as users see it.
#[must_use]
pub fn describe(change: &Change) -> String {
    let target = &change.target;
    match (change.verb, change.repairs) {
        (Verb::MemberAdd, false) => format!("adding {target}"),
        (Verb::MemberAdd, true) => format!("adding {target} anew"),
        (Verb::MemberRemove, false) => format!("removing {target}"),
        (Verb::MemberRemove, true) => format!("removing {target}, whose volume is empty"),
        _ => format!("promoting {target}"),
    }
}

/// Says which member was added and is awaited: it is started like any other, and gets its vote once it serves.
fn await_half_added(s: &Snapshot, plan: &mut Plan, agreed: &Agreed) {
    let half = agreed.list.entries.iter().find(|entry| entry.is_half_added());
    let Some(name) = half.and_then(|entry| entry.member(&s.group.name)) else { return };
    let again = Some(s.now.saturating_add(limits::LIST_AGAIN_SECONDS));
    for member in s.members.iter().filter(|m| membership::is_asked(s, m)) {
        lists::ask(s, plan, member, limits::LIST_AGAIN_SECONDS);
    }
    let message = format!("{name} was added to the application and does not serve with a vote yet");
    plan.wait_until(Reason::ResizePending, Some(&name), message, again);
}
