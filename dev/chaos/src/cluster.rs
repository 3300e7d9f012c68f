//! The cluster of dev/cluster, and the group in it.
use anyhow::{Context, Result};
use serde_json::Value;
use std::process::{Command, Stdio};
use tanist_e2e::{root, run, text};

/// The namespace of the group.
pub const NAMESPACE: &str = "chaos";
/// The name of the group.
pub const GROUP: &str = "postgres";
/// Runs the operator and those clients that are never cut off; nothing happens to it.
pub const QUIET: &str = "node4";
/// The nodes of the members.
pub const NODES: [&str; 3] = ["node1", "node2", "node3"];
/// The namespace of the operator.
pub const SYSTEM: &str = "tanist-system";

/// Where every node sees a root file system with psql. It lies on the cluster's volumes and goes with it.
pub const TOOLS: &str = "/var/lib/volumes/.chaos-tools";
/// This program in it.
pub const PROGRAM: &str = "/var/lib/volumes/.chaos-tools/tanist-chaos";

/// A cluster by its name, `CLUSTER`.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The name that dev/cluster gets in the environment variable `CLUSTER`.
    pub name: String,
}

impl Cluster {
    /// A command of dev/cluster, as `partition node1`.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(root().join("dev/cluster"));
        command.env("CLUSTER", &self.name).args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs it and returns what it printed.
    ///
    /// # Errors
    /// When it fails, with what it wrote to standard error.
    pub fn machines(&self, arguments: &[&str]) -> Result<String> {
        run(&mut self.command(arguments))
    }

    /// kubectl, in no namespace.
    ///
    /// # Errors
    /// As [`Cluster::machines`].
    pub fn everywhere(&self, arguments: &[&str]) -> Result<String> {
        self.machines(&[&["kubectl"], arguments].concat())
    }

    /// kubectl in the namespace of the group, as a command that is not run yet.
    pub fn kubectl(&self, arguments: &[&str]) -> Command {
        self.command(&[&["kubectl", "-n", NAMESPACE], arguments].concat())
    }

    /// The same, run.
    ///
    /// # Errors
    /// As [`Cluster::machines`].
    pub fn kube(&self, arguments: &[&str]) -> Result<String> {
        run(&mut self.kubectl(arguments))
    }

    /// kubectl with a text on its standard input, in the namespace of the group.
    ///
    /// # Errors
    /// As [`Cluster::machines`].
    pub fn given(&self, input: &str, arguments: &[&str]) -> Result<String> {
        tanist_e2e::run_given(&mut self.kubectl(arguments), input)
    }

    /// Runs a program inside a node: with its network, files and processes.
    ///
    /// # Errors
    /// As [`Cluster::machines`].
    pub fn enter(&self, node: &str, arguments: &[&str]) -> Result<String> {
        self.machines(&[&["enter", node], arguments].concat())
    }

    /// containerd's own tool on a node, with its containers.
    ///
    /// # Errors
    /// As [`Cluster::machines`].
    pub fn containers(&self, node: &str, arguments: &[&str]) -> Result<String> {
        let socket = self.socket(node);
        self.enter(node, &[&["ctr", "--address", &socket, "--namespace", "k8s.io"], arguments].concat())
    }

    /// The socket of a node's containerd, as seen inside of it.
    pub fn socket(&self, node: &str) -> String {
        format!("/run/tanist/{}/{node}.sock", self.name)
    }

