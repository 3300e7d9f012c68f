//! When the pod of a member is deleted so that the next one has the group's present template (docs/rules.md, "Update").
//!
//! A pod is deleted at once where nothing is lost by it: nothing runs in it. Otherwise one member after the other goes, or one batch (`spec.update.batch`), each only while all the others are in
//! their role, and the primary last. All of it is held twice, when it is decided and on live reads just before the pod is deleted.
use super::beside::{is_side_by_side, leaves_together};
use super::hooks::in_no_other_batch;
use super::rebalance::{has_been_ready, members_are_there, primaries_serve};
use super::replace::{is_arriving, is_being_replaced, keeps_pod_until_replaced};
use super::upgrade::{is_about_version, is_converting, replace_pod};
use super::waiting::waits_with_older_template;
use super::{
    Held, Rule, Violation, broken, broken_by, can_take_command, has_its_volumes, is_successor, quorum_without,
    sole_primary,
};
use crate::contract::{MemberName, Phase, Role};
use crate::limits;
use crate::over::role_word;
use crate::record::Verdict;
use crate::snapshot::{Batch, Member, Mode, Pod, Snapshot};

/// Whether the member stays and its pod was made from an older `spec.template`.
#[must_use]
pub fn awaits_update(s: &Snapshot, member: &Member) -> bool {
    !s.leaves(member) && member.pod.as_ref().is_some_and(|pod| pod.older_template)
}

/// Whether the member stays and its pod was made from the present `spec.template`.
#[must_use]
pub fn has_present_template(s: &Snapshot, member: &Member) -> bool {
    !s.leaves(member) && member.pod.as_ref().is_some_and(|pod| !pod.older_template)
}

/// Whether the member's pod may be deleted now for an update.
///
/// # Errors
/// The first rule that does not hold; with the time at which it will hold.
pub fn update_member(s: &Snapshot, member: &Member) -> Held {
    match update_idle(s, member) {
        Ok(()) => Ok(()),
        Err(_) => update_in_role(s, member),
    }
}

/// The same for a member that is in no role: its containers do not run, it waits to be started beside a primary that serves, or nobody serves and its last command
/// failed. A template that does not work never blocks the one that does (E5, E36).
///
/// # Errors
/// The first rule that does not hold.
pub fn update_idle(s: &Snapshot, member: &Member) -> Held {
    if is_about_version(s, member) {
        return replace_pod(s, member);
    }
    host_updates(s)?;
    has_older_template(s, member).or_else(|violation| holds_up_all(s, member).then_some(()).ok_or(violation))?;
    // Another one that has what failed gets what works; the canary keeps its pod.
    let tried = s.record.canary_of(&s.group.update).map(|canary| canary.pod_uid.as_str());
    if !s.record.stopped_at_canary(&s.group.update) || member.pod.as_ref().map(|pod| pod.uid.as_str()) == tried {
        template_has_not_failed(s)?;
    }
    let name = &member.name;
    keeps_pod_until_replaced(s, member)?;
    if waits_with_older_template(s, member) {
        return can_take_command(s, member);
    }
    let is_pending = member.pod.as_ref().is_some_and(|pod| pod.phase == Phase::Pending);
    // Where it may lead is elsewhere if nothing ever ran in this pod.
    let may_lead = s.why_may_be_primary(name).filter(|_| !(is_pending && has_never_run(member)));
    if let Some(why) = may_lead {
        return Err(broken_by(Rule::MayBePrimary, name, format!("{name} may be primary: {why}")));
    }
    let is_safe =
        !member.claims.is_empty() || !s.leading().is_empty() || has_never_run(member) || s.group.active_passive;
    if is_pending && is_safe && s.record.intent_of(name).is_none() {
        return Ok(());
    }
    can_take_command(s, member)?;
    if s.group.active_passive && matches!(s.role(member).0, Role::Starting | Role::Failed) {
        return Ok(());
    }
    if s.role(member).0 != Role::Stopped || is_idle_on_purpose(s, member) {
        return Err(broken_by(Rule::WrongRole, name, format!("{name} is {}", role_word(s.role(member).0))));
    }
    if !s.leading().is_empty() {
        return Ok(());
    }
    // Nobody serves. A pod without a volume may have the only copy of the data, and a member that works may be the next to lead.
    match s.record.member(name).failures > 0 && !member.claims.is_empty() && s.record.intents.is_empty() {
        true => Ok(()),
        false => Err(broken(Rule::NobodyServes, "no primary serves")),
    }
}

