//! Prepared: before pods are deleted for an update, every member in its role is asked whether it is prepared for that (C73), some of them at a time.
use crate::check;
use crate::contract::MemberName;
use crate::limits;
use crate::plan::{Action, Plan};
use crate::snapshot::{Query, Snapshot};

/// Asks those that have not said that they are prepared, each again a while after its last answer.
pub fn ask(s: &Snapshot, plan: &mut Plan) {
    let mut free = limits::PREPARED_AT_A_TIME.saturating_sub(s.members.iter().filter(|member| member.asked).count());
    for name in check::unprepared(s) {
        match due(s, name) {
            Some(at) => plan.look_again_at(at),
            // The end of one that is asked now begins the next round.
            None if free == 0 => {}
            None => free = free.saturating_sub(usize::from(ask_member(s, plan, name))),
        }
    }
}

/// When the member is asked again. `None`: now.
fn due(s: &Snapshot, name: &MemberName) -> Option<i64> {
    let answer = s.answers.get(&(Query::Prepared, name.clone())).filter(|answer| answer.said != Ok(0))?;
    let at = answer.ended.saturating_add(limits::CHECK_SECONDS);
    (at > s.now).then_some(at)
}

/// Whether it can be asked.
fn ask_member(s: &Snapshot, plan: &mut Plan, name: &MemberName) -> bool {
    let member = s.member(name).filter(|member| check::can_take_command(s, member).is_ok() && !plan.touches(name));
    let Some(pod) = member.and_then(|member| member.pod.as_ref()) else { return false };
    plan.actions.push(Action::Ask { query: Query::Prepared, member: name.clone(), pod_uid: pod.uid.clone() });
    true
}
