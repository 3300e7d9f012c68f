//! Settle: every open intent is settled by evidence, never by repeating (promise 3; docs/safety.md, S1-S5, S9).
use crate::contract::{Failure, MemberName, Outcome, Phase, Role, Timestamp};
use crate::limits;
use crate::memory;
use crate::over;
use crate::over::NotOver;
use crate::plan::{Action, Plan, Reason};
use crate::policy::Policies;
use crate::record::{Broken, Intent, LastPrimary, Seeded, Verb, cut};
use crate::snapshot::{Evidence, Member, Pod, Snapshot};
use crate::steps::begin::push_last_primary;

/// Why the runner did not even try: role or sequence had changed in the moment of the start, the operator ended before it began the command,
/// another command was faster, the pod is ending.
const NEVER_TRIED: [&str; 5] = ["role", "sequence", "void", "busy", "shutting-down"];

/// See the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    for intent in &s.record.intents {
        settle(s, plan, intent);
    }
}

/// What the runner says of a command that it started and that runs no more, without an exit code: it was ended at its deadline or by the shutdown
/// of its container, or its result was pruned. Its token cannot start again.
const ENDED: [&str; 3] = ["deadline", "shutting-down", "forgotten"];

/// Where the command of an intent ran, as it is now.
enum Place<'a> {
    /// The very container runs.
    Here(&'a Member, &'a Pod),
    /// It ended, was replaced, or its pod is gone and proven over: nothing of the command lives.
    Over,
    /// The pod is gone or its node is silent, and nothing is proven.
    Lost(NotOver),
}

fn settle(s: &Snapshot, plan: &mut Plan, intent: &Intent) {
    let evidence = s.evidence.get(&intent.token);
    match (evidence, place(s, intent)) {
        (Some(Evidence::Exited(0)), Place::Here(member, pod)) => confirm(s, plan, intent, member, pod),
        (Some(Evidence::Exited(code)), Place::Here(_, pod)) => {
            fail(s, plan, intent, Outcome::Exited(*code), Some(pod), &format!("{} exited {code}", intent.command));
        }
        (Some(Evidence::Exited(code)), Place::Over) if *code != 0 => {
            fail(s, plan, intent, Outcome::Exited(*code), None, &format!("{} exited {code}", intent.command));
        }
        // Nothing was tried, so nothing failed: the question is asked anew, but not in the same breath.
        (Some(Evidence::NotStarted(why)), _) if NEVER_TRIED.contains(&why.as_str()) => {
            let again = intent.started.saturating_add(limits::AGAIN_SECONDS);
            if s.now < again {
                let message = format!("{} on {} was not tried: {why}", intent.command, intent.member);
                return plan.wait_until(Reason::CommandRunning, Some(&intent.member), message, Some(again));
            }
            close(plan, intent);
            undo(plan, intent);
            plan.record.note(s.now, "not-started", Some(&intent.member), Some(format!("{}: {why}", intent.command)));
        }
        (Some(Evidence::NotStarted(why)), _) => {
            fail(s, plan, intent, Outcome::NotStarted, None, &format!("{} was not started: {why}", intent.command));
            undo(plan, intent);
        }
        (_, Place::Over) if intent.verb.intended() == Role::Stopped => succeed(s, plan, intent, None),
        (_, Place::Over) => {
            let why = format!("the container of {} ended while {} ran", intent.member, intent.command);
            fail(s, plan, intent, Outcome::Unknown, None, &why);
        }
        (Some(Evidence::Interrupted), Place::Here(_, pod)) => {
            let why = format!("{} was cut off by a restart of its container", intent.command);
            fail(s, plan, intent, Outcome::Unknown, Some(pod), &why);
        }
        // A command that outlives its deadline by the grace is ended like one that nobody can ask about.
        (Some(Evidence::Running), Place::Here(member, pod)) if s.now >= last_resort(s, intent) => {
            unknown(s, plan, intent, member, pod, "it runs still, long after its deadline");
        }
        (Some(Evidence::Running), Place::Here(..)) => {
            let message = format!(
                "{} runs on {} since {} s",
                intent.command,
                intent.member,
                s.now.saturating_sub(intent.started)
            );
            plan.wait_until(Reason::CommandRunning, Some(&intent.member), message, Some(last_resort(s, intent)));
        }
        (Some(Evidence::Unknown(why)), Place::Here(member, pod)) => unknown(s, plan, intent, member, pod, why),
        (None, Place::Here(member, pod)) => unknown(s, plan, intent, member, pod, "its result was not found"),
        (_, Place::Lost(not)) => {
            let message = format!("the end of {} on {} is not known: {}", intent.command, intent.member, not.why);
            plan.wait_until(Reason::OutcomeUnknown, Some(&intent.member), message, not.until);
        }
    }
}

