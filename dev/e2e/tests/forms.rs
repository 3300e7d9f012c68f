//! A group forms.
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tanist_e2e::{Execution, Group, Outcome, Stage, condition, kubectl, kubectl_given, play, starts, text, until};

/// A9, A10, A12: the seed without peers, then primaries one at a time with the names of those that serve, by ordinal.
pub async fn order(stage: &Stage, group: &Group) -> Result<()> {
    let all = group.executions().await?;
    ensure!(starts(&all) == ["seed 0", "primary 1", "primary 2"], "{:?}", starts(&all));
    let peer = |n: u32| format!("{}-{n}.{}.{}.svc.cluster.local", group.name, group.name, group.namespace);
    let started: Vec<&Execution> = all.iter().filter(|e| e.command != "sequence").collect();
    let peers: Vec<_> = started.iter().map(|e| e.arguments.clone()).collect();
    ensure!(peers == [vec![], vec![peer(0)], vec![peer(0), peer(1)]], "{peers:?}");
    for pair in started.windows(2) {
        let [earlier, later] = pair else { continue };
        ensure!(
            earlier.ended.is_some_and(|end| end <= later.began),
            "{} and {} overlap",
            earlier.command,
            later.command
        );
    }
    // A4: no more sequences than decisions need. A member whose role is not known may be primary, so what was read before the last role was known is
    // read again: 1, 2 and 3 sequences if the members answer one after the other. The runner reads one more just before the seed. Those that are older
    // than 30 s are read again, too.
    let moments = stage.operator.log().await.matches("\"to\":\"unknown\"").count();
    let sequences: Vec<_> = all.iter().filter(|e| e.command == "sequence").collect();
    let read: Vec<_> = sequences.iter().map(|e| (e.ordinal, e.began)).collect();
    let span = read.iter().map(|(_, at)| *at).max().zip(read.iter().map(|(_, at)| *at).min());
    let old = span.map_or(0, |(last, first)| last.saturating_sub(first) / 30_000);
    let allowed = 7 + 3 * moments + 3 * usize::try_from(old)?;
    ensure!(sequences.len() <= allowed, "{read:?} were read (member, time); roles that could not be read: {moments}");
    let last = started.iter().map(|e| e.began).max();
    let late = sequences.iter().filter(|e| Some(e.began) > last).count();
    ensure!(late == 0, "{late} sequences were read after the last decision");
    Ok(())
}

// A9, A10, A12, A45, A47; columns, scale subresource, readiness gate.
#[test]
fn a_group_forms_one_primary_at_a_time() -> Outcome {
    play("forms").run(async |stage| {
        // Slow enough to look at members that are not ready.
        let group = stage
            .register(json!({"container_": {"env": [{"name": "REGISTER_FAULT_seed", "value": "slow 20"}]}}))
            .await?;
        not_ready_yet(&group).await?;
        let waited =
            kubectl(&["wait", "-n", &stage.namespace, "--for=condition=Ready", "rg/register", "--timeout=120s"])?;
        ensure!(waited.contains("condition met"), "{waited}");
        let ready = group.ready(60).await?;
        order(stage, &group).await?;
        routed(stage).await?;
        objects(stage).await?;
        seen_by_users(&ready, stage).await
    })
}

/// A47: the name of a pod that is not ready resolves, and leads to no Service.
async fn not_ready_yet(group: &Group) -> Result<()> {
    let name = format!("register-2.register.{}.svc.cluster.local", group.namespace);
    until("the name of a member that is not ready", 40, async || {
        Ok(group.member(1).exec(&["nslookup", &name]).await?.code == 0)
    })
    .await?;
    let seen = group.get().await?;
    ensure!(!condition(&seen, "Ready").starts_with("True"), "{}", condition(&seen, "Ready"));
    let pod = group.member(2).pod().await?;
    ensure!(!pod.labels().contains_key("tanist.dev/role"), "{:?}", pod.labels());
    Ok(())
}

