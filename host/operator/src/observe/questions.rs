//! Asks members by exec: for roles, and for the outcome of commands. Positions are read only when a decision needs them.
use super::{Ask, target};
use crate::context::Context;
use crate::hints::{Asking, FRESH, RECENT, Sight, Worth};
use crate::member::{StatusAnswer, Target, unasked};
use crate::slots;
use futures::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tanist_core::contract::{MemberName, Phase, Position, Role, Timestamp};
use tanist_core::over::role_word;
use tanist_core::record::{Intent, Record};
use tanist_core::snapshot::{Evidence, Group, Member, Pod, Reading, Snapshot};
use tokio::sync::watch;
use tracing::{Instrument, info};

/// The present answers of `status`, by member.
pub type Statuses = BTreeMap<MemberName, StatusAnswer>;

/// The outcomes of unsettled commands, by token.
pub type Evidences = BTreeMap<String, Evidence>;

/// How long a round waits for a member's role while nothing dangerous rests on it. A slower member counts as unknown; the round goes on with the
/// others, and the late answer starts the next round.
const SLOW: Duration = Duration::from_secs(2);

/// Asks members for their roles, all at the same time, except those that have answered already.
pub async fn statuses(
    ctx: &Arc<Context>,
    group: &Group,
    members: &[Member],
    ask: Ask<'_>,
    mut said: Statuses,
) -> Statuses {
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
        let ages = patience(ask, group.runner, &name);
        let recent = ctx.hints.with_group(&group.uid, |h| h.recent(pod, container, ages.0, ages.1));
        let said = match recent {
            Some(said) => said,
            None => status(ctx, group, pod, &target, ages, is_awaited(ask, &name)).await,
        };
        (name, said)
    });
    said.extend(join_all(asked).await);
    said
}

