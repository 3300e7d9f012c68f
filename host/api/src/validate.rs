//! Turns the resource into the group that decisions use. What the schema cannot refuse is refused here, with a sentence for the user.
use crate::spec::{self, Batch, CutOver, MembersKind, OnFailure, RemovedVolumes, ReplicaGroup, Strategy, UpgradeOn};
use crate::{ANNOTATION_OVERRIDE, ANNOTATION_RECOVER, ANNOTATION_RETRY, POLICY_PREFIX};
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};
use tanist_core::contract::{MemberName, Position};
use tanist_core::data::read_sequence;
use tanist_core::limits;
use tanist_core::record::{GroupSize, Zone};
use tanist_core::roster;
use tanist_core::snapshot::{
    self, Command, Commands, Failover, Former, Group, Hooks, MemberCommands, Mode, Override, RecoveryRequest, Update,
};
use tanist_core::state::{Entry, Template, key_in, unknown_place};

/// Why a group cannot be acted upon.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The object lacks a name, a namespace or a UID; the API server sets all three.
    #[error("the group has no {0}")]
    Identity(&'static str),
    /// No container is known in which this command could run.
    #[error("spec.template.spec.containers is empty, so the command {0} has no container to run in")]
    Container(&'static str),
    /// The cluster state cannot be rendered as it is written.
    #[error("spec.clusterState: {0}")]
    ClusterState(String),
}

/// What is said of an override in a group that has none.
const NO_OVERRIDE: &str = "an active/passive group has no override, because its members have no data to lose: remove tanist.dev/override, and set spec.preferredPrimary to say who is active";

/// Reads the spec as the group that the core decides about. `domain`: the DNS domain of the cluster, for instance `cluster.local`; names of members
/// end with it.
///
/// An override that is not understood is no error: the group has the reason (`override_error`), and nothing is overridden. The same holds for a request to recover a member.
///
/// # Errors
/// [`Invalid`]: nothing is done until the spec is changed.
pub fn group(object: &ReplicaGroup, domain: &str) -> Result<Group, Invalid> {
    let spec = &object.spec;
    let (requested_override, override_error) = match spec.commands.is_active_passive() {
        true => (None, object.annotations().contains_key(ANNOTATION_OVERRIDE).then(|| NO_OVERRIDE.to_owned())),
        false => requested(object, ANNOTATION_OVERRIDE, read_override),
    };
    let (requested_recovery, recovery_error) = requested(object, ANNOTATION_RECOVER, read_recovery);
    Ok(Group {
        name: object.metadata.name.clone().ok_or(Invalid::Identity("name"))?,
        namespace: object.namespace().ok_or(Invalid::Identity("namespace"))?,
        uid: object.uid().ok_or(Invalid::Identity("UID"))?,
        generation: object.metadata.generation.unwrap_or_default(),
        replicas: spec.replicas,
        requested: GroupSize { replicas: spec.replicas, primaries: spec.primaries.count(spec.replicas) },
        primaries: spec.primaries.count(spec.replicas),
        commands: commands(spec)?,
        active_passive: spec.commands.is_active_passive(),
        runner: spec.has_runner(),
        start_deadline: spec.start_deadline_seconds,
        unknown_grace: spec.unknown_grace_seconds,
        preferred_primary: spec.preferred_primary.as_deref().map(MemberName::from),
        domain: domain.to_owned(),
        failover: Failover {
            reads: spec.failover.reads,
            prefer_running: spec.failover.prefer_running,
            max_behind: spec.failover.max_behind,
        },
        resize_deadline: spec.scaling.deadline_seconds,
        removal_rest: spec.scaling.wait_between_removals_seconds,
        // The definition refuses it elsewhere; what was stored before that rule deletes nothing.
        wipes_volumes: spec.scaling.volumes == RemovedVolumes::Wipe,
        deletes_volumes: spec.scaling.volumes == RemovedVolumes::Delete && spec.commands.member_list.is_some(),
        update: update(&spec.update),
        version: spec.version.clone(),
        makes_pods: spec.members.kind == MembersKind::Pods,
        unwanted: unwanted(object),
        replace_after: spec.members.replace_after_failures,
        zones: spec.zones.list.iter().map(|z| Zone { name: z.name.clone(), replicas: z.replicas }).collect(),
        cluster_state: cluster_state(object)?,
        paused: spec.paused,
        retry: object.annotations().get(ANNOTATION_RETRY).cloned(),
        requested_override,
        override_error,
        requested_recovery,
        recovery_error,
        labels: policy_labels(object.labels(), object.annotations(), &spec.policy_keys()),
    })
}

/// The commands of a group, each with the container in which it runs.
fn commands(spec: &spec::ReplicaGroupSpec) -> Result<Commands, Invalid> {
    let commands = &spec.commands;
    let required = |name: &'static str, command: &spec::Command| {
        let container = spec.container_of(command).ok_or(Invalid::Container(name))?;
        Ok(Command { exec: command.exec.clone(), container: container.to_owned(), timeout: command.timeout() })
    };
    let optional = |name, command: &Option<spec::Command>| command.as_ref().map(|c| required(name, c)).transpose();
    // What an active/passive group does not have is never run.
    let started = |name, command: &Option<spec::Command>| required(name, command.as_ref().unwrap_or(&commands.status));
    let list = optional("memberList", &commands.member_list)?;
    let changes = optional("memberAdd", &commands.member_add)?.zip(optional("memberRemove", &commands.member_remove)?);
    let promote = optional("memberPromote", &commands.member_promote)?;
    let recover = optional("recover", &commands.recover)?;
    let wipe = optional("wipe", &commands.wipe)?;
    let membership =
        list.zip(changes).map(|(list, (add, remove))| MemberCommands { list, add, remove, promote, recover, wipe });
    Ok(Commands {
        status: required("status", &commands.status)?,
        sequence: started("sequence", &commands.sequence)?,
        stop: started("stop", &commands.stop)?,
        primary: started("primary", &commands.primary)?,
        seed: optional("seed", &commands.seed)?,
        secondary: optional("secondary", &commands.secondary)?,
        promote: optional("promote", &commands.promote)?,
        follow: optional("follow", &commands.follow)?,
        membership,
        check: optional("check", &commands.check)?,
        prepared: optional("prepared", &commands.prepared)?,
        hooks: Hooks {
            before: optional("beforeUpdate", &commands.before_update)?,
            after: optional("afterUpdate", &commands.after_update)?,
        },
        upgrade: optional("upgrade", &commands.upgrade)?,
    })
}

