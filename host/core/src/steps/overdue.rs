//! Overdue: members of an application that agree are other than desired, and for long nothing changes among them. That is said; nothing is given up for it (docs/requirements.md, D25).
use crate::check;
use crate::membership::{self, Said};
use crate::plan::{Plan, Reason};
use crate::policy::Policies;
use crate::record::{Intent, Resizing};
use crate::snapshot::Snapshot;
use crate::steps::resize;

/// Runs this step; see the documentation of the module. It comes after all that change the members.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    let Some((revision, what)) = pending(s) else {
        plan.record.resizing = None;
        return;
    };
    let target = s.group.replicas;
    let known = plan.record.resizing.take().filter(|known| (known.target, known.revision) == (target, revision));
    let resizing = known.unwrap_or(Resizing { target, revision, since: s.now });
    // A rest that the user wants between two removals is no delay.
    let allowed = s.group.resize_deadline.saturating_add(s.group.removal_rest);
    let overdue = resizing.since.saturating_add(i64::from(allowed));
    plan.record.resizing = Some(resizing);
    if s.now < overdue {
        return plan.look_again_at(overdue);
    }
    let listed = s.record.membership.as_ref().map_or(0, |known| known.members.len());
    let message = format!("{listed} of {target} members, and nothing has changed for {allowed} s; next: {what}");
    plan.wait(Reason::ResizeOverdue, None, message);
}

/// The revision of the list while the members are other than desired, and what comes next. It says nothing that changes from round to round.
fn pending(s: &Snapshot) -> Option<(u64, String)> {
    if !check::is_formed(s) || s.group.is_stopped() {
        return None;
    }
    let known = s.record.membership.as_ref()?;
    let next = match membership::said(s) {
        Said::Agreed(agreed) => resize::next(s, &agreed),
        _ => None,
    };
    let open = s.record.intents.iter().find(|intent| intent.verb.changes_members()).map(Intent::what);
    if next.is_none() && open.is_none() && known.is_settled(&s.group, s.roster()) {
        return None;
    }
    let what = open.or_else(|| next.as_ref().map(resize::describe));
    Some((known.revision, what.unwrap_or_else(|| "the members that are listed start or stop".into())))
}
