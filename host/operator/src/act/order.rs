//! What depends on what in a round: an action that fails stops those that need it, and nothing else.
use tanist_core::contract::MemberName;
use tanist_core::plan::Action;

/// Something that other actions rest on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// What was decided still holds.
    Decision,
    /// The second look holds, and the record is written: it names every command of the plan, so none starts when one of them cannot.
    Record,
    /// That member is routed as planned: it is not reached in a role that it is about to leave.
    Routing(MemberName),
    /// The `StatefulSet` is as desired: an apply that lands after it shrank would let it grow again.
    Set,
}

/// What an action rests on, beside the decision.
fn needs(action: &Action) -> Vec<Need> {
    match action {
        Action::Route { member, .. } => vec![Need::Routing(member.clone())],
        Action::Run { intent, .. } => vec![Need::Record, Need::Routing(intent.member.clone())],
        Action::DeletePod { .. } => vec![Need::Record],
        Action::Scale { .. } => vec![Need::Record, Need::Set],
        Action::Apply(_) | Action::Nudge { .. } | Action::Read { .. } | Action::MarkClaim { .. } => Vec::new(),
    }
}

/// What is missing from the beginning of an action on, whatever comes of it: objects are written beside the round.
#[must_use]
pub fn suspends(action: &Action) -> Option<Need> {
    matches!(action, Action::Apply(object) if object.kind == "StatefulSet").then_some(Need::Set)
}

/// What is missing once an action failed.
#[must_use]
pub fn spoils(action: &Action) -> Option<Need> {
    match action {
        Action::Route { member, .. } => Some(Need::Routing(member.clone())),
        Action::Apply(_) | Action::Nudge { .. } | Action::Read { .. } | Action::MarkClaim { .. } => None,
        Action::Run { .. } | Action::DeletePod { .. } | Action::Scale { .. } => None,
    }
}

/// What is missing so far.
#[derive(Debug, Default)]
pub struct Missing(Vec<Need>);

impl Missing {
    /// Something failed.
    pub fn add(&mut self, need: Option<Need>) {
        self.0.extend(need);
    }

    /// Whether an action has to be left out.
    #[must_use]
    pub fn stops(&self, action: &Action) -> bool {
        self.0.contains(&Need::Decision) || needs(action).iter().any(|need| self.0.contains(need))
    }
}
