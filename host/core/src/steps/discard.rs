//! Discard: claims that removed members left behind are deleted, where the user wants it (docs/requirements.md, D20).
use crate::check;
use crate::limits;
use crate::membership::{self, Said};
use crate::plan::{Action, Plan, Reason};
use crate::policy::Policies;
use crate::snapshot::Snapshot;
use crate::steps::lists;

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    if !s.group.deletes_volumes || s.group.is_stopped() || s.left_claims.is_empty() {
        return;
    }
    let (going, left): (Vec<_>, Vec<_>) = s.left_claims.iter().partition(|left| left.is_being_deleted);
    for gone in going {
        let message = format!(
            "Kubernetes is deleting the claim {} of {}, and waits until nothing uses it any more",
            gone.claim.name, gone.member
        );
        plan.wait(Reason::ResizePending, Some(&gone.member), message);
    }
    if left.is_empty() {
        return;
    }
    // Lists that differ, or cannot be read, are reported by the step for lists.
    let Said::Agreed(agreed) = membership::said(s) else { return };
    // Nothing is deleted on a list that is older than a moment.
    if agreed.since.saturating_add(limits::LIST_CHANGE_SECONDS) < s.now {
        for member in s.members.iter().filter(|m| membership::is_asked(s, m)) {
            lists::ask(s, plan, member, limits::LIST_AGAIN_SECONDS);
        }
        return plan.wait(Reason::ResizePending, None, "the lists of the members are read before claims are deleted");
    }
    for left in left {
        let (member, claim) = (&left.member, &left.claim);
        match check::discard_claim(s, left) {
            Ok(()) => plan.actions.push(Action::DeleteClaim {
                member: member.clone(),
                claim: claim.name.clone(),
                uid: claim.uid.clone(),
            }),
            Err(violation) => {
                let message = format!("the claim {} of {member} is not deleted: {violation}", claim.name);
                plan.wait_until(Reason::ResizePending, Some(member), message, violation.until);
            }
        }
    }
}
