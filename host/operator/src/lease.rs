//! Leader election by a Lease: kube 5 has none, and the crates that offer it are not up to date with kube. It prevents that two operators do the
//! same work; it is no fence. What must not happen twice is fenced by resource versions, UIDs and tokens.
mod holder;

use crate::handover::{self, Seen};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};
use std::sync::Arc;
use std::time::Duration;
use tanist_cluster::api_error;
use tokio::time::Instant;

/// How long a holder may be silent (row A51).
pub const DURATION: Duration = Duration::from_secs(15);
/// How long a holder tries to renew before it steps down.
pub const RENEW: Duration = Duration::from_secs(10);
/// How long a process that shuts down tries to release the Lease.
pub const RELEASE: Duration = Duration::from_secs(5);
/// The pause between two attempts to take or renew the Lease.
pub const RETRY: Duration = Duration::from_secs(2);

/// The Lease of one installation.
pub struct Leadership {
    leases: Api<Lease>,
    name: String,
    identity: String,
    seen: Option<(String, Instant)>,
    held: bool,
    pods: Arc<Seen>,
    holders: Api<Pod>,
    pod_uid: Option<String>,
}

/// The result of an attempt to take or renew the Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// This process holds it.
    Held,
    /// Another process, with this name, holds it.
    Other(String),
}

/// What to do with a Lease that was read. A value, so that the decision is tested without a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// Write it with our name.
    Take {
        /// Whether the holder changes, which counts as a transition.
        changes: bool,
    },
    /// Leave it to its holder.
    Leave(String),
}

/// Decides by our own observation, not by the holder's clock: a Lease that we have seen unchanged for its duration is free, as is one whose
/// holder has ended (`ended`).
#[must_use]
pub fn judge(holder: Option<&str>, identity: &str, unchanged_for: Duration, duration: Duration, ended: bool) -> Move {
    match holder {
        None | Some("") => Move::Take { changes: true },
        Some(holder) if holder == identity => Move::Take { changes: false },
        Some(_) if unchanged_for >= duration => Move::Take { changes: true },
        Some(_) if ended => Move::Take { changes: true },
        Some(holder) => Move::Leave(holder.to_owned()),
    }
}

