//! Finds pods that the `StatefulSet` could not create, and why Kubernetes refuses them. The refusal of a quota, of Pod Security or of a webhook
//! shows only in an event of the set.
use crate::context::Context;
use k8s_openapi::api::core::v1::Event;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tanist_core::contract::{MemberName, Timestamp};
use tanist_core::record::Record;
use tanist_core::roster::Roster;
use tanist_core::snapshot::{Group, Member, Missing, Set};

/// Seconds for which a pod has to be missing before events are read. While pods are merely replaced, none are.
const SUSPICIOUS: i64 = 3;

/// Deadline of reading the events. A round goes on without them.
const READ: Duration = Duration::from_secs(2);

/// Seconds after which a refusal counts as outdated if it was not repeated. The longest back-off of the controller is 1,000 seconds, and a
/// refusal that persists is written as an event at least every five minutes.
const CURRENT: i64 = 1_200;

/// The members without a pod that the set should have created, with the cause. Without the right to list events the cause is unknown.
pub async fn uncreated(
    ctx: &Context,
    group: &Group,
    set: &Set,
    members: &[Member],
    record: &Record,
    now: Timestamp,
) -> BTreeMap<MemberName, Missing> {
    let roster = Roster::new(group, Some(set), record);
    let without = members.iter().filter(|m| m.pod.is_none() && roster.is_made(m));
    let names: Vec<String> = without.map(|m| m.name.to_string()).collect();
    let mut missing: BTreeMap<MemberName, Missing> = ctx.hints.with_group(&group.uid, |h| {
        h.missing.retain(|name, _| names.contains(name));
        let since = names.into_iter().map(|name| {
            let since = *h.missing.entry(name.clone()).or_insert(now);
            (MemberName::from(name), Missing { since, refused: None })
        });
        since.collect()
    });
    if missing.values().any(|m| now.saturating_sub(m.since) >= SUSPICIOUS) {
        for (name, why) in refusals(events(ctx, &group.namespace, &set.uid).await.iter().map(|event| &**event), now) {
            if let Some(missing) = missing.get_mut(&name) {
                missing.refused = Some(why);
            }
        }
    }
    missing
}

async fn events(ctx: &Context, namespace: &str, set_uid: &str) -> Vec<Arc<Event>> {
    match tokio::time::timeout(READ, ctx.cluster.failures(namespace, set_uid)).await {
        Ok(Ok(found)) => found,
        // The right to list events is optional, and a round goes on without the cause.
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

/// The latest refusal of each member: `create Pod db-1 in StatefulSet db failed error: ...`, or the same of a claim of that pod.
fn refusals<'a>(events: impl IntoIterator<Item = &'a Event>, now: Timestamp) -> BTreeMap<MemberName, String> {
    let mut found: BTreeMap<MemberName, (Timestamp, String)> = BTreeMap::new();
    for event in events {
        let at = last_seen(event);
        let Some((pod, why)) = event.message.as_deref().and_then(refusal).filter(|_| now.saturating_sub(at) < CURRENT)
        else {
            continue;
        };
        let latest = found.entry(MemberName::from(pod)).or_insert_with(|| (at, why.to_owned()));
        if at > latest.0 {
            *latest = (at, why.to_owned());
        }
    }
    found.into_iter().map(|(name, (_, why))| (name, why)).collect()
}

fn last_seen(event: &Event) -> Timestamp {
    let series = event.series.as_ref().and_then(|s| s.last_observed_time.as_ref()).map(|t| t.0.as_second());
    let last = event.last_timestamp.as_ref().map(|t| t.0.as_second());
    let first = event.event_time.as_ref().map(|t| t.0.as_second());
    series.max(last).max(first).unwrap_or_default()
}

/// Reads the pod's name and the cause from the message of the set's controller.
fn refusal(message: &str) -> Option<(&str, &str)> {
    let (what, why) = message.split_once(" failed error: ")?;
    let (_, pod) = what.split_once("Pod ")?;
    Some((pod.split_whitespace().next()?, why))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may")]
    use super::*;
    use serde_json::{Value, json};

    const NOW: Timestamp = 1_795_000_000;

    fn event(message: &str, seconds_ago: i64) -> Event {
        let at = jiff::Timestamp::from_second(NOW - seconds_ago).unwrap().to_string();
        let event: Value = json!({"metadata": {}, "involvedObject": {}, "message": message, "lastTimestamp": at});
        serde_json::from_value(event).unwrap()
    }

    fn causes(events: &[Event]) -> Vec<(String, String)> {
        refusals(events, NOW).into_iter().map(|(name, why)| (name.to_string(), why)).collect()
    }

    // The cause shows only in an event of the StatefulSet.
    #[test]
    fn why_a_pod_is_not_created_is_in_the_events_of_its_set() {
        let quota =
            "pods \"db-1\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2";
        let old = event("create Pod db-1 in StatefulSet db failed error: an older cause", 60);
        let new = event(&format!("create Pod db-1 in StatefulSet db failed error: {quota}"), 5);
        assert_eq!(causes(&[old.clone(), new.clone()]), [("db-1".to_owned(), quota.to_owned())]);
        assert_eq!(causes(&[new, old]), [("db-1".to_owned(), quota.to_owned())]);
        let claim = event("create Claim data-db-2 for Pod db-2 in StatefulSet db failed error: no", 5);
        assert_eq!(causes(&[claim]), [("db-2".to_owned(), "no".to_owned())]);
    }

    #[test]
    fn an_old_event_or_one_that_cannot_be_read_is_no_cause() {
        assert_eq!(causes(&[event("create Pod db-1 in StatefulSet db failed error: no", 3_000)]), []);
        assert_eq!(causes(&[event("create Pod db-1 in StatefulSet db successful", 1), event("", 1)]), []);
    }
}
