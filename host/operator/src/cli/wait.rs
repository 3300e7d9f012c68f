//! Waits for a group: until a judgement does not change by itself any more, or until a request is done.
use super::find::find;
use super::me;
use super::output::note;
use super::trouble::failed;
use anyhow::{Context, bail};
use futures::{StreamExt, pin_mut};
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Error, watch_object};
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
/// When the group is deleted or may not be watched, `look` fails, or after so many seconds: then `overdue`.
pub async fn until_done(
    groups: &Api<ReplicaGroup>,
    name: &str,
    seconds: u64,
    overdue: &str,
    mut look: impl FnMut(&ReplicaGroup) -> anyhow::Result<Progress>,
) -> anyhow::Result<Duration> {
    let (began, mut last) = (Instant::now(), String::new());
    let watch = watch_object(groups.clone(), name).default_backoff();
    pin_mut!(watch);
    let wait = async {
        while let Some(seen) = watch.next().await {
            let seen = match seen {
                Ok(seen) => seen,
                // A watch that fails restarts by itself; one that is not allowed never works.
                Err(error) => {
                    let why = watch_error(&error);
                    if is_refused(&error) {
                        bail!("it was requested, and its end cannot be seen: {why}");
                    }
                    if last != why.to_string() {
                        last = why.to_string();
                        note(&last);
                    }
                    continue;
                }
            };
            let group = seen.with_context(|| format!("group {name} was deleted"))?;
            match look(&group)? {
                Progress::Done => return Ok(()),
                Progress::Waits(why) if why != last && !why.is_empty() => {
                    note(&why);
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

/// One look at a group. `None`: the API server does not answer now, which ends nothing.
///
/// # Errors
/// When the group is gone, or may not be read.
pub async fn look(groups: &Api<ReplicaGroup>, name: &str) -> anyhow::Result<Option<ReplicaGroup>> {
    match groups.get_opt(name).await {
        Ok(None) => bail!("group {name} was deleted"),
        Ok(found) => Ok(found),
        Err(kube::Error::Api(status)) if status.code == 401 || status.code == 403 => {
            Err(failed(&format!("read group {name}"), &kube::Error::Api(status)))
        }
        Err(_) => Ok(None),
    }
}

/// Whether the API server refused a watch to this user.
fn is_refused(error: &Error) -> bool {
    let code = match error {
        Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status))
        | Error::WatchFailed(kube::Error::Api(status))
        | Error::WatchError(status) => status.code,
        _ => 0,
    };
    [401, 403].contains(&code)
}

/// Why groups cannot be watched.
pub fn watch_error(error: &Error) -> anyhow::Error {
    match error {
        Error::InitialListFailed(e) | Error::WatchStartFailed(e) | Error::WatchFailed(e) => failed("watch groups", e),
        Error::WatchError(status) => failed("watch groups", &kube::Error::Api(status.clone())),
        Error::NoResourceVersion => anyhow::anyhow!("failed to watch groups: {error}"),
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;
    use crate::mock;

    // Whoever may change a group and not watch it is told so at once, and the API server is not asked again and again.
    #[tokio::test]
    async fn a_wait_that_is_not_allowed_ends() {
        let (client, requests) = mock::server(|_, _, _| mock::refusal(403, "Forbidden", "no"));
        let groups = Api::namespaced(client, "shop");
        let waits = until_done(&groups, "db", 60, "overdue", |_| Ok(Progress::Waits(String::new())));
        let said = waits.await.unwrap_err().to_string();
        assert!(said.contains("its end cannot be seen") && said.contains("forbidden (403)"), "{said}");
        assert_eq!(requests.lock().unwrap().len(), 1);
        assert!(look(&groups, "db").await.unwrap_err().to_string().contains("forbidden (403)"));
    }

    // An API server that is away for a moment ends no wait, a group that is gone does.
    #[tokio::test]
    async fn a_look_at_a_group_that_is_gone_ends_a_wait() {
        for (code, reason, ends) in
            [(404, "NotFound", true), (500, "InternalError", false), (503, "ServiceUnavailable", false)]
        {
            let (client, _) = mock::server(move |_, _, _| mock::refusal(code, reason, "no"));
            let seen = look(&Api::namespaced(client, "shop"), "db").await;
            assert_eq!(seen.is_err(), ends, "{code}");
        }
    }
}
