//! Measures what a question costs a policy, for groups of several sizes.

use std::{path::Path, sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::{Map, Value};
use serde_saphyr::{Location, Spanned};
use tanist_core::{
    contract::Member,
    policy::{Point, Question},
};
use tanist_engine::{Alone, Layer};

use crate::{
    ask,
    case::{Case, Members},
    error::{Error, Place, chain},
    tools::{Tools, layer},
};

/// The sizes of the groups.
pub const MEMBERS: [u32; 3] = [5, 100, 1_000];

/// Members of the group about which the core asks.
const SMALL: u32 = 5;

/// How often each question is asked at most. The 99th percentile of fewer than 100 says little.
const TIMES: usize = 1_000;

/// How long one question is repeated at most.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often each question is asked at least, however long it takes.
const LEAST: usize = 10;

/// What was measured.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// The policy, as `name version (source)`.
    pub policy: String,
    /// One entry for each question and size.
    pub questions: Vec<QuestionMeasured>,
}

/// What one question costs. Times are microseconds on this machine.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionMeasured {
    /// The decision point that was asked.
    pub point: Point,
    /// The members of the group.
    pub members: u32,
    /// How often it was asked.
    pub times: usize,
    /// The fuel that it used, the same each time.
    pub fuel: u64,
    /// The fuel that it was given.
    pub budget: u64,
    /// Bytes of its memories.
    pub memory: usize,
    /// Half of the instances took at most so long to make.
    pub instance: f64,
    /// Half of the scripts took at most so long to parse. Absent: it is a component.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parse: Option<f64>,
    /// Half of the questions took at most so long, with instance and parsing.
    pub p50: f64,
    /// 99 of 100 questions took at most so long.
    pub p99: f64,
    /// Why it failed. Absent: it answered or abstained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Measures a policy.
///
/// # Errors
/// It cannot be read, is refused, or the parameters do not fit it.
pub fn bench(tools: &Tools, path: &Path, parameters: &Map<String, Value>) -> Result<Measured, Error> {
    let policy = Arc::new(tools.load(path)?);
    let place = Place { file: "--parameters".to_owned(), line: 0, column: 0 };
    let layer = layer(Arc::clone(&policy), parameters, None, &place)?;
    let mut questions = Vec::new();
    for point in policy.points() {
        for members in MEMBERS {
            let question = usual(point, members).map_err(|error| Error::Usage(error.to_string()))?;
            questions.extend(measure(&layer, &question, members));
        }
    }
    Ok(Measured { policy: policy.name().to_string(), questions })
}

/// The question about a group of that size in which nothing else is to be seen. The core asks it about a small group, and what it says of one
/// candidate is repeated.
///
/// # Errors
/// The host would not ask it.
pub fn usual(point: Point, members: u32) -> Result<Question, ask::NotAsked> {
    let few = members.min(SMALL);
    // At this question one more is asked for than there are.
    let there = if point == Point::Admit { few.saturating_sub(1) } else { few };
    let case = Case {
        name: None,
        point: Spanned::new(point, Location::UNKNOWN, Location::UNKNOWN),
        now: 1_700_000_000,
        parameters: None,
        group: crate::case::GroupCase::default(),
        members: if point == Point::Treat { Members::with_failed(few, 1) } else { Members::Count(there) },
        history: Vec::new(),
        expect: None,
    };
    let mut question = ask::question(&case)?;
    let snapshot = &mut question.snapshot;
    let Some(pattern) = snapshot.members.get(1).cloned() else { return Ok(question) };
    snapshot.members.extend((few..members).map(|ordinal| Member {
        name: format!("db-{ordinal}").into(),
        ordinal,
        ..pattern.clone()
    }));
    snapshot.group.replicas = members;
    Ok(question)
}

fn measure(layer: &Layer, question: &Question, members: u32) -> Option<QuestionMeasured> {
    let mut all: Vec<Alone> = Vec::new();
    let mut sum = Duration::ZERO;
    while all.len() < TIMES && (sum < PATIENCE || all.len() < LEAST) {
        let alone = layer.ask(question)?;
        sum = sum.saturating_add(whole(&alone));
        all.push(alone);
    }
    let first = all.first()?;
    let times = |of: fn(&Alone) -> Duration| {
        let mut times: Vec<_> = all.iter().map(of).collect();
        times.sort_unstable();
        times
    };
    let whole = times(whole);
    let parse = times(|alone| alone.spent.load);
    Some(QuestionMeasured {
        point: question.point,
        members,
        times: all.len(),
        fuel: first.fuel,
        budget: first.budget,
        memory: first.memory,
        instance: percentile(&times(|alone| alone.spent.instance), 50),
        parse: parse.last().is_some_and(|most| *most > Duration::ZERO).then(|| percentile(&parse, 50)),
        p50: percentile(&whole, 50),
        p99: percentile(&whole, 99),
        failed: first.reply.as_ref().err().map(|error| chain(error)),
    })
}

fn whole(alone: &Alone) -> Duration {
    alone.spent.instance.saturating_add(alone.spent.load).saturating_add(alone.spent.run)
}

/// The smallest of the sorted times that so many of 100 do not exceed, in microseconds.
fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let rank = sorted.len().saturating_mul(percent).div_ceil(100).max(1);
    let time = sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default();
    (time.as_secs_f64() * 1e7).round() / 10.0
}
