//! More primaries than desired.
use crate::takeover::{behind, led};
use anyhow::{Context, ensure};
use kube::ResourceExt;
use serde_json::json;
use tanist_e2e::{Outcome, play, starts, term, text, until};

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

// S23: a user makes a running secondary a second primary by hand, and it has the higher number. It never has the label of a primary, clients stay with the first one,
// and it is stopped and follows again; no row is lost and no other term begins.
#[test]
fn a_second_primary_by_hand_gets_no_clients_and_is_stopped() -> Outcome {
    play("second").run(async |stage| {
        let group = stage.register(led()).await?;
        // Nothing tells the operator of a role that only `status` knows before the next round.
        group.change(json!({"resyncIntervalSeconds": 5})).await?;
        let before = group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let begun = group.executions().await?.len();
        group.member(2).exec(&["register", "become", "primary"]).await?;
        let mut wrong = None;
        until("the second primary to follow again", 60, async || {
            let pod = group.member(2).pod().await?;
            let label = pod.labels().get("tanist.dev/role").cloned().unwrap_or_default();
            let reached = behind(stage, "register-rw").await?;
            if label == "primary" || reached.contains("register-2") {
                wrong = Some(format!("clients reach {reached:?}; register-2 is labelled {label:?}"));
            }
            let done = starts(group.executions().await?.get(begun..).unwrap_or_default());
            Ok(done.iter().any(|start| start == "secondary 2"))
        })
        .await?;
        ensure!(wrong.is_none(), "{wrong:?}");
        let after = group.ready(60).await?;
        let done = group.executions().await?.split_off(begun);
        ensure!(done.iter().all(|e| e.ordinal != 0 || e.command == "sequence"), "{done:?}");
        ensure!(done.iter().filter(|e| e.command == "stop").count() == 1, "{done:?}");
        ensure!(term(&after) == term(&before) && text(&after, "/status/columns/primaries") == "register-0", "{after}");
        group.rows(3).await
    })
}
