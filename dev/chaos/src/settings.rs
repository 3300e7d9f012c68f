//! `--settings`: what each setting gives under the same faults, in groups of two and of three. Some may lose acknowledged rows, and say so.
use crate::setting::SETTINGS;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The faults in which they differ.
const KINDS: [&str; 5] = ["process", "pod", "process+lag-all", "pod+lag-all", "node+lag-all"];

/// Plays them all, and prints a table.
///
/// # Errors
/// When a run fails, or violates something.
pub fn run_settings(images: &Path, json: &Path) -> Result<()> {
    let folder = json.parent().map(PathBuf::from).unwrap_or_default();
    let (mut failed, mut rows) = (Vec::new(), Vec::new());
    for members in ["2", "3"] {
        for setting in &SETTINGS {
            let name = setting.name;
            let file = folder.join(format!("setting-{name}-{members}.json"));
            println!("{name}, {members} members");
            let _ = std::fs::remove_file(&file);
            let mut play = Command::new(std::env::current_exe()?);
            play.args(["--setting", name, "--kinds", &KINDS.join(",")]).arg("--images").arg(images);
            play.arg("--json").arg(&file).arg(KINDS.len().to_string()).env("MEMBERS", members);
            if !play.status().context("failed to play a setting")?.success() {
                failed.push(format!("{name}-{members}"));
            }
            if let Ok(text) = std::fs::read_to_string(&file) {
                rows.push(row(&serde_json::from_str(&text)?));
            }
        }
    }
    println!("\n| members | setting | may lose | rounds | acknowledged rows lost | longest outage, ms | violations |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    rows.iter().for_each(|row| println!("{row}"));
    ensure!(failed.is_empty(), "failed or violated: {}", failed.join(" "));
    Ok(())
}

/// A summary as a line of the table.
fn row(summary: &Value) -> String {
    let list = |key: &str| summary.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_u64).unwrap_or_default();
    let rounds = list("rounds");
    let lost: Vec<_> = rounds.iter().map(|r| format!("{}: {}", text(r, "kind"), number(r, "lost"))).collect();
    let outage = rounds.iter().map(|round| number(round, "outage")).max().unwrap_or_default();
    let may_lose = summary.get("mayLose").and_then(Value::as_bool).unwrap_or_default();
    format!(
        "| {} | {} | {} | {} | {} | {outage} | {} |",
        number(summary, "members"),
        text(summary, "setting"),
        if may_lose { "yes" } else { "no" },
        rounds.len(),
        lost.join(", "),
        list("violations").len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_setting_is_a_row() {
        let rounds = json!([{"kind": "process", "lost": 0, "outage": 7}, {"kind": "pod", "lost": 3, "outage": 5}]);
        let summary = json!({"members": 2, "setting": "async", "mayLose": true, "rounds": rounds, "violations": []});
        assert_eq!(row(&summary), "| 2 | async | yes | 2 | process: 0, pod: 3 | 7 | 0 |");
    }
}
