//! Canary: the first member with a changed template is watched (`spec.update.canarySeconds`; E30, E31, E32, E34, E37, E38). The others follow once it was in its role and Ready for that long without a break. When its container is
//! restarted, its `status` says failed, its `check` does not exit 0, or it takes longer than an update may, the template has failed: nobody else gets it until the template changes, and with `onFailure: RollBack` pods go back.
//! A policy may judge earlier, or hold the others back (`judge`); what failed for one of these reasons has failed whatever it says.
//! Members in whose pods nothing works are no reason to wait: they get the new template at once, because it may be their cure (E5).
use crate::check;
use crate::contract::{Answer, Role};
use crate::limits;
use crate::plan::{Action, Plan, Reason};
use crate::policy::{Point, Policies, Reply};
use crate::record::{Canary, Event, Verdict, cut};
use crate::snapshot::{Former, Member, Mode, Pod, Query, Snapshot};
use crate::steps::ask::{self, Opinion};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    let update = &s.group.update;
    let stays = |canary: &Canary| s.member(&canary.member).is_some_and(|member| !s.leaves(member));
    let known = plan.record.canary.take().filter(|canary| canary.template == update.template);
    let known = known.filter(|canary| canary.verdict.is_some() || stays(canary));
    let is_back = s.record.is_rolled_back(update);
    if update.canary == 0 || update.template.is_empty() || is_back {
        return;
    }
    // A group without members tries nothing, and what failed has failed.
    if s.group.is_stopped() && update.mode != Mode::ByHand {
        return plan.record.canary = known.filter(|canary| canary.failure().is_some());
    }
    match update.mode {
        Mode::ByOperator => {}
        // A pause does not take back what was found; an open watch begins anew after it.
        Mode::Paused => return plan.record.canary = known.filter(|canary| canary.verdict.is_some()),
        Mode::ByHand => return,
    }
    if s.record.stopped_at_canary(update) {
        known.iter().for_each(|canary| told(plan, canary));
        return plan.record.canary = known;
    }
    // Without an older template nobody waits for the canary: all have the new one, or the group is growing (E37).
    let waits = |needs: fn(&Pod) -> bool| {
        let mut waiting = s.members.iter().filter(|member| check::awaits_update(s, member));
        waiting.any(|member| member.pod.as_ref().is_some_and(needs))
    };
    if !waits(|_| true) {
        return;
    }
    // A pod that never got a node is replaced at once: nobody is watched for it.
    let Some(mut canary) = known.or_else(|| first(s).filter(|_| waits(|pod| pod.node.is_some()))) else { return };
    let judged = match canary.verdict {
        None => watch(s, policies, plan, &mut canary),
        Some(_) => Judged::ByHost,
    };
    match &canary.verdict {
        Some(Verdict::Passed) => {}
        Some(Verdict::Failed(_)) => {
            told(plan, &canary);
            plan.record.fallback.take_if(|_| !update.rolls_back && !can_stop(s, &canary));
        }
        None => plan.wait(Reason::Canary, Some(&canary.member), watched(s, &canary, &judged)),
    }
    plan.record.canary = Some(canary);
}

/// Whether pods can be made from the template before the one that failed. It has to be known by now: what cannot be read would leave the group without objects. And where the canary came in the place of
/// another member, the template tells these two apart.
fn can_stop(s: &Snapshot, canary: &Canary) -> bool {
    let seats = s.record.seats.as_ref();
    let comes_for = |member: &Member| seats.is_some_and(|seats| seats.is_successor(member.ordinal));
    s.group.update.former == Former::Kept && !s.member(&canary.member).is_some_and(comes_for)
}

fn told(plan: &mut Plan, canary: &Canary) {
    let (member, why) = (&canary.member, canary.failure().unwrap_or_default());
    let message = format!(
        "spec.template failed on {member}, the first member that got it: {why}; nobody else gets it: change spec.template"
    );
    plan.wait(Reason::CanaryFailed, Some(member), message);
}

