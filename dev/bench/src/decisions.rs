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
    figures::{Figures, Samples, cell},
    goals::{Goal, ratio},
    machine::Busy,
    record::{About, Conditions, Record, Shown},
    webhook::{Request, Webhook},
};

/// What is measured.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The WebAssembly component of the policy that is measured.
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
    #[command(flatten)]
    conditions: Conditions,
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
/// What the rows are called: few fields, all fields, and few fields asked after a rest.
const LEAN: &str = "lean";
const FULL: &str = "full";
const RESTED: &str = "lean, rested";
/// The goals are about groups of so many members.
const MEMBERS: u32 = 5;

/// Everything that was measured.
#[derive(Debug, Serialize, Deserialize)]
pub struct Decisions {
    /// A calculation of fixed length, microseconds: what it varies by is the machine's noise.
    calibration: Figures,
    /// One for each form of the question.
    pub rows: Vec<Row>,
}

/// One form of the question. Microseconds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Row {
    /// What a member has: see [`LEAN`].
    pub what: String,
    /// How many members there are.
    pub members: u32,
    /// What the policy used of its budget.
    fuel: u64,
    /// Bytes of the request with pods.
    request_bytes: usize,
    /// The policy in its sandbox, all conversions included.
    pub policy: Figures,
    /// The same rule as a Rust library.
    native: Figures,
    /// The webhook that gets the members alone: like for like.
    webhook_lean: Figures,
    /// The webhook that gets whole pods.
    webhook_pods: Figures,
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
    let mut bench = Bench { stack, recorded, webhook, part: if args.conditions.quick { 10 } else { 1 } };

    let children = [bench.webhook.process()];
    let before = Busy::now(&children);
    let mut rows = Vec::new();
    for members in [3, 5, 9, 100] {
        eprintln!("{members} lean members ...");
        rows.push(bench.row(LEAN, members, &cases::lean(members), 1)?);
    }
    eprintln!("5 members as the operator asks ...");
    rows.push(bench.row(FULL, MEMBERS, &cases::full(MEMBERS), 1)?);
    eprintln!("5 lean members, each question after 2 ms of rest ...");
    rows.push(bench.row(RESTED, MEMBERS, &cases::lean(MEMBERS), 20)?);
    let calibration = calibrate()?;
    let load = before.until(Busy::now(&children));
    let goals = goals(&rows)?;
    let record = Record::new(About::now(&args.conditions), load, Decisions { calibration, rows }, goals, vec![]);
    record.finish(args.json.as_deref())
}

