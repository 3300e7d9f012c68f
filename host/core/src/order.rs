//! Which actions of a round depend on others: an action that fails stops those that need it, and no others.
use crate::contract::MemberName;
use crate::plan::Action;

/// A precondition of actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// The group has not changed since the decision.
    Decision,
    /// The second look passed and the record is written. The record names every command of the plan, so no command starts when one cannot.
    Record,
    /// That member is routed as planned, so that clients do not reach it in a role that it is about to leave.
    Routing(MemberName),
    /// The `StatefulSet` is as desired: an apply that lands after it shrank would let it grow again.
    Set,
    /// The ConfigMap of the cluster state names whoever is started in this plan.
    State,
}

/// What an action needs beside [`Need::Decision`], which every action needs.
fn needs(action: &Action) -> Vec<Need> {
    match action {
        Action::Route { member, .. } => vec![Need::Routing(member.clone())],
        Action::Run { intent, needs_state, .. } => {
            let own = [Need::Record, Need::Routing(intent.member.clone())];
            own.into_iter().chain(needs_state.then_some(Need::State)).collect()
        }
        Action::DeletePod { .. } | Action::DeleteClaim { .. } | Action::Create { .. } => vec![Need::Record],
        Action::Scale { .. } => vec![Need::Record, Need::Set],
        Action::Apply(_) | Action::Nudge { .. } | Action::Adopt { .. } | Action::DropSet { .. } => Vec::new(),
        Action::Read { .. } | Action::List { .. } | Action::Ask { .. } => Vec::new(),
        Action::MarkClaim { .. } | Action::GrowClaim { .. } | Action::WriteState { .. } => Vec::new(),
    }
}

/// What is missing as soon as an action begins, even if it succeeds: objects are written in the background, so they are not ready at once.
#[must_use]
pub fn suspends(action: &Action) -> Option<Need> {
    matches!(action, Action::Apply(object) if object.kind == "StatefulSet").then_some(Need::Set)
}

/// What is missing after an action failed.
#[must_use]
pub fn spoils(action: &Action) -> Option<Need> {
    match action {
        Action::Route { member, .. } => Some(Need::Routing(member.clone())),
        Action::WriteState { .. } => Some(Need::State),
        Action::Apply(_) | Action::Nudge { .. } | Action::Create { .. } => None,
        Action::Adopt { .. } | Action::DropSet { .. } => None,
        Action::Read { .. } | Action::List { .. } | Action::Ask { .. } => None,
        Action::MarkClaim { .. } | Action::GrowClaim { .. } => None,
        Action::Run { .. } | Action::DeletePod { .. } | Action::DeleteClaim { .. } | Action::Scale { .. } => None,
    }
}

/// The preconditions that are missing so far in this round.
#[derive(Debug, Default)]
pub struct Missing(Vec<Need>);

impl Missing {
    /// Notes that a precondition is missing; `None` changes nothing.
    pub fn add(&mut self, need: Option<Need>) {
        self.0.extend(need);
    }

    /// Whether an action has to be left out.
    #[must_use]
    pub fn stops(&self, action: &Action) -> bool {
        self.0.contains(&Need::Decision) || needs(action).iter().any(|need| self.0.contains(need))
    }
}
