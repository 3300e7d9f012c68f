//! Begins a command: the durable intent, the changes to the record that belong to it, and the action that starts it.
use crate::check::{self, Upgrade};
use crate::contract::{MemberName, Position, Role};
use crate::memory;
use crate::plan::{Action, Plan, Reason};
use crate::record::{Batched, Event, Intent, LastPrimary, Seeded, Started, Verb};
use crate::snapshot::{Member, Snapshot};
use crate::state;
use crate::steps::remember::untold;

/// Plans a command on a member. If a check does not hold, nothing is planned and the plan says which. If this round already does something with
/// the member, the command has to wait for the next round.
pub fn begin(s: &Snapshot, plan: &mut Plan, verb: Verb, name: &MemberName) {
    if plan.touches(name) {
        return;
    }
    let Some((member, pod)) = s.member(name).and_then(|m| m.pod.as_ref().map(|p| (m, p))) else { return };
    let running = s.role(member).0 == Role::Secondary;
    let (command_name, command) = s.command(verb, running);
    let Some(id) = pod.containers.get(&command.container).and_then(|c| c.id.clone()) else {
        let message = format!("container {} of {name} does not run", command.container);
        return plan.wait(Reason::PodsNotRunning, Some(name), message);
    };
    let needs_state = state::starts(s, verb, member);
    if let Some(why) = state::blocks(s, &plan.record, needs_state.then_some(name), &command.exec) {
        let message = format!("{command_name} on {name} waits: {why}");
        return plan.wait(Reason::ClusterStateBlocked, Some(name), message);
    }
    let counter = plan.record.counter.saturating_add(1);
    let term = if verb.opens_term() { next_term(s, plan, verb) } else { plan.record.term };
    let intent = Intent {
        token: verb.token(counter, &s.nonce),
        verb,
        command: command_name.to_owned(),
        member: name.clone(),
        target: None,
        pod_uid: pod.uid.clone(),
        container: command.container.clone(),
        container_id: id.clone(),
        generation: s.group.generation,
        started: s.now,
        timeout: command.timeout,
        term,
        again: plan.record.member(name).started.is_some(),
        had_role: verb != Verb::Follow && s.seen(member).0 == verb.intended(),
        exited: None,
        version: s.group.version.clone().filter(|_| verb.upgrades()),
    };
    if let Err(violation) = check::start(s, &intent) {
        plan.wait_until(
            Reason::AnswerRejected,
            Some(name),
            format!("{command_name} on {name}: {violation}"),
            violation.until,
        );
        plan.violations.push(violation);
        return;
    }
    record_intent(s, plan, member, &intent);
    // An earlier step of this round may have planned to lead clients to it.
    plan.actions.retain(
        |a| !matches!(a, Action::Route { member, role, ready, .. } if member == name && (*ready || role.is_some())),
    );
    // A running member that goes on running stays Ready, without a Service leading to it: the kubelet needs up to two seconds to make it Ready again.
    let ready = pod.gate == Some(true) && running && verb.intended() != Role::Stopped;
    let hidden = plan.actions.iter().any(|a| matches!(a, Action::Route { member, role: None, .. } if member == name));
    if (pod.routed.is_some() || pod.gate == Some(!ready)) && !hidden {
        let (member, pod_uid) = (name.clone(), pod.uid.clone());
        plan.actions.push(Action::Route { member, pod_uid, role: None, ready, version: None });
    }
    let argv = argv(s, verb, name, &command.exec);
    // The step `state` adds the environment when it is known who else is started.
    plan.actions.push(Action::Run { intent, argv, env: Vec::new(), needs_state });
}

/// Plans a change of the members of the application: a command on one of them about another one. `id`: the identity that the application gave the target. Absent: none yet.
/// Roles stay as they are, so clients stay where they are.
pub fn begin_change(s: &Snapshot, plan: &mut Plan, verb: Verb, on: &MemberName, target: &MemberName, id: Option<&str>) {
    let words = [
        ("$(NAME)", Some(target.to_string())),
        ("$(ADDRESS)", Some(s.address(target))),
        ("$(ID)", id.map(str::to_owned)),
    ];
    let argv = |exec: &[String]| about(exec, words);
    let has_begun = begin_beside(s, plan, verb, on, Some(target), format!("of {target}"), argv);
    if has_begun && verb == Verb::MemberAdd {
        // It is no member and stopped: nothing of an earlier identity holds for the new one.
        let known = plan.record.member_mut(target);
        (known.started, known.claim_uid) = (None, None);
    }
}

/// Plans a command before or after the update of some members, on one that goes on in its role. It gets their names in place of `$(MEMBERS)`, otherwise at the end.
pub fn begin_hook(s: &Snapshot, plan: &mut Plan, verb: Verb, on: &MemberName, batch: &Batched) {
    let names: Vec<String> = batch.names().collect();
    let argv = |exec: &[String]| with_list(exec, MEMBERS, &names);
    begin_beside(s, plan, verb, on, None, format!("for {}", names.join(", ")), argv);
}

