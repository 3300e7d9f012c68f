//! Update: `spec.template` changed; which pods are deleted next, so that their members get some of the present template? There is nothing to choose: members that are in
//! no role go at once, then the secondaries from the highest ordinal, one by one or in batches, then the primary, which gives up the lead first (`switchover`).
use crate::check;
use crate::plan::{Action, DeletionCause, Plan, Reason};
use crate::policy::Policies;
use crate::record::{Event, Updating, Verdict, cut};
use crate::snapshot::{Batch, Member, Mode, Snapshot};
use std::cmp::Reverse;

/// The reason of the deletion that users see.
const WHY: &str = "it has an older template than the group";

/// Members that are in no role: before anything is started in their pods.
pub fn idle(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    if s.group.is_stopped() {
        return;
    }
    for member in s.members.iter().filter(|m| check::awaits_update(s, m)) {
        if !plan.touches(&member.name) && check::update_idle(s, member).is_ok() {
            replace(s, plan, member);
        }
    }
}

/// The next member that is in its role. It comes after all that a round may find more urgent.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    s.group.update.config_settles.into_iter().for_each(|at| plan.look_again_at(at));
    if let Some(trouble) = &s.group.update.config_trouble {
        plan.wait(Reason::ConfigUnknown, None, cut(trouble));
    }
    let old: Vec<&Member> = s.members.iter().filter(|m| check::awaits_update(s, m)).collect();
    let by_host = s.group.update.mode == Mode::ByOperator && !s.group.is_stopped();
    let Some(next) = next(s, &old).filter(|_| by_host) else {
        plan.record.updating = None;
        return;
    };
    let mut wait = match check::update_member(s, next) {
        _ if plan.touches(&next.name) => format!("{} gets a new pod", next.name),
        // What is applied may be the new template; another object that the API server refuses holds up no update.
        _ if plan.actions.iter().any(|a| matches!(a, Action::Apply(object) if object.kind == "StatefulSet")) => {
            format!("{} is next, when the StatefulSet is as desired", next.name)
        }
        Ok(()) => {
            let names = replace_batch(s, plan, next, &old);
            let verb = if names.contains(' ') { "get new pods" } else { "gets a new pod" };
            format!("{names} {verb}")
        }
        Err(violation) => {
            violation.until.into_iter().for_each(|at| plan.look_again_at(at));
            format!("{} is next: {violation}", next.name)
        }
    };
    let left = u32::try_from(old.len()).unwrap_or(u32::MAX);
    wait = format!(
        "{} of {} pods have the present template; {wait}",
        s.members.len().saturating_sub(old.len()),
        s.members.len()
    );
    plan.wait(Reason::Updating, Some(&next.name), wait);
    let update = &s.group.update;
    // While the first member is watched the others are meant to wait; when the template failed on it, that is reported already.
    match s.record.canary_of(update).filter(|canary| update.canary > 0 && canary.verdict != Some(Verdict::Passed)) {
        Some(_) => plan.record.updating = None,
        None => report_stuck(s, plan, left),
    }
}

/// Who is next: those that are no primaries first; of them one whose node is to be drained, which has to move in any case; then from the highest ordinal (E32).
fn next<'a>(s: &Snapshot, old: &[&'a Member]) -> Option<&'a Member> {
    old.iter().copied().max_by_key(|m| rank(s, m))
}

fn rank(s: &Snapshot, member: &Member) -> (bool, bool, u32) {
    (!s.serves(member), s.is_cordoned(member), member.ordinal)
}

/// Replaces the pod of the member and of all that may go along with it. Returns their names.
fn replace_batch(s: &Snapshot, plan: &mut Plan, first: &Member, old: &[&Member]) -> String {
    replace(s, plan, first);
    let mut names = first.name.to_string();
    if s.group.update.batch == Batch::Member {
        return names;
    }
    // The rules are held against what will be when the others are gone.
    let mut then = s.clone();
    check::take_pod_away(&mut then, &first.name);
    let mut others: Vec<&Member> = old.iter().copied().filter(|m| m.name != first.name).collect();
    others.sort_by_key(|m| Reverse(rank(s, m)));
    for other in others {
        if !plan.touches(&other.name) && check::update_member(&then, other).is_ok() {
            replace(s, plan, other);
            check::take_pod_away(&mut then, &other.name);
            names = format!("{names}, {}", other.name);
        }
    }
    names
}

fn replace(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let Some(pod) = &member.pod else { return };
    plan.record.note(s.now, Event::PodDeleted, Some(&member.name), Some(WHY.into()));
    plan.actions.push(Action::DeletePod {
        member: member.name.clone(),
        pod_uid: pod.uid.clone(),
        cause: DeletionCause::Update,
        reason: WHY.into(),
    });
}

/// Says so when an update makes no progress (E35). It goes on when what it waits for is over; a template that does not work is given up by `rollback` alone.
fn report_stuck(s: &Snapshot, plan: &mut Plan, left: u32) {
    let known = plan.record.updating.take().filter(|known| known.left == left);
    let updating = known.unwrap_or(Updating { left, since: s.now });
    let overdue = updating.since.saturating_add(i64::from(s.group.update.timeout));
    plan.record.updating = Some(updating);
    if s.now < overdue {
        return plan.look_again_at(overdue);
    }
    let timeout = s.group.update.timeout;
    let why = plan.waits.last().map(|wait| wait.message.clone()).unwrap_or_default();
    plan.wait(Reason::UpdateStuck, None, format!("the update has made no progress for {timeout} s: {why}"));
}