/// Whether the round waits for a member's answer until its deadline, because something dangerous rests on it.
fn is_awaited(ask: Ask<'_>, name: &MemberName) -> bool {
    match ask {
        Ask::Everyone => true,
        Ask::Only(only) => only == name,
        Ask::Recent | Ask::Changed(_) => false,
    }
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

/// Asks one member, or waits for an answer that an earlier round has requested. Such an answer counts only if it is not older than `ages` allow.
async fn status(
    ctx: &Arc<Context>,
    group: &Group,
    pod: &Pod,
    target: &Target,
    ages: (Duration, Duration),
    awaited: bool,
) -> StatusAnswer {
    let container = &group.commands.status.container;
    let began = Instant::now();
    loop {
        let (mut answer, is_ours) = asking(ctx, group, pod, target);
        let pace = ctx.hints.with_group(&group.uid, |h| h.pace.get(&pod.uid).copied().unwrap_or_default());
        let bound = SLOW.max(pace.saturating_mul(2));
        let answered = async { answer.wait_for(Option::is_some).await.ok().and_then(|said| said.clone()) };
        let said = match awaited {
            true => answered.await,
            false => match tokio::time::timeout(bound.saturating_sub(began.elapsed()), answered).await {
                Ok(said) => said,
                Err(_) => return late(ctx, group, pod, ages, began.elapsed()),
            },
        };
        match said {
            Some(said) if is_ours => return said,
            Some(_) => match ctx.hints.with_group(&group.uid, |h| h.recent(pod, container, ages.0, ages.1)) {
                Some(said) => return said,
                None => continue,
            },
            None => {
                ctx.hints.with_group(&group.uid, |h| drop(h.asking.remove(&pod.uid)));
                return unasked("the execution was lost".into());
            }
        }
    }
}

/// The reading of a member whose answer is late: the round goes on without it, and the answer starts the next round.
fn late(ctx: &Context, group: &Group, pod: &Pod, ages: (Duration, Duration), waited: Duration) -> StatusAnswer {
    let container = &group.commands.status.container;
    let (said, is_over) = ctx.hints.with_group(&group.uid, |h| {
        let is_over = !h.asking.contains_key(&pod.uid);
        let recent = h.recent(pod, container, ages.0, ages.1);
        (recent.unwrap_or_else(|| h.pending(pod, container, waited)), is_over)
    });
    if is_over {
        ctx.wake_named(&group.namespace, &group.name);
    }
    said
}

/// The future answer of the `status` that runs in a pod, and whether this call began it: at most one runs in each pod.
fn asking(
    ctx: &Arc<Context>,
    group: &Group,
    pod: &Pod,
    target: &Target,
) -> (watch::Receiver<Option<StatusAnswer>>, bool) {
    let (sender, answer) = watch::channel(None);
    let under_way = ctx.hints.with_group(&group.uid, |h| {
        let known = h.asking.get(&pod.uid).map(|asking| asking.answer.clone());
        if known.is_none() {
            h.asking.insert(pod.uid.clone(), Asking { answer: answer.clone(), late: false });
        }
        known
    });
    if let Some(answer) = under_way {
        return (answer, false);
    }
    let (ctx, group, pod, target) = (ctx.clone(), group.clone(), pod.clone(), target.clone());
    let execution = async move {
        let said = execute(&ctx, &group, &pod, &target).await;
        let late = ctx.hints.with_group(&group.uid, |h| h.asking.remove(&pod.uid)).is_some_and(|asking| asking.late);
        // The receiver is gone when the round went on; a failure to send does not matter.
        let _ = sender.send(Some(said));
        if late {
            ctx.wake_named(&group.namespace, &group.name);
        }
    };
    tokio::spawn(execution.in_current_span());
    (answer, true)
}

/// Executes `status` once and remembers the answer. Without a free slot nothing is executed or remembered.
async fn execute(ctx: &Context, group: &Group, pod: &Pod, target: &Target) -> StatusAnswer {
    let slot = match ctx.questions.take(&group.uid, slots::WAIT).await {
        Ok(slot) => slot,
        Err(why) => {
            ctx.metrics.no_slot("question");
            return unasked(why);
        }
    };
    let asked = Instant::now();
    let said = target.status(slot, ctx, &group.commands.status).await;
    let result = if said.role == Role::Unknown { "unknown" } else { "ok" };
    ctx.metrics.executed("status", result, asked.elapsed());
    ctx.hints.with_group(&group.uid, |h| {
        if said.role != Role::Unknown {
            h.pace.insert(pod.uid.clone(), asked.elapsed());
        }
        h.remember_status(pod, &group.commands.status.container, asked, said.clone());
    });
    said
}

/// Gathers the outcomes of unsettled commands: from the memory of this process, else from the runner.
pub async fn evidence(ctx: &Context, group: &Group, record: &Record, members: &[Member]) -> Evidences {
    let open = record.intents.iter().map(|intent| intent.token.as_str()).collect();
    ctx.hints.with_group(&group.uid, |h| h.forget_results(&open));
    let gathered = record.intents.iter().map(|intent| async move {
        let known = ctx.hints.with_group(&group.uid, |h| {
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

/// Asks the runner for the outcome. While the command runs, the runner is asked again every second, in the background.
async fn settle(ctx: &Context, group: &Group, intent: &Intent, members: &[Member]) -> Option<Evidence> {
    let member = members.iter().find(|m| m.name == intent.member)?;
    let target = target(group, member).filter(|t| t.uid == intent.pod_uid)?;
    let evidence = target.settle(ctx, &intent.container, &intent.token).await;
    // Only a final outcome may be remembered.
    if !matches!(evidence, Evidence::Running | Evidence::Unknown(_)) {
        ctx.hints.with_group(&group.uid, |h| drop(h.results.insert(intent.token.clone(), evidence.clone())));
    }
    Some(evidence)
}

/// Writes the answers into the members, and adds the remembered roles and positions.
pub fn apply(ctx: &Context, group: &Group, members: &mut [Member], mut said: Statuses, now: Timestamp) {
    ctx.hints.with_group(&group.uid, |hints| {
        let alive: Vec<String> = members.iter().filter_map(|m| m.pod.as_ref().map(|p| p.uid.clone())).collect();
        hints.roles.retain(|uid, _| alive.contains(uid));
        hints.positions.retain(|uid, _| alive.contains(uid));
        hints.answers.retain(|uid, _| alive.contains(uid));
        hints.touched.retain(|uid, _| alive.contains(uid));
        hints.pace.retain(|uid, _| alive.contains(uid));
        hints.contacts.retain(|name, _| members.iter().any(|m| m.name == *name));
        for member in members {
            let Some(pod) = &member.pod else {
                member.reading.contact = hints.contacts.get(&member.name).copied();
                continue;
            };
            let asked = said.contains_key(&member.name);
            let said = said.remove(&member.name).unwrap_or_else(|| silent(group, pod.phase));
            let hint =
                hints.roles.entry(pod.uid.clone()).or_insert(crate::hints::RoleHint { role: said.role, since: now });
            if hint.role != said.role {
                info!(member = %member.name, from = role_word(hint.role), to = role_word(said.role), "role changed");
                (hint.role, hint.since) = (said.role, now);
            }
            if said.role != Role::Unknown
                && let Some(answer) = hints.answers.get(&pod.uid)
            {
                let ago = i64::try_from(answer.ended.elapsed().as_secs()).unwrap_or(i64::MAX);
                hints.contacts.insert(member.name.clone(), now.saturating_sub(ago));
            }
            let contact = hints.contacts.get(&member.name).copied().filter(|_| said.role == Role::Unknown);
            member.reading = Reading {
                role: said.role,
                detail: said.detail,
                since: hint.since,
                // Only members that were asked have a streak: a container that does not run yet was not asked.
                unknown_streak: hints.answers.get(&pod.uid).filter(|_| asked).map_or(0, |h| h.streak),
                processes: said.processes,
                contact,
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
                    member.position_stale = worth == Worth::Moved;
                }
            }
        }
    });
}

fn silent(group: &Group, phase: Phase) -> StatusAnswer {
    let detail = match phase {
        _ if group.paused => "it is not asked while the group is paused",
        Phase::Unreachable => "its node does not report",
        Phase::Ended => "its pod ended",
        _ => "its container does not run",
    };
    StatusAnswer {
        role: Role::Unknown,
        detail: Some(detail.into()),
        processes: None,
        after: Duration::ZERO,
        looks: false,
    }
}

/// Notes whether data may have changed. While a member may be primary or the group is paused, data changes, and positions from before count
/// little afterwards. A new generation may hide a pause between two looks, and a new override needs new positions.
pub fn led(ctx: &Context, s: &mut Snapshot) {
    let question = (s.group.generation, s.group.requested_override.as_ref().map(|o| o.raw.clone()));
    let moves = s.data_may_move();
    if ctx.hints.with_group(&s.group.uid, |h| h.moves(question, moves, Instant::now())) {
        s.members.iter_mut().for_each(|m| m.position_stale = true);
    }
}

/// Reads one sequence in the background. Its end starts the next round. `led`: a member may be primary now.
pub async fn read_position(ctx: &Context, group: &Group, member: &Member, target: Target, token: String, led: bool) {
    let container = &group.commands.sequence.container;
    let asked = Instant::now();
    let (position, said) = target.sequence(ctx, &group.commands.sequence, &token).await;
    let result = if matches!(position, Position::Unknown(_)) { "unknown" } else { "ok" };
    ctx.metrics.executed("sequence", result, asked.elapsed());
    let within = member.pod.as_ref().and_then(|p| p.containers.get(container));
    ctx.hints.with_group(&group.uid, |hints| {
        hints.reading.remove(&target.uid);
        if let (Some(pod), Some(said)) = (&member.pod, said.filter(|_| *container == group.commands.status.container)) {
            hints.remember_status(pod, container, asked, said);
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

/// The pause before the runner is asked again about a command that still runs.
pub const ASK_AGAIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
    use super::*;
    use crate::args::{Args, Command};
    use crate::hints::PositionHint;
    use crate::metrics::Metrics;
    use crate::news::Queue;
    use clap::Parser;
    use tanist_core::snapshot::Node;

    /// A context with an API server that cannot be reached.
    fn context() -> Arc<Context> {
        let args = Args::parse_from(["tanist", "run", "--namespaces", "ns", "--runner-image", "i"]);
        let Command::Run(settings) = args.command else { panic!("these are no settings") };
        let config = kube::Config::new("http://localhost:1".parse().unwrap());
        let engine = tanist_engine::Engine::new(tanist_engine::Limits::default().unhurried()).unwrap();
        let (wake, _) = futures::channel::mpsc::unbounded();
        let metrics = Metrics::default();
        let (news, _) = Queue::new(metrics.clone());
        Arc::new(Context::new(config, *settings, engine, metrics, wake, news).unwrap())
    }

    /// Observes a group with stopped members, or a paused group. Returns whether db-0's position is known, and whether it counts for a seed.
    fn observe_db_0(ctx: &Context, paused: bool, generation: i64) -> (bool, bool) {
        let node = Node { ready: true, since: 0, seen: 0, out_of_service: false, cordoned: false, zone: None };
        let mut s = crate::clock::tests::snapshot(1000, node);
        (s.group.paused, s.group.generation) = (paused, generation);
        let stopped =
            StatusAnswer { role: Role::Stopped, detail: None, processes: None, after: Duration::ZERO, looks: false };
        let said = s.members.iter().map(|m| (m.name.clone(), stopped.clone()));
        let said = if paused { Statuses::new() } else { said.collect() };
        apply(ctx, &s.group.clone(), &mut s.members, said, s.now);
        led(ctx, &mut s);
        (s.members[0].position != Position::NotAsked, s.position_is_current(&s.members[0]))
    }

    /// Stores an answer of db-0's `sequence` that was asked for at that moment.
    fn answer_sequence(ctx: &Context, asked: Instant) {
        let (container_id, position, role) = ("c".to_owned(), Position::Empty, Role::Stopped);
        let answered = Instant::now();
        let hint = PositionHint { container_id, position, at: 1000, asked, answered, role, ready: false, led: false };
        ctx.hints.with_group("group", |h| h.positions.insert("u0".into(), hint));
    }

    // A position that was asked for before a pause, a change of the spec or a primary does not count afterwards, even if the answer comes later.
    #[tokio::test]
    async fn no_seed_rests_on_what_was_asked_for_before_a_pause() {
        let ctx = context();
        assert_eq!(observe_db_0(&ctx, false, 1), (false, false));
        answer_sequence(&ctx, Instant::now());
        assert_eq!(observe_db_0(&ctx, false, 1), (true, true));
        assert_eq!(observe_db_0(&ctx, false, 3), (true, false), "it may have been paused since");
        let asked = Instant::now();
        answer_sequence(&ctx, asked);
        assert_eq!(observe_db_0(&ctx, false, 3), (true, true));
        assert_eq!(observe_db_0(&ctx, true, 4), (false, false), "while paused");
        assert_eq!(observe_db_0(&ctx, false, 4), (false, false), "it is asked for anew");
        answer_sequence(&ctx, asked);
        assert_eq!(observe_db_0(&ctx, false, 4), (true, false), "it was under way during the pause");
        answer_sequence(&ctx, Instant::now());
        assert_eq!(observe_db_0(&ctx, false, 4), (true, true));
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
