//! An installation of the operator, from deploy/ and with only the rights given there.
use crate::cluster::{apply, machines, manifests};
use anyhow::{Context, Result, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, PolicyRule, Role};
use kube::api::{Api, DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The file in which reached crash points are noted, so that each is used once.
const MARKS: &str = "/var/crash";

/// What the operator's container uses, according to its kubelet.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Resident memory, in MiB.
    pub resident_mib: f64,
    /// Processor time since it started.
    pub processor_seconds: f64,
}

/// A container whose processes stand still: the kernel's freezer holds them until this value is dropped.
pub struct Frozen {
    node: String,
    container: String,
}

impl Frozen {
    fn begin(pod: &Pod) -> Result<Self> {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("it runs nowhere")?;
        let started = pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten()).next();
        let container = started.and_then(|c| c.container_id.as_deref()).and_then(|id| id.split_once("://"));
        let container = container.context("no container runs")?.1.to_owned();
        machines(&["pause", &node, &container])?;
        Ok(Self { node, container })
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = machines(&["resume", &self.node, &self.container]);
    }
}

/// An installation of the operator that manages the groups of one namespace.
#[derive(Clone)]
pub struct Operator {
    /// The namespace in which the operator runs.
    pub namespace: String,
    /// The namespace of the groups that it manages.
    pub watched: String,
    client: Client,
}

impl Operator {
    /// Installs it with these additional variables, on that node or on any.
    ///
    /// # Errors
    /// When something is refused.
    pub async fn install(
        client: &Client,
        watched: &str,
        variables: &BTreeMap<String, String>,
        node: Option<&str>,
    ) -> Result<Self> {
        let operator = Operator { namespace: format!("{watched}-op"), watched: watched.into(), client: client.clone() };
        for folder in ["deploy/operator", "deploy/rbac/namespace", "deploy/rbac/nodes"] {
            operator.apply(folder, variables, node).await?;
        }
        Ok(operator)
    }

    /// Gives it the rights of that folder, too.
    ///
    /// # Errors
    /// When something is refused.
    pub async fn grant(&self, folder: &str) -> Result<()> {
        self.apply(folder, &BTreeMap::new(), None).await
    }

    async fn apply(&self, folder: &str, variables: &BTreeMap<String, String>, node: Option<&str>) -> Result<()> {
        for mut object in manifests(folder)? {
            self.adapt(&mut object, variables, node)?;
            apply(&self.client, &object).await?;
        }
        Ok(())
    }

    /// Changes only the names that differ between installations, as an overlay of kustomize would.
    fn adapt(&self, object: &mut Value, variables: &BTreeMap<String, String>, node: Option<&str>) -> Result<()> {
        let kind = crate::text(object, "/kind").to_owned();
        let set = |object: &mut Value, pointer: &str, value: &str| {
            if let Some(place) = object.pointer_mut(pointer) {
                *place = value.into();
            }
        };
        match kind.as_str() {
            "Namespace" => set(object, "/metadata/name", &self.namespace),
            "ClusterRole" => {}
            "ClusterRoleBinding" => set(object, "/metadata/name", &self.namespace),
            _ if crate::text(object, "/metadata/namespace").is_empty() => {
                crate::merge(object, json!({"metadata": {"namespace": self.watched}}));
            }
            _ => set(object, "/metadata/namespace", &self.namespace),
        }
        set(object, "/subjects/0/namespace", &self.namespace);
        if kind == "Deployment" {
            let spec = object.pointer_mut("/spec/template/spec").context("a Deployment without pods")?;
            crate::merge(spec, json!({"volumes": [{"name": "crash", "emptyDir": {}}]}));
            if let Some(node) = node {
                crate::merge(spec, json!({"nodeSelector": {"kubernetes.io/hostname": node}}));
            }
            let container = spec.pointer_mut("/containers/0").context("a Deployment without containers")?;
            crate::merge(container, json!({"volumeMounts": [{"name": "crash", "mountPath": MARKS}]}));
            let image = std::env::var("TANIST_IMAGE").unwrap_or_else(|_| crate::text(container, "/image").to_owned());
            set(container, "/image", &image);
            let env = container.pointer_mut("/env").and_then(Value::as_array_mut).context("no variables")?;
            for variable in env.iter_mut().filter(|v| crate::text(v, "/name") == "WATCH_NAMESPACES") {
                crate::merge(variable, json!({"value": self.watched}));
            }
            for variable in env.iter_mut().filter(|v| crate::text(v, "/name") == "TANIST_RUNNER_IMAGE") {
                crate::merge(variable, json!({"value": image}));
            }
            env.extend(variables.iter().map(|(name, value)| json!({"name": name, "value": value})));
            env.push(json!({"name": "TANIST_CRASH_ONCE", "value": MARKS}));
        }
        Ok(())
    }

