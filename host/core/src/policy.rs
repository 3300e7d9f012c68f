//! How the host asks policies: questions, replies, and the trait that the engine implements.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::contract::{Answer, Care, Snapshot};

/// A decision point: one question that is put to the policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// No member runs: which one is started first?
    Seed,
    /// Secondaries run and no primary serves: which member takes over?
    Failover,
    /// Fewer primaries serve than desired: which member becomes the next one?
    Join,
    /// More primaries serve than desired, or one of several leaves and another member can join for it: which one is stopped next?
    Demote,
    /// The primaries serve: which member becomes the next secondary?
    Place,
    /// Members failed: what is done with them?
    Treat,
    /// One primary leads: is another member to lead in its place?
    Switchover,
    /// Every member is in its role: is a secondary to be stopped and started again, so that it may run elsewhere?
    Rebalance,
    /// Members have pods of an older template: which of them gets a new one next?
    Update,
    /// The first member with a changed template is watched: does the template work?
    Judge,
    /// Another number of members is desired than there are: does the group get it?
    Admit,
    /// Members are to be added, removed or stopped: who is next?
    Order,
}

impl Point {
    /// All points, in the order of the contract.
    pub const ALL: [Self; 12] = [
        Self::Seed,
        Self::Failover,
        Self::Join,
        Self::Demote,
        Self::Place,
        Self::Treat,
        Self::Switchover,
        Self::Rebalance,
        Self::Update,
        Self::Judge,
        Self::Admit,
        Self::Order,
    ];

    /// The name of its function in the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::Failover => "failover",
            Self::Join => "join",
            Self::Demote => "demote",
            Self::Place => "place",
            Self::Treat => "treat",
            Self::Switchover => "switchover",
            Self::Rebalance => "rebalance",
            Self::Update => "update",
            Self::Judge => "judge",
            Self::Admit => "admit",
            Self::Order => "order",
        }
    }

    /// The name of the contract's interface that has it.
    pub const fn interface(self) -> &'static str {
        match self {
            Self::Seed | Self::Failover | Self::Join | Self::Demote => "election",
            Self::Place => "placement",
            Self::Treat => "recovery",
            Self::Switchover => "switchover",
            Self::Rebalance => "rebalance",
            Self::Update | Self::Judge => "rollout",
            Self::Admit | Self::Order => "scaling",
        }
    }

    /// Whether the host decides by itself where no policy has an opinion. It is asked only where a policy has it ([`Policies::has`]), maybe in every round.
    #[must_use]
    pub const fn is_optional(self) -> bool {
        !matches!(self, Self::Seed | Self::Failover | Self::Join | Self::Demote | Self::Place | Self::Treat)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A decision point with the snapshot that it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Question {
    /// The decision point.
    pub point: Point,
    /// The snapshot. Its `parameters` are replaced by those of each policy that is asked.
    pub snapshot: Snapshot,
}

/// The answer to a question: a [`Care`] at [`Point::Treat`], an [`Answer`] at all others. Never an abstention.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// Which member is chosen.
    Answer(Answer),
    /// What is done with failed members.
    Care(Care),
}

/// The identity of a policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PolicyName {
    /// The name from its description. Empty if it was never loaded.
    pub name: String,
    /// The version from its description. Empty if it was never loaded.
    pub version: String,
    /// Where it was loaded from, for instance `builtin/sequence` or `configmap/my-policy/policy.wasm`.
    pub source: String,
    /// SHA-256 of its bytes, as `sha256:` and 64 hexadecimal digits.
    pub digest: String,
}

impl PolicyName {
    /// The name that is reported where no policy was asked, or where none of those asked had an opinion.
    #[must_use]
    pub fn none() -> Self {
        PolicyName { name: "none".to_owned(), version: String::new(), source: String::new(), digest: String::new() }
    }

    /// Whether it names no policy.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.source.is_empty() && self.digest.is_empty()
    }
}

/// `sequence 0.1.0 (builtin/sequence)`; without the name and version of one that was never loaded.
impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = if self.is_none() { String::new() } else { format!("({})", self.source) };
        let parts = [self.name.as_str(), self.version.as_str(), source.as_str()];
        f.write_str(&parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" "))
    }
}

/// A question that was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Answered {
    /// The policy that answered.
    pub policy: PolicyName,
    /// Its answer. Only the form has been checked; the host still has to check whom it names and whether that is safe.
    pub reply: Reply,
    /// The fuel that it used: about one unit for each instruction.
    pub fuel: u64,
    /// What the policies that were asked noted for their authors, each with the name of the policy in front. Nothing is decided by it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A question without an answer: nothing is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{policy}: {message}")]
pub struct Unanswered {
    /// The policy that failed to answer; if all abstained, the last one that was asked.
    pub policy: PolicyName,
    /// One word for machines: `trap`, `fuel`, `memory`, `stack`, `output`, `malformed`, `fault`, `abstained-all`, `no-policy`, and
    /// [`NOT_LOADED`], [`LOADING`], [`CUT_OFF`].
    pub kind: &'static str,
    /// A sentence that users see.
    pub message: String,
    /// As in [`Answered`]. What a policy noted before it failed is here, unless it trapped or used up its budget.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Nothing was asked, because a policy of the group could not be loaded.
pub const NOT_LOADED: &str = "not-loaded";

/// Nothing was asked, because a policy of the group is still being loaded. The group is woken when it is ready.
pub const LOADING: &str = "loading";

/// Every policy that was asked abstained.
pub const ABSTAINED_ALL: &str = "abstained-all";

/// No policy of the group has the point.
pub const NO_POLICY: &str = "no-policy";

/// The time for a question was over. Fuel bounds what a policy does, so this tells of the machine's load and is no fault of the policy.
pub const CUT_OFF: &str = "cut-off";

impl Unanswered {
    /// Whether the question is asked again by itself, and nothing is wrong with a policy.
    #[must_use]
    pub fn is_delay(&self) -> bool {
        matches!(self.kind, LOADING | CUT_OFF)
    }

    /// Whether no policy has an opinion.
    #[must_use]
    pub fn is_abstention(&self) -> bool {
        matches!(self.kind, ABSTAINED_ALL | NO_POLICY)
    }
}

/// Answers questions: the engine with a group's policies, or a stub in tests.
///
/// # Guarantees
/// Equal questions get equal replies; nothing is remembered between questions.
pub trait Policies {
    /// Whether a policy has this point, or may have it because it is not loaded. Points that are not optional are asked in any case.
    fn has(&self, point: Point) -> bool {
        !point.is_optional()
    }

    /// Whether every policy is loaded. While one is not, it may have any point.
    fn are_loaded(&self) -> bool {
        true
    }

    /// Asks one question.
    ///
    /// # Errors
    /// When no policy has a usable answer.
    #[expect(clippy::result_large_err, reason = "a round asks a few times, and users see the whole error")]
    fn ask(&self, question: &Question) -> Result<Answered, Unanswered>;
}
