//! Waits for a group: until a judgement does not change by itself any more, or until a request is done.
use super::find::find;
use super::me;
use anyhow::{Context, bail};
use futures::{StreamExt, pin_mut};
use kube::Api;
use kube::runtime::watcher::watch_object;
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tokio::time::Instant;

/// How often a group is looked at.
pub const LOOK: Duration = Duration::from_millis(500);

/// How long roles are awaited that are unknown. One is unknown for a moment while the member's `sequence` is read, which some commands do themselves.
const ROLES: Duration = Duration::from_secs(15);

/// Until when to wait for roles, in a command that may take so many seconds.
pub fn end(seconds: u64) -> Instant {
    Instant::now() + ROLES.min(Duration::from_secs(seconds))
}

/// Judges the group, again and again while the judgement may change by itself and there is time. The last judgement.
///
/// # Errors
/// When the group cannot be read, or `judge` fails.
pub async fn until_final<T>(
    groups: &Api<ReplicaGroup>,
    name: &str,
    end: Instant,
    mut judge: impl FnMut(&ReplicaGroup) -> anyhow::Result<(T, bool)>,
) -> anyhow::Result<T> {
    loop {
        let (judged, may_change) = judge(&find(groups, name).await?)?;
        if !may_change || Instant::now() >= end {
            return Ok(judged);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Watches a group until `look` says that a request is done, and prints what `look` says meanwhile, each message once. How long it took.
///
/// # Errors
/// When the group is deleted, `look` fails, or after so many seconds: then `overdue`.
pub async fn until_done(
    groups: &Api<ReplicaGroup>,
    name: &str,
    seconds: u64,
    overdue: &str,
    mut look: impl FnMut(&ReplicaGroup) -> anyhow::Result<Progress>,
) -> anyhow::Result<Duration> {
    let (began, mut last) = (Instant::now(), String::new());
    let watch = watch_object(groups.clone(), name);
    pin_mut!(watch);
    let wait = async {
        while let Some(seen) = watch.next().await {
            // A watch that fails restarts by itself.
            let Ok(seen) = seen else { continue };
            let group = seen.with_context(|| format!("group {name} was deleted"))?;
            match look(&group)? {
                Progress::Done => return Ok(()),
                Progress::Waits(why) if why != last && !why.is_empty() => {
                    eprintln!("{why}");
                    last = why;
                }
                Progress::Waits(_) => {}
            }
        }
        bail!("the watch of group {name} ended; see: {} explain {name}", me())
    };
    match tokio::time::timeout(Duration::from_secs(seconds), wait).await {
        Ok(ended) => ended.map(|()| began.elapsed()),
        Err(_) => bail!("{overdue}; see: {} explain {name}", me()),
    }
}

/// How far a request is.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is done.
    Done,
    /// This is awaited. Empty: nothing is known of it yet.
    Waits(String),
}
