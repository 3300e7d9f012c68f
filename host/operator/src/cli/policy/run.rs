//! `tanist policy run`: one question, looked at closely.
use super::super::color;
use super::super::output::{Form, printable};
use super::tools::tools;
use super::{End, say, show};
use serde::Serialize;
use std::path::PathBuf;
use tanist_author::ask::{Ran, Verdict, ask};
use tanist_author::case::Cases;
use tanist_author::suite::{Loaded, stack};
use tanist_author::{Error, manifest};

/// The arguments of `tanist policy run`.
#[derive(Debug, Clone, clap::Args)]
pub struct Run {
    /// The policy: a script (.star) or a component (.wasm).
    #[arg(required_unless_present = "manifest", conflicts_with = "manifest")]
    file: Option<PathBuf>,
    /// The file with the case (docs/policies.md).
    #[arg(long, value_name = "CASE")]
    snapshot: PathBuf,
    /// The case of that file, by its name or number. Default: all of them.
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// The manifest of a group whose whole stack is asked, with its parameters. Files are looked for beside it.
    #[arg(id = "manifest", long = "group", value_name = "FILE")]
    group: Option<PathBuf>,
    /// The output format. Default: text.
    #[arg(long, short, value_enum)]
    output: Option<Form>,
}

/// One case, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    case: String,
    line: u64,
    #[serde(flatten)]
    ran: Option<Ran>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_asked: Option<String>,
}

impl Shown {
    /// Whether a policy answered or abstained.
    fn is_well(&self) -> bool {
        self.ran.as_ref().is_some_and(|ran| !matches!(ran.verdict, Verdict::Fail { .. }))
    }
}

/// Asks about the case, or about all of the file.
pub fn run(asked: &Run) -> anyhow::Result<End> {
    let tools = tools()?;
    let cases = Cases::read(&asked.snapshot)?;
    let mut loaded = Loaded::default();
    let mut all = Vec::new();
    for index in chosen(&cases, asked.case.as_deref())? {
        let layers = match &asked.group {
            Some(group) => manifest::stack(&tools, group)?,
            None => stack(&tools, &asked.snapshot, &cases, index, asked.file.as_deref(), &mut loaded)?,
        };
        let Some(case) = cases.content.cases.get(index) else { continue };
        let (ran, not_asked) = match ask(&case.value, &layers) {
            Ok(ran) => (Some(ran), None),
            Err(not) => (None, Some(not.to_string())),
        };
        all.push(Shown { case: cases.name(index), line: cases.place(index).line, ran, not_asked });
    }
    let colors = color::is_on();
    let text = || all.iter().map(|each| text(&cases.file, each, colors)).collect::<Vec<_>>().join("\n");
    say(&all, asked.output, text)?;
    Ok(End::of(all.iter().all(Shown::is_well)))
}

/// The places of the cases that are asked.
fn chosen(cases: &Cases, wanted: Option<&str>) -> Result<Vec<usize>, Error> {
    let all = 0..cases.content.cases.len();
    let Some(wanted) = wanted else { return Ok(all.collect()) };
    let number = |index: usize| index.saturating_add(1).to_string();
    let found = all.clone().find(|index| cases.name(*index) == wanted);
    match found.or_else(|| all.clone().find(|index| number(*index) == wanted)) {
        Some(index) => Ok(vec![index]),
        None => {
            let names: Vec<_> = all.map(|index| format!("  {} {}", number(index), cases.name(index))).collect();
            Err(Error::Usage(format!("{} has no case {wanted}; it has:\n{}", cases.file, names.join("\n"))))
        }
    }
}

fn text(file: &str, shown: &Shown, colors: bool) -> String {
    let head = format!("{} ({file}:{})\n", printable(&shown.case), shown.line);
    let Some(ran) = &shown.ran else {
        return format!("{head}{}\n", shown.not_asked.as_deref().unwrap_or_default());
    };
    let answer = printable(&show::answer(&ran.verdict));
    let layers = show::layers(ran, colors);
    format!("{head}{}: {answer}\n\n{}\n{layers}", ran.point, show::members(&ran.members, colors))
}
