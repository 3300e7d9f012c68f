//! Who may be started, added and removed where the members of the application agree (docs/rules.md, "Membership"). Policies choose the order and the number of members; none can break these rules.
use super::leave::{others_first, removals_rest, works};
use super::{Held, Rule, Violation, broken, broken_by, can_take_command, retry_allowed, role_is, sole_primary};
use crate::contract::{MemberName, Position, Role};
use crate::limits;
use crate::membership::{self, Agreed, Entry, Said, quorum};
use crate::memory;
use crate::over;
use crate::record::{Intent, Listed, Membership, Verb};
use crate::snapshot::{Member, Snapshot};

/// Whether the members of this group's application agree on who they are.
pub(super) fn agrees(s: &Snapshot) -> bool {
    s.group.commands.membership.is_some()
}

/// Whether the application's cluster was formed. That happens once: a second seed would make another cluster beside the one that the volumes are of.
#[must_use]
pub fn is_formed(s: &Snapshot) -> bool {
    let seeded = s.record.ever_seeded.as_ref().is_some_and(|seeded| seeded.confirmed);
    agrees(s) && (seeded || s.record.membership.is_some())
}

/// The group may be seeded: its cluster was never formed. No override lifts this.
pub(super) fn not_formed(s: &Snapshot) -> Held {
    match is_formed(s) {
        false => Ok(()),
        true => Err(broken(
            Rule::AlreadyFormed,
            "the application's cluster was formed before, and is not formed a second time; its members are started again as they are listed",
        )),
    }
}

/// The list on which all members agree that said one.
///
/// # Errors
/// [`Rule::SplitBrain`], [`Rule::ListUnknown`].
pub fn agreed(s: &Snapshot) -> Result<Agreed, Violation> {
    match membership::said(s) {
        Said::Agreed(agreed) => Ok(agreed),
        Said::Split(why) => Err(broken(Rule::SplitBrain, why)),
        Said::Differing(why) | Said::Nothing(Some(why)) => Err(broken(Rule::ListUnknown, why)),
        Said::Nothing(None) => Err(broken(Rule::ListUnknown, "the lists of the members are being read")),
        Said::Nobody => Err(broken(Rule::ListUnknown, "no member runs that could say who the members are")),
    }
}

/// A member that is to be a primary or a secondary of a group that serves is one by the present list of the application, and its volume is that of its identity.
pub(super) fn is_listed(s: &Snapshot, member: &Member) -> Held {
    if !agrees(s) {
        return Ok(());
    }
    runs_nowhere_else(s, member)?;
    let agreed = agreed(s)?;
    match agreed.list.entry(&s.group.name, &member.name) {
        Some(entry) => starts_known(s, member, past(s, entry)),
        None => Err(not_listed(&member.name)),
    }
}

/// The member starts on the volume of its identity, and a first start is begun only once the claims know the list that has it: if the record is lost afterwards, the claims name everyone
/// without whom there may be no majority (S32).
fn starts_known(s: &Snapshot, member: &Member, past: Past) -> Held {
    has_identity(s, member, past)?;
    if past != Past::Added {
        return Ok(());
    }
    let not_yet = |who: &str| Err(broken_by(Rule::ListUnknown, &member.name, format!("{who} yet that it is a member")));
    let noted = s.record.membership.as_ref().and_then(|known| known.of(&member.name));
    if noted.is_none_or(|noted| noted.volume != memory::claim_uids(&member.claims)) {
        return not_yet("it, or its volume, is not recorded");
    }
    let unaware = |m: &&Member| memory::keeps_list(s, m) && !m.claims.iter().all(|claim| memory::has_list(s, claim));
    match s.members.iter().find(unaware) {
        Some(other) => not_yet(&format!("the claims of {} do not say", other.name)),
        None => Ok(()),
    }
}

