//! What a member is made of: its pod and its claims.
use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{borrow::Cow, collections::BTreeMap};

/// A pod template with every field that Kubernetes knows, now or later: it is passed on, not understood.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Template(pub Map<String, Value>);

impl Template {
    /// Its `spec`, empty if there is none.
    #[must_use]
    pub fn spec(&self) -> Option<&Map<String, Value>> {
        self.0.get("spec").and_then(Value::as_object)
    }

    /// A list of its `spec` whose items have names, for instance `containers`.
    pub fn named(&self, list: &str) -> impl Iterator<Item = (&str, &Value)> {
        let items = self.spec().and_then(|spec| spec.get(list)).and_then(Value::as_array);
        items.into_iter().flatten().filter_map(|item| Some((item.get("name")?.as_str()?, item)))
    }

    /// The names of its containers, init containers not among them.
    pub fn container_names(&self) -> impl Iterator<Item = &str> {
        self.named("containers").map(|(name, _)| name)
    }

    /// Its labels.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.0.get("metadata").and_then(|meta| meta.get("labels")).and_then(Value::as_object);
        labels.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }
}

impl JsonSchema for Template {
    fn schema_name() -> Cow<'static, str> {
        "Template".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // Only what a rule looks at is named; all else is kept unseen. The bounds make the rules' cost known before they run.
        let named = |what: &str, most: u32| {
            json_schema!({
                "description": what,
                "type": "array",
                "maxItems": most,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                    "required": ["name"],
                    "properties": {"name": {"description": "Its name.", "type": "string", "minLength": 1, "maxLength": 63}}
                }
            })
        };
        let texts = |what: &str, longest: u32| {
            json_schema!({
                "description": what,
                "type": "object",
                "maxProperties": 64,
                "additionalProperties": {"type": "string", "maxLength": longest}
            })
        };
        let mut containers = named("The containers of a pod.", 16);
        containers.insert("minItems".into(), 1.into());
        json_schema!({
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "required": ["spec"],
            "properties": {
                "metadata": {
                    "description": "Labels and annotations of the pods.",
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {
                        "labels": texts("Labels of the pods.", 63),
                        "annotations": texts("Annotations of the pods.", 262_144)
                    }
                },
                "spec": {
                    "description": "The spec of the pods.",
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                    "required": ["containers"],
                    "properties": {
                        "containers": containers,
                        "initContainers": named("Containers that run before the others.", 16),
                        "volumes": named("Volumes beside those of `volumeClaimTemplates`.", 64),
                        "shareProcessNamespace": {
                            "description": "Whether all containers see one another's processes. Not with runner Injected.",
                            "type": "boolean"
                        }
                    }
                }
            }
        })
    }
}

/// A claim for a volume of each member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimTemplate {
    /// Its name, by which containers mount it.
    pub metadata: ClaimMetadata,
    /// The volume that is claimed.
    pub spec: PersistentVolumeClaimSpec,
}

/// Name, labels and annotations of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimMetadata {
    /// Its name, by which containers mount it.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Labels of the claim.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the claim.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub annotations: BTreeMap<String, String>,
}
