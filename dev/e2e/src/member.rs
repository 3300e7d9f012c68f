//! One member: its pod, and what is executed in it by a test.
use crate::cluster::machines;
use crate::journal::{Entry, Execution, executions};
use crate::operator::bound;
use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, AttachParams, DeleteParams};
use kube::{Client, ResourceExt};
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// A member of a group.
#[derive(Clone)]
pub struct Member {
    /// The number in its name.
    pub ordinal: u32,
    /// The name of its pod.
    pub name: String,
    /// The pods of its namespace.
    pub pods: Api<Pod>,
    /// The container in which its application runs.
    pub container: String,
}

/// The result of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The exit code.
    pub code: i32,
    /// What it printed.
    pub text: String,
    /// What it wrote to standard error.
    pub complaint: String,
}

/// The container of a member as its node knows it.
#[derive(Debug, Clone)]
pub struct Inside {
    /// The member's ordinal.
    pub ordinal: u32,
    node: String,
    container: String,
}

impl Inside {
    /// Runs a shell script in it and returns what it printed. Needs no API server, and a cluster of dev/cluster.
    ///
    /// # Errors
    /// When the script fails, or the container ended.
    pub fn run(&self, script: &str) -> Result<String> {
        let printed = machines(&["exec", &self.node, &self.container, "sh", "-c", script])?;
        Ok(printed.trim().to_owned())
    }
}

/// How long an execution of a test may take.
const EXEC: Duration = Duration::from_secs(20);

/// How long a pod may take until its container runs, and the pause between two looks.
const STARTS: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(500);

/// Whether the API server or the kubelet says that there is nothing yet in which the command could have run.
fn never_ran(error: &anyhow::Error) -> bool {
    let said = format!("{error:#}");
    ["container not found", "does not have a host assigned", "NotFound"].iter().any(|word| said.contains(word))
}

impl Member {
    /// The member of a group of registers with this ordinal.
    #[must_use]
    pub fn new(client: &Client, namespace: &str, group: &str, ordinal: u32) -> Self {
        Member {
            ordinal,
            name: format!("{group}-{ordinal}"),
            pods: Api::namespaced(client.clone(), namespace),
            container: "register".into(),
        }
    }

    /// Executes a command in it, whatever its exit code. While its pod or container is not there yet it is tried again: what Tanist says of a member may be from before a pod was made anew.
    ///
    /// # Errors
    /// When it could not be executed.
    pub async fn exec(&self, argv: &[&str]) -> Result<Output> {
        let what = || format!("{argv:?} in {}", self.name);
        let begin = tokio::time::Instant::now();
        loop {
            let ended = tokio::time::timeout(EXEC, self.executed(argv)).await;
            match ended.with_context(|| format!("no end of {}", what()))? {
                Err(error) if never_ran(&error) && begin.elapsed() < STARTS => tokio::time::sleep(AGAIN).await,
                ended => return ended.with_context(what),
            }
        }
    }

    async fn executed(&self, argv: &[&str]) -> Result<Output> {
        let params = AttachParams::default().container(&self.container).stdin(false).stdout(true).stderr(true);
        let mut process = self.pods.exec(&self.name, argv.to_vec(), &params).await?;
        let status = process.take_status().context("no status")?;
        let (mut out, mut err) = (process.stdout().context("no output")?, process.stderr().context("no errors")?);
        let (mut text, mut complaint) = (Vec::new(), Vec::new());
        {
            let reading = async { tokio::join!(out.read_to_end(&mut text), err.read_to_end(&mut complaint)) };
            let _ = reading.await;
        }
        let status = status.await.context("the stream ended without a status")?;
        let code = match status.status.as_deref() {
            Some("Success") => 0,
            _ => {
                let causes = status.details.as_ref().and_then(|d| d.causes.as_ref());
                let code =
                    causes.and_then(|c| c.iter().find(|c| c.reason.as_deref() == Some("ExitCode"))?.message.as_deref());
                code.with_context(|| format!("{status:?}"))?.parse()?
            }
        };
        let read = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
        Ok(Output { code, text: read(text), complaint: read(complaint) })
    }

