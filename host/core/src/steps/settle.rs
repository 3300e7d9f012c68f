//! Settle: every open intent is settled by evidence, never by repeating its command (promise 3; docs/safety.md, S1-S5, S9).
mod change;
mod hook;
mod run;
mod upgrade;

use crate::check;
use crate::contract::{Failure, MemberName, Outcome, Phase, Position, Role, Timestamp};
use crate::evidence::Cause;
use crate::limits;
use crate::memory;
use crate::over;
use crate::over::NotOver;
use crate::plan::{Action, DeletionCause, Plan, Reason};
use crate::policy::Policies;
use crate::record::{Broken, Event, Intent, LastPrimary, Seeded, Verb, cut};
use crate::snapshot::{Evidence, Member, Override, Pod, Snapshot};
use crate::steps::{recover, upgrade as conversion};
use tanist_protocol::why::Word;

/// Reasons for which the runner did not start a command at all: role or sequence had changed just before the start, the operator ended before it
/// began the command, another command was faster, or the pod is ending.
const NEVER_TRIED: [Word; 5] = [Word::Role, Word::Sequence, Word::Void, Word::Busy, Word::ShuttingDown];

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    for intent in &s.record.intents {
        settle_intent(s, plan, intent);
    }
}

/// What the runner says of a command that it started and that no longer runs, without an exit code: it was ended at its deadline or by the shutdown
/// of its container, or its result was pruned. Its token cannot be started again.
const ENDED: [Word; 3] = [Word::Deadline, Word::ShuttingDown, Word::Forgotten];

/// Where the command of an intent ran, as it is now.
enum CommandPlace<'a> {
    /// The container still runs.
    Here(&'a Member, &'a Pod),
    /// The pod is the same, and the container ended or was replaced. What ran there is over, but a request that is still under way would start the command in
    /// the next container of the pod.
    Restarted(&'a Member, &'a Pod),
    /// Its pod ended, or is gone and proven over: no process of the command runs any more, and none can start, for a runner starts nothing that is meant for
    /// another pod.
    Over,
    /// The pod is gone or its node does not report, and nothing is proven.
    Lost(NotOver),
}

fn settle_intent(s: &Snapshot, plan: &mut Plan, intent: &Intent) {
    if intent.verb.changes_members() {
        return change::settle(s, plan, intent);
    }
    if intent.verb.is_hook() {
        return hook::settle(s, plan, intent);
    }
    if intent.verb == Verb::Upgrade {
        return upgrade::settle(s, plan, intent);
    }
    let evidence = s.evidence.get(&intent.token);
    let place = match locate(s, intent) {
        CommandPlace::Restarted(member, pod) if may_start_late(s, intent, pod, evidence) => {
            let why = "its container started anew, and its runner has not said yet that it does not start it any more";
            return handle_unknown(s, plan, intent, member, pod, &why.into());
        }
        // In which of the two containers it ran shows in the role.
        CommandPlace::Restarted(member, pod) if evidence == Some(&Evidence::Exited(0)) && !intent.verb.stops() => {
            CommandPlace::Here(member, pod)
        }
        CommandPlace::Restarted(..) => CommandPlace::Over,
        other => other,
    };
    match (evidence, place) {
        (Some(Evidence::Exited(0)), CommandPlace::Here(member, pod)) => confirm_role(s, plan, intent, member, pod),
        (Some(Evidence::Exited(code)), CommandPlace::Here(_, pod)) => {
            close_failed(
                s,
                plan,
                intent,
                Outcome::Exited(*code),
                Some(pod),
                &format!("{} exited {code}", intent.command),
            );
        }
        (Some(Evidence::Exited(code)), CommandPlace::Over) if *code != 0 => {
            close_failed(s, plan, intent, Outcome::Exited(*code), None, &format!("{} exited {code}", intent.command));
        }
        // The command was not started, so it did not fail: the question is asked again, after a short pause.
        (Some(Evidence::NotStarted(why)), _) if why.is_one_of(&NEVER_TRIED) => close_untried(s, plan, intent, why),
        (Some(Evidence::NotStarted(why)), _) => close_not_started(s, plan, intent, why),
        (_, CommandPlace::Over) if intent.verb.stops() => close_succeeded(s, plan, intent, None),
        // What it did is on the volume.
        (Some(Evidence::Exited(0)), CommandPlace::Over) if intent.verb == Verb::Convert => {
            close_succeeded(s, plan, intent, s.member(&intent.member));
        }
        (_, CommandPlace::Over) => {
            let why = format!("the container of {} ended while {} ran", intent.member, intent.command);
            close_failed(s, plan, intent, Outcome::Unknown, None, &why);
        }
        (Some(Evidence::Interrupted), CommandPlace::Here(_, pod)) => {
            let why = format!("{} was ended by a restart of its container", intent.command);
            close_failed(s, plan, intent, Outcome::Unknown, Some(pod), &why);
        }
        (Some(Evidence::Running), CommandPlace::Here(member, pod)) => wait_for_end(s, plan, intent, member, pod),
        (Some(Evidence::Unknown(why)), CommandPlace::Here(member, pod)) => {
            handle_unknown(s, plan, intent, member, pod, why)
        }
        (None, CommandPlace::Here(member, pod)) => {
            handle_unknown(s, plan, intent, member, pod, &"its result was not found".into())
        }
        (_, CommandPlace::Lost(not)) => {
            let message = format!("the outcome of {} on {} is unknown: {}", intent.command, intent.member, not.why);
            plan.wait_until(Reason::OutcomeUnknown, Some(&intent.member), message, not.until);
        }
        // It is one of the others by now.
        (_, CommandPlace::Restarted(..)) => {}
    }
}

