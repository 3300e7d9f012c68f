//! What is done to the primary, to standbys, to the operator and to the API server.
use crate::background::{Background, Watched, now};
use crate::cluster::{Cluster, GROUP, PROGRAM, Pod, QUIET, SYSTEM, id};
use crate::journal::{Entry, tail};
use crate::kinds::{Disturbed, Lag, Loss};
use crate::play::Play;
use anyhow::{Context, Result};
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tanist_e2e::until;
use tokio::time::sleep;

/// Kills the server in a container. An execution takes its time: the moment is the one in the container.
const KILL: &str = r#"pid=$(head -n 1 /var/lib/postgresql/data/postmaster.pid); echo "${EPOCHREALTIME:0:10}${EPOCHREALTIME:11:3}"; kill -9 "$pid""#;

/// The image of the example, and one that is nowhere.
const IMAGE: &str = "tanist.local/postgres:1";
const NO_IMAGE: &str = "tanist.local/postgres:none";

/// A standby that gets nothing from the primary.
#[derive(Debug, Clone)]
pub struct Laggard {
    /// The name of the standby's member.
    pub name: String,
    node: String,
    from: String,
    to: String,
}

/// Whom a round will kill beside the primary: the operator that leads, asked while everything is well.
#[derive(Debug, Clone, Default)]
pub struct Target {
    pod: String,
    container: String,
}

/// The witness of the old server's end.
pub struct Witness {
    _process: Background,
    watched: Arc<Mutex<Watched>>,
}

