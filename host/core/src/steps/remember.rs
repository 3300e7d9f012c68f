//! Remember: this round's observations that later rounds need go into the record. Nothing is started here.
mod gone;
pub(super) mod untold;

use crate::contract::{MemberName, Phase, Position, Role, Timestamp};
use crate::membership::{self, Entry, Said};
use crate::memory;
use crate::over;
use crate::plan::{Plan, Reason};
use crate::policy::Policies;
use crate::record::{Event, Intent, LastPrimary, LostPrimary, Mark, MemberRecord, Record, Seeded, Verb};
use crate::snapshot::{Member, Pod, Snapshot};
use std::collections::BTreeSet;

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    clear_backoff(s, plan);
    adopt(s, plan);
    adopt_listed(s, plan);
    forget_identities(s, plan);
    note_first_volumes(s, plan);
    for ahead in memory::ahead(s) {
        plan.wait(Reason::ClaimChanged, Some(ahead.member), ahead.to_string());
    }
    for member in &s.members {
        drop_start_without_effect(s, plan, member);
        note_followed(s, plan, member);
        forget_follow_command(s, plan, member);
        forget_stopped_peer(s, plan, member);
        record_primary(s, plan, member);
        record_position(s, plan, member);
    }
    untold::forget(s, plan);
    untold::mark_seen(s, plan);
    note_ran(s, plan);
    update_last_primaries(s, plan);
    note_lost_primary(s, plan);
    record_replicas(s, plan);
    gone::forget(s, plan);
}

/// Notes which member led last and where, from the first round in which no primary serves until one serves again. Its node and zone are those where it
/// led, so they are kept when its pod moves and when the node is gone.
fn note_lost_primary(s: &Snapshot, plan: &mut Plan) {
    let before = plan.record.lost_primary.take();
    if s.group.is_stopped() || !s.serving().is_empty() {
        return;
    }
    let Some(led) = plan.record.last_led().cloned() else { return };
    let known = before.filter(|lost| lost.member == led);
    let ran = s.record.last_primaries.iter().rfind(|last| last.member == led).and_then(|last| last.node.clone());
    let node = known.as_ref().and_then(|lost| lost.node.clone()).or(ran);
    let seen = node.as_ref().and_then(|node| s.nodes.as_ref()?.get(node)?.zone.clone());
    let zone = known.and_then(|lost| lost.zone).or(seen);
    plan.record.lost_primary = Some(LostPrimary { member: led, node, zone });
}

/// Clears every back-off after a new generation or a new value of `tanist.dev/retry`.
fn clear_backoff(s: &Snapshot, plan: &mut Plan) {
    let record = &mut plan.record;
    if record.cleared_generation == s.group.generation && record.cleared_retry == s.group.retry {
        return;
    }
    record.cleared_generation = s.group.generation;
    record.cleared_retry.clone_from(&s.group.retry);
    record.clear_backoff();
}

/// Adopts a running application that the record does not know, if it is certain that no other member is primary (A32, A49).
fn adopt(s: &Snapshot, plan: &mut Plan) {
    if !knows_nobody(&s.record) || !s.record.intents.is_empty() {
        return;
    }
    let in_role = |role| s.members.iter().filter(move |m| s.reachable(m) && s.role(m).0 == role);
    let primaries: Vec<_> = in_role(Role::Primary).collect();
    let Some(first) = primaries.first() else { return };
    if primaries.len() > s.group.desired_primaries() {
        let names: Vec<_> = primaries.iter().map(|m| m.name.to_string()).collect();
        let desired = s.group.primaries;
        let message = format!(
            "primaries: {}; desired: {desired}; nothing is recorded about which of them led; stop the surplus ones by hand",
            names.join(", ")
        );
        plan.wait(Reason::NeedsAdoption, None, message.clone());
        plan.needs_adoption = Some(message);
        return;
    }
    let maybe = s.may_be_primary();
    if let Some((name, why)) = maybe.iter().find(|(name, _)| primaries.iter().all(|m| &m.name != *name)) {
        let message =
            format!("{name} may be primary too: {why}; the running application is adopted once that is settled");
        return plan.wait(Reason::MayBePrimary, Some(name), message);
    }
    let term = plan.record.term.max(1);
    plan.record.term = term;
    plan.record.ever_seeded = Some(Seeded { member: first.name.clone(), confirmed: true });
    for member in primaries.iter().copied().chain(in_role(Role::Secondary)) {
        let known = plan.record.member_mut(&member.name);
        known.term = Some(term);
        known.claim_uid = memory::claim_uids(&member.claims);
    }
    plan.record.note(
        s.now,
        Event::Adopted,
        None,
        Some(format!("running primaries: {}; nothing was recorded", primaries.len())),
    );
}

