//! Builds the ConfigMap of the cluster state (`spec.clusterState`, D6).
use super::{BuildError, Settings, finish};
use serde_json::{Value, json};
use tanist_api::{ANNOTATION_STATE_KEYS, ReplicaGroup};
use tanist_core::state::{Data, keys};

/// The ConfigMap of that name with those values.
///
/// # Errors
/// When the group was not read from the API server.
pub fn cluster_state(group: &ReplicaGroup, settings: &Settings, name: &str, data: &Data) -> Result<Value, BuildError> {
    let annotations = json!({ANNOTATION_STATE_KEYS: keys(data)});
    let metadata = json!({"name": name, "annotations": annotations});
    finish(group, settings, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}))
}
