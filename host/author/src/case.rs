//! Cases: a snapshot in a few lines of YAML, the question about it, and the expected answer. docs/policies.md is the manual of this form.
//!
//! Everything has a default except the point. What is misspelt is an error with its line: a case that silently tests something else is worse than none.

mod expect;
mod members;

pub use expect::{Expect, remedy_word};
pub use members::{ConditionCase, Data, FailureCase, MemberCase, Members, PhaseWord, TemplateWord, split};

use std::{collections::BTreeMap, fs, path::Path};

use serde::Deserialize;
use serde_json::{Map, Value};
use serde_saphyr::{Location, Spanned};
use tanist_core::{contract::Timestamp, policy::Point};

use crate::{
    error::{Error, Place},
    world,
};

/// Cases in one file. More would take longer to read than to ask.
const CASES: usize = 1_000;

/// A file with cases.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CaseFile {
    /// The policy that is asked, a file beside this one. Absent: the only policy beside this file, or the one of the command line.
    #[serde(default)]
    pub policy: Option<Spanned<String>>,
    /// The manifest of a group whose whole stack is asked instead.
    #[serde(default)]
    pub group: Option<Spanned<String>>,
    /// The parameters of the policy in every case that has none of its own.
    #[serde(default)]
    pub parameters: Option<Spanned<Map<String, Value>>>,
    /// The cases in the order of the file, at most 1,000.
    pub cases: Vec<Spanned<Case>>,
}

/// A case: a snapshot, the question about it, and the answer that is expected.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Case {
    /// What it shows, in a sentence. Absent: it is called by its number.
    #[serde(default)]
    pub name: Option<String>,
    /// The decision point that the case asks.
    pub point: Spanned<Point>,
    /// The time of the snapshot in seconds since 1970.
    #[serde(default = "now")]
    pub now: Timestamp,
    /// The parameters of the policy.
    #[serde(default)]
    pub parameters: Option<Spanned<Map<String, Value>>>,
    /// The group, as far as it is not what its members show.
    #[serde(default)]
    pub group: GroupCase,
    /// The members. Absent: three of them.
    #[serde(default)]
    pub members: Members,
    /// What happened before, oldest first.
    #[serde(default)]
    pub history: Vec<Past>,
    /// The answer that is expected.
    #[serde(default)]
    pub expect: Option<Spanned<Expect>>,
}

/// The group of a case.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GroupCase {
    /// Its name. Absent: what the members' names begin with, `db` if they have none.
    #[serde(default)]
    pub name: Option<Spanned<String>>,
    /// The namespace of the group. Absent: `default`.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The desired number of members. Absent: as many as there are; at `admit` one more, at `order` one fewer.
    #[serde(default)]
    pub replicas: Option<u32>,
    /// The number of members until now, at `admit`, where `replicas` asks for another one. Absent: as many as there are.
    #[serde(default)]
    pub replicas_before: Option<u32>,
    /// The desired number of primaries. Absent: what the question needs.
    #[serde(default)]
    pub primaries: Option<u32>,
    /// Whether it has a command that makes a secondary. Absent: yes.
    #[serde(default)]
    pub has_secondaries: Option<bool>,
    /// Its term. Absent: the highest of its members; 0 if all of them are empty, 1 otherwise.
    #[serde(default)]
    pub term: Option<u64>,
    /// The member that the user wants as primary.
    #[serde(default)]
    pub preferred_primary: Option<Spanned<String>>,
    /// The most recent data ever seen, `[HISTORY:]NUMBER` of the present term.
    #[serde(default)]
    pub high_water: Option<Spanned<Data>>,
    /// The term of `high-water`. Absent: the group's.
    #[serde(default)]
    pub high_water_term: Option<u64>,
    /// `spec.failover.preferRunning`: whether a stopped old primary is excluded while secondaries run. Absent: no.
    #[serde(default)]
    pub prefer_running: bool,
    /// `spec.failover.reads`: how many known positions are enough for a failover. Absent: all but that of a lost primary.
    #[serde(default)]
    pub reads: Option<u32>,
    /// `spec.failover.maxBehind`: how far below the highest known data a secondary may take over. Absent: not at all.
    #[serde(default)]
    pub max_behind: Option<u64>,
    /// `spec.update.batch`, as policies see it: `member`, `zone` or `all`. Absent: `member`.
    #[serde(default)]
    pub update_batch: Option<BatchWord>,
    /// `spec.update.canarySeconds`. Absent: 300 at `judge`, where the last member that has the changed template is watched; 0 otherwise.
    #[serde(default)]
    pub canary_seconds: Option<u32>,
    /// Its labels for policies.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Facts about it, beside those that the host makes of the case (docs/facts.md), and in place of them.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
    /// What the operator remembers beyond that, in the words of `status.record`; it goes before the keys above. Recorded cases have it where it matters to
    /// a question.
    #[serde(default)]
    pub memory: Option<Spanned<Map<String, Value>>>,
}

/// How many pods get a changed template at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchWord {
    /// One pod at a time.
    Member,
    /// Those of a zone.
    Zone,
    /// All but a single primary.
    All,
}

