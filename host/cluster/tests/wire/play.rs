//! Plays a case with the shipped client, and judges what it concludes.
use super::draw::{Case, Execution};
use super::printed::{Question, UNKNOWN, role};
use super::server::{Pod, Server};
use super::talk::{KEPT, Owed, Talk};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Config;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tanist_cluster::cluster::kube::Kube;
use tanist_cluster::cluster::{Cluster, Error, Exec, Found, Object, Read, Write};
use tanist_cluster::context::Context;
use tanist_cluster::hints::Hints;
use tanist_cluster::member::{Looks, Target};
use tanist_cluster::objects::Settings;
use tanist_cluster::slots::Slots;
use tanist_core::contract::{Position, Role};
use tanist_core::evidence::{Ended, Output};
use tanist_core::freshness::StatusAnswer;
use tanist_core::record::{Intent, Verb};
use tanist_core::snapshot::{Command, Evidence};

/// The client's deadline where the server lets it wait. The member's own one is 15 s and more.
const HASTE: Duration = Duration::from_millis(30);

/// Its deadline for the others: a machine that is busy with something else must not end a conversation that is told to its end.
const CALM: Duration = Duration::from_secs(600);

/// How long to wait for one of many slots: they are never all taken.
const PATIENCE: Duration = Duration::from_secs(60);

/// The namespace of all pods.
const NAMESPACE: &str = "shop";

/// The container of all commands.
const CONTAINER: &str = "db";

/// What a case ended with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// What the client concluded, for instance `exited 0` or `unknown`.
    pub concluded: String,
    /// Whether it had to conclude just that.
    pub is_sure: bool,
    /// How many executions there were.
    pub executions: usize,
    /// Why it is wrong, with the transcript. `None`: it is right.
    pub wrong: Option<String>,
}

/// A cluster whose executions go over the wire with the deadlines of their talks. It notes how they ended.
struct Wire {
    kube: Kube,
    /// The same where nobody listens.
    nobody: Kube,
    pod: Arc<Pod>,
    asked: AtomicUsize,
    ended: Mutex<Vec<Ended>>,
}

/// The clients of the campaign.
pub struct Clients {
    kube: Kube,
    nobody: Kube,
}

impl Clients {
    /// Clients as the operator makes them for executions.
    pub fn new(server: &Server) -> Self {
        let at = |address| {
            let config = Config::new(format!("http://{address}").parse().unwrap());
            let client = Kube::exec_client(config).unwrap();
            Kube::new(client.clone(), client)
        };
        Clients { kube: at(server.address), nobody: at(server.nobody) }
    }
}

impl Cluster for Wire {
    fn read(&self, _: Read) -> BoxFuture<'_, Result<Found, Error>> {
        async { Err(Error::Unreachable("nothing is read here".into())) }.boxed()
    }

    fn write(&self, _: Write) -> BoxFuture<'_, Result<Option<Object>, Error>> {
        async { Err(Error::Unreachable("nothing is written here".into())) }.boxed()
    }

    fn exec(&self, mut asked: Exec) -> BoxFuture<'_, Ended> {
        async move {
            let number = self.asked.fetch_add(1, Ordering::Relaxed);
            let Some(talk) = self.pod.talks.get(number) else { return Ended::Unknown("one execution too many".into()) };
            asked.deadline = if talk.is_slow() { HASTE } else { CALM };
            let kube = if talk.refused { &self.nobody } else { &self.kube };
            let ended = kube.exec(asked).await;
            self.ended.lock().unwrap().push(ended.clone());
            ended
        }
        .boxed()
    }
}

/// Plays a case and judges it.
pub async fn play(server: &Server, clients: &Clients, case: &Case) -> Played {
    let name = format!("db-{}", case.seed);
    let talks: Vec<Talk> =
        [Some(&case.first), case.second.as_ref()].into_iter().flatten().map(|e| e.talk.clone()).collect();
    let pod = Arc::new(Pod { talks, ..Pod::default() });
    server.add(&name, pod.clone());
    let wire = Arc::new(Wire {
        kube: clients.kube.clone(),
        nobody: clients.nobody.clone(),
        pod: pod.clone(),
        asked: AtomicUsize::new(0),
        ended: Mutex::default(),
    });
    let concluded = ask(wire.clone(), &name, case).await;
    server.remove(&name);
    let ended = wire.ended.lock().unwrap().clone();
    let wrong = judged(case, &pod, &ended, &concluded);
    let (owed, is_sure) = owed(case);
    let wrong = wrong.map(|why| {
        let owed = if is_sure { owed.0.clone() } else { format!("{} or {UNKNOWN}", owed.0) };
        format!("{why}\n{}  concluded: {concluded:?}, owed: {owed}", transcript(case, &pod, &ended))
    });
    Played { concluded: concluded.0, is_sure, executions: ended.len(), wrong }
}

