//! How soon a change decides: a label of a group, alone and beside groups whose policies burn all that they are allowed; and a script in a `ConfigMap`.

use std::{path::PathBuf, pin::Pin, time::Duration};

use anyhow::{Context as _, anyhow, ensure};
use futures::{Stream, StreamExt as _, future::try_join_all};
use k8s_openapi::{ByteString, api::core::v1::ConfigMap};
use kube::{
    Api,
    api::{Patch, PatchParams},
    runtime::watcher::watch_object,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tanist_e2e::{Group, Stage, condition, play, waits};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    figures::{Figures, cell},
    goals::{Goal, ratio},
    machine::Busy,
    record::{About, Conditions, Record, Shown},
};

/// What is measured. The operator's image is that of `TANIST_IMAGE`, or that of the end-to-end tests.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The component `hostile`.
    #[arg(long)]
    hostile: PathBuf,
    /// How many changes of a label, alone and beside the others; a thousand, or 50 in a quick run, when it is not given.
    #[arg(long)]
    turns: Option<usize>,
    /// Where the figures go as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the operator's log goes.
    #[arg(long)]
    log: Option<PathBuf>,
    #[command(flatten)]
    conditions: Conditions,
}

/// How many groups burn fuel.
const HOSTILE: usize = 20;
/// How many times longer a decision may take beside them, p99.
const SLOWER: f64 = 2.0;
/// How long a changed script may take to decide. Milliseconds.
const SCRIPT: f64 = 500.0;
/// Seconds between two changes of the script: three within ten seconds are held back as flapping.
const APART: u64 = 5;
/// Seconds after which a change counts as lost.
const LOST: u64 = 60;

/// Changes that decide.
#[derive(Debug, Serialize, Deserialize)]
pub struct Changes {
    hostile: usize,
    alone: Side,
    /// Beside the same groups, which ask as often and burn nothing: what their rounds cost, whatever their policies compute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calm: Option<Side>,
    beside: Side,
    /// From the write of a script to the status with its answer. Milliseconds.
    script: Figures,
}

/// One group's changes of a label.
#[derive(Debug, Serialize, Deserialize)]
struct Side {
    /// From the snapshot to the decision, with the time until a thread is free: by the operator's log. Microseconds.
    decision: Figures,
    /// From the write of the label to the status with the answer. Milliseconds.
    shown: Figures,
}

/// # Errors
/// When a change was not answered, the Lease changed hands or the operator was restarted.
pub fn run(args: &Args) -> anyhow::Result<()> {
    play("changes")
        .with("RUST_LOG", "info,kube=warn,tanist::controller=debug")
        .run(async |stage| measure(args, stage).await)
        .map_err(|error| anyhow!(error))
}

async fn measure(args: &Args, stage: &Stage) -> anyhow::Result<()> {
    let quick = args.conditions.quick;
    let turns = args.turns.unwrap_or(if quick { 50 } else { 1_000 });
    let load = Busy::now(&[]);
    write_script(stage, 0).await?;
    let group = stage.group("quiet");
    group.create(json!({"replicas": 1, "policies": [{"configMap": {"name": "turns", "key": "turns.star"}}]})).await?;
    group.until("its first question", 180, |seen| waits(seen).contains("script 0")).await?;
    let mut quiet =
        Quiet { stage, watch: Box::pin(watch_object(group.groups.clone(), &group.name)), group, turn: 0, logged: 0 };

    let script = quiet.scripts(if quick { 3 } else { 40 }).await?;
    let before = stage.operator.leases().await?;
    let alone = quiet.turns(turns).await.context("alone")?;
    let others = others(stage, args).await?;
    let calm = Some(quiet.turns(turns).await.context("beside the others, which burn nothing")?);
    burn(&others).await?;
    let beside = quiet.turns(turns).await.context("beside the others")?;
    let mut failures = Vec::new();
    if stage.operator.leases().await? != before {
        failures.push("the Lease changed hands".to_owned());
    }
    if stage.operator.restarts().await? > 0 {
        failures.push("the operator was restarted".to_owned());
    }
    if let Some(path) = &args.log {
        std::fs::write(path, stage.operator.log().await)?;
    }
    let figures = Changes { hostile: HOSTILE, alone, calm, beside, script };
    let goals = figures.goals()?;
    let load = load.until(Busy::now(&[]));
    Record::new(About::now(&args.conditions), load, figures, goals, failures).finish(args.json.as_deref())
}