    fn pods_api(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Its pods that are not being deleted.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        let pods = self.pods_api().list(&ListParams::default()).await?;
        Ok(pods.items.into_iter().filter(|p| p.metadata.deletion_timestamp.is_none()).collect())
    }

    /// Deletes one of its pods without a grace period, and returns its name.
    ///
    /// # Errors
    /// When there is none.
    pub async fn kill(&self, pod: &str) -> Result<()> {
        let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.pods_api().delete(pod, &params).await.map(drop).context("failed to kill the operator")
    }

    /// Deletes one of its pods with its own grace period: the kubelet sends SIGTERM.
    ///
    /// # Errors
    /// When there is none.
    pub async fn terminate(&self, pod: &str) -> Result<()> {
        let deleted = self.pods_api().delete(pod, &DeleteParams::default()).await;
        deleted.map(drop).context("failed to delete the operator's pod")
    }

    /// Whether that pod is gone.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn gone(&self, pod: &str) -> Result<bool> {
        Ok(self.pods_api().get_opt(pod).await?.is_none())
    }

    /// The name of its only pod. A Deployment that was just created or scaled has none for a moment.
    ///
    /// # Errors
    /// When there is none for long, or more than one.
    pub async fn pod(&self) -> Result<String> {
        until("a pod of the operator", 30, async || Ok(!self.pods().await?.is_empty())).await?;
        match self.pods().await?.as_slice() {
            [pod] => Ok(pod.name_any()),
            pods => bail!("{} operators run", pods.len()),
        }
    }

    /// Waits until its container was started, however it ended.
    ///
    /// # Errors
    /// When that does not happen in time: the cluster does not work.
    pub async fn started(&self, seconds: u64) -> Result<()> {
        let runs = |pod: &Pod| pod.status.as_ref().is_some_and(|s| s.phase.as_deref() == Some("Running"));
        until("the cluster to start the operator", seconds, async || Ok(self.pods().await?.iter().any(runs))).await
    }

    /// How often its containers were restarted.
    ///
    /// # Errors
    /// When its pods cannot be listed.
    pub async fn restarts(&self) -> Result<i32> {
        let pods = self.pods().await?;
        let statuses = pods.iter().flat_map(|p| p.status.iter().flat_map(|s| s.container_statuses.iter().flatten()));
        Ok(statuses.map(|c| c.restart_count).sum())
    }

    /// Waits until its containers were restarted this many times.
    ///
    /// # Errors
    /// When that does not happen in time.
    pub async fn restarted(&self, times: i32, seconds: u64) -> Result<()> {
        until(&format!("{times} restarts of the operator"), seconds, async || Ok(self.restarts().await? >= times)).await
    }

    /// Its log, including the one before a restart.
    pub async fn log(&self) -> String {
        let mut text = String::new();
        for pod in self.pods().await.unwrap_or_default() {
            text += &self.log_of(&pod.name_any()).await;
        }
        text
    }

    /// The log of one of its pods, including the one before a restart.
    pub async fn log_of(&self, pod: &str) -> String {
        let mut text = String::new();
        for previous in [true, false] {
            let params = LogParams { previous, ..LogParams::default() };
            text += &self.pods_api().logs(pod, &params).await.unwrap_or_default();
        }
        text
    }

    /// Waits until its log has that text.
    ///
    /// # Errors
    /// When that does not happen in time.
    pub async fn said(&self, words: &str, seconds: u64) -> Result<()> {
        until(&format!("{words:?} in the operator's log"), seconds, async || Ok(self.log().await.contains(words))).await
    }

    /// Lets two of it run, of which one leads, and the kubelet restart neither while it stands still.
    ///
    /// # Errors
    /// When they do not run in time.
    pub async fn pair(&self) -> Result<()> {
        let change = json!([
            {"op": "remove", "path": "/spec/template/spec/containers/0/livenessProbe"},
            {"op": "add", "path": "/spec/replicas", "value": 2}
        ]);
        crate::kubectl(&[
            "patch",
            "deployment/tanist",
            "-n",
            &self.namespace,
            "--type=json",
            &format!("--patch={change}"),
        ])?;
        until("two operators without a probe", 120, async || {
            let pods = self.pods().await?;
            let new = |pod: &&Pod| {
                let runs = pod.status.as_ref().is_some_and(|s| s.phase.as_deref() == Some("Running"));
                runs && pod.spec.iter().flat_map(|spec| &spec.containers).all(|c| c.liveness_probe.is_none())
            };
            Ok(pods.len() == 2 && pods.iter().filter(new).count() == 2)
        })
        .await
    }

    /// Waits until one of its pods says that, and lets it stand still from then on.
    ///
    /// # Errors
    /// When none says it in time, or it cannot be frozen.
    pub async fn freeze_at(&self, words: &str, seconds: u64) -> Result<Frozen> {
        let mut frozen = None;
        until(&format!("{words:?} in an operator's log"), seconds, async || {
            for pod in self.pods().await? {
                if self.log_of(&pod.name_any()).await.contains(words) {
                    frozen = Some(Frozen::begin(&pod)?);
                    return Ok(true);
                }
            }
            Ok(false)
        })
        .await?;
        frozen.context("nothing is frozen")
    }

    /// The value of a metric, by its name with labels; 0 when it is absent.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn metric(&self, pod: &str, name: &str) -> Result<f64> {
        let text = self.metrics(pod).await?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.map_or(Ok(0.0), str::parse)?)
    }

    /// Holder and number of changes of each of its Leases.
    ///
    /// # Errors
    /// When they cannot be listed, or there is none.
    pub async fn leases(&self) -> Result<Vec<(Option<String>, Option<i32>)>> {
        let leases = Api::<Lease>::namespaced(self.client.clone(), &self.namespace);
        let all = leases.list(&ListParams::default()).await?.items;
        let said = all.into_iter().filter_map(|lease| lease.spec).map(|s| (s.holder_identity, s.lease_transitions));
        let said: Vec<_> = said.collect();
        if said.is_empty() {
            bail!("the operator has no Lease");
        }
        Ok(said)
    }

    /// All of its metrics, as Prometheus reads them.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn metrics(&self, pod: &str) -> Result<String> {
        let path = format!("/api/v1/namespaces/{}/pods/{pod}:8080/proxy/metrics", self.namespace);
        let request = http::Request::get(path).body(Vec::new())?;
        self.client.request_text(request).await.context("failed to read the operator's metrics")
    }

    /// What its container uses.
    ///
    /// # Errors
    /// When its kubelet does not report it.
    pub async fn usage(&self) -> Result<Usage> {
        let name = self.pod().await?;
        let pods = self.pods().await?;
        let pod = pods.iter().find(|pod| pod.name_any() == name).context("no operator runs")?;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("it runs nowhere")?;
        let request = http::Request::get(format!("/api/v1/nodes/{node}/proxy/stats/summary?only_cpu_and_memory=true"))
            .body(Vec::new())?;
        let summary: Value = self.client.request(request).await.context("failed to read the kubelet's statistics")?;
        let pods = summary.pointer("/pods").and_then(Value::as_array).context("no pods")?;
        let own = pods.iter().find(|pod| crate::text(pod, "/podRef/name") == name).context("the kubelet lacks it")?;
        let number =
            |pointer: &str| own.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("no {pointer}"));
        Ok(Usage {
            resident_mib: number("/containers/0/memory/rssBytes")? / 1024.0 / 1024.0,
            processor_seconds: number("/containers/0/cpu/usageCoreNanoSeconds")? / 1e9,
        })
    }

    /// The most memory, in MiB, that its container ever had, with what it compiles in processes of its own. The kernel counts; the container
    /// runs on this machine.
    ///
    /// # Errors
    /// When its control group is not found.
    pub async fn most_memory(&self) -> Result<f64> {
        let name = self.pod().await?;
        let pods = self.pods().await?;
        let pod = pods.iter().find(|pod| pod.name_any() == name).context("no operator runs")?;
        let uid = pod.metadata.uid.clone().context("a pod without UID")?;
        let started =
            pod.status.as_ref().and_then(|status| status.container_statuses.as_ref()?.first()?.container_id.clone());
        let container = started.and_then(|id| Some(id.split_once("://")?.1.to_owned())).context("no container runs")?;
        let found = std::process::Command::new("find")
            .args([
                "/sys/fs/cgroup",
                "-path",
                &format!("*{container}*"),
                "(",
                "-name",
                "memory.peak",
                "-o",
                "-name",
                "memory.max_usage_in_bytes",
                ")",
            ])
            .output()
            .context("failed to look for the control group")?;
        let paths = String::from_utf8_lossy(&found.stdout).into_owned();
        let path =
            paths.lines().next().with_context(|| format!("no control group of pod {uid}, container {container}"))?;
        let bytes: f64 = std::fs::read_to_string(path)?.trim().parse()?;
        Ok(bytes / 1024.0 / 1024.0)
    }

    /// Waits until it has made this many more rounds.
    ///
    /// # Errors
    /// When that does not happen in time.
    pub async fn rounds(&self, more: f64, seconds: u64) -> Result<()> {
        let (pod, name) = (self.pod().await?, "tanist_round_seconds_count");
        let before = self.metric(&pod, name).await?;
        until(&format!("{more} rounds"), seconds, async || Ok(self.metric(&pod, name).await? >= before + more)).await
    }

    /// Waits until another process than that one made so many rounds. A pod that has just begun has no address yet.
    ///
    /// # Errors
    /// When that does not happen in time.
    pub async fn rounds_after(&self, old: &str, rounds: f64, seconds: u64) -> Result<()> {
        let looks = async || {
            let new = self.pod().await?;
            Ok(new != old && self.metric(&new, "tanist_round_seconds_count").await? >= rounds)
        };
        until("some rounds of another operator", seconds, looks).await
    }

    /// Sets its number of replicas.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn scale(&self, replicas: u32) -> Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let patch = json!({"spec": {"replicas": replicas}});
        deployments
            .patch("tanist", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map(drop)
            .context("failed to scale the operator")
    }

    /// Sets a variable; Kubernetes then restarts it.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let variable = format!("{name}={value}");
        crate::kubectl(&["set", "env", "-n", &self.namespace, "deployment/tanist", &variable]).map(drop)
    }

    /// Removes its rights to use verbs on a resource, and returns the rules before that.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn deny(&self, resource: &str, verbs: &[&str]) -> Result<Vec<PolicyRule>> {
        let role = self.role().get("tanist").await?;
        let before = role.rules.unwrap_or_default();
        let mut after = before.clone();
        for rule in after.iter_mut().filter(|r| r.resources.iter().flatten().any(|r| r == resource)) {
            rule.verbs.retain(|verb| !verbs.contains(&verb.as_str()));
        }
        after.retain(|rule| !rule.verbs.is_empty());
        self.allow(after).await?;
        Ok(before)
    }

    /// Sets its rights in the namespace of the groups.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn allow(&self, rules: Vec<PolicyRule>) -> Result<()> {
        let role = Role { rules: Some(rules), ..self.role().get("tanist").await? };
        self.role()
            .replace("tanist", &PostParams::default(), &role)
            .await
            .map(drop)
            .context("failed to change the role")
    }

    fn role(&self) -> Api<Role> {
        Api::namespaced(self.client.clone(), &self.watched)
    }

    /// Removes it, as `kubectl delete -k deploy/operator` does; groups stay.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn uninstall(&self) -> Result<()> {
        let bindings: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        let _ = bindings.delete(&self.namespace, &DeleteParams::default()).await;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let _ = namespaces.delete(&self.namespace, &DeleteParams::default()).await?;
        Ok(())
    }
}

