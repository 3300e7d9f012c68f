//! The memory of a group, and what administrators may do to it.
use crate::outage::make_most_recent;
use crate::takeover::{KILL, led};
use anyhow::{Context, Result, ensure};
use kube::api::PostParams;
use serde_json::{Value, json};
use tanist_e2e::{Group, Outcome, condition, play, starts, term, text, until, waits};

/// What an administrator can do with `kubectl edit --subresource=status`.
pub async fn wipe(group: &Group) -> Result<()> {
    // A status that the operator writes meanwhile is a conflict.
    until("the status to be wiped", 30, async || {
        let mut object = group.groups.get(&group.name).await?;
        object.data.as_object_mut().context("no object")?.remove("status");
        object.metadata.managed_fields = None;
        let wiped = group.groups.replace_status(&group.name, &PostParams::default(), &object).await;
        wiped.map(|_| true).context("failed to wipe the status")
    })
    .await
}

// A33: paused: a lost pod comes back and nothing is executed in it; then it joins. A49, S32: a wiped status is rebuilt, and no member is seeded.
#[test]
fn a_paused_group_is_left_alone_and_a_wiped_status_is_rebuilt() -> Outcome {
    play("paused").run(async |stage| {
        let group = stage.register(json!({"resyncIntervalSeconds": 1})).await?;
        let formed = group.ready(60).await?;
        group.member(0).write(5).await?;
        group.change(json!({"paused": true})).await?;
        let paused =
            group.until("the pause", 60, |seen| condition(seen, "Ready").starts_with("Unknown Paused")).await?;
        ensure!(
            condition(&paused, "Progressing").contains("spec.paused is set"),
            "{}",
            condition(&paused, "Progressing")
        );
        let before = group.journal().await?;
        let old = group.member(1).uid().await?;
        group.member(1).delete(None).await?;
        group.member(1).replaced(&old, 60).await?;
        stage.operator.rounds(4.0, 60).await?;
        // The end of the old pod stops its application: that is the kubelet's doing, by the runner.
        let after: Vec<_> =
            group.journal().await?.into_iter().filter(|e| !(e.ordinal == 1 && e.command == "stop")).collect();
        let before: Vec<_> = before.into_iter().filter(|e| !(e.ordinal == 1 && e.command == "stop")).collect();
        ensure!(after == before, "executed while paused: {after:?}");
        group.change(json!({"paused": false})).await?;
        group.recovered(&[old], 60).await?;

        let executed = group.executions().await?.len();
        wipe(&group).await?;
        let rebuilt = group.ready(60).await?;
        ensure!(term(&rebuilt) == term(&formed), "term {} became {}", term(&formed), term(&rebuilt));
        ensure!(
            group.executions().await?.iter().skip(executed).all(|e| e.command == "sequence"),
            "a wiped status started something"
        );
        group.rows(5).await
    })
}

// S32: the status is removed while a secondary is being promoted, and another one is preferred from then on. `status` says secondary until the command has taken
// effect, and no record knows of it: its runner does. Its end is awaited, and then the lead moves in order.
#[test]
fn a_status_that_is_wiped_during_a_takeover_makes_no_second_primary() -> Outcome {
    play("wiped-takeover").run(async |stage| {
        let mut changes = led();
        // Longer than the fault and what a busy machine adds to it.
        changes["commands"]["promote"]["timeoutSeconds"] = json!(120);
        let group = stage.register(changes).await?;
        group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        group.member(1).fault("promote", "slow 55 x1").await?;
        group.member(0).exec(&KILL).await?;
        let begun = async || Ok(group.executions_of("promote", 1).await? == 1);
        until("promote on register-1", 60, begun).await?;
        group.change(json!({"preferredPrimary": "register-2"})).await?;
        wipe(&group).await?;
        // The claim of register-1 has the command that the status lost.
        group.until("its end", 60, |seen| waits(seen).contains("promote has been running on register-1")).await?;
        ensure!(group.executions_of("promote", 2).await? == 0, "a second primary");
        let preferred = |seen: &Value| {
            text(seen, "/status/columns/primaries") == "register-2" && condition(seen, "Ready").starts_with("True")
        };
        group.until("the preferred primary", 90, preferred).await?;
        group.had_one_primary_at_a_time().await?;
        group.rows(3).await
    })
}

// S7, S15: the group is deleted and created again with its claims: it knows its term, and seeds the member with the most recent data.
#[test]
fn a_group_created_again_knows_its_data() -> Outcome {
    play("anew").run(async |stage| {
        let group = stage.register(json!({})).await?;
        let formed = group.ready(60).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        make_most_recent(&group, 1, 4).await?;
        let members = group.members(3);
        let old: Vec<_> = futures::future::try_join_all(members.iter().map(|m| m.uid())).await?;
        group.delete().await?;
        for member in &members {
            until("the end of the pods", 60, async || Ok(member.pods.get_opt(&member.name).await?.is_none())).await?;
        }
        group.create(json!({})).await?;
        let seen = group.recovered(&old, 90).await?;
        ensure!(term(&seen) == term(&formed) + 1, "term {} after term {}", term(&seen), term(&formed));
        group.rows(7).await?;
        let seeds: Vec<_> = starts(&group.executions().await?).into_iter().filter(|s| s.starts_with("seed")).collect();
        ensure!(seeds == ["seed 0", "seed 1"], "{seeds:?}");
        Ok(())
    })
}