/// What the user wants of updates. What the template is, and what became of the former one, is not in the spec.
fn update(update: &spec::Update) -> Update {
    Update {
        mode: match update.batch {
            Batch::None => Mode::ByHand,
            _ if update.paused => Mode::Paused,
            Batch::Member | Batch::Zone | Batch::All => Mode::ByOperator,
        },
        batch: match update.batch {
            Batch::Member | Batch::None => snapshot::Batch::Member,
            Batch::Zone => snapshot::Batch::Zone,
            Batch::All => snapshot::Batch::All,
        },
        strategy: match update.strategy {
            Strategy::Recreate => snapshot::Strategy::Recreate,
            Strategy::Replace => snapshot::Strategy::Replace,
            Strategy::ReplacePrimaries => snapshot::Strategy::ReplacePrimaries,
            Strategy::SideBySide => snapshot::Strategy::SideBySide,
        },
        cut_over: match update.cut_over {
            CutOver::All => snapshot::CutOver::All,
            CutOver::One => snapshot::CutOver::One,
        },
        replacements: update.max_concurrent_replacements,
        wait: update.wait_seconds,
        min_uptime: update.min_uptime_seconds,
        timeout: update.timeout_seconds,
        canary: update.canary_seconds,
        upgrade_on: match update.upgrade_on {
            UpgradeOn::StoppedMember => snapshot::UpgradeOn::StoppedMember,
            UpgradeOn::Primary => snapshot::UpgradeOn::Primary,
        },
        rolls_back: update.on_failure == OnFailure::RollBack,
        template: String::new(),
        former: Former::Unknown,
        config_trouble: None,
        config_missing: false,
        config_settles: None,
    }
}

