//! The stack of policies of a group's manifest, for `--group`, and that stack with another policy in it.

use std::{fs, path::Path, sync::Arc};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;
use tanist_core::policy::Point;
use tanist_engine::Layer;

use crate::{
    error::{Error, Place},
    tools::{Tools, layer},
};

/// The policy that every stack ends with.
const LAST: &str = "sequence";

/// The kind of a group.
const KIND: &str = "ReplicaGroup";

/// A manifest, as far as policies are concerned. The API server checks the rest.
#[derive(Debug, Deserialize)]
struct Manifest {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    spec: Option<Spec>,
}

#[derive(Debug, Deserialize)]
struct Spec {
    #[serde(default)]
    policies: Vec<Spanned<Source>>,
}

/// An entry of `spec.policies`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Source {
    #[serde(default)]
    builtin: Option<String>,
    #[serde(default)]
    config_map: Option<ConfigMap>,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    image: Option<String>,
    #[serde(default)]
    points: Vec<Point>,
    #[serde(default)]
    parameters: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct ConfigMap {
    #[serde(default)]
    name: String,
    #[serde(default)]
    key: String,
}

/// A policy that is tried in front of others.
#[derive(Debug, Clone, Copy)]
pub struct Own<'a> {
    /// The path of the policy's file: a script (.star) or a component (.wasm).
    pub file: &'a Path,
    /// Its parameters. Absent: those that the group gives it.
    pub parameters: Option<&'a Map<String, Value>>,
}

/// The layers of the stack of a manifest, in the order in which they are asked. The built-in `sequence` is asked last, listed or not, as in a cluster.
///
/// # Errors
/// The manifest cannot be read, is no group, or names a policy that is not on this machine.
pub fn stack(tools: &Tools, path: &Path) -> Result<Vec<Layer>, Error> {
    layers(tools, path, None)
}

/// The same with a policy of one's own: in place of the entry with its file name as `file` or key, whose points and parameters it takes, else before all others.
///
/// # Errors
/// As [`stack`], or the policy is refused, or the parameters do not fit it.
pub fn stack_with(tools: &Tools, path: &Path, own: Own<'_>) -> Result<Vec<Layer>, Error> {
    layers(tools, path, Some(own))
}

/// A policy of one's own, and the built-in `sequence` after it.
///
/// # Errors
/// The policy is refused, or the parameters do not fit it.
pub fn in_front(tools: &Tools, own: Own<'_>) -> Result<Vec<Layer>, Error> {
    Ok(vec![own.layer(tools, None, &parameters_of())?, last(tools)?])
}

/// The built-in policy that every stack ends with, without parameters.
///
/// # Errors
/// This machine cannot run it.
pub fn last(tools: &Tools) -> Result<Layer, Error> {
    let place = Place { file: format!("builtin/{LAST}"), line: 0, column: 0 };
    layer(Arc::new(tools.builtin(LAST, &place)?), &Map::new(), None, &place)
}

/// The group of a manifest as it is written.
///
/// # Errors
/// The manifest cannot be read, or is no group.
pub fn group(path: &Path) -> Result<Map<String, Value>, Error> {
    let documents: Vec<Value> = documents(path)?;
    let is_group = |document: &Map<String, Value>| document.get("kind").is_some_and(|kind| kind == KIND);
    let mut groups = documents.into_iter().filter_map(|document| match document {
        Value::Object(document) => Some(document),
        _ => None,
    });
    groups.find(is_group).ok_or_else(|| lacks_group(path))
}

fn lacks_group(path: &Path) -> Error {
    Error::wrong(&path.display().to_string(), 0, 0, "it has no ReplicaGroup with a spec")
}

fn documents<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Error> {
    let text = fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    serde_saphyr::from_multiple(&text).map_err(|error| {
        let at = error.without_snippet().location().unwrap_or(serde_saphyr::Location::UNKNOWN);
        let said = error.without_snippet().to_string();
        let message = said.lines().next().unwrap_or_default();
        Error::wrong(&path.display().to_string(), at.line(), at.column(), message)
    })
}