/// Without how long it has been watched: a status that changed in each round would be written in each round.
fn watched(s: &Snapshot, canary: &Canary, judged: &Judged) -> String {
    let (member, seconds) = (&canary.member, s.group.update.canary);
    if let Judged::Waits(why) = judged {
        return format!("{member} has the new template and is watched before others get it; {why}");
    }
    match canary.since {
        Some(_) => format!("{member} has the new template and is watched for {seconds} s before others get it"),
        None => format!("{member} has the new template and is to be in its role for {seconds} s before others get it"),
    }
}

/// The first member with the present template. `None`: nobody has it yet.
fn first(s: &Snapshot) -> Option<Canary> {
    let has_it = |m: &&Member| check::has_present_template(s, m) && !check::has_no_place(s, m);
    // Of several that got it at once the one that would have been the first.
    let member = s.members.iter().filter(has_it).max_by_key(|m| m.ordinal)?;
    let (template, pod_uid) = (s.group.update.template.clone(), member.pod.as_ref()?.uid.clone());
    Some(Canary {
        template,
        member: member.name.clone(),
        pod_uid,
        container: None,
        begun: s.now,
        since: None,
        unjudged: None,
        verdict: None,
    })
}

/// Looks how it does, and judges when that is clear. Returns what a policy says of it.
fn watch(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan, canary: &mut Canary) -> Judged {
    let seconds = i64::from(s.group.update.canary);
    (canary.begun, canary.since) = (s.counts_from(canary.begun), canary.since.map(|since| s.counts_from(since)));
    let (found, is_away) = seen(s, canary);
    match found {
        // What becomes of its pod or its node is not due to the template: the watch begins anew when it is back.
        _ if is_away => {
            if canary.unjudged.is_none() || canary.since.is_some() {
                (canary.begun, canary.unjudged) = (s.now, Some(s.now));
            }
            (canary.since, canary.container) = (None, None);
        }
        Some((member, pod)) => {
            if pod.uid != canary.pod_uid {
                (canary.pod_uid, canary.since, canary.container) = (pod.uid.clone(), None, None);
            }
            look(s, canary, member, pod);
        }
        None => canary.since = None,
    }
    let passes = canary.since.map(|since| since.saturating_add(seconds));
    let said = if canary.verdict.is_none() { examine(s, plan, canary) } else { Examined::Well };
    if let Examined::Badly(why) = &said {
        canary.verdict = Some(Verdict::Failed(why.clone()));
    }
    let judged = if canary.verdict.is_none() { ask(s, policies, plan, canary) } else { Judged::ByHost };
    let counts = !is_away && judged != Judged::Unknown;
    spare(s, canary, counts);
    let is_good = match &judged {
        Judged::Works(_) => is_checked(s, canary),
        Judged::ByHost => passes.is_some_and(|at| s.now >= at) && said == Examined::Well,
        Judged::Waits(_) | Judged::Unknown | Judged::Fails(_) => false,
    };
    if canary.verdict.is_none() && is_good {
        canary.verdict = Some(Verdict::Passed);
        // The next one goes in the next round: until then the record may not be written.
        plan.look_again_at(s.now.saturating_add(1));
        let why = if let Judged::Works(why) = &judged { Some(why.clone()) } else { None };
        plan.record.note(s.now, Event::CanaryPassed, Some(&canary.member), why);
        return judged;
    }
    // A policy that is broken, or a pod that is away, says nothing about the template.
    if canary.verdict.is_none() && counts {
        canary.verdict = failed(s, canary, &said, &judged).map(Verdict::Failed);
    }
    match &canary.verdict {
        Some(Verdict::Failed(why)) => {
            plan.record.note(s.now, Event::CanaryFailed, Some(&canary.member), Some(why.clone()))
        }
        _ => {
            // Afterwards only an answer of `check` or of a policy is awaited, which starts a round.
            let overdue = Some(overdue(s, canary)).filter(|_| counts);
            let next = passes.into_iter().chain(overdue).filter(|at| *at > s.now).min();
            next.into_iter().for_each(|at| plan.look_again_at(at));
        }
    }
    judged
}