impl Leadership {
    /// The Lease of that name, for a process of that identity. `pods` says what the Lease carries for the next leader.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str, pods: Arc<Seen>) -> Self {
        Leadership {
            leases: Api::namespaced(client.clone(), namespace),
            holders: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity: identity.to_owned(),
            seen: None,
            held: false,
            pods,
            pod_uid: None,
        }
    }

    /// The same for a process in the pod of that UID, whose name is the identity. `None`: it runs in no pod.
    #[must_use]
    pub fn in_pod(self, pod_uid: Option<String>) -> Self {
        Leadership { pod_uid, ..self }
    }

    /// Tries to take or renew it, once.
    ///
    /// # Errors
    /// When the API server cannot be asked. A conflict is no error: another process was faster.
    pub async fn attempt(&mut self) -> kube::Result<Attempt> {
        let Some(mut lease) = self.leases.get_opt(&self.name).await? else {
            let created = self.leases.create(&PostParams::default(), &self.fresh()).await;
            return self.written(created);
        };
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let now = Instant::now();
        let since = match &self.seen {
            Some((seen, since)) if *seen == version => *since,
            _ => {
                self.seen = Some((version, now));
                now
            }
        };
        let unchanged = now.duration_since(since);
        let ended = unchanged >= holder::MISSED && holder::has_ended(&self.holders, &lease).await;
        let spec = lease.spec.get_or_insert_default();
        let duration =
            spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).map_or(DURATION, Duration::from_secs);
        match judge(spec.holder_identity.as_deref(), &self.identity, unchanged, duration, ended) {
            Move::Leave(holder) => Ok(Attempt::Other(holder)),
            Move::Take { changes } => {
                let time = MicroTime(jiff::Timestamp::now());
                if changes {
                    spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(1));
                    spec.acquire_time = Some(time.clone());
                }
                spec.holder_identity = Some(self.identity.clone());
                spec.lease_duration_seconds = i32::try_from(DURATION.as_secs()).ok();
                spec.renew_time = Some(time);
                self.hand_over(&mut lease);
                let replaced = self.leases.replace(&self.name, &PostParams::default(), &lease).await;
                self.written(replaced)
            }
        }
    }

    /// Writes in which pod the holder runs, and how far pods were seen. A process that takes the Lease first takes over what the Lease says, also if it has the holder's name: it
    /// knows nothing of what the holder saw.
    fn hand_over(&self, lease: &mut Lease) {
        let now = std::time::Instant::now();
        if !self.held {
            self.pods.inherit(lease.annotations().get(handover::ANNOTATION).map(String::as_str), now);
        }
        let own = self.pod_uid.as_ref().map(|uid| (holder::ANNOTATION, holder::annotation(&self.identity, uid)));
        let versions = self.pods.annotation(now).map(|versions| (handover::ANNOTATION, versions));
        let notes = own.into_iter().chain(versions).map(|(key, value)| (key.to_owned(), value));
        lease.annotations_mut().extend(notes);
    }

    /// Releases it, so that the next leader need not wait. Tries for at most [`RELEASE`], because the process is to end.
    pub async fn release(&self) {
        let why = match tokio::time::timeout(RELEASE, self.give_up()).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => api_error::words(&error),
            Err(_) => format!("no answer within {} s", RELEASE.as_secs()),
        };
        tracing::warn!(why, "the Lease could not be given up; the next leader waits until it expires");
    }

    async fn give_up(&self) -> kube::Result<()> {
        let Some(mut lease) = self.leases.get_opt(&self.name).await? else { return Ok(()) };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.identity) {
            return Ok(());
        }
        spec.holder_identity = Some(String::new());
        self.leases.replace(&self.name, &PostParams::default(), &lease).await.map(drop)
    }

    /// Returns when this process holds the Lease.
    pub async fn acquire(&mut self) {
        let mut other = String::new();
        loop {
            match tokio::time::timeout(RENEW, self.attempt()).await {
                Ok(Ok(Attempt::Held)) => return,
                Ok(Ok(Attempt::Other(holder))) if holder != other => {
                    tracing::info!(holder, "another operator leads; waiting");
                    other = holder;
                }
                Ok(Ok(Attempt::Other(_))) => {}
                Ok(Err(error)) => tracing::warn!(why = api_error::words(&error), "the Lease could not be read"),
                Err(_) => tracing::warn!("the API server did not answer about the Lease"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Renews the Lease until that fails for too long. Returns why leadership is lost.
    pub async fn hold(&mut self) -> String {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(RETRY).await;
            match tokio::time::timeout(RETRY, self.attempt()).await {
                Ok(Ok(Attempt::Held)) => renewed = Instant::now(),
                Ok(Ok(Attempt::Other(holder))) => return format!("{holder} took the Lease"),
                Ok(Err(error)) => tracing::warn!(why = api_error::words(&error), "the Lease could not be renewed"),
                Err(_) => tracing::warn!("the API server did not answer about the Lease"),
            }
            if renewed.elapsed() >= RENEW {
                return "the Lease could not be renewed".into();
            }
        }
    }

    fn fresh(&self) -> Lease {
        let time = MicroTime(jiff::Timestamp::now());
        Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
                acquire_time: Some(time.clone()),
                renew_time: Some(time),
                lease_transitions: Some(1),
                ..LeaseSpec::default()
            }),
        }
    }

    fn written(&mut self, written: kube::Result<Lease>) -> kube::Result<Attempt> {
        match written {
            Ok(_) => {
                self.held = true;
                Ok(Attempt::Held)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                Ok(Attempt::Other("another process that was faster".into()))
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::{self, Reply};
    use http::Response;
    use kube::client::Body;
    use serde_json::json;

    const NOW: Duration = Duration::ZERO;

    // A51: a Lease is free after 15 s of silence by our own measurement.
    #[test]
    fn a_lease_is_taken_when_free_ours_or_silent() {
        assert_eq!(judge(None, "a", NOW, DURATION, false), Move::Take { changes: true });
        assert_eq!(judge(Some(""), "a", NOW, DURATION, false), Move::Take { changes: true });
        assert_eq!(judge(Some("a"), "a", NOW, DURATION, false), Move::Take { changes: false });
        assert_eq!(
            judge(Some("b"), "a", DURATION - Duration::from_millis(1), DURATION, false),
            Move::Leave("b".into())
        );
        assert_eq!(judge(Some("b"), "a", DURATION, DURATION, false), Move::Take { changes: true });
        assert_eq!(judge(Some("b"), "a", NOW, DURATION, true), Move::Take { changes: true });
    }

    // A51: a holder that missed a renewal and whose pod has ended is not waited for.
    #[tokio::test]
    async fn a_holder_that_has_ended_is_not_waited_for() {
        for (seconds, takes) in [(0, false), (3, false), (4, true)] {
            let (client, asked) = mock::server(|_, path, _| {
                if path.contains("/pods/") {
                    return mock::refusal(404, "NotFound", "no such pod");
                }
                let spec = json!({"holderIdentity": "b", "leaseDurationSeconds": 15});
                let notes = json!({"tanist.dev/holder-pod": "b uid-of-b"});
                Some((
                    200,
                    json!({"metadata": {"name": "l", "resourceVersion": "1", "annotations": notes}, "spec": spec}),
                ))
            });
            let mut ours = Leadership::new(client, "ns", "l", "a", Arc::default()).in_pod(Some("uid-of-a".into()));
            let since = Instant::now().checked_sub(Duration::from_secs(seconds));
            ours.seen = since.map(|since| ("1".into(), since));
            let attempt = ours.attempt().await;
            assert_eq!(matches!(attempt, Ok(Attempt::Held)), takes, "after {seconds} s: {attempt:?}");
            let all = asked.lock().map(|asked| asked.clone()).unwrap_or_default();
            let written = all.iter().find(|(method, _, _)| method == "PUT").map(|(_, _, body)| body);
            let note = written.and_then(|body| body.pointer("/metadata/annotations/tanist.dev~1holder-pod")?.as_str());
            assert_eq!(note, takes.then_some("a uid-of-a"));
        }
    }

    // S28: a Lease is free by how long we have seen it unchanged, whatever the wall clocks of its holder and of ours show.
    #[tokio::test]
    async fn no_clock_but_our_own_steady_one_frees_a_lease() {
        for renewed in ["1970-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"] {
            let client = mock::client("ns", move |request| {
                assert_eq!(request.method(), http::Method::GET, "it is not taken");
                let spec = json!({"holderIdentity": "b", "leaseDurationSeconds": 15, "renewTime": renewed});
                let lease = json!({"metadata": {"name": "l", "resourceVersion": "1"}, "spec": spec});
                Reply::Response(Box::new(Response::new(Body::from(lease.to_string().into_bytes()))))
            });
            let mut ours = Leadership::new(client, "ns", "l", "a", Arc::default());
            for _ in 0..2 {
                assert!(matches!(ours.attempt().await, Ok(Attempt::Other(holder)) if holder == "b"));
            }
        }
    }

    // docs/rules.md, "Over": a process that takes the Lease goes on from what its predecessor left, also one of the same name; a holder goes on from
    // what it saw itself.
    #[tokio::test]
    async fn who_takes_the_lease_goes_on_from_what_it_says() {
        for holder in ["", "a"] {
            let (client, asked) = mock::server(move |_, _, _| {
                let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15});
                let notes = json!({"tanist.dev/pods-seen": "{\"shop\":\"7\"}"});
                Some((
                    200,
                    json!({"metadata": {"name": "l", "resourceVersion": "1", "annotations": notes}, "spec": spec}),
                ))
            });
            let pods = Arc::new(Seen::default());
            pods.note("shop", Some("90"));
            let mut ours = Leadership::new(client, "ns", "l", "a", pods.clone());
            assert!(matches!(ours.attempt().await, Ok(Attempt::Held)));
            pods.inherit(Some(r#"{"shop": "91"}"#), std::time::Instant::now());
            assert!(matches!(ours.attempt().await, Ok(Attempt::Held)));
            let all = asked.lock().map(|asked| asked.clone()).unwrap_or_default();
            let written = all.iter().filter(|(method, _, _)| method == "PUT");
            let versions: Vec<_> = written
                .filter_map(|(_, _, body)| body.pointer("/metadata/annotations/tanist.dev~1pods-seen"))
                .collect();
            assert_eq!(versions, [r#"{"shop":"7"}"#, r#"{"shop":"91"}"#], "the holder was {holder:?}");
        }
    }

    #[test]
    fn a_holder_steps_down_before_anybody_may_take_over() {
        assert!(RENEW + RETRY < DURATION);
    }
}
