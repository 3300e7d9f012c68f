//! Asks whether the lead moves, and to whom. It is a question of its own kind: it arises in a group that needs nothing, so it is asked only where a policy
//! has it, and without an opinion the host goes on as if nobody had been asked. No sequence is read for it.
use crate::check::{self, Cause};
use crate::contract::{Answer, Candidate, Care, MemberName, Ranking};
use crate::data;
use crate::plan::{Plan, Reason};
use crate::policy::{self, Answered, Point, Policies, Reply, Unanswered};
use crate::question::question;
use crate::record::{Switchover, cut};
use crate::snapshot::Snapshot;
use crate::steps::ask::{self, Bars};

/// What the policies say about the lead.
#[derive(Debug)]
pub enum Opinion {
    /// That member is to lead.
    Move {
        /// The member that is to become primary.
        to: MemberName,
        /// Why, as users see it.
        why: String,
    },
    /// The lead stays where it is for now; the plan says why if the host would have moved it.
    Hold,
    /// Nothing: the host decides by itself.
    None,
}

/// Asks the policies. `cause`: why the host would move the lead by itself. Without one an answer that only delays needs no report: nobody waits for it.
pub fn ask(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan, cause: Option<&Cause>) -> Opinion {
    if !policies.has(Point::Switchover) {
        return Opinion::None;
    }
    let bars = ask::bars(s, |m| check::lead_candidate(s, m));
    if bars.len() >= s.members.len() {
        return Opinion::None;
    }
    let texts = bars.iter().map(|(name, v)| (name.clone(), cut(&v.message))).collect();
    let question = question(s, Point::Switchover, &texts);
    let answered = match policies.ask(&question) {
        Ok(answered) => answered,
        Err(unanswered) => return no_answer(s, plan, cause, unanswered),
    };
    if let Err(violation) = check::reply(&question, &answered.reply) {
        ask::report_rejected::<()>(plan, &answered, violation);
        return Opinion::Hold;
    }
    match &answered.reply {
        Reply::Answer(Answer::Choose(ranking)) => moves(s, plan, cause, &answered, ranking, &bars),
        Reply::Answer(Answer::Wait(delay)) => {
            match cause {
                Some(cause) => {
                    let message =
                        format!("{}: policy {} waits: {}", cause.why, answered.policy.name, cut(&delay.reason));
                    plan.wait_until(Reason::SwitchoverPending, cause.to.as_ref(), message, delay.until);
                }
                None => delay.until.into_iter().for_each(|at| plan.look_again_at(at)),
            }
            Opinion::Hold
        }
        Reply::Answer(Answer::Refuse(why)) => {
            ask::report_refusal::<()>(plan, &answered, why);
            Opinion::Hold
        }
        Reply::Answer(Answer::Abstain) => Opinion::None,
        Reply::Care(Care::Treat(_) | Care::Wait(_) | Care::Refuse(_) | Care::Abstain) => {
            ask::report_mismatch::<()>(plan, &answered, Point::Switchover);
            Opinion::Hold
        }
    }
}

/// No policy answered. A lead is not moved while a policy that may have an opinion is not loaded: who takes over could not be asked either.
fn no_answer(s: &Snapshot, plan: &mut Plan, cause: Option<&Cause>, unanswered: Unanswered) -> Opinion {
    match unanswered.kind {
        _ if unanswered.is_abstention() => return Opinion::None,
        policy::LOADING | policy::NOT_LOADED if cause.is_none() => {}
        policy::CUT_OFF if cause.is_none() => plan.look_again_at(s.now.saturating_add(1)),
        _ => ask::report_unanswered(s, plan, Point::Switchover, unanswered),
    }
    Opinion::Hold
}

fn moves(
    s: &Snapshot,
    plan: &mut Plan,
    cause: Option<&Cause>,
    answered: &Answered,
    ranking: &Ranking,
    bars: &Bars,
) -> Opinion {
    let known = plan.record.switchover.clone().filter(|last| last.begun.is_none() && last.term == s.record.term);
    let why = |choice: &Candidate| {
        cut(&format!("policy {} moves the lead to {}: {}", answered.policy.name, choice.member, choice.reason))
    };
    if let Some(choice) = known.as_ref().and_then(|last| settled_choice(s, last, cause, ranking)) {
        return Opinion::Move { to: choice.member.clone(), why: why(choice) };
    }
    let Some(choice) = ranking.candidates.first() else { return Opinion::Hold };
    // While the successor catches up the answer stays the same: it is said once.
    if known.as_ref().and_then(|last| last.target()) != Some(&choice.member) {
        plan.decisions.push(ask::policy_decision(s, Point::Switchover, answered, ranking, bars));
    }
    Opinion::Move { to: choice.member.clone(), why: why(choice) }
}

/// The member that was to lead before for the same kind of cause, if it has all data by now and the policy still names it: a policy that has several good candidates
/// and changes their order all the time would otherwise hold up a drain for ever, because each change begins anew.
fn settled_choice<'r>(
    s: &Snapshot,
    last: &Switchover,
    cause: Option<&Cause>,
    ranking: &'r Ranking,
) -> Option<&'r Candidate> {
    // What a policy chose for a cause of the host's is `chosen`; what it chose by itself is `to`.
    let before = if cause.is_some() { last.chosen.as_ref() } else { last.to.as_ref() };
    let (to, floor) = (before?, last.floor.as_ref()?);
    let named = ranking.candidates.iter().find(|c| c.member == *to);
    let ready = s.member(to).is_some_and(|m| data::has_reached(&m.position, floor));
    named.filter(|_| ready)
}
