//! Writes the group's objects in the background: an object that the API server refuses, or a webhook that hangs, must not delay a failover. Each
//! object has one write at a time. A failed write is repeated with growing pauses, and its error is reported until it succeeds.
use super::Error;
use super::writes;
use crate::context::Context;
use crate::hints::{self, Unwritten, write_key};
use crate::observe::Observed;
use std::sync::Arc;
use std::time::Duration;
use tanist_api as api;
use tanist_core::contract::MemberName;
use tanist_core::freshness::Moment;
use tanist_core::snapshot::{Object, Snapshot};
use tracing::{Instrument, info};

/// The first pause after a write that failed; it doubles.
const FIRST: Duration = Duration::from_secs(5);

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);

/// What is written in the background.
pub struct Task {
    /// The kind and the name of the object, or of the write.
    pub key: String,
    /// What is to be written, as a hash: another version is tried at once after one that was refused.
    pub desired_hash: String,
    /// Whether its end starts the next round. The end of a failed one always does.
    pub wakes: bool,
}

/// Whether a write of an object may start now.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    Now,
    UnderWay,
    Later,
}

/// Begins to apply an object, unless that is under way or was refused a moment ago.
///
/// # Errors
/// Why it could not be written the last time.
pub fn apply(ctx: &Arc<Context>, observed: &Observed, object: &Object) -> Result<(), Error> {
    let key = write_key(&object.kind, &object.name);
    let hash = object.manifest.pointer("/metadata/annotations").and_then(|a| a.get(api::ANNOTATION_APPLIED)?.as_str());
    let desired_hash = hash.unwrap_or_default().to_owned();
    let (task, snapshot, object) = (ctx.clone(), observed.snapshot.clone(), object.clone());
    let write = async move { writes::apply(&task, &snapshot, &object).await };
    begin(ctx, observed, Task { key, desired_hash, wakes: true }, write)
}

/// Whether the group's `StatefulSet` is being applied.
pub fn is_applying_set(ctx: &Context, s: &Snapshot) -> bool {
    ctx.hints.with_group(&s.group.uid, |h| h.is_writing("StatefulSet", &s.group.name))
}

/// Annotates the `StatefulSet`, identified by UID, so that its controller tries again at once: any change puts it into the controller's queue.
///
/// # Errors
/// As [`apply`].
pub fn nudge(ctx: &Arc<Context>, observed: &Observed, set_uid: &str) -> Result<(), Error> {
    let (task, snapshot, uid) = (ctx.clone(), observed.snapshot.clone(), set_uid.to_owned());
    let name = &observed.snapshot.group.name;
    let nudge = Task { key: format!("nudge/{name}"), desired_hash: String::new(), wakes: true };
    begin(ctx, observed, nudge, async move {
        info!(
            set = snapshot.group.name,
            "a pod is missing; annotating the StatefulSet so that its controller tries again"
        );
        writes::nudge(&task, &snapshot, &uid).await
    })
}

/// Creates what a member lacks, one after the other.
///
/// # Errors
/// As [`apply`].
pub fn create(ctx: &Arc<Context>, observed: &Observed, member: &MemberName, objects: &[Object]) -> Result<(), Error> {
    let (task, namespace, objects) = (ctx.clone(), observed.snapshot.group.namespace.clone(), objects.to_vec());
    let desired_hash = observed.snapshot.group.update.template.clone();
    let create = Task { key: hints::creation(member), desired_hash, wakes: true };
    begin(ctx, observed, create, async move {
        for object in &objects {
            writes::create(&task, &namespace, object).await?;
        }
        Ok(())
    })
}

/// Lets a pod belong to what makes the pods from now on.
///
/// # Errors
/// As [`apply`].
pub fn adopt(
    ctx: &Arc<Context>,
    observed: &Observed,
    (member, uid): (&MemberName, &str),
    version: &str,
    change: &serde_json::Value,
) -> Result<(), Error> {
    let fence = writes::fence(&observed.snapshot.group.namespace, member.as_str(), uid, Some(version));
    let (task, desired_hash, change) = (ctx.clone(), change.to_string(), change.clone());
    let adopt = Task { key: format!("adopt/{member}"), desired_hash, wakes: true };
    begin(ctx, observed, adopt, async move { writes::adopt(&task, fence, change).await })
}

