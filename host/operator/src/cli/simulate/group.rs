//! The group of the simulated lives: what a manifest says of it, with the commands of the simulated application.
use anyhow::Context;
use serde_json::{Map, Value};
use std::path::Path;
use tanist_api::ReplicaGroup;
use tanist_api::spec::Primaries;
use tanist_author::{Error, manifest};
use tanist_sim::app;
use tanist_sim::faults::Fault;

/// The name of a group without a manifest, or without a name in it.
const NAME: &str = "db";

/// Members of a group without a manifest.
const REPLICAS: u64 = 3;

/// The most members: two on each of the four nodes of a simulated cluster.
const MOST_MEMBERS: u32 = 8;

/// The most primaries: a simulated user may leave a group with that many members.
const MOST_PRIMARIES: u32 = 4;

/// What is taken over of the spec.
const TAKEN: [&str; 5] = ["replicas", "primaries", "failover", "preferredPrimary", "policyLabelKeys"];

/// The group of that manifest, or of none.
///
/// # Errors
/// The manifest cannot be read, or the simulator has no such groups.
pub fn group(path: Option<&Path>, faults: &[Fault]) -> anyhow::Result<ReplicaGroup> {
    let written = path.map(manifest::group).transpose()?.unwrap_or_default();
    let file = path.map(|path| path.display().to_string()).unwrap_or_default();
    let metadata = object(&written, "metadata");
    let name = metadata.get("name").and_then(Value::as_str).unwrap_or(NAME);
    let mut group = app::group(name, REPLICAS, 1);
    let spec = object(&written, "spec");
    for key in TAKEN {
        if let Some(value) = spec.get(key) {
            group = with(&group, "spec", key, value).with_context(|| format!("{file}: spec.{key} cannot be read"))?;
        }
    }
    for key in ["labels", "annotations"] {
        if let Some(value) = metadata.get(key) {
            group = with(&group, "metadata", key, value)
                .with_context(|| format!("{file}: metadata.{key} cannot be read"))?;
        }
    }
    match unfit(&group, name, faults) {
        None => Ok(group),
        Some(why) if file.is_empty() => Err(Error::Usage(why).into()),
        Some(why) => Err(Error::Usage(format!("{file}: {why}")).into()),
    }
}

fn object(of: &Map<String, Value>, key: &str) -> Map<String, Value> {
    of.get(key).and_then(Value::as_object).cloned().unwrap_or_default()
}

/// The group with another value of one field.
fn with(group: &ReplicaGroup, part: &str, key: &str, value: &Value) -> anyhow::Result<ReplicaGroup> {
    let mut object = serde_json::to_value(group)?;
    if let Some(part) = object.get_mut(part).and_then(Value::as_object_mut) {
        part.insert(key.to_owned(), value.clone());
    }
    Ok(serde_json::from_value(object)?)
}

/// Why the simulator has no such group, and what to do.
fn unfit(group: &ReplicaGroup, name: &str, faults: &[Fault]) -> Option<String> {
    let spec = &group.spec;
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(is_plain) {
        return Some("metadata.name has to be a DNS label: lower-case letters, digits and '-', a letter first".into());
    }
    if !(1..=MOST_MEMBERS).contains(&spec.replicas) {
        let found = spec.replicas;
        return Some(format!(
            "spec.replicas is {found}; simulated groups have 1 to {MOST_MEMBERS} members: change it in a copy"
        ));
    }
    if let Primaries::Count(count) = spec.primaries {
        let most = MOST_PRIMARIES.min(spec.replicas);
        if !(1..=most).contains(&count) {
            return Some(format!("spec.primaries is {count}; this group may have 1 to {most} here, or All"));
        }
    }
    let is_member = |member: &str| member.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
    if let Some(preferred) = spec.preferred_primary.as_deref().filter(|member| !is_member(member)) {
        return Some(format!("spec.preferredPrimary is {preferred}; it has to be a member, for instance {name}-0"));
    }
    if spec.primaries != Primaries::Count(1) && faults.contains(&Fault::StatusLost) {
        let word = Fault::StatusLost.word();
        return Some(format!(
            "a group with several primaries that loses its status may wait for an administrator, whatever a policy says; leave out {word}"
        ));
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<ReplicaGroup, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("group.yaml");
        std::fs::write(&file, format!("kind: ReplicaGroup\n{text}")).unwrap();
        group(Some(&file), &[Fault::StatusLost]).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn the_manifest_says_how_the_group_is() {
        let found = of(
            "metadata: {name: web, labels: {policy.tanist.dev/a: b}}\nspec: {replicas: 5, preferredPrimary: web-2, \
                        failover: {maxBehind: 7}, statusIntervalSeconds: 9, commands: {status: {exec: [mine]}}}\n",
        )
        .unwrap();
        let spec = &found.spec;
        assert_eq!((spec.replicas, spec.primaries, spec.failover.max_behind), (5, Primaries::Count(1), Some(7)));
        assert_eq!(found.metadata.labels.unwrap()["policy.tanist.dev/a"], "b");
        assert_eq!(spec.commands.status.exec, ["status"], "of the simulated application");
        assert_eq!(group(None, &[]).unwrap().spec.replicas, 3);
    }

    #[test]
    fn what_the_simulator_has_not_is_said() {
        for (text, parts) in [
            ("spec: {replicas: 0}", ["spec.replicas is 0", "1 to 8"]),
            ("spec: {replicas: 9}", ["spec.replicas is 9", "1 to 8"]),
            ("spec: {replicas: many}", ["group.yaml: spec.replicas cannot be read", "many"]),
            ("spec: {primaries: 4}", ["spec.primaries is 4", "1 to 3 here"]),
            ("spec: {primaries: 2}", ["several primaries", "leave out status-lost"]),
            ("spec: {preferredPrimary: web-1}", ["spec.preferredPrimary is web-1", "db-0"]),
            ("metadata: {name: A}", ["metadata.name", "lower-case"]),
        ] {
            let said = of(text).unwrap_err();
            assert!(parts.iter().all(|part| said.contains(part)), "{text}: {said}");
        }
    }
}
