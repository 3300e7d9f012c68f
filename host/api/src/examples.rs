//! A group as it is stored, for tests of what reads one, here and in other programs.
use crate::spec::ReplicaGroup;
use serde_json::{Value, json};

/// `shop/db` of two members, term 4, led by db-1, with changes: a JSON merge patch, so a null removes a field and a list is replaced.
///
/// # Errors
/// When it is no group any more with these changes.
pub fn group(changes: &Value) -> Result<ReplicaGroup, serde_json::Error> {
    let mut group = json!({
        "apiVersion": "tanist.dev/v1alpha1",
        "kind": "ReplicaGroup",
        "metadata": {
            "name": "db", "namespace": "shop", "generation": 2, "resourceVersion": "9", "uid": "group",
            "creationTimestamp": "2026-01-01T00:00:00Z"
        },
        "spec": {
            "replicas": 2, "primaries": 1,
            "template": {"spec": {"containers": [{"name": "db", "image": "example.org/db:1"}]}},
            "commands": {"status": {"exec": ["s"]}, "sequence": {"exec": ["q"]}, "stop": {"exec": ["t"]}, "primary": {"exec": ["p"]}}
        },
        "status": {
            "observedGeneration": 2, "primaries": ["db-1"], "columns": {"primaries": "db-1", "members": "2/2", "policies": "sequence"},
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "AllMembersInRole", "message": "fine",
                "lastTransitionTime": "2026-01-01T00:01:00Z"
            }],
            "members": [
                {"name": "db-0", "ordinal": 0, "phase": "Running", "role": "Secondary", "ready": true, "podUID": "u0"},
                {"name": "db-1", "ordinal": 1, "phase": "Running", "role": "Primary", "ready": true, "podUID": "u1"}
            ],
            "record": {"term": 4}
        }
    });
    merge(&mut group, changes);
    serde_json::from_value(group)
}

/// The same group after db-0 failed and its spec was changed: a condition that is not well, an open command, a wait, and a decision.
///
/// # Errors
/// Never: a test reads it.
pub fn troubled() -> Result<ReplicaGroup, serde_json::Error> {
    let stop = json!({
        "token": "treat-1-n", "command": "stop", "member": "db-0", "verb": "treat", "started": 1_767_398_341, "timeout": 60,
        "podUid": "u0", "container": "db", "containerId": "c0", "generation": 2, "term": 4
    });
    group(&json!({
        "metadata": {"generation": 3},
        "status": {
            "columns": {"primaries": "db-1", "members": "1/2", "policies": "sequence 0.1.0"},
            "conditions": [
                {"type": "Ready", "status": "False", "reason": "MembersNotInRole", "message": "1 of 2", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "Degraded", "status": "False", "reason": "Healthy", "message": "fine", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            ],
            "members": [
                {"name": "db-0", "ordinal": 0, "phase": "Running", "role": "Failed", "roleDetail": "status exited 9", "failures": 2,
                 "waitsFor": "it failed"},
                {"name": "db-1", "ordinal": 1, "phase": "Running", "role": "Primary", "ready": true, "sequence": "a:7", "term": 4, "node": "n1"}
            ],
            "awaiting": [{"reason": "MemberFailed", "message": "db-0 failed", "member": "db-0"}],
            "decisions": [{
                "at": "2026-01-01T00:00:00Z", "point": "failover", "policy": "sequence 0.1.0", "term": 3, "chosen": "db-1", "reason": "data 7",
                "members": [
                    {"member": "db-0", "result": "Barred", "reason": "its pod is missing"},
                    {"member": "db-1", "result": "Chosen", "reason": "data 7 of term 3", "sequence": "a:7"}
                ],
                "notes": ["zone: zone b has 1"]
            }],
            "record": {"term": 4, "intents": [stop]}
        }
    }))
}

/// A merge patch; lists are replaced.
fn merge(into: &mut Value, changes: &Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, change) in changes {
                match change {
                    Value::Null => drop(into.remove(key)),
                    _ => merge(into.entry(key.clone()).or_insert(Value::Null), change),
                }
            }
        }
        (into, changes) => *into = changes.clone(),
    }
}
