//! `tanist policy inspect`: what a policy is.
use super::super::output::Form;
use super::tools::tools;
use super::{End, say};
use std::path::PathBuf;
use tanist_author::inspect::{Inspected, inspect as look};

/// The arguments of `tanist policy inspect`.
#[derive(Debug, Clone, clap::Args)]
pub struct Inspect {
    /// The policy: a script (.star) or a component (.wasm).
    file: PathBuf,
    /// The output format. Default: text.
    #[arg(long, short, value_enum)]
    output: Option<Form>,
}

/// Shows a policy.
pub fn inspect(asked: &Inspect) -> anyhow::Result<End> {
    let found = look(&tools()?, &asked.file)?;
    say(&found, asked.output, || text(&found))?;
    Ok(End::Well)
}

/// Further lines stand below the first one.
fn below(text: &str) -> String {
    text.replace('\n', "\n             ")
}

fn text(found: &Inspected) -> String {
    let list = |all: &[String]| if all.is_empty() { "-".to_owned() } else { all.join(", ") };
    let points: Vec<_> = found.points.iter().map(|point| point.to_string()).collect();
    let counts: Vec<_> = found.counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
    let schema = found.parameters.as_ref().map(|schema| below(&format!("{schema:#}")));
    let lines = [
        ("name", format!("{} {}", found.name.name, found.name.version)),
        ("summary", found.summary.clone()),
        ("file", format!("{}, a {} of {} bytes", found.file, found.kind, found.bytes)),
        ("digest", found.name.digest.clone()),
        ("questions", list(&points)),
        ("declares", list(&found.declares)),
        ("parameters", schema.unwrap_or_else(|| "none".to_owned())),
        ("imports", list(&found.imports)),
        ("exports", list(&found.exports)),
        ("consists of", below(&counts.join("\n"))),
    ];
    lines.iter().map(|(name, value)| format!("{name:<12} {}\n", if value.is_empty() { "-" } else { value })).collect()
}
