//! Finds a group by its name, and suggests a similar name if there is none.
use super::trouble::failed;
use anyhow::bail;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::Value;
use tanist_api::ReplicaGroup;
use tanist_api::view::View;
use tanist_core::record::Record;

/// How many groups are listed for a suggestion.
const LOOKED_AT: u32 = 500;

/// The group of that name.
///
/// # Errors
/// When there is none; with the name that may have been meant.
pub async fn find(groups: &Api<ReplicaGroup>, name: &str) -> anyhow::Result<ReplicaGroup> {
    if let Some(group) = groups.get_opt(name).await.map_err(|e| failed(&format!("read group {name}"), &e))? {
        return Ok(group);
    }
    let namespace = groups.namespace().unwrap_or("default");
    // The list is only for the suggestion: without the right to list there is none.
    let list = groups.list_metadata(&ListParams::default().limit(LOOKED_AT)).await;
    let names: Option<Vec<_>> = list.ok().map(|l| l.items.iter().map(ResourceExt::name_any).collect());
    bail!("{}", missing("group", name, &format!("namespace {namespace}"), names.as_deref()))
}

/// Changes a group by a merge patch.
///
/// # Errors
/// When there is none, or the API server refuses.
pub async fn change(groups: &Api<ReplicaGroup>, name: &str, patch: &Value) -> anyhow::Result<ReplicaGroup> {
    find(groups, name).await?;
    let patched = groups.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.map_err(|e| failed(&format!("change group {name}"), &e))
}

/// Whether an operator has looked at the group, so that its status says something.
///
/// # Errors
/// That none has, and what to ask.
pub fn observed(view: &View<'_>) -> Result<(), String> {
    match view.is_observed() {
        true => Ok(()),
        false => Err(format!("no operator has looked at {} yet; does one watch this namespace?", view.name())),
    }
}

/// The record of a group that has that member.
///
/// # Errors
/// When no operator has looked at the group, its record cannot be read, or there is no such member.
pub fn recorded(view: &View<'_>, member: &str) -> Result<Record, String> {
    observed(view)?;
    let record = view.record().map_err(|why| {
        format!("the record of {} cannot be read by this version ({why}); use the version of the operator", view.name())
    })?;
    if view.member(member).is_none() {
        return Err(no_member(view, member));
    }
    Ok(record)
}

/// The message that the group has no such member, with the names that it has.
pub fn no_member(view: &View<'_>, member: &str) -> String {
    let names: Vec<_> = view.members().iter().map(|m| m.name.clone()).collect();
    missing("member", member, &format!("group {}", view.name()), Some(&names))
}

/// The message that a name does not exist, with the names that do. `names` is `None`: they are not known.
pub fn missing(what: &str, typed: &str, place: &str, names: Option<&[String]>) -> String {
    let head = format!("no {what} {typed} in {place}");
    let Some(names) = names else { return head };
    match nearest(typed, names) {
        Some(name) => format!("{head}; did you mean {name}?"),
        None if names.is_empty() => format!("{head}; there is no {what} at all"),
        None if names.len() <= 8 => format!("{head}; there is: {}", names.join(", ")),
        None => head,
    }
}

/// The name that was probably meant: the one with the fewest typing errors, or the only one with that beginning.
fn nearest<'n>(typed: &str, names: &'n [String]) -> Option<&'n str> {
    let mut begin_so = names.iter().filter(|n| typed.len() > 1 && n.starts_with(typed));
    if let (Some(only), None) = (begin_so.next(), begin_so.next()) {
        return Some(only);
    }
    let allowed = typed.chars().count().div_ceil(3).min(3);
    let slips = |name: &&String| strsim::damerau_levenshtein(typed, name);
    names.iter().min_by_key(slips).filter(|n| slips(n) <= allowed).map(String::as_str)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;
    use crate::mock;
    use serde_json::json;

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn a_typing_error_is_recognised() {
        let there = names(&["db", "web", "register"]);
        let said = |typed| missing("group", typed, "namespace default", Some(&there));
        assert_eq!(said("bd"), "no group bd in namespace default; did you mean db?");
        assert!(said("regsiter").ends_with("did you mean register?"));
        assert!(said("reg").ends_with("did you mean register?"), "the only name with that beginning");
        assert_eq!(said("cache"), "no group cache in namespace default; there is: db, web, register");
        assert_eq!(
            missing("group", "x", "namespace a", Some(&[])),
            "no group x in namespace a; there is no group at all"
        );
        assert_eq!(missing("group", "x", "namespace a", None), "no group x in namespace a");
        assert_eq!(nearest("postgres", &names(&["postgres-a", "postgres-b"])), Some("postgres-a"), "two slips");
        assert_eq!(nearest("shop", &names(&["shop-customers", "shop-orders"])), None, "it could be either");
    }

    // The list is only for the suggestion: without the right to list the error is the same, without it.
    #[tokio::test]
    async fn the_error_for_a_missing_group_suggests_a_name() {
        let none = || mock::refusal(404, "NotFound", "no");
        let item = |name| json!({"metadata": {"name": name}});
        let (client, _) = mock::server(move |_, path, _| match path.contains("/replicagroups/") {
            true => none(),
            false => Some((
                200,
                json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {}, "items": [item("db")]}),
            )),
        });
        let said = find(&Api::namespaced(client, "shop"), "bd").await.unwrap_err().to_string();
        assert_eq!(said, "no group bd in namespace shop; did you mean db?");
        let (client, _) = mock::server(move |_, path, _| match path.contains("/replicagroups/") {
            true => none(),
            false => mock::refusal(403, "Forbidden", "no"),
        });
        let said = find(&Api::namespaced(client, "shop"), "bd").await.unwrap_err().to_string();
        assert_eq!(said, "no group bd in namespace shop");
    }
}
