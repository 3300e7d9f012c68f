//! How long a group takes to come back after the loss of every pod, beside the time that its own commands run.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, anyhow, ensure};
use futures::{StreamExt as _, future::try_join_all};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
    runtime::watcher::{self, Event, watcher},
};
use serde::Serialize;
use serde_json::{Value, json};
use tanist_e2e::{Group, Member, Stage, executions, play, text, until};

use crate::{
    machine::{Busy, Load, Machine},
    timeline::{Phase, Span, of_log, spent},
};

/// What is measured.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The operator's image; the end-to-end tests' when it is not given.
    #[arg(long)]
    image: Option<String>,
    /// How often.
    #[arg(long, default_value_t = 5)]
    repetitions: u32,
    /// Where the figures go as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the operator's log goes.
    #[arg(long)]
    log: Option<PathBuf>,
}

const MEMBERS: u32 = 5;
/// The goal: milliseconds beside the commands' own.
const GOAL: f64 = 2_000.0;

#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    load: Load,
    members: u32,
    recoveries: Vec<Recovery>,
    overhead_p50_ms: f64,
    overhead_max_ms: f64,
    met: bool,
}

/// One recovery. Milliseconds.
#[derive(Debug, Serialize)]
struct Recovery {
    /// From the last pod running to every member in its role, as the group's status says.
    whole_ms: f64,
    /// Without the commands' own time.
    overhead_ms: f64,
    phases: BTreeMap<&'static str, f64>,
    commands: Vec<String>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let variables = "info,kube=warn,tanist=debug";
    play("bench")
        .with("RUST_LOG", variables)
        .run(async |stage| measure(args, stage).await)
        .map_err(|error| anyhow!(error))
}

async fn measure(args: &Args, stage: &Stage) -> anyhow::Result<()> {
    if let Some(image) = &args.image {
        install(stage, image).await?;
    }
    let group = stage.register(json!({"replicas": MEMBERS})).await?;
    group.ready(180).await?;
    group.member(0).write(20).await?;
    let before = Busy::now(&[]);
    let mut recoveries = Vec::new();
    for repetition in 1..=args.repetitions {
        eprintln!("recovery {repetition} of {} ...", args.repetitions);
        match recovery(args, stage, &group).await {
            Ok(one) => {
                eprintln!("  ours {:.0} ms of {:.0}: {}", one.overhead_ms, one.whole_ms, one.commands.join("; "));
                recoveries.push(one);
            }
            // What was measured before is shown.
            Err(error) if !recoveries.is_empty() => {
                eprintln!("  failed: {error:#}");
                break;
            }
            Err(error) => return Err(error),
        }
    }
    let load = before.until(Busy::now(&[]));
    let mut overheads: Vec<f64> = recoveries.iter().map(|recovery| recovery.overhead_ms).collect();
    overheads.sort_by(f64::total_cmp);
    let overhead_p50_ms = overheads.get(overheads.len() / 2).copied().context("nothing was measured")?;
    let overhead_max_ms = overheads.last().copied().unwrap_or_default();
    let met = overhead_p50_ms <= GOAL;
    let report =
        Report { machine: Machine::here(), load, members: MEMBERS, recoveries, overhead_p50_ms, overhead_max_ms, met };
    print(&report);
    if let Some(path) = &args.json {
        fs::write(path, serde_json::to_string_pretty(&report)?)
            .with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}

/// Another image for operator and runner.
pub async fn install(stage: &Stage, image: &str) -> anyhow::Result<()> {
    let namespace = &stage.operator.namespace;
    let deployments: Api<Deployment> = Api::namespaced(stage.client.clone(), namespace);
    let container = json!({"name": "tanist", "image": image, "env": [{"name": "TANIST_RUNNER_IMAGE", "value": image}]});
    let patch = json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}, "template": {"spec": {"containers": [container]}}}});
    deployments
        .patch("tanist", &PatchParams::default(), &Patch::Strategic(&patch))
        .await
        .context("failed to change the image")?;
    until("the operator of that image", 60, async || {
        let pods = stage.operator.pods().await?;
        let wanted =
            |pod: &Pod| pod.spec.iter().flat_map(|spec| &spec.containers).all(|c| c.image.as_deref() == Some(image));
        Ok(pods.len() == 1 && pods.iter().all(wanted) && stage.operator.log().await.contains("\"leading\""))
    })
    .await
}

