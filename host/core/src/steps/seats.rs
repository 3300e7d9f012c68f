//! Seats: where this operator makes the pods itself, the numbers of the members are given out and remembered before any pod is made. A number is never used twice.
use crate::check;
use crate::plan::{Action, Plan};
use crate::policy::Policies;
use crate::snapshot::{Member, Snapshot};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    if !s.group.makes_pods {
        return;
    }
    let mut seats = s.roster().own();
    // Of members from before `spec.zones` was set the nodes know it.
    for member in s.members.iter().filter(|_| !s.group.zones.is_empty()) {
        if seats.numbers.contains(&member.ordinal) {
            seats.is_in(member.ordinal, s.zone(member));
        }
    }
    plan.record.seats = Some(seats);
}

/// Last of all: members in whose place new ones come, and of these the ones that may leave now, because the new ones work, and the ones that stay after all. Then the new ones leave, for they have the higher numbers. It
/// counts from the next round on, because the second look has the record from before this one.
pub fn settle(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    // Whose pod is deleted in this round is in no role in the next one.
    let takes_away = plan.actions.iter().any(|action| matches!(action, Action::DeletePod { .. }));
    // What has become of the new ones is seen when the group is back from 0 members.
    let Some(seats) = plan.record.seats.as_mut().filter(|_| !s.group.is_stopped()) else { return };
    let before = seats.replaced.len();
    // Those of two versions side by side leave together. Of the others one does, after the other, and not beside those: what holds for the next one is another question.
    let (last, first): (Vec<&Member>, Vec<&Member>) = s.members.iter().partition(|m| s.serves(m));
    let may_leave = |m: &Member| !takes_away && !check::may_stay(s, m) && check::leaves_its_place(s, m).is_ok();
    let replaced = || s.members.iter().filter(|m| check::is_being_replaced(s, m));
    let cuts_over = replaced().find(|m| check::leaves_together(s, m) && !check::may_stay(s, m)).is_some_and(may_leave);
    let mut one_leaves = cuts_over;
    for member in first.into_iter().chain(last).filter(|m| check::is_being_replaced(s, m)) {
        let leaves = match check::leaves_together(s, member) {
            true => cuts_over,
            false => !one_leaves && may_leave(member),
        };
        if check::may_stay(s, member) {
            seats.keep(member.ordinal);
        } else if leaves {
            one_leaves = true;
            seats.keep(member.ordinal);
            seats.leaving.insert(member.ordinal);
        }
    }
    if seats.replaced.len() != before {
        plan.look_again_at(s.now.saturating_add(1));
    }
}