/// Whether the member leaves, and its pod of an older template never ran anything, while nobody leads: its data may be the latest, and has to be read before anybody is started; or while all stop, for it is read last. Where nothing is started nothing
/// is read: the next active member has no label yet in the round in which it is chosen, and that choice must not rest on a deletion that the second look refuses (seed 7003517).
fn holds_up_all(s: &Snapshot, member: &Member) -> bool {
    let never_starts = |pod: &Pod| pod.older_template && pod.outdated && pod.phase == Phase::Pending;
    let is_waiting = member.pod.as_ref().is_some_and(never_starts) && has_never_run(member);
    let is_read = s.group.is_stopped() || s.leading().is_empty();
    s.leaves(member) && is_waiting && is_read && !s.group.active_passive
}

/// Whether no container of the pod was ever started, so that it has no data beside volumes. A container that waits to be started again had some.
pub(super) fn has_never_run(member: &Member) -> bool {
    member.pod.as_ref().is_some_and(|pod| pod.containers.values().all(|container| container.id.is_none()))
}

/// Nothing is started in a pod that is deleted first.
///
/// # Errors
/// [`Rule::TargetReplaced`].
pub fn keeps_pod(s: &Snapshot, member: &Member) -> Held {
    match awaits_update(s, member) && update_idle(s, member).is_ok() {
        true => Err(broken_by(Rule::TargetReplaced, &member.name, "it gets a new pod first")),
        false => Ok(()),
    }
}

/// The same for a member that is in its role, or stopped on purpose.
pub(super) fn update_in_role(s: &Snapshot, member: &Member) -> Held {
    update_group(s)?;
    has_older_template(s, member)?;
    keeps_pod_until_replaced(s, member)?;
    in_no_other_batch(s, member)?;
    let name = &member.name;
    can_take_command(s, member)?;
    if !is_in_role(s, member) {
        return Err(broken_by(Rule::WrongRole, name, format!("{name} is {}", role_word(s.role(member).0))));
    }
    let batch = batch_of(s, member);
    rest_is_well(s, member, batch)?;
    // What is stopped on purpose has to take nothing over, and starts as on any other volume.
    if !is_idle_on_purpose(s, member) {
        has_its_volumes(s, member)?;
    }
    // Of two voters the other one alone is no majority, whoever goes.
    if s.members.len() > 2 {
        quorum_without(s, name)?;
        lists_are_fresh(s, member, batch)?;
    }
    match s.serves(member) {
        true => primary_is_last(s, member),
        false => Ok(()),
    }
}

/// Whether the only primary may give up the lead so that its pod can be replaced: every other member has the present template and is in its role, and one of them could lead.
///
/// # Errors
/// The first rule that does not hold.
pub fn gives_up_lead(s: &Snapshot, primary: &Member) -> Held {
    let name = &primary.name;
    update_group(s)?;
    has_older_template(s, primary)?;
    keeps_pod_until_replaced(s, primary)?;
    in_no_other_batch(s, primary)?;
    if !has_to_give_up_lead(s, primary) {
        return Err(broken_by(Rule::NoSuccessor, name, "no other member could lead"));
    }
    others_are_updated(s, primary)?;
    rest_is_well(s, primary, Batch::Member)?;
    // One that is only being asked something is ready a moment later; who takes over is looked at once more then.
    let may_lead = |m: &Member| is_successor(s, &Member { asked: false, ..m.clone() }) && !s.is_cordoned(m);
    match s.members.iter().any(may_lead) {
        true => Ok(()),
        false => Err(broken_by(Rule::NoSuccessor, name, "no secondary is ready to lead")),
    }
}