/// What is remembered of where the member ran, in whatever role, is its present pod, or is over.
fn runs_nowhere_else(s: &Snapshot, member: &Member) -> Held {
    let here = member.pod.as_ref().map(|pod| &pod.uid);
    let ran = s.record.member(&member.name).ran.as_ref().filter(|last| Some(&last.pod_uid) != here);
    match ran.map(|last| over::prove_ended(s, last)) {
        Some(Err(not)) => Err(Violation { until: not.until, ..broken_by(Rule::MayBePrimary, &member.name, not.why) }),
        _ => Ok(()),
    }
}

fn not_listed(name: &MemberName) -> Violation {
    broken_by(Rule::NotListed, name, "the application does not list it as a member")
}

/// What is known of an identity that the application lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Past {
    /// It was added, and never started.
    Added,
    /// The record or the claims say that it was started, or may have been.
    Remembered,
    /// The application says itself that it was started, so its volume has data.
    Listed,
}

/// What is known of the identity: what the present list says, or what was seen since one was read.
fn past(s: &Snapshot, entry: &Entry) -> Past {
    let before = |known: &Membership| known.has_started(&entry.id, entry.member(&s.group.name).as_ref());
    match entry.is_started() {
        true => Past::Listed,
        false if s.record.membership.as_ref().is_some_and(before) => Past::Remembered,
        false => Past::Added,
    }
}

/// No second identity on one volume, and no identity on a second volume: who was started has the volume on which it was, and who was only added has an empty one.
fn has_identity(s: &Snapshot, member: &Member, past: Past) -> Held {
    let known = s.record.member(&member.name);
    let (first, started) = (is_first_volume(s, member), past != Past::Added);
    let other = has_other_volume(s, member) || first == Some(false) && started;
    let begun = known.started.as_ref().is_some_and(|start| start.before == Position::Empty);
    let why = match (&member.position, started) {
        (Position::Known(_), _) if other => COPIED,
        (_, true) if other => "it was started on another volume; that one has its identity",
        (Position::Empty, false) if began_elsewhere(s, member) => "it may have been started on another volume",
        // Only the claims knew that it was added, and nobody knows whether it was started. If it was, then on this volume, where nothing is.
        (Position::Empty, true) if first == Some(true) && past == Past::Remembered => return Ok(()),
        (Position::Empty, true) => "it counts as started before, and its volume is empty now",
        // A start that was interrupted left data of the very identity that it was given.
        (Position::Known(_), false) if !begun => UNEXPLAINED,
        // Neither the record nor its claim knows this volume: it may have come in the place of the one with its identity.
        (Position::Unknown(_), true) if known.term.is_none() => UNREAD,
        (Position::Unknown(_), false) => "it was never started, and whether its volume is empty cannot be read",
        _ => return Ok(()),
    };
    Err(broken_by(Rule::SecondIdentity, &member.name, why))
}

/// Whether the member has the volumes that were noted for its first start. `None`: none were.
fn is_first_volume(s: &Snapshot, member: &Member) -> Option<bool> {
    let noted = s.record.membership.as_ref()?.of(&member.name)?.volume.as_ref()?;
    Some(memory::claim_uids(&member.claims).as_ref() == Some(noted))
}

/// Whether the member has another volume than the one on which it was started.
fn has_other_volume(s: &Snapshot, member: &Member) -> bool {
    let known = &s.record.member(&member.name).claim_uid;
    known.is_some() && memory::claim_uids(&member.claims) != *known
}

/// Whether a start under its identity was begun on another volume than the one that the member has now, and nobody knows that it had no effect.
fn began_elsewhere(s: &Snapshot, member: &Member) -> bool {
    s.record.member(&member.name).started.is_some() && has_other_volume(s, member)
}

/// Whether a desired member lost the volume on which it was started under that identity, or may have been.
#[must_use]
pub fn lost(s: &Snapshot, entry: &Entry, member: &Member) -> bool {
    let is_lost = match past(s, entry) {
        Past::Added => false,
        Past::Remembered => is_first_volume(s, member) != Some(true),
        Past::Listed => true,
    };
    (is_lost || began_elsewhere(s, member)) && lost_identity(s, member)
}

/// What is said of a volume with data of an identity that the member does not have any more.
const KEPT: &str = "its volume has data of an earlier identity, under which it must not come back";

