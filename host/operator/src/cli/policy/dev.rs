//! `tanist policy dev`: on each save of a file, everything is checked, tested and tried again.
use super::super::output::{Form, form, print_on};
use super::super::trouble::words;
use super::super::{Session, color};
use super::tools::tools;
use super::{End, live, test, try_};
use crate::policies::directory;
use anyhow::Context;
use futures::StreamExt;
use futures::channel::mpsc::UnboundedReceiver;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tanist_author::Error;
use tanist_author::check::{Checked, check_bytes};
use tanist_author::suite::{Options, test as run_all};
use tanist_author::tools::{Tools, read};
use tanist_core::policy::Point;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, timeout_at};

/// How long nothing may change before a round begins: an editor saves in several steps.
const QUIET: Duration = Duration::from_millis(80);

/// How long changes that go on delay a round at most. What is half written then is read again after the next change.
const LONGEST: Duration = Duration::from_millis(600);

/// The folder of a project with further cases.
const CASES: &str = "cases";

/// The arguments of `tanist policy dev`.
#[derive(Debug, Clone, clap::Args)]
pub struct Dev {
    /// The folder with the policy and its cases.
    dir: PathBuf,
    /// A group on which the policy is tried, too. Nothing is changed there.
    group: Option<String>,
    /// The questions that the policies will be asked, as `points` of a group say; the exam counts at these alone. Default: all that they have.
    #[arg(long, value_name = "QUESTION", value_delimiter = ',', value_parser = live::points())]
    points: Vec<Point>,
    /// The output format: one result after each save. Default: text.
    #[arg(long, short, value_enum)]
    output: Option<Form>,
}

impl Dev {
    /// Whether a cluster is needed.
    pub fn needs_cluster(&self) -> bool {
        self.group.is_some()
    }
}

/// Checks, tests and tries until it is interrupted.
pub async fn dev(session: Option<&Session>, asked: &Dev) -> anyhow::Result<End> {
    // From here on an interrupt ends this loop and not the process.
    let mut interrupted = signal(SignalKind::interrupt()).context("failed to wait for Ctrl-C")?;
    let tools = tools()?;
    if !asked.dir.is_dir() {
        return Err(Error::Usage(format!("{} is no folder", asked.dir.display())).into());
    }
    let watch = |path: &Path| directory::watch(path).with_context(|| format!("failed to watch {}", path.display()));
    let (_watcher, mut changes) = watch(&asked.dir)?;
    let mut known = BTreeMap::new();
    let mut further = None;
    loop {
        // The folder with further cases may be made later.
        let folder = asked.dir.join(CASES);
        if further.is_none() && folder.is_dir() {
            further = Some(watch(&folder)?);
        }
        let began = Instant::now();
        let round = round(session, &tools, asked, &mut known).await;
        print_on(&shown(&round, began.elapsed(), asked)?)?;
        let more = async {
            match &mut further {
                Some((_, changes)) => changes.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupted.recv() => return Ok(End::Well),
            change = changes.next() => change.context("the folder is no longer watched")?,
            change = more => change.context("the folder with cases is no longer watched")?,
        }
        settle(&mut changes, further.as_mut().map(|(_, changes)| changes)).await;
    }
}

/// Waits until nothing changes any more, so that a save in several steps starts one round.
async fn settle(changes: &mut UnboundedReceiver<()>, further: Option<&mut UnboundedReceiver<()>>) {
    let mut all = futures::stream::select_all(further.into_iter().chain([changes]));
    let end = Instant::now() + LONGEST;
    while Instant::now() < end {
        match timeout_at(end.min(Instant::now() + QUIET), all.next()).await {
            Ok(Some(())) => {}
            Ok(None) | Err(_) => return,
        }
    }
}

/// Policies that were checked, by file, with their bytes: what did not change is not checked again. A component takes a second to compile.
type Known = BTreeMap<PathBuf, (Vec<u8>, Checked)>;

/// What came of one round: text for people, value for programs. Errors are a part of it.
struct Round {
    text: String,
    value: Value,
}

async fn round(session: Option<&Session>, tools: &Tools, asked: &Dev, known: &mut Known) -> Round {
    let colors = color::is_on();
    let policies = match policies(&asked.dir) {
        Ok(found) => found,
        Err(error) => return Round { text: format!("{error}\n"), value: json!({"error": error.to_string()}) },
    };
    known.retain(|path, _| policies.contains(path));
    let (mut text, mut checks) = (String::new(), Vec::new());
    for path in &policies {
        let (said, value) = match checked(tools, path, &asked.points, known) {
            Ok(checked) => (summary(checked, colors), json!(checked)),
            Err(error) => (format!("{error}\n"), json!({"error": error.to_string()})),
        };
        text.push_str(&said);
        checks.push(value);
    }
    if policies.is_empty() {
        text.push_str(&format!("{} has no policy: write one into a file that ends with .star\n", asked.dir.display()));
    }
    let tested = run_all(tools, &asked.dir, &Options::default());
    let (said, tests) = match &tested {
        Ok(tested) => (test::text(tested, colors), json!(tested)),
        Err(error) => (format!("{error}\n"), json!({"error": error.to_string()})),
    };
    text.push_str(&format!("\n{said}"));
    let mut tries = Vec::new();
    if let (Some(session), Some(group)) = (session, &asked.group) {
        for path in policies.iter().filter(|path| known.get(*path).is_some_and(|(_, checked)| checked.policy.is_some()))
        {
            let (said, value) = match try_::again(session, tools, group, path).await {
                Ok(trial) => (trial.text(colors), json!(trial)),
                Err(error) => {
                    let said = words(error.as_ref());
                    (format!("{group}: {said}\n"), json!({"error": said}))
                }
            };
            text.push_str(&format!("\n{said}"));
            tries.push(value);
        }
    }
    Round { text, value: json!({"checks": checks, "tests": tests, "tries": tries}) }
}

/// The policies of a folder, by name.
fn policies(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Read { path: dir.to_owned(), source };
    let entries = std::fs::read_dir(dir).map_err(failed)?;
    let is_policy = |path: &PathBuf| path.extension().is_some_and(|end| end == "star" || end == "wasm");
    // An entry that vanished meanwhile was a step of an editor.
    let mut found: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_policy).collect();
    found.sort();
    Ok(found)
}

