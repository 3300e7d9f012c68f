//! Many groups whose policies burn all that they are allowed.
use anyhow::ensure;
use futures::future::try_join_all;
use serde_json::{Value, json};
use tanist_e2e::{Outcome, Source, component, play, waits};

use crate::takeover::{KILL, led, led_by_another};

/// How many groups burn.
const GROUPS: usize = 20;

/// Asked last: so each of the groups is asked again every second.
const AGAIN: &str = "def seed(s):\n    return wait(\"once more\", until = s.now + 1)\n";

// H24 and docs/safety.md 3: twenty groups whose layers burn most of their fuel and abstain, asked again every second, hold up nobody: another group's
// primary dies and is replaced as ever, the Lease keeps its holder, and the operator is not restarted.
#[test]
fn groups_that_burn_their_fuel_hold_up_nobody() -> Outcome {
    play("hostile").run(async |stage| {
        let group = stage.register(led()).await?;
        group.ready(120).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let before = stage.operator.leases().await?;

        let both = [("burning.wasm", Source::Component(component("hostile")?)), ("again.star", Source::Script(AGAIN.into()))];
        stage.store("hostile", both).await?;
        let burns = json!({"configMap": {"name": "hostile", "key": "burning.wasm"}, "parameters": {"do": "grind", "times": 300_000}});
        let again = json!({"configMap": {"name": "hostile", "key": "again.star"}});
        let policies = json!([burns, burns, burns, again]);
        let others: Vec<_> = (0..GROUPS).map(|n| stage.group(&format!("hostile-{n}"))).collect();
        for other in &others {
            other.create(json!({"replicas": 1, "policies": policies})).await?;
        }
        try_join_all(others.iter().map(|other| {
            other.until("the last of its policies to be asked", 300, |seen: &Value| waits(seen).contains("once more"))
        }))
        .await?;

        group.member(0).exec(&KILL).await?;
        led_by_another(&group, 0, 60).await?;
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await?;
        ensure!(stage.operator.leases().await? == before, "the Lease changed hands: {before:?}, {:?}", stage.operator.leases().await?);
        ensure!(stage.operator.restarts().await? == 0, "the operator was restarted");
        // They are still asked: it was not their silence that held up nobody.
        let pod = stage.operator.pod().await?;
        let asked = "tanist_decisions_total{point=\"seed\",policy=\"again\",result=\"nobody\"}";
        let count = stage.operator.metric(&pod, asked).await?;
        ensure!(count > 0.0, "the metrics have no {asked}");
        tanist_e2e::until("more questions", 30, async || Ok(stage.operator.metric(&pod, asked).await? > count)).await
    })
}
