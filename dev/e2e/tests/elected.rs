//! Members of etcd elect who of them leads, and clients are led there; and members that wait for a majority can be stopped and updated.
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{EtcdClient, Group, Outcome, condition, counts, kubectl, listed, play, text, until, waits};

/// The member that leads by the group's status. `None`: there is not exactly one.
fn leader(seen: &Value) -> Option<String> {
    let rows = seen.pointer("/status/members")?.as_array()?;
    let mut leads = rows.iter().filter(|row| text(row, "/role") == "Primary").map(|row| text(row, "/name").to_owned());
    leads.next().filter(|_| leads.next().is_none())
}

/// The members that the Service of primaries leads to.
fn reached(group: &Group) -> Result<Vec<String>> {
    let ready = "{.items[*].endpoints[?(@.conditions.ready==true)].targetRef.name}";
    let of = "kubernetes.io/service-name=etcd-rw";
    let names =
        kubectl(&["get", "endpointslices", "-n", &group.namespace, "-l", of, "-o", &format!("jsonpath={ready}")])?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

/// Waits until another one than that leads, and clients are led to it.
async fn another_leads(group: &Group, old: &str) -> Result<String> {
    let is_another = |seen: &Value| leader(seen).is_some_and(|now| now != old);
    let seen = group.until("another member to lead", 90, is_another).await?;
    let now = leader(&seen).context("nobody leads")?;
    until("clients to be led to it", 60, async || Ok(reached(group)? == [now.clone()])).await?;
    Ok(now)
}

fn term(seen: &Value) -> Option<u64> {
    seen.pointer("/status/record/term").and_then(Value::as_u64)
}

fn number(member: &str) -> Result<u32> {
    Ok(member.rsplit_once('-').context("no number")?.1.parse()?)
}

async fn pods(group: &Group) -> Result<Vec<String>> {
    let mut uids = Vec::new();
    for member in group.members(3) {
        uids.push(member.uid().await?);
    }
    Ok(uids)
}

// Promise 1, S22, S31; docs/rules.md, "Membership": a group with `primaries: 1` whose members elect. The leader's pod is deleted twice, and then etcd moves the lead by itself: clients are led to whoever was
// elected, no term begins, and nobody is started or stopped for it.
#[test]
fn clients_are_led_to_whoever_etcd_elects() -> Outcome {
    play("elected").run(async |stage| {
        let status = json!({"exec": ["etcd-member", "status", "leader"]});
        let commands = json!({"status": status, "secondary": {"exec": ["etcd-member", "primary", "$(PEERS)"]}});
        let group = stage.etcd(json!({"replicas": 3, "primaries": 1, "commands": commands})).await?;
        counts(&group, 3).await?;
        let client = EtcdClient::begin(stage, None).await?;
        let begun = group.get().await?;
        let mut leads = leader(&begun).context("nobody leads")?;
        for _ in 0..2 {
            kubectl(&["delete", "-n", &group.namespace, "pod", &leads, "--wait=false"])?;
            leads = another_leads(&group, &leads).await?;
            client.goes_on().await?;
            counts(&group, 3).await?;
        }
        let before = pods(&group).await?;
        let all = listed(&group, 0).await?;
        let next = all.iter().find(|(name, _)| **name != leads).map(|(_, (id, _))| id.clone()).context("alone")?;
        let moved = group.member(number(&leads)?).exec(&["etcd-member", "ctl", "move-leader", &next]).await?;
        ensure!(moved.code == 0, "{moved:?}");
        another_leads(&group, &leads).await?;
        client.goes_on().await?;
        stage.operator.rounds(3.0, 60).await?;
        let seen = group.get().await?;
        ensure!(term(&seen) == term(&begun), "{:?} {:?}", term(&begun), term(&seen));
        ensure!(pods(&group).await? == before, "pods were replaced");
        ensure!(condition(&seen, "Ready").starts_with("True"), "{}", condition(&seen, "Ready"));
        client.lost_nothing().await
    })
}

// D8, S26, E5: the majority is lost, and the member that is left has been started and waits for it: its start ended with 0, and it may wait for a week. It gets a corrected template all the same, and the
// group can be stopped.
#[test]
fn what_waits_for_a_majority_is_updated_and_stopped() -> Outcome {
    play("waits").run(async |stage| {
        let group = stage.etcd(json!({"replicas": 3, "resyncIntervalSeconds": 5})).await?;
        counts(&group, 3).await?;
        let wrote = group.member(0).exec(&["etcd-member", "ctl", "put", "greeting", "hello"]).await?;
        ensure!(wrote.code == 0, "{wrote:?}");
        for ordinal in [1, 2] {
            kubectl(&["delete", "-n", &group.namespace, "pvc", &format!("data-etcd-{ordinal}"), "--wait=false"])?;
            kubectl(&["delete", "-n", &group.namespace, "pod", &format!("etcd-{ordinal}"), "--wait=false"])?;
        }
        let is_said = |seen: &Value| waits(seen).matches("it was started on another volume").count() == 2;
        group.until("the lost volumes to be reported", 120, is_said).await?;
        kubectl(&["delete", "-n", &group.namespace, "pod", "etcd-0", "--wait=false"])?;
        let waits_for_others = |seen: &Value| {
            let ended = seen.pointer("/status/record/intents/0/exited").is_some();
            ended && text(seen, "/status/members/0/role") == "Starting"
        };
        group.until("etcd-0 to be started and to wait", 120, waits_for_others).await?;

        let data = group.member(0).exec(&["etcd-member", "sequence"]).await?;
        let before = group.member(0).uid().await?;
        group.change(json!({"template": {"metadata": {"annotations": {"corrected": "yes"}}}})).await?;
        until("etcd-0 to get the corrected template", 150, async || Ok(group.member(0).uid().await? != before)).await?;
        group.until("etcd-0 to be started again", 120, waits_for_others).await?;

        group.change(json!({"replicas": 0})).await?;
        group.until("nobody to run", 90, |seen| condition(seen, "Ready").starts_with("True Stopped")).await?;
        group.change(json!({"replicas": 3})).await?;
        let is_starting = |seen: &Value| text(seen, "/status/members/0/role") == "Starting";
        group.until("etcd-0 to wait again", 120, is_starting).await?;
        let left = group.member(0).exec(&["etcd-member", "sequence"]).await?;
        let cluster = |position: &str| position.split_once(':').map(|(cluster, _)| cluster.to_owned());
        ensure!(cluster(&left.text).is_some() && cluster(&left.text) == cluster(&data.text), "{data:?} {left:?}");
        Ok(())
    })
}