fn layers(tools: &Tools, path: &Path, own: Option<Own<'_>>) -> Result<Vec<Layer>, Error> {
    let file = path.display().to_string();
    let documents: Vec<Manifest> = documents(path)?;
    let group = documents.into_iter().find(|document| document.kind == KIND);
    let spec = group.and_then(|group| group.spec).ok_or_else(|| lacks_group(path))?;
    let name = own.and_then(|own| own.file.file_name()).map(|name| name.to_string_lossy().into_owned());
    let is_own = |source: &Source| name.as_deref().is_some_and(|name| source.is_called(name));
    let mut layers = Vec::new();
    let mut ends = false;
    if let Some(own) = own.filter(|_| !spec.policies.iter().any(|entry| is_own(&entry.value))) {
        layers.push(own.layer(tools, None, &parameters_of())?);
    }
    for Spanned { value: source, referenced, .. } in &spec.policies {
        let place = Place { file: file.clone(), line: referenced.line(), column: referenced.column() };
        ends |= source.builtin.as_deref() == Some(LAST) && source.points.is_empty();
        layers.push(match own.filter(|_| is_own(source)) {
            Some(own) => own.layer(tools, Some(source), &place)?,
            None => source.layer(tools, path, &place)?,
        });
    }
    if !ends {
        layers.push(last(tools)?);
    }
    Ok(layers)
}

/// Where the parameters of a policy of one's own are given, if no group gives them.
fn parameters_of() -> Place {
    Place { file: "--parameters".to_owned(), line: 0, column: 0 }
}

impl Own<'_> {
    /// `entry`: that of the group which it replaces.
    fn layer(self, tools: &Tools, entry: Option<&Source>, place: &Place) -> Result<Layer, Error> {
        let policy = Arc::new(tools.load(self.file)?);
        let parameters = self.parameters.or(entry.map(|entry| &entry.parameters)).cloned().unwrap_or_default();
        let place = if self.parameters.is_some() { parameters_of() } else { place.clone() };
        layer(policy, &parameters, entry.and_then(Source::asked_at), &place)
    }
}

impl Source {
    /// Whether its file, or its key in a ConfigMap, has that name.
    fn is_called(&self, name: &str) -> bool {
        self.file.as_deref() == Some(name) || self.config_map.as_ref().is_some_and(|map| map.key == name)
    }

    /// The points at which it is asked. `None`: all that it has.
    fn asked_at(&self) -> Option<Vec<Point>> {
        (!self.points.is_empty()).then(|| self.points.clone())
    }

    fn layer(&self, tools: &Tools, manifest: &Path, place: &Place) -> Result<Layer, Error> {
        let wrong = |message: String| Err(Error::Wrong { place: place.clone(), message });
        let policy = match (&self.builtin, &self.config_map, &self.file, &self.image) {
            (Some(name), None, None, None) => tools.builtin(name, place)?,
            (None, None, Some(file), None) => tools.load(&manifest.with_file_name(file))?,
            (None, Some(ConfigMap { name, key }), None, None) => {
                return wrong(format!(
                    "the policy is in the ConfigMap {name}, which is in a cluster; save it beside the manifest with \
                     `kubectl get configmap {name} -o jsonpath='{{.data.{}}}' > {key}` (a component: `{{.binaryData...}}` through `base64 -d`), \
                     and name it here as `file: {key}`",
                    key.replace('.', "\\.")
                ));
            }
            (None, None, None, Some(image)) => {
                return wrong(format!("policies from images are not supported yet ({image}); use builtin or file"));
            }
            _ => return wrong("a policy names exactly one of builtin, configMap, file and image".to_owned()),
        };
        layer(Arc::new(policy), &self.parameters, self.asked_at(), place)
    }
}
