//! The condition Available: whether clients are served, whatever else is missing (docs/requirements.md, D26). `Ready` says whether all is as desired.
use super::{Condition, Finding, Kind, Truth};
use crate::contract::{Phase, Role};
use crate::membership::{self, Said, quorum};
use crate::over;
use crate::plan::Reason;
use crate::snapshot::{Member, Snapshot};

/// Whether clients are served, and by how many primaries of those that are desired.
pub(super) fn available(s: &Snapshot) -> Condition {
    let condition = |status, reason, message: &str| Condition::new(Kind::Available, status, reason, message);
    let serving: Vec<&Member> = s.serving();
    if serving.is_empty() && s.group.is_stopped() {
        return condition(Truth::False, Finding::Stopped, "spec.replicas is 0");
    }
    let text = format!("{} of {} primaries serve", serving.len(), s.group.primaries);
    if serving.is_empty() {
        return unavailable(s, &text);
    }
    let has_clients = |m: &&Member| m.leads_clients() && m.pod.as_ref().is_some_and(|pod| pod.ready);
    if !serving.iter().any(has_clients) {
        let message = format!("{text}, and no Service leads clients to one yet");
        return condition(Truth::False, Finding::PodsNotReady, &message);
    }
    let Said::Agreed(agreed) = membership::said(s) else {
        return condition(Truth::True, Finding::PrimariesServe, &text);
    };
    let (healthy, voters) = (agreed.healthy_voters(&s.group.name).len(), agreed.list.voters());
    // Whose list is on its way says nothing for a moment.
    if healthy < quorum(voters) && !agreed.silent.is_empty() {
        return condition(Truth::True, Finding::PrimariesServe, &text);
    }
    if healthy < quorum(voters) {
        let message = format!("{text}, and only {healthy} of {voters} voters are known to be healthy");
        return condition(Truth::Unknown, Finding::QuorumLost, &message);
    }
    let reason = if healthy == voters { Finding::QuorumHealthy } else { Finding::QuorumAvailable };
    condition(Truth::True, reason, &format!("{text}, {healthy} of {voters} voters are healthy"))
}

/// Nobody serves, or nobody is known to.
fn unavailable(s: &Snapshot, text: &str) -> Condition {
    if s.group.paused {
        return Condition::new(Kind::Available, Truth::Unknown, Reason::Paused, "the group is paused");
    }
    let condition = |status, reason, message: &str| Condition::new(Kind::Available, status, reason, message);
    let is_silent = |m: &Member| m.pod.as_ref().is_some_and(|pod| pod.phase == Phase::Unreachable);
    // Nothing runs in a pod that does not start.
    let is_unknown = |m: &&Member| (s.role(m).0 == Role::Unknown || is_silent(m)) && over::may_run(s, m);
    let unknown = s.members.iter().filter(is_unknown).count();
    if unknown > 0 {
        let message = format!("{text}; the role of {unknown} members is unknown");
        return condition(Truth::Unknown, Finding::RolesUnknown, &message);
    }
    let Some(known) = &s.record.membership else { return condition(Truth::False, Finding::NoPrimary, text) };
    let serves = |m: &&Member| s.reachable(m) && matches!(s.role(m).0, Role::Primary | Role::Secondary);
    let votes = |m: &&Member| known.of(&m.name).is_some_and(|listed| listed.voter);
    let (there, voters) = (s.members.iter().filter(serves).filter(votes).count(), known.voters());
    match there < quorum(voters) {
        true => {
            let message =
                format!("{text}: {there} of {voters} voters are in a role, and {} have to agree", quorum(voters));
            condition(Truth::False, Finding::QuorumLost, &message)
        }
        false => condition(Truth::False, Finding::NoPrimary, text),
    }
}
