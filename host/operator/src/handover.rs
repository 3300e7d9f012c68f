//! What an operator tells the one that leads after it: up to which version it has seen the pods of each namespace.
//!
//! The last phase of a pod proves its end (docs/rules.md, "Over"), and a moment later the pod is gone. Only a watch shows that phase, and only the
//! process that watched remembers it until a round has written the record. So the Lease has an annotation with a version from before, and the process
//! that takes the Lease reads the changes of pods from that version on. The API server keeps changes for 75 s at least; later, or after a restart
//! of the API server, they cannot be read any more, and the node has to prove the end (docs/decisions/0015-handover.md).
#![expect(clippy::disallowed_methods, reason = "`read_namespace` has the deadline")]
use crate::context::Context;
use crate::run::pod_changed;
use futures::future::join_all;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::core::WatchEvent;
use kube::core::params::WatchParams;
use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tanist_api as api;
use tanist_cluster::api_error;
use tracing::{info, warn};

/// The annotation of the Lease: a JSON object with a version of pods for each namespace.
pub const ANNOTATION: &str = "tanist.dev/pods-seen";

/// How old the version in the Lease is at least: longer than it takes from the end of a pod to the record in which that end is used, where reads
/// take up to 20 s. It has to be well below the 75 s for which an API server keeps changes, as does the sum with the time without an operator.
const LAG: Duration = Duration::from_secs(20);

/// Versions that follow each other faster than this are not kept: it bounds the list to [`LAG`] divided by this.
const APART: Duration = Duration::from_secs(1);

/// How long the new leader reads. Changes that the API server still has come at once; the rest of the time is for one that does not answer yet.
const READ: Duration = Duration::from_secs(10);

/// The pause before a read that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Up to which version this process has seen pods, by namespace.
#[derive(Debug, Default)]
pub struct Seen {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    notes: BTreeMap<String, VecDeque<Note>>,
    inherited: BTreeMap<String, String>,
}

/// The version of a list of pods, and when it was read.
#[derive(Debug)]
struct Note {
    version: String,
    at: Instant,
}

impl Seen {
    /// A round has read the pods of that namespace; the list had that version.
    pub fn note(&self, namespace: &str, version: Option<&str>) {
        if let Some(version) = version.filter(|version| !version.is_empty()) {
            self.note_at(namespace, version, Instant::now());
        }
    }

    fn note_at(&self, namespace: &str, version: &str, at: Instant) {
        let mut state = self.lock();
        let notes = state.notes.entry(namespace.to_owned()).or_default();
        if notes.back().is_none_or(|last| at.saturating_duration_since(last.at) >= APART) {
            notes.push_back(Note { version: version.to_owned(), at });
        }
        drop_passed(notes, at);
    }

    /// This process takes the Lease from another one, or from its own predecessor, whose annotation was this. It goes on from there: its own first
    /// version may be later than the end of a pod that neither of them has recorded.
    pub fn inherit(&self, annotation: Option<&str>, at: Instant) {
        let Some(versions) = annotation.and_then(|text| serde_json::from_str::<BTreeMap<String, String>>(text).ok())
        else {
            return;
        };
        let mut state = self.lock();
        for (namespace, version) in &versions {
            let first = Note { version: version.clone(), at };
            state.notes.insert(namespace.clone(), VecDeque::from([first]));
        }
        state.inherited = versions;
    }

    /// The annotation to write: the newest versions that are old enough, or the oldest. `None`: nothing has been read yet.
    #[must_use]
    pub fn annotation(&self, now: Instant) -> Option<String> {
        let mut state = self.lock();
        state.notes.values_mut().for_each(|notes| drop_passed(notes, now));
        let versions: BTreeMap<&String, &String> =
            state.notes.iter().filter_map(|(namespace, notes)| Some((namespace, &notes.front()?.version))).collect();
        (!versions.is_empty()).then(|| serde_json::to_string(&versions).ok()).flatten()
    }

