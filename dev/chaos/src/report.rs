//! What a run prints and writes.
use crate::cluster::GROUP;
use crate::journal::{Entry, Operation, Outcome};
use crate::judge::{Label, Routes, Visit, Way, outage, visits, ways_of_rw};
use crate::play::Play;
use crate::rounds::Scene;
use crate::steps::Steps;
use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::process::Command;
use tanist_e2e::{root, run};

/// A round: a row of the table. Milliseconds since the loss, but for `at`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    /// The number of the round in its run, from 1.
    pub round: usize,
    /// The moment of the loss, in milliseconds since 1970.
    pub at: u64,
    /// The kind of the round, as `LOSS[+BESIDE...]`.
    pub kind: String,
    /// Who led before.
    pub from: String,
    /// Who leads afterwards.
    pub to: String,
    /// When an administrator, or the test, fixed something.
    pub told: Option<u64>,
    /// What happened when.
    #[serde(flatten)]
    pub steps: Steps,
    /// The longest time without an acknowledgement through -rw.
    pub outage: u64,
    /// From `told` to the first acknowledged row.
    pub outage_after_told: Option<u64>,
    /// How many writes were acknowledged through -rw.
    pub acked: u64,
    /// How many acknowledged rows are not there.
    pub lost: usize,
    /// The machine's load.
    pub load: f64,
    /// Why nobody took over while nobody knew.
    pub waited_for: Option<String>,
    /// When all members had pods of the new template, where it changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<u64>,
}

impl Round {
    /// The row of a round that was played.
    pub fn new(number: usize, scene: &Scene, steps: Steps, journal: &[Entry], lost: usize) -> Self {
        let (outage, acked) = outage(journal, scene.loss);
        let first_after = |told: u64| {
            let through_rw = journal.iter().filter(|entry| entry.client == "rw" && entry.acknowledged());
            through_rw
                .map(|e| (e.begin, e.end))
                .find(|(begin, _)| *begin > told.saturating_mul(1000))
                .map(|(_, end)| end)
        };
        Round {
            round: number,
            at: scene.loss,
            kind: scene.kind.to_string(),
            from: scene.from.clone(),
            to: scene.to.clone(),
            told: scene.told.map(|told| told.saturating_sub(scene.loss)),
            steps,
            outage,
            outage_after_told: scene.told.and_then(|told| Some((first_after(told)? / 1000).saturating_sub(told))),
            acked,
            lost,
            load: scene.load,
            waited_for: Some(scene.why.clone()).filter(|why| !why.is_empty()),
            updated: scene.updated.map(|updated| updated.saturating_sub(scene.loss)),
        }
    }

    /// It as a line of the table; - is no such step.
    pub fn line(&self) -> String {
        let number = |value: Option<i64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        let Steps { ended, leads, detect, prove, decide, promote, promoted, follow, route, shown, .. } = self.steps;
        let told = self.told.map_or_else(|| "-".to_owned(), |told| told.to_string());
        let mut cells = vec![self.round.to_string(), self.kind.clone(), self.from.clone(), self.to.clone(), told];
        cells.extend([ended, leads, detect, prove, decide, promote, promoted, follow, route, shown].map(number));
        cells.extend([self.outage.to_string(), self.acked.to_string(), self.lost.to_string()]);
        aligned(&cells)
    }
}

/// The widths of the table's columns; the first four are text.
const WIDTHS: [usize; 18] = [3, 19, 11, 11, 7, 7, 7, 7, 7, 7, 8, 8, 7, 7, 7, 8, 6, 5];

fn aligned(cells: &[String]) -> String {
    let pad = |(at, (cell, width)): (usize, (&String, usize))| {
        if at < 4 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    };
    cells.iter().zip(WIDTHS).enumerate().map(pad).collect::<Vec<_>>().join(" ")
}

/// What is printed before the rounds.
pub fn header() {
    const NAMES: &str = "| loss | from | to | told | ended | leads | detect | prove | decide | promote | promoted | follow | route | shown | outage | acked | lost";
    println!(
        "\nMilliseconds since the loss; - is no such step. told: when an administrator, or the test, fixed something. shown: it is behind {GROUP}-rw."
    );
    println!("{}", aligned(&NAMES.split('|').map(|name| name.trim().to_owned()).collect::<Vec<_>>()));
}

/// The middle and the largest of some numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// The middle one, of two the lower.
    pub p50: i64,
    /// The largest one.
    pub max: i64,
}

impl Figures {
    fn of(values: impl Iterator<Item = Option<i64>>) -> Option<Self> {
        let mut values: Vec<i64> = values.flatten().collect();
        values.sort_unstable();
        let (last, middle) = (values.last()?, values.len().saturating_sub(1) / 2);
        Some(Figures { p50: *values.get(middle)?, max: *last })
    }

