//! The words of the contract between the host and its policies, as plain data.
//!
//! They mirror `wit/policy.wit` field by field; that file is the manual and says what each one promises. As JSON the names are those of the
//! contract (`phase-since`, `not-asked`), what is absent is left out, and sequence numbers are decimal strings, since the whole range of 64
//! bits is used and JSON numbers lose it.

use std::{borrow::Borrow, fmt};

use serde::{Deserialize, Serialize};

/// The name of a member, unique within its group, for instance `db-0`.
///
/// Its order is that of the text, good for looking up only: members are ordered by [`Member::ordinal`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberName(pub String);

impl MemberName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MemberName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<&str> for MemberName {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl From<String> for MemberName {
    fn from(name: String) -> Self {
        Self(name)
    }
}

impl Borrow<str> for MemberName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Seconds since 1970-01-01T00:00:00Z, rounded down.
pub type Timestamp = i64;

/// How recent the data of a member is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Sequence {
    /// Which line of history `number` counts. Numbers of different histories cannot be compared. `None`: all count the same line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<String>,
    /// Higher is more recent.
    #[serde(with = "decimal")]
    pub number: u64,
}

/// `7`, or `history:7`.
impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.history {
            Some(history) => write!(f, "{history}:{}", self.number),
            None => write!(f, "{}", self.number),
        }
    }
}

/// What is known about a member's sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Position {
    /// The member answered with this sequence, in this life of its container.
    Known(Sequence),
    /// The member answered that it holds no data yet. Not the oldest sequence: none.
    Empty,
    /// The member was asked and the answer is not usable; the text says why.
    Unknown(String),
    /// The host did not ask.
    NotAsked,
}

/// What Kubernetes says about the pod of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// There is no pod.
    Missing,
    /// There is a pod, its containers do not run yet.
    Pending,
    /// The container that takes commands runs.
    Running,
    /// The pod is being deleted. Its processes may still run.
    Terminating,
    /// The pod ended and will not run again.
    Ended,
    /// The node does not report: the pod's processes may still run.
    Unreachable,
}

/// What the application says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Not known; [`Member::role_detail`] says why. It may be running as anything.
    Unknown,
    /// Running as neither primary nor secondary.
    Stopped,
    /// On its way to a role.
    Starting,
    /// Following a primary.
    Secondary,
    /// Leading.
    Primary,
    /// Broken, or a command failed on it and nothing has put it right since.
    Failed,
}

/// Something that holds for a member, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Condition {
    /// One of the words in `docs/conditions.md`.
    pub name: String,
    /// Since when.
    pub since: Timestamp,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It ran to its end with this exit code.
    Exited(i32),
    /// It was never started.
    NotStarted,
    /// It may have run, may be running, or may never have started.
    Unknown,
}

/// A command that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Failure {
    /// `seed`, `primary`, `secondary`, `stop`, ...
    pub command: String,
    /// How it ended.
    pub outcome: Outcome,
    /// When it ended, or was given up.
    pub at: Timestamp,
}

/// One replica with identity and data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Member {
    /// Its name.
    pub name: MemberName,
    /// The number in the name; compare as a number.
    pub ordinal: u32,
    /// The state of its pod.
    pub phase: Phase,
    /// Since when it is in that phase.
    pub phase_since: Timestamp,
    /// Kubernetes' readiness.
    pub ready: bool,
    /// What the application says.
    pub role: Role,
    /// Since when it has that role.
    pub role_since: Timestamp,
    /// Why the role is unknown or failed. `None` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_detail: Option<String>,
    /// When it was last seen as primary. `None`: never, as far as is remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_primary: Option<Timestamp>,
    /// The last term in which it was confirmed serving or following. `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<u64>,
    /// How recent its data is, inside its term.
    pub position: Position,
    /// The node it runs on. `None`: none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The fault domain. `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Commands that failed since the last one that succeeded.
    #[serde(default)]
    pub failures: u32,
    /// The latest of them. `None` when `failures` is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<Failure>,
    /// Since when it is marked for removal. `None`: it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked: Option<Timestamp>,
    /// What holds for it, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What the user says about it, by key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(String, String)>,
    /// What the host or the application says beyond the fields here, by the words in `docs/facts.md`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<(String, String)>,
    /// Why the host will not accept it as an answer. `None`: it may be chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub barred: Option<String>,
}

/// One replicated application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// How many members are wanted.
    pub replicas: u32,
    /// How many of them are to be primary: 1 up to `replicas`.
    pub primaries: u32,
    /// Whether it has a command that makes a secondary.
    pub has_secondaries: bool,
    /// Leadership number: one more at each seed and each failover. 0: never seeded.
    pub term: u64,
    /// The member that the user wants as primary. `None`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_primary: Option<MemberName>,
    /// The highest sequence ever seen in it. `None`: none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_water: Option<Sequence>,
    /// As for a member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(String, String)>,
    /// As for a member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<(String, String)>,
}