/// A group whose one policy, a script, waits for ever and says which script it is and what the group's label is.
struct Quiet<'a> {
    stage: &'a Stage,
    group: Group,
    watch: Pin<Box<dyn Stream<Item = Result<Option<kube::api::DynamicObject>, kube::runtime::watcher::Error>> + 'a>>,
    turn: usize,
    /// Decisions of the group in the log so far.
    logged: usize,
}

impl Quiet<'_> {
    /// Changes the label so many times, each when the one before was answered.
    async fn turns(&mut self, count: usize) -> anyhow::Result<Side> {
        self.logged = self.decisions().await?.len();
        let mut shown = Vec::new();
        for _ in 0..count {
            self.turn += 1;
            let began = Instant::now();
            self.group.annotate("policy.tanist.dev/turn", &self.turn.to_string()).await?;
            self.says(&format!("turn {}.", self.turn)).await?;
            shown.push(milliseconds(began));
        }
        let decisions = self.decisions().await?.split_off(self.logged);
        ensure!(decisions.len() >= count, "{} of {count} decisions are in the log", decisions.len());
        Ok(Side { decision: Figures::of(decisions)?, shown: Figures::of(shown)? })
    }

    /// Changes the script so many times.
    async fn scripts(&mut self, count: usize) -> anyhow::Result<Figures> {
        let mut took = Vec::new();
        for version in 1..=count {
            sleep(Duration::from_secs(APART)).await;
            let began = Instant::now();
            write_script(self.stage, version).await?;
            self.says(&format!("script {version},")).await?;
            took.push(milliseconds(began));
        }
        Figures::of(took)
    }

    async fn says(&mut self, words: &str) -> anyhow::Result<()> {
        let look = async {
            while let Some(seen) = self.watch.next().await {
                let Ok(Some(object)) = seen else { continue };
                let seen = serde_json::to_value(object)?;
                // An exam that failed cites the script, too.
                if waits(&seen).contains(words) && condition(&seen, "PolicyActive").starts_with("True") {
                    return Ok(());
                }
            }
            Err(anyhow!("the watch ended"))
        };
        timeout(Duration::from_secs(LOST), look).await.with_context(|| format!("nobody said {words:?} in {LOST} s"))?
    }

    /// How long each decision of the group took so far, by the operator's log. Microseconds.
    async fn decisions(&self) -> anyhow::Result<Vec<f64>> {
        let log = self.stage.operator.log().await;
        let lines = log.lines().filter(|line| line.contains("the decision is made"));
        let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let own = lines.filter(|line| line.pointer("/span/group").and_then(Value::as_str) == Some(&self.group.name));
        Ok(own.filter_map(|line| line.pointer("/fields/microseconds").and_then(Value::as_f64)).collect())
    }
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1_000.0
}

/// The script of the quiet group. The version makes another script of it.
async fn write_script(stage: &Stage, version: usize) -> anyhow::Result<()> {
    let says = format!("\"script {version}, turn \" + (s.group.label(\"turn\") or \"0\") + \".\"");
    let text = format!("def seed(s):\n    return wait({says}, until = s.now + 3600)\n");
    write(stage, "turns", json!({"data": {"turns.star": text}})).await
}

/// Iterations that burn most of what a question may use.
const BURNS: u32 = 900_000;

/// Groups with several layers, which abstain; the last one wants to be asked again after a second. They burn nothing yet.
async fn others(stage: &Stage, args: &Args) -> anyhow::Result<Vec<Group>> {
    let component =
        std::fs::read(&args.hostile).with_context(|| format!("failed to read {}", args.hostile.display()))?;
    let again = "def seed(s):\n    return wait(\"once more\", until = s.now + 1)\n";
    let content = json!({"data": {"again.star": again}, "binaryData": {"burning.wasm": ByteString(component)}});
    write(stage, "hostile", content).await?;
    let others: Vec<_> = (0..HOSTILE).map(|n| stage.group(&format!("hostile-{n}"))).collect();
    for other in &others {
        other.create(json!({"replicas": 1, "policies": layers(1)})).await?;
    }
    let asked = others
        .iter()
        .map(|other| other.until("its last policy's answer", 300, |seen| waits(seen).contains("once more")));
    try_join_all(asked).await?;
    Ok(others)
}