    fn cell(figures: Option<Self>) -> String {
        figures.map_or_else(|| "-".into(), |figures| format!("{}/{}", figures.p50, figures.max))
    }
}

/// The rounds of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct OfKind {
    kind: String,
    rounds: usize,
    outage: Option<Figures>,
    after_told: Option<Figures>,
    detect: Option<Figures>,
    prove: Option<Figures>,
    promote: Option<Figures>,
    shown: Option<Figures>,
}

impl OfKind {
    fn new(kind: &str, rounds: &[&Round]) -> Self {
        let of = |value: fn(&Round) -> Option<i64>| Figures::of(rounds.iter().map(|round| value(round)));
        OfKind {
            kind: kind.into(),
            rounds: rounds.len(),
            outage: of(|round| i64::try_from(round.outage).ok()),
            after_told: of(|round| i64::try_from(round.outage_after_told?).ok()),
            detect: of(|round| round.steps.detect),
            prove: of(|round| round.steps.prove),
            promote: of(|round| round.steps.promote),
            shown: of(|round| round.steps.shown),
        }
    }
}

/// All that a run writes as JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    date: String,
    /// What was checked out.
    commit: String,
    complete: bool,
    cpus: usize,
    members: u32,
    setting: String,
    may_lose: bool,
    violations: Vec<String>,
    rounds: Vec<Round>,
    kinds: Vec<OfKind>,
}

impl Play {
    /// The rounds, the middle and the largest by kind, what was violated.
    pub fn summary(&self, complete: bool) -> Summary {
        let mut by_kind: BTreeMap<&str, Vec<&Round>> = BTreeMap::new();
        for round in &self.rounds {
            by_kind.entry(&round.kind).or_default().push(round);
        }
        let date = Timestamp::now().strftime("%FT%TZ").to_string();
        let commit = run(Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root())).unwrap_or_default();
        Summary {
            date,
            commit: commit.trim().to_owned(),
            complete,
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            members: self.wanted.members,
            setting: self.wanted.setting.name.into(),
            may_lose: self.wanted.setting.may_lose,
            violations: self.violations.clone(),
            rounds: self.rounds.clone(),
            kinds: by_kind.iter().map(|(kind, rounds)| OfKind::new(kind, rounds)).collect(),
        }
    }

    /// Writes it where it was wanted, if there is anything to say.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, complete: bool) -> Result<()> {
        if self.rounds.is_empty() && self.violations.is_empty() {
            return Ok(());
        }
        let file = &self.wanted.json;
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let text = serde_json::to_string_pretty(&self.summary(complete))?;
        std::fs::write(file, text + "\n").with_context(|| format!("failed to write {}", file.display()))
    }

    /// Prints the figures by kind, and what the clients saw.
    ///
    /// # Errors
    /// When the journal or a watch cannot be read.
    pub fn report(&self) -> Result<()> {
        let cells = |cells: [String; 8]| {
            let [kind, count, rest @ ..] = cells;
            let rest: Vec<_> = rest.iter().map(|cell| format!("{cell:>16}")).collect();
            println!("{kind:<12} {count:>3} {}", rest.join(" "));
        };
        println!();
        cells(["p50 / most", "n", "outage", "of it, told", "detect", "prove", "promote", "shown"].map(str::to_owned));
        for kind in self.summary(true).kinds {
            let OfKind { outage, after_told, detect, prove, promote, shown, .. } = kind;
            let [a, b, c, d, e, f] = [outage, after_told, detect, prove, promote, shown].map(Figures::cell);
            cells([kind.kind, kind.rounds.to_string(), a, b, c, d, e, f]);
        }
        println!();
        let journal = self.journal()?;
        seen_by_clients(&journal).iter().for_each(|line| println!("{line}"));
        println!("{}", readers(&journal, &self.labels()?));
        excused(&journal, &self.routes()?).iter().for_each(|line| println!("{line}"));
        println!("the rounds as JSON: {}", self.wanted.json.display());
        Ok(())
    }
}