impl Witness {
    fn watched(&self) -> Watched {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the server's process ended, or its node, in milliseconds since 1970.
    pub fn ended(&self) -> Option<u64> {
        self.watched().ended
    }
}

/// Takes the primary away; returns the moment of it.
///
/// # Errors
/// When that cannot be done.
pub fn lose(cluster: &Cluster, loss: Loss, member: &str, pod: &Pod) -> Result<u64> {
    let at = now();
    match loss {
        Loss::Process => {
            let said = cluster.kube(&["exec", member, "-c", "postgres", "--", "bash", "-c", KILL])?;
            return said.trim().parse().context("the container says no moment");
        }
        Loss::Container => drop(cluster.containers(&pod.node, &["tasks", "kill", "--signal", "SIGKILL", pod.id()])?),
        Loss::Pod => drop(cluster.kube(&["delete", "pod", member, "--wait=false"])?),
        Loss::PodForced => {
            drop(cluster.kube(&["delete", "pod", member, "--grace-period=0", "--force", "--wait=false"])?);
        }
        Loss::Switchover => {
            let successor = successor(&cluster.standbys()?, member).context("there is no successor")?;
            let patch = json!({"spec": {"preferredPrimary": successor}}).to_string();
            let at = now();
            cluster.kube(&["patch", "rg", GROUP, "--type", "merge", "-p", &patch])?;
            return Ok(at);
        }
        Loss::Node | Loss::NodeBack => drop(cluster.machines(&["node-kill", &pod.node])?),
        Loss::Partition => drop(cluster.machines(&["partition", &pod.node])?),
        Loss::Update => change_template(cluster, IMAGE)?,
        Loss::UpdateBroken => change_template(cluster, NO_IMAGE)?,
    }
    Ok(at)
}

/// Gives the template that image, and an annotation that no template had before.
fn change_template(cluster: &Cluster, image: &str) -> Result<()> {
    let changes = json!([
        {"op": "add", "path": "/spec/template/metadata", "value": {"annotations": {"changed": now().to_string()}}},
        {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image},
    ]);
    cluster.kube(&["patch", "rg", GROUP, "--type", "json", "-p", &changes.to_string()]).map(drop)
}

/// The last of the others: of equal data the policy takes the first, so each member leads at some time.
fn successor(standbys: &[String], primary: &str) -> Option<String> {
    standbys.iter().rfind(|name| *name != primary).cloned()
}

/// What an administrator does about it, or the world; returns the moment of it.
///
/// # Errors
/// When that cannot be done.
pub fn fix(cluster: &Cluster, loss: Loss, node: &str) -> Result<u64> {
    let told = now();
    match loss {
        Loss::Node => {
            let taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";
            drop(cluster.everywhere(&["taint", "node", node, taint])?);
        }
        Loss::NodeBack => drop(cluster.machines(&["node-start", node])?),
        Loss::Partition => drop(cluster.machines(&["heal", node])?),
        Loss::UpdateBroken => change_template(cluster, IMAGE)?,
        _ => {}
    }
    Ok(told)
}

/// Starts a node that was declared out of service.
///
/// # Errors
/// When that cannot be done.
pub fn node_returns(cluster: &Cluster, node: &str) -> Result<()> {
    cluster.machines(&["node-start", node])?;
    cluster.everywhere(&["taint", "node", node, "node.kubernetes.io/out-of-service-"]).map(drop)
}

/// Kills the operator, the API server or both within a second; of the operator the process, or by force its pod. Returns when the API server was killed.
///
/// # Errors
/// When the API server cannot be killed. An operator may have ended by itself.
pub fn strike(cluster: &Cluster, whom: Disturbed, target: &Target, pod: bool) -> Result<Option<u64>> {
    std::thread::sleep(Duration::from_millis(100 * rand::random_range(1..10)));
    if whom.operator() && pod {
        let delete = ["delete", "pod", "-n", SYSTEM, &target.pod, "--grace-period=0", "--force", "--wait=false"];
        let _ = cluster.everywhere(&delete);
    } else if whom.operator() {
        let _ = cluster.containers(QUIET, &["tasks", "kill", "--signal", "SIGKILL", id(&target.container)]);
    }
    if !whom.api() {
        return Ok(None);
    }
    let at = now();
    cluster.machines(&["kill", "control-plane", "kube-apiserver"])?;
    Ok(Some(at))
}

/// Which operator leads.
///
/// # Errors
/// When none does in time.
pub async fn find_operator(cluster: &Cluster) -> Result<Target> {
    let mut found = Target::default();
    until("an operator to lead", 60, async || {
        let holder = ["get", "lease", "-n", SYSTEM, "tanist", "-o", "jsonpath={.spec.holderIdentity}"];
        let pod = cluster.everywhere(&holder)?;
        if pod.is_empty() {
            return Ok(false);
        }
        let path = "jsonpath={.status.containerStatuses[0].containerID}";
        let container = cluster.everywhere(&["get", "pod", "-n", SYSTEM, &pod, "-o", path])?;
        found = Target { pod, container };
        Ok(!found.container.is_empty())
    })
    .await?;
    Ok(found)
}

/// Cuts the link between two pods on a node, or puts it up again.
fn link(cluster: &Cluster, node: &str, change: &str, from: &str, to: &str) -> Result<()> {
    for (source, destination) in [(from, to), (to, from)] {
        let rule = ["iptables", "-w", change, "FORWARD", "-s", source, "-d", destination, "-j", "DROP"];
        cluster.enter(node, &rule)?;
    }
    Ok(())
}

/// Acknowledgements through -rw of what was begun after that moment, by that member where one is named.
fn acknowledged(journal: &[Entry], since: u64, member: Option<&str>) -> usize {
    let through_rw = journal.iter().filter(|entry| entry.client == "rw" && entry.acknowledged());
    let of_member = through_rw.filter(|entry| member.is_none_or(|member| entry.who() == member));
    of_member.filter(|entry| entry.begin > since.saturating_mul(1000)).count()
}

impl Play {
    /// Ten writes were acknowledged through -rw in the last seconds, all begun after that moment; by that member, where one is named.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn writes_go_on(&self, since: u64, member: Option<&str>) -> Result<bool> {
        let from = since.max(now().saturating_sub(3000));
        Ok(acknowledged(&tail(&self.work.journal())?, from, member) >= 10)
    }