/// Closes the intent of a command that its runner had a reason not to try. After a short pause the question is asked again.
fn close_untried(s: &Snapshot, plan: &mut Plan, intent: &Intent, why: &Cause) {
    let again = intent.started.saturating_add(limits::AGAIN_SECONDS);
    if s.now < again {
        let message = format!("{} on {} was not started: {why}", intent.command, intent.member);
        return plan.wait_until(Reason::CommandRunning, Some(&intent.member), message, Some(again));
    }
    close_intent(plan, intent);
    undo_start(s, plan, intent);
    reopen_switchover(plan, intent);
    plan.record.note(s.now, Event::NotStarted, Some(&intent.member), Some(format!("{}: {why}", intent.command)));
}

/// Closes the intent of a command that could not be started.
fn close_not_started(s: &Snapshot, plan: &mut Plan, intent: &Intent, why: &Cause) {
    // What the API server or the network refused is tried again after a back-off; what the runner could not start may never work.
    if !why.is_one_of(Word::ALL) {
        reopen_switchover(plan, intent);
    }
    let what = format!("{} was not started: {why}", intent.command);
    close_failed(s, plan, intent, Outcome::NotStarted, None, &what);
    undo_start(s, plan, intent);
}

/// Waits for a command that runs. One that runs on after its deadline and `unknownGraceSeconds` is ended like one of unknown outcome.
fn wait_for_end(s: &Snapshot, plan: &mut Plan, intent: &Intent, member: &Member, pod: &Pod) {
    let until = last_resort(s, intent);
    if s.now >= until {
        let why = "it is still running, long after its deadline";
        return handle_unknown(s, plan, intent, member, pod, &why.into());
    }
    let seconds = s.now.saturating_sub(intent.started);
    let message = format!("{} has been running on {} for {seconds} s", intent.command, intent.member);
    plan.wait_until(Reason::CommandRunning, Some(&intent.member), message, Some(until));
}

/// Whether the command, whose container is not the present one any more, may be started by a request that is still under way (docs/rules.md,
/// "Commands"; docs/safety.md, S1): until the runner says what became of it, which also forbids it to start later. Without the runner only this
/// process knows, and only while it waits.
///
/// A late stop could end a member that leads again, so one that did not stop it yet stays open, too, while the next container runs and its runner can be asked. A takeover does not wait for
/// a container that Kubernetes starts later.
fn may_start_late(s: &Snapshot, intent: &Intent, pod: &Pod, evidence: Option<&Evidence>) -> bool {
    let runs = pod.containers.get(&intent.container).is_some_and(|container| container.running);
    (runs || !intent.verb.stops())
        && match evidence {
            Some(Evidence::Running) => true,
            Some(Evidence::Unknown(why)) => s.group.runner && !why.is_one_of(&ENDED),
            None => s.group.runner,
            Some(Evidence::Exited(_) | Evidence::NotStarted(_) | Evidence::Interrupted) => false,
        }
}