/// How much was written, read and looked at.
fn seen_by_clients(journal: &[Entry]) -> Vec<String> {
    let writes = |entry: &&Entry| entry.writes() && entry.outcome != Outcome::Begun;
    let mut tried: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut looks: BTreeMap<&str, u64> = BTreeMap::new();
    for entry in journal.iter().filter(writes) {
        let (acknowledged, all) = tried.entry(&entry.client).or_default();
        *all += 1;
        *acknowledged += u64::from(entry.acknowledged());
    }
    for entry in journal.iter().filter(|entry| entry.operation == Operation::Look) {
        *looks.entry(&entry.value).or_default() += 1;
    }
    let all: u64 = tried.values().map(|(acknowledged, _)| acknowledged).sum();
    let through_rw = tried.get("rw").map_or(0, |(acknowledged, _)| *acknowledged);
    let read = |entry: &&Entry| matches!(entry.operation, Operation::Read | Operation::List);
    let reads = journal.iter().filter(read).filter(|entry| entry.outcome == Outcome::Ok).count();
    let mut lines =
        vec![format!("{all} writes were acknowledged, {through_rw} of them through -rw; {reads} reads were answered")];
    let of_client = |(client, (acknowledged, all)): (&&str, &(u64, u64))| {
        format!("{client}: {acknowledged} of {all} writes were acknowledged")
    };
    lines.extend(tried.iter().map(of_client));
    lines.extend(looks.iter().map(|(state, times)| format!("{times} times a server was looked at and was: {state}")));
    lines
}

/// Whom those met who only read.
fn readers(journal: &[Entry], labels: &[Label]) -> String {
    let met = |whom: &str| journal.iter().filter(|entry| entry.client == "ro" && entry.value == whom).count();
    let late = visits(journal, labels).iter().filter(|visit| **visit == Visit::Late).count();
    format!(
        "-ro led {} times to a member in recovery, {} times to the primary ({late} of them within a second of its label), {} times to nobody",
        met("standby"),
        met("primary"),
        met("none")
    )
}

/// The connections through -rw to members in recovery of which Tanist is not at fault.
fn excused(journal: &[Entry], routes: &Routes) -> Vec<String> {
    let ways = ways_of_rw(journal, routes);
    let old = ways.iter().filter_map(|way| match way {
        Way::Old(said) => Some(format!("{said}, by an old entry of the kernel")),
        Way::Late(_) | Way::Wrong(_) => None,
    });
    let mut lines: Vec<String> = old.collect();
    let late: Vec<_> =
        ways.iter().filter_map(|way| if let Way::Late(said) = way { Some(said) } else { None }).collect();
    if let Some(first) = late.first() {
        let count = late.len();
        lines
            .push(format!("{first}: {count} connections while the endpoints were late after the end of an API server"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::entries;

    #[test]
    fn figures_are_the_middle_and_the_largest() {
        let of = |values: &[i64]| Figures::of(values.iter().map(|value| Some(*value)));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7, 1, 5, 3]), Some(Figures { p50: 3, max: 7 }));
        assert_eq!(Figures::of([None, Some(2)].into_iter()), Some(Figures { p50: 2, max: 2 }));
    }

    #[test]
    fn a_round_is_a_line_and_an_object_of_the_usual_form() {
        let steps = Steps { ended: Some(33), promote: Some(1747), ..Steps::default() };
        let round = Round {
            round: 1,
            at: 5,
            kind: "process".into(),
            from: "postgres-0".into(),
            to: "postgres-1".into(),
            told: None,
            steps,
            outage: 2850,
            outage_after_told: None,
            acked: 13,
            lost: 0,
            load: 2.74,
            waited_for: None,
            updated: None,
        };
        let words: Vec<_> = round.line().split_whitespace().map(str::to_owned).collect();
        assert_eq!(words.len(), WIDTHS.len());
        assert_eq!(words.join(" "), "1 process postgres-0 postgres-1 - 33 - - - - 1747 - - - - 2850 13 0");
        let json = serde_json::to_string(&round).unwrap();
        assert_eq!(
            json,
            r#"{"round":1,"at":5,"kind":"process","from":"postgres-0","to":"postgres-1","told":null,"known":null,"ended":33,"leads":null,"detect":null,"prove":null,"decide":null,"promote":1747,"promoted":null,"follow":null,"route":null,"shown":null,"outage":2850,"outageAfterTold":null,"acked":13,"lost":0,"load":2.74,"waitedFor":null}"#
        );
    }

    #[test]
    fn what_clients_saw_is_counted() {
        let journal = entries(
            "1 1 rw insert rw 1 begun - -\n1 2 rw insert rw 1 ok a 1\n3 4 rw write r1 2 unknown - -\n5 6 rw read r1 2 ok a 1\n\
             7 8 look-1 look 5 writable ok a 1\n",
        );
        assert_eq!(
            seen_by_clients(&journal),
            [
                "1 writes were acknowledged, 1 of them through -rw; 1 reads were answered",
                "rw: 1 of 2 writes were acknowledged",
                "1 times a server was looked at and was: writable"
            ]
        );
    }
}
