//! Members that agree: etcd counts its members itself, decides by a majority, and elects its leader. It grows, shrinks and is repaired under a client that checks each
//! write.
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;
use tanist_e2e::{Group, Outcome, Stage, condition, kubectl, kubectl_given, play, text, until, waits};

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
            sleep 0.05
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
etcdctl get --prefix key --keys-only | sed -n s/^key//p | sort >/work/there || exit 1
wc -l </work/sorted
comm -23 /work/sorted /work/there | wc -l
cat /work/wrong";

/// The client of a group.
struct Client {
    namespace: String,
}

impl Client {
    async fn begin(stage: &Stage) -> Result<Self> {
        let namespace = stage.namespace.clone();
        kubectl_given(CLIENT, &["apply", "-n", &namespace, "-f", "-"])?;
        let client = Client { namespace };
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
    async fn goes_on(&self) -> Result<()> {
        let before = self.acknowledged()?;
        until("further writes", 30, async || Ok(self.acknowledged()? > before)).await
    }

    /// Nothing that was acknowledged is missing, and nothing was read wrongly.
    async fn lost_nothing(&self) -> Result<()> {
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

/// The members as etcd lists them: their identities by their names, and whether each is a healthy voter.
async fn listed(group: &Group, by: u32) -> Result<BTreeMap<String, (String, bool)>> {
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
async fn counts(group: &Group, members: usize) -> Result<BTreeMap<String, (String, bool)>> {
    let all_vote = |seen: &Value| {
        let rows = seen.pointer("/status/members").and_then(Value::as_array).cloned().unwrap_or_default();
        rows.len() == members && rows.iter().all(|row| text(row, "/membership") == "Voter")
    };
    let is_done = |seen: &Value| condition(seen, "Rescaling").starts_with("False ReplicasMatchSpec");
    group.ready(150).await?;
    group.until("all members to vote", 60, |seen| all_vote(seen) && is_done(seen)).await?;
    let list = listed(group, 0).await?;
    let names: Vec<_> = (0..members).map(|ordinal| format!("etcd-{ordinal}")).collect();
    ensure!(list.keys().cloned().collect::<Vec<_>>() == names, "{list:?}");
    ensure!(list.values().all(|(_, votes)| *votes), "{list:?}");
    Ok(list)
}

fn delete(group: &Group, kind: &str, name: &str) -> Result<()> {
    kubectl(&["delete", "-n", &group.namespace, kind, name, "--wait=false"]).map(drop)
}

/// The claims of a group's members.
fn claims(group: &Group) -> Result<Vec<String>> {
    let names = kubectl(&["get", "pvc", "-n", &group.namespace, "-o", "jsonpath={.items[*].metadata.name}"])?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

// D1, D7, D16, D20: 1 -> 3 -> 5 -> 3 -> 1 under a client, by the spec and by `kubectl scale`. A member that was removed keeps its volume, and does not
// come back with it: that is shown, until somebody deletes its claim.
#[test]
fn etcd_grows_and_shrinks_under_a_client() -> Outcome {
    play("grow").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 1})).await?;
        let first = counts(&group, 1).await?;
        let client = Client::begin(stage).await?;
        for members in [3_usize, 5, 3, 1] {
            let began = Instant::now();
            match members {
                5 => kubectl(&["scale", "-n", &group.namespace, "rg/etcd", "--replicas", "5"]).map(drop)?,
                _ => group.change(json!({"replicas": members})).await?,
            }
            counts(&group, members).await?;
            println!("etcd has {members} members after {:.1} s", began.elapsed().as_secs_f64());
            client.goes_on().await?;
        }
        let last = counts(&group, 1).await?;
        ensure!(last.get("etcd-0") == first.get("etcd-0"), "{first:?} {last:?}");
        client.lost_nothing().await?;

        group.change(json!({"replicas": 2})).await?;
        let seen = group.until("the kept volume to be reported", 60, |seen| waits(seen).contains("KeptData")).await?;
        ensure!(waits(&seen).contains("delete its claim"), "{}", waits(&seen));
        ensure!(listed(&group, 0).await?.len() == 1, "{:?}", listed(&group, 0).await?);
        delete(&group, "pvc", "data-etcd-1")?;
        delete(&group, "pod", "etcd-1")?;
        counts(&group, 2).await?;
        client.lost_nothing().await
    })
}

