//! The second look: a decision is checked against a new snapshot just before it is carried out (docs/safety.md, S6, S8, S9).
//!
//! Only this module can make a [`Start`], a [`Deletion`], a [`Turn`], a [`Discard`] or a [`Scaling`], and the code that acts needs one of them. So an action without a
//! second look does not compile.
use crate::check;
use crate::contract::MemberName;
use crate::plan::{Action, DeletionCause, Plan};
use crate::policy::{Answered, Policies, PolicyName, Question, Unanswered};
use crate::record::Intent;
use crate::snapshot::{Evidence, Snapshot};
use crate::steps;

/// A command that may start now.
#[derive(Debug, PartialEq, Eq)]
pub struct Start {
    intent: Intent,
}

impl Start {
    /// The durable note of the command; the permission is used up.
    #[must_use]
    pub fn into_intent(self) -> Intent {
        self.intent
    }
}

/// A pod that may be deleted now.
#[derive(Debug, PartialEq, Eq)]
pub struct Deletion {
    member: MemberName,
    uid: String,
    version: String,
}

impl Deletion {
    /// The member whose pod it is.
    #[must_use]
    pub fn member(&self) -> &MemberName {
        &self.member
    }

    /// The UID of the pod: a precondition of the deletion.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The pod's `resourceVersion` in the second look: a precondition of the deletion.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// A pod that may get the label of the active member of its group now.
#[derive(Debug, PartialEq, Eq)]
pub struct Turn {
    version: String,
}

impl Turn {
    /// The pod's `resourceVersion` in the second look: a precondition of the label.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// A claim that may be deleted now.
#[derive(Debug, PartialEq, Eq)]
pub struct Discard {
    claim: String,
    uid: String,
    version: String,
}

impl Discard {
    /// The claim's name.
    #[must_use]
    pub fn claim(&self) -> &str {
        &self.claim
    }