/// Plans the conversion of the data on a primary, which goes on serving.
pub fn begin_upgrade(s: &Snapshot, plan: &mut Plan, on: &MemberName, due: Upgrade<'_>) {
    let about = format!("from version {} to {}", due.from, due.to);
    begin_beside(s, plan, Verb::Upgrade, on, None, about, |exec| converting(exec, due));
}

/// The arguments with both versions in their places. Without any of the places both are appended.
fn converting(exec: &[String], due: Upgrade<'_>) -> Vec<String> {
    let words = [("$(FROM)", Some(due.from.to_owned())), ("$(TO)", Some(due.to.to_owned()))];
    about(exec, words)
}

/// Plans a command that leaves the roles of all as they are. `about`: what it is about, as it follows its name. Returns whether it is begun; otherwise the plan says why not.
fn begin_beside(
    s: &Snapshot,
    plan: &mut Plan,
    verb: Verb,
    on: &MemberName,
    target: Option<&MemberName>,
    about: String,
    argv: impl FnOnce(&[String]) -> Vec<String>,
) -> bool {
    let Some((member, pod)) = s.member(on).and_then(|m| m.pod.as_ref().map(|p| (m, p))) else { return false };
    let (command_name, command) = s.command(verb, true);
    let subject = target.or(Some(on));
    let Some(container_id) = pod.containers.get(&command.container).and_then(|c| c.id.clone()) else {
        let message = format!("container {} of {on} does not run", command.container);
        plan.wait(Reason::PodsNotRunning, Some(on), message);
        return false;
    };
    if let Some(why) = state::blocks(s, &plan.record, None, &command.exec) {
        plan.wait(Reason::ClusterStateBlocked, subject, format!("{command_name} {about} waits: {why}"));
        return false;
    }
    let counter = plan.record.counter.saturating_add(1);
    let intent = Intent {
        token: verb.token(counter, &s.nonce),
        verb,
        command: command_name.to_owned(),
        member: on.clone(),
        target: target.cloned(),
        pod_uid: pod.uid.clone(),
        container: command.container.clone(),
        container_id,
        generation: s.group.generation,
        started: s.now,
        timeout: command.timeout,
        term: plan.record.term,
        again: false,
        had_role: false,
        exited: None,
        version: s.group.version.clone().filter(|_| verb.upgrades()),
    };
    if let Err(violation) = check::start(s, &intent) {
        let message = format!("{}: {violation}", intent.what());
        plan.wait_until(Reason::AnswerRejected, subject, message, violation.until);
        plan.violations.push(violation);
        return false;
    }
    plan.record.counter = counter;
    plan.record.note(s.now, Event::CommandStarted, Some(&member.name), Some(format!("{command_name} {about}")));
    plan.record.intents.push(intent.clone());
    plan.actions.push(Action::Run { intent, argv: argv(&command.exec), env: Vec::new(), needs_state: false });
    true
}

/// The arguments with the target's name, address and identity in their places. Without any of the places all that are known are appended.
fn about<const N: usize>(exec: &[String], words: [(&str, Option<String>); N]) -> Vec<String> {
    if !exec.iter().any(|a| words.iter().any(|(place, _)| a == place)) {
        return exec.iter().cloned().chain(words.into_iter().filter_map(|(_, word)| word)).collect();
    }
    let word = |a: &String| match words.iter().find(|(place, _)| a == place) {
        Some((_, word)) => word.clone().unwrap_or_default(),
        None => a.clone(),
    };
    exec.iter().map(word).collect()
}

/// The term that a command opens. With an override, and when a member is recovered, it is also above the terms of all claims, so that members with such claims join again as
/// members of an older term.
fn next_term(s: &Snapshot, plan: &Plan, verb: Verb) -> u64 {
    let by_hand = s.active_override().is_some() || verb == Verb::Recover;
    let ahead = memory::ahead(s).map(|ahead| ahead.term).max().filter(|_| by_hand);
    plan.record.term.max(ahead.unwrap_or_default()).saturating_add(1)
}

