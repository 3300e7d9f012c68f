//! The operator beside that of an earlier commit: both measured by the same program, in turns, on the same cluster. Decisions are measured by
//! the bench program of each commit.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    figures::Figures,
    goals::ratio,
    machine::Load,
    record::{About, Conditions, Record, Shown},
    timeline::Phase,
};

/// What is compared: the JSON files of all turns in one folder, `PART-old-N.json` and `PART-new-N.json` with N from 1.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of the turns.
    #[arg(long)]
    turns: PathBuf,
    /// The earlier commit.
    #[arg(long)]
    old: String,
    /// Turns that failed; they are said, and make this fail.
    #[arg(long)]
    failed: Vec<String>,
    /// Where the comparison goes as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(flatten)]
    conditions: Conditions,
}

/// A new median that is at most so many times the old one is no worse.
const NOISE: f64 = 1.1;

/// More turns than any run takes.
const MOST_TURNS: u32 = 100;

/// Figures of both operators.
#[derive(Debug, Serialize, Deserialize)]
pub struct Against {
    old_commit: String,
    rows: Vec<Row>,
    /// What a recovery's time went into, mean milliseconds of the old and the new operator, by the name of the phase.
    phases: BTreeMap<String, [f64; 2]>,
}

/// One figure of both.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    what: String,
    unit: String,
    old: Side,
    new: Side,
    /// The new median divided by the old one.
    ratio: f64,
    no_worse: bool,
}

/// One operator's samples.
#[derive(Debug, Serialize, Deserialize)]
struct Side {
    figures: Figures,
    /// The median of each turn: what the same program's medians vary by is the noise.
    turns: Vec<f64>,
}

impl Side {
    fn of(turns: &[Vec<f64>]) -> anyhow::Result<Self> {
        let p50 = |turn: &Vec<f64>| anyhow::Ok(Figures::of(turn.iter().copied())?.p50);
        Ok(Self {
            figures: Figures::of(turns.iter().flatten().copied())?,
            turns: turns.iter().map(p50).collect::<anyhow::Result<_>>()?,
        })
    }
}

impl Row {
    /// The new one is no worse if its median is at most [`NOISE`] times the old one, or at most the highest median of any turn of the old one.
    fn of(what: &str, unit: &str, old: &[Vec<f64>], new: &[Vec<f64>]) -> anyhow::Result<Self> {
        let (old, new) = (Side::of(old)?, Side::of(new)?);
        let ratio = ratio(new.figures.p50, old.figures.p50)?;
        let worst_turn = old.turns.iter().copied().fold(0.0, f64::max);
        let no_worse = ratio <= NOISE || new.figures.p50 <= worst_turn;
        Ok(Self { what: what.to_owned(), unit: unit.to_owned(), old, new, ratio, no_worse })
    }
}

/// The turns of one part of one side, as JSON.
fn turns(folder: &Path, part: &str, side: &str) -> anyhow::Result<Vec<Value>> {
    let mut found = Vec::new();
    let paths = (1..=MOST_TURNS).map(|number| folder.join(format!("{part}-{side}-{number}.json")));
    // A turn without a single sample left no file; those after it count.
    for path in paths.filter(|path| path.exists()) {
        let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
        found.push(serde_json::from_str(&text).with_context(|| format!("failed to parse {}", path.display()))?);
    }
    ensure!(!found.is_empty(), "no turn of {part} with the {side} operator ended");
    Ok(found)
}

/// The samples of each turn: a number of every element of a list.
fn samples(turns: &[Value], list: &str, number: impl Fn(&Value) -> Option<f64>) -> anyhow::Result<Vec<Vec<f64>>> {
    let of_turn = |turn: &Value| -> anyhow::Result<Vec<f64>> {
        let elements = turn.pointer(list).and_then(Value::as_array).with_context(|| format!("no {list}"))?;
        elements
            .iter()
            .map(|element| number(element).with_context(|| format!("an element of {list} has no such figure")))
            .collect()
    };
    turns.iter().map(of_turn).collect()
}

fn field(name: &str) -> impl Fn(&Value) -> Option<f64> {
    move |element| element.get(name)?.as_f64()
}

