//! What is asked of members by exec: roles, and how commands ended. Positions are read only when a decision asks for them.
use super::{Ask, target};
use crate::context::Context;
use crate::hints::{FRESH, RECENT};
use crate::member::{Said, Target};
use futures::future::join_all;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tanist_core::contract::{MemberName, Phase, Position, Role, Timestamp};
use tanist_core::limits;
use tanist_core::over::word;
use tanist_core::record::{Intent, Record};
use tanist_core::snapshot::{Evidence, Group, Member, Pod, Reading, Snapshot};
use tracing::info;

/// Roles as they were said just now.
pub type Statuses = BTreeMap<MemberName, Said>;

/// How unsettled commands ended, by token.
pub type Evidences = BTreeMap<String, Evidence>;

/// Asks for roles, all at once; not those who said theirs already.
pub async fn statuses(ctx: &Context, group: &Group, members: &[Member], ask: Ask<'_>, mut said: Statuses) -> Statuses {
    // Row A33: a paused group is not even asked.
    if group.paused {
        return Statuses::new();
    }
    let container = &group.commands.status.container;
    let alive = members.iter().filter(|m| {
        m.pod.as_ref().is_some_and(|p| {
            matches!(p.phase, Phase::Running | Phase::Terminating)
                && p.containers.get(container).is_some_and(|c| c.running)
        })
    });
    let unheard = alive.filter(|m| !said.contains_key(&m.name));
    let targets = unheard.filter_map(|m| Some((m.name.clone(), m.pod.as_ref()?, target(group, m)?)));
    let asked = targets.map(|(name, pod, target)| async move {
        let (patience, settled) = patience(ask, group.runner, &name);
        let recent = ctx.hints.of(&group.uid, |h| h.recent(pod, container, patience, settled));
        let said = match recent {
            Some(said) => said,
            None => status(ctx, group, pod, &target).await,
        };
        (name, said)
    });
    said.extend(join_all(asked).await);
    said
}

/// How old an answer of that member may be, in any container and in one that stayed ready (decision 0008).
fn patience(ask: Ask<'_>, runner: bool, name: &MemberName) -> (Duration, Duration) {
    match ask {
        // Without the runner, readiness says nothing about roles.
        Ask::Changed(within) if runner => (RECENT, within.max(RECENT)),
        Ask::Everyone => (FRESH, FRESH),
        Ask::Only(only) if only == name => (Duration::ZERO, Duration::ZERO),
        Ask::Only(_) | Ask::Recent | Ask::Changed(_) => (RECENT, RECENT),
    }
}

async fn status(ctx: &Context, group: &Group, pod: &Pod, target: &Target) -> Said {
    let asked = Instant::now();
    let said = target.status(ctx, &group.commands.status).await;
    let result = if said.role == Role::Unknown { "unknown" } else { "ok" };
    ctx.metrics.executed("status", result, asked.elapsed());
    ctx.hints.of(&group.uid, |h| h.say(pod, &group.commands.status.container, asked, said.clone()));
    said
}

/// Gathers how unsettled commands ended: from this process' memory, else from the runner's.
pub async fn evidence(ctx: &Context, group: &Group, record: &Record, members: &[Member]) -> Evidences {
    let gathered = record.intents.iter().map(|intent| async move {
        let known = ctx.hints.of(&group.uid, |h| {
            if h.running.contains(&intent.token) || h.promised.contains(&intent.token) {
                Some(Evidence::Running)
            } else {
                h.results.get(&intent.token).cloned()
            }
        });
        let evidence = match known {
            Some(Evidence::Unknown(_)) | None if !group.paused => settle(ctx, group, intent, members).await,
            known => known,
        };
        evidence.map(|e| (intent.token.clone(), e))
    });
    join_all(gathered).await.into_iter().flatten().collect()
}

/// Asks the runner. While the command runs there, it is asked again every second, beside the rounds.
async fn settle(ctx: &Context, group: &Group, intent: &Intent, members: &[Member]) -> Option<Evidence> {
    let member = members.iter().find(|m| m.name == intent.member)?;
    let target = target(group, member).filter(|t| t.uid == intent.pod_uid)?;
    let evidence = target.settle(ctx, &intent.container, &intent.token).await;
    if evidence != Evidence::Running {
        ctx.hints.of(&group.uid, |h| drop(h.results.insert(intent.token.clone(), evidence.clone())));
    }
    Some(evidence)
}

