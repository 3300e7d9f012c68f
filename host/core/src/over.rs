//! The one rule that proves an application to be over, and which members may be primary without that proof (docs/rules.md, "Over", "May be
//! primary").
//!
//! Seed, failover and the settling of intents use this rule and no other. A new pod of the same name proves nothing.
use crate::contract::{MemberName, Phase, Role, Timestamp};
use crate::limits;
use crate::record::{LastPrimary, Verb};
use crate::snapshot::{Member, Pod, Snapshot};
use std::collections::BTreeMap;

/// Why something is not proven over yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotOver {
    /// The reason that users see.
    pub why: String,
    /// When time alone will prove it, in seconds since 1970. Absent: time alone proves nothing here.
    pub until: Option<Timestamp>,
}

/// Whether the application that ran in that container is over. Returns the proof as users see it.
///
/// # Errors
/// Why it is not proven yet, and when it will be.
pub fn prove_over(s: &Snapshot, last: &LastPrimary) -> Result<&'static str, NotOver> {
    let place = s.pod(&last.pod_uid).filter(|(_, pod)| !last.is_by_name() && !container_over(pod, last));
    // Members that agree choose themselves who leads, and the one that led before follows.
    let follows = |member: &Member| s.group.commands.membership.is_some() && member.reading.role == Role::Secondary;
    match place {
        Some((member, pod)) if follows(member) && pod.phase != Phase::Unreachable => Ok("its status says secondary"),
        _ => prove_ended(s, last),
    }
}

/// Whether what ran in that container has ended, in whatever role: a member that follows has not.
///
/// # Errors
/// Why it is not proven yet, and when it will be.
pub fn prove_ended(s: &Snapshot, last: &LastPrimary) -> Result<&'static str, NotOver> {
    if last.is_by_name() {
        return prove_over_by_name(s, last);
    }
    match s.pod(&last.pod_uid) {
        Some((member, pod)) => {
            if container_over(pod, last) {
                return Ok("its container ended");
            }
            if is_made_primary(s, member) {
                return Err(NotOver { why: format!("{} may become primary: {UNRECORDED}", last.member), until: None });
            }
            if says_stopped(s, member) {
                return Ok("its status says stopped");
            }
            Err(NotOver {
                why: format!("{} may still run in its pod: {}", last.member, describe_role(s, member)),
                until: None,
            })
        }
        None => prove_vanished_over(s, last),
    }
}

/// Whether the member's `status` says that it is stopped, on a node that reports, also in a pod that is being deleted, and no command is open on it that could start it.
#[must_use]
pub fn says_stopped(s: &Snapshot, member: &Member) -> bool {
    let reports = member.pod.as_ref().is_some_and(|pod| pod.phase != Phase::Unreachable);
    // A command about other members starts nothing.
    let starts_nothing =
        s.record.intent_of(&member.name).is_none_or(|intent| intent.verb.is_hook() || intent.verb == Verb::Upgrade);
    reports && starts_nothing && member.reading.role == Role::Stopped
}

/// Only the name of a primary is recorded, not its pod and node. So it is over only as far as its present pod runs and reports a role; without that no
/// amount of time proves it over.
fn prove_over_by_name(s: &Snapshot, last: &LastPrimary) -> Result<&'static str, NotOver> {
    let member = s.member(&last.member).filter(|m| s.reachable(m));
    match member.filter(|m| m.reading.role != Role::Unknown) {
        Some(_) => Ok("its pod runs and reports its role"),
        None => {
            let why = format!(
                "{} was primary, and neither its pod nor its node is recorded; its pod has to run and report its role",
                last.member
            );
            Err(NotOver { why, until: None })
        }
    }
}

/// Whether the container of a living pod ended or was replaced.
#[must_use]
pub fn container_over(pod: &Pod, last: &LastPrimary) -> bool {
    // The last report of a node that no longer reports may be out of date.
    if pod.phase == Phase::Unreachable {
        return false;
    }
    pod.phase == Phase::Ended
        || pod
            .containers
            .get(&last.container)
            .is_some_and(|c| !c.running || c.id.as_deref() != Some(last.container_id.as_str()))
}

