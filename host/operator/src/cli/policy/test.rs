//! `tanist policy test`: the cases of a folder.
use super::super::color;
use super::super::output::Form;
use super::tools::tools;
use super::{End, say, show};
use anyhow::Context;
use std::path::PathBuf;
use tanist_author::Error;
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
    /// Show which lines of scripts were executed.
    #[arg(long)]
    coverage: bool,
    /// Fail when fewer lines of a script were executed, in percent.
    #[arg(long, value_name = "PERCENT", requires = "coverage")]
    threshold: Option<u8>,
    /// The output format. Default: text.
    #[arg(long, short, value_enum)]
    output: Option<Form>,
}

/// Runs the tests.
pub fn test(asked: &Test) -> anyhow::Result<End> {
    if asked.coverage {
        // The interpreter does not say which lines it executed. Once it does, the lines of each case come with its notes.
        let message =
            "--coverage is not supported yet: the interpreter of scripts does not report the lines that it executed";
        return Err(Error::Usage(message.to_owned()).into());
    }
    let tools = tools()?;
    let options = Options { policy: asked.policy.clone(), update: asked.update };
    let tested = run_all(&tools, &asked.dir, &options)?;
    if let Some(path) = &asked.junit {
        let xml = junit(&tested).context("failed to write the results as JUnit XML")?;
        std::fs::write(path, xml).map_err(|source| Error::Write { path: path.clone(), source })?;
    }
    let colors = color::is_on();
    say(&tested, asked.output, || text(&tested, colors))?;
    let (passed, all) = tested.counts();
    Ok(End::of(passed == all))
}

pub fn text(tested: &Tested, colors: bool) -> String {
    let mut out = String::new();
    for file in &tested.files {
        for case in &file.cases {
            out.push_str(&one(&file.file, case, colors));
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

fn one(file: &str, case: &CaseTested, colors: bool) -> String {
    let (word, style) = match (case.passed, case.updated) {
        (_, true) => ("updated", color::open()),
        (true, _) => ("ok", color::good()),
        (false, _) => ("FAILED", color::bad()),
    };
    let mut out =
        format!("{}  {} ({file}:{})\n", color::paint(word, style, colors), show::printable(&case.name), case.line);
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
        out.push_str(&format!("    {}\n", color::paint(&show::printable(line), style, colors)));
    }
    if let Some(ran) = case.ran.as_ref().filter(|_| !case.passed) {
        out.push_str(&indented(&show::members(&ran.members, colors)));
        for layer in &ran.layers {
            out.extend(layer.notes.iter().map(|note| format!("    note: {}\n", show::printable(note))));
        }
    }
    out
}
