//! Looks at a group once more when what is in the way may pass by itself. A role is unknown for a moment while the member's `sequence` is read, which some commands
//! do themselves.
use super::find::find;
use kube::Api;
use std::time::Duration;
use tanist_api::ReplicaGroup;
use tokio::time::Instant;

/// How often the group is looked at.
pub const LOOK: Duration = Duration::from_millis(500);

/// How long roles are awaited that are unknown.
const SETTLE: Duration = Duration::from_secs(15);

/// Until when to wait for roles, in a command that may take so many seconds.
pub fn end(seconds: u64) -> Instant {
    Instant::now() + SETTLE.min(Duration::from_secs(seconds))
}

/// Judges the group, again and again while the judgement may change by itself and there is time. The last judgement.
///
/// # Errors
/// When the group cannot be read, or `judge` fails.
pub async fn settled<T>(
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
