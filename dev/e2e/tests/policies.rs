//! Policies from `ConfigMap`s, swapped while groups run.
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use serde_json::{Value, json};
use tanist_e2e::{Group, Outcome, Source, Stage, component, condition, kubectl, play, starts, text};

/// The `ConfigMap` `mine` with that component, labelled or not.
async fn store(stage: &Stage, bytes: Vec<u8>, labelled: bool) -> Result<()> {
    let label = if labelled { "true" } else { "false" };
    stage.store_labelled("mine", label, [("policy.wasm", Source::Component(bytes))]).await
}

fn maps(stage: &Stage) -> Api<ConfigMap> {
    Api::namespaced(stage.client.clone(), &stage.namespace)
}

fn mine(parameters: Value) -> Value {
    json!({"policies": [{"configMap": {"name": "mine", "key": "policy.wasm"}, "parameters": parameters}]})
}

async fn seeds(group: &Group) -> Result<Vec<String>> {
    Ok(starts(&group.executions().await?).into_iter().filter(|s| s.starts_with("seed")).collect())
}

// S33, P1, P13: a policy in a ConfigMap decides the next outage, and an edit of it the one after, without a restart of anything.
#[test]
fn a_policy_swapped_in_live_decides_the_next_outage() -> Outcome {
    play("policies").run(async |stage| {
        store(stage, component("prefer")?, true).await?;
        let group = stage.register(json!({})).await?;
        group.ready(120).await?;
        group.change(mine(json!({"member": "register-1"}))).await?;
        let loaded = |name: &'static str| {
            move |seen: &Value| {
                text(seen, "/status/policies/0/name") == name && condition(seen, "PolicyActive").starts_with("True")
            }
        };
        group.until("the policy", 90, loaded("prefer")).await?;
        let old = group.delete_pods(None).await?;
        group.recovered(&old, 60).await?;
        ensure!(seeds(&group).await? == ["seed 0", "seed 1"], "{:?}", seeds(&group).await?);
        let events = kubectl(&[
            "get",
            "events",
            "-n",
            &stage.namespace,
            "-o",
            "--field-selector=involvedObject.kind=ReplicaGroup",
            "-o",
            "jsonpath={.items[*].message}",
        ])?;
        ensure!(
            events.contains("seed on register-1") && events.contains("preferred, and none is more recent"),
            "{events}"
        );

        // The opposite of the built-in one: who seeds and who joins first.
        group.change(mine(Value::Null)).await?;
        store(stage, component("reversed")?, true).await?;
        group.until("the policy", 90, loaded("reversed")).await?;
        let before = group.executions().await?.len();
        let old = group.delete_pods(None).await?;
        group.recovered(&old, 60).await?;
        let all = group.executions().await?;
        let started = starts(all.get(before..).unwrap_or_default());
        ensure!(started == ["seed 2", "primary 1", "primary 0"], "{started:?}");
        ensure!(stage.operator.restarts().await? == 0, "the operator was restarted");
        Ok(())
    })
}

/// What a group says of its policies, and since when.
fn of_policies(seen: &Value) -> String {
    let conditions = seen.pointer("/status/conditions").and_then(Value::as_array);
    let active = conditions.into_iter().flatten().find(|c| text(c, "/type") == "PolicyActive");
    json!([seen.pointer("/status/policies"), active]).to_string()
}

