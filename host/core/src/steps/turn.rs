//! Turn: several members could be added, removed or stopped next; a policy may choose among those with whom it may be done now, or hold all of that up (wit/policy.wit,
//! `scaling/order`).
use crate::check;
use crate::contract::{Answer, MemberName};
use crate::plan::{Plan, Reason};
use crate::policy::{Point, Policies, Reply};
use crate::record::{Verb, cut};
use crate::snapshot::Snapshot;
use crate::steps::ask::{self, Opinion};

/// Who is next, as far as a policy decides that.
pub(super) enum Turn {
    /// No policy has an opinion: the host's order counts.
    Next,
    /// Nobody for now; the plan says why.
    Nobody,
    /// This one, and what is done with it.
    Of(MemberName, Verb),
}

/// Asks who is next.
pub(super) fn ask(s: &Snapshot, policies: &dyn Policies, plan: &mut Plan) -> Turn {
    // One that could not be loaded may not have the question: nothing that needs no policy waits for it.
    if !policies.has(Point::Order) {
        return Turn::Next;
    }
    let bars = ask::bars(s, |member| check::may_change(s, member).map(drop));
    let answered = match ask::ask_optional(s, policies, plan, Point::Order, &bars) {
        Opinion::None => return Turn::Next,
        Opinion::NoAnswer if !policies.are_loaded() => return Turn::Next,
        Opinion::NoAnswer | Opinion::NotYet => return Turn::Nobody,
        Opinion::Of(answered) => answered,
    };
    match &answered.reply {
        Reply::Answer(Answer::Choose(ranking)) => {
            let decision = ask::policy_decision(s, Point::Order, &answered, ranking, &bars);
            let member = decision.chosen.as_ref().and_then(|name| s.member(name));
            let turn =
                member.and_then(|member| Some(Turn::Of(member.name.clone(), check::may_change(s, member).ok()?)));
            plan.decisions.push(decision);
            turn.unwrap_or(Turn::Nobody)
        }
        Reply::Answer(Answer::Wait(delay)) => {
            let why = format!("policy {} waits: {}", answered.policy.name, cut(&delay.reason));
            plan.wait_until(Reason::ResizePending, None, why, delay.until);
            Turn::Nobody
        }
        Reply::Answer(Answer::Refuse(why)) => {
            ask::report_refusal::<()>(plan, &answered, why);
            Turn::Nobody
        }
        Reply::Answer(Answer::Abstain) | Reply::Care(_) => Turn::Next,
    }
}