// D20: 3 -> 1 -> 3 with `scaling.volumes: Delete`. Without the right to delete claims the group says what is missing; with it the claims of removed members go, and those of the others stay
// also on the way to 0 and back.
#[test]
fn volumes_of_removed_members_are_deleted() -> Outcome {
    play("volumes").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 3, "scaling": {"volumes": "Delete"}})).await?;
        counts(&group, 3).await?;
        let client = Client::begin(stage).await?;
        group.change(json!({"replicas": 1})).await?;
        group.until("the missing right to be reported", 120, |seen| seen.to_string().contains("delete claim")).await?;
        ensure!(claims(&group)?.len() == 3, "{:?}", claims(&group)?);
        stage.operator.grant("deploy/rbac/volumes").await?;
        until("the claims to go", 120, async || Ok(claims(&group)? == ["data-etcd-0"])).await?;
        group.change(json!({"replicas": 3})).await?;
        let back = counts(&group, 3).await?;
        client.lost_nothing().await?;
        group.change(json!({"replicas": 0})).await?;
        group.until("nobody to run", 90, |seen| condition(seen, "Ready").starts_with("True Stopped")).await?;
        ensure!(claims(&group)?.len() == 3, "{:?}", claims(&group)?);
        group.change(json!({"replicas": 3})).await?;
        ensure!(counts(&group, 3).await? == back, "{back:?} {:?}", listed(&group, 0).await?);
        client.lost_nothing().await
    })
}

// D21: pod and claim of each member are deleted, and it comes back under another identity. Then all stop and come back, and all pods are killed at once.
#[test]
fn etcd_is_repaired() -> Outcome {
    play("repair").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 3})).await?;
        let mut before = counts(&group, 3).await?;
        let client = Client::begin(stage).await?;
        for ordinal in [2, 1, 0] {
            let name = format!("etcd-{ordinal}");
            let uid = group.member(ordinal).uid().await?;
            delete(&group, "pvc", &format!("data-{name}"))?;
            delete(&group, "pod", &name)?;
            group.recovered(&[uid], 150).await?;
            let after = counts(&group, 3).await?;
            let changed: Vec<_> = after.iter().filter(|(name, now)| before.get(*name) != Some(now)).collect();
            ensure!(changed.iter().all(|(changed, _)| **changed == name), "{before:?} {after:?}");
            ensure!(changed.len() == 1, "{before:?} {after:?}");
            before = after;
        }
        client.lost_nothing().await?;
        group.change(json!({"replicas": 0})).await?;
        group.until("nobody to run", 90, |seen| condition(seen, "Ready").starts_with("True Stopped")).await?;
        group.change(json!({"replicas": 3})).await?;
        ensure!(counts(&group, 3).await? == before, "{before:?} {:?}", listed(&group, 0).await?);
        client.lost_nothing().await?;
        let old = group.delete_pods(Some(0)).await?;
        group.recovered(&old, 150).await?;
        ensure!(counts(&group, 3).await? == before, "{before:?} {:?}", listed(&group, 0).await?);
        client.lost_nothing().await
    })
}

// D12, A51: the operator is killed while a member is half added, and the wish is withdrawn: what was added is removed again.
#[test]
fn a_growth_of_etcd_is_cancelled() -> Outcome {
    play("cancel").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 3})).await?;
        let before = counts(&group, 3).await?;
        let client = Client::begin(stage).await?;
        group.change(json!({"replicas": 5})).await?;
        let half = |seen: &Value| {
            let rows = seen.pointer("/status/members").and_then(Value::as_array).cloned().unwrap_or_default();
            rows.iter().any(|row| matches!(text(row, "/membership"), "Added" | "Learner"))
        };
        group.until("a member that is half added", 90, half).await?;
        stage.operator.kill(&stage.operator.pod().await?).await?;
        group.change(json!({"replicas": 3})).await?;
        ensure!(counts(&group, 3).await? == before, "{before:?} {:?}", listed(&group, 0).await?);
        until("the pods to go", 60, async || Ok(group.member(3).pod().await.is_err())).await?;
        client.lost_nothing().await
    })
}

// D8: pods and claims of two of three members are lost. Nobody is seeded, added or removed: the group says what is missing, and what is left stays as it is.
#[test]
fn a_lost_majority_of_etcd_is_left_to_people() -> Outcome {
    play("majority").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 3, "resyncIntervalSeconds": 5})).await?;
        counts(&group, 3).await?;
        let wrote = group.member(0).exec(&["etcd-member", "ctl", "put", "greeting", "hello"]).await?;
        ensure!(wrote.code == 0, "{wrote:?}");
        for ordinal in [1, 2] {
            delete(&group, "pvc", &format!("data-etcd-{ordinal}"))?;
            delete(&group, "pod", &format!("etcd-{ordinal}"))?;
        }
        let is_said = |seen: &Value| {
            condition(seen, "Ready").starts_with("False")
                && waits(seen).matches("it was started on another volume").count() == 2
        };
        group.until("the lost volumes to be reported", 120, is_said).await?;
        let operator = stage.operator.pod().await?;
        stage.operator.rounds(6.0, 60).await?;
        ensure!(stage.operator.pod().await? == operator, "another operator");
        for ordinal in [1, 2] {
            let position = group.member(ordinal).exec(&["etcd-member", "sequence"]).await?;
            ensure!(position.text == "EMPTY", "etcd-{ordinal} was started: {position:?}");
        }
        let left = ["etcd-member", "ctl", "get", "--consistency=s", "--print-value-only", "greeting"];
        let left = group.member(0).exec(&left).await?;
        ensure!(left.text == "hello", "{left:?}");
        Ok(())
    })
}
