//! etcd as users run it: the group of the example, a client that checks each of its writes, and what etcd says of its members.
use crate::{Group, Stage, condition, kubectl, kubectl_given, text, until};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;

/// A pod that writes one key after the other, reads each back with a linearizable read, and notes what was acknowledged.
const CLIENT: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 0
  securityContext: {runAsNonRoot: true, runAsUser: 999, runAsGroup: 999, fsGroup: 999, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: client
      image: tanist.local/etcd:1
      imagePullPolicy: IfNotPresent
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      resources: {requests: {cpu: 20m, memory: 32Mi}}
      env:
        - {name: ETCDCTL_API, value: "3"}
        - {name: ETCDCTL_ENDPOINTS, value: "https://etcd-rw:2379"}
        - {name: ETCDCTL_CACERT, value: /tls/ca.crt}
        - {name: ETCDCTL_CERT, value: /tls/tls.crt}
        - {name: ETCDCTL_KEY, value: /tls/tls.key}
        - {name: ETCDCTL_DIAL_TIMEOUT, value: 2s}
        - {name: ETCDCTL_COMMAND_TIMEOUT, value: 4s}
      command: [bash, -c]
      args:
        - |
          for ((i = 1; ; i++)); do
            sleep 0.2
            etcdctl put "key$i" "$i" >/dev/null 2>&1 || continue
            echo "$i" >>/work/acknowledged
            read=$(etcdctl get --print-value-only "key$i" 2>/dev/null) || continue
            [[ $read == "$i" ]] || echo "key$i: '$read'" >>/work/wrong
          done
      volumeMounts:
        - {name: tls, mountPath: /tls, readOnly: true}
        - {name: work, mountPath: /work}
  volumes:
    - {name: tls, secret: {secretName: etcd-client-tls, defaultMode: 0440}}
    - {name: work, emptyDir: {}}
"#;

/// Prints how many writes were acknowledged, how many of them are not there, and what was read wrongly.
const JUDGE: &str = "
touch /work/wrong
sort /work/acknowledged >/work/sorted
ETCDCTL_COMMAND_TIMEOUT=60s etcdctl get --prefix key --keys-only >/work/keys || exit 1
sed -n s/^key//p /work/keys | sort >/work/there
wc -l </work/sorted
comm -23 /work/sorted /work/there | wc -l
cat /work/wrong";

/// A client of the group `etcd` in a namespace.
pub struct EtcdClient {
    namespace: String,
}

impl EtcdClient {
    /// Starts it. `node`: where it runs; absent: anywhere.
    ///
    /// # Errors
    /// When it writes nothing.
    pub async fn begin(stage: &Stage, node: Option<&str>) -> Result<Self> {
        let namespace = stage.namespace.clone();
        let place = node.map(|node| format!("  nodeName: {node}\n")).unwrap_or_default();
        kubectl_given(&format!("{CLIENT}{place}"), &["apply", "-n", &namespace, "-f", "-"])?;
        let client = EtcdClient { namespace };
        until("writes of the client", 60, async || Ok(client.acknowledged().is_ok_and(|writes| writes > 3))).await?;
        Ok(client)
    }

    fn run(&self, script: &str) -> Result<String> {
        kubectl(&["exec", "-n", &self.namespace, "client", "--", "bash", "-c", script])
    }

    fn acknowledged(&self) -> Result<u64> {
        Ok(self.run("wc -l </work/acknowledged")?.trim().parse()?)
    }

    /// Its writes go on.
    ///
    /// # Errors
    /// When no further one is acknowledged.
    pub async fn goes_on(&self) -> Result<()> {
        let before = self.acknowledged()?;
        until("further writes", 30, async || Ok(self.acknowledged()? > before)).await
    }

    /// Nothing that was acknowledged is missing, and nothing was read wrongly.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub async fn lost_nothing(&self) -> Result<()> {
        self.goes_on().await?;
        let said = self.run(JUDGE)?;
        let mut lines = said.lines();
        let writes: u64 = lines.next().context("no number")?.trim().parse()?;
        let missing = lines.next().context("no number")?.trim();
        let wrong: Vec<_> = lines.collect();
        ensure!(writes > 10, "only {writes} writes were acknowledged: this shows nothing");
        ensure!(missing == "0", "{missing} of {writes} acknowledged writes are missing");
        ensure!(wrong.is_empty(), "{wrong:?}");
        Ok(())
    }
}

/// The identities of etcd's members by their names, and whether each is a healthy voter.
pub type Members = BTreeMap<String, (String, bool)>;

/// The members as etcd lists them.
///
/// # Errors
/// When that member cannot say it.
pub async fn listed(group: &Group, by: u32) -> Result<Members> {
    let said = group.member(by).exec(&["etcd-member", "list"]).await?;
    ensure!(said.code == 0 && said.text.starts_with("cluster "), "{said:?}");
    let entry = |line: &str| match line.split(' ').collect::<Vec<_>>().as_slice() {
        [name, id, vote, health, _] => {
            Ok(((*name).to_owned(), ((*id).to_owned(), (*vote, *health) == ("voter", "healthy"))))
        }
        _ => anyhow::bail!("{line}"),
    };
    said.text.lines().skip(1).map(entry).collect()
}

/// Waits until the group has that many members, by its status and by etcd, and all of them vote.
///
/// # Errors
/// When it does not come to that.
pub async fn counts(group: &Group, members: usize) -> Result<Members> {
    let all: Vec<u32> = (0..).take(members).collect();
    counts_of(group, &all).await
}

/// Waits until the group has the members with these numbers, by its status and by etcd, and all of them vote.
///
/// # Errors
/// When it does not come to that.
pub async fn counts_of(group: &Group, ordinals: &[u32]) -> Result<Members> {
    let members = ordinals.len();
    let all_vote = |seen: &Value| {
        let rows = seen.pointer("/status/members").and_then(Value::as_array).cloned().unwrap_or_default();
        rows.len() == members && rows.iter().all(|row| text(row, "/membership") == "Voter")
    };
    let is_done = |seen: &Value| condition(seen, "Rescaling").starts_with("False ReplicasMatchSpec");
    group.ready(150).await?;
    group.until("all members to vote", 60, |seen| all_vote(seen) && is_done(seen)).await?;
    let mut names: Vec<_> = ordinals.iter().map(|ordinal| format!("etcd-{ordinal}")).collect();
    names.sort();
    let first = ordinals.first().copied().unwrap_or_default();
    // One slow answer among the members makes a list that calls one unhealthy.
    let mut all = Members::new();
    until("etcd to list them as healthy voters", 60, async || {
        all = listed(group, first).await?;
        Ok(all.keys().cloned().collect::<Vec<_>>() == names && all.values().all(|(_, votes)| *votes))
    })
    .await?;
    Ok(all)
}
