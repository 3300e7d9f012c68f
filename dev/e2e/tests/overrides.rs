//! An administrator chooses against the order of data, by the command line.
use crate::outage::make_most_recent;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Group, Outcome, Stage, condition, play, starts, tanist, text};

fn refused(stage: &Stage, words: &[&str], expected: &str) -> Result<()> {
    let said = tanist(&stage.namespace, words).err().map(|e| format!("{e:#}")).unwrap_or_default();
    ensure!(said.contains(expected), "{words:?}: {said}");
    Ok(())
}

/// Three rows everywhere, four more on register-1 alone, and a history on register-2 that nothing can be compared with: nobody is seeded.
async fn undecided(group: &Group) -> Result<()> {
    group.ready(60).await?;
    group.member(0).write(3).await?;
    group.copied(3).await?;
    make_most_recent(group, 1, 4).await?;
    group.member(2).fault("sequence", "output other:9").await?;
    group.delete_pods(None).await?;
    let differ = |seen: &Value| condition(seen, "Degraded").starts_with("True HistoriesDiffer");
    group.until("histories that differ", 90, differ).await.map(drop)
}

// docs/rules.md, "Override", S14: what would be lost is said before, nothing is written without consent, and the one that was named seeds alone.
#[test]
fn an_override_says_what_is_lost_and_seeds_the_member_that_was_named() -> Outcome {
    play("override").run(async |stage| {
        let group = stage.register(json!({})).await?;
        undecided(&group).await?;
        let before = group.get().await?;
        let term = before.pointer("/status/record/term").and_then(Value::as_u64).context("no term")?;

        refused(stage, &["override", "register", "register-0"], "to go on without being asked: --yes")?;
        refused(stage, &["override", "register", "regsiter-0", "--yes"], "did you mean register-0?")?;
        refused(stage, &["override", "regsiter", "register-0", "--yes"], "did you mean register?")?;
        let seen = group.get().await?;
        ensure!(text(&seen, "/metadata/annotations/tanist.dev~1override").is_empty(), "it was written: {seen}");

        let said = tanist(&stage.namespace, &["override", "register", "register-0", "--yes", "--timeout", "90"])?;
        ensure!(said.contains("(4 ahead of register-0)"), "{said}");
        ensure!(said.contains("its history and that of register-0 cannot be compared"), "{said}");
        ensure!(said.contains(&format!("register-0 leads, in term {}", term + 1)), "{said}");

        group.member(2).fault("sequence", "clear").await?;
        group.ready(90).await?;
        for member in group.members(3) {
            let count = member.count().await?;
            ensure!(count == 3, "{} holds {count} rows; register-0 held 3", member.name);
        }
        let seeds: Vec<_> = starts(&group.executions().await?).into_iter().filter(|s| s.starts_with("seed")).collect();
        ensure!(seeds == ["seed 0", "seed 0"], "{seeds:?}");
        let told = tanist(&stage.namespace, &["explain", "register"])?;
        ensure!(told.contains("by an administrator"), "{told}");
        // It is used once, and there is nothing left to decide.
        refused(stage, &["override", "register", "register-1", "--yes"], "register-0 is primary")
    })
}
