//! `spec.failover.maxBehind`: a secondary that is not far behind may take over.
use anyhow::ensure;
use serde_json::json;
use tanist_e2e::{Outcome, Source, kubectl, play, term, until};

use crate::takeover::{KILL, led, led_by_another};

/// A label goes before recent data, as far as the host lets it.
const SCRIPT: &str = r#"
def failover(s):
    first = [m for m in s.eligible() if m.label("first") == "yes"]
    return choose([(m, "its label says so") for m in first]) if first else None
"#;

// P22: docs/rules.md, "Order of data": with `maxBehind` a policy may choose a running secondary that lacks one row, and the group says how much is given up. Without
// `maxBehind` that member is barred.
#[test]
fn a_secondary_that_is_a_little_behind_may_take_over() -> Outcome {
    play("lag").run(async |stage| {
        stage.store("rules", [("first.star", Source::Script(SCRIPT.into()))]).await?;
        let mut changes = led();
        changes["policies"] = json!([{"configMap": {"name": "rules", "key": "first.star"}}]);
        changes["failover"] = json!({"maxBehind": 2});
        let group = stage.register(changes).await?;
        group.ready(60).await?;
        kubectl(&["annotate", "pod", "-n", &stage.namespace, &group.member(2).name, "policy.tanist.dev/first=yes"])?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        group.member(2).fault("pull", "fail").await?;
        group.member(0).write(1).await?;
        until("four rows on register-1", 60, async || Ok(group.member(1).count().await? == 4)).await?;
        ensure!(group.member(2).count().await? == 3);

        group.member(0).exec(&KILL).await?;
        let promoted = async || Ok(group.executions_of("promote", 2).await? == 1);
        until("the promotion of register-2", 60, promoted).await?;
        ensure!(led_by_another(&group, 0, 90).await? == 2, "the label did not decide");
        ensure!(group.member(2).count().await? == 3, "it leads with other data than it had");
        let seen = group.get().await?;
        ensure!(term(&seen) == 2, "term {}", term(&seen));
        let events = kubectl(&["get", "events", "-n", &stage.namespace, "-o", "jsonpath={.items[*].message}"])?;
        ensure!(events.contains("1 below the highest known"), "{events}");
        group.had_one_primary_at_a_time().await
    })
}