/// The numbers of the members that the user wants to go. The definition refuses names of others; they name nobody.
fn unwanted(object: &ReplicaGroup) -> BTreeSet<u32> {
    let name = object.name_any();
    object.spec.members.remove.iter().filter_map(|member| roster::ordinal(&name, member)).collect()
}

/// What the user wants of the ConfigMap that names the members. The definition refuses most of what is refused here; a group may be stored under an older one.
fn cluster_state(object: &ReplicaGroup) -> Result<Option<Template>, Invalid> {
    let spec = &object.spec;
    let state = spec.cluster_state.as_ref();
    let is_key = |key: &str| state.is_some_and(|state| state.data.iter().any(|known| known.name == key));
    for (name, command) in spec.commands.by_name() {
        // These run without a plan, some of them without the operator.
        let is_filled = !["status", "sequence", "stop", "memberList", "check", "prepared"].contains(&name);
        let mut keys = command.exec.iter().filter_map(|argument| key_in(argument));
        if let Some(key) = keys.find(|key| !is_filled || !is_key(key)) {
            let why = if is_filled { "there is no such key in data" } else { "it is not replaced in this command" };
            let message =
                format!("commands.{name} has the argument $(STATE:{key}), and {why}: remove it, or name another key");
            return Err(Invalid::ClusterState(message));
        }
    }
    let Some(state) = state else { return Ok(None) };
    let entries: Result<Vec<_>, _> = state.data.iter().map(state_entry).collect();
    let usual = || format!("{}-cluster-state", object.name_any());
    Ok(Some(Template { name: state.name.clone().unwrap_or_else(usual), entries: entries? }))
}

fn state_entry(key: &spec::StateKey) -> Result<Entry, Invalid> {
    let name = &key.name;
    let refuse = |why: String| Err(Invalid::ClusterState(why));
    let (text, each) = match (&key.value, &key.each) {
        (Some(text), None) => (text, false),
        (None, Some(text)) => (text, true),
        _ => return refuse(format!("the key {name} has to have exactly one of value and each: keep one of them")),
    };
    if let Some(place) = unknown_place(text, each) {
        return refuse(format!("the key {name} has {place}, which is no placeholder there: remove it"));
    }
    Ok(Entry { key: name.clone(), text: text.clone(), each, separator: key.separator.clone() })
}

/// What an administrator asks for by that annotation, or why that is not understood.
fn requested<T>(
    object: &ReplicaGroup,
    annotation: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> (Option<T>, Option<String>) {
    match object.annotations().get(annotation).map(|raw| read(raw)) {
        Some(Ok(requested)) => (Some(requested), None),
        Some(Err(why)) => (None, Some(why)),
        None => (None, None),
    }
}

/// Bytes of a label's value that a policy sees, as `wit/policy.wit` promises; longer values are cut.
const VALUE_BYTES: usize = 256;

/// The labels and annotations of an object that policies see: those under the prefix, which is removed, and those with one of these keys. Sorted by
/// key; values are cut to 256 bytes. At most 33, one more than a policy is given, so that it can be told that there were more.
#[must_use]
pub fn policy_labels(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
    keys: &[String],
) -> Vec<(String, String)> {
    let both = || labels.iter().chain(annotations);
    let prefixed = both().filter_map(|(k, v)| Some((k.strip_prefix(POLICY_PREFIX)?.to_owned(), v)));
    let chosen = both().filter(|(k, _)| keys.contains(k)).map(|(k, v)| (k.clone(), v));
    let all: BTreeMap<String, String> =
        prefixed.chain(chosen).map(|(k, v)| (k, cut(v, VALUE_BYTES).to_owned())).collect();
    // One more than a policy is given: so it can be told that there were more.
    all.into_iter().take(limits::LABELS + 1).collect()
}

/// The longest beginning of a text that has at most so many bytes and splits no character.
#[must_use]
pub fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

/// Reads the annotation `tanist.dev/override`: `{"member": "db-1", "sequence": "HISTORY:7", "term": 3}`.
///
/// # Errors
/// What is not understood, and the form that is expected.
pub fn read_override(raw: &str) -> Result<Override, String> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct OverrideText {
        member: String,
        sequence: String,
        term: u64,
    }
    let form = "write {\"member\": \"NAME-0\", \"sequence\": \"EMPTY or [HISTORY:]NUMBER\", \"term\": N}";
    let text: OverrideText =
        serde_json::from_str(raw).map_err(|e| format!("{} is not understood ({e}); {form}", ANNOTATION_OVERRIDE))?;
    let position =
        read_sequence(text.sequence.as_bytes()).map_err(|e| format!("{}: {e}; {form}", ANNOTATION_OVERRIDE))?;
    debug_assert!(!matches!(position, Position::NotAsked));
    Ok(Override { member: MemberName::from(text.member), position, term: text.term, raw: raw.to_owned() })
}