fn locate<'a>(s: &'a Snapshot, intent: &Intent) -> CommandPlace<'a> {
    let remembered =
        s.record.last_primaries.iter().find(|l| l.pod_uid == intent.pod_uid && l.container_id == intent.container_id);
    let last = remembered.cloned().unwrap_or_else(|| LastPrimary {
        member: intent.member.clone(),
        pod_uid: intent.pod_uid.clone(),
        container: intent.container.clone(),
        container_id: intent.container_id.clone(),
        node: None,
        grace: 0,
        gone: None,
    });
    match s.pod(&intent.pod_uid) {
        Some((_, pod)) if pod.phase == Phase::Ended => CommandPlace::Over,
        Some((member, pod)) if over::container_over(pod, &last) => CommandPlace::Restarted(member, pod),
        Some((_, pod)) if pod.phase == Phase::Unreachable => {
            CommandPlace::Lost(NotOver { why: "its node does not report".into(), until: None })
        }
        Some((member, pod)) => CommandPlace::Here(member, pod),
        // A command after which its member does not lead is over with its pod. If it was to stop a primary, that primary is in `last_primaries` anyway.
        None if !intent.verb.may_lead() => CommandPlace::Over,
        None => match over::prove_over(s, &last) {
            Ok(_) => CommandPlace::Over,
            Err(not) => CommandPlace::Lost(not),
        },
    }
}

/// Whether that role shows that the command worked. Where the members elect, one that was started as a secondary may have been elected before anybody looked, and one that forms
/// their cluster is not elected at once.
fn is_shown(s: &Snapshot, intent: &Intent, role: Role) -> bool {
    let was_elected = || intent.verb == Verb::Place && role == Role::Primary && check::is_formed(s);
    let forms = || matches!(intent.verb, Verb::Seed | Verb::Recover) && role == Role::Secondary && check::elect(s);
    intent.verb.is_shown_by(role) || was_elected() || forms()
}

/// The command exited 0; it counts once `status` agrees (S4).
fn confirm_role(s: &Snapshot, plan: &mut Plan, intent: &Intent, member: &Member, pod: &Pod) {
    let (role, _) = s.seen(member);
    if is_shown(s, intent, role) {
        return close_succeeded(s, plan, intent, Some(member));
    }
    if let Some(why) = check::why_given_up(s, intent, member) {
        let what = format!("{} exited 0 and waits for others; {why}", intent.command);
        close_intent(plan, intent);
        return plan.record.note(s.now, Event::CommandFailed, Some(&intent.member), Some(what));
    }
    let exited = intent.exited.unwrap_or(s.now);
    if let Some(open) = plan.record.intents.iter_mut().find(|i| i.token == intent.token) {
        open.exited = Some(exited);
    }
    let patience = match role {
        Role::Starting if intent.verb.intended() != Role::Stopped => i64::from(s.group.start_deadline),
        _ => limits::CONFIRM_SECONDS,
    };
    let until = exited.saturating_add(patience);
    let message = format!("{} on {} exited 0; status says {}", intent.command, intent.member, over::role_word(role));
    if s.now < until {
        let pause = s.now.saturating_sub(exited).div_euclid(10).clamp(1, limits::CONFIRM_PAUSE_SECONDS);
        let again = s.now.saturating_add(pause).min(until);
        return plan.wait_until(Reason::ConfirmingRole, Some(&intent.member), message, Some(again));
    }
    // A role that cannot be read is not a failure: a primary that may be healthy is not stopped for that (S19).
    if role == Role::Unknown {
        return handle_unknown(s, plan, intent, member, pod, &"it exited 0, and status cannot be read".into());
    }
    let why = format!("{} exited 0, but status says {} {patience} s later", intent.command, over::role_word(role));
    close_failed(s, plan, intent, Outcome::Exited(0), Some(pod), &why);
}

/// When a command of unknown outcome is ended by deleting its pod (docs/requirements.md, reading 27). A process that noted the start before this one
/// began may have had a wrong clock, so only the time since then counts (docs/safety.md, S28).
fn last_resort(s: &Snapshot, intent: &Intent) -> Timestamp {
    s.counts_from(intent.started).saturating_add(i64::from(intent.timeout)).saturating_add(grace(s))
}

/// Seconds from the deadline of a command, counted from when it was noted, to its last resort.
fn grace(s: &Snapshot) -> i64 {
    i64::from(s.group.unknown_grace).max(limits::BEGIN_SECONDS)
}