fn checked<'k>(tools: &Tools, path: &Path, points: &[Point], known: &'k mut Known) -> Result<&'k Checked, Error> {
    let bytes = read(path)?;
    if known.get(path).is_none_or(|(old, _)| *old != bytes) {
        let checked = check_bytes(tools, path, &bytes, points)?;
        known.insert(path.to_owned(), (bytes, checked));
    }
    let gone = || Error::Usage(format!("{} is gone", path.display()));
    known.get(path).map(|(_, checked)| checked).ok_or_else(gone)
}

/// One line where it is well, else what the gate found.
fn summary(checked: &Checked, colors: bool) -> String {
    let refused = checked.stages.iter().find(|stage| stage.result == tanist_author::check::Result::Refused);
    match (refused, &checked.exam) {
        (Some(stage), exam) => {
            let word = color::paint("REFUSED", color::bad(), colors);
            let report = exam.as_ref().map(|exam| format!("{exam}\n")).unwrap_or_default();
            format!("{word}  {}: {}: {}\n{report}", checked.file, stage.stage, stage.detail)
        }
        (None, exam) => {
            let found = exam.as_ref().map(tanist_engine::Exam::sentence).unwrap_or_default();
            format!("{}  {}: its exam {found}\n", color::paint("ok", color::good(), colors), checked.file)
        }
    }
}

/// A screen of its own on a terminal, else one result below the other.
fn shown(round: &Round, took: Duration, asked: &Dev) -> anyhow::Result<String> {
    let took = took.as_millis();
    if let Some(how) = asked.output {
        let mut value = round.value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.insert("millis".to_owned(), json!(u64::try_from(took).unwrap_or(u64::MAX)));
        }
        return form(&value, how);
    }
    let clear = if std::io::stdout().is_terminal() { "\u{1b}[H\u{1b}[2J\u{1b}[3J" } else { "" };
    let time = Timestamp::now().strftime("%H:%M:%SZ");
    let (dir, text) = (asked.dir.display(), &round.text);
    Ok(format!("{clear}{dir} at {time}, looked at in {took} ms\n{text}waiting for the next save; Ctrl-C ends this\n"))
}
