//! A part of the benchmarks as it is written to JSON and shown in docs/benchmarks.md: the figures, and under which conditions they were measured.

use std::{fs, path::Path};

use anyhow::Context as _;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    goals::{self, Goal},
    machine::{Load, Machine},
};

/// What the caller knows about the conditions; `dev/bench/run` says it by variables.
#[derive(Debug, Clone, clap::Args)]
pub struct Conditions {
    /// Fewer samples, to see that everything works: the figures say little.
    #[arg(long)]
    pub quick: bool,
    /// The commit that is measured.
    #[arg(long, env = "BENCH_COMMIT", default_value = "unknown")]
    commit: String,
    /// The version of Rust that built it.
    #[arg(long, env = "BENCH_RUST", default_value = "unknown")]
    rust: String,
    /// The version of Go that built the webhook and Kubernetes.
    #[arg(long, env = "BENCH_GO", default_value = "unknown")]
    go: String,
    /// The version of the cluster's Kubernetes.
    #[arg(long, env = "BENCH_KUBERNETES", default_value = "unknown")]
    kubernetes: String,
}

/// The conditions as they are written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct About {
    /// When it was measured, in UTC.
    date: String,
    commit: String,
    quick: bool,
    rust: String,
    go: String,
    kubernetes: String,
    machine: Machine,
}

impl About {
    /// Here and now.
    pub fn now(conditions: &Conditions) -> Self {
        let Conditions { quick, commit, rust, go, kubernetes } = conditions.clone();
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M").to_string();
        Self { date, commit, quick, rust, go, kubernetes, machine: Machine::here() }
    }

    fn line(&self) -> String {
        let Self { date, commit, rust, go, kubernetes, machine, .. } = self;
        let Machine { cpu, cores, memory_mib, kernel, build, target, allocator } = machine;
        let quick = if self.quick { " **A quick run: too few samples to be cited.**" } else { "" };
        let gb = (*memory_mib as f64 / 1024.0).round();
        format!(
            "Measured {date} UTC at commit {commit} on {cpu}, {cores} virtual cores, {gb} GiB, Linux {kernel}; Rust {rust}, Go {go}, \
             Kubernetes {kubernetes}; {build} for {target} with {allocator}.{quick}\n"
        )
    }
}

/// Figures that can be shown.
pub trait Shown: Serialize + DeserializeOwned {
    /// The name of the part: of its JSON file, and of its place in the document.
    const NAME: &'static str;
    /// The tables, as Markdown.
    fn tables(&self) -> String;
}

/// A part of the benchmarks.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record<T> {
    about: About,
    load: Load,
    goals: Vec<Goal>,
    /// Samples that did not come back. They make the run fail.
    failures: Vec<String>,
    /// What this part of the benchmarks measured.
    pub figures: T,
}

impl<T: Shown> Record<T> {
    /// What was measured just now.
    pub fn new(about: About, load: Load, figures: T, goals: Vec<Goal>, failures: Vec<String>) -> Self {
        Self { about, load, goals, failures, figures }
    }

    /// Reads it; absent when there is no such file.
    ///
    /// # Errors
    /// When the file is not such a part.
    pub fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
        let record = serde_json::from_str(&text);
        record.map(Some).with_context(|| format!("{} has other figures than this program writes", path.display()))
    }

    /// All of it, as Markdown.
    pub fn text(&self) -> String {
        let Load { others, stolen, .. } = self.load;
        let load = format!(
            "Meanwhile others, the cluster included, used {others:.2} processors; {stolen:.2} were taken by the host.\n"
        );
        let failures: String = self.failures.iter().map(|failure| format!("\n**FAILED**: {failure}\n")).collect();
        format!("{}{load}\n{}{}{failures}", self.about.line(), self.figures.tables(), goals::table(&self.goals))
    }

    /// Prints it, and writes it as JSON.
    ///
    /// # Errors
    /// When it cannot be written, and when a sample failed.
    pub fn finish(&self, json: Option<&Path>) -> anyhow::Result<()> {
        println!("{}", self.text());
        if let Some(path) = json {
            let text = serde_json::to_string_pretty(self)? + "\n";
            fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))?;
        }
        anyhow::ensure!(self.failures.is_empty(), "{}", self.failures.join("; "));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    struct Nothing {}

    impl Shown for Nothing {
        const NAME: &'static str = "nothing";
        fn tables(&self) -> String {
            "a table\n".to_owned()
        }
    }

    fn record(failures: &[&str]) -> Record<Nothing> {
        let conditions = Conditions {
            quick: true,
            commit: "c0ffee".to_owned(),
            rust: "1.95".to_owned(),
            go: "1.24".to_owned(),
            kubernetes: "v1.34".to_owned(),
        };
        let load = Load { ours: 1.0, others: 0.25, stolen: 0.0 };
        let failures = failures.iter().map(|&failure| failure.to_owned()).collect();
        Record::new(About::now(&conditions), load, Nothing {}, vec![Goal::at_most("x", 1.0, 2.0, "ms")], failures)
    }

    #[test]
    fn conditions_goals_and_failures_are_said() {
        let text = record(&["recovery 3: it never ended"]).text();
        for part in ["c0ffee", "Rust 1.95", "Go 1.24", "Kubernetes v1.34", "cores", "quick run", "0.25 processors"] {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
        for part in ["a table", "| x | at most 1 ms | 2 ms | **MISSED** |", "**FAILED**: recovery 3: it never ended"] {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
    }

    #[test]
    fn a_failed_sample_fails_the_run_and_a_missed_goal_does_not() {
        assert!(record(&[]).finish(None).is_ok());
        let error = record(&["recovery 3: it never ended"]).finish(None).unwrap_err();
        assert!(error.to_string().contains("recovery 3"), "{error}");
    }

    #[test]
    fn what_is_written_can_be_read() {
        let written = record(&["x"]);
        let read: Record<Nothing> = serde_json::from_str(&serde_json::to_string(&written).unwrap()).unwrap();
        assert_eq!(read.text(), written.text());
    }
}
