//! One takeover with the operator as it is released. All other tests run the development build, which is optimised less and ends where a number
//! overflows. Here a release image is built anyway, so that this costs no build.

use anyhow::{anyhow, ensure};
use tanist_e2e::{Stage, condition, play, term};

use crate::{seen, takeovers};

/// The image is that of `TANIST_IMAGE`, or that of the end-to-end tests.
///
/// # Errors
/// When something is not as it has to be. Then no figure of that image is worth anything.
pub fn run() -> anyhow::Result<()> {
    play("release").run(story).map_err(|error| anyhow!(error))
}

// A15, S1: a group forms, its primary's process dies, and one secondary takes over with every row, once; the operator is not restarted.
async fn story(stage: &Stage) -> anyhow::Result<()> {
    let group = takeovers::formed(stage).await?;
    let before = term(&group.get().await?);
    group.member(0).exec(&["sh", "-c", "kill -9 $(cut -d' ' -f1,3 /run/register/server)"]).await?;
    let other = |now: &serde_json::Value| {
        let leads = seen::primary(now);
        !leads.is_empty() && leads != "register-0" && condition(now, "Ready").starts_with("True AllMembersInRole")
    };
    let now = group.until("another primary", 120, other).await?;
    ensure!(term(&now) == before.saturating_add(1), "term {} after term {before}", term(&now));
    let promotions = takeovers::promotions(&group).await?.len();
    ensure!(promotions == 1, "{promotions} promotions");
    group.rows(20).await?;
    group.had_one_primary_at_a_time().await?;
    ensure!(stage.operator.restarts().await? == 0, "the operator was restarted");
    Ok(())
}
