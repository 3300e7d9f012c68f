//! A run: what was asked for, what is known so far, and its folder with the journal and the watches.
use crate::background::{Background, recorded};
use crate::cluster::{Cluster, NODES, QUIET, SYSTEM};
use crate::history::History;
use crate::journal::{Entry, read};
use crate::judge::{Label, Routes};
use crate::kinds::Kind;
use crate::report::Round;
use crate::setting::Setting;
use crate::steps::parsed;
use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// How many rounds.
    pub rounds: usize,
    /// What happens in them, in turn.
    pub kinds: Vec<Kind>,
    /// What the group promises.
    pub setting: Setting,
    /// How many members it has.
    pub members: u32,
    /// How many operators run.
    pub operators: u32,
    /// Where the images are.
    pub images: PathBuf,
    /// Another image of the operator than that of deploy/operator.
    pub operator: Option<String>,
    /// More archives that nodes need.
    pub load: Vec<PathBuf>,
    /// Where the figures go.
    pub json: PathBuf,
}

/// A folder that goes with the run, unless `KEEP` is set.
pub struct Work(tempfile::TempDir);

impl Work {
    /// Makes it. It lies where every machine of the cluster has something else, so nothing in them holds it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> Result<Self> {
        let mut folder = tempfile::Builder::new().prefix("chaos.").tempdir_in("/var/tmp")?;
        if std::env::var_os("KEEP").is_some() {
            folder.disable_cleanup(true);
        }
        Ok(Work(folder))
    }

    /// A file or folder in it.
    pub fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The clients' journal.
    pub fn journal(&self) -> PathBuf {
        self.at("journal")
    }

    /// Where complaints of watches and clients go.
    pub fn complaints(&self) -> PathBuf {
        self.at("watches.log")
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if std::env::var_os("KEEP").is_some() {
            println!("kept: {}", self.path().display());
        }
    }
}

/// A run of rounds against one cluster, with what was measured and which promises were broken.
pub struct Play {
    /// What was asked for.
    pub wanted: Wanted,
    /// The cluster that is taken apart.
    pub cluster: Cluster,
    /// Who says whether histories are linearizable.
    pub history: History,
    /// What runs beside it. Ends before its folder does.
    pub background: Vec<Background>,
    /// The folder for the files of this run.
    pub work: Work,
    /// Its rounds so far.
    pub rounds: Vec<Round>,
    /// What was promised and not kept.
    pub violations: Vec<String>,
    /// Acknowledged rows that are not there.
    pub lost: BTreeSet<String>,
    /// When the API server was killed, in milliseconds since 1970.
    pub kills: Vec<u64>,
    /// The round that is played, for violations.
    pub round: String,
}

impl Play {
    /// A run that has not begun.
    ///
    /// # Errors
    /// When its folder cannot be made.
    pub fn new(wanted: Wanted, cluster: Cluster, history: History) -> Result<Self> {
        Ok(Play {
            wanted,
            cluster,
            history,
            background: Vec::new(),
            work: Work::new()?,
            rounds: Vec::new(),
            violations: Vec::new(),
            lost: BTreeSet::new(),
            kills: Vec::new(),
            round: "0".into(),
        })
    }

    /// The journal as far as it has come.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn journal(&self) -> Result<Vec<Entry>> {
        read(&self.work.journal())
    }

    /// What a watch has written so far.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn recorded(&self, watch: &str) -> Result<Vec<(u64, String)>> {
        recorded(&self.work.at(watch))
    }

    /// The roles of the members' pods.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn labels(&self) -> Result<Vec<Label>> {
        Ok(labels(&self.recorded("pods")?))
    }

    /// What led connections through `-rw` to members.
    ///
    /// # Errors
    /// When something of it cannot be read.
    pub fn routes(&self) -> Result<Routes> {
        let mut routes = Routes {
            endpoints: self.recorded("rw")?,
            labels: self.labels()?,
            kills: self.kills.clone(),
            quiet: QUIET.into(),
            ..Routes::default()
        };
        for node in NODES.into_iter().chain([QUIET]) {
            let tracked = Routes::tracked(&self.recorded(&format!("nat-{node}"))?)?;
            routes.tracked.insert(node.into(), tracked);
        }
        Ok(routes)
    }

    /// The operator's log since a moment, also of one that is gone; some lines more than once.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn operator_log(&self, since: u64) -> Result<Vec<Value>> {
        let watched = self.recorded("operator")?;
        let of_round = watched.iter().filter(|(at, _)| *at >= since).map(|(_, line)| line.as_str());
        let mut log = parsed(of_round);
        let from = Timestamp::from_second(i64::try_from(since / 1000)?).context("a moment that is none")?;
        let since = format!("--since-time={from}");
        let selected = ["logs", "-n", SYSTEM, "-l", "tanist.dev/component=operator", "--tail=-1", &since];
        // It may be away; what was watched counts all the same.
        if let Ok(text) = self.cluster.everywhere(&selected) {
            log.extend(parsed(text.lines()));
        }
        Ok(log)
    }

    /// Tells and counts what a check found.
    pub fn violated(&mut self, check: &str, found: &[String]) {
        let Some(first) = found.first() else { return };
        println!("    {check}: {} violations, the first: {first}", found.len());
        self.violations.push(format!("round {}: {check}: {}: {first}", self.round, found.len()));
    }

    /// The same of a promise that the setting does not make: told, not a violation.
    pub fn lost(&mut self, check: &str, found: &[String]) {
        match found.first() {
            Some(first) if self.wanted.setting.may_lose => {
                println!("    {check}: {}, which this setting may do, the first: {first}", found.len());
            }
            _ => self.violated(check, found),
        }
    }
}

/// Lines of the watch of pods: NAME|ROLE|UID.
fn labels(lines: &[(u64, String)]) -> Vec<Label> {
    let label = |(at, line): &(u64, String)| {
        let mut words = line.split('|');
        Some(Label { at: *at, member: words.next()?.to_owned(), role: words.next()?.to_owned() })
    };
    lines.iter().filter_map(label).collect()
}