/// What the member concludes: the answer, and the role afterwards.
async fn ask(wire: Arc<Wire>, name: &str, case: &Case) -> (String, Option<String>) {
    let ctx = context(wire);
    let target = Target {
        namespace: NAMESPACE.into(),
        group: "group".into(),
        pod: name.to_owned(),
        uid: "uid".into(),
        runner: case.runner,
        probed: false,
        env: Vec::new(),
    };
    let command = Command { exec: vec!["/db/ask".into(), "--".into()], container: CONTAINER.into(), timeout: 60 };
    match case.question {
        Question::Start => {
            let slot = ctx.commands.take("group", PATIENCE).await.unwrap();
            let (evidence, after) =
                target.run(slot, &ctx, &intent(&case.token), &Looks::default(), &command.exec).await;
            (of_evidence(&evidence), of_status(after))
        }
        Question::Settle => (of_evidence(&target.settle(&ctx, CONTAINER, &case.token).await), None),
        Question::Status => {
            let slot = ctx.questions.take("group", PATIENCE).await.unwrap();
            (of_status(Some(target.status(slot, &ctx, &command).await)).unwrap(), None)
        }
        Question::Sequence => {
            let (position, after) = target.sequence(&ctx, &command, &case.token).await;
            (of_position(&position), of_status(after))
        }
    }
}

fn context(wire: Arc<Wire>) -> Context {
    Context {
        cluster: wire,
        clock: Arc::default(),
        settings: Settings { runner_image: "runner:1".into(), installation: "tanist".into() },
        cluster_domain: "cluster.local".into(),
        hints: Hints::default(),
        questions: Slots::new(16),
        commands: Slots::new(16),
        configurations: tokio::sync::Semaphore::new(tanist_cluster::observe::config::AT_ONCE),
        count: Arc::new(()),
        dice: Box::new(|| 1),
        wake: Box::new(|_, _| {}),
        closing: AtomicBool::new(false),
    }
}

fn intent(token: &str) -> Intent {
    Intent {
        token: token.to_owned(),
        verb: Verb::Seed,
        command: "seed".into(),
        member: "db-0".into(),
        target: None,
        pod_uid: "uid".into(),
        container: CONTAINER.into(),
        container_id: "c".into(),
        generation: 1,
        started: 0,
        timeout: 60,
        term: 1,
        again: false,
        had_role: false,
        exited: None,
        version: None,
    }
}

fn of_evidence(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Running => "running".into(),
        Evidence::Exited(code) => format!("exited {code}"),
        Evidence::NotStarted(_) => "not started".into(),
        Evidence::Interrupted => "interrupted".into(),
        Evidence::Unknown(_) => UNKNOWN.into(),
    }
}

fn of_position(position: &Position) -> String {
    match position {
        Position::Known(sequence) => format!("at {sequence}"),
        Position::Empty => "at EMPTY".into(),
        Position::Unknown(_) | Position::NotAsked => UNKNOWN.into(),
    }
}

fn of_status(answer: Option<StatusAnswer>) -> Option<String> {
    answer.map(|answer| match answer.role {
        Role::Primary => "primary".into(),
        Role::Secondary => "secondary".into(),
        Role::Stopped => "stopped".into(),
        Role::Starting => "starting".into(),
        Role::Failed => "failed".into(),
        Role::Unknown => UNKNOWN.into(),
    })
}

/// What the executions prove, and whether the client has to see it.
fn owed(case: &Case) -> ((String, Option<String>), bool) {
    let unknown = || (UNKNOWN.to_owned(), None);
    let is_sure = case.first.talk.is_sure();
    match (case.first.talk.owed(), &case.second) {
        (Owed::Exited(code, stdout), _) => {
            let what = match case.runner {
                true => told(case, &case.first, &stdout),
                false => (by_itself(case, code, &stdout), None),
            };
            (what, is_sure)
        }
        (Owed::NotStarted, Some(settle)) => {
            let what = match settle.talk.owed() {
                Owed::Exited(_, stdout) => told(case, settle, &stdout).0,
                Owed::NotStarted | Owed::Unknown => UNKNOWN.into(),
            };
            ((what, None), is_sure && settle.talk.is_sure())
        }
        (Owed::NotStarted, None) if case.question == Question::Start => (("not started".into(), None), is_sure),
        (Owed::NotStarted | Owed::Unknown, _) => (unknown(), true),
    }
}