/// What is said of a volume with data of a member that was not started by the list. Without a present list it may have been started since.
const UNEXPLAINED: &str = "by the list it was never started, and its volume has data";

/// What is said of a volume that nobody knows and that cannot be read.
const UNREAD: &str = "it counts as started before, and whether its volume has its data cannot be read";

/// What is said of a volume with data on which the member was not started.
const COPIED: &str = "it was started on another volume, and that one has its identity";

/// Why a desired member that the application lists is not started, if only an administrator can change that: its volume has data, and is not that of its identity.
#[must_use]
pub fn kept(s: &Snapshot, agreed: &Agreed, member: &Member) -> Option<Violation> {
    let entry = agreed.list.entry(&s.group.name, &member.name)?;
    let is_idle = can_take_command(s, member).is_ok() && s.role(member).0 == Role::Stopped && !s.leaves(member);
    let has_data = matches!(member.position, Position::Known(_));
    has_identity(s, member, past(s, entry)).err().filter(|_| is_idle && has_data)
}

/// What is said of a list that too few said.
const MINORITY: &str = "fewer than a majority of the voters said who the members are";

/// A stopped member that the last confirmed list names may be started without a primary that serves: to agree they need several.
///
/// # Errors
/// The first rule that does not hold.
pub fn rejoin_member(s: &Snapshot, member: &Member) -> Held {
    if !agrees(s) {
        return Err(broken(Rule::NoCommand, "the members of this application do not agree on who they are"));
    }
    if s.group.is_stopped() {
        return Err(broken(Rule::NotSurplus, "spec.replicas is 0"));
    }
    can_take_command(s, member)?;
    retry_allowed(s, member)?;
    super::claims::claims_not_ahead(s, member)?;
    role_is(s, member, &[Role::Stopped])?;
    super::programs_fit(s, member)?;
    let removal = |intent: &&Intent| intent.verb == Verb::MemberRemove && intent.target.as_ref() == Some(&member.name);
    if let Some(open) = s.record.intents.iter().find(removal) {
        return Err(broken_by(Rule::ChangeOpen, &member.name, format!("{} is not settled", open.what())));
    }
    // An identity that runs twice, in the present pod and in an earlier one, has two votes.
    if let Some(not) = over::may_run_still(s, &member.name) {
        return Err(Violation { until: not.until, ..broken_by(Rule::MayBePrimary, &member.name, not.why) });
    }
    runs_nowhere_else(s, member)?;
    let now = match membership::said(s) {
        Said::Agreed(agreed) => agreed.list.entry(&s.group.name, &member.name).map(|entry| past(s, entry)),
        Said::Split(why) => return Err(broken(Rule::SplitBrain, why)),
        Said::Nobody | Said::Nothing(_) | Said::Differing(_) => remembered(s, &member.name),
    };
    starts_known(s, member, now.ok_or_else(|| not_listed(&member.name))?)
}

/// What the last list that was confirmed says of the member. `None`: it is not in it. Before any list was read the member that formed the cluster is alone.
fn remembered(s: &Snapshot, name: &MemberName) -> Option<Past> {
    let of = |listed: &Listed| if listed.started { Past::Remembered } else { Past::Added };
    match &s.record.membership {
        Some(known) => known.of(name).map(of),
        None => s.record.ever_seeded.as_ref().filter(|e| e.confirmed && e.member == *name).map(|_| Past::Remembered),
    }
}

/// Whether the member is listed, by the present list or else by the last one that was confirmed.
#[must_use]
pub fn counts(s: &Snapshot, name: &MemberName) -> bool {
    let remembered = || s.record.membership.as_ref().is_some_and(|known| known.of(name).is_some());
    agrees(s)
        && match membership::said(s) {
            Said::Agreed(agreed) if agreed.list.entry(&s.group.name, name).is_some() => true,
            Said::Agreed(agreed) => !agreed.is_confirmed(&s.group.name) && remembered(),
            _ => remembered(),
        }
}

