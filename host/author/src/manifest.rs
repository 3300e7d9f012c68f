//! The stack of policies of a group's manifest, for `--group`.

use std::{fs, path::Path, sync::Arc};

use serde::Deserialize;
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

/// The layers of the stack of a manifest, in the order in which they are asked. The built-in `sequence` is asked last, listed or not, as in a cluster.
///
/// # Errors
/// The manifest cannot be read, is no group, or names a policy that is not on this machine.
pub fn stack(tools: &Tools, path: &Path) -> Result<Vec<Layer>, Error> {
    let text = fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let file = path.display().to_string();
    let documents: Vec<Manifest> = serde_saphyr::from_multiple(&text).map_err(|error| {
        let at = error.without_snippet().location().unwrap_or(serde_saphyr::Location::UNKNOWN);
        let said = error.without_snippet().to_string();
        Error::wrong(&file, at.line(), at.column(), said.lines().next().unwrap_or_default())
    })?;
    let group = documents.into_iter().find(|document| document.kind == "ReplicaGroup");
    let Some(spec) = group.and_then(|group| group.spec) else {
        return Err(Error::wrong(&file, 0, 0, "it has no ReplicaGroup with a spec"));
    };
    let mut layers = Vec::new();
    let mut ends = false;
    for Spanned { value: source, referenced, .. } in &spec.policies {
        let place = Place { file: file.clone(), line: referenced.line(), column: referenced.column() };
        ends |= source.builtin.as_deref() == Some(LAST) && source.points.is_empty();
        layers.push(source.layer(tools, path, &place)?);
    }
    if !ends {
        let place = Place { file, line: 0, column: 0 };
        let policy = Arc::new(tools.builtin(LAST, &place)?);
        layers.push(layer(policy, &Map::new(), None, &place)?);
    }
    Ok(layers)
}

impl Source {
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
        let points = (!self.points.is_empty()).then(|| self.points.clone());
        layer(Arc::new(policy), &self.parameters, points, place)
    }
}
