//! The members of an active/passive group as they are seen: `status` says of each only whether it is well, and the record who is active.
use super::{Member, Pod, Snapshot};
use crate::contract::{Phase, Role};
use crate::limits;

impl Snapshot {
    /// Whether the member is the active one of an active/passive group, in the pod in which it became that.
    #[must_use]
    pub fn is_active(&self, member: &Member) -> bool {
        let uid = member.pod.as_ref().map(|pod| pod.uid.as_str());
        self.record.active.as_ref().is_some_and(|active| Some(active.pod_uid.as_str()) == uid)
    }

    /// Whether the member was active in its present pod, and a write that was decided then may still be on its way.
    #[must_use]
    pub fn gave_way(&self, member: &Member) -> bool {
        let uid = member.pod.as_ref().map(|pod| pod.uid.as_str());
        self.record.gave_way.get(&member.name).is_some_and(|given| Some(given.as_str()) == uid)
    }
}

/// The role of a member: primary if it is the active one and well, secondary if another one is. Every container counts, each by its own readiness probe (E23). One that is not well has failed, or is still
/// starting: it was never well in this pod, and the user gives a start that long.
pub(super) fn seen(s: &Snapshot, member: &Member) -> (Role, Option<String>) {
    let reading = &member.reading;
    let Some(pod) = &member.pod else { return (Role::Unknown, reading.detail.clone()) };
    // A probe that could not be asked for a moment says nothing, and a healthy member stays what it is (S19).
    let is_silent = reading.role == Role::Unknown && reading.unknown_streak < limits::UNKNOWN_STREAK;
    match why_unwell(pod, reading.role == Role::Secondary || is_silent, reading.detail.as_deref()) {
        // The gate is first written when the member is well.
        Some(why)
            if pod.gate.is_none() && pod.phase_since.saturating_add(i64::from(s.group.start_deadline)) > s.now =>
        {
            (Role::Starting, Some(why))
        }
        Some(why) => (Role::Failed, Some(why)),
        None if is_silent => (Role::Unknown, reading.detail.clone()),
        None if s.is_active(member) => (Role::Primary, None),
        None => (Role::Secondary, None),
    }
}

/// Whether the member is well, and clients are led to the active one.
pub(super) fn confirmed(s: &Snapshot, member: &Member, role: Role) -> bool {
    seen(s, member).0 == role && (role != Role::Primary || member.leads_clients())
}

/// Why the member cannot be active. `None`: it can be. `probed`: whether its `status` says so, or may.
fn why_unwell(pod: &Pod, probed: bool, said: Option<&str>) -> Option<String> {
    if pod.phase != Phase::Running {
        return Some(format!("its pod is {}", crate::check::phase_word(pod.phase)));
    }
    if let Some((name, _)) = pod.containers.iter().find(|(_, container)| !(container.running && container.ready)) {
        return Some(format!("its container {name} is not ready"));
    }
    if let Some(stray) = &pod.stray {
        return Some(stray.clone());
    }
    (!probed).then(|| said.unwrap_or("its status fails").to_owned())
}