/// Handles a command of unknown outcome. Only the intended role, read live, shows that it worked, and not even that if the member had that role
/// before. As the last resort the pod is deleted (S2; docs/requirements.md, reading 27).
fn handle_unknown(s: &Snapshot, plan: &mut Plan, intent: &Intent, member: &Member, pod: &Pod, why: &Cause) {
    if intent.role_proves() && is_shown(s, intent, s.seen(member).0) {
        return close_succeeded(s, plan, intent, Some(member));
    }
    if let Some(why) = why_repeatable(s, intent, why) {
        return close_failed(s, plan, intent, Outcome::Unknown, None, &why);
    }
    let until = last_resort(s, intent);
    let message = format!("the outcome of {} on {} is unknown: {why}", intent.command, intent.member);
    if s.now < until {
        return plan.wait_until(Reason::OutcomeUnknown, Some(&intent.member), message, Some(until));
    }
    if s.group.paused {
        return plan.wait(
            Reason::OutcomeUnknown,
            Some(&intent.member),
            format!("{message}; its pod is not deleted while the group is paused"),
        );
    }
    plan.wait(Reason::OutcomeUnknown, Some(&intent.member), format!("{message}; its pod is deleted to end it"));
    if matches!(pod.phase, Phase::Running | Phase::Pending) {
        let grace = grace(s);
        let reason = format!("the outcome of {} was still unknown {grace} s after its deadline", intent.command);
        plan.record.note(s.now, Event::PodDeleted, Some(&intent.member), Some(reason.clone()));
        let (member, pod_uid) = (intent.member.clone(), pod.uid.clone());
        plan.actions.push(Action::DeletePod { member, pod_uid, cause: DeletionCause::Failure, reason });
    }
}

/// Why a command of unknown outcome is closed as failed, so that it is repeated after its back-off. `None`: it is not. This is only done if no role
/// can show the outcome and the runner says that the command no longer runs, so that repeating it does no harm. Without the runner a follow is
/// repeated when its time and `unknownGraceSeconds` are over; the pod of a working secondary is not deleted for that.
fn why_repeatable(s: &Snapshot, intent: &Intent, why: &Cause) -> Option<String> {
    if intent.role_proves() {
        return None;
    }
    if s.group.runner && why.is_one_of(&ENDED) {
        return Some(format!("{} did not run to its end: {why}", intent.command));
    }
    let waited = !s.group.runner && intent.verb == Verb::Follow && s.now >= last_resort(s, intent);
    let grace = grace(s);
    waited.then(|| format!("the outcome of {} was still unknown {grace} s after its deadline", intent.command))
}

fn close_succeeded(s: &Snapshot, plan: &mut Plan, intent: &Intent, member: Option<&Member>) {
    close_intent(plan, intent);
    match intent.verb.intended() {
        Role::Primary | Role::Secondary => record_started(s, plan, intent, member),
        _ if intent.verb == Verb::Convert => record_converted(s, plan, intent, member),
        _ if intent.verb == Verb::Wipe => record_wiped(plan, intent),
        _ => record_stopped(s, plan, intent),
    }
}

/// Whether it did what it said shows when the sequence is read once more, before the member goes (`shrink`). Until then the failures before it count, and no failure of this command is open.
fn record_wiped(plan: &mut Plan, intent: &Intent) {
    let known = plan.record.member_mut(&intent.member);
    (known.last_failure, known.retry_at, known.broken) = (None, None, None);
    (known.sequence, known.started, known.untold) = (None, None, None);
}

fn record_started(s: &Snapshot, plan: &mut Plan, intent: &Intent, member: Option<&Member>) {
    let primary = member.is_some_and(|m| s.seen(m).0 == Role::Primary);
    let version = plan.record.version.clone();
    let known = plan.record.member_mut(&intent.member);
    known.record_success();
    // A start of an earlier term told it nothing about the primary of a later one.
    known.untold.take_if(|mark| mark.term <= intent.term);
    known.term = Some(intent.term);
    known.version = version;
    known.followed_since = !primary && known.primary_term == Some(intent.term);
    // A sequence that was read before is of an older term: the data may have been replaced by a copy, or its history ended with the promotion. It
    // stays valid only for the member that opens the term in an application without histories.
    known.sequence.take_if(|read| !intent.verb.opens_term() || read.history.is_some());
    // Where members agree the identity is on the volume on which it was started: the present one may have taken its place since.
    let identity = known.claim_uid.take().filter(|_| s.group.commands.membership.is_some());
    known.claim_uid = identity.or_else(|| member.and_then(|m| memory::claim_uids(&m.claims)));
    if primary || intent.verb.makes_primary() {
        plan.record.ever_seeded = Some(Seeded { member: seeded_by(plan, intent), confirmed: true });
    }
    if primary {
        let known = plan.record.member_mut(&intent.member);
        known.primary_term = Some(intent.term);
        known.last_primary = Some(s.now);
        if let Some(pod) = member.and_then(|m| m.pod.as_ref()) {
            plan.record.push_last_primary(LastPrimary::of(intent, pod));
        }
    }
    plan.record.membership.iter_mut().for_each(|list| list.note_started(&intent.member));
    let what = if primary { Event::BecamePrimary } else { Event::BecameSecondary };
    plan.record.note(s.now, what, Some(&intent.member), None);
    if intent.verb == Verb::Recover {
        recover::give_up_others(s, plan, &intent.member);
    }
}

