//! `tanist policy check`: every gate of the operator.
use super::super::color;
use super::super::output::Form;
use super::super::table::{Cell, Table};
use super::tools::tools;
use super::{End, live, say};
use std::path::PathBuf;
use tanist_author::check::{Checked, Result as Gate, check as through};
use tanist_core::policy::Point;

/// The arguments of `tanist policy check`.
#[derive(Debug, Clone, clap::Args)]
pub struct Check {
    /// The policy: a script (.star) or a component (.wasm).
    file: PathBuf,
    /// The questions that it will be asked, as `points` of a group say; the exam counts at these alone. Default: all that it has.
    #[arg(long, value_name = "QUESTION", value_delimiter = ',', value_parser = live::points())]
    points: Vec<Point>,
    /// The output format. Default: text.
    #[arg(long, short, value_enum)]
    output: Option<Form>,
}

/// Checks a policy.
pub fn check(asked: &Check) -> anyhow::Result<End> {
    let checked = through(&tools()?, &asked.file, &asked.points)?;
    say(&checked, asked.output, || text(&checked, color::is_on()))?;
    Ok(End::of(checked.passed()))
}

pub fn text(checked: &Checked, colors: bool) -> String {
    let mut table = Table::new(&["GATE", "RESULT", "FOUND"]);
    for stage in &checked.stages {
        let (word, style) = match stage.result {
            Gate::Passed => ("ok", color::good()),
            Gate::Refused => ("REFUSED", color::bad()),
            Gate::Skipped => ("-", anstyle::Style::new()),
        };
        table.add(vec![Cell::plain(stage.stage.clone()), Cell::styled(word, style), Cell::plain(stage.detail.clone())]);
    }
    let end = match &checked.policy {
        Some(policy) if checked.passed() => format!("{}: {} may decide\n", checked.file, policy.name()),
        _ => format!("{}: the operator would refuse it; the last good version would go on deciding\n", checked.file),
    };
    let report = checked.exam.as_ref().map(|exam| format!("\n{exam}\n")).unwrap_or_default();
    format!("{}{report}{end}", table.text(colors))
}