/// Something that happened, for decisions that must not flap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Transition {
    /// When.
    pub at: Timestamp,
    /// One of the words in `docs/transitions.md`.
    pub what: String,
    /// Whom it concerns. `None`: the whole group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberName>,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// All that a policy knows: the frozen input of one question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Snapshot {
    /// The only clock there is.
    pub now: Timestamp,
    /// The group.
    pub group: Group,
    /// Its members by ordinal, then name.
    pub members: Vec<Member>,
    /// What happened, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Transition>,
    /// The asked policy's parameters as canonical JSON; `{}` when there are none. Each policy of a stack is given its own.
    pub parameters: String,
}

/// A member to be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Candidate {
    /// Whom.
    pub member: MemberName,
    /// Why this one, at this place.
    pub reason: String,
    /// First bring it up to the data of this member. `None`: not needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<MemberName>,
}

/// A member not chosen, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Remark {
    /// Whom.
    pub member: MemberName,
    /// Why not.
    pub reason: String,
}

/// Members to choose from, and those left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Ranking {
    /// Best first. Only the first is acted on.
    pub candidates: Vec<Candidate>,
    /// The losers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<Remark>,
}

/// Not now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Delay {
    /// Why not.
    pub reason: String,
    /// Ask again then, if nothing changed before. `None`: ask again when something changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The answer to a question about who.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// These, in this order.
    Choose(Ranking),
    /// Nothing is done for now.
    Wait(Delay),
    /// Nothing is done until a person changes something; the text says what.
    Refuse(String),
    /// No opinion.
    Abstain,
}

/// A place in a text of the policy's author.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Location {
    /// Which text.
    pub file: String,
    /// From 1. 0: unknown.
    pub line: u32,
    /// From 1, in characters. 0: unknown.
    pub column: u32,
}

/// `file:line:column`, as far as known.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match (self.line, self.column) {
            (0, _) => Ok(()),
            (line, 0) => write!(f, ":{line}"),
            (line, column) => write!(f, ":{line}:{column}"),
        }
    }
}

/// The policy is broken, and says how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Fault {
    /// What happened.
    pub message: String,
    /// Where. `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
}

/// What a policy says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Description {
    /// For instance `zone-aware`.
    pub name: String,
    /// Of the policy, not of the contract.
    pub version: String,
    /// One sentence.
    pub summary: String,
    /// JSON Schema of its parameters. `None`: it takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<String>,
    /// What the exam shall not hold against it, by the words in `docs/exam.md`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declares: Vec<String>,
}

/// What is done with a failed member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// Nothing.
    Leave,
    /// Run its `stop` command.
    Stop,
    /// Delete its pod, keep its volumes.
    Recreate,
    /// Mark it for removal: a new member takes its place.
    Replace,
}

/// What is done with one failed member, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Treatment {
    /// Whom.
    pub member: MemberName,
    /// What.
    pub remedy: Remedy,
    /// Why.
    pub reason: String,
}

/// The answer to the question what is done with the failed members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Care {
    /// These, in this order, one at a time. Who is not listed is left.
    Treat(Vec<Treatment>),
    /// Nothing is done for now.
    Wait(Delay),
    /// Nothing is done until a person changes something; the text says what.
    Refuse(String),
    /// No opinion.
    Abstain,
}

/// 64-bit numbers as decimal text.
mod decimal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if digits => Ok(number),
            _ => Err(D::Error::custom(format!("expected a number of 64 bits as decimal text, found {text:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_keep_all_their_bits_as_json() {
        let position = Position::Known(Sequence { history: Some("a".to_owned()), number: u64::MAX });
        let json = serde_json::to_string(&position).unwrap();
        assert_eq!(json, r#"{"known":{"history":"a","number":"18446744073709551615"}}"#);
        assert_eq!(serde_json::from_str::<Position>(&json).unwrap(), position);
    }

    #[test]
    fn sequence_numbers_are_digits_and_nothing_else() {
        for bad in ["\"\"", "\"+1\"", "\"-1\"", "\" 1\"", "\"1e3\"", "\"18446744073709551616\"", "1"] {
            let json = format!(r#"{{"known":{{"number":{bad}}}}}"#);
            assert!(serde_json::from_str::<Position>(&json).is_err(), "{bad}");
        }
    }

    #[test]
    fn words_are_those_of_the_contract() {
        assert_eq!(serde_json::to_string(&Position::NotAsked).unwrap(), "\"not-asked\"");
        assert_eq!(serde_json::to_string(&Outcome::Exited(1)).unwrap(), r#"{"exited":1}"#);
        assert_eq!(serde_json::to_string(&Answer::Abstain).unwrap(), "\"abstain\"");
        assert_eq!(serde_json::to_string(&Remedy::Recreate).unwrap(), "\"recreate\"");
    }
}