/// Whether nothing is recorded of any member. That is also so when the record was lost, and the only start that a claim remembers never began: a later one ran, and could not be noted (S32; simulator,
/// seed 138000136).
#[must_use]
pub fn knows_nobody(record: &Record) -> bool {
    let is_unknown = |known: &MemberRecord| known.term.is_none() && known.started.is_none();
    let is_undone = record.ever_seeded.as_ref().is_some_and(|seeded| !seeded.confirmed)
        && record.high_water.is_none()
        && record.membership.is_none()
        && record.members.values().all(is_unknown);
    record.is_blank() || is_undone
}

/// Adopts a member that runs, and that the record does not know, or whose start was not awaited to its end, because a majority of an application whose members agree lists it as started, and it says so itself: the status was removed,
/// and its claim did not say so either.
fn adopt_listed(s: &Snapshot, plan: &mut Plan) {
    let Said::Agreed(agreed) = membership::said(s) else { return };
    if !agreed.is_confirmed(&s.group.name) {
        return;
    }
    for member in s.members.iter().filter(|m| agreed.by.contains(&m.name) && s.record.intent_of(&m.name).is_none()) {
        let entry = agreed.list.entry(&s.group.name, &member.name);
        let known = s.record.member(&member.name);
        // Nobody waited for that start any longer, and it came to an end all the same.
        let is_begun = known.started.is_some();
        if known.term.is_some() && !is_begun || !entry.is_some_and(Entry::is_started) {
            continue;
        }
        // The list may be remembered before anybody is (seed 9009137).
        let term = plan.record.term.max(1);
        plan.record.term = term;
        plan.record.ever_seeded.get_or_insert_with(|| Seeded { member: member.name.clone(), confirmed: true });
        let known = plan.record.member_mut(&member.name);
        known.record_success();
        (known.term, known.started) = (Some(term), None);
        known.claim_uid = known.claim_uid.take().filter(|_| is_begun).or_else(|| memory::claim_uids(&member.claims));
        let what = if is_begun { "its start was not confirmed" } else { "nothing was recorded" };
        let why = format!("it runs, and the application lists it; {what}");
        plan.record.note(s.now, Event::Adopted, Some(&member.name), Some(why));
    }
}

/// Forgets on which volume a member was started under an identity that is over: a majority lists it under another one, which was not started yet.
fn forget_identities(s: &Snapshot, plan: &mut Plan) {
    let (Said::Agreed(agreed), Some(known)) = (membership::said(s), &s.record.membership) else { return };
    if !agreed.is_confirmed(&s.group.name) {
        return;
    }
    for member in s.members.iter().filter(|m| s.record.intent_of(&m.name).is_none()) {
        let Some(entry) = agreed.list.entry(&s.group.name, &member.name).filter(|e| !e.is_started()) else { continue };
        // The identity of one that was just added is not known before it is listed.
        let same = known.of(&member.name).is_some_and(|before| before.id == entry.id || before.id.is_empty());
        if let Some(memory) = plan.record.members.get_mut(&member.name).filter(|_| !same) {
            (memory.started, memory.claim_uid) = (None, None);
        }
    }
}

/// Notes on which volumes members that were added start for the first time. Once a start was begun, the volume on which that was stays the one.
fn note_first_volumes(s: &Snapshot, plan: &mut Plan) {
    let begun = |member: &Member| s.record.member(&member.name).started.is_some();
    let waiting = |name: &MemberName| s.member(name).filter(|member| !begun(member));
    let volumes = |name: &MemberName| waiting(name).and_then(|member| memory::claim_uids(&member.claims));
    plan.record.membership.iter_mut().for_each(|known| known.note_volumes(volumes));
}

