//! From the resource to a group that cannot be wrong: what the schema could not refuse is refused here, with a sentence.
use crate::api;
use crate::api::ReplicaGroup;
use crate::api::spec::Runner;
use kube::ResourceExt;
use std::collections::BTreeMap;
use tanist_core::contract::{MemberName, Position};
use tanist_core::data::read_sequence;
use tanist_core::snapshot::{Command, Commands, Failover, Group, Overrule};

/// Why a group cannot be acted upon.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The API server did not say who it is.
    #[error("the group has no {0}")]
    Identity(&'static str),
    /// Nothing says where a command runs.
    #[error("spec.template.spec.containers is empty, so the command {0} has no container to run in")]
    Container(&'static str),
}

/// Reads the spec.
///
/// # Errors
/// [`Invalid`]: nothing is done until the spec is changed.
pub fn group(object: &ReplicaGroup, domain: &str) -> Result<Group, Invalid> {
    let spec = &object.spec;
    let commands = &spec.commands;
    let one = |name: &'static str, command: &api::Command| {
        let container = spec.container_of(command).ok_or(Invalid::Container(name))?;
        Ok(Command { exec: command.exec.clone(), container: container.to_owned(), timeout: command.timeout() })
    };
    let some = |name, command: &Option<api::Command>| command.as_ref().map(|c| one(name, c)).transpose();
    let commands = Commands {
        status: one("status", &commands.status)?,
        sequence: one("sequence", &commands.sequence)?,
        stop: one("stop", &commands.stop)?,
        primary: one("primary", &commands.primary)?,
        seed: some("seed", &commands.seed)?,
        secondary: some("secondary", &commands.secondary)?,
        promote: some("promote", &commands.promote)?,
        follow: some("follow", &commands.follow)?,
    };
    let (overrule, overrule_error) =
        match object.annotations().get(api::ANNOTATION_OVERRIDE).map(|raw| read_override(raw)) {
            Some(Ok(overrule)) => (Some(overrule), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
    Ok(Group {
        name: object.metadata.name.clone().ok_or(Invalid::Identity("name"))?,
        namespace: object.namespace().ok_or(Invalid::Identity("namespace"))?,
        uid: object.uid().ok_or(Invalid::Identity("UID"))?,
        generation: object.metadata.generation.unwrap_or_default(),
        replicas: spec.replicas,
        primaries: spec.primaries.of(spec.replicas),
        commands,
        runner: spec.runner == Runner::Injected,
        start_deadline: spec.start_deadline_seconds,
        unknown_grace: spec.unknown_grace_seconds,
        preferred_primary: spec.preferred_primary.as_deref().map(MemberName::from),
        domain: domain.to_owned(),
        failover: Failover { reads: spec.failover.reads, prefer_running: spec.failover.prefer_running },
        paused: spec.paused,
        retry: object.annotations().get(api::ANNOTATION_RETRY).cloned(),
        overrule,
        overrule_error,
        labels: policy_labels(object.labels(), object.annotations(), &spec.labels),
    })
}

/// What policies see of labels and annotations: those under the prefix, without it, and those that the group names.
#[must_use]
pub fn policy_labels(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
    named: &[String],
) -> Vec<(String, String)> {
    let both = || labels.iter().chain(annotations);
    let prefixed = both().filter_map(|(k, v)| Some((k.strip_prefix(api::POLICY_PREFIX)?.to_owned(), v)));
    let chosen = both().filter(|(k, _)| named.contains(k)).map(|(k, v)| (k.clone(), v));
    let short = |v: &String| v.chars().take(256).collect();
    let all: BTreeMap<String, String> = prefixed.chain(chosen).map(|(k, v)| (k, short(v))).collect();
    all.into_iter().take(32).collect()
}

/// Reads `{"member": "db-1", "sequence": "HISTORY:7", "term": 3}`.
fn read_override(raw: &str) -> Result<Overrule, String> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wish {
        member: String,
        sequence: String,
        term: u64,
    }
    let form = "write {\"member\": \"NAME-0\", \"sequence\": \"EMPTY or [HISTORY:]NUMBER\", \"term\": N}";
    let wish: Wish = serde_json::from_str(raw)
        .map_err(|e| format!("{} is not understood ({e}); {form}", api::ANNOTATION_OVERRIDE))?;
    let position =
        read_sequence(wish.sequence.as_bytes()).map_err(|e| format!("{}: {e}; {form}", api::ANNOTATION_OVERRIDE))?;
    debug_assert!(!matches!(position, Position::NotAsked));
    Ok(Overrule { member: MemberName::from(wish.member), position, term: wish.term, raw: raw.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_names_member_sequence_and_term() {
        let read = read_override(r#"{"member": "db-1", "sequence": "a:7", "term": 3}"#).unwrap();
        assert_eq!((read.member.as_str(), read.term), ("db-1", 3));
        for bad in [
            "db-1",
            "{}",
            r#"{"member": "db-1", "sequence": "-1", "term": 3}"#,
            r#"{"member":"a","sequence":"1","term":1,"x":1}"#,
        ] {
            assert!(read_override(bad).unwrap_err().contains("write {\"member\""), "{bad}");
        }
    }

    #[test]
    fn policies_see_what_is_meant_for_them() {
        let labels =
            BTreeMap::from([("policy.tanist.dev/class".to_owned(), "a".to_owned()), ("secret".into(), "x".into())]);
        let annotations = BTreeMap::from([("rank".to_owned(), "7".to_owned())]);
        let seen = policy_labels(&labels, &annotations, &["rank".to_owned()]);
        assert_eq!(seen, vec![("class".to_owned(), "a".to_owned()), ("rank".to_owned(), "7".to_owned())]);
    }
}
