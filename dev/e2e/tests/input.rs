//! Bad input.
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tanist_e2e::{Outcome, Stage, condition, kubectl, kubectl_given, play, until};

/// Creates a group that has to be refused, with that sentence.
async fn refused(stage: &Stage, name: &str, changes: Value, sentence: &str) -> Result<()> {
    match stage.group(name).create(changes).await {
        Ok(()) => anyhow::bail!("{name} was accepted; {sentence:?} was expected"),
        Err(error) => {
            let told = format!("{error:#}");
            ensure!(told.contains(sentence), "{name}: {told}");
            Ok(())
        }
    }
}

// A40, A41, A42, S42: refused by the API server, each with a sentence that says what to do. A template that only Kubernetes can refuse shows
// as a condition, and its revert heals.
#[test]
fn bad_input_is_refused_or_healed_by_its_revert() -> Outcome {
    play("input").run(async |stage| {
        for required in ["status", "sequence", "stop", "primary"] {
            refused(stage, "register", json!({"commands": {required: null}}), required).await?;
        }
        refused(stage, "register", json!({"primaries": 0}), "primaries has to be All, or a number from 1 up to replicas").await?;
        refused(stage, "register", json!({"primaries": 4}), "primaries has to be All, or a number from 1 up to replicas").await?;
        let long = "r".repeat(41);
        refused(stage, &long, json!({}), "at most 40 characters").await?;
        refused(stage, "register", json!({"commands": {"stop": {"exec": "register stop"}}}), "exec").await?;

        let bad = json!([{"name": "nothing", "mountPath": "/nothing"}, {"name": "data", "mountPath": "/data"}, {"name": "run", "mountPath": "/run/register"}]);
        let group = stage.register(json!({"container_": {"volumeMounts": bad}})).await?;
        let rejected = group.until("TemplateRejected", 30, |seen| condition(seen, "TemplateRejected").starts_with("True")).await?;
        let told = condition(&rejected, "TemplateRejected");
        ensure!(told.contains("nothing") && told.contains("change spec.template"), "{told}");
        // The same template without the mount that leads nowhere.
        let mut containers = rejected.pointer("/spec/template/spec/containers").cloned().unwrap_or_default();
        if let Some(mounts) = containers.pointer_mut("/0/volumeMounts").and_then(Value::as_array_mut) {
            mounts.remove(0);
        }
        group.change(json!({"template": {"spec": {"containers": containers}}})).await?;
        let healed = group.ready(60).await?;
        ensure!(condition(&healed, "TemplateRejected").is_empty(), "{}", condition(&healed, "TemplateRejected"));
        Ok(())
    })
}

// The API server takes objects that are nested 10,000 deep, and the operator's JSON reader 128. A group with 200 is left alone and says so; the others of its namespace are managed, also by an operator that begins when it is there.
#[test]
fn one_group_that_is_nested_too_deep_holds_up_no_other() -> Outcome {
    play("nested").run(async |stage| {
        let group = stage.register(json!({"resyncIntervalSeconds": 2})).await?;
        group.ready(60).await?;
        let mut deep = group.get().await?;
        deep["metadata"] = json!({"name": "deep", "namespace": stage.namespace});
        deep["spec"]["policies"] = json!([{"builtin": "sequence", "parameters": "DEEP"}]);
        if let Some(object) = deep.as_object_mut() {
            object.remove("status");
        }
        let nested = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
        kubectl_given(&deep.to_string().replace("\"DEEP\"", &nested), &["create", "-f", "-"])?;
        let says = || {
            kubectl(&[
                "get",
                "events",
                "-n",
                &stage.namespace,
                "--field-selector=reason=Unreadable",
                "-o",
                "jsonpath={.items[*].note}{.items[*].message}",
            ])
        };
        until("the event of the group", 60, async || Ok(says()?.contains("nested more than 64 deep"))).await?;

        let old = stage.operator.pod().await?;
        stage.operator.kill(&old).await?;
        stage.operator.rounds_after(&old, 1.0, 90).await?;
        let gone = group.delete_pods(None).await?;
        group.recovered(&gone, 120).await?;
        ensure!(
            kubectl(&["get", "pods", "-n", &stage.namespace, "-o", "name"])?.lines().all(|pod| !pod.contains("deep"))
        );
        kubectl(&["delete", "rg", "deep", "-n", &stage.namespace])?;
        Ok(())
    })
}
