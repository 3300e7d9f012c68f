//! The words of the contract between the host and its policies, as plain data.
//!
//! They mirror `wit/policy.wit` field by field; that file is the manual and says what each one promises. As JSON the names are those of the
//! contract (`phase-since`, `not-asked`), absent values are left out, and sequence numbers are decimal strings, because JSON numbers cannot
//! hold all 64 bits.

use std::{borrow::Borrow, fmt};

use serde::{Deserialize, Serialize};

/// The name of a member, unique within its group, for instance `db-0`.
///
/// Names sort as text, so use them for look-ups only: the order of members is [`Member::ordinal`].
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
    /// The member answered that it has no data yet. This is not the oldest sequence: there is none.
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
    /// There is a pod, but its containers do not run yet.
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
    /// The role is not known; [`Member::role_detail`] says why. The member may have any role.
    Unknown,
    /// The member runs as neither primary nor secondary.
    Stopped,
    /// The member is on its way to a role.
    Starting,
    /// The member follows a primary.
    Secondary,
    /// The member leads.
    Primary,
    /// The member is broken, or a command failed on it and no later command fixed that.
    Failed,
}

/// Something that holds for a member, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Condition {
    /// One of the words in `docs/conditions.md`.
    pub name: String,
    /// When it began to hold.
    pub since: Timestamp,
    /// Details for users, as `docs/conditions.md` says for each word.
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
    /// The name of the command in the spec: `seed`, `primary`, `secondary`, `stop`, ...
    pub command: String,
    /// How it ended.
    pub outcome: Outcome,
    /// When it ended, or when the host stopped waiting for it.
    pub at: Timestamp,
}

/// One replica with identity and data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Member {
    /// The member's name: that of the group, `-` and the ordinal.
    pub name: MemberName,
    /// The number in the name; compare as a number.
    pub ordinal: u32,
    /// The state of its pod.
    pub phase: Phase,
    /// When it entered that phase.
    pub phase_since: Timestamp,
    /// Whether Kubernetes reports its pod as Ready.
    pub ready: bool,
    /// The role that its `status` command reports.
    pub role: Role,
    /// When it was first seen in that role.
    pub role_since: Timestamp,
    /// Why the role is unknown or failed. `None` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_detail: Option<String>,
    /// When it was last seen as primary. `None`: the record has no such time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_primary: Option<Timestamp>,
    /// The last term in which it was confirmed serving or following. `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<u64>,
    /// How recent its data is within its term.
    pub position: Position,
    /// The node it runs on. `None`: it is not scheduled yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The zone (fault domain) of its node. `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Commands that failed since the last one that succeeded.
    #[serde(default)]
    pub failures: u32,
    /// The latest of them. `None` when `failures` is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<Failure>,
    /// When it was marked for removal. `None`: it is not marked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked: Option<Timestamp>,
    /// Conditions that hold for it, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Labels that the user gave it for policies, by key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(String, String)>,
    /// More facts from the host or the application, by the words in `docs/facts.md`.
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
    /// The name of the group's object.
    pub name: String,
    /// The namespace of the group's object.
    pub namespace: String,
    /// The desired number of members.
    pub replicas: u32,
    /// The desired number of primaries among them: 1 up to `replicas`.
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
    /// Labels that the user gave the group for policies, by key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(String, String)>,
    /// Facts about the group, by the words in `docs/facts.md`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<(String, String)>,
}

/// An entry of the group's history. Policies use it to avoid decisions that flap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Transition {
    /// When it happened.
    pub at: Timestamp,
    /// One of the words in `docs/transitions.md`.
    pub what: String,
    /// The member that it concerns. `None`: the whole group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberName>,
    /// Details for users, as `docs/transitions.md` says for each word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// All that a policy knows: the frozen input of one question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Snapshot {
    /// The time of the snapshot: the only clock that a policy has.
    pub now: Timestamp,
    /// The group that the question is about.
    pub group: Group,
    /// Its members by ordinal, then name.
    pub members: Vec<Member>,
    /// The group's history, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Transition>,
    /// The asked policy's parameters as canonical JSON; `{}` when there are none. Each policy of a stack is given its own.
    pub parameters: String,
}

/// A member to be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Candidate {
    /// The member to choose.
    pub member: MemberName,
    /// Why it has this place in the ranking.
    pub reason: String,
    /// First bring it up to the data of this member. `None`: not needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<MemberName>,
}

/// A member not chosen, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Remark {
    /// The member that is not chosen.
    pub member: MemberName,
    /// Why it is not chosen.
    pub reason: String,
}

/// The members that a policy chooses, and those that it passes over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Ranking {
    /// Best first. Only the first is acted on.
    pub candidates: Vec<Candidate>,
    /// Members that are not chosen, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<Remark>,
}

/// The answer "not now".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Delay {
    /// Why the policy waits.
    pub reason: String,
    /// Ask again at this time if nothing changed before. `None`: ask again when something changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The answer to a question about who.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Choose from these members, in this order.
    Choose(Ranking),
    /// Nothing is done for now.
    Wait(Delay),
    /// Nothing is done until an administrator changes something; the text says what.
    Refuse(String),
    /// The policy has no opinion; the next policy of the stack is asked.
    Abstain,
}

/// A place in the source of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Location {
    /// The name of the source file.
    pub file: String,
    /// Line number from 1. 0: unknown.
    pub line: u32,
    /// Column from 1, in characters. 0: unknown.
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

/// The policy reports that it is broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Fault {
    /// What went wrong.
    pub message: String,
    /// Where in the policy's source. `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
}

/// What a policy says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Description {
    /// Its name, for instance `zone-aware`.
    pub name: String,
    /// The version of the policy, not of the contract.
    pub version: String,
    /// What it does, in one sentence.
    pub summary: String,
    /// JSON Schema of its parameters. `None`: it takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<String>,
    /// Unusual behaviour that the policy declares so that the exam accepts it, by the words in `docs/exam.md`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declares: Vec<String>,
}

/// What is done with a failed member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// Nothing is done with the member.
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
    /// The failed member.
    pub member: MemberName,
    /// What is done with it.
    pub remedy: Remedy,
    /// Why this remedy was chosen.
    pub reason: String,
}

/// The answer to the question what is done with the failed members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Care {
    /// Treat these members in this order, one at a time. Members that are not listed are left as they are.
    Treat(Vec<Treatment>),
    /// Nothing is done for now.
    Wait(Delay),
    /// Nothing is done until an administrator changes something; the text says what.
    Refuse(String),
    /// The policy has no opinion; the next policy of the stack is asked.
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
