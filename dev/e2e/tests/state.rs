//! The cluster state: a ConfigMap that names the members before they start, and the environment of their commands.
use crate::takeover::led;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Outcome, Stage, condition, kubectl, merge, play, until, waits};

/// What the ConfigMap says. Absent: there is none.
fn state(stage: &Stage) -> Result<Option<Value>> {
    let found = kubectl(&["-n", &stage.namespace, "get", "configmap", "who", "-o", "json", "--ignore-not-found"])?;
    if found.trim().is_empty() {
        return Ok(None);
    }
    Ok(serde_json::from_str::<Value>(&found).context("no object")?.get("data").cloned())
}

fn data(members: &str, state: &str) -> Value {
    json!({"MEMBERS": members, "STATE": state})
}

/// What the start command of a member was given: the variables, then the argument.
fn seen(stage: &Stage, ordinal: u32) -> Result<String> {
    kubectl(&["-n", &stage.namespace, "exec", &format!("register-{ordinal}"), "--", "cat", "/data/seen"])
}

// D6: without the right to change ConfigMaps nobody is started, and that is said. With it each member is named before it starts, its command has the values as environment and as an
// argument, and the ConfigMap follows the group. One of somebody else is left alone.
#[test]
fn the_config_map_names_members_before_they_start() -> Outcome {
    play("state").run(async |stage| {
        let start = |verb: &str| {
            let script = format!("echo \"$MEMBERS $STATE $1\" >>/data/seen; shift; exec register {verb} \"$@\"");
            json!({"exec": ["sh", "-c", script, "sh", "$(STATE:MEMBERS)", "$(PEERS)"]})
        };
        let mut changes = led();
        merge(
            &mut changes,
            json!({
                "replicas": 2,
                "resyncIntervalSeconds": 2,
                "commands": {"seed": start("seed"), "secondary": start("secondary")},
                "clusterState": {"name": "who", "data": [
                    {"name": "MEMBERS", "each": "$(NAME)=$(ORDINAL)"}, {"name": "STATE", "value": "$(STATE)"}
                ]}
            }),
        );
        let group = stage.register(changes).await?;
        let is_said = |seen: &Value| {
            ["Degraded", "Progressing"].iter().any(|kind| {
                let said = condition(seen, kind);
                said.contains("Forbidden") && said.contains("ConfigMap who")
            })
        };
        group.until("the missing right is said", 60, is_said).await?;
        ensure!(state(stage)?.is_none() && seen(stage, 0).is_err(), "something was started");

        stage.operator.grant("deploy/rbac/state").await?;
        group.ready(90).await?;
        let two = "register-0=0,register-1=1";
        until("the ConfigMap to name two", 30, async || Ok(state(stage)? == Some(data(two, "existing")))).await?;
        ensure!(seen(stage, 0)? == "register-0=0 new register-0=0\n", "{}", seen(stage, 0)?);
        ensure!(seen(stage, 1)? == format!("{two} existing {two}\n"), "{}", seen(stage, 1)?);

        group.change(json!({"replicas": 3})).await?;
        group.ready(90).await?;
        let three = format!("{two},register-2=2");
        until("the ConfigMap to name three", 30, async || Ok(state(stage)? == Some(data(&three, "existing")))).await?;
        ensure!(seen(stage, 2)? == format!("{three} existing {three}\n"), "{}", seen(stage, 2)?);
        group.change(json!({"replicas": 2})).await?;
        until("the ConfigMap to name two again", 90, async || Ok(state(stage)? == Some(data(two, "existing")))).await?;

        // Somebody else's ConfigMap: whoever runs goes on, and it stays as it is.
        let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"MEMBERS": "mine"},
            "metadata": {"name": "theirs", "namespace": stage.namespace}});
        tanist_e2e::kubectl_given(&theirs.to_string(), &["apply", "-f", "-"])?;
        group.change(json!({"clusterState": {"name": "theirs"}})).await?;
        group.until("the foreign ConfigMap is said", 60, |seen| waits(seen).contains("ClusterStateBlocked")).await?;
        let kept = ["-n", &stage.namespace, "get", "configmap", "theirs", "-o", "jsonpath={.data.MEMBERS}"];
        ensure!(kubectl(&kept)? == "mine", "it was written");
        group.change(json!({"clusterState": {"name": "who"}})).await?;
        group.ready(60).await?;
        group.until("nothing is said any more", 60, |seen| !waits(seen).contains("ClusterStateBlocked")).await?;
        Ok(())
    })
}
