//! Groups under the shipped round in a simulated cluster.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may")]
#[allow(dead_code, missing_docs, reason = "the policies of the core's tests; not all are used here")]
#[path = "../../../core/tests/support/policies.rs"]
mod policies;
mod seeds;
mod stories;

use serde_json::json;
use tanist_api::ReplicaGroup;

/// The group `db`, whose commands are those of the register in each member.
fn register(replicas: u64) -> ReplicaGroup {
    let command = |word: &str| json!({"exec": [word], "timeoutSeconds": 10});
    let group = json!({
        "apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas, "primaries": 1,
            "template": {"spec": {"terminationGracePeriodSeconds": 30, "containers": [{"name": "db", "image": "db:1"}]}},
            "commands": {
                "status": command("status"), "sequence": command("sequence"), "stop": command("stop"),
                "primary": command("primary"), "secondary": command("secondary")
            }
        }
    });
    serde_json::from_value(group).unwrap()
}
