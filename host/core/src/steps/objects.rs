//! Objects: the Kubernetes objects of the group are as desired, and the pods of all members run.
use crate::check::{self, phase_word};
use crate::contract::{Phase, Timestamp};
use crate::limits;
use crate::plan::{Action, DeletionCause, Plan, Reason};
use crate::policy::Policies;
use crate::record::cut;
use crate::roster::{Seat, Standing};
use crate::snapshot::{Member, Missing, Snapshot};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    for object in s.objects.iter().filter(|o| !o.current) {
        plan.wait(Reason::CreatingObjects, None, format!("{} {} is being applied", object.kind, object.name));
        plan.actions.push(Action::Apply(object.clone()));
    }
    for member in &s.members {
        if let Some(stray) = member.pod.as_ref().and_then(|p| p.stray.as_ref()) {
            plan.wait(Reason::PodStray, Some(&member.name), stray.clone());
        }
    }
    for stranger in &s.strangers {
        let message = format!(
            "clients are led to the pod {stranger}, which another object made: for instance a group of this name that was deleted; no new primary gets clients before it is gone or has lost its label tanist.dev/role"
        );
        plan.wait(Reason::PodStray, None, message);
    }
    for member in s.members.iter().filter(|m| !s.reachable(m)) {
        await_pod(s, plan, member);
    }
    nudge(s, plan);
    if s.group.makes_pods {
        create(s, plan);
        clear(s, plan);
    }
}

/// Creates what members lack. One that leaves gets no new pod while the others serve: nothing of it is needed.
fn create(s: &Snapshot, plan: &mut Plan) {
    let Some(set) = &s.set else { return };
    let goes = |seat: &Seat| seat.standing == Standing::Leaving && !check::is_needed_to_leave(s);
    for seat in s.roster().seats().filter(|seat| !goes(seat)) {
        if let Some(objects) = set.lacking.get(&seat.name).filter(|objects| !objects.is_empty()) {
            plan.actions.push(Action::Create { member: seat.name, objects: objects.clone() });
        }
    }
}

/// Deletes pods that have ended, so that new ones are made, and pods of members that left.
fn clear(s: &Snapshot, plan: &mut Plan) {
    // A StatefulSet that is still there would make the pod of a member that left again at once.
    let has_set = s.moving.as_ref().is_some_and(|moving| moving.to_pods && moving.set.is_some());
    let there = s.members.iter().filter_map(|m| Some((m, m.pod.as_ref().filter(|pod| !pod.is_being_deleted)?)));
    for (member, pod) in there {
        let (cause, reason) = if check::ended_member(member).is_ok() {
            let due = pod.phase_since.saturating_add(limits::ENDED_SECONDS);
            if s.now < due {
                plan.look_again_at(due);
                continue;
            }
            (DeletionCause::Ended, "every container of the pod has ended")
        } else if !has_set && !s.roster().has(member) && check::left_member(s, member).is_ok() {
            (DeletionCause::Left, "the member left")
        } else {
            continue;
        };
        plan.actions.push(Action::DeletePod {
            member: member.name.clone(),
            pod_uid: pod.uid.clone(),
            cause,
            reason: reason.into(),
        });
    }
}

fn await_pod(s: &Snapshot, plan: &mut Plan, member: &Member) {
    let phase = member.pod.as_ref().map_or(Phase::Missing, |p| p.phase);
    let message = format!("the pod of {} is {}", member.name, phase_word(phase));
    let missing = s.set.as_ref().and_then(|set| set.missing.get(&member.name)).filter(|_| member.pod.is_none());
    if let Some(trouble) = member.pod.as_ref().and_then(|p| p.trouble.as_ref()) {
        return plan.wait(Reason::PodCannotStart, Some(&member.name), format!("{message}: {}", cut(trouble)));
    }
    let until = missing.map(|missing| match s.group.makes_pods {
        true => s.now.saturating_add(limits::CREATE_AGAIN_SECONDS),
        false => next_nudge(s, missing),
    });
    match missing.and_then(|missing| missing.refused.as_ref()) {
        Some(why) => {
            let message = format!("{message}: Kubernetes refuses to create it: {}", cut(why));
            plan.wait_until(Reason::PodCannotStart, Some(&member.name), message, until);
        }
        None => plan.wait_until(Reason::PodsNotRunning, Some(&member.name), message, until),
    }
}

/// When the controller of the `StatefulSet` is told to try again if the pod is still missing.
fn next_nudge(s: &Snapshot, missing: &Missing) -> Timestamp {
    let first = missing.since.saturating_add(limits::MISSING_SECONDS);
    let nudged = s.set.as_ref().and_then(|set| set.nudged);
    // A time in the future was written by a wrong clock.
    let again = nudged.filter(|at| *at <= s.now).map_or(first, |at| at.saturating_add(limits::NUDGE_SECONDS));
    first.max(again).max(s.now.saturating_add(1)).min(s.now.saturating_add(limits::NUDGE_SECONDS))
}

/// The controller of the `StatefulSet` tries again to create a pod after a back-off of many minutes. An annotation on the object ends that back-off.
fn nudge(s: &Snapshot, plan: &mut Plan) {
    let Some(set) = s.set.as_ref().filter(|_| !s.group.makes_pods) else { return };
    let long = |missing: &Missing| s.now.saturating_sub(missing.since) >= limits::MISSING_SECONDS;
    let rests = set.nudged.is_some_and(|at| at <= s.now && s.now.saturating_sub(at) < limits::NUDGE_SECONDS);
    // Applying the StatefulSet wakes its controller as well.
    let applied = plan.actions.iter().any(|a| matches!(a, Action::Apply(object) if object.kind == "StatefulSet"));
    if set.missing.values().any(long) && !rests && !applied {
        plan.actions.push(Action::Nudge { set_uid: set.uid.clone() });
    }
}
