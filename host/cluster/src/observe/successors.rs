//! Finds the members in whose place others have to come, because of what changed in `spec.template` (`spec.update.replaceWhen`, row B7). Each compares what the template asks for with what the pod was made with,
//! so what the cluster added to the pod by itself is no change.
use super::quantity;
use k8s_openapi::api::core::v1::{Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;
use tanist_api::ReplicaGroup;
use tanist_api::spec::ReplaceWhen;

/// What is compared.
const REQUESTS: [&str; 2] = ["cpu", "memory"];

/// Whether a new pod under the same name and on the same volumes would not do.
pub(super) fn needs_new_member(pod: &Pod, group: &ReplicaGroup) -> bool {
    let (Some(spec), Some(desired)) = (&pod.spec, group.spec.template.0.get("spec")) else { return false };
    group.spec.update.replace_when.iter().any(|when| match when {
        ReplaceWhen::NodeSelector => is_elsewhere(spec, desired),
        ReplaceWhen::ResourceRequests => REQUESTS.iter().any(|resource| asks_for_more(spec, desired, resource)),
    })
}

/// Whether the pod was to run on nodes that the template excludes now. Volumes may be bound to them.
fn is_elsewhere(pod: &PodSpec, desired: &Value) -> bool {
    let own = pod.node_selector.as_ref();
    let selector = desired.get("nodeSelector").and_then(Value::as_object).into_iter().flatten();
    selector.into_iter().any(|(label, value)| own.and_then(|own| own.get(label)).map(String::as_str) != value.as_str())
}

/// Whether the template's containers ask for more in all than they did when the pod was made.
fn asks_for_more(pod: &PodSpec, desired: &Value, resource: &str) -> bool {
    let desired: BTreeMap<String, u128> = containers(desired).filter_map(|c| requested(c, resource)).collect();
    let known = pod.containers.iter().filter(|container| desired.contains_key(&container.name));
    let had: u128 = known.filter_map(|c| made_with(c.resources.as_ref()?, resource)).sum();
    desired.values().sum::<u128>() > had
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    spec.get("containers").and_then(Value::as_array).into_iter().flatten()
}

/// The name of a container of the template, and how much it asks for: without a request its limit, as the API server has it.
fn requested(container: &Value, resource: &str) -> Option<(String, u128)> {
    let resources = container.get("resources");
    let of = |kind: &str| resources?.get(kind)?.get(resource);
    let amount = match of("requests").or_else(|| of("limits")) {
        Some(Value::String(text)) => quantity::thousandths(text)?,
        Some(number) => quantity::thousandths(&number.to_string())?,
        None => 0,
    };
    Some((container.get("name")?.as_str()?.to_owned(), amount))
}

fn made_with(resources: &ResourceRequirements, resource: &str) -> Option<u128> {
    let of = |all: &Option<BTreeMap<String, Quantity>>| all.as_ref()?.get(resource).cloned();
    quantity::thousandths(&of(&resources.requests).or_else(|| of(&resources.limits))?.0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;
    use serde_json::json;

    fn group(template: Value, when: &[&str]) -> ReplicaGroup {
        let command = |name: &str| json!({"exec": [name]});
        let commands =
            json!({"status": command("s"), "sequence": command("q"), "stop": command("t"), "primary": command("p")});
        let spec = json!({"replicas": 1, "primaries": 1, "template": {"spec": template}, "commands": commands, "update": {"replaceWhen": when}});
        serde_json::from_value(json!({"apiVersion": "tanist.dev/v1alpha1", "kind": "ReplicaGroup", "metadata": {"name": "db"}, "spec": spec}))
            .unwrap()
    }

    fn pod(spec: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "db-0"}, "spec": spec})).unwrap()
    }

    // B7: a node that the template excludes now; labels that the cluster added, or that the template does not ask for any more, move nobody.
    #[test]
    fn a_node_selector_that_excludes_the_pods_node_calls_for_a_new_member() {
        let own = pod(json!({"nodeSelector": {"disk": "hdd", "added": "by-the-cluster"}, "containers": []}));
        let needs =
            |selector: Value, when: &[&str]| needs_new_member(&own, &group(json!({"nodeSelector": selector}), when));
        assert!(needs(json!({"disk": "ssd"}), &["NodeSelector"]));
        assert!(needs(json!({"disk": "hdd", "zone": "a"}), &["NodeSelector"]));
        assert!(!needs(json!({"disk": "hdd"}), &["NodeSelector"]));
        assert!(!needs(Value::Null, &["NodeSelector"]));
        assert!(!needs(json!({"disk": "ssd"}), &["ResourceRequests"]), "it was not asked for");
        assert!(!needs(json!({"disk": "ssd"}), &[]));
        let bare = pod(json!({"containers": []}));
        assert!(needs_new_member(&bare, &group(json!({"nodeSelector": {"disk": "ssd"}}), &["NodeSelector"])));
    }

    // B7: requests are compared, as sums over the containers; what gets smaller fits where the pod is.
    #[test]
    fn larger_requests_call_for_a_new_member() {
        let container = |name: &str, resources: Value| json!({"name": name, "resources": resources});
        let asks = |cpu: Value| json!({"requests": {"cpu": cpu}});
        let own = pod(
            json!({"containers": [container("db", asks(json!("500m"))), container("log", asks(json!("0.5"))), container("sidecar", asks(json!("4")))]}),
        );
        let needs = |of: &[Value]| needs_new_member(&own, &group(json!({"containers": of}), &["ResourceRequests"]));
        assert!(!needs(&[container("db", asks(json!("500m"))), container("log", asks(json!("500m")))]));
        assert!(needs(&[container("db", asks(json!("501m"))), container("log", asks(json!("500m")))]));
        assert!(
            !needs(&[container("db", asks(json!("900m"))), container("log", asks(json!("100m")))]),
            "the sum is the same"
        );
        assert!(!needs(&[container("db", asks(json!("100m"))), container("log", json!({}))]), "less");
        assert!(needs(&[container("db", asks(json!(2))), container("log", json!({}))]), "a number is an amount, too");
        assert!(
            needs(&[container("db", asks(json!("500m"))), container("log", json!({"limits": {"cpu": "1"}}))]),
            "a limit is a request"
        );
        assert!(
            !needs(&[container("db", json!({"limits": {"nvidia.com/gpu": "1"}}))]),
            "other resources are not compared"
        );
        assert!(needs(&[container("db", json!({"requests": {"memory": "1Gi"}}))]), "there was none before");
    }
}