/// Reads the annotation `tanist.dev/recover`, which `tanist recover` writes: `{"member": "db-1", "group": "UID", "claim": "UID", "cluster": "ID", "list": 7, "asked": "WHEN"}`, and `"restored": true`
/// if the claim is not the one on which the member was started. `asked` makes each request another one, and is not looked at.
///
/// # Errors
/// What is not understood, and what helps.
pub fn read_recovery(raw: &str) -> Result<RecoveryRequest, String> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct RecoveryText {
        member: String,
        group: String,
        claim: String,
        #[serde(default)]
        restored: bool,
        cluster: String,
        list: u64,
        #[serde(default, rename = "asked")]
        _asked: String,
    }
    let text: RecoveryText = serde_json::from_str(raw).map_err(|e| {
        format!(
            "{ANNOTATION_RECOVER} is not understood ({e}); remove it, and ask by tanist recover GROUP --from MEMBER"
        )
    })?;
    let RecoveryText { member, group, claim, restored, cluster, list, .. } = text;
    let member = MemberName::from(member);
    Ok(RecoveryRequest { member, group, claim, restored, cluster, list, raw: raw.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    // E22: without a command that starts a primary the group is active/passive, and has no runner.
    #[test]
    fn a_group_without_commands_that_start_members_is_active_passive() {
        let read = |commands: Value| {
            let metadata = json!({"name": "db", "namespace": "shop", "uid": "u"});
            let object =
                crate::examples::group(&json!({"metadata": metadata, "spec": {"commands": commands}})).unwrap();
            let group = group(&object, "cluster.local").unwrap();
            (group.active_passive, group.runner)
        };
        assert_eq!(read(json!({})), (false, true));
        assert_eq!(read(json!({"sequence": null, "stop": null, "primary": null})), (true, false));
    }

    // D8: a request is bound to the group, the volume and the list that people saw; half of one is none.
    #[test]
    fn a_recovery_names_what_people_saw() {
        let raw =
            r#"{"member":"db-1","group":"g","claim":"c1 c2","cluster":"4f","list":7,"asked":"2026-01-01T00:00:00Z"}"#;
        let read = read_recovery(raw).unwrap();
        assert_eq!((read.member.as_str(), read.group.as_str(), read.claim.as_str()), ("db-1", "g", "c1 c2"));
        assert_eq!((read.cluster.as_str(), read.list, read.restored, read.raw.as_str()), ("4f", 7, false, raw));
        assert!(read_recovery(&raw.replace(r#""list":7"#, r#""list":7,"restored":true"#)).unwrap().restored);
        for bad in
            ["db-1", "{}", &raw.replace(r#""list":7,"#, ""), &raw.replace("asked", "other"), &raw.replace('7', "-7")]
        {
            assert!(read_recovery(bad).unwrap_err().contains("tanist recover GROUP --from MEMBER"), "{bad}");
        }
    }

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

    /// A group with that cluster state and with these words of `primary` and `stop`.
    fn with_state(data: Value, primary: &str, stop: &str) -> Result<Option<Template>, String> {
        let commands = json!({"primary": {"exec": ["p", primary]}, "stop": {"exec": ["t", stop]}});
        let spec = json!({"commands": commands, "clusterState": {"data": data}});
        let metadata = json!({"name": "db", "namespace": "shop", "uid": "u"});
        let object = crate::examples::group(&json!({"metadata": metadata, "spec": spec})).unwrap();
        group(&object, "cluster.local").map(|group| group.cluster_state).map_err(|why| why.to_string())
    }

    // D6: a key has one text, whose places are known.
    #[test]
    fn a_key_of_the_cluster_state_has_one_text_with_known_places() {
        let of = |entry: Value| with_state(json!([entry]), "x", "x");
        let read = of(json!({"name": "A", "each": "$(NAME)=http://$(ADDRESS):2380 $$ $5"})).unwrap().unwrap();
        assert_eq!(
            (read.name.as_str(), read.entries[0].separator.as_str(), read.entries[0].each),
            ("db-cluster-state", ",", true)
        );
        assert!(of(json!({"name": "A", "value": "$(UID) $(STATE)"})).is_ok());
        for (entry, why) in [
            (json!({"name": "A"}), "exactly one of value and each"),
            (json!({"name": "A", "value": "x", "each": "y"}), "exactly one of value and each"),
            (json!({"name": "A", "value": "$(NAME)"}), "$(NAME), which is no placeholder there"),
            (json!({"name": "A", "each": "$(NOBODY)"}), "$(NOBODY), which is no placeholder there"),
            (json!({"name": "A", "each": "$(NAME"}), "$(NAME, which is no placeholder there"),
        ] {
            let said = of(entry.clone()).unwrap_err();
            assert!(said.contains(why) && said.contains("the key A"), "{entry}: {said}");
        }
    }

    // D6: an argument is replaced where the operator knows the value, and names a key that there is.
    #[test]
    fn an_argument_names_a_key_of_the_cluster_state() {
        let of = |primary, stop| with_state(json!([{"name": "A", "value": "x"}]), primary, stop).map(drop);
        assert_eq!(of("$(STATE:A)", "x"), Ok(()));
        assert!(
            of("$(STATE:B)", "x")
                .unwrap_err()
                .contains("commands.primary has the argument $(STATE:B), and there is no such key")
        );
        assert!(
            of("x", "$(STATE:A)")
                .unwrap_err()
                .contains("commands.stop has the argument $(STATE:A), and it is not replaced")
        );
        for name in ["check", "prepared"] {
            let mut changes =
                json!({"spec": {"commands": {}, "clusterState": {"data": [{"name": "A", "value": "x"}]}}});
            changes["spec"]["commands"][name] = json!({"exec": ["ask", "$(STATE:A)"]});
            let refused = cluster_state(&crate::examples::group(&changes).unwrap()).map(drop).unwrap_err();
            assert!(refused.to_string().contains("it is not replaced"), "{refused}");
        }
    }

    // P20: the prefix goes; what nobody meant for policies is not shown.
    #[test]
    fn policies_see_what_is_meant_for_them() {
        let labels =
            BTreeMap::from([("policy.tanist.dev/class".to_owned(), "a".to_owned()), ("secret".into(), "x".into())]);
        let annotations = BTreeMap::from([("rank".to_owned(), "7".to_owned())]);
        let seen = policy_labels(&labels, &annotations, &["rank".to_owned()]);
        assert_eq!(seen, vec![("class".to_owned(), "a".to_owned()), ("rank".to_owned(), "7".to_owned())]);
        // One more than the contract allows shows the core that there were more.
        let many = (0..40).map(|n| (format!("policy.tanist.dev/{n}"), String::new())).collect();
        assert_eq!(policy_labels(&many, &BTreeMap::new(), &[]).len(), 33);
    }

    // P19, P20: the contract bounds texts in bytes, and a cut must not split a character.
    #[test]
    fn a_long_label_is_cut_to_the_bytes_of_the_contract() {
        let seen = |value: String| {
            let labels = BTreeMap::from([("rank".to_owned(), value)]);
            policy_labels(&labels, &BTreeMap::new(), &["rank".to_owned()]).remove(0).1
        };
        assert_eq!(seen("a".repeat(256)), "a".repeat(256), "as long as it may be");
        assert_eq!(seen("a".repeat(257)), "a".repeat(256));
        assert_eq!(seen("ü".repeat(200)), "ü".repeat(128), "two bytes each");
        assert_eq!(seen(format!("a{}", "ü".repeat(200))), format!("a{}", "ü".repeat(127)), "no half character");
        assert_eq!(seen(String::new()), "");
    }
}
