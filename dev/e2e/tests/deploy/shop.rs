//! What the stories share: helm, the images, a namespace with a group of registers, and that nothing is left.
use anyhow::{Context, Result, bail, ensure};
use kube::Client;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;
use tanist_e2e::{Group, Outcome, cache, kubectl, kubectl_given, machines, root, run};

/// The namespace of the group.
pub const SPACE: &str = "shop";
/// The namespace of the operator.
pub const SYSTEM: &str = "tanist-system";
/// The definition of groups.
pub const CRD: &str = "replicagroups.tanist.dev";
/// The operator as this checkout builds it, and as the release before did.
pub const PRESENT: &str = "tanist.local/tanist:dev";
pub const PREVIOUS: &str = "tanist.local/tanist:previous";
/// What Helm may need for a start of the operator.
const WAIT: [&str; 3] = ["--wait", "--timeout", "120s"];

/// A cluster whose only installation of the operator is that of the story.
pub struct Shop {
    /// The client of the cluster's API.
    pub client: Client,
    /// The group `register` in the namespace `shop`.
    pub group: Group,
    /// A folder that ends with the story.
    pub folder: tempfile::TempDir,
}

/// Plays a story on a cluster without Tanist, which has none afterwards.
pub fn story(name: &str, body: impl AsyncFnOnce(&Shop) -> Result<()>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let began = Instant::now();
        let shop = Shop::open().await.map_err(|e| format!("failed to set the stage: {e:#}"))?;
        let done = body(&shop).await;
        if let Err(error) = &done {
            explain(name, error);
            if std::env::var_os("KEEP").is_some() {
                println!("==== all of it stays in the cluster, to look at");
                return Err(format!("{error:#}"));
            }
        }
        clean_up();
        println!("{name} ended after {:.1} s", began.elapsed().as_secs_f64());
        done.map_err(|error| format!("{error:#}"))
    })
}

impl Shop {
    async fn open() -> Result<Self> {
        load_images()?;
        let there = kubectl(&["get", "crd", CRD, "--ignore-not-found", "-o", "name"])?;
        ensure!(there.is_empty(), "this cluster has Tanist; take another: CLUSTER=helm dev/cluster up");
        kubectl(&["apply", "-f", &place("deploy/operator/namespace.yaml")])?;
        kubectl(&["create", "namespace", SPACE])?;
        kubectl(&["label", "namespace", SPACE, "pod-security.kubernetes.io/enforce=restricted"])?;
        let client = Client::try_default().await.context("failed to find the cluster")?;
        let group = Group::named(&client, SPACE, "register");
        Ok(Shop { client, group, folder: tempfile::tempdir()? })
    }

    /// Installs both charts as they are now.
    pub fn install(&self) -> Result<()> {
        chart("install", "tanist-crds", &[])?;
        release("install", &[])
    }

    /// The example with five rows, made as users make it. Nothing of its pods is left to defaults, which another program may have other ones
    /// of; and a start may take longer than the operator's grace: those are the ones that outlive it.
    pub async fn form(&self) -> Result<()> {
        let mut group = example()?;
        let spec = json!({
            "commands": {"primary": {"timeoutSeconds": 600}},
            "template": {"spec": {"affinity": {"podAntiAffinity": {}}, "topologySpreadConstraints": []}}
        });
        tanist_e2e::merge(&mut group, json!({"spec": spec}));
        kubectl_given(&group.to_string(), &["apply", "-n", SPACE, "-f", "-"])?;
        self.group.ready(180).await?;
        self.group.member(0).write(5).await?;
        self.rows_everywhere(5).await
    }
}

/// examples/register/group.yaml.
pub fn example() -> Result<Value> {
    let text = std::fs::read_to_string(root().join("examples/register/group.yaml"))?;
    serde_saphyr::from_str(&text).context("failed to read the example")
}

/// A path of this checkout.
pub fn place(path: &str) -> String {
    root().join(path).to_string_lossy().into_owned()
}

