//! The API server, as a round sees it: every request takes a moment, is fenced by version and UID, and may meet members that do not answer.
mod garbled;
mod updates;
mod writes;

pub use writes::{GUARDED, MEMORY};

use crate::agree;
use crate::app::{App, Disk, Register};
use crate::clients;
use crate::controllers::claim_of;
use crate::faults::{Fault, Trouble};
use crate::operator::Process;
use crate::oracles;
use crate::runner::{Call, Reply, Seen, accept, settle};
use crate::shared::Shared;
use crate::transcript::told;
use crate::world::{Machine, State, World};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::ResourceExt;
use kube::core::{DynamicObject, ObjectMeta};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tanist_api::{LABEL_GROUP, LABEL_TEMPLATE_OF};
use tanist_cluster::cluster::{Cluster, Error, Exec, Found, Kind, Object, Read, Which, Write};
use tanist_cluster::observe::convert::CLAIM_START;
use tanist_core::contract::Role;
use tanist_core::evidence::{Ended, Output};
use tanist_protocol::frame::{Frame, NO_TOKEN};
use tanist_protocol::options::UID;
use tanist_protocol::outcome::Outcome;
use tanist_protocol::why::Word;
use writes::{carry_out, word};

/// How long a request takes on its way there, and on its way back.
const WAY: Duration = Duration::from_millis(2);

/// How long an execution takes on its way there, and on its way back.
const EXEC_WAY: Duration = Duration::from_millis(20);

/// How long a command of the application runs.
const COMMAND: Duration = Duration::from_millis(300);

/// How often a client that joined a running command looks whether it has ended.
const JOINED: Duration = Duration::from_millis(50);

/// How often it is looked whether what stands still goes on.
const FROZEN: Duration = Duration::from_millis(200);

/// The API server in front of a world.
#[derive(Clone)]
pub struct Server {
    /// What it shows and changes.
    pub world: World,
    /// The process of the operator that sends the requests.
    pub process: Process,
}

impl Cluster for Server {
    fn read(&self, read: Read) -> BoxFuture<'_, Result<Found, Error>> {
        async move {
            // Former templates: groups of the simulator do not go back to one, so nothing rests on them, and they meet no faults.
            if read.kind == Kind::Revision {
                return Ok(find(&self.world.lock(), &read));
            }
            self.travel().await?;
            let found = find(&self.world.lock(), &read);
            self.process.goes_on().await;
            tokio::time::sleep(WAY).await;
            Ok(found)
        }
        .boxed()
    }

    fn write(&self, write: Write) -> BoxFuture<'_, Result<Option<Object>, Error>> {
        async move {
            if let Write::Apply { kind: Kind::Revision, name, manifest, .. } = &write {
                return Ok(Some(keep_template(&mut self.world.lock(), name, manifest)));
            }
            self.ask_for(&write);
            let notes = matches!(&write, Write::Mark { notes, .. } if notes.contains_key(CLAIM_START));
            let way = self.travel().await;
            self.world.lock().unnoted |= notes && way.is_err();
            let answers = way?;
            let written = {
                let mut state = self.world.lock();
                let written = carry_out(&mut state, write);
                if let Err(error) = &written {
                    state.asked(|| format!("is refused: {error}"));
                }
                written
            };
            self.process.goes_on().await;
            tokio::time::sleep(WAY).await;
            if answers { written } else { Err(Error::Unreachable("the connection was reset".into())) }
        }
        .boxed()
    }

    fn exec(&self, exec: Exec) -> BoxFuture<'_, Ended> {
        async move {
            let Exec { pod, argv, deadline, .. } = exec;
            let began = tokio::time::Instant::now();
            let ended = tokio::time::timeout(deadline, self.execute(&pod, &argv)).await;
            self.process.waited_since(began);
            ended.unwrap_or_else(|_| Ended::Unknown(format!("no answer within {} s", deadline.as_secs())))
        }
        .boxed()
    }
}

/// What an execution says whose way to the pod, or back, is cut.
fn cut_off() -> Ended {
    Ended::Unknown("the stream ended without a status".into())
}