/// The time in which a policy gives no answer, or the pod is away, does not count: a template does not fail because a script has a mistake.
fn spare(s: &Snapshot, canary: &mut Canary, counts: bool) {
    if !counts {
        canary.unjudged.get_or_insert(s.now);
    } else if let Some(since) = canary.unjudged.take() {
        canary.begun = canary.begun.saturating_add(s.now.saturating_sub(since.max(canary.begun)));
    }
}

/// When the template has failed if it did not pass before. The last check begins when the time is over, and may take its own.
fn overdue(s: &Snapshot, canary: &Canary) -> i64 {
    let check = s.group.commands.check.as_ref().map_or(0, |command| i64::from(command.timeout));
    let update = &s.group.update;
    let overdue = canary.begun.saturating_add(i64::from(update.canary)).saturating_add(i64::from(update.timeout));
    // It counts as in its role only after `waitSeconds`.
    overdue.saturating_add(i64::from(update.wait)).saturating_add(check)
}

/// Why the template has failed: a policy says so, or it took too long. `None`: it has not.
fn failed(s: &Snapshot, canary: &Canary, said: &Examined, judged: &Judged) -> Option<String> {
    if let Judged::Fails(why) = judged {
        return Some(why.clone());
    }
    if s.now < overdue(s, canary) {
        return None;
    }
    let (seconds, waited) = (s.group.update.canary, s.now.saturating_sub(canary.begun));
    Some(match (said, judged) {
        (_, Judged::Waits(why)) => cut(&format!("nobody said in {waited} s that it works: {why}")),
        (Examined::Silent(None), _) if canary.since.is_some() => format!("check gave no answer in {waited} s"),
        (Examined::Silent(Some(why)), _) => cut(&format!("check gave no answer in {waited} s: {why}")),
        _ => format!("it was not in its role for {seconds} s without a break, in {waited} s"),
    })
}

/// What a policy says of the template (docs/rules.md, "Update").
#[derive(Debug, PartialEq, Eq)]
enum Judged {
    /// Nothing: the host judges by time.
    ByHost,
    /// It works, and why.
    Works(String),
    /// It is not clear yet, and why.
    Waits(String),
    /// It does not work, and why.
    Fails(String),
    /// Nothing that could be used, though it may have an opinion; the plan says why.
    Unknown,
}

/// Asks whether the template works.
fn ask(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan, canary: &Canary) -> Judged {
    if !policies.has(Point::Judge) || canary.since.is_none() {
        return Judged::ByHost;
    }
    // A policy sees the watch as it is now.
    let mut now = s.clone();
    now.record.canary = Some(canary.clone());
    let bars = ask::bars(&now, |member| check::may_be_judged(&now, &canary.member, member));
    let answered = match ask::ask_optional(&now, policies, plan, Point::Judge, &bars) {
        Opinion::None => return Judged::ByHost,
        Opinion::NoAnswer | Opinion::NotYet => return Judged::Unknown,
        Opinion::Of(answered) => answered,
    };
    let says = |word: &str, why: &str| cut(&format!("policy {} {word}: {}", answered.policy.name, cut(why)));
    match &answered.reply {
        Reply::Answer(Answer::Choose(ranking)) => {
            let decision = ask::policy_decision(&now, Point::Judge, &answered, ranking, &bars);
            let judged = Judged::Works(says("says that it works", &decision.reason));
            plan.decisions.push(decision);
            judged
        }
        Reply::Answer(Answer::Wait(delay)) => {
            delay.until.into_iter().for_each(|at| plan.look_again_at(at));
            Judged::Waits(says("waits", &delay.reason))
        }
        Reply::Answer(Answer::Refuse(why)) => Judged::Fails(says("says that it does not work", why)),
        Reply::Answer(Answer::Abstain) | Reply::Care(_) => Judged::ByHost,
    }
}