/// Deletes the `StatefulSet` to which no pod belongs.
///
/// # Errors
/// As [`apply`].
pub fn drop_set(ctx: &Arc<Context>, observed: &Observed, uid: &str, version: &str) -> Result<(), Error> {
    let name = &observed.snapshot.group.name;
    let fence = writes::fence(&observed.snapshot.group.namespace, name, uid, Some(version));
    let (task, drop) = (ctx.clone(), Task { key: format!("drop/{name}"), desired_hash: uid.to_owned(), wakes: true });
    begin(ctx, observed, drop, async move { writes::drop_set(&task, fence).await })
}

/// Asks for a larger volume. Where the storage class does not allow it the API server refuses that, again and again.
///
/// # Errors
/// As [`apply`].
pub fn grow(
    ctx: &Arc<Context>,
    observed: &Observed,
    claim: &str,
    uid: &str,
    version: &str,
    size: &str,
) -> Result<(), Error> {
    let fence = writes::fence(&observed.snapshot.group.namespace, claim, uid, Some(version));
    let (task, size) = (ctx.clone(), size.to_owned());
    let grow = Task { key: format!("grow/{claim}"), desired_hash: size.clone(), wakes: true };
    begin(ctx, observed, grow, async move { writes::grow_claim(&task, fence, size).await })
}

/// Begins a write in the background, unless it is under way or failed a moment ago.
///
/// # Errors
/// Why it failed the last time.
pub fn begin(
    ctx: &Arc<Context>,
    observed: &Observed,
    Task { key, desired_hash, wakes }: Task,
    write: impl Future<Output = Result<(), Error>> + Send + 'static,
) -> Result<(), Error> {
    let uid = observed.snapshot.group.uid.clone();
    let now = ctx.clock.moment();
    let (turn, before) = ctx.hints.with_group(&uid, |h| {
        let before = h.unwritten.get(&key).filter(|before| before.desired_hash == desired_hash).cloned();
        let turn = turn(h.writing.contains(&key), before.as_ref(), now);
        if turn == Turn::Now {
            h.writing.insert(key.clone());
        }
        (turn, before)
    });
    if turn == Turn::Now {
        let (ctx, object, pause) = (ctx.clone(), observed.object.clone(), before.as_ref().map(|b| b.pause));
        let task = async move {
            let result = write.await;
            let wakes = wakes || result.is_err();
            if let Err(error @ (Error::Outdated | Error::Overtaken(_))) = &result {
                info!(reason = %error, "not written; the next round decides anew");
            }
            let failed = result.err().filter(|error| !matches!(error, Error::Outdated | Error::Overtaken(_)));
            let ended = ctx.clock.moment();
            ctx.hints.with_group(&uid, |h| {
                h.writing.remove(&key);
                match failed {
                    Some(error) => drop(h.unwritten.insert(key, unwritten(desired_hash, pause, &error, ended))),
                    None => drop(h.unwritten.remove(&key)),
                }
            });
            if wakes {
                ctx.wake(&object);
            }
        };
        tokio::spawn(task.in_current_span());
    }
    // A failure is reported until the write succeeds, also while it is being repeated.
    before.map_or(Ok(()), |before| Err(Error::Later(before)))
}

fn turn(is_under_way: bool, before: Option<&Unwritten>, now: Moment) -> Turn {
    match before {
        _ if is_under_way => Turn::UnderWay,
        Some(before) if now < before.again => Turn::Later,
        Some(_) | None => Turn::Now,
    }
}

fn unwritten(desired_hash: String, before: Option<Duration>, error: &Error, now: Moment) -> Unwritten {
    let pause = before.map_or(FIRST, |before| before.saturating_mul(2).min(LONGEST));
    let (action, reason, why) = (error.action().to_owned(), error.reason(), error.to_string());
    Unwritten { desired_hash, again: now + pause, pause, action, reason, why }
}