// S33, P10: whatever is wrong with it is one clear sentence; the group runs on, and the last good one decides.
#[test]
fn a_bad_policy_changes_nothing_but_what_the_group_says() -> Outcome {
    play("bad-policies").run(async |stage| {
        store(stage, component("prefer")?, true).await?;
        let group = stage.register(mine(json!({"member": "register-1"}))).await?;
        let bystander = stage.group("bystander");
        bystander.create(json!({"replicas": 1})).await?;
        group.ready(120).await?;
        bystander.ready(60).await?;
        let untouched = of_policies(&bystander.get().await?);
        ensure!(untouched.contains("\"Active\"") && untouched.contains("\"True\""), "{untouched}");
        let imports = wat::parse_str(r#"(component (import "wasi:clocks/now" (func)))"#)?;
        let other_world = wat::parse_str("(component)")?;
        let bad: [(&str, Option<Vec<u8>>, &str); 6] = [
            ("not wasm", Some(b"#!/bin/sh\n".to_vec()), "it is not a WebAssembly component"),
            ("core module", Some(wat::parse_str("(module)")?), "it is a core module, not a component"),
            ("imports", Some(imports), "it imports wasi:clocks/now"),
            ("other world", Some(other_world), "it does not export tanist:policy/about"),
            ("unlabelled", None, "there is no ConfigMap mine with the label tanist.dev/policy"),
            ("missing", None, "there is no ConfigMap mine with the label tanist.dev/policy"),
        ];
        for (kind, bytes, sentence) in bad {
            match (kind, bytes) {
                ("missing", _) => drop(maps(stage).delete("mine", &Default::default()).await?),
                ("unlabelled", _) => store(stage, component("prefer")?, false).await?,
                (_, Some(bytes)) => store(stage, bytes, true).await?,
                (_, None) => {}
            }
            let says = |seen: &Value| {
                let condition = condition(seen, "PolicyActive");
                condition.starts_with("False LastGoodDecides") && condition.contains(sentence)
            };
            let seen = group.until(&format!("{kind}: {sentence}"), 30, says).await?;
            ensure!(condition(&seen, "Ready").starts_with("True"), "{kind}: {}", condition(&seen, "Ready"));
            // Good again, so that each next one is news.
            if kind != "missing" {
                store(stage, component("prefer")?, true).await?;
                group.until("the good policy", 90, |seen| condition(seen, "PolicyActive").starts_with("True")).await?;
            }
        }
        // An edit is the business of those that use it. Not its version: a late answer of its member is written, too.
        let now = of_policies(&bystander.get().await?);
        ensure!(now == untouched, "another group has another policy: {untouched} and now {now}");
        // Another process remembers it, too: there is a copy.
        stage.operator.kill(&stage.operator.pod().await?).await?;
        let old = group.delete_pods(None).await?;
        group
            .until("the end of an outage", 90, |seen| {
                condition(seen, "Ready").starts_with("True")
                    && !old
                        .iter()
                        .any(|uid| seen.pointer("/status/members").is_some_and(|m| m.to_string().contains(uid)))
            })
            .await?;
        ensure!(seeds(&group).await?.last().is_some_and(|s| s == "seed 1"), "{:?}", seeds(&group).await?);
        Ok(())
    })
}

// S33, P10: without any good version a group is only observed, and says what it waits for; when the policy comes, it forms.
#[test]
fn a_group_waits_for_a_policy_that_was_never_there() -> Outcome {
    play("no-policy").run(async |stage| {
        let group = stage.register(mine(json!({"member": "register-2"}))).await?;
        let waits = |seen: &Value| {
            let active = condition(seen, "PolicyActive");
            let told = active.contains("there is no ConfigMap mine with the label tanist.dev/policy");
            !active.starts_with("True") && told && condition(seen, "Degraded").starts_with("True PolicyBroken")
        };
        group.until("a missing policy", 60, waits).await?;
        ensure!(starts(&group.executions().await?).is_empty(), "started without its policy");
        store(stage, component("prefer")?, true).await?;
        group.ready(120).await?;
        ensure!(seeds(&group).await? == ["seed 2"], "{:?}", seeds(&group).await?);
        Ok(())
    })
}

// P13: rows of decision points: the first policy of the stack is asked for joins only, the built-in one decides who is seeded.
#[test]
fn a_policy_of_a_stack_is_asked_only_its_points() -> Outcome {
    play("stack").run(async |stage| {
        store(stage, component("reversed")?, true).await?;
        let source = json!({"name": "mine", "key": "policy.wasm"});
        let policies = json!([{"configMap": source, "points": ["join"]}, {"builtin": "sequence"}]);
        let group = stage.register(json!({"policies": policies})).await?;
        let seen = group.ready(120).await?;
        let started = starts(&group.executions().await?);
        ensure!(started == ["seed 0", "primary 2", "primary 1"], "{started:?}");
        let points = seen.pointer("/status/policies/0/points").map(Value::to_string).unwrap_or_default();
        ensure!(points.eq_ignore_ascii_case(r#"["join"]"#), "{points}");
        Ok(())
    })
}

// P15: a policy that says "not now" is asked again when its time has come; until then nobody starts and the group says who waits for what.
#[test]
fn a_policy_that_waits_is_asked_again() -> Outcome {
    play("waits").run(async |stage| {
        store(stage, component("hostile")?, true).await?;
        let told = |what: &str| mine(json!({"do": what}));
        let group = stage.register(told("wait")).await?;
        let waits = |seen: &Value| {
            let all = seen.pointer("/status/awaiting").map(Value::to_string).unwrap_or_default();
            all.contains("PolicyWaits") && all.contains("told to")
        };
        group.until("the wait", 60, waits).await?;
        let asked = async || {
            let pod = stage.operator.pod().await?;
            let asked = "tanist_decisions_total{point=\"seed\",policy=\"hostile\",result=\"nobody\"}";
            stage.operator.metric(&pod, asked).await
        };
        tanist_e2e::until("the first question", 30, async || Ok(asked().await? > 0.0)).await?;
        let before = asked().await?;
        tanist_e2e::until("it is asked again", 60, async || Ok(asked().await? >= before + 2.0)).await?;
        ensure!(starts(&group.executions().await?).is_empty(), "started although the policy waits");
        let mut policies = told("abstain");
        if let Some(list) = policies.get_mut("policies").and_then(Value::as_array_mut) {
            list.push(json!({"builtin": "sequence"}));
        }
        group.change(policies).await?;
        group.ready(120).await.map(drop)
    })
}

// S25, A45: a group grows beyond its first size: new members join, with what the others hold.
#[test]
fn a_group_grows_beyond_its_first_size() -> Outcome {
    play("grows").run(async |stage| {
        let group = stage.register(json!({"replicas": 2})).await?;
        group.ready(120).await?;
        group.member(0).write(3).await?;
        group.change(json!({"replicas": 4})).await?;
        let four = |seen: &Value| {
            let members = seen.pointer("/status/members").and_then(Value::as_array).map(Vec::len);
            members == Some(4) && condition(seen, "Ready").starts_with("True AllMembersInRole")
        };
        group.until("four members", 90, four).await?;
        for member in group.members(4) {
            ensure!(member.count().await? == 3, "register-{} has {} rows", member.ordinal, member.count().await?);
        }
        let seeds = seeds(&group).await?;
        ensure!(seeds == ["seed 0"], "{seeds:?}");
        Ok(())
    })
}
