//! What comes before and after the update of some members: the application is told who gets a new pod, and when all of them are back.
use crate::takeover::led;
use crate::update::{uids, updated};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Group, Outcome, Stage, edition, editions, merge, play, text, until, waits};

/// Notes on the volume of the member that executes it when it ran and what it was told, unless that member is deaf. It does not end while it is held there.
fn hook(name: &str) -> Value {
    let script = r#"[ ! -e /data/deaf ] || exit 7; read -r up rest < /proc/uptime; while [ -e /data/hold ]; do sleep 1; done; sleep 2; echo "$up $0 $*" >> /data/hooks"#;
    json!({"exec": ["sh", "-c", script, name, "$(MEMBERS)"], "timeoutSeconds": 60})
}

async fn create(stage: &Stage) -> Result<Group> {
    let mut changes = led();
    merge(&mut changes, json!({"commands": {"beforeUpdate": hook("before"), "afterUpdate": hook("after")}}));
    let group = stage.register(changes).await?;
    group.ready(60).await?;
    group.member(0).write(3).await?;
    group.copied(3).await?;
    Ok(group)
}

/// What all members were told, in the order in which they were.
async fn told(group: &Group) -> Result<Vec<String>> {
    let mut all: Vec<(f64, String)> = Vec::new();
    for member in group.members(3) {
        let printed = member.exec(&["sh", "-c", "cat /data/hooks 2>/dev/null || true"]).await?;
        let lines = printed.text.lines().filter_map(|line| line.split_once(' '));
        all.extend(lines.filter_map(|(up, words)| Some((up.parse().ok()?, words.to_owned()))));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(all.into_iter().map(|(_, words)| words).collect())
}

// B11: each member is announced before its pod goes, the primary before it gives up the lead, and nobody else before it is back. The operator is killed while the first command runs; that runs once.
#[test]
fn an_update_is_announced_and_ended_for_each_member() -> Outcome {
    play("hooks").run(async |stage| {
        let group = create(stage).await?;
        // The primary executes the first command, which goes on until the operator is killed.
        group.member(0).exec(&["touch", "/data/hold"]).await?;
        group.change(edition(2)).await?;
        let runs = |seen: &Value| text(seen, "/status/record/intents/0/command") == "beforeUpdate";
        group.until("the first announcement", 60, runs).await?;
        ensure!(editions(&group, 3).await? == ["-", "-", "-"], "no pod goes before it");
        stage.operator.kill(&stage.operator.pod().await?).await?;
        group.member(0).exec(&["rm", "/data/hold"]).await?;
        let seen = updated(&group, 3, 2, 240).await?;
        let ended = |seen: &Value| seen.pointer("/status/record/batch").is_none();
        group.until("the last end", 60, ended).await?;
        let expected =
            ["register-2", "register-1", "register-0"].map(|m| [format!("before {m}"), format!("after {m}")]);
        ensure!(told(&group).await? == expected.concat(), "{:?}", told(&group).await?);
        let leads = text(&seen, "/status/columns/primaries").to_owned();
        ensure!(leads != "register-0", "the primary gave up the lead: {leads}");
        let history = seen.pointer("/status/record/history").and_then(Value::as_array).cloned().unwrap_or_default();
        let words = history.iter().map(|e| (text(e, "/what"), text(e, "/member"), text(e, "/detail")));
        let of = words.filter_map(|(what, member, detail)| match what {
            "batch-begun" | "batch-ended" => Some(format!("{what} {detail}")),
            "pod-deleted" => Some(format!("{what} {member}")),
            _ => None,
        });
        let first: Vec<String> = of.take(4).collect();
        let expected =
            ["batch-begun register-2", "pod-deleted register-2", "batch-ended register-2", "batch-begun register-1"];
        ensure!(first == expected, "{first:?}");
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}

// B11: one that fails in the primary is run in another member; while it fails everywhere no pod goes, and the group says so.
#[test]
fn an_announcement_that_fails_holds_up_the_update() -> Outcome {
    play("deaf").run(async |stage| {
        let group = create(stage).await?;
        for member in group.members(3) {
            member.exec(&["touch", "/data/deaf"]).await?;
        }
        group.change(edition(2)).await?;
        let says = |seen: &Value| waits(seen).contains("beforeUpdate for register-2: failures: 2");
        group.until("two failures", 90, says).await?;
        ensure!(editions(&group, 3).await? == ["-", "-", "-"], "no pod goes without it");
        ensure!(told(&group).await?.is_empty(), "{:?}", told(&group).await?);
        // Whoever is asked next hears it.
        for member in group.members(3) {
            member.exec(&["rm", "/data/deaf"]).await?;
        }
        group.annotate("tanist.dev/retry", "now").await?;
        updated(&group, 3, 2, 240).await?;
        until("the last end", 60, async || {
            Ok(told(&group).await?.last().is_some_and(|last| last == "after register-0"))
        })
        .await?;
        group.rows(3).await
    })
}

// C73: while one of them is not prepared nobody is restarted, and the group says who; then the secondaries are, together. The operator is killed while it waits.
#[test]
fn members_are_restarted_together_once_all_are_prepared() -> Outcome {
    play("prepared").run(async |stage| {
        let mut changes = led();
        let prepared = json!({"exec": ["sh", "-c", "[ ! -e /data/writing ] || exit 4"], "timeoutSeconds": 10});
        merge(&mut changes, json!({"commands": {"prepared": prepared}, "update": {"batch": "All"}}));
        let group = stage.register(changes).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        // The primary, which keeps its pod in the first batch, counts, too.
        group.member(0).exec(&["touch", "/data/writing"]).await?;
        let before = uids(&group).await?;
        group.change(edition(2)).await?;
        let says = |seen: &Value| waits(seen).contains("register-0 is not prepared: prepared exited 4");
        group.until("the group to say who is not prepared", 60, says).await?;
        let old = stage.operator.pod().await?;
        stage.operator.kill(&old).await?;
        stage.operator.rounds_after(&old, 5.0, 120).await?;
        group.until("the next operator to say so", 90, says).await?;
        ensure!(uids(&group).await? == before, "somebody was restarted");
        group.member(0).exec(&["rm", "/data/writing"]).await?;
        let seen = updated(&group, 3, 2, 240).await?;
        let history = seen.pointer("/status/record/history").and_then(Value::as_array).cloned().unwrap_or_default();
        let deleted = history.iter().filter(|e| text(e, "/what") == "pod-deleted");
        let deleted: Vec<_> = deleted.map(|e| (text(e, "/member").to_owned(), e["at"].clone())).collect();
        let [first, second, last] = deleted.as_slice() else { anyhow::bail!("{deleted:?}") };
        ensure!(first.1 == second.1 && last.0 == "register-0" && last.1 != first.1, "{deleted:?}");
        group.rows(3).await?;
        group.had_one_primary_at_a_time().await
    })
}
