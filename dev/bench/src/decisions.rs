//! One decision, in its three ways, taken in turns so that what else the machine does hits all of them alike.

use std::{
    fs,
    hint::black_box,
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};
use tanist_core::{
    contract::Answer,
    policy::{Policies as _, Question, Reply},
};
use tanist_engine::{Engine, Layer, Limits, Policy, Stack};
use tanist_policy::Policy as _;
use tanist_policy_sequence::Sequence;

use crate::{
    cases::{self, Recorded},
    figures::{Figures, Samples},
    machine::{Busy, Load, Machine},
    webhook::{Request, Webhook},
};

/// What is measured.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The component.
    #[arg(long)]
    policy: PathBuf,
    /// The program of the webhook.
    #[arg(long)]
    webhook: PathBuf,
    /// The recorded request.
    #[arg(long)]
    payload: PathBuf,
    /// Where the figures go as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// A tenth of the samples.
    #[arg(long)]
    quick: bool,
    /// Ask only the policy, so many times, for a profiler.
    #[arg(long)]
    only_policy: Option<usize>,
}

/// Samples of each way, for a group so small that they take a few seconds.
const SAMPLES: usize = 20_000;
/// Samples of the webhook with a hundred pods: they take ten milliseconds each.
const FEW: usize = 2_000;
/// Samples in a row before it is another's turn.
const TURN: usize = 50;
/// Samples before those that count.
const WARM_UP: usize = 2_000;
/// The goal: five lean members, microseconds, and how many times faster than the webhook.
const GOAL: (u32, f64, f64) = (5, 15.0, 20.0);

/// Everything that was measured.
#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    load: Load,
    calibration: Figures,
    rows: Vec<Row>,
    goal: Goal,
}

/// One form of the question. Microseconds.
#[derive(Debug, Serialize)]
struct Row {
    what: String,
    members: u32,
    fuel: u64,
    /// Bytes of the webhook's request.
    request_bytes: usize,
    policy: Figures,
    native: Figures,
    webhook: Figures,
    webhook_short: Figures,
    times_faster: f64,
}

#[derive(Debug, Serialize)]
struct Goal {
    p50: f64,
    times_faster: f64,
    met: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let bytes = fs::read(&args.policy).with_context(|| format!("failed to read {}", args.policy.display()))?;
    let policy = Policy::load(&Engine::new(Limits::default())?, "builtin/sequence", &bytes)?;
    let parameters = policy.validate("{}")?;
    let stack = Stack::new(vec![Layer { policy: Arc::new(policy), points: None, parameters }]);
    if let Some(times) = args.only_policy {
        return only_policy(&stack, times);
    }
    let recorded = Recorded::read(&args.payload)?;
    let webhook = Webhook::start(&args.webhook)?;
    let mut bench = Bench { stack, recorded, webhook, part: if args.quick { 10 } else { 1 } };

    let children = [bench.webhook.process()];
    let before = Busy::now(&children);
    let mut rows = Vec::new();
    for members in [3, 5, 9, 100] {
        eprintln!("{members} lean members ...");
        rows.push(bench.row("lean", members, &cases::lean(members), 1)?);
    }
    eprintln!("5 members as the operator asks ...");
    rows.push(bench.row("full", 5, &cases::full(5), 1)?);
    eprintln!("5 lean members, each question after 2 ms of rest ...");
    rows.push(bench.row("lean, rested", 5, &cases::lean(5), 20)?);
    let calibration = calibrate();
    let load = before.until(Busy::now(&children));

    let row = rows.iter().find(|row| row.members == GOAL.0).context("the goal was not measured")?;
    let goal = Goal {
        p50: row.policy.p50,
        times_faster: row.times_faster,
        met: row.policy.p50 <= GOAL.1 && row.times_faster >= GOAL.2,
    };
    let report = Report { machine: Machine::here(), load, calibration, rows, goal };
    print(&report);
    if let Some(path) = &args.json {
        fs::write(path, serde_json::to_string_pretty(&report)?)
            .with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}

/// For a profiler: the policy and nothing else.
fn only_policy(stack: &Stack, times: usize) -> anyhow::Result<()> {
    let question = cases::lean(5);
    let mut samples = Samples::default();
    for _ in 0..times {
        let started = Instant::now();
        black_box(stack.ask(black_box(&question))?);
        samples.push(started.elapsed());
    }
    println!("{:?}", samples.figures());
    Ok(())
}

struct Bench {
    stack: Stack,
    recorded: Recorded,
    webhook: Webhook,
    /// Only one of so many samples.
    part: usize,
}

impl Bench {
    /// With `rest` above 1 there are so many times fewer samples, each after a rest.
    fn row(&mut self, what: &str, members: u32, question: &Question, rest: usize) -> anyhow::Result<Row> {
        let native = cases::native(question);
        let body = self.recorded.request(question)?;
        let pods = self.webhook.request("/pods", &body);
        let short = self.webhook.request("/lean", &cases::short(question).to_string());
        self.compare(question, &native, [&pods, &short])?;

        let all = SAMPLES / self.part / rest;
        let webhooks = if members > 50 { FEW / self.part / rest } else { all };
        let wait = (rest > 1).then_some(Duration::from_millis(2));
        let turn = if rest > 1 { 1 } else { TURN };
        let mut policy = Turns::new(all, wait);
        let mut library = Turns::new(all, wait);
        let mut webhook = Turns::new(webhooks, wait);
        let mut webhook_short = Turns::new(webhooks, wait);
        for _ in 0..WARM_UP / self.part {
            black_box(self.stack.ask(black_box(question))?);
        }
        for _ in 0..WARM_UP / self.part / if members > 50 { 10 } else { 1 } {
            black_box(self.webhook.ask(&pods)?);
            black_box(self.webhook.ask(&short)?);
        }
        while !(policy.done() && library.done() && webhook.done() && webhook_short.done()) {
            policy.take(turn, || {
                self.stack.ask(black_box(question)).map(|answer| _ = black_box(answer)).map_err(Into::into)
            })?;
            library.take(turn, || {
                _ = black_box(Sequence::seed(black_box(&native)));
                Ok(())
            })?;
            webhook.take(turn, || self.webhook.ask(&pods).map(|answer| _ = black_box(answer.len())))?;
            webhook_short.take(turn, || self.webhook.ask(&short).map(|answer| _ = black_box(answer.len())))?;
        }
        let (policy, webhook) = (policy.samples.figures(), webhook.samples.figures());
        Ok(Row {
            what: what.to_owned(),
            members,
            fuel: self.stack.ask(question)?.fuel,
            request_bytes: body.len(),
            policy,
            native: library.samples.figures(),
            webhook,
            webhook_short: webhook_short.samples.figures(),
            times_faster: webhook.p50 / policy.p50,
        })
    }

