//! Recover: a majority of an application that agrees is lost, or its members are in two clusters, and an administrator gave up all but one of them. Whoever runs is stopped, then that one is started alone. No policy is asked,
//! and nothing of this is done without the request (docs/requirements.md, D8, D27).
use crate::check::{self, Asked, Serves};
use crate::contract::{MemberName, Role};
use crate::limits;
use crate::membership;
use crate::memory;
use crate::over;
use crate::over::role_word;
use crate::plan::{Plan, Reason};
use crate::policy::Policies;
use crate::record::{Event, Intent, Membership, Recovery, Stage, Verb};
use crate::snapshot::{Evidence, Member, RecoveryRequest, Snapshot};
use crate::steps::{begin, lists, positions};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    let requested = match check::asked(s) {
        Asked::Nothing => return withdraw(s, plan),
        Asked::Unfit(why) => {
            plan.wait(Reason::RecoverInvalid, None, why);
            return withdraw(s, plan);
        }
        Asked::Fits(requested) => requested,
    };
    // What is awaited of it the step before says.
    if s.record.intents.iter().any(|intent| intent.verb == Verb::Recover) {
        return;
    }
    let is_accepted = |known: &Recovery| known.stage == Stage::Accepted && known.request == requested.raw;
    let serve = || check::may_be_refused(s) && matches!(check::serves(s), Serves::Somebody(_) | Serves::Unread(_));
    if !s.record.recovery.as_ref().is_some_and(is_accepted) || serve() {
        return accept(s, plan, requested);
    }
    let waiting: Vec<&Intent> = s.record.intents.iter().filter(|intent| waits_for_others(s, intent)).collect();
    if !waiting.is_empty() {
        return give_up_starts(s, plan, requested, &waiting);
    }
    if halt(s, plan, requested) {
        start(s, plan, requested);
    }
}

/// The request is not there any more, or does not fit. What had an effect already stays as it is.
fn withdraw(s: &Snapshot, plan: &mut Plan) {
    let Some(known) = s.record.recovery.as_ref().filter(|known| known.stage == Stage::Accepted) else { return };
    if !known.is_begun() {
        plan.record.recovery = None;
        return;
    }
    if s.record.intents.iter().all(|intent| intent.verb != Verb::Recover) {
        let name = &known.member;
        let message = format!(
            "the recovery of {name} was begun and did not succeed; nobody is started until it is asked for again: tanist recover {} --from {name}",
            s.group.name
        );
        plan.wait(Reason::RecoverInvalid, Some(name), message);
    }
}

/// Looks whether the members serve. A request that meets members that serve is never done, also not when they lose their majority later.
fn accept(s: &Snapshot, plan: &mut Plan, requested: &RecoveryRequest) {
    let name = &requested.member;
    let served = check::serves(s);
    let apart = served == Serves::Apart;
    let stage = match served {
        Serves::Unread(unread) => {
            for member in s.members.iter().filter(|m| membership::is_asked(s, m)) {
                lists::ask(s, plan, member, limits::LIST_AGAIN_SECONDS);
            }
            let message = format!("{name} is to be recovered; first it is asked whether the members serve");
            let again = s.now.saturating_add(limits::LIST_AGAIN_SECONDS);
            return plan.wait_until(Reason::RecoverPending, unread.first(), message, Some(again));
        }
        Serves::Somebody(who) => {
            let why = format!("members serve ({who}), so none of them is recovered");
            plan.record.note(s.now, Event::RecoveryRefused, Some(name), Some(why.clone()));
            plan.wait(Reason::RecoverInvalid, Some(name), format!("{why}; remove the annotation tanist.dev/recover"));
            Stage::Refused
        }
        Serves::Nobody | Serves::Apart => {
            let message = format!("{name} is to be recovered, as an administrator wants; the others are given up");
            plan.wait_until(Reason::RecoverPending, Some(name), message, Some(s.now.saturating_add(1)));
            Stage::Accepted
        }
    };
    let before = s.record.recovery.as_ref().filter(|known| known.is_begun());
    if stage == Stage::Refused && before.is_some() {
        return;
    }
    let tries = before.map_or(0, |known| known.tries);
    plan.record.recovery = Some(Recovery { request: requested.raw.clone(), member: name.clone(), stage, apart, tries });
}

