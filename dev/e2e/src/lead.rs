//! The lead is lost, and another member takes over.
use crate::{Group, condition, text};
use anyhow::{Context, Result};
use serde_json::Value;

/// Kills the server of a member and nothing else.
pub const KILL: [&str; 3] = ["sh", "-c", "kill -9 $(cut -d' ' -f1 /run/register/server)"];

/// Waits until another member than `old` leads and all are in their role; returns the new primary's ordinal.
///
/// # Errors
/// When that does not happen in so many seconds.
pub async fn led_by_another(group: &Group, old: u32, seconds: u64) -> Result<u32> {
    let before = format!("{}-{old}", group.name);
    let other = |seen: &Value| {
        let leads = text(seen, "/status/columns/primaries");
        !leads.is_empty() && leads != before && condition(seen, "Ready").starts_with("True AllMembersInRole")
    };
    let seen = group.until("another primary", seconds, other).await?;
    let name = text(&seen, "/status/columns/primaries");
    Ok(name.rsplit('-').next().context("no primary")?.parse()?)
}