    /// All ways give the same answer, with the same reasons.
    fn compare(
        &mut self,
        question: &Question,
        native: &tanist_policy::Snapshot,
        webhooks: [&Request; 2],
    ) -> anyhow::Result<()> {
        let Reply::Answer(Answer::Choose(ranking)) = self.stack.ask(question)?.reply else {
            bail!("the policy chose nobody")
        };
        let of_policy: Said = Said {
            candidates: ranking
                .candidates
                .into_iter()
                .map(|each| Verdict { member: each.member.0, reason: each.reason })
                .collect(),
            passed_over: ranking
                .passed_over
                .into_iter()
                .map(|each| Verdict { member: each.member.0, reason: each.reason })
                .collect(),
        };
        let Ok(tanist_policy::Answer::Choose(ranking)) = Sequence::seed(native) else {
            bail!("the native rule chose nobody")
        };
        let of_native = Said {
            candidates: ranking
                .candidates
                .into_iter()
                .map(|each| Verdict { member: each.member, reason: each.reason })
                .collect(),
            passed_over: ranking
                .passed_over
                .into_iter()
                .map(|each| Verdict { member: each.member, reason: each.reason })
                .collect(),
        };
        ensure!(of_policy == of_native, "policy and native rule differ: {of_policy:?} {of_native:?}");
        for request in webhooks {
            let of_webhook: Said = serde_json::from_slice(self.webhook.ask(request)?)?;
            ensure!(of_policy == of_webhook, "policy and webhook differ: {of_policy:?} {of_webhook:?}");
        }
        Ok(())
    }
}

/// The samples of one way, taken some at a time.
struct Turns {
    samples: Samples,
    left: usize,
    wait: Option<Duration>,
}

impl Turns {
    fn new(samples: usize, wait: Option<Duration>) -> Self {
        Self { samples: Samples::default(), left: samples, wait }
    }

    fn done(&self) -> bool {
        self.left == 0
    }

    fn take(&mut self, turn: usize, mut ask: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let count = turn.min(self.left);
        self.left -= count;
        for _ in 0..count {
            if let Some(wait) = self.wait {
                thread::sleep(wait);
            }
            let started = Instant::now();
            ask()?;
            self.samples.push(started.elapsed());
        }
        Ok(())
    }
}

/// A calculation that always takes the same number of instructions and touches no memory: what it varies by is the machine's noise.
fn calibrate() -> Figures {
    let mut samples = Samples::default();
    for _ in 0..SAMPLES {
        let started = Instant::now();
        let mut value = black_box(1_u64);
        for _ in 0..5_000 {
            value = black_box(value.wrapping_mul(6_364_136_223_846_793_005));
        }
        samples.push(started.elapsed());
    }
    samples.figures()
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    candidates: Vec<Verdict>,
    #[serde(deserialize_with = "none_is_empty")]
    passed_over: Vec<Verdict>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Verdict {
    member: String,
    reason: String,
}

/// Go writes an empty list as `null`.
fn none_is_empty<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Verdict>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

fn print(report: &Report) {
    println!("One decision, microseconds, p50 / p99:\n");
    println!(
        "| members | policy in its sandbox | native call | webhook, pods | webhook, short | times faster | request |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for row in &report.rows {
        let pair = |figures: &Figures| format!("{:.1} / {:.1}", figures.p50, figures.p99);
        println!(
            "| {} {} | {} | {} | {} | {} | {:.1} | {:.0} KB |",
            row.members,
            row.what,
            pair(&row.policy),
            pair(&row.native),
            pair(&row.webhook),
            pair(&row.webhook_short),
            row.times_faster,
            row.request_bytes as f64 / 1000.0,
        );
    }
    let Report { load, calibration, goal, .. } = report;
    println!(
        "\nBeside it, others used {:.2} processors and {:.2} were stolen. A calculation of fixed length took {:.1} / {:.1}.",
        load.others, load.stolen, calibration.p50, calibration.p99
    );
    let met = if goal.met { "met" } else { "MISSED" };
    println!(
        "Goal, {} lean members: p50 <= {} and >= {} times faster than the webhook with pods: {met}.",
        GOAL.0, GOAL.1, GOAL.2
    );
}
