//! The definition of the resource, generated from the types and completed by the rules.
use crate::rules::{self, Misfit};
use crate::spec::ReplicaGroup;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

/// The definition of the resource, with every rule. (`ReplicaGroup::crd()` is only its raw form.)
///
/// # Errors
/// When a rule names a field that does not exist, or the result is no valid definition. A test ensures that neither happens.
pub fn crd() -> Result<CustomResourceDefinition, Misfit> {
    let mut raw = serde_json::to_value(ReplicaGroup::crd()).map_err(Misfit::Form)?;
    let schema = raw.pointer_mut("/spec/versions/0/schema/openAPIV3Schema").ok_or(Misfit::Field("schema"))?;
    rules::apply(schema)?;
    serde_json::from_value(raw).map_err(Misfit::Form)
}

/// The definition as it is written down: the manifest that `crds/` has as YAML. Whole numbers are integers in it (`86400`, not `86400.0`).
///
/// # Errors
/// As [`crd`].
pub fn definition() -> Result<Value, Misfit> {
    let mut crd = serde_json::to_value(crd()?).map_err(Misfit::Form)?;
    rules::whole(&mut crd);
    Ok(crd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_explained() {
        fn walk(path: &str, schema: &Value, silent: &mut Vec<String>) {
            if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
                for (name, field) in properties {
                    let path = format!("{path}.{name}");
                    if field.get("description").and_then(Value::as_str).unwrap_or_default().is_empty() {
                        silent.push(path.clone());
                    }
                    walk(&path, field, silent);
                }
            }
            if let Some(items) = schema.get("items") {
                walk(&format!("{path}[]"), items, silent);
            }
        }
        let crd = serde_json::to_value(crd().unwrap()).unwrap();
        let mut silent = Vec::new();
        walk("", crd.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap(), &mut silent);
        assert_eq!(silent, Vec::<String>::new());
    }
}
