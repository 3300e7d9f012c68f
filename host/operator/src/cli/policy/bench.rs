//! `tanist policy bench`: what a question costs.
use super::super::color;
use super::super::output::Form;
use super::super::table::{Cell, Table};
use super::tools::tools;
use super::{End, say, show};
use serde_json::{Map, Value};
use std::path::PathBuf;
use tanist_author::Error;
use tanist_author::bench::{Measured, bench as measure};

/// The arguments of `tanist policy bench`.
#[derive(Debug, Clone, clap::Args)]
pub struct Bench {
    /// The policy: a script (.star) or a component (.wasm).
    file: PathBuf,
    /// Its parameters, as a JSON object.
    #[arg(long, value_name = "JSON", value_parser = parameters, default_value = "{}")]
    parameters: Map<String, Value>,
    /// The output format. Default: text.
    #[arg(long, short, value_enum)]
    output: Option<Form>,
}

pub fn parameters(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("it is no JSON object: {error}"))
}

/// Measures a policy.
pub fn bench(asked: &Bench) -> anyhow::Result<End> {
    let measured = measure(&tools()?, &asked.file, &asked.parameters)?;
    if measured.questions.is_empty() {
        return Err(Error::Usage(format!("{} has no question to be measured", asked.file.display())).into());
    }
    say(&measured, asked.output, || text(&measured, color::is_on()))?;
    Ok(End::of(measured.questions.iter().all(|question| question.failed.is_none())))
}

fn text(measured: &Measured, colors: bool) -> String {
    let mut table =
        Table::new(&["QUESTION", "MEMBERS", "FUEL", "MEMORY", "INSTANCE", "PARSE", "P50", "P99", "TIMES", "FAILED"]);
    for each in &measured.questions {
        let micros = |time: f64| Cell::plain(format!("{time:.1} us"));
        table.add(vec![
            Cell::plain(each.point.to_string()),
            Cell::plain(each.members.to_string()),
            Cell::plain(format!("{} of {}", show::amount(each.fuel), show::amount(each.budget))),
            Cell::plain(format!("{} KiB", each.memory >> 10)),
            micros(each.instance),
            each.parse.map_or_else(|| Cell::optional(None), micros),
            micros(each.p50),
            micros(each.p99),
            Cell::plain(each.times.to_string()),
            Cell::styled(each.failed.clone().unwrap_or_default(), color::bad()),
        ]);
    }
    format!("{}, on this machine\n{}", measured.policy, table.text(colors))
}
