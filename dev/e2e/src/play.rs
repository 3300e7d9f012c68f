//! A test: its namespaces, its operator, and what is printed when it fails.
use crate::cluster::{apply, kubectl, kubectl_given, load_image, prepare, root, run};
use crate::group::{ETCD, Group};
use crate::operator::{Operator, until};
use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

/// The kinds of objects that the operator can write in a namespace.
const KINDS: [(&str, &str, &str); 9] = [
    ("tanist.dev", "v1alpha1", "ReplicaGroup"),
    ("apps", "v1", "StatefulSet"),
    ("", "v1", "Pod"),
    ("", "v1", "Service"),
    ("", "v1", "PersistentVolumeClaim"),
    ("", "v1", "ConfigMap"),
    ("policy", "v1", "PodDisruptionBudget"),
    ("discovery.k8s.io", "v1", "EndpointSlice"),
    ("events.k8s.io", "v1", "Event"),
];

/// A test that is about to begin.
pub struct Play {
    name: String,
    variables: BTreeMap<String, String>,
    node: Option<String>,
}

/// The result of a test; the text is the last line that is printed.
pub type Outcome = Result<(), String>;

/// What a running test has: a client, a namespace and an operator.
pub struct Stage {
    /// The client of the cluster's API.
    pub client: Client,
    /// The namespace of its groups.
    pub namespace: String,
    /// The operator that manages them.
    pub operator: Operator,
}

/// Begins a test; the names of its namespaces contain this name.
#[must_use]
pub fn play(name: &str) -> Play {
    Play { name: name.into(), variables: BTreeMap::new(), node: None }
}

impl Play {
    /// Sets an environment variable of the operator.
    #[must_use]
    pub fn with(mut self, variable: &str, value: &str) -> Self {
        self.variables.insert(variable.into(), value.into());
        self
    }

    /// Pins the operator to a node that the test does not disturb.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        self.node = Some(node.into());
        self
    }

    /// Runs the test. After success its namespaces are removed; after a failure its state is printed and they stay, without a running operator.
    ///
    /// # Errors
    /// Those of the test.
    pub fn run(self, body: impl AsyncFnOnce(&Stage) -> Result<()>) -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        let told = |error: anyhow::Error| format!("{error:#}");
        runtime.block_on(async {
            let began = Instant::now();
            let stage = Stage::set(&self.name, &self.variables, self.node.as_deref())
                .await
                .context("failed to set the stage")
                .map_err(told)?;
            // After an outage of the API server the cluster's own controllers are late, too: a Deployment was seen to have no pod after 90 s.
            let done = match stage.operator.started(240).await {
                Ok(()) => body(&stage).await,
                Err(error) => Err(error),
            };
            let seconds = began.elapsed().as_secs_f64();
            match done {
                Ok(()) => {
                    println!("{} passed in {seconds:.1} s", self.name);
                    stage.clear().await.map_err(told)
                }
                Err(error) => {
                    stage.explain(&error, seconds).await;
                    // What stays must not take the processors from the tests that follow: one failure would be followed by many.
                    let _ = stage.operator.scale(0).await;
                    Err(told(error))
                }
            }
        })
    }
}

async fn nodes_are_ready(client: &Client) -> Result<bool> {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
    let ready = |node: &Node| {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let tainted = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).next().is_some();
        !tainted && conditions.filter(|c| c.type_ == "Ready").any(|c| c.status == "True")
    };
    Ok(nodes.iter().all(ready))
}