/// This operator replaces pods, nobody decides otherwise, the template is that of the `StatefulSet`, and it has not failed.
pub(super) fn update_group(s: &Snapshot) -> Held {
    host_updates(s)?;
    // Whoever is in its role keeps its pod, of whichever template that is.
    match s.record.stopped_at_canary(&s.group.update) {
        true => template_has_not_failed(s),
        false => Ok(()),
    }
}

/// The same, whatever became of the template.
fn host_updates(s: &Snapshot) -> Held {
    if s.group.update.mode != Mode::ByOperator || s.group.paused || s.active_override().is_some() {
        return Err(broken(Rule::AdministratorDecides, "updates are left to an administrator, or an override is set"));
    }
    if is_converting(s) {
        return Err(broken(Rule::NotConverted, "members stop one after the other before the data is converted"));
    }
    configuration_is_there(s)?;
    match s.set.as_ref().is_some_and(|set| !set.unseen) {
        true => Ok(()),
        false => Err(broken(
            Rule::NotAtRest,
            "the StatefulSet does not have the present template yet, or its controller has not seen it",
        )),
    }
}

/// Pods of the present template can start, as far as their configuration is concerned. The way back goes to a template with a configuration of its own.
pub(super) fn configuration_is_there(s: &Snapshot) -> Held {
    match s.group.update.config_missing && s.record.fallback(&s.group.update).is_none() {
        true => Err(broken(
            Rule::NotAtRest,
            "a ConfigMap or Secret is not there without which no pod of the present template starts",
        )),
        false => Ok(()),
    }
}

pub(super) fn has_older_template(s: &Snapshot, member: &Member) -> Held {
    let name = &member.name;
    if !awaits_update(s, member) {
        return Err(broken_by(Rule::NotAtRest, name, format!("{name} has the present template, or leaves")));
    }
    // Without another revision the next pod would be the same.
    match member.pod.as_ref().is_some_and(|pod| pod.outdated) {
        true => Ok(()),
        false => Err(broken_by(Rule::NotAtRest, name, "the StatefulSet does not have the new template yet")),
    }
}

/// How many go at a time. The first one that gets a template is watched, so it goes alone.
fn batch(s: &Snapshot) -> Batch {
    let update = &s.group.update;
    let has_passed = s.record.canary_of(update).is_some_and(|canary| canary.verdict == Some(Verdict::Passed));
    match update.canary == 0 || s.record.is_rolled_back(update) || has_passed {
        true => update.batch,
        false => Batch::Member,
    }
}

/// The same for that member: a single primary is the last, and one without a volume has a copy of the data in its pod, so neither goes along with others.
fn batch_of(s: &Snapshot, member: &Member) -> Batch {
    let is_sole = s.serves(member) && s.group.desired_primaries() < 2;
    let has_only_copy = member.claims.is_empty() && !s.group.active_passive;
    if is_sole || has_only_copy { Batch::Member } else { batch(s) }
}

/// Where members agree, and one of those that go along is gone already, the others said a moment ago who is healthy: a list from before does not know it.
fn lists_are_fresh(s: &Snapshot, member: &Member, batch: Batch) -> Held {
    let mut others = s.members.iter().filter(|other| goes_along(s, batch, member, other));
    if s.group.commands.membership.is_none() || others.all(|other| is_in_its_place(s, other).is_ok()) {
        return Ok(());
    }
    let until = super::agreed(s)?.since.saturating_add(limits::LIST_FRESH_SECONDS);
    match s.now <= until {
        true => Ok(()),
        false => Err(broken_by(Rule::ListUnknown, &member.name, "the lists of the members have to be read again")),
    }
}

/// Whether the other member may be without a pod at the same time as the member (B27).
fn goes_along(s: &Snapshot, batch: Batch, member: &Member, other: &Member) -> bool {
    let is_near = match batch {
        Batch::Member => false,
        Batch::Zone => s.zone(member).is_some_and(|zone| s.zone(other) == Some(zone)),
        Batch::All => true,
    };
    is_near && other.name != member.name
}

