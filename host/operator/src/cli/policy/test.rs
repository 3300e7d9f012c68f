//! `tanist policy test`: the cases of a folder.
use super::super::color;
use super::super::output::{Form, printable};
use super::super::table::{Cell, Table};
use super::tools::tools;
use super::{End, say, show};
use anyhow::Context;
use std::path::PathBuf;
use tanist_author::Error;
use tanist_author::coverage::Covered;
use tanist_author::report::junit;
use tanist_author::suite::{CaseTested, Options, Tested, test as run_all};

/// The arguments of `tanist policy test`.
#[derive(Debug, Clone, clap::Args)]
pub struct Test {
    /// The folder with cases.yaml, NAME.cases.yaml or cases/NAME.yaml; or one such file.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// The policy that is asked, in place of the one that the cases name.
    #[arg(id = "policy_file", long = "policy", value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Write what is answered now into the cases where it differs. The rest of the files stays as it is.
    #[arg(long)]
    update: bool,
    /// Write the results as JUnit XML into this file, for CI.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Show how many lines of each script the cases ran, and which they did not reach.
    ///
    /// A line counts when a statement begins there that does something. What is built in is not counted.
    #[arg(long)]
    coverage: bool,
    /// Fail when the cases ran fewer lines of a script, in percent of them.
    #[arg(long, value_name = "PERCENT", requires = "coverage", value_parser = clap::value_parser!(u8).range(0..=100))]
    threshold: Option<u8>,
    /// The output format. Default: text.
    #[arg(long, short, value_enum)]
    output: Option<Form>,
}

/// Runs the tests.
pub fn test(asked: &Test) -> anyhow::Result<End> {
    let tools = tools()?;
    let options = Options { policy: asked.policy.clone(), update: asked.update, coverage: asked.coverage };
    let tested = run_all(&tools, &asked.dir, &options)?;
    if let Some(path) = &asked.junit {
        let xml = junit(&tested).context("failed to write the results as JUnit XML")?;
        std::fs::write(path, xml).map_err(|source| Error::Write { path: path.clone(), source })?;
    }
    let colors = color::is_on();
    let covered = tested.coverage.as_deref().unwrap_or_default();
    let below: Vec<_> = asked.threshold.iter().flat_map(|least| below(covered, *least)).collect();
    let lines = tested.coverage.as_deref().map(|covered| table(covered).text(colors)).unwrap_or_default();
    say(&tested, asked.output, || format!("{}{lines}{}", text(&tested, colors), below.concat()))?;
    let (passed, all) = tested.counts();
    Ok(End::of(passed == all && below.is_empty()))
}

/// A sentence for each script of which the cases ran fewer lines than that, in percent.
fn below(covered: &[Covered], least: u8) -> Vec<String> {
    let short = covered.iter().filter(|each| !each.reaches(least));
    short
        .map(|each| format!("{}: {} % of its lines ran, {least} % are asked for\n", each.file(), each.percent))
        .collect()
}

/// The lines of each script.
fn table(covered: &[Covered]) -> Table {
    let mut table = Table::new(&["SCRIPT", "LINES", "RAN", "PERCENT", "NOT REACHED"]);
    for each in covered {
        let style = if each.missed.is_empty() { color::good() } else { color::open() };
        table.add(vec![
            Cell::plain(each.file()),
            Cell::plain(each.lines.to_string()),
            Cell::plain(each.ran.to_string()),
            Cell::styled(format!("{} %", each.percent), style),
            Cell::plain(each.missed_in_short()),
        ]);
    }
    table
}

pub fn text(tested: &Tested, colors: bool) -> String {
    let mut out = String::new();
    for file in &tested.files {
        for case in &file.cases {
            out.push_str(&shown_case(&file.file, case, colors));
        }
    }
    let (passed, all) = tested.counts();
    let updated = tested.cases().filter(|case| case.updated).count();
    let failed = all.saturating_sub(passed);
    let updated = if updated == 0 { String::new() } else { format!(", {updated} updated") };
    out.push_str(&format!(
        "{passed} of {all} passed{updated}{}\n",
        if failed == 0 { "" } else { "; what failed is above" }
    ));
    out
}

fn shown_case(file: &str, case: &CaseTested, colors: bool) -> String {
    let (word, style) = match (case.passed, case.updated) {
        (_, true) => ("updated", color::open()),
        (true, _) => ("ok", color::good()),
        (false, _) => ("FAILED", color::bad()),
    };
    let mut out = format!("{}  {} ({file}:{})\n", color::paint(word, style, colors), printable(&case.name), case.line);
    if case.passed && !case.updated {
        return out;
    }
    let indented = |text: &str| text.lines().map(|line| format!("    {line}\n")).collect::<String>();
    out.push_str(&indented(case.problem.as_deref().unwrap_or_default()));
    for line in &case.difference {
        let style = match line.chars().next() {
            Some('-') => color::bad(),
            Some('+') => color::good(),
            _ => anstyle::Style::new(),
        };
        out.push_str(&format!("    {}\n", color::paint(&printable(line), style, colors)));
    }
    if let Some(ran) = case.ran.as_ref().filter(|_| !case.passed) {
        out.push_str(&indented(&show::members(&ran.members, colors)));
        for layer in &ran.layers {
            out.extend(layer.notes.iter().map(|note| format!("    note: {}\n", printable(note))));
        }
    }
    out
}
