//! Templates that a test gives a group, and which of them the members' pods have.
use crate::group::Group;
use anyhow::{Context, Result};
use kube::ResourceExt;
use serde_json::{Value, json};

/// A template that differs from every other edition.
#[must_use]
pub fn edition(number: u32) -> Value {
    json!({"template": {"metadata": {"labels": {"example.org/edition": number.to_string()}}}})
}

/// The editions of the members' pods, by ordinal; `-` for a pod that is not there, or has none.
///
/// # Errors
/// None at present: a pod that cannot be read counts as one that is not there.
pub async fn editions(group: &Group, members: u32) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for member in group.members(members) {
        let pod = member.pod().await.ok();
        let own = pod.and_then(|pod| pod.labels().get("example.org/edition").cloned());
        found.push(own.unwrap_or_else(|| "-".into()));
    }
    Ok(found)
}

/// Two changes of the spec: the containers of the group's template as they are, and with another image.
///
/// # Errors
/// When the group has none.
pub fn with_image(seen: &Value, image: &str) -> Result<(Value, Value)> {
    let good = seen.pointer("/spec/template/spec/containers").context("no containers")?.clone();
    let mut other = good.clone();
    *other.pointer_mut("/0/image").context("a container without an image")? = json!(image);
    Ok((json!({"template": {"spec": {"containers": good}}}), json!({"template": {"spec": {"containers": other}}})))
}
