//! Moves: a group whose `spec.members.kind` changed goes from one kind of members to the other, pod by pod, and no pod is deleted (D23).
//!
//! Who makes the pods is in the record: with numbers (`seats`) it is this operator. On the way to `Pods` the numbers are written first, then each pod comes to belong to the group, and the
//! `StatefulSet` to which none belongs any more goes. On the way back the `StatefulSet` is applied first, each pod comes to belong to it, and then the numbers go. So every pod always has an owner,
//! and a process that dies in between leaves what the next one goes on with.
use crate::check::{can_leave_set, fits_set, is_rolled_forward};
use crate::plan::{Action, Plan, Reason};
use crate::policy::Policies;
use crate::record::Seats;
use crate::snapshot::{Moving, MovingSet, Pod, Snapshot};

/// Runs this step; see the documentation of the module.
pub fn step(s: &Snapshot, _: &dyn Policies, plan: &mut Plan) {
    adopt(s, plan);
    let Some(moving) = &s.moving else { return };
    let waits = match (s.group.makes_pods, moving) {
        (false, Moving { to_pods: true, .. }) => number(s, plan),
        (true, Moving { to_pods: true, set: Some(set) }) => drop_set(s, plan, set),
        (true, Moving { to_pods: false, set }) => hand_over(s, plan, set.as_ref()),
        (false, Moving { to_pods: false, .. }) | (true, Moving { to_pods: true, set: None }) => Ok(()),
    };
    if let Err(why) = waits {
        let kind = if moving.to_pods { "Pods" } else { "StatefulSet" };
        plan.wait(Reason::MovePending, None, format!("members.kind is to be {kind}: {why}"));
    }
}

/// Pods come to belong to what is to make them.
fn adopt(s: &Snapshot, plan: &mut Plan) {
    for member in &s.members {
        let Some(pod) = member.pod.as_ref().filter(|pod| !pod.is_being_deleted) else { continue };
        let Some(change) = pod.adoption.clone() else { continue };
        let (pod_uid, version) = (pod.uid.clone(), pod.version.clone());
        plan.actions.push(Action::Adopt { member: member.name.clone(), pod_uid, version, change });
    }
}

/// The members of the `StatefulSet` get their numbers.
fn number(s: &Snapshot, plan: &mut Plan) -> Result<(), String> {
    can_leave_set(s)?;
    let size = s.roster().size();
    // Members of before left their claims behind, whose numbers are used.
    let claims =
        s.surplus_claims.iter().map(String::as_str).chain(s.left_claims.iter().map(|left| left.member.as_str()));
    let used =
        claims.filter_map(|name| name.rsplit_once('-')?.1.parse::<u32>().ok()).map(|used| used.saturating_add(1));
    let next = used.chain(s.members.iter().map(|m| m.ordinal.saturating_add(1))).fold(size, u32::max);
    plan.record.seats = Some(Seats { numbers: (0..size).collect(), next, ..Seats::default() });
    Err("its members have got their numbers".into())
}

/// The `StatefulSet` goes when no pod belongs to it any more.
fn drop_set(s: &Snapshot, plan: &mut Plan, set: &MovingSet) -> Result<(), String> {
    all_are_here(s)?;
    if s.set.as_ref().is_some_and(|own| own.unseen) {
        return Err(
            "the operator cannot make pods yet: the Service with the group's name does not say of which template"
                .into(),
        );
    }
    if set.is_being_deleted {
        return Err("the StatefulSet is being deleted; if that takes long, its finalizers say what holds it".into());
    }
    plan.actions.push(Action::DropSet { uid: set.uid.clone(), version: set.version.clone() });
    Err("the StatefulSet, to which no pod belongs any more, is being deleted".into())
}

/// The `StatefulSet` makes the pods from now on when all of them belong to it.
fn hand_over(s: &Snapshot, plan: &mut Plan, set: Option<&MovingSet>) -> Result<(), String> {
    fits_set(&s.group, &s.record)?;
    is_rolled_forward(s)?;
    let set = set.ok_or("the StatefulSet is being created")?;
    if !set.is_current || set.replicas != s.group.replicas {
        return Err("the StatefulSet is being applied".into());
    }
    all_are_here(s)?;
    plan.record.seats = None;
    plan.record.last_replicas = s.group.replicas;
    Ok(())
}

/// Whether every pod belongs to what is to make it.
fn all_are_here(s: &Snapshot) -> Result<(), String> {
    let is_elsewhere = |pod: &Pod| pod.is_elsewhere;
    match s.members.iter().find(|member| member.pod.as_ref().is_some_and(is_elsewhere)) {
        Some(member) => Err(format!("the pod of {} changes its owner", member.name)),
        None => Ok(()),
    }
}