    /// The UID of the claim: a precondition of the deletion.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The claim's `resourceVersion` in the second look: a precondition of the deletion.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// A `StatefulSet` that may get smaller now.
#[derive(Debug, PartialEq, Eq)]
pub struct Scaling {
    uid: String,
    version: String,
    replicas: u32,
}

impl Scaling {
    /// The UID of the `StatefulSet`: a precondition of the change.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Its `resourceVersion` in the second look: a precondition of the change.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// How many members stay.
    #[must_use]
    pub fn replicas(&self) -> u32 {
        self.replicas
    }
}

/// Checks a command again just before it starts, against what is there now.
///
/// The record is that of the decision, without this intent, because what was settled in the same round is not written yet.
///
/// # Errors
/// The first rule that no longer holds.
pub fn recheck(decided: &Snapshot, live: &Snapshot, intent: &Intent) -> Result<Start, check::Violation> {
    let (again, _) = look_again(decided, live);
    check::start(&again, intent)?;
    Ok(Start { intent: intent.clone() })
}

/// The same just before a pod is deleted. [`DeletionCause::Failure`]: its member is still failed, or the outcome of its command is still unknown.
/// [`DeletionCause::Rebalance`], [`DeletionCause::Update`]: every rule of a move or an update holds still. [`DeletionCause::Left`], [`DeletionCause::Ended`]: it still left, or ended.
///
/// # Errors
/// Why the pod is not deleted.
pub fn recheck_deletion(
    decided: &Snapshot,
    live: &Snapshot,
    name: &MemberName,
    pod_uid: &str,
    cause: DeletionCause,
) -> Result<Deletion, check::Violation> {
    let (again, settled) = look_again(decided, live);
    let last_resort =
        settled.actions.iter().any(|a| matches!(a, Action::DeletePod { pod_uid: uid, .. } if uid == pod_uid));
    let found = again.member(name).and_then(|m| Some((m, m.pod.as_ref().filter(|p| p.uid == pod_uid)?)));
    let Some((member, pod)) = found else {
        let message = format!("the pod of {name} was replaced");
        return Err(check::broken_by(check::Rule::TargetReplaced, name, message));
    };
    match cause {
        DeletionCause::Rebalance => check::rebalance_member(&again, member)?,
        DeletionCause::Update => check::update_pod(&again, member)?,
        DeletionCause::Left => check::left_member(&again, member)?,
        DeletionCause::Ended => check::ended_member(member)?,
        DeletionCause::Failure if last_resort => {}
        DeletionCause::Failure => check::failed_member(&again, member)?,
    }
    Ok(Deletion { member: name.clone(), uid: pod.uid.clone(), version: pod.version.clone() })
}

/// The same just before a pod gets the label of the active member (E24). The second look sees the pods after the first one has seen the record: so no other process that decided by an earlier record comes between.
///
/// # Errors
/// Why the pod does not get it.
pub fn recheck_turn(
    decided: &Snapshot,
    live: &Snapshot,
    name: &MemberName,
    pod_uid: &str,
) -> Result<Turn, check::Violation> {
    let (again, _) = look_again(decided, live);
    let found = again.member(name).and_then(|m| Some((m, m.pod.as_ref().filter(|p| p.uid == pod_uid)?)));
    let Some((member, pod)) = found else {
        let message = format!("the pod of {name} was replaced");
        return Err(check::broken_by(check::Rule::TargetReplaced, name, message));
    };
    check::gets_label(&again, member)?;
    Ok(Turn { version: pod.version.clone() })
}

/// The same just before pods are deleted together for an update. Each is held against what will be when those before it are gone, and either all of them may go or none:
/// whoever goes was counted on by the rules for the others, and the record names them all.
///
/// # Errors
/// The first member whose pod may not be deleted, and why.
pub fn recheck_update(
    decided: &Snapshot,
    live: &Snapshot,
    pods: &[(&MemberName, &str)],
) -> Result<Vec<Deletion>, (MemberName, check::Violation)> {
    let mut then = live.clone();
    let mut deletions = Vec::new();
    for (name, pod_uid) in pods {
        let deletion = recheck_deletion(decided, &then, name, pod_uid, DeletionCause::Update);
        deletions.push(deletion.map_err(|violation| ((*name).clone(), violation))?);
        check::take_pod_away(&mut then, name);
    }
    Ok(deletions)
}

/// The same just before the `StatefulSet` gets smaller.
///
/// # Errors
/// Why it keeps its size.
pub fn recheck_scaling(decided: &Snapshot, live: &Snapshot, replicas: u32) -> Result<Scaling, check::Violation> {
    let (again, _) = look_again(decided, live);
    check::shrink_group(&again, replicas)?;
    match (&decided.set, &again.set) {
        (Some(then), Some(now)) if then.uid == now.uid => {
            Ok(Scaling { uid: now.uid.clone(), version: now.version.clone(), replicas })
        }
        _ => Err(check::broken(check::Rule::TargetReplaced, "the StatefulSet was replaced")),
    }
}

/// The same just before a claim is deleted that a removed member left behind.
///
/// # Errors
/// Why the claim stays.
pub fn recheck_discard(decided: &Snapshot, live: &Snapshot, uid: &str) -> Result<Discard, check::Violation> {
    let (again, _) = look_again(decided, live);
    let Some(left) = again.left_claims.iter().find(|left| left.claim.uid == uid) else {
        return Err(check::broken(
            check::Rule::TargetReplaced,
            "the claim is gone, was replaced, or is expected again",
        ));
    };
    check::discard_claim(&again, left)?;
    let claim = &left.claim;
    Ok(Discard { claim: claim.name.clone(), uid: claim.uid.clone(), version: claim.version.clone() })
}

/// A snapshot of what is there now with the record of the decision, after the seats, settle and remember steps. The end of a command counts if it was
/// known at the decision or is known now.
fn look_again(decided: &Snapshot, live: &Snapshot) -> (Snapshot, Plan) {
    let mut again = live.clone();
    again.record.clone_from(&decided.record);
    again.evidence.retain(|_, e| !matches!(e, Evidence::Unknown(_) | Evidence::Running));
    for (token, evidence) in &decided.evidence {
        again.evidence.entry(token.clone()).or_insert_with(|| evidence.clone());
    }
    let mut plan = Plan::new(again.record.clone());
    // In which zone each member is says who leaves.
    steps::seats::step(&again, &Nobody, &mut plan);
    again.record.clone_from(&plan.record);
    steps::settle::step(&again, &Nobody, &mut plan);
    again.record.clone_from(&plan.record);
    steps::remember::step(&again, &Nobody, &mut plan);
    again.record.clone_from(&plan.record);
    (again, plan)
}

/// Answers no question: these steps ask none.
struct Nobody;

impl Policies for Nobody {
    fn ask(&self, question: &Question) -> Result<Answered, Unanswered> {
        let policy =
            PolicyName { name: "nobody".into(), version: String::new(), source: String::new(), digest: String::new() };
        Err(Unanswered {
            policy,
            kind: "not-asked",
            message: format!("{} is not asked here", question.point),
            notes: vec![],
        })
    }
}