impl Stage {
    async fn set(name: &str, variables: &BTreeMap<String, String>, node: Option<&str>) -> Result<Self> {
        let client = Client::try_default().await.context("failed to find the cluster")?;
        prepare(&client).await?;
        // What an earlier test did to a node, or to the API server, is over only now: kubelets were seen to need 68 s.
        until("every node to be Ready", 150, async || nodes_are_ready(&client).await).await?;
        let namespace = format!("e2e-{name}-{:04x}", rand::random::<u16>());
        // Members need no more than the operator: the strictest pod security holds for them, too.
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted", "tanist.dev/e2e": "true"});
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}});
        apply(&client, &object).await?;
        let operator = Operator::install(&client, &namespace, variables, node).await?;
        Ok(Stage { client, namespace, operator })
    }

    /// The group `register`, created from the example with changes to its spec.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn register(&self, changes: Value) -> Result<Group> {
        let group = self.group("register");
        group.create(changes).await?;
        Ok(group)
    }

    /// The group `etcd`, created from the example with changes to its spec, and its certificates.
    ///
    /// # Errors
    /// When they cannot be made, or the API server refuses them.
    pub async fn etcd(&self, changes: Value) -> Result<Group> {
        load_image("etcd")?;
        let certificates = run(Command::new(root().join("examples/etcd/certificates")).arg(&self.namespace))?;
        kubectl_given(&certificates, &["apply", "-f", "-"])?;
        let group = Group { example: ETCD, ..self.group("etcd") };
        group.create(changes).await?;
        Ok(group)
    }

    /// Every object of the namespace that the operator could write, with its resource version. Of events only Tanist's: kubelet and scheduler
    /// hold theirs back when there are many, and write them at any time.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn versions(&self) -> Result<BTreeMap<String, Option<String>>> {
        let mut found = BTreeMap::new();
        for (group, version, kind) in KINDS {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
            for object in api.list(&ListParams::default()).await? {
                let by = object.data.get("reportingController").and_then(Value::as_str);
                if kind == "Event" && by != Some("tanist") {
                    continue;
                }
                found.insert(format!("{kind} {}", object.name_any()), object.resource_version());
            }
        }
        Ok(found)
    }

    /// A group by its name; it need not exist.
    #[must_use]
    pub fn group(&self, name: &str) -> Group {
        Group::named(&self.client, &self.namespace, name)
    }

    /// Does not wait for the end: Kubernetes needs some ten seconds for it, and the name is not used again.
    async fn clear(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        // The operator is deleted first, so that it does not restore objects that are being removed.
        let _ = self.operator.uninstall().await;
        let _ = namespaces.delete(&self.namespace, &DeleteParams::default()).await?;
        Ok(())
    }

    async fn explain(&self, error: &anyhow::Error, seconds: f64) {
        let ns = &self.namespace;
        println!("==== {ns} failed after {seconds:.1} s: {error:#}");
        println!(
            "==== it stays, to look at, and its operator is scaled to 0; remove it with: kubectl delete namespace {ns} {}; kubectl delete clusterrolebinding {0}",
            self.operator.namespace
        );
        let show = |title: &str, arguments: &[&str]| {
            let told = kubectl(arguments).unwrap_or_else(|error| format!("{error:#}"));
            println!("---- {title}\n{}", told.trim_end());
        };
        // First what says most: a report of this may be cut.
        let said = "jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{range .status.conditions[*]}  {.type} {.status} {.reason}: {.message}{\"\\n\"}{end}{end}";
        show("conditions", &["get", "replicagroups", "-n", ns, "-o", said]);
        show("pods", &["get", "pods", "-n", ns, "-o", "wide"]);
        let log = self.operator.log().await;
        let last: Vec<_> = log.lines().rev().take(12).collect();
        println!("---- the end of the operator's log");
        last.iter().rev().for_each(|line| println!("{}", line.get(..400).unwrap_or(line)));
        show("groups", &["get", "replicagroups", "-n", ns, "-o", "yaml"]);
        show(
            "objects",
            &[
                "get",
                "pods,statefulsets,services,persistentvolumeclaims,poddisruptionbudgets",
                "-n",
                ns,
                "-o",
                "wide",
                "--show-labels",
            ],
        );
        show("events", &["get", "events", "-n", ns, "--sort-by=.lastTimestamp"]);
        show("operator", &["get", "deployments,replicasets,pods", "-n", &self.operator.namespace, "-o", "wide"]);
        show("its events", &["get", "events", "-n", &self.operator.namespace, "--sort-by=.lastTimestamp"]);
        println!("---- the operator's log\n{}", log.trim_end());
        let pods = kubectl(&["get", "pods", "-n", ns, "-o", "name"]).unwrap_or_default();
        for pod in pods.lines() {
            let log = "echo '-- log'; cat /data/log; echo '-- faults'; head /data/fault/* 2>/dev/null; register count";
            show(
                &format!("what was executed in {pod}"),
                &["exec", "-n", ns, pod, "-c", "register", "--", "sh", "-c", log],
            );
        }
    }
}
