//! A policy that says when the lead moves, and to whom.
use anyhow::ensure;
use serde_json::{Value, json};
use tanist_e2e::{Outcome, Source, condition, kubectl, play, term, text, waits};

use crate::takeover::led;

/// Holds what an administrator asked for while the group has a label, and moves the lead to a member that has another one.
const SCRIPT: &str = r#"
def switchover(s):
    if s.group.fact("switchover") and s.group.label("hold") == "yes":
        return wait("the group is on hold", until = s.now + 600)
    for m in s.eligible():
        if m.label("lead") == "here":
            return choose([(m, "the lead is wanted here")])
"#;

// P25: docs/rules.md, "Switchover": a policy holds the switchover that an administrator asked for, and lets it go on. Then it moves the lead itself, no sooner than
// the host allows after the last move. Each time the old primary is stopped only once the next one has every row.
#[test]
fn a_policy_holds_a_switchover_and_later_moves_the_lead() -> Outcome {
    play("lead").run(async |stage| {
        stage.store("rules", [("lead.star", Source::Script(SCRIPT.into()))]).await?;
        let mut changes = led();
        changes["policies"] = json!([{"configMap": {"name": "rules", "key": "lead.star"}}]);
        let group = stage.register(changes).await?;
        group.ready(120).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;

        group.annotate("policy.tanist.dev/hold", "yes").await?;
        group.change(json!({"preferredPrimary": "register-1"})).await?;
        let held = |seen: &Value| waits(seen).contains("the group is on hold");
        let seen = group.until("the hold", 60, held).await?;
        ensure!(text(&seen, "/status/columns/primaries") == "register-0", "the lead moved on hold");
        group.annotate("policy.tanist.dev/hold", "no").await?;
        let leads = |name: &'static str| {
            move |seen: &Value| {
                text(seen, "/status/columns/primaries") == name
                    && condition(seen, "Ready").starts_with("True AllMembers")
            }
        };
        group.until("the switchover", 60, leads("register-1")).await?;
        group.rows(3).await?;

        group.change(json!({"preferredPrimary": null})).await?;
        let pod = &group.member(2).name;
        kubectl(&["annotate", "pod", "-n", &stage.namespace, pod, "policy.tanist.dev/lead=here"])?;
        group.member(1).write(2).await?;
        let seen = group.until("the move by the policy", 420, leads("register-2")).await?;
        group.rows(5).await?;
        group.had_one_primary_at_a_time().await?;
        ensure!(term(&seen) == 3, "one term for the seed and for each of two moves: {}", term(&seen));
        let events = kubectl(&["get", "events", "-n", &stage.namespace, "-o", "jsonpath={.items[*].message}"])?;
        ensure!(events.contains("the lead is wanted here"), "{events}");
        Ok(())
    })
}
