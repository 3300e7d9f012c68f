//! `tanist policy put`: a policy into a `ConfigMap`, and whether the groups that use it follow.
use super::super::output::{Form, note, print};
use super::super::trouble::failed;
use super::super::{Session, color};
use super::tools::tools;
use super::{End, check, follow, live, say};
use anyhow::bail;
use jiff::SignedDuration;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Error as KubeError, ResourceExt};
use serde::Serialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tanist_api::LABEL_POLICY;
use tanist_author::Error;
use tanist_author::check::check_bytes as through;
use tanist_author::tools::{is_script, read};
use tanist_core::policy::{Point, PolicyName};

/// The arguments of `tanist policy put`.
#[derive(Debug, Clone, clap::Args)]
pub struct Put {
    /// The ConfigMap. It is created if there is none.
    #[arg(id = "config_map", value_name = "NAME")]
    name: String,
    /// The policy: a script (.star) or a component (.wasm).
    file: PathBuf,
    /// The key in the ConfigMap. Default: the name of the file.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// The questions that it will be asked, as `points` of the groups say; the exam counts at these alone. Default: all that it has.
    #[arg(long, value_name = "QUESTION", value_delimiter = ',', value_parser = live::points())]
    points: Vec<Point>,
    /// How long to wait for the groups that use it, for instance 60s or 2m.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "60s")]
    timeout: Duration,
    /// Take over the key if another client wrote it.
    #[arg(long)]
    force_conflicts: bool,
    /// The output format. Default: text.
    #[arg(long, short, value_enum)]
    output: Option<Form>,
}

fn time(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<u64>().map(Duration::from_secs).ok();
    let named = || text.parse::<SignedDuration>().ok().and_then(|time| Duration::try_from(time).ok());
    seconds.or_else(named).ok_or_else(|| format!("{text} is no time; write for instance 60s or 2m"))
}

/// What was put, and which groups follow.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    config_map: String,
    key: String,
    policy: String,
    digest: String,
    groups: Vec<follow::Followed>,
}

/// Puts a policy.
pub async fn put(session: &Session, asked: &Put) -> anyhow::Result<End> {
    // Read once: what is checked is what is put, whatever is saved meanwhile.
    let bytes = read(&asked.file)?;
    let checked = through(&tools()?, &asked.file, &bytes, &asked.points)?;
    let Some(policy) = checked.policy.as_ref().filter(|_| checked.passed()) else {
        say(&checked, asked.output, || check::text(&checked, color::is_on()))?;
        note("error: it was not put; nothing is changed");
        return Ok(End::Failed);
    };
    let key = key(asked)?;
    let name = policy.name().clone();
    let groups = session.groups().list(&ListParams::default()).await;
    let groups = groups.map_err(|error| failed("list groups", &error))?.items;
    let users = follow::users(&groups, &asked.name, &key);
    store(session, asked, &key, &bytes).await?;
    let place = format!("{}/{}", session.namespace, asked.name);
    if asked.output.is_none() {
        print(&format!("{} is the key {key} of the ConfigMap {place} ({})\n", shown(&name), name.digest))?;
    }
    let told = |text: &str| if asked.output.is_none() { print(text) } else { Ok(()) };
    let followed = follow::follow(session, users, &name.digest, asked.timeout, told).await?;
    let is_well = followed.iter().all(follow::Followed::is_well);
    if followed.is_empty() {
        told(&unused(session, &asked.name, &key))?;
    }
    let stored = Stored { config_map: place, key, policy: shown(&name), digest: name.digest.clone(), groups: followed };
    if asked.output.is_some() {
        say(&stored, asked.output, String::new)?;
    }
    Ok(End::of(is_well))
}

fn shown(name: &PolicyName) -> String {
    format!("{} {}", name.name, name.version)
}

fn unused(session: &Session, name: &str, key: &str) -> String {
    format!(
        "no group of the namespace {} uses it; name it in spec.policies of a group, with its parameters if it has some:\n  kubectl patch rg GROUP -n {} --type merge -p '{{\"spec\": {{\"policies\": [{{\"configMap\": {{\"name\": \"{name}\", \"key\": \"{key}\"}}}}]}}}}'\n",
        session.namespace, session.namespace
    )
}

/// The key, which has to tell a script from a component.
fn key(asked: &Put) -> Result<String, Error> {
    let own = || asked.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let key = asked.key.clone().unwrap_or_else(own);
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if key.is_empty() || key.len() > 253 || !key.chars().all(fits) {
        let message = format!("{key} cannot be a key of a ConfigMap: use letters, digits, -, _ and . in --key");
        return Err(Error::Usage(message));
    }
    match (is_script(&asked.file), key.ends_with(".star")) {
        (true, false) => Err(Error::Usage(format!("the key of a script ends with .star, {key} does not"))),
        (false, true) => Err(Error::Usage(format!("{key} would be read as a script; the file is a component"))),
        _ => Ok(key),
    }
}

/// Longer keys are not a part of the manager's name, which has at most 128 characters.
const KEY_IN_NAME: usize = 100;

/// The field manager of a key. Each key has one of its own: with one for all of them, the keys that were put before would be removed.
fn manager(key: &str) -> String {
    use sha2::Digest;
    match key.len() > KEY_IN_NAME {
        false => format!("tanist-put-{key}"),
        true => {
            let digest = sha2::Sha256::digest(key.as_bytes());
            format!("tanist-put-{}", digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
    }
}

/// The object that is applied: the label, and this key alone.
fn object(name: &str, key: &str, script: bool, bytes: &[u8]) -> Value {
    let mut object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {LABEL_POLICY: "true"}}});
    if let Some(fields) = object.as_object_mut() {
        match script {
            true => fields.insert("data".to_owned(), json!({key: String::from_utf8_lossy(bytes)})),
            false => fields.insert("binaryData".to_owned(), json!({key: ByteString(bytes.to_vec())})),
        };
    }
    object
}

async fn store(session: &Session, asked: &Put, key: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let maps = Api::<ConfigMap>::namespaced(session.client.clone(), &session.namespace);
    let params = PatchParams { force: asked.force_conflicts, ..PatchParams::apply(&manager(key)) };
    let object = object(&asked.name, key, is_script(&asked.file), bytes);
    match maps.patch(&asked.name, &params, &Patch::Apply(&object)).await {
        Ok(stored) => {
            if stored.labels().get(LABEL_POLICY).is_none_or(|value| value != "true") {
                live::warn(&[format!("the ConfigMap {} lost its label {LABEL_POLICY} at once", asked.name)]);
            }
            Ok(())
        }
        Err(KubeError::Api(status)) if status.code == 409 => bail!("{}", conflict(&asked.name, key, &status.message)),
        Err(error) => Err(failed(&format!("apply the ConfigMap {}", asked.name), &error)),
    }
}

/// Who else wrote the key, in a sentence.
fn conflict(name: &str, key: &str, message: &str) -> String {
    let quoted = message.split('"').nth(1).filter(|_| message.contains("conflict with"));
    let other = quoted.map_or_else(|| "another client".to_owned(), |manager| format!("the client {manager}"));
    format!(
        "{other} wrote the key {key} of the ConfigMap {name} and goes on owning it, so nothing is changed; use another --key, or take it over with --force-conflicts"
    )
}

#[cfg(test)]
#[path = "put_tests.rs"]
mod tests;
