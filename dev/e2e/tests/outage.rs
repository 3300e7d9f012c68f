//! Everything is lost at once.
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Group, Outcome, play, starts, text};

/// Writes so many rows to one member that no other copies them.
pub async fn make_most_recent(group: &Group, ordinal: u32, rows: u32) -> Result<()> {
    for member in group.members(3) {
        member.fault("pull", "fail").await?;
    }
    group.member(ordinal).write(rows).await.map(drop)
}

/// The group forms, loses all members twice, and comes back from the one with the most recent data each time; with the runner and without.
async fn recovers(group: &Group) -> Result<()> {
    group.ready(60).await?;
    group.member(0).write(3).await?;
    group.copied(3).await?;
    make_most_recent(group, 2, 4).await?;
    let old = group.delete_pods(None).await?;
    let seen = group.recovered(&old, 60).await?;
    group.rows(7).await?;
    explained(&seen, "register-2")?;
    // With no grace nothing says that the old processes ended: the node's word is waited for (docs/rules.md, "Over").
    make_most_recent(group, 1, 2).await?;
    let old = group.delete_pods(Some(0)).await?;
    group.recovered(&old, 120).await?;
    group.rows(9).await?;
    let seeds: Vec<_> = starts(&group.executions().await?).into_iter().filter(|s| s.starts_with("seed")).collect();
    ensure!(seeds == ["seed 0", "seed 2", "seed 1"], "{seeds:?}");
    Ok(())
}

/// The decision can be read: who, and why the others lost.
fn explained(group: &Value, chosen: &str) -> Result<()> {
    let term = group.pointer("/status/record/term").and_then(Value::as_u64);
    ensure!(term == Some(2), "{term:?}");
    let members = group.pointer("/status/members").and_then(Value::as_array).cloned().unwrap_or_default();
    ensure!(members.iter().all(|m| m.pointer("/term") == Some(&json!(2))), "{members:?}");
    let history = group.pointer("/status/record/history").and_then(Value::as_array).cloned().unwrap_or_default();
    let seed = history.iter().rfind(|t| text(t, "/what") == "command-started" && text(t, "/detail") == "seed");
    ensure!(seed.is_some_and(|t| text(t, "/member") == chosen), "{history:?}");
    Ok(())
}

// A7, A1, S1, S18: the member with the most recent data leads, whichever it is; with grace and without.
#[test]
fn the_most_recent_member_leads_after_an_outage() -> Outcome {
    play("outage").run(async |stage| recovers(&stage.register(json!({})).await?).await)
}

// The same where nothing is put into the containers (docs/rules.md, "Runner").
#[test]
fn the_most_recent_member_leads_after_an_outage_without_the_runner() -> Outcome {
    play("outage-none").run(async |stage| {
        let keep = json!({"runner": "None", "container_": {"command": ["sleep", "infinity"]}});
        let group = stage.register(keep).await?;
        group.ready(60).await?;
        crate::forms::order(stage, &group).await?;
        recovers(&group).await
    })
}
