//! The operator goes, groups stay.
use crate::shop::{CRD, SYSTEM, Shop, helm, in_shop, nothing_is_left, place, story, uninstall};
use anyhow::{Context, Result, ensure};
use tanist_e2e::{KILL, Outcome, condition, kubectl, until};

// Uninstalled while a command runs: it ends, all members serve, take writes and copy them; definition and groups outlive both charts. Installed
// again, the operator goes on where it was. The same group outlives the change from the folders to Helm.
#[test]
fn groups_outlive_the_operator() -> Outcome {
    story("uninstall", async |shop| {
        shop.install()?;
        shop.form().await?;
        let slow = shop.begin_slow_start(2, 40).await?;
        let (pods, objects) = (shop.pods().await?, objects()?);
        uninstall()?;
        until("the operators' end", 90, async || Ok(kubectl(&["get", "pods", "-n", SYSTEM, "-o", "name"])?.is_empty()))
            .await?;
        nothing_is_left("")?;
        ensure!(self::objects()? == objects, "the group lost objects: {objects}");
        until("every member serving without an operator", 90, async || shop.serves().await).await?;
        shop.group.member(0).write(4).await?;
        shop.rows_everywhere(9).await?;
        shop.undisturbed(&pods).await?;
        let well = shop.ended_well(&slow).await?;
        ensure!(well == 1, "the command that ran ended well {well} times without an operator");

        helm(&["uninstall", "tanist-crds", "--namespace", SYSTEM])?;
        kubectl(&["get", "crd", CRD]).context("the definition is gone")?;
        shop.group.get().await.context("the group is gone with tanist-crds")?;

        shop.install()?;
        until("the settling of the old intent", 60, async || Ok(shop.intents(2).await?.is_empty())).await?;
        shop.started_once(&slow, &pods).await?;
        it_is_managed(shop).await?;
        from_folders_to_helm(shop).await
    })
}

/// All that belongs to the group.
fn objects() -> Result<String> {
    let kinds = "rg,statefulset,service,pdb,pvc,pod";
    let listed = in_shop(&["get", kinds, "-l", "tanist.dev/group=register", "-o", "name"])?;
    let mut names: Vec<_> = listed.lines().collect();
    names.sort_unstable();
    Ok(names.join(" "))
}

/// A member that dies comes back.
async fn it_is_managed(shop: &Shop) -> Result<()> {
    shop.group.member(1).exec(&KILL).await?;
    shop.group.until("the loss being seen", 30, |group| condition(group, "Ready").starts_with("False")).await?;
    shop.group.ready(120).await?;
    shop.rows_everywhere(9).await
}

/// The folders as they are now, then Helm over them, then nothing.
async fn from_folders_to_helm(shop: &Shop) -> Result<()> {
    let (folder, pods) = (place("deploy/default"), shop.pods().await?);
    uninstall()?;
    kubectl(&["apply", "--server-side", "-k", &folder])?;
    kubectl(&["rollout", "status", "-n", SYSTEM, "deployment/tanist", "--timeout=120s"])?;
    // To Helm 4, what kubectl has set stays kubectl's, and changing it has to be said. Helm 3 takes it without a word.
    let conflicts = helm(&["upgrade", "--help"])?.contains("--force-conflicts");
    let taking: &[&str] = if conflicts { &["--take-ownership", "--force-conflicts"] } else { &["--take-ownership"] };
    let chart = place("deploy/charts/tanist");
    let install = ["install", "tanist", &chart, "--namespace", SYSTEM, "--wait", "--timeout", "120s"];
    helm(&[&install[..], taking].concat())?;
    uninstall()?;
    let left = ["get", "role,rolebinding", "-n", "default", "-l", "app.kubernetes.io/name=tanist", "-o", "name"];
    let left = kubectl(&left)?;
    ensure!(left.is_empty(), "rights stayed in the namespace default: {left}");
    kubectl(&["apply", "--server-side", "-k", &folder])?;
    kubectl(&["delete", "-k", &folder, "--wait=true"])?;
    shop.group.get().await.context("the group is gone with deploy/default")?;
    shop.undisturbed(&pods).await
}