/// A member that leaves is stopped only once the application does not list it any more; on the way to 0 members all stop, and stay members. What is remembered may be older than what was
/// added since, so a majority has to say it.
///
/// # Errors
/// [`Rule::StillListed`], [`Rule::ListUnknown`].
pub fn is_let_go(s: &Snapshot, member: &Member) -> Held {
    if !is_formed(s) || s.group.is_stopped() {
        return Ok(());
    }
    let name = &member.name;
    if counts(s, name) {
        return Err(broken_by(Rule::StillListed, name, "the application lists it still; it is removed there first"));
    }
    match membership::said(s) {
        Said::Agreed(agreed) if agreed.is_confirmed(&s.group.name) => Ok(()),
        _ => Err(broken_by(Rule::ListUnknown, name, "it waits for a majority to say that it is no member any more")),
    }
}

/// The voters that are healthy are a majority without this member, too: it may stop for a while.
///
/// # Errors
/// [`Rule::QuorumAtRisk`], and those of [`agreed`].
pub fn quorum_without(s: &Snapshot, member: &MemberName) -> Held {
    if !agrees(s) {
        return Ok(());
    }
    let agreed = agreed(s)?;
    let group = &s.group.name;
    if !agreed.is_confirmed(group) {
        return Err(broken(Rule::ListUnknown, MINORITY));
    }
    if agreed.list.entry(group, member).is_none_or(|entry| !entry.is_voter()) {
        return Ok(());
    }
    let mut healthy = agreed.healthy_voters(group);
    healthy.remove(member);
    is_quorum(member, healthy.len(), agreed.list.voters())
}

/// Whether nobody can be added until the member, which is in no role, is removed: it is half added and fails or does not run, and one change is open at a time; or it is a voter that is not healthy, and enough others
/// are to remove it, but too few for one voter more, where there are no learners.
pub(super) fn holds_up_others(s: &Snapshot, member: &Member) -> bool {
    let Some(agreed) = agreed(s).ok().filter(|_| s.record.intents.is_empty()) else { return false };
    let entry = agreed.list.entry(&s.group.name, &member.name);
    if entry.is_some_and(Entry::is_half_added) {
        return !s.reachable(member) || s.record.member(&member.name).failures > 0;
    }
    let learner = s.group.commands.membership.as_ref().is_none_or(|commands| commands.promote.is_some());
    let (healthy, voters) = (agreed.healthy_voters(&s.group.name), agreed.list.voters());
    let lacks = !learner && entry.is_some_and(Entry::is_voter) && !healthy.contains(&member.name);
    let enough = |voters: usize| healthy.len() >= quorum(voters);
    lacks && enough(voters.saturating_sub(1)) && !enough(voters.saturating_add(1))
}

fn is_quorum(member: &MemberName, healthy: usize, voters: usize) -> Held {
    let needed = quorum(voters);
    match healthy >= needed {
        true => Ok(()),
        false => {
            let message = format!("{healthy} healthy voters of {voters} would be left, and {needed} have to agree");
            Err(broken_by(Rule::QuorumAtRisk, member, message))
        }
    }
}

/// The members may be changed: no other change is open, a majority said the present list a moment ago, and a majority is healthy. A member that is silent, or
/// whose role is unknown, does not count.
///
/// # Errors
/// The first rule that does not hold.
pub fn change_group(s: &Snapshot) -> Result<Agreed, Violation> {
    if !agrees(s) {
        return Err(broken(Rule::NoCommand, "the group has no command for that"));
    }
    if let Some(open) = s.record.intents.iter().find(|intent| intent.verb.changes_members()) {
        return Err(broken_by(Rule::ChangeOpen, &open.member, format!("{} is not settled", open.what())));
    }
    super::scaling::no_unrecorded_change(s)?;
    let agreed = healthy_majority(s)?;
    match agreed.since.saturating_add(limits::LIST_FRESH_SECONDS) < s.now {
        true => Err(broken(Rule::ListUnknown, "the lists of the members have to be read again")),
        false => Ok(agreed),
    }
}