/// From now on they burn, and have been asked like that once.
async fn burn(others: &[Group]) -> anyhow::Result<()> {
    let asked = others.iter().map(async |other| {
        other.change(json!({"policies": layers(BURNS)})).await?;
        let generation = other.get().await?.pointer("/metadata/generation").cloned();
        let answers = |seen: &Value| {
            seen.pointer("/status/observedGeneration").cloned() == generation && waits(seen).contains("once more")
        };
        other.until("its last policy's answer", 300, answers).await
    });
    try_join_all(asked).await.map(drop)
}

/// The policies of such a group.
fn layers(times: u32) -> Value {
    let burning =
        json!({"configMap": {"name": "hostile", "key": "burning.wasm"}, "parameters": {"do": "grind", "times": times}});
    json!([burning, burning, burning, {"configMap": {"name": "hostile", "key": "again.star"}}])
}

async fn write(stage: &Stage, name: &str, content: Value) -> anyhow::Result<()> {
    let mut map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"tanist.dev/policy": "true"}}
    });
    tanist_e2e::merge(&mut map, content);
    let maps = Api::<ConfigMap>::namespaced(stage.client.clone(), &stage.namespace);
    let written = maps.patch(name, &PatchParams::apply("tanist-bench").force(), &Patch::Apply(&map)).await;
    written.map(drop).with_context(|| format!("failed to write {name}"))
}

impl Changes {
    fn goals(&self) -> anyhow::Result<Vec<Goal>> {
        let (alone, beside) = (self.alone.decision.p99, self.beside.decision.p99);
        let mut goals = vec![Goal::at_most("a changed script decides, most", SCRIPT, self.script.max, "ms")];
        if let (Some(alone), Some(beside)) = (alone, beside) {
            goals.push(Goal::at_most("a decision beside the others, p99", SLOWER, ratio(beside, alone)?, "times"));
        }
        Ok(goals)
    }
}

impl Shown for Changes {
    const NAME: &'static str = "changes";

    fn tables(&self) -> String {
        let row = |what: &str, Figures { samples, p50, p90, p99, max, .. }: &Figures, digits: usize| {
            let (p90, p99) = (cell(*p90, digits), cell(*p99, digits));
            format!("| {what} | {p50:.digits$} | {p90} | {p99} | {max:.digits$} | {samples} |\n")
        };
        let (alone, beside, hostile) = (&self.alone, &self.beside, self.hostile);
        let mut text = "| | p50 | p90 | p99 | most | samples |\n| --- | --- | --- | --- | --- | --- |\n".to_owned();
        text += &row("one decision, alone, us", &alone.decision, 0);
        if let Some(calm) = &self.calm {
            text += &row(
                &format!("one decision beside {hostile} groups that ask as often and burn nothing, us"),
                &calm.decision,
                0,
            );
        }
        text += &row(&format!("one decision beside {hostile} groups that burn, us"), &beside.decision, 0);
        text += &row("a label's change until the status has the answer, alone, ms", &alone.shown, 1);
        text += &row(&format!("the same beside {hostile} groups that burn, ms"), &beside.shown, 1);
        text += &row("a script's change until the status has its answer, ms", &self.script, 1);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(beside: f64, script: f64) -> Changes {
        let figures = |value: f64, count: usize| Figures::of(vec![value; count]).unwrap();
        let side = |value: f64| Side { decision: figures(value, 1_000), shown: figures(30.0, 1_000) };
        Changes {
            hostile: HOSTILE,
            alone: side(600.0),
            calm: Some(side(900.0)),
            beside: side(beside),
            script: figures(script, 40),
        }
    }

    #[test]
    fn a_decision_that_takes_thrice_as_long_misses_the_goal() {
        let met = |changes: &Changes| changes.goals().unwrap().iter().map(|goal| goal.met).collect::<Vec<_>>();
        assert_eq!(met(&changes(1_200.0, 100.0)), [true, true]);
        assert_eq!(met(&changes(1_800.0, 501.0)), [false, false]);
        let text = changes(1_800.0, 501.0).tables();
        assert!(text.contains("that ask as often and burn nothing, us | 900 | 900 | 900 | 900 | 1000 |"), "{text}");
        assert!(
            text.contains("| one decision beside 20 groups that burn, us | 1800 | 1800 | 1800 | 1800 | 1000 |"),
            "{text}"
        );
    }
}
