//! An oracle that knows the truth: it compares each plan with the world itself and uses no rule of `check` (docs/safety.md, S34; promises 1, 2).
mod pods;
mod takeover;

use super::app::{Body, Data};
use super::world::{World, ordinal};
use pods::{deletion, hidden, moved, updated};
use takeover::{given_up, not_below_mark, taken_over};
use tanist_core::contract::{MemberName, Phase, Role};
use tanist_core::plan::{Action, DeletionCause, Plan};
use tanist_core::record::{Intent, LastPrimary, Verb};
use tanist_core::snapshot::{Evidence, Snapshot};

/// Fails the test when a plan breaks a rule of docs/rules.md.
pub fn judge(w: &World, s: &Snapshot, plan: &Plan) {
    let broken = judgement(w, s, plan);
    assert!(
        broken.is_ok(),
        "{}\nplan: {:#?}\nworld:\n{}\nvolumes: {:?}\n{:#?}",
        broken.unwrap_err(),
        plan.actions,
        w.log.join("\n"),
        w.volumes,
        s.record
    );
}

/// The rule that a command breaks, just before it starts.
pub fn objection(w: &World, s: &Snapshot, intent: &Intent) -> Result<(), String> {
    target(w, s, intent).and_then(|()| started(w, s, intent))
}

/// Fails the test when there is one.
pub fn start(w: &World, s: &Snapshot, intent: &Intent) {
    let broken = objection(w, s, intent);
    assert!(broken.is_ok(), "{}: {}\nworld:\n{}", intent.token, broken.unwrap_err(), w.log.join("\n"));
}

