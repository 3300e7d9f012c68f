//! Asks members by exec: for roles, and for the outcome of commands. Positions are read only when a decision needs them.
use super::target;
use crate::context::Context;
use crate::count::{Execution, Went};
use crate::hints::Asking;
use crate::member::Target;
use crate::slots;
use futures::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tanist_core::contract::{Phase, Position, Role};
use tanist_core::freshness::{Ages, Ask, Change, PositionHint, StatusAnswer, Statuses};
use tanist_core::membership::Heard;
use tanist_core::over::role_word;
use tanist_core::record::{Intent, Record};
use tanist_core::snapshot::{Command, Evidence, Group, Member, Pod, Query, QueryAnswer, Snapshot};
use tokio::sync::watch;
use tracing::{Instrument, info};

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
        let ages = ask.ages(group.runner, &name);
        let recent = recent(ctx, group, pod, ages);
        let said = match recent {
            Some(said) => said,
            None => status(ctx, group, pod, &target, ages, ask.awaits(&name)).await,
        };
        (name, said)
    });
    said.extend(join_all(asked).await);
    said
}

/// Asks one member, or waits for an answer that an earlier round has requested. Such an answer counts only if it is not older than `ages` allow.
async fn status(
    ctx: &Arc<Context>,
    group: &Group,
    pod: &Pod,
    target: &Target,
    ages: Ages,
    awaited: bool,
) -> StatusAnswer {
    let began = ctx.clock.moment();
    loop {
        let (mut answer, is_ours) = asking(ctx, group, pod, target);
        let pace = ctx.hints.with_group(&group.uid, |h| h.pace.get(&pod.uid).copied().unwrap_or_default());
        let bound = SLOW.max(pace.saturating_mul(2));
        let answered = async { answer.wait_for(Option::is_some).await.ok().and_then(|said| said.clone()) };
        let said = match awaited {
            true => answered.await,
            false => {
                match tokio::time::timeout(bound.saturating_sub(ctx.clock.moment().since(began)), answered).await {
                    Ok(said) => said,
                    Err(_) => return late(ctx, group, pod, ages, ctx.clock.moment().since(began)),
                }
            }
        };
        match said {
            Some(said) if is_ours => return said,
            Some(_) => match recent(ctx, group, pod, ages) {
                Some(said) => return said,
                None => continue,
            },
            None => {
                ctx.hints.with_group(&group.uid, |h| drop(h.asking.remove(&pod.uid)));
                return StatusAnswer::unread("the execution was lost");
            }
        }
    }
}

/// The last answer of a member, if it is not older than `ages` allow.
fn recent(ctx: &Context, group: &Group, pod: &Pod, ages: Ages) -> Option<StatusAnswer> {
    let container = &group.commands.status.container;
    ctx.hints.with_group(&group.uid, |h| h.readings.recent(pod, container, ages, ctx.clock.moment()))
}

/// The reading of a member whose answer is late: the round goes on without it, and the answer starts the next round.
fn late(ctx: &Context, group: &Group, pod: &Pod, ages: Ages, waited: Duration) -> StatusAnswer {
    let container = &group.commands.status.container;
    let (said, is_over) = ctx.hints.with_group(&group.uid, |h| {
        let is_over = !h.asking.contains_key(&pod.uid);
        let recent = h.readings.recent(pod, container, ages, ctx.clock.moment());
        (recent.unwrap_or_else(|| h.go_on(pod, container, waited)), is_over)
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
            ctx.count.no_slot(Execution::Question);
            return StatusAnswer::unread(&why);
        }
    };
    let asked = ctx.clock.moment();
    let said = target.status(slot, ctx, &group.commands.status).await;
    let ended = ctx.clock.moment();
    let took = ended.since(asked);
    let went = if said.role == Role::Unknown { Went::Unknown } else { Went::Well };
    ctx.count.executed("status", went, took);
    ctx.hints.with_group(&group.uid, |h| {
        if said.role != Role::Unknown {
            h.pace.insert(pod.uid.clone(), took);
        }
        h.readings.remember_status(pod, &group.commands.status.container, (asked, ended), said.clone());
    });
    said
}

/// Gathers the outcomes of unsettled commands: from the memory of this process, else from the runner.
pub async fn evidence(ctx: &Context, group: &Group, record: &Record, members: &[Member]) -> Evidences {
    let open = record.intents.iter().map(|intent| intent.token.as_str()).collect();
    ctx.hints.with_group(&group.uid, |h| h.commands.forget_closed(&open));
    let gathered = record.intents.iter().map(|intent| async move {
        let known = ctx.hints.with_group(&group.uid, |h| h.commands.known(&intent.token));
        // What this process still waits for may reach the next container of the pod: its runner is asked, and from then on does not start it.
        let evidence = match known {
            Some(Evidence::Unknown(_)) | None if !group.paused => settle(ctx, group, intent, members).await,
            Some(Evidence::Running) if !group.paused && is_elsewhere(intent, members) => {
                settle(ctx, group, intent, members).await
            }
            known => known,
        };
        evidence.map(|e| (intent.token.clone(), e))
    });
    join_all(gathered).await.into_iter().flatten().collect()
}