/// Enough primaries serve without the member and those that go along with it. A single primary does not go along: it is the last, and gives up the lead first.
fn primaries_serve_without(s: &Snapshot, member: &Member, batch: Batch) -> Held {
    if batch == Batch::Member || s.group.desired_primaries() < 2 {
        return primaries_serve(s);
    }
    let reached = |m: &Member| m.leads_clients() && !s.is_surplus(m) && is_in_its_place(s, m).is_ok();
    let stays = |m: &Member| m.name != member.name && s.serves(m) && reached(m);
    if !s.members.iter().any(stays) {
        return Err(broken(Rule::NobodyServes, format!("no other primary than {} serves", member.name)));
    }
    let is_known = |name: &MemberName| s.member(name).is_some_and(|m| s.serves(m) || goes_along(s, batch, member, m));
    match s.may_be_primary().into_iter().find(|(name, _)| !is_known(name)) {
        Some((name, why)) => Err(broken_by(Rule::MayBePrimary, &name, format!("{name} may be primary too: {why}"))),
        None => Ok(()),
    }
}

/// Nothing is going on, and every other member that does not go along is there, in its role and Ready for as long as the user wants.
fn rest_is_well(s: &Snapshot, member: &Member, batch: Batch) -> Held {
    if let Some(intent) = s.record.intents.first() {
        let message = format!("{} on {} is not settled", intent.command, intent.member);
        return Err(broken_by(Rule::MemberBusy, &intent.member, message));
    }
    if s.record.switchover.as_ref().is_some_and(super::Switchover::is_open) {
        return Err(broken(Rule::NotAtRest, "the lead moves"));
    }
    primaries_serve_without(s, member, batch)?;
    members_are_there(s)?;
    // One of a former version that does not work waits for the cut-over, and the cut-over for the present template.
    let waits = |other: &Member| leaves_together(s, other) && !is_in_role(s, other);
    let stays = |other: &&Member| other.name != member.name && !goes_along(s, batch, member, other) && !waits(other);
    let others = || s.members.iter().filter(stays);
    others().try_for_each(|other| is_in_its_place(s, other))?;
    let (wait, uptime) = (i64::from(s.group.update.wait), i64::from(s.group.update.min_uptime));
    s.members.iter().filter(|_| uptime > 0).try_for_each(|any| has_been_ready(s, any, uptime))?;
    others().filter(|_| wait > 0).try_for_each(|other| has_been_ready(s, other, wait))?;
    canary_allows(s)?;
    // Its pod may be evicted at any moment: the group would lack two members at a time, a lead that has to move nobody to go to, or those that agree their majority.
    let counts = |other: &&Member| stays(other) || s.serves(other) || s.group.commands.membership.is_some();
    let others = s.members.iter().filter(|other| other.name != member.name);
    match others.filter(counts).find(|other| s.is_cordoned(other)) {
        Some(other) => {
            Err(broken_by(Rule::NotAtRest, &other.name, format!("the node of {} is to be drained", other.name)))
        }
        None => Ok(()),
    }
}

/// Nobody has the template yet, or the first one that got it was watched for long enough (E32, E34).
pub(super) fn canary_allows(s: &Snapshot) -> Held {
    let update = &s.group.update;
    // Pods that go back get a template that is known to work.
    let is_back = s.record.is_rolled_back(update);
    if update.canary == 0 || update.template.is_empty() || is_back {
        return Ok(());
    }
    let has_it = |m: &&Member| has_present_template(s, m);
    let Some(canary) = s.record.canary_of(update) else {
        return match s.members.iter().find(has_it) {
            Some(m) => {
                Err(broken_by(Rule::NotAtRest, &m.name, format!("{} is to be watched with the new template", m.name)))
            }
            None => Ok(()),
        };
    };
    template_has_not_failed(s)?;
    match canary.verdict {
        Some(_) => Ok(()),
        None => Err(broken_by(
            Rule::NotAtRest,
            &canary.member,
            format!("{} is watched with the new template", canary.member),
        )),
    }
}

