//! The condition Rescaling: whether the members of an application whose members agree are those that are desired (docs/requirements.md, D4, D5).
use super::{Condition, Finding, Kind, Truth};
use crate::contract::Role;
use crate::membership::{self, Said};
use crate::plan::{Plan, Reason};
use crate::record::Verb;
use crate::snapshot::Snapshot;
use crate::steps::resize::{self, Change};

/// The condition. `None`: the members of the group's application do not agree on who they are.
pub(super) fn rescaling(s: &Snapshot, plan: &Plan) -> Option<Condition> {
    s.group.commands.membership.as_ref()?;
    let condition = |status, reason, message: &str| Some(Condition::new(Kind::Rescaling, status, reason, message));
    if let Some(wait) = plan.waits.iter().find(|w| matches!(w.reason, Reason::SplitBrain | Reason::ListsDiffer)) {
        return condition(Truth::Unknown, Finding::MembersUnknown, &wait.message);
    }
    if s.group.is_stopped() && s.group.requested.replicas > 0 {
        return condition(
            Truth::False,
            Finding::NotAdmitted,
            "all members are stopped, and policies have not allowed any member",
        );
    }
    if s.group.is_stopped() {
        return condition(Truth::False, Finding::ReplicasMatchSpec, "spec.replicas is 0: all stop, and stay members");
    }
    let known = s.record.membership.as_ref();
    let listed = known.map_or(0, |known| known.members.len());
    let progress = format!("{listed} of {} members", s.roster().desired());
    let what = match open(s, plan).or_else(|| next(s)) {
        Some(change) => change,
        None if known.is_none() => {
            return condition(Truth::Unknown, Finding::MembersUnknown, "no list of members was read yet");
        }
        None => return settled(s, &progress),
    };
    let reason = match what.verb {
        _ if what.repairs => Finding::Repairing,
        Verb::MemberRemove => Finding::ScalingDown,
        _ => Finding::ScalingUp,
    };
    condition(Truth::True, reason, &format!("{progress}, {}", resize::describe(&what)))
}

/// The change that is open.
fn open(s: &Snapshot, plan: &Plan) -> Option<Change> {
    let intent = plan.record.intents.iter().find(|intent| intent.verb.changes_members())?;
    let target = intent.target.clone()?;
    let repairs = match intent.verb {
        Verb::MemberAdd => plan.record.member(&target).term.is_some(),
        Verb::MemberRemove => s.member(&target).is_some_and(|member| !s.leaves(member)),
        _ => false,
    };
    Some(Change { verb: intent.verb, target, repairs })
}

/// The change that comes next.
fn next(s: &Snapshot) -> Option<Change> {
    match membership::said(s) {
        Said::Agreed(agreed) => resize::next(s, &agreed),
        _ => None,
    }
}

/// No change is left to begin: either all is done, or a member that was added or removed is not in its place yet.
fn settled(s: &Snapshot, progress: &str) -> Option<Condition> {
    let condition = |status, reason, message: &str| Some(Condition::new(Kind::Rescaling, status, reason, message));
    let known = s.record.membership.as_ref()?;
    let half = known.members.iter().find(|listed| !listed.started || !listed.voter);
    if let Some(name) = half.and_then(|listed| listed.member.as_ref()) {
        return condition(Truth::True, Finding::ScalingUp, &format!("{progress}, {name} was added and has to start"));
    }
    if let Some(member) = s.members.iter().find(|m| s.leaves(m)) {
        let message = format!("{progress}, {} was removed and has to stop", member.name);
        return condition(Truth::True, Finding::ScalingDown, &message);
    }
    if let Some(member) = s.members.iter().find(|m| known.of(&m.name).is_none()) {
        let stopped = s.role(member).0 == Role::Stopped;
        let waits = if stopped { "it is added next" } else { "its pod has to run" };
        return condition(
            Truth::True,
            Finding::ScalingUp,
            &format!("{progress}, {} is no member yet: {waits}", member.name),
        );
    }
    // Nothing shows a change, and nobody can say that there is none.
    if let Said::Nothing(Some(why)) = membership::said(s) {
        return condition(Truth::Unknown, Finding::MembersUnknown, &format!("{progress} by the last list; {why}"));
    }
    condition(Truth::False, Finding::ReplicasMatchSpec, progress)
}
