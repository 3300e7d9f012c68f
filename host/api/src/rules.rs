//! The rules by which the API server itself refuses a group, each with a sentence that says what to do.
//!
//! Each row of the table has the field, the expression (CEL) that has to be true, and the message for when it is false. The API server limits the
//! cost of all rules for the largest object that the schema admits, so every list and text that a rule reads is bounded in the schema. A rule sees
//! only fields that the schema names, so immutable fields are named in full.
mod update;

use serde_json::{Map, Value, json};

use super::spec::default;

/// Why the definition cannot be generated. Each is a mistake in this crate, which its tests find.
#[derive(Debug, thiserror::Error)]
pub enum Misfit {
    /// A rule is about a field that the types do not have.
    #[error("failed to find the field {0} that a rule is about")]
    Field(&'static str),
    /// The result is not a valid definition.
    #[error("failed to read the definition back")]
    Form(#[source] serde_json::Error),
}

/// A rule that the API server checks on each write of a group.
struct Rule {
    /// The field it belongs to: names joined by dots, `[]` for the items of a list, empty for the object.
    at: &'static str,
    /// The field below `at` that the user has to change; empty: `at` itself.
    point_to: &'static str,
    /// The expression that has to be true.
    cel: &'static str,
    /// The message of the API server when it is false.
    say: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        at: "",
        point_to: "",
        cel: "self.metadata.name.matches('^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$')",
        say: "metadata.name has to be a DNS label of at most 40 characters (lower-case letters, digits and '-', a letter first): pods, \
              Services and claims are named after it; choose a shorter or plainer name",
    },
    Rule {
        at: "",
        point_to: ".spec.preferredPrimary",
        cel: "!has(self.spec.preferredPrimary) || self.spec.preferredPrimary.startsWith(self.metadata.name + '-')",
        say: "spec.preferredPrimary has to name a member of this group: the group's name, '-' and a number",
    },
    Rule {
        at: "spec",
        point_to: ".primaries",
        cel: "type(self.primaries) == string ? self.primaries == 'All' : \
              (self.primaries >= 0 && self.primaries <= 1000 && \
              (self.replicas == 0 || (self.primaries >= 1 && self.primaries <= self.replicas)))",
        say: "primaries has to be All, or a number from 1 up to replicas; to go down with replicas, lower primaries too; to stop the \
              application, set replicas to 0",
    },
    Rule {
        at: "spec",
        point_to: ".failover.maxBehind",
        cel: "!has(self.failover) || !has(self.failover.maxBehind) || has(self.commands.secondary)",
        say: "failover.maxBehind has no effect without commands.secondary: only a running secondary may take over with less data; remove it, or \
              add the command",
    },
    Rule {
        at: "spec",
        point_to: ".container",
        cel: "!has(self.container) || self.template.spec.containers.exists(c, c.name == self.container)",
        say: "container has to name one of template.spec.containers",
    },
    Rule {
        at: "spec",
        point_to: ".template.spec.shareProcessNamespace",
        cel: "!has(self.commands.primary) || self.runner != 'Injected' || !has(self.template.spec.shareProcessNamespace) || !self.template.spec.shareProcessNamespace",
        say: "template.spec.shareProcessNamespace cannot be true with runner Injected, which has to be process 1 of its container: \
              remove it, or set runner to None",
    },
    Rule {
        at: "spec",
        point_to: ".template.spec.volumes",
        cel: "!has(self.commands.primary) || self.runner != 'Injected' || !has(self.template.spec.volumes) || !self.template.spec.volumes.exists(v, v.name == 'tanist')",
        say: "the volume name tanist is taken by the runner: rename yours, or set runner to None",
    },
    Rule {
        at: "spec",
        point_to: "",
        cel: "!has(self.commands.primary) || self.runner != 'Injected' || (!self.template.spec.containers.exists(c, c.name == 'tanist-run') && \
              (!has(self.template.spec.initContainers) || !self.template.spec.initContainers.exists(c, c.name == 'tanist-run')))",
        say: "the container name tanist-run is taken by the runner: rename yours, or set runner to None",
    },
    Rule {
        at: "spec.commands",
        point_to: ".primary",
        cel: "has(self.sequence) == has(self.primary) && has(self.stop) == has(self.primary)",
        say: "sequence, stop and primary come together: add the missing ones, or remove all three, and the group is active/passive: its members \
              start and stop by themselves, and exactly one of them is active",
    },
    Rule {
        at: "spec.commands",
        point_to: ".primary",
        cel: "has(self.primary) || !(has(self.seed) || has(self.secondary) || has(self.promote) || has(self.follow) || has(self.memberList) || \
              has(self.recover) || has(self.prepared) || has(self.beforeUpdate) || has(self.afterUpdate) || has(self.upgrade) || has(self.wipe))",
        say: "an active/passive group has only the commands status and check: remove the others, or add sequence, stop and primary",
    },
    Rule {
        at: "spec",
        point_to: ".commands.primary",
        cel: "has(self.commands.primary) == has(oldSelf.commands.primary)",
        say: "a group is active/passive for its whole life, or never: create a new group",
    },
    Rule {
        at: "spec",
        point_to: ".primaries",
        cel: "has(self.commands.primary) || (type(self.primaries) == int && self.primaries == 1)",
        say: "primaries has to be 1 in an active/passive group (without commands.primary): exactly one member is active",
    },
    Rule {
        at: "spec",
        point_to: ".clusterState",
        cel: "has(self.commands.primary) || !has(self.clusterState)",
        say: "clusterState has no effect in an active/passive group (without commands.primary), whose members start by themselves: remove it",
    },
    Rule {
        at: "spec.commands",
        point_to: ".memberList",
        cel: "has(self.memberList) == has(self.memberAdd) && has(self.memberList) == has(self.memberRemove) && \
              (!has(self.memberPromote) || has(self.memberList))",
        say: "memberList, memberAdd and memberRemove come together, and memberPromote with them: add the missing ones, or remove all",
    },
    Rule {
        at: "spec.commands",
        point_to: ".recover",
        cel: "!has(self.recover) || has(self.memberList)",
        say: "recover has to be together with memberList, memberAdd and memberRemove: only members that agree can lose their majority; remove it, or \
              add the others",
    },
    Rule {
        at: "spec.commands",
        point_to: ".seed",
        cel: "!has(self.memberList) || has(self.seed)",
        say: "with memberList the command seed has to be there: it alone forms the application's cluster, once, and every other start joins that one",
    },
    Rule {
        at: "spec",
        point_to: ".primaries",
        cel: "!has(self.commands.memberList) || type(self.primaries) == string || (self.primaries == 1 && has(self.commands.secondary))",
        say: "primaries has to be All with commands.memberList, or 1 with commands.secondary: the members of such an application elect who \
              leads, and either each that serves is a primary, or the leader alone",
    },
    Rule {
        at: "spec",
        point_to: ".replicas",
        cel: "!has(self.commands.memberList) || self.replicas <= 64",
        say: "replicas has to be at most 64 with commands.memberList: the members of such an application agree on every write",
    },
    Rule {
        at: "spec",
        point_to: ".replicas",
        cel: "!has(self.scaling.minReplicas) || self.replicas == 0 || self.replicas >= self.scaling.minReplicas",
        say: "replicas has to be at least scaling.minReplicas, or 0 to stop all members: raise it, or lower scaling.minReplicas",
    },
    Rule {
        at: "spec",
        point_to: ".replicas",
        cel: "!has(self.scaling.maxReplicas) || self.replicas <= self.scaling.maxReplicas",
        say: "replicas has to be at most scaling.maxReplicas: lower it, or raise scaling.maxReplicas",
    },
    Rule {
        at: "spec",
        point_to: ".replicas",
        cel: "!self.scaling.odd || self.replicas == 0 || self.replicas % 2 == 1",
        say: "replicas has to be odd, or 0, with scaling.odd: an even number of voters survives no more losses than one less",
    },
    Rule {
        at: "spec",
        point_to: ".replicas",
        cel: "!self.scaling.neverDown || self.replicas >= oldSelf.replicas",
        say: "replicas has to be at least what it was with scaling.neverDown: set scaling.neverDown to false to scale down on purpose",
    },
    Rule {
        at: "spec",
        point_to: ".scaling.volumes",
        cel: "self.scaling.volumes != 'Delete' || has(self.commands.memberList)",
        say: "scaling.volumes can be Delete only with commands.memberList: only where the members agree is it certain that the data of a \
              removed member is not needed any more; set it to Keep",
    },
    Rule {
        at: "spec",
        point_to: ".scaling.volumes",
        cel: "self.scaling.volumes != 'Wipe' || has(self.commands.wipe) && self.runner == 'Injected'",
        say: "scaling.volumes can be Wipe only with commands.wipe, which removes the data of a member that left, and with runner Injected, which looks once more just before: add them, or set volumes to Keep",
    },
    Rule {
        at: "spec.commands",
        point_to: ".wipe",
        cel: "!has(self.wipe) || has(self.memberList)",
        say: "wipe has to be together with memberList, memberAdd and memberRemove: only where the members agree is it certain that the data of a \
              removed member is not needed any more; remove it, or add the others",
    },
    Rule {
        at: "spec.commands",
        point_to: ".fence",
        cel: "!has(self.fence)",
        say: "fence is not supported yet: remove spec.commands.fence; it would not be run, and a takeover waits until it is proven that the \
              old primary has ended",
    },
    Rule {
        // On the field itself: what is stored already is not validated again when something else changes.
        at: "spec.labels",
        point_to: "",
        cel: "self.size() == 0",
        say: "labels was renamed: move its keys to spec.policyLabelKeys, and remove spec.labels",
    },
    Rule {
        at: "spec.runner",
        point_to: "",
        cel: "self == oldSelf",
        say: "runner is immutable: it decides how commands under way are settled; delete the group and create it anew with the other \
              runner (claims and their memory stay)",
    },
    Rule {
        at: "spec.members",
        point_to: ".remove",
        cel: "self.kind == 'Pods' || !has(self.remove) || self.remove.size() == 0",
        say: "members.remove has to be empty unless members.kind is Pods: a StatefulSet removes the highest number only",
    },
    Rule {
        at: "spec.members",
        point_to: ".replaceAfterFailures",
        cel: "self.kind == 'Pods' || !has(self.replaceAfterFailures) || self.replaceAfterFailures == 0",
        say: "members.replaceAfterFailures has to be 0 unless members.kind is Pods: with a StatefulSet delete the claim and the pod of the member that fails, and it gets new ones",
    },
    Rule {
        at: "",
        point_to: ".spec.members.remove",
        // Without the '-' it costs half, and the API server limits that; a name of another group that begins alike names nobody.
        cel: "!has(self.spec.members.remove) || self.spec.members.remove.all(m, m.startsWith(self.metadata.name))",
        say: "spec.members.remove has to name members of this group: the group's name, '-' and a number",
    },
    Rule {
        at: "spec.volumeClaimTemplates",
        point_to: "",
        // Not as one comparison of each pair: the API server limits what a loop in a loop may cost.
        cel: "self.map(t, t.metadata) == oldSelf.map(t, t.metadata) && \
              self.map(t, t.spec.?accessModes) == oldSelf.map(t, t.spec.?accessModes) && \
              self.map(t, t.spec.?dataSource) == oldSelf.map(t, t.spec.?dataSource) && \
              self.map(t, t.spec.?dataSourceRef) == oldSelf.map(t, t.spec.?dataSourceRef) && \
              self.map(t, t.spec.?selector) == oldSelf.map(t, t.spec.?selector) && \
              self.map(t, t.spec.?storageClassName) == oldSelf.map(t, t.spec.?storageClassName) && \
              self.map(t, t.spec.?volumeMode) == oldSelf.map(t, t.spec.?volumeMode) && \
              self.map(t, t.spec.?volumeAttributesClassName) == oldSelf.map(t, t.spec.?volumeAttributesClassName) && \
              self.map(t, t.spec.?volumeName) == oldSelf.map(t, t.spec.?volumeName) && \
              self.map(t, t.spec.?resources.?limits) == oldSelf.map(t, t.spec.?resources.?limits)",
        say: "volumeClaimTemplates is immutable, but for resources.requests.storage, which may grow: create a new group for other volumes",
    },
    Rule {
        // Growth that the storage refused can be taken back to what the claims ask for.
        at: "",
        point_to: ".spec.volumeClaimTemplates",
        cel: "self.spec.volumeClaimTemplates.all(n, oldSelf.spec.volumeClaimTemplates.all(o, n.metadata.name != o.metadata.name || \
              !(has(o.spec.resources) && has(o.spec.resources.requests) && 'storage' in o.spec.resources.requests) || \
              (has(n.spec.resources) && has(n.spec.resources.requests) && 'storage' in n.spec.resources.requests && \
              (quantity(string(n.spec.resources.requests['storage'])).compareTo(quantity(string(o.spec.resources.requests['storage']))) >= 0 || \
              (has(oldSelf.status) && has(oldSelf.status.volumes) && n.metadata.name in oldSelf.status.volumes && \
              quantity(string(n.spec.resources.requests['storage'])).compareTo(quantity(oldSelf.status.volumes[n.metadata.name].requested)) >= 0)))))",
        say: "resources.requests.storage of volumeClaimTemplates has to be at least what it was, because no volume can be made smaller; what the claims \
              ask for (status.volumes) is allowed, too",
    },
    Rule {
        at: "spec.volumeClaimTemplates[].metadata",
        point_to: "",
        cel: "!has(self.labels) || self.labels.all(k, !k.startsWith('tanist.dev/'))",
        say: "labels under tanist.dev/ are reserved: use another prefix",
    },
    Rule {
        at: "spec.volumeClaimTemplates[].metadata",
        point_to: "",
        cel: "!has(self.annotations) || self.annotations.all(k, !k.startsWith('tanist.dev/'))",
        say: "annotations under tanist.dev/ are reserved: use another prefix",
    },
    Rule {
        at: "spec.template.metadata.labels",
        point_to: "",
        cel: "self.all(k, !k.startsWith('tanist.dev/'))",
        say: "labels under tanist.dev/ are reserved: use another prefix; for what policies should see, policy.tanist.dev/",
    },
    Rule {
        at: "spec.template.metadata.annotations",
        point_to: "",
        cel: "self.all(k, !k.startsWith('tanist.dev/'))",
        say: "annotations under tanist.dev/ are reserved: use another prefix; for what policies should see, policy.tanist.dev/",
    },
    Rule {
        at: "spec.services.primary.labels",
        point_to: "",
        cel: "self.all(k, !k.startsWith('tanist.dev/'))",
        say: "labels under tanist.dev/ are reserved: use another prefix",
    },
    Rule {
        at: "spec.services.primary.annotations",
        point_to: "",
        cel: "self.all(k, !k.startsWith('tanist.dev/'))",
        say: "annotations under tanist.dev/ are reserved: use another prefix",
    },
    Rule {
        at: "spec.services.primary",
        point_to: ".type",
        cel: "self.type == 'LoadBalancer' || !(has(self.loadBalancerClass) || has(self.loadBalancerSourceRanges))",
        say: "type has to be LoadBalancer with loadBalancerClass or loadBalancerSourceRanges: change it, or remove them",
    },
    Rule {
        at: "spec.services.primary",
        point_to: ".externalTrafficPolicy",
        cel: "self.type != 'ClusterIP' || !has(self.externalTrafficPolicy)",
        say: "externalTrafficPolicy has no effect with type ClusterIP: remove it, or choose NodePort or LoadBalancer",
    },
    Rule {
        at: "spec.services.secondary.labels",
        point_to: "",
        cel: "self.all(k, !k.startsWith('tanist.dev/'))",
        say: "labels under tanist.dev/ are reserved: use another prefix",
    },
    Rule {
        at: "spec.services.secondary.annotations",
        point_to: "",
        cel: "self.all(k, !k.startsWith('tanist.dev/'))",
        say: "annotations under tanist.dev/ are reserved: use another prefix",
    },
    Rule {
        at: "spec.services.secondary",
        point_to: ".type",
        cel: "self.type == 'LoadBalancer' || !(has(self.loadBalancerClass) || has(self.loadBalancerSourceRanges))",
        say: "type has to be LoadBalancer with loadBalancerClass or loadBalancerSourceRanges: change it, or remove them",
    },
    Rule {
        at: "spec.services.secondary",
        point_to: ".externalTrafficPolicy",
        cel: "self.type != 'ClusterIP' || !has(self.externalTrafficPolicy)",
        say: "externalTrafficPolicy has no effect with type ClusterIP: remove it, or choose NodePort or LoadBalancer",
    },
    Rule {
        at: "spec.scaling",
        point_to: ".minReplicas",
        cel: "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
        say: "minReplicas has to be at most maxReplicas: lower it, or raise maxReplicas",
    },
    Rule {
        at: "spec.clusterState.data[]",
        point_to: "",
        cel: "has(self.value) != has(self.each)",
        say: "a key of clusterState.data has to have exactly one of value and each: keep one of them",
    },
    Rule {
        at: "spec.clusterState.data[]",
        point_to: ".value",
        cel: "!has(self.value) || \
              self.value.matches('^([^$]|[$]+[^$(]|[$]+[(](GROUP|NAMESPACE|UID|STATE|COUNT|NAMES|ADDRESSES)[)])*[$]*$')",
        say: "value has to have only the placeholders $(GROUP), $(NAMESPACE), $(UID), $(STATE), $(COUNT), $(NAMES) and $(ADDRESSES); what is about one member \
              belongs into each",
    },
    Rule {
        at: "spec.clusterState.data[]",
        point_to: ".each",
        cel: "!has(self.each) || self.each.matches('^([^$]|[$]+[^$(]|[$]+[(](NAME|ADDRESS|ORDINAL|ID|GROUP|NAMESPACE|UID|STATE|COUNT|NAMES|ADDRESSES)[)])*[$]*$')",
        say: "each has to have only the placeholders $(NAME), $(ADDRESS), $(ORDINAL), $(ID), $(GROUP), $(NAMESPACE), $(UID), $(STATE), $(COUNT), $(NAMES) and \
              $(ADDRESSES)",
    },
    Rule {
        at: "spec.policies[]",
        point_to: "",
        cel: "[has(self.builtin), has(self.configMap), has(self.file), has(self.image)].filter(source, source).size() == 1",
        say: "a policy comes from exactly one of builtin, configMap, file and image: keep one of them",
    },
];

/// The longest amount of a resource. Kubernetes writes none that is longer.
const AMOUNT: u32 = 64;

/// Completes the schema that the derive generates: no nulls, formats that Kubernetes knows, the defaults of each command, and the rules.
///
/// # Errors
/// When a rule is about a field that is not there.
pub(super) fn apply(schema: &mut Value) -> Result<(), Misfit> {
    tidy(schema);
    // Rules compare these amounts.
    field(schema, "spec.volumeClaimTemplates[].spec.resources.requests")
        .and_then(|requests| requests.get_mut("additionalProperties")?.as_object_mut())
        .ok_or(Misfit::Field("requests"))?
        .insert("maxLength".into(), AMOUNT.into());
    for rule in RULES.iter().chain(update::RULES) {
        add(schema, rule.at, rule.point_to, rule.cel.to_owned(), rule.say.to_owned())?;
    }
    let (cel, say) = update::in_place();
    add(schema, "spec", ".commands", cel, say)?;
    let commands: Vec<String> = field(schema, "spec.commands")
        .and_then(|commands| commands.get("properties")?.as_object())
        .map(|commands| commands.keys().cloned().collect())
        .ok_or(Misfit::Field("spec.commands"))?;
    for name in &commands {
        add(
            schema,
            "spec",
            &format!(".commands.{name}.container"),
            format!(
                "!has(self.commands.{name}) || !has(self.commands.{name}.container) || \
                 self.template.spec.containers.exists(c, c.name == self.commands.{name}.container)"
            ),
            format!("commands.{name}.container has to name one of template.spec.containers"),
        )?;
        let seconds = match name.as_str() {
            "status" => default::STATUS_TIMEOUT,
            "memberList" | "check" | "prepared" | "beforeUpdate" | "afterUpdate" => default::LIST_TIMEOUT,
            _ => default::TIMEOUT,
        };
        field(schema, &format!("spec.commands.{name}.timeoutSeconds"))
            .ok_or(Misfit::Field("timeoutSeconds"))?
            .insert("default".into(), seconds.into());
    }
    Ok(())
}

/// Adds one rule.
fn add(schema: &mut Value, at: &'static str, point_to: &str, cel: String, say: String) -> Result<(), Misfit> {
    let field = field(schema, at).ok_or(Misfit::Field(at))?;
    if let Value::Array(rules) = field.entry("x-kubernetes-validations").or_insert_with(|| json!([])) {
        let mut rule = json!({"rule": cel, "message": say});
        if let (false, Some(rule)) = (point_to.is_empty(), rule.as_object_mut()) {
            rule.insert("fieldPath".into(), point_to.into());
        }
        rules.push(rule);
    }
    Ok(())
}

/// The schema of a field.
fn field<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Map<String, Value>> {
    let mut at = schema;
    for segment in path.split('.').filter(|segment| !segment.is_empty()) {
        let (name, items) = segment.strip_suffix("[]").map_or((segment, false), |name| (name, true));
        at = at.get_mut("properties")?.get_mut(name)?;
        if items {
            at = at.get_mut("items")?;
        }
    }
    at.as_object_mut()
}

/// Turns whole numbers into integers: `86400`, not `86400.0`.
pub(super) fn whole(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|n| number.is_f64() && n.fract() == 0.0 && n.abs() < 1e15) {
                *value = json!(whole as i64);
            }
        }
        Value::Object(object) => object.values_mut().for_each(whole),
        Value::Array(list) => list.iter_mut().for_each(whole),
        _ => {}
    }
}

/// Removes `nullable`, so that a null is a missing field and not a third state that every rule would have to know, and puts the formats
/// that Kubernetes knows in place of those it warns about.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("nullable") == Some(&Value::Bool(true)) {
                object.remove("nullable");
            }
            match object.get("format").and_then(Value::as_str) {
                Some("uint32") => drop(object.insert("format".into(), "int32".into())),
                Some("uint64") => drop(object.insert("format".into(), "int64".into())),
                _ => {}
            }
            // Line breaks of a comment in the source must not appear in `kubectl explain`.
            if let Some(Value::String(text)) = object.get_mut("description") {
                let paragraphs: Vec<String> = text.split("\n\n").map(|lines| lines.replace('\n', " ")).collect();
                *text = paragraphs.join("\n\n");
            }
            object.values_mut().for_each(tidy);
        }
        Value::Array(list) => list.iter_mut().for_each(tidy),
        _ => {}
    }
}
