//! Rollback: a changed template does not work (`spec.update.onFailure: RollBack`). The last template with which every member worked is remembered; pods go back to it when one and the same member
//! did not get into its role with the new one for `spec.update.timeoutSeconds`. `spec.template` stays: from then on the StatefulSet has the former one (`observe`), and `update`
//! replaces pods as for any other change. With `onFailure: Wait` no pod is replaced; it is remembered for pods that are lost after the template failed on its canary ([`Record::stopped_at_canary`]).
use crate::check::{self, Violation};
use crate::plan::{Action, Plan, Reason};
use crate::policy::Policies;
use crate::record::{Event, Failing, Fallback, GivenUp, Trial, Verdict, cut};
use crate::snapshot::{Former, Member, Mode, Snapshot, Update};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    let update = &s.group.update;
    let is_kept = keeps_former(update) && update.former != Former::Lost;
    let mut fallback = plan.record.fallback.take().filter(|_| is_kept);
    if let Some(fallback) = &mut fallback {
        // Another template is a new try, and so is the same one when nobody is to go back any more.
        fallback.failed.take_if(|failed| failed.template != update.template || !update.rolls_back);
        fallback.trial.take_if(|_| !update.rolls_back);
    }
    // Most members have the next one by then, and its data may be of a later version.
    let has_passed = s.record.canary_of(update).is_some_and(|canary| canary.verdict == Some(Verdict::Passed));
    fallback.take_if(|fallback| !update.rolls_back && fallback.good != update.template && has_passed);
    if let Some(failed) = fallback.as_ref().and_then(|fallback| fallback.failed.as_ref()) {
        plan.wait(Reason::RolledBack, None, told(s, failed));
    } else if s.record.stopped_at_canary(update) {
        // Members that work now do so with the template before.
    } else if keeps_former(update) && check::template_works(s) {
        fallback = Some(Fallback { good: update.template.clone(), trial: None, failed: None });
    } else if let Some(fallback) = fallback.as_mut().filter(|_| update.rolls_back) {
        try_out(s, plan, fallback);
    }
    plan.record.fallback = fallback;
}

/// Whether the last template with which every member worked is remembered: for pods that go back, or for a canary.
fn keeps_former(update: &Update) -> bool {
    let has_canary = update.canary > 0 && update.mode != Mode::ByHand;
    (update.rolls_back || has_canary) && !update.template.is_empty()
}

fn told(s: &Snapshot, failed: &GivenUp) -> String {
    let back = match s.group.update.former {
        Former::Unknown => "pods are to go back to the template before it, which cannot be read now",
        Former::Kept | Former::Lost => "pods go back to the template before it",
    };
    format!("spec.template did not work ({}); {back}; change spec.template", failed.why)
}

/// Looks how a template does that is not known to work, and gives it up when one member fails with it for too long.
fn try_out(s: &Snapshot, plan: &mut Plan, fallback: &mut Fallback) {
    let update = &s.group.update;
    let known = fallback.trial.take().filter(|trial| trial.template == update.template);
    if fallback.good == update.template {
        return;
    }
    // Whoever is deleted in this round still gets the template that does not work.
    let deletes = plan.actions.iter().any(|action| matches!(action, Action::DeletePod { .. }));
    let can_go_back = update.former == Former::Kept && !deletes;
    let canary =
        s.record.canary_of(update).and_then(|canary| Some((canary.member.clone(), canary.failure()?.to_owned())));
    if let Some((member, why)) = canary.filter(|_| can_go_back) {
        return give_up(s, plan, fallback, cut(&format!("{member}: {why}")));
    }
    let mut trial = known.unwrap_or_else(|| Trial { template: update.template.clone(), ..Trial::default() });
    trial.worked.extend(s.members.iter().filter(|m| check::works_with_template(s, m)).map(|m| m.name.clone()));
    let since = trial.failing.take();
    let found = failing(s, &trial, since.as_ref()).filter(|_| update.mode == Mode::ByOperator);
    if let Some((member, violation)) = found {
        let since =
            since.filter(|before| before.member == member.name).map_or(s.now, |before| s.counts_from(before.since));
        let overdue = since.saturating_add(i64::from(update.timeout));
        if s.now >= overdue && can_go_back {
            return give_up(s, plan, fallback, why(member, &violation));
        }
        plan.look_again_at(overdue.max(s.now.saturating_add(1)));
        trial.failing = Some(Failing { member: member.name.clone(), since });
    }
    fallback.trial = Some(trial);
}

/// The member that fails with the template: the one that did before, if it still does.
fn failing<'s>(s: &'s Snapshot, trial: &Trial, before: Option<&Failing>) -> Option<(&'s Member, Violation)> {
    let tried = s.members.iter().filter(|member| !trial.worked.contains(&member.name));
    let mut all: Vec<_> = tried.filter_map(|m| Some((m, check::fails_with_template(s, m)?))).collect();
    let same = all.iter().position(|(m, _)| before.is_some_and(|before| before.member == m.name));
    if all.is_empty() { None } else { Some(all.swap_remove(same.unwrap_or(0))) }
}

/// What Kubernetes says of the pod, if it says something.
fn why(member: &Member, violation: &Violation) -> String {
    let trouble = member.pod.as_ref().and_then(|pod| pod.trouble.as_ref());
    cut(&trouble.map_or_else(|| violation.to_string(), |trouble| format!("{violation}: {trouble}")))
}

fn give_up(s: &Snapshot, plan: &mut Plan, fallback: &mut Fallback, why: String) {
    let failed = GivenUp { template: s.group.update.template.clone(), at: s.now, why: why.clone() };
    plan.wait(Reason::RolledBack, None, told(s, &failed));
    plan.record.note(s.now, Event::RolledBack, None, Some(why));
    plan.record.updating = None;
    fallback.failed = Some(failed);
}