/// kubectl in the namespace of the group.
pub fn in_shop(arguments: &[&str]) -> Result<String> {
    kubectl(&[&["-n", SPACE], arguments].concat())
}

/// kubectl in the namespace that the default installation manages.
pub fn in_default(arguments: &[&str]) -> Result<String> {
    kubectl(&[&["-n", "default"], arguments].concat())
}

/// Runs helm and returns what it printed. It is installed when it is missing.
pub fn helm(arguments: &[&str]) -> Result<String> {
    static PROGRAM: Mutex<Option<PathBuf>> = Mutex::new(None);
    let program = {
        let Ok(mut known) = PROGRAM.lock() else { bail!("the installation of helm was cut off") };
        match &*known {
            Some(program) => program.clone(),
            None => known.insert(find_helm()?).clone(),
        }
    };
    run(Command::new(program).args(arguments))
}

fn find_helm() -> Result<PathBuf> {
    if let Some(program) = std::env::var_os("HELM") {
        return Ok(program.into());
    }
    run(Command::new(root().join("deploy/tools")).arg("helm"))?;
    Ok(cache().join("tools/bin/helm"))
}

/// Installs or upgrades a chart of deploy/charts, in the operator's namespace and under its own name.
pub fn chart(verb: &str, name: &str, more: &[&str]) -> Result<()> {
    chart_in(&root(), verb, name, more)
}

/// The same of another checkout.
pub fn chart_in(root: &Path, verb: &str, name: &str, more: &[&str]) -> Result<()> {
    let folder = root.join("deploy/charts").join(name);
    let arguments = [verb, name, &folder.to_string_lossy(), "--namespace", SYSTEM];
    helm(&[&arguments, more].concat()).map(drop)
}

/// Installs or upgrades the operator for the group's namespace and waits until it runs.
pub fn release(verb: &str, more: &[&str]) -> Result<()> {
    let arguments = [&["--set", "namespaces={shop}"], more, &WAIT].concat();
    chart(verb, "tanist", &arguments)
}

/// Removes the operator's chart and waits for its end.
pub fn uninstall() -> Result<()> {
    helm(&[&["uninstall", "tanist", "--namespace", SYSTEM][..], &WAIT].concat()).map(drop)
}

/// Checks that no object of the chart is left, with these further kinds.
pub fn nothing_is_left(more: &str) -> Result<()> {
    let ours = ["-l", "app.kubernetes.io/name=tanist", "-o", "name"];
    let kinds = format!("deployment,service,serviceaccount,role,rolebinding,pdb,networkpolicy{more}");
    let left = kubectl(&[&["get", &kinds, "-A"][..], &ours].concat())?;
    ensure!(left.is_empty(), "left behind: {left}");
    // Those of people belong to tanist-crds.
    let roles = kubectl(&[&["get", "clusterrole,clusterrolebinding"][..], &ours].concat())?;
    ensure!(!roles.contains("nodes"), "left behind: {roles}");
    Ok(())
}

/// Goes back to a revision of the operator's chart.
pub fn roll_back(revision: u64) -> Result<()> {
    helm(&[&["rollback", "tanist", &revision.to_string(), "--namespace", SYSTEM][..], &WAIT].concat()).map(drop)
}

/// The revision of the operator's chart.
pub fn revision() -> Result<u64> {
    let listed: Vec<Value> = serde_json::from_str(&helm(&["list", "-n", SYSTEM, "-o", "json"])?)?;
    let found = listed.iter().find(|release| release["name"] == "tanist").context("there is no release")?;
    found["revision"].as_str().context("no revision")?.parse().context("a revision is a number")
}

/// Which operator leads.
pub fn leader() -> Result<String> {
    kubectl(&["get", "lease", "-n", SYSTEM, "tanist", "-o", "jsonpath={.spec.holderIdentity}"])
}