async fn recovery(args: &Args, stage: &Stage, group: &Group) -> anyhow::Result<Recovery> {
    let members = group.members(MEMBERS);
    let old = try_join_all(members.iter().map(Member::uid)).await?;
    let running: Arc<Mutex<BTreeMap<String, f64>>> = Arc::default();
    let watch = tokio::spawn(watch_running(stage.client.clone(), stage.namespace.clone(), running.clone()));
    // With its grace, so that each pod's end is seen: after a forced deletion the operator first waits 30 s for proof (docs/rules.md, "Over").
    let begun = now();
    try_join_all(members.iter().map(|member| member.delete(None))).await?;
    // Not the condition Ready: that also waits for the kubelet's probe.
    let all = format!("{MEMBERS}/{MEMBERS}");
    let in_role = |seen: &Value| {
        let members = seen.pointer("/status/members").and_then(Value::as_array);
        let new = members.is_some_and(|rows| rows.iter().all(|row| !old.iter().any(|uid| uid == text(row, "/podUID"))));
        new && text(seen, "/status/serving") == all
    };
    group.until("every member in its role", 180, in_role).await?;
    let done = now();
    watch.abort();
    let last_running = {
        let running = running.lock().unwrap_or_else(PoisonError::into_inner);
        let new = running.iter().filter(|(uid, _)| !old.contains(uid));
        let (count, last) = new.fold((0, 0.0_f64), |(count, last), (_, at)| (count + 1, last.max(*at)));
        ensure!(count == MEMBERS, "{count} new pods were seen running");
        last
    };
    // What is in the log has to be complete, and the next one begins at rest.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let log = operator_log(stage).await?;
    if let Some(path) = &args.log {
        fs::write(path, &log)?;
    }
    let journals = try_join_all(members.iter().map(Member::journal)).await?;
    let all: Vec<_> =
        journals.iter().flat_map(|journal| executions(journal)).filter(|e| e.began as f64 >= begun).collect();
    let mut spans = of_log(&log);
    spans.extend(all.iter().filter(|e| e.command != "stop").filter_map(|execution| {
        Some(Span { phase: Phase::Commands, from: execution.began as f64, to: execution.ended? as f64 })
    }));
    let spent = spent(&spans, last_running, done);
    let whole_ms = done - last_running;
    let own = spent.get(&Phase::Commands).copied().unwrap_or_default();
    let mut commands: Vec<_> = all.iter().map(|e| (e.began, e)).collect();
    commands.sort_by_key(|(began, _)| *began);
    let commands = commands
        .into_iter()
        .map(|(began, e)| {
            let took = e.ended.map_or("?".to_owned(), |ended| (ended - began).to_string());
            format!("{} {}: at {:.0}, {took} ms", e.command, e.ordinal, began as f64 - last_running)
        })
        .collect();
    let phases = spent.into_iter().map(|(phase, ms)| (phase.name(), ms)).collect();
    Ok(Recovery { whole_ms, overhead_ms: whole_ms - own, phases, commands })
}

/// The log of the operator that runs; without that of one before it.
async fn operator_log(stage: &Stage) -> anyhow::Result<String> {
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), &stage.operator.namespace);
    let pod = pods.list(&ListParams::default()).await?.items.into_iter().next().context("no operator runs")?;
    Ok(pods.logs(&pod.name_any(), &Default::default()).await?)
}

/// When the container of each pod was first seen running, by the pod's UID.
async fn watch_running(client: kube::Client, namespace: String, running: Arc<Mutex<BTreeMap<String, f64>>>) {
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    watcher(pods, watcher::Config::default())
        .for_each(|event| {
            if let Ok(Event::Apply(pod) | Event::InitApply(pod)) = event {
                let statuses = pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten());
                let runs = statuses.into_iter().any(|c| c.state.as_ref().is_some_and(|s| s.running.is_some()));
                if let Some(uid) = pod.uid().filter(|_| runs) {
                    running.lock().unwrap_or_else(PoisonError::into_inner).entry(uid).or_insert_with(now);
                }
            }
            std::future::ready(())
        })
        .await;
}

/// Milliseconds since 1970: one clock for this process, the operator and the members, all on one machine.
fn now() -> f64 {
    jiff::Timestamp::now().as_microsecond() as f64 / 1000.0
}

fn print(report: &Report) {
    println!(
        "From the last pod running to every member in its role, {} register members, milliseconds:\n",
        report.members
    );
    let columns: Vec<_> = (1..=report.recoveries.len()).map(|number| number.to_string()).collect();
    println!("| | {} |", columns.join(" | "));
    println!("| --- |{}", " --- |".repeat(columns.len()));
    let row = |name: &str, of: &dyn Fn(&Recovery) -> f64| {
        let cells: Vec<_> = report.recoveries.iter().map(|recovery| format!("{:.0}", of(recovery))).collect();
        println!("| {name} | {} |", cells.join(" | "));
    };
    row("whole", &|recovery| recovery.whole_ms);
    for phase in Phase::ALL {
        row(phase.name(), &|recovery| recovery.phases.get(phase.name()).copied().unwrap_or_default());
    }
    row("ours: whole without the commands", &|recovery| recovery.overhead_ms);
    println!(
        "\nOthers and the cluster itself used {:.2} processors, {:.2} were stolen.",
        report.load.others, report.load.stolen
    );
    let met = if report.met { "met" } else { "MISSED" };
    println!(
        "Ours: p50 {:.0}, at most {:.0}. Goal, at most {GOAL:.0} beside the commands: {met}.",
        report.overhead_p50_ms, report.overhead_max_ms
    );
}
