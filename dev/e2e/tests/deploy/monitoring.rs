//! Monitoring: the API server takes its objects, and the operator exports what docs/operations.md lists.
use crate::shop::{SYSTEM, Shop, leader, nothing_is_left, release, story, uninstall};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use tanist_e2e::{Outcome, kubectl, root, run, text, until};

/// The definitions of `ServiceMonitor` and `PrometheusRule` are in the source of the Prometheus operator.
const DEFINITIONS: &str = "github.com/prometheus-operator/prometheus-operator@v0.85.0";

#[test]
fn what_is_monitored_is_documented() -> Outcome {
    story("monitoring", async |shop| {
        define(shop)?;
        shop.install()?;
        shop.form().await?;
        let parts = ["networkPolicy", "serviceMonitor", "prometheusRule", "dashboard"];
        let switches: Vec<_> = parts.iter().map(|part| format!("{part}.enabled=true")).collect();
        let values: Vec<&str> = switches.iter().flat_map(|switch| ["--set", switch]).collect();
        release("upgrade", &values)?;
        objects_are_there()?;
        until("metrics of the group", 60, async || Ok(metrics()?.contains("\ntanist_group_condition{"))).await?;
        let scrape = metrics()?;
        agree(&scrape)?;
        ensure!(scrape.contains("tanist_round_seconds_count"), "no metrics: {scrape}");
        let health = format!("/api/v1/namespaces/{SYSTEM}/services/tanist:http/proxy/healthz");
        ensure!(kubectl(&["get", "--raw", &health])?.trim() == "ok", "the Service leads nowhere");
        uninstall()?;
        nothing_is_left(",servicemonitor,prometheusrule")
    })
}

fn define(shop: &Shop) -> Result<()> {
    let mut download = Command::new("go");
    download.args(["mod", "download", "-json", DEFINITIONS]).env("GOFLAGS", "").current_dir(shop.folder.path());
    let module: Value = serde_json::from_str(&run(&mut download)?)?;
    let folder = PathBuf::from(text(&module, "/Dir")).join("example/prometheus-operator-crd");
    for kind in ["servicemonitors", "prometheusrules"] {
        let file = folder.join(format!("monitoring.coreos.com_{kind}.yaml"));
        kubectl(&["apply", "--server-side", "-f", &file.to_string_lossy()])?;
        let crd = format!("crd/{kind}.monitoring.coreos.com");
        kubectl(&["wait", "--for=condition=Established", &crd, "--timeout=30s"])?;
    }
    Ok(())
}

fn objects_are_there() -> Result<()> {
    let get = |kind: &str, name: &str| -> Result<Value> {
        Ok(serde_json::from_str(&kubectl(&["get", "-n", SYSTEM, kind, name, "-o", "json"])?)?)
    };
    get("servicemonitor", "tanist")?;
    get("networkpolicy", "tanist")?;
    let rules = get("prometheusrule", "tanist")?;
    let groups = rules.pointer("/spec/groups").and_then(Value::as_array).into_iter().flatten();
    let alerts = groups.flat_map(|group| group["rules"].as_array().into_iter().flatten());
    let alerts = alerts.filter(|rule| rule.get("alert").is_some()).count();
    ensure!(alerts > 9, "there are only {alerts} alerts");
    let dashboard = get("configmap", "tanist-dashboard")?;
    let dashboard = dashboard.pointer("/data/tanist.json").and_then(Value::as_str).context("no dashboard")?;
    let dashboard: Value = serde_json::from_str(dashboard).context("the dashboard is broken")?;
    ensure!(text(&dashboard, "/uid") == "tanist", "the dashboard has the name {:?}", text(&dashboard, "/uid"));
    Ok(())
}

fn metrics() -> Result<String> {
    kubectl(&["get", "--raw", &format!("/api/v1/namespaces/{SYSTEM}/pods/{}:8080/proxy/metrics", leader()?)])
}

/// What is exported is documented; and of what is documented, gauges and what has no labels are there from the first time on.
fn agree(scrape: &str) -> Result<()> {
    let documented = documented()?;
    let types = scrape.lines().filter_map(|line| line.strip_prefix("# TYPE tanist_")?.split(' ').next());
    let exported: Vec<_> = types.map(|name| format!("tanist_{name}")).collect();
    for name in &exported {
        let known = documented.contains_key(name) || documented.contains_key(&format!("{name}_total"));
        ensure!(known, "the operator exports {name}, which docs/operations.md does not list");
    }
    for (name, at_once) in &documented {
        let plain = name.strip_suffix("_total").unwrap_or(name);
        let there = exported.iter().any(|other| other == plain);
        ensure!(there || !at_once, "the operator does not export {name}");
    }
    Ok(())
}

/// The metrics of docs/operations.md by name, and whether each is there from the first time on.
fn documented() -> Result<BTreeMap<String, bool>> {
    let text = std::fs::read_to_string(root().join("docs/operations.md"))?;
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `tanist_"));
    let found: BTreeMap<_, _> = rows
        .filter_map(|row| {
            let (name, rest) = row.split_once('`')?;
            let mut cells = rest.split('|').skip(1).map(str::trim);
            let (kind, labels) = (cells.next()?, cells.next()?);
            Some((format!("tanist_{name}"), kind == "gauge" || labels.is_empty()))
        })
        .collect();
    ensure!(found.len() > 10, "docs/operations.md lists only {} metrics", found.len());
    Ok(found)
}