impl Server {
    /// A write is begun.
    fn ask_for(&self, write: &Write) {
        let mut state = self.world.lock();
        oracles::stirs(&mut state, word(write));
        state.asked(|| told(write));
        if let Write::Delete { deletion, .. } = write {
            let what = format!("the deletion of {}", deletion.member());
            self.needs_an_answer(&mut state, &what);
        }
    }

    /// A command or a deletion is asked for.
    fn needs_an_answer(&self, state: &mut State, what: &str) {
        let away =
            state.faults.away.map_or(0, |(since, _)| u64::try_from(state.now.saturating_sub(since)).unwrap_or(0));
        let stood_still = self.process.stood_still_within(Duration::from_secs(away.saturating_add(1)));
        let waited = self.process.waits_since(Duration::from_secs(away));
        oracles::asks(state, what, stood_still || waited);
    }

    /// An execution is begun. Whether the API server takes it.
    fn begins(&self, pod: &str, call: Option<&Call>) -> bool {
        let mut state = self.world.lock();
        // Like a `status`, a list of members is asked for again and again.
        let Some(call) = call.filter(|call| !call.is_status() && !call.token().starts_with("list-")) else {
            return !state.is_away();
        };
        oracles::stirs(&mut state, if call.is_settle() { "settle" } else { "a command" });
        state.asked(|| match call.is_settle() {
            true => format!("asks {pod} how a command ended"),
            false => format!("executes {} on {pod}", call.command().join(" ")),
        });
        if !call.is_settle() && !oracles::is_question(call.token()) {
            self.needs_an_answer(&mut state, call.token());
        }
        !state.is_away()
    }

    /// A request is on its way. Whether its answer will arrive.
    async fn travel(&self) -> Result<bool, Error> {
        self.process.goes_on().await;
        let trouble = self.world.lock().trouble();
        tokio::time::sleep(WAY).await;
        match trouble {
            Trouble::None => Ok(true),
            Trouble::Lost => Err(Error::Unreachable("the connection was reset".into())),
            Trouble::AnswerLost => Ok(false),
            Trouble::Refused(error) => Err(error),
            Trouble::Late(later) => {
                tokio::time::sleep(later).await;
                match self.world.lock().is_away() {
                    true => Err(Error::Unreachable("the connection was reset".into())),
                    false => Ok(true),
                }
            }
        }
    }

    async fn execute(&self, pod: &str, argv: &[String]) -> Ended {
        self.process.goes_on().await;
        let call = Call::read(argv);
        if !self.begins(pod, call.as_ref()) {
            return Ended::Unknown("the connection was refused".into());
        }
        let (lost, refused, late) = {
            let mut state = self.world.lock();
            let late = state.happens(Fault::ExecLate, 20);
            let late = late.then(|| Duration::from_millis(state.roll(Fault::ExecLate, 20_000)));
            (state.happens(Fault::ExecLost, 25), state.happens(Fault::ExecRefused, 25), late)
        };
        if refused {
            return Ended::NotStarted("the API server answered forbidden (403): not now".into());
        }
        if lost {
            return Ended::Unknown("the connection failed".into());
        }
        tokio::time::sleep(EXEC_WAY + late.unwrap_or_default()).await;
        let place = {
            let state = self.world.lock();
            if state.is_away() {
                return cut_off();
            }
            state.pods.get(pod).and_then(ResourceExt::uid).zip(state.machine(pod).map(|machine| machine.node.clone()))
        };
        let Some((uid, node)) = place else { return Ended::Unknown("container not found".into()) };
        if !self.world.lock().is_up(&node) {
            return std::future::pending().await;
        }
        thawed(&self.world, &uid).await;
        let is_status = call.as_ref().is_none_or(Call::is_status);
        if is_status && self.world.lock().happens(Fault::StatusHangs, 30) {
            return std::future::pending().await;
        }
        let Some(call) = call else { return self.probe(&uid).await };
        let mut reply = self.ask(&uid, &call);
        // A client ends with its container.
        let container =
            || self.world.lock().machines.get(&uid).filter(|m| m.ending.is_none()).map(|m| m.container.clone());
        let first = container();
        while reply == Some(Reply::Join) {
            tokio::time::sleep(JOINED).await;
            reply = if container() == first { self.ask(&uid, &call) } else { None };
        }
        let mut printed = match reply {
            Some(Reply::Answer(frame)) if call.is_status() => frame.to_bytes_of_status(),
            Some(Reply::Answer(frame)) => frame.to_bytes(),
            Some(Reply::Run) => self.command(&uid, &call).await,
            Some(Reply::Join) | None => return cut_off(),
        };
        tokio::time::sleep(EXEC_WAY).await;
        self.process.goes_on().await;
        let mut state = self.world.lock();
        if state.is_away() || state.happens(Fault::StreamLost, 15) {
            return cut_off();
        }
        let is_cut = !printed.is_empty() && state.happens(Fault::OutputCut, 20);
        if is_cut {
            let left = state.roll(Fault::OutputCut, printed.len() as u64);
            printed.truncate(usize::try_from(left).unwrap_or(0));
        }
        Ended::Exited(0, Output { stdout: printed, cut: false })
    }

