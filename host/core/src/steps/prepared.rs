//! Prepared: before pods are deleted for an update, every member in its role is asked whether it is prepared for that (C73), all at the same time.
use crate::check;
use crate::contract::MemberName;
use crate::limits;
use crate::plan::{Action, Plan};
use crate::snapshot::{Query, Snapshot};

/// Asks those that have not said that they are prepared, each again a while after its last answer.
pub fn ask(s: &Snapshot, plan: &mut Plan) {
    for name in check::unprepared(s) {
        match due(s, name) {
            Some(at) => plan.look_again_at(at),
            None => ask_one(s, plan, name),
        }
    }
}

/// When the member is asked again. `None`: now.
fn due(s: &Snapshot, name: &MemberName) -> Option<i64> {
    let answer = s.answers.get(&(Query::Prepared, name.clone())).filter(|answer| answer.said != Ok(0))?;
    let at = answer.ended.saturating_add(limits::CHECK_SECONDS);
    (at > s.now).then_some(at)
}

fn ask_one(s: &Snapshot, plan: &mut Plan, name: &MemberName) {
    let Some(member) = s.member(name).filter(|member| check::can_take_command(s, member).is_ok()) else { return };
    if let Some(pod) = member.pod.as_ref().filter(|_| !plan.touches(name)) {
        plan.actions.push(Action::Ask { query: Query::Prepared, member: name.clone(), pod_uid: pod.uid.clone() });
    }
}