/// Removes the recorded `secondary` or `follow` command of a member that is seen as primary: from now on it may be primary while it is starting
/// (docs/rules.md, "May be primary").
fn forget_follow_command(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let known = plan.record.members.get_mut(&member.name);
    if let Some(known) =
        known.filter(|k| s.seen(member).0 == Role::Primary && over::is_follow_command(k.last_command.as_deref()))
    {
        known.last_command = None;
    }
}

/// Removes a start that failed and changed nothing: the member is stopped and its sequence is the same as before (docs/rules.md, "Term").
fn drop_start_without_effect(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let known = s.record.member(&member.name);
    let Some(started) = &known.started else { return };
    let over = s.record.intent_of(&member.name).is_none() && s.reachable(member) && s.role(member).0 == Role::Stopped;
    // Where members agree another volume says nothing of the one on which it was started: that one has the identity.
    let other = s.group.commands.membership.is_some()
        && known.claim_uid.is_some()
        && known.claim_uid != memory::claim_uids(&member.claims);
    if over
        && !other
        && member.position == started.before
        && matches!(member.position, Position::Known(_) | Position::Empty)
    {
        plan.record.member_mut(&member.name).started = None;
    }
}

/// Notes that a member was seen as secondary or primary before its start was confirmed: from then on it may have data that no other member has.
fn note_followed(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let joins = s.record.intent_of(&member.name).is_some_and(|intent| intent.verb == Verb::Place);
    if !joins || !matches!(s.seen(member).0, Role::Secondary | Role::Primary) {
        return;
    }
    let known = plan.record.members.get_mut(&member.name);
    if let Some(started) = known.and_then(|k| k.started.as_mut()).filter(|started| !started.target) {
        started.followed = true;
    }
}

/// Records a member that is seen as primary as a last primary until it is over, also one of an older term or without a confirmed start: when its node does not report and its pod is deleted by
/// force, only this entry says that it may lead (docs/rules.md, "May be primary"). The same for a member that was primary in this term by its claims and is not seen
/// as stopped or secondary: the record may have been lost while the member could not be read (S32). One that was confirmed as a secondary since is none, although a start that was to make it
/// primary again was refused.
fn record_primary(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let serves = s.serves(member);
    let memory = s.record.member(&member.name);
    let led = s.record.term > 0
        && memory.primary_term == Some(s.record.term)
        && !memory.followed_since
        && !over::is_follow_command(memory.last_command.as_deref());
    let seen = s.seen(member).0;
    let may_lead = led && over::may_run(s, member) && !matches!(seen, Role::Stopped | Role::Secondary);
    let (Some(pod), true) = (&member.pod, serves || may_lead || seen == Role::Primary) else { return };
    let Some(entry) = place(s, member, pod) else { return };
    let is_new = serves && memory.primary_term != Some(s.record.term);
    if serves {
        plan.record.member_mut(&member.name).followed_since = false;
    }
    if is_new {
        let known = plan.record.member_mut(&member.name);
        known.primary_term = Some(s.record.term);
        known.last_primary = Some(s.now);
    }
    plan.record.push_last_primary(entry);
    if is_new {
        // A command that the record lost made it primary in this term (S32): the secondaries follow another one.
        note_other_primary(s, plan, &member.name);
    }
}

fn record_position(s: &Snapshot, plan: &mut Plan, member: &Member) {
    if !(s.group.failover.prefer_running && may_have_unacknowledged(s, member)) {
        note_position(plan, member);
    }
}

/// Records what is known of the member's data, and raises the high-water mark.
pub fn note_position(plan: &mut Plan, member: &Member) {
    let term = term_of_data(plan.record.member(&member.name), &member.position);
    note_data(plan, member, term);
}

/// Records what a member has that may have led, as data of the term in which it was started.
pub fn note_as_latest(plan: &mut Plan, member: &Member) {
    let term = plan.record.member(&member.name).counts_as();
    note_data(plan, member, term);
}

