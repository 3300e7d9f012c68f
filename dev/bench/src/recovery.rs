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
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::ListParams,
    runtime::watcher::{self, Event, watcher},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tanist_e2e::{Execution, Group, Member, Stage, executions, play, text};

use crate::{
    figures::Figures,
    goals::Goal,
    machine::Busy,
    record::{About, Conditions, Record, Shown},
    seen,
    timeline::{Phase, Span, of_log, spent},
};

/// What is measured. The operator's image is that of `TANIST_IMAGE`, or that of the end-to-end tests.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How often; five times, or twice in a quick run, when it is not given.
    #[arg(long)]
    repetitions: Option<u32>,
    /// Where the figures go as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the operator's log goes.
    #[arg(long)]
    log: Option<PathBuf>,
    #[command(flatten)]
    conditions: Conditions,
}

const MEMBERS: u32 = 5;
/// The goal for the median: milliseconds beside the commands' own.
const GOAL: f64 = 2_000.0;

/// Recoveries of a whole group.
#[derive(Debug, Serialize, Deserialize)]
pub struct Recoveries {
    members: u32,
    /// Those that came to their end, in order.
    pub recoveries: Vec<Recovery>,
    /// Without the commands' own time. Milliseconds.
    overhead: Figures,
}

/// One recovery. Milliseconds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Recovery {
    /// From the last pod running to every member in its role, as the group's status says.
    pub whole_ms: f64,
    /// Without the commands' own time.
    pub overhead_ms: f64,
    /// What the time went into, by the name of the phase.
    pub phases: BTreeMap<String, f64>,
    commands: Vec<String>,
}

/// # Errors
/// When a recovery did not come to its end; those before it are written and shown.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let variables = "info,kube=warn,tanist=debug";
    play("bench")
        .with("RUST_LOG", variables)
        .run(async |stage| measure(args, stage).await)
        .map_err(|error| anyhow!(error))
}

async fn measure(args: &Args, stage: &Stage) -> anyhow::Result<()> {
    let repetitions = args.repetitions.unwrap_or(if args.conditions.quick { 2 } else { 5 });
    let group = stage.register(json!({"replicas": MEMBERS})).await?;
    group.ready(180).await?;
    group.member(0).write(20).await?;
    let before = Busy::now(&[]);
    let (mut recoveries, mut failures) = (Vec::new(), Vec::new());
    for repetition in 1..=repetitions {
        eprintln!("recovery {repetition} of {repetitions} ...");
        match recovery(args, stage, &group).await {
            Ok(one) => {
                eprintln!("  ours {:.0} ms of {:.0}: {}", one.overhead_ms, one.whole_ms, one.commands.join("; "));
                recoveries.push(one);
            }
            // What was measured before is shown. The group is not in a state to go on with.
            Err(error) => {
                failures.push(format!("recovery {repetition} of {repetitions}: {error:#}"));
                break;
            }
        }
    }
    let load = before.until(Busy::now(&[]));
    ensure!(!recoveries.is_empty(), "{}", failures.join("; "));
    let overhead = Figures::of(recoveries.iter().map(|recovery| recovery.overhead_ms))?;
    let goals = vec![Goal::at_most("without the commands, p50", GOAL, overhead.p50, "ms")];
    let figures = Recoveries { members: MEMBERS, recoveries, overhead };
    Record::new(About::now(&args.conditions), load, figures, goals, failures).finish(args.json.as_deref())
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
    let in_role = |seen: &Value| {
        let members = seen.pointer("/status/members").and_then(Value::as_array);
        let new = members.is_some_and(|rows| rows.iter().all(|row| !old.iter().any(|uid| uid == text(row, "/podUID"))));
        new && seen::in_role(seen) == Some(MEMBERS.into())
    };
    let ended = group.until("every member in its role", 180, in_role).await;
    let done = now();
    watch.abort();
    ended?;
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
    let all = journals.iter().flat_map(|journal| executions(journal)).filter(|e| e.began as f64 >= begun).collect();
    explained(&log, all, last_running, done)
}

/// What the time between the last pod running and the end went into.
fn explained(log: &str, mut executed: Vec<Execution>, last_running: f64, done: f64) -> anyhow::Result<Recovery> {
    let mut spans = of_log(log);
    // Another wording of the log must not turn all of it into "rest".
    for phase in [Phase::Status, Phase::ExecWay] {
        ensure!(
            spans.iter().any(|span| span.phase == phase),
            "the operator's log does not say when \"{}\" was",
            phase.name()
        );
    }
    spans.extend(executed.iter().filter(|e| e.command != "stop").filter_map(|execution| {
        Some(Span { phase: Phase::Commands, from: execution.began as f64, to: execution.ended? as f64 })
    }));
    let spent = spent(&spans, last_running, done);
    let whole_ms = done - last_running;
    let own = spent.get(&Phase::Commands).copied().unwrap_or_default();
    executed.sort_by_key(|execution| execution.began);
    let commands = executed
        .iter()
        .map(|e| {
            let took = e.ended.map_or("?".to_owned(), |ended| (ended - e.began).to_string());
            format!("{} {}: at {:.0}, {took} ms", e.command, e.ordinal, e.began as f64 - last_running)
        })
        .collect();
    let phases = spent.into_iter().map(|(phase, ms)| (phase.name().to_owned(), ms)).collect();
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

impl Shown for Recoveries {
    const NAME: &'static str = "recovery";

    fn tables(&self) -> String {
        let columns: Vec<_> = (1..=self.recoveries.len()).map(|number| number.to_string()).collect();
        let mut text = format!(
            "{} register members. Milliseconds.\n\n| | {} |\n| --- |{}\n",
            self.members,
            columns.join(" | "),
            " --- |".repeat(columns.len())
        );
        let mut row = |name: &str, of: &dyn Fn(&Recovery) -> f64| {
            let cells: Vec<_> = self.recoveries.iter().map(|recovery| format!("{:.0}", of(recovery))).collect();
            text += &format!("| {name} | {} |\n", cells.join(" | "));
        };
        row("whole", &|recovery| recovery.whole_ms);
        for phase in Phase::ALL {
            row(phase.name(), &|recovery| recovery.phases.get(phase.name()).copied().unwrap_or_default());
        }
        row("**ours: whole without the commands**", &|recovery| recovery.overhead_ms);
        text + &format!("\nOurs: p50 {:.0}, most {:.0}.\n", self.overhead.p50, self.overhead.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_of_other_words_is_an_error() {
        let error = explained(
            "{\"timestamp\": \"2026-11-21T10:00:00Z\", \"fields\": {\"message\": \"looked\"}}",
            vec![],
            0.0,
            10.0,
        );
        assert!(error.unwrap_err().to_string().contains("\"status\""));
    }

    #[test]
    fn few_recoveries_show_median_and_most() {
        let recovery = |overhead_ms: f64| Recovery {
            whole_ms: overhead_ms + 800.0,
            overhead_ms,
            phases: BTreeMap::from([("status".to_owned(), 300.0)]),
            commands: vec![],
        };
        let recoveries = vec![recovery(1195.0), recovery(1562.0), recovery(1075.0)];
        let overhead = Figures::of(recoveries.iter().map(|recovery| recovery.overhead_ms)).unwrap();
        let text = Recoveries { members: MEMBERS, recoveries, overhead }.tables();
        for line in ["| whole | 1995 | 2362 | 1875 |", "| status | 300 | 300 | 300 |", "p50 1195, most 1562."] {
            assert!(text.contains(line), "{line} is missing: {text}");
        }
    }
}
