//! The pod template and the claim templates of a group.
use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{borrow::Cow, collections::BTreeMap};

/// A pod template. Every field of the present and of later versions of Kubernetes is allowed: it is passed on without being interpreted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Template(pub Map<String, Value>);

impl Template {
    /// Its `spec`. `None`: it has none, or one that is no object.
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

    /// Its labels, as key and value.
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
        // Only fields that a rule reads are named; all others are preserved as they are. The API server computes the cost of the rules from the
        // bounds.
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
                    "properties": {"name": {"description": "The name, unique in this list.", "type": "string", "minLength": 1, "maxLength": 63}}
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
        let mut containers = named("The containers of each pod. Commands run in one of them.", 16);
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
                        "labels": texts("Labels of the pods. Those under `policy.tanist.dev/` are seen by policies.", 63),
                        "annotations": texts("Annotations of the pods. Those under `policy.tanist.dev/` are seen by policies.", 262_144)
                    }
                },
                "spec": {
                    "description": "The spec of the pods, as in a Pod.",
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                    "required": ["containers"],
                    "properties": {
                        "containers": containers,
                        "initContainers": named("Containers that are started before the others, one after the other.", 16),
                        "volumes": named("Volumes of each pod in addition to those of `volumeClaimTemplates`.", 64),
                        "shareProcessNamespace": {
                            "description": "Whether the containers of a pod see each other's processes. Not allowed with runner Injected.",
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
    /// Its name, labels and annotations.
    pub metadata: ClaimMetadata,
    /// The volume that is claimed, as in a PersistentVolumeClaim.
    pub spec: PersistentVolumeClaimSpec,
}

/// Name, labels and annotations of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimMetadata {
    /// The name by which containers mount the volume. The claim of a member is called NAME-MEMBER.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Labels of the claims.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the claims.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub annotations: BTreeMap<String, String>,
}