fn prove_vanished_over(s: &Snapshot, last: &LastPrimary) -> Result<&'static str, NotOver> {
    if s.ended.contains(&last.pod_uid) {
        return Ok("its containers ended before its pod was gone");
    }
    // Without the node nothing can be proven.
    let Some(node_name) = &last.node else {
        let why = format!("the pod of {} is gone, and the node that it ran on is not recorded", last.member);
        return Err(NotOver { why, until: None });
    };
    let Some(nodes) = &s.nodes else {
        let why = format!(
            "the pod of {} is gone, and the operator may not read nodes, so nothing proves that its processes ended",
            last.member
        );
        return Err(NotOver { why, until: None });
    };
    let Some(node) = nodes.get(node_name) else { return prove_over_without_node(s, last, node_name) };
    if node.out_of_service {
        return Ok("its node is out of service");
    }
    if !node.ready {
        let why = format!("the pod of {} is gone and its node {node_name} does not report", last.member);
        return Err(NotOver { why, until: None });
    }
    // Afterwards a forced deletion cannot be told from a normal one, so the grace period is always waited for.
    // A process that noted the time before this one began may have had a wrong clock, so the whole wait is this process's own (docs/safety.md, S28).
    let gone = s.counts_from(gone_since(s, last));
    // From then on it is known that the kubelet reported after the pod went, or has come back since, so that it hears of it.
    let reported = gone.saturating_add(limits::READY_LAG_SECONDS).max(node.since).max(node.seen);
    let until = reported.saturating_add(limits::KUBELET_SECONDS).saturating_add(i64::from(last.grace));
    // Members are asked after the nodes were read, which takes time in which a node may have become silent.
    if s.nodes_at.min(s.now) >= until {
        return Ok("its pod is gone and its node stayed Ready");
    }
    let why = format!(
        "the pod of {} is gone; its node has to stay Ready for {} s more",
        last.member,
        until.saturating_sub(s.now).max(1)
    );
    Err(NotOver { why, until: Some(until) })
}

/// Since when the pod is known to be gone: at the earliest since this process saw that itself. It may have seen the pod after another process, whose clock was behind, noted that it was gone.
fn gone_since(s: &Snapshot, last: &LastPrimary) -> Timestamp {
    let noted = last.gone.unwrap_or(s.now);
    s.gone_pods.get(&last.pod_uid).map_or(noted, |seen| noted.max(*seen))
}

/// Why the member may still run where it led or was about to. `None`: nothing that is remembered of it runs.
#[must_use]
pub fn may_run_still(s: &Snapshot, member: &MemberName) -> Option<NotOver> {
    let mut own = s.record.last_primaries.iter().filter(|last| last.member == *member);
    own.find_map(|last| prove_over(s, last).err())
}

/// Whether the member may be primary in a pod that is gone, and no amount of time alone proves that it is over: its node does not report, or is not known.
#[must_use]
pub fn is_gone_unproven(s: &Snapshot, member: &MemberName) -> bool {
    let gone = |last: &&LastPrimary| last.member == *member && !last.is_by_name() && s.pod(&last.pod_uid).is_none();
    let mut last = s.record.last_primaries.iter().filter(gone);
    last.any(|last| prove_vanished_over(s, last).is_err_and(|not| not.until.is_none()))
}

/// Its node was deleted. The machine may be there still: `kubectl delete node` ends nothing, and the kubelet goes on to end the pods that the API server deletes.
/// It is given the time for that.
fn prove_over_without_node(s: &Snapshot, last: &LastPrimary, node: &str) -> Result<&'static str, NotOver> {
    // Before the deletion the node may have been cut off, and stored times may come from a clock that stepped. So what this process saw itself counts.
    let seen = s.deleted_nodes.get(node).copied().unwrap_or(s.now);
    let wait = limits::KUBELET_SECONDS.saturating_add(i64::from(last.grace));
    // The kubelet only learns of the pod's deletion when that happens, however long ago its node was deleted.
    let until = gone_since(s, last).max(seen).saturating_add(wait);
    if s.now >= until {
        return Ok("its node is gone");
    }
    let why = format!(
        "the pod of {} is gone and its node {node} was deleted; what still runs there has {} s more to end",
        last.member,
        until.saturating_sub(s.now)
    );
    Err(NotOver { why, until: Some(until) })
}

fn describe_role(s: &Snapshot, member: &Member) -> String {
    match s.role(member) {
        (Role::Stopped, _) => "a command on it is not settled".into(),
        (Role::Unknown, Some(why)) => format!("its role is unknown ({why})"),
        (role, _) => format!("its role is {}", role_word(role)),
    }
}

/// The role as one word.
#[must_use]
pub fn role_word(role: Role) -> &'static str {
    match role {
        Role::Unknown => "unknown",
        Role::Stopped => "stopped",
        Role::Starting => "starting",
        Role::Secondary => "secondary",
        Role::Primary => "primary",
        Role::Failed => "failed",
    }
}

