//! Two versions side by side (`spec.update.strategy: SideBySide`, E4 to E7): the new members come all at once, get clients together, and the former ones leave.
use crate::identity::{called, deletions, image_stays, members, names};
use crate::takeover::{behind, led};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tanist_e2e::{Group, Outcome, Stage, condition, merge, play, until, waits};

/// Whether new members come in the place of others, and these stay for now.
fn both_are_there(group: &Value) -> bool {
    let replaced = group.pointer("/status/record/seats/replaced").and_then(Value::as_object);
    replaced.is_some_and(|replaced| !replaced.is_empty())
}

async fn pods(group: &Group, numbers: &[u32]) -> Result<BTreeMap<u32, String>> {
    let mut uids = BTreeMap::new();
    for number in numbers {
        uids.insert(*number, group.member(*number).uid().await?);
    }
    Ok(uids)
}

/// Waits until readers are led to the new members alone. Before the cut-over none of them has clients.
async fn until_turned(stage: &Stage, group: &Group, new: &[&str]) -> Result<()> {
    let (mut early, mut looks) = (Vec::new(), 0);
    until("readers are led to the new members alone", 240, async || {
        let readers = behind(stage, "register-ro").await?;
        // Read afterwards: if the cut-over has not come by now, it had not come then.
        let is_before = both_are_there(&group.get().await?);
        looks += u32::from(is_before);
        let (came, stayed): (Vec<_>, Vec<_>) = readers.split_whitespace().partition(|reader| new.contains(reader));
        if is_before && !came.is_empty() {
            early.push(readers.clone());
        }
        Ok(!came.is_empty() && stayed.is_empty())
    })
    .await?;
    ensure!(early.is_empty(), "before the cut-over readers are led to {early:?}");
    ensure!(looks > 0, "nobody looked before the cut-over");
    Ok(())
}

// E4, E7, E8: a second version comes up beside the first one, gets no clients before the cut-over, and is cancelled while it cannot start, without a trace: the pods of before are the same. One that works takes over in one
// step, the lead moves to it, and the former members leave. Every row is there, and no pod was deleted for the update.
#[test]
fn two_versions_run_side_by_side() -> Outcome {
    play("beside").run(async |stage| {
        stage.operator.grant("deploy/rbac/members").await?;
        let mut changes = led();
        let update = json!({"strategy": "SideBySide"});
        merge(&mut changes, json!({"members": {"kind": "Pods"}, "resyncIntervalSeconds": 2, "update": update}));
        let group = stage.register(changes).await?;
        members(stage, &group, &[0, 1, 2], 0).await?;
        group.member(0).write(3).await?;
        group.copied(3).await?;
        let readers = async |names: &str| Ok(behind(stage, "register-ro").await? == names);
        until("readers are led to the secondaries", 60, async || readers("register-1 register-2").await).await?;
        let before = pods(&group, &[0, 1, 2]).await?;

        // No node has that label.
        group.change(json!({"template": {"spec": {"nodeSelector": {"example.org/nowhere": "true"}}}})).await?;
        let all = called("register", &[0, 1, 2, 3, 4, 5]);
        until("both versions are there", 60, async || Ok(names(stage, "pods")? == all)).await?;
        let says = |seen: &Value| waits(seen).contains("0 of 3 members that the cut-over waits for");
        group.until("what the cut-over waits for", 60, says).await?;
        ensure!(behind(stage, "register-ro").await? == "register-1 register-2");
        group.member(0).write(2).await?;
        group.change(json!({"template": {"spec": {"nodeSelector": null}}})).await?;
        members(stage, &group, &[0, 1, 2], 5).await?;
        ensure!(pods(&group, &[0, 1, 2]).await? == before, "the former members go on in their pods");
        ensure!(behind(stage, "register-ro").await? == "register-1 register-2");

        group.change(image_stays("two")).await?;
        until_turned(stage, &group, &["register-6", "register-7", "register-8"]).await?;
        let gone = async || Ok(names(stage, "pods")? == called("register", &[6, 7, 8]));
        until("the former members have left", 240, gone).await?;
        let seen = members(stage, &group, &[6, 7, 8], 5).await?;
        ensure!(deletions(&seen).iter().all(|pod| all[3..].contains(pod)), "{:?}", deletions(&seen));
        ensure!(condition(&seen, "UpdatePending").starts_with("False") || condition(&seen, "UpdatePending").is_empty());
        let leader = behind(stage, "register-rw").await?;
        let number = leader.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
        group.member(number.unwrap_or(99)).write(2).await?;
        members(stage, &group, &[6, 7, 8], 7).await?;
        Ok(())
    })
}
