//! How long a group is without a primary when its primary's process dies: until the API says it, until another member is told to take over, and
//! what a client of the `-rw` Service sees of it.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, anyhow, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::PostParams,
    runtime::watcher::{self, Event, watcher},
};
use serde::Serialize;
use serde_json::{Value, json};
use tanist_e2e::{Group, Stage, condition, play, text, until};

use crate::{
    figures::{Figures, Samples},
    machine::{Busy, Load, Machine},
    recovery::install,
};

/// What is measured.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The operator's image; the end-to-end tests' when it is not given.
    #[arg(long)]
    image: Option<String>,
    /// How often.
    #[arg(long, default_value_t = 20)]
    repetitions: u32,
    /// Where the figures go as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the operator's log goes.
    #[arg(long)]
    log: Option<PathBuf>,
}

/// The goals, in milliseconds: from the death of the process to the promotion, p50 and p99; and from the event in the API to it, p50.
const GOALS: [f64; 3] = [3_000.0, 5_000.0, 500.0];

#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    load: Load,
    takeovers: Vec<Takeover>,
    /// From the death of the process to the promotion. Milliseconds, like the next two.
    promotion: Figures,
    /// From the event in the API to the promotion.
    after_event: Figures,
    /// The longest time between two answers that the client got.
    outage: Figures,
    met: [bool; 3],
}

/// One loss. Milliseconds since the death of the process.
#[derive(Debug, Serialize)]
struct Takeover {
    event: f64,
    promotion: f64,
    outage: f64,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    play("takeovers")
        .with("RUST_LOG", "info,kube=warn,tanist=debug")
        .run(async |stage| measure(args, stage).await)
        .map_err(|error| anyhow!(error))
}

async fn measure(args: &Args, stage: &Stage) -> anyhow::Result<()> {
    if let Some(image) = &args.image {
        install(stage, image).await?;
    }
    let command = |name: &str| json!({"exec": ["register", name], "timeoutSeconds": 60});
    let commands =
        json!({"secondary": command("secondary"), "promote": command("promote"), "follow": command("follow")});
    let ports = json!([{"name": "rows", "containerPort": 8080}]);
    let group = stage.register(json!({"primaries": 1, "commands": commands, "container_": {"ports": ports}})).await?;
    group.ready(180).await?;
    group.member(0).write(20).await?;
    group.copied(20).await?;
    client(stage).await?;
    let unready: Unready = Arc::default();
    let watch = tokio::spawn(watch_readiness(stage.client.clone(), stage.namespace.clone(), unready.clone()));
    let before = Busy::now(&[]);
    let mut takeovers = Vec::new();
    for repetition in 1..=args.repetitions {
        // The kubelet asks each second: every death comes in another part of it, or all would wait as long as the first does.
        tokio::time::sleep(Duration::from_secs(1) * repetition / args.repetitions).await;
        let one = takeover(stage, &group, &unready).await.with_context(|| format!("takeover {repetition}"))?;
        eprintln!(
            "takeover {repetition} of {}: in the API after {:.0} ms, promotion after {:.0}, no answer for {:.0}",
            args.repetitions, one.event, one.promotion, one.outage
        );
        takeovers.push(one);
    }
    watch.abort();
    if let Some(path) = &args.log {
        fs::write(path, stage.operator.log().await)?;
    }
    let load = before.until(Busy::now(&[]));
    let of = |part: &dyn Fn(&Takeover) -> f64| {
        let mut samples = Samples::default();
        takeovers.iter().for_each(|t| samples.push(Duration::from_secs_f64(part(t).max(0.0) / 1000.0)));
        samples.figures().in_milliseconds()
    };
    let (promotion, after_event) = (of(&|t| t.promotion), of(&|t| t.promotion - t.event));
    let met = [promotion.p50 <= GOALS[0], promotion.p99 <= GOALS[1], after_event.p50 <= GOALS[2]];
    let outage = of(&|t| t.outage);
    let report = Report { machine: Machine::here(), load, promotion, after_event, outage, takeovers, met };
    print(&report);
    if let Some(path) = &args.json {
        fs::write(path, serde_json::to_string_pretty(&report)?)
            .with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}

async fn takeover(stage: &Stage, group: &Group, unready: &Unready) -> anyhow::Result<Takeover> {
    let seen = group.get().await?;
    let leads = text(&seen, "/status/primary").to_owned();
    let ordinal: u32 = leads.rsplit('-').next().context("nobody leads")?.parse()?;
    let member = group.member(ordinal);
    let uid = member.uid().await?;
    let promotions = promotions(group).await?.len();
    // Server and its httpd: the whole application. The clock is read by the shell that kills, in the same breath.
    let kill = "kill -9 $(cut -d' ' -f1,3 /run/register/server) && echo $EPOCHREALTIME";
    let died = milliseconds(&member.exec(&["sh", "-c", kill]).await?.text)?;
    let other = |seen: &Value| {
        let now = text(seen, "/status/primary");
        !now.is_empty() && now != leads && condition(seen, "Ready").starts_with("True AllMembersInRole")
    };
    group.until("another primary", 120, other).await?;
    let event = {
        let unready = unready.lock().unwrap_or_else(PoisonError::into_inner);
        let events = unready.iter().filter(|(pod, at)| *pod == uid && *at >= died).map(|(_, at)| *at);
        events.reduce(f64::min).context("the API never said that the primary is not ready")?
    };
    let all = self::promotions(group).await?;
    ensure!(all.len() == promotions + 1, "{} promotions instead of one", all.len().saturating_sub(promotions));
    let promotion = all.into_iter().reduce(f64::max).context("nobody was promoted")?;
    // The client goes on until it has had answers for a while.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let outage = gap(stage, died).await?;
    Ok(Takeover { event: event - died, promotion: promotion - died, outage })
}

/// When each promotion began, by the members' own log.
async fn promotions(group: &Group) -> anyhow::Result<Vec<f64>> {
    let executions = group.executions().await?;
    Ok(executions.iter().filter(|e| e.command == "promote").map(|e| e.began as f64).collect())
}

fn milliseconds(seconds: &str) -> anyhow::Result<f64> {
    let seconds: f64 = seconds.trim().parse().with_context(|| format!("no time: {seconds:?}"))?;
    Ok(seconds * 1000.0)
}

/// Asks the `-rw` Service for the rows, some 20 times a second, each time with a new connection, and notes when it got them.
async fn client(stage: &Stage) -> anyhow::Result<()> {
    let script = "while :; do timeout 1 wget -q -Y off -O /dev/null http://register-rw:8080/register 2>/dev/null && \
        echo $EPOCHREALTIME >>/tmp/answers; sleep 0.05; done";
    let restricted = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "client"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "client", "image": "tanist.local/register:1", "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", script], "securityContext": restricted}]
        }
    }))?;
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), &stage.namespace);
    pods.create(&PostParams::default(), &pod).await.context("failed to start the client")?;
    until("the client's first answers", 60, async || Ok(answers(stage).await.is_ok_and(|a| a.len() > 20))).await
}