    /// `status` without a runner: its exit code says whether the application works.
    async fn probe(&self, uid: &str) -> Ended {
        tokio::time::sleep(EXEC_WAY).await;
        self.process.goes_on().await;
        let mut state = self.world.lock();
        let Some(machine) = state.machines.get(uid).filter(|machine| machine.ending.is_none()) else {
            return cut_off();
        };
        if !machine.is_passive {
            return Ended::Unknown("no such program".into());
        }
        let works = machine.app.role == Role::Secondary;
        if state.is_away() || state.happens(Fault::StreamLost, 15) {
            return cut_off();
        }
        let fails = !works || state.happens(Fault::StatusFails, 20);
        Ended::Exited(i32::from(fails), Output { stdout: Vec::new(), cut: false })
    }

    /// What process 1 of that pod says at once. `None`: it does not run any more.
    fn ask(&self, uid: &str, call: &Call) -> Option<Reply> {
        let mut state = self.world.lock();
        let group = state.machines.get(uid)?.group.clone();
        agree::refresh(&mut state, &group);
        let machine = state.machines.get(uid)?;
        let (status, position) = (machine.app.status(), position(&state, machine));
        let says_nothing = call.is_status() && state.happens(Fault::StatusFails, 20);
        let machine = state.machines.get_mut(uid)?;
        if call.is_status() {
            let outcome = match call.option(UID) == Some(uid) {
                true => Outcome::Exited(if says_nothing { 1 } else { status }),
                false => Outcome::NotStarted(Word::WrongUid.into()),
            };
            let running = machine.busy.clone();
            return Some(Reply::Answer(Frame { running, ..Frame::bare(NO_TOKEN, outcome, 1) }));
        }
        let busy = machine.busy.clone();
        if call.is_settle() {
            return Some(Reply::Answer(settle(&mut machine.tokens, busy.as_deref(), call, uid)));
        }
        let seen = Seen { ending: machine.ending.is_some(), status, position: &position };
        let reply = accept(&mut machine.tokens, busy.as_deref(), call, uid, seen);
        if reply == Reply::Run {
            machine.busy = Some(call.token().to_owned());
            oracles::starts(&mut state, uid, call.token());
        }
        Some(reply)
    }

    /// Runs a command that process 1 has accepted, and prints its frame with the status right afterwards. Who asks may be gone by then; the command goes on.
    async fn command(&self, uid: &str, call: &Call) -> Vec<u8> {
        let (world, uid, call) = (self.world.clone(), uid.to_owned(), call.clone());
        let running = tokio::spawn(async move {
            let slow = {
                let mut state = world.lock();
                state
                    .happens(Fault::CommandSlow, 8)
                    .then(|| Duration::from_millis(state.roll(Fault::CommandSlow, 40_000)))
            };
            tokio::time::sleep(COMMAND + slow.unwrap_or_default()).await;
            thawed(&world, &uid).await;
            end(&mut world.lock(), &uid, &call)
        });
        running.await.unwrap_or_default()
    }
}

