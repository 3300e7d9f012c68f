//! Values of the chart that are wrong, and namespaces that come and go.
use crate::shop::{SPACE, SYSTEM, helm, in_shop, place, release, revision, roll_back, story};
use anyhow::{Context, Result, ensure};
use tanist_e2e::{Outcome, kubectl, until};

// Wrong values are refused with a word about them; after an upgrade that failed in the middle, a roll-back restores the release.
#[test]
fn wrong_values_change_nothing() -> Outcome {
    story("values", async |shop| {
        shop.install()?;
        shop.form().await?;
        let (before, chart) = (revision()?, place("deploy/charts/tanist"));
        let upgrade = ["upgrade", "tanist", &chart, "--namespace", SYSTEM, "--set"];
        // A text where a list is meant.
        let said = helm(&[&upgrade[..], &["namespaces=shop"]].concat()).err().map(|e| format!("{e:#}"));
        let said = said.context("wrong values were taken")?;
        // What was called has the word, too.
        let (_, told) = said.split_once("\"namespaces=shop\": ").context("no word of helm")?;
        ensure!(told.contains("namespaces"), "wrong values are refused without a word about them: {said}");
        ensure!(revision()? == before, "wrong values made a revision");
        // A namespace that is not there: nothing of the release changes hands.
        let missing = helm(&[&upgrade[..], &["namespaces={shop,nowhere}"]].concat());
        ensure!(missing.is_err(), "a missing namespace was taken");
        roll_back(before)?;
        shop.group.ready(60).await?;
        come_and_go()?;
        second_installation().await?;
        shop.group.ready(30).await.map(drop)
    })
}

/// A namespace that is watched gets rights, and loses them when it is not any more.
fn come_and_go() -> Result<()> {
    kubectl(&["create", "namespace", "bank"])?;
    release("upgrade", &["--set", "namespaces={shop,bank}"])?;
    kubectl(&["get", "-n", "bank", "role/tanist", "rolebinding/tanist"]).context("a new namespace got no rights")?;
    release("upgrade", &[])?;
    let left = kubectl(&["get", "-n", "bank", "role,rolebinding", "-o", "name"])?;
    ensure!(left.is_empty(), "rights stayed in a namespace that is not watched any more: {left}");
    Ok(())
}

/// Another installation, under another name, whose namespaces overlap: it leaves the groups of the first alone, and goes without its rights.
async fn second_installation() -> Result<()> {
    let wait = ["--wait", "--timeout", "120s"];
    let chart = place("deploy/charts/tanist");
    let second = ["install", "second", &chart, "--namespace", "bank"];
    let values = ["--set", &format!("namespaces={{{SPACE}}}"), "--set", "installation=second"];
    helm(&[&second[..], &values, &wait].concat())?;
    until("the second installation leaving the group alone", 60, async || {
        let log = kubectl(&["logs", "-n", "bank", "-l", "tanist.dev/component=operator", "--tail=-1"])?;
        Ok(log.contains(r#"installation \"tanist\" manages this group"#))
    })
    .await?;
    helm(&[&["uninstall", "second", "--namespace", "bank"][..], &wait].concat())?;
    kubectl(&["get", "clusterrole", "tanist-nodes"]).context("the second installation took rights along")?;
    in_shop(&["get", "role/tanist"]).context("the second installation took rights along")?;
    Ok(())
}
