//! How far a changed template has come, in the words of requirement rows E30 to E38.
use crate::check;
use crate::contract::MemberName;
use crate::snapshot::{Member, Snapshot};

/// How far a changed template has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdatePhase {
    /// Nobody has it yet (E31).
    Pending,
    /// The first member that got it is watched (E32).
    Canary,
    /// One member after the other gets it (E33).
    Rollout,
    /// Every member has it (E38).
    Done,
    /// It failed on the first member that got it, or was given up; final until it changes (E38).
    Failed,
    /// Every member has it, and further ones are on their way: they begin with it (E37).
    CanaryUpscale,
}

impl UpdatePhase {
    /// The word of the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            UpdatePhase::Pending => "Pending",
            UpdatePhase::Canary => "Canary",
            UpdatePhase::Rollout => "Rollout",
            UpdatePhase::Done => "Done",
            UpdatePhase::Failed => "Failed",
            UpdatePhase::CanaryUpscale => "CanaryUpscale",
        }
    }
}

/// Whether a member that stays has a pod of the present template. What another version of the operator makes otherwise is no other template.
pub(super) fn is_updated(s: &Snapshot, m: &Member) -> bool {
    let update = &s.group.update;
    match s.record.stopped_at_canary(update) {
        // What pods are made from is the template before.
        true => check::awaits_update(s, m),
        false => !s.record.is_rolled_back(update) && check::has_present_template(s, m),
    }
}

/// Whether a member that a new one replaces for its template is still there.
pub(super) fn is_replacing(s: &Snapshot) -> bool {
    let leaves = |m: &Member| s.record.seats.as_ref().is_some_and(|seats| seats.leaving.contains(&m.ordinal));
    let replaced = |m: &Member| check::is_being_replaced(s, m) || s.group.makes_pods && leaves(m);
    s.members.iter().any(|m| replaced(m) && is_older(m))
}

/// Whether the member's pod has an older template, or is gone. One that moves to another zone may have the present one.
fn is_older(m: &Member) -> bool {
    m.pod.as_ref().is_none_or(|pod| pod.older_template)
}

/// How far the group's template has come, and the member on which it is tried or failed.
#[must_use]
pub fn update(s: &Snapshot) -> (UpdatePhase, Option<MemberName>) {
    let update = &s.group.update;
    let canary = s.record.canary_of(update);
    let failed = canary.is_some_and(|canary| canary.failure().is_some());
    let is_watched = canary.is_some_and(|canary| canary.verdict.is_none());
    let name = canary.filter(|_| failed || is_watched).map(|canary| canary.member.clone());
    let new = s.members.iter().filter(|m| check::has_present_template(s, m)).count();
    let desired = usize::try_from(s.group.replicas).unwrap_or(usize::MAX);
    let phase = match s.members.iter().any(|m| check::awaits_update(s, m)) {
        _ if failed || s.record.fallback(update).is_some() => UpdatePhase::Failed,
        true if new == 0 => UpdatePhase::Pending,
        true if is_watched => UpdatePhase::Canary,
        true => UpdatePhase::Rollout,
        false if is_replacing(s) => UpdatePhase::Rollout,
        false if new < desired => UpdatePhase::CanaryUpscale,
        false => UpdatePhase::Done,
    };
    (phase, name)
}