async fn answers(stage: &Stage) -> anyhow::Result<Vec<f64>> {
    let arguments = ["exec", "-n", &stage.namespace, "client", "--", "tail", "-n", "2000", "/tmp/answers"];
    tanist_e2e::kubectl(&arguments)?.lines().map(milliseconds).collect()
}

/// The longest time between two answers since then.
async fn gap(stage: &Stage, since: f64) -> anyhow::Result<f64> {
    let answers = answers(stage).await?;
    let around = answers.windows(2).filter_map(|pair| {
        let [before, after] = pair else { return None };
        (*after >= since).then_some(after - before)
    });
    around.reduce(f64::max).context("the client got no answer")
}

/// When pods were seen to be Ready no more, by UID.
type Unready = Arc<Mutex<Vec<(String, f64)>>>;

async fn watch_readiness(client: kube::Client, namespace: String, unready: Unready) {
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    let mut ready = BTreeMap::new();
    watcher(pods, watcher::Config::default())
        .for_each(|event| {
            if let Ok(Event::Apply(pod) | Event::InitApply(pod)) = event {
                let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
                let is = conditions.into_iter().any(|c| c.type_ == "ContainersReady" && c.status == "True");
                let uid = pod.uid().unwrap_or_default();
                if ready.insert(uid.clone(), is) == Some(true) && !is {
                    let at = jiff::Timestamp::now().as_microsecond() as f64 / 1000.0;
                    unready.lock().unwrap_or_else(PoisonError::into_inner).push((uid, at));
                }
            }
            std::future::ready(())
        })
        .await;
}

fn print(report: &Report) {
    println!(
        "Three register members, one primary, whose process dies {} times. Milliseconds:\n",
        report.takeovers.len()
    );
    println!("| | p50 | p90 | p99 | most |\n| --- | --- | --- | --- | --- |");
    let row =
        |name: &str, f: &Figures| println!("| {name} | {:.0} | {:.0} | {:.0} | {:.0} |", f.p50, f.p90, f.p99, f.max);
    row("death to promotion", &report.promotion);
    row("of that after the event reached the API", &report.after_event);
    row("without an answer from `-rw`", &report.outage);
    println!(
        "\nOthers and the cluster itself used {:.2} processors, {:.2} were stolen.",
        report.load.others, report.load.stolen
    );
    for (what, (goal, met)) in ["p50", "p99", "p50 after the event"].iter().zip(GOALS.iter().zip(report.met)) {
        println!("Goal, {what} at most {goal:.0}: {}.", if met { "met" } else { "MISSED" });
    }
}
