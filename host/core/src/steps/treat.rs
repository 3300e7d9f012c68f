//! Treat: what is done with failed members?
use crate::check;
use crate::contract::{Remedy, Role};
use crate::limits;
use crate::plan::{Action, Plan, Reason};
use crate::policy::Policies;
use crate::record::{Verb, backoff, cut};
use crate::snapshot::Snapshot;
use crate::steps::{ask, begin};

/// See the module.
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
            plan.wait_until(Reason::MemberFailed, Some(&member.name), format!("{} was treated in vain", member.name), until);
        }
        return;
    }
    // One at a time: the first that is to be done.
    let Some(treatment) = ask::care(s, policies, plan, &bars).into_iter().find(|t| t.remedy != Remedy::Leave) else { return };
    let name = &treatment.member;
    let treated = s.record.member(name).treated.saturating_add(1);
    let memory = plan.record.member_mut(name);
    memory.treated = treated;
    memory.treat_at = (treated >= limits::FREE_TREATMENTS)
        .then(|| s.now.saturating_add(backoff(treated.saturating_sub(limits::FREE_TREATMENTS).saturating_add(1))));
    match treatment.remedy {
        Remedy::Stop => {
            // The check sees the memory from before this treatment, so that a treatment does not bar itself.
            begin::begin(s, plan, Verb::Treat, name);
        }
        Remedy::Recreate => {
            let Some(pod) = s.member(name).and_then(|m| m.pod.as_ref()) else { return };
            plan.record.note(s.now, "pod-deleted", Some(name), Some(treatment.reason.clone()));
            let reason = cut(&treatment.reason);
            plan.actions.push(Action::DeletePod { member: name.clone(), pod_uid: pod.uid.clone(), reason });
        }
        Remedy::Leave | Remedy::Replace => {}
    }
}
