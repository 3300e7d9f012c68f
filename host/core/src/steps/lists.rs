//! Lists: members that run are asked who the members of the application are; what they agree on is remembered, and what they do not agree on is said.
use crate::check;
use crate::limits;
use crate::membership::{self, Heard, Said};
use crate::plan::{Action, Plan, Reason};
use crate::policy::Policies;
use crate::record::Intent;
use crate::snapshot::{Evidence, Member, Snapshot};

/// Runs this step; see the documentation of the module. It comes after all that starts or stops a member, because nothing that clients wait for has to wait for
/// a list.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    if s.group.commands.membership.is_none() {
        return;
    }
    let said = membership::said(s);
    let pause = match &said {
        Said::Agreed(_) if !s.record.intents.iter().any(|i| i.verb.changes_members()) => limits::LIST_SECONDS,
        _ => limits::LIST_AGAIN_SECONDS,
    };
    for member in s.members.iter().filter(|m| membership::is_asked(s, m)) {
        ask(s, plan, member, pause);
    }
    let again = Some(s.now.saturating_add(limits::LIST_AGAIN_SECONDS));
    match said {
        Said::Nobody | Said::Nothing(None) => {}
        Said::Nothing(Some(why)) => plan.wait_until(Reason::ListUnknown, None, why, again),
        Said::Split(why) => plan.wait_until(Reason::SplitBrain, None, format!("{why}; nothing is changed"), again),
        Said::Differing(why) => plan.wait_until(Reason::ListsDiffer, None, format!("{why}; nothing is changed"), again),
        Said::Agreed(agreed) if agreed.is_confirmed(&s.group.name) => {
            let list = agreed.list.to_record(&s.group.name, plan.record.membership.as_ref());
            plan.record.membership = Some(list);
        }
        Said::Agreed(_) => {}
    }
}

/// Plans to ask the member for its list, if what it said is older than that many seconds and nothing else is done with it.
pub(super) fn ask(s: &Snapshot, plan: &mut Plan, member: &Member, pause: i64) {
    let patience = |heard: &Heard| if heard.list.is_ok() { pause } else { limits::LIST_AGAIN_SECONDS };
    let is_due = |heard: &Heard| heard.at.saturating_add(patience(heard)) <= s.now;
    if !s.lists.get(&member.name).is_none_or(is_due) {
        return;
    }
    // Whoever changed the members is asked as soon as its command has ended: alone it may be the only one that can say what came of it.
    let is_over = |intent: &Intent| {
        intent.verb.changes_members()
            && !member.asked
            && !matches!(s.evidence.get(&intent.token), None | Some(Evidence::Running))
    };
    let free = check::can_take_command(s, member).is_ok() || s.record.intent_of(&member.name).is_some_and(is_over);
    let free = free && !plan.touches(&member.name);
    if let Some(pod) = member.pod.as_ref().filter(|_| free) {
        plan.actions.push(Action::List { member: member.name.clone(), pod_uid: pod.uid.clone() });
    }
}
