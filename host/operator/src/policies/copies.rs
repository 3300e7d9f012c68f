//! Stores copies of the last good policies, each in an immutable `ConfigMap` that the group owns. So a broken edit followed by a restart does not
//! leave a group without its policy (docs/safety.md, S33).
use crate::api::{LABEL_GROUP, ReplicaGroup};
use crate::api_error;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use std::collections::BTreeMap;
use std::time::Duration;

/// The key of the component in a copy.
const KEY: &str = "policy.wasm";

/// Deadline of one request.
const REQUEST: Duration = Duration::from_secs(10);

/// Hexadecimal digits of the digest in a copy's name: enough to tell the policies of one group apart.
const DIGITS: usize = 16;

/// The name of the copy of a policy with that digest (`sha256:...`).
fn name(group: &str, digest: &str) -> String {
    let digits: String = digest.trim_start_matches("sha256:").chars().take(DIGITS).collect();
    format!("{group}-policy-{digits}")
}

/// Writes the copy. One that exists already is as good, because it is immutable.
///
/// # Errors
/// When the API server refuses or does not answer. The policy decides nevertheless.
pub async fn store(client: &Client, group: &ReplicaGroup, digest: &str, bytes: &[u8]) -> Result<(), String> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &group.namespace().unwrap_or_default());
    let copy = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name(&group.name_any(), digest)),
            labels: Some(BTreeMap::from([(LABEL_GROUP.to_owned(), group.name_any())])),
            owner_references: group.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        immutable: Some(true),
        binary_data: Some(BTreeMap::from([(KEY.to_owned(), ByteString(bytes.to_vec()))])),
        ..ConfigMap::default()
    };
    let params = PostParams::default();
    match tokio::time::timeout(REQUEST, maps.create(&params, &copy)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Ok(()),
        Ok(Err(error)) => Err(api_error::words(&error)),
        Err(_) => Err(format!("no answer within {} s", REQUEST.as_secs())),
    }
}

/// Reads the copy of a policy. The caller compares the digest of what comes back.
pub async fn find(client: &Client, group: &ReplicaGroup, digest: &str) -> Option<Vec<u8>> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &group.namespace().unwrap_or_default());
    let name = name(&group.name_any(), digest);
    let found = tokio::time::timeout(REQUEST, maps.get_opt(&name)).await.ok()?.ok()??;
    let ours = found.metadata.owner_references.iter().flatten().any(|o| Some(&o.uid) == group.metadata.uid.as_ref());
    found.binary_data?.remove(KEY).map(|bytes| bytes.0).filter(|_| ours)
}