    /// The group, as the API server has it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn group(&self) -> Result<Value> {
        let text = self.kube(&["get", "rg", GROUP, "-o", "json"])?;
        serde_json::from_str(&text).context("the group is no JSON")
    }

    /// Its primary by its status; empty: it has none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn primary(&self) -> Result<String> {
        Ok(primary_of(&self.group()?))
    }

    /// The names of its secondaries, in order.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn standbys(&self) -> Result<Vec<String>> {
        let group = self.group()?;
        let members = group.pointer("/status/members").and_then(Value::as_array).into_iter().flatten();
        let secondaries = members.filter(|member| text(member, "/role") == "Secondary");
        let mut names: Vec<_> = secondaries.map(|member| text(member, "/name").to_owned()).collect();
        names.sort();
        Ok(names)
    }

    /// A member's pod.
    ///
    /// # Errors
    /// When there is none.
    pub fn pod(&self, name: &str) -> Result<Pod> {
        let pod: Value = serde_json::from_str(&self.kube(&["get", "pod", name, "-o", "json"])?)?;
        let statuses = pod.pointer("/status/containerStatuses").and_then(Value::as_array).into_iter().flatten();
        let own = statuses.filter(|status| text(status, "/name") == "postgres");
        let container = own.map(|status| text(status, "/containerID").to_owned()).next();
        Ok(Pod {
            node: text(&pod, "/spec/nodeName").into(),
            address: text(&pod, "/status/podIP").into(),
            container: container.unwrap_or_default(),
        })
    }

    /// Executes a statement on a member, from inside of it; returns the lines of its answer.
    ///
    /// # Errors
    /// When the server refuses it, or there is none.
    pub fn sql(&self, member: &str, statement: &str) -> Result<String> {
        let psql = ["psql", "-X", "-w", "-q", "-A", "-t", "-h", "/run/postgresql", "-U", "postgres", "-d", "postgres"];
        self.kube(&[&["exec", member, "-c", "postgres", "--"][..], &psql, &["-c", statement]].concat())
    }

    /// Waits until all members are in their role.
    ///
    /// # Errors
    /// When that does not happen in time.
    pub fn ready(&self, seconds: u64) -> Result<()> {
        let timeout = format!("--timeout={seconds}s");
        self.kube(&["wait", "--for=condition=Ready", &format!("rg/{GROUP}"), &timeout]).map(drop)
    }

    /// Whether all members have a pod of the present template and are in their role.
    ///
    /// # Errors
    /// When the group cannot be read.
    pub fn updated(&self) -> Result<bool> {
        let group = self.group()?;
        let same = |one: &str, other: &str| group.pointer(one).is_some() && group.pointer(one) == group.pointer(other);
        let conditions = group.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let is_ready = conditions.filter(|it| text(it, "/type") == "Ready").any(|it| text(it, "/status") == "True");
        let of_this = same("/status/observedGeneration", "/metadata/generation");
        Ok(is_ready && of_this && same("/status/updatedReplicas", "/spec/replicas"))
    }

    /// Whether a member's container waits for an image.
    ///
    /// # Errors
    /// When the pods cannot be read.
    pub fn lacks_image(&self) -> Result<bool> {
        let why = "jsonpath={.items[*].status.containerStatuses[*].state.waiting.reason}";
        Ok(self.kube(&["get", "pods", "-l", &format!("tanist.dev/group={GROUP}"), "-o", why])?.contains("Image"))
    }

    /// What `tanist explain` says of the group.
    ///
    /// # Errors
    /// As [`Cluster::machines`].
    pub fn explain(&self) -> Result<String> {
        let tanist = ["/bin/tanist", "explain", GROUP, "--namespace", NAMESPACE];
        self.everywhere(&[&["exec", "-n", SYSTEM, "deployment/tanist", "--"][..], &tanist].concat())
    }

    /// Whether the API server answers.
    pub fn api_answers(&self) -> bool {
        self.everywhere(&["--request-timeout=3s", "get", "--raw", "/readyz"]).is_ok()
    }
}

/// Where a member runs.
#[derive(Debug, Clone, Default)]
pub struct Pod {
    /// The name of the node that the pod runs on.
    pub node: String,
    /// The IP address of the pod.
    pub address: String,
    /// The container of the server, as `containerd://ID`.
    pub container: String,
}

impl Pod {
    /// The container's ID, as containerd knows it.
    pub fn id(&self) -> &str {
        id(&self.container)
    }
}

/// A container's ID without its runtime.
pub fn id(container: &str) -> &str {
    container.split_once("://").map_or(container, |(_, id)| id)
}

/// The primaries of a group's status, in a line.
pub fn primary_of(group: &Value) -> String {
    let primaries = group.pointer("/status/primaries").and_then(Value::as_array).into_iter().flatten();
    primaries.filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}

/// Why the group waits because somebody may be primary; absent: it does not.
pub fn may_be_primary(group: &Value) -> Option<&str> {
    let waits = group.pointer("/status/awaiting").and_then(Value::as_array).into_iter().flatten();
    waits.filter(|wait| text(wait, "/reason") == "MayBePrimary").map(|wait| text(wait, "/message")).next()
}
