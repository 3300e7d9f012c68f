//! Which lines of scripts the cases of a test ran.
//!
//! The interpreter knows which statements it ran, so that nothing is changed in a script to find out. Each case is asked once more for this; what it is
//! judged by is the answer without it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tanist_core::policy::Question;
use tanist_engine::{Layer, Lines, Policy, RunError};

use crate::{
    ask::Ran,
    error::{Error, chain},
};

/// What policies that ship with the operator are called. Their lines are not the author's business.
const BUILT_IN: &str = "builtin/";

/// The lines of one script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Covered {
    /// Its name, as a group would call it, for instance `file/policy.star`.
    pub source: String,
    /// The number of lines on which a statement begins that does something.
    pub lines: usize,
    /// The number of those that a case ran.
    pub ran: usize,
    /// The share of them, in percent, rounded down: 100 means all.
    pub percent: usize,
    /// Those that no case ran, counted from 1, in ascending order.
    pub missed: Vec<u32>,
}

impl Covered {
    fn of(source: String, statements: &BTreeSet<u32>, ran: &BTreeSet<u32>) -> Self {
        let missed: Vec<u32> = statements.difference(ran).copied().collect();
        let (lines, ran) = (statements.len(), statements.len().saturating_sub(missed.len()));
        let percent = ran.saturating_mul(100).checked_div(lines).unwrap_or(100);
        Self { source, lines, ran, percent, missed }
    }

    /// Whether at least so many percent of the lines ran.
    #[must_use]
    pub fn reaches(&self, percent: u8) -> bool {
        self.percent >= usize::from(percent)
    }

    /// The file, without what kind of source it is.
    #[must_use]
    pub fn file(&self) -> &str {
        self.source.strip_prefix("file/").unwrap_or(&self.source)
    }

    /// The lines that no case ran, neighbours together: `3, 7-9`.
    #[must_use]
    pub fn missed_in_short(&self) -> String {
        let mut spans: Vec<(u32, u32)> = Vec::new();
        for line in &self.missed {
            match spans.last_mut() {
                Some((_, last)) if last.saturating_add(1) == *line => *last = *line,
                _ => spans.push((*line, *line)),
            }
        }
        let text = |(first, last): &(u32, u32)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        spans.iter().map(text).collect::<Vec<_>>().join(", ")
    }
}

/// The lines that were seen so far, by the source and the digest of their scripts.
#[derive(Debug, Default)]
pub struct Seen(BTreeMap<(String, String), (BTreeSet<u32>, BTreeSet<u32>)>);

impl Seen {
    /// Adds the lines that a case runs: those of each policy up to the one that decides, because no other one is asked in a cluster. `question`: `None` if the
    /// host asks nobody.
    ///
    /// # Errors
    /// A script exceeds its limits.
    pub fn add(&mut self, layers: &[Layer], question: Option<&Question>, ran: Option<&Ran>) -> Result<(), Error> {
        let decides = ran.and_then(|ran| ran.layers.iter().position(|layer| layer.decides));
        let own = |(_, layer): &(usize, &Layer)| !layer.policy.name().source.starts_with(BUILT_IN);
        for (place, layer) in layers.iter().enumerate().filter(own) {
            let is_asked = decides.is_none_or(|decides| place <= decides);
            let lines = match question.filter(|_| is_asked).and_then(|question| layer.lines(question)) {
                Some(lines) => Some(lines),
                None => self.unless_known(&layer.policy),
            };
            if let Some(lines) = lines {
                let name = layer.policy.name();
                self.note(&layer.policy, lines.map_err(|error| Error::Usage(unknown(&name.source, &error)))?);
            }
        }
        Ok(())
    }

    /// The lines of a script of which nothing ran yet.
    fn unless_known(&self, policy: &Policy) -> Option<Result<Lines, RunError>> {
        if self.0.contains_key(&key(policy)) { None } else { policy.lines() }
    }

    fn note(&mut self, policy: &Policy, lines: Lines) {
        let (statements, ran) = self.0.entry(key(policy)).or_default();
        statements.extend(lines.statements);
        ran.extend(lines.ran);
    }

    /// What was seen, by the names of the scripts.
    ///
    /// # Errors
    /// There was no script.
    pub fn covered(self) -> Result<Vec<Covered>, Error> {
        if self.0.is_empty() {
            let message = "the cases ask no script, and only lines of scripts are counted; leave out --coverage";
            return Err(Error::Usage(message.to_owned()));
        }
        let covered = self.0.into_iter();
        Ok(covered.map(|((source, _), (statements, ran))| Covered::of(source, &statements, &ran)).collect())
    }
}

fn key(policy: &Policy) -> (String, String) {
    (policy.name().source.clone(), policy.name().digest.clone())
}

fn unknown(source: &str, error: &RunError) -> String {
    format!("the lines of {source} cannot be counted: {}", chain(error))
}
