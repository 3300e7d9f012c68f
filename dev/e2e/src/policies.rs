//! Policies in `ConfigMap`s, as their authors store them.
use crate::play::Stage;
use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use std::collections::BTreeMap;

/// What a policy is.
#[derive(Debug, Clone)]
pub enum Source {
    /// The text of a script.
    Script(String),
    /// The bytes of a component, or of what pretends to be one.
    Component(Vec<u8>),
}

/// The component of a policy of this repository.
///
/// # Errors
/// When it was not built.
pub fn component(name: &str) -> Result<Vec<u8>> {
    let home = std::env::var("HOME").unwrap_or_default();
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| format!("{home}/.cache/tanist/target"));
    let path = format!("{target}/policies/{name}.wasm");
    std::fs::read(&path).with_context(|| format!("failed to read {path}; run `make policies`"))
}

impl Stage {
    /// Stores policies, by key, in the `ConfigMap` of that name and with the label that lets groups use it.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn store(&self, name: &str, policies: impl IntoIterator<Item = (&str, Source)>) -> Result<()> {
        self.store_labelled(name, "true", policies).await
    }

    /// The same with that value of the label.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn store_labelled(
        &self,
        name: &str,
        label: &str,
        policies: impl IntoIterator<Item = (&str, Source)>,
    ) -> Result<()> {
        let (mut scripts, mut components) = (BTreeMap::new(), BTreeMap::new());
        for (key, source) in policies {
            match source {
                Source::Script(text) => drop(scripts.insert(key.to_owned(), text)),
                Source::Component(bytes) => drop(components.insert(key.to_owned(), ByteString(bytes))),
            }
        }
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.into()),
                labels: Some(BTreeMap::from([("tanist.dev/policy".into(), label.into())])),
                ..ObjectMeta::default()
            },
            data: Some(scripts).filter(|scripts| !scripts.is_empty()),
            binary_data: Some(components).filter(|components| !components.is_empty()),
            ..ConfigMap::default()
        };
        let maps = Api::<ConfigMap>::namespaced(self.client.clone(), &self.namespace);
        let params = PatchParams::apply("tanist-e2e").force();
        maps.patch(name, &params, &Patch::Apply(&map)).await.map(drop).context("failed to store the policies")
    }
}