/// Whether another container runs in the intent's pod by now than the one that the command was meant for.
fn is_elsewhere(intent: &Intent, members: &[Member]) -> bool {
    let pod = members.iter().find(|m| m.name == intent.member).and_then(|m| m.pod.as_ref());
    let container = pod.filter(|pod| pod.uid == intent.pod_uid).and_then(|pod| pod.containers.get(&intent.container));
    container.is_some_and(|c| c.running && c.id.as_deref() != Some(intent.container_id.as_str()))
}

/// Asks the runner for the outcome. While the command runs, the runner is asked again every second, in the background.
///
/// On a node that does not report nobody is asked: such a request only ends at its deadline, and the round would wait for it, the other members' with it (S20).
async fn settle(ctx: &Context, group: &Group, intent: &Intent, members: &[Member]) -> Option<Evidence> {
    let member = members.iter().find(|m| m.name == intent.member)?;
    let pod = member.pod.as_ref().filter(|pod| pod.uid == intent.pod_uid)?;
    if pod.phase == Phase::Unreachable {
        return None;
    }
    let target = target(group, member)?;
    let evidence = target.settle(ctx, &intent.container, &intent.token).await;
    ctx.hints.with_group(&group.uid, |h| h.commands.learn(&intent.token, &evidence));
    Some(evidence)
}

/// Joins the answers, and what is remembered, to the snapshot. `known`: the record by which data may have moved, if it is another one than that of the snapshot.
pub fn apply(ctx: &Context, s: &mut Snapshot, said: Statuses, known: Option<&Record>) {
    let at = ctx.clock.moment();
    let uid = s.group.uid.clone();
    let changes = ctx.hints.with_group(&uid, |hints| {
        let members = &s.members;
        hints.pace.retain(|uid, _| members.iter().any(|m| m.pod.as_ref().is_some_and(|pod| pod.uid == *uid)));
        let changes = hints.readings.apply(&s.group, &mut s.members, said, s.now, at);
        let moves = match known {
            Some(record) => Snapshot { record: record.clone(), ..s.clone() }.data_may_move(),
            None => s.data_may_move(),
        };
        hints.readings.note_moves(s, moves, at);
        if let Some(commands) = &s.group.commands.membership {
            s.lists = hints.readings.lists(&s.members, &commands.list.container);
        }
        s.answers = hints.readings.queries(&s.members, &s.group.commands);
        changes
    });
    for Change { member, from, to } in changes {
        info!(%member, from = role_word(from), to = role_word(to), "role changed");
    }
}

/// Reads one sequence in the background. Its end starts the next round. `led`: a member may be primary now.
pub async fn read_position(ctx: &Context, group: &Group, member: &Member, target: Target, token: String, led: bool) {
    let container = &group.commands.sequence.container;
    let asked = ctx.clock.moment();
    let (position, said) = target.sequence(ctx, &group.commands.sequence, &token).await;
    let answered = ctx.clock.moment();
    let went = if matches!(position, Position::Unknown(_)) { Went::Unknown } else { Went::Well };
    ctx.count.executed("sequence", went, answered.since(asked));
    let within = member.pod.as_ref().and_then(|p| p.containers.get(container));
    ctx.hints.with_group(&group.uid, |hints| {
        if let (Some(pod), Some(said)) = (&member.pod, said.filter(|_| *container == group.commands.status.container)) {
            hints.readings.remember_status(pod, container, (asked, answered), said);
        }
        let hint = PositionHint {
            container_id: within.and_then(|c| c.id.clone()).unwrap_or_default(),
            position,
            at: ctx.clock.now(),
            asked,
            answered,
            role: member.reading.role,
            ready: within.is_some_and(|c| c.ready),
            led,
        };
        hints.readings.remember_position(&target.uid, hint);
    });
}

/// Asks one member for its list of members in the background. Its end starts the next round.
pub async fn read_list(ctx: &Context, group: &Group, member: &Member, target: Target, command: Command, token: String) {
    let Some(pod) = &member.pod else { return };
    let asked = ctx.clock.moment();
    let list = target.list(ctx, &command, &token).await;
    let went = if list.is_ok() { Went::Well } else { Went::Unknown };
    ctx.count.executed("memberList", went, ctx.clock.moment().since(asked));
    let heard = Heard { list, at: ctx.clock.now() };
    ctx.hints.with_group(&group.uid, |h| h.readings.remember_list(pod, &command.container, asked, heard));
}