/// Something that happened before.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Past {
    /// When; 0 and less: so many seconds before the case's `now`.
    pub at: Timestamp,
    /// One of the words in docs/transitions.md.
    pub what: String,
    /// The member that it concerns.
    #[serde(default)]
    pub member: Option<Spanned<String>>,
    /// Details of the transition, as docs/transitions.md has them for each word.
    #[serde(default)]
    pub detail: Option<String>,
}

/// The time of a case that names none: 2023-11-14T22:13:20Z, that of the SDK's snapshots.
const fn now() -> Timestamp {
    1_700_000_000
}

/// The cases of a file, with the names by which errors call them.
#[derive(Debug, Clone)]
pub struct Cases {
    /// The file as it was named.
    pub file: String,
    /// The text of the file; places in errors and updates are found in it.
    pub text: String,
    /// What it says.
    pub content: CaseFile,
}

impl Cases {
    /// Reads a file of cases.
    ///
    /// # Errors
    /// It cannot be read, or something in it is wrong: the place and what.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        Self::parse(&path.display().to_string(), text)
    }

    /// Parses the text of a file of cases.
    ///
    /// # Errors
    /// Something in it is wrong: the place and what.
    pub fn parse(file: &str, text: String) -> Result<Self, Error> {
        let content: CaseFile = serde_saphyr::from_str(&text).map_err(|error| unreadable(file, &error))?;
        let cases = Self { file: file.to_owned(), text, content };
        cases.look()?;
        Ok(cases)
    }

    /// The name of a case for users: its own, or its number from 1.
    #[must_use]
    pub fn name(&self, index: usize) -> String {
        let named = self.content.cases.get(index).and_then(|case| case.value.name.clone());
        named.unwrap_or_else(|| format!("case {}", index.saturating_add(1)))
    }

    /// Where a case begins.
    #[must_use]
    pub fn place(&self, index: usize) -> Place {
        let location = self.content.cases.get(index).map(|case| case.referenced);
        self.at(location.unwrap_or(Location::UNKNOWN))
    }

    /// A place in this file.
    #[must_use]
    pub fn at(&self, location: Location) -> Place {
        Place { file: self.file.clone(), line: location.line(), column: location.column() }
    }

    /// The parameters of a case, and where they are given.
    #[must_use]
    pub fn parameters(&self, index: usize) -> (Map<String, Value>, Place) {
        let own = self.content.cases.get(index).and_then(|case| case.value.parameters.as_ref());
        match own.or(self.content.parameters.as_ref()) {
            Some(given) => (given.value.clone(), self.at(given.referenced)),
            None => (Map::new(), self.place(index)),
        }
    }

    /// What the parser cannot see: names that are no members, two cases of one name.
    fn look(&self) -> Result<(), Error> {
        let wrong = |location: Location, message: String| Err(Error::Wrong { place: self.at(location), message });
        let cases = &self.content.cases;
        if cases.is_empty() || cases.len() > CASES {
            return wrong(Location::UNKNOWN, format!("it has {} cases; a file has 1 to {CASES}", cases.len()));
        }
        if let (Some(policy), Some(_)) = (&self.content.policy, &self.content.group) {
            return wrong(policy.referenced, "name a policy or a group, not both".to_owned());
        }
        let mut names = BTreeMap::new();
        for case in cases {
            if let Some(name) = &case.value.name
                && let Some(line) = names.insert(name, case.referenced.line())
            {
                return wrong(case.referenced, format!("the case in line {line} is called `{name}` too"));
            }
            case.value.look(case.referenced).or_else(|(location, message)| wrong(location, message))?;
        }
        Ok(())
    }
}

impl Case {
    /// The names of the members, by their order in the file.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.members.names(self.group.name.as_ref().map(|name| name.value.as_str()))
    }

    fn look(&self, here: Location) -> Result<(), (Location, String)> {
        let group = self.group.name.as_ref().map(|name| name.value.as_str());
        self.members.look(group).map_err(|(location, message)| (location.unwrap_or(here), message))?;
        let names = self.names();
        let known = |name: &str, location: Location| match names.iter().any(|each| each == name) {
            true => Ok(()),
            false => {
                Err((location, format!("{name} is not a member of this case; its members are {}", names.join(", "))))
            }
        };
        if let Some(preferred) = &self.group.preferred_primary {
            known(&preferred.value, preferred.referenced)?;
        }
        for past in &self.history {
            past.member.as_ref().map_or(Ok(()), |member| known(&member.value, member.referenced))?;
        }
        world::look(self)?;
        if let Some(expect) = &self.expect {
            expect.value.members().try_for_each(|member| known(member, expect.referenced))?;
            expect.value.fits(self.point.value).map_err(|message| (expect.referenced, message))?;
        }
        Ok(())
    }
}

/// What the parser says, in one line: its own text shows the lines around the place, too.
fn unreadable(file: &str, error: &serde_saphyr::Error) -> Error {
    let plain = error.without_snippet();
    let location = plain.location().unwrap_or(Location::UNKNOWN);
    let said = plain.to_string();
    // The place is said in front already.
    let end = format!(" at line {}, column {}", location.line(), location.column());
    let said = said.strip_prefix("error: ").unwrap_or(&said).replace(&end, "");
    Error::wrong(file, location.line(), location.column(), said.lines().next().unwrap_or_default())
}
