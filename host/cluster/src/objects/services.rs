//! Builds the Services of a group and its PodDisruptionBudget.
use super::{Makers, Size};
use kube::ResourceExt;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tanist_api::spec::ServiceOptions;
use tanist_api::{LABEL_GROUP, LABEL_ROLE, ReplicaGroup};
use tanist_core::membership;

/// The port of a Service when no container names one (row A43), because a Service needs a port.
const DUMMY_PORT: u64 = 12345;

/// The Services: one for the names of members, also before they are ready (row A47), one for primaries and one for secondaries.
pub(super) fn services(group: &ReplicaGroup) -> Vec<Value> {
    let name = group.name_any();
    let ports = ports(group);
    let to = |role: &str, suffix: &str, options: &ServiceOptions| {
        let mut service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": format!("{name}-{suffix}")},
            "spec": {
                "type": options.reach.word(),
                "selector": {LABEL_GROUP: name, LABEL_ROLE: role},
                "ports": ports
            }
        });
        add(&mut service, options);
        service
    };
    let headless = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": true,
            "selector": {LABEL_GROUP: name},
            "ports": ports
        }
    });
    let options = &group.spec.services;
    vec![headless, to("primary", "rw", &options.primary), to("secondary", "ro", &options.secondary)]
}

/// Adds what the user wants of a Service (row E13). What was not asked for is left out, so that others may set it.
fn add(service: &mut Value, options: &ServiceOptions) {
    let given = |all: &BTreeMap<String, String>| (!all.is_empty()).then(|| json!(all));
    let metadata = [("labels", given(&options.labels)), ("annotations", given(&options.annotations))];
    let ranges = &options.load_balancer_source_ranges;
    let spec = [
        ("loadBalancerClass", options.load_balancer_class.as_ref().map(|class| json!(class))),
        ("loadBalancerSourceRanges", (!ranges.is_empty()).then(|| json!(ranges))),
        ("externalTrafficPolicy", options.external_traffic_policy.map(|policy| json!(policy.word()))),
    ];
    for (part, fields) in [("metadata", metadata.to_vec()), ("spec", spec.to_vec())] {
        let Some(part) = service.get_mut(part).and_then(Value::as_object_mut) else { continue };
        part.extend(fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    }
}

/// The budget by which a drain evicts at most one ready member at a time; a member is ready while it serves. Where the members of the application agree, those that are left are
/// a majority of the voters, and of the members that are desired (docs/requirements.md, D25).
pub(super) fn budget(group: &ReplicaGroup, size: Size, makers: Makers) -> Value {
    let name = group.name_any();
    let desired = usize::try_from(size.desired).unwrap_or(usize::MAX);
    let seats = usize::try_from(size.replicas).unwrap_or(usize::MAX);
    // A new member that is still to come in the place of another one is missing to nobody.
    let spare = usize::try_from(size.spare).unwrap_or(usize::MAX);
    let (limit, count) = match (&group.spec.commands.member_list, makers) {
        (Some(_), _) => ("minAvailable", membership::quorum(size.voters.max(desired))),
        // For this limit Kubernetes asks the owner of the pods how many there are, and the scale of a group is `spec.replicas`, which may be another number for long.
        (None, Makers::Operator | Makers::Both) => ("minAvailable", seats.saturating_sub(1).saturating_sub(spare)),
        (None, Makers::Set) => ("maxUnavailable", 1),
    };
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {limit: count, "selector": {"matchLabels": {LABEL_GROUP: name}}}
    })
}

/// The ports of the template's containers: each number once for each protocol, with unique names.
fn ports(group: &ReplicaGroup) -> Vec<Value> {
    let mut numbers = BTreeSet::new();
    let mut names = BTreeSet::new();
    let mut ports = Vec::new();
    let containers = group.spec.template.named("containers");
    for port in containers.filter_map(|(_, container)| container.get("ports")?.as_array()).flatten() {
        let Some(number) = port.get("containerPort").and_then(Value::as_u64) else { continue };
        let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("TCP");
        if !numbers.insert((number, protocol)) {
            continue;
        }
        let own = port.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let plain = format!("{}-{number}", protocol.to_lowercase());
        let free = |name: &String| !name.is_empty() && !names.contains(name);
        let Some(name) = [own, plain.clone(), format!("{plain}-2")].into_iter().find(free) else { continue };
        names.insert(name.clone());
        ports.push(json!({"name": name, "port": number, "targetPort": number, "protocol": protocol}));
    }
    if ports.is_empty() {
        ports.push(json!({"name": "dummy", "port": DUMMY_PORT, "targetPort": DUMMY_PORT, "protocol": "TCP"}));
    }
    ports
}
