//! The application of a member: a register that one primary writes and its secondaries copy.
use serde_json::json;
use std::collections::BTreeSet;
use tanist_api::ReplicaGroup;
use tanist_core::contract::Role;
use tanist_core::evidence::status_code;

/// What a volume holds: a history and how many writes of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Disk {
    /// The register. `None`: nothing was ever written.
    pub data: Option<Register>,
    /// Every write that it has, in truth.
    pub holds: BTreeSet<u64>,
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
    /// Its role in truth: stopped, secondary or primary.
    pub role: Role,
    /// The member that it copies from.
    pub follows: Option<String>,
}

impl Default for App {
    /// No process runs.
    fn default() -> Self {
        App { role: Role::Stopped, follows: None }
    }
}

impl App {
    /// The exit code of `status`.
    #[must_use]
    pub fn status(&self) -> u8 {
        // Every role that an application has here has a code.
        status_code(self.role).unwrap_or(1)
    }
}

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