    fn inherited(&self) -> BTreeMap<String, String> {
        self.lock().inherited.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic under the lock versions may be missing, which costs time and not safety.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops the notes before the newest one that is old enough.
fn drop_passed(notes: &mut VecDeque<Note>, now: Instant) {
    while notes.get(1).is_some_and(|next| now.saturating_duration_since(next.at) >= LAG) {
        notes.pop_front();
    }
}

/// Reads how pods ended since the version that the previous leader left, in every namespace of this operator. Each end starts a round of its group.
pub async fn read_on(ctx: &Context) {
    let watched = |namespace: &String| ctx.settings.namespaces.contains(namespace);
    let left = ctx.seen.inherited().into_iter().filter(|(namespace, _)| watched(namespace));
    join_all(left.map(|(namespace, version)| read_namespace(ctx, namespace, version))).await;
}

async fn read_namespace(ctx: &Context, namespace: String, version: String) {
    let until = tokio::time::Instant::now() + READ;
    loop {
        let why = match tokio::time::timeout_at(until, changes(ctx, &namespace, &version)).await {
            Ok(Ok(())) | Err(_) => return,
            Ok(Err(kube::Error::Api(status))) if status.code == 410 => {
                info!(namespace, "the API server has no changes of pods from before this operator led any more");
                return;
            }
            Ok(Err(error)) => api_error::words(&error),
        };
        warn!(namespace, why, "the changes of pods from before this operator led could not be read");
        if tokio::time::Instant::now() + AGAIN >= until {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Reads the changes of pods from a version on, until the API server ends the watch.
async fn changes(ctx: &Context, namespace: &str, version: &str) -> kube::Result<()> {
    let pods: Api<Pod> = Api::namespaced(ctx.exec_client.clone(), namespace);
    let seconds = u32::try_from(READ.as_secs()).unwrap_or(u32::MAX);
    let params = WatchParams::default().labels(api::LABEL_GROUP).timeout(seconds);
    let mut events = pin!(pods.watch(&params, version).await?.into_stream());
    while let Some(event) = events.next().await {
        match event? {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => {
                pod_changed(ctx, namespace, &pod);
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may")]
    use super::*;
    use crate::mock::{self, Reply};
    use http::Response;
    use kube::client::Body;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn annotation(versions: Value) -> Option<String> {
        Some(versions.to_string())
    }

    // docs/rules.md, "Over": what this process saw within the last seconds may not be in the record yet.
    #[test]
    fn the_version_in_the_lease_lies_behind() {
        let (seen, start) = (Seen::default(), Instant::now());
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(seen.annotation(start), None);
        seen.note_at("shop", "100", start);
        assert_eq!(seen.annotation(start), annotation(json!({"shop": "100"})), "there is no older one");
        for second in 1..=30 {
            seen.note_at("shop", &(100 + second).to_string(), after(second));
        }
        assert_eq!(seen.annotation(after(30)), annotation(json!({"shop": "110"})));
        assert_eq!(seen.annotation(after(45)), annotation(json!({"shop": "125"})), "also without another round");
        assert_eq!(seen.annotation(after(4500)), annotation(json!({"shop": "130"})));
    }

    #[test]
    fn a_burst_of_rounds_is_one_note() {
        let (seen, start) = (Seen::default(), Instant::now());
        for millis in 0..5000 {
            seen.note_at("shop", &millis.to_string(), start + Duration::from_millis(millis));
        }
        assert_eq!(seen.lock().notes.get("shop").map(VecDeque::len), Some(5));
    }

    // S1: a second process that is killed at once leaves what the first one left.
    #[test]
    fn what_was_left_stays_until_it_is_old_enough() {
        let (seen, start) = (Seen::default(), Instant::now());
        seen.inherit(Some(r#"{"shop": "7"}"#), start);
        seen.note_at("shop", "90", start + Duration::from_secs(2));
        assert_eq!(seen.annotation(start + Duration::from_secs(21)), annotation(json!({"shop": "7"})));
        assert_eq!(seen.annotation(start + Duration::from_secs(22)), annotation(json!({"shop": "90"})));
        seen.inherit(Some("not JSON"), start);
        seen.inherit(None, start);
        assert_eq!(seen.inherited(), BTreeMap::from([("shop".to_owned(), "7".to_owned())]));
    }

    /// A context whose API server gives these lines to each watch, and the queries that it got.
    fn serving(code: u16, lines: &[Value]) -> (Arc<Context>, Arc<Mutex<Vec<String>>>) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let queries = asked.clone();
        let client = mock::client("shop", move |request| {
            queries.lock().unwrap().push(request.uri().to_string());
            let body = Body::from(text.clone().into_bytes());
            Reply::Response(Box::new(Response::builder().status(code).body(body).unwrap()))
        });
        let (ctx, _) = mock::context(client, &[]);
        (ctx, asked)
    }

    fn pod(uid: &str, phase: &str, state: Value) -> Value {
        let statuses =
            json!([{"name": "db", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state}]);
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "uid": uid, "labels": {api::LABEL_GROUP: "db"}},
            "status": {"phase": phase, "containerStatuses": statuses}
        })
    }

    // docs/rules.md, "Over": a pod that ended and was removed while no operator led is proven over by what the API server still tells of it. A pod that
    // was removed while it ran is not.
    #[tokio::test]
    async fn an_end_that_nobody_saw_is_read_afterwards() {
        let ended = pod("ended", "Succeeded", json!({"terminated": {"exitCode": 0}}));
        let forced = pod("forced", "Running", json!({"running": {}}));
        let lines = [json!({"type": "DELETED", "object": forced}), json!({"type": "DELETED", "object": ended})];
        let (ctx, asked) = serving(200, &lines);
        ctx.seen.inherit(Some(r#"{"shop": "7", "elsewhere": "8"}"#), Instant::now());
        read_on(&ctx).await;
        assert!(ctx.rounds.hints.has_ended("ended") && !ctx.rounds.hints.has_ended("forced"));
        let asked = asked.lock().unwrap().clone();
        assert!(
            matches!(&*asked, [one] if one.contains("/namespaces/shop/pods?") && one.contains("resourceVersion=7")),
            "{asked:?}"
        );
    }

    // Nothing to go on from: the node has to prove the end, as before.
    #[tokio::test]
    async fn changes_that_are_gone_are_not_asked_for_again() {
        let expired = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "too old", "reason": "Expired", "code": 410});
        for (code, line) in [(410, expired.clone()), (200, json!({"type": "ERROR", "object": expired}))] {
            let (ctx, asked) = serving(code, &[line]);
            read_on(&ctx).await;
            assert!(asked.lock().unwrap().is_empty(), "the first leader has nothing to read");
            ctx.seen.inherit(Some(r#"{"shop": "7"}"#), Instant::now());
            read_on(&ctx).await;
            assert_eq!(asked.lock().unwrap().len(), 1, "{code}");
        }
    }

    // A group's first round waits for this, so an API server that is silent holds it up only for a while.
    #[tokio::test(start_paused = true)]
    async fn a_silent_api_server_is_not_waited_for() {
        let (ctx, _) = mock::context(mock::client("shop", |_| Reply::Never), &[]);
        ctx.seen.inherit(Some(r#"{"shop": "7"}"#), Instant::now());
        let began = tokio::time::Instant::now();
        read_on(&ctx).await;
        assert_eq!(began.elapsed(), READ);
    }

    // A connection that breaks is made again, until the time is over.
    #[tokio::test(start_paused = true)]
    async fn changes_that_cannot_be_read_are_asked_for_again_for_a_while() {
        let asked = Arc::new(Mutex::new(0));
        let count = asked.clone();
        let client = mock::client("shop", move |_| {
            *count.lock().unwrap() += 1;
            Reply::Broken
        });
        let (ctx, _) = mock::context(client, &[]);
        ctx.seen.inherit(Some(r#"{"shop": "7"}"#), Instant::now());
        let began = tokio::time::Instant::now();
        read_on(&ctx).await;
        assert!(began.elapsed() < READ && began.elapsed() + AGAIN >= READ, "{:?}", began.elapsed());
        assert!(*asked.lock().unwrap() > 5, "{asked:?}");
    }
}
