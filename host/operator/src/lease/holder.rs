//! Whether the process that holds the Lease has ended, by what the API server shows of its pod. Then nobody waits until the Lease expires.
//!
//! The Lease is no fence (docs/decisions/0003-own-lease-loop.md), so this is no proof on which data depends. A pod that is gone may still run for
//! some seconds after a forced deletion; the silence of [`MISSED`] is required as well, and a holder that wakes up sees the new one and ends.
#![expect(clippy::disallowed_methods, reason = "an attempt to take the Lease has the deadline")]
use super::RETRY;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use std::time::Duration;
use tracing::debug;

/// The annotation of the Lease: name and UID of the holder's pod. An operator that does not know its pod, or is older, leaves a name that is not the
/// holder's, or nothing: then its pod proves nothing.
pub const ANNOTATION: &str = "tanist.dev/holder-pod";

/// How long the holder has to be silent: it renews every [`RETRY`] where the API server answers at once.
pub const MISSED: Duration = RETRY.saturating_mul(2);

/// The text of [`ANNOTATION`].
#[must_use]
pub fn annotation(name: &str, uid: &str) -> String {
    format!("{name} {uid}")
}

/// Whether the pod of the holder is gone, was replaced, or runs no container. False if that cannot be read.
pub async fn has_ended(pods: &Api<Pod>, lease: &Lease) -> bool {
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
    let known = lease.annotations().get(ANNOTATION).and_then(|text| text.split_once(' '));
    let Some((_, uid)) = known.filter(|(name, uid)| !name.is_empty() && *name == holder && !uid.is_empty()) else {
        return false;
    };
    match pods.get_opt(holder).await {
        Ok(None) => true,
        Ok(Some(pod)) => pod.uid().as_deref() != Some(uid) || runs_nothing(&pod),
        Err(error) => {
            debug!(%error, holder, "the pod that holds the Lease could not be read");
            false
        }
    }
}

/// Whether every container of the pod has ended. A pod on a node that does not report seems to run on.
fn runs_nothing(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let mut containers = status.container_statuses.iter().flatten().peekable();
    let known = containers.peek().is_some();
    known && containers.all(|c| c.state.as_ref().is_some_and(|state| state.running.is_none()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may")]
    use super::*;
    use crate::mock;
    use serde_json::{Value, json};

    fn lease(holder: &str, note: Option<&str>) -> Lease {
        let notes = note.map(|note| json!({ANNOTATION: note}));
        let lease = json!({"metadata": {"name": "l", "annotations": notes}, "spec": {"holderIdentity": holder}});
        serde_json::from_value(lease).unwrap()
    }

    fn pod(uid: &str, state: Value) -> Value {
        let statuses =
            json!([{"name": "tanist", "image": "i", "imageID": "", "ready": false, "restartCount": 1, "state": state}]);
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": uid}, "status": {"containerStatuses": statuses}})
    }

    async fn ended(lease: &Lease, code: u16, pod: Value) -> bool {
        let (client, _) = mock::server(move |_, path, _| {
            assert_eq!(path, "/api/v1/namespaces/system/pods/p");
            Some((code, pod.clone()))
        });
        has_ended(&Api::namespaced(client, "system"), lease).await
    }

    // A51: what ended holds nothing; whatever may run, or cannot be read, is waited for.
    #[tokio::test]
    async fn a_holder_has_ended_when_its_own_pod_says_so() {
        let held = lease("p", Some("p u"));
        let gone = mock::refusal(404, "NotFound", "no such pod").unwrap();
        assert!(ended(&held, gone.0, gone.1.clone()).await, "gone");
        assert!(ended(&held, 200, pod("other", json!({"running": {}}))).await, "replaced");
        assert!(ended(&held, 200, pod("u", json!({"terminated": {"exitCode": 137}}))).await, "killed");
        let waits = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        assert!(ended(&held, 200, pod("u", waits)).await, "waits for its restart");
        assert!(!ended(&held, 200, pod("u", json!({"running": {}}))).await, "it runs");
        assert!(!ended(&held, 200, json!({"metadata": {"name": "p", "uid": "u"}})).await, "nothing is known of it");
        let forbidden = mock::refusal(403, "Forbidden", "may not").unwrap();
        assert!(!ended(&held, forbidden.0, forbidden.1).await, "it cannot be read");
        for unknown in [lease("p", None), lease("p", Some("q u")), lease("p", Some("p ")), lease("", Some(" u"))] {
            assert!(!ended(&unknown, gone.0, gone.1.clone()).await, "no pod is known: {unknown:?}");
        }
    }
}