/// How often a condition is checked that cannot be watched.
const LOOK: Duration = Duration::from_millis(250);

/// How many times longer a long wait may take than tests name, which have an idle machine in mind. Its bound only ends what hangs, and a machine that compiles beside a cluster is not idle.
const BUSY: u64 = 2;

/// From how many seconds on a wait is long: as many as `spec.resyncIntervalSeconds` is by default. A shorter one shows that the operator noticed something by itself, so it stays as it is.
const LONG: u64 = 60;

/// The bound of a wait that an idle machine ends within so many seconds, as `until`, `ready` and the others are given them.
pub(crate) fn bound(seconds: u64) -> Duration {
    Duration::from_secs(if seconds < LONG { seconds } else { seconds * BUSY })
}

/// Waits until a condition holds that cannot be watched. An error counts as "not yet", and is reported at the end.
///
/// # Errors
/// When that does not happen in that time; a long wait may take twice as long.
pub async fn until(what: &str, seconds: u64, mut holds: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let (begin, bound) = (tokio::time::Instant::now(), bound(seconds));
    loop {
        let found = holds().await;
        match found {
            Ok(true) => return Ok(()),
            Ok(false) | Err(_) if begin.elapsed() < bound => tokio::time::sleep(LOOK).await,
            Ok(false) => bail!("waited {} s for {what}", bound.as_secs()),
            Err(error) => return Err(error.context(format!("waited {} s for {what}", bound.as_secs()))),
        }
    }
}