/// What the runner's words tell that arrived.
fn told(case: &Case, execution: &Execution, stdout: &[u8]) -> (String, Option<String>) {
    let arrived = |told: &Option<(usize, String)>| {
        told.as_ref().filter(|(length, _)| stdout.len().min(KEPT) >= *length).map(|(_, what)| what.clone())
    };
    match arrived(&execution.printed.answer) {
        Some(answer) => {
            let after = arrived(&execution.printed.after);
            let has_run = case.question != Question::Sequence || execution.printed.exited;
            (answer, after.filter(|_| has_run))
        }
        None => (UNKNOWN.into(), None),
    }
}

/// What the end of a program tells where there is no runner.
fn by_itself(case: &Case, code: i32, stdout: &[u8]) -> String {
    match case.question {
        Question::Start => format!("exited {code}"),
        Question::Status => role(code).to_owned(),
        Question::Sequence if code == 0 && stdout.len() <= KEPT => {
            case.first.printed.answer.clone().map_or_else(|| UNKNOWN.into(), |(_, position)| position)
        }
        Question::Sequence | Question::Settle => UNKNOWN.into(),
    }
}

/// Why the case went wrong. `None`: it did not.
fn judged(case: &Case, pod: &Pod, ended: &[Ended], concluded: &(String, Option<String>)) -> Option<String> {
    if let Some(wrong) = pod.wrong.lock().unwrap().first() {
        return Some(wrong.clone());
    }
    let requests = pod.heard.lock().unwrap().len();
    if requests > ended.len() {
        return Some(format!("{requests} requests for {} executions: something below repeats them", ended.len()));
    }
    for (number, (ended, talk)) in ended.iter().zip(&pod.talks).enumerate() {
        let owed = match talk.owed() {
            Owed::Unknown => None,
            // Its reason is for people.
            Owed::NotStarted if matches!(ended, Ended::NotStarted(_)) => continue,
            Owed::NotStarted => Some(Ended::NotStarted(String::new())),
            Owed::Exited(code, mut stdout) => {
                let cut = stdout.len() > KEPT;
                stdout.truncate(KEPT);
                Some(Ended::Exited(code, Output { stdout, cut }))
            }
        };
        let is_unknown = matches!(ended, Ended::Unknown(_));
        if owed.as_ref() != Some(ended) && !is_unknown {
            return Some(format!("execution {number} claims what nothing proves"));
        }
        if is_unknown && owed.is_some() && talk.is_sure() {
            return Some(format!("execution {number} was not understood"));
        }
    }
    let ((answer, after), is_sure) = owed(case);
    let may_be = |claim: &str, truth: &str| claim == truth || claim == UNKNOWN && !is_sure;
    let afterwards = |claim: &Option<String>| *claim == after || claim.is_none() && !is_sure;
    (!may_be(&concluded.0, &answer) || !afterwards(&concluded.1)).then(|| "the conclusion is wrong".into())
}

/// Who said what, for people.
fn transcript(case: &Case, pod: &Pod, ended: &[Ended]) -> String {
    let runner = if case.runner { "with" } else { "without" };
    let mut text =
        format!("TANIST_WIRE_SEED={}: {:?} {runner} the runner; {:?}\n", case.seed, case.question, case.faults());
    let heard = pod.heard.lock().unwrap();
    for (number, talk) in pod.talks.iter().enumerate() {
        let asked = heard.get(number).map_or("(did not ask)", |head| head.lines().next().unwrap_or_default());
        text.push_str(&format!("execution {number}\n  client: {asked}\n{}", talk.transcript()));
        let said = ended.get(number).map_or_else(|| "nothing".into(), shown);
        text.push_str(&format!("  client concludes: {said}\n"));
    }
    text
}

fn shown(ended: &Ended) -> String {
    match ended {
        Ended::Exited(code, output) => {
            let (head, cut) = (&output.stdout[..output.stdout.len().min(700)], if output.cut { ", cut" } else { "" });
            format!("exited {code}, printed {} bytes{cut}: {}", output.stdout.len(), head.escape_ascii())
        }
        Ended::NotStarted(why) => format!("not started: {why}"),
        Ended::Unknown(why) => format!("unknown: {why}"),
    }
}