fn place<'a>(s: &'a Snapshot, intent: &Intent) -> Place<'a> {
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
        Some((_, pod)) if over::container_over(pod, &last) => Place::Over,
        Some((_, pod)) if pod.phase == Phase::Unreachable => {
            Place::Lost(NotOver { why: "its node does not report".into(), until: None })
        }
        Some((member, pod)) => Place::Here(member, pod),
        // What cannot leave a primary behind is over with its pod: a primary that was to be stopped is a last primary of its own.
        None if !intent.verb.makes_primary() => Place::Over,
        None => match over::over(s, &last) {
            Ok(_) => Place::Over,
            Err(not) => Place::Lost(not),
        },
    }
}

/// The command exited 0; it counts once `status` agrees (S4).
fn confirm(s: &Snapshot, plan: &mut Plan, intent: &Intent, member: &Member, pod: &Pod) {
    let (role, _) = s.seen(member);
    if role == intent.verb.intended() {
        return succeed(s, plan, intent, Some(member));
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
    let message = format!("{} on {} exited 0; status says {}", intent.command, intent.member, over::word(role));
    if s.now < until {
        let pause = s.now.saturating_sub(exited).div_euclid(10).clamp(1, limits::CONFIRM_PAUSE_SECONDS);
        let again = s.now.saturating_add(pause).min(until);
        return plan.wait_until(Reason::ConfirmingRole, Some(&intent.member), message, Some(again));
    }
    // A role that cannot be read is no failure: what may be a healthy primary is not stopped for it (S19).
    if role == Role::Unknown {
        return unknown(s, plan, intent, member, pod, "it exited 0, and status cannot be read");
    }
    let why = format!("{} exited 0, but status says {} {patience} s later", intent.command, over::word(role));
    fail(s, plan, intent, Outcome::Exited(0), Some(pod), &why);
}

/// When a command without a known end is ended by deleting its pod (docs/requirements.md, reading 27).
fn last_resort(s: &Snapshot, intent: &Intent) -> Timestamp {
    intent.deadline().saturating_add(i64::from(s.group.unknown_grace))
}

/// Nobody can say how it ended. Only the intended role, read live, settles a start as done; only stopped settles a stop; and neither does where
/// the member had that role before. At the very last the pod goes (S2, docs/requirements.md, reading 27).
fn unknown(s: &Snapshot, plan: &mut Plan, intent: &Intent, member: &Member, pod: &Pod, why: &str) {
    if intent.role_proves() && s.seen(member).0 == intent.verb.intended() {
        return succeed(s, plan, intent, Some(member));
    }
    if let Some(why) = repeatable(s, intent, why) {
        return fail(s, plan, intent, Outcome::Unknown, None, &why);
    }
    let until = last_resort(s, intent);
    let message = format!("the end of {} on {} is not known: {why}", intent.command, intent.member);
    if s.now < until {
        return plan.wait_until(Reason::OutcomeUnknown, Some(&intent.member), message, Some(until));
    }
    if s.group.paused {
        return plan.wait(
            Reason::OutcomeUnknown,
            Some(&intent.member),
            format!("{message}; its pod is not deleted while paused"),
        );
    }
    plan.wait(Reason::OutcomeUnknown, Some(&intent.member), format!("{message}; its pod is deleted to end it"));
    if pod.phase == Phase::Running {
        let grace = s.group.unknown_grace;
        let reason = format!("{} has had no known end for {grace} s after its deadline", intent.command);
        plan.record.note(s.now, "pod-deleted", Some(&intent.member), Some(reason.clone()));
        plan.actions.push(Action::DeletePod { member: intent.member.clone(), pod_uid: pod.uid.clone(), reason });
    }
}

/// Why a command of unknown end is closed as failed and repeated after its back-off. Only where no role can prove it, so that waiting longer would
/// show nothing, and where repeating does no harm: the runner says that it runs no more. Without the runner nobody can ever say that, so a follow
/// is repeated once it has had all the time that a command without a known end gets; the pod of a secondary that works is not deleted for it.
fn repeatable(s: &Snapshot, intent: &Intent, why: &str) -> Option<String> {
    if intent.role_proves() {
        return None;
    }
    if s.group.runner && ENDED.contains(&why) {
        return Some(format!("{} did not run to its end: {why}", intent.command));
    }
    let waited = !s.group.runner && intent.verb == Verb::Follow && s.now >= last_resort(s, intent);
    let grace = s.group.unknown_grace;
    waited.then(|| format!("{} has had no known end for {grace} s after its deadline", intent.command))
}

fn succeed(s: &Snapshot, plan: &mut Plan, intent: &Intent, member: Option<&Member>) {
    close(plan, intent);
    match intent.verb.intended() {
        Role::Primary | Role::Secondary => started(s, plan, intent, member),
        _ => stopped(s, plan, intent),
    }
}

fn started(s: &Snapshot, plan: &mut Plan, intent: &Intent, member: Option<&Member>) {
    let primary = intent.verb.makes_primary();
    let known = plan.record.member_mut(&intent.member);
    known.succeed();
    known.term = Some(intent.term);
    // What was read before is of an older term: it may have been given up for a copy, or its history ended with the promotion. Only who opens a
    // term in an application without histories goes on from there.
    known.sequence.take_if(|read| !intent.verb.opens_term() || read.history.is_some());
    known.claim_uid = member.and_then(|m| memory::claim_uids(&m.claims));
    if primary {
        known.primary_term = Some(intent.term);
        known.last_primary = Some(s.now);
        plan.record.ever_seeded = Some(Seeded { member: seeded_by(plan, intent), confirmed: true });
        if let Some(pod) = member.and_then(|m| m.pod.as_ref()) {
            let (container, container_id) = (intent.container.clone(), intent.container_id.clone());
            let (node, grace) = (pod.node.clone(), pod.grace);
            let entry = LastPrimary {
                member: intent.member.clone(),
                pod_uid: pod.uid.clone(),
                container,
                container_id,
                node,
                grace,
                gone: None,
            };
            push_last_primary(plan, entry);
        }
    }
    let what = if primary { "became-primary" } else { "became-secondary" };
    plan.record.note(s.now, what, Some(&intent.member), None);
}

fn seeded_by(plan: &Plan, intent: &Intent) -> MemberName {
    plan.record.ever_seeded.as_ref().map_or_else(|| intent.member.clone(), |e| e.member.clone())
}

fn stopped(s: &Snapshot, plan: &mut Plan, intent: &Intent) {
    plan.record.member_mut(&intent.member).broken = None;
    plan.record.note(s.now, "stopped", Some(&intent.member), Some(intent.verb.as_str().to_owned()));
}

fn fail(s: &Snapshot, plan: &mut Plan, intent: &Intent, outcome: Outcome, pod: Option<&Pod>, why: &str) {
    close(plan, intent);
    let known = plan.record.member_mut(&intent.member);
    known.fail(Failure { command: intent.command.clone(), outcome, at: s.now });
    if let Some(pod) = pod {
        let status = pod.containers.get(&s.group.commands.status.container).and_then(|c| c.id.clone());
        known.broken =
            Some(Broken { pod_uid: pod.uid.clone(), container_id: status.unwrap_or_default(), reason: cut(why) });
    }
    plan.record.note(s.now, "command-failed", Some(&intent.member), Some(why.to_owned()));
}

/// Nothing was started and never will be under this token: what was remembered for the case that it was, is not so. A container in which a
/// primary may run gets no command that makes one, so the entry is this command's own.
fn undo(plan: &mut Plan, intent: &Intent) {
    if intent.verb.makes_primary() {
        plan.record.last_primaries.retain(|l| l.pod_uid != intent.pod_uid || l.container_id != intent.container_id);
    }
    if !intent.again && intent.verb.intended() != Role::Stopped {
        plan.record.member_mut(&intent.member).started = None;
    }
}

fn close(plan: &mut Plan, intent: &Intent) {
    plan.record.intents.retain(|i| i.token != intent.token);
}