/// Runs the command of a query in one member, in the background. Its end starts the next round.
pub async fn read_answer(
    ctx: &Context,
    group: &Group,
    member: &Member,
    (query, command): (Query, Command),
    target: Target,
    token: String,
) {
    let Some(pod) = &member.pod else { return };
    let (asked, at) = (ctx.clock.moment(), ctx.clock.now());
    let said = target.query(ctx, &command, &token).await;
    let went = match (query, &said) {
        // Not to be prepared yet is no failure.
        (_, Ok(0)) | (Query::Prepared, Ok(_)) => Went::Well,
        (Query::Check, Ok(_)) => Went::Failed,
        (_, Err(_)) => Went::Unknown,
    };
    ctx.count.executed(query.word(), went, ctx.clock.moment().since(asked));
    let answer = QueryAnswer { said, at, ended: ctx.clock.now() };
    ctx.hints.with_group(&group.uid, |h| h.readings.remember_query(query, pod, &command.container, answer));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
    use super::*;
    use crate::stub::Stub;
    use tanist_core::freshness::Moment;
    use tanist_core::record::{LastPrimary, Verb};
    use tanist_core::snapshot::Node;

    /// Observes a group with stopped members, or a paused group. Returns whether db-0's position is known, and whether it counts for a seed.
    fn observe_db_0(ctx: &Context, paused: bool, generation: i64) -> (bool, bool) {
        let node = Node { ready: true, since: 0, seen: 0, out_of_service: false, cordoned: false, zone: None };
        let mut s = crate::clock::tests::snapshot(1000, node);
        (s.group.paused, s.group.generation) = (paused, generation);
        let said = s.members.iter().map(|m| (m.name.clone(), StatusAnswer::of(Role::Stopped)));
        let said = if paused { Statuses::new() } else { said.collect() };
        apply(ctx, &mut s, said, None);
        (s.members[0].position != Position::NotAsked, s.position_is_current(&s.members[0]))
    }

    /// Stores an answer of db-0's `sequence` that was asked for at that moment.
    fn answer_sequence(ctx: &Context, asked: Moment) {
        let (container_id, position, role) = ("c".to_owned(), Position::Empty, Role::Stopped);
        let answered = ctx.clock.moment();
        let hint = PositionHint { container_id, position, at: 1000, asked, answered, role, ready: false, led: false };
        ctx.hints.with_group("group", |h| h.readings.remember_position("u0", hint));
    }

    // What this process noted of a command that it has not started moves no data (docs/decisions/0008): otherwise a slow API server, after which all is looked at once more, would hold up each takeover for good.
    #[tokio::test]
    async fn a_note_of_a_command_that_is_not_started_makes_no_position_old() {
        let ctx = Stub::default().context();
        observe_db_0(&ctx, false, 1);
        answer_sequence(&ctx, ctx.clock.moment());
        assert_eq!(observe_db_0(&ctx, false, 1), (true, true));
        let look = |by_before: bool| {
            let node = Node { ready: true, since: 0, seen: 0, out_of_service: false, cordoned: false, zone: None };
            let mut s = crate::clock::tests::snapshot(1000, node);
            (s.group.paused, s.group.generation) = (false, 1);
            let before = s.record.clone();
            let intent = Intent {
                token: "seed-1".into(),
                verb: Verb::Seed,
                command: "seed".into(),
                member: "db-0".into(),
                target: None,
                pod_uid: "u0".into(),
                container: "db".into(),
                container_id: "c".into(),
                generation: 1,
                started: s.now,
                timeout: 60,
                term: 1,
                again: false,
                exited: None,
                version: None,
                had_role: false,
            };
            let pod = s.members[0].pod.clone().unwrap();
            s.record.push_last_primary(LastPrimary::of(&intent, &pod));
            s.record.intents.push(intent);
            let said = s.members.iter().map(|m| (m.name.clone(), StatusAnswer::of(Role::Stopped))).collect();
            apply(&ctx, &mut s, said, by_before.then_some(&before));
            s.position_is_current(&s.members[0])
        };
        assert!(look(true), "nothing was started");
        assert!(!look(false), "another process may have started it");
    }

    // A position that was asked for before a pause, a change of the spec or a primary does not count afterwards, even if the answer comes later.
    #[tokio::test]
    async fn no_seed_rests_on_what_was_asked_for_before_a_pause() {
        let ctx = Stub::default().context();
        assert_eq!(observe_db_0(&ctx, false, 1), (false, false));
        answer_sequence(&ctx, ctx.clock.moment());
        assert_eq!(observe_db_0(&ctx, false, 1), (true, true));
        assert_eq!(observe_db_0(&ctx, false, 3), (true, false), "it may have been paused since");
        let asked = ctx.clock.moment();
        answer_sequence(&ctx, asked);
        assert_eq!(observe_db_0(&ctx, false, 3), (true, true));
        assert_eq!(observe_db_0(&ctx, true, 4), (false, false), "while paused");
        assert_eq!(observe_db_0(&ctx, false, 4), (false, false), "it is asked for anew");
        answer_sequence(&ctx, asked);
        assert_eq!(observe_db_0(&ctx, false, 4), (true, false), "it was under way during the pause");
        answer_sequence(&ctx, ctx.clock.moment());
        assert_eq!(observe_db_0(&ctx, false, 4), (true, true));
    }
}
