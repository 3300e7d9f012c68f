//! The cluster: images, definition, kubectl. The first test of a process prepares it.
use anyhow::{Context, Result, bail, ensure};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

/// The root folder of the checkout.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where manifests and examples are taken from: this checkout, or the one that `TANIST_CHECKOUT` names, for an operator of another commit.
#[must_use]
pub fn manifests_root() -> PathBuf {
    std::env::var_os("TANIST_CHECKOUT").map_or_else(root, PathBuf::from)
}

/// Runs kubectl as the user of `KUBECONFIG` and returns what it printed.
///
/// # Errors
/// When it fails, with what it wrote to standard error.
pub fn kubectl(arguments: &[&str]) -> Result<String> {
    run(&mut kubectl_command(arguments)?)
}

/// The same with that text on its standard input, for `-f -`.
///
/// # Errors
/// As [`kubectl`], and when the text cannot be handed over.
pub fn kubectl_given(input: &str, arguments: &[&str]) -> Result<String> {
    run_given(&mut kubectl_command(arguments)?, input)
}

fn kubectl_command(arguments: &[&str]) -> Result<Command> {
    let config = std::env::var("KUBECONFIG").context("set KUBECONFIG to the cluster, as `make e2e` does")?;
    let mut command = Command::new(root().join("dev/cluster"));
    command.args(["kubectl", "--kubeconfig", &config]).args(arguments);
    Ok(command)
}

/// Runs the command line as a user would: `tanist explain register`. Returns what it printed.
///
/// # Errors
/// When it fails, with what it wrote to standard error.
pub fn tanist(namespace: &str, arguments: &[&str]) -> Result<String> {
    run(&mut tanist_command(namespace, arguments))
}

/// The same, however it ends: its exit code, what it printed, what it wrote to standard error.
///
/// # Errors
/// When it cannot be run.
pub fn tanist_ended(namespace: &str, arguments: &[&str]) -> Result<(i32, String, String)> {
    let output = tanist_command(namespace, arguments).output().context("failed to run tanist")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr)))
}

fn tanist_command(namespace: &str, arguments: &[&str]) -> Command {
    let home = std::env::var("HOME").unwrap_or_default();
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| format!("{home}/.cache/tanist/target"));
    let machine = std::env::var("CARGO_BUILD_TARGET").unwrap_or_else(|_| "x86_64-unknown-linux-musl".into());
    let binary = Path::new(&target).join(machine).join("debug/tanist");
    let mut command = Command::new(binary);
    command.args(arguments).args(["--namespace", namespace]);
    command
}

/// Runs a command of dev/cluster on its machines, for instance `partition node1` or `node-kill node1`; see dev/README.md.
///
/// # Errors
/// When it fails, with what it wrote to standard error.
pub fn machines(arguments: &[&str]) -> Result<String> {
    run(Command::new(root().join("dev/cluster")).args(arguments))
}

/// Runs a program to its end and returns what it printed.
///
/// # Errors
/// When it fails, with what it wrote to standard error.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("failed to run {command:?}"))?;
    ended_well(command, &output)
}

/// The same with that text on its standard input.
///
/// # Errors
/// As [`run`].
pub fn run_given(command: &mut Command, input: &str) -> Result<String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("failed to run {command:?}"))?;
    // It reads all of it before it answers, so neither waits for the other. Who ends early says why.
    let _ = child.stdin.take().context("no input")?.write_all(input.as_bytes());
    let output = child.wait_with_output()?;
    ended_well(command, &output)
}

fn ended_well(command: &Command, output: &Output) -> Result<String> {
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The objects of a folder of manifests, as kustomize renders it.
///
/// # Errors
/// When it cannot be rendered.
pub fn manifests(folder: &str) -> Result<Vec<Value>> {
    static RENDERED: Mutex<BTreeMap<String, Vec<Value>>> = Mutex::new(BTreeMap::new());
    let Ok(mut rendered) = RENDERED.lock() else { bail!("the rendering was cut off") };
    if let Some(objects) = rendered.get(folder) {
        return Ok(objects.clone());
    }
    let objects = documents(&kubectl(&["kustomize", &manifests_root().join(folder).to_string_lossy()])?)?;
    rendered.insert(folder.to_owned(), objects.clone());
    Ok(objects)
}

/// The documents of a YAML text.
///
/// # Errors
/// When it is not YAML.
pub fn documents(text: &str) -> Result<Vec<Value>> {
    Ok(serde_saphyr::from_multiple(text)?)
}

/// An API client for objects of that kind; cluster-wide ones have no namespace.
///
/// # Errors
/// When the object has no kind.
pub fn api_of(client: &Client, object: &Value) -> Result<Api<DynamicObject>> {
    let word = |key: &str| object.pointer(key).and_then(Value::as_str);
    let version = word("/apiVersion").context("no apiVersion")?;
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, word("/kind").context("no kind")?));
    Ok(match word("/metadata/namespace") {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    })
}

/// Writes an object with server-side apply.
///
/// # Errors
/// When the API server refuses it.
pub async fn apply(client: &Client, object: &Value) -> Result<()> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).context("no name")?;
    let params = PatchParams::apply("tanist-e2e").force();
    let applied = api_of(client, object)?.patch(name, &params, &Patch::Apply(object)).await;
    applied.map(drop).with_context(|| format!("failed to apply {name}"))
}

/// Loads the images and applies the definition, once per process.
///
/// # Errors
/// When either fails; every test then fails with the same error.
pub async fn prepare(client: &Client) -> Result<()> {
    static PREPARED: Mutex<Option<Result<(), String>>> = Mutex::new(None);
    {
        let Ok(mut prepared) = PREPARED.lock() else { bail!("the preparation was cut off") };
        let done = prepared.get_or_insert_with(|| load_images().map_err(|e| format!("{e:#}")));
        done.clone().map_err(anyhow::Error::msg)?;
    }
    for object in manifests("deploy/crd")? {
        apply(client, &object).await?;
    }
    Ok(())
}

/// Where images and programs lie that were built before: `TANIST_CACHE`.
#[must_use]
pub fn cache() -> PathBuf {
    let home = std::env::var("HOME").unwrap_or_default();
    std::env::var_os("TANIST_CACHE").map_or_else(|| Path::new(&home).join(".cache/tanist"), PathBuf::from)
}

fn load_images() -> Result<()> {
    let mut command = Command::new(root().join("dev/cluster"));
    command.arg("load");
    // Who names another image of the operator has loaded it.
    let images: &[&str] =
        if std::env::var_os("TANIST_IMAGE").is_some() { &["register"] } else { &["tanist", "register"] };
    for image in images {
        command.arg(archive(image)?);
    }
    run(&mut command).map(drop)
}

/// Loads the image of another example than the register.
///
/// # Errors
/// When it was not built, or cannot be loaded.
pub fn load_image(image: &str) -> Result<()> {
    run(Command::new(root().join("dev/cluster")).arg("load").arg(archive(image)?)).map(drop)
}

fn archive(image: &str) -> Result<PathBuf> {
    let tar = cache().join("images").join(format!("{image}.tar"));
    ensure!(tar.exists(), "{} is not there: run `make build`", tar.display());
    Ok(tar)
}
