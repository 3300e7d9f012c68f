//! What Kubernetes says of a pod that does not start, or that ended.
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// Waiting reasons of containers that are just starting, and are no trouble.
const ON_THEIR_WAY: [&str; 2] = ["PodInitializing", "ContainerCreating"];

/// Why Kubernetes cannot start a pod: no node takes it, a container cannot be made, or one of them ends again and again.
pub(super) fn trouble(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let unscheduled = status.conditions.iter().flatten().find(|c| c.type_ == "PodScheduled" && c.status == "False");
    if let Some(condition) = unscheduled {
        return Some(format!("no node takes it: {}", condition.message.clone().unwrap_or_default()));
    }
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    all.filter_map(|c| Some((&c.name, c.state.as_ref()?.waiting.as_ref()?))).find_map(|(name, waiting)| {
        let reason = waiting.reason.as_deref().filter(|reason| !ON_THEIR_WAY.contains(reason))?;
        let message = waiting.message.as_ref().map(|m| format!(": {m}")).unwrap_or_default();
        Some(format!("container {name}: {reason}{message}"))
    })
}

/// Whether a container of the pod ended last because it needed more memory than it may have.
pub(super) fn lacked_memory(pod: &Pod) -> bool {
    let all = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let ends = |c: &ContainerStatus| [c.state.clone(), c.last_state.clone()].into_iter().flatten();
    let end = |c: &ContainerStatus| ends(c).find_map(|state| state.terminated);
    all.filter_map(end).any(|end| end.reason.as_deref() == Some("OOMKilled"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may")]
    use super::*;
    use serde_json::{Value, json};

    fn trouble_of(status: Value) -> Option<String> {
        let pod = serde_json::from_value(json!({"metadata": {"name": "db-0"}, "status": status}));
        pod.ok().and_then(|pod| trouble(&pod))
    }

    // A missing Secret is reported in the words of Kubernetes; a pod that is starting is no trouble.
    #[test]
    fn why_a_pod_cannot_start_is_said() {
        let waiting = |reason: &str, message: &str| {
            json!([{"name": "db", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": reason, "message": message}}}])
        };
        assert_eq!(trouble_of(json!({"containerStatuses": waiting("PodInitializing", "")})), None);
        let missing = waiting("CreateContainerConfigError", "secret \"db\" not found");
        let said = "container db: CreateContainerConfigError: secret \"db\" not found";
        assert_eq!(trouble_of(json!({"containerStatuses": missing})).as_deref(), Some(said));
        assert_eq!(
            trouble_of(json!({"initContainerStatuses": waiting("ImagePullBackOff", "no")})).as_deref(),
            Some("container db: ImagePullBackOff: no")
        );
        let nowhere =
            json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]);
        assert_eq!(trouble_of(json!({"conditions": nowhere})).as_deref(), Some("no node takes it: 0/3 nodes"));
    }

    // D25: the kernel ended a container, now or before it was started again. Any other end is none of memory.
    #[test]
    fn what_lacked_memory_is_seen() {
        let lacked = |state: Value, last: Value| {
            let status = json!([{"name": "db", "image": "i", "imageID": "", "ready": false, "restartCount": 1,
                "state": state, "lastState": last}]);
            let pod = json!({"metadata": {"name": "db-0"}, "status": {"containerStatuses": status}});
            lacked_memory(&serde_json::from_value(pod).unwrap())
        };
        let ended = |reason: &str| json!({"terminated": {"exitCode": 137, "reason": reason}});
        let runs = || json!({"running": {}});
        assert!(lacked(runs(), ended("OOMKilled")) && lacked(ended("OOMKilled"), json!({})));
        assert!(!lacked(runs(), ended("Error")) && !lacked(runs(), json!({})));
    }
}
