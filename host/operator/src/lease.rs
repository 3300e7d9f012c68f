//! Leader election by a Lease: kube 5 has none, and the crates that offer it are not up to date with kube. It prevents that two operators do the
//! same work; it is no fence. What must not happen twice is fenced by resource versions, UIDs and tokens.
#![expect(clippy::disallowed_methods, reason = "`acquire`, `hold` and `release` have the deadlines")]
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
/// How long one attempt to renew it may take. A slow API server, on a machine that is out of processors for some seconds, must not cost the leadership.
pub const ATTEMPT: Duration = Duration::from_secs(5);

/// The Lease of one installation.
pub struct Leadership {
    leases: Api<Lease>,
    name: String,
    identity: String,
    seen: Option<(String, Instant)>,
    held: bool,
    /// What this process wrote last: a renewal needs no read before it.
    last: Option<Lease>,
    /// When the attempt began with which this process wrote it last: others measure from the write, which is later.
    renewed: Instant,
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
    /// It was changed since it was read: by another process, or by a write of our own that was late.
    Changed,
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
            last: None,
            renewed: Instant::now(),
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
    /// When the API server cannot be asked. A conflict is no error: [`Attempt::Changed`].
    pub async fn attempt(&mut self) -> kube::Result<Attempt> {
        if let Some(lease) = self.last.take() {
            match self.write(lease, false).await {
                // Somebody else changed or deleted it: it has to be read.
                Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => {}
                renewed => return self.written(renewed),
            }
        }
        let Some(lease) = self.leases.get_opt(&self.name).await? else {
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
        let spec = lease.spec.as_ref();
        let duration =
            spec.and_then(|s| u64::try_from(s.lease_duration_seconds?).ok()).map_or(DURATION, Duration::from_secs);
        let holder = spec.and_then(|s| s.holder_identity.as_deref());
        match judge(holder, &self.identity, unchanged, duration, ended) {
            Move::Leave(holder) => Ok(Attempt::Other(holder)),
            Move::Take { changes } => {
                let replaced = self.write(lease, changes).await;
                self.written(replaced)
            }
        }
    }

    /// Writes this Lease with our name, if nobody changed it since.
    async fn write(&self, mut lease: Lease, changes: bool) -> kube::Result<Lease> {
        let spec = lease.spec.get_or_insert_default();
        let time = MicroTime(jiff::Timestamp::now());
        if changes {
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(1));
            spec.acquire_time = Some(time.clone());
        }
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = i32::try_from(DURATION.as_secs()).ok();
        spec.renew_time = Some(time);
        self.hand_over(&mut lease);
        self.leases.replace(&self.name, &PostParams::default(), &lease).await
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
        loop {
            let Some(mut lease) = self.leases.get_opt(&self.name).await? else { return Ok(()) };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() != Some(&self.identity) {
                return Ok(());
            }
            spec.holder_identity = Some(String::new());
            match self.leases.replace(&self.name, &PostParams::default(), &lease).await {
                // A renewal of our own was late.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                written => return written.map(drop),
            }
        }
    }

    /// Returns when this process holds the Lease.
    pub async fn acquire(&mut self) {
        let mut other = String::new();
        loop {
            let began = Instant::now();
            match tokio::time::timeout(RENEW, self.attempt()).await {
                Ok(Ok(Attempt::Held)) => {
                    self.renewed = began;
                    return;
                }
                Ok(Ok(Attempt::Other(holder))) if holder != other => {
                    tracing::info!(holder, "another operator leads; waiting");
                    other = holder;
                }
                Ok(Ok(Attempt::Other(_) | Attempt::Changed)) => {}
                Ok(Err(error)) => tracing::warn!(why = api_error::words(&error), "the Lease could not be read"),
                Err(_) => tracing::warn!("the API server did not answer about the Lease"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Renews the Lease until that fails for too long. Returns why leadership is lost.
    pub async fn hold(&mut self) -> String {
        let mut began = self.renewed;
        loop {
            // A slow attempt is followed by the next one at once.
            tokio::time::sleep_until(began + RETRY).await;
            began = Instant::now();
            let until = (began + ATTEMPT).min(self.renewed + RENEW);
            match tokio::time::timeout_at(until, self.attempt()).await {
                Ok(Ok(Attempt::Held)) => self.renewed = began,
                Ok(Ok(Attempt::Other(holder))) => return format!("{holder} took the Lease"),
                Ok(Ok(Attempt::Changed)) => {}
                Ok(Err(error)) => tracing::warn!(why = api_error::words(&error), "the Lease could not be renewed"),
                Err(_) => tracing::warn!("the API server did not answer about the Lease"),
            }
            if self.renewed.elapsed() >= RENEW {
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
            Ok(lease) => {
                self.held = true;
                self.last = Some(lease);
                Ok(Attempt::Held)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Attempt::Changed),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
