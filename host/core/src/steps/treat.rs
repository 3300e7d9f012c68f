//! Treat: members failed; what is done with them?
use crate::check;
use crate::contract::{MemberName, Remedy, Role, Treatment};
use crate::limits;
use crate::plan::{Action, DeletionCause, Plan, Reason};
use crate::policy::Policies;
use crate::record::{Event, Verb, backoff, cut};
use crate::snapshot::Snapshot;
use crate::steps::{ask, begin};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    let failed: Vec<_> = s.members.iter().filter(|m| s.reachable(m) && s.role(m).0 == Role::Failed).collect();
    for member in &failed {
        let why = s.role(member).1.unwrap_or_default();
        plan.wait(Reason::MemberFailed, Some(&member.name), format!("{} failed: {}", member.name, cut(&why)));
    }
    let bars = ask::bars(s, |m| check::failed_member(s, m));
    if failed.iter().all(|m| bars.contains_key(&m.name)) {
        let until = bars.values().filter_map(|v| v.until).min();
        if let (Some(_), Some(member)) = (until, failed.first()) {
            plan.wait_until(
                Reason::MemberFailed,
                Some(&member.name),
                format!("{} is still failed after treatment", member.name),
                until,
            );
        }
        return;
    }
    // One at a time (wit/policy.wit, `care`): the next question sees the result of this one. Other members do not wait for a command whose outcome is
    // unknown or whose node does not report.
    if s.record.intents.iter().any(|i| i.verb == Verb::Treat && s.is_under_way(i)) {
        return;
    }
    let Some(treatment) =
        ask::choose_treatments(s, policies, plan, &bars).into_iter().find(|t| t.remedy != Remedy::Leave)
    else {
        return;
    };
    let name = &treatment.member;
    match treatment.remedy {
        Remedy::Stop => begin::begin(s, plan, Verb::Treat, name),
        Remedy::Recreate => recreate(s, plan, &treatment),
        Remedy::Leave | Remedy::Replace => {}
    }
    if plan.touches(name) {
        count_treatment(s, plan, name);
    }
}

fn recreate(s: &Snapshot, plan: &mut Plan, treatment: &Treatment) {
    let name = &treatment.member;
    let Some(pod) = s.member(name).and_then(|m| m.pod.as_ref()) else { return };
    plan.record.note(s.now, Event::PodDeleted, Some(name), Some(treatment.reason.clone()));
    let (cause, reason) = (DeletionCause::Failure, cut(&treatment.reason));
    plan.actions.push(Action::DeletePod { member: name.clone(), pod_uid: pod.uid.clone(), cause, reason });
}

/// Counts a treatment. The first two have no back-off, so that a stop and a new pod can follow at once; later ones have.
fn count_treatment(s: &Snapshot, plan: &mut Plan, name: &MemberName) {
    let memory = plan.record.member_mut(name);
    memory.treated = memory.treated.saturating_add(1);
    let slow = memory.treated.checked_sub(limits::FREE_TREATMENTS);
    memory.treat_at = slow.map(|n| s.now.saturating_add(backoff(n.saturating_add(1))));
}