fn judgement(w: &World, s: &Snapshot, plan: &Plan) -> Result<(), String> {
    held(w)?;
    memory(w, s, plan)?;
    forgotten(w, s, plan)?;
    if s.group.paused && !plan.actions.is_empty() {
        return Err("something is done while paused".into());
    }
    one_each(w, s, plan)?;
    for (at, action) in plan.actions.iter().enumerate() {
        match action {
            Action::Run { intent, .. } => {
                target(w, s, intent).map_err(|why| format!("{}: {why}", intent.token))?;
                started(w, s, intent).map_err(|why| format!("{}: {why}", intent.token))?;
                hidden(w, plan, at, intent)?;
            }
            Action::Read { member, .. } | Action::List { member, .. } | Action::Ask { member, .. } => {
                let is_list = matches!(action, Action::List { .. });
                let quiet = w.pods.get(&ordinal(member)).is_some_and(|b| b.pod.phase == Phase::Running);
                let free =
                    |i: &Intent| &i.member != member || i.verb.changes_members() && i.exited.is_some() || is_list;
                ensure(quiet && plan.record.intents.iter().all(free), || {
                    format!("{member} is read at the wrong time")
                })?;
            }
            Action::DeletePod { member, pod_uid, cause: DeletionCause::Failure, .. } => {
                deletion(w, s, member, pod_uid)?;
            }
            Action::DeletePod { member, pod_uid, cause: DeletionCause::Rebalance, .. } => {
                moved(w, s, plan, member, pod_uid)?;
            }
            Action::DeletePod { member, pod_uid, cause: DeletionCause::Update, .. } => {
                updated(w, s, plan, member, pod_uid)?;
            }
            Action::Route { member, role: None, .. } => {
                let body = &w.pods[&ordinal(member)];
                let silent =
                    body.said.0 == Role::Unknown && body.app.processes != Some(0) && body.pod.phase == Phase::Running;
                let served = s.member(member).is_some_and(|m| plan.record.member(&m.name).broken.is_none())
                    && body.pod.routed.is_some();
                let told =
                    plan.actions.iter().any(|a| matches!(a, Action::Run { intent, .. } if &intent.member == member));
                ensure(told || !(silent && served), || format!("{member} is unrouted for one silent probe"))?;
            }
            Action::Route { member, role: Some(role), .. } => {
                let said = w.pods[&ordinal(member)].said.0;
                let agreed = matches!((*role, said), ("primary", Role::Primary) | ("secondary", Role::Secondary));
                ensure(agreed, || format!("{member} is routed as {role} and says {said:?}"))?;
                let lacks = w.lacks(ordinal(member));
                ensure(*role != "primary" || lacks.is_empty() || rogues(w), || {
                    format!("{member} serves as primary and lacks the writes {lacks:?}")
                })?;
            }
            Action::Scale { replicas } => shrunk(w, s, plan, *replicas)?,
            Action::DeleteClaim { member, .. } => {
                let keeps = w.agreement.members.values().any(|m| m.ordinal == ordinal(member));
                ensure(!keeps && !w.pods.contains_key(&ordinal(member)), || {
                    format!("the claim of {member} is deleted, and it is a member still")
                })?;
            }
            Action::Apply(_) | Action::Nudge { .. } | Action::MarkClaim { .. } | Action::GrowClaim { .. } => {}
            Action::WriteState { .. } => {}
            // No group of this world makes its pods itself.
            Action::Create { .. } | Action::Adopt { .. } | Action::DropSet { .. } => {
                ensure(false, || format!("{action:?}"))?
            }
            Action::DeletePod { cause: DeletionCause::Left | DeletionCause::Ended, .. } => {
                ensure(false, || format!("{action:?}"))?;
            }
        }
    }
    Ok(())
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

/// Every acknowledged write is on some volume.
fn held(w: &World) -> Result<(), String> {
    let Some(clients) = &w.clients else { return Ok(()) };
    let lost = clients.promised.iter().find(|write| w.volumes.values().all(|v| !v.holds.contains(write)));
    ensure(lost.is_none(), || format!("the write {lost:?} is nowhere any more"))
}

/// Whether a member is primary against the rules: then one of the primaries will go, with the writes that only it has.
fn rogues(w: &World) -> bool {
    w.pods.values().any(|b| b.app.rogue) || w.ghosts.iter().any(|g| g.app.rogue)
}

/// Whether an administrator named this member, its data and the term, all as they are, and the override is not used yet.
fn named(w: &World, s: &Snapshot, intent: &Intent) -> bool {
    let found = w.volumes[&ordinal(&intent.member)].position();
    s.group.requested_override.as_ref().is_some_and(|o| {
        let unused = s.record.used_override.as_ref() != Some(&o.raw);
        unused && o.member == intent.member && o.term == s.record.term && o.position == found
    })
}

/// The record only grows, and it has the intent of every command that starts.
fn memory(w: &World, s: &Snapshot, plan: &Plan) -> Result<(), String> {
    let (old, new) = (&w.record, &plan.record);
    ensure(new.term >= old.term && new.counter >= old.counter, || "memory went back".into())?;
    ensure(old.ever_seeded.is_none() || new.ever_seeded.is_some(), || "the first seed was forgotten".into())?;
    // One of an earlier term has no effect any more.
    let used = s.group.requested_override.as_ref().filter(|o| old.used_override.as_ref() == Some(&o.raw));
    let is_over = used.is_some_and(|o| o.term < new.term);
    ensure(old.used_override.is_none() || new.used_override.is_some() || is_over, || {
        "the used override was forgotten".into()
    })?;
    for action in &plan.actions {
        let Action::Run { intent, .. } = action else { continue };
        let kept = new.intents.iter().filter(|i| *i == intent).count();
        ensure(kept == 1, || format!("{} has {kept} intents", intent.token))?;
        ensure(s.record.intents.iter().all(|i| i.token != intent.token), || format!("{} is used twice", intent.token))?;
        ensure(!intent.verb.makes_primary() || new.last_primaries.iter().any(|l| l.pod_uid == intent.pod_uid), || {
            format!("{} leaves no last primary", intent.token)
        })?;
    }
    Ok(())
}

/// A last primary is dropped only when no process of it runs (docs/rules.md, "Over").
fn forgotten(w: &World, s: &Snapshot, plan: &Plan) -> Result<(), String> {
    for last in s.record.last_primaries.iter().filter(|l| !plan.record.last_primaries.contains(l)) {
        if plan.record.last_primaries.iter().any(|l| l.container_id == last.container_id) {
            continue; // its entry changed
        }
        // A member whose only primary-making command was never started was never primary.
        let told = s.record.intents.iter().find(|i| i.pod_uid == last.pod_uid && i.container_id == last.container_id);
        if told
            .is_some_and(|i| w.execs.get(&i.token).is_none_or(|e| matches!(e.evidence(w.now), Evidence::NotStarted(_))))
        {
            continue;
        }
        let ghost = w.ghosts.iter().any(|g| g.pod_uid == last.pod_uid && (g.app.leads() || pending(w, &last.pod_uid)));
        let body = w.pods.values().find(|b| b.pod.uid == last.pod_uid && b.container_id() == last.container_id);
        // Among members that agree one that says secondary follows the one that they chose.
        let follows = |b: &Body| w.group.commands.membership.is_some() && b.said.0 == Role::Secondary;
        let lives = |b: &Body| b.app.lives() && !follows(b) || b.pod.phase == Phase::Unreachable;
        let lives = body.is_some_and(lives);
        ensure(!ghost && !lives, || format!("{} is forgotten and lives", last.member))?;
    }
    Ok(())
}

/// Whether a command that will still make a primary runs in that pod.
fn pending(w: &World, pod_uid: &str) -> bool {
    w.execs.values().any(|e| e.intent.pod_uid == pod_uid && e.works_at.is_some() && e.intent.verb.makes_primary())
}

/// One command per member, one primary-making command per group, one stop of each kind, one secondary at a time.
fn one_each(w: &World, s: &Snapshot, plan: &Plan) -> Result<(), String> {
    let intents = &plan.record.intents;
    for member in &s.members {
        let open = intents.iter().filter(|i| i.member == member.name).count();
        ensure(open <= 1, || format!("{open} commands on {}", member.name))?;
        let touched = plan.actions.iter().filter(|a| match a {
            Action::Run { intent, .. } => intent.member == member.name,
            Action::Read { member: m, .. } | Action::List { member: m, .. } => *m == member.name,
            Action::Ask { member: m, .. } => *m == member.name,
            Action::DeletePod { member: m, .. } => *m == member.name,
            _ => false,
        });
        ensure(touched.count() <= 1, || format!("{} is touched twice", member.name))?;
    }
    let count = |f: &dyn Fn(&Verb) -> bool| intents.iter().filter(|i| f(&i.verb)).count();
    ensure(count(&|v| v.makes_primary()) <= 1, || "two commands make primaries".into())?;
    ensure(count(&|v| v.changes_members()) <= 1, || "two commands change the members".into())?;
    for verb in [Verb::Demote, Verb::Switchover, Verb::Remove] {
        ensure(count(&|v| *v == verb) <= 1, || format!("two unsettled {}", verb.as_str()))?;
    }
    // Other members do not wait for a command on a node that does not report, or of unknown outcome.
    let lost = |i: &&Intent| {
        let body = w.pods.values().find(|b| b.pod.uid == i.pod_uid);
        let silent = body.is_none_or(|b| b.pod.phase == Phase::Unreachable);
        silent || w.execs.get(&i.token).is_some_and(|e| matches!(e.evidence(w.now), Evidence::Unknown(_)))
    };
    for verb in [Verb::Treat, Verb::Place] {
        let open = intents.iter().filter(|i| i.verb == verb && !lost(i)).count();
        ensure(open <= 1, || format!("two unsettled {}", verb.as_str()))?;
    }
    Ok(())
}

/// The command goes to a member that can take a command.
fn target(w: &World, s: &Snapshot, intent: &Intent) -> Result<(), String> {
    let Some(body) = w.pods.get(&ordinal(&intent.member)) else { return Err("there is no pod".into()) };
    ensure(body.pod.uid == intent.pod_uid, || "another pod".into())?;
    ensure(body.pod.phase == Phase::Running && body.runs(), || format!("its pod is {:?}", body.pod.phase))?;
    ensure(body.container_id() == intent.container_id, || "another container".into())?;
    let failed = seems_failed(w, s, &intent.member);
    ensure(failed == (intent.verb == Verb::Treat), || {
        let last: Vec<_> = s.record.intents.iter().filter_map(|i| w.execs.get(&i.token)).collect();
        format!("{} on a member that seems failed: {failed}, {:?}, {last:?}", intent.verb.as_str(), body.said)
    })?;
    let memory = s.record.member(&intent.member);
    let cleared = s.record.cleared_generation != s.group.generation || s.record.cleared_retry != s.group.retry;
    let resting = memory.retry_at.is_some_and(|at| at > s.now) && !cleared;
    let start = intent.verb != Verb::Treat;
    let by_hand = intent.verb.opens_term() && named(w, s, intent);
    let start = start && !intent.verb.changes_no_role();
    ensure(!(start && resting && !by_hand), || "it has to rest".into())
}

/// Whether the member failed, by everything that the host can know.
fn seems_failed(w: &World, s: &Snapshot, member: &MemberName) -> bool {
    let Some(body) = w.pods.get(&ordinal(member)) else { return false };
    // A command that failed in this very round counts.
    let newly = || {
        s.record.intents.iter().any(|i| {
            let failed = w.execs.get(&i.token).is_some_and(|e| !matches!(e.evidence(w.now), Evidence::Running));
            // A command without a reported failure whose member has the intended role did not fail.
            let obeyed = w.execs.get(&i.token).is_some_and(|e| {
                matches!(e.evidence(w.now), Evidence::Exited(0) | Evidence::Unknown(_))
                    && i.verb.is_shown_by(body.said.0)
            });
            // A command that was not started did not fail.
            let busy = w.execs.get(&i.token).is_some_and(|e| matches!(e.evidence(w.now), Evidence::NotStarted(_)));
            // Nobody waits for a start of members that agree, where all are to stop.
            let agrees = s.group.commands.membership.is_some() && i.verb.leaves_running();
            let given_up = agrees && s.group.is_stopped() && body.said.0 == Role::Starting;
            // A change of the members is about another member.
            &i.member == member && failed && !obeyed && !busy && !given_up && !i.verb.changes_no_role()
        })
    };
    let mark = s.record.member(member).broken.as_ref().is_some_and(|b| b.container_id == body.container_id());
    let silent = body.said.2 >= 3 && body.app.processes == Some(0);
    let slow = body.said.0 == Role::Starting && body.said.1 + i64::from(s.group.start_deadline) < s.now;
    mark || silent || slow || body.said.0 == Role::Failed || newly()
}

/// The number of primaries in truth, or about to be: pods, processes whose pod was deleted by force, and commands that still run.
pub(super) fn leaders(w: &World) -> usize {
    let pods = w.pods.values().filter(|b| b.app.leads() || pending(w, &b.pod.uid)).count();
    let ghosts = w.ghosts.iter().filter(|g| g.app.leads() || pending(w, &g.pod_uid)).count();
    pods + ghosts
}

fn show_leaders(w: &World) -> String {
    let pods = w.pods.iter().filter(|(_, b)| b.app.leads() || pending(w, &b.pod.uid));
    let pods = pods.map(|(o, b)| format!("db-{o} in {} is {:?} and will be {:?}", b.pod.uid, b.app.role, b.app.next));
    let ghosts = w.ghosts.iter().filter(|g| g.app.leads() || pending(w, &g.pod_uid));
    let ghosts = ghosts.map(|g| format!("the forgotten {} of db-{} is {:?}", g.pod_uid, g.ordinal, g.app.role));
    let open = w.execs.values().filter(|e| e.works_at.is_some());
    let open = open.map(|e| format!("{} works at {:?}", e.intent.token, e.works_at));
    pods.chain(ghosts).chain(open).collect::<Vec<_>>().join(", ")
}

fn started(w: &World, s: &Snapshot, intent: &Intent) -> Result<(), String> {
    w.allows(s, intent)?;
    let desired = s.group.primaries as usize;
    let says = |role| s.members.iter().filter(|m| m.reading.role == role).count();
    match intent.verb {
        Verb::Seed => seeded(w, s, intent),
        Verb::Join => {
            ensure(says(Role::Primary) >= 1, || "nobody serves".into())?;
            // Members that agree and leave are primaries until they are removed.
            let leave = s.members.iter().filter(|m| m.reading.role == Role::Primary && s.leaves(m)).count();
            let leave = if s.group.commands.membership.is_some() { leave } else { 0 };
            let lead = leaders(w).saturating_sub(leave);
            ensure(lead < desired, || format!("{lead} lead or may lead, {desired} are desired"))
        }
        Verb::Place => {
            let hands_over = s.members.iter().any(|m| m.ordinal >= s.group.replicas && m.reading.role == Role::Primary);
            let surplus = s.group.replicas > s.group.primaries || hands_over;
            // What may lead on a node that does not report counts: nobody may become primary in its place.
            let silent = |b: &&Body| b.pod.phase == Phase::Unreachable && b.runs();
            // So does one whose pod is gone.
            let gone =
                |l: &&LastPrimary| s.members.iter().all(|m| m.pod.as_ref().is_none_or(|pod| pod.uid != l.pod_uid));
            let gone = s.record.last_primaries.iter().filter(gone).count();
            let leads = says(Role::Primary) + w.pods.values().filter(silent).count() + gone;
            ensure(surplus && s.group.commands.secondary.is_some() && leads >= desired, || {
                "a secondary too early".into()
            })
        }
        Verb::Demote => {
            let older = s.record.member(&intent.member).term < Some(s.record.term);
            let enough = says(Role::Primary) > if older { 1 } else { desired };
            // One that leaves makes room: another one leads, and one that stays can.
            let own = ordinal(&intent.member);
            let can = |b: &Body| b.pod.phase == Phase::Running && matches!(b.app.role, Role::Stopped | Role::Secondary);
            let makes_room = own >= s.group.replicas
                && says(Role::Primary) >= desired
                && w.pods.iter().any(|(o, b)| *o != own && b.app.role == Role::Primary)
                && w.pods.range(..s.group.replicas).any(|(_, b)| can(b));
            ensure(enough || makes_room, || "a primary is stopped that is needed".into())
        }
        Verb::Failover => taken_over(w, s, intent),
        Verb::Follow => ensure(says(Role::Primary) >= 1, || "there is nobody to follow".into()),
        Verb::Switchover => {
            let follows = w.pods.values().any(|b| b.app.role == Role::Secondary && b.pod.phase == Phase::Running);
            ensure(follows, || "the primary is stopped and nobody follows".into())
        }
        Verb::Remove => {
            let leaves = ordinal(&intent.member) >= s.group.replicas;
            let stay = w.pods.range(..s.group.replicas).filter(|(_, b)| b.app.role == Role::Primary).count();
            ensure(leaves && (s.group.replicas == 0 || stay >= desired), || "a member is stopped that is needed".into())
        }
        Verb::BeforeUpdate => {
            let named = &s.record.batch.as_ref().ok_or("no batch is open")?.members;
            let ends = s.group.commands.hooks.after.is_some();
            ensure(!ends || w.announced.is_subset(named), || {
                format!("{:?} were announced and are not done", w.announced)
            })
        }
        Verb::AfterUpdate => {
            let named = w.pods.iter().filter(|(o, _)| w.announced.contains(&super::db(**o)));
            let away = named.clone().find(|(_, b)| b.app.role == Role::Stopped);
            ensure(away.is_none(), || format!("db-{} is not back yet", away.map_or(0, |(o, _)| *o)))
        }
        Verb::Convert => converted(w, s, intent),
        Verb::Upgrade => {
            let old = w.pods.values().any(|b| b.pod.older_template);
            ensure(!old, || "a pod of an older template is left".into())
        }
        Verb::Treat => Ok(()),
        Verb::Wipe => {
            let leaves = s.member(&intent.member).is_some_and(|member| s.leaves(member));
            ensure(leaves, || "the data of a member that stays is removed".into())
        }
        Verb::Rejoin | Verb::Halt | Verb::Recover => Ok(()),
        Verb::MemberAdd | Verb::MemberRemove | Verb::MemberPromote => Ok(()),
    }
}

/// As for a seed; and no program of the former version is left.
fn converted(w: &World, s: &Snapshot, intent: &Intent) -> Result<(), String> {
    let old = w.pods.values().any(|b| b.pod.older_template);
    ensure(!old, || "a pod of an older template is left".into())?;
    let has_data = w.volumes.get(&ordinal(&intent.member)).is_some_and(|v| v.truth().is_some());
    ensure(has_data, || "there is no data".into())?;
    seeded(w, s, intent)
}

/// Members that leave are stopped, their data is noted, and the members that stay have data that is at least as recent.
fn shrunk(w: &World, s: &Snapshot, plan: &Plan, replicas: u32) -> Result<(), String> {
    ensure(replicas == s.group.replicas && plan.record.last_replicas == replicas, || "another size".into())?;
    let stay = w.volumes.range(..replicas).filter_map(|(_, v)| v.truth()).max();
    for (ordinal, volume) in w.volumes.range(replicas..s.set.as_ref().map_or(0, |set| set.replicas)) {
        ensure(w.pods.get(ordinal).is_none_or(|b| !b.app.lives()), || format!("db-{ordinal} leaves and lives"))?;
        ensure(plan.record.retired.contains(&super::db(*ordinal)), || format!("db-{ordinal} is not noted"))?;
        ensure(replicas == 0 || w.clients.is_some() || volume.truth() <= stay, || {
            format!("db-{ordinal} takes the freshest data along")
        })?;
    }
    let whole = w.volumes.range(..replicas).any(|(o, _)| w.lacks(*o).is_empty());
    ensure(replicas == 0 || whole, || "nobody who stays has everything that was acknowledged".into())
}

/// No member runs, all expected pods are there, and no volume has more recent data.
fn seeded(w: &World, s: &Snapshot, intent: &Intent) -> Result<(), String> {
    let alive = w.pods.iter().find(|(_, b)| b.runs() && (b.app.lives() || pending(w, &b.pod.uid)));
    ensure(alive.is_none(), || format!("db-{} lives", alive.map_or(0, |(o, _)| *o)))?;
    // A secondary that the API forgot cannot lead: docs/rules.md, "May be primary", remembers only those that were seen to lead, or were told to.
    let ghost = w.ghosts.iter().find(|g| g.app.leads() || pending(w, &g.pod_uid));
    ensure(ghost.is_none(), || {
        format!(
            "{}: {:?} leads, and the API forgot it",
            ghost.map_or("-", |g| g.pod_uid.as_str()),
            ghost.map(|g| &g.app)
        )
    })?;
    if named(w, s, intent) {
        return Ok(());
    }
    let expected = s.set.as_ref().map_or(0, |set| set.replicas).max(w.record.last_replicas);
    let running = (0..expected).filter(|o| w.pods.get(o).is_some_and(|b| b.pod.phase == Phase::Running)).count();
    ensure(running == expected as usize && w.pods.len() == running, || format!("{running} of {expected} run"))?;
    fresh(w, s, intent)
}

/// Every running secondary gets what clients write from now on (promise 4): it was told to follow a member that leads.
pub fn followed(w: &mut World) {
    let Some(lag) = w.clients.as_ref().map(|c| c.lag) else { return };
    w.serve_clients(1);
    // What is on its way arrives first, then what was written since.
    for _ in 0..3 {
        w.now += lag + 1;
        w.work();
    }
    let Some(leads) = w.pods.iter().find(|(_, b)| b.app.role == Role::Primary).map(|(o, _)| *o) else { return };
    let behind = |o: &u32| w.volumes[o].truth() != w.volumes[&leads].truth();
    let follower = w.pods.iter().find(|(o, b)| b.app.role == Role::Secondary && behind(o));
    let told = follower.map(|(o, b)| format!("db-{o} follows {:?}, and db-{leads} leads", b.app.follows));
    assert!(told.is_none(), "{}\n{}\n{:#?}", told.unwrap_or_default(), w.log.join("\n"), w.record);
}

/// No volume of the group has more recent data, readable or not, and the record knows of none.
fn fresh(w: &World, s: &Snapshot, intent: &Intent) -> Result<(), String> {
    let own = &w.volumes[&ordinal(&intent.member)];
    ensure(!matches!(own.data, Data::Unreadable(_)), || "its data cannot be read".into())?;
    let lacks = w.lacks(ordinal(&intent.member));
    let given = lacks.iter().all(|write| given_up(w, s, intent, *write));
    ensure(given, || format!("{} lacks the acknowledged writes {lacks:?}", intent.member))?;
    for (other, volume) in w.volumes.iter().filter(|(o, v)| w.abandoned.get(o) != Some(&v.truth())) {
        ensure(volume.truth() <= own.truth(), || {
            format!("db-{other} holds {:?}, the target {:?}", volume.truth(), own.truth())
        })?;
    }
    not_below_mark(w, s, &intent.member, 0)
}
