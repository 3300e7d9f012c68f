//! The one rule that proves an application to be over, and who may be primary without it (docs/rules.md, "Over", "May be primary").
//!
//! Seed, failover and the settling of intents use this rule and no other. A new pod of the same name proves nothing.
use crate::contract::{MemberName, Phase, Role, Timestamp};
use crate::limits;
use crate::record::LastPrimary;
use crate::snapshot::{Member, Pod, Snapshot};
use std::collections::BTreeMap;

/// Why something is not proven over yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotOver {
    /// For people.
    pub why: String,
    /// When time alone will prove it. Absent: time does not.
    pub until: Option<Timestamp>,
}

/// Whether what ran in that very container is over: the proof, for people.
///
/// # Errors
/// Why it is not proven, and until when.
pub fn over(s: &Snapshot, last: &LastPrimary) -> Result<&'static str, NotOver> {
    if last.is_by_name() {
        return named(s, last);
    }
    match s.pod(&last.pod_uid) {
        Some((member, pod)) => {
            let stopped = member.reading.role == Role::Stopped && s.record.intent_of(&member.name).is_none();
            if container_over(pod, last) {
                return Ok("its container ended");
            }
            if stopped && pod.phase != Phase::Unreachable {
                return Ok("it says stopped");
            }
            Err(NotOver {
                why: format!("{} may still run in its pod: {}", last.member, describe(s, member)),
                until: None,
            })
        }
        None => vanished(s, last),
    }
}

/// Nothing but the name of a primary is remembered: nobody can look for its pod or node, so only a pod of it that runs and says its role stands for
/// what it does. Where none does, no time proves it over.
fn named(s: &Snapshot, last: &LastPrimary) -> Result<&'static str, NotOver> {
    let member = s.member(&last.member).filter(|m| s.reachable(m));
    match member.filter(|m| m.reading.role != Role::Unknown) {
        Some(_) => Ok("its pod runs and says its role"),
        None => {
            let why = format!(
                "{} was primary, and nothing remembers in which pod or on which node; it has to run and say its role",
                last.member
            );
            Err(NotOver { why, until: None })
        }
    }
}

/// Whether the container of a living pod ended or was replaced.
#[must_use]
pub fn container_over(pod: &Pod, last: &LastPrimary) -> bool {
    // What an unreachable node said last is not what is.
    if pod.phase == Phase::Unreachable {
        return false;
    }
    pod.phase == Phase::Ended
        || pod
            .containers
            .get(&last.container)
            .is_some_and(|c| !c.running || c.id.as_deref() != Some(last.container_id.as_str()))
}

fn vanished(s: &Snapshot, last: &LastPrimary) -> Result<&'static str, NotOver> {
    if s.ended.contains(&last.pod_uid) {
        return Ok("its containers ended before its pod was gone");
    }
    // What ran, ran on a node: memory without one proves nothing.
    let Some(node_name) = &last.node else {
        let why = format!("the pod of {} is gone, and nothing remembers on which node it ran", last.member);
        return Err(NotOver { why, until: None });
    };
    let Some(nodes) = &s.nodes else {
        let why = format!(
            "the pod of {} is gone, and nodes may not be read, so nothing proves that its processes ended",
            last.member
        );
        return Err(NotOver { why, until: None });
    };
    let Some(node) = nodes.get(node_name) else { return Ok("its node is gone") };
    if node.out_of_service {
        return Ok("its node is out of service");
    }
    if !node.ready {
        let why = format!("the pod of {} is gone and its node {node_name} does not report", last.member);
        return Err(NotOver { why, until: None });
    }
    // Nobody can tell a forced deletion from its absence afterwards, so the grace is always waited for.
    let from = last.gone.unwrap_or(s.now).max(node.since);
    let stored = from.saturating_add(limits::NODE_PROOF_SECONDS).saturating_add(i64::from(last.grace));
    // Those times may come from a clock that stepped: part of the proof is what this process saw itself.
    let until = stored.max(node.seen.saturating_add(limits::NODE_PROOF_SECONDS));
    if s.now >= until {
        return Ok("its pod is gone and its node stayed Ready");
    }
    let why = format!(
        "the pod of {} is gone; its node has to stay Ready for {} s more",
        last.member,
        until.saturating_sub(s.now)
    );
    Err(NotOver { why, until: Some(until) })
}

fn describe(s: &Snapshot, member: &Member) -> String {
    match s.role(member) {
        (Role::Stopped, _) => "a command is under way".into(),
        (Role::Unknown, Some(why)) => format!("its role is unknown ({why})"),
        (role, _) => format!("its role is {}", word(role)),
    }
}

/// The role as one word.
#[must_use]
pub fn word(role: Role) -> &'static str {
    match role {
        Role::Unknown => "unknown",
        Role::Stopped => "stopped",
        Role::Starting => "starting",
        Role::Secondary => "secondary",
        Role::Primary => "primary",
        Role::Failed => "failed",
    }
}

/// Everyone who may be primary, and why.
#[must_use]
pub fn may_be_primary(s: &Snapshot) -> BTreeMap<MemberName, String> {
    let mut found = BTreeMap::new();
    for member in &s.members {
        if let Some(why) = lives_as_primary(s, member) {
            found.insert(member.name.clone(), why);
        }
    }
    for last in &s.record.last_primaries {
        if let Err(not) = over(s, last) {
            found.entry(last.member.clone()).or_insert(not.why);
        }
    }
    found
}

/// By what the member itself shows, memory aside.
fn lives_as_primary(s: &Snapshot, member: &Member) -> Option<String> {
    if !alive(s, member) {
        return None;
    }
    // Whoever was seen as primary since is led to follow no more: `remember` forgets the command then.
    let led_to_follow = led_to_follow(s.record.member(&member.name).last_command.as_deref());
    match s.role(member) {
        (Role::Primary, _) => Some("its role is primary".into()),
        (Role::Unknown, why) => Some(format!("its role is unknown: {}", why.unwrap_or_default())),
        (Role::Failed, why) => Some(format!("it failed and is not stopped: {}", why.unwrap_or_default())),
        (Role::Starting, _) if !led_to_follow => Some("it is starting".into()),
        (Role::Starting | Role::Stopped | Role::Secondary, _) => None,
    }
}

/// Whether anything of the application can run in the member's pod: a container that some command names does. What an unreachable node said
/// last counts, for nothing says otherwise.
#[must_use]
pub fn alive(s: &Snapshot, member: &Member) -> bool {
    let runs =
        |pod: &Pod| s.group.commands.containers().any(|name| pod.containers.get(name).is_some_and(|c| c.running));
    member.pod.as_ref().is_some_and(|pod| pod.phase != Phase::Ended && runs(pod))
}

/// Whether a command makes a follower: what is starting after it is not about to be primary.
#[must_use]
pub fn led_to_follow(last_command: Option<&str>) -> bool {
    matches!(last_command, Some("secondary" | "follow"))
}

/// When time alone will next prove a last primary over. Absent: time proves none.
#[must_use]
pub fn proven_at(s: &Snapshot) -> Option<Timestamp> {
    s.record.last_primaries.iter().filter_map(|l| over(s, l).err()?.until).min()
}
