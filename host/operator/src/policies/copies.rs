//! Stores copies of the last good policies, each in an immutable `ConfigMap` that the group owns: component or script, parameters and points. So a
//! broken edit followed by a restart does not leave a group without its policy (docs/safety.md, S33).
#![expect(clippy::disallowed_methods, reason = "each request has the deadline `REQUEST`")]
use super::source::{Content, Kind};
use super::store::good::Version;
use super::store::work::{GroupRef, Note, Stored};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, Resource};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Duration;
use tanist_api::{LABEL_GROUP, ReplicaGroup};
use tanist_cluster::api_error;
use tanist_core::policy::Point;

/// The key of a component in a copy.
const COMPONENT: &str = "policy.wasm";

/// The key of a script in a copy.
const SCRIPT: &str = "policy.star";

/// The annotation with what a copy says about itself.
const ANNOTATION: &str = "tanist.dev/policy-copy";

/// Deadline of one request.
const REQUEST: Duration = Duration::from_secs(10);

/// Hexadecimal digits in a copy's name: enough to tell the copies of one group apart.
const DIGITS: usize = 16;

/// Copies in one page of a list; a group has at most three for each of its layers, and one more of each while it is replaced.
const PAGE: u32 = 256;

/// Pages of a list. Other `ConfigMap`s may have the label of a group, too; so many of them are no group's own.
const PAGES: u32 = 16;

/// The annotation's text. Unknown fields are ignored, so that a later release may add some.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    source: String,
    digest: String,
    /// As JSON, because the order of keys and the form of numbers count.
    parameters: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    points: Option<Vec<Point>>,
    number: u64,
}

/// The name of a copy. It depends on the group's UID, so that a group that was deleted and created again never meets the copy of its predecessor, which
/// is about to be removed; and on all of the note, so that writing it twice is the same as writing it once.
fn name(group: &GroupRef, note: &Note) -> String {
    let text = serde_json::json!([group.uid, text(note)]).to_string();
    let digits = Sha256::digest(text.as_bytes()).iter().map(|b| format!("{b:02x}")).collect::<String>();
    format!("{}-policy-{}", group.name, digits.get(..DIGITS).unwrap_or_default())
}

/// The name that a release without notes gave to the copy of a component with that digest (`sha256:...`).
pub fn former_name(group: &str, digest: &str) -> String {
    let digits: String = digest.trim_start_matches("sha256:").chars().take(DIGITS).collect();
    format!("{group}-policy-{digits}")
}

fn text(note: &Note) -> Text {
    let Note { key, version, number } = note.clone();
    let Version { digest, parameters, points } = version;
    Text { source: key, digest, parameters, points, number }
}

fn api(client: &Client, group: &GroupRef) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), &group.namespace)
}

async fn within<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(REQUEST, request).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(api_error::words(&error)),
        Err(_) => Err(format!("no answer within {} s", REQUEST.as_secs())),
    }
}

/// Lists the copies that the group owns, without their contents.
///
/// # Errors
/// When the API server refuses or does not answer.
pub async fn list(client: &Client, group: &GroupRef) -> Result<Vec<Stored>, String> {
    let (maps, of_group) = (api(client, group), format!("{LABEL_GROUP}={}", group.name));
    let mut params = ListParams::default().labels(&of_group).limit(PAGE);
    let mut copies = Vec::new();
    for _ in 0..PAGES {
        let found = within(maps.list_metadata(&params)).await?;
        let ours = found.items.into_iter().filter(|copy| is_owned(&copy.metadata, group));
        copies.extend(ours.filter_map(|copy| stored(copy.metadata)));
        match found.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(copies),
        }
    }
    let most = PAGE.saturating_mul(PAGES);
    Err(format!("more than {most} ConfigMaps have the label {of_group}; remove it from those that are not the group's"))
}

fn stored(metadata: ObjectMeta) -> Option<Stored> {
    let said = metadata.annotations.unwrap_or_default().remove(ANNOTATION);
    let note = said.and_then(|text| serde_json::from_str::<Text>(&text).ok()).map(|text| Note {
        key: text.source,
        version: Version { digest: text.digest, parameters: text.parameters, points: text.points },
        number: text.number,
    });
    Some(Stored { name: metadata.name?, note })
}