/// Whether another operator than that leads, and still runs.
pub fn led_by_other(old: &str) -> Result<bool> {
    let now = leader()?;
    Ok(!now.is_empty() && now != old && kubectl(&["get", "pod", "-n", SYSTEM, &now]).is_ok())
}

/// The image of the operator that leads.
pub fn image_of_leader() -> Result<String> {
    kubectl(&["get", "pod", "-n", SYSTEM, &leader()?, "-o", "jsonpath={.spec.containers[0].image}"])
}

/// Another name for the image in an archive of dev/image, and the archive in every node.
pub fn load_as(archive: &Path, name: &str) -> Result<()> {
    ensure!(archive.exists(), "{} is not there: make image", archive.display());
    let folder = tempfile::tempdir()?;
    run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(folder.path()))?;
    let manifest = folder.path().join("manifest.json");
    let mut images: Value = serde_json::from_slice(&std::fs::read(&manifest)?)?;
    *images.pointer_mut("/0/RepoTags").context("an archive without names")? = json!([name]);
    std::fs::write(&manifest, images.to_string())?;
    let renamed = folder.path().join("renamed.tar");
    let files = ["manifest.json", "config.json", "layer.tar"];
    run(Command::new("tar").arg("-cf").arg(&renamed).arg("-C").arg(folder.path()).args(files))?;
    machines(&["load", &renamed.to_string_lossy()]).map(drop)
}

/// Once per process.
fn load_images() -> Result<()> {
    static LOADED: Mutex<bool> = Mutex::new(false);
    let Ok(mut loaded) = LOADED.lock() else { bail!("the loading of images was cut off") };
    if !*loaded {
        let images = cache().join("images");
        let current = std::env::var_os("CURRENT").map_or_else(|| images.join("tanist.tar"), PathBuf::from);
        load_as(&current, PRESENT)?;
        machines(&["load", &images.join("register.tar").to_string_lossy()])?;
        *loaded = true;
    }
    Ok(())
}

/// A group and pods that are stuck must not hold up what follows, so each of these may fail.
fn clean_up() {
    const DEFINITIONS: [&str; 3] =
        [CRD, "servicemonitors.monitoring.coreos.com", "prometheusrules.monitoring.coreos.com"];
    let ours = ["-l", "app.kubernetes.io/name=tanist"];
    for in_namespace in [in_shop, in_default] {
        let _ = in_namespace(&["delete", "rg", "--all", "--wait=true", "--timeout=60s"]);
    }
    let _ = in_default(&["delete", "pvc", "-l", "tanist.dev/group"]);
    for name in ["tanist", "tanist-crds"] {
        let _ = helm(&["uninstall", name, "--namespace", SYSTEM, "--ignore-not-found"]);
    }
    let _ = kubectl(&["delete", "-k", &place("deploy/admission"), "--ignore-not-found"]);
    let _ = kubectl(&[&["delete", "clusterrole,clusterrolebinding"][..], &ours].concat());
    let _ = kubectl(&[&["delete", "role,rolebinding", "-n", "default"][..], &ours].concat());
    let gone = ["--ignore-not-found", "--wait=true", "--timeout=120s"];
    let _ = kubectl(&[&["delete", "namespace", SPACE, SYSTEM, "bank"][..], &gone].concat());
    let _ = kubectl(&[&["delete", "crd"][..], &DEFINITIONS, &gone].concat());
}

fn explain(name: &str, error: &anyhow::Error) {
    println!("==== {name} failed: {error:#}");
    let logs = ["logs", "-n", SYSTEM, "-l", "tanist.dev/component=operator", "--tail=20", "--prefix"];
    for arguments in [
        &["get", "rg", "-A", "-o", "yaml"][..],
        &["get", "pods", "-A", "-o", "wide"],
        &["get", "events", "-n", SYSTEM, "--sort-by=.lastTimestamp"],
        &logs,
    ] {
        let said = kubectl(arguments).unwrap_or_else(|error| format!("{error:#}"));
        println!("---- {}\n{}", arguments.join(" "), said.trim_end());
    }
}
