//! Rebalance: every member is in its role; is a secondary to be stopped and started again, so that it may run elsewhere? Only a policy that has the
//! question is asked, and without an opinion nothing happens. No sequence is read for it.
//!
//! Its pod is deleted, as at an eviction: the application is stopped in order, the volumes stay, Kubernetes chooses the node of the next pod, and the
//! member is placed as any other one. It is the last step, because everything else comes first.
use crate::check;
use crate::contract::{Answer, Ranking};
use crate::plan::{Action, DeletionCause, Plan};
use crate::policy::{self, Answered, Point, Policies, Reply, Unanswered};
use crate::question::question;
use crate::record::{Event, cut};
use crate::snapshot::Snapshot;
use crate::steps::ask::{self, Bars};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) {
    // A group without the question pays nothing, and one that awaits anything else is not at rest.
    if !policies.has(Point::Rebalance) || !plan.waits.is_empty() {
        return;
    }
    if let Err(violation) = check::rebalance_group(s) {
        return violation.until.into_iter().for_each(|at| plan.look_again_at(at));
    }
    let bars = ask::bars(s, |m| check::rebalance_candidate(s, m));
    // Who may move then may be who a policy waits for.
    bars.values().filter_map(|v| v.until).min().into_iter().for_each(|at| plan.look_again_at(at));
    if bars.len() >= s.members.len() {
        return;
    }
    let texts = bars.iter().map(|(name, v)| (name.clone(), cut(&v.message))).collect();
    let question = question(s, Point::Rebalance, &texts);
    let answered = match policies.ask(&question) {
        Ok(answered) => answered,
        Err(unanswered) => return no_answer(s, plan, unanswered),
    };
    if let Err(violation) = check::reply(&question, &answered.reply) {
        ask::report_rejected::<()>(plan, &answered, violation);
        return;
    }
    match &answered.reply {
        Reply::Answer(Answer::Choose(ranking)) => move_member(s, plan, &answered, ranking, &bars),
        // Nobody waits for it, so it is not reported.
        Reply::Answer(Answer::Wait(delay)) => delay.until.into_iter().for_each(|at| plan.look_again_at(at)),
        Reply::Answer(Answer::Refuse(why)) => {
            ask::report_refusal::<()>(plan, &answered, why);
        }
        Reply::Answer(Answer::Abstain) => {}
        Reply::Care(_) => {
            ask::report_mismatch::<()>(plan, &answered, Point::Rebalance);
        }
    }
}

/// No policy answered. What nobody waits for is reported only if a policy is broken.
fn no_answer(s: &Snapshot, plan: &mut Plan, unanswered: Unanswered) {
    match unanswered.kind {
        _ if unanswered.is_abstention() => {}
        policy::LOADING | policy::NOT_LOADED => {}
        policy::CUT_OFF => plan.look_again_at(s.now.saturating_add(1)),
        _ => ask::report_unanswered(s, plan, Point::Rebalance, unanswered),
    }
}

fn move_member(s: &Snapshot, plan: &mut Plan, answered: &Answered, ranking: &Ranking, bars: &Bars) {
    let decision = ask::policy_decision(s, Point::Rebalance, answered, ranking, bars);
    let chosen = decision.chosen.as_ref().and_then(|name| s.member(name));
    let Some((member, pod)) = chosen.and_then(|member| Some((member.name.clone(), member.pod.as_ref()?))) else {
        return;
    };
    let reason = cut(&format!("policy {} moves {member}: {}", answered.policy.name, decision.reason));
    plan.record.note(s.now, Event::PodDeleted, Some(&member), Some(reason.clone()));
    let (pod_uid, cause) = (pod.uid.clone(), DeletionCause::Rebalance);
    plan.actions.push(Action::DeletePod { member, pod_uid, cause, reason });
    plan.decisions.push(decision);
}