fn record_intent(s: &Snapshot, plan: &mut Plan, member: &Member, intent: &Intent) {
    let record = &mut plan.record;
    record.counter = record.counter.saturating_add(1);
    record.term = intent.term;
    if intent.verb.opens_term() && intent.verb != Verb::Recover && s.active_override().is_some() {
        record.used_override = s.active_override().map(|o| o.raw.clone());
        record.note(s.now, Event::OverrideUsed, Some(&member.name), None);
    }
    if intent.verb == Verb::Seed && record.ever_seeded.as_ref().is_none_or(|e| !e.confirmed) {
        record.ever_seeded = Some(Seeded { member: member.name.clone(), confirmed: false });
        // The first data is made by the programs of that pod, if no try before made some.
        let programs = member.pod.as_ref().and_then(|pod| pod.programs.clone());
        let begins = member.position == Position::Empty || record.version.is_none();
        record.version = if begins { programs.or_else(|| s.group.version.clone()) } else { record.version.take() };
    }
    if let Some(recovery) = record.recovery.as_mut().filter(|_| intent.verb == Verb::Recover) {
        recovery.tries = recovery.tries.saturating_add(1);
    }
    let known = record.member_mut(&member.name);
    known.last_command = Some(intent.command.clone());
    if intent.verb == Verb::Convert || intent.verb.intended() != Role::Stopped {
        let before = known.started.as_ref().map_or_else(|| member.position.clone(), |s| s.before.clone());
        let (term, target) = (intent.term, intent.verb.opens_term());
        known.started = Some(Started { term, target, before, followed: false, peer_stopped: false });
    }
    let agrees = intent.verb.leaves_running() && s.group.commands.membership.is_some();
    // An administrator named the claim with which the member is recovered: it is that of its identity once the member leads.
    if (intent.verb.may_lead() || agrees) && intent.verb != Verb::Recover {
        // The start may never be confirmed, and the claims of others may say that it led: then this is the volume that it led with.
        // Where members agree an identity begins on an empty volume, whatever volume the member had before.
        let begins = agrees && member.position == Position::Empty;
        let before = known.claim_uid.take().filter(|_| !begins);
        known.claim_uid = before.or_else(|| memory::claim_uids(&member.claims));
    }
    if intent.verb.opens_term() {
        untold::mark_others(s, &mut plan.record, &member.name);
    }
    // An earlier pod of the member is proven over before its next start; where it is, only this entry knows.
    if intent.verb.may_lead() {
        record_last_primary(plan, s, intent);
    }
    // What removes data may go on where its pod is gone: nothing is started on that volume before it is proven over.
    if let Some((_, pod)) = s.pod(&intent.pod_uid).filter(|_| agrees || intent.verb == Verb::Wipe) {
        plan.record.member_mut(&member.name).ran = Some(LastPrimary::of(intent, pod));
    }
    plan.record.note(s.now, Event::CommandStarted, Some(&member.name), Some(intent.command.clone()));
    plan.record.intents.push(intent.clone());
}

fn record_last_primary(plan: &mut Plan, s: &Snapshot, intent: &Intent) {
    let Some((_, pod)) = s.pod(&intent.pod_uid) else { return };
    plan.record.push_last_primary(LastPrimary::of(intent, pod));
}

/// The arguments with the peers in place of `$(PEERS)`, otherwise at the end (A12). Each peer is an argument of its own; a seed has none.
fn argv(s: &Snapshot, verb: Verb, name: &MemberName, exec: &[String]) -> Vec<String> {
    let peers: Vec<_> = match verb {
        Verb::Seed | Verb::Recover => Vec::new(),
        Verb::Demote | Verb::Switchover | Verb::Remove | Verb::Treat | Verb::Halt | Verb::Wipe => Vec::new(),
        Verb::MemberAdd | Verb::MemberRemove | Verb::MemberPromote => Vec::new(),
        Verb::BeforeUpdate | Verb::AfterUpdate | Verb::Upgrade => Vec::new(),
        Verb::Convert => return check::due_upgrade(s).map_or_else(|| exec.to_vec(), |due| converting(exec, due)),
        // Nobody serves: these are the others with whom it has to agree.
        Verb::Rejoin => others(s, name),
        Verb::Failover | Verb::Join | Verb::Place | Verb::Follow => {
            s.leading().iter().map(|m| s.address(&m.name)).collect()
        }
    };
    with_list(exec, PEERS, &peers)
}

/// The arguments with a list in that place, each of its words an argument of its own; without the place it is appended.
fn with_list(exec: &[String], place: &str, list: &[String]) -> Vec<String> {
    if !exec.iter().any(|a| a == place) {
        return exec.iter().chain(list).cloned().collect();
    }
    exec.iter().flat_map(|a| if a == place { list } else { std::slice::from_ref(a) }).cloned().collect()
}

/// The argument that is replaced by the peers.
const PEERS: &str = "$(PEERS)";

/// The argument that is replaced by the members of a batch.
const MEMBERS: &str = "$(MEMBERS)";

/// The addresses of the other members that the application lists, by ordinal.
fn others(s: &Snapshot, name: &MemberName) -> Vec<String> {
    let listed = s.members.iter().filter(|m| &m.name != name && check::counts(s, &m.name));
    listed.map(|m| s.address(&m.name)).collect()
}

/// Whether the position was asked for.
#[must_use]
pub fn was_asked(position: &Position) -> bool {
    !matches!(position, Position::NotAsked)
}
