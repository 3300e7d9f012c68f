//! What many groups cost that have nothing to do: the operator's memory, and what it writes and executes.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::{Context as _, anyhow, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tanist_e2e::{Stage, condition, play, until};

use crate::{
    goals::Goal,
    machine::Busy,
    record::{About, Conditions, Record, Shown},
};

/// What is measured. The operator's image is that of `TANIST_IMAGE`, or that of the end-to-end tests.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many groups, of one member each: a node takes some 100 pods. A hundred, or ten in a quick run, when it is not given.
    #[arg(long)]
    groups: Option<usize>,
    /// Where the figures go as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the operator's log goes.
    #[arg(long)]
    log: Option<PathBuf>,
    #[command(flatten)]
    conditions: Conditions,
}

/// The goal for the resident memory, in MiB.
const GOAL: f64 = 60.0;
/// Seconds between two rounds of a group that rests, and between two polls of its runner: the members share two processors with all else.
const RESYNC: u64 = 30;
/// How many of these are watched.
const INTERVALS: u64 = 10;

/// Many groups at rest.
#[derive(Debug, Serialize, Deserialize)]
pub struct Idle {
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
}

/// # Errors
/// When not all groups form, or come to rest.
pub fn run(args: &Args) -> anyhow::Result<()> {
    play("idle").run(async |stage| measure(args, stage).await).map_err(|error| anyhow!(error))
}

async fn measure(args: &Args, stage: &Stage) -> anyhow::Result<()> {
    let groups = args.groups.unwrap_or(if args.conditions.quick { 10 } else { 100 });
    let began = std::time::Instant::now();
    form(stage, groups).await?;
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
    let processors = (later.processor_seconds - used.processor_seconds) / watched.elapsed().as_secs_f64();
    let load = load.until(Busy::now(&[]));
    if let Some(path) = &args.log {
        std::fs::write(path, stage.operator.log().await)?;
    }
    let figures = Idle { groups, resident_mib: later.resident_mib, formed_seconds, written, executed, processors };
    let goals = figures.goals();
    Record::new(About::now(&args.conditions), load, figures, goals, vec![]).finish(args.json.as_deref())
}

/// Creates so many groups, and waits until all of them are ready.
async fn form(stage: &Stage, groups: usize) -> anyhow::Result<()> {
    let names: Vec<_> = (0..groups).map(|n| format!("register-{n:03}")).collect();
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
        eprintln!("{ready} of {groups} groups are ready");
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(ready == groups)
    })
    .await
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

impl Idle {
    fn goals(&self) -> Vec<Goal> {
        let others: f64 =
            self.executed.iter().filter(|(command, _)| *command != "status").map(|(_, count)| count).sum();
        vec![
            Goal::at_most("resident memory of the operator", GOAL, self.resident_mib, "MiB"),
            Goal::at_most("objects that changed", 0.0, self.written.len() as f64, ""),
            Goal::at_most("executions other than status", 0.0, others, ""),
        ]
    }
}

impl Shown for Idle {
    const NAME: &'static str = "idle";

    fn tables(&self) -> String {
        let executed: Vec<_> = self.executed.iter().map(|(command, count)| format!("`{command}` {count}")).collect();
        let written = if self.written.is_empty() { "none".to_owned() } else { self.written.join(", ") };
        format!(
            "{} groups, {INTERVALS} resync intervals of {RESYNC} s.\n\n| | |\n| --- | --- |\n\
             | resident memory of the operator, as its kubelet says (anonymous pages) | {:.1} MiB |\n\
             | processors it used meanwhile | {:.3} |\n| objects of the namespace that changed | {written} |\n\
             | executions | {} |\n| from the first creation until all were Ready | {:.0} s |\n",
            self.groups,
            self.resident_mib,
            self.processors,
            executed.join(", "),
            self.formed_seconds,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_and_a_command_miss_the_goal() {
        let idle = |written: &[&str], command: &str| Idle {
            groups: 100,
            resident_mib: 37.8,
            formed_seconds: 133.0,
            written: written.iter().map(|&name| name.to_owned()).collect(),
            executed: BTreeMap::from([("status".to_owned(), 993.0), (command.to_owned(), 1.0)]),
            processors: 0.019,
        };
        let met = |idle: &Idle| idle.goals().iter().map(|goal| goal.met).collect::<Vec<_>>();
        assert_eq!(met(&idle(&[], "status")), [true, true, true]);
        assert_eq!(met(&idle(&["Pod register-001-0"], "sequence")), [true, false, false]);
        let text = idle(&["Pod register-001-0"], "sequence").tables();
        assert!(text.contains("| objects of the namespace that changed | Pod register-001-0 |"), "{text}");
    }
}
