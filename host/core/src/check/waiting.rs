//! Members that agree start, and then wait until enough others have started: for days, if need be (`spec.startDeadlineSeconds`). Such a wait holds up neither the user who wants all of them to stop,
//! nor the template that cures them.
use super::membership::agrees;
use super::replace::keeps_pod_until_replaced;
use super::update::{has_older_template, has_present_template, template_has_not_failed, update_group};
use crate::contract::Role;
use crate::limits;
use crate::record::{Intent, Verb};
use crate::snapshot::{Member, Snapshot};

/// Whether the member's last start was never confirmed, and it says that it is starting while nobody serves: it waits for others. It never served in this pod.
fn waits_for_others(s: &Snapshot, member: &Member) -> bool {
    let waits = s.reachable(member) && s.role(member).0 == Role::Starting && s.leading().is_empty();
    // While others follow, a majority elects.
    let elects = || s.members.iter().any(|other| s.confirmed(other, Role::Secondary));
    waits && !elects() && agrees(s) && s.record.member(&member.name).started.is_some()
}

/// Whether a member that waits for others may get another pod, because its own has an older template: its volume stays, and it starts again with the others (E5). Not while a pod of the present
/// template cannot start, or a start in it failed: that one would cure nobody.
pub(super) fn waits_with_older_template(s: &Snapshot, member: &Member) -> bool {
    let is_next = || {
        let is_older = update_group(s).and(has_older_template(s, member));
        is_older.and(template_has_not_failed(s)).and(keeps_pod_until_replaced(s, member)).is_ok()
    };
    let cannot_start = |other: &Member| {
        let has_trouble = other.pod.as_ref().is_some_and(|pod| pod.trouble.is_some());
        let has_failed = match s.role(other).0 {
            Role::Failed => true,
            Role::Starting => false,
            _ => s.record.member(&other.name).failures > 0,
        };
        has_present_template(s, other) && (has_trouble || has_failed)
    };
    waits_for_others(s, member) && !member.claims.is_empty() && is_next() && !s.members.iter().any(cannot_start)
}

/// Why nobody waits any longer for a start that exited 0 and whose member waits for others. `None`: it is waited for.
#[must_use]
pub fn why_given_up(s: &Snapshot, intent: &Intent, member: &Member) -> Option<&'static str> {
    if !intent.verb.leaves_running() || intent.verb == Verb::Recover || !waits_for_others(s, member) {
        return None;
    }
    // The others may be on their way: their nodes came back a moment later.
    let is_patient = intent.exited.is_none_or(|at| s.now < at.saturating_add(limits::OTHERS_SECONDS));
    match s.group.is_stopped() {
        true => Some("all members are to stop"),
        false if is_patient => None,
        false => waits_with_older_template(s, member).then_some("its pod has an older template than the group"),
    }
}