fn is_owned(metadata: &ObjectMeta, group: &GroupRef) -> bool {
    metadata.owner_references.iter().flatten().any(|owner| owner.uid == group.uid)
}

/// Writes the copy of a version and returns its name. A copy of that name is the same one, written by a request whose answer was lost.
///
/// # Errors
/// When the API server refuses or does not answer. The policy decides nevertheless.
pub async fn store(
    client: &Client,
    group: &GroupRef,
    note: &Note,
    content: Option<&Content>,
) -> Result<String, String> {
    let name = name(group, note);
    let copy = copy(group, note, content, &name)?;
    match tokio::time::timeout(REQUEST, api(client, group).create(&PostParams::default(), &copy)).await {
        Ok(Ok(_)) => Ok(name),
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => {
            let there = within(api(client, group).get_metadata_opt(&name)).await?;
            let is_ours = there.is_some_and(|there| is_owned(&there.metadata, group));
            if is_ours { Ok(name) } else { Err(format!("ConfigMap {name} belongs to something else")) }
        }
        Ok(Err(error)) => Err(api_error::words(&error)),
        Err(_) => Err(format!("no answer within {} s", REQUEST.as_secs())),
    }
}

fn copy(group: &GroupRef, note: &Note, content: Option<&Content>, name: &str) -> Result<ConfigMap, String> {
    let text = serde_json::to_string(&text(note)).map_err(|error| error.to_string())?;
    let owner = OwnerReference {
        api_version: ReplicaGroup::api_version(&()).into_owned(),
        kind: ReplicaGroup::kind(&()).into_owned(),
        name: group.name.clone(),
        uid: group.uid.clone(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    let mut copy = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([(LABEL_GROUP.to_owned(), group.name.clone())])),
            annotations: Some(BTreeMap::from([(ANNOTATION.to_owned(), text)])),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        immutable: Some(true),
        ..ConfigMap::default()
    };
    match content {
        Some(Content { kind: Kind::Component, bytes, .. }) => {
            copy.binary_data = Some(BTreeMap::from([(COMPONENT.to_owned(), ByteString(bytes.to_vec()))]));
        }
        Some(Content { kind: Kind::Script, bytes, .. }) => {
            let text = String::from_utf8_lossy(bytes).into_owned();
            copy.data = Some(BTreeMap::from([(SCRIPT.to_owned(), text)]));
        }
        // What is built in needs no copy of its bytes, only of what the spec said about it.
        None => {}
    }
    Ok(copy)
}

/// Reads a copy. `None`: there is none of that name that the group owns. The caller compares the digest.
///
/// # Errors
/// When the API server refuses or does not answer.
pub async fn read(client: &Client, group: &GroupRef, name: &str) -> Result<Option<Content>, String> {
    let Some(found) = within(api(client, group).get_opt(name)).await? else { return Ok(None) };
    if !is_owned(&found.metadata, group) {
        return Ok(None);
    }
    let component = found.binary_data.unwrap_or_default().remove(COMPONENT);
    let script = found.data.unwrap_or_default().remove(SCRIPT);
    Ok(match (component, script) {
        (Some(bytes), _) => Some(Content::new(Kind::Component, COMPONENT, bytes.0)),
        (None, Some(text)) => Some(Content::new(Kind::Script, SCRIPT, text.into_bytes())),
        (None, None) => None,
    })
}

/// Removes a copy that is not needed any more. One that is gone already is as good.
///
/// # Errors
/// When the API server refuses or does not answer.
pub async fn remove(client: &Client, group: &GroupRef, name: &str) -> Result<(), String> {
    let removal = api(client, group);
    match tokio::time::timeout(REQUEST, removal.delete(name, &DeleteParams::default())).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(()),
        Ok(Err(error)) => Err(api_error::words(&error)),
        Err(_) => Err(format!("no answer within {} s", REQUEST.as_secs())),
    }
}
