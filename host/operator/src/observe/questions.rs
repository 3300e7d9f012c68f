//! What is asked of members by exec: roles, and how commands ended. Positions are read only when a decision asks for them.
use super::{Ask, target};
use crate::context::Context;
use crate::hints::{FRESH, RECENT, Sight, Worth};
use crate::member::{Said, Target};
use futures::future::join_all;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tanist_core::contract::{MemberName, Phase, Position, Role, Timestamp};
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
    // Only an end stays one.
    if !matches!(evidence, Evidence::Running | Evidence::Unknown(_)) {
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
            let container = pod.containers.get(&group.commands.sequence.container);
            let sight = Sight {
                container_id: container.and_then(|c| c.id.as_deref()),
                role: said.role,
                ready: container.is_some_and(|c| c.ready),
                at: Instant::now(),
                moved: hints.moved,
            };
            let Some(hint) = hints.positions.get(&pod.uid) else { continue };
            match hint.worth(sight) {
                Worth::Gone => drop(hints.positions.remove(&pod.uid)),
                Worth::Old => {}
                worth @ (Worth::Moved | Worth::Stands) => {
                    (member.position, member.position_at) = (hint.position.clone(), hint.at);
                    member.position_led = worth == Worth::Moved;
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
    Said { role: Role::Unknown, detail: Some(detail.into()), processes: None, after: Duration::ZERO, looks: false }
}

/// While somebody may be primary or the group is paused, data moves on: what was asked for up to now says little afterwards. Another
/// generation may have been a pause that nobody saw, and another override is a question of its own.
pub fn led(ctx: &Context, s: &mut Snapshot) {
    let question = (s.group.generation, s.group.overrule.as_ref().map(|o| o.raw.clone()));
    let moves = s.data_may_move();
    if ctx.hints.of(&s.group.uid, |h| h.moves(question, moves, Instant::now())) {
        s.members.iter_mut().for_each(|m| m.position_led = true);
    }
}

/// Reads one sequence beside the rounds; its end starts the next one. `led`: somebody may be primary now.
pub async fn read_position(ctx: &Context, group: &Group, member: &Member, target: Target, token: String, led: bool) {
    let container = &group.commands.sequence.container;
    let asked = Instant::now();
    let (position, said) = target.sequence(ctx, &group.commands.sequence, &token).await;
    let result = if matches!(position, Position::Unknown(_)) { "unknown" } else { "ok" };
    ctx.metrics.executed("sequence", result, asked.elapsed());
    let within = member.pod.as_ref().and_then(|p| p.containers.get(container));
    ctx.hints.of(&group.uid, |hints| {
        hints.reading.remove(&target.uid);
        if let (Some(pod), Some(said)) = (&member.pod, said.filter(|_| *container == group.commands.status.container)) {
            hints.say(pod, container, asked, said);
        }
        let hint = crate::hints::PositionHint {
            container_id: within.and_then(|c| c.id.clone()).unwrap_or_default(),
            position,
            at: ctx.clock.now(),
            asked,
            answered: Instant::now(),
            role: member.reading.role,
            ready: within.is_some_and(|c| c.ready),
            led,
        };
        hints.positions.insert(target.uid.clone(), hint);
    });
}

/// How long a command that runs elsewhere is left alone until it is asked about again.
pub const ASK_AGAIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
    use super::*;
    use crate::args::{Args, Command};
    use crate::hints::PositionHint;
    use clap::Parser;
    use tanist_core::snapshot::Node;

    /// What a round has at hand, with an API server that nobody reaches.
    fn context() -> Context {
        let args = Args::parse_from(["tanist", "run", "--namespaces", "ns", "--runner-image", "i"]);
        let Command::Run(settings) = args.command else { panic!("these are no settings") };
        let config = kube::Config::new("http://localhost:1".parse().unwrap());
        let engine = tanist_engine::Engine::new(tanist_engine::Limits::default()).unwrap();
        let (wake, _) = futures::channel::mpsc::unbounded();
        Context::new(config, *settings, engine, Default::default(), wake).unwrap()
    }

    /// A look at a group whose members are stopped, or at a paused one, whose members nobody asks. Whether what db-0 holds is known, and stands.
    fn look(ctx: &Context, paused: bool, generation: i64) -> (bool, bool) {
        let node = Node { ready: true, since: 0, seen: 0, out_of_service: false, cordoned: false, zone: None };
        let mut s = crate::clock::tests::snapshot(1000, node);
        (s.group.paused, s.group.generation) = (paused, generation);
        let stopped = Said { role: Role::Stopped, detail: None, processes: None, after: Duration::ZERO };
        let said = s.members.iter().map(|m| (m.name.clone(), stopped.clone()));
        let said = if paused { Statuses::new() } else { said.collect() };
        apply(ctx, &s.group.clone(), &mut s.members, said, s.now);
        led(ctx, &mut s);
        (s.members[0].position != Position::NotAsked, s.position_stands(&s.members[0]))
    }

    /// The sequence of db-0, asked for then, is told.
    fn tell(ctx: &Context, asked: Instant) {
        let (container_id, position, role) = ("c".to_owned(), Position::Empty, Role::Stopped);
        let answered = Instant::now();
        let hint = PositionHint { container_id, position, at: 1000, asked, answered, role, ready: false, led: false };
        ctx.hints.of("group", |h| h.positions.insert("u0".into(), hint));
    }

    // What was asked for before a pause, a change of the spec or a primary says nothing afterwards, also when it is told later.
    #[tokio::test]
    async fn no_seed_rests_on_what_was_asked_for_before_a_pause() {
        let ctx = context();
        assert_eq!(look(&ctx, false, 1), (false, false));
        tell(&ctx, Instant::now());
        assert_eq!(look(&ctx, false, 1), (true, true));
        assert_eq!(look(&ctx, false, 3), (true, false), "it may have been paused since");
        let asked = Instant::now();
        tell(&ctx, asked);
        assert_eq!(look(&ctx, false, 3), (true, true));
        assert_eq!(look(&ctx, true, 4), (false, false), "while paused");
        assert_eq!(look(&ctx, false, 4), (false, false), "it is asked for anew");
        tell(&ctx, asked);
        assert_eq!(look(&ctx, false, 4), (true, false), "it was under way during the pause");
        tell(&ctx, Instant::now());
        assert_eq!(look(&ctx, false, 4), (true, true));
    }

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
