//! The application of a member: a register that one primary writes and its secondaries copy.
use serde_json::json;
use tanist_api::ReplicaGroup;
use tanist_core::contract::Role;
use tanist_core::evidence::status_code;

/// What a volume holds: a history and how many writes of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Disk {
    /// The register. `None`: nothing was ever written.
    pub data: Option<Register>,
    /// Every write that it has, in truth.
    pub holds: Writes,
    /// Where members agree: the identity of the member that was started on it. `None`: none was.
    pub identity: Option<String>,
    /// The version of the application that wrote it last or converted it, where versions differ in the form of their data. 0: none did.
    pub version: u64,
    /// Whether it is damaged: nothing starts on it.
    pub is_damaged: bool,
}

/// Writes by number: one bit for each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Writes(Vec<u64>);

impl Writes {
    fn place(write: u64) -> (usize, u64) {
        (usize::try_from(write / 64).unwrap_or(usize::MAX), 1 << (write % 64))
    }

    /// Adds a write.
    pub fn insert(&mut self, write: u64) {
        let (word, bit) = Self::place(write);
        if self.0.len() <= word {
            self.0.resize(word.saturating_add(1), 0);
        }
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    /// Whether it is one of them.
    #[must_use]
    pub fn contains(&self, write: u64) -> bool {
        let (word, bit) = Self::place(write);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// These and the other ones.
    #[must_use]
    pub fn joined(&self, other: &Writes) -> Writes {
        let longest = self.0.len().max(other.0.len());
        let word = |writes: &Writes, at: usize| writes.0.get(at).copied().unwrap_or(0);
        Writes((0..longest).map(|at| word(self, at) | word(other, at)).collect())
    }

    /// Leaves out those that are not in `other`.
    pub fn keep(&mut self, other: &Writes) {
        for (at, word) in self.0.iter_mut().enumerate() {
            *word &= other.0.get(at).copied().unwrap_or(0);
        }
    }

    /// How many of these are not in `other`.
    #[must_use]
    pub fn lacking_in(&self, other: &Writes) -> u32 {
        let others = other.0.iter().chain(std::iter::repeat(&0));
        self.0.iter().zip(others).map(|(own, other)| (own & !other).count_ones()).sum()
    }
}

impl FromIterator<u64> for Writes {
    fn from_iter<I: IntoIterator<Item = u64>>(writes: I) -> Self {
        let mut all = Writes::default();
        writes.into_iter().for_each(|write| all.insert(write));
        all
    }
}

/// The content of the register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Register {
    /// A name for the line of writes: a seed on an empty volume begins a new one.
    pub history: String,
    /// The number of the last write.
    pub number: u64,
}

impl Disk {
    /// What `sequence` prints.
    #[must_use]
    pub fn position(&self) -> String {
        self.data.as_ref().map_or_else(|| "EMPTY".to_owned(), |r| format!("{}:{}", r.history, r.number))
    }
}

/// A running application.
#[derive(Debug, Clone)]
pub struct App {
    /// Its role in truth: stopped, secondary or primary; or starting, where members agree and it serves nobody.
    pub role: Role,
    /// The member that it copies from.
    pub follows: Option<String>,
    /// Whether a user made it primary by hand, beside another one. Clients are not to be led to it.
    pub by_hand: bool,
}

impl Default for App {
    /// No process runs.
    fn default() -> Self {
        App { role: Role::Stopped, follows: None, by_hand: false }
    }
}

impl App {
    /// One of an active/passive group, which works by itself: it has no role of its own, and counts as one that serves and does not lead.
    #[must_use]
    pub fn works() -> Self {
        App { role: Role::Secondary, ..App::default() }
    }

    /// The exit code of `status`.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self.role {
            Role::Starting => STARTING,
            // Every other role that an application has here has a code by which a command may be refused.
            role => status_code(role).unwrap_or(1),
        }
    }
}

/// The exit code of `status` while a member is on its way.
const STARTING: u8 = 10;

/// A group whose commands are those of the register in each member.
#[must_use]
pub fn group(name: &str, replicas: u64, primaries: u64) -> ReplicaGroup {
    let command = |word: &str| json!({"exec": [word], "timeoutSeconds": 10});
    let group = json!({
        "apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "primaries": primaries,
            "template": {"spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "db", "image": "db:1"}]}},
            "commands": {
                "status": command("status"), "sequence": command("sequence"), "stop": command("stop"),
                "primary": command("primary"), "secondary": command("secondary")
            }
        }
    });
    serde_json::from_value(group).unwrap_or_else(|error| unreachable!("the text above is a group: {error}"))
}

/// An active/passive group: its members run by themselves, and `status` says whether they work.
#[must_use]
pub fn passive(name: &str, replicas: u64) -> ReplicaGroup {
    let group = json!({
        "apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "primaries": 1,
            "template": {"spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "db", "image": "db:1"}]}},
            "commands": {"status": {"exec": ["status"], "timeoutSeconds": 10}}
        }
    });
    serde_json::from_value(group).unwrap_or_else(|error| unreachable!("the text above is a group: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_a_set() {
        let (few, many): (Writes, Writes) = ([1, 64, 130].into_iter().collect(), (1..=200).collect());
        assert!(few.contains(64) && !few.contains(63) && !few.contains(1_000));
        let mut kept = many.clone();
        kept.keep(&few);
        assert_eq!((kept.lacking_in(&few), few.lacking_in(&kept)), (0, 0));
        let both = Writes::from_iter([700]).joined(&few);
        assert_eq!((few.lacking_in(&both), both.lacking_in(&few), both.contains(700)), (0, 1, true));
        assert_eq!((few.lacking_in(&many), many.lacking_in(&few), many.lacking_in(&Writes::default())), (0, 197, 200));
    }
}
