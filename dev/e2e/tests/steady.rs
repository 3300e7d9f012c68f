//! Nothing is left to do.
use anyhow::{Context, Result, ensure};
use serde_json::json;
use tanist_e2e::{Outcome, Stage, play, until};

// A4, S44, promise 4: ten rounds without a write and without a command but `status`.
#[test]
fn a_settled_group_is_left_alone() -> Outcome {
    play("steady").run(async |stage| {
        let group = stage.register(json!({"resyncIntervalSeconds": 1})).await?;
        group.ready(60).await?;
        // What Kubernetes itself writes after a start comes to rest first.
        let mut before = stage.versions().await?;
        until("rest", 180, async || {
            stage.operator.rounds(2.0, 60).await?;
            let earlier = std::mem::replace(&mut before, stage.versions().await?);
            Ok(earlier == before)
        })
        .await?;
        let (executed, polls) = (group.journal().await?, polls(stage).await?);
        // On a busy machine a status may take seconds, and a role that cannot be read is written. So of six attempts one has to be quiet.
        let mut earlier = before;
        for attempt in 1..=6 {
            stage.operator.rounds(10.0, 120).await?;
            let after = stage.versions().await?;
            if after == earlier {
                break;
            }
            ensure!(attempt < 6, "written without need: {earlier:?} became {after:?}");
            earlier = after;
        }
        ensure!(group.journal().await? == executed, "executed without need: {:?}", group.journal().await?);
        ensure!(self::polls(stage).await? > polls, "status is not asked any more");
        Ok(())
    })
}

async fn polls(stage: &Stage) -> Result<u32> {
    let asked = stage.group("register").member(0).exec(&["grep", "-c", " begin ", "/data/log.status"]).await?;
    asked.text.parse().context("no number")
}
