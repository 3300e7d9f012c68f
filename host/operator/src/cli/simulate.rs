//! `tanist simulate`: how long a policy leaves a group without a primary, in simulated lives with faults, beside the built-in policy in the same lives.
//!
//! The lives are those of tanist-sim: the shipped rounds against a cluster in memory, in virtual time. Policies are loaded and asked as by `tanist policy`.
//!
//! Exit codes, for scripts: 0 it is well; 1 a promise was broken, or more groups than with the built-in policy were not well at the end; 2 the command line or a
//! file cannot be used, or a policy is refused.
mod figures;
mod group;
mod lives;
mod show;

use super::output::{Form, form, note, print};
use super::policy::{UNUSABLE, parameters, tools};
use super::{color, is_closed_pipe, words};
use anyhow::Context;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use figures::{Simulated, simulated};
use lives::{Lives, live_all};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tanist_author::check::check;
use tanist_author::manifest::{Own, in_front, last, stack, stack_with};
use tanist_author::{Error, tools::Tools};
use tanist_engine::{Layer, Stack};
use tanist_sim::faults::Fault;
use tanist_sim::trial::Trial;

/// The most lives of one call. Each leaves a few hundred bytes of figures, and takes some hundredths of a second of a processor.
const MOST_LIVES: u64 = 1_000_000;

/// The highest seed: programs that read JSON know integers up to here.
const HIGHEST_SEED: u64 = 1 << 53;

/// The arguments of `tanist simulate`.
#[derive(Debug, Clone, clap::Args)]
pub struct Simulate {
    /// The policy: a script (.star) or a component (.wasm). It is asked first, and the built-in `sequence` after it; with --group it is in place of the entry with
    /// its file name, else before all others.
    #[arg(id = "policy_file", long = "policy", value_name = "FILE", required_unless_present = "manifest")]
    policy: Option<PathBuf>,
    /// Its parameters, as a JSON object. Default: those of the group's entry.
    #[arg(long, value_name = "JSON", value_parser = parameters, requires = "policy_file")]
    parameters: Option<Map<String, Value>>,
    /// The manifest of a group: its policies, and of its spec replicas, primaries, preferredPrimary, failover and policyLabelKeys. Its commands are those of the
    /// simulated application. Default: three members, one of them primary.
    #[arg(id = "manifest", long = "group", value_name = "FILE")]
    group: Option<PathBuf>,
    /// The kinds of faults of every life, separated by commas. Default: each life draws its own.
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = kinds())]
    faults: Vec<Fault>,
    /// How many lives.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_LIVES))]
    seeds: u64,
    /// The seed of the first life; the others have the next ones. A seed is the same life each time.
    #[arg(long, default_value_t = 1, value_name = "FIRST", value_parser = clap::value_parser!(u64).range(..=HIGHEST_SEED))]
    seed: u64,
    /// Show what happened in the life with the policy. Only with --seeds 1.
    #[arg(long)]
    transcript: bool,
    /// The output format. Default: text.
    #[arg(long, short, value_enum)]
    output: Option<Form>,
}

/// The names of the kinds of faults.
fn kinds() -> impl TypedValueParser<Value = Fault> {
    let words = Fault::ALL.map(|kind| PossibleValue::new(kind.word()).help(kind.about()));
    PossibleValuesParser::new(words)
        .try_map(|word| Fault::named(&word).ok_or_else(|| format!("{word} is no kind of fault")))
}

/// Runs the command.
pub fn run(asked: &Simulate) -> ExitCode {
    match simulate(asked) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            note(&format!("error: {}", words(error.as_ref())));
            ExitCode::from(UNUSABLE)
        }
    }
}

/// Lives the lives and prints the figures. Whether they are well.
fn simulate(asked: &Simulate) -> anyhow::Result<bool> {
    if asked.transcript && asked.seeds != 1 {
        return Err(Error::Usage("--transcript shows one life; add --seeds 1, and --seed with its seed".into()).into());
    }
    let tools = tools()?;
    let own = asked.policy.as_deref().map(|file| Own { file, parameters: asked.parameters.as_ref() });
    let layers = match (own, &asked.group) {
        (Some(own), Some(group)) => stack_with(&tools, group, own)?,
        (Some(own), None) => in_front(&tools, own)?,
        (None, Some(group)) => stack(&tools, group)?,
        (None, None) => return Err(Error::Usage("give a policy, a group, or both".into()).into()),
    };
    let trial = Trial {
        group: group::group(asked.group.as_deref(), &asked.faults)?,
        faults: (!asked.faults.is_empty()).then(|| asked.faults.iter().copied().collect()),
    };
    let lives = Lives { trial: &trial, first: asked.seed, count: asked.seeds, keep_log: asked.transcript };
    let exam = asked.policy.as_deref().map(|file| exam(&tools, file, &layers)).transpose()?.flatten();
    let stacks = [Stack::new(layers), built_in(&tools)?];
    let all = live_all(&lives, &stacks)?;
    let simulated = Simulated { exam, ..simulated(&lives, &stacks, &all) };
    print(&match asked.output {
        Some(how) => form(&serde_json::to_value(&simulated).context("failed to write the result as JSON")?, how)?,
        None => show::text(&simulated, color::is_on()),
    })?;
    Ok(simulated.is_well())
}

/// Why the operator would not let a policy begin to decide. `None`: it would.
fn exam(tools: &Tools, file: &Path, layers: &[Layer]) -> Result<Option<String>, Error> {
    let source = format!("file/{}", file.file_name().unwrap_or_default().to_string_lossy());
    let own = layers.iter().find(|layer| layer.policy.name().source == source);
    let points = own.and_then(|layer| layer.points.as_deref()).unwrap_or_default();
    let checked = check(tools, file, points)?;
    Ok(checked.exam.filter(|exam| !exam.passed()).map(|exam| exam.sentence()))
}

/// The built-in policy alone.
fn built_in(tools: &Tools) -> Result<Stack, Error> {
    Ok(Stack::new(vec![last(tools)?]))
}

/// The policies of a stack, as users read them, with the questions that they are asked if not all.
fn names(layers: &[Layer]) -> Vec<String> {
    let name = |layer: &Layer| {
        let at = layer.points.as_ref().map(|points| points.iter().map(|point| point.as_str()).collect::<Vec<_>>());
        let at = at.map(|points| format!(", asked at {}", points.join(", "))).unwrap_or_default();
        format!("{}{at}", layer.policy.name())
    };
    layers.iter().map(name).collect()
}