/// Writes what was said into the members, and what is remembered of their roles and positions.
pub fn apply(ctx: &Context, group: &Group, members: &mut [Member], mut said: Statuses, now: Timestamp) {
    ctx.hints.of(&group.uid, |hints| {
        let alive: Vec<String> = members.iter().filter_map(|m| m.pod.as_ref().map(|p| p.uid.clone())).collect();
        hints.roles.retain(|uid, _| alive.contains(uid));
        hints.positions.retain(|uid, _| alive.contains(uid));
        hints.said.retain(|uid, _| alive.contains(uid));
        hints.touched.retain(|uid, _| alive.contains(uid));
        for member in members {
            let Some(pod) = &member.pod else { continue };
            let asked = said.contains_key(&member.name);
            let said = said.remove(&member.name).unwrap_or_else(|| silent(group, pod.phase));
            let hint =
                hints.roles.entry(pod.uid.clone()).or_insert(crate::hints::RoleHint { role: said.role, since: now });
            if hint.role != said.role {
                info!(member = %member.name, from = word(hint.role), to = word(said.role), "role changed");
                (hint.role, hint.since) = (said.role, now);
            }
            member.reading = Reading {
                role: said.role,
                detail: said.detail,
                since: hint.since,
                // A container that does not run yet was not asked, and the same answer twice is one.
                unknown_streak: hints.said.get(&pod.uid).filter(|_| asked).map_or(0, |h| h.streak),
                processes: said.processes,
            };
            member.asked = hints.reading.contains(&pod.uid);
            let id = pod.containers.get(&group.commands.sequence.container).and_then(|c| c.id.as_deref());
            if let Some(hint) = hints.positions.get(&pod.uid) {
                let same = id == Some(hint.container_id.as_str()) && hint.role == said.role;
                let patience = match (&hint.position, said.role) {
                    (Position::Unknown(_), _) => limits::UNKNOWN_POSITION_SECONDS,
                    // What is stopped does not move.
                    (_, Role::Stopped) => i64::MAX,
                    _ => limits::POSITION_SECONDS,
                };
                if same && now.saturating_sub(hint.at) < patience {
                    (member.position, member.position_at) = (hint.position.clone(), hint.at);
                    member.position_led = hint.led;
                }
            }
        }
    });
}

fn silent(group: &Group, phase: Phase) -> Said {
    let detail = match phase {
        _ if group.paused => "it is not asked while the group is paused",
        Phase::Unreachable => "its node does not report",
        Phase::Ended => "its pod ended",
        _ => "its container does not run",
    };
    Said { role: Role::Unknown, detail: Some(detail.into()), processes: None, after: Duration::ZERO }
}

/// While somebody may be primary, whatever runs moves on: what was read before says little afterwards.
pub fn led(ctx: &Context, s: &mut Snapshot) {
    if s.may_be_primary().is_empty() {
        return;
    }
    s.members.iter_mut().for_each(|m| m.position_led = true);
    ctx.hints.of(&s.group.uid, |h| h.positions.values_mut().for_each(|p| p.led = true));
}

/// Reads one sequence beside the rounds; its end starts the next one. `led`: somebody may be primary now.
pub async fn read_position(ctx: &Context, group: &Group, member: &Member, target: Target, token: String, led: bool) {
    let container = &group.commands.sequence.container;
    let asked = Instant::now();
    let (position, said) = target.sequence(ctx, &group.commands.sequence, &token).await;
    let result = if matches!(position, Position::Unknown(_)) { "unknown" } else { "ok" };
    ctx.metrics.executed("sequence", result, asked.elapsed());
    let id = member.pod.as_ref().and_then(|p| p.containers.get(container)).and_then(|c| c.id.clone());
    ctx.hints.of(&group.uid, |hints| {
        hints.reading.remove(&target.uid);
        if let (Some(pod), Some(said)) = (&member.pod, said.filter(|_| *container == group.commands.status.container)) {
            hints.say(pod, container, asked, said);
        }
        let hint = crate::hints::PositionHint {
            container_id: id.unwrap_or_default(),
            position,
            at: super::now(),
            role: member.reading.role,
            led,
        };
        hints.positions.insert(target.uid.clone(), hint);
    });
}

/// How long a command that runs elsewhere is left alone until it is asked about again.
pub const ASK_AGAIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    // Decision 0008: the table.
    #[test]
    fn how_old_an_answer_may_be_depends_on_what_rests_on_it() {
        let (one, other) = (MemberName::from("db-1"), MemberName::from("db-2"));
        let resync = Duration::from_secs(60);
        assert_eq!(patience(Ask::Changed(resync), true, &one), (RECENT, resync));
        assert_eq!(patience(Ask::Changed(resync), false, &one), (RECENT, RECENT), "readiness says nothing of roles");
        assert_eq!(patience(Ask::Everyone, true, &one), (FRESH, FRESH), "ready or not, before a term opens");
        assert_eq!(patience(Ask::Only(&one), true, &one), (Duration::ZERO, Duration::ZERO));
        assert_eq!(patience(Ask::Only(&one), true, &other), (RECENT, RECENT));
        assert_eq!(patience(Ask::Recent, true, &one), (RECENT, RECENT));
    }
}