/// Ends when what runs in the pod of that UID does not stand still.
async fn thawed(world: &World, uid: &str) {
    while world.lock().stands_still(uid) {
        tokio::time::sleep(FROZEN).await;
    }
}

fn position(state: &State, machine: &Machine) -> String {
    state.disks.get(&machine.claim).map(Disk::position).unwrap_or_default()
}

/// A command ends: its effect, its record, and what its client prints. Nothing if its container is gone.
fn end(state: &mut State, uid: &str, call: &Call) -> Vec<u8> {
    let token = call.token();
    let Some(machine) = state.machines.get(uid).filter(|machine| machine.busy.as_deref() == Some(token)).cloned()
    else {
        return Vec::new();
    };
    let words: Vec<&str> = call.command().iter().map(String::as_str).collect();
    let (code, stdout) = perform(state, uid, &machine, &words);
    oracles::ends(state, &machine.pod, &machine.container, token, code);
    let frame = Frame { stdout, ..Frame::bare(token, Outcome::Exited(code), 1) };
    let Some(machine) = state.machines.get_mut(uid) else { return Vec::new() };
    machine.busy = None;
    machine.tokens.end(&frame);
    let status = Frame::bare(NO_TOKEN, Outcome::Exited(machine.app.status()), 1);
    let mut printed = frame.to_bytes();
    printed.extend(status.to_bytes_after(COMMAND));
    printed
}

/// What the application's commands do.
fn perform(state: &mut State, uid: &str, machine: &Machine, words: &[&str]) -> (u8, Vec<u8>) {
    let (command, peers) = words.split_first().map_or(("", &[][..]), |(command, peers)| (*command, peers));
    if command == "sequence" && state.happens(Fault::SequenceFails, 6) {
        return (1, Vec::new());
    }
    if matches!(command, "sequence" | "memberList") && state.happens(Fault::SequenceGarbled, 6) {
        return (0, garbled::sequence(state.roll(Fault::SequenceGarbled, garbled::KINDS)));
    }
    if command == "sequence" {
        return (0, format!("{}\n", position(state, machine)).into_bytes());
    }
    if command == "prepared" {
        let is_prepared = !state.happens(Fault::CommandFails, 8);
        state.say(format!("{} runs prepared", machine.pod));
        let _ = is_prepared && state.prepared.insert(uid.to_owned());
        return (u8::from(!is_prepared), Vec::new());
    }
    if let "beforeUpdate" | "afterUpdate" = command {
        return (u8::from(!updates::encloses(state, machine, command, peers)), Vec::new());
    }
    if command == "upgrade" {
        return (u8::from(!updates::upgrades(state, machine, peers)), Vec::new());
    }
    if state.agreements.contains_key(&machine.group) {
        return agree::perform(state, uid, machine, words);
    }
    let follows = peers.iter().filter_map(|peer| peer.split('.').next()).find(|peer| {
        let other = state.running(peer);
        other.is_some_and(|(uid, other)| other.app.role == Role::Primary && state.reaches(uid, other))
    });
    let app = match (command, follows) {
        ("stop", _) => App::default(),
        ("primary", None) if !peers.is_empty() => return (1, Vec::new()),
        ("primary", _) => App { role: Role::Primary, ..App::default() },
        ("secondary", Some(peer)) => App { role: Role::Secondary, follows: Some(peer.to_owned()), by_hand: false },
        _ => return (1, Vec::new()),
    };
    let is_damaged = command != "stop" && state.is_damaged(machine);
    if is_damaged
        || state.happens(Fault::CommandFails, 8)
        || command != "stop" && oracles::versions::refuses(state, machine, follows)
    {
        return (1, Vec::new());
    }
    state.say(format!("{} runs {}", machine.pod, words.join(" ")));
    oracles::versions::performs(state, machine, command, follows);
    if command == "stop" {
        clients::hand_over(state, machine);
    }
    // Who joins primaries, or follows one, begins with a copy of its data.
    if let Some(peer) = follows {
        let source = state.claims.get(&claim_of(peer)).and_then(ResourceExt::uid);
        let copy = source.and_then(|uid| state.disks.get(&uid).cloned()).unwrap_or_default();
        state.disks.insert(machine.claim.clone(), copy);
    }
    if app.role == Role::Primary {
        let history = state.birth("h");
        let disk = state.disks.entry(machine.claim.clone()).or_default();
        disk.version = if disk.data.is_none() { machine.programs } else { disk.version };
        disk.data.get_or_insert(Register { history, number: 1 });
        clients::leads(state, machine);
    }
    let leads = app.role == Role::Primary;
    if let Some(machine) = state.machines.get_mut(uid) {
        machine.expects_running = app.role != Role::Stopped;
        machine.app = app;
    }
    oracles::routes::see_roles(state);
    if leads {
        oracles::leads(state, &machine.group);
    }
    (0, Vec::new())
}