/// The median of one form of the question in each turn. 802004e writes its rows at the top.
fn decisions(turns: &[Value], what: &str, members: u64) -> anyhow::Result<Vec<Vec<f64>>> {
    let of_turn = |turn: &Value| -> anyhow::Result<Vec<f64>> {
        let rows = turn.pointer("/figures/rows").or_else(|| turn.get("rows")).and_then(Value::as_array);
        let row = rows.into_iter().flatten().find(|row| {
            row.get("what").and_then(Value::as_str) == Some(what)
                && row.get("members").and_then(Value::as_u64) == Some(members)
        });
        let p50 = row.and_then(|row| row.pointer("/policy/p50")).and_then(Value::as_f64);
        Ok(vec![p50.with_context(|| format!("{members} {what} members were not measured"))?])
    };
    turns.iter().map(of_turn).collect()
}

/// Mean time of each phase, old and new.
fn phases(old: &[Value], new: &[Value]) -> anyhow::Result<BTreeMap<String, [f64; 2]>> {
    let mean = |turns: &[Value], phase: Phase| {
        let all =
            samples(turns, "/figures/recoveries", |recovery| recovery.get("phases")?.get(phase.name())?.as_f64())?;
        anyhow::Ok(Figures::of(all.into_iter().flatten())?.mean)
    };
    Phase::ALL.into_iter().map(|phase| Ok((phase.name().to_owned(), [mean(old, phase)?, mean(new, phase)?]))).collect()
}

/// The load that others caused, as a mean of the turns.
fn load(turns: &[Value]) -> Load {
    let mean = |key: &str| {
        let all: Vec<f64> = turns.iter().filter_map(|turn| turn.get("load")?.get(key)?.as_f64()).collect();
        all.iter().sum::<f64>() / all.len().max(1) as f64
    };
    Load { ours: mean("ours"), others: mean("others"), stolen: mean("stolen") }
}

/// # Errors
/// When turns are missing, and when one failed; the others are compared and written all the same.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut failures: Vec<String> = args.failed.iter().map(|turn| format!("{turn} did not come to its end")).collect();
    let mut against = Against { old_commit: args.old.clone(), rows: vec![], phases: BTreeMap::new() };
    let mut all = Vec::new();
    for part in ["takeovers", "recovery", "decisions"] {
        let both = turns(&args.turns, part, "old").and_then(|old| Ok((old, turns(&args.turns, part, "new")?)));
        let added = both.and_then(|(old, new)| {
            against.add(part, &old, &new)?;
            all.extend(old.into_iter().chain(new));
            Ok(())
        });
        if let Err(error) = added {
            failures.push(format!("{part}: {error:#}"));
        }
    }
    let record = Record::new(About::now(&args.conditions), load(&all), against, vec![], failures);
    record.finish(args.json.as_deref())
}

impl Against {
    fn add(&mut self, part: &str, old: &[Value], new: &[Value]) -> anyhow::Result<()> {
        match part {
            "takeovers" => {
                let list = "/figures/takeovers";
                let after = |takeover: &Value| Some(field("promotion")(takeover)? - field("event")(takeover)?);
                let row = |what: &str, number: &dyn Fn(&Value) -> Option<f64>| {
                    Row::of(what, "ms", &samples(old, list, number)?, &samples(new, list, number)?)
                };
                self.rows.push(row("death to promotion", &field("promotion"))?);
                self.rows.push(row("event in the API to promotion", &after)?);
                self.rows.push(row("without an answer from `-rw`", &field("outage"))?);
            }
            "recovery" => {
                let list = "/figures/recoveries";
                let row = |what: &str, key: &str| {
                    Row::of(what, "ms", &samples(old, list, field(key))?, &samples(new, list, field(key))?)
                };
                self.rows.push(row("recovery, without the commands", "overhead_ms")?);
                self.rows.push(row("recovery, whole", "whole_ms")?);
                self.phases = phases(old, new)?;
            }
            _ => {
                for (what, members) in [("lean", 5), ("full", 5), ("lean, rested", 5), ("lean", 100)] {
                    let name = format!("decision, {members} {what} members");
                    let row = Row::of(&name, "us", &decisions(old, what, members)?, &decisions(new, what, members)?)?;
                    self.rows.push(row);
                }
            }
        }
        Ok(())
    }
}

