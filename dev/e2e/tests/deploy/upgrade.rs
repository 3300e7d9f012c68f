//! From the release before to the present one, and back, while a command runs.
use crate::members::SlowStart;
use crate::shop::{
    PRESENT, PREVIOUS, SPACE, Shop, chart, chart_in, example, image_of_leader, in_shop, leader, led_by_other, load_as,
    release, roll_back, story,
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use tanist_e2e::{Outcome, condition, kubectl_given, merge, root, run, text, until};

/// Seconds that a start takes until it is cut short: more than Helm may wait for an upgrade, and another operator for the lead.
const OUTLIVES: u32 = 400;

// Groups and open commands of the release before go on under this one, and after a roll-back under that one again. Nothing is executed twice, and
// no pod is touched.
#[test]
fn an_open_command_outlives_an_upgrade_and_a_roll_back() -> Outcome {
    story("upgrade", async |shop| {
        install_previous(shop)?;
        shop.form().await?;
        // What the present release calls policyLabelKeys.
        shop.group.change(json!({"labels": ["tier"]})).await?;
        shop.group.ready(180).await?;

        let (old, slow) = (leader()?, shop.begin_slow_start(2, OUTLIVES).await?);
        let pods = shop.pods().await?;
        chart("upgrade", "tanist-crds", &[])?;
        release("upgrade", &[])?;
        handed_over(shop, &old, PRESENT, &slow).await?;
        shop.end_sleep(&slow).await?;
        shop.started_once(&slow, &pods).await?;
        former_runner_goes_on(shop, &slow, &pods).await?;
        former_labels_go_on(shop).await?;

        let (old, slow) = (leader()?, shop.begin_slow_start(1, OUTLIVES).await?);
        let pods = shop.pods().await?;
        roll_back(1)?;
        handed_over(shop, &old, PREVIOUS, &slow).await?;
        record_is_read(shop).await?;
        shop.end_sleep(&slow).await?;
        shop.started_once(&slow, &pods).await
    })
}

/// As the release before did it: with its own charts.
fn install_previous(shop: &Shop) -> Result<()> {
    let archive = std::env::var("PREVIOUS").context("set PREVIOUS=$(deploy/tests/previous)")?;
    load_as(Path::new(&archive), PREVIOUS)?;
    let commit = std::fs::read_to_string(root().join("deploy/tests/previous-release"))?;
    let (tar, folder) = (shop.folder.path().join("previous.tar"), shop.folder.path().join("previous"));
    std::fs::create_dir(&folder)?;
    run(Command::new("git").arg("-C").arg(root()).args(["archive", "-o"]).arg(&tar).args([
        commit.trim(),
        "deploy",
        "crds",
    ]))?;
    run(Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(&folder))?;
    chart_in(&folder, "install", "tanist-crds", &[])?;
    let values = ["--set", "namespaces={shop}", "--set", "image.tag=previous", "--wait", "--timeout", "120s"];
    chart_in(&folder, "install", "tanist", &values)
}

/// The operator of that image leads now, and has the open intent.
async fn handed_over(shop: &Shop, old: &str, image: &str, slow: &SlowStart) -> Result<()> {
    // The replica of before that stood by may lead for a moment.
    until("a new leader of that image", 90, async || Ok(led_by_other(old)? && image_of_leader()? == image)).await?;
    shop.is_open(slow).await
}

/// The runner of members changed with the release, and they say so; with the former one the present operator goes on.
async fn former_runner_goes_on(shop: &Shop, slow: &SlowStart, pods: &[(Option<String>, i32)]) -> Result<()> {
    let pending = condition(&shop.group.get().await?, "UpdatePending");
    ensure!(pending.starts_with("True"), "the runner changed, and the group reports UpdatePending as: {pending:?}");
    release("upgrade", &["--set", &format!("runnerImage={PREVIOUS}")])?;
    shop.group.until("the old runner again", 60, |group| condition(group, "UpdatePending").is_empty()).await?;
    shop.started_once(slow, pods).await
}

/// A group that was stored with spec.labels is managed as before and can be changed; only what names it anew is refused.
async fn former_labels_go_on(shop: &Shop) -> Result<()> {
    const SENTENCE: &str = "labels was renamed: move its keys to spec.policyLabelKeys, and remove spec.labels";
    let before = shop.pods().await?;
    let stored = shop.group.get().await?.pointer("/spec/labels").cloned();
    ensure!(stored == Some(json!(["tier"])), "spec.labels is stored as {stored:?}");
    shop.group.change(json!({"resyncIntervalSeconds": 50})).await?;
    let observed = |group: &Value| group.pointer("/status/observedGeneration") == group.pointer("/metadata/generation");
    let group = shop.group.until("a status about the change", 30, observed).await?;
    let of_present = group.pointer("/status/readyReplicas") == Some(&json!(3))
        && group.pointer("/status/primaries").and_then(Value::as_array).is_some_and(|all| all.len() == 3)
        && text(&group, "/status/columns/members") == "3/3"
        && group.pointer("/status/primary").is_none();
    ensure!(of_present, "the status is not that of the present release: {group}");

    let patched = |spec: Value| {
        let patch = json!({"spec": spec}).to_string();
        in_shop(&["patch", "rg", "register", "--type", "merge", "-p", &patch, "--dry-run=server"])
    };
    let said = patched(json!({"labels": ["other"]})).err().map(|e| format!("{e:#}")).unwrap_or_default();
    ensure!(said.contains(SENTENCE), "a change of spec.labels is refused without its sentence: {said}");
    let mut other = example()?;
    merge(&mut other, json!({"metadata": {"name": "other"}, "spec": {"labels": ["tier"]}}));
    let created = kubectl_given(&other.to_string(), &["create", "-n", SPACE, "--dry-run=server", "-f", "-"]);
    let said = created.err().map(|e| format!("{e:#}")).unwrap_or_default();
    ensure!(said.contains(SENTENCE), "a new group with spec.labels is refused without its sentence: {said}");
    patched(json!({"labels": null, "policyLabelKeys": ["tier"]})).context("failed to rename spec.labels")?;
    shop.group.ready(60).await?;
    shop.undisturbed(&before).await
}

/// The older operator reads the record that the newer one wrote; it would say otherwise in the round in which it sees a change.
async fn record_is_read(shop: &Shop) -> Result<()> {
    shop.group.change(json!({"resyncIntervalSeconds": 49})).await?;
    let observed = |group: &Value| group.pointer("/status/observedGeneration") == group.pointer("/metadata/generation");
    let group = shop.group.until("the older operator's status about a change", 60, observed).await?;
    let conditions = group.pointer("/status/conditions").and_then(Value::as_array);
    let unreadable = conditions.into_iter().flatten().any(|c| text(c, "/reason") == "RecordUnreadable");
    ensure!(!unreadable, "the older operator cannot read the record that the newer one wrote: {group}");
    Ok(())
}