/// A majority of the voters said the present list, and a majority is healthy: so the members that are healthy have all that was ever agreed on, and no other volume is needed.
///
/// # Errors
/// The first rule that does not hold.
pub fn healthy_majority(s: &Snapshot) -> Result<Agreed, Violation> {
    let agreed = agreed(s)?;
    let group = &s.group.name;
    if !agreed.is_confirmed(group) {
        return Err(broken(Rule::ListUnknown, MINORITY));
    }
    let (healthy, voters) = (agreed.healthy_voters(group).len(), agreed.list.voters());
    if healthy < quorum(voters) {
        let message = format!("{healthy} of {voters} voters are healthy, and {} have to agree", quorum(voters));
        return Err(broken(Rule::QuorumAtRisk, message));
    }
    Ok(agreed)
}

/// What has to hold when a change of the members starts: for the group, for the one that it is about, and for the member that executes it.
///
/// # Errors
/// The first rule that does not hold.
pub fn change(s: &Snapshot, intent: &Intent) -> Held {
    let agreed = change_group(s)?;
    let Some(target) = &intent.target else {
        return Err(broken(Rule::NotListed, format!("{} names no member", intent.command)));
    };
    change_target(s, &agreed, intent.verb, target)?;
    executes(s, &agreed, target, &intent.member)
}

/// What has to hold for the one that a change is about. One that failed waits for its back-off, whoever executed it.
///
/// # Errors
/// The first rule that does not hold.
pub fn change_target(s: &Snapshot, agreed: &Agreed, verb: Verb, target: &MemberName) -> Held {
    let known = s.record.member(target);
    if let Some(at) = known.retry_at.filter(|at| *at > s.now) {
        let message = format!("failures: {}; next try in {} s", known.failures, at.saturating_sub(s.now));
        return Err(Violation { until: Some(at), ..broken_by(Rule::BackOff, target, message) });
    }
    match verb {
        Verb::MemberAdd => add(s, agreed, target),
        Verb::MemberRemove => remove(s, agreed, target),
        _ => promote(s, agreed, target),
    }
}

/// A healthy voter other than the one that the change is about may execute it.
///
/// # Errors
/// [`Rule::QuorumAtRisk`].
pub fn executes(s: &Snapshot, agreed: &Agreed, target: &MemberName, on: &MemberName) -> Held {
    match target != on && agreed.healthy_voters(&s.group.name).contains(on) {
        true => Ok(()),
        false => Err(broken_by(Rule::QuorumAtRisk, on, "it is no healthy voter that could change another member")),
    }
}

/// With so many members a list has room for one more.
pub(super) fn has_room(members: usize) -> Held {
    let most = limits::LIST_MEMBERS;
    match members < most {
        true => Ok(()),
        false => {
            Err(broken(Rule::NotAtRest, format!("the application may have at most {most} members, and it has as many")))
        }
    }
}

/// A member may be added: it is desired, waits on an empty volume, nobody else is half added, and those who are there can decide with it.
///
/// # Errors
/// The first rule that does not hold.
pub fn add(s: &Snapshot, agreed: &Agreed, target: &MemberName) -> Held {
    let Some(member) = s.member(target) else { return Err(not_listed(target)) };
    can_take_command(s, member)?;
    role_is(s, member, &[Role::Stopped])?;
    if s.leaves(member) {
        return Err(broken_by(Rule::NotSurplus, target, "it is beyond spec.replicas"));
    }
    if agreed.list.entry(&s.group.name, target).is_some() {
        return Err(broken_by(Rule::StillListed, target, "the application lists it already"));
    }
    // A list with one more could not be read, so nobody could be removed again.
    has_room(agreed.list.entries.len())?;
    let half = agreed.list.entries.iter().find(|entry| entry.is_half_added());
    if let Some(half) = half {
        let who = half.member(&s.group.name).map_or_else(|| half.id.clone(), |m| m.to_string());
        let message = format!("{who} was added and has no vote, or was not started yet");
        return Err(broken_by(Rule::ChangeOpen, target, message));
    }
    match &member.position {
        Position::Empty => {}
        Position::Known(_) => return Err(broken_by(Rule::SecondIdentity, target, KEPT)),
        Position::Unknown(why) => {
            let message = format!("whether its volume is empty cannot be read: {why}");
            return Err(broken_by(Rule::PositionUnknown, target, message));
        }
        Position::NotAsked => {
            return Err(broken_by(Rule::PositionUnknown, target, "whether its volume is empty was not read yet"));
        }
    }
    let learner = s.group.commands.membership.as_ref().is_some_and(|commands| commands.promote.is_some());
    let (healthy, voters) = (agreed.healthy_voters(&s.group.name).len(), agreed.list.voters());
    // One alone becomes two, who both have to run: there is no other way without learners.
    if learner || voters == 1 { Ok(()) } else { is_quorum(target, healthy, voters.saturating_add(1)) }
}