/// Whether it is a start whose command has ended well, and whose member waits for others since. It may wait for as long as a majority may be away.
fn waits_for_others(s: &Snapshot, intent: &Intent) -> bool {
    let starts = matches!(intent.verb, Verb::Seed | Verb::Failover | Verb::Join | Verb::Place | Verb::Rejoin);
    let ended = s.evidence.get(&intent.token) == Some(&Evidence::Exited(0)) && intent.exited.is_some();
    let is_starting = |(member, _): (&Member, _)| s.seen(member).0 == Role::Starting;
    starts && ended && s.pod(&intent.pod_uid).is_some_and(is_starting)
}

/// Those starts are not awaited any more, so that their members can be stopped.
fn give_up_starts(s: &Snapshot, plan: &mut Plan, requested: &RecoveryRequest, waiting: &[&Intent]) {
    for intent in waiting {
        plan.record.intents.retain(|open| open.token != intent.token);
        let why = format!("{} is not awaited any more: {} is to be recovered", intent.command, requested.member);
        plan.record.note(s.now, Event::CommandFailed, Some(&intent.member), Some(why));
    }
    let message =
        format!("{} is to be recovered; members that wait for a majority are stopped first", requested.member);
    plan.wait_until(Reason::RecoverPending, Some(&requested.member), message, Some(s.now.saturating_add(1)));
}

/// Stops whoever runs, the named member too. Returns whether nobody is left to stop.
fn halt(s: &Snapshot, plan: &mut Plan, requested: &RecoveryRequest) -> bool {
    let name = &requested.member;
    let mut none = true;
    for member in s.members.iter().filter(|m| s.reachable(m) && over::may_run(s, m)) {
        let role = s.role(member).0;
        if role == Role::Stopped {
            continue;
        }
        none = false;
        match check::halt_member(s, member) {
            Ok(()) => begin::begin(s, plan, Verb::Halt, &member.name),
            Err(violation) => {
                let message = format!(
                    "{name} is to be recovered; {} is {} and has to be stopped first: {violation}",
                    member.name,
                    role_word(role)
                );
                plan.wait_until(Reason::RecoverPending, Some(&member.name), message, violation.until);
            }
        }
    }
    none
}

/// Starts the named member alone, once every other one is proven to be stopped.
fn start(s: &Snapshot, plan: &mut Plan, requested: &RecoveryRequest) {
    let name = &requested.member;
    let Some(member) = s.member(name) else { return };
    let wait = |plan: &mut Plan, violation: check::Violation| {
        // A sequence that could not be read is read again after a while.
        let unread = violation.rule == check::Rule::PositionUnknown;
        let again = unread.then(|| s.now.saturating_add(limits::UNKNOWN_POSITION_SECONDS));
        let about = violation.member.clone().unwrap_or_else(|| name.clone());
        let message = format!("{name} is not recovered yet: {violation}");
        plan.wait_until(Reason::RecoverPending, Some(&about), message, violation.until.or(again));
    };
    if let Err(violation) = check::recover_group(s) {
        return wait(plan, violation);
    }
    if s.reachable(member) && !positions::all_current(s, plan, [member]) {
        return;
    }
    match check::recover_member(s, member) {
        Ok(()) => begin::begin(s, plan, Verb::Recover, name),
        Err(violation) => wait(plan, violation),
    }
}

/// The member leads alone. It is the only one that is listed; the identities of the others are over, so what is on their volumes belongs to nobody, and they can only come back as new members.
pub fn give_up_others(s: &Snapshot, plan: &mut Plan, member: &MemberName) {
    let mut given_up = Vec::new();
    for (name, known) in plan.record.members.iter_mut().filter(|(name, _)| *name != member) {
        (known.started, known.claim_uid) = (None, None);
        given_up.push(name.to_string());
    }
    let volumes = s.member(member).and_then(|named| memory::claim_uids(&named.claims));
    plan.record.member_mut(member).claim_uid = volumes;
    plan.record.recovered_term = Some(plan.record.term);
    plan.record.membership = Some(Membership::alone(member, plan.record.membership.as_ref()));
    let recovery = plan.record.recovery.get_or_insert_with(|| Recovery::recalled(member));
    (recovery.stage, recovery.tries) = (Stage::Done, 0);
    let detail = (!given_up.is_empty()).then(|| format!("given up: {}", given_up.join(", ")));
    plan.record.note(s.now, Event::Recovered, Some(member), detail);
}
