//! `tanist policy try`: what a policy would answer about a live group. Nothing is changed.
use super::super::Session;
use super::super::color;
use super::super::output::{Form, printable};
use super::live::{self, Live, Present, points};
use super::tools::tools;
use super::{End, bench, say, show};
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tanist_author::ask::{Ran, Verdict, ask};
use tanist_author::case::Cases;
use tanist_author::recorded::{Recorded, Recording};
use tanist_author::tools::{Tools, layer};
use tanist_author::{Error, Place};
use tanist_core::policy::Point;
use tanist_engine::{Layer, Policy};

/// The arguments of `tanist policy try`.
#[derive(Debug, Clone, clap::Args)]
pub struct Try {
    /// The name of the group, in the namespace of the command.
    group: String,
    /// The policy: a script (.star) or a component (.wasm).
    file: PathBuf,
    /// The question. Default: those that arise now; if none does, each that would if something simple happened, which is named.
    #[arg(long, value_name = "POINT", value_parser = points())]
    question: Option<Point>,
    /// Its parameters, as a JSON object. Default: those of the group's policy with the same key or file name.
    #[arg(long, value_name = "JSON", value_parser = bench::parameters)]
    parameters: Option<Map<String, Value>>,
    /// The output format. Default: text.
    #[arg(long, short, value_enum)]
    output: Option<Form>,
}

impl Try {
    /// A trial of all questions with these parameters.
    pub fn of(group: &str, file: PathBuf, parameters: Option<Map<String, Value>>) -> Self {
        Try { group: group.to_owned(), file, question: None, parameters, output: None }
    }
}

/// One question, with both answers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tried {
    #[serde(flatten)]
    recorded: Recorded,
    /// With the policy in its place in the group's stack.
    with: Ran,
    /// By the group's stack as it is now.
    present: Ran,
}

/// Everything that was tried.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    group: String,
    file: String,
    cases: Vec<Tried>,
    /// Policies of the group that could not be asked, with the reason.
    not_found: Vec<String>,
    notes: Vec<String>,
}

/// Tries a policy on a group.
pub async fn try_out(session: &Session, asked: &Try) -> anyhow::Result<End> {
    let trial = trial(session, &tools()?, asked).await?;
    live::warn(&trial.notes);
    let colors = color::is_on();
    say(&trial, asked.output, || trial.text(colors))?;
    Ok(End::of(trial.is_well()))
}

/// The same for `dev`.
pub async fn again(session: &Session, tools: &Tools, group: &str, file: &Path) -> anyhow::Result<Trial> {
    trial(session, tools, &Try::of(group, file.to_owned(), None)).await
}

/// Asks about the group.
pub async fn trial(session: &Session, tools: &Tools, asked: &Try) -> anyhow::Result<Trial> {
    let policy = Arc::new(tools.load(&asked.file)?);
    let live = live::read(session, &asked.group).await?;
    let present = live::stack(session, tools, &live.group).await?;
    let layer = own_layer(&live, asked, &policy)?;
    let recording = live::recorded(&live, asked.question, None)?;
    let not_found = present.iter().filter_map(|each| Some((each.source.clone(), each.layer.as_ref().err()?.clone())));
    let not_found = not_found.map(|(source, why)| format!("{source}: {why}")).collect();
    let now: Vec<_> = present.iter().filter_map(|each| each.layer.as_ref().ok().cloned()).collect();
    let with = replaced(&live, asked, &present, layer);
    Ok(Trial {
        group: format!("{}/{}", session.namespace, asked.group),
        file: asked.file.display().to_string(),
        cases: tried(recording, asked, &policy, &with, &now)?,
        not_found,
        notes: live.unsaid,
    })
}

/// The policy with its parameters and points, as the group would use it.
fn own_layer(live: &Live, asked: &Try, policy: &Arc<Policy>) -> Result<Layer, Error> {
    let entry = live::entry_of(&live.group, &name_of(&asked.file));
    let parameters = match (&asked.parameters, entry) {
        (Some(given), _) => given.clone(),
        (None, Some(entry)) => entry.parameters.clone(),
        (None, None) => Map::new(),
    };
    let points = entry.filter(|entry| !entry.points.is_empty()).map(|entry| entry.points.clone());
    let given = if asked.parameters.is_some() || entry.is_none() { "--parameters" } else { "the group's spec" };
    layer(Arc::clone(policy), &parameters, points, &Place { file: given.to_owned(), line: 0, column: 0 })
}

fn name_of(file: &Path) -> String {
    file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The group's stack with the policy in it: in place of the one with the same key or file name, else before all others.
fn replaced(live: &Live, asked: &Try, present: &[Present], own: Layer) -> Vec<Layer> {
    let entry = live::entry_of(&live.group, &name_of(&asked.file)).map(crate::policies::source_text);
    let place = entry.and_then(|source| present.iter().position(|each| each.source == source));
    let mut all = Vec::new();
    if place.is_none() {
        all.push(own.clone());
    }
    for (index, each) in present.iter().enumerate() {
        match (&each.layer, Some(index) == place) {
            (_, true) => all.push(own.clone()),
            (Ok(layer), false) => all.push(layer.clone()),
            (Err(_), false) => {}
        }
    }
    all
}

/// Asks both stacks. Without a question of the user's, those that the policy does not have are left out.
fn tried(
    recording: Recording,
    asked: &Try,
    policy: &Policy,
    with: &[Layer],
    now: &[Layer],
) -> anyhow::Result<Vec<Tried>> {
    let cases = Cases::parse("the recorded group", recording.text)?;
    let has_any = recording.cases.iter().any(|case| policy.has(case.point));
    let mut all = Vec::new();
    for (recorded, case) in recording.cases.into_iter().zip(&cases.content.cases) {
        if asked.question.is_none() && has_any && !policy.has(recorded.point) {
            continue;
        }
        let ask = |layers: &[Layer]| ask(&case.value, layers).map_err(|not| Error::Usage(not.to_string()));
        all.push(Tried { with: ask(with)?, present: ask(now)?, recorded });
    }
    Ok(all)
}

impl Trial {
    /// Whether every question has an answer that the host accepts.
    pub fn is_well(&self) -> bool {
        self.cases.iter().all(|case| !matches!(case.with.verdict, Verdict::Fail { .. }))
    }

    /// The answers for people.
    pub fn text(&self, colors: bool) -> String {
        let mut out: Vec<String> = self.cases.iter().map(|case| case.text(&self.group, colors)).collect();
        out.extend((!self.not_found.is_empty()).then(|| {
            let all: Vec<_> = self.not_found.iter().map(|why| format!("  {why}\n")).collect();
            format!("not asked, though the group has them:\n{}", all.concat())
        }));
        out.join("\n")
    }
}

impl Tried {
    fn text(&self, group: &str, colors: bool) -> String {
        let answer = printable(&show::answer(&self.with.verdict));
        let now = printable(&show::answer(&self.present.verdict));
        let by = self.present.layers.iter().find(|layer| layer.decides);
        let by = by.map(|layer| format!(", by {}", layer.policy)).unwrap_or_default();
        let differs: String = self.recorded.differs.iter().map(|what| format!("note: {what}\n")).collect();
        format!(
            "{group}: {}\n{}: {answer}\nnow: {now}{by}\n\n{}\n{}{differs}",
            printable(&self.recorded.name),
            self.with.point,
            show::members(&self.with.members, colors),
            show::layers(&self.with, colors)
        )
    }
}