fn note_data(plan: &mut Plan, member: &Member, term: Option<u64>) {
    let (Position::Known(sequence), Some(term)) = (&member.position, term) else { return };
    plan.record.member_mut(&member.name).sequence = Some(sequence.clone());
    memory::raise_high_water(&mut plan.record, Mark { term, sequence: sequence.clone() });
}

/// With `preferRunning` only writes that secondaries have are acknowledged. So a primary may have unacknowledged writes while it runs, and
/// afterwards if it had a secondary.
fn may_have_unacknowledged(s: &Snapshot, member: &Member) -> bool {
    let of_term = |m: &Member| s.record.member(&m.name).term == Some(s.record.term);
    let memory = s.record.member(&member.name);
    let led = memory.primary_term == Some(s.record.term) && !memory.followed_since;
    let followed = s.members.iter().any(|m| m.name != member.name && of_term(m));
    s.role(member).0 == Role::Primary || led && followed
}

/// The term of the data for the high-water mark. Data that a start did not change is of the old term; data that the target of a seed changed is of
/// the new term. `None`: another start changed it, so it may be an incomplete copy.
fn term_of_data(known: &MemberRecord, position: &Position) -> Option<u64> {
    match &known.started {
        Some(started) if &started.before == position => known.term,
        Some(started) if !started.target => None,
        _ => known.counts_as(),
    }
}

/// Notes when the pod of a last primary was first seen to be gone, and drops last primaries that are proven over. The snapshot already has the
/// commands that the settle step closed.
fn update_last_primaries(s: &Snapshot, plan: &mut Plan) {
    let led = |last: &LastPrimary| plan.record.member(&last.member).primary_term == Some(plan.record.term);
    let led: BTreeSet<_> = plan.record.last_primaries.iter().filter(|l| led(l)).map(|l| l.member.clone()).collect();
    let mut ended = Vec::new();
    for last in std::mem::take(&mut plan.record.last_primaries) {
        match over::prove_over(s, &last) {
            // The start may reach the pod's next container, and if that pod is gone, only this entry knows its node.
            Ok(_) if is_being_started(plan, &last) => plan.record.last_primaries.push(last),
            Ok(proof) => {
                plan.record.note(s.now, Event::PrimaryOver, Some(&last.member), Some(proof.into()));
                if led.contains(&last.member) {
                    let known = plan.record.member_mut(&last.member);
                    known.last_primary = known.last_primary.max(Some(last_seen(s, &last)));
                    ended.push(last.member);
                }
            }
            Err(_) => plan.record.last_primaries.push(last),
        }
    }
    // Primaries that are found over at once may have ended one after the other, and the last one acknowledged writes alone.
    for member in ended.iter().filter(|_| led.len() > 1) {
        note_other_primary(s, plan, member);
    }
    for last in &mut plan.record.last_primaries {
        // Whoever deletes a pod may give it more time than its spec does, and a forced deletion later takes that back from nobody who has begun.
        last.grace = s.pod(&last.pod_uid).map_or(last.grace, |(_, pod)| pod.grace.max(last.grace));
        // A pod that is seen again was not gone, so its time starts again.
        last.gone = match s.pod(&last.pod_uid) {
            Some(_) => None,
            None => Some(last.gone.unwrap_or(s.now)),
        };
    }
}

/// Notes where members that agree run, until it is proven that they run there no more. One whose role cannot be read may run, too: its node may have gone dark before anybody asked. Of other members
/// this is noted only while their node does not report: there they may follow on when their pod is gone.
fn note_ran(s: &Snapshot, plan: &mut Plan) {
    let agree = s.group.commands.membership.is_some();
    let is_silent = |m: &Member| m.pod.as_ref().is_some_and(|pod| pod.phase == Phase::Unreachable);
    for member in s.members.iter().filter(|m| (agree || is_silent(m)) && over::may_run(s, m)) {
        let runs = match s.seen(member).0 {
            Role::Primary | Role::Secondary | Role::Starting => true,
            // What is known of an earlier pod is not given up for that.
            Role::Unknown | Role::Failed => plan.record.member(&member.name).ran.is_none(),
            Role::Stopped => false,
        };
        let Some(pod) = member.pod.as_ref().filter(|_| runs) else { continue };
        // An earlier pod is proven over before a member is started in another one. Where a start was begun is noted with its intent.
        if let Some(place) = place(s, member, pod) {
            plan.record.member_mut(&member.name).ran = Some(place);
        }
    }
    for known in plan.record.members.values_mut() {
        known.ran.take_if(|last| over::prove_ended(s, last).is_ok());
        if let Some(last) = &mut known.ran {
            last.gone = s.pod(&last.pod_uid).is_none().then(|| last.gone.unwrap_or(s.now));
        }
    }
}