/// Whether a policy may say now that the template works on that member: it is the first one that got it, is watched, and is in its role.
///
/// # Errors
/// The first rule that does not hold.
pub fn may_be_judged(s: &Snapshot, watched: &MemberName, member: &Member) -> Held {
    let name = &member.name;
    if name != watched {
        return Err(broken_by(Rule::WrongRole, name, format!("{watched} is watched with the new template")));
    }
    match works_with_template(s, member) {
        true => Ok(()),
        false => Err(broken_by(Rule::NotAtRest, name, format!("{name} is not in its role with the new template yet"))),
    }
}

/// Nobody gets a template that failed on the first one that got it (E38).
pub(super) fn template_has_not_failed(s: &Snapshot) -> Held {
    let update = &s.group.update;
    let is_tried = update.canary > 0 && !s.record.is_rolled_back(update);
    let canary = s.record.canary_of(update).filter(|_| is_tried);
    match canary.and_then(|canary| Some((&canary.member, canary.failure()?))) {
        Some((member, why)) => {
            Err(broken_by(Rule::NotAtRest, member, format!("the template failed on {member}: {why}")))
        }
        None => Ok(()),
    }
}

/// Whether the pod is on its way to an end that its template has nothing to do with.
#[must_use]
pub fn is_taken_away(pod: &Pod) -> bool {
    matches!(pod.phase, Phase::Unreachable | Phase::Terminating)
}

/// What is observed of the member once its pod is deleted. The rules for those that go along are held against that.
pub fn take_pod_away(s: &mut Snapshot, name: &MemberName) {
    let pods = s.members.iter_mut().filter(|m| &m.name == name).filter_map(|m| m.pod.as_mut());
    pods.for_each(|pod| pod.phase = Phase::Terminating);
}

/// Whether every desired member works with the present template, and nothing is under way.
#[must_use]
pub fn template_works(s: &Snapshot) -> bool {
    let rests = s.set.is_some() && !s.group.is_stopped() && s.record.intents.is_empty() && members_are_there(s).is_ok();
    rests && s.members.iter().all(|member| works_with_template(s, member))
}

/// Whether the member has a pod of the present template and is in its role and Ready, for `spec.update.waitSeconds` if that is set.
#[must_use]
pub fn works_with_template(s: &Snapshot, member: &Member) -> bool {
    let is_new = member.pod.as_ref().is_some_and(|pod| !pod.older_template);
    is_new && is_in_its_place(s, member).is_ok() && has_been_ready(s, member, i64::from(s.group.update.wait)).is_ok()
}

/// Why a member does not get into its role with a pod of the present template, as far as that may be due to the template. `None`: it is in its role, has an older one, leaves, its
/// node does not report, or a new member has no place.
#[must_use]
pub fn fails_with_template(s: &Snapshot, member: &Member) -> Option<Violation> {
    let Some(pod) = &member.pod else {
        let missing = s.set.as_ref()?.missing.get(&member.name)?;
        let message = format!("Kubernetes refuses to create the pod of {}: {}", member.name, missing.refused.as_ref()?);
        return Some(broken_by(Rule::NotAtRest, &member.name, message)).filter(|_| !s.leaves(member));
    };
    // Another one comes in its place.
    let is_replaced = is_being_replaced(s, member);
    match is_replaced
        || is_arriving(s, member)
        || pod.older_template
        || s.leaves(member)
        || is_taken_away(pod)
        || has_no_place(s, member)
    {
        true => None,
        false => is_in_its_place(s, member).err(),
    }
}

/// Whether the member is new and its pod has no node, which says nothing of the template (E37). One that comes in the place of another one has to find a place: the template may exclude all nodes. A zone may
/// have none.
#[must_use]
pub fn has_no_place(s: &Snapshot, member: &Member) -> bool {
    let is_new = s.record.member(&member.name).term.is_none();
    let is_called = s.record.seats.as_ref().is_some_and(|seats| seats.is_successor(member.ordinal))
        && !super::zones::comes_to_a_zone(s, member);
    member.pod.as_ref().is_some_and(|pod| pod.node.is_none()) && is_new && !is_called
}