/// The member with its pod, and whether Kubernetes is taking that away, or it copies the data and was in no role yet: then its time has not begun.
fn seen<'s>(s: &'s Snapshot, canary: &Canary) -> (Option<(&'s Member, &'s Pod)>, bool) {
    let found = s.member(&canary.member).and_then(|member| Some((member, member.pod.as_ref()?)));
    (found, found.is_some_and(|(member, pod)| check::is_taken_away(pod) || check::is_arriving(s, member)))
}

fn look(s: &Snapshot, canary: &mut Canary, member: &Member, pod: &Pod) {
    let container = pod.containers.get(&s.group.commands.status.container).and_then(|container| container.id.clone());
    let (role, detail) = s.role(member);
    if canary.container.is_some() && container != canary.container {
        canary.verdict = Some(Verdict::Failed("its container was restarted".into()));
        return;
    }
    if canary.since.is_some() && role == Role::Failed {
        canary.verdict = Some(Verdict::Failed(cut(&detail.unwrap_or_else(|| "its status says failed".into()))));
        return;
    }
    // It counts as working only after `waitSeconds`, and a container may end again and again before that.
    if canary.container.is_none() && check::is_in_its_place(s, member).is_ok() {
        canary.container = container;
    }
    canary.since = Some(canary.since.unwrap_or(s.now)).filter(|_| check::works_with_template(s, member));
}

/// What `check` says of the application with the changed template.
#[derive(Debug, PartialEq, Eq)]
enum Examined {
    /// It exited 0, and no further answer is needed. Also where the group has no `check`.
    Well,
    /// It exited with another code.
    Badly(String),
    /// An answer is awaited; why the last try gave none.
    Silent(Option<String>),
}

/// Whether `check` exited 0 since the watch began, or there is none.
fn is_checked(s: &Snapshot, canary: &Canary) -> bool {
    let answer = s
        .answers
        .get(&(Query::Check, canary.member.clone()))
        .filter(|answer| canary.since.is_some_and(|since| answer.at >= since));
    s.group.commands.check.is_none() || answer.is_some_and(|answer| answer.said == Ok(0))
}

/// Has `check` run while the member is in its role, and once more when the time of the watch is over: whoever passes was well at the end.
fn examine(s: &Snapshot, plan: &mut Plan, canary: &Canary) -> Examined {
    let (Some(since), Some(_)) = (canary.since, &s.group.commands.check) else { return Examined::Well };
    let passes = since.saturating_add(i64::from(s.group.update.canary));
    let answer = s.answers.get(&(Query::Check, canary.member.clone())).filter(|answer| answer.at >= since);
    let code = answer.and_then(|answer| answer.said.as_ref().ok());
    if let Some(code) = code.filter(|code| **code != 0) {
        return Examined::Badly(format!("check exited {code}"));
    }
    let is_last = answer.is_some_and(|answer| answer.at >= passes);
    if code.is_some() && is_last {
        return Examined::Well;
    }
    let next = answer.map(|answer| answer.ended.saturating_add(limits::CHECK_SECONDS));
    let due = match (next, code) {
        // After a good answer nobody waits longer than the watch lasts.
        (Some(next), Some(_)) => next.min(passes.max(s.now)),
        (next, _) => next.unwrap_or(s.now),
    };
    if s.now < due {
        plan.look_again_at(due);
    } else if let (Some(member), false) = (s.member(&canary.member), plan.touches(&canary.member))
        && check::can_take_command(s, member).is_ok()
        && let Some(pod) = &member.pod
    {
        plan.actions.push(Action::Ask { query: Query::Check, member: member.name.clone(), pod_uid: pod.uid.clone() });
    }
    Examined::Silent(answer.and_then(|answer| answer.said.clone().err()))
}