    /// Cuts standbys off from the primary, until that much was acknowledged without them, or it is clear that nothing is.
    ///
    /// # Errors
    /// When the links cannot be cut.
    pub async fn lag(&self, how: Lag, primary: &str) -> Result<Vec<Laggard>> {
        let from = self.cluster.pod(primary)?.address;
        let mut lagging = Vec::new();
        for name in self.cluster.standbys()?.into_iter().filter(|name| name != primary) {
            let pod = self.cluster.pod(&name)?;
            link(&self.cluster, &pod.node, "-I", &from, &pod.address)?;
            lagging.push(Laggard { name, node: pod.node, from: from.clone(), to: pod.address });
            if how == Lag::One {
                break;
            }
        }
        // Who waits only while somebody streams notices the silence after wal_sender_timeout, 5 s.
        let (since, began) = (now() + 500, Instant::now());
        while acknowledged(&tail(&self.work.journal())?, since, None) < 30 && began.elapsed() < Duration::from_secs(30)
        {
            sleep(Duration::from_millis(300)).await;
        }
        Ok(lagging)
    }

    /// Connects them again: only after the old primary's server is gone, or cut off, for they must not catch up with it.
    pub async fn unlag(&self, loss: Loss, lagging: &[Laggard], witness: &Witness) {
        if lagging.is_empty() {
            return;
        }
        if matches!(loss, Loss::Process | Loss::Container | Loss::Pod) {
            // One that lives on is noticed by the judge.
            let _ = until("the end of the old server", 60, async || Ok(witness.ended().is_some())).await;
        }
        for Laggard { node, from, to, .. } in lagging {
            let _ = link(&self.cluster, node, "-D", from, to);
        }
    }

    /// Sends a witness to the primary's server.
    ///
    /// # Errors
    /// When it does not find the server.
    pub async fn witness(&self, pod: &Pod) -> Result<Witness> {
        let socket = self.cluster.socket(&pod.node);
        let command = self.cluster.command(&["enter", &pod.node, PROGRAM, "witness", &socket, pod.id()]);
        let (process, watched) = Background::watch(&self.work.complaints(), command)?;
        let witness = Witness { _process: process, watched };
        let what = format!("the server of the primary to be found on {}", pod.node);
        until(&what, 10, async || Ok(witness.watched().found)).await?;
        Ok(witness)
    }

    /// Kills whom the round says, and waits for the API server.
    ///
    /// # Errors
    /// When the API server does not come back.
    pub async fn disturb(&mut self, whom: Option<Disturbed>, target: &Target, pod: bool) -> Result<()> {
        let Some(whom) = whom else { return Ok(()) };
        let killed = strike(&self.cluster, whom, target, pod)?;
        self.struck(killed).await
    }

    /// Notes when the API server was killed, and waits until it is back.
    ///
    /// # Errors
    /// When it does not come back.
    pub async fn struck(&mut self, killed: Option<u64>) -> Result<()> {
        self.kills.extend(killed);
        let cluster = &self.cluster;
        until("the API server to come back", 60, async || Ok(cluster.api_answers())).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::entries;

    #[test]
    fn the_successor_is_the_last_of_the_others() {
        let standbys = ["postgres-0", "postgres-2"].map(str::to_owned);
        assert_eq!(successor(&standbys, "postgres-1").as_deref(), Some("postgres-2"));
        assert_eq!(successor(&standbys, "postgres-2").as_deref(), Some("postgres-0"));
    }

    #[test]
    fn only_writes_through_rw_that_began_later_count() {
        let journal = entries(
            "1000000 1100000 rw insert rw 1 ok a 1\n2000000 2100000 rw insert rw 2 ok b 2\n\
             2000000 2100000 rw-node1 insert rw-node1 2 ok b 2\n2000000 2100000 rw read r1 2 ok b 2\n",
        );
        assert_eq!(acknowledged(&journal, 1000, None), 1);
        assert_eq!(acknowledged(&journal, 500, None), 2);
        assert_eq!(acknowledged(&journal, 500, Some("a")), 1);
    }
}