/// A member may be removed: it leaves, or lost its identity with its volume, and the healthy voters that are left are a majority of those that are left.
///
/// # Errors
/// The first rule that does not hold.
pub fn remove(s: &Snapshot, agreed: &Agreed, target: &MemberName) -> Held {
    let group = &s.group.name;
    let Some(entry) = agreed.list.entry(group, target) else { return Err(not_listed(target)) };
    if let Some(member) = s.member(target).filter(|member| !s.leaves(member))
        && !lost(s, entry, member)
    {
        return Err(broken_by(Rule::NotSurplus, target, "it is desired, and has its identity"));
    }
    // What was half added, or is not well, is in the way of the others. One that lost its volume is stopped, so it is not well.
    // One that is in its role is well, also if a list could not be had from it in time, or calls it unhealthy.
    let is_in_role = s.member(target).is_some_and(|member| works(s, member));
    let is_well = is_in_role || agreed.healthy_voters(group).contains(target);
    if is_well && entry.is_started() && entry.is_voter() {
        s.member(target).map_or(Ok(()), |member| others_first(s, member))?;
        removals_rest(s, target)?;
    }
    // One whose start has ended and that is starting since may wait for its vote, which nobody gives it any more.
    if let Some(open) = s.record.intent_of(target).filter(|open| open.exited.is_none()) {
        return Err(broken_by(Rule::MemberBusy, target, format!("{} is not settled", open.command)));
    }
    if sole_primary(s).is_some_and(|leader| leader.name == *target) && quorum_without(s, target).is_ok() {
        return Err(broken_by(Rule::StayersFirst, target, "it leads, and gives up the lead first"));
    }
    let mut healthy = agreed.healthy_voters(group);
    healthy.remove(target);
    is_quorum(target, healthy.len(), agreed.list.voters().saturating_sub(usize::from(entry.is_voter())).max(1))
}

/// Whether a desired member that was started before lost the volume on which it was: it is stopped, and its volume is empty.
fn lost_identity(s: &Snapshot, member: &Member) -> bool {
    let stopped = s.reachable(member) && s.role(member).0 == Role::Stopped;
    let runs = member.reading.running.is_some() || s.record.intent_of(&member.name).is_some();
    stopped && member.position == Position::Empty && !runs
}

/// A learner may get its vote: it serves or is starting, and everybody reaches it.
///
/// # Errors
/// The first rule that does not hold.
pub fn promote(s: &Snapshot, agreed: &Agreed, target: &MemberName) -> Held {
    if s.group.commands.membership.as_ref().is_none_or(|commands| commands.promote.is_none()) {
        return Err(broken(Rule::NoCommand, "the group has no memberPromote command"));
    }
    let Some(entry) = agreed.list.entry(&s.group.name, target) else { return Err(not_listed(target)) };
    if entry.is_voter() {
        return Err(broken_by(Rule::WrongRole, target, "it has a vote"));
    }
    if s.member(target).is_none_or(|member| s.leaves(member)) {
        return Err(broken_by(Rule::NotSurplus, target, "it is not desired"));
    }
    // Some applications serve nobody before they have a vote, so their learners are starting until then; whether one lags, the command knows.
    let starts = s.member(target).is_some_and(|member| s.reachable(member) && s.role(member).0 == Role::Starting);
    match entry.is_started() && entry.healthy && (agreed.by.contains(target) || starts) {
        true => Ok(()),
        false => Err(broken_by(Rule::WrongRole, target, "it does not serve yet")),
    }
}