impl Shown for Against {
    const NAME: &'static str = "against";

    fn tables(&self) -> String {
        let mut text = format!(
            "Old: {}. p50, and the lowest and the highest sample.\n\n\
             | | old | new | new / old | |\n| --- | --- | --- | --- | --- |\n",
            self.old_commit
        );
        for row in &self.rows {
            let digits = if row.unit == "us" { 1 } else { 0 };
            let turns = |count: usize| if count == 1 { "1 turn".to_owned() } else { format!("{count} turns") };
            let side = |side: &Side| {
                let Figures { samples, p50, min, max, .. } = side.figures;
                format!("{p50:.digits$} ({min:.digits$} to {max:.digits$}; {samples} in {})", turns(side.turns.len()))
            };
            let verdict = if row.no_worse { "no worse" } else { "**WORSE**" };
            text += &format!(
                "| {}, {} | {} | {} | {:.2} | {verdict} |\n",
                row.what,
                row.unit,
                side(&row.old),
                side(&row.new),
                row.ratio
            );
        }
        if !self.phases.is_empty() {
            text +=
                "\nWhat the time of a recovery went into, mean milliseconds:\n\n| | old | new |\n| --- | --- | --- |\n";
        }
        for phase in Phase::ALL {
            if let Some([old, new]) = self.phases.get(phase.name()) {
                text += &format!("| {} | {old:.0} | {new:.0} |\n", phase.name());
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn no_worse(old: &[&[f64]], new: &[&[f64]]) -> bool {
        let turns = |side: &[&[f64]]| side.iter().map(|turn| turn.to_vec()).collect::<Vec<_>>();
        Row::of("x", "ms", &turns(old), &turns(new)).unwrap().no_worse
    }

    #[test]
    fn a_tenth_slower_is_no_worse() {
        assert!(no_worse(&[&[100.0]], &[&[110.0]]));
        assert!(!no_worse(&[&[100.0]], &[&[111.0]]));
        assert!(no_worse(&[&[100.0]], &[&[20.0]]));
    }

    #[test]
    fn what_the_old_one_varies_by_between_turns_is_noise() {
        // The old median is 100, that of its second turn 130.
        let old: [&[f64]; 2] = [&[90.0, 100.0, 100.0], &[100.0, 130.0, 140.0]];
        assert!(no_worse(&old, &[&[130.0]]));
        assert!(!no_worse(&old, &[&[131.0]]));
        // One slow sample within a turn is not.
        assert!(!no_worse(&[&[100.0, 100.0, 500.0]], &[&[130.0]]));
    }

    #[test]
    fn both_forms_of_decisions_are_read() {
        let rows = json!([{"what": "lean", "members": 3, "policy": {"p50": 1.0}}, {"what": "lean", "members": 5, "policy": {"p50": 12.5}}]);
        let turns = [json!({"rows": rows}), json!({"figures": {"rows": rows}})];
        assert_eq!(decisions(&turns, "lean", 5).unwrap(), [[12.5], [12.5]]);
        assert!(decisions(&turns, "full", 5).is_err());
    }

    #[test]
    fn takeovers_are_compared_by_their_samples() {
        let turn = |promotion: f64| json!({"figures": {"takeovers": [{"event": 700.0, "promotion": promotion, "outage": 2_000.0}]}});
        let mut against = Against { old_commit: "802004e".to_owned(), rows: vec![], phases: BTreeMap::new() };
        against.add("takeovers", &[turn(1_000.0), turn(1_040.0)], &[turn(1_500.0)]).unwrap();
        let text = against.tables();
        let wanted = "| death to promotion, ms | 1000 (1000 to 1040; 2 in 2 turns) | 1500 (1500 to 1500; 1 in 1 turn) | 1.50 | **WORSE** |";
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("| event in the API to promotion, ms | 300 (300 to 340;"), "{text}");
        assert!(
            text.contains("| without an answer from `-rw`, ms | 2000 (2000 to 2000; 2 in 2 turns) | 2000"),
            "{text}"
        );
        assert!(against.add("takeovers", &[json!({})], &[turn(1.0)]).is_err());
    }
}
