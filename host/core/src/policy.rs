//! How the host asks: questions, replies, and the one trait that stands between the core and whatever answers.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::contract::{Answer, Care, Snapshot};

/// A decision point: one question that is put to the policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// Nobody runs: who is started first?
    Seed,
    /// Secondaries run, no primary serves: who takes over?
    Failover,
    /// Fewer primaries serve than wanted: who becomes the next one?
    Join,
    /// More primaries serve than wanted: who is stopped next?
    Demote,
    /// The primaries serve: who becomes the next secondary?
    Place,
    /// What is done with the failed members?
    Treat,
}

impl Point {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Seed, Self::Failover, Self::Join, Self::Demote, Self::Place, Self::Treat];

    /// The name of its function in the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::Failover => "failover",
            Self::Join => "join",
            Self::Demote => "demote",
            Self::Place => "place",
            Self::Treat => "treat",
        }
    }

    /// The name of the contract's interface that has it.
    pub const fn interface(self) -> &'static str {
        match self {
            Self::Seed | Self::Failover | Self::Join | Self::Demote => "election",
            Self::Place => "placement",
            Self::Treat => "recovery",
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Question {
    /// At which point.
    pub point: Point,
    /// About what. Its `parameters` are replaced by those of each policy that is asked.
    pub snapshot: Snapshot,
}

/// What is answered: a [`Care`] at [`Point::Treat`], an [`Answer`] at all others. Never an abstention.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// About who.
    Answer(Answer),
    /// About failed members.
    Care(Care),
}

/// Which policy it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PolicyName {
    /// As it calls itself. Empty when it was never able to say.
    pub name: String,
    /// As it says.
    pub version: String,
    /// Where it came from, for instance `builtin/sequence` or `configmap/my-policy/policy.wasm`.
    pub source: String,
    /// SHA-256 of its bytes, as `sha256:` and 64 hexadecimal digits.
    pub digest: String,
}

/// `sequence 0.1.0 (builtin/sequence)`.
impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.name, self.version, self.source)
    }
}

/// A question that was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Answered {
    /// Who answered.
    pub policy: PolicyName,
    /// What. Its form is checked, what it means is not: whom it names, and whether that is safe, is for the host to check.
    pub reply: Reply,
    /// What it cost, in the engine's unit.
    pub fuel: u64,
}

/// A question that was not answered, which means: nothing is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{policy}: {message}")]
pub struct Unanswered {
    /// Who failed to answer; the last that was asked when all abstained.
    pub policy: PolicyName,
    /// One word for machines: `trap`, `fuel`, `memory`, `stack`, `output`, `malformed`, `fault`, `abstained-all`, `no-policy`.
    pub kind: &'static str,
    /// A sentence for people.
    pub message: String,
}

/// Whoever answers questions.
///
/// # Guarantees
/// Equal questions get equal replies; nothing is remembered from one to the next.
pub trait Policies {
    /// Asks one question.
    ///
    /// # Errors
    /// When no policy has a usable answer; there is none to fall back to.
    #[expect(clippy::result_large_err, reason = "asked a few times a round, and the error is told to people in full")]
    fn ask(&self, question: &Question) -> Result<Answered, Unanswered>;
}
