//! Built-in scripts together: one waits, the next chooses.
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Outcome, kubectl, play, text, waits};

use crate::takeover::{KILL, led, led_by_another};

// P26, P27: of three members a write is acknowledged by two. While only one of them can be read, `quorum` lets nobody take over; once a second one is read, `sentinel`
// chooses the member of the lowest priority, though a lower ordinal has the same data.
#[test]
fn built_in_quorum_waits_and_sentinel_chooses() -> Outcome {
    play("quorum").run(async |stage| {
        let mut changes = led();
        changes["policies"] = json!([{"builtin": "quorum", "parameters": {"writes": 2}}, {"builtin": "sentinel"}]);
        // The host alone would be content with one.
        changes["failover"] = json!({"reads": 1});
        let group = stage.register(changes).await?;
        group.ready(60).await?;
        let tag = |member: u32, priority: &str| -> Result<String> {
            let label = format!("policy.tanist.dev/replica-priority={priority}");
            kubectl(&["annotate", "pod", "-n", &stage.namespace, &group.member(member).name, &label, "--overwrite"])
        };
        tag(2, "1")?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        for ordinal in [0, 2] {
            group.member(ordinal).fault("sequence", "fail").await?;
        }
        group.member(0).exec(&KILL).await?;
        let held =
            |seen: &Value| waits(seen).contains("the data of 1 of 3 members is known (register-1); 2 are needed");
        let seen = group.until("the quorum", 60, held).await?;
        ensure!(text(&seen, "/status/columns/primaries").is_empty(), "somebody leads: {}", waits(&seen));
        let promoted = group.executions().await?.iter().filter(|e| e.command == "promote").count();
        ensure!(promoted == 0, "{promoted} promotions without a quorum");

        group.member(2).fault("sequence", "clear").await?;
        ensure!(led_by_another(&group, 0, 60).await? == 2, "the priority did not decide");
        group.member(0).fault("sequence", "clear").await?;
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}