/// Whether the member is confirmed in its role, and clients reach it: its pod is Ready and belongs to the group.
///
/// # Errors
/// What is missing.
pub fn is_in_its_place(s: &Snapshot, member: &Member) -> Held {
    let name = &member.name;
    let Some(pod) = member.pod.as_ref().filter(|_| s.reachable(member)) else {
        return Err(broken_by(Rule::NotAtRest, name, format!("{name} has no pod that runs")));
    };
    if !is_in_role(s, member) {
        let message = format!("{name} is {}, and not confirmed in its role", role_word(s.role(member).0));
        return Err(broken_by(Rule::NotAtRest, name, message));
    }
    match pod.ready && pod.stray.is_none() {
        true => Ok(()),
        false => Err(broken_by(Rule::NotAtRest, name, format!("the pod of {name} is not Ready"))),
    }
}

pub(super) fn is_in_role(s: &Snapshot, member: &Member) -> bool {
    s.confirmed(member, Role::Primary) || s.confirmed(member, Role::Secondary) || is_idle_on_purpose(s, member)
}

/// Whether the member is stopped and stays so, because enough primaries serve and the group has no secondaries.
fn is_idle_on_purpose(s: &Snapshot, member: &Member) -> bool {
    let enough = s.serving().len() >= s.group.desired_primaries();
    s.role(member).0 == Role::Stopped && enough && s.group.commands.secondary.is_none()
}

/// Whether the lead moves before that primary's pod is deleted: it is the only one that is desired, and others can follow it.
fn has_to_give_up_lead(s: &Snapshot, primary: &Member) -> bool {
    let is_sole = sole_primary(s).is_some_and(|sole| sole.name == primary.name);
    // Of two voters the other one could not lead alone.
    let others_can = || quorum_without(s, &primary.name).is_ok();
    is_sole && s.members.len() > 1 && (s.group.commands.secondary.is_some() || s.group.active_passive) && others_can()
}

pub(super) fn others_are_updated(s: &Snapshot, primary: &Member) -> Held {
    // One that led and is on its way to an end goes along.
    let goes = |m: &Member| {
        let is_gone = m.pod.as_ref().is_some_and(is_taken_away);
        is_gone && s.record.member(&m.name).primary_term == Some(s.record.term)
    };
    // Of two versions side by side those of before stay as they are, until the primary among the new ones has the template, too.
    let stays = |m: &Member| is_side_by_side(s) && is_being_replaced(s, m);
    let is_before =
        |m: &&Member| m.name != primary.name && !s.serves(m) && awaits_update(s, m) && !goes(m) && !stays(m);
    let other = s.members.iter().find(is_before);
    match other {
        Some(other) => Err(broken_by(
            Rule::PrimaryLast,
            &primary.name,
            format!("{} gets a new pod before the primary", other.name),
        )),
        None => Ok(()),
    }
}

/// A primary's pod is deleted only after all that are no primaries, where it need not give up the lead first, and never with the only copy of the data.
fn primary_is_last(s: &Snapshot, primary: &Member) -> Held {
    let name = &primary.name;
    others_are_updated(s, primary)?;
    if has_to_give_up_lead(s, primary) {
        gives_up_lead(s, primary)?;
        return Err(broken_by(Rule::PrimaryLast, name, format!("{name} gives up the lead first")));
    }
    let has_copy = |m: &&Member| s.confirmed(m, Role::Primary) || s.confirmed(m, Role::Secondary);
    match primary.claims.is_empty() && !s.group.active_passive && s.members.iter().filter(has_copy).count() < 2 {
        true => Err(broken_by(
            Rule::OnlyCopy,
            name,
            format!(
                "{name} has the only copy of the data, in a pod without a volume; delete the pod yourself if the data may be lost"
            ),
        )),
        false => Ok(()),
    }
}