/// The members that may be primary, with the reason of each.
#[must_use]
pub fn may_be_primary(s: &Snapshot) -> BTreeMap<MemberName, String> {
    let mut found = BTreeMap::new();
    for member in &s.members {
        if let Some(why) = shows_as_primary(s, member) {
            found.insert(member.name.clone(), why);
        }
    }
    for (name, why) in not_over(s) {
        found.entry(name.clone()).or_insert(why);
    }
    found
}

/// Why that one may be primary. It is what [`may_be_primary`] says of it, without a look at all the others: rules ask for each member.
#[must_use]
pub fn why_may_be_primary(s: &Snapshot, name: &MemberName) -> Option<String> {
    let shows = s.member(name).and_then(|member| shows_as_primary(s, member));
    shows.or_else(|| not_over(s).find(|(last, _)| *last == name).map(|(_, why)| why))
}

/// The primaries of the record that are not proven over, with the reasons. Where one member is active, a label says who that is, and nothing is remembered.
fn not_over(s: &Snapshot) -> impl Iterator<Item = (&MemberName, String)> {
    let last = s.record.last_primaries.iter().filter(|_| !s.group.active_passive);
    last.filter_map(|last| Some((&last.member, prove_over(s, last).err()?.why)))
}

/// What is said of a member for which [`is_made_primary`] holds.
const UNRECORDED: &str = "a command that makes it primary runs in it, and status.record does not have that command (the status was removed or replaced?); its end is awaited";

/// Whether a command makes the member primary that the record does not have: it was begun before the status was removed, or replaced by an older one. `status`
/// may say stopped or secondary until that command has taken effect.
fn is_made_primary(s: &Snapshot, member: &Member) -> bool {
    unrecorded(s, member).is_some_and(Verb::token_makes_primary)
}

/// The token of a command that runs in the member and that the record does not have.
#[must_use]
pub fn unrecorded<'a>(s: &Snapshot, member: &'a Member) -> Option<&'a str> {
    let is_unrecorded = |token: &&str| s.record.intents.iter().all(|intent| intent.token != **token);
    member.reading.running.as_deref().filter(is_unrecorded)
}

/// Why the member may be primary by what it shows itself, without the record. `None`: it cannot be.
fn shows_as_primary(s: &Snapshot, member: &Member) -> Option<String> {
    if s.group.active_passive {
        // Who is active is a label, so it is always known.
        return member.leads_clients().then(|| "it is the active member".to_owned());
    }
    if !may_run(s, member) {
        return None;
    }
    if is_made_primary(s, member) && s.role(member).0 != Role::Primary {
        return Some(UNRECORDED.into());
    }
    // If the member was seen as primary after its `secondary` or `follow`, the remember step has removed that command.
    let follows = is_follow_command(s.record.member(&member.name).last_command.as_deref());
    match s.role(member) {
        (Role::Primary, _) => Some("its role is primary".into()),
        (Role::Unknown, why) => Some(format!("its role is unknown: {}", why.unwrap_or_default())),
        (Role::Failed, why) => Some(format!("it failed and is not stopped: {}", why.unwrap_or_default())),
        (Role::Starting, _) if !follows => Some("it is starting".into()),
        (Role::Starting | Role::Stopped | Role::Secondary, _) => None,
    }
}

/// Whether anything of the application can run in the member's pod: a container that some command names runs; or any, if the pod was made before that of `status`, or of a start, got its name. For a node that
/// does not report, its last report counts.
#[must_use]
pub fn may_run(s: &Snapshot, member: &Member) -> bool {
    let runs = |pod: &Pod| {
        let is_older = s.group.commands.at_home().any(|name| !pod.containers.contains_key(name));
        let named = |name: &str| s.group.commands.containers().any(|other| other == name);
        pod.containers.iter().any(|(name, container)| container.running && (is_older || named(name)))
    };
    member.pod.as_ref().is_some_and(|pod| pod.phase != Phase::Ended && runs(pod))
}

/// Whether a command makes a secondary: a member that is starting after it does not become primary.
#[must_use]
pub fn is_follow_command(last_command: Option<&str>) -> bool {
    matches!(last_command, Some("secondary" | "follow"))
}

/// When time alone will next prove a last primary over, in seconds since 1970. Absent: time alone proves none of them over.
#[must_use]
pub fn proven_at(s: &Snapshot) -> Option<Timestamp> {
    s.record.last_primaries.iter().filter_map(|l| prove_over(s, l).err()?.until).min()
}