/// Where the member runs: the container in which `status` is asked. `None`: that container was never started.
fn place(s: &Snapshot, member: &Member, pod: &Pod) -> Option<LastPrimary> {
    let name = &s.group.commands.status.container;
    let container_id = pod.containers.get(name).and_then(|c| c.id.clone())?;
    Some(LastPrimary {
        member: member.name.clone(),
        pod_uid: pod.uid.clone(),
        container: name.clone(),
        container_id,
        node: pod.node.clone(),
        grace: pod.grace,
        gone: None,
    })
}

/// Whether the command that was to make it primary is not settled.
fn is_being_started(plan: &Plan, last: &LastPrimary) -> bool {
    let is_it = |i: &Intent| i.pod_uid == last.pod_uid && i.container_id == last.container_id;
    plan.record.intents.iter().any(|i| i.verb.may_lead() && is_it(i))
}

/// When a primary that is over was last seen as one: when its pod was first seen to be gone, or its role to be another one; at the latest now.
fn last_seen(s: &Snapshot, last: &LastPrimary) -> Timestamp {
    let since = |m: &Member| if s.seen(m).0 == Role::Unknown { s.now } else { m.reading.since };
    last.gone.or_else(|| s.pod(&last.pod_uid).map(|(m, _)| since(m))).unwrap_or(s.now).min(s.now)
}

/// Notes for the secondaries of the present term that one of its primaries stopped beside another one, or came without a command of the record. A member may
/// follow any of its peers, so each secondary is told again, whichever peers it was given (promise 4; docs/rules.md, "Which question arises"). After the only
/// primary of a term a takeover opens a new term, in which every secondary is told anyway, so nothing is noted then.
fn note_other_primary(s: &Snapshot, plan: &mut Plan, primary: &MemberName) {
    // Members that agree follow whom they choose themselves.
    if s.group.commands.membership.is_some() {
        return;
    }
    let term = plan.record.term;
    for member in s.members.iter().filter(|m| &m.name != primary) {
        let Some(known) = plan.record.members.get_mut(&member.name) else { continue };
        known.started.iter_mut().for_each(|started| started.peer_stopped = !started.target);
        // A role that cannot be read for a moment may be that of a secondary.
        let follows = matches!(s.seen(member).0, Role::Secondary | Role::Starting | Role::Unknown);
        known.follow_again |= follows && known.term == Some(term);
    }
}

/// A member that is not secondary any more has nobody to follow: the next command that makes it a secondary tells it.
fn forget_stopped_peer(s: &Snapshot, plan: &mut Plan, member: &Member) {
    if matches!(s.seen(member).0, Role::Stopped | Role::Primary)
        && let Some(known) = plan.record.members.get_mut(&member.name)
    {
        known.follow_again = false;
    }
}

/// Raises the expected number of members; only the shrink step lowers it.
pub(super) fn record_replicas(s: &Snapshot, plan: &mut Plan) {
    plan.record.last_replicas = plan.record.last_replicas.max(s.roster().provided());
    // A member that left and is desired again is an ordinary member once the StatefulSet was told to make its pod: from then on the number of seats explains its
    // claim, also if it is not desired any more (S18, S26).
    let is_back = |m: &Member| !s.leaves(m) && s.roster().was_provided(m);
    plan.record.retired.retain(|name| s.members.iter().all(|m| &m.name != name || !is_back(m)));
}