/// The member has the data of its term, and can lead from it. It did not lead yet.
fn record_converted(s: &Snapshot, plan: &mut Plan, intent: &Intent, member: Option<&Member>) {
    let known = plan.record.member_mut(&intent.member);
    known.record_success();
    (known.untold, known.sequence) = (None, None);
    (known.term, known.version) = (Some(intent.term), intent.version.clone());
    known.claim_uid = member.and_then(|m| memory::claim_uids(&m.claims)).or(known.claim_uid.take());
    conversion::converted(s, plan, &intent.member, intent.version.as_deref());
}

fn seeded_by(plan: &Plan, intent: &Intent) -> MemberName {
    plan.record.ever_seeded.as_ref().map_or_else(|| intent.member.clone(), |e| e.member.clone())
}

fn record_stopped(s: &Snapshot, plan: &mut Plan, intent: &Intent) {
    plan.record.member_mut(&intent.member).broken = None;
    plan.record.note(s.now, Event::Stopped, Some(&intent.member), Some(intent.verb.as_str().to_owned()));
}

fn close_failed(s: &Snapshot, plan: &mut Plan, intent: &Intent, outcome: Outcome, pod: Option<&Pod>, why: &str) {
    close_intent(plan, intent);
    let known = plan.record.member_mut(&intent.member);
    known.record_failure(Failure { command: intent.command.clone(), outcome, at: s.now });
    if let Some(pod) = pod {
        let status = pod.containers.get(&s.group.commands.status.container).and_then(|c| c.id.clone());
        known.broken =
            Some(Broken { pod_uid: pod.uid.clone(), container_id: status.unwrap_or_default(), reason: cut(why) });
    }
    plan.record.note(s.now, Event::CommandFailed, Some(&intent.member), Some(why.to_owned()));
}

/// Removes from the record what was noted in case the command ran: it was not started and never will be under this token. The last-primary entry
/// belongs to this command, because no command that makes a primary starts in a container in which a primary may run.
fn undo_start(s: &Snapshot, plan: &mut Plan, intent: &Intent) {
    if intent.verb.may_lead() {
        plan.record.last_primaries.retain(|l| l.pod_uid != intent.pod_uid || l.container_id != intent.container_id);
    }
    if let Some(recovery) = plan.record.recovery.as_mut().filter(|_| intent.verb == Verb::Recover) {
        recovery.tries = recovery.tries.saturating_sub(1);
    }
    // What was decided with it did not happen. It names an earlier term by now, and the administrator is told so.
    let rests =
        |o: &Override| o.member == intent.member && o.term.saturating_add(1) == intent.term && intent.verb.opens_term();
    let requested = s.group.requested_override.as_ref().filter(|o| rests(o));
    plan.record.used_override.take_if(|used| requested.is_some_and(|o| o.raw == *used));
    if !intent.again && (intent.verb == Verb::Convert || intent.verb.intended() != Role::Stopped) {
        let known = plan.record.member_mut(&intent.member);
        let began = known.started.take().is_some_and(|started| started.before == Position::Empty);
        // Where members agree the volume is that of an identity, which did not begin.
        known.claim_uid.take_if(|_| began && s.group.commands.membership.is_some());
    }
}

/// A stop that never began is no switchover that failed.
fn reopen_switchover(plan: &mut Plan, intent: &Intent) {
    let open = plan.record.switchover.as_mut().filter(|h| intent.verb == Verb::Switchover && h.is_open());
    open.into_iter().for_each(|h| h.begun = None);
}

fn close_intent(plan: &mut Plan, intent: &Intent) {
    plan.record.intents.retain(|i| i.token != intent.token);
}
