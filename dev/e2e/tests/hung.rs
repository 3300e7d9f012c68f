//! A `status` that never answers on one secondary, while the primary dies.
use crate::takeover::{KILL, led, led_by_another};
use anyhow::ensure;
use serde_json::{Value, json};
use tanist_e2e::{Outcome, condition, play, starts, text, until, waits};

fn promoted(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).filter(|s| s.starts_with("promote")).collect()
}

// S19, docs/rules.md, "May be primary": `status` never answers on one secondary. Nothing is done to it while the primary serves. When the primary
// dies, what is unknown may be primary: nobody takes over, and the group names the member within the deadline of one look. As soon as it answers,
// one member takes over.
#[test]
fn a_hung_status_on_a_secondary_is_named_and_nobody_takes_over_meanwhile() -> Outcome {
    play("hungstatus").run(async |stage| {
        let mut changes = led();
        changes["resyncIntervalSeconds"] = json!(1);
        let group = stage.register(changes).await?;
        group.ready(120).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let before = starts(&group.executions().await?);
        group.member(2).fault("status", "hang").await?;
        let told = |seen: &Value| {
            let detail = text(seen, "/status/members/2/roleDetail");
            let serves = text(seen, "/status/columns/primaries") == "register-0";
            serves && text(seen, "/status/members/2/role") == "Unknown" && detail.contains("status could not be read")
        };
        // On a busy machine the others may be late for a moment, too.
        group.until("the hung status is reported, and the primary serves on", 60, told).await?;
        stage.operator.rounds(5.0, 60).await?;
        let now = starts(&group.executions().await?);
        ensure!(now == before, "something was done because of it: {now:?}");

        group.member(0).exec(&KILL).await?;
        let named = |seen: &Value| {
            let waits = waits(seen);
            waits.contains("MayBePrimary") && waits.contains("register-2 may be primary: its role is unknown")
        };
        let seen = group.until("the wait for register-2", 60, named).await?;
        ensure!(condition(&seen, "Degraded").starts_with("True NoPrimary"), "{}", condition(&seen, "Degraded"));
        stage.operator.rounds(5.0, 60).await?;
        let now = starts(&group.executions().await?);
        ensure!(promoted(&now).is_empty(), "promoted beside a member that may be primary: {now:?}");

        group.member(2).fault("status", "clear").await?;
        led_by_another(&group, 0, 60).await?;
        let now = starts(&group.executions().await?);
        ensure!(promoted(&now).len() == 1, "{now:?}");
        group.had_one_primary_at_a_time().await?;
        group.rows(3).await
    })
}

// S19, decision 0012: a `status` that takes 3 s on every member, less than its timeout, is slow and not unknown: a takeover needs the proof and the two
// looks, and waits for nothing else.
#[test]
fn a_slow_status_only_delays_a_takeover() -> Outcome {
    play("slowstatus").run(async |stage| {
        let mut changes = led();
        // On a busy machine 3 s become 5.
        changes["commands"]["status"] = json!({"timeoutSeconds": 20});
        let group = stage.register(changes).await?;
        group.ready(120).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        for member in group.members(3) {
            member.fault("status", "slow 3").await?;
        }
        for member in group.members(3) {
            let slow = async || {
                Ok(member.polls().await?.iter().any(|p| p.ended.is_some_and(|end| end.saturating_sub(p.began) >= 3000)))
            };
            until("a slow answer", 60, slow).await?;
        }
        ensure!(condition(&group.get().await?, "Ready").starts_with("True"), "a slow answer is an answer");
        group.member(0).exec(&KILL).await?;
        let promoted = async || Ok(!promoted(&starts(&group.executions().await?)).is_empty());
        until("the promotion", 180, promoted).await?;
        for member in group.members(3) {
            member.fault("status", "clear").await?;
        }
        led_by_another(&group, 0, 60).await?;
        group.had_one_primary_at_a_time().await?;
        group.rows(3).await
    })
}
