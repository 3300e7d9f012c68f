//! Loads a policy through every gate of the operator, and says of each what was found there.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use serde::Serialize;
use tanist_core::policy::Point;
use tanist_engine::{
    Exam, ExamLimits, LoadError, Policy, Stage,
    structure::{Caps, examine},
};

use crate::{
    error::{Error, chain},
    tools::{Tools, is_script, read},
};

/// What came of a check.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// The file as it was named.
    pub file: String,
    /// The gates in their order.
    pub stages: Vec<StageChecked>,
    /// The whole report of its exam. Absent: it was refused before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exam: Option<Exam>,
    /// The policy, if it was loaded, whatever its exam found.
    #[serde(skip)]
    pub policy: Option<Policy>,
}

/// What came of one gate.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageChecked {
    /// The name of the gate, for instance `structure`.
    pub stage: String,
    /// How it ended.
    pub result: Result,
    /// What was found: figures, or why it was refused.
    pub detail: String,
}

/// How a gate ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Result {
    /// The policy passed.
    Passed,
    /// The policy was refused.
    Refused,
    /// It was refused before, or this gate is none for such a policy.
    Skipped,
}

impl Checked {
    /// Whether it passed every gate.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.exam.as_ref().is_some_and(Exam::passed)
    }
}

/// Checks a policy. `points`: those at which it will be asked; none: all that it has.
///
/// # Errors
/// The file cannot be read.
pub fn check(tools: &Tools, path: &Path, points: &[Point]) -> std::result::Result<Checked, Error> {
    check_bytes(tools, path, &read(path)?, points)
}

/// Checks the bytes of a policy's file, as [`check`] does.
///
/// # Errors
/// The interpreter of scripts cannot be used.
pub fn check_bytes(tools: &Tools, path: &Path, bytes: &[u8], points: &[Point]) -> std::result::Result<Checked, Error> {
    let script = is_script(path);
    if script {
        // The interpreter is this program's and not the script's: what it costs to get ready is nobody's figure.
        tools.interpreter().map_err(|error| Error::Usage(chain(&error)))?;
    }
    let began = Instant::now();
    let loaded = tools.load_bytes(path, bytes);
    let took = began.elapsed();
    let failed = loaded.as_ref().err().map(LoadError::stage);
    let exam = loaded.as_ref().ok().map(|policy| tanist_engine::exam(policy, None, &ExamLimits::UNHURRIED));
    let exam = exam.map(|exam| if points.is_empty() { exam } else { exam.at(points) });
    let stage = |stage: Stage| {
        let (result, detail) = match (failed, &loaded) {
            (Some(at), Err(error)) if at == stage => (Result::Refused, chain(error)),
            (Some(at), _) if at < stage => (Result::Skipped, "not reached".to_owned()),
            _ if stage == Stage::Exam => examined(exam.as_ref()),
            _ => found(stage, tools, script, bytes, loaded.as_ref().ok(), took),
        };
        StageChecked { stage: stage.to_string(), result, detail }
    };
    let stages = [Stage::Size, Stage::Structure, Stage::Compile, Stage::Type, Stage::Exam].map(stage).into();
    Ok(Checked { file: path.display().to_string(), stages, exam, policy: loaded.ok() })
}

/// What the exam found, in a sentence.
fn examined(exam: Option<&Exam>) -> (Result, String) {
    match exam {
        Some(exam) if exam.passed() => (Result::Passed, exam.sentence()),
        Some(exam) => (Result::Refused, exam.sentence()),
        None => (Result::Skipped, "not reached".to_owned()),
    }
}

/// What a gate that was passed found.
fn found(
    stage: Stage,
    tools: &Tools,
    script: bool,
    bytes: &[u8],
    policy: Option<&Policy>,
    took: Duration,
) -> (Result, String) {
    let limits = tools.engine().limits();
    let passed = |detail: String| (Result::Passed, detail);
    match (stage, script) {
        (Stage::Size, _) => {
            let limit = if script { limits.script_bytes } else { limits.component_bytes };
            passed(format!("{} of {limit} bytes", bytes.len()))
        }
        (Stage::Structure | Stage::Compile, true) => {
            (Result::Skipped, "a script is not compiled; the interpreter parses it".to_owned())
        }
        (Stage::Structure, false) => passed(structure(bytes)),
        (Stage::Compile, false) => passed(format!("compiled and loaded in {} ms", took.as_millis())),
        (Stage::Type, false) => passed(format!("its questions: {}", questions(policy))),
        (Stage::Type | Stage::Exam, _) => {
            passed(format!("it was parsed in {} ms; its questions: {}", took.as_millis(), questions(policy)))
        }
    }
}

/// The counts that are shown here, by their names in the engine. `inspect` has all.
const SHOWN: [&str; 4] =
    ["core modules", "functions", "bytes of memory at the start", "estimated microseconds of the compiler"];

/// What a component consists of, in short.
fn structure(bytes: &[u8]) -> String {
    let Ok(structure) = examine(bytes, &Caps::default()) else { return String::new() };
    let counts = structure.counts.iter().filter(|(what, _)| SHOWN.contains(what));
    let counts: Vec<_> = counts.map(|(what, count)| format!("{what} {count}")).collect();
    counts.join(", ")
}

/// The points of a policy, separated by commas.
fn questions(policy: Option<&Policy>) -> String {
    let points: Vec<_> = policy.into_iter().flat_map(Policy::points).map(|point| point.to_string()).collect();
    points.join(", ")
}
