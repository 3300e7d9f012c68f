//! More primaries than desired.
use anyhow::{Context, ensure};
use kube::ResourceExt;
use serde_json::json;
use tanist_e2e::{Outcome, play, starts, text};

// A13, A14, A17, A37, reading 4: equal data, so the highest ordinals go, one after the other; without `secondary` they stay idle, and come
// back when they are desired again.
#[test]
fn surplus_primaries_are_stopped_from_the_highest_ordinal() -> Outcome {
    play("surplus").run(async |stage| {
        let group = stage.register(json!({})).await?;
        group.ready(60).await?;
        group.member(0).write(2).await?;
        group.copied(2).await?;
        group.change(json!({"primaries": 1})).await?;
        let one = group.ready(60).await?;
        ensure!(text(&one, "/status/columns/primaries") == "register-0", "{}", text(&one, "/status/columns/primaries"));
        let all = group.executions().await?;
        let stops: Vec<_> = all.iter().filter(|e| e.command == "stop").collect();
        let [first, second] = stops.as_slice() else { anyhow::bail!("{stops:?}") };
        ensure!((first.ordinal, second.ordinal) == (2, 1), "{stops:?}");
        ensure!(first.ended.context("no end")? <= second.began, "two stops at a time");
        for ordinal in [1, 2] {
            let pod = group.member(ordinal).pod().await?;
            ensure!(!pod.labels().contains_key("tanist.dev/role"), "{:?}", pod.labels());
        }
        let begun = all.len();
        group.change(json!({"primaries": "All"})).await?;
        group.ready(60).await?;
        let again = starts(group.executions().await?.get(begun..).unwrap_or_default());
        ensure!(again == ["primary 1", "primary 2"], "{again:?}");
        group.rows(2).await
    })
}
