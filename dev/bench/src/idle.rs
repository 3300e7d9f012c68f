//! What many groups cost that have nothing to do: the operator's memory, and what it writes and executes.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, anyhow, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use serde::Serialize;
use serde_json::{Value, json};
use tanist_e2e::{Stage, condition, play, until};

use crate::{
    machine::{Busy, Load, Machine},
    recovery::install,
};

/// What is measured.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The operator's image; the end-to-end tests' when it is not given.
    #[arg(long)]
    image: Option<String>,
    /// How many groups, of one member each: a node takes some 100 pods.
    #[arg(long, default_value_t = 100)]
    groups: usize,
    /// Where the figures go as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The goal for the memory, in MiB.
const GOAL: f64 = 60.0;
/// Seconds between two rounds of a group that rests, and between two polls of its runner: the members share two processors with all else.
const RESYNC: u64 = 30;
/// How many of these are watched.
const INTERVALS: u64 = 10;

#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    load: Load,
    groups: usize,
    /// Resident, as the kubelet says.
    resident_mib: f64,
    /// How long all groups took to form, from the first creation. Seconds.
    formed_seconds: f64,
    /// Objects that changed within ten resync intervals of every group.
    written: Vec<String>,
    /// What was executed within these, by command.
    executed: BTreeMap<String, f64>,
    /// Processors that the operator used meanwhile.
    processors: f64,
    met: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    play("idle").run(async |stage| measure(args, stage).await).map_err(|error| anyhow!(error))
}

async fn measure(args: &Args, stage: &Stage) -> anyhow::Result<()> {
    if let Some(image) = &args.image {
        install(stage, image).await?;
    }
    let began = std::time::Instant::now();
    let names: Vec<_> = (0..args.groups).map(|n| format!("register-{n:03}")).collect();
    let spec = json!({"replicas": 1, "primaries": 1, "resyncIntervalSeconds": RESYNC, "statusIntervalSeconds": RESYNC});
    stream::iter(&names)
        .map(|name| {
            let spec = spec.clone();
            async move { stage.group(name).create(spec).await }
        })
        .buffer_unordered(8)
        .try_collect::<Vec<()>>()
        .await?;
    until("every group", 900, async || {
        let ready = ready(stage).await?;
        eprintln!("{ready} of {} groups are ready", args.groups);
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(ready == args.groups)
    })
    .await?;
    let formed_seconds = began.elapsed().as_secs_f64();
    rest(stage).await?;

    let load = Busy::now(&[]);
    let (versions, executed, used) = (stage.versions().await?, executions(stage).await?, stage.operator.usage().await?);
    let watched = std::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(RESYNC * INTERVALS)).await;
    let (after, now) = (stage.versions().await?, executions(stage).await?);
    let written = after.iter().filter(|(name, version)| versions.get(*name) != Some(version));
    let written: Vec<_> = written.map(|(name, _)| name.clone()).collect();
    let executed: BTreeMap<_, _> = now
        .into_iter()
        .map(|(command, count)| (command.clone(), count - executed.get(&command).copied().unwrap_or_default()))
        .filter(|(_, count)| *count > 0.0)
        .collect();
    ensure!(!executed.is_empty(), "no group was looked at");
    let later = stage.operator.usage().await?;
    let report = Report {
        machine: Machine::here(),
        load: load.until(Busy::now(&[])),
        groups: args.groups,
        resident_mib: later.resident_mib,
        formed_seconds,
        met: later.resident_mib <= GOAL && written.is_empty() && executed.keys().all(|command| command == "status"),
        written,
        executed,
        processors: (later.processor_seconds - used.processor_seconds) / watched.elapsed().as_secs_f64(),
    };
    print(&report);
    if let Some(path) = &args.json {
        fs::write(path, serde_json::to_string_pretty(&report)?)
            .with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}

async fn ready(stage: &Stage) -> anyhow::Result<usize> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("tanist.dev", "v1alpha1", "ReplicaGroup"));
    let api: Api<DynamicObject> = Api::namespaced_with(stage.client.clone(), &stage.namespace, &resource);
    let groups = api.list(&ListParams::default()).await?.items;
    let all = groups.into_iter().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>()?;
    Ok(all.iter().filter(|group| condition(group, "Ready").starts_with("True")).count())
}

/// What Kubernetes itself writes after a start comes to rest first.
async fn rest(stage: &Stage) -> anyhow::Result<()> {
    let mut before = stage.versions().await?;
    until("rest", 120, async || {
        tokio::time::sleep(Duration::from_secs(RESYNC)).await;
        let earlier = std::mem::replace(&mut before, stage.versions().await?);
        Ok(earlier == before)
    })
    .await
}

/// How many executions there were, by command.
async fn executions(stage: &Stage) -> anyhow::Result<BTreeMap<String, f64>> {
    let pod = stage.operator.pod().await?;
    let mut counts: BTreeMap<String, f64> = BTreeMap::new();
    for line in stage.operator.metrics(&pod).await?.lines() {
        let Some(rest) = line.strip_prefix("tanist_execs_total{command=\"") else { continue };
        let (command, rest) = rest.split_once('"').context("no command")?;
        let count: f64 = rest.rsplit(' ').next().unwrap_or_default().parse()?;
        *counts.entry(command.to_owned()).or_default() += count;
    }
    Ok(counts)
}

fn print(report: &Report) {
    println!(
        "{} groups of one register member that have nothing to do, {INTERVALS} resync intervals of {RESYNC} s:\n",
        report.groups
    );
    println!("| | |\n| --- | --- |");
    println!("| resident memory of the operator, MiB | {:.1} |", report.resident_mib);
    println!("| processors it used | {:.3} |", report.processors);
    println!("| objects that changed | {} |", report.written.len());
    let executed: Vec<_> = report.executed.iter().map(|(command, count)| format!("{command} {count}")).collect();
    println!("| executions | {} |", executed.join(", "));
    println!("| seconds until all had formed | {:.0} |", report.formed_seconds);
    for name in report.written.iter().take(5) {
        println!("\nchanged: {name}");
    }
    println!(
        "\nGoal, at most {GOAL:.0} MiB, nothing written, nothing executed but status: {}.",
        if report.met { "met" } else { "MISSED" }
    );
}
