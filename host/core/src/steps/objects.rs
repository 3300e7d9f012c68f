//! Objects: what the group needs in Kubernetes is there as wished; whose pod does not run is awaited.
use crate::check::phase_word;
use crate::contract::Phase;
use crate::plan::{Action, Plan, Reason};
use crate::policy::Policies;
use crate::record::cut;
use crate::snapshot::Snapshot;

/// See the module.
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
    for member in s.members.iter().filter(|m| !s.reachable(m)) {
        let phase = member.pod.as_ref().map_or(Phase::Missing, |p| p.phase);
        let message = format!("the pod of {} is {}", member.name, phase_word(phase));
        match member.pod.as_ref().and_then(|p| p.trouble.as_ref()) {
            Some(trouble) => {
                plan.wait(Reason::PodCannotStart, Some(&member.name), format!("{message}: {}", cut(trouble)));
            }
            None => plan.wait(Reason::PodsNotRunning, Some(&member.name), message),
        }
    }
}
