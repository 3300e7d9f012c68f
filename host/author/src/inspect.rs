//! What a policy is: name, digest, questions, parameters, what it consists of.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use tanist_core::policy::{Point, PolicyName};
use tanist_engine::structure::{Caps, examine};

use crate::{
    error::Error,
    tools::{Tools, is_script, read},
};

/// What a policy is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspected {
    /// The file as it was named.
    pub file: String,
    /// `component` or `script`.
    pub kind: &'static str,
    /// Name, version, source and digest.
    #[serde(flatten)]
    pub name: PolicyName,
    /// What it does, in its own words.
    pub summary: String,
    /// The questions that it can answer.
    pub points: Vec<Point>,
    /// Unusual behaviour that it declares.
    pub declares: Vec<String>,
    /// The JSON Schema of its parameters. Absent: it takes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// Bytes of the file.
    pub bytes: usize,
    /// The interfaces that it imports; they hold types alone. Empty for scripts.
    pub imports: Vec<String>,
    /// The interfaces that it exports, with their versions. Empty for scripts.
    pub exports: Vec<String>,
    /// What it consists of. Empty for scripts.
    pub counts: Vec<(&'static str, u64)>,
}

/// Looks at a policy.
///
/// # Errors
/// It cannot be read, or is refused.
pub fn inspect(tools: &Tools, path: &Path) -> Result<Inspected, Error> {
    let file = path.display().to_string();
    let bytes = read(path)?;
    let policy = tools.load_bytes(path, &bytes).map_err(|error| Error::Load { file: file.clone(), error })?;
    let script = is_script(path);
    let structure = if script { None } else { examine(&bytes, &Caps::default()).ok() }.unwrap_or_default();
    let description = policy.description();
    // The engine has parsed it already.
    let schema = description.parameters.as_deref().and_then(|text| serde_json::from_str(text).ok());
    Ok(Inspected {
        file,
        kind: if script { "script" } else { "component" },
        name: policy.name().clone(),
        summary: description.summary.clone(),
        points: policy.points().collect(),
        declares: description.declares.clone(),
        parameters: schema,
        bytes: bytes.len(),
        imports: structure.imports,
        exports: structure.exports,
        counts: structure.counts.into_iter().filter(|(_, count)| *count > 0).collect(),
    })
}