fn find(state: &State, read: &Read) -> Found {
    let objects = match (read.kind, &read.which) {
        (kind, Which::Named(name)) => named(state, kind, name).into_iter().collect(),
        (Kind::Pod, Which::OfGroup(group)) => of(&state.pods, group, Object::Pod),
        (Kind::Claim, Which::OfGroup(group)) => of(&state.claims, group, Object::Claim),
        (Kind::Revision, Which::OfGroup(group)) => {
            let is_of = |kept: &&Shared<DynamicObject>| kept.labels().get(LABEL_TEMPLATE_OF) == Some(group);
            state.templates.values().filter(is_of).map(|kept| Object::Plain(kept.as_it_is())).collect()
        }
        (Kind::Service | Kind::Budget, Which::OfGroup(group)) => {
            let plain =
                state.plain.iter().filter(|((kind, _), object)| *kind == read.kind && is_of(&object.metadata, group));
            plain.map(|(_, object)| Object::Plain(object.as_it_is())).collect()
        }
        _ => Vec::new(),
    };
    let version = (!matches!(read.which, Which::Named(_))).then(|| state.version());
    Found { objects, version }
}

fn named(state: &State, kind: Kind, name: &str) -> Option<Object> {
    Some(match kind {
        Kind::Group => Object::Group(state.groups.get(name)?.as_it_is()),
        Kind::Set => Object::Set(state.sets.get(name)?.as_it_is()),
        Kind::Pod => Object::Pod(state.pods.get(name)?.as_it_is()),
        Kind::Claim => Object::Claim(state.claims.get(name)?.as_it_is()),
        Kind::Node => Object::Node(state.nodes.get(name)?.as_it_is()),
        Kind::Service | Kind::Budget | Kind::ConfigMap => {
            Object::Plain(state.plain.get(&(kind, name.to_owned()))?.as_it_is())
        }
        Kind::Revision => Object::Plain(state.templates.get(name)?.as_it_is()),
        // No group of the simulator has `spec.update.onConfigChange`.
        Kind::Event | Kind::Secret => return None,
    })
}

/// Stores a template that a group had.
fn keep_template(state: &mut State, name: &str, manifest: &serde_json::Value) -> Object {
    let metadata = manifest.get("metadata").and_then(|m| serde_json::from_value(m.clone()).ok()).unwrap_or_default();
    let data = serde_json::json!({"data": manifest.get("data")});
    let kept = DynamicObject { types: None, metadata, data };
    state.templates.insert(name.to_owned(), kept.clone().into());
    Object::Plain(Arc::new(kept))
}

fn of<K: ResourceExt>(
    objects: &BTreeMap<String, Shared<K>>,
    group: &str,
    object: impl Fn(Arc<K>) -> Object,
) -> Vec<Object> {
    objects.values().filter(|o| is_of(o.meta(), group)).map(Shared::as_it_is).map(object).collect()
}

fn is_of(meta: &ObjectMeta, group: &str) -> bool {
    meta.labels.as_ref().and_then(|labels| labels.get(LABEL_GROUP)).is_some_and(|name| name == group)
}