/// Ratios of one run: machines differ by a factor of two.
fn goals(rows: &[Row]) -> anyhow::Result<Vec<Goal>> {
    let find = |what: &str| {
        let found = rows.iter().find(|row| row.what == what && row.members == MEMBERS);
        found.with_context(|| format!("{MEMBERS} {what} members were not measured"))
    };
    let (lean, full, rested) = (find(LEAN)?, find(FULL)?, find(RESTED)?);
    let p50 = lean.policy.p50;
    let mut goals = vec![
        Goal::at_least("policy faster than the lean webhook", 4.0, ratio(lean.webhook_lean.p50, p50)?, "times"),
        Goal::at_least("policy faster than the webhook with pods", 25.0, ratio(lean.webhook_pods.p50, p50)?, "times"),
        Goal::at_most("policy, by the native call", 7.0, ratio(p50, lean.native.p50)?, "times"),
        Goal::at_most("full members, by lean ones", 1.25, ratio(full.policy.p50, p50)?, "times"),
        Goal::at_least(
            "rested: faster than the lean webhook, rested too",
            2.5,
            ratio(rested.webhook_lean.p50, rested.policy.p50)?,
            "times",
        ),
    ];
    // A quick run has it too: 2,000 samples.
    if let Some(p99) = lean.policy.p99 {
        goals.push(Goal::at_most("p99, by p50", 8.0, ratio(p99, p50)?, "times"));
    }
    Ok(goals)
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
    let Figures { samples, p50, p90, p99, max, .. } = samples.figures()?;
    println!(
        "{samples} samples, microseconds: p50 {p50:.1}, p90 {}, p99 {}, most {max:.1}",
        cell(p90, 1),
        cell(p99, 1)
    );
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
        let mut webhook_pods = Turns::new(webhooks, wait);
        let mut webhook_lean = Turns::new(webhooks, wait);
        for _ in 0..WARM_UP / self.part {
            black_box(self.stack.ask(black_box(question))?);
        }
        for _ in 0..WARM_UP / self.part / if members > 50 { 10 } else { 1 } {
            black_box(self.webhook.ask(&pods)?);
            black_box(self.webhook.ask(&short)?);
        }
        while !(policy.done() && library.done() && webhook_pods.done() && webhook_lean.done()) {
            policy.take(turn, || {
                self.stack.ask(black_box(question)).map(|answer| _ = black_box(answer)).map_err(Into::into)
            })?;
            library.take(turn, || {
                _ = black_box(Sequence::seed(black_box(&native)));
                Ok(())
            })?;
            webhook_pods.take(turn, || self.webhook.ask(&pods).map(|answer| _ = black_box(answer.len())))?;
            webhook_lean.take(turn, || self.webhook.ask(&short).map(|answer| _ = black_box(answer.len())))?;
        }
        Ok(Row {
            what: what.to_owned(),
            members,
            fuel: self.stack.ask(question)?.fuel,
            request_bytes: body.len(),
            policy: policy.samples.figures()?,
            native: library.samples.figures()?,
            webhook_lean: webhook_lean.samples.figures()?,
            webhook_pods: webhook_pods.samples.figures()?,
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
pub struct Turns {
    /// What was taken so far.
    pub samples: Samples,
    left: usize,
    wait: Option<Duration>,
}

impl Turns {
    /// So many samples in all, each after that rest.
    pub fn new(samples: usize, wait: Option<Duration>) -> Self {
        Self { samples: Samples::default(), left: samples, wait }
    }

    /// Whether all were taken.
    pub fn done(&self) -> bool {
        self.left == 0
    }

    /// Takes the next `turn` of them.
    ///
    /// # Errors
    /// That of `ask`.
    pub fn take(&mut self, turn: usize, ask: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
        self.take_after(turn, || (), ask)
    }

    /// The same, with something that is done before each sample and does not count.
    ///
    /// # Errors
    /// That of `ask`.
    pub fn take_after(
        &mut self,
        turn: usize,
        mut before: impl FnMut(),
        mut ask: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let count = turn.min(self.left);
        self.left -= count;
        for _ in 0..count {
            if let Some(wait) = self.wait {
                thread::sleep(wait);
            }
            before();
            let started = Instant::now();
            ask()?;
            self.samples.push(started.elapsed());
        }
        Ok(())
    }
}

/// A calculation that always takes the same number of instructions and touches no memory: what it varies by is the machine's noise.
fn calibrate() -> anyhow::Result<Figures> {
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

impl Shown for Decisions {
    const NAME: &'static str = "decisions";

    fn tables(&self) -> String {
        let pair = |figures: &Figures| format!("{:.1} / {}", figures.p50, cell(figures.p99, 1));
        let times = |of: &Figures, row: &Row| format!("{:.1}", of.p50 / row.policy.p50);
        let mut text = "Microseconds, p50 / p99. *Faster*: how many times, by p50.\n\n\
            | members | policy in its sandbox | webhook, lean | faster | webhook, pods | faster | native call | request with pods |\n\
            | --- | --- | --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
        for row in &self.rows {
            text += &format!(
                "| {} {} | {} | {} | {} | {} | {} | {} | {:.0} KB |\n",
                row.members,
                row.what,
                pair(&row.policy),
                pair(&row.webhook_lean),
                times(&row.webhook_lean, row),
                pair(&row.webhook_pods),
                times(&row.webhook_pods, row),
                pair(&row.native),
                row.request_bytes as f64 / 1000.0,
            );
        }
        let calibration = &self.calibration;
        text + &format!(
            "\nA calculation of fixed length took {} us beside it; its spread is the machine's noise.\n",
            pair(calibration)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows whose p50 are the sandboxed policy, the native call, the lean webhook and the one with pods.
    fn row(what: &str, members: u32, p50: [f64; 4]) -> Row {
        let [policy, native, lean, pods] = p50;
        // The highest eleven of a thousand samples are nine times the others.
        let figures = |p50: f64| Figures::of((0..1_000).map(|n| if n < 11 { 9.0 * p50 } else { p50 })).unwrap();
        Row {
            what: what.to_owned(),
            members,
            fuel: 1,
            request_bytes: 43_000,
            policy: figures(policy),
            native: figures(native),
            webhook_lean: figures(lean),
            webhook_pods: figures(pods),
        }
    }

    #[test]
    fn goals_are_ratios_of_groups_of_five() {
        let rows = [
            row(LEAN, 3, [1.0, 1.0, 1.0, 1.0]),
            row(LEAN, 5, [10.0, 2.0, 40.0, 240.0]),
            row(FULL, 5, [12.0, 2.0, 40.0, 240.0]),
            row(RESTED, 5, [20.0, 2.0, 60.0, 240.0]),
        ];
        let goals = goals(&rows).unwrap();
        let measured: Vec<_> = goals.iter().map(|goal| (goal.measured, goal.met)).collect();
        assert_eq!(
            measured,
            [(4.0, true), (24.0, false), (5.0, true), (1.2, true), (3.0, true), (9.0, false)],
            "{goals:?}"
        );
    }

    #[test]
    fn goals_need_all_rows() {
        assert!(goals(&[row(LEAN, 5, [1.0; 4]), row(FULL, 5, [1.0; 4])]).is_err());
    }

    #[test]
    fn like_for_like_comes_first() {
        let decisions =
            Decisions { calibration: Figures::of([5.0]).unwrap(), rows: vec![row(LEAN, 5, [10.0, 2.0, 40.0, 240.0])] };
        let text = decisions.tables();
        let wanted = "| 5 lean | 10.0 / 90.0 | 40.0 / 360.0 | 4.0 | 240.0 / 2160.0 | 24.0 | 2.0 / 18.0 | 43 KB |";
        assert!(text.contains(wanted), "{text}");
        // One sample of the calculation has no p99.
        assert!(text.contains("took 5.0 / - us"), "{text}");
    }
}