    /// Runs `register ...` and returns what it printed.
    ///
    /// # Errors
    /// When it fails.
    pub async fn register(&self, words: &str) -> Result<String> {
        let argv: Vec<_> = std::iter::once("register").chain(words.split(' ')).collect();
        let output = self.exec(&argv).await?;
        ensure!(output.code == 0, "register {words} in {}: {output:?}", self.name);
        Ok(output.text)
    }

    /// Makes a command misbehave, see examples/register/README.md.
    ///
    /// # Errors
    /// When it cannot be executed.
    pub async fn fault(&self, command: &str, how: &str) -> Result<()> {
        self.register(&format!("fault {command} {how}")).await.map(drop)
    }

    /// Adds rows, and returns how many there are.
    ///
    /// # Errors
    /// When the member does not take them.
    pub async fn write(&self, rows: u32) -> Result<u32> {
        Ok(self.register(&format!("write {rows}")).await?.parse()?)
    }

    /// How many rows it has; `None` when it has no data.
    ///
    /// # Errors
    /// When its data is damaged.
    pub async fn count(&self) -> Result<u32> {
        let output = self.exec(&["sh", "-c", "[ ! -e /data/www/register ] && echo 0 || register count"]).await?;
        ensure!(output.code == 0, "{output:?}");
        Ok(output.text.parse()?)
    }

    /// What was executed in it, except `status`.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub async fn journal(&self) -> Result<Vec<Entry>> {
        let output = self.exec(&["sh", "-c", "[ ! -e /data/log ] || cat /data/log"]).await?;
        output.text.lines().map(|line| Entry::read(self.ordinal, line)).collect()
    }

    /// The executions of `status` in it, the runner's own included.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn polls(&self) -> Result<Vec<Execution>> {
        let output = self.exec(&["sh", "-c", "cat /data/log.status.old /data/log.status 2>/dev/null"]).await?;
        let entries: Result<Vec<_>> = output.text.lines().map(|line| Entry::read(self.ordinal, line)).collect();
        Ok(executions(&entries?))
    }

    /// Its container, to be reached without an API server later on.
    ///
    /// # Errors
    /// When none runs.
    pub async fn inside(&self) -> Result<Inside> {
        let pod = self.pod().await?;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("no node")?;
        let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
        let id = statuses.into_iter().find(|c| c.name == self.container).and_then(|c| c.container_id);
        let id = id.as_deref().and_then(|id| id.strip_prefix("containerd://")).context("no container of containerd")?;
        Ok(Inside { ordinal: self.ordinal, node, container: id.to_owned() })
    }

    /// Reads the member's pod from the API server.
    ///
    /// # Errors
    /// When there is none.
    pub async fn pod(&self) -> Result<Pod> {
        Ok(self.pods.get(&self.name).await?)
    }

    /// The UID of its pod.
    ///
    /// # Errors
    /// When there is none.
    pub async fn uid(&self) -> Result<String> {
        self.pod().await?.uid().context("no UID")
    }

    /// Deletes its pod, with its own grace period or with this one.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn delete(&self, grace: Option<u32>) -> Result<()> {
        let params = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() };
        self.pods.delete(&self.name, &params).await.map(drop).context("failed to delete a pod")
    }

    /// Waits until a new pod of that name runs.
    ///
    /// # Errors
    /// When that does not happen in time.
    pub async fn replaced(&self, old: &str, seconds: u64) -> Result<()> {
        let runs = |pod: &Pod| {
            let status = pod.status.as_ref();
            let statuses = status.and_then(|s| s.container_statuses.as_ref()).into_iter().flatten();
            pod.uid().as_deref() != Some(old)
                && pod.metadata.deletion_timestamp.is_none()
                && statuses.into_iter().any(|c| c.state.as_ref().is_some_and(|s| s.running.is_some()))
        };
        let wait = kube::runtime::wait::await_condition(self.pods.clone(), &self.name, |pod: Option<&Pod>| {
            pod.is_some_and(runs)
        });
        match tokio::time::timeout(bound(seconds), wait).await {
            Ok(found) => found.map(drop).context("failed to watch a pod"),
            Err(_) => bail!("waited {} s for a new pod {}", bound(seconds).as_secs(), self.name),
        }
    }
}