async fn routed(stage: &Stage) -> Result<()> {
    for member in stage.group("register").members(3) {
        let pod = member.pod().await?;
        ensure!(pod.labels().get("tanist.dev/role").is_some_and(|role| role == "primary"), "{:?}", pod.labels());
        let conditions = pod.status.and_then(|s| s.conditions).unwrap_or_default();
        let gate = conditions.iter().find(|c| c.type_ == "tanist.dev/member").context("no readiness gate")?;
        ensure!(gate.status == "True", "{gate:?}");
    }
    let slices: Api<EndpointSlice> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let ready = async |service: &str| {
        let list = slices.list(&ListParams::default().labels(&format!("kubernetes.io/service-name={service}"))).await?;
        let endpoints = list.items.iter().flat_map(|s| s.endpoints.iter());
        let ready = endpoints.filter(|e| e.conditions.as_ref().is_some_and(|c| c.ready == Some(true)));
        anyhow::Ok(ready.count())
    };
    until("three endpoints of register-rw", 60, async || Ok(ready("register-rw").await? == 3)).await?;
    ensure!(ready("register-ro").await? == 0, "there are no secondaries");
    Ok(())
}

/// A45, A47: the set, the services and the budget are what the rows say.
async fn objects(stage: &Stage) -> Result<()> {
    let sets: Api<StatefulSet> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let set = sets.get("register").await?;
    let owners: Vec<_> = set.owner_references().iter().map(|o| (o.kind.as_str(), o.controller)).collect();
    ensure!(owners == [("ReplicaGroup", Some(true))], "{owners:?}");
    let spec = set.spec.context("no spec")?;
    ensure!(spec.pod_management_policy.as_deref() == Some("Parallel"));
    ensure!(spec.update_strategy.and_then(|s| s.type_).as_deref() == Some("OnDelete"));
    let services: Api<Service> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let headless = services.get("register").await?.spec.context("no spec")?;
    ensure!(headless.publish_not_ready_addresses == Some(true) && headless.cluster_ip.as_deref() == Some("None"));
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let budget = serde_json::to_value(budgets.get("register").await?)?;
    ensure!(budget.pointer("/spec/maxUnavailable") == Some(&json!(1)), "{budget}");
    Ok(())
}

async fn seen_by_users(group: &Value, stage: &Stage) -> Result<()> {
    let table = kubectl(&["get", "rg", "register", "-n", &stage.namespace])?;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    ensure!(rows.first().is_some_and(|r| *r == ["NAME", "READY", "REASON", "PRIMARY", "MEMBERS", "AGE"]), "{table}");
    let row = rows.get(1).and_then(|r| r.get(..5)).unwrap_or_default();
    ensure!(row == ["register", "True", "AllMembersInRole", "register-0,register-1,register-2", "3/3"], "{table}");
    let path = format!("/apis/tanist.dev/v1alpha1/namespaces/{}/replicagroups/register/scale", stage.namespace);
    let scale: Value = serde_json::from_str(&kubectl(&["get", "--raw", &path])?)?;
    ensure!(
        scale.pointer("/spec/replicas") == Some(&json!(3)) && scale.pointer("/status/replicas") == Some(&json!(3)),
        "{scale}"
    );
    ensure!(text(&scale, "/status/selector") == "tanist.dev/group=register", "{scale}");
    for (kind, wanted) in [
        ("Progressing", "False Settled"),
        ("Degraded", "False Healthy"),
        ("PolicyActive", "True Loaded"),
        ("Stalled", "False Moving"),
    ] {
        let found = condition(group, kind);
        ensure!(found.starts_with(wanted), "{kind}: {found}");
    }
    // A7: all are empty, so the lowest ordinal; the decision says why.
    let events = kubectl(&["get", "events", "-n", &stage.namespace, "-o", "jsonpath={.items[*].message}"])?;
    ensure!(events.contains("seed on register-0"), "{events}");
    Ok(())
}

/// The first group that README shows.
const README: &str = include_str!("../../../README.md");

// What a newcomer copies from README forms, just as it stands there.
#[test]
fn the_group_of_the_readme_forms() -> Outcome {
    play("readme").run(async |stage| {
        let block = README.split("```yaml\n").find(|block| block.starts_with("apiVersion: tanist.dev/"));
        let manifest = block.and_then(|block| block.split("```").next()).context("README shows no group")?;
        kubectl_given(manifest, &["apply", "-n", &stage.namespace, "-f", "-"])?;
        let group = stage.group("register");
        let ready = group.ready(120).await?;
        ensure!(text(&ready, "/status/columns/members") == "3/3", "{ready}");
        order(stage, &group).await
    })
}
